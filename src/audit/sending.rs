//! When requests were sent against the rate at which a file says that they were.
//!
//! An open loop sends n requests at a rate λ in n/λ; with random gaps of shape k that scatters by n/λ/√(n·k). Where a file tells
//! of each request when it was sent, the sends themselves are judged, both ways; else only that the run was not over before.

use super::case::{Case, printed_slack};
use super::finding::{Check, Finding, Severity, show, time};
use super::little::FEW;
use crate::results::{Load, Tool};

/// What two clocks may differ by, and the gap before the first request or after the last.
const TOLERANCE: f64 = 0.02;
/// Deviations by which random arrivals may come early or late before it is called impossible.
const BEYOND_CHANCE: f64 = 5.0;
/// A rate that varies in a way that no file says may bring all requests in its busiest part, or in its idlest.
const WHERE_RATES_VARY: f64 = 0.5;
/// A client that is busy sends some of its requests late; so much longer it is another rate.
const BUSY: f64 = 1.25;

pub(super) fn check(case: &Case<'_>, found: &mut Vec<Finding>) {
    let Load::Open { rate } = case.load() else {
        return;
    };
    let failed = case.row.outcome.failed.unwrap_or(0) as f64;
    let Some(requests) = case.requests().map(|answered| answered + failed) else {
        return;
    };
    if rate <= 0.0 {
        return;
    }
    // Between the first and the last of them lies one gap less than there are requests.
    let sent = case
        .sent_within_s()
        .map(|sent| sent * requests / (requests - 1.0).max(1.0));
    let run = Sends {
        rate,
        requests,
        sending: requests / rate,
        deviation: case.sending_deviation(requests),
        sent,
    };
    sooner(case, &run, found);
    later(case, &run, found);
}

/// Requests that were sent at a rate.
struct Sends {
    rate: f64,
    requests: f64,
    /// How long it takes to send them, s.
    sending: f64,
    /// Its deviation, relative to it.
    deviation: f64,
    /// How long it took by their own times, s.
    sent: Option<f64>,
}

impl Sends {
    fn shown(&self, what: &str, took: f64) -> String {
        format!(
            "{} requests at {}/s take {} ± {} to send, {what} {}",
            show(self.requests),
            show(self.rate),
            time(self.sending),
            time(self.sending * self.deviation),
            time(took)
        )
    }
}

/// What the sends, by their own times, are said to have taken.
const BY_THEIR_TIMES: &str = "by their own times they took";

/// The run cannot be shorter than sending is.
fn sooner(case: &Case<'_>, run: &Sends, found: &mut Vec<Finding>) {
    let Some(duration) = case.duration().filter(|duration| *duration > 0.0) else {
        return;
    };
    let (took, what, claim) = match run.sent.filter(|sent| *sent < duration) {
        Some(sent) => (
            sent,
            BY_THEIR_TIMES,
            "requests say that they were sent sooner than that rate sends them",
        ),
        None => (
            duration,
            "the run took",
            "the run ended before its requests can have been sent at that rate",
        ),
    };
    let slack = printed_slack(took);
    let (least, severity) = match case.row.tool {
        Tool::Plimsoll => (WHERE_RATES_VARY, Severity::Doubtful),
        _ => (1.0, Severity::Impossible),
    };
    if took >= least * run.sending * (1.0 - BEYOND_CHANCE * run.deviation - slack - TOLERANCE) {
        return;
    }
    let rerun = "find out at which rate the client sent, or who wrote the duration";
    let finding = Finding::new(severity, Check::CountsAgree, claim);
    found.push(finding.shown(run.shown(what, took)).rerun(rerun));
}

/// Nor can the sends of an open loop take longer. Only where each tells when it was sent and all that were to be sent are listed
/// or failed: a run that was ended by the clock sends fewer. Behind a limit that is stated requests are sent when others end.
fn later(case: &Case<'_>, run: &Sends, found: &mut Vec<Finding>) {
    let setup = &case.row.setup;
    let are_all = setup
        .num_prompts
        .is_some_and(|asked| asked as f64 == run.requests);
    let Some(took) = run
        .sent
        .filter(|_| are_all && run.requests >= FEW && setup.max_concurrency.is_none())
    else {
        return;
    };
    let most = match case.row.tool {
        Tool::Plimsoll => 1.0 / WHERE_RATES_VARY,
        _ => 1.0,
    };
    let beyond = took / (most * run.sending) - BEYOND_CHANCE * run.deviation - TOLERANCE;
    if beyond <= 1.0 {
        return;
    }
    let severity = match beyond > BUSY && case.row.tool != Tool::Plimsoll {
        true => Severity::Impossible,
        false => Severity::Doubtful,
    };
    let claim = "requests say that they were sent later than that rate sends them: another rate, a limit that is not stated, or a \
                 client too busy to send";
    let sent_at = format!(
        "{}, which is {}/s",
        run.shown(BY_THEIR_TIMES, took),
        show(run.requests / took)
    );
    let rerun = "find out at which rate the client sent, and report that";
    let finding = Finding::new(severity, Check::CountsAgree, claim);
    found.push(finding.shown(sent_at).rerun(rerun));
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use crate::results::{Load, Measured, RequestTimes, Tool};

    /// 300 requests that were sent by a law of gaps, and what is found where the file says 10/s.
    fn sent(gap_s: impl Fn(usize) -> f64, change: impl Fn(&mut Measured)) -> String {
        let mut row = Measured::new(Tool::VllmBench, "");
        row.setup.load = Load::Open { rate: 10.0 };
        row.setup.num_prompts = Some(300);
        row.outcome.completed = Some(300);
        let mut start_s = 0.0;
        let of = |index: usize| {
            start_s += gap_s(index);
            RequestTimes {
                start_s: Some(start_s),
                ttft_s: 0.02,
                e2el_s: Some(0.9),
                output_tokens: 100.0,
                ..RequestTimes::default()
            }
        };
        row.requests = (0..300).map(of).collect();
        row.outcome.duration_s = Some(start_s + 0.9);
        change(&mut row);
        found(&[row])
    }

    /// The quantiles of an exponential law of mean 1, in no order.
    fn random(index: usize) -> f64 {
        -(((index * 37) % 300) as f64 / 300.0 + 1.0 / 600.0).ln()
    }

    #[test]
    fn the_sends_themselves_are_held_against_the_rate_both_ways() {
        assert_eq!(sent(|index| 0.1 * random(index), |_| ()), "");
        // 5/s and 20/s under the name of 10/s.
        assert_eq!(
            sent(|index| 0.2 * random(index), |_| ()),
            "impossible counts-agree"
        );
        assert_eq!(
            sent(|index| 0.05 * random(index), |_| ()),
            "impossible counts-agree"
        );
        // Four deviations are chance, and gaps that are far more alike than that are none.
        assert_eq!(sent(|index| 0.1 * 1.22 * random(index), |_| ()), "");
        let even = |row: &mut Measured| row.setup.burstiness = Some(1000.0);
        assert_eq!(sent(|_| 0.122, even), "doubtful counts-agree");
    }

    #[test]
    fn a_run_that_the_clock_ended_or_a_limit_slowed_is_not_sent_late() {
        let slow = |index: usize| 0.2 * random(index);
        assert_eq!(sent(slow, |row| row.setup.num_prompts = Some(600)), "");
        assert_eq!(sent(slow, |row| row.setup.num_prompts = None), "");
        let limited = |row: &mut Measured| row.setup.max_concurrency = Some(8);
        assert!(!sent(slow, limited).contains("counts-agree"));
    }
}
