//! Instants at which an open source sends: renewal processes, ramps, modulated rates and given lists.
//!
//! Each gap is drawn in floating point, rounded once to whole picoseconds and added to an integer clock, so that the
//! instants are the same however the stream is consumed and never go back. Draws are of unit mean and are scaled by
//! the rate afterwards: one seed at two rates gives the same gaps on two scales (common random numbers). Instants that a
//! benchmark client draws are summed up as that client does, and rounded then.

use std::sync::Arc;

use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution, Exp1, Gamma};

use super::bench::{BenchInstants, BenchRun};
use super::modulation::Modulation;
use super::{Arrivals, Request, WorkloadSpec};
use crate::rng::{Purpose, stream};
use crate::units::{PICOS_PER_SECOND, Picos};

/// A stream of instants, in order.
#[derive(Debug)]
pub(super) struct Instants {
    process: Process,
    clock: Picos,
    rng: ChaCha8Rng,
    clock_exhausted: bool,
}

#[derive(Debug)]
enum Process {
    Renewal {
        gaps: GapLaw,
        mean: f64,
    },
    Rescaled {
        gaps: GapLaw,
        mean: f64,
        rescaling: Rescaling,
    },
    Ramp {
        index: u64,
        last: u64,
        start_rate: f64,
        end_rate: f64,
        exponential: bool,
    },
    AllAtOnce,
    Modulated {
        gaps: GapLaw,
        modulation: Modulation,
    },
    Given {
        requests: Arc<[Request]>,
        index: usize,
        time_scale: f64,
    },
    Bench(Box<BenchInstants>),
}

impl Instants {
    /// Opens the source that `spec` describes; `rescaled` asks for rule B-1. A benchmark client whose draws are known draws
    /// its instants itself.
    pub(super) fn new(spec: &WorkloadSpec, seed: u64, rescaled: bool) -> Instants {
        let mut rng = stream(seed, Purpose::Arrivals, 0);
        if let Some(instants) = BenchRun::of(spec, seed).and_then(|run| run.instants()) {
            return Instants {
                process: Process::Bench(Box::new(instants)),
                clock: Picos::ZERO,
                rng,
                clock_exhausted: false,
            };
        }
        let process = match &spec.arrivals {
            Arrivals::Poisson { request_rate } => renewal(GapLaw::Exponential, *request_rate),
            Arrivals::Gamma {
                request_rate,
                burstiness,
            } => renewal(GapLaw::new(*burstiness), *request_rate),
            Arrivals::Constant { request_rate } => renewal(GapLaw::Constant, *request_rate),
            Arrivals::AllAtOnce => Process::AllAtOnce,
            Arrivals::Users { .. } | Arrivals::Superposed { .. } => {
                unreachable!("users are a closed source, and each of several clients has a source of its own")
            }
            Arrivals::Ramp {
                start_rate,
                end_rate,
                exponential,
            } => {
                assert_rate(*start_rate);
                assert_rate(*end_rate);
                let requests = spec.num_prompts.expect("a ramp runs over num_prompts requests");
                Process::Ramp {
                    index: 0,
                    last: requests.saturating_sub(1).max(1),
                    start_rate: *start_rate,
                    end_rate: *end_rate,
                    exponential: *exponential,
                }
            }
            Arrivals::Mmpp { states } => Process::Modulated {
                gaps: GapLaw::Exponential,
                modulation: Modulation::markov(states, seed),
            },
            Arrivals::Profile {
                piece,
                rates,
                burstiness,
            } => Process::Modulated {
                gaps: GapLaw::new(*burstiness),
                modulation: Modulation::cycle(*piece, rates.clone()),
            },
            Arrivals::Replay { requests, time_scale } => {
                assert!(
                    time_scale.is_finite() && *time_scale > 0.0,
                    "time_scale is a positive number"
                );
                Process::Given {
                    requests: requests.clone(),
                    index: 0,
                    time_scale: *time_scale,
                }
            }
        };
        let process = match process {
            Process::Renewal { gaps, mean } if rescaled => {
                let requests = spec
                    .num_prompts
                    .expect("rescale_arrivals spreads num_prompts requests");
                let rescaling = Rescaling::measure(&gaps, mean, requests, &mut rng);
                rng = stream(seed, Purpose::Arrivals, 0);
                Process::Rescaled {
                    gaps,
                    mean,
                    rescaling,
                }
            }
            other => other,
        };
        Instants {
            process,
            clock: Picos::ZERO,
            rng,
            clock_exhausted: false,
        }
    }

    /// The next instant; `None` at the end of a given list, or past the end of the clock.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Option<Picos> {
        let rng = &mut self.rng;
        let next = match &mut self.process {
            Process::Renewal { gaps, mean } => after(self.clock, round(gaps.draw(rng) * *mean)),
            Process::Rescaled {
                gaps,
                mean,
                rescaling,
            } => {
                let raw = after(rescaling.drawn, round(gaps.draw(rng) * *mean));
                raw.map(|raw| {
                    rescaling.drawn = raw;
                    rescaling.rescale(raw)
                })
            }
            Process::Ramp {
                index,
                last,
                start_rate,
                end_rate,
                exponential,
            } => {
                let rate = ramp_rate(*index as f64 / *last as f64, *start_rate, *end_rate, *exponential);
                *index += 1;
                after(
                    self.clock,
                    round(GapLaw::Exponential.draw(rng) * picos_per_request(rate)),
                )
            }
            Process::AllAtOnce => Some(Picos::ZERO),
            Process::Modulated { gaps, modulation } => {
                let operational = gaps.draw(rng);
                modulation.advance(self.clock, operational)
            }
            Process::Given {
                requests,
                index,
                time_scale,
            } => {
                let request = requests.get(*index)?;
                *index += 1;
                stretch(request.arrival, *time_scale)
            }
            Process::Bench(instants) => {
                after(Picos::ZERO, round(instants.next_s() * PICOS_PER_SECOND as f64))
            }
        };
        self.clock_exhausted |= next.is_none();
        self.clock = next?;
        next
    }

    /// Whether the source ended because its next instant lies past the end of the clock.
    pub(super) fn clock_exhausted(&self) -> bool {
        self.clock_exhausted
    }
}

fn renewal(gaps: GapLaw, request_rate: f64) -> Process {
    assert_rate(request_rate);
    Process::Renewal {
        gaps,
        mean: picos_per_request(request_rate),
    }
}

fn assert_rate(request_rate: f64) {
    assert!(
        request_rate.is_finite() && request_rate > 0.0,
        "a request rate is a positive number of requests/s"
    );
}

fn picos_per_request(request_rate: f64) -> f64 {
    PICOS_PER_SECOND as f64 / request_rate
}

/// To the nearest picosecond; what is past the end of the clock is its end, where [`after`] stops.
pub(super) fn round(picos: f64) -> Picos {
    Picos::nearest(picos).unwrap_or(Picos::MAX)
}

/// `now + length`; `None` at or past the end of the clock.
pub(super) fn after(now: Picos, length: Picos) -> Option<Picos> {
    now.checked_add(length).filter(|instant| *instant < Picos::MAX)
}

/// `instant · factor` to the nearest picosecond, exact where the factor is 1; `None` past the end of the clock.
fn stretch(instant: Picos, factor: f64) -> Option<Picos> {
    if factor == 1.0 {
        return Some(instant);
    }
    after(Picos::ZERO, round(instant.0 as f64 * factor))
}

/// Rate of the request at `progress` in [0, 1] of a ramp from `a` to `b`: `a + (b−a)·x` or `a·(b/a)^x` (B-3).
pub(super) fn ramp_rate(progress: f64, a: f64, b: f64, exponential: bool) -> f64 {
    if exponential {
        a * (b / a).powf(progress)
    } else {
        a + (b - a) * progress
    }
}

/// The law of gaps on the scale of their mean.
#[derive(Debug)]
enum GapLaw {
    Exponential,
    Gamma(Gamma<f64>),
    Constant,
}

impl GapLaw {
    /// Gamma of shape κ and mean 1; κ = 1 is exponential, κ = ∞ constant.
    fn new(burstiness: f64) -> GapLaw {
        assert!(
            burstiness > 0.0,
            "burstiness is the positive shape of the gamma law of gaps"
        );
        if burstiness == 1.0 {
            return GapLaw::Exponential;
        }
        if burstiness == f64::INFINITY {
            return GapLaw::Constant;
        }
        let scale = (1.0 / burstiness).min(f64::MAX);
        GapLaw::Gamma(Gamma::new(burstiness, scale).expect("shape and scale are positive"))
    }

    #[inline]
    fn draw(&self, rng: &mut ChaCha8Rng) -> f64 {
        match self {
            GapLaw::Exponential => Exp1.sample(rng),
            GapLaw::Gamma(law) => law.sample(rng),
            GapLaw::Constant => 1.0,
        }
    }
}

/// vLLM's client (0.33 `get_request`, rule B-1): all instants times one factor, so that the last of N falls at `N/λ`.
///
/// The factor needs the sum of all gaps. It is found by drawing them once ahead of time rather than by keeping them:
/// twice the draws, no memory.
#[derive(Debug)]
struct Rescaling {
    drawn: Picos,
    total: Picos,
    target: Picos,
}

impl Rescaling {
    fn measure(gaps: &GapLaw, mean: f64, requests: u64, rng: &mut ChaCha8Rng) -> Rescaling {
        let total = (0..requests)
            .map(|_| round(gaps.draw(rng) * mean))
            .try_fold(Picos::ZERO, Picos::checked_add);
        // Where the sum is past the end of the clock nothing is rescaled, and the source ends there as any other does.
        let (total, target) = match (total, round(mean * requests as f64)) {
            (Some(total), target) if target < Picos::MAX => (total, target),
            _ => (Picos::ZERO, Picos::ZERO),
        };
        Rescaling {
            drawn: Picos::ZERO,
            total,
            target,
        }
    }

    /// `raw · target / total` to the nearest picosecond, exact at the last request.
    fn rescale(&self, raw: Picos) -> Picos {
        if self.total == Picos::ZERO || raw > self.total {
            return raw;
        }
        let scaled = u128::from(raw.0) * u128::from(self.target.0) + u128::from(self.total.0 / 2);
        Picos((scaled / u128::from(self.total.0)) as u64)
    }
}

#[cfg(test)]
mod tests;
