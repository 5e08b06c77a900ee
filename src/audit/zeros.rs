//! Requests were answered, and yet a figure is 0: nobody wrote it, or it was averaged over nothing.

use super::case::Case;
use super::finding::{Check, Finding, Severity, show, time};
use crate::results::Stats;

/// Rates below this may be printed as 0.
const LEAST_PER_S: f64 = 0.01;

pub(super) fn check(case: &Case<'_>, found: &mut Vec<Finding>) {
    let outcome = &case.row.outcome;
    let Some(answered) = outcome.completed.filter(|completed| *completed > 0) else {
        return;
    };
    throughputs(case, answered as f64, found);
    latencies(case, answered as f64, found);
}

/// Answers, and their tokens, over the seconds that they took.
fn throughputs(case: &Case<'_>, answered: f64, found: &mut Vec<Finding>) {
    let outcome = &case.row.outcome;
    let Some(duration) = outcome.duration_s.filter(|duration| *duration > 0.0) else {
        return;
    };
    let both = outcome.input_tokens.unwrap_or(0.0) + outcome.output_tokens.unwrap_or(0.0);
    let rates = [
        (
            "request throughput",
            "requests",
            outcome.request_throughput,
            answered,
        ),
        (
            "output throughput",
            "tokens",
            outcome.output_throughput,
            outcome.output_tokens.unwrap_or(0.0),
        ),
        ("total throughput", "tokens", outcome.total_throughput, both),
    ];
    let zeros: Vec<String> = rates
        .iter()
        .filter(|(_, _, rate, count)| *rate == Some(0.0) && count / duration >= LEAST_PER_S)
        .map(|(name, what, _, count)| {
            format!(
                "{name} 0, and {} {what} in {} are {}/s",
                show(*count),
                time(duration),
                show(count / duration)
            )
        })
        .collect();
    if zeros.is_empty() {
        return;
    }
    let claim = "throughput is 0 although requests were answered";
    let finding = Finding::new(Severity::Impossible, Check::CountsAgree, claim);
    found.push(
        finding
            .shown(zeros.join("; "))
            .rerun("find out why the client wrote 0; 0 is no measurement"),
    );
}

/// A first token and a whole answer take time. Gaps are 0 where an answer came in one piece, which is then no stream.
fn latencies(case: &Case<'_>, answered: f64, found: &mut Vec<Finding>) {
    let row = case.row;
    let is_zero = |stats: &Stats| stats.centre() == Some(0.0) && stats.max.unwrap_or(0.0) == 0.0;
    let has_gaps = case.output_tokens().is_some_and(|tokens| tokens >= 2.0);
    let is_streamed = row
        .ttft
        .mean
        .zip(row.e2el.mean)
        .is_some_and(|(first, whole)| first > 0.0 && whole > 1.05 * first)
        || row.tpot.mean.is_some_and(|step| step > 0.0);
    let mut told = |severity: Severity, names: Vec<&str>, claim: &str| {
        if names.is_empty() {
            return;
        }
        let shown = format!("{} is 0 of {} answers", names.join(" and "), show(answered));
        let finding = Finding::new(severity, Check::CountsAgree, claim).shown(shown);
        found.push(finding.rerun("find out why the client wrote 0; 0 is no measurement"));
    };
    let zeros = |names: [&str; 2]| -> Vec<&'static str> {
        let all = row.latencies().into_iter();
        all.filter(|(name, stats)| names.contains(name) && is_zero(stats))
            .map(|(name, _)| name)
            .collect()
    };
    told(
        Severity::Impossible,
        zeros(["ttft", "e2el"]),
        "a latency is 0 although requests were answered",
    );
    if has_gaps {
        let (severity, claim) = match is_streamed {
            false if row.setup.answers_whole => (
                Severity::Note,
                "there is no time between tokens: this engine answers in one piece, and tpot and itl say nothing",
            ),
            true => (
                Severity::Impossible,
                "there is no time between tokens although answers took longer than their first",
            ),
            false => (
                Severity::Doubtful,
                "there is no time between tokens: answers came in one piece, or nobody measured",
            ),
        };
        told(severity, zeros(["tpot", "itl"]), claim);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::after;
    use crate::results::Stats;

    fn zero() -> Stats {
        Stats {
            mean: Some(0.0),
            median: Some(0.0),
            ..Stats::default()
        }
    }

    #[test]
    fn nothing_is_zero_where_requests_were_answered() {
        let rates = after(|row| {
            let outcome = &mut row.outcome;
            outcome.request_throughput = Some(0.0);
            outcome.output_throughput = Some(0.0);
            outcome.total_throughput = Some(0.0);
        });
        assert_eq!(rates, "impossible counts-agree");
        assert_eq!(after(|row| row.ttft = zero()), "impossible counts-agree");
        assert_eq!(after(|row| row.tpot = zero()), "impossible counts-agree");
        // One answer in 50 minutes is printed as 0.00 a second.
        let rare = after(|row| {
            row.outcome.completed = Some(1);
            row.setup.num_prompts = Some(1);
            (row.outcome.duration_s, row.outcome.request_throughput) = (Some(3000.0), Some(0.0));
            (row.outcome.output_throughput, row.outcome.total_throughput) = (None, None);
        });
        assert!(!rare.contains("counts-agree"), "{rare}");
    }

    #[test]
    fn answers_in_one_piece_have_no_gaps() {
        let whole = after(|row| {
            row.ttft = row.e2el.clone();
            (row.tpot, row.itl) = (zero(), zero());
        });
        assert_eq!(whole, "doubtful counts-agree");
        // An engine that is known for it.
        let known = after(|row| {
            row.setup.answers_whole = true;
            row.ttft = row.e2el.clone();
            (row.tpot, row.itl) = (zero(), zero());
        });
        assert_eq!(known, "note counts-agree");
        let one_token = after(|row| {
            row.setup.output_tokens = Some(1.0);
            row.outcome.output_tokens = Some(400.0);
            (row.outcome.output_throughput, row.outcome.total_throughput) = (Some(8.0), Some(4104.0));
            row.ttft = row.e2el.clone();
            (row.tpot, row.itl) = (zero(), zero());
        });
        assert_eq!(one_token, "");
    }
}
