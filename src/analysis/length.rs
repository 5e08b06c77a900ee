//! How long a run must be: decided while it runs, from what it has shown so far.
//!
//! Looking often at a random figure and stopping when it pleases would bias it. Here one looks only when the run
//! has grown by half, and overload must be more significant than in a final judgement.

use super::judge::{Evidence, Precision, assess, mean_output_tokens, widest_mean};
use super::load::Load;
use super::verdict::Verdict;
use crate::metrics::Recorder;

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Simulate so many more requests, then ask again.
    Continue(u64),
    /// Enough is known.
    Stop(Verdict),
}

/// Growth this significant stops a run at once; a final judgement asks for less, once.
const T_STOP: f64 = 4.0;

/// Decides whether to go on. The same run always gives the same answer.
#[must_use]
pub fn decide(recorder: &Recorder, load: impl Into<Load>, precision: &Precision) -> Decision {
    let load = load.into();
    let (kind, output_tokens) = (load.kind_seen(), load.output_tokens);
    let batches = recorder.batches();
    let sent = recorder.sent();
    if sent < precision.min_requests {
        return Decision::Continue(precision.min_requests - sent);
    }
    let (first, last) = load.sending(&recorder.sending());
    let series = recorder.series();
    let (first_arrival_s, last_arrival_s) = (first.seconds(), last.seconds());
    let evidence = Evidence {
        sent: load.sent(sent, &series, (first, last)),
        batches,
        series: &series,
        first_arrival_s,
        last_arrival_s,
        output_tokens: output_tokens.or_else(|| mean_output_tokens(batches)),
    };
    let seen = assess(&evidence, kind, precision.max_requests);
    if seen.growth.significant && seen.growth.t >= T_STOP {
        return Decision::Stop(Verdict::Unstable);
    }
    let width = seen
        .steady
        .map_or(f64::INFINITY, |range| widest_mean(&batches[range]));
    let steady_enough = matches!(seen.verdict, Verdict::Stable | Verdict::Finite);
    if (steady_enough && width <= precision.relative) || sent >= precision.max_requests {
        return Decision::Stop(seen.verdict);
    }
    let needed = sent as f64 * (width / precision.relative).powi(2);
    let more = (needed - sent as f64)
        .clamp(sent as f64 / 2.0, sent as f64)
        .ceil() as u64;
    Decision::Continue(more.min(precision.max_requests - sent).max(1))
}
