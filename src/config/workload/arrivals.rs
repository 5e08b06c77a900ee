//! When requests are sent.

use std::sync::Arc;

use super::replay::replay;
use super::spaces::Among;
use crate::config::document::Source;
use crate::config::files::Files;
use crate::config::judge::Judge;
use crate::config::raw::{RawArrivals, RawMmpp, RawProfile, RawRampStrategy, RawWorkload};
use crate::config::scalar::Rate;
use crate::units::Picos;
use crate::workload::{Arrivals, MmppState, Recording, ramp_mean};

/// Who sends, and when.
pub(super) struct Senders {
    pub(super) arrivals: Arrivals,
    /// The concurrency that a closed loop implies.
    pub(super) in_flight: Option<u32>,
    /// The conversations that arrivals begin, where a trace has them.
    pub(super) recording: Option<Arc<Recording>>,
}

impl From<Arrivals> for Senders {
    fn from(arrivals: Arrivals) -> Senders {
        Senders {
            arrivals,
            in_flight: None,
            recording: None,
        }
    }
}

/// Judges who sends, and when; `None` was reported.
pub(super) fn arrivals(
    judge: &mut Judge,
    raw: &RawArrivals,
    among: &mut Among<'_>,
    files: &dyn Files,
) -> Option<Senders> {
    let key = |name: &str| format!("workload.arrivals.{name}");
    let open = |arrivals: Arrivals| Some(Senders::from(arrivals));
    match raw {
        // `"inf"` is how the field writes "all at once", also in a sweep over rates.
        RawArrivals::Poisson(raw) if raw.request_rate == Rate(f64::INFINITY) => {
            judge.given(&key("poisson.request_rate"), "inf");
            open(Arrivals::AllAtOnce)
        }
        RawArrivals::Poisson(raw) => {
            if judge.document.is_unchosen(&key("poisson")) {
                let why = "gaps at random, burstiness 1".to_owned();
                judge.assume("workload.arrivals", "poisson", Source::Assumption(why));
            }
            open(Arrivals::Poisson {
                request_rate: judge.rate(&key("poisson.request_rate"), raw.request_rate)?,
            })
        }
        RawArrivals::Constant(raw) => open(Arrivals::Constant {
            request_rate: judge.rate(&key("constant.request_rate"), raw.request_rate)?,
        }),
        RawArrivals::Gamma(raw) => {
            judge.given(&key("gamma.burstiness"), raw.burstiness);
            burstiness(judge, &key("gamma.burstiness"), raw.burstiness);
            if raw.request_rate == Rate(f64::INFINITY) {
                return open(Arrivals::AllAtOnce);
            }
            let request_rate = judge.rate(&key("gamma.request_rate"), raw.request_rate)?;
            open(Arrivals::Gamma {
                request_rate,
                burstiness: raw.burstiness,
            })
        }
        RawArrivals::AllAtOnce(_) => open(Arrivals::AllAtOnce),
        RawArrivals::Closed(raw) => {
            let limit = judge.required(&key("closed.max_concurrency"), raw.max_concurrency, (1, 1 << 24));
            Some(Senders {
                in_flight: Some(limit),
                ..Senders::from(Arrivals::AllAtOnce)
            })
        }
        RawArrivals::Users(raw) => {
            let users = judge.required(&key("users.users"), raw.users, (1, 1 << 24));
            let think_time = judge.duration(&key("users.think_time"), &raw.think_time, true)?;
            open(Arrivals::Users { users, think_time })
        }
        RawArrivals::Ramp(raw) => {
            let start_rate = judge.rate(&key("ramp.start_rate"), raw.start_rate);
            let end_rate = judge.rate(&key("ramp.end_rate"), raw.end_rate);
            let (start_rate, end_rate) = (start_rate?, end_rate?);
            let exponential = raw.strategy == RawRampStrategy::Exponential;
            let mean = ramp_mean(start_rate, end_rate, exponential);
            let scale = scale(judge, &key("ramp.request_rate"), raw.request_rate, mean, "ramp")?;
            open(Arrivals::Ramp {
                start_rate: start_rate * scale,
                end_rate: end_rate * scale,
                exponential,
            })
        }
        RawArrivals::Mmpp(raw) => open(mmpp(judge, raw)?),
        RawArrivals::Profile(raw) => open(profile(judge, raw)?),
        RawArrivals::Trace(raw) => replay(judge, raw, among, files),
    }
}

/// How long one pass over a rate curve takes, in seconds and on the clock; `None` of other arrivals.
pub(super) fn span_of_pass(arrivals: &Arrivals) -> Option<(f64, Picos)> {
    let Arrivals::Profile { piece, rates, .. } = arrivals else {
        return None;
    };
    let span = Picos::try_from_seconds(piece.seconds() * rates.len() as f64)?;
    // Off the clock, where a product of floats has lost its last digits: 29.142 s and not 29.142000000000003.
    Some((span.seconds(), span))
}

/// A rate curve whose run has no length of its own is run once over its span: it has no steady state to wait for.
pub(super) fn one_pass(judge: &mut Judge, raw: &RawWorkload, arrivals: &Arrivals) -> Option<Picos> {
    if raw.num_prompts.is_some() || raw.duration.is_some() {
        return None;
    }
    let (seconds, span) = span_of_pass(arrivals)?;
    let why = "one pass over the rate curve".to_string();
    judge.assume(
        "workload.duration",
        format!("{seconds} s"),
        Source::Assumption(why),
    );
    Some(span)
}

/// What the rates of a law are multiplied by so that their mean is the one that is asked for.
fn scale(judge: &mut Judge, key: &str, asked: Option<Rate>, mean: f64, what: &str) -> Option<f64> {
    let Some(asked) = asked else {
        return Some(1.0);
    };
    let asked = judge.rate(key, asked)?;
    let scale = asked / mean;
    judge.notes.push(format!(
        "the workload's {what} keeps its shape: its rates are multiplied by {scale:.4} to {asked} req/s on average"
    ));
    Some(scale)
}

fn mmpp(judge: &mut Judge, raw: &RawMmpp) -> Option<Arrivals> {
    let of_mean = raw.request_rate;
    let raw = &raw.states;
    let key = "workload.arrivals.mmpp.states";
    let mut states = Vec::new();
    for (at, state) in raw.iter().enumerate() {
        let rate = match state.request_rate {
            Rate(0.0) => Some(0.0),
            rate => judge.rate(&format!("{key}.{at}.request_rate"), rate),
        };
        let mean_sojourn = judge.span(&format!("{key}.{at}.mean_sojourn"), &state.mean_sojourn, false);
        if let (Some(request_rate), Some(mean_sojourn)) = (rate, mean_sojourn) {
            states.push(MmppState {
                request_rate,
                mean_sojourn,
            });
        }
    }
    if raw.iter().all(|state| state.request_rate == Rate(0.0)) {
        judge.wrong(key, "must have a state in which requests arrive", "none does");
        return None;
    }
    if states.len() != raw.len() {
        return None;
    }
    let cycle: f64 = states.iter().map(|state| state.mean_sojourn.seconds()).sum();
    let requests = states
        .iter()
        .map(|state| state.request_rate * state.mean_sojourn.seconds());
    let mean = requests.sum::<f64>() / cycle;
    let key = "workload.arrivals.mmpp.request_rate";
    let scale = scale(judge, key, of_mean, mean, "cycle of bursts")?;
    for state in &mut states {
        state.request_rate *= scale;
    }
    Some(Arrivals::Mmpp { states })
}

fn profile(judge: &mut Judge, raw: &RawProfile) -> Option<Arrivals> {
    let key = |name: &str| format!("workload.arrivals.profile.{name}");
    let piece = judge.span(&key("piece"), &raw.piece, false);
    let shape = raw.burstiness.unwrap_or(1.0);
    burstiness(judge, &key("burstiness"), shape);
    let before = judge.problems.len();
    for (at, &rate) in raw.rates.iter().enumerate() {
        judge.number(
            &format!("{}.{at}", key("rates")),
            rate,
            |rate| (0.0..=1e9).contains(&rate),
            "must be at least 0 and at most 1e9 requests per second",
        );
    }
    if !raw.rates.iter().any(|&rate| rate > 0.0) {
        judge.wrong(
            &key("rates"),
            "must have a piece in which requests arrive",
            "none does",
        );
    }
    if judge.problems.len() > before {
        return None;
    }
    let mean = raw.rates.iter().sum::<f64>() / raw.rates.len() as f64;
    let scale = scale(judge, &key("request_rate"), raw.request_rate, mean, "rate curve")?;
    let rates: Arc<[f64]> = raw.rates.iter().map(|rate| rate * scale).collect();
    Some(Arrivals::Profile {
        piece: piece?,
        rates,
        burstiness: shape,
    })
}

/// The smallest shape of gaps. At 0.001 one gap in a thousand is as long as a thousand, and the others are of no length; far
/// below all of them are less than a picosecond, and a rate becomes a burst.
const BURSTINESS_MIN: f64 = 1e-3;

fn burstiness(judge: &mut Judge, key: &str, shape: f64) {
    if shape > 0.0 && shape < BURSTINESS_MIN {
        judge.wrong_help(
            key,
            "must be at least 0.001",
            format!("gaps of shape {shape} are nothing or as long as the run: all requests come at once"),
            "to send everything at once use --request-rate inf; traces of users lie between 0.1 and 1",
        );
        return;
    }
    judge.number(key, shape, |shape| shape > 0.0, "must be above 0");
}
