//! A naive twin of SGLang 0.5.23's scheduler, and random scenarios in which the engine must equal it.
//!
//! It follows the shape of the engine's loop, one flat state, every token spelt out, every sequence visited in every
//! step. It shares the cost model with the engine under test and nothing else. Left out: priorities, random order, clients that
//! give up, version 0.5.4.

mod order;
mod prefill;
mod ranks;
mod tree;

use std::collections::VecDeque;

use plimsoll::cost::linear::LinearCost;
use plimsoll::cost::{StepCost, StepLoad};
use plimsoll::engine::sglang::{BatchMode, QueuePolicy, SglangConfig, SglangRecord, SglangSwitches};
use plimsoll::ids::RequestId;
use plimsoll::units::Picos;
use plimsoll::workload::{Prompt, Request};
use proptest::prelude::*;

use tree::{Token, Tree};

use crate::sglang_leaps::{configs, requests, run, wishes};

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
    /// Passes that may not prefill yet.
    hold: u32,
    held: bool,
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
        if let Some(at) = self.chunked.filter(|_| self.last.is_some()) {
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
        self.held = self.hold > 0;
        if self.held {
            self.hold -= 1;
        } else {
            let prefill = self.prefill();
            if prefill.is_some() || self.died {
                self.hold = self.config.prefill_decode_interval;
                return prefill;
            }
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
        hold: 0,
        held: false,
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
            if twin.held && (twin.chunked.is_some() || !twin.waiting.is_empty()) {
                // The idle loop goes round.
                continue;
            }
            twin.hold = 0;
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
