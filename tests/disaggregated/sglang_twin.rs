//! A naive twin of SGLang's flow: every event is looked for among all, every share of a link is worked out anew for
//! everybody, every sequence is visited in every step, and prompts are counted, not cached (they are all different).

use plimsoll::cluster::{Disaggregation, Flow};
use plimsoll::facts::Outcome;
use plimsoll::sim::Pause;
use plimsoll::units::Picos;
use plimsoll::workload::Request;
use proptest::prelude::*;

use crate::draws::draws;
use crate::setup::{PlainCost, run, sglang};
use crate::twin_parts::{Wire, costs, specs, traffic};

#[derive(Clone, Copy, PartialEq, Debug)]
enum At {
    Bootstrap,
    Queue,
    Prefill,
    Sending,
    Here,
    Running,
    Retracted,
    Gone,
}

#[derive(Clone, Debug)]
struct Req {
    ask: Request,
    at: At,
    p: usize,
    d: usize,
    /// D has memory for it, and when P hears of it; its loops know it.
    reserved: Option<u64>,
    in_prealloc: bool,
    kv_p: u32,
    sent: u32,
    messages: Vec<(u64, bool)>,
    under_way: bool,
    arrived_at: Option<u64>,
    kv_d: u32,
    outputs: u32,
    waited: u64,
    since: u64,
    first_token: Option<u64>,
    preemptions: u32,
    abandoned: bool,
    story: Option<(Outcome, Option<u64>, u64, u32, u32, u64)>,
}

#[derive(Clone, Default, Debug)]
struct Prefiller {
    /// Out of the bootstrap queue since the last pass, which takes them in that queue's order.
    fresh: Vec<usize>,
    queue: Vec<usize>,
    chunked: Option<usize>,
    batch: Option<(u64, Vec<(usize, u32)>)>,
    look: bool,
}

#[derive(Clone, Default, Debug)]
struct Decoder {
    prealloc: Vec<usize>,
    retracted: Vec<usize>,
    waiting: Vec<usize>,
    running: Vec<usize>,
    batch: Option<(u64, Vec<usize>)>,
    look: bool,
}

#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) spec: Disaggregation,
    pub(crate) cost: PlainCost,
    pub(crate) pool: [u32; 2],
    pub(crate) chunk: u32,
}

struct Twin<'a> {
    set: &'a Setting,
    now: u64,
    reqs: Vec<Req>,
    ps: Vec<Prefiller>,
    ds: Vec<Decoder>,
    wire: Wire,
}

impl Twin<'_> {
    fn used_p(&self, p: usize) -> i64 {
        let kept = |req: &&Req| req.p == p && matches!(req.at, At::Prefill | At::Sending);
        self.reqs.iter().filter(kept).map(|req| i64::from(req.kv_p)).sum()
    }

    fn free_d(&self, d: usize) -> i64 {
        let used: i64 = self
            .reqs
            .iter()
            .filter(|req| req.d == d)
            .map(|req| i64::from(req.kv_d))
            .sum();
        i64::from(self.set.pool[1]) - used
    }

    fn in_transfer(&self, d: usize) -> i64 {
        let is = |req: &&Req| {
            req.d == d && req.reserved.is_some() && req.arrived_at != Some(u64::MAX) && req.kv_d > 0
        };
        self.reqs.iter().filter(is).count() as i64
    }

    fn rows_d(&self, d: usize) -> usize {
        self.reqs.iter().filter(|req| req.d == d && req.kv_d > 0).count()
    }

    fn pass_p(&mut self, p: usize) {
        let pool = i64::from(self.set.pool[0]);
        self.ps[p].fresh.sort_unstable();
        let fresh = std::mem::take(&mut self.ps[p].fresh);
        self.ps[p].queue.extend(fresh);
        let rows = self
            .reqs
            .iter()
            .filter(|r| r.p == p && matches!(r.at, At::Prefill | At::Sending))
            .count();
        let (mut rows, mut offset) = (rows, 0i64);
        let (mut input, mut chunk) = (16384i64, i64::from(self.set.chunk));
        let mut batch = Vec::new();
        let used = self.used_p(p);
        if let Some(at) = self.ps[p].chunked {
            let rest = i64::from(self.reqs[at].ask.prompt_tokens - self.reqs[at].kv_p);
            let mut most = chunk.min(pool - used - offset);
            if most <= 0 {
                most = chunk;
            }
            let new = rest.min(most);
            offset += new + 1 + i64::from(new == rest);
            input -= new;
            chunk -= new;
            batch.push((at, new as u32));
            if new == rest {
                self.ps[p].chunked = None;
            }
        }
        if rows < 64 || !batch.is_empty() {
            let queue = self.ps[p].queue.clone();
            for at in queue {
                let left = pool - used - offset;
                if left > 0 && (input <= 0 || chunk <= 0) || rows >= 64 {
                    break;
                }
                let prompt = i64::from(self.reqs[at].ask.prompt_tokens);
                if prompt + 1 + 1 >= left || chunk <= 0 {
                    break;
                }
                let new = prompt.min(chunk);
                if new < prompt {
                    self.ps[p].chunked = Some(at);
                }
                offset += new + 1 + i64::from(new == prompt);
                input -= new;
                chunk -= new;
                rows += 1;
                batch.push((at, new as u32));
                self.ps[p].queue.retain(|&other| other != at);
                let req = &mut self.reqs[at];
                req.at = At::Prefill;
                req.waited += self.now - req.since;
                if pool - used - offset <= 0 || input <= 0 || chunk <= 0 {
                    break;
                }
            }
        }
        if batch.is_empty() {
            return;
        }
        let (mut tokens, mut decode) = (0u64, 0);
        for &(at, new) in &batch {
            let req = &mut self.reqs[at];
            req.kv_p += new;
            if new == 1 && req.kv_p == req.ask.prompt_tokens {
                decode = decode.max(self.set.cost.decode.0);
                decode += self.set.cost.per_kv_token.0 * u64::from(req.kv_p);
            } else {
                tokens += u64::from(new);
            }
        }
        let end = self.now + self.set.cost.prompt_2048.0 * tokens / 2048 + decode;
        self.ps[p].batch = Some((end, batch));
    }

    fn end_p(&mut self, p: usize) {
        let (_, batch) = self.ps[p].batch.take().unwrap();
        for (at, _) in batch {
            let req = &mut self.reqs[at];
            let is_last = req.kv_p == req.ask.prompt_tokens;
            let bytes = u64::from(req.kv_p - req.sent) * self.set.spec.kv_bytes_per_token;
            req.sent = req.kv_p;
            if is_last {
                req.at = At::Sending;
                req.since = self.now;
            }
            req.messages.push((bytes, is_last));
            self.feed(at);
        }
        self.ps[p].look = true;
    }

    /// The next message of a request goes on the wire when the one before is over.
    fn feed(&mut self, at: usize) {
        let req = &mut self.reqs[at];
        if req.under_way || req.messages.is_empty() {
            return;
        }
        req.under_way = true;
        let (bytes, _) = req.messages[0];
        let begins = self.now + self.set.spec.latency.0;
        self.wire.send(at, (req.p, req.d), bytes, begins);
    }

    fn reserve(&mut self, d: usize) {
        let reserved = i64::from(self.set.spec.num_reserved_decode_tokens);
        while let Some(&at) = self.ds[d].retracted.first() {
            let tokens = self.reqs[at].ask.prompt_tokens + self.reqs[at].outputs - 1;
            let inside =
                self.ds[d].running.len() as i64 + self.in_transfer(d) + self.ds[d].waiting.len() as i64;
            if self.rows_d(d) >= 64 || i64::from(tokens) + reserved > self.free_d(d) - reserved * inside {
                return;
            }
            self.ds[d].retracted.remove(0);
            self.reqs[at].kv_d = tokens;
            self.ds[d].waiting.push(at);
        }
        let known = |at: &usize| i64::from(self.reqs[*at].ask.prompt_tokens + self.reqs[*at].outputs);
        let retractable: i64 = self.ds[d].running.iter().map(known).sum();
        let most = |at: &usize| i64::from(self.reqs[*at].ask.prompt_tokens + self.reqs[*at].ask.max_tokens);
        let single = self.ds[d]
            .running
            .iter()
            .map(most)
            .max()
            .map_or(0, |most| most - retractable);
        while let Some(&at) = self.ds[d].prealloc.first() {
            let prompt = i64::from(self.reqs[at].ask.prompt_tokens);
            let inside =
                self.ds[d].running.len() as i64 + self.in_transfer(d) + self.ds[d].waiting.len() as i64;
            let need = (prompt + reserved).max(most_of(&self.reqs[at]) - retractable);
            let have = self.free_d(d) - (reserved * inside).max(single);
            if self.rows_d(d) >= 64 || need > have {
                break;
            }
            self.ds[d].prealloc.remove(0);
            let heard = self.now + self.set.spec.latency.0;
            let req = &mut self.reqs[at];
            req.in_prealloc = false;
            req.kv_d = req.ask.prompt_tokens;
            req.reserved = Some(heard);
        }
        let mut arrived: Vec<usize> = (0..self.reqs.len())
            .filter(|&at| self.reqs[at].d == d && self.reqs[at].arrived_at.is_some_and(|t| t <= self.now))
            .collect();
        arrived.sort_by_key(|&at| self.reqs[at].arrived_at);
        for at in arrived {
            self.reqs[at].arrived_at = Some(u64::MAX);
            self.ds[d].waiting.push(at);
        }
    }

    fn pass_d(&mut self, d: usize) {
        self.reserve(d);
        let mut has_left = false;
        while self.ds[d].running.len() < 64 && !self.ds[d].waiting.is_empty() {
            let at = self.ds[d].waiting.remove(0);
            let now = self.now;
            let req = &mut self.reqs[at];
            req.at = At::Running;
            req.waited += now - req.since;
            if req.outputs == 0 {
                req.outputs = 1;
                req.first_token = Some(now);
                if req.outputs == req.ask.output_tokens {
                    self.leave(at, Outcome::Completed);
                    has_left = true;
                    continue;
                }
            }
            self.ds[d].running.push(at);
        }
        let reqs = &self.reqs;
        self.ds[d].running.retain(|&at| reqs[at].at == At::Running);
        if self.ds[d].running.is_empty() {
            if has_left {
                // What they held is free, and the loop goes round.
                self.pass_d(d);
            }
            return;
        }
        if self.free_d(d) < self.ds[d].running.len() as i64 {
            let reqs = &self.reqs;
            self.ds[d].running.sort_by_key(|&at| {
                std::cmp::Reverse((reqs[at].outputs, std::cmp::Reverse(reqs[at].ask.prompt_tokens)))
            });
            loop {
                if self.ds[d].running.len() == 1 {
                    if self.free_d(d) < 1 {
                        let lone = self.ds[d].running.pop().unwrap();
                        self.leave(lone, Outcome::Rejected);
                        has_left = true;
                    }
                    break;
                }
                let at = self.ds[d].running.pop().unwrap();
                let now = self.now;
                let req = &mut self.reqs[at];
                (req.at, req.kv_d, req.since) = (At::Retracted, 0, now);
                req.preemptions += 1;
                self.ds[d].retracted.push(at);
                if self.free_d(d) >= self.ds[d].running.len() as i64 {
                    break;
                }
            }
        }
        if self.ds[d].running.is_empty() {
            if has_left {
                self.pass_d(d);
            }
            return;
        }
        let batch = self.ds[d].running.clone();
        let mut kv = 0;
        for &at in &batch {
            self.reqs[at].kv_d += 1;
            kv += u64::from(self.reqs[at].kv_d);
        }
        let end = self.now + self.set.cost.decode.0 + self.set.cost.per_kv_token.0 * kv;
        self.ds[d].batch = Some((end, batch));
    }

    fn end_d(&mut self, d: usize) {
        let (_, batch) = self.ds[d].batch.take().unwrap();
        for at in batch {
            if self.reqs[at].at == At::Running {
                self.reqs[at].outputs += 1;
                if self.reqs[at].outputs == self.reqs[at].ask.output_tokens {
                    self.leave(at, Outcome::Completed);
                }
            }
        }
        self.ds[d].look = true;
    }

    fn leave(&mut self, at: usize, outcome: Outcome) {
        let now = self.now;
        let req = &mut self.reqs[at];
        if req.story.is_none() {
            let told = (
                outcome,
                req.first_token,
                now,
                req.outputs,
                req.preemptions,
                req.waited,
            );
            req.story = Some(told);
        }
        (req.at, req.kv_d) = (At::Gone, 0);
    }

    fn give_up(&mut self, at: usize) {
        let (p, d) = (self.reqs[at].p, self.reqs[at].d);
        match self.reqs[at].at {
            At::Gone => return,
            At::Prefill | At::Sending => {
                let now = self.now;
                let req = &mut self.reqs[at];
                req.abandoned = true;
                req.story = Some((Outcome::TimedOut, None, now, 0, 0, req.waited));
                return;
            }
            _ => {}
        }
        self.leave(at, Outcome::TimedOut);
        self.reqs[at].reserved = None;
        self.reqs[at].arrived_at = None;
        self.ps[p].fresh.retain(|&other| other != at);
        self.ps[p].queue.retain(|&other| other != at);
        let decoder = &mut self.ds[d];
        decoder.prealloc.retain(|&other| other != at);
        decoder.retracted.retain(|&other| other != at);
        decoder.waiting.retain(|&other| other != at);
        decoder.look = true;
    }

    fn land(&mut self, at: usize) {
        let (_, is_last) = self.reqs[at].messages.remove(0);
        self.reqs[at].under_way = false;
        self.feed(at);
        if !is_last {
            return;
        }
        let (p, d, now) = (self.reqs[at].p, self.reqs[at].d, self.now);
        self.ps[p].look = true;
        self.ds[d].look = true;
        self.reqs[at].kv_p = 0;
        if self.reqs[at].abandoned {
            (self.reqs[at].at, self.reqs[at].kv_d) = (At::Gone, 0);
            self.reqs[at].reserved = None;
        } else {
            self.reqs[at].at = At::Here;
            self.reqs[at].arrived_at = Some(now);
        }
    }

    fn next(&self) -> u64 {
        let ends = self
            .ps
            .iter()
            .filter_map(|p| p.batch.as_ref().map(|batch| batch.0));
        let ends = ends.chain(
            self.ds
                .iter()
                .filter_map(|d| d.batch.as_ref().map(|batch| batch.0)),
        );
        let heard = self
            .reqs
            .iter()
            .filter(|req| req.at == At::Bootstrap)
            .filter_map(|req| req.reserved);
        let asked = self
            .reqs
            .iter()
            .flat_map(|req| [Some(req.ask.arrival.0), req.ask.deadline.map(|at| at.0)]);
        let all = ends
            .chain(self.wire.next(self.now))
            .chain(heard.filter(|&at| at > self.now));
        all.chain(asked.flatten().filter(|&at| at > self.now))
            .min()
            .unwrap_or(u64::MAX)
    }

    fn step_to(&mut self, now: u64) {
        self.wire.flow(self.now, now);
        self.now = now;
        let is_due = |batch: Option<u64>| batch == Some(now);
        for p in 0..self.ps.len() {
            if is_due(self.ps[p].batch.as_ref().map(|batch| batch.0)) {
                self.end_p(p);
            }
        }
        for d in 0..self.ds.len() {
            if is_due(self.ds[d].batch.as_ref().map(|batch| batch.0)) {
                self.end_d(d);
            }
        }
        while let Some(over) = self.wire.landed(now) {
            self.land(over);
        }
        for at in 0..self.reqs.len() {
            if self.reqs[at].at == At::Bootstrap && self.reqs[at].reserved.is_some_and(|heard| heard <= now) {
                self.reqs[at].at = At::Queue;
                let p = self.reqs[at].p;
                self.ps[p].fresh.push(at);
                self.ps[p].look = true;
            }
        }
        for at in 0..self.reqs.len() {
            if self.reqs[at].ask.arrival.0 == now {
                let d = self.reqs[at].d;
                self.reqs[at].in_prealloc = true;
                self.ds[d].prealloc.push(at);
                self.ds[d].look = true;
            }
        }
        for at in 0..self.reqs.len() {
            if self.reqs[at].ask.deadline == Some(Picos(now)) {
                self.give_up(at);
            }
        }
        for p in 0..self.ps.len() {
            if std::mem::take(&mut self.ps[p].look) && self.ps[p].batch.is_none() {
                self.pass_p(p);
            }
        }
        for d in 0..self.ds.len() {
            while std::mem::take(&mut self.ds[d].look) && self.ds[d].batch.is_none() {
                self.pass_d(d);
            }
        }
        self.wire.share(now);
    }
}

fn most_of(req: &Req) -> i64 {
    i64::from(req.ask.prompt_tokens + req.ask.max_tokens)
}

/// Outcome, first token, end, outputs, preemptions, time waited.
type Story = (Outcome, Option<u64>, u64, u32, u32, u64);

fn twin(set: &Setting, requests: &[Request]) -> Vec<Option<Story>> {
    let (x, y) = (set.spec.prefill as usize, set.spec.decode as usize);
    let reqs = requests.iter().enumerate().map(|(at, ask)| Req {
        ask: ask.clone(),
        at: At::Bootstrap,
        p: at % x,
        d: at % y,
        reserved: None,
        in_prealloc: false,
        kv_p: 0,
        sent: 0,
        messages: Vec::new(),
        under_way: false,
        arrived_at: None,
        kv_d: 0,
        outputs: 0,
        waited: 0,
        since: ask.arrival.0,
        first_token: None,
        preemptions: 0,
        abandoned: false,
        story: None,
    });
    let mut twin = Twin {
        set,
        now: 0,
        reqs: reqs.collect(),
        ps: vec![Prefiller::default(); x],
        ds: vec![Decoder::default(); y],
        wire: Wire::new(&set.spec),
    };
    loop {
        let next = twin.next();
        if next == u64::MAX {
            return twin.reqs.into_iter().map(|req| req.story).collect();
        }
        twin.step_to(next);
    }
}

fn settings() -> impl Strategy<Value = Setting> {
    let sizes = (450u32..1500, 700u32..2000, 20u32..500);
    (specs(Flow::Sglang), costs(), sizes).prop_map(|(spec, cost, (prefill, decode, chunk))| Setting {
        spec: Disaggregation {
            host_bytes_per_s: vec![u64::MAX; spec.links.len()],
            ..spec
        },
        cost,
        pool: [prefill, decode],
        chunk,
    })
}

proptest! {
    #![proptest_config(draws(400))]
    #[test]
    fn requests_fare_as_in_the_twin(
        set in settings(), requests in traffic(2..400, |_, draw| 1 + draw), pauses in any::<bool>(),
    ) {
        let engines = [sglang(set.pool[0], set.chunk, true).into(), sglang(set.pool[1], 8192, false).into()];
        let told = run(engines, set.cost, &set.spec, &requests, pauses);
        prop_assert_eq!(told.pause, Pause::Drained);
        prop_assert_eq!(&told.seen.violations, &Vec::<String>::new());
        let mut stories: Vec<Option<Story>> = vec![None; requests.len()];
        for story in &told.stories {
            let waited = story.waiting_time.0;
            stories[story.id.0 as usize] = Some((
                story.outcome,
                story.first_token.map(|at| at.0),
                story.end.0,
                story.output_tokens,
                story.preemptions,
                waited,
            ));
        }
        prop_assert_eq!(stories, twin(&set, &requests));
    }
}
