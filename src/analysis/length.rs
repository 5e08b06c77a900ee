//! How long a run must be: decided while it runs, from what it has shown so far.
//!
//! Looking often at a random figure and stopping when it pleases would bias it. Here one looks only when the run
//! has grown by half, and growth must be more significant than in a final judgement; a queue that is seen to grow generation by
//! generation is judged alike in both. A run goes on until everybody inside was replaced often enough for a steady stretch,
//! and where replicas fail at random until it has seen some of it.

use super::attainment::times_to_tell;
use super::failures::{FAILURES_ENOUGH, FAILURES_MIN};
use super::judge::{Evidence, Precision, assess, mean_output_tokens, widest_mean};
use super::load::{Load, LoadKind};
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
/// How many times as many requests as one is ready to simulate a run may have while everybody inside was not replaced often
/// enough, or the first conversations go on: without a steady stretch all of them were in vain.
const FOR_GENERATIONS: u64 = 4;

/// Decides whether to go on. The same run always gives the same answer.
#[must_use]
pub fn decide(recorder: &Recorder, load: impl Into<Load>, precision: &Precision) -> Decision {
    let load = load.into();
    let sending = recorder.sending();
    let (kind, output_tokens) = (load.kind_seen(&sending), load.output_tokens);
    let is_disturbed = load.is_disturbed;
    let batches = recorder.batches();
    let sent = recorder.sent();
    if sent < precision.min_requests {
        return Decision::Continue(precision.min_requests - sent);
    }
    let (first, last) = load.sending(&sending);
    let series = recorder.series();
    let (first_arrival_s, last_arrival_s) = (first.seconds(), last.seconds());
    let evidence = Evidence {
        sent: load.sent(sent, &series, &sending),
        batches,
        series: &series,
        first_arrival_s,
        last_arrival_s,
        output_tokens: output_tokens.or_else(|| mean_output_tokens(batches)),
        replicas: recorder.replicas(),
        conversations: load.conversations,
    };
    let seen = assess(&evidence, kind, precision.max_requests);
    let spanned_s = last_arrival_s - first_arrival_s;
    let span_s = seen
        .needed_s
        .map_or(load.span_s, |needed_s| needed_s.max(load.span_s));
    let is_short = spanned_s < span_s;
    let is_outage = is_disturbed && spanned_s < load.span_s * FAILURES_MIN / FAILURES_ENOUGH;
    if seen.growth.significant && seen.growth.t >= T_STOP && !is_outage {
        return Decision::Stop(Verdict::Unstable);
    }
    let steady = seen.steady.map_or(&[][..], |range| &batches[range]);
    let width = match steady {
        [] => f64::INFINITY,
        steady => widest_mean(steady),
    };
    let by_share = precision
        .attainment
        .and_then(|asked| times_to_tell(steady, asked))
        .filter(|times| *times > 1.0);
    let steady_enough = matches!(seen.verdict, Verdict::Stable | Verdict::Finite);
    let is_precise = width <= precision.relative && by_share.is_none();
    let is_filling = seen.needed_s.is_some_and(|needed_s| spanned_s < needed_s);
    let max_requests = match is_filling {
        true => FOR_GENERATIONS * precision.max_requests,
        false => precision.max_requests,
    };
    // Of a closed loop all users have sent at once.
    let done = match kind {
        LoadKind::Closed => recorder.ended_and_good().0,
        _ => sent,
    };
    if (steady_enough && is_precise && !is_short) || done >= max_requests {
        return Decision::Stop(seen.verdict);
    }
    let by_span = if is_short { span_s / spanned_s } else { 0.0 };
    let times = (width / precision.relative).powi(2).max(by_span);
    let needed = sent as f64 * times.max(by_share.unwrap_or(0.0));
    let more = (needed - sent as f64)
        .clamp(sent as f64 / 2.0, sent as f64)
        .ceil() as u64;
    Decision::Continue(more.min(max_requests - done).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::LoadKind;
    use crate::metrics::single_server::{self, Server};
    use crate::metrics::{Fleet, RecorderOptions, Records, SloLimits};
    use crate::units::Picos;

    /// Requests that a run of M/M/1 takes, and its verdict, where it must span so many seconds.
    fn length(rate: f64, span_s: f64, is_disturbed: bool) -> (u64, Verdict) {
        let load = Load {
            span_s,
            is_disturbed,
            ..LoadKind::Open.into()
        };
        length_of(rate, load, SloLimits::default(), None)
    }

    fn length_of(rate: f64, load: Load, slo: SloLimits, attainment: Option<f64>) -> (u64, Verdict) {
        let precision = Precision {
            relative: 0.1,
            min_requests: 1_000,
            max_requests: 40_000,
            attainment,
        };
        let mut requests = 1_000;
        loop {
            let mut recorder = Recorder::new(RecorderOptions {
                fleet: Fleet::alike(1, 100, 16),
                slo,
                records: Records::None,
            });
            let server = Server {
                stop_early: true,
                ..Server::mm1(rate, requests, 5)
            };
            single_server::run(&server, &mut recorder);
            match decide(&recorder, load, &precision) {
                Decision::Continue(more) => requests += more,
                Decision::Stop(verdict) => return (requests, verdict),
            }
        }
    }

    #[test]
    fn a_run_goes_on_until_it_has_seen_what_happens_seldom() {
        let (free, verdict) = length(0.3, 0.0, false);
        assert!(free < 6_000 && verdict == Verdict::Stable, "{free} {verdict:?}");
        // 9,000 requests come in 30,000 seconds.
        let (bound, verdict) = length(0.3, 30_000.0, true);
        assert!(
            (8_500..20_000).contains(&bound) && verdict == Verdict::Stable,
            "{bound} {verdict:?}"
        );
        let (most, _) = length(0.3, 1e9, true);
        assert_eq!(most, 40_000);
    }

    #[test]
    fn a_closed_loop_goes_on_until_as_many_were_answered_as_are_allowed() {
        let decided = |requests: u64, stop_early: bool| {
            let precision = Precision {
                min_requests: 100,
                max_requests: 1_000,
                ..Precision::default()
            };
            let mut recorder = Recorder::new(RecorderOptions {
                fleet: Fleet::alike(1, 100, 16),
                slo: SloLimits::default(),
                records: Records::None,
            });
            let server = Server {
                client_limit: 2_000,
                stop_early,
                ..Server::mm1(1e6, requests, 5)
            };
            single_server::run(&server, &mut recorder);
            decide(&recorder, LoadKind::Closed, &precision)
        };
        // All 2,000 have sent, and hardly one was answered.
        assert!(matches!(decided(2_000, true), Decision::Continue(_)));
        assert_eq!(decided(2_000, false), Decision::Stop(Verdict::Finite));
    }

    /// At half load a stay of M/M/1 is exponential with a mean of 2 s.
    #[test]
    fn a_run_goes_on_until_it_tells_whether_the_promise_is_kept() {
        let length = |limit_s: f64, asked| {
            let slo = SloLimits {
                e2el: Some(Picos::from_seconds(limit_s)),
                ..SloLimits::default()
            };
            length_of(0.5, LoadKind::Open.into(), slo, asked).0
        };
        let precise = length(60.0, None);
        // Nobody misses: 4.4 · 999 requests that do not come together, about twice that of those that do.
        let sure = length(60.0, Some(0.999));
        assert!(
            precise < 7_000 && (10_000..16_000).contains(&sure),
            "{precise} {sure}"
        );
        // Half of them miss it, which one sees at once; one in a hundred is what may, and is never told apart.
        assert_eq!(length(2.0 * 2.0f64.ln(), Some(0.99)), precise);
        let close = length(2.0 * 100.0f64.ln(), Some(0.99));
        assert!((5_000..40_000).contains(&close), "{close}");
    }

    #[test]
    fn a_queue_that_grows_in_an_outage_is_no_overload_yet_and_without_one_it_is() {
        let (cut, verdict) = length(1.5, 30_000.0, false);
        assert!(cut < 3_000 && verdict == Verdict::Unstable, "{cut} {verdict:?}");
        let (spanned, verdict) = length(1.5, 30_000.0, true);
        assert!(
            spanned > 14_000 && verdict == Verdict::Unstable,
            "{spanned} {verdict:?}"
        );
    }
}
