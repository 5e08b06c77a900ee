//! A naive twin of SGLang 0.5.23's scheduler, and random scenarios in which the engine must equal it.
//!
//! It follows the shape of the engine's loop, one flat state, every token spelt out, every sequence visited in every
//! step. It shares the cost model with the engine under test and nothing else. Left out: priorities, random order, clients that
//! give up, version 0.5.4.

use std::collections::VecDeque;

use plimsoll::cost::linear::LinearCost;
use plimsoll::cost::{Chunk, StepCost, StepLoad};
use plimsoll::engine::sglang::{BatchMode, QueuePolicy, SglangConfig, SglangRecord, SglangSwitches};
use plimsoll::ids::RequestId;
use plimsoll::units::Picos;
use plimsoll::workload::{Prompt, Request};
use proptest::prelude::*;

use crate::sglang_leaps::{configs, requests, run, wishes};

type Token = (u64, u32);

/// A node of the radix tree; node 0 is the root.
#[derive(Default)]
struct Node {
    parent: usize,
    tokens: Vec<Token>,
    children: Vec<usize>,
    locks: u32,
    time: u64,
}

struct Tree {
    page: usize,
    nodes: Vec<Node>,
    time: u64,
}

impl Tree {
    fn new(page: u32) -> Tree {
        let nodes = vec![Node::default()];
        Tree {
            page: page as usize,
            nodes,
            time: 0,
        }
    }

    fn walk(&mut self, key: &[Token]) -> (usize, usize) {
        let key = &key[..key.len() / self.page * self.page];
        let (mut node, mut done, mut path) = (0, 0, Vec::new());
        loop {
            let common = |child: &usize| {
                let pairs = self.nodes[*child].tokens.iter().zip(&key[done..]);
                pairs.take_while(|(a, b)| a == b).count() / self.page * self.page
            };
            let mut next = self.nodes[node]
                .children
                .iter()
                .map(|child| (*child, common(child)));
            let Some((child, common)) = next.find(|next| next.1 > 0) else {
                break;
            };
            done += common;
            node = child;
            if common < self.nodes[child].tokens.len() {
                self.time += 1;
                self.nodes[child].time = self.time;
                node = self.split(child, common);
                path.push(node);
                break;
            }
            path.push(node);
        }
        for node in path {
            self.time += 1;
            self.nodes[node].time = self.time;
        }
        (node, done)
    }

    fn split(&mut self, child: usize, at: usize) -> usize {
        let rest = self.nodes[child].tokens.split_off(at);
        let head = std::mem::replace(&mut self.nodes[child].tokens, rest);
        let (parent, locks) = (self.nodes[child].parent, self.nodes[child].locks);
        let upper = self.nodes.len();
        self.nodes.push(Node {
            parent,
            tokens: head,
            children: vec![child],
            locks,
            time: 0,
        });
        let place = self.nodes[parent]
            .children
            .iter()
            .position(|&other| other == child);
        self.nodes[parent].children[place.unwrap()] = upper;
        self.nodes[child].parent = upper;
        upper
    }

    fn insert(&mut self, key: &[Token]) -> usize {
        let key = &key[..key.len() / self.page * self.page];
        let (node, done) = self.walk(key);
        if done < key.len() {
            self.time += 1;
            let leaf = self.nodes.len();
            self.nodes.push(Node {
                parent: node,
                tokens: key[done..].to_vec(),
                time: self.time,
                ..Node::default()
            });
            self.nodes[node].children.push(leaf);
        }
        done
    }

    fn lock(&mut self, mut node: usize, by: i32) {
        while node != 0 {
            self.nodes[node].locks = self.nodes[node].locks.checked_add_signed(by).unwrap();
            node = self.nodes[node].parent;
        }
    }

    /// (evictable, protected) tokens.
    fn sizes(&self) -> (u64, u64) {
        let (mut evictable, mut protected) = (0, 0);
        for node in &self.nodes {
            let tokens = node.tokens.len() as u64;
            if node.locks > 0 {
                protected += tokens;
            } else {
                evictable += tokens;
            }
        }
        (evictable, protected)
    }

    fn evict(&mut self, tokens: u64) -> u64 {
        let mut freed = 0;
        while freed < tokens {
            let is_leaf = |at: &usize| {
                let node = &self.nodes[*at];
                !node.tokens.is_empty() && node.children.is_empty() && node.locks == 0
            };
            let oldest = (1..self.nodes.len())
                .filter(is_leaf)
                .min_by_key(|&at| self.nodes[at].time);
            let Some(leaf) = oldest else { break };
            freed += std::mem::take(&mut self.nodes[leaf].tokens).len() as u64;
            let parent = self.nodes[leaf].parent;
            self.nodes[parent].children.retain(|&child| child != leaf);
        }
        freed
    }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Queued,
    Running,
    Gone,
}

struct Req {
    id: RequestId,
    arrival: Picos,
    tokens: Vec<Token>,
    prompt: u32,
    max_new: u32,
    target: u32,
    ignore_eos: bool,
    out: u32,
    kv: u32,
    shared: u32,
    fill: u32,
    node: usize,
    flying: u32,
    epoch: u32,
    state: State,
}

impl Req {
    fn new(config: &SglangConfig, request: &Request) -> Option<Req> {
        let Prompt::Pieces(pieces) = &request.prompt else {
            panic!("pieces are what these tests send")
        };
        let spell =
            |segment: u64, start: u32, tokens: u32| (start..start + tokens).map(move |at| (segment, at));
        let mut tokens: Vec<Token> = pieces
            .iter()
            .flat_map(|piece| spell(piece.segment.0, piece.start, piece.tokens))
            .collect();
        let (prompt, page, pool) = (request.prompt_tokens, config.page_size, config.max_total_tokens);
        tokens.extend(spell(request.output_segment.0, prompt, request.output_tokens + 1));
        let longest = (config.context_length - 1).min(pool - 1);
        let fits = longest.checked_sub(prompt + 1)?;
        let max_new = request
            .max_tokens
            .min(fits)
            .min(pool.checked_sub(prompt.next_multiple_of(page) + page + 1)?);
        let hangs = !config.radix_cache
            && request.ignore_eos
            && prompt.next_multiple_of(page) + page + max_new + 1 >= pool;
        (max_new > 0 && !hangs).then(|| Req {
            id: request.id,
            arrival: request.arrival,
            tokens,
            prompt,
            max_new,
            target: request.output_tokens.min(max_new),
            ignore_eos: request.ignore_eos,
            out: 0,
            kv: 0,
            shared: 0,
            fill: 0,
            node: 0,
            flying: 0,
            epoch: 0,
            state: State::Queued,
        })
    }

    fn known(&self) -> u32 {
        self.prompt + self.out
    }
}

/// (request, epoch, samples, decodes).
type Entry = (usize, u32, bool, bool);

struct Batch {
    entries: Vec<Entry>,
    end: Picos,
}

struct Twin<'a> {
    config: &'a SglangConfig,
    reqs: Vec<Req>,
    tree: Tree,
    free: u64,
    waiting: Vec<usize>,
    running: Vec<usize>,
    last: Option<Vec<usize>>,
    chunked: Option<usize>,
    full: bool,
    ratio: f64,
    rows: u32,
    touches: u32,
    record: SglangRecord,
    load: StepLoad,
    died: bool,
}

fn blank() -> SglangRecord {
    SglangRecord {
        mode: BatchMode::None,
        scheduled: Picos::ZERO,
        begin: Picos::ZERO,
        duration: Picos::ZERO,
        shares: Vec::new(),
        retracted: Vec::new(),
        free_pages: 0,
        evictable: 0,
        protected: 0,
        running: 0,
        waiting: 0,
        full: false,
        ratio: 0.0,
        chunked: None,
        order: Vec::new(),
    }
}

impl Twin<'_> {
    fn page(&self) -> u64 {
        u64::from(self.config.page_size)
    }

    fn available(&self) -> u64 {
        self.free * self.page()
    }

    fn room(&mut self, tokens: u64) -> bool {
        if self.available() < tokens {
            let freed = self.tree.evict(tokens - self.available());
            self.free += freed / self.page();
        }
        self.available() >= tokens
    }

    fn pages(&self, tokens: u32) -> u64 {
        u64::from(tokens.div_ceil(self.config.page_size))
    }

    fn grow(&mut self, at: usize, tokens: u32) {
        let kv = self.reqs[at].kv;
        let pages = self.pages(kv + tokens) - self.pages(kv);
        match self.free.checked_sub(pages) {
            Some(free) => self.free = free,
            None => self.died = true,
        }
        self.record.shares.push((self.reqs[at].id, kv, tokens));
        self.reqs[at].kv += tokens;
    }

    fn insert(&mut self, at: usize, tokens: u32) {
        let req = &self.reqs[at];
        let before = self.tree.insert(&req.tokens[..tokens as usize]) as u64;
        if u64::from(tokens) / self.page() > u64::from(req.prompt) / self.page() {
            self.tree.insert(&req.tokens[..req.prompt as usize]);
        }
        self.free += before.saturating_sub(u64::from(req.shared)) / self.page();
    }

    fn cache_unfinished(&mut self, at: usize) {
        if !self.config.radix_cache {
            return;
        }
        let fill = self.reqs[at].fill;
        self.insert(at, fill);
        let (node, tokens) = self.tree.walk(&self.reqs[at].tokens[..fill as usize]);
        self.tree.lock(node, 1);
        self.tree.lock(self.reqs[at].node, -1);
        (self.reqs[at].node, self.reqs[at].shared) = (node, tokens as u32);
    }

    fn finish(&mut self, at: usize) {
        let kv = self.reqs[at].kv;
        self.reqs[at].state = State::Gone;
        self.rows -= 1;
        if !self.config.radix_cache {
            self.free += self.pages(kv);
            return;
        }
        let cached = kv.min(self.reqs[at].known());
        self.insert(at, cached);
        self.free += self.pages(kv) - u64::from(cached) / self.page();
        self.tree.lock(self.reqs[at].node, -1);
    }

    fn find(&mut self, at: usize, tokens: u32) -> (usize, u32) {
        if !self.config.radix_cache {
            return (0, 0);
        }
        let (node, found) = self.tree.walk(&self.reqs[at].tokens[..tokens as usize]);
        (node, found as u32)
    }

    fn drop_gone(&mut self) {
        let before = self.running.len();
        self.running.retain(|&at| self.reqs[at].state == State::Running);
        if self.running.len() < before {
            self.full = false;
        }
    }

    /// Leaves out whose last token is in flight.
    fn drop_known(&mut self) -> bool {
        let before = self.running.len();
        if self.config.overlap_schedule {
            let reqs = &self.reqs;
            self.running
                .retain(|&at| reqs[at].out + reqs[at].flying < reqs[at].max_new);
        }
        if self.running.len() < before {
            self.full = false;
        }
        self.running.len() < before
    }

    fn next_batch(&mut self) -> Option<Vec<Entry>> {
        if let Some(at) = self.chunked {
            self.cache_unfinished(at);
        }
        if let Some(mut last) = self.last.take() {
            let before = last.len();
            last.retain(|&at| self.reqs[at].state == State::Running && self.chunked != Some(at));
            self.full &= last.len() == before;
            if !last.is_empty() {
                self.full &= !self.running.is_empty();
                self.running.extend(last);
            }
        }
        self.drop_gone();
        let prefill = self.prefill();
        if prefill.is_some() || self.died {
            return prefill;
        }
        if self.running.is_empty() {
            return None;
        }
        let shrank = self.drop_known();
        if self.running.is_empty() {
            return None;
        }
        if self.decode_fits() {
            self.ratio =
                (self.ratio - self.config.new_token_ratio_decay).max(self.config.min_new_token_ratio);
        } else if shrank {
            return None;
        } else {
            self.retract();
        }
        let mut entries = Vec::new();
        self.decode(&mut entries);
        self.record.mode = BatchMode::Decode;
        Some(entries)
    }

    fn decode_fits(&mut self) -> bool {
        let page = self.config.page_size;
        let full = self
            .running
            .iter()
            .filter(|&&at| self.reqs[at].kv.is_multiple_of(page))
            .count();
        self.room(full as u64 * self.page())
    }

    fn decode(&mut self, entries: &mut Vec<Entry>) {
        self.room(self.page() * self.running.len() as u64);
        for at in self.running.clone() {
            self.grow(at, 1);
            let req = &mut self.reqs[at];
            req.flying += 1;
            self.load.decode_seqs += 1;
            self.load.decode_kv_tokens += u64::from(req.kv);
            self.load.sampled_rows += 1;
            entries.push((at, req.epoch, true, true));
        }
    }

    fn retract(&mut self) {
        let reqs = &self.reqs;
        let key = |at: usize| (-i64::from(reqs[at].out), reqs[at].prompt);
        self.running.sort_by_key(|&at| key(at));
        loop {
            if self.running.len() == 1 {
                // Beside a chunked request even one alone may not grow.
                self.died |= !self.decode_fits();
                break;
            }
            let at = self.running.pop().unwrap();
            self.free += self.pages(self.reqs[at].kv) - u64::from(self.reqs[at].shared) / self.page();
            self.tree.lock(self.reqs[at].node, -1);
            let req = &mut self.reqs[at];
            (req.kv, req.shared, req.node, req.flying, req.state) = (0, 0, 0, 0, State::Queued);
            req.epoch += 1;
            self.rows -= 1;
            self.waiting.push(at);
            self.record.retracted.push(self.reqs[at].id);
            self.room(20 * self.running.len() as u64);
            if self.decode_fits() {
                break;
            }
        }
        let out: u32 = self.running.iter().map(|&at| self.reqs[at].out + 20).sum();
        let most: u32 = self.running.iter().map(|&at| self.reqs[at].max_new).sum();
        self.ratio = (f64::from(out) / f64::from(most + 1)).min(1.0);
        self.full = false;
    }

    fn sort(&mut self) {
        let aware = self.config.radix_cache
            && match self.config.policy {
                QueuePolicy::Lpm => self.waiting.len() <= 128,
                QueuePolicy::DfsWeight => true,
                _ => false,
            };
        if aware {
            return self.sort_by_cache();
        }
        if self.config.policy == QueuePolicy::Lof {
            let reqs = &self.reqs;
            self.waiting
                .sort_by_key(|&at| std::cmp::Reverse(reqs[at].max_new));
        }
        if self.config.radix_cache {
            if self.touches.is_multiple_of(32) {
                for at in self.waiting.iter().copied().take(128).rev().collect::<Vec<_>>() {
                    self.find(at, self.reqs[at].known() - 1);
                }
            }
            self.touches += 1;
        }
    }

    fn sort_by_cache(&mut self) {
        let mut seen = Tree::new(1);
        let mut found = Vec::new();
        for at in self.waiting.clone() {
            let known = self.reqs[at].known();
            let (node, tokens) = self.find(at, known);
            let key = &self.reqs[at].tokens[..known as usize];
            let mut late = false;
            if tokens <= 32 {
                late = seen.walk(key).1 >= 32;
                if !late {
                    seen.insert(key);
                }
            }
            found.push((at, node, tokens, late));
        }
        if self.config.policy == QueuePolicy::Lpm {
            found.sort_by_key(|&(_, _, tokens, late)| if late { 1 } else { -i64::from(tokens) });
            self.waiting = found.iter().map(|found| found.0).collect();
        } else {
            self.waiting.clear();
            let mut weights = vec![0i64; self.tree.nodes.len()];
            for &(_, mut node, ..) in &found {
                weights[node] += 1;
                while node != 0 {
                    node = self.tree.nodes[node].parent;
                    weights[node] += 1;
                }
            }
            let order = self.depth_first(0, &weights, &found);
            self.waiting = order;
        }
    }

    fn depth_first(&self, node: usize, weights: &[i64], found: &[(usize, usize, u32, bool)]) -> Vec<usize> {
        let mut children = self.tree.nodes[node].children.clone();
        children.sort_by_key(|&child| -weights[child]);
        let mut order: Vec<usize> = children
            .iter()
            .flat_map(|&child| self.depth_first(child, weights, found))
            .collect();
        order.extend(found.iter().filter(|found| found.1 == node).map(|found| found.0));
        order
    }

    fn slots(&self, held: usize) -> usize {
        let most = self.config.max_running_requests as usize;
        most.saturating_sub(self.running.len())
            .min(most - self.rows as usize + held)
    }

    #[expect(clippy::too_many_lines, reason = "one function, as the engine has it")]
    fn prefill(&mut self) -> Option<Vec<Entry>> {
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

    fn process(&mut self, batch: &Batch) {
        for &(at, epoch, samples, decodes) in &batch.entries {
            let req = &mut self.reqs[at];
            if !samples || req.state != State::Running || req.epoch != epoch {
                continue;
            }
            req.out += 1;
            req.flying -= 1;
            if req.out == req.target {
                self.finish(at);
            } else if !decodes {
                self.cache_unfinished(at);
            }
        }
    }
}

/// Every pass of the loop; `None` if the server dies.
fn serve(config: &SglangConfig, requests: &[Request]) -> Option<Vec<SglangRecord>> {
    let reqs: Vec<Req> = requests
        .iter()
        .filter_map(|request| Req::new(config, request))
        .collect();
    let mut twin = Twin {
        config,
        tree: Tree::new(config.page_size),
        free: u64::from(config.max_total_tokens / config.page_size),
        waiting: Vec::new(),
        running: Vec::new(),
        last: None,
        chunked: None,
        full: false,
        ratio: config.init_new_token_ratio,
        rows: 0,
        touches: 0,
        record: blank(),
        load: StepLoad::default(),
        died: false,
        reqs,
    };
    let mut cost = LinearCost::new(0.006, 2e-5, 1.5e-9);
    let (mut now, mut gpu_free, mut arrived) = (Picos::ZERO, Picos::ZERO, 0);
    let mut flying: VecDeque<Batch> = VecDeque::new();
    let mut log = Vec::new();
    loop {
        while arrived < twin.reqs.len() && twin.reqs[arrived].arrival <= now {
            twin.waiting.push(arrived);
            arrived += 1;
        }
        (twin.record, twin.load) = (blank(), StepLoad::default());
        let entries = twin.next_batch();
        if twin.died {
            return None;
        }
        let mut record = twin.record.clone();
        (record.scheduled, record.begin) = (now, now);
        let launched = entries.is_some();
        if let Some(entries) = entries {
            record.begin = now.max(gpu_free);
            record.duration = cost.step(&twin.load);
            gpu_free = record.begin + record.duration;
            flying.push_back(Batch {
                entries,
                end: gpu_free,
            });
        }
        if launched || !twin.running.is_empty() {
            record.free_pages = u32::try_from(twin.free).unwrap();
            (record.evictable, record.protected) = twin.tree.sizes();
            (record.running, record.waiting) = (twin.running.len() as u32, twin.waiting.len() as u32);
            (record.full, record.ratio) = (twin.full, twin.ratio);
            record.chunked = twin.chunked.map(|at| twin.reqs[at].id);
            record.order = twin.waiting.iter().map(|&at| twin.reqs[at].id).collect();
            log.push(record);
        }
        // Under overlap the result of the batch before the one just launched is waited for.
        let waits = flying.len() > usize::from(config.overlap_schedule && launched);
        if waits {
            let batch = flying.pop_front().unwrap();
            now = batch.end;
            twin.process(&batch);
        } else if !launched {
            twin.ratio = config.init_new_token_ratio;
            if arrived == twin.reqs.len() {
                assert!(
                    twin.waiting.is_empty() && twin.running.is_empty(),
                    "nobody is left behind"
                );
                return Some(log);
            }
            now = now.max(twin.reqs[arrived].arrival);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn the_engine_equals_its_twin(config in configs(), wishes in prop::collection::vec(wishes(), 1..40)) {
        let random = config.policy == QueuePolicy::Random;
        let config = SglangConfig {
            priority: None,
            policy: if random { QueuePolicy::Fcfs } else { config.policy },
            switches: SglangSwitches::V0_5_23,
            ..config
        };
        let mut requests = requests(wishes);
        requests.iter_mut().for_each(|request| request.deadline = None);
        let Some(expected) = serve(&config, &requests) else {
            return Ok(());
        };
        let (log, _) = run(&config, &requests, false, true);
        for (at, (got, expected)) in log.iter().zip(&expected).enumerate() {
            prop_assert_eq!(got, expected, "pass {}", at);
        }
        prop_assert_eq!(log.len(), expected.len());
    }
}
