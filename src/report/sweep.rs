//! The runs of a sweep side by side: a table for people, a row a run for spreadsheets.
//!
//! The table shows what `run` shows, the steady stretch where there is one, or whole runs where some are too short to have one
//! ([`alike`]); the rows of a spreadsheet are vLLM's keys, which describe whole runs.
//!
//! A run is its JSON object ([`super::json::run`]), so that one read back from a sweep's file prints the same as one
//! just simulated.

use serde_json::Value;

use super::figures::{percent, significant, time};
use super::page::{panels, wrapped};
use super::sweep_answer::answer;
pub use super::sweep_answer::none_keeps;
use super::tables::{Column, markdown, table};
use super::text_caveats::trust_lines;
use super::trust::trust_of;
use crate::cost::Trust;
use crate::stats::Z_95;

/// One run of a sweep.
#[derive(Clone, Debug)]
pub struct SweepRow<'a> {
    /// (axis, value).
    pub settings: &'a [(String, String)],
    /// The run's object; `null` where the sweep was stopped before it, the verdict and its reason where it cannot be run.
    pub run: &'a Value,
    /// Share of requests that must be good, where limits on them were given.
    pub attainment: Option<f64>,
    /// Its figures are of the whole run, though it may have a steady stretch.
    pub of_whole: bool,
}

/// The runs with figures that compare: where one is too short to have a steady stretch those of all are of whole runs. What a
/// stretch serves may be more than is offered to all of it, and less of another.
#[must_use]
pub fn alike<'a>(mut rows: Vec<SweepRow<'a>>) -> Vec<SweepRow<'a>> {
    let of_whole = rows.iter().any(|row| row.verdict() == "too_short");
    for row in &mut rows {
        row.of_whole = of_whole;
    }
    rows
}

/// What is said of rows that are told as whole runs.
pub(super) const OF_WHOLE: &str =
    "figures are of whole runs, start and end included: some are too short to have a steady stretch";

/// Fewer of the requests in a second than this part are answered in one only where they pile up, however short the run.
const KEEPS_UP: f64 = 0.25;

impl SweepRow<'_> {
    /// A key of the run; percentiles that were not asked for stand among those that are always written.
    fn number(&self, key: &str) -> Option<f64> {
        let always = || self.run.pointer(&format!("/plimsoll/whole/{key}"));
        self.run.get(key).or_else(always)?.as_f64()
    }

    /// A figure as `run` shows it: of the steady stretch where there is one, else of the whole run.
    pub(super) fn figure(&self, key: &str) -> Option<f64> {
        let steady = self.run.pointer(&format!("/plimsoll/steady/{key}"));
        let steady = steady.filter(|_| !self.of_whole);
        steady.and_then(Value::as_f64).or_else(|| self.number(key))
    }

    /// Share of good requests among those that left, one without an answer being none; `None` where no limits were set.
    pub(super) fn good(&self) -> Option<f64> {
        let (good, answered) = (
            self.figure("request_goodput")?,
            self.figure("request_throughput")?,
        );
        let count = |key: &str| self.counted(key).unwrap_or(0.0);
        let (lost, completed) = (
            count("rejected") + count("timed_out") + count("failed"),
            count("completed"),
        );
        let share_answered = if lost > 0.0 {
            completed / (completed + lost)
        } else {
            1.0
        };
        Some(if answered > 0.0 {
            good / answered * share_answered
        } else {
            0.0
        })
    }

    /// A count of the steady stretch where there is one, else of the whole run.
    fn counted(&self, key: &str) -> Option<f64> {
        let steady = self.run.pointer("/plimsoll/steady");
        let stretch = steady.filter(|steady| !steady.is_null() && !self.of_whole);
        let stretch = stretch.or_else(|| self.run.pointer("/plimsoll/whole"));
        stretch?.get(key)?.as_f64()
    }

    /// Of what its shares are.
    fn shares_of(&self) -> &'static str {
        let steady = self.run.pointer("/plimsoll/steady");
        match steady.is_some_and(|steady| !steady.is_null()) {
            _ if !self.is_simulated() => "",
            true if !self.of_whole => "steady",
            _ => "whole",
        }
    }

    /// Share of prompt tokens found in the prefix cache; `None` where none was looked for.
    pub(super) fn hit_rate(&self) -> Option<f64> {
        let asked = self
            .counted("cache_queries_tokens")
            .filter(|asked| *asked > 0.0)?;
        Some(self.counted("cache_hit_tokens")? / asked)
    }

    /// Whether it keeps the promise, if there is one, as `run` judges it.
    pub(super) fn keeps(&self) -> bool {
        let judged = self.run.pointer("/plimsoll/slo_kept").and_then(Value::as_bool);
        let is_served = !matches!(self.verdict(), "unstable" | "no_answers" | "collapsed");
        let has_share = |asked: f64| is_served && self.good().is_some_and(|good| good >= asked);
        // A run that is too short to be judged goes by its share.
        judged.unwrap_or_else(|| self.attainment.is_none_or(has_share))
    }

    /// Whether anything is promised.
    pub(super) fn is_promised(&self) -> bool {
        let judged = self.run.pointer("/plimsoll/slo_kept");
        self.attainment.is_some() || judged.is_some_and(Value::is_boolean)
    }

    /// Output tokens per second, least and most by its interval, or by what so few requests tell; the figure itself where neither is.
    pub(super) fn output(&self) -> Option<(f64, f64, f64)> {
        let value = self.figure("output_throughput")?;
        let by_number = || {
            self.known_by_number()
                .map(|part| (value * (1.0 - part), value * (1.0 + part)))
        };
        let interval = self.interval("output_throughput").or_else(by_number);
        let (low, high) = interval.unwrap_or((value, value));
        Some((value, low, high))
    }

    /// How far the output of a whole run of an open loop, which has no interval, may be off by chance, as a part of it: of so many
    /// requests that come at random with answers that scatter like their mean the tokens in a second have a relative variance of
    /// 2/n. Nor is what one run serves more than another while its last requests drain any more of it for longer. `None` of what is
    /// sent as it is answered or all at once, whose tokens come as fast as they can, and in overload, where they do, too: where fewer than
    /// [`KEEPS_UP`] of the requests in a second are answered in one.
    pub(super) fn known_by_number(&self) -> Option<f64> {
        let rate = self.number("request_rate")?;
        let is_held = self.run.get("max_concurrency").is_some_and(Value::is_number);
        let is_open = !is_held && self.number("request_throughput")? >= KEEPS_UP * rate;
        let is_short = self.of_whole || matches!(self.verdict(), "too_short" | "finite");
        let completed = self.number("completed").filter(|completed| *completed > 0.0)?;
        let is_told = is_open && is_short && self.verdict() != "unstable";
        let has_interval = self.interval("output_throughput").is_some();
        (is_told && !has_interval).then(|| (Z_95 * (2.0 / completed).sqrt()).min(1.0))
    }

    /// The 95 % interval of a figure as the file has it; `None` of whole runs, because it is one of the steady stretch.
    pub(super) fn interval(&self, key: &str) -> Option<(f64, f64)> {
        let path = format!("/plimsoll/intervals_95/{key}");
        let ends = self.run.pointer(&path).filter(|_| !self.of_whole)?;
        Some((ends.get(0)?.as_f64()?, ends.get(1)?.as_f64()?))
    }

    /// Whether a limit is set on gaps between tokens, of each request or of all.
    fn limits_gaps(&self) -> bool {
        let names = |of: &str| {
            let limits = self.run.pointer(of).and_then(Value::as_object);
            limits.is_some_and(|limits| limits.keys().any(|name| name.ends_with("itl")))
        };
        names("/plimsoll/goodput_s") || names("/plimsoll/percentile_limits_s")
    }

    /// Whether a conservation law is broken, which is a failure whatever else it says.
    #[must_use]
    pub fn has_violations(&self) -> bool {
        let violations = self.run.pointer("/plimsoll/violations").and_then(Value::as_array);
        violations.is_some_and(|violations| !violations.is_empty())
    }

    pub(super) fn is_finished(&self) -> bool {
        !self.run.is_null()
    }

    /// Whether the model does not fit there, so that nothing was simulated.
    pub(super) fn is_misfit(&self) -> bool {
        self.verdict() == "does_not_fit"
    }

    /// Whether it cannot be run for another reason.
    pub(super) fn is_refused(&self) -> bool {
        self.verdict() == "refused"
    }

    /// Whether there are figures.
    pub(super) fn is_simulated(&self) -> bool {
        self.is_finished() && !self.is_misfit() && !self.is_refused()
    }

    pub(super) fn verdict(&self) -> &str {
        if !self.is_finished() {
            return "not_run";
        }
        self.run
            .pointer("/plimsoll/verdict")
            .and_then(Value::as_str)
            .unwrap_or("?")
    }

    /// Whether the promise is broken, as far as that is known.
    pub(super) fn breaks(&self) -> bool {
        self.is_finished() && self.is_promised() && !self.keeps()
    }

    /// Whether a promise is neither surely kept nor surely broken.
    pub(super) fn is_open(&self) -> bool {
        let decided = self.run.pointer("/plimsoll/slo_decided").and_then(Value::as_bool);
        decided == Some(false)
    }

    /// The verdict, how many requests were turned away, what ended the run before its traffic did, and whether the promise
    /// is broken, which overload always does.
    fn state(&self) -> String {
        let broken = match self.breaks() && self.verdict() != "unstable" {
            _ if self.is_open() => match self.verdict() {
                // Whose own figures are well known: only a longer run would tell.
                "stable" | "critical" => ", too short for the promise",
                _ => ", promise not decided",
            },
            true => ", breaks the promise",
            false => "",
        };
        let ended_by = match self.run.pointer("/plimsoll/ended_by").and_then(Value::as_str) {
            Some("livelock") => ", ended by a livelock",
            Some("overfull") => ", ended with too many inside",
            Some("clock") => ", ended with the clock",
            _ => "",
        };
        self.fate() + ended_by + broken
    }

    /// The verdict, and how many requests were turned away.
    fn fate(&self) -> String {
        let verdict = self.verdict().replace('_', " ");
        if let (true, Some(why)) = (self.is_refused(), self.run.pointer("/plimsoll/in_short")) {
            return format!("{verdict}: {}", why.as_str().unwrap_or_default());
        }
        let count = |key: &str| self.number(key).unwrap_or(0.0);
        let (failed, completed) = (count("failed"), count("completed"));
        let share = failed / (failed + completed).max(1.0);
        if share >= 0.01 {
            let whole = |key: &str| {
                self.run
                    .pointer(&format!("/plimsoll/whole/{key}"))
                    .and_then(Value::as_f64)
            };
            let fates = [
                ("rejected", "refused"),
                ("timed_out", "given up"),
                ("failed", "failed"),
            ];
            let left = (failed + completed).max(1.0);
            let told = fates.into_iter().filter_map(|(key, fate)| {
                let share = whole(key).filter(|number| *number > 0.0)? / left;
                Some(format!(", {} {fate}", percent(share)))
            });
            verdict + &told.collect::<String>()
        } else {
            verdict
        }
    }
}

/// Writes the table; where it is wider than `width` columns it is told in several, each with the axes.
#[must_use]
pub fn text(rows: &[SweepRow<'_>], width: Option<usize>) -> String {
    let (columns, cells) = cells(rows);
    let remarks = remarks(rows);
    let Some(width) = width else {
        return format!("{}\n{}{}", answer(rows), table(&columns, &cells), lines(&remarks));
    };
    let axes = rows.first().map_or(0, |row| row.settings.len());
    let remarks: String = remarks
        .iter()
        .map(|line| wrapped("", "  ", line, width))
        .collect();
    wrapped("", "  ", &answer(rows), width) + &panels(&columns, &cells, axes, width) + &remarks
}

/// What is said below the table: what the figures rest on, and what they are of.
fn remarks(rows: &[SweepRow<'_>]) -> Vec<String> {
    let mut remarks = trust(rows);
    if rows.iter().any(|row| row.of_whole) {
        remarks.push(OF_WHOLE.to_owned());
    }
    remarks
}

/// What the parts of the steps are known from, each as little as in any of the runs: a line, or one for each group of pools.
fn trust(rows: &[SweepRow<'_>]) -> Vec<String> {
    let mut parts: Vec<(String, Trust)> = Vec::new();
    for row in rows {
        let told = row.run.pointer("/plimsoll/trust").and_then(Value::as_object);
        for (part, word) in told.into_iter().flatten() {
            let Some(trust) = word.as_str().and_then(trust_of) else {
                continue;
            };
            match parts.iter_mut().find(|(known, _)| known == part) {
                Some((_, least)) => *least = trust.max(*least),
                None => parts.push((part.clone(), trust)),
            }
        }
    }
    let whose = match rows.iter().filter(|row| row.is_simulated()).count() {
        1 => "trust",
        _ => "trust, of all runs the least",
    };
    let told = trust_lines(&parts).into_iter();
    told.map(|line| format!("{whose}: {line}")).collect()
}

fn lines(all: &[String]) -> String {
    all.iter().map(|line| format!("{line}\n")).collect()
}

/// Writes the table in Markdown.
#[must_use]
pub fn md(rows: &[SweepRow<'_>]) -> String {
    let (columns, cells) = cells(rows);
    let text = format!("{}\n\n{}", answer(rows), markdown(&columns, &cells));
    match lines(&remarks(rows)) {
        remarks if remarks.is_empty() => text,
        remarks => format!("{text}\n{remarks}"),
    }
}

fn cells(rows: &[SweepRow<'_>]) -> (Vec<Column>, Vec<Vec<String>>) {
    let axes = rows.first().map_or(&[][..], |row| row.settings);
    let mut columns: Vec<Column> = axes.iter().map(|(axis, _)| Column::left(axis)).collect();
    columns.extend(
        [
            "req/s",
            "out tok/s",
            "TTFT p50",
            "p99",
            "TPOT p50",
            "p99",
            "E2EL p50",
        ]
        .map(Column::right),
    );
    let limits_gaps = rows.iter().any(SweepRow::limits_gaps);
    let shares_prefixes = shares_prefixes(rows);
    columns.extend(limits_gaps.then(|| Column::right("ITL p99")));
    columns.extend(shares_prefixes.then(|| Column::right("hits")));
    columns.push(Column::right("good"));
    columns.push(Column::left("state"));
    let shown = |row: &SweepRow<'_>| {
        let plain = |key: &str| row.figure(key).map_or("–".into(), significant);
        // vLLM's keys are 0 where nobody was answered, which is no latency.
        let is_answered = row.verdict() != "no_answers" && row.counted("completed") != Some(0.0);
        let shown = |key: &str| row.figure(key).filter(|_| is_answered);
        let ms = |key: &str| shown(key).map_or("–".into(), |ms| time(ms / 1e3));
        // Answers that leave whole have no gaps.
        let has_gaps = row.figure("p99_tpot_ms") != Some(0.0);
        let gap = |key: &str| if has_gaps { ms(key) } else { "–".into() };
        let good = row.good().map_or("–".into(), percent);
        let mut cells: Vec<String> = row.settings.iter().map(|(_, value)| value.clone()).collect();
        cells.extend([
            plain("request_throughput"),
            plain("output_throughput"),
            ms("median_ttft_ms"),
            ms("p99_ttft_ms"),
            gap("median_tpot_ms"),
            gap("p99_tpot_ms"),
            ms("median_e2el_ms"),
        ]);
        cells.extend(limits_gaps.then(|| gap("p99_itl_ms")));
        cells.extend(shares_prefixes.then(|| row.hit_rate().map_or("–".into(), percent)));
        cells.extend([good, row.state()]);
        cells
    };
    let finished = rows.iter().filter(|row| row.is_finished());
    (columns, finished.map(shown).collect())
}

/// Whether any run found a prompt's beginning in its prefix cache.
fn shares_prefixes(rows: &[SweepRow<'_>]) -> bool {
    rows.iter()
        .any(|row| row.hit_rate().is_some_and(|share| share > 0.0))
}

/// The factors that a run's figures lie within with 90 % confidence by the model alone, under `FIGURE_model_low` and
/// `FIGURE_model_high`.
fn model_factors(run: &Value) -> Vec<(String, f64)> {
    let figures = run.pointer("/plimsoll/model_interval").and_then(Value::as_object);
    let factors = figures.into_iter().flatten().flat_map(|(figure, interval)| {
        let end = |at: usize, name: &str| {
            let factor = interval.get("factors_90")?.get(at)?.as_f64()?;
            Some((format!("{figure}_model_{name}"), factor))
        };
        [end(0, "low"), end(1, "high")]
    });
    factors.flatten().collect()
}

/// Columns of a promise.
const PROMISE: [&str; 4] = ["slo", "good_share", "good_share_low", "good_share_high"];

/// What became of the promise; of one that is to percentiles alone there is no share.
fn promise(row: &SweepRow<'_>) -> [String; 4] {
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let is_known = row.is_simulated() && row.is_promised();
    let fate = match (row.is_open(), row.keeps()) {
        _ if !is_known => "",
        (true, _) => "not_decided",
        (false, true) => "kept",
        (false, false) => "broken",
    };
    let good = row.good().filter(|_| is_known);
    let ends = row.interval("attainment").filter(|_| good.is_some());
    [
        fate.to_owned(),
        number(good),
        number(ends.map(|(low, _)| low)),
        number(ends.map(|(_, high)| high)),
    ]
}

/// Writes one line a run: the axes, then every plain key of its object, which is of the whole run, then `prefix_cache_hit_rate` where
/// anything was found there, then the factors of the model's intervals where they were asked for, then what became of the promise
/// where there is one (`slo`: `kept`, `broken` or `not_decided`; `good_share` with its 95 % interval), then `shares_of`, which says of
/// what this share and the hit rate are (`steady` stretch or `whole` run, as in the table), then the verdict; a run that was not made
/// has its axes and the verdict `not_run`, one whose model does not fit `does_not_fit`, and one that cannot be run for another reason
/// `refused`.
///
/// # Panics
/// Never: what is written stays in memory.
#[must_use]
pub fn csv(rows: &[SweepRow<'_>]) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let is_plain = |value: &Value| !value.is_object() && !value.is_array();
    let finished = rows.iter().find(|row| row.is_simulated());
    let keys: Vec<&String> = finished
        .and_then(|row| row.run.as_object())
        .map(|object| {
            object
                .iter()
                .filter(|(_, value)| is_plain(value))
                .map(|(key, _)| key)
                .collect()
        })
        .unwrap_or_default();
    let factors: Vec<String> = finished
        .map(|row| model_factors(row.run))
        .into_iter()
        .flatten()
        .map(|(name, _)| name)
        .collect();
    let shares_prefixes = shares_prefixes(rows);
    let is_promised = rows.iter().any(SweepRow::is_promised);
    let mut writer = csv::Writer::from_writer(Vec::new());
    let axes = first.settings.iter().map(|(axis, _)| axis.as_str());
    let header = axes
        .chain(keys.iter().map(|key| key.as_str()))
        .chain(shares_prefixes.then_some("prefix_cache_hit_rate"))
        .chain(factors.iter().map(String::as_str))
        .chain(is_promised.then_some(PROMISE).into_iter().flatten())
        .chain((is_promised || shares_prefixes).then_some("shares_of"))
        .chain(["verdict"]);
    writer.write_record(header).expect("writing to memory succeeds");
    for row in rows {
        let plain = |key: &&String| match row.run.get(key.as_str()) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
        };
        let settings = row.settings.iter().map(|(_, value)| value.clone());
        let own = model_factors(row.run);
        let factor = |name: &String| {
            let found = own.iter().find(|(own, _)| own == name);
            found.map_or(String::new(), |(_, factor)| factor.to_string())
        };
        let record = settings
            .chain(keys.iter().map(plain))
            .chain(shares_prefixes.then(|| row.hit_rate().map_or(String::new(), |share| share.to_string())))
            .chain(factors.iter().map(factor))
            .chain(is_promised.then(|| promise(row)).into_iter().flatten())
            .chain((is_promised || shares_prefixes).then(|| row.shares_of().to_owned()))
            .chain([row.verdict().to_owned()]);
        writer.write_record(record).expect("writing to memory succeeds");
    }
    String::from_utf8(writer.into_inner().expect("memory needs no flush")).expect("the writer copies UTF-8")
}

#[cfg(test)]
mod tests;
