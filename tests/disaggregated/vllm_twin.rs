//! A naive twin of vLLM's flows, NIXL and P2P NCCL: loops that go round every millisecond when they have nothing to run,
//! every event looked for among all, and layers of KV pushed one by one. Blocks run short on both sides: those that prefill
//! wait for the others to take KV over, and on those that decode the newest lose their blocks and compute anew what they know
//! (PD-17). Prompts are computed in pieces of the budget.

use plimsoll::cluster::{Disaggregation, Flow};
use plimsoll::facts::Outcome;
use plimsoll::units::Picos;
use plimsoll::workload::Request;

use crate::setup::PlainCost;
use crate::twin_parts::Wire;

pub(crate) const BLOCK: u32 = 16;
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
    /// Blocks that it has on P and on D.
    blocks: [i64; 2],
    /// Tokens computed where it is.
    computed: u32,
    preemptions: u32,
    hop_end: u64,
    /// P's answers on their way are in the order in which replicas gave them: of one instant by their number.
    hop_order: u64,
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

/// Outcome, first token, end, outputs, time waited, preemptions.
pub(crate) type Story = (Outcome, Option<u64>, u64, u32, u64, u32);

/// Who computes how many tokens.
type Batch = Vec<(usize, u32)>;

/// A loop: when its step ends, or when it looks next; asleep if neither.
#[derive(Clone, Default, Debug)]
struct Loop {
    step: Option<(u64, Batch)>,
    look: Option<u64>,
    awake: u64,
    queue: Vec<usize>,
    running: Vec<usize>,
}

#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) spec: Disaggregation,
    pub(crate) cost: PlainCost,
    pub(crate) blocks: [u32; 2],
    /// Tokens of a step.
    pub(crate) budget: u32,
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

fn blocks_for(tokens: u32) -> i64 {
    i64::from(tokens.div_ceil(BLOCK))
}

fn blocks_of(req: &Req) -> i64 {
    blocks_for(req.ask.prompt_tokens)
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
        let is_here = |req: &&Req| (if is_p { req.p } else { req.d }) == replica;
        let side = usize::from(!is_p);
        let used: i64 = self.reqs.iter().filter(is_here).map(|req| req.blocks[side]).sum();
        i64::from(self.set.blocks[side] - 1) - used
    }

    /// Gives blocks for `tokens` tokens; whether there were enough.
    fn hold(&mut self, at: usize, tokens: u32, is_p: bool) -> bool {
        let req = &self.reqs[at];
        let (side, replica) = (usize::from(!is_p), if is_p { req.p } else { req.d });
        let lacks = (blocks_for(tokens) - req.blocks[side]).max(0);
        let fits = lacks <= self.free(replica, is_p);
        if fits {
            self.reqs[at].blocks[side] += lacks;
        }
        fits
    }

    /// A step's time: a piece of one token is a decode, whatever it is of.
    fn compute(&self, batch: &Batch) -> u64 {
        let cost = &self.set.cost;
        let prompts = batch.iter().filter(|share| share.1 > 1);
        let tokens: u64 = prompts.map(|share| u64::from(share.1)).sum();
        let singles: Vec<usize> = batch
            .iter()
            .filter(|share| share.1 == 1)
            .map(|share| share.0)
            .collect();
        let kv: u64 = singles.iter().map(|&at| u64::from(self.reqs[at].computed)).sum();
        let decode = if singles.is_empty() { 0 } else { cost.decode.0 };
        cost.prompt_2048.0 * tokens / 2048 + decode + cost.per_kv_token.0 * kv
    }

    fn these(&self, at: At, replica: usize, is_p: bool) -> Vec<usize> {
        let is = |&index: &usize| {
            let req = &self.reqs[index];
            req.at == at && (if is_p { req.p } else { req.d }) == replica
        };
        (0..self.reqs.len()).filter(is).collect()
    }

    fn pass_p(&mut self, p: usize) {
        let (mut budget, mut batch) = (self.set.budget, Batch::new());
        for at in self.ps[p].running.clone() {
            self.give(at, true, &mut budget, &mut batch);
        }
        while budget > 0
            && let Some(&at) = self.ps[p].queue.first()
            && blocks_of(&self.reqs[at]) <= self.free(p, true)
        {
            self.ps[p].queue.remove(0);
            self.ps[p].running.push(at);
            let req = &mut self.reqs[at];
            (req.at, req.waited) = (At::StepP, req.waited + self.now - req.since);
            self.give(at, true, &mut budget, &mut batch);
        }
        self.ps[p].look = None;
        if !batch.is_empty() {
            let compute = self.compute(&batch);
            let mut end = self.now + compute;
            if self.pushes() {
                // The step that completes a prompt sends all of it (PD-19).
                for &(at, _) in &batch {
                    if self.reqs[at].computed == self.reqs[at].ask.prompt_tokens {
                        end = end.max(self.push(at, compute));
                    }
                }
            }
            self.ps[p].step = Some((end, batch));
        } else if !self.ps[p].queue.is_empty() {
            self.ps[p].awake = self.now + SLEEP;
            self.ps[p].look = Some(self.now + SLEEP);
        }
    }

    /// A piece of what is to be computed, as large as the budget allows; whether there were blocks for it.
    fn give(&mut self, at: usize, is_p: bool, budget: &mut u32, batch: &mut Batch) -> bool {
        let req = &self.reqs[at];
        let known = req.ask.prompt_tokens + req.outputs;
        let n = (known - req.computed).min(*budget);
        let computed = req.computed + n;
        assert!(n > 0, "who runs has something to compute");
        if !self.hold(at, computed, is_p) {
            return false;
        }
        self.reqs[at].computed = computed;
        *budget -= n;
        batch.push((at, n));
        true
    }

    fn end_p(&mut self, p: usize) {
        let (_, batch) = self.ps[p].step.take().unwrap();
        for (at, _) in batch {
            let is_whole = self.reqs[at].computed == self.reqs[at].ask.prompt_tokens;
            if self.reqs[at].at != At::StepP || !is_whole {
                continue;
            }
            self.ps[p].running.retain(|&other| other != at);
            let is_pushed = self.pushes();
            let answered = self.answers % self.ds.len();
            self.answers += 1;
            let answers = self.answers as u64;
            let req = &mut self.reqs[at];
            req.hop_order = answers;
            // A proxy that pushes has named D before.
            let d = if is_pushed { req.d } else { answered };
            if is_pushed {
                req.blocks[0] = 0;
            }
            (req.at, req.d, req.since, req.computed) = (At::Hop, d, self.now, 0);
            req.hop_end = self.now + 2 * self.set.spec.hop.0;
        }
        (self.ps[p].awake, self.ps[p].look) = (self.now, Some(self.now));
    }

    /// The running ones, in the order of their admission; whoever lacks blocks takes them from the newest, perhaps itself.
    /// Whether anybody lost its blocks.
    fn go_on(&mut self, d: usize, budget: &mut u32, batch: &mut Batch) -> bool {
        let (mut place, mut has_preempted) = (0, false);
        while *budget > 0
            && let Some(&at) = self.ds[d].running.get(place)
        {
            while !self.give(at, false, budget, batch) {
                has_preempted = true;
                let victim = self.ds[d].running.pop().unwrap();
                self.ds[d].queue.insert(0, victim);
                let req = &mut self.reqs[victim];
                (req.at, req.blocks[1], req.computed, req.since) = (At::QueueD, 0, 0, self.now);
                req.preemptions += 1;
                if victim == at {
                    return true;
                }
            }
            place += 1;
        }
        has_preempted
    }

    fn start(&mut self, at: usize, computed: u32, budget: &mut u32, batch: &mut Batch) {
        let req = &mut self.reqs[at];
        (req.at, req.computed) = (At::Running, computed);
        req.waited += self.now - req.since;
        self.ds[req.d].running.push(at);
        assert!(self.give(at, false, budget, batch));
    }

    fn pass_d(&mut self, d: usize) {
        let (mut budget, mut batch, mut copied) = (self.set.budget, Batch::new(), 0);
        if !self.go_on(d, &mut budget, &mut batch) {
            let mut ready = self.these(At::Ready, d, false);
            ready.sort_by_key(|&at| self.reqs[at].read_order);
            for at in ready {
                if budget > 0 {
                    self.start(at, self.reqs[at].ask.prompt_tokens - 1, &mut budget, &mut batch);
                }
            }
            while budget > 0
                && let Some(&at) = self.ds[d].queue.first()
                && blocks_for(self.reqs[at].ask.prompt_tokens + self.reqs[at].outputs) <= self.free(d, false)
            {
                self.ds[d].queue.remove(0);
                let prompt = self.reqs[at].ask.prompt_tokens;
                if self.reqs[at].preemptions > 0 {
                    self.start(at, 0, &mut budget, &mut batch);
                } else if self.pushes() {
                    // A lone token is computed, and what was pushed of it stays where it is.
                    if prompt > 1
                        && let Some((bytes, true)) = self.reqs[at].stored.take()
                    {
                        copied += bytes;
                    }
                    self.start(at, prompt - 1, &mut budget, &mut batch);
                } else {
                    self.reads += 1;
                    let bytes = self.bytes_of(at);
                    let begins = self.now + self.set.spec.latency.0;
                    self.wire.send(at, (self.reqs[at].p, d), bytes, begins);
                    assert!(self.hold(at, prompt, false));
                    (self.reqs[at].at, self.reqs[at].read_order) = (At::Reading, self.reads);
                }
            }
        }
        self.ds[d].look = None;
        if batch.is_empty() {
            let waits = [At::QueueD, At::Reading, At::Ready]
                .iter()
                .any(|&at| !self.these(at, d, false).is_empty());
            let abandoned = self
                .reqs
                .iter()
                .any(|req| req.d == d && req.abandoned && req.blocks[1] > 0);
            if waits || abandoned {
                self.ds[d].awake = self.now + SLEEP;
                self.ds[d].look = Some(self.now + SLEEP);
            }
            return;
        }
        let loads = time_of(copied, self.set.spec.host_bytes_per_s[self.ps.len() + d]);
        let end = self.now + self.compute(&batch) + loads;
        self.ds[d].step = Some((end, batch));
    }

    fn end_d(&mut self, d: usize) {
        let (_, batch) = self.ds[d].step.take().unwrap();
        for (at, _) in batch {
            let now = self.now;
            let req = &mut self.reqs[at];
            if req.at == At::Running && req.computed == req.ask.prompt_tokens + req.outputs {
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
        req.story = Some((
            outcome,
            req.first_token,
            now,
            req.outputs,
            req.waited,
            req.preemptions,
        ));
        if req.at == At::Reading {
            req.abandoned = true;
        } else {
            (req.blocks, req.stored) = ([0, 0], None);
        }
        req.at = At::Gone;
        for looper in [&mut self.ps[req.p], &mut self.ds[req.d]] {
            looper.queue.retain(|&other| other != at);
            looper.running.retain(|&other| other != at);
        }
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
            req.blocks[0] = 0;
            if req.abandoned {
                req.blocks[1] = 0;
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
        let is_here = |&at: &usize| self.reqs[at].at == At::Hop && self.reqs[at].hop_end == now;
        let mut here: Vec<usize> = (0..self.reqs.len()).filter(is_here).collect();
        here.sort_by_key(|&at| self.reqs[at].hop_order);
        for at in here {
            self.reqs[at].at = At::QueueD;
            self.ds[self.reqs[at].d].queue.push(at);
            self.rouse(self.reqs[at].d, false);
        }
        for at in 0..self.reqs.len() {
            if self.reqs[at].at == At::Coming && self.reqs[at].ask.arrival.0 == now {
                self.reqs[at].at = At::QueueP;
                self.ps[self.reqs[at].p].queue.push(at);
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

pub(crate) fn twin(set: &Setting, requests: &[Request]) -> Vec<Option<Story>> {
    let reqs = requests.iter().enumerate().map(|(at, ask)| Req {
        ask: ask.clone(),
        at: At::Coming,
        p: at % set.spec.prefill as usize,
        d: at % set.spec.decode as usize,
        blocks: [0, 0],
        computed: 0,
        preemptions: 0,
        hop_end: 0,
        hop_order: 0,
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
