//! Markdown for pull requests and notebooks: the answer as a line, the figures as one table.

use super::figures::{significant, time};
use super::tables::{Column, markdown};
use super::text::served_when_full;
use super::views::ResultMeta;
use super::{text_answer, text_caveats, text_parts, text_promise};
use crate::analysis::{RunResult, Verdict};

pub use super::text_knee::knee_markdown as knee;

/// Writes one run: the first line of the text report, what it rests on, and tables of latencies and of classes.
#[must_use]
pub fn run(result: &RunResult, meta: &ResultMeta) -> String {
    let shown = result.steady.as_ref().unwrap_or(&result.whole);
    let heads = ["mean", "std", "p50", "p90", "p95", "p99"];
    let mut columns = vec![Column::left(match (&result.steady, result.verdict) {
        (Some(_), Verdict::TooShort) => "middle of the run",
        (Some(_), _) => "steady state",
        (None, _) => "whole run",
    })];
    columns.extend(heads.map(Column::right));
    let cell = |value: Option<f64>| value.map_or("–".into(), time);
    let latencies = [
        ("TTFT", &shown.ttft),
        ("TPOT", &shown.tpot),
        ("ITL", &shown.itl),
        ("E2EL", &shown.e2el),
    ];
    let rows: Vec<Vec<String>> = latencies
        .into_iter()
        .filter(|(name, distribution)| {
            distribution.count() > 0
                && meta
                    .metrics
                    .iter()
                    .any(|metric| metric.eq_ignore_ascii_case(name))
        })
        .map(|(name, distribution)| {
            // Answers that leave whole have no gaps.
            let is_without = matches!(name, "TPOT" | "ITL") && distribution.max_s() == Some(0.0);
            let cell = |value: Option<f64>| cell(value.filter(|_| !is_without));
            let mut row = vec![
                name.into(),
                cell(distribution.mean_s()),
                cell(distribution.std_s()),
            ];
            let quantiles = distribution.quantiles();
            row.extend([0.5, 0.9, 0.95, 0.99].map(|p| cell(quantiles.at_s(p))));
            row
        })
        .collect();
    let per_second = |number: u64| {
        if shown.duration_s > 0.0 {
            number as f64 / shown.duration_s
        } else {
            0.0
        }
    };
    let throughput = format!(
        "{} req/s, {} prompt tok/s, {} output tok/s",
        significant(per_second(shown.completed)),
        significant(per_second(shown.input_tokens)),
        significant(per_second(shown.output_tokens))
    );
    let reasons: String = result
        .reasons
        .iter()
        .map(|reason| format!("- {reason}\n"))
        .collect();
    let table = if rows.is_empty() {
        String::new()
    } else {
        format!("\n{}", markdown(&columns, &rows))
    };
    let promises = text_promise::promises(result, shown, meta);
    let told = [
        ("served", served_when_full(result).into_iter().collect()),
        ("SLO", promises),
        ("trust", text_caveats::trust_lines(&meta.trust)),
        ("model ±", text_caveats::model_lines(result, meta)),
    ];
    let told: String = (told.into_iter())
        .flat_map(|(name, lines)| lines.into_iter().map(move |line| format!("- {name}: {line}\n")))
        .collect();
    let classes = text_parts::classes(result, meta).map_or(String::new(), |(columns, rows)| {
        format!("\nwhole run:\n\n{}", markdown(&columns, &rows))
    });
    format!(
        "**{}**\n\n{reasons}- {throughput}\n{told}{table}{classes}",
        text_answer::answer(result, meta)
    )
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    #[test]
    fn a_run_is_an_answer_and_a_table() {
        insta::assert_snapshot!(run(&fixtures::stable_run(), &fixtures::meta()), @r"
        **stable at 10.0 req/s: TTFT p50 30.4 ms p99 87.7 ms, TPOT p50 7.25 ms, 1,280 tok/s out**

        - the number in the system returned to its median 412 times
        - 10.0 req/s, 10,200 prompt tok/s, 1,280 output tok/s
        - trust: ●●○ decode calibrated   ●○○ prefill roofline only

        | steady state | mean | std | p50 | p90 | p95 | p99 |
        | :-- | --: | --: | --: | --: | --: | --: |
        | TTFT | 38.2 ms | 16.2 ms | 30.4 ms | 64.8 ms | 76.1 ms | 87.7 ms |
        | TPOT | 7.66 ms | 900 µs | 7.25 ms | 9.17 ms | 9.65 ms | 10.1 ms |
        | ITL | 10.9 ms | 5.89 ms | 8.01 ms | 20.4 ms | 24.9 ms | 29.6 ms |
        | E2EL | 1.02 s | 133 ms | 960 ms | 1.25 s | 1.32 s | 1.38 s |
        ");
        assert!(!run(&fixtures::failed_run(), &fixtures::meta()).contains('|'));
        let (mut of_classes, mut meta) = (fixtures::stable_run(), fixtures::meta());
        of_classes.by_class = vec![Default::default()];
        meta.classes = vec![crate::report::ClassPromise {
            name: "chat".to_owned(),
            request_rate: None,
            limits: Vec::new(),
        }];
        meta.slo_kept = Some(true);
        let printed = run(&of_classes, &meta);
        assert!(
            printed.contains("\nwhole run:\n\n| class | sent | req/s |") && printed.contains("| chat | 0 |"),
            "{printed}"
        );
    }
}
