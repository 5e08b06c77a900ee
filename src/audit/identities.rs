//! What follows from the definitions: an answer is its first token and its gaps, and nothing else.

use super::case::{Case, printed_time_slack, show};
use super::finding::{Check, Finding, Severity, time};
use crate::results::Stats;

pub(super) fn check(case: &Case<'_>, found: &mut Vec<Finding>) {
    if case.answer_in_ttft.is_some() {
        return;
    }
    whole_after_first(case, found);
    gaps_within_whole(case, found);
    gaps_add_up(case, found);
    tpot_definition(case, found);
    bunched_chunks(case, found);
}

/// Statistics that two latencies of a row both have: a name, and the value of each.
fn in_both(one: &Stats, other: &Stats) -> impl Iterator<Item = (&'static str, f64, f64)> {
    let percentiles = [("median", 50.0), ("p90", 90.0), ("p95", 95.0), ("p99", 99.0)];
    let percentiles =
        percentiles.map(|(name, percent)| (name, one.percentile(percent).zip(other.percentile(percent))));
    let mean = ("mean", one.mean.zip(other.mean));
    let known =
        |(name, pair): (&'static str, Option<(f64, f64)>)| pair.map(|(one, other)| (name, one, other));
    [mean].into_iter().chain(percentiles).filter_map(known)
}

/// Every statistic of the whole answer is at least that of its first token, and more by the rest of the answer.
fn whole_after_first(case: &Case<'_>, found: &mut Vec<Finding>) {
    let (ttft, e2el) = (&case.row.ttft, &case.row.e2el);
    for (name, first, whole) in in_both(ttft, e2el) {
        if first > whole * (1.001 + printed_time_slack(first) + printed_time_slack(whole)) {
            let claim = format!("{name} ttft is longer than {name} e2el");
            let shown = format!(
                "{} > {}: the first token comes before the last",
                time(first),
                time(whole)
            );
            found.push(Finding::new(Severity::Impossible, Check::TtftIsE2el, claim).shown(shown));
        }
    }
    let tokens = case.output_tokens().filter(|tokens| *tokens >= 8.0);
    let (Some(tokens), Some(first), Some(whole)) = (tokens, ttft.mean, e2el.mean) else {
        return;
    };
    let Some(step) = case
        .row
        .tpot
        .mean
        .or(case.row.itl.mean)
        .filter(|step| *step > 0.0)
    else {
        return;
    };
    let rest = (tokens - 1.0) * step;
    // What is longer than the whole is no column under another name.
    if first <= whole && first > 0.97 * whole && whole - first < 0.25 * rest {
        let claim = "the ttft column is the time of the whole answer";
        let shown = format!(
            "e2el − ttft = {} − {} = {}, but {} further tokens at {} take {}",
            time(whole),
            time(first),
            time(whole - first),
            show(tokens - 1.0),
            time(step),
            time(rest)
        );
        let rerun = "stream the answer, and stop the clock of ttft at the first chunk";
        found.push(
            Finding::new(Severity::Impossible, Check::TtftIsE2el, claim)
                .shown(shown)
                .rerun(rerun),
        );
    }
}

/// No gap outlasts the answer that it is part of, so every statistic of tpot is at most that of e2el; and where all answers have `n`
/// tokens, `(n − 1)` of them do not.
fn gaps_within_whole(case: &Case<'_>, found: &mut Vec<Finding>) {
    let (tpot, e2el) = (&case.row.tpot, &case.row.e2el);
    if tpot.derived.is_some() {
        return;
    }
    let tokens = case.output_tokens().filter(|tokens| *tokens >= 2.0);
    let gaps = match case.has_fixed_lengths() {
        true => tokens.map_or(1.0, |tokens| tokens - 1.0),
        false => 1.0,
    };
    for (name, step, whole) in in_both(tpot, e2el) {
        if gaps * step > whole * (1.05 + printed_time_slack(step) + printed_time_slack(whole)) {
            let claim = format!("{name} tpot is longer than {name} e2el allows");
            let shown = format!(
                "{} × {} = {} > {}: an answer is as long as all of its tokens",
                show(gaps),
                time(step),
                time(gaps * step),
                time(whole)
            );
            found.push(Finding::new(Severity::Impossible, Check::TpotDefinition, claim).shown(shown));
            return;
        }
    }
}

/// `mean itl · (n − 1) = e2el − ttft`, since the gaps of all requests are pooled.
fn gaps_add_up(case: &Case<'_>, found: &mut Vec<Finding>) {
    let (row, tokens) = (case.row, case.output_tokens().filter(|tokens| *tokens >= 4.0));
    let known = row
        .e2el
        .mean
        .zip(row.ttft.mean)
        .zip(row.itl.mean.filter(|itl| *itl > 0.0))
        .zip(tokens);
    let Some((((whole, first), itl), tokens)) = known else {
        return;
    };
    if whole < first {
        // Told above; no gaps follow from it.
        return;
    }
    let chunks = (whole - first) / itl;
    let per_token = chunks / (tokens - 1.0);
    let each = match per_token < 1e6 {
        true => format!("{per_token:.2}"),
        false => show(per_token),
    };
    let shown = format!(
        "(e2el − ttft) / itl = ({} − {}) / {} = {} gaps for {} tokens: {each} a token",
        time(whole),
        time(first),
        time(itl),
        show(chunks),
        show(tokens)
    );
    if (1.7..2.3).contains(&per_token) {
        let claim = "itl is half of the time between tokens: an empty chunk is counted beside every token";
        let shown = format!(
            "{shown}; {} between tokens",
            time((whole - first) / (tokens - 1.0))
        );
        let rerun = "use (e2el − ttft) / (n − 1), or have the client skip chunks without text";
        found.push(
            Finding::new(Severity::Impossible, Check::ItlAddsUp, claim)
                .shown(shown)
                .rerun(rerun),
        );
    } else if per_token > 1.25 {
        let claim = "the gaps do not add up to the answer: more of them than tokens";
        found.push(Finding::new(Severity::Doubtful, Check::ItlAddsUp, claim).shown(shown));
    } else if per_token < 0.8 {
        let claim = "itl is the time between chunks of several tokens";
        found.push(
            Finding::new(Severity::Note, Check::ItlAddsUp, claim)
                .shown(shown)
                .rerun("use tpot"),
        );
    }
}

/// `tpot = (e2el − ttft) / (n − 1)`; where lengths vary the mean over requests may differ from the ratio of means.
fn tpot_definition(case: &Case<'_>, found: &mut Vec<Finding>) {
    let row = case.row;
    if row.tpot.derived.is_some() {
        return;
    }
    let tokens = case.output_tokens().filter(|tokens| *tokens >= 8.0);
    let known = row
        .e2el
        .mean
        .zip(row.ttft.mean)
        .zip(row.tpot.mean.filter(|tpot| *tpot > 0.0))
        .zip(tokens);
    let Some((((whole, first), tpot), tokens)) = known else {
        return;
    };
    if whole < first {
        return;
    }
    let expected = (whole - first) / (tokens - 1.0);
    let tolerance = if case.has_fixed_lengths() { 0.05 } else { 0.35 };
    if (tpot / expected - 1.0).abs() <= tolerance {
        return;
    }
    let shown = format!(
        "(e2el − ttft) / (n − 1) = ({} − {}) / {} = {}, not {}",
        time(whole),
        time(first),
        show(tokens - 1.0),
        time(expected),
        time(tpot)
    );
    let with_first = whole / tokens;
    let (claim, rerun) = if (tpot / with_first - 1.0).abs() < 0.02 {
        (
            "tpot counts the first token: it is latency over tokens",
            "subtract ttft, divide by tokens − 1",
        )
    } else {
        (
            "tpot is not (e2el − ttft) / (n − 1)",
            "compute it for each request from its own times and tokens",
        )
    };
    found.push(
        Finding::new(Severity::Doubtful, Check::TpotDefinition, claim)
            .shown(shown)
            .rerun(rerun),
    );
}

/// A median gap near zero: chunks arrive in bunches, so that no gap is a step of the engine.
fn bunched_chunks(case: &Case<'_>, found: &mut Vec<Finding>) {
    let itl = &case.row.itl;
    let Some((median, mean)) = itl.median.zip(itl.mean) else {
        return;
    };
    let halved = found.iter().any(|finding| finding.check == Check::ItlAddsUp);
    if median < 0.1 * mean && median < 1e-3 && !halved {
        let claim = "more than half of all gaps are next to nothing: chunks arrive in bunches";
        let shown = format!("median itl {}, mean {}", time(median), time(mean));
        let rerun = "quote tpot; a percentile of these gaps says nothing about steps";
        found.push(
            Finding::new(Severity::Note, Check::ItlAddsUp, claim)
                .shown(shown)
                .rerun(rerun),
        );
    }
}
