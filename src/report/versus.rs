//! Variants of one scenario side by side: who serves the same traffic better, and how sure that is.
//!
//! The first variant is the base; every other is held against it under the same seeds. Figures are those of whole runs,
//! as a benchmark client would report them, averaged over the seeds; where the steady stretches say the contrary, that is
//! told.

pub use super::versus_answer::answer;
pub(super) use super::versus_answer::{headline, is_moved, judged};
pub use super::versus_measures::{Better, MEASURES, Measure, Unit};
pub(crate) use super::versus_measures::{ends, moved, told, written};

use super::page::{WIDTH, folded, glossary, table_on, wrapped};
use super::tables::{Column, markdown};
use super::versus_caveats::{caveats, certainty};
use crate::analysis::{Difference, Verdict};
use crate::calibrate::interval::ModelInterval;
use crate::cost::Trust;

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
    /// How far its figures may be off because the step time's parameters are; `None` where it is not known.
    pub model: Option<ModelInterval>,
    /// What the parts of its steps are known from.
    pub trust: Vec<(String, Trust)>,
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

/// The comparison for a terminal of so many columns, or for a file.
#[must_use]
pub fn text(versus: &Versus, width: Option<usize>) -> String {
    let sentences = width.map_or(WIDTH, |width| width.min(WIDTH));
    let mut text = folded(&(answer(versus) + "\n"), width);
    text += &legend(versus, width);
    let caveats: String = caveats(versus).iter().map(|line| format!("  {line}\n")).collect();
    text += &folded(&caveats, width);
    text.push('\n');
    let laid_out = |beside: usize, width: Option<usize>| -> String {
        let others: Vec<usize> = (1..versus.variants.len()).collect();
        let tables = others.chunks(beside).map(|others| {
            let (columns, rows) = cells(versus, others);
            table_on(&columns, &rows, 1, width)
        });
        tables.collect::<Vec<_>>().join("\n")
    };
    // Two variants beside the base where they fit a line.
    let two = laid_out(2, None);
    let fits = two.lines().all(|line| line.chars().count() <= sentences);
    text += &if fits { two } else { laid_out(1, width) };
    text.push('\n');
    for line in certainty(versus) {
        text += &wrapped("  ", "    ", &line, sentences);
    }
    text
}

/// The comparison as Markdown.
#[must_use]
pub fn md(versus: &Versus) -> String {
    let others: Vec<usize> = (1..versus.variants.len()).collect();
    let (columns, rows) = cells(versus, &others);
    let variants = versus.variants.iter();
    let variants = variants.map(|variant| format!("- **{}**: {}\n", variant.name, variant.said));
    let caveats = caveats(versus)
        .into_iter()
        .chain(certainty(versus))
        .map(|caveat| format!("- {caveat}\n"));
    format!(
        "{}\n\n{}\n{}\n{}",
        answer(versus),
        variants.collect::<String>(),
        markdown(&columns, &rows),
        caveats.collect::<String>()
    )
}

fn legend(versus: &Versus, width: Option<usize>) -> String {
    let widest = versus
        .variants
        .iter()
        .map(|variant| variant.name.chars().count())
        .max();
    let widest = widest.unwrap_or(0) + 2;
    let names: Vec<String> = versus
        .variants
        .iter()
        .map(|one| format!("  {}", one.name))
        .collect();
    let said = versus.variants.iter().map(|one| one.said.as_str());
    glossary(names.iter().map(String::as_str).zip(said), widest, width)
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
        // What is surely there and too small for a word is no difference that seeds would not show.
        let mut small = same.clone();
        for tpot in small.variants[1].figures[8].iter_mut().flatten() {
            *tpot *= 1.001;
        }
        assert!(answer(&small).starts_with("no difference above 1 % between A and B"));
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
    fn the_first_line_says_where_the_steady_stretches_say_the_contrary() {
        let mut compared = two();
        let at = MEASURES
            .iter()
            .position(|measure| measure.key == "mean_ttft_s")
            .unwrap();
        for (own, other) in [(0, 1), (1, 0)] {
            compared.variants[own].steady[at] = two().variants[other].figures[at].clone();
        }
        let first = answer(&compared);
        assert!(
            first.starts_with("B trades: mean TTFT −50 % [−50, −50] (in the steady stretches +100 %"),
            "{first}"
        );
    }

    #[test]
    fn the_first_line_and_the_title_begin_with_the_largest_sure_difference() {
        let at = |key: &str| MEASURES.iter().position(|measure| measure.key == key).unwrap();
        let mut compared = two();
        for (variant, seconds) in compared.variants.iter_mut().zip([0.1, 0.019]) {
            variant.figures[at("p99_itl_s")] = vec![Some(seconds); 4];
            variant.figures[at("p99_tpot_s")] = vec![Some(0.02 - 0.1 * seconds); 4];
        }
        let first = answer(&compared);
        assert!(
            first.starts_with("B trades: p99 ITL −81 % [−81, −81], mean TTFT"),
            "{first}"
        );
        assert!(
            first.contains(", for p99 TPOT +81 % [+81, +81], mean TPOT"),
            "{first}"
        );
        let title = headline(&compared);
        assert!(
            title.starts_with(
                "B is better than A in 2 figures (most p99 ITL −81 % [−81, −81]), worse in 2 (most p99 TPOT"
            ),
            "{title}"
        );
        compared.variants.push(VariantView {
            name: "C".to_owned(),
            ..compared.variants[1].clone()
        });
        let title = headline(&compared);
        assert!(title.starts_with("lowest p99 ITL B (19.0 ms, −81 %"), "{title}");
    }

    #[test]
    fn the_table_has_values_and_paired_differences() {
        let shown = text(&two(), None);
        assert!(shown.contains("+50 points [+48, +53]"), "{shown}");
        assert!(
            shown.contains("2.10 % of requests have their first token over 1 s later"),
            "{shown}"
        );
        assert!(
            shown.lines().skip(3).all(|line| line.chars().count() <= 100),
            "{shown}"
        );
        let narrow = text(&two(), Some(60));
        assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
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
