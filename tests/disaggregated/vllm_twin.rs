//! A naive twin of vLLM's flows, NIXL and P2P NCCL: loops that go round every millisecond when they have nothing to run,
//! states in place of queues, every event looked for among all, and layers of KV pushed one by one. Blocks run short on
//! both sides; answers end within their prompt's last block, so nobody is preempted.

use plimsoll::cluster::{Disaggregation, Flow};
use plimsoll::engine::EngineConfig;
use plimsoll::facts::Outcome;
use plimsoll::units::Picos;
use plimsoll::workload::Request;
use proptest::prelude::*;

use crate::setup::{PlainCost, run, vllm};
use crate::twin_parts::{Wire, costs, specs, traffic};

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
    /// Bytes of its KV that D has received and not taken over, and whether they lie in host memory.
    stored: Option<(u64, bool)>,
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
    wire: Wire,
    /// When the links of those that prefill and those that decode are free of pushes.
    free_from: [Vec<u64>; 2],
    reads: u64,
    answers: usize,
}

fn blocks_of(req: &Req) -> i64 {
    i64::from(req.ask.prompt_tokens.div_ceil(BLOCK))
}

fn time_of(bytes: u64, bytes_per_s: u64) -> u64 {
    (u128::from(bytes) * 1_000_000_000_000).div_ceil(u128::from(bytes_per_s)) as u64
}

impl Twin<'_> {
    fn pushes(&self) -> bool {
        self.set.spec.flow == Flow::P2pNccl
    }

    fn bytes_of(&self, at: usize) -> u64 {
        blocks_of(&self.reqs[at]) as u64 * u64::from(BLOCK) * self.set.spec.kv_bytes_per_token
    }

    /// Every layer goes when it is computed and the one before is there, in units of a picosecond over their number; when
    /// the step that computes them from now on for `compute` has sent the last.
    fn push(&mut self, at: usize, compute: u64) -> u64 {
        let spec = &self.set.spec;
        let (p, d, layers) = (self.reqs[at].p, self.reqs[at].d, u128::from(spec.layers));
        let bytes = self.bytes_of(at);
        let rate = spec.links[p].send.min(spec.links[self.ps.len() + d].receive);
        let whole = u128::from(time_of(bytes, rate));
        let mut sent = u128::from(self.free_from[0][p].max(self.free_from[1][d])) * layers;
        for layer in 1..=layers {
            let computed = u128::from(self.now) * layers + layer * u128::from(compute);
            sent = sent.max(computed) + whole;
        }
        let end = sent.div_ceil(layers) as u64;
        (self.free_from[0][p], self.free_from[1][d]) = (end, end);
        let received = self.reqs.iter().filter(|req| req.d == d);
        let buffered: u64 = received
            .filter_map(|req| req.stored)
            .filter_map(|(bytes, is_in_host)| (!is_in_host).then_some(bytes))
            .sum();
        self.reqs[at].stored = Some((bytes, buffered + bytes > spec.receive_buffer));
        end + spec.latency.0
    }

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
                // A lone token is a step of decoding.
                1 => {
                    single = single.max(self.set.cost.decode.0);
                    single += self.set.cost.per_kv_token.0;
                }
                prompt => tokens += u64::from(prompt),
            }
            batch.push(at);
        }
        self.ps[p].look = None;
        if !batch.is_empty() {
            let compute = self.set.cost.prompt_2048.0 * tokens / 2048 + single;
            let mut end = self.now + compute;
            if self.pushes() {
                for &at in &batch {
                    end = end.max(self.push(at, compute));
                }
            }
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
            let is_pushed = self.pushes();
            let answered = self.answers % self.ds.len();
            self.answers += 1;
            let req = &mut self.reqs[at];
            // A proxy that pushes has named D before.
            let d = if is_pushed { req.d } else { answered };
            (req.at, req.d, req.held_p, req.since) = (At::Hop, d, !is_pushed, self.now);
            req.hop_end = self.now + 2 * self.set.spec.hop.0;
        }
        (self.ps[p].awake, self.ps[p].look) = (self.now, Some(self.now));
    }

    fn pass_d(&mut self, d: usize) {
        let (mut kv, mut copied) = (0, 0);
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
            if self.pushes() {
                let req = &mut self.reqs[at];
                (req.at, req.held_d) = (At::Running, true);
                req.waited += self.now - req.since;
                // A lone token is computed, and what was pushed of it stays where it is.
                if req.ask.prompt_tokens > 1
                    && let Some((bytes, true)) = req.stored.take()
                {
                    copied += bytes;
                }
                batch.push(at);
                continue;
            }
            self.reads += 1;
            let bytes = self.bytes_of(at);
            let begins = self.now + self.set.spec.latency.0;
            self.wire.send(at, (self.reqs[at].p, d), bytes, begins);
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
        let loads = time_of(copied, self.set.spec.host_bytes_per_s[self.ps.len() + d]);
        let end = self.now + self.set.cost.decode.0 + self.set.cost.per_kv_token.0 * kv + loads;
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
            (req.held_p, req.held_d, req.stored) = (false, false, None);
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
        while let Some(at) = self.wire.landed(self.now) {
            let req = &mut self.reqs[at];
            req.held_p = false;
            if req.abandoned {
                req.held_d = false;
            } else {
                req.at = At::Ready;
            }
        }
    }

    fn next(&self) -> u64 {
        let loops = self.ps.iter().chain(&self.ds);
        let loops = loops.filter_map(|looper| looper.step.as_ref().map(|step| step.0).or(looper.look));
        let hops = self
            .reqs
            .iter()
            .filter(|req| req.at == At::Hop)
            .map(|req| req.hop_end);
        let asked = self
            .reqs
            .iter()
            .flat_map(|req| [Some(req.ask.arrival.0), req.ask.deadline.map(|at| at.0)]);
        let all = loops.chain(self.wire.next(self.now)).chain(hops);
        all.chain(asked.flatten().filter(|&at| at > self.now))
            .min()
            .unwrap_or(u64::MAX)
    }

    fn step_to(&mut self, now: u64) {
        self.wire.flow(self.now, now);
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
        self.wire.share(now);
    }
}

fn twin(set: &Setting, requests: &[Request]) -> Vec<Option<Story>> {
    let reqs = requests.iter().enumerate().map(|(at, ask)| Req {
        ask: ask.clone(),
        at: At::Coming,
        p: at % set.spec.prefill as usize,
        d: at % set.spec.decode as usize,
        held_p: false,
        held_d: false,
        hop_end: 0,
        read_order: 0,
        stored: None,
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
        wire: Wire::new(&set.spec),
        free_from: [
            vec![0; set.spec.prefill as usize],
            vec![0; set.spec.decode as usize],
        ],
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

fn settings(flow: Flow) -> impl Strategy<Value = Setting> {
    (specs(flow), costs(), [27u32..70, 27u32..70]).prop_map(|(spec, cost, blocks)| Setting {
        spec,
        cost,
        blocks,
    })
}

/// So many tokens that the answer ends within the last block of the prompt.
fn within_the_last_block(prompt: u32, draw: u32) -> u32 {
    let room = prompt.next_multiple_of(BLOCK) - prompt;
    1 + draw % (room + 1)
}

fn engine(blocks: u32) -> EngineConfig {
    EngineConfig {
        num_gpu_blocks: blocks,
        max_num_batched_tokens: 1 << 20,
        ..vllm()
    }
}

fn check(set: &Setting, requests: &[Request], pauses: bool) -> Result<(), TestCaseError> {
    let engines = [engine(set.blocks[0]).into(), engine(set.blocks[1]).into()];
    let told = run(engines, set.cost, &set.spec, requests, pauses);
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
    prop_assert_eq!(stories, twin(set, requests));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn what_is_read_fares_as_in_the_twin(
        set in settings(Flow::Nixl), requests in traffic(2..400, within_the_last_block), pauses in any::<bool>(),
    ) {
        check(&set, &requests, pauses)?;
    }

    #[test]
    fn what_is_pushed_fares_as_in_the_twin(
        set in settings(Flow::P2pNccl), requests in traffic(1..400, within_the_last_block), pauses in any::<bool>(),
    ) {
        check(&set, &requests, pauses)?;
    }
}
