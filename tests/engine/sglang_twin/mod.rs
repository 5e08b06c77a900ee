//! A naive twin of SGLang's scheduler, versions 0.5.23 and 0.5.4, and random scenarios in which the engine must equal it:
//! equal passes, clocks, token times and endings.
//!
//! It follows the shape of the engine's loop, one flat state, every token spelt out, every sequence visited in every
//! step. It shares the cost model with the engine under test, the dice of a shuffled queue, and nothing else. A server that
//! dies, or would go round for ever, does so in both, after the same passes: no draw is left unjudged.
//!
//! Of a client who gives up no rule is written down. The twin takes it that a request leaves at that instant, wherever it is:
//! out of the queue without a trace, out of the batch with what it computed cached if it had a token.

mod decode;
mod memory;
mod order;
mod prefill;
mod random;
mod ranks;
mod tree;

use std::collections::{BTreeMap, VecDeque};

use plimsoll::cost::linear::LinearCost;
use plimsoll::cost::{StepCost, StepLoad};
use plimsoll::engine::sglang::{BatchMode, SglangConfig, SglangRecord, SglangSwitches};
use plimsoll::ids::RequestId;
use plimsoll::rng::{Purpose, stream};
use plimsoll::sim::Outcome;
use plimsoll::units::Picos;
use plimsoll::workload::{Prompt, Request};
use rand::rngs::ChaCha8Rng;

use tree::{Token, Tree};

#[derive(Clone, Copy, PartialEq)]
enum State {
    Queued,
    Running,
    Gone,
}

struct Req {
    id: RequestId,
    arrival: Picos,
    deadline: Option<Picos>,
    priority: i64,
    tokens: Vec<Token>,
    prompt: u32,
    max_new: u32,
    target: u32,
    ignore_eos: bool,
    out: u32,
    kv: u32,
    shared: u32,
    fill: u32,
    /// Length and cached prefix as the engine last wrote them down, which is when it tried to admit it.
    seen: u32,
    hit: u32,
    node: usize,
    flying: u32,
    epoch: u32,
    state: State,
    /// Since when it waits, if it does.
    since: Picos,
    /// As how many-th of all it last joined the queue.
    joined: u64,
    waited: Picos,
    /// When it was first admitted, and what was cached of it then.
    admitted: Option<(Picos, u32)>,
    preemptions: u32,
    /// When its client had each token.
    had: Vec<Picos>,
    end: Option<(Outcome, Picos)>,
}

impl Req {
    /// `None` if the server refuses it: its prompt leaves no room, or it would wait for ever.
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
        if prompt >= longest.saturating_sub(5) {
            return None;
        }
        let mut max_new = request.max_tokens.min(longest - prompt - 1);
        let pages = prompt.next_multiple_of(page);
        if config.switches.clips_to_pool {
            max_new = max_new.min(pool.checked_sub(pages + page + 1)?);
        }
        let reserve = u32::from(config.switches.reserves_a_page) * page;
        let hangs = !config.radix_cache && request.ignore_eos && pages + reserve + max_new + 1 >= pool;
        (max_new > 0 && !hangs).then(|| Req {
            id: request.id,
            arrival: request.arrival,
            deadline: request.deadline,
            priority: request.priority,
            tokens,
            prompt,
            max_new,
            target: request.output_tokens.min(max_new),
            ignore_eos: request.ignore_eos,
            out: 0,
            kv: 0,
            shared: 0,
            fill: 0,
            seen: 0,
            hit: 0,
            node: 0,
            flying: 0,
            epoch: 0,
            state: State::Queued,
            since: request.arrival,
            joined: 0,
            waited: Picos::ZERO,
            admitted: None,
            preemptions: 0,
            had: Vec::new(),
            end: None,
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
    /// Pages of its tokens that nobody waits for any more (SG-5).
    wasted: u64,
    end: Picos,
}

struct Twin<'a> {
    config: &'a SglangConfig,
    versions: SglangSwitches,
    now: Picos,
    /// In order of arrival; those from `arrived` on are yet to come.
    reqs: Vec<Req>,
    arrived: usize,
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
    dice: ChaCha8Rng,
    record: SglangRecord,
    load: StepLoad,
    /// Pages that are free with the result of the newest batch launched.
    wasted: u64,
    /// What befell somebody, how often.
    befell: BTreeMap<&'static str, u32>,
    /// Somebody was ended in this pass.
    left: bool,
    died: bool,
    /// How often somebody has joined the queue.
    joinings: u64,
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

impl<'a> Twin<'a> {
    /// The `replica`-th server, to which these are sent.
    fn new(config: &'a SglangConfig, requests: &[Request], replica: u64) -> Twin<'a> {
        let reqs = requests.iter().filter_map(|request| Req::new(config, request));
        Twin {
            config,
            versions: config.switches,
            now: Picos::ZERO,
            arrived: 0,
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
            dice: stream(config.seed, Purpose::Queue, replica),
            record: blank(),
            load: StepLoad::default(),
            wasted: 0,
            befell: BTreeMap::new(),
            left: false,
            died: false,
            joinings: 0,
            reqs: reqs.collect(),
        }
    }

    /// One pass of the loop: who has come until `now` is taken in, and the next batch decided.
    fn pass(&mut self, now: Picos) -> Option<Vec<Entry>> {
        self.now = now;
        while let Some(req) = self.reqs.get(self.arrived)
            && req.arrival <= now
        {
            let is_queued = req.state == State::Queued;
            if is_queued {
                self.join_queue(self.arrived);
            }
            self.arrived += 1;
        }
        (self.record, self.load, self.left) = (blank(), StepLoad::default(), false);
        self.next_batch()
    }

    /// To the tail of the queue.
    fn join_queue(&mut self, at: usize) {
        self.joinings += 1;
        self.reqs[at].joined = self.joinings;
        self.waiting.push(at);
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
        if self.versions.drops_finished_each_pass {
            self.drop_gone();
        }
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
        self.decode_batch()
    }

    /// SG-32: an idle loop begins anew, in 0.5.23 only if nobody waits.
    fn rest(&mut self) {
        let have_left = self.chunked.is_none() && self.waiting.is_empty();
        if have_left || !self.versions.resets_ratio_if_all_left {
            self.ratio = self.config.init_new_token_ratio;
        }
    }

    fn process(&mut self, batch: &Batch) {
        self.free += batch.wasted;
        for &(at, epoch, samples, decodes) in &batch.entries {
            let req = &mut self.reqs[at];
            if !samples || req.state != State::Running || req.epoch != epoch {
                continue;
            }
            req.out += 1;
            req.flying -= 1;
            req.had.push(batch.end);
            if req.out == req.target {
                req.end = Some((Outcome::Completed, batch.end));
                self.finish(at);
            } else if !decodes {
                self.cache_unfinished(at);
            }
        }
    }

    /// When a client next gives up, and whose.
    fn next_give_up(&self) -> Option<(Picos, usize)> {
        let waits = |req: &Req| req.deadline.filter(|_| req.end.is_none());
        let all = self.reqs.iter().enumerate();
        all.filter_map(|(at, req)| Some((waits(req)?, at))).min()
    }

    fn count(&mut self, what: &'static str) {
        *self.befell.entry(what).or_default() += 1;
    }

    fn give_up(&mut self, at: usize, now: Picos) {
        let req = &self.reqs[at];
        self.count(match req.state {
            _ if at >= self.arrived => "unseen",
            State::Queued if req.epoch > 0 => "retracted",
            State::Queued => "waiting",
            _ if self.chunked == Some(at) => "chunked",
            _ if req.out == 0 => "prefilling",
            _ => "running",
        });
        let req = &mut self.reqs[at];
        req.end = Some((Outcome::TimedOut, now));
        if req.state == State::Queued {
            req.state = State::Gone;
            self.waiting.retain(|&other| other != at);
            return;
        }
        if self.chunked == Some(at) {
            self.chunked = None;
        }
        if self.reqs[at].out > 0 {
            self.finish(at);
        } else {
            self.release(at);
            self.reqs[at].state = State::Gone;
        }
    }

    /// Clients give up whose time is over at `now`.
    fn give_up_until(&mut self, now: Picos) {
        while let Some((deadline, at)) = self.next_give_up()
            && deadline <= now
        {
            self.give_up(at, deadline);
        }
    }
}

/// What a twin saw.
struct Served {
    log: Vec<SglangRecord>,
    reqs: Vec<Req>,
    befell: BTreeMap<&'static str, u32>,
    /// It died, or goes round for ever.
    died: bool,
}

/// Every pass of the loop.
fn serve(config: &SglangConfig, requests: &[Request]) -> Served {
    let mut twin = Twin::new(config, requests, 0);
    let mut cost = LinearCost::new(0.006, 2e-5, 1.5e-9);
    let (mut now, mut gpu_free) = (Picos::ZERO, Picos::ZERO);
    let mut flying: VecDeque<Batch> = VecDeque::new();
    let mut log = Vec::new();
    // Passes in a row that found nothing to do, and did not change that.
    let mut idle = 0;
    while !twin.died {
        let entries = twin.pass(now);
        if twin.died {
            break;
        }
        let mut record = twin.record.clone();
        (record.scheduled, record.begin) = (now, now);
        let launched = entries.is_some();
        if let Some(entries) = entries {
            record.begin = now.max(gpu_free);
            record.duration = cost.step(&twin.load);
            gpu_free = record.begin + record.duration;
            // Who was sent back in this pass computes in the batch before.
            if let Some(before) = flying.back_mut() {
                before.wasted += std::mem::take(&mut twin.wasted);
            }
            flying.push_back(Batch {
                entries,
                wasted: 0,
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
        if flying.len() > usize::from(config.overlap_schedule && launched) {
            let mut batch = flying.pop_front().unwrap();
            // At one instant a batch ends before a client gives up.
            twin.give_up_until(Picos(batch.end.0 - 1));
            flying.back_mut().unwrap_or(&mut batch).wasted += std::mem::take(&mut twin.wasted);
            now = batch.end;
            twin.process(&batch);
            twin.give_up_until(now);
            match flying.back_mut() {
                Some(newest) => newest.wasted += std::mem::take(&mut twin.wasted),
                None => assert_eq!(twin.wasted, 0),
            }
        } else if !launched {
            twin.rest();
            let someone_waits =
                twin.chunked.is_some() || !twin.waiting.is_empty() || !twin.running.is_empty();
            if someone_waits {
                // The idle loop goes round, until what it does in vain is the same again.
                idle = if twin.held || twin.left { 0 } else { idle + 1 };
                twin.died = idle > 2;
                continue;
            }
            twin.hold = 0;
            let Some(next) = twin.reqs.get(twin.arrived) else {
                break;
            };
            now = now.max(next.arrival);
        }
        idle = 0;
    }
    if twin.died {
        twin.count("died");
    }
    Served {
        log,
        befell: twin.befell,
        reqs: twin.reqs,
        died: twin.died,
    }
}
