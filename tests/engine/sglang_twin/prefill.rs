//! Who is in the twin's next prefill batch.

use plimsoll::cost::Chunk;
use plimsoll::engine::sglang::BatchMode;

use super::{Entry, Req, State, Twin};

impl Twin<'_> {
    fn slots(&self, held: usize) -> usize {
        let most = self.config.max_running_requests as usize;
        most.saturating_sub(self.running.len())
            .min(most - self.rows as usize + held)
    }

    #[expect(clippy::too_many_lines, reason = "one function, as the engine has it")]
    pub(super) fn prefill(&mut self) -> Option<Vec<Entry>> {
        if (self.full || self.waiting.is_empty()) && self.chunked.is_none() {
            return None;
        }
        if self.slots(0) == 0 && self.chunked.is_none() {
            self.full = true;
            return None;
        }
        if !self.waiting.is_empty() {
            self.sort();
        }
        let page = self.config.page_size;
        let mixed = if self.config.enable_mixed_chunk {
            self.running.len() as i64
        } else {
            0
        };
        let expected = |req: &Req| {
            let ratio = if req.ignore_eos { 1.0 } else { self.ratio };
            f64::from((req.max_new - req.out).min(4096)) * ratio
        };
        let expected: f64 = self.running.iter().map(|&at| expected(&self.reqs[at])).sum();
        let mut offset = mixed as f64 + expected;
        let mut taken = mixed;
        let mut input = i64::from(self.config.max_prefill_tokens) - mixed;
        let mut chunk = self
            .config
            .chunked_prefill_size
            .map_or(i64::MAX / 2, |chunk| i64::from(chunk) - mixed);
        let mut list: Vec<(usize, u32)> = Vec::new();
        let charge =
            |new: u32, output: u32, input: &mut i64, chunk: &mut i64, offset: &mut f64, taken: &mut i64| {
                let new = new.next_multiple_of(page);
                *offset += f64::from(new + output + page);
                *taken += i64::from(new + page);
                *input -= i64::from(new);
                *chunk -= i64::from(new);
            };
        let held = usize::from(self.chunked.is_some());
        if let Some(at) = self.chunked {
            let rest = self.reqs[at].known() - self.reqs[at].kv;
            let total = (self.available() + self.tree.sizes().0) as f64 - offset;
            let mut most = chunk.min(total as i64);
            if most <= 0 {
                most = chunk;
            }
            let new = rest.min(u32::try_from(most).unwrap_or(0));
            let output = if new < rest {
                0
            } else {
                self.reqs[at].max_new.min(4096)
            };
            charge(new, output, &mut input, &mut chunk, &mut offset, &mut taken);
            list.push((at, new));
            if new == rest {
                self.chunked = None;
            }
        }
        let mut states: Option<Vec<(f64, f64)>> = None;
        let mut cut = None;
        for at in self.waiting.clone() {
            let total =
                |twin: &Twin<'_>, offset: f64| (twin.available() + twin.tree.sizes().0) as f64 - offset;
            if total(self, offset) > 0.0 && (input <= 0 || chunk <= 0) {
                break;
            }
            if list.len() >= self.slots(held) {
                self.full = true;
            }
            if self.full {
                break;
            }
            let exact = !self.config.radix_cache && self.reqs[at].ignore_eos;
            let known = self.reqs[at].known();
            let (node, shared) = if exact { (0, 0) } else { self.find(at, known - 1) };
            if self
                .config
                .prefill_max_requests
                .is_some_and(|most| list.len() >= most as usize)
            {
                break;
            }
            let extend = known - shared;
            let whole = extend.next_multiple_of(page);
            let refused = if exact {
                let now = self.available() as i64 - taken;
                let need = i64::from(whole + page);
                if need as f64 > total(self, offset).min(now as f64) {
                    true
                } else {
                    let state = |at: usize| {
                        let req = &self.reqs[at];
                        let ratio = if req.ignore_eos { 1.0 } else { self.ratio };
                        let left = f64::from(req.max_new) * ratio - f64::from(req.out);
                        (left > 0.0).then_some((left, f64::from(req.known())))
                    };
                    if let Some(states) = &mut states {
                        if let Some(own) = state(at) {
                            // The engine's loop ends at the last place without trying what is behind it.
                            let before = states.iter().position(|state| own.0 <= state.0);
                            let place = before.unwrap_or(states.len().saturating_sub(1));
                            states.insert(place, own);
                        }
                    } else {
                        let all = [at]
                            .into_iter()
                            .chain(self.running.iter().copied())
                            .chain(list.iter().map(|share| share.0));
                        let mut all: Vec<(f64, f64)> = all.filter_map(state).collect();
                        all.sort_by(|a, b| a.0.total_cmp(&b.0));
                        states = Some(all);
                    }
                    let all = states.as_ref().unwrap();
                    let freed = |upto: usize| all[..upto].iter().map(|state| state.1).sum::<f64>();
                    (0..all.len()).any(|i| {
                        let others = (all.len() - i) as f64;
                        (now - need) as f64 + freed(i) - all[i].0 * others <= others
                    })
                }
            } else {
                let req = &self.reqs[at];
                let needs = f64::from(extend + (req.max_new - req.out).min(4096) + page);
                let fits_unlocked = needs < total(self, offset);
                // The cap on the input is asked before the prefix is locked for the second test.
                let is_capped = self.config.chunked_prefill_size.is_none() && i64::from(whole) >= input;
                if fits_unlocked && is_capped && !list.is_empty() {
                    break;
                }
                self.tree.lock(node, 1);
                needs >= total(self, offset)
            };
            if refused {
                if !exact {
                    self.tree.lock(node, -1);
                }
                self.full = !list.is_empty() || !self.running.is_empty();
                break;
            }
            let is_whole = if exact {
                i64::from(extend) <= chunk
            } else {
                i64::from(whole) <= chunk
            };
            let size = if exact {
                chunk
            } else {
                chunk / i64::from(page) * i64::from(page)
            };
            if !is_whole && size <= 0 {
                if !exact {
                    self.tree.lock(node, -1);
                }
                break;
            }
            let new = if is_whole { extend } else { size as u32 };
            (self.reqs[at].node, self.reqs[at].shared, self.reqs[at].kv) = (node, shared, shared);
            let output = if is_whole {
                self.reqs[at].max_new.min(4096)
            } else {
                0
            };
            charge(new, output, &mut input, &mut chunk, &mut offset, &mut taken);
            list.push((at, new));
            if !is_whole {
                cut = Some(at);
            }
            let left = total(self, offset);
            if left <= 0.0 {
                self.full = true;
                break;
            }
            if input <= 0 || chunk <= 0 {
                break;
            }
        }
        if list.is_empty() {
            return None;
        }
        self.waiting.retain(|at| !list.iter().any(|share| share.0 == *at));
        self.chunked = cut.or(self.chunked);
        let spare = if page > 1 {
            u64::from(page) * list.len() as u64
        } else {
            0
        };
        self.room(list.iter().map(|share| u64::from(share.1)).sum::<u64>() + spare);
        let mut entries = Vec::new();
        for &(at, new) in &list {
            self.grow(at, new);
            let samples = self.chunked != Some(at);
            let req = &mut self.reqs[at];
            if req.state == State::Queued {
                req.state = State::Running;
                self.rows += 1;
            }
            req.fill = req.kv;
            req.flying += u32::from(samples);
            let computed = req.kv - new;
            self.load.chunks.push(Chunk { computed, new });
            entries.push((at, req.epoch, samples, false));
        }
        self.record.mode = BatchMode::Extend;
        if self.config.enable_mixed_chunk && !self.running.is_empty() {
            self.drop_known();
            if !self.running.is_empty() && self.decode_fits() {
                self.decode(&mut entries);
                self.running.clear();
                self.record.mode = BatchMode::Mixed;
            }
        }
        self.last = Some(entries.iter().map(|entry| entry.0).collect());
        Some(entries)
    }
}
