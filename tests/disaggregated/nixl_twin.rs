//! A naive twin of the NIXL flow: loops that go round every millisecond when they have nothing to run, states in place of
//! queues, every event looked for among all. Blocks run short on both sides; answers end within their prompt's last
//! block, so nobody is preempted.

use plimsoll::cluster::{Disaggregation, Flow, LinkRate};
use plimsoll::engine::EngineConfig;
use plimsoll::facts::Outcome;
use plimsoll::units::Picos;
use plimsoll::workload::Request;
use proptest::prelude::*;

use crate::common::request;
use crate::setup::{PlainCost, pools, run, vllm};

const BLOCK: u32 = 16;
const SLEEP: u64 = 1_000_000_000;

#[derive(Clone, Copy, PartialEq, Debug)]
enum At {
    Coming,
    QueueP,
    StepP,
    /// P has answered; on its way to D's loop.
    Hop,
    QueueD,
    Reading,
    Ready,
    Running,
    Gone,
}

#[derive(Clone, Debug)]
struct Req {
    ask: Request,
    at: At,
    p: usize,
    d: usize,
    /// P keeps its blocks; D has blocks for it.
    held_p: bool,
    held_d: bool,
    hop_end: u64,
    read_order: u64,
    abandoned: bool,
    outputs: u32,
    waited: u64,
    since: u64,
    first_token: Option<u64>,
    story: Option<Story>,
}

/// Outcome, first token, end, outputs, time waited.
type Story = (Outcome, Option<u64>, u64, u32, u64);

/// A loop: when its step ends, or when it looks next; asleep if neither.
#[derive(Clone, Default, Debug)]
struct Loop {
    step: Option<(u64, Vec<usize>)>,
    look: Option<u64>,
    awake: u64,
}

#[derive(Debug)]
pub(crate) struct Setting {
    spec: Disaggregation,
    cost: PlainCost,
    blocks: [u32; 2],
}

struct Twin<'a> {
    set: &'a Setting,
    now: u64,
    reqs: Vec<Req>,
    ps: Vec<Loop>,
    ds: Vec<Loop>,
    /// (request, begins, left, rate).
    wire: Vec<(usize, u64, u128, u64)>,
    reads: u64,
    answers: usize,
}

fn blocks_of(req: &Req) -> i64 {
    i64::from(req.ask.prompt_tokens.div_ceil(BLOCK))
}

impl Twin<'_> {
    fn free(&self, replica: usize, is_p: bool) -> i64 {
        let holds = |req: &&Req| match is_p {
            true => req.p == replica && (req.held_p || req.at == At::StepP),
            false => req.d == replica && req.held_d,
        };
        let used: i64 = self.reqs.iter().filter(holds).map(blocks_of).sum();
        i64::from(self.set.blocks[usize::from(!is_p)] - 1) - used
    }

    fn these(&self, at: At, replica: usize, is_p: bool) -> Vec<usize> {
        let is = |&index: &usize| {
            let req = &self.reqs[index];
            req.at == at && (if is_p { req.p } else { req.d }) == replica
        };
        (0..self.reqs.len()).filter(is).collect()
    }

    fn pass_p(&mut self, p: usize) {
        let mut tokens = 0;
        let mut batch = Vec::new();
        let mut single = 0;
        for at in self.these(At::QueueP, p, true) {
            if blocks_of(&self.reqs[at]) > self.free(p, true) {
                break;
            }
            let req = &mut self.reqs[at];
            req.at = At::StepP;
            req.waited += self.now - req.since;
            match req.ask.prompt_tokens {
                1 => single = self.set.cost.decode.0,
                prompt => tokens += u64::from(prompt),
            }
            batch.push(at);
        }
        self.ps[p].look = None;
        if !batch.is_empty() {
            let end = self.now + self.set.cost.prompt_2048.0 * tokens / 2048 + single;
            self.ps[p].step = Some((end, batch));
        } else if !self.these(At::QueueP, p, true).is_empty() {
            self.ps[p].awake = self.now + SLEEP;
            self.ps[p].look = Some(self.now + SLEEP);
        }
    }

    fn end_p(&mut self, p: usize) {
        let (_, batch) = self.ps[p].step.take().unwrap();
        for at in batch {
            if self.reqs[at].at != At::StepP {
                continue;
            }
            let d = self.answers % self.ds.len();
            self.answers += 1;
            let req = &mut self.reqs[at];
            (req.at, req.d, req.held_p, req.since) = (At::Hop, d, true, self.now);
            req.hop_end = self.now + 2 * self.set.spec.hop.0;
        }
        (self.ps[p].awake, self.ps[p].look) = (self.now, Some(self.now));
    }

    fn pass_d(&mut self, d: usize) {
        let mut kv = 0;
        let mut batch = self.these(At::Running, d, false);
        let mut ready = self.these(At::Ready, d, false);
        ready.sort_by_key(|&at| self.reqs[at].read_order);
        for at in ready {
            let req = &mut self.reqs[at];
            req.at = At::Running;
            req.waited += self.now - req.since;
            batch.push(at);
        }
        let mut queue = self.these(At::QueueD, d, false);
        queue.sort_by_key(|&at| (self.reqs[at].hop_end, at));
        for at in queue {
            if blocks_of(&self.reqs[at]) > self.free(d, false) {
                break;
            }
            self.reads += 1;
            let bytes =
                blocks_of(&self.reqs[at]) as u64 * u64::from(BLOCK) * self.set.spec.kv_bytes_per_token;
            let begins = self.now + self.set.spec.latency.0;
            self.wire
                .push((at, begins, u128::from(bytes) * 1_000_000_000_000, 0));
            let req = &mut self.reqs[at];
            (req.at, req.held_d, req.read_order) = (At::Reading, true, self.reads);
        }
        self.ds[d].look = None;
        if batch.is_empty() {
            let waits = [At::QueueD, At::Reading]
                .iter()
                .any(|&at| !self.these(at, d, false).is_empty());
            let abandoned = self
                .reqs
                .iter()
                .any(|req| req.d == d && req.abandoned && req.held_d);
            if waits || abandoned {
                self.ds[d].awake = self.now + SLEEP;
                self.ds[d].look = Some(self.now + SLEEP);
            }
            return;
        }
        for &at in &batch {
            kv += u64::from(self.reqs[at].ask.prompt_tokens + self.reqs[at].outputs);
        }
        let end = self.now + self.set.cost.decode.0 + self.set.cost.per_kv_token.0 * kv;
        self.ds[d].step = Some((end, batch));
    }

    fn end_d(&mut self, d: usize) {
        let (_, batch) = self.ds[d].step.take().unwrap();
        for at in batch {
            let now = self.now;
            let req = &mut self.reqs[at];
            if req.at == At::Running {
                req.outputs += 1;
                req.first_token.get_or_insert(now);
                if req.outputs == req.ask.output_tokens {
                    self.leave(at, Outcome::Completed);
                }
            }
        }
        (self.ds[d].awake, self.ds[d].look) = (self.now, Some(self.now));
    }

    fn leave(&mut self, at: usize, outcome: Outcome) {
        let now = self.now;
        let req = &mut self.reqs[at];
        req.story = Some((outcome, req.first_token, now, req.outputs, req.waited));
        if req.at == At::Reading {
            req.abandoned = true;
        } else {
            (req.held_p, req.held_d) = (false, false);
        }
        req.at = At::Gone;
    }

    /// A loop that sleeps for want of requests looks at once, or when its last nap is over.
    fn rouse(&mut self, replica: usize, is_p: bool) {
        let looper = if is_p {
            &mut self.ps[replica]
        } else {
            &mut self.ds[replica]
        };
        if looper.step.is_none() && looper.look.is_none() {
            looper.look = Some(self.now.max(looper.awake));
        }
    }

    fn land(&mut self) {
        while let Some(over) = self
            .wire
            .iter()
            .position(|&(_, begins, left, _)| begins <= self.now && left == 0)
        {
            let (at, ..) = self.wire.remove(over);
            let req = &mut self.reqs[at];
            req.held_p = false;
            if req.abandoned {
                req.held_d = false;
            } else {
                req.at = At::Ready;
            }
        }
    }

    fn share(&mut self) {
        let replicas = self.ps.len() + self.ds.len();
        let link = |replica: usize| {
            if replica < self.ps.len() {
                self.set.spec.prefill_link
            } else {
                self.set.spec.decode_link
            }
        };
        let mut left: Vec<u64> = (0..replicas)
            .flat_map(|replica| [link(replica).send, link(replica).receive])
            .collect();
        let ways: Vec<[usize; 2]> = self
            .wire
            .iter()
            .map(|&(at, ..)| [2 * self.reqs[at].p, 2 * (self.ps.len() + self.reqs[at].d) + 1])
            .collect();
        let mut open: Vec<usize> = (0..self.wire.len())
            .filter(|&flow| self.wire[flow].1 <= self.now)
            .collect();
        while !open.is_empty() {
            let count = |way: usize| open.iter().filter(|&&flow| ways[flow].contains(&way)).count() as u64;
            let shares = (0..left.len())
                .filter(|&way| count(way) > 0)
                .map(|way| (left[way] / count(way), way));
            let (rate, way) = shares.min().unwrap();
            let (fixed, rest): (Vec<usize>, Vec<usize>) =
                open.iter().partition(|&&flow| ways[flow].contains(&way));
            for flow in fixed {
                self.wire[flow].3 = rate;
                ways[flow].iter().for_each(|&way| left[way] -= rate);
            }
            open = rest;
        }
    }

    fn next(&self) -> u64 {
        let loops = self.ps.iter().chain(&self.ds);
        let loops = loops.filter_map(|looper| looper.step.as_ref().map(|step| step.0).or(looper.look));
        let wire = self
            .wire
            .iter()
            .map(|&(_, begins, left, rate)| match begins > self.now {
                true => begins,
                false => self.now + left.div_ceil(u128::from(rate)) as u64,
            });
        let hops = self
            .reqs
            .iter()
            .filter(|req| req.at == At::Hop)
            .map(|req| req.hop_end);
        let asked = self
            .reqs
            .iter()
            .flat_map(|req| [Some(req.ask.arrival.0), req.ask.deadline.map(|at| at.0)]);
        let all = loops.chain(wire).chain(hops);
        all.chain(asked.flatten().filter(|&at| at > self.now))
            .min()
            .unwrap_or(u64::MAX)
    }

    fn step_to(&mut self, now: u64) {
        for flow in self.wire.iter_mut().filter(|flow| flow.1 <= self.now) {
            flow.2 = flow
                .2
                .saturating_sub(u128::from(flow.3) * u128::from(now - self.now));
        }
        self.now = now;
        let is_due = |looper: &Loop| looper.step.as_ref().is_some_and(|step| step.0 == now);
        for p in 0..self.ps.len() {
            if is_due(&self.ps[p]) {
                self.end_p(p);
            }
        }
        for d in 0..self.ds.len() {
            if is_due(&self.ds[d]) {
                self.end_d(d);
            }
        }
        self.land();
        for at in 0..self.reqs.len() {
            if self.reqs[at].at == At::Hop && self.reqs[at].hop_end == now {
                self.reqs[at].at = At::QueueD;
                self.rouse(self.reqs[at].d, false);
            }
        }
        for at in 0..self.reqs.len() {
            if self.reqs[at].at == At::Coming && self.reqs[at].ask.arrival.0 == now {
                self.reqs[at].at = At::QueueP;
                self.rouse(self.reqs[at].p, true);
            }
            if self.reqs[at].ask.deadline == Some(Picos(now)) && self.reqs[at].at != At::Gone {
                self.leave(at, Outcome::TimedOut);
            }
        }
        for p in 0..self.ps.len() {
            if self.ps[p].look == Some(now) {
                self.pass_p(p);
            }
        }
        for d in 0..self.ds.len() {
            if self.ds[d].look == Some(now) {
                self.pass_d(d);
            }
        }
        self.share();
    }
}

fn twin(set: &Setting, requests: &[Request]) -> Vec<Option<Story>> {
    let reqs = requests.iter().enumerate().map(|(at, ask)| Req {
        ask: ask.clone(),
        at: At::Coming,
        p: at % set.spec.prefill as usize,
        d: 0,
        held_p: false,
        held_d: false,
        hop_end: 0,
        read_order: 0,
        abandoned: false,
        outputs: 0,
        waited: 0,
        since: ask.arrival.0,
        first_token: None,
        story: None,
    });
    let mut twin = Twin {
        set,
        now: 0,
        reqs: reqs.collect(),
        ps: vec![Loop::default(); set.spec.prefill as usize],
        ds: vec![Loop::default(); set.spec.decode as usize],
        wire: Vec::new(),
        reads: 0,
        answers: 0,
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
    (
        (1u32..4, 1u32..4),
        (1u64..40, 1u64..40, 1u64..400_000_000, 1u64..3_000_000_000),
        (27u32..70, 27u32..70),
        (1u64..60_000, 1u64..5_000, 0u64..400),
    )
        .prop_map(|((x, y), (send, receive, latency, hop), (p, d), cost)| {
            let link = LinkRate {
                send: send * 1_000_000_000,
                receive: receive * 1_000_000_000,
            };
            Setting {
                spec: Disaggregation {
                    prefill_link: link,
                    decode_link: link,
                    latency: Picos(latency),
                    hop: Picos(hop),
                    ..pools(Flow::Nixl, x, y)
                },
                cost: PlainCost {
                    prompt_2048: Picos(cost.0 * 1_000_003),
                    decode: Picos(cost.1 * 1_000_007),
                    per_kv_token: Picos(cost.2 * 1_009),
                },
                blocks: [p, d],
            }
        })
}

fn traffic() -> impl Strategy<Value = Vec<Request>> {
    let one = (
        1u64..6_000_000_000,
        2u32..400,
        0u32..16,
        prop::option::weighted(0.25, 1u64..60_000_000_000),
    );
    prop::collection::vec(one, 1..24).prop_map(|wishes| {
        let mut now = 0;
        let list = wishes
            .into_iter()
            .enumerate()
            .map(|(id, (gap, prompt, more, patience))| {
                now += gap;
                let room = prompt.next_multiple_of(BLOCK) - prompt;
                Request {
                    deadline: patience.map(|patience| Picos(now + patience)),
                    ..request(id as u64, Picos(now), prompt, 1 + more % (room + 1))
                }
            });
        list.collect()
    })
}

fn engine(blocks: u32) -> EngineConfig {
    EngineConfig {
        num_gpu_blocks: blocks,
        max_num_batched_tokens: 1 << 20,
        ..vllm()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn requests_fare_as_in_the_twin(set in settings(), requests in traffic(), pauses in any::<bool>()) {
        let engines = [engine(set.blocks[0]).into(), engine(set.blocks[1]).into()];
        let told = run(engines, set.cost, &set.spec, &requests, pauses);
        prop_assert_eq!(&told.seen.violations, &Vec::<String>::new());
        let mut stories: Vec<Option<Story>> = vec![None; requests.len()];
        for story in &told.stories {
            prop_assert_eq!(story.preemptions, 0);
            stories[story.id.0 as usize] = Some((
                story.outcome,
                story.first_token.map(|at| at.0),
                story.end.0,
                story.output_tokens,
                story.waiting_time.0,
            ));
        }
        prop_assert_eq!(stories, twin(&set, &requests));
    }
}
