//! How much traffic a specification offers, and the same traffic at another rate.
//!
//! Rates here are mean requests per second, turns of conversations included, of the source alone: what a limit on
//! requests in flight lets through is for the simulation to find. Of several clients those who have a rate are summed and
//! scaled by one factor, so that they keep their mix; closed loops and batches beside them stay as they are.

use std::sync::Arc;

use super::{Arrivals, Prefix, Stream, WorkloadSpec};
use crate::units::Picos;

/// What sort of experiment a workload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TrafficKind {
    /// Requests come whatever the server does: it can be overloaded, and has a knee.
    Open,
    /// Conversations come whatever the server does; their later turns wait for its answers.
    PartlyOpen,
    /// A bounded population sends only after answers: it can be slow, never overloaded.
    Closed,
    /// All at time 0: a finite job, which has a makespan and no rate.
    Batch,
}

/// What sort of experiment `spec` is. Several clients are open if one of them is.
#[must_use]
pub fn traffic_kind(spec: &WorkloadSpec) -> TrafficKind {
    match (&spec.arrivals, &spec.prefix) {
        (Arrivals::Superposed { streams }, _) => {
            let kinds: Vec<TrafficKind> = streams.iter().map(|stream| traffic_kind(&stream.spec)).collect();
            let by_openness = [
                TrafficKind::PartlyOpen,
                TrafficKind::Open,
                TrafficKind::Closed,
                TrafficKind::Batch,
            ];
            let found = by_openness.into_iter().find(|kind| kinds.contains(kind));
            found.unwrap_or(TrafficKind::Open)
        }
        (Arrivals::Users { .. }, _) => TrafficKind::Closed,
        (Arrivals::AllAtOnce, _) if spec.client.max_concurrency.is_some() => TrafficKind::Closed,
        (Arrivals::AllAtOnce, _) => TrafficKind::Batch,
        (_, Prefix::Sessions { .. } | Prefix::Recorded(_)) => TrafficKind::PartlyOpen,
        _ => TrafficKind::Open,
    }
}

/// Whether a bounded population sends only after answers, so that the server sets the rate.
#[must_use]
pub fn is_closed(spec: &WorkloadSpec) -> bool {
    traffic_kind(spec) == TrafficKind::Closed
}

/// Mean requests/s that `spec` offers; `None` for traffic without a rate of its own (closed, a batch, a trace that
/// spans no time).
///
/// A ramp's is that of all its requests, `1 / ∫₀¹ dx/rate(x)`; an MMPP's and a profile's are those of whole cycles.
#[must_use]
pub fn mean_rate(spec: &WorkloadSpec) -> Option<f64> {
    let rate = match &spec.arrivals {
        Arrivals::Superposed { streams } => {
            let rates = streams.iter().filter_map(|stream| mean_rate(&stream.spec));
            rates.sum::<f64>()
        }
        arrivals => mean_starts(arrivals)? * turns_per_start(spec),
    };
    (rate.is_finite() && rate > 0.0).then_some(rate)
}

/// What `arrivals` start a second on average, requests or conversations; `None` where they have no rate, or several clients send.
pub(crate) fn mean_starts(arrivals: &Arrivals) -> Option<f64> {
    Some(match arrivals {
        Arrivals::Poisson { request_rate }
        | Arrivals::Gamma { request_rate, .. }
        | Arrivals::Constant { request_rate } => *request_rate,
        Arrivals::AllAtOnce | Arrivals::Users { .. } | Arrivals::Superposed { .. } => return None,
        Arrivals::Ramp {
            start_rate,
            end_rate,
            exponential,
        } => ramp_mean(*start_rate, *end_rate, *exponential),
        Arrivals::Mmpp { states } => {
            let requests: f64 = states
                .iter()
                .map(|state| state.request_rate * state.mean_sojourn.seconds())
                .sum();
            let cycle: f64 = states.iter().map(|state| state.mean_sojourn.seconds()).sum();
            requests / cycle
        }
        Arrivals::Profile { rates, .. } => rates.iter().sum::<f64>() / rates.len() as f64,
        Arrivals::Replay { requests, time_scale } => {
            let (first, last) = (requests.first()?, requests.last()?);
            let span = last.arrival.saturating_sub(first.arrival).seconds() * time_scale;
            (requests.len() - 1) as f64 / span
        }
    })
}

/// `spec` offering `request_rate` requests/s on average: the same seed then gives the same traffic, faster or slower.
///
/// Gaps keep their draws (common random numbers). Poisson, gamma, constant and ramp gaps and a trace's are all scaled
/// by one factor. Where the rate is modulated, by an MMPP or a day curve, the rates are scaled and the modulation
/// keeps its clock: a day stays a day. Think times between turns stay too.
///
/// # Panics
/// If `spec` has no rate ([`mean_rate`] is `None`) or `request_rate` is not a positive number.
#[must_use]
pub fn with_rate(spec: &WorkloadSpec, request_rate: f64) -> WorkloadSpec {
    assert!(
        request_rate.is_finite() && request_rate > 0.0,
        "a request rate is a positive number of requests/s"
    );
    let factor = request_rate / mean_rate(spec).expect("only traffic that has a rate can be given another");
    let mut scaled = spec.clone();
    match &mut scaled.arrivals {
        Arrivals::Poisson { request_rate: rate }
        | Arrivals::Gamma {
            request_rate: rate, ..
        }
        | Arrivals::Constant { request_rate: rate } => *rate = request_rate / turns_per_start(spec),
        Arrivals::Ramp {
            start_rate, end_rate, ..
        } => {
            *start_rate *= factor;
            *end_rate *= factor;
        }
        Arrivals::Mmpp { states } => states.iter_mut().for_each(|state| state.request_rate *= factor),
        Arrivals::Profile { rates, .. } => *rates = rates.iter().map(|rate| rate * factor).collect(),
        Arrivals::Replay { time_scale, .. } => *time_scale /= factor,
        Arrivals::Superposed { streams } => *streams = scaled_by(streams, factor),
        Arrivals::AllAtOnce | Arrivals::Users { .. } => {
            unreachable!("closed traffic and batches have no rate")
        }
    }
    scaled
}

/// How many a closed loop has in flight at most: requests under a limit, or users who wait for their answers; `None` of all other traffic
/// and of several clients, each of whom may have a limit of its own.
#[must_use]
pub fn in_flight(spec: &WorkloadSpec) -> Option<u32> {
    match spec.arrivals {
        Arrivals::AllAtOnce => spec.client.max_concurrency,
        Arrivals::Users { users, .. } => Some(users),
        _ => None,
    }
}

/// The same loop with so many in flight.
///
/// # Panics
/// If `spec` is no closed loop of one client ([`in_flight`] is `None`), or nobody would be in flight.
#[must_use]
pub fn with_in_flight(spec: &WorkloadSpec, number: u32) -> WorkloadSpec {
    assert!(
        number > 0 && in_flight(spec).is_some(),
        "a closed loop has somebody in flight"
    );
    let mut other = spec.clone();
    match &mut other.arrivals {
        Arrivals::Users { users, .. } => *users = number,
        _ => other.client.max_concurrency = Some(number),
    }
    other
}

/// The requests of a closed loop as they come where nobody waits for an answer: at random, at a rate.
///
/// # Panics
/// If `spec` is no closed loop of one client ([`in_flight`] is `None`).
#[must_use]
pub fn opened(spec: &WorkloadSpec, request_rate: f64) -> WorkloadSpec {
    assert!(in_flight(spec).is_some(), "only a closed loop is opened");
    let mut open = spec.clone();
    open.arrivals = Arrivals::Poisson { request_rate };
    open.client.max_concurrency = None;
    with_rate(&open, request_rate)
}

/// So many requests of these lengths, all sent at once; `None` where they cannot be told from when they come, or have caches or clients
/// of several kinds in common.
#[must_use]
pub fn at_once(spec: &WorkloadSpec, requests: u64) -> Option<WorkloadSpec> {
    let is_plain = matches!(spec.prefix, Prefix::None)
        && !matches!(
            spec.arrivals,
            Arrivals::Replay { .. } | Arrivals::Superposed { .. }
        );
    is_plain.then(|| {
        let mut batch = WorkloadSpec {
            arrivals: Arrivals::AllAtOnce,
            num_prompts: Some(requests),
            ..endless(spec)
        };
        batch.client.max_concurrency = None;
        batch
    })
}

/// The rates of all streams that have one times `factor`.
fn scaled_by(streams: &[Stream], factor: f64) -> Arc<[Stream]> {
    let scaled = |stream: &Stream| Stream {
        spec: match mean_rate(&stream.spec) {
            Some(rate) => with_rate(&stream.spec, rate * factor),
            None => stream.spec.clone(),
        },
        ..stream.clone()
    };
    streams.iter().map(scaled).collect()
}

/// `spec` without an end: neither a number of requests nor an instant stops it or one of its streams. A trace still ends.
/// Without a beginning either: all streams send from the first instant, for whoever asks of an endless load asks of the
/// stretch in which all send. Nor are arrivals moved to where the last of so many falls at a given instant.
#[must_use]
pub fn endless(spec: &WorkloadSpec) -> WorkloadSpec {
    let mut endless = WorkloadSpec {
        num_prompts: None,
        duration: None,
        ..spec.clone()
    };
    endless.client.rescale_arrivals = false;
    if let Arrivals::Superposed { streams } = &mut endless.arrivals {
        let of_stream = |stream: &Stream| Stream {
            start: Picos::ZERO,
            spec: self::endless(&stream.spec),
            ..stream.clone()
        };
        *streams = streams.iter().map(of_stream).collect();
    }
    endless
}

fn turns_per_start(spec: &WorkloadSpec) -> f64 {
    match &spec.prefix {
        Prefix::Sessions { turns, .. } => *turns,
        Prefix::Recorded(recording) => recording.mean_turns(),
        Prefix::None | Prefix::Groups { .. } | Prefix::Reuse(_) => 1.0,
    }
}

/// `1 / ∫₀¹ dx/rate(x)` of rule B-3's two ramps.
pub(crate) fn ramp_mean(a: f64, b: f64, exponential: bool) -> f64 {
    let log_ratio = (b / a).ln();
    // Close to a flat ramp both forms lose their digits; the geometric mean is exact there to the square of the slope.
    if log_ratio.abs() < 1e-6 {
        return (a * b).sqrt();
    }
    if exponential {
        a * log_ratio / (1.0 - a / b)
    } else {
        (b - a) / log_ratio
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::generator::tests::{arrivals_of, spec};
    use crate::workload::{MmppState, Request};

    fn open_kinds() -> Vec<WorkloadSpec> {
        let hour = Picos::from_seconds(3600.0);
        let requests: Vec<Request> = arrivals_of(&spec(Arrivals::Poisson { request_rate: 7.0 }), 3);
        let state = |request_rate, seconds| MmppState {
            request_rate,
            mean_sojourn: Picos::from_seconds(seconds),
        };
        [
            Arrivals::Poisson { request_rate: 3.0 },
            Arrivals::Gamma {
                request_rate: 3.0,
                burstiness: 0.3,
            },
            Arrivals::Constant { request_rate: 3.0 },
            Arrivals::Ramp {
                start_rate: 1.0,
                end_rate: 8.0,
                exponential: true,
            },
            Arrivals::Ramp {
                start_rate: 1.0,
                end_rate: 8.0,
                exponential: false,
            },
            Arrivals::Mmpp {
                states: vec![state(1.0, 30.0), state(20.0, 5.0)],
            },
            Arrivals::Profile {
                piece: hour,
                rates: [0.0, 1.0, 5.0].into(),
                burstiness: 1.0,
            },
            Arrivals::Replay {
                requests: requests.into(),
                time_scale: 1.5,
            },
        ]
        .map(spec)
        .into()
    }

    #[test]
    fn any_open_traffic_can_be_given_any_rate() {
        for open in open_kinds() {
            let scaled = with_rate(&open, 42.0);
            let rate = mean_rate(&scaled).unwrap();
            assert!(
                (rate / 42.0 - 1.0).abs() < 1e-12,
                "{rate} of {:?}",
                scaled.arrivals
            );
        }
    }

    #[test]
    fn twice_the_rate_halves_every_arrival_of_a_renewal_process_ramp_or_trace() {
        for open in open_kinds() {
            if matches!(open.arrivals, Arrivals::Mmpp { .. } | Arrivals::Profile { .. }) {
                continue;
            }
            let slow = arrivals_of(&open, 5);
            let fast = arrivals_of(&with_rate(&open, 2.0 * mean_rate(&open).unwrap()), 5);
            for (index, (slow, fast)) in slow.iter().zip(&fast).enumerate() {
                // Each gap is rounded by at most half a picosecond at either rate; a trace's instants are rounded at
                // the precision of a float.
                let slack = 2.0 * (index + 2) as f64 + 1e-15 * slow.arrival.0 as f64;
                let difference = slow.arrival.0 as f64 - 2.0 * fast.arrival.0 as f64;
                assert!(
                    difference.abs() <= slack,
                    "request {index} differs by {difference} ps"
                );
                assert_eq!(
                    (slow.prompt_tokens, slow.output_tokens),
                    (fast.prompt_tokens, fast.output_tokens)
                );
            }
        }
    }

    #[test]
    fn offered_rate_is_the_rate_that_arrives() {
        for mut open in open_kinds() {
            if matches!(open.arrivals, Arrivals::Replay { .. }) {
                continue;
            }
            open.num_prompts = Some(100_000);
            if let Arrivals::Profile { piece, .. } = &mut open.arrivals {
                *piece = Picos::from_seconds(10.0);
            }
            let last = arrivals_of(&open, 11).last().unwrap().arrival.seconds();
            let ratio = 100_000.0 / last / mean_rate(&open).unwrap();
            // Renewal gaps: a coefficient of variation of at most √(1/0.3), over √n. The MMPP: 769 cycles, in each of
            // which requests minus rate times length have a standard deviation of 116 = √((2.71·30)² + (16.3·5)² + 130)
            // about a mean of 130. Four standard deviations of either.
            let is_mmpp = matches!(open.arrivals, Arrivals::Mmpp { .. });
            let tolerance = if is_mmpp {
                4.0 * 116.0 / 130.0 / 769_f64.sqrt()
            } else {
                4.0 * (1.0 / 0.3 / 1e5_f64).sqrt()
            };
            assert!((ratio - 1.0).abs() < tolerance, "{ratio} for {:?}", open.arrivals);
        }
    }

    #[test]
    fn sorts_of_experiment() {
        let check = |spec: &WorkloadSpec, kind| {
            assert_eq!(traffic_kind(spec), kind);
            assert_eq!(is_closed(spec), kind == TrafficKind::Closed);
        };
        let mut poisson = spec(Arrivals::Poisson { request_rate: 2.0 });
        check(&poisson, TrafficKind::Open);
        poisson.prefix = Prefix::Sessions {
            turns: 4.0,
            fixed_turns: false,
            think_time: Picos::ZERO,
            shared_system_len: 0,
        };
        check(&poisson, TrafficKind::PartlyOpen);
        assert_eq!(mean_rate(&poisson), Some(8.0));
        assert_eq!(
            with_rate(&poisson, 4.0).arrivals,
            Arrivals::Poisson { request_rate: 1.0 }
        );

        let mut burst = spec(Arrivals::AllAtOnce);
        check(&burst, TrafficKind::Batch);
        assert_eq!(mean_rate(&burst), None);
        burst.client.max_concurrency = Some(8);
        check(&burst, TrafficKind::Closed);
        check(
            &spec(Arrivals::Users {
                users: 5,
                think_time: Picos::ZERO,
            }),
            TrafficKind::Closed,
        );
    }

    #[test]
    fn a_flat_ramp_has_its_own_rate() {
        for exponential in [false, true] {
            assert!((ramp_mean(5.0, 5.0, exponential) - 5.0).abs() < 1e-12);
            assert!((ramp_mean(5.0, 5.0 * 1.000_002, exponential) - 5.000_005).abs() < 1e-9);
        }
    }
}
