//! What became of each class of requests, and what each pool answered: one row each, over the whole run.

use super::figures::{count, percent, significant, time};
use super::page::Page;
use super::tables::{Column, table};
use super::text::per_second;
use super::text_latency::is_without_gaps;
use super::views::ResultMeta;
use crate::analysis::RunResult;
use crate::metrics::{Distribution, PartSummary, ReplicaSummary, of_pools};

/// The tables, and an empty line below them; nothing where a scenario has neither classes nor several pools.
pub(super) fn parts(page: &mut Page, result: &RunResult, meta: &ResultMeta) {
    if let Some((columns, rows)) = classes(result, meta) {
        page.table(&columns, &rows, 1);
    }
    if !result.by_pool.is_empty() {
        let mut columns = columns("pool", "ended");
        columns.push(Column::right("busy"));
        let replicas = of_pools(&result.by_replica, meta.pools.iter().map(|pool| pool.replicas));
        let mut rows = Vec::new();
        let pools = meta.pools.iter().zip(&result.by_pool).zip(replicas);
        for (index, ((pool, part), own)) in pools.enumerate() {
            let busy = busy(own.unwrap_or_default(), result);
            let good = good_of_pool(result, meta, index).filter(|_| result.whole.good.is_some());
            let mut row = row(&pool.name, part, result.whole.duration_s, good);
            row.push(percent(busy));
            rows.push(row);
        }
        page.table(&columns, &rows, 1);
    }
    if !(result.by_class.is_empty() && result.by_pool.is_empty()) {
        page.line("");
    }
}

/// A row for each class; `None` without any.
pub(super) fn classes(result: &RunResult, meta: &ResultMeta) -> Option<(Vec<Column>, Vec<Vec<String>>)> {
    if result.by_class.is_empty() {
        return None;
    }
    let classes = meta.classes.iter();
    let classes = classes.map(|class| (class.name.as_str(), !class.limits.is_empty()));
    Some(rows_of_classes(
        classes.zip(&result.by_class),
        result.whole.duration_s,
    ))
}

/// The table of classes over so many seconds: of each its name, whether anything is promised to it, and what became of it.
#[must_use]
pub fn class_table<'a>(
    classes: impl Iterator<Item = ((&'a str, bool), &'a PartSummary)>,
    seconds: f64,
) -> String {
    let (columns, rows) = rows_of_classes(classes, seconds);
    table(&columns, &rows)
}

fn rows_of_classes<'a>(
    classes: impl Iterator<Item = ((&'a str, bool), &'a PartSummary)>,
    seconds: f64,
) -> (Vec<Column>, Vec<Vec<String>>) {
    let rows = classes.map(|((name, is_promised), part)| {
        let good = is_promised.then_some((part.good, part.ended_requests()));
        let mut row = row(name, part, seconds, good);
        // Over the same time as its tokens, whenever it sent.
        row.insert(2, significant(per_second(part.sent, seconds)));
        row
    });
    let mut columns = columns("class", "sent");
    columns.insert(2, Column::right("req/s"));
    (columns, rows.collect())
}

/// What the table of classes has no room for: means, and how long its requests waited. Nothing without classes.
#[must_use]
pub fn class_means(result: &RunResult, meta: &ResultMeta) -> String {
    if result.by_class.is_empty() {
        return String::new();
    }
    let mut columns = vec![Column::left("class")];
    columns.extend(
        [
            "TTFT mean",
            "TPOT mean",
            "E2EL mean",
            "queue mean",
            "queue p50",
            "queue p99",
        ]
        .map(Column::right),
    );
    let names = meta.classes.iter().map(|class| class.name.as_str());
    let row = |(name, part): (&str, &PartSummary)| {
        let cell = |value: Option<f64>| value.map_or("–".into(), time);
        vec![
            name.to_owned(),
            cell(part.ttft.mean_s()),
            cell(
                part.tpot
                    .mean_s()
                    .filter(|_| !is_without_gaps("tpot", &part.tpot)),
            ),
            cell(part.e2el.mean_s()),
            cell(part.queue_time.mean_s()),
            cell(part.queue_time.quantile_s(0.5)),
            cell(part.queue_time.quantile_s(0.99)),
        ]
    };
    let rows: Vec<Vec<String>> = names.zip(&result.by_class).map(row).collect();
    format!("\nclasses, over the whole run\n{}", table(&columns, &rows))
}

fn columns(of: &str, requests: &str) -> Vec<Column> {
    let mut columns = vec![Column::left(of)];
    let heads = [
        requests, "lost", "tok/s", "TTFT p50", "p95", "p99", "TPOT p50", "p95", "p99", "good",
    ];
    columns.extend(heads.map(Column::right));
    columns
}

/// Good requests of a pool and all that left it, of those to which something is promised.
fn good_of_pool(result: &RunResult, meta: &ResultMeta, pool: usize) -> Option<(u64, u64)> {
    if meta.classes.is_empty() {
        return result
            .by_pool
            .get(pool)
            .map(|part| (part.good, part.ended_requests()));
    }
    good_of_promised(result, meta, |part| {
        let served = part.by_pool.get(pool);
        served.map_or((0, 0), |served| (served.good, served.ended))
    })
}

/// Good requests and all that left, of the classes to which something is promised; `None` where there is none of them.
pub(super) fn good_of_promised(
    result: &RunResult,
    meta: &ResultMeta,
    of: impl Fn(&PartSummary) -> (u64, u64),
) -> Option<(u64, u64)> {
    let classes = meta.classes.iter().zip(&result.by_class);
    let promised = classes.filter(|(class, _)| !class.limits.is_empty());
    promised
        .map(|(_, part)| of(part))
        .reduce(|sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// A row of a class or a pool; `good` are its good requests and all that left, where anything is promised to them.
fn row(name: &str, part: &PartSummary, seconds: f64, good: Option<(u64, u64)>) -> Vec<String> {
    let seconds = seconds.max(f64::MIN_POSITIVE);
    let lost = part.ended_requests() - part.completed;
    let mut row = vec![
        name.to_owned(),
        count(part.sent),
        if lost > 0 { count(lost) } else { "–".into() },
        significant(part.output_tokens as f64 / seconds),
    ];
    let quantile = |key: &str, of: &Distribution, p: f64| {
        let known = of.quantile_s(p).filter(|_| !is_without_gaps(key, of));
        known.map_or("–".into(), time)
    };
    for (key, of) in [("ttft", &part.ttft), ("tpot", &part.tpot)] {
        row.extend([0.5, 0.95, 0.99].map(|p| quantile(key, of, p)));
    }
    let good = good.filter(|(_, ended)| *ended > 0);
    row.push(good.map_or("–".into(), |(good, ended)| percent(good as f64 / ended as f64)));
    row
}

/// Share of the time in which a step ran, on average over a pool's replicas.
pub(super) fn busy(replicas: &[ReplicaSummary], result: &RunResult) -> f64 {
    let span_s = result.whole.duration_s * replicas.len() as f64;
    let busy_s: f64 = replicas.iter().map(|replica| replica.busy_s).sum();
    if span_s > 0.0 {
        (busy_s / span_s).min(1.0)
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{ClassPromise, Limit, fixtures};
    use crate::units::Picos;

    #[test]
    fn means_and_waits_of_classes_are_told_where_there_are_any() {
        let (mut run, mut meta) = (fixtures::stable_run(), fixtures::meta());
        assert_eq!(class_means(&run, &meta), "");
        let mut part = PartSummary::default();
        part.queue_time.record(Picos::from_seconds(0.25), 1);
        run.by_class = vec![part];
        meta.classes = vec![ClassPromise {
            name: "chat".to_owned(),
            limits: Vec::new(),
            request_rate: None,
        }];
        let told = class_means(&run, &meta);
        let row = told.lines().last().unwrap();
        assert!(
            row.contains("chat") && row.matches("250 ms").count() == 3,
            "{told}"
        );
    }

    #[test]
    fn a_class_whose_answers_leave_whole_has_no_time_between_tokens() {
        let (mut run, mut meta) = (fixtures::stable_run(), fixtures::meta());
        let mut part = PartSummary::default();
        part.tpot.record(Picos::ZERO, 3);
        run.by_class = vec![part];
        meta.classes = vec![ClassPromise {
            name: "chat".to_owned(),
            limits: Vec::new(),
            request_rate: None,
        }];
        let (_, rows) = classes(&run, &meta).unwrap();
        assert_eq!(rows[0][8..11], ["–", "–", "–"]);
        assert!(!class_means(&run, &meta).contains("0 ms"));
    }

    #[test]
    fn a_class_to_which_nothing_is_promised_has_no_share_of_good_requests() {
        let (mut run, mut meta) = (fixtures::stable_run(), fixtures::meta());
        run.whole.good = Some(150);
        let part = |good| {
            let mut part = PartSummary::default();
            (part.completed, part.good) = (100, good);
            part
        };
        run.by_class = vec![part(50), part(100)];
        let class = |name: &str, limits| ClassPromise {
            name: name.to_owned(),
            limits,
            request_rate: None,
        };
        let limit = Limit {
            metric: "ttft".to_owned(),
            limit_s: 1.0,
        };
        meta.classes = vec![class("chat", vec![limit]), class("batch", Vec::new())];
        let (_, rows) = classes(&run, &meta).unwrap();
        let good: Vec<&str> = rows.iter().map(|row| row.last().unwrap().as_str()).collect();
        assert_eq!(good, ["50.0 %", "–"]);
        // Nor does it count in that of all.
        meta.goodput = Vec::new();
        let printed = crate::report::text::run(&run, &meta, crate::report::Style::default());
        let printed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            printed.contains(
                "50.0 % of 100 requests, over the whole run (each class's own limits, and batch has none)"
            ),
            "{printed}"
        );
    }
}
