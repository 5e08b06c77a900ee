//! What follows from the definitions: an answer is its first token and its gaps, and nothing else.

use super::case::{Case, printed_time_slack};
use super::finding::{Check, Finding, Severity, show, time};
use crate::results::Stats;

pub(super) fn check(case: &Case<'_>, found: &mut Vec<Finding>) {
    if case.answer_in_ttft.is_some() {
        return;
    }
    whole_after_first(case, found);
    gaps_within_whole(case, found);
    gaps_add_up(case, found);
    gaps_beside_steps(case, found);
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
        let finding = Finding::new(Severity::Impossible, Check::TtftIsE2el, claim);
        found.push(finding.shown(shown).rerun(rerun));
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
    if chunks < 1.0 {
        // The answer ends with its first token: there are no gaps to count.
        return;
    }
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
    if HALVED.contains(&per_token) {
        let shown = format!(
            "{shown}; {} between tokens",
            time((whole - first) / (tokens - 1.0))
        );
        found.push(halved(Severity::Impossible, shown));
    } else if per_token > 1.25 {
        found.push(Finding::new(Severity::Doubtful, Check::ItlAddsUp, MORE_THAN_TOKENS).shown(shown));
    } else if per_token < 0.8 {
        found.push(several_tokens(shown));
    }
}

/// Gaps a token where there are two of them.
const HALVED: std::ops::Range<f64> = 1.7..2.3;
const MORE_THAN_TOKENS: &str = "the gaps do not add up to the answer: more of them than tokens";

fn halved(severity: Severity, shown: String) -> Finding {
    let claim = "itl is half of the time between tokens: an empty chunk is counted beside every token";
    let rerun = "use (e2el − ttft) / (n − 1), or have the client skip chunks without text";
    Finding::new(severity, Check::ItlAddsUp, claim)
        .shown(shown)
        .rerun(rerun)
}

fn several_tokens(shown: String) -> Finding {
    let claim = "itl is the time between chunks of several tokens";
    Finding::new(Severity::Note, Check::ItlAddsUp, claim)
        .shown(shown)
        .rerun("use tpot")
}

/// Where no file tells how long whole answers take. The pooled gaps are the times per token, each weighted by its further
/// tokens: `itl = Σ tpot·(n − 1) / Σ (n − 1)`. From the mean tpot that is `σ(tpot) · σ(n) / mean(n − 1)` at most (Cauchy and
/// Schwarz), and nothing where all answers have one length.
fn gaps_beside_steps(case: &Case<'_>, found: &mut Vec<Finding>) {
    /// A last chunk without a token is one gap more in short answers.
    const LEAST_TOKENS: f64 = 16.0;
    /// Deviation of the lengths over their mean; that of chats is about 1.
    const LENGTHS_SPREAD: f64 = 2.0;
    let row = case.row;
    let has_tokens = case.output_tokens().is_some_and(|tokens| tokens >= LEAST_TOKENS);
    if !has_tokens || row.e2el.mean.is_some() || row.tpot.derived.is_some() || row.setup.speculates() {
        return;
    }
    let positive = |stats: &Stats| stats.mean.filter(|mean| *mean > 0.0);
    let Some((step, gap)) = positive(&row.tpot).zip(positive(&row.itl)) else {
        return;
    };
    let per_token = step / gap;
    let is_fixed = case.has_one_length();
    let spread = match row.tpot.std {
        _ if is_fixed => f64::INFINITY,
        Some(std) => (step - gap).abs() / std,
        None => return,
    };
    if (0.67..1.5).contains(&per_token) || spread <= LENGTHS_SPREAD || !per_token.is_finite() {
        return;
    }
    // Lengths of N answers cannot deviate by more than √(N − 1) times their mean.
    let most = case
        .requests()
        .map_or(f64::INFINITY, |requests| (requests - 1.0).sqrt());
    let severity = match is_fixed || spread > most {
        true => Severity::Impossible,
        false => Severity::Doubtful,
    };
    let lengths = match spread.is_finite() {
        true => format!(
            "; tpot deviates by {}, so lengths would have to by {} times their mean",
            time(row.tpot.std.unwrap_or_default()),
            show(spread)
        ),
        false => String::new(),
    };
    let shown = format!(
        "tpot / itl = {} / {} = {per_token:.2} gaps a token{lengths}",
        time(step),
        time(gap)
    );
    found.push(if per_token < 1.0 {
        several_tokens(shown)
    } else if HALVED.contains(&per_token) {
        halved(severity, shown)
    } else {
        Finding::new(Severity::Doubtful, Check::ItlAddsUp, MORE_THAN_TOKENS).shown(shown)
    });
}

/// `tpot = (e2el − ttft) / (n − 1)`; where lengths vary the mean over requests may differ from the ratio of means.
fn tpot_definition(case: &Case<'_>, found: &mut Vec<Finding>) {
    /// Deviation of the lengths over their mean; that of chats is about 1.
    const LENGTHS_SPREAD: f64 = 2.0;
    let row = case.row;
    // Where every request tells its own, its mean is held against those instead.
    let is_told = !row.requests.is_empty() && row.requests.iter().all(|request| request.e2el_s.is_some());
    let has_first = case.tpot_with_first().is_some();
    if row.tpot.derived.is_some() || (is_told && !has_first) {
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
    // The ratio of means is the mean weighted by further tokens, so it is `σ(tpot) · σ(n) / mean(n − 1)` away at most.
    let by_lengths = row.tpot.std.filter(|_| !case.has_fixed_lengths());
    let may_differ = by_lengths.map_or(0.0, |std| LENGTHS_SPREAD * std / expected);
    if !has_first && (tpot / expected - 1.0).abs() <= may_differ.max(tolerance) {
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
    let (claim, rerun) = if has_first || (tpot / with_first - 1.0).abs() < 0.02 {
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
    let finding = Finding::new(Severity::Doubtful, Check::TpotDefinition, claim);
    found.push(finding.shown(shown).rerun(rerun));
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
        let finding = Finding::new(Severity::Note, Check::ItlAddsUp, claim);
        found.push(finding.shown(shown).rerun(rerun));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;
    use crate::results::{Measured, RequestTimes, Tool};

    /// What `vllm bench serve` writes unless asked for more; times in ms.
    fn without_e2el(tpot: (f64, f64), itl: f64, tokens: f64) -> Measured {
        let mut row = Measured::new(Tool::VllmBench, "");
        row.outcome.completed = Some(500);
        row.setup.output_tokens = Some(tokens);
        (row.tpot.mean, row.tpot.std) = (Some(tpot.0 / 1e3), Some(tpot.1 / 1e3));
        row.itl.mean = Some(itl / 1e3);
        row
    }

    #[test]
    fn a_mean_of_ratios_is_no_ratio_of_means() {
        // Half of the answers are short and slow: 9 further tokens at 50 ms, 999 at 10 ms; weighted they are 10.4 ms.
        let mut row = without_e2el((30.0, 20.0), 10.36, 505.0);
        (row.ttft.mean, row.e2el.mean) = (Some(0.1), Some(5.32));
        assert_eq!(found(std::slice::from_ref(&row)), "");
        row.tpot.std = Some(0.002);
        assert_eq!(found(std::slice::from_ref(&row)), "doubtful tpot-definition");
        // Requests tell it themselves.
        let request = |ttft_s: f64, tokens: f64, step_s: f64| RequestTimes {
            ttft_s,
            e2el_s: Some(ttft_s + (tokens - 1.0) * step_s),
            output_tokens: tokens,
            ..RequestTimes::default()
        };
        (row.requests, row.outcome.completed) = (
            vec![request(0.1, 10.0, 0.05), request(0.1, 1000.0, 0.01)]
                .into_iter()
                .cycle()
                .take(500)
                .collect(),
            Some(500),
        );
        row.tpot.std = Some(0.02);
        assert_eq!(found(std::slice::from_ref(&row)), "");
        row.tpot.mean = Some(0.01036);
        assert_eq!(found(&[row]), "impossible counts-agree");
    }

    #[test]
    fn a_first_token_that_is_counted_is_found_where_lengths_are_counted_only() {
        // 1.3 ms of deviation, and 256 answers of 128 tokens by their sum; no word of the file says that lengths are fixed.
        let of = |tpot: f64, tokens: f64| {
            let mut row = without_e2el((tpot, 1.3), 15.3, 128.0);
            row.outcome.completed = Some(256);
            row.outcome.output_tokens = Some(tokens);
            (row.ttft.mean, row.e2el.mean) = (Some(0.464), Some(2.406));
            found(&[row])
        };
        assert_eq!(of(18.8, 32_768.0), "doubtful tpot-definition");
        assert_eq!(of(15.29, 32_768.0), "");
        assert_eq!(
            of(18.8, 32_700.0),
            "",
            "lengths differ, and so may the mean of ratios"
        );
    }

    #[test]
    fn gaps_are_the_times_per_token_also_where_no_answer_is_timed() {
        let told = |tpot, itl, tokens| found(&[without_e2el(tpot, itl, tokens)]);
        assert_eq!(told((10.70, 1.50), 9.89, 682.0), "");
        assert_eq!(told((106.5, 23.2), 99.5, 121.0), "");
        assert_eq!(told((10.70, 1.50), 4.945, 682.0), "doubtful itl-adds-up");
        assert_eq!(told((106.5, 23.2), 49.7, 121.0), "doubtful itl-adds-up");
        // Lengths of 500 answers deviate by 22 times their mean at most.
        assert_eq!(told((10.70, 0.05), 5.35, 682.0), "impossible itl-adds-up");
        let mut fixed = without_e2el((10.70, 1.50), 5.35, 682.0);
        fixed.setup.has_fixed_lengths = Some(true);
        assert_eq!(found(&[fixed]), "impossible itl-adds-up");
        // In a full server short answers may see much longer steps, and of a few tokens the last chunk is many.
        assert_eq!(told((40.0, 30.0), 20.0, 200.0), "");
        assert_eq!(told((10.0, 0.1), 6.0, 4.0), "");
        // Chunks of several tokens.
        assert_eq!(told((10.0, 0.5), 30.0, 682.0), "note itl-adds-up");
    }
}
