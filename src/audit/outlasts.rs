//! No request takes longer than the run: each was sent after its start and answered before its end.
//!
//! So no latency does, and by Little's law no more were in flight than were sent: `X · W = N · W / D ≤ N`.

use super::case::{Case, Figure, printed_slack, printed_time_slack};
use super::finding::{Check, Finding, Severity, show, time};
use crate::results::Stats;

/// Clocks that are read at different moments may differ by this share.
const TOLERANCE: f64 = 0.02;
/// From so many runs on it is the unit that is asked for: a request that hung takes hardly longer than the run.
const ANOTHER_UNIT: f64 = 2.0;
const THOUSAND: f64 = 1000.0;

pub(super) fn check(case: &Case<'_>, found: &mut Vec<Finding>) {
    let Some(run) = run(case) else {
        return;
    };
    let most = run.value * (1.0 + run.slack + TOLERANCE);
    let is_too_long = |value: f64| value * (1.0 - printed_time_slack(value)) > most;
    for (name, stats) in case.row.latencies() {
        if let Some((of, value)) = named(stats).find(|(_, value)| is_too_long(*value)) {
            found.push(told(
                case,
                &run,
                &format!("{of} {name}"),
                value,
                Severity::Impossible,
            ));
            return;
        }
    }
    // Where lengths vary parts add up to more than the whole: in a full server short answers have the longest steps, and in bursts
    // of chats the sum is half as much again as the run.
    let (severity, most) = match case.has_one_length() {
        true => (Severity::Impossible, most),
        false => (Severity::Doubtful, most.max(ANOTHER_UNIT * run.value)),
    };
    let Some(whole) = case.e2el().filter(|whole| whole.low() > most) else {
        return;
    };
    found.push(told(case, &run, "mean e2el, added up,", whole.value, severity));
}

/// First send to last answer: as the file says it, or by its throughput where that makes it longer, since some clients give
/// the time of sending.
fn run(case: &Case<'_>) -> Option<Figure> {
    let outcome = &case.row.outcome;
    let figure = |value: f64, slack: f64, how: String| Figure { value, slack, how };
    let stated = outcome
        .duration_s
        .map(|stated| figure(stated, printed_slack(stated), String::new()));
    let rate = outcome.request_throughput.filter(|rate| *rate > 0.0);
    let counted = case.requests().zip(rate).map(|(requests, rate)| {
        let how = format!(" ({} requests / {}/s)", show(requests), show(rate));
        figure(requests / rate, printed_slack(rate), how)
    });
    let longest = [stated, counted]
        .into_iter()
        .flatten()
        .max_by(|a, b| a.value.total_cmp(&b.value));
    longest.filter(|run| run.value > 0.0 && run.value.is_finite())
}

fn named(stats: &Stats) -> impl Iterator<Item = (String, f64)> {
    let single = [
        ("mean", stats.mean),
        ("median", stats.median),
        ("longest", stats.max),
    ];
    let single = single
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let percentiles = stats
        .percentiles
        .iter()
        .map(|(percent, value)| (format!("p{percent}"), *value));
    single.chain(percentiles)
}

fn told(case: &Case<'_>, run: &Figure, name: &str, value: f64, severity: Severity) -> Finding {
    let is_unit = value > ANOTHER_UNIT * run.value;
    let (check, claim) = match is_unit {
        true => (
            Check::Unit,
            "latencies are longer than the whole run: a unit is off by a thousand",
        ),
        false => (Check::CountsAgree, "latencies are longer than the whole run"),
    };
    let sent = case.requests().map_or(String::new(), |requests| {
        format!(
            "; Little: {} / {} × {} = {} in flight of {} sent",
            show(requests),
            time(run.value),
            time(value),
            show(requests / run.value * value),
            show(requests)
        )
    });
    let thousandth = match is_unit && value / THOUSAND < run.value {
        true => format!("; a thousandth of it, {}, would fit", time(value / THOUSAND)),
        false => String::new(),
    };
    let shown = format!(
        "{name} {}, the run {}{}{sent}{thousandth}",
        time(value),
        time(run.value),
        run.how
    );
    let rerun = "look at the units of latencies and duration, and take both over the same requests";
    Finding::new(severity, check, claim).shown(shown).rerun(rerun)
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use super::super::{Known, audit};
    use crate::results::{Measured, Tool};

    fn run(requests: u64, duration_s: f64, ttft_s: f64) -> Measured {
        let mut row = Measured::new(Tool::VllmBench, "");
        row.outcome.completed = Some(requests);
        row.outcome.duration_s = Some(duration_s);
        row.ttft.mean = Some(ttft_s);
        row
    }

    #[test]
    fn no_request_takes_longer_than_the_run() {
        assert_eq!(found(&[run(500, 39.16, 0.3861)]), "");
        assert_eq!(found(&[run(500, 39.16, 39.5)]), "", "within two reads of a clock");
        assert_eq!(found(&[run(500, 39.16, 50.0)]), "impossible counts-agree");
        assert_eq!(found(&[run(500, 39.16, 386.1)]), "impossible unit");
        assert_eq!(found(&[run(1, 12.05, 36.2)]), "impossible unit");
        let told = audit(&[run(500, 39.16, 386.1)], &Known::default());
        let arithmetic = &told[0].findings[0].arithmetic;
        assert!(
            arithmetic.contains("= 4930 in flight of 500 sent"),
            "{arithmetic}"
        );
        assert!(
            arithmetic.contains("a thousandth of it, 386 ms, would fit"),
            "{arithmetic}"
        );
        // A client whose duration is the time of sending: 500 at 5/s are 100 s.
        let mut sending = run(500, 39.16, 50.0);
        sending.outcome.completed = None;
        (sending.setup.num_prompts, sending.outcome.request_throughput) = (Some(500), Some(5.0));
        assert!(!found(&[sending]).contains("impossible"));
    }

    #[test]
    fn parts_that_outlast_the_run_are_certain_of_one_length_only() {
        let mut row = run(500, 39.16, 2.0);
        (row.setup.output_tokens, row.tpot.mean) = (Some(682.0), Some(10.7));
        assert_eq!(found(std::slice::from_ref(&row)), "doubtful unit");
        row.setup.has_fixed_lengths = Some(true);
        assert_eq!(found(std::slice::from_ref(&row)), "impossible unit");
        // Some ended early, and their few tokens waited longest: 1.1 times the run.
        (row.setup.output_tokens, row.tpot.mean) = (Some(677.4), Some(0.0625));
        assert_eq!(found(&[row]), "");
    }
}
