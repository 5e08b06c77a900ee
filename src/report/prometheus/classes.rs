//! What vLLM has no metric for: what became of each class of requests, under names of this program's own.
//!
//! Times are summaries, with quantiles over all requests of the class that were answered.

use std::fmt::Write;

use super::{labels, number};
use crate::metrics::{Distribution, PartSummary};

/// Reads a number of a class.
type Count = fn(&PartSummary) -> u64;
/// Reads times of a class.
type Times = fn(&PartSummary) -> &Distribution;

/// Requests of a class by what became of them.
const OUTCOMES: [(&str, Count); 4] = [
    ("answered", |part| part.completed),
    ("refused", |part| part.rejected),
    ("gone", |part| part.timed_out),
    ("lost", |part| part.failed),
];
/// Tokens.
const COUNTERS: [(&str, &str, Count); 2] = [
    (
        "class_prompt_tokens",
        "Prompt tokens of requests that were answered.",
        |part| part.input_tokens,
    ),
    (
        "class_generation_tokens",
        "Output tokens of requests that were answered.",
        |part| part.output_tokens,
    ),
];
/// Times of requests that were answered.
const TIMES: [(&str, &str, Times); 4] = [
    (
        "class_time_to_first_token_seconds",
        "From the arrival to the first token.",
        |part| &part.ttft,
    ),
    (
        "class_request_time_per_output_token_seconds",
        "Mean time per output token after the first.",
        |part| &part.tpot,
    ),
    (
        "class_e2e_request_latency_seconds",
        "From the arrival to the last token.",
        |part| &part.e2el,
    ),
    (
        "class_request_queue_time_seconds",
        "From the arrival to the first step.",
        |part| &part.queue_time,
    ),
];

/// What a scrape shows of classes (name, and whether anything is promised to it), behind what it shows of engines; nothing without any.
#[must_use]
pub fn of_classes(classes: &[(&str, bool)], parts: &[PartSummary]) -> String {
    let mut page = String::new();
    if parts.is_empty() {
        return page;
    }
    let promised = || {
        classes
            .iter()
            .zip(parts)
            .filter(|((_, is_promised), _)| *is_promised)
    };
    let classes = || classes.iter().map(|(name, _)| name).zip(parts);
    let inside = |part: &PartSummary| part.sent - part.ended_requests();
    family(
        &mut page,
        "class_requests_inside",
        "gauge",
        "Requests that have not left.",
    );
    for (name, part) in classes() {
        sample(
            &mut page,
            "class_requests_inside",
            &[("class", name)],
            inside(part) as f64,
        );
    }
    let name_of_all = "class_requests_total";
    family(
        &mut page,
        name_of_all,
        "counter",
        "Requests that have left, by what became of them.",
    );
    for (name, part) in classes() {
        for (outcome, count) in OUTCOMES {
            let labels = [("class", *name), ("outcome", outcome)];
            sample(&mut page, name_of_all, &labels, count(part) as f64);
        }
    }
    let good = "class_requests_good_total";
    family(
        &mut page,
        good,
        "counter",
        "Requests that met every limit of their class, of classes that have any.",
    );
    for ((name, _), part) in promised() {
        sample(&mut page, good, &[("class", name)], part.good as f64);
    }
    for (counter, help, count) in COUNTERS {
        let counter = format!("{counter}_total");
        family(&mut page, &counter, "counter", help);
        for (name, part) in classes() {
            sample(&mut page, &counter, &[("class", name)], count(part) as f64);
        }
    }
    for (times, help, read) in TIMES {
        family(&mut page, times, "summary", help);
        for (name, part) in classes() {
            let times_of = read(part);
            for quantile in [0.5, 0.9, 0.99] {
                let labels = [("class", *name), ("quantile", &number(quantile))];
                let value = times_of.quantile_s(quantile).unwrap_or(f64::NAN);
                sample(&mut page, times, &labels, value);
            }
            let labels = [("class", *name)];
            sample(&mut page, &format!("{times}_sum"), &labels, times_of.sum_s());
            sample(
                &mut page,
                &format!("{times}_count"),
                &labels,
                times_of.count() as f64,
            );
        }
    }
    page
}

fn family(page: &mut String, name: &str, kind: &str, help: &str) {
    let lines = format!("# HELP plimsoll:{name} {help}\n# TYPE plimsoll:{name} {kind}\n");
    page.push_str(&lines);
}

fn sample(page: &mut String, name: &str, of: &[(&str, &str)], value: f64) {
    writeln!(page, "plimsoll:{name}{} {}", labels(of), number(value))
        .expect("text takes all that is written to it");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Picos;

    #[test]
    fn each_class_has_a_sample_of_each_family() {
        let mut chat = PartSummary::default();
        (chat.sent, chat.completed, chat.rejected) = (5, 2, 1);
        chat.ttft.record(Picos::from_seconds(0.25), 2);
        let page = of_classes(
            &[("chat", true), ("b\"c", false)],
            &[chat, PartSummary::default()],
        );
        assert_eq!(
            page.matches("plimsoll:class_requests_good_total{").count(),
            1,
            "{page}"
        );
        for line in [
            "plimsoll:class_requests_inside{class=\"chat\"} 2.0\n",
            "plimsoll:class_requests_inside{class=\"b\\\"c\"} 0.0\n",
            "plimsoll:class_requests_total{class=\"chat\",outcome=\"refused\"} 1.0\n",
            "plimsoll:class_time_to_first_token_seconds{class=\"chat\",quantile=\"0.5\"} 0.25\n",
            "plimsoll:class_time_to_first_token_seconds_sum{class=\"chat\"} 0.5\n",
            "plimsoll:class_time_to_first_token_seconds{class=\"b\\\"c\",quantile=\"0.5\"} NaN\n",
        ] {
            assert!(page.contains(line), "{line} in {page}");
        }
        assert_eq!(of_classes(&[], &[]), "");
    }
}
