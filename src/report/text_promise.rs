//! What is promised of a run, and whether it is kept: the share of good requests, and that of every class.

use super::figures::{
    count, counted, percent, percent_beside, percent_promised, significant, time, time_interval,
};
use super::page::Page;
use super::text::per_second;
use super::text_parts::good_of_promised;
use super::views::{Limit, Promise, ResultMeta};
use crate::analysis::knee::{Constraint, Statistic};
use crate::analysis::{CONFIDENCE, Estimate, RunResult, Verdict};
use crate::metrics::{Metric, PartSummary, Summary};

/// A line of all requests, and one of each promise: of the classes where each has one, else of all requests, and of every
/// percentile that is limited.
pub(super) fn promise(page: &mut Page, result: &RunResult, shown: &Summary, meta: &ResultMeta) {
    goodput(page, result, shown, meta);
    for promise in promises(result, shown, meta) {
        page.fact("SLO", &promise);
    }
}

/// Each promise, and whether it is kept.
pub(super) fn promises(result: &RunResult, shown: &Summary, meta: &ResultMeta) -> Vec<String> {
    let of_classes = class_promise(result, meta);
    let mut promises: Vec<String> = of_classes.into_iter().collect();
    if result.verdict == Verdict::Unstable && meta.slo_kept == Some(false) {
        promises.push("MISSED: overload meets none".to_owned());
    } else if meta.slo_kept.is_some() {
        if promises.is_empty() {
            promises.extend(share_promise(result, shown, meta));
        }
        promises.extend(
            meta.promises
                .iter()
                .filter_map(|promise| statistic(promise, result, shown, meta)),
        );
        let asks_share = !meta.goodput.is_empty() || !meta.classes.is_empty();
        let fewest = fewest_to_keep(meta.attainment);
        if result.verdict == Verdict::Finite
            && asks_share
            && meta.slo_kept == Some(true)
            && (shown.ended() as f64) < fewest
        {
            promises.push(format!(
                "what these {} saw: too few to tell whether the load meets it, which takes {} without a bad one",
                counted(shown.ended(), "request"),
                count(fewest as u64)
            ));
        }
        if is_too_short(result, meta) && !promises.is_empty() {
            promises.push("what these requests saw: too few to tell whether the load meets it".to_owned());
        }
    }
    promises
}

/// Good requests in a row, from which 95 % of the loads that keep less than such a share of them good are told apart.
fn fewest_to_keep(share: f64) -> f64 {
    match share < 1.0 {
        true => ((1.0 - CONFIDENCE).ln() / share.ln()).ceil(),
        false => 0.0,
    }
}

/// The run is too short to tell whether the SLO is met.
fn is_too_short(result: &RunResult, meta: &ResultMeta) -> bool {
    result.verdict == Verdict::TooShort && meta.slo_decided == Some(false)
}

/// Share of good requests among those that left, one without an answer being none.
fn share(good: u64, shown: &Summary) -> f64 {
    good as f64 / shown.ended().max(1) as f64
}

/// Whether enough requests are good.
fn share_promise(result: &RunResult, shown: &Summary, meta: &ResultMeta) -> Option<String> {
    let share = share(shown.good?, shown);
    let asked = meta.attainment;
    let interval = result.intervals.iter().find(|(name, _)| name == "attainment");
    let interval = interval.filter(|(_, interval)| is_open(interval, asked));
    let doubt = interval.map_or(String::new(), |(_, interval)| doubt(interval, asked));
    let word = kept(share >= asked, interval.is_some() || is_too_short(result, meta));
    Some(format!(
        "{word}: {} of requests are good{doubt}, {} are asked",
        percent_beside(share, asked),
        percent_promised(asked)
    ))
}

/// Whether an interval leaves it open on which side of a limit the figure is.
fn is_open(figure: &Estimate, limit: f64) -> bool {
    figure.low < limit && limit <= figure.high
}

/// The interval of a share that does not tell whether as much as is asked is reached; nothing of one that does.
fn doubt(share: &Estimate, asked: f64) -> String {
    if !is_open(share, asked) {
        return String::new();
    }
    format!(
        " (95 % {} to {})",
        percent_beside(share.low, asked),
        percent_beside(share.high, asked)
    )
}

/// Whether a percentile or a mean stays within its limit; `None` where no request has that latency.
fn statistic(promise: &Promise, result: &RunResult, shown: &Summary, meta: &ResultMeta) -> Option<String> {
    let constraint = Constraint {
        metric: match promise.metric.as_str() {
            "ttft" => Metric::Ttft,
            "tpot" => Metric::Tpot,
            "itl" => Metric::Itl,
            _ => Metric::E2el,
        },
        statistic: match promise.percentile {
            None => Statistic::Mean,
            Some(percentile) => Statistic::Quantile(percentile / 100.0),
        },
        limit_s: promise.limit_s,
    };
    let name = match promise.percentile {
        None => "mean".to_owned(),
        Some(percentile) => format!("p{percentile}"),
    };
    let seen = constraint.estimate(result, shown)?;
    let is_kept = seen.value <= promise.limit_s;
    // What lies at its limit keeps it.
    let may_be_either =
        result.quotable().is_some() && seen.low <= promise.limit_s && promise.limit_s < seen.high;
    // One that is too short has decided at most that an SLO is missed.
    let is_open = may_be_either || (is_too_short(result, meta) && seen.low <= promise.limit_s);
    let relation = if is_kept { "≤" } else { ">" };
    let doubt = match may_be_either {
        true => format!(" (95 % {})", time_interval(seen.low, seen.high)),
        false => String::new(),
    };
    Some(format!(
        "{}: {name} {} {} {relation} {}{doubt}",
        kept(is_kept, is_open),
        promise.metric.to_uppercase(),
        time(seen.value),
        time(promise.limit_s)
    ))
}

fn kept(is_kept: bool, is_open: bool) -> &'static str {
    match (is_open, is_kept) {
        (true, _) => "NOT DECIDED",
        (false, true) => "met",
        (false, false) => "MISSED",
    }
}

fn goodput(page: &mut Page, result: &RunResult, shown: &Summary, meta: &ResultMeta) {
    let Some(good) = shown.good.filter(|_| result.whole.sent > 0) else {
        return;
    };
    let free: Vec<&str> = (meta.classes.iter())
        .filter(|class| class.limits.is_empty())
        .map(|class| class.name.as_str())
        .collect();
    if !free.is_empty() {
        // Requests of a class are counted over the whole run.
        let counts = |part: &PartSummary| (part.good, part.ended_requests());
        let Some((good, ended)) = good_of_promised(result, meta, counts) else {
            return;
        };
        let have = if free.len() > 1 { "have" } else { "has" };
        page.fact(
            "goodput",
            &format!(
                "{} req/s, {} of {}, over the whole run ({}, and {} {have} none)",
                significant(per_second(good, result.whole.duration_s)),
                percent(good as f64 / ended.max(1) as f64),
                counted(ended, "request"),
                limits(meta),
                free.join(", ")
            ),
        );
        return;
    }
    page.fact(
        "goodput",
        &format!(
            "{} req/s, {} of requests ({})",
            significant(per_second(good, shown.duration_s)),
            percent(share(good, shown)),
            limits(meta)
        ),
    );
}

/// What a good request meets: the limits of all requests, and whose own ones stand in their place.
fn limits(meta: &ResultMeta) -> String {
    let limit = |limit: &Limit| format!("{} ≤ {}", limit.metric.to_uppercase(), time(limit.limit_s));
    let of_all: Vec<String> = meta.goodput.iter().map(limit).collect();
    let own = meta.classes.iter().filter(|class| class.limits != meta.goodput);
    let own: Vec<&str> = own.map(|class| class.name.as_str()).collect();
    match (of_all.is_empty(), own.is_empty()) {
        (true, _) => "each class's own limits".to_owned(),
        (false, true) => of_all.join(", "),
        (false, false) => format!("{}; its own limits for {}", of_all.join(", "), own.join(", ")),
    }
}

/// The share of good requests of a class that is starved.
const NOBODY: Estimate = Estimate {
    value: 0.0,
    low: 0.0,
    high: 0.0,
};

/// Whether every class keeps what is promised to it: `MISSED for code (91.2 % good, not 99.0 %) · met for chat (99.9 %)`. A class
/// of which requests were sent and nobody has left is starved, and none of them is good; of others nothing may be known.
fn class_promise(result: &RunResult, meta: &ResultMeta) -> Option<String> {
    let classes = meta.classes.iter().zip(&result.class_attainment).enumerate();
    let promised = classes.filter(|(_, (class, _))| !class.limits.is_empty());
    let (mut told, mut unknown): (Vec<(Estimate, &str)>, Vec<&str>) = (Vec::new(), Vec::new());
    for (index, (class, share)) in promised {
        let is_starved = || {
            let part = result.by_class.get(index);
            part.is_some_and(|part| part.sent > 0 && part.ended_requests() == 0)
        };
        match share {
            Some(share) => told.push((*share, &class.name)),
            None if is_starved() => told.push((NOBODY, &class.name)),
            None => unknown.push(&class.name),
        }
    }
    told.sort_by(|a, b| a.0.value.total_cmp(&b.0.value));
    type Told<'t> = Vec<(Estimate, &'t str)>;
    let (open, told): (Told<'_>, Told<'_>) =
        (told.into_iter()).partition(|(share, _)| is_open(share, meta.attainment));
    let (broken, kept): (Told<'_>, Told<'_>) =
        (told.into_iter()).partition(|(share, _)| share.value < meta.attainment);
    let named = |part: &[(Estimate, &str)]| {
        let of = |(share, name): &(Estimate, &str)| {
            let doubt = doubt(share, meta.attainment);
            format!(
                "{name} ({} good){doubt}",
                percent_beside(share.value, meta.attainment)
            )
        };
        let named: Vec<String> = part.iter().map(of).collect();
        named.join(", ")
    };
    let asked = percent_promised(meta.attainment);
    let sentence = match (broken.is_empty(), kept.is_empty()) {
        (true, true) if unknown.is_empty() && open.is_empty() => return None,
        (true, true) => format!("{asked} good are asked of each class"),
        (true, false) if unknown.is_empty() && open.is_empty() => {
            format!("met for every class, {asked} good in each: {}", named(&kept))
        }
        (true, false) => format!("met for {}; {asked} are asked of each class", named(&kept)),
        (false, true) => format!("MISSED for {}; {asked} are asked of each class", named(&broken)),
        (false, false) => format!(
            "MISSED for {}; {asked} are asked of each class; met for {}",
            named(&broken),
            named(&kept)
        ),
    };
    let sentence = match open.is_empty() {
        true => sentence,
        false => format!("{sentence}; NOT DECIDED of {}", named(&open)),
    };
    Some(match unknown.is_empty() {
        true => sentence,
        false => format!("{sentence}; not known of {}", unknown.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ClassPromise;
    use crate::report::fixtures;

    #[test]
    fn a_promise_is_kept_to_every_class_only_where_something_is_known_of_each() {
        let class = |name: &str| ClassPromise {
            name: name.to_owned(),
            request_rate: None,
            limits: vec![Limit {
                metric: "ttft".to_owned(),
                limit_s: 1.0,
            }],
        };
        let meta = ResultMeta {
            classes: vec![class("chat"), class("rare")],
            attainment: 0.99,
            ..fixtures::meta()
        };
        // Of the second class so many were sent, so many answered, and this is the share in the steady stretch.
        let said = |sent, completed, share: Option<f64>| {
            let part = |sent, completed| {
                let mut part = PartSummary::default();
                (part.sent, part.completed) = (sent, completed);
                part
            };
            let exact = |value| Estimate {
                value,
                low: value,
                high: value,
            };
            let run = RunResult {
                by_class: vec![part(1000, 1000), part(sent, completed)],
                class_attainment: vec![Some(exact(1.0)), share.map(exact)],
                ..fixtures::stable_run()
            };
            class_promise(&run, &meta).unwrap_or_default()
        };
        assert_eq!(
            said(9, 9, Some(1.0)),
            "met for every class, 99.0 % good in each: chat (100 % good), rare (100 % good)"
        );
        let unknown = "met for chat (100 % good); 99.0 % are asked of each class; not known of rare";
        assert_eq!(said(0, 0, None), unknown);
        assert_eq!(said(3, 2, None), unknown);
        let starved = said(3, 0, None);
        assert!(starved.starts_with("MISSED for rare (0 % good);"), "{starved}");
    }

    #[test]
    fn a_share_that_may_be_on_either_side_is_told_with_its_interval() {
        let share = |low, high| Estimate {
            value: 0.995,
            low,
            high,
        };
        assert_eq!(doubt(&share(0.99, 1.0), 0.99), "");
        assert_eq!(doubt(&share(0.9, 0.98), 0.99), "");
        assert_eq!(doubt(&share(0.938, 0.9998), 0.99), " (95 % 93.8 % to 99.98 %)");
    }

    #[test]
    fn a_handful_of_good_requests_keeps_no_promise_of_a_share() {
        let mut run = fixtures::stable_run();
        (run.verdict, run.steady, run.intervals) = (Verdict::Finite, None, Vec::new());
        let meta = ResultMeta {
            slo_kept: Some(true),
            slo_decided: Some(true),
            attainment: 0.99,
            ..fixtures::meta()
        };
        let mut said = |ended| {
            (run.whole.completed, run.whole.good) = (ended, Some(ended));
            (run.whole.rejected, run.whole.timed_out, run.whole.failed) = (0, 0, 0);
            promises(&run, &run.whole, &meta)
        };
        let few = said(5);
        assert_eq!(
            few[1],
            "what these 5 requests saw: too few to tell whether the load meets it, which takes 299 without a bad one"
        );
        assert_eq!((said(298).len(), said(299).len()), (2, 1));
    }

    #[test]
    fn a_run_that_is_too_short_says_so_of_the_promise_unless_it_is_surely_broken() {
        let mut run = fixtures::stable_run();
        run.verdict = Verdict::TooShort;
        let said = |is_decided, is_kept| {
            let meta = ResultMeta {
                slo_kept: Some(is_kept),
                slo_decided: Some(is_decided),
                attainment: 0.9,
                ..fixtures::meta()
            };
            let first = super::super::text_answer::answer(&run, &meta);
            (promises(&run, &run.whole, &meta), first)
        };
        let (open, first) = said(false, true);
        assert!(
            open.iter()
                .any(|line| line.contains("too few to tell whether the load meets it")),
            "{open:?}"
        );
        assert!(first.ends_with("; SLO NOT DECIDED"), "{first}");
        let (broken, first) = said(true, false);
        assert!(!broken.iter().any(|line| line.contains("too few")), "{broken:?}");
        assert!(first.ends_with("; SLO MISSED"), "{first}");
    }

    #[test]
    fn what_is_not_decided_is_neither_broken_nor_kept() {
        let mut run = fixtures::stable_run();
        let steady = run.steady.as_mut().unwrap();
        steady.good = Some(steady.ended() * 9_896 / 10_000);
        let around = run.intervals.iter_mut().find(|(name, _)| name == "attainment");
        around.unwrap().1 = Estimate {
            value: 0.9896,
            low: 0.988,
            high: 0.991,
        };
        let meta = ResultMeta {
            slo_kept: Some(false),
            slo_decided: Some(false),
            attainment: 0.99,
            promises: vec![Promise {
                metric: "ttft".to_owned(),
                percentile: Some(99.0),
                limit_s: 0.09,
            }],
            ..fixtures::meta()
        };
        let shown = run.steady.clone().unwrap();
        assert_eq!(
            promises(&run, &shown, &meta),
            [
                "NOT DECIDED: 98.96 % of requests are good (95 % 98.8 % to 99.1 %), 99.0 % are asked",
                "NOT DECIDED: p99 TTFT 87.7 ms ≤ 90.0 ms (95 % [80.7, 94.7] ms)",
            ]
        );
        let first = super::super::text_answer::answer(&run, &meta);
        assert!(first.ends_with("; SLO NOT DECIDED"), "{first}");
    }
}
