//! What must be known to read a comparison: of which runs and which stretch it is, what overload does to it, what else was
//! said of its runs.

use std::collections::BTreeSet;

use super::figures::{counted, percent};
use super::text_caveats::{model_interval, trust_lines};
use super::versus::{MEASURES, Remark, Versus, judged, moved};
use super::versus_measures::Measure;
use super::views::verdict_word;
use crate::analysis::Verdict;

/// What must be known to read the table.
pub(super) fn caveats(versus: &Versus) -> Vec<String> {
    let base = &versus.variants[0].name;
    let (runs, requests) = (versus.seeds() as u64, versus.requests);
    let of_each = format!(
        "{} of each variant, {}",
        counted(runs, "run"),
        counted(requests, "request")
    );
    let paired = match (versus.is_trace, versus.is_paired) {
        (true, _) => format!("the same trace for all; differences to {base} are those of this trace alone"),
        (_, true) => {
            format!("the same requests for all; differences to {base} with 95 % intervals over the seeds")
        }
        (_, false) => {
            format!("THEIR TRAFFIC DIFFERS; differences to {base} with 95 % intervals over the seeds")
        }
    };
    let stretch = "figures of whole runs, ramp and drain included (`run` shows the steady stretch of one)";
    // Variants of several models have no subject in common.
    let subject = match versus.subject.as_str() {
        "" => of_each,
        subject => format!("{subject}; {of_each}"),
    };
    let mut lines = vec![subject, paired, stretch.to_owned()];
    lines.extend(contrary(versus));
    for variant in &versus.variants {
        let verdicts = variant.verdicts.iter();
        let unstable = verdicts.filter(|verdict| **verdict == Verdict::Unstable).count();
        if unstable > 0 {
            lines.push(format!(
                "{} is {} in {unstable} of {}: its backlog grows, and its TTFT with the length of the run",
                variant.name,
                verdict_word(Verdict::Unstable),
                counted(runs, "run")
            ));
        }
        if let Some((later, sooner)) = variant.moved.filter(|moved| moved.0 > 0.0 || moved.1 > 0.0) {
            lines.push(format!(
                "{}: {} of requests have their first token over 1 s later than in {base}, {} over 1 s sooner",
                variant.name,
                percent(later),
                percent(sooner)
            ));
        }
        let broken = variant.violations.iter();
        lines.extend(broken.map(|law| format!("BUG, conservation violated by {}: {law}", variant.name)));
        lines.extend(
            variant
                .remarks
                .iter()
                .map(|remark| told(&variant.name, remark, versus.seeds())),
        );
    }
    lines
}

/// What the steps' times are known from, and how far figures may be off because of it: of all variants where they are alike, else
/// of each.
pub(super) fn certainty(versus: &Versus) -> Vec<String> {
    let base = &versus.variants[0];
    let mut lines = Vec::new();
    let are_alike = versus.variants.iter().all(|one| one.trust == base.trust);
    let told = if are_alike {
        &versus.variants[..1]
    } else {
        &versus.variants
    };
    for one in told {
        let of = if are_alike {
            String::new()
        } else {
            format!(" of {}", one.name)
        };
        let lines_of = trust_lines(&one.trust);
        lines.extend(lines_of.iter().map(|line| format!("trust{of}: {line}")));
    }
    for one in &versus.variants {
        let model = one.model.as_ref().and_then(model_interval);
        lines.extend(model.map(|model| format!("model ± of {}'s own figures: {model}", one.name)));
    }
    if versus.variants.iter().any(|one| one.model.is_some()) {
        let told = match are_alike {
            true => {
                "parameters that variants share move them together: their differences are known better than their figures"
            }
            false => {
                "the variants' steps are known from unlike sources: the intervals above are of chance alone, and a difference within \
                 model ± may be the model's"
            }
        };
        lines.push(told.to_owned());
    }
    lines
}

/// A remark with the number of runs that it holds of; its own numbers are those of the first of them.
fn told(name: &str, remark: &Remark, runs: usize) -> String {
    let Remark { text, runs: holds } = remark;
    match (*holds, runs) {
        (_, 0 | 1) => format!("{name}: {text}"),
        (1, _) => format!("{name}, in 1 of {runs} runs: {text}"),
        _ if *holds == runs => format!("{name}, in all {runs} runs, here the first: {text}"),
        _ => format!("{name}, in {holds} of {runs} runs, here the first of them: {text}"),
    }
}

/// The remarks of a variant's runs, each once: those that differ in their numbers alone are one.
#[must_use]
pub fn gathered<'a>(of_runs: impl Iterator<Item = &'a [String]>) -> Vec<Remark> {
    let mut all: Vec<(BTreeSet<String>, Remark)> = Vec::new();
    for remarks in of_runs {
        let known = all.len();
        let said: BTreeSet<BTreeSet<String>> = remarks.iter().map(|remark| words(remark)).collect();
        for (_, remark) in all.iter_mut().filter(|(words, _)| said.contains(words)) {
            remark.runs += 1;
        }
        for text in remarks {
            let words = words(text);
            if !all[..known].iter().any(|(known, _)| *known == words) {
                let text = text.clone();
                all.push((words, Remark { text, runs: 1 }));
            }
        }
    }
    all.into_iter().map(|(_, remark)| remark).collect()
}

/// What a remark says without its numbers: its words, those with digits and units left out, and without plural.
fn words(remark: &str) -> BTreeSet<String> {
    const UNITS: [&str; 10] = ["%", "ns", "µs", "ms", "s", "min", "h", "KiB", "MiB", "GiB"];
    let bare = |word: &str| word.trim_matches(|c: char| ",.;:()".contains(c)).to_owned();
    let kept = remark.split_whitespace().map(bare).filter(|word| {
        !word.is_empty() && !word.contains(|c: char| c.is_ascii_digit()) && !UNITS.contains(&word.as_str())
    });
    kept.map(|word| word.trim_end_matches('s').to_owned()).collect()
}

/// Figures that the steady stretches move the other way than the whole runs.
fn contrary(versus: &Versus) -> Vec<String> {
    let mut lines = Vec::new();
    for &measure in MEASURES.iter().filter(|measure| measure.decides) {
        for other in 0..versus.variants.len() - 1 {
            let contrary = contrary_move(versus, measure, other);
            lines.extend(contrary.map(|moved| {
                format!(
                    "{}: in the steady stretches {} goes the other way, {moved}",
                    versus.variants[other + 1].name,
                    measure.label,
                )
            }));
        }
    }
    lines
}

/// How a figure of a variant moves in the steady stretches, where that is the other way than in the whole runs.
pub(super) fn contrary_move(versus: &Versus, measure: Measure, other: usize) -> Option<String> {
    let at = MEASURES.iter().position(|known| known.key == measure.key)?;
    let whole = judged(&versus.row(at, measure), other)?;
    let steady = versus.row_of(measure, |variant| &variant.steady[at]);
    (judged(&steady, other)? != whole).then(|| moved(&steady, other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remark_is_counted_over_the_runs_whatever_its_numbers() {
        let runs: [&[&str]; 4] = [
            &[
                "1 refused request: the queue was full",
                "replica 1 was idle 12 % of the time",
            ],
            &["23 refused requests: the queue was full"],
            &[],
            &["waited 3.2 s (timeout)", "4 refused requests: the queue was full"],
        ];
        let runs = runs.map(|run| run.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        let found = gathered(runs.iter().map(Vec::as_slice));
        let told: Vec<String> = found.iter().map(|remark| told("A", remark, 4)).collect();
        assert_eq!(
            told,
            [
                "A, in 3 of 4 runs, here the first of them: 1 refused request: the queue was full",
                "A, in 1 of 4 runs: replica 1 was idle 12 % of the time",
                "A, in 1 of 4 runs: waited 3.2 s (timeout)",
            ]
        );
    }

    #[test]
    fn two_remarks_of_one_run_stay_two() {
        let run = ["replica 1 was idle", "replica 2 was idle"].map(str::to_owned);
        let found = gathered([run.as_slice(), run.as_slice()].into_iter());
        assert_eq!(found.iter().map(|remark| remark.runs).collect::<Vec<_>>(), [2, 2]);
        assert_eq!(
            told("A", &found[1], 2),
            "A, in all 2 runs, here the first: replica 2 was idle"
        );
        assert_eq!(told("A", &found[1], 1), "A: replica 2 was idle");
    }
}
