//! Who waited for whom, in words: a line or two in the report of a run, tables where it is asked why.

use super::figures::{count, counted, percent, significant, time};
use super::tables::{Column, table};
use crate::metrics::{Distribution, PrefixWaits, PriorityWaits, WaitClass, WaitReport, Waiter};

/// A mean wait, in seconds, below which nobody needs to be told who waited.
const WAIT_MIN_S: f64 = 1e-3;
/// Prefixes that are listed.
const PREFIXES_SHOWN: usize = 5;

/// Names and sentences of the lines that the report of a run has; none where nobody was overtaken and hits and misses are
/// not both there. A hit is one in the GPU's own cache: where there are tiers of KV (`has_tiers`) a miss may have loaded its prefix.
pub(super) fn lines(report: &WaitReport, has_tiers: bool) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let (hits, misses) = (&report.hits, &report.misses);
    if hits.ttft.count() > 0 && misses.ttft.count() > 0 {
        let figure = |class: &WaitClass| mean_of(&class.ttft);
        let cached = if has_tiers {
            "prefix on the GPU"
        } else {
            "cached prefix"
        };
        let sentence = format!("with a {cached} {}, without {}", figure(hits), figure(misses));
        lines.push(("TTFT", sentence));
    }
    let waited = hits.waits.sum_s() + misses.waits.sum_s();
    let is_queue = waited > WAIT_MIN_S * report.admitted() as f64;
    if let (true, Some((requests, share))) = (is_queue, report.shares_of_misses()) {
        let of = |class: &WaitClass| {
            let longest = class.waits.max_s().map_or("–".to_owned(), time);
            format!(
                "{} (max {longest})",
                class.waits.mean_s().map_or("–".into(), time)
            )
        };
        let [hit, miss, missed] = match has_tiers {
            true => [
                "on the GPU",
                "not there",
                "found no prefix on the GPU (a tier may have had it)",
            ],
            false => ["hits", "misses", "missed"],
        };
        lines.push((
            "waiting",
            format!(
                "{hit} {}, {miss} {}: {} of requests {missed}, and did {} of the waiting",
                of(hits),
                of(misses),
                percent(requests),
                percent(share)
            ),
        ));
    }
    if let Some(most) = report.most_overtaken {
        lines.push((
            "overtaken",
            format!(
                "{} of requests by later ones; {} by {} while it waited {}",
                percent(report.overtaken_share()),
                named(&most, report.caches_prefixes),
                count(most.overtaken_by),
                time(most.wait_s)
            ),
        ));
    }
    if let Some((starved, longest_s)) = report.starved() {
        let sentence = format!(
            "{} never ran, after more than twice the longest wait of any that did: up to {}",
            counted(starved, "request"),
            time(longest_s)
        );
        lines.push(("starved", sentence));
    }
    lines
}

/// Fewer values have no 99th percentile: it would be the largest of them, whatever it is.
const PERCENTILE_MIN: u64 = 100;

/// The mean of a part of the requests, and their number; the tail where there are enough for one.
fn mean_of(distribution: &Distribution) -> String {
    let mean = distribution.mean_s().map_or("–".to_owned(), time);
    let number = count(distribution.count());
    match distribution.quantile_s(0.99) {
        Some(tail) if distribution.count() >= PERCENTILE_MIN => {
            format!("{mean} (p99 {}, n = {number})", time(tail))
        }
        _ => format!("{mean} (n = {number})"),
    }
}

fn mean_and_p99(distribution: &Distribution) -> String {
    let figure = |seconds: Option<f64>| seconds.map_or("–".to_owned(), time);
    format!(
        "{} (p99 {})",
        figure(distribution.mean_s()),
        figure(distribution.quantile_s(0.99))
    )
}

/// `request 17 (prefix 4, a miss)`; without a cache nobody misses.
fn named(waiter: &Waiter, caches_prefixes: bool) -> String {
    let prefix = waiter.prefix.map(|prefix| format!("prefix {prefix}"));
    let state = state(waiter, caches_prefixes).map(str::to_owned);
    let of: Vec<String> = prefix.into_iter().chain(state).collect();
    let number = count(waiter.id.0);
    match of.is_empty() {
        true => format!("request {number}"),
        false => format!("request {number} ({})", of.join(", ")),
    }
}

fn state(waiter: &Waiter, caches_prefixes: bool) -> Option<&'static str> {
    match (waiter.was_admitted, waiter.is_hit) {
        (false, _) => Some("never ran"),
        (true, true) => Some("a hit"),
        (true, false) => caches_prefixes.then_some("a miss"),
    }
}

/// How much of the waits lay before the engine's queue.
fn parts(report: &WaitReport) -> Option<String> {
    let part = |of: &Distribution| mean_and_p99(of);
    (report.admitted() > 0).then(|| {
        format!(
            "of the wait before the first step, front ends are {}, the engine's queue is {}\n",
            part(&report.front_end),
            part(&report.engine_queue)
        )
    })
}

/// The longest waits and the prefixes that waited longest, over the whole run.
#[must_use]
pub fn waits(report: &WaitReport) -> String {
    if report.longest.is_empty() {
        return "\nwho waited: nobody\n".to_owned();
    }
    let overtaken = match report.most_overtaken {
        None => "nobody was overtaken by a later request".to_owned(),
        Some(_) => {
            let share = percent(report.overtaken_share());
            let of = match report.caches_prefixes {
                true => format!(
                    " ({} hits, {} misses)",
                    count(report.hits.overtaken),
                    count(report.misses.overtaken)
                ),
                false => String::new(),
            };
            format!("{share} of requests were overtaken by later ones{of}")
        }
    };
    let mut text =
        format!("\nwho waited longest, over the whole run, its first seconds included: {overtaken}\n");
    text += &parts(report).unwrap_or_default();
    let columns = [
        Column::right("request"),
        Column::right("prefix"),
        Column::left("cache"),
        Column::right("waited"),
        Column::right("overtaken by"),
    ];
    let row = |waiter: &Waiter| {
        vec![
            count(waiter.id.0),
            waiter.prefix.map_or("–".into(), |prefix| prefix.to_string()),
            state(waiter, report.caches_prefixes).unwrap_or("off").to_owned(),
            time(waiter.wait_s),
            count(waiter.overtaken_by),
        ]
    };
    text += &table(&columns, &report.longest.iter().map(row).collect::<Vec<_>>());
    if report.prefixes.len() > 1 {
        text += &prefixes(&report.prefixes);
    }
    if !report.priorities.is_empty() {
        text += &priorities(&report.priorities);
    }
    if report.of_other_priorities > 0 {
        text += &format!(
            "{} of other priorities, which are too many for a table\n",
            counted(report.of_other_priorities, "request")
        );
    }
    text
}

/// What became of each priority, the one served first before the others.
fn priorities(all: &[PriorityWaits]) -> String {
    let mut columns = vec![Column::right("priority"), Column::right("sent")];
    columns.extend(["wait mean", "p99", "TTFT mean", "p50", "p99", "E2EL mean", "p99"].map(Column::right));
    let row = |of: &PriorityWaits| {
        let mean = |of: &Distribution| of.mean_s().map_or("–".into(), time);
        let quantile = |of: &Distribution, p: f64| of.quantile_s(p).map_or("–".into(), time);
        vec![
            of.priority.to_string(),
            count(of.sent),
            mean(&of.waits),
            quantile(&of.waits, 0.99),
            mean(&of.ttft),
            quantile(&of.ttft, 0.5),
            quantile(&of.ttft, 0.99),
            mean(&of.e2el),
            quantile(&of.e2el, 0.99),
        ]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    format!("by priority, the smallest first\n{}", table(&columns, &rows))
}

fn prefixes(all: &[PrefixWaits]) -> String {
    let mean = |prefix: &PrefixWaits| prefix.waited_s / prefix.requests as f64;
    let mut means: Vec<f64> = all.iter().map(mean).collect();
    means.sort_by(f64::total_cmp);
    let ratio = means[means.len() - 1] / means[means.len() / 2].max(f64::MIN_POSITIVE);
    let spread = if ratio.is_finite() && ratio > 1.0 && means[means.len() / 2] > WAIT_MIN_S {
        format!(", the worst mean {} times the median one", significant(ratio))
    } else {
        String::new()
    };
    let mut text = format!(
        "prefixes that waited longest, of {}{spread}\n",
        count(all.len() as u64)
    );
    let columns = [
        Column::right("prefix"),
        Column::right("requests"),
        Column::right("hits"),
        Column::right("mean wait"),
        Column::right("longest"),
        Column::right("overtaken by"),
    ];
    let row = |prefix: &PrefixWaits| {
        vec![
            prefix.prefix.to_string(),
            count(prefix.requests),
            percent(prefix.hits as f64 / prefix.requests as f64),
            time(mean(prefix)),
            time(prefix.longest_s),
            count(prefix.overtaken_by),
        ]
    };
    let shown: Vec<Vec<String>> = all.iter().take(PREFIXES_SHOWN).map(row).collect();
    text += &table(&columns, &shown);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RequestId;
    use crate::units::Picos;

    #[test]
    fn starvation_is_told_in_a_line_and_in_tables() {
        let mut report = WaitReport {
            caches_prefixes: true,
            ..WaitReport::default()
        };
        for (class, waits) in [(&mut report.hits, [0.5, 1.5]), (&mut report.misses, [4.0, 9.0])] {
            for wait in waits {
                class.waits.record(Picos::from_seconds(wait), 1);
                class.ttft.record(Picos::from_seconds(wait + 0.1), 1);
            }
        }
        report.misses.overtaken = 2;
        let waiter = Waiter {
            id: RequestId(17),
            prefix: Some(4),
            wait_s: 9.0,
            overtaken_by: 1312,
            is_hit: false,
            was_admitted: true,
        };
        report.most_overtaken = Some(waiter);
        report.longest = vec![waiter];
        let prefix = |prefix, waited_s| PrefixWaits {
            prefix,
            requests: 2,
            hits: 1,
            waited_s,
            longest_s: waited_s,
            overtaken_by: 0,
        };
        report.prefixes = vec![prefix(4, 13.0), prefix(2, 2.0), prefix(1, 1.0)];
        let told: Vec<String> = lines(&report, false)
            .iter()
            .map(|(name, sentence)| format!("{name}: {sentence}"))
            .collect();
        insta::assert_snapshot!(told.join("\n"), @r"
        TTFT: with a cached prefix 1.10 s (n = 2), without 6.60 s (n = 2)
        waiting: hits 1.00 s (max 1.50 s), misses 6.50 s (max 9.00 s): 50.0 % of requests missed, and did 86.7 % of the waiting
        overtaken: 50.0 % of requests by later ones; request 17 (prefix 4, a miss) by 1,312 while it waited 9.00 s
        ");
        // Who loads its prefix from elsewhere misses the GPU's cache, and computes nothing twice.
        let told: Vec<String> = lines(&report, true).into_iter().map(|line| line.1).collect();
        assert_eq!(
            told[..2],
            [
                "with a prefix on the GPU 1.10 s (n = 2), without 6.60 s (n = 2)",
                "on the GPU 1.00 s (max 1.50 s), not there 6.50 s (max 9.00 s): 50.0 % of requests found no prefix on the \
                 GPU (a tier may have had it), and did 86.7 % of the waiting"
            ]
        );
        let tables = waits(&report);
        assert!(
            tables.contains("the worst mean 6.50 times the median one"),
            "{tables}"
        );
        assert!(waits(&WaitReport::default()).contains("nobody"));
        for _ in 0..98 {
            report.hits.ttft.record(Picos::from_seconds(1.1), 1);
        }
        let told = &lines(&report, false)[0].1;
        assert!(
            told.contains("p99 1.11 s, n = 100)") && told.ends_with("6.60 s (n = 2)"),
            "{told}"
        );
        report.caches_prefixes = false;
        let told = lines(&report, false).pop().unwrap().1;
        assert!(told.contains("request 17 (prefix 4) by 1,312"), "{told}");
        assert!(!waits(&report).contains("miss"));
    }
}
