//! The columns of a sweep's table: the usual ones, or figures that are asked for by name.
//!
//! A figure's name is its key in CSV and JSON; what people ask for in one word (`tpot`, `cost`) is several. Law: axes come first and
//! the state last, whatever is asked for, so that no row is without its name and its worth.

use super::SweepRow;
use crate::nearest::nearest;
use crate::report::figures::{count, percent, significant, time};
use crate::report::tables::Column;
use crate::report::text_sizing::dollars;

/// How a figure is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Milliseconds in files.
    Latency,
    Number,
    Count,
    Share,
    Dollars,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Figure {
    key: String,
    heading: String,
    kind: Kind,
}

/// Which figures the table shows: those that are asked for, in that order, or else the usual ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns(Option<Vec<Vec<Figure>>>);

/// A name of no figure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a sweep has no figure `{name}`{}", near.as_ref().map_or(String::new(), |near| format!("; did you mean `{near}`?")))]
pub struct NoFigure {
    /// What was asked for.
    pub name: String,
    /// The nearest name.
    pub near: Option<String>,
}

const METRICS: [(&str, &str); 5] = [
    ("ttft", "TTFT"),
    ("tpot", "TPOT"),
    ("itl", "ITL"),
    ("e2el", "E2EL"),
    ("queue_time", "queue"),
];

const STATISTICS: [&str; 7] = ["mean", "median", "std", "p50", "p90", "p95", "p99"];

/// The heading over what tokens cost.
pub(super) const TOKENS_COST: &str = "$/M out";

/// Other figures: key, heading, and how they are written.
const OTHERS: [(&str, &str, Kind); 38] = [
    ("request_throughput", "req/s", Kind::Number),
    ("output_throughput", "out tok/s", Kind::Number),
    ("total_token_throughput", "all tok/s", Kind::Number),
    ("max_output_tokens_per_s", "peak tok/s", Kind::Number),
    ("output_tok_s_per_user", "tok/s/user", Kind::Number),
    ("output_tok_s_per_gpu", "tok/s/GPU", Kind::Number),
    ("request_goodput", "good req/s", Kind::Number),
    ("duration", "duration, s", Kind::Number),
    ("completed", "completed", Kind::Count),
    ("failed", "failed", Kind::Count),
    ("max_concurrent_requests", "in flight max", Kind::Count),
    ("total_input_tokens", "tok in", Kind::Count),
    ("total_output_tokens", "tok out", Kind::Count),
    ("good_share", "good", Kind::Share),
    ("prefix_cache_hit_rate", "hits", Kind::Share),
    ("found_anywhere", "found", Kind::Share),
    ("preemptions", "preempted", Kind::Count),
    ("running", "running", Kind::Number),
    ("running_max", "running max", Kind::Count),
    ("waiting", "waiting", Kind::Number),
    ("waiting_max", "waiting max", Kind::Count),
    ("kv_usage", "KV", Kind::Share),
    ("kv_usage_max", "KV max", Kind::Share),
    ("busy", "busy", Kind::Share),
    ("mfu", "MFU", Kind::Share),
    ("memory_bandwidth", "bandwidth", Kind::Share),
    ("replica_hours", "replica-h", Kind::Number),
    ("usd_per_hour", "$/h", Kind::Dollars),
    ("usd_per_million_output_tokens", TOKENS_COST, Kind::Dollars),
    ("usd_per_million_tokens", "$/M in+out", Kind::Dollars),
    ("steps", "steps", Kind::Count),
    ("closed_form_utilisation", "ρ", Kind::Number),
    (
        "closed_form_simulated_mean_queue_time_ms",
        "queue, simulated",
        Kind::Latency,
    ),
    (
        "closed_form_mean_queue_time_ms",
        "queue, closed form",
        Kind::Latency,
    ),
    (
        "closed_form_simulated_mean_e2el_ms",
        "E2EL, simulated",
        Kind::Latency,
    ),
    ("closed_form_mean_e2el_ms", "E2EL, closed form", Kind::Latency),
    (
        "closed_form_simulated_request_throughput",
        "req/s, simulated",
        Kind::Number,
    ),
    (
        "closed_form_request_throughput",
        "req/s, closed form",
        Kind::Number,
    ),
];

/// What one word stands for. Of these a table leaves out what no run has, but for the first.
const WORDS: [(&str, &[&str]); 14] = [
    ("ttft", &["median_ttft_ms", "p99_ttft_ms"]),
    ("tpot", &["median_tpot_ms", "p99_tpot_ms"]),
    ("itl", &["median_itl_ms", "p99_itl_ms"]),
    ("e2el", &["median_e2el_ms", "p99_e2el_ms"]),
    (
        "queue",
        &["mean_queue_time_ms", "median_queue_time_ms", "p99_queue_time_ms"],
    ),
    (
        "theory",
        &[
            "closed_form_utilisation",
            "closed_form_simulated_mean_queue_time_ms",
            "closed_form_mean_queue_time_ms",
            "closed_form_simulated_mean_e2el_ms",
            "closed_form_mean_e2el_ms",
            "closed_form_simulated_request_throughput",
            "closed_form_request_throughput",
        ],
    ),
    ("throughput", &["request_throughput", "output_throughput"]),
    ("tokens", &["total_input_tokens", "total_output_tokens"]),
    ("pareto", &["output_tok_s_per_user", "output_tok_s_per_gpu"]),
    ("good", &["good_share"]),
    ("hits", &["prefix_cache_hit_rate", "found_anywhere"]),
    ("kv", &["kv_usage", "kv_usage_max"]),
    ("bandwidth", &["memory_bandwidth"]),
    (
        "cost",
        &[
            "usd_per_hour",
            "usd_per_million_output_tokens",
            "usd_per_million_tokens",
            "replica_hours",
        ],
    ),
];

/// What a simulated figure of the very stretch that a closed form is of is called by, before its own name.
pub(super) const BESIDE_CLOSED_FORM: &str = "closed_form_simulated_";

/// What CSV has beside vLLM's keys.
pub(super) const OWN_OF_CSV: [&str; 15] = [
    "mean_queue_time_ms",
    "closed_form_simulated_mean_queue_time_ms",
    "closed_form_mean_queue_time_ms",
    "closed_form_simulated_mean_e2el_ms",
    "closed_form_mean_e2el_ms",
    "closed_form_simulated_request_throughput",
    "closed_form_request_throughput",
    "preemptions",
    "kv_usage",
    "kv_usage_max",
    "mfu",
    "replica_hours",
    "usd_per_hour",
    "usd_per_million_output_tokens",
    "usd_per_million_tokens",
];

impl Columns {
    /// The figures of these names.
    ///
    /// # Errors
    /// The first that is none.
    pub fn named(names: &[String]) -> Result<Columns, NoFigure> {
        if names.is_empty() {
            return Ok(Columns::default());
        }
        let named = |name: &String| group(name).ok_or_else(|| no_figure(name));
        Ok(Columns(Some(names.iter().map(named).collect::<Result<_, _>>()?)))
    }

    /// Percentiles, in 0..100, that are asked for and are not always known of a run.
    #[must_use]
    pub fn percentiles(&self) -> Vec<f64> {
        let figures = self.0.iter().flatten().flatten();
        let asked = figures.filter_map(|figure| percentile(figure.key.split_once('_')?.0));
        let mut asked: Vec<f64> = asked
            .filter(|one| ![50.0, 90.0, 95.0, 99.0].contains(one))
            .collect();
        asked.sort_by(f64::total_cmp);
        asked.dedup();
        asked
    }

    /// Whether figures of a closed form are asked for.
    #[must_use]
    pub fn ask_closed_forms(&self) -> bool {
        let mut figures = self.0.iter().flatten().flatten();
        figures.any(|figure| figure.key.starts_with("closed_form_"))
    }

    /// The keys of the figures that are asked for, each once; `None` where the usual ones are.
    pub(super) fn keys(&self, rows: &[SweepRow<'_>]) -> Option<Vec<String>> {
        self.0.as_ref()?;
        Some(self.told(rows).into_iter().map(|figure| figure.key).collect())
    }

    /// Those that the table shows, each once.
    fn told(&self, rows: &[SweepRow<'_>]) -> Vec<Figure> {
        let Some(groups) = &self.0 else {
            return usual(rows);
        };
        let has = |figure: &Figure| rows.iter().any(|row| row.named(&figure.key).is_some());
        // What is simulated beside a closed form is what the table shows anyway, unless that is of whole runs.
        let of_whole = rows.iter().any(|row| row.of_whole);
        let same = |figure: &Figure| match figure.key.strip_prefix(BESIDE_CLOSED_FORM) {
            Some(own) if !of_whole => own.to_owned(),
            _ => figure.key.replace("median_", "p50_"),
        };
        let mut known: Vec<String> = Vec::new();
        let mut told = Vec::new();
        for group in groups {
            let (first, others) = group.split_at(1);
            let group = first.iter().chain(others.iter().filter(|one| has(one)));
            let mut left: Vec<Figure> = group.cloned().collect();
            left.retain(|figure| {
                let is_new = !known.contains(&same(figure));
                known.push(same(figure));
                is_new
            });
            shorten(&mut left);
            told.extend(left);
        }
        told
    }

    /// All that can be asked for: words first, then keys.
    #[must_use]
    pub fn known() -> String {
        let words: Vec<&str> = WORDS.iter().map(|(word, _)| *word).collect();
        let others: Vec<&str> = OTHERS.iter().map(|(key, ..)| *key).collect();
        let metrics: Vec<&str> = METRICS.iter().map(|(metric, _)| *metric).collect();
        format!(
            "{}; {}; and {{{},p99.9}}_{{{}}}_ms, with any percentile in place of p99.9",
            words.join(", "),
            others.join(", "),
            STATISTICS.join(","),
            metrics.join(",")
        )
    }
}

fn no_figure(name: &str) -> NoFigure {
    let latencies = METRICS.iter().flat_map(|(metric, _)| {
        let keys = STATISTICS.map(|statistic| format!("{statistic}_{metric}_ms"));
        keys.into_iter()
    });
    let latencies: Vec<String> = latencies.collect();
    let words = WORDS.iter().map(|(word, _)| *word);
    let others = OTHERS.iter().map(|(key, ..)| *key);
    let all = words.chain(others).chain(latencies.iter().map(String::as_str));
    NoFigure {
        name: name.to_owned(),
        near: nearest(name, all, 1).first().map(|near| (*near).to_owned()),
    }
}

/// Of several statistics of one metric the others say which alone.
fn shorten(figures: &mut [Figure]) {
    let metric = |figure: &Figure| Some(figure.heading.rsplit_once(' ')?.0.to_owned());
    let first = figures.first().filter(|first| first.kind == Kind::Latency);
    let Some(of_first) = first.and_then(metric) else {
        return;
    };
    for other in &mut figures[1..] {
        if metric(other).as_ref() == Some(&of_first)
            && let Some((_, statistic)) = other.heading.rsplit_once(' ')
        {
            other.heading = statistic.to_owned();
        }
    }
}

/// The figures of a name.
fn group(name: &str) -> Option<Vec<Figure>> {
    let name = name.trim().replace('-', "_").to_lowercase();
    match WORDS.iter().find(|(word, _)| *word == name) {
        Some((_, keys)) => Some(keys.iter().filter_map(|key| figure(key)).collect()),
        None => figure(&name).map(|figure| vec![figure]),
    }
}

/// The figure of a key.
fn figure(key: &str) -> Option<Figure> {
    if let Some((key, heading, kind)) = OTHERS.iter().find(|(known, ..)| *known == key) {
        return Some(Figure {
            key: (*key).to_owned(),
            heading: (*heading).to_owned(),
            kind: *kind,
        });
    }
    // In milliseconds also where that is not said, and of the queue as its word has it.
    let (statistic, metric) = key.strip_suffix("_ms").unwrap_or(key).split_once('_')?;
    let metric = if metric == "queue" { "queue_time" } else { metric };
    let (_, name) = METRICS.iter().find(|(known, _)| *known == metric)?;
    let is_known = STATISTICS.contains(&statistic) || percentile(statistic).is_some();
    is_known.then(|| Figure {
        key: format!("{statistic}_{metric}_ms"),
        heading: format!("{name} {}", if statistic == "median" { "p50" } else { statistic }),
        kind: Kind::Latency,
    })
}

/// `p99.9` as a number, in 0..100.
fn percentile(statistic: &str) -> Option<f64> {
    let number: f64 = statistic.strip_prefix('p')?.parse().ok()?;
    // Spelt as JSON spells it.
    (number > 0.0 && number < 100.0 && format!("p{number}") == statistic).then_some(number)
}

/// The usual figures of these runs, those only that say something of them.
fn usual(rows: &[SweepRow<'_>]) -> Vec<Figure> {
    let mut names = vec!["throughput", "ttft", "tpot", "median_e2el_ms"];
    names.extend(rows.iter().any(SweepRow::limits_gaps).then_some("p99_itl_ms"));
    names.extend(super::shares_prefixes(rows).then_some("prefix_cache_hit_rate"));
    names.extend(super::finds_elsewhere(rows).then_some("found_anywhere"));
    let scales = rows.iter().any(|row| row.named("replica_hours").is_some());
    if scales || super::costs_differ(rows) {
        names.extend(scales.then_some("replica_hours"));
        let priced = ["usd_per_hour", "usd_per_million_output_tokens"];
        let has = |key: &&str| rows.iter().any(|row| row.named(key).is_some());
        names.extend(priced.into_iter().filter(has));
    }
    names.push("good_share");
    let groups = names.into_iter().filter_map(group);
    let shortened = groups.map(|mut group| {
        shorten(&mut group);
        group
    });
    shortened.flatten().collect()
}

/// The table: its columns, and a line for each finished run.
pub(super) fn cells(rows: &[SweepRow<'_>], shown: &Columns) -> (Vec<Column>, Vec<Vec<String>>) {
    let figures = shown.told(rows);
    let axes = rows.first().map_or(&[][..], |row| row.settings);
    let mut columns: Vec<Column> = axes.iter().map(|(axis, _)| Column::left(axis)).collect();
    columns.extend(figures.iter().map(|figure| Column::right(&figure.heading)));
    columns.push(Column::left("state"));
    let line = |row: &SweepRow<'_>| {
        let axes = row.settings.iter().map(|(_, value)| value.clone());
        let cells = axes.chain(figures.iter().map(|figure| cell(row, figure)));
        cells.chain([row.state()]).collect()
    };
    let finished = rows.iter().filter(|row| row.is_finished());
    (columns, finished.map(line).collect())
}

/// A figure of a run, `–` where it has none.
fn cell(row: &SweepRow<'_>, figure: &Figure) -> String {
    let none = || "–".to_owned();
    let Some(value) = row.named(&figure.key) else {
        return none();
    };
    match figure.kind {
        Kind::Latency => {
            // vLLM's keys are 0 where nobody was answered, which is no latency.
            let is_answered = row.verdict() != "no_answers" && row.counted("completed") != Some(0.0);
            // Answers that leave whole have no gaps.
            let is_gap = figure.key.contains("_tpot_") || figure.key.contains("_itl_");
            let has_any = !is_gap || row.figure("p99_tpot_ms") != Some(0.0);
            if is_answered && has_any {
                time(value / 1e3)
            } else {
                none()
            }
        }
        Kind::Number => significant(value),
        Kind::Count => count(value.round() as u64),
        Kind::Share => percent(value),
        Kind::Dollars => dollars(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_asked_for_by_its_key_or_by_a_word() {
        let headings = |name: &str| {
            let mut group = group(name)?;
            shorten(&mut group);
            Some(
                group
                    .into_iter()
                    .map(|one| one.heading)
                    .collect::<Vec<_>>()
                    .join(" | "),
            )
        };
        assert_eq!(headings("tpot").as_deref(), Some("TPOT p50 | p99"));
        assert_eq!(headings("p95_ttft_ms").as_deref(), Some("TTFT p95"));
        assert_eq!(headings("median-queue-time-ms").as_deref(), Some("queue p50"));
        assert_eq!(
            headings("cost").as_deref(),
            Some("$/h | $/M out | $/M in+out | replica-h")
        );
        assert_eq!(headings("kv").as_deref(), Some("KV | KV max"));
        assert_eq!(headings("mfu").as_deref(), Some("MFU"));
        assert_eq!(headings("queue").as_deref(), Some("queue mean | p50 | p99"));
        assert_eq!(headings("p99.9_ttft_ms").as_deref(), Some("TTFT p99.9"));
        assert_eq!(headings("p99.9_e2el").as_deref(), Some("E2EL p99.9"));
        assert_eq!(headings("p50_queue").as_deref(), Some("queue p50"));
        for none in [
            "p100_ttft_ms",
            "p0_ttft_ms",
            "p099_ttft_ms",
            "px_ttft_ms",
            "p42_tttf_ms",
        ] {
            assert_eq!(headings(none), None, "{none}");
        }
        let asked = ["p99.9_itl", "p99_ttft_ms", "tpot", "p42_e2el_ms"].map(str::to_owned);
        assert_eq!(Columns::named(&asked).unwrap().percentiles(), [42.0, 99.9]);
        for (word, keys) in WORDS {
            assert_eq!(group(word).map(|group| group.len()), Some(keys.len()), "{word}");
        }
        for key in OWN_OF_CSV {
            assert!(figure(key).is_some(), "{key}");
        }
    }

    #[test]
    fn what_is_no_figure_is_refused_with_the_nearest() {
        let unknown = Columns::named(&["tpot".to_owned(), "preemption".to_owned()]).unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "a sweep has no figure `preemption`; did you mean `preemptions`?"
        );
        let far = Columns::named(&["xyzzy".to_owned()]).unwrap_err();
        assert_eq!(far.to_string(), "a sweep has no figure `xyzzy`");
        assert_eq!(Columns::named(&[]), Ok(Columns::default()));
    }
}
