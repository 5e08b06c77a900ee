//! What keeps a rate from being higher.

use statrs::distribution::{DiscreteCDF, Poisson};

use crate::metrics::{Occupancy, Summary};

/// The engine's caps, all replicas alike, and what is known of how they bind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EngineLimits {
    /// Replicas.
    pub replicas: u32,
    /// Most running sequences of a replica.
    pub max_num_seqs: u32,
    /// Token budget of a step.
    pub max_num_batched_tokens: u32,
    /// By what share a token of a prompt takes less in a step of twice that budget.
    pub larger_budget_saves: f64,
    /// Tokens whose KV a replica holds.
    pub kv_tokens: u64,
    /// Tokens whose KV a request needs there on average; 0 where that is not known.
    pub tokens_each: f64,
}

/// How hard each resource is pressed, in shares of what it offers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Which of several pools it is on.
    pub pool: Option<usize>,
    /// Set where the links between prefill and decode are what is pressed, to the share of their bandwidth that is used.
    pub links: Option<f64>,
    /// FLOP/s against the compute roof.
    pub compute: f64,
    /// Bytes/s against memory bandwidth.
    pub bandwidth: f64,
    /// Share of the time in which steps wait for the host.
    pub host: f64,
    /// Share of the time of steps in which they wait for KV that comes from outside the GPU.
    pub loads: f64,
    /// Of the time of the API servers, what requests that come in take and tokens that go out one by one; above 1 several tokens go out
    /// together.
    pub front_end: f64,
    /// Of what they can do at most; from 1 on they fall behind for good.
    pub front_end_at_most: f64,
    /// Largest share of KV blocks in use.
    pub kv_blocks: f64,
    /// Share of the time in which one request more would find no room there.
    pub no_room: f64,
    /// Largest running batch against `max_num_seqs`.
    pub seqs: f64,
    /// Mean tokens of steps with prefill against the token budget.
    pub token_budget: f64,
    /// By what share a token of a prompt takes less in a step of twice the budget.
    pub larger_budget_saves: f64,
    /// Share of the time in which steps run.
    pub busy: f64,
    /// Share of steps that carry a piece of a prompt.
    pub mixed: f64,
    /// Mean sequences that decode in a step.
    pub batch: f64,
    /// Mean number waiting over the mean number in the system.
    pub waiting: f64,
    /// What the unluckiest hundredth wait before their first step, in mean steps; 0 where that is not known.
    pub steps_waited: f64,
    /// Preemptions per completed request.
    pub preemptions: f64,
}

/// The resource that runs out first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limiter {
    /// Prefill computes at the roof.
    PrefillCompute,
    /// Decode reads memory at the roof.
    HbmBandwidth,
    /// No KV block is free.
    KvBlocks,
    /// `max_num_seqs` sequences run.
    MaxNumSeqs,
    /// Steps are full at `max_num_batched_tokens` while the device is not.
    TokenBudget,
    /// The host is slower than the device.
    Host,
    /// Steps wait for KV from outside the GPU.
    Loads,
    /// Requests and tokens wait for each other in the API server, around the engine.
    FrontEnd,
    /// KV takes its time between prefill and decode.
    KvLinks,
}

impl Pressure {
    /// From a run's averages; `compute`, `bandwidth` and `host` come from whoever knows the step's cost.
    #[must_use]
    pub fn of(summary: &Summary, limits: &EngineLimits, compute: f64, bandwidth: f64, host: f64) -> Pressure {
        let (occupancy, work) = (&summary.occupancy, &summary.work);
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let mixed_steps = (work.steps - work.decode_only_steps) as f64;
        // Decoding sequences ride along in mixed steps as often as in any other.
        let riding = share(work.decode_tokens as f64, work.steps as f64);
        let mixed_tokens = share(work.prefill_tokens as f64, mixed_steps) + riding;
        let seqs = f64::from(limits.max_num_seqs) * f64::from(limits.replicas);
        Pressure {
            pool: None,
            links: None,
            compute,
            bandwidth,
            host,
            loads: 0.0,
            front_end: 0.0,
            front_end_at_most: 0.0,
            kv_blocks: occupancy.kv_usage_max,
            no_room: no_room(occupancy, limits),
            seqs: share(f64::from(occupancy.running_max), seqs),
            token_budget: share(mixed_tokens, f64::from(limits.max_num_batched_tokens)),
            larger_budget_saves: limits.larger_budget_saves,
            busy: occupancy.busy,
            mixed: share(mixed_steps, work.steps as f64),
            batch: riding,
            waiting: share(occupancy.waiting, occupancy.in_system),
            steps_waited: share(
                summary.queue_time.quantile_s(0.99).unwrap_or_default(),
                share(work.busy_s, work.steps as f64),
            ),
            preemptions: share(summary.preemptions as f64, summary.completed as f64),
        }
    }

    /// The resource that runs out first: API servers that fall behind, a cap of the engine that makes requests wait or lose their blocks,
    /// else the hardest pressed part of the machine.
    #[must_use]
    pub fn limiter(&self) -> Limiter {
        if self.links.is_some() {
            return Limiter::KvLinks;
        }
        // Then requests come in by bursts, and what they fill up besides would be free otherwise.
        if self.front_end_at_most >= 1.0 {
            return Limiter::FrontEnd;
        }
        // Promises of a percentile break over the few who wait, long before many do.
        let queueing = self.waiting >= QUEUEING || self.steps_waited >= STEPS_WAITED;
        if self.preemptions > PREEMPTING || (queueing && self.no_room >= NO_ROOM) {
            return Limiter::KvBlocks;
        }
        if queueing && self.seqs >= FULL {
            return Limiter::MaxNumSeqs;
        }
        let is_budget_full = queueing && self.token_budget >= BUDGET_FULL && self.compute < IDLE_DEVICE;
        if is_budget_full && self.larger_budget_saves >= BUDGET_SAVES {
            return Limiter::TokenBudget;
        }
        if self.front_end >= FRONT_END_FULL {
            return Limiter::FrontEnd;
        }
        // Steps that prompts fill compute at the roof, however little all steps together do.
        if is_budget_full {
            return Limiter::PrefillCompute;
        }
        if self.loads > self.compute.max(self.bandwidth).max(self.host) {
            return Limiter::Loads;
        }
        if self.host >= self.compute && self.host >= self.bandwidth {
            Limiter::Host
        } else if self.compute >= self.bandwidth {
            Limiter::PrefillCompute
        } else {
            Limiter::HbmBandwidth
        }
    }

    /// The resource that slows the tokens of those who are served already: who waits for a place does not, only who loses one.
    #[must_use]
    pub fn limiter_of_pace(&self) -> Limiter {
        Pressure {
            waiting: 0.0,
            steps_waited: 0.0,
            ..*self
        }
        .limiter()
    }
}

/// Share of the time in which a request more, of the mean size, would find no room in the KV pool, if those inside come and go by
/// themselves: a Poisson number of them, whose mean is that of the run. None where at its fullest there was room for one more. Where it
/// is not known what a request needs, all of it where the pool once was full.
fn no_room(occupancy: &Occupancy, limits: &EngineLimits) -> f64 {
    let share_each = limits.tokens_each / limits.kv_tokens.max(1) as f64;
    if share_each <= 0.0 {
        return if occupancy.kv_usage_max >= FULL { 1.0 } else { 0.0 };
    }
    if occupancy.kv_usage_max + share_each < FULL {
        return 0.0;
    }
    let places = (1.0 / share_each).floor() as u64;
    match Poisson::new(occupancy.kv_usage / share_each) {
        Ok(inside) if places > 0 => inside.sf(places - 1),
        Ok(_) => 1.0,
        Err(_) => 0.0,
    }
}

// Shares at which a resource counts as what limits; assumed, and only what the words say: the knee does not depend on them.

/// Of places or blocks in use, at the most, above which they are full.
const FULL: f64 = 0.98;
/// Of the time in which no room is left for one more, from which on requests wait for room.
const NO_ROOM: f64 = 0.005;
/// Of the requests inside that wait, from which on there is a queue.
const QUEUEING: f64 = 0.02;
/// Steps that the unluckiest wait, from which on it is for more than the front end, the step under way and prompts before theirs.
const STEPS_WAITED: f64 = 20.0;
/// Preemptions per answered request above which blocks are short.
const PREEMPTING: f64 = 0.001;
/// Of the token budget in steps with a prompt, from which on it is full; such steps end with what is left of prompts.
const BUDGET_FULL: f64 = 0.9;
/// By which a token of a prompt must take less in a step of twice the budget, for that to be what prompts wait for.
const BUDGET_SAVES: f64 = 0.1;
/// Of an API server's time, from which on whatever comes there waits for several others.
pub const FRONT_END_FULL: f64 = 0.8;
/// Of its arithmetic below which a device waits for more tokens.
const IDLE_DEVICE: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caps_that_make_requests_wait_come_before_roofs() {
        let check = |pressure: Pressure, limiter| assert_eq!(pressure.limiter(), limiter);
        let base = Pressure {
            compute: 0.3,
            bandwidth: 0.6,
            waiting: 0.3,
            ..Pressure::default()
        };
        check(base, Limiter::HbmBandwidth);
        let crossing = Pressure {
            links: Some(0.5),
            ..base
        };
        check(crossing, Limiter::KvLinks);
        check(Pressure { compute: 0.9, ..base }, Limiter::PrefillCompute);
        check(Pressure { host: 0.7, ..base }, Limiter::Host);
        check(Pressure { no_room: 0.1, ..base }, Limiter::KvBlocks);
        check(
            Pressure {
                preemptions: 0.1,
                ..base
            },
            Limiter::KvBlocks,
        );
        check(Pressure { loads: 0.7, ..base }, Limiter::Loads);
        let streaming = Pressure {
            front_end: 0.9,
            ..base
        };
        check(streaming, Limiter::FrontEnd);
        assert_eq!(
            streaming.limiter_of_pace(),
            Limiter::FrontEnd,
            "tokens wait there for each other and for prompts"
        );
        let behind = |front_end_at_most| Pressure {
            seqs: 1.0,
            front_end: 1.8,
            front_end_at_most,
            ..base
        };
        check(behind(0.6), Limiter::MaxNumSeqs);
        check(behind(1.8), Limiter::FrontEnd);
        check(Pressure { seqs: 1.0, ..base }, Limiter::MaxNumSeqs);
        assert_eq!(
            Pressure { seqs: 1.0, ..base }.limiter_of_pace(),
            Limiter::HbmBandwidth
        );
        // One in a hundred waits for a place, and hardly anybody on average.
        let unlucky = Pressure {
            seqs: 1.0,
            waiting: 0.01,
            steps_waited: 60.0,
            ..base
        };
        check(unlucky, Limiter::MaxNumSeqs);
        assert_eq!(unlucky.limiter_of_pace(), Limiter::HbmBandwidth);
        let served = Pressure {
            steps_waited: 4.0,
            ..unlucky
        };
        check(served, Limiter::HbmBandwidth);
        let preempting = Pressure {
            preemptions: 0.1,
            ..base
        };
        assert_eq!(preempting.limiter_of_pace(), Limiter::KvBlocks);
        check(
            Pressure {
                seqs: 1.0,
                waiting: 0.0,
                ..base
            },
            Limiter::HbmBandwidth,
        );
        let full_steps = |larger_budget_saves| Pressure {
            token_budget: 0.95,
            larger_budget_saves,
            ..base
        };
        check(full_steps(0.3), Limiter::TokenBudget);
        check(full_steps(0.02), Limiter::PrefillCompute);
    }

    #[test]
    fn a_pool_is_full_where_one_request_more_would_find_no_room() {
        let share = |kv_tokens: u64, kv_usage: f64, kv_usage_max: f64, tokens_each: f64| {
            let limits = EngineLimits {
                replicas: 1,
                max_num_seqs: 256,
                max_num_batched_tokens: 8192,
                larger_budget_saves: 0.0,
                kv_tokens,
                tokens_each,
            };
            let occupancy = Occupancy {
                kv_usage,
                kv_usage_max,
                ..Occupancy::default()
            };
            no_room(&occupancy, &limits)
        };
        // 8,100 tokens each: three fit into 32,000, and 1.3 are there on average.
        let of_three = share(32_000, 1.3 * 8_100.0 / 32_000.0, 0.76, 8_100.0);
        let below = (-1.3_f64).exp() * (1.0 + 1.3 + 1.3 * 1.3 / 2.0);
        assert!((of_three - (1.0 - below)).abs() < 1e-9, "{of_three}");
        // A fourth would have had room in 40,000 at any time.
        assert_eq!(share(40_000, 0.3, 0.76, 8_100.0), 0.0);
        // Of 55 that fit into a larger pool a tenth was there on average, and once nearly all.
        assert!(share(450_000, 0.1, 0.99, 8_100.0) < 1e-6);
        // Without a size what is known is that it was full.
        assert_eq!(
            (share(450_000, 0.1, 0.99, 0.0), share(450_000, 0.1, 0.9, 0.0)),
            (1.0, 0.0)
        );
    }
}
