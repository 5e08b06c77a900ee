//! Who is in the twin's next prefill batch (SG-12 to SG-25), and who makes way for a higher priority (SG-43).

use std::cmp::Reverse;

use plimsoll::cost::Chunk;
use plimsoll::engine::sglang::BatchMode;

use super::{Entry, Req, State, Twin};

/// The budgets of a pass, and who is in its batch with how many tokens.
struct Pass {
    offset: f64,
    taken: i64,
    input: i64,
    chunk: i64,
    list: Vec<(usize, u32)>,
    cut: Option<usize>,
    /// (tokens left, tokens occupied), of the exact test.
    states: Option<Vec<(f64, f64)>>,
}

#[derive(PartialEq)]
enum Answer {
    Continue,
    NoToken,
    Other,
}

impl Twin<'_> {
    fn slots(&self, held: usize) -> usize {
        let most = self.config.max_running_requests as usize;
        let by_batch = most.saturating_sub(self.running.len());
        if self.versions.counts_table_rows {
            by_batch.min(most - self.rows as usize + held)
        } else {
            by_batch
        }
    }

    fn reserve(&self) -> u32 {
        if self.versions.reserves_a_page {
            self.config.page_size
        } else {
            0
        }
    }

    fn total(&self, pass: &Pass) -> f64 {
        (self.available() + self.tree.sizes().0) as f64 - pass.offset
    }

    /// Tokens that a running request is expected to generate yet.
    fn expected(&self, req: &Req) -> f64 {
        let is_certain = self.versions.ignore_eos_is_certain && req.ignore_eos;
        let ratio = if is_certain { 1.0 } else { self.ratio };
        f64::from((req.max_new - req.out).min(4096)) * ratio
    }

    fn charge(&self, pass: &mut Pass, new: u32, output: u32) {
        let new = new.next_multiple_of(self.config.page_size);
        pass.offset += f64::from(new + output + self.reserve());
        pass.taken += i64::from(new + self.reserve());
        pass.input -= i64::from(new);
        pass.chunk -= i64::from(new);
    }

    fn budget(&self, pass: &Pass) -> Answer {
        if self.total(pass) <= 0.0 {
            Answer::NoToken
        } else if pass.input <= 0 || pass.chunk <= 0 {
            Answer::Other
        } else {
            Answer::Continue
        }
    }

    pub(super) fn prefill(&mut self) -> Option<Vec<Entry>> {
        let by_priority = self.config.priority.is_some();
        self.full &= !by_priority;
        if (self.full || self.waiting.is_empty()) && self.chunked.is_none() {
            return None;
        }
        if self.slots(0) == 0 && self.chunked.is_none() && !by_priority {
            self.full = true;
            return None;
        }
        if !self.waiting.is_empty() {
            self.sort();
        }
        let pass = self.fill();
        if pass.list.is_empty() {
            return None;
        }
        self.waiting
            .retain(|at| !pass.list.iter().any(|share| share.0 == *at));
        self.chunked = pass.cut.or(self.chunked);
        Some(self.launch(&pass.list))
    }

    fn fill(&mut self) -> Pass {
        let mixed = if self.config.enable_mixed_chunk {
            self.running.len() as i64
        } else {
            0
        };
        let running = self.running.iter().map(|&at| &self.reqs[at]);
        let expected: f64 = running.map(|req| self.expected(req)).sum();
        let chunk = self.config.chunked_prefill_size.map(i64::from);
        let mut pass = Pass {
            offset: mixed as f64 + expected,
            taken: mixed,
            input: i64::from(self.config.max_prefill_tokens) - mixed,
            chunk: chunk.map_or(i64::MAX / 2, |chunk| chunk - mixed),
            list: Vec::new(),
            cut: None,
            states: None,
        };
        let held = usize::from(self.chunked.is_some());
        if let Some(at) = self.chunked {
            self.reqs[at].seen = self.reqs[at].known();
            let rest = self.reqs[at].known() - self.reqs[at].kv;
            let mut most = pass.chunk.min(self.total(&pass) as i64);
            if most <= 0 {
                most = pass.chunk;
            }
            let new = rest.min(u32::try_from(most).unwrap_or(0));
            let output = if new < rest {
                0
            } else {
                self.reqs[at].max_new.min(4096)
            };
            self.charge(&mut pass, new, output);
            pass.list.push((at, new));
            if new == rest {
                self.chunked = None;
            }
        }
        for at in self.waiting.clone() {
            if self.versions.asks_budget_first && self.budget(&pass) == Answer::Other {
                break;
            }
            if pass.list.len() >= self.slots(held) {
                self.full = true;
            }
            if self.full && !self.make_way(at, &mut pass) {
                break;
            }
            let answer = self.add(at, &mut pass);
            if answer == Answer::NoToken {
                let has_company = !pass.list.is_empty() || !self.running.is_empty();
                self.full = has_company || !self.versions.full_needs_company;
            }
            if answer != Answer::Continue {
                break;
            }
        }
        pass
    }

    fn add(&mut self, at: usize, pass: &mut Pass) -> Answer {
        let exact = !self.config.radix_cache && self.reqs[at].ignore_eos;
        let known = self.reqs[at].known();
        let (node, shared) = self.find(at, known - 1);
        (self.reqs[at].seen, self.reqs[at].hit) = (known, shared);
        let most = self.config.prefill_max_requests;
        if most.is_some_and(|most| pass.list.len() >= most as usize) {
            return Answer::Other;
        }
        let extend = known - shared;
        let whole = extend.next_multiple_of(self.config.page_size);
        if exact {
            if self.is_refused_exactly(at, whole, pass) {
                return Answer::NoToken;
            }
        } else {
            let req = &self.reqs[at];
            let needs = f64::from(extend + (req.max_new - req.out).min(4096) + self.reserve());
            let has_cap =
                !self.versions.input_cap_only_unchunked || self.config.chunked_prefill_size.is_none();
            let is_capped = has_cap && i64::from(whole) >= pass.input;
            // The cap on the input is asked before the prefix is locked for the second test.
            if needs < self.total(pass) && is_capped && !pass.list.is_empty() {
                return Answer::Other;
            }
            self.tree.lock(node, 1);
            if needs >= self.total(pass) {
                self.tree.lock(node, -1);
                return Answer::NoToken;
            }
        }
        let page = i64::from(self.config.page_size);
        let (asked, size) = if exact {
            (i64::from(extend), pass.chunk)
        } else {
            (i64::from(whole), pass.chunk / page * page)
        };
        let is_whole = asked <= pass.chunk;
        if !is_whole && size <= 0 {
            self.tree.lock(node, -1);
            return Answer::Other;
        }
        let new = if is_whole { extend } else { size as u32 };
        let output = if is_whole {
            self.reqs[at].max_new.min(4096)
        } else {
            0
        };
        (self.reqs[at].node, self.reqs[at].shared, self.reqs[at].kv) = (node, shared, shared);
        self.charge(pass, new, output);
        pass.list.push((at, new));
        if !is_whole {
            pass.cut = Some(at);
        }
        self.budget(pass)
    }

    /// SG-24.
    fn is_refused_exactly(&self, at: usize, whole: u32, pass: &mut Pass) -> bool {
        let now = self.available() as i64 - pass.taken;
        let need = i64::from(whole + self.reserve());
        if need as f64 > self.total(pass).min(now as f64) {
            return true;
        }
        let state = |at: usize| {
            let req = &self.reqs[at];
            let ratio = if req.ignore_eos { 1.0 } else { self.ratio };
            let left = f64::from(req.max_new) * ratio - f64::from(req.out);
            (left > 0.0).then_some((left, f64::from(req.known())))
        };
        if let Some(states) = &mut pass.states {
            if let Some(own) = state(at) {
                // The engine's loop ends at the last place without trying what is behind it.
                let before = states.iter().position(|state| own.0 <= state.0);
                let place = before.unwrap_or(states.len().saturating_sub(1));
                states.insert(place, own);
            }
        } else {
            let admitted = pass.list.iter().map(|share| share.0);
            let all = [at]
                .into_iter()
                .chain(self.running.iter().copied())
                .chain(admitted);
            let mut all: Vec<(f64, f64)> = all.filter_map(state).collect();
            all.sort_by(|a, b| a.0.total_cmp(&b.0));
            pass.states = Some(all);
        }
        let all = pass.states.as_ref().unwrap();
        let freed = |upto: usize| all[..upto].iter().map(|state| state.1).sum::<f64>();
        (0..all.len()).any(|i| {
            let others = (all.len() - i) as f64;
            (now - need) as f64 + freed(i) - all[i].0 * others <= others
        })
    }

    /// SG-43: whether running requests of a much lower priority made way for one that finds no place: at least one, and so
    /// many that what they are expected to need covers what it lacks for its prompt, as long as it was when it was last
    /// tried, and all of its output.
    fn make_way(&mut self, at: usize, pass: &mut Pass) -> bool {
        let Some(rule) = self.config.priority else {
            return false;
        };
        let sign = if rule.low_values_first { -1 } else { 1 };
        let rank = |at: &usize| sign * self.reqs[*at].priority;
        let is_lower = |other: &usize| {
            self.reqs[*other].state == State::Running && rank(&at) - rank(other) > rule.preemption_threshold
        };
        let mut lower: Vec<usize> = self.running.iter().copied().filter(is_lower).collect();
        lower.sort_by_key(|other| (rank(other), Reverse(self.reqs[*other].joined)));
        let extend = self.reqs[at].seen - self.reqs[at].hit;
        let mut lacks = f64::from(extend + self.reqs[at].max_new.min(4096)) - self.total(pass);
        let mut victims = Vec::new();
        for other in lower {
            if self.versions.preempts_sparingly && !victims.is_empty() && lacks <= 0.0 {
                break;
            }
            lacks -= self.expected(&self.reqs[other]);
            victims.push(other);
        }
        if victims.is_empty() || lacks > 0.0 {
            return false;
        }
        let mut left = self.running.len() as u64;
        for other in self.running.clone() {
            if !victims.contains(&other) {
                continue;
            }
            self.count("pushed out");
            // 0.5.4 takes the candidate for the victim here.
            let whose = if self.versions.preempts_sparingly {
                other
            } else {
                at
            };
            pass.offset -= self.expected(&self.reqs[whose]);
            self.send_back(other);
            left -= 1;
            self.room(20 * left);
        }
        self.running.retain(|other| !victims.contains(other));
        true
    }

    fn launch(&mut self, list: &[(usize, u32)]) -> Vec<Entry> {
        let page = self.page();
        let spare = if page > 1 { page * list.len() as u64 } else { 0 };
        self.room(list.iter().map(|share| u64::from(share.1)).sum::<u64>() + spare);
        let mut entries = Vec::new();
        for &(at, new) in list {
            self.grow(at, new);
            let samples = self.chunked != Some(at);
            let req = &mut self.reqs[at];
            if req.state == State::Queued {
                req.state = State::Running;
                req.waited += self.now - req.since;
                req.admitted.get_or_insert((self.now, req.shared));
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
            self.mix(&mut entries);
        }
        self.last = Some(entries.iter().map(|entry| entry.0).collect());
        entries
    }

    /// SG-12; 0.5.4 does not look whether there is memory, and dies where there is none.
    fn mix(&mut self, entries: &mut Vec<Entry>) {
        // 0.5.4 has those who are gone here still, and the flag stays as it is: no pass looks at it before it is lost (SG-14).
        self.running.retain(|&at| self.reqs[at].state == State::Running);
        self.drop_known();
        if self.running.is_empty() {
            return;
        }
        if !self.versions.mixes_only_with_memory || self.decode_fits() {
            self.decode(entries);
            for at in std::mem::take(&mut self.running) {
                self.reqs[at].seen = self.reqs[at].known();
            }
            self.record.mode = BatchMode::Mixed;
        }
    }
}
