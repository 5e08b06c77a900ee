//! A fit as text and JSON: how many parameters the data decide, how wrong the result is, what to measure next.

use serde_json::{Value, json};

use super::figures::significant;
use super::tables::{Column, table};
use crate::calibrate::Calibrated;
use crate::calibrate::doubts::doubts;
use crate::cost::calibration::Evidence;
use crate::stats::quantile;

/// What became of what the files say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// What was fitted to, file by file.
    pub took: Vec<String>,
    /// What was not, and why: the file or the place in it, and the reason.
    pub left: Vec<(String, String)>,
    /// What cannot be of what was taken: the place and the contradiction.
    pub impossible: Vec<(String, String)>,
}

impl Told {
    /// Reasons in the order in which they came, each with all places that it holds for.
    fn reasons(&self) -> Vec<(&str, Vec<&str>)> {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for (place, reason) in &self.left {
            match reasons.iter_mut().find(|(known, _)| known == reason) {
                Some((_, places)) => places.push(place),
                None => reasons.push((reason, vec![place])),
            }
        }
        reasons
    }
}

/// Places that are named; the rest are counted.
const PLACES_SHOWN: usize = 3;

fn some(places: &[&str]) -> String {
    let shown = places[..places.len().min(PLACES_SHOWN)].join(", ");
    match places.len().saturating_sub(PLACES_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The first line: how many of how many, and how wrong.
#[must_use]
pub fn answer(gpu: &str, fitted: &Calibrated) -> String {
    let pooled = |held_out: bool| {
        let errors = fitted.blocks.iter().flat_map(|block| {
            if held_out {
                &block.held_out
            } else {
                &block.in_sample
            }
        });
        let errors: Vec<f64> = errors.map(|error| 100.0 * (error.exp() - 1.0).abs()).collect();
        quantile(&errors, 0.5)
    };
    let mut parts = vec![format!(
        "{} of {} parameters fitted",
        fitted.identified(),
        fitted.parameters
    )];
    if let Some(median) = pooled(false) {
        let unseen = pooled(true).map_or(String::new(), |median| format!(" (hold-out {median:.1} %)"));
        parts.push(format!("kernels within {median:.1} % in the median{unseen}"));
    }
    if let Some(host) = &fitted.host {
        let figures: Vec<usize> = match host.explained.is_empty() {
            true => (0..host.runs.len()).collect(),
            false => host.explained.clone(),
        };
        let errors = figures
            .iter()
            .map(|figure| 100.0 * host.runs[*figure].error().abs());
        let median = quantile(&errors.collect::<Vec<_>>(), 0.5).unwrap_or(0.0);
        let (off, all) = (host.unexplained.len(), host.given);
        let which = match off {
            0 => "end-to-end runs".to_owned(),
            off if off == all => format!("none of {all} end-to-end runs met: they are"),
            off => format!("{} of {all} end-to-end runs", all - off),
        };
        let unseen = host.evidence.hold_out_median_pct;
        let unseen = unseen.map_or("in sample".to_owned(), |unseen| format!("hold-out {unseen:.1} %"));
        parts.push(format!("{which} within {median:.1} % in the median ({unseen})"));
    }
    format!("{gpu}: {}", parts.join(", "))
}

/// For people.
#[must_use]
pub fn text(gpu: &str, fitted: &Calibrated, told: &Told) -> String {
    let mut text = answer(gpu, fitted);
    let Some(evidence) = &fitted.calibration.evidence else {
        return text + "\n";
    };
    for (place, what) in &told.impossible {
        text += &format!("\nIMPOSSIBLE: {place}: {what}");
    }
    for doubt in doubts(fitted) {
        text += &format!("\nDOUBTFUL: {doubt}");
    }
    if let Some(next) = &evidence.next_measurement {
        text += &format!("\nnext best measurement: {next}");
    }
    if !evidence.unidentified.is_empty() {
        let names = evidence.unidentified.join(", ");
        text += &format!("\nnot identified (about as wide as the prior): {names}");
    }
    text += "\n\n";
    text += &blocks(fitted, evidence);
    if !evidence.runs.is_empty() {
        text += "\n";
        text += &runs(evidence);
    }
    if !(evidence.remarks.is_empty() && told.left.is_empty() && told.took.is_empty()) {
        text.push('\n');
    }
    for remark in &evidence.remarks {
        text += &format!(" note: {remark}\n");
    }
    let took: Vec<String> = told.took.iter().map(|took| format!(" took: {took}\n")).collect();
    text += &first(&took, "took");
    let reasons = told.reasons();
    let left = reasons.iter();
    let left: Vec<String> = left
        .map(|(reason, places)| format!(" left: {}: {reason}\n", some(places)))
        .collect();
    text + &first(&left, "left")
}

/// Runs, and lines of a kind, that are listed; the rest are counted.
const SHOWN: usize = 10;

/// The first of some lines, and how many more there are.
fn first(lines: &[String], kind: &str) -> String {
    let shown = lines[..lines.len().min(SHOWN)].concat();
    match lines.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} {kind}: {more} more; --format json has all\n"),
    }
}

fn blocks(fitted: &Calibrated, evidence: &Evidence) -> String {
    let columns = [
        Column::left("block"),
        Column::right("rows"),
        Column::right("shapes"),
        Column::right("median %"),
        Column::right("p95 %"),
        Column::right("bias %"),
        Column::right("hold-out %"),
        Column::left("parameters, 90 % interval"),
    ];
    let form = |name: &str| {
        let block = fitted.blocks.iter().find(|block| block.block.to_string() == name);
        block
            .map(|block| block.form.label.clone())
            .filter(|label| !label.is_empty())
    };
    let row = |(name, block): (&String, &crate::cost::calibration::BlockEvidence)| {
        let unseen = match (block.hold_out_median_pct, block.hold_out_p95_pct) {
            (Some(median), Some(p95)) => format!("{median:.1} / {p95:.1}"),
            _ => "–".to_owned(),
        };
        let interval = |(name, [low, high]): (&String, &[f64; 2])| {
            format!("{name} {} to {}", significant(*low), significant(*high))
        };
        let mut parameters: Vec<String> = block.interval_90.iter().map(interval).collect();
        parameters.extend(form(name));
        vec![
            name.clone(),
            block.rows.to_string(),
            block.shapes.to_string(),
            format!("{:.1}", block.residual_median_pct),
            format!("{:.1}", block.residual_p95_pct),
            format!("{:+.1}", block.bias_pct),
            unseen,
            parameters.join("; "),
        ]
    };
    let rows: Vec<Vec<String>> = evidence.blocks.iter().map(row).collect();
    table(&columns, &rows)
}

fn runs(evidence: &Evidence) -> String {
    let columns = [
        Column::left("run"),
        Column::left("figure"),
        Column::right("measured"),
        Column::right("fitted"),
        Column::right("error %"),
    ];
    let row = |run: &crate::cost::calibration::RunEvidence| {
        vec![
            run.run.clone(),
            run.figure.clone(),
            significant(run.measured),
            significant(run.predicted),
            format!("{:+.1}", 100.0 * run.error()),
        ]
    };
    // Figures of one run stand together.
    let mut names: Vec<&str> = evidence.runs.iter().map(|run| run.run.as_str()).collect();
    names.dedup();
    let is_shown = |run: &&crate::cost::calibration::RunEvidence| {
        names[..names.len().min(SHOWN)].contains(&run.run.as_str())
    };
    let rows: Vec<Vec<String>> = evidence.runs.iter().filter(is_shown).map(row).collect();
    let text = table(&columns, &rows);
    match names.len().saturating_sub(SHOWN) {
        0 => text,
        more => format!("{text}  … and {more} more runs; the file and --format json have all\n"),
    }
}

/// Everything, as one object.
#[must_use]
pub fn json(gpu: &str, fitted: &Calibrated, told: &Told, toml: &str) -> String {
    let evidence = fitted.calibration.evidence.as_ref();
    let evidence = evidence.and_then(|evidence| serde_json::to_value(evidence).ok());
    let calibration = toml::from_str::<Value>(toml).unwrap_or(Value::Null);
    let object = json!({
        "format_version": 1,
        "gpu": gpu,
        "answer": answer(gpu, fitted),
        "doubts": doubts(fitted),
        "impossible": told.impossible.iter().map(|(place, what)| json!({ "place": place, "what": what })).collect::<Vec<_>>(),
        "parameters": fitted.parameters,
        "identified": fitted.identified(),
        "evidence": evidence,
        "took": told.took,
        "left": told.left.iter().map(|(place, reason)| json!({ "place": place, "reason": reason })).collect::<Vec<_>>(),
        "calibration": calibration,
    });
    format!("{object:#}\n")
}
