//! What became of each class of requests, and what each pool answered: one row each, over the whole run.

use super::figures::{count, percent, significant, time};
use super::page::Page;
use super::tables::{Column, table};
use super::text::per_second;
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
        for ((pool, part), own) in meta.pools.iter().zip(&result.by_pool).zip(replicas) {
            let busy = busy(own.unwrap_or_default(), result);
            let mut row = row(&pool.name, part, result);
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
    let names = meta.classes.iter().map(|class| class.name.as_str());
    let rows = names.zip(&result.by_class).map(|(name, part)| {
        let mut row = row(name, part, result);
        // Over the same time as its tokens, whenever it sent.
        row.insert(2, significant(per_second(part.sent, result.whole.duration_s)));
        row
    });
    let mut columns = columns("class", "sent");
    columns.insert(2, Column::right("req/s"));
    Some((columns, rows.collect()))
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
            cell(part.tpot.mean_s()),
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

fn row(name: &str, part: &PartSummary, result: &RunResult) -> Vec<String> {
    let seconds = result.whole.duration_s.max(f64::MIN_POSITIVE);
    let lost = part.ended_requests() - part.completed;
    let mut row = vec![
        name.to_owned(),
        count(part.sent),
        if lost > 0 { count(lost) } else { "–".into() },
        significant(part.output_tokens as f64 / seconds),
    ];
    let quantile = |of: &Distribution, p: f64| of.quantile_s(p).map_or("–".into(), time);
    for of in [&part.ttft, &part.tpot] {
        row.extend([0.5, 0.95, 0.99].map(|p| quantile(of, p)));
    }
    row.push(match (result.whole.good, part.ended_requests()) {
        (None, _) | (_, 0) => "–".into(),
        (Some(_), ended) => percent(part.good as f64 / ended as f64),
    });
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
    use crate::report::{ClassPromise, fixtures};
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
}
