//! What must be known to read a comparison: of which runs and which stretch it is, what overload does to it, what else was
//! said of its runs.

use super::figures::{counted, percent};
use super::versus::{MEASURES, Versus, judged, moved};
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
    let subject = format!("{}; {of_each}", versus.subject);
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
        let remarks = variant.remarks.iter();
        lines.extend(remarks.map(|remark| format!("{}, first seed: {remark}", variant.name)));
    }
    lines
}

/// Figures that the steady stretches move the other way than the whole runs.
fn contrary(versus: &Versus) -> Vec<String> {
    let mut lines = Vec::new();
    for (at, &measure) in MEASURES.iter().enumerate().filter(|(_, measure)| measure.decides) {
        let whole = versus.row(at, measure);
        let steady = versus.row_of(measure, |variant| &variant.steady[at]);
        for other in 0..whole.differences.len() {
            let (Some(said), Some(contrary)) = (judged(&whole, other), judged(&steady, other)) else {
                continue;
            };
            if said == contrary {
                continue;
            }
            lines.push(format!(
                "{}: in the steady stretches {} goes the other way, {}",
                versus.variants[other + 1].name,
                measure.label,
                moved(&steady, other)
            ));
        }
    }
    lines
}
