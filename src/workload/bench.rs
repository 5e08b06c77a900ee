//! The very requests that a benchmark client sends.
//!
//! Both clients draw lengths ahead of the run and gaps before or during it, from NumPy's generators with their `--seed`:
//!
//! | client | prompts, then outputs | gaps |
//! |---|---|---|
//! | `vllm bench serve` 0.33 | `default_rng(seed)` (`RandomDataset.get_sampling_params`, B-16) | `np.random.gamma` after `np.random.seed(seed)` (`get_request`, B-1, B-3) |
//! | `sglang.bench_serving` 0.5.4, 0.5.23 | `np.random.randint` (`compute_random_lens`, B-25) | `np.random.exponential` behind them (`get_request`, B-22) |
//!
//! All prompts are drawn before the first output, and SGLang's gaps after the last: each has a copy of the generator that
//! stands where the client's does then, so nothing is kept and the number of requests must be known.
//!
//! **Where it holds.** Single requests of one client, whose number is given and no instant ends them, and whose seed NumPy takes
//! (below 2³²). There,
//! * lengths of each client's own `random` data set are exact; other laws have our draws, and constant ones need none. Both
//!   clients take a tokenizer's special tokens off and servers put them back; with a range, those of vLLM's then lie around
//!   that smaller number, which is not known here;
//! * instants are exact up to the rounding of floats: vLLM's Poisson and gamma gaps and ramps, SGLang's Poisson gaps. SGLang's
//!   event loop adds its own lag to them. Prompts of vLLM's `prefix_repetition` and SGLang's Zipf groups take draws ahead of
//!   the gaps that depend on the tokenizer, so there the gaps are ours.
//!
//! Everywhere else (users, sessions, classes, traces, `knee`, whose runs have no number of requests) all draws are ours.

use super::arrivals::ramp_rate;
use super::lengths::{sglang_range, vllm_range};
use super::{Arrivals, Draws, Lengths, Prefix, WorkloadSpec};
use crate::rng::numpy::{Generator, RandomState};

/// What of the requests has our draws all the same where `spec` asks for a client's: lengths, arrivals, or both.
#[must_use]
pub fn drawn_by_us(spec: &WorkloadSpec, seed: u64) -> Vec<&'static str> {
    let (draws, run) = (spec.client.draws, BenchRun::of(spec, seed));
    let is_replay = matches!(spec.arrivals, Arrivals::Replay { .. });
    if draws == Draws::Own || is_replay {
        return Vec::new();
    }
    let is_constant = matches!(spec.lengths.constants(), (Some(_), Some(_)));
    let is_undrawn = match spec.arrivals {
        Arrivals::AllAtOnce => true,
        Arrivals::Constant { .. } => draws == Draws::Vllm,
        _ => false,
    };
    let has_lengths = is_constant || run.is_some_and(|run| run.lengths().is_some());
    let has_instants = is_undrawn || run.is_some_and(|run| run.instants().is_some());
    let ours = [("lengths", has_lengths), ("arrivals", has_instants)];
    ours.into_iter()
        .filter(|(_, is_the_clients)| !is_the_clients)
        .map(|(what, _)| what)
        .collect()
}

/// A run of a client whose draws are known.
#[derive(Clone, Copy, Debug)]
pub(super) struct BenchRun<'a> {
    spec: &'a WorkloadSpec,
    requests: u64,
    seed: u32,
}

impl<'a> BenchRun<'a> {
    /// `None` where `spec` does not ask for a client's draws, or no client would send its requests.
    pub(super) fn of(spec: &'a WorkloadSpec, seed: u64) -> Option<BenchRun<'a>> {
        let is_single = matches!(spec.prefix, Prefix::None | Prefix::Groups { .. });
        let is_one_client = spec.client.draws != Draws::Own && spec.classes.is_empty() && is_single;
        let requests = spec
            .num_prompts
            .filter(|_| is_one_client && spec.duration.is_none())?;
        let seed = u32::try_from(seed).ok()?;
        Some(BenchRun { spec, requests, seed })
    }

    /// The lengths; `None` where they are not drawn as the client draws.
    pub(super) fn lengths(&self) -> Option<BenchLengths> {
        let (input, output) = self.ranges()?;
        let mut behind_inputs = self.words();
        behind_inputs.pass(self.requests, input);
        Some(BenchLengths {
            input: (input, self.words()),
            output: (output, behind_inputs),
        })
    }

    /// Prompts and outputs of the client's own `random` data set.
    fn ranges(&self) -> Option<(Range, Range)> {
        match (self.spec.client.draws, &self.spec.lengths) {
            (
                Draws::Vllm,
                &Lengths::RandomVllm {
                    input_len,
                    output_len,
                    range_ratio,
                    output_range_ratio,
                },
            ) => Some((
                vllm_range(input_len, range_ratio),
                vllm_range(output_len, output_range_ratio),
            )),
            (
                Draws::Sglang,
                &Lengths::RandomSglang {
                    input_len,
                    output_len,
                    range_ratio,
                },
            ) => Some((
                sglang_range(input_len, range_ratio),
                sglang_range(output_len, range_ratio),
            )),
            _ => None,
        }
    }

    /// What the client draws lengths from, as it begins.
    fn words(&self) -> Words {
        match self.spec.client.draws {
            Draws::Vllm => Words::Generator(Generator::new(u64::from(self.seed))),
            Draws::Sglang | Draws::Own => Words::RandomState(Box::new(RandomState::new(self.seed))),
        }
    }

    /// The instants; `None` where they are not drawn as the client draws.
    pub(super) fn instants(&self) -> Option<BenchInstants> {
        let (burstiness, rate) = self.gaps()?;
        let is_gap_first = self.spec.client.draws == Draws::Vllm;
        let mut state = RandomState::new(self.seed);
        if let Some(lengths) = self.ranges().filter(|_| !is_gap_first) {
            for range in [lengths.0, lengths.1] {
                (0..self.requests).for_each(|_| _ = state.integer(range.1 - range.0));
            }
        }
        let mut instants = BenchInstants {
            state,
            burstiness,
            rate,
            is_gap_first,
            index: 0,
            elapsed_s: 0.0,
            factor: 1.0,
        };
        if self.spec.client.rescale_arrivals
            && let RateLaw::Flat(rate) = instants.rate
        {
            instants.factor = instants.clone().rescaling(self.requests, rate);
        }
        Some(instants)
    }

    /// Shape and rate of the gaps; `None` of what the client does not draw, or draws behind what is not known.
    fn gaps(&self) -> Option<(f64, RateLaw)> {
        let (is_dealt, is_zipf) = match self.spec.prefix {
            Prefix::Groups {
                exact_shares, zipf, ..
            } => (exact_shares, zipf > 0.0),
            _ => (false, false),
        };
        match (self.spec.client.draws, &self.spec.arrivals) {
            (Draws::Vllm, _) if is_dealt => None,
            (Draws::Sglang, _) if is_zipf => None,
            (_, &Arrivals::Poisson { request_rate }) => Some((1.0, RateLaw::Flat(request_rate))),
            (
                Draws::Vllm,
                &Arrivals::Gamma {
                    request_rate,
                    burstiness,
                },
            ) if burstiness.is_finite() => Some((burstiness, RateLaw::Flat(request_rate))),
            (
                Draws::Vllm,
                &Arrivals::Ramp {
                    start_rate,
                    end_rate,
                    exponential,
                },
            ) => {
                let rate = RateLaw::Ramp {
                    last: self.requests.saturating_sub(1).max(1),
                    start: start_rate,
                    end: end_rate,
                    exponential,
                };
                Some((1.0, rate))
            }
            _ => None,
        }
    }
}

/// Where a client's whole numbers come from.
#[derive(Debug)]
enum Words {
    Generator(Generator),
    RandomState(Box<RandomState>),
}

/// Shortest and longest length, in tokens.
type Range = (u32, u32);

impl Words {
    fn length(&mut self, (low, high): Range) -> u32 {
        let above = match self {
            Words::Generator(generator) => generator.integer(high - low),
            Words::RandomState(state) => state.integer(high - low),
        };
        low + above
    }

    /// Moves on behind so many lengths.
    fn pass(&mut self, lengths: u64, range: Range) {
        (0..lengths).for_each(|_| _ = self.length(range));
    }
}

/// Prompts and outputs, each from a generator that stands where theirs begin.
#[derive(Debug)]
pub(super) struct BenchLengths {
    input: (Range, Words),
    output: (Range, Words),
}

impl BenchLengths {
    /// The next (prompt, output), in tokens.
    pub(super) fn draw(&mut self) -> (u32, u32) {
        let [input, output] = [&mut self.input, &mut self.output].map(|(range, words)| words.length(*range));
        (input, output)
    }
}

/// Instants at which a client sends, as sums of floats: the client adds gaps up in this way.
#[derive(Clone, Debug)]
pub(super) struct BenchInstants {
    state: RandomState,
    burstiness: f64,
    rate: RateLaw,
    /// vLLM waits before it sends the first request, SGLang after it.
    is_gap_first: bool,
    index: u64,
    elapsed_s: f64,
    factor: f64,
}

/// Requests per second of the gap behind a request.
#[derive(Clone, Debug)]
enum RateLaw {
    Flat(f64),
    Ramp {
        last: u64,
        start: f64,
        end: f64,
        exponential: bool,
    },
}

impl BenchInstants {
    /// Seconds from the start at which the next request is sent.
    pub(super) fn next_s(&mut self) -> f64 {
        let before_s = self.elapsed_s;
        self.elapsed_s += self.gap_s();
        let at_s = if self.is_gap_first {
            self.elapsed_s
        } else {
            before_s
        };
        at_s * self.factor
    }

    fn gap_s(&mut self) -> f64 {
        let rate = match self.rate {
            RateLaw::Flat(rate) => rate,
            RateLaw::Ramp {
                last,
                start,
                end,
                exponential,
            } => ramp_rate(self.index as f64 / last as f64, start, end, exponential),
        };
        self.index += 1;
        self.state.gamma(self.burstiness) * (1.0 / (rate * self.burstiness))
    }

    /// What puts the last of so many requests at their number over the rate (B-1).
    fn rescaling(mut self, requests: u64, rate: f64) -> f64 {
        let last_s = (0..requests).fold(0.0, |_, _| self.next_s());
        let factor = requests as f64 / rate / last_s;
        if factor.is_finite() { factor } else { 1.0 }
    }
}

#[cfg(test)]
mod tests;
