//! Variants of one scenario side by side: who serves the same traffic better, and how sure that is.
//!
//! The first variant is the base; every other is held against it under the same seeds. Figures are those of whole runs,
//! as a benchmark client would report them, averaged over the seeds; where the steady stretches say the contrary, that is
//! told.

use super::figures::{count, counted, percent, significant, time};
use super::tables::{Column, markdown, table};
use super::versus_caveats::caveats;
use crate::analysis::{Difference, Verdict};
use crate::calibrate::interval::ModelInterval;
use crate::stats::Interval;

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Time,
    /// A fraction.
    Share,
    /// A number of tokens or of events.
    Count,
    /// Something per second.
    Rate,
}

/// Which way a figure should move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Down.
    Lower,
    /// Up.
    Higher,
}

/// One figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Its name in files; times are in seconds.
    pub key: &'static str,
    /// Its name for people.
    pub label: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// Which way it should move.
    pub better: Better,
    /// It counts for the answer.
    pub decides: bool,
}

const fn measure(
    key: &'static str,
    label: &'static str,
    unit: Unit,
    better: Better,
    decides: bool,
) -> Measure {
    Measure {
        key,
        label,
        unit,
        better,
        decides,
    }
}

/// The figures, in the order of the table.
pub const MEASURES: [Measure; 22] = {
    use Better::{Higher, Lower};
    use Unit::{Count, Rate, Share, Time};
    [
        measure("hit_rate", "prefix hit rate", Share, Higher, false),
        measure("tier_hit_rate", "from KV tiers", Share, Higher, false),
        measure(
            "saved_prefill_tokens",
            "prompt tokens saved",
            Count,
            Higher,
            false,
        ),
        measure("evicted_tokens", "tokens evicted", Count, Lower, false),
        measure("mean_ttft_s", "mean TTFT", Time, Lower, true),
        measure("p99_ttft_s", "p99 TTFT", Time, Lower, true),
        measure("mean_ttft_hit_s", "mean TTFT, warm", Time, Lower, false),
        measure("mean_ttft_miss_s", "mean TTFT, cold", Time, Lower, false),
        measure("mean_tpot_s", "mean TPOT", Time, Lower, true),
        measure("p99_tpot_s", "p99 TPOT", Time, Lower, false),
        measure("p99_itl_s", "p99 ITL", Time, Lower, true),
        measure("p99_e2el_s", "p99 E2EL", Time, Lower, false),
        measure("request_throughput", "requests/s", Rate, Higher, false),
        measure("output_throughput", "output tok/s", Rate, Higher, true),
        measure("attainment", "within the SLO", Share, Higher, true),
        measure("longest_wait_s", "longest wait", Time, Lower, true),
        measure("overtaken_share", "overtaken", Share, Lower, false),
        measure("preemptions", "preemptions", Count, Lower, false),
        measure("lost_share", "lost", Share, Lower, true),
        measure("prefill_busy", "prefill busy", Share, Higher, false),
        measure("decode_busy", "decode busy", Share, Higher, false),
        measure("transfer_share", "transfer of TTFT", Share, Lower, false),
    ]
};

/// What must be said beside runs of a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// With the numbers of the first run that it holds of.
    pub text: String,
    /// Of how many runs it holds, with numbers of their own.
    pub runs: usize,
}

/// A variant's figures under every seed.
#[derive(Clone, Debug, PartialEq)]
pub struct VariantView {
    /// `A`, or the name it was given.
    pub name: String,
    /// What it is: a scenario and flags.
    pub said: String,
    /// What each run is worth.
    pub verdicts: Vec<Verdict>,
    /// In the order of [`MEASURES`], of each seed; `None` where a run has no such figure.
    pub figures: Vec<Vec<Option<f64>>>,
    /// The same of the steady stretches; `None` where a run has none.
    pub steady: Vec<Vec<Option<f64>>>,
    /// What must be said beside its runs.
    pub remarks: Vec<Remark>,
    /// Conservation laws that its runs break.
    pub violations: Vec<String>,
    /// How far its figures may be off because the step time's parameters are; `None` where it was not asked for.
    pub model: Option<ModelInterval>,
    /// Shares of the requests that have their first token more than a second later, and sooner, than in the base.
    pub moved: Option<(f64, f64)>,
}

/// A comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Versus {
    /// `Llama-3.1-8B-Instruct on H100-SXM-80GB`.
    pub subject: String,
    /// The base, then the others.
    pub variants: Vec<VariantView>,
    /// Requests of each run.
    pub requests: u64,
    /// Seeds that were asked for, where the comparison was stopped before all of them.
    pub interrupted_of: Option<u32>,
    /// All variants serve the same requests.
    pub is_paired: bool,
    /// The traffic is the same under each seed.
    pub is_trace: bool,
}

/// A measure's means over the seeds, and differences to the base.
pub(crate) struct Row {
    pub(crate) measure: Measure,
    pub(crate) means: Vec<Option<f64>>,
    /// One for each variant but the base.
    pub(crate) differences: Vec<Option<Difference>>,
}

impl Versus {
    /// Seeds.
    #[must_use]
    pub fn seeds(&self) -> usize {
        self.variants.first().map_or(0, |base| base.verdicts.len())
    }

    /// The measures that anything can be said about.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let all = MEASURES
            .iter()
            .enumerate()
            .map(|(at, &measure)| self.row(at, measure));
        let is_told = |row: &Row| row.means.iter().any(|mean| mean.is_some_and(|mean| mean != 0.0));
        let mut rows: Vec<Row> = all.filter(is_told).collect();
        // Where nobody ever hits, all are cold, and what is evicted is missed by nobody.
        if !rows.iter().any(|row| row.measure.key == "hit_rate") {
            rows.retain(|row| !matches!(row.measure.key, "evicted_tokens" | "mean_ttft_miss_s"));
        }
        rows
    }

    pub(super) fn row(&self, at: usize, measure: Measure) -> Row {
        self.row_of(measure, |variant| &variant.figures[at])
    }

    pub(super) fn row_of<'a>(
        &'a self,
        measure: Measure,
        figures: impl Fn(&'a VariantView) -> &'a Vec<Option<f64>>,
    ) -> Row {
        let of = |variant| -> Option<Vec<f64>> { figures(variant).iter().copied().collect() };
        let values: Vec<Option<Vec<f64>>> = self.variants.iter().map(of).collect();
        let mean = |values: &Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let differences = values[1..].iter().map(|other| {
            let (base, other) = (values[0].as_ref()?, other.as_ref()?);
            Difference::between(base, other)
        });
        Row {
            measure,
            means: values.iter().map(|values| values.as_ref().map(mean)).collect(),
            differences: differences.collect(),
        }
    }
}

/// Relative difference from which one speaks of better and worse.
const WORTH_TELLING: f64 = 0.01;

/// The first line.
#[must_use]
pub fn answer(versus: &Versus) -> String {
    let rows = versus.rows();
    let text = if versus.variants.len() == 2 {
        of_two(versus, &rows)
    } else {
        of_many(versus, &rows)
    };
    let shares = |key: &str, words: &str| {
        let row = rows.iter().find(|row| row.measure.key == key)?;
        let shares = row.means.iter().map(|mean| mean.map_or("–".into(), percent));
        Some(format!("{words} {}", shares.collect::<Vec<_>>().join(" → ")))
    };
    let moved = [
        shares("hit_rate", "; hit rate"),
        shares("tier_hit_rate", "; from KV tiers"),
    ];
    let moved: String = moved.into_iter().flatten().collect();
    let cut = versus.interrupted_of.map(|asked| {
        let seeds = versus.seeds();
        format!(
            "INTERRUPTED after {seeds} of {}: ",
            counted(u64::from(asked), "seed")
        )
    });
    cut.unwrap_or_default() + &text + &moved
}

/// The answer as a chart's title: the figures themselves are drawn.
pub(super) fn headline(versus: &Versus) -> String {
    let rows = versus.rows();
    if versus.variants.len() != 2 {
        let text = of_many(versus, &rows);
        return text.split(';').next().unwrap_or_default().to_owned();
    }
    let [a, b] = [&versus.variants[0].name, &versus.variants[1].name];
    let count = |wanted: bool| rows.iter().filter(|row| judged(row, 0) == Some(wanted)).count();
    match (count(true), count(false)) {
        (0, 0) => of_two(versus, &rows),
        (better, 0) => format!("{b} is better than {a} in {}", counted(better as u64, "figure")),
        (0, worse) => format!("{b} is worse than {a} in {}", counted(worse as u64, "figure")),
        (better, worse) => format!(
            "{b} is better than {a} in {}, worse in {worse}",
            counted(better as u64, "figure")
        ),
    }
}

/// The interval by which a difference is told: in points for shares, else relative where there is something to relate to.
pub(crate) fn told(unit: Unit, difference: &Difference) -> Interval {
    match (unit, difference.relative) {
        (Unit::Share, _) | (_, None) => difference.absolute,
        (_, Some(relative)) => relative,
    }
}

/// Whether an interval leaves zero out.
pub(crate) fn is_significant(interval: &Interval) -> bool {
    interval.half_width < interval.value.abs()
}

/// Whether a difference is worth a word, and good.
pub(super) fn judged(row: &Row, at: usize) -> Option<bool> {
    let interval = told(row.measure.unit, &row.differences[at]?);
    let tells = row.measure.decides && is_significant(&interval) && interval.value.abs() >= WORTH_TELLING;
    tells.then_some((interval.value > 0.0) == (row.measure.better == Better::Higher))
}

fn of_two(versus: &Versus, rows: &[Row]) -> String {
    let [a, b] = [&versus.variants[0].name, &versus.variants[1].name];
    let moves = |wanted: bool| -> Vec<String> {
        rows.iter()
            .filter(|row| judged(row, 0) == Some(wanted))
            .map(|row| format!("{} {}", row.measure.label, moved(row, 0)))
            .collect()
    };
    let (gains, losses) = (moves(true), moves(false));
    match (gains.is_empty(), losses.is_empty()) {
        (false, true) => format!("{b} is better than {a}: {}", gains.join(", ")),
        (true, false) => format!("{a} is better than {b}, which has {}", losses.join(", ")),
        (false, false) => format!("{b} trades: {}, for {}", gains.join(", "), losses.join(", ")),
        (true, true) if versus.seeds() < 2 => {
            format!("{a} and {b} side by side: one run of each bounds no difference")
        }
        (true, true) => format!(
            "no difference between {a} and {b} that {} would show",
            counted(versus.seeds() as u64, "seed")
        ),
    }
}

/// Who is best in what, and how far from the base; where nobody stands out, that.
fn of_many(versus: &Versus, rows: &[Row]) -> String {
    const TOLD: [(&str, &str, &str); 4] = [
        ("mean_ttft_s", "lowest mean TTFT", "mean TTFT"),
        ("p99_ttft_s", "lowest p99 TTFT", "p99 TTFT"),
        ("p99_itl_s", "lowest p99 ITL", "p99 ITL"),
        ("output_throughput", "highest throughput", "throughput"),
    ];
    let base = &versus.variants[0].name;
    let mut alike = Vec::new();
    let mut parts = Vec::new();
    for (key, words, name) in TOLD {
        let Some(row) = rows.iter().find(|row| row.measure.key == key) else {
            continue;
        };
        let others = 0..row.differences.len();
        let is_told = others.clone().any(|at| judged(row, at).is_some());
        let sign = if row.measure.better == Better::Higher {
            -1.0
        } else {
            1.0
        };
        let rank = |at: usize| row.means[at].map_or(f64::INFINITY, |mean| sign * mean);
        // The base is the best unless somebody is better by more than chance.
        let better = others
            .filter(|&at| judged(row, at) == Some(true))
            .map(|at| at + 1);
        let best = better.min_by(|&a, &b| rank(a).total_cmp(&rank(b))).unwrap_or(0);
        match (is_told, row.means[best]) {
            (true, Some(mean)) => {
                let from_base = match best {
                    0 => String::new(),
                    other => format!(", {} to {base}", moved(row, other - 1)),
                };
                let figure = written(row.measure.unit, mean);
                parts.push(format!(
                    "{words} {} ({figure}{from_base})",
                    versus.variants[best].name
                ));
            }
            _ => alike.push(name),
        }
    }
    if !alike.is_empty() {
        parts.push(format!("{} no different by more than chance", alike.join(", ")));
    }
    parts.join("; ")
}

/// Mean number from which nobody misses its fraction.
const COUNTED: f64 = 100.0;

/// A value for people.
pub(crate) fn written(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Time => time(value),
        Unit::Share => percent(value),
        // A mean over seeds of what hardly ever happens.
        Unit::Count if value.abs() < COUNTED && value.fract() != 0.0 => significant(value),
        Unit::Count => count(value.round() as u64),
        Unit::Rate => significant(value),
    }
}

/// `−31 % [−36, −27]`, in points for shares; without an interval where there is none.
pub(crate) fn moved(row: &Row, at: usize) -> String {
    let Some(difference) = row.differences[at] else {
        return "–".to_owned();
    };
    match (row.measure.unit, difference.relative) {
        (Unit::Share, _) => hundredths(&difference.absolute, "points"),
        (_, Some(relative)) => hundredths(&relative, "%"),
        (unit, None) => format!("+{}", written(unit, difference.absolute.value)),
    }
}

fn hundredths(interval: &Interval, unit: &str) -> String {
    let largest = 100.0 * interval.value.abs();
    let decimals = usize::from(largest < 9.95);
    let signed = |value: f64| {
        let digits = format!("{:.decimals$}", (100.0 * value).abs());
        let is_zero = digits.trim_matches(['0', '.']).is_empty();
        let sign = match value {
            _ if is_zero => "",
            value if value < 0.0 => "−",
            _ => "+",
        };
        format!("{sign}{digits}")
    };
    if interval.half_width.is_infinite() {
        return format!("{} {unit}", signed(interval.value));
    }
    format!(
        "{} {unit} [{}, {}]",
        signed(interval.value),
        signed(interval.low()),
        signed(interval.high())
    )
}

/// The comparison for a terminal.
#[must_use]
pub fn text(versus: &Versus) -> String {
    let mut text = answer(versus) + "\n";
    text += &legend(versus);
    for line in caveats(versus) {
        text += &format!("  {line}\n");
    }
    text.push('\n');
    let laid_out = |beside: usize| -> String {
        let others: Vec<usize> = (1..versus.variants.len()).collect();
        let tables = others.chunks(beside).map(|others| {
            let (columns, rows) = cells(versus, others);
            table(&columns, &rows)
        });
        tables.collect::<Vec<_>>().join("\n")
    };
    // Two variants beside the base where they fit a line.
    let two = laid_out(2);
    let fits = two.lines().all(|line| line.chars().count() <= super::page::WIDTH);
    text + &if fits { two } else { laid_out(1) }
}

/// The comparison as Markdown.
#[must_use]
pub fn md(versus: &Versus) -> String {
    let others: Vec<usize> = (1..versus.variants.len()).collect();
    let (columns, rows) = cells(versus, &others);
    let variants = versus.variants.iter();
    let variants = variants.map(|variant| format!("- **{}**: {}\n", variant.name, variant.said));
    let caveats = caveats(versus).into_iter().map(|caveat| format!("- {caveat}\n"));
    format!(
        "{}\n\n{}\n{}\n{}",
        answer(versus),
        variants.collect::<String>(),
        markdown(&columns, &rows),
        caveats.collect::<String>()
    )
}

fn legend(versus: &Versus) -> String {
    let widest = versus
        .variants
        .iter()
        .map(|variant| variant.name.chars().count())
        .max();
    let width = widest.unwrap_or(0);
    let line = |variant: &VariantView| format!("  {:<width$}  {}\n", variant.name, variant.said);
    versus.variants.iter().map(line).collect()
}

fn cells(versus: &Versus, others: &[usize]) -> (Vec<Column>, Vec<Vec<String>>) {
    let base = &versus.variants[0].name;
    let mut columns = vec![Column::left(""), Column::right(base)];
    for &other in others {
        let name = &versus.variants[other].name;
        columns.extend([Column::right(name), Column::left(&format!("{name} − {base}"))]);
    }
    let rows = versus.rows();
    let cells = rows.iter().map(|row| {
        let value =
            |at: usize| row.means[at].map_or("–".to_owned(), |mean| written(row.measure.unit, mean));
        let mut line = vec![row.measure.label.to_owned(), value(0)];
        for &other in others {
            line.extend([value(other), moved(row, other - 1)]);
        }
        line
    });
    (columns, cells.collect())
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::comparison as two;
    use super::*;

    #[test]
    fn the_first_line_says_who_is_better_and_at_what_price() {
        insta::assert_snapshot!(answer(&two()), @"B trades: mean TTFT −50 % [−50, −50], for mean TPOT +5.0 % [+5.0, +5.1]; hit rate 0 % → 50.5 %");
        let mut same = two();
        same.variants[1].figures = same.variants[0].figures.clone();
        assert!(answer(&same).starts_with("no difference between A and B that 4 seeds would show"));
        let mut better = two();
        better.variants.swap(0, 1);
        better.variants[1].figures[8] = better.variants[0].figures[8].clone();
        let first = answer(&better);
        assert!(
            first.starts_with("B is better than A, which has mean TTFT +100 %"),
            "{first}"
        );
    }

    #[test]
    fn the_table_has_values_and_paired_differences() {
        let shown = text(&two());
        assert!(shown.contains("+50 points [+48, +53]"), "{shown}");
        assert!(
            shown.contains("2.10 % of requests have their first token over 1 s later"),
            "{shown}"
        );
        assert!(
            shown.lines().skip(3).all(|line| line.chars().count() <= 100),
            "{shown}"
        );
        let markdown = md(&two());
        assert!(
            markdown.contains("\n- figures of whole runs") && markdown.contains("\n- B: 2.10 % of requests"),
            "{markdown}"
        );
        let mut three = two();
        three.variants.push(VariantView {
            name: "C".to_owned(),
            ..three.variants[1].clone()
        });
        assert!(
            answer(&three).starts_with("lowest mean TTFT B (205 ms, −50 % [−50, −50] to A)"),
            "{}",
            answer(&three)
        );
    }
}
