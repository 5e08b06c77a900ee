//! What traffic to make: the resolved, valid description from which a generator is built.

use std::sync::Arc;

use super::lengths::{sglang_range, vllm_range};
use super::{MemorylessLength, Recording, Request, ReuseLaw};
use crate::units::Picos;

/// A whole workload. Resolved: every field is valid and meant.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadSpec {
    /// When requests are sent.
    pub arrivals: Arrivals,
    /// How long prompts and outputs are.
    pub lengths: Lengths,
    /// What prompts share.
    pub prefix: Prefix,
    /// How the client behaves.
    pub client: Client,
    /// Stop sending after so many requests; `None` sends until the run is stopped.
    pub num_prompts: Option<u64>,
    /// Stop sending at this instant; `None` does not.
    pub duration: Option<Picos>,
    /// Outputs that end by an end-of-sequence token before `max_tokens`; `None` ends every output by length.
    pub endings: Option<Endings>,
    /// Classes of requests, each with lengths of its own in place of `lengths`; none where all are of one kind.
    pub classes: Vec<Class>,
}

impl WorkloadSpec {
    /// The workloads of the streams that it is made of: itself, or those of [`Arrivals::Superposed`].
    #[must_use]
    pub fn parts(&self) -> Vec<&WorkloadSpec> {
        match &self.arrivals {
            Arrivals::Superposed { streams } => streams.iter().map(|stream| &stream.spec).collect(),
            _ => vec![self],
        }
    }

    /// Whether requests come more closely together at times than in a Poisson process.
    #[must_use]
    pub fn is_bursty(&self) -> bool {
        self.parts().iter().any(|part| match part.arrivals {
            Arrivals::Gamma { burstiness, .. } => burstiness < 1.0,
            Arrivals::Mmpp { .. }
            | Arrivals::Ramp { .. }
            | Arrivals::Profile { .. }
            | Arrivals::Replay { .. } => true,
            Arrivals::Poisson { .. }
            | Arrivals::Constant { .. }
            | Arrivals::AllAtOnce
            | Arrivals::Users { .. }
            | Arrivals::Superposed { .. } => false,
        })
    }

    /// The stream that sends the requests of a class; `None` where all come from one.
    #[must_use]
    pub fn stream_of(&self, class: u32) -> Option<&Stream> {
        let Arrivals::Superposed { streams } = &self.arrivals else {
            return None;
        };
        streams.iter().find(|stream| stream.classes.contains(&class))
    }

    /// The requests that it sends, once each, where they are listed: a trace's, or those of recorded conversations.
    #[must_use]
    pub fn listed(&self) -> Option<&[Request]> {
        match (&self.arrivals, &self.prefix) {
            (Arrivals::Replay { requests, .. }, _) => Some(requests),
            (_, Prefix::Recorded(recording)) => Some(recording.requests()),
            _ => None,
        }
    }

    /// Whether turns of conversations follow the answers before them.
    #[must_use]
    pub fn has_conversations(&self) -> bool {
        matches!(self.prefix, Prefix::Sessions { .. } | Prefix::Recorded(_))
    }

    /// Whether it ends by itself: by a number of requests, an instant, or with a trace.
    #[must_use]
    pub fn has_end(&self) -> bool {
        self.listed().is_some() || self.num_prompts.is_some() || self.duration.is_some()
    }
}

/// A class of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// What results call it.
    pub name: String,
    /// Its share of the requests of the arrivals that it comes from, relative to the sum of all shares of them. One that
    /// has arrivals of its own has all of them.
    pub share: f64,
    /// How long its prompts and outputs are.
    pub lengths: Lengths,
    /// Smaller is served first under the priority policy.
    pub priority: i64,
    /// The model that it asks for; `None` where only one is served.
    pub model: Option<String>,
    /// Limits of its own that a good request meets all of; empty where those of the scenario hold.
    pub promise: Promise,
}

/// Limits that a good request meets all of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promise {
    /// Most time to first token.
    pub ttft: Option<Picos>,
    /// Most mean time per output token after the first.
    pub tpot: Option<Picos>,
    /// Most time from send to last token.
    pub e2el: Option<Picos>,
}

/// When requests are sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// Independent exponential gaps; rate in requests per second.
    Poisson {
        /// λ in requests/s.
        request_rate: f64,
    },
    /// Gamma gaps: burstiness 1 is Poisson, below 1 burstier (coefficient of variation `1/√burstiness`).
    Gamma {
        /// λ in requests/s.
        request_rate: f64,
        /// Shape of the gamma law, κ.
        burstiness: f64,
    },
    /// Equal gaps.
    Constant {
        /// λ in requests/s.
        request_rate: f64,
    },
    /// Everything at time 0 (`--request-rate inf`); with a concurrency limit in [`Client`] a closed loop.
    AllAtOnce,
    /// Independent users: think, send, wait for the answer, think again.
    Users {
        /// How many.
        users: u32,
        /// Mean of their exponential think time.
        think_time: Picos,
    },
    /// The rate goes from one value to another over the requests (vLLM `--ramp-up-strategy`, rule B-3).
    Ramp {
        /// requests/s at the first request.
        start_rate: f64,
        /// requests/s at the last.
        end_rate: f64,
        /// `a·(b/a)^x` rather than `a + (b−a)·x`.
        exponential: bool,
    },
    /// Markov-modulated Poisson process: the rate jumps between states with exponential sojourns, in a cycle.
    Mmpp {
        /// The states, visited in order and again from the first.
        states: Vec<MmppState>,
    },
    /// A day curve: Poisson (or gamma) whose rate follows a piecewise-constant profile, repeated at its end.
    Profile {
        /// Length of one piece.
        piece: Picos,
        /// requests/s in each piece.
        rates: Arc<[f64]>,
        /// Shape of the gamma law of gaps in operational time, 1 for Poisson.
        burstiness: f64,
    },
    /// Given instants; `time_scale` stretches (2 = half the rate). Lengths and prefixes come with them.
    Replay {
        /// Requests in order of arrival, as read; ids are renumbered.
        requests: Arc<[Request]>,
        /// Factor on arrival times.
        time_scale: f64,
    },
    /// Several clients, each of whom sends by itself: see [`crate::workload::Superposition`]. Lengths, prefix, client and
    /// endings stand in each stream; those beside this are not read.
    Superposed {
        /// In the order in which equal instants are taken.
        streams: Arc<[Stream]>,
    },
}

/// A client who sends by itself, beside others.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// Whose requests it sends, by their number among the classes of the whole workload; several where they share them out.
    pub classes: Vec<u32>,
    /// When it begins: its own clock starts there.
    pub start: Picos,
    /// Streams with equal numbers mean the same texts by the hash ids of their traces.
    pub hash_space: u32,
    /// What it sends. Its classes are those of [`Stream::classes`] if they are several, else none.
    pub spec: WorkloadSpec,
}

/// One state of a Markov-modulated Poisson process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MmppState {
    /// requests/s while in it.
    pub request_rate: f64,
    /// Mean sojourn.
    pub mean_sojourn: Picos,
}

/// How long prompts and outputs are (tokens). With [`Arrivals::Replay`] and [`Prefix::Recorded`] the trace's own lengths are used instead.
#[derive(Clone, Debug, PartialEq)]
pub enum Lengths {
    /// Always the same.
    Fixed {
        /// Prompt.
        input_len: u32,
        /// Output.
        output_len: u32,
    },
    /// vLLM's `random` dataset: uniform integers in `[⌊L(1−r)⌋, ⌈L(1+r)⌉]`, at least 1 (B-16).
    RandomVllm {
        /// Nominal prompt.
        input_len: u32,
        /// Nominal output.
        output_len: u32,
        /// r in [0, 1) of prompts.
        range_ratio: f64,
        /// r in [0, 1) of outputs.
        output_range_ratio: f64,
    },
    /// SGLang's `random` dataset: uniform integers in `[max(⌊L·r⌋, 1), L]` (B-25).
    RandomSglang {
        /// Longest prompt.
        input_len: u32,
        /// Longest output.
        output_len: u32,
        /// r in [0, 1].
        range_ratio: f64,
    },
    /// Lognormal prompt and output, correlated in the logarithm, cut to `[1, max]` by drawing again.
    Lognormal {
        /// Prompt.
        input: LognormalLength,
        /// Output.
        output: LognormalLength,
        /// Correlation of the two logarithms, in (−1, 1).
        correlation: f64,
    },
    /// Laws without memory: of the tokens that an answer still has to come its length so far says nothing. The service times of M/M/1.
    Memoryless {
        /// Prompt.
        input: MemorylessLength,
        /// Output.
        output: MemorylessLength,
        /// The geometric law, whole numbers from 1; else the exponential one, rounded to whole tokens and at least 1.
        is_geometric: bool,
    },
    /// Piecewise-linear quantile functions joined by a Gaussian copula: what `trace --fit` writes.
    Quantiles {
        /// Prompt length at equally spaced probabilities from 0 to 1, non-decreasing.
        input: Arc<[f64]>,
        /// Output length likewise.
        output: Arc<[f64]>,
        /// Correlation of the normal scores, in (−1, 1).
        correlation: f64,
    },
    /// Pairs drawn with replacement from a list (an empirical file).
    Empirical {
        /// (prompt, output).
        pairs: Arc<[(u32, u32)]>,
    },
}

impl Lengths {
    /// The shortest and the longest prompt that can be drawn, and output.
    #[must_use]
    pub fn ranges(&self) -> [(u32, u32); 2] {
        let ends = |values: &[f64]| {
            let (first, last) = (values.first().unwrap_or(&1.0), values.last().unwrap_or(&1.0));
            ((first.floor() as u32).max(1), last.ceil() as u32)
        };
        match self {
            Lengths::Fixed {
                input_len,
                output_len,
            } => [(*input_len, *input_len), (*output_len, *output_len)],
            Lengths::RandomVllm {
                input_len,
                output_len,
                range_ratio,
                output_range_ratio,
            } => [
                vllm_range(*input_len, *range_ratio),
                vllm_range(*output_len, *output_range_ratio),
            ],
            Lengths::RandomSglang {
                input_len,
                output_len,
                range_ratio,
            } => [
                sglang_range(*input_len, *range_ratio),
                sglang_range(*output_len, *range_ratio),
            ],
            Lengths::Lognormal { input, output, .. } => [(1, input.max), (1, output.max)],
            Lengths::Memoryless { input, output, .. } => [input.range(), output.range()],
            Lengths::Quantiles { input, output, .. } => [ends(input), ends(output)],
            Lengths::Empirical { pairs } => {
                let range = |part: fn(&(u32, u32)) -> u32| {
                    let all = || pairs.iter().map(part);
                    (all().min().unwrap_or(1), all().max().unwrap_or(1))
                };
                [range(|pair| pair.0), range(|pair| pair.1)]
            }
        }
    }

    /// The prompt that all requests have, and the output, each where there is only one.
    #[must_use]
    pub fn constants(&self) -> (Option<u32>, Option<u32>) {
        match *self {
            Lengths::Fixed {
                input_len,
                output_len,
            } => (Some(input_len), Some(output_len)),
            Lengths::RandomVllm {
                input_len,
                output_len,
                range_ratio,
                output_range_ratio,
            } => (
                (range_ratio == 0.0).then_some(input_len),
                (output_range_ratio == 0.0).then_some(output_len),
            ),
            Lengths::RandomSglang {
                input_len,
                output_len,
                range_ratio,
            } => {
                let is_constant = range_ratio == 1.0;
                (
                    is_constant.then_some(input_len),
                    is_constant.then_some(output_len),
                )
            }
            Lengths::Memoryless { input, output, .. } => (input.constant(), output.constant()),
            Lengths::Lognormal { .. } | Lengths::Quantiles { .. } | Lengths::Empirical { .. } => (None, None),
        }
    }

    /// The same with lengths that are always the same evenly spread about it, by that share either way; `None` of a law that draws
    /// them.
    #[must_use]
    pub fn spread(&self, share: f64) -> Option<Lengths> {
        let (input_len, output_len, drawn) = match *self {
            Lengths::Fixed {
                input_len,
                output_len,
            } => (input_len, output_len, (0.0, 0.0)),
            Lengths::RandomVllm {
                input_len,
                output_len,
                range_ratio,
                output_range_ratio,
            } => (input_len, output_len, (range_ratio, output_range_ratio)),
            Lengths::RandomSglang {
                input_len,
                output_len,
                range_ratio: 1.0,
            } => (input_len, output_len, (0.0, 0.0)),
            _ => return None,
        };
        Some(Lengths::RandomVllm {
            input_len,
            output_len,
            range_ratio: drawn.0.max(share),
            output_range_ratio: drawn.1.max(share),
        })
    }
}

/// A lognormal length by its mean and its median-to-mean spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LognormalLength {
    /// Median in tokens, `exp(μ)`.
    pub median: f64,
    /// Standard deviation of the logarithm, σ.
    pub sigma: f64,
    /// Longest allowed.
    pub max: u32,
}

/// What prompts share with each other.
#[derive(Clone, Debug, PartialEq)]
pub enum Prefix {
    /// Nothing (the trace's own sharing with [`Arrivals::Replay`]).
    None,
    /// Each request starts with one of `count` prefixes, put in front of its own tokens (added to the prompt length).
    Groups {
        /// How many prefixes there are.
        count: u32,
        /// Tokens of each.
        prefix_len: u32,
        /// Zipf exponent of their popularity; 0 is uniform.
        zipf: f64,
        /// vLLM `prefix_repetition`: exactly `num_prompts/count` requests a prefix, shuffled, instead of drawing. Without
        /// `num_prompts` they are drawn.
        exact_shares: bool,
    },
    /// Prompts that begin as an earlier one did; what they share is part of their length, not added to it.
    Reuse(ReuseLaw),
    /// Multi-turn conversations: turn k's prompt is all earlier prompts and answers plus new tokens (the prompt length).
    /// Arrivals start conversations; the next turn is sent one think time after the answer.
    Sessions {
        /// Mean number of turns (geometric, at least 1), or exactly this many.
        turns: f64,
        /// Exactly `turns` (an integer) instead of geometric.
        fixed_turns: bool,
        /// Mean of the exponential think time between turns.
        think_time: Picos,
        /// A system prompt that all conversations share.
        shared_system_len: u32,
    },
    /// The conversations of a file, each once and in its order, with their own lengths and texts. Arrivals, or users, begin them.
    Recorded(Arc<Recording>),
}

impl Prefix {
    /// Tokens that stand in front of every first prompt, beside its own.
    #[must_use]
    pub fn shared_len(&self) -> u32 {
        match *self {
            Prefix::Groups { prefix_len, .. } => prefix_len,
            Prefix::Sessions {
                shared_system_len, ..
            } => shared_system_len,
            Prefix::None | Prefix::Reuse(_) | Prefix::Recorded(_) => 0,
        }
    }
}

/// How the client behaves; by default it sends when requests arrive, and waits for ever.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Client {
    /// Most requests in flight; a request's clock starts when it gets its place (B-4).
    pub max_concurrency: Option<u32>,
    /// vLLM's client: arrivals rescaled so that the last falls at `N/λ` (B-1). Needs `num_prompts`; only Poisson, gamma
    /// and constant gaps between single requests are rescaled, as in that client.
    pub rescale_arrivals: bool,
    /// Whose random numbers lengths and gaps are made of.
    pub draws: Draws,
    /// The client gives up after so long.
    pub timeout: Option<Picos>,
    /// Classes of priority with their shares; empty gives every request 0.
    pub priorities: Vec<(i64, f64)>,
}

/// Whose random numbers requests are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Draws {
    /// Our own streams.
    #[default]
    Own,
    /// Those of `vllm bench serve` with the same seed, as far as `workload/bench.rs` says.
    Vllm,
    /// Those of `sglang.bench_serving`, likewise.
    Sglang,
}

/// Outputs that end by themselves: `output_len` is `max_tokens`, the true end is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Endings {
    /// Each token ends the output with this probability (geometric).
    Hazard {
        /// Probability per token.
        per_token: f64,
    },
    /// A share of the requests ends early, uniformly before its limit.
    Share {
        /// In [0, 1].
        early: f64,
    },
}
