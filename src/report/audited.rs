//! An audit as text and as JSON: the answer first, then each finding once with the rows that it holds for.

use serde_json::{Value, json};

use super::counted;
use crate::audit::{AuditedRow, Finding, Severity};
use crate::results::{Measured, ResultFile};

/// Version of the JSON; grows when a key changes its meaning.
pub const FORMAT_VERSION: u64 = 1;
/// Rows whose arithmetic is shown for one finding; the rest are named.
const ROWS_SHOWN: usize = 4;
/// Rows that are named after those.
const ROWS_NAMED: usize = 9;

/// A file and what was found in each of its rows.
#[derive(Clone, Debug)]
pub struct Audited {
    /// The file.
    pub file: ResultFile,
    /// As many as the file has rows.
    pub rows: Vec<AuditedRow>,
}

/// How many rows are how bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All rows.
    pub rows: usize,
    /// Rows with something impossible.
    pub impossible: usize,
    /// Rows with something doubtful and nothing worse.
    pub doubtful: usize,
    /// Notes on all rows.
    pub notes: usize,
}

/// Counts the rows of files.
#[must_use]
pub fn counts(files: &[Audited]) -> Counts {
    let mut counts = Counts::default();
    for row in files.iter().flat_map(|file| &file.rows) {
        counts.rows += 1;
        match row.worst() {
            Some(Severity::Impossible) => counts.impossible += 1,
            Some(Severity::Doubtful) => counts.doubtful += 1,
            _ => {}
        }
        counts.notes += row
            .findings
            .iter()
            .filter(|finding| finding.severity == Severity::Note)
            .count();
    }
    counts
}

/// The answer in one line.
#[must_use]
pub fn answer(counts: Counts) -> String {
    let rows = |number: usize| match (number, counts.rows) {
        (1, 1) => "the result".to_owned(),
        (number, all) if number == all => format!("all {all} rows"),
        (number, all) => format!("{number} of {all} rows"),
    };
    let verb = |number: usize, one: &str, many: &str| {
        if number == 1 {
            one.to_owned()
        } else {
            many.to_owned()
        }
    };
    match counts {
        Counts {
            impossible: 0,
            doubtful: 0,
            rows: 1,
            ..
        } => "nothing speaks against the result".to_owned(),
        Counts {
            impossible: 0,
            doubtful: 0,
            rows,
            ..
        } => format!("nothing speaks against any of {rows} rows"),
        Counts {
            impossible: 0,
            doubtful,
            ..
        } => {
            format!(
                "{} {} doubtful; nothing is impossible",
                rows(doubtful),
                verb(doubtful, "is", "are")
            )
        }
        Counts {
            impossible, doubtful, ..
        } => {
            let more = match doubtful {
                0 => String::new(),
                doubtful => format!("; {doubtful} more {} doubtful", verb(doubtful, "is", "are")),
            };
            format!("{} cannot be what their column names say{more}", rows(impossible)).replace(
                "the result cannot be what their column names say",
                "the result cannot be what its column names say",
            )
        }
    }
}

/// The audit for people. Notes are counted unless they are asked for.
#[must_use]
pub fn text(files: &[Audited], with_notes: bool) -> String {
    let counts = counts(files);
    let mut lines = vec![answer(counts)];
    for file in files {
        file_text(file, with_notes, &mut lines);
    }
    let lacking = files
        .iter()
        .flat_map(|file| &file.rows)
        .filter(|row| row.lacks_prompt)
        .count();
    if lacking > 0 {
        let of = if counts.rows == 1 {
            String::new()
        } else {
            format!(" of {}", counted(lacking as u64, "row"))
        };
        lines.insert(1, format!(
            "not checked: whether the first token{of} may come so early; how long prompts are is not known (a column isl_mean, or --input-len)"
        ));
    }
    if let Some(told) = without_bounds(files, counts.rows) {
        lines.insert(1, told);
    }
    let lacking = without_figures(files, counts.rows);
    lines.splice(1..1, lacking);
    let left: usize = rows_of(files).map(|row| row.left.len()).sum();
    let hidden: Vec<String> = [
        (counts.notes, "note", "on how to read figures"),
        (left, "figure", "left out, each for a reason"),
    ]
    .into_iter()
    .filter(|(number, ..)| *number > 0 && !with_notes)
    .map(|(number, what, of)| format!("{} {of}", counted(number as u64, what)))
    .collect();
    if !hidden.is_empty() {
        lines.push(String::new());
        lines.push(format!("{}: --notes shows them", hidden.join(", ")));
    }
    lines.join("\n") + "\n"
}

/// Which rows were held against no physical bound, for want of what.
fn without_bounds(files: &[Audited], all: usize) -> Option<String> {
    let rows = || files.iter().flat_map(|file| &file.rows);
    let lacking = rows().filter(|row| row.lacks_machine != (false, false)).count();
    let of = match (lacking, all) {
        (0, _) => return None,
        (_, 1) => String::new(),
        (lacking, _) => format!(" of {}", counted(lacking as u64, "row")),
    };
    let lacks = |of: fn(&AuditedRow) -> bool| rows().any(of);
    let what = match (lacks(|row| row.lacks_machine.0), lacks(|row| row.lacks_machine.1)) {
        (true, true) => "GPU and model are not known (--gpu, --model)",
        (true, false) => "the GPU is not known (--gpu)",
        (false, _) => "the model is not known (--model)",
    };
    Some(format!(
        "not checked: whether steps{of} are faster than memory and arithmetic allow; {what}"
    ))
}

/// Which rows were held against no law of samples or queues, for want of what figures.
fn without_figures(files: &[Audited], all: usize) -> Vec<String> {
    let rows = || files.iter().flat_map(|file| &file.rows);
    let of = |lacks: fn(&AuditedRow) -> bool| match (rows().filter(|row| lacks(row)).count(), all) {
        (0, _) => None,
        (_, 1) => Some(String::new()),
        (lacking, _) => Some(format!(" of {}", counted(lacking as u64, "row"))),
    };
    let percentiles = of(|row| row.lacks_percentiles).map(|of| {
        format!(
            "not checked: whether mean and percentiles{of} go together; no latency has two of them (columns mean_ttft_ms and p99_ttft_ms, say)"
        )
    });
    let lacks = |of: fn(&AuditedRow) -> bool| rows().any(of);
    let little = of(|row| row.lacks_little != (false, false)).map(|of| {
        let figures = lacks(|row| row.lacks_little.0);
        let load = lacks(|row| row.lacks_little.1);
        let figures = figures
            .then_some("no throughput stands beside a latency (columns request_throughput and mean_e2el_ms)");
        let load =
            load.then_some("how requests were sent is not known (a column request_rate or max_concurrency)");
        let what: Vec<&str> = figures.into_iter().chain(load).collect();
        format!(
            "not checked: whether as many were in flight{of} as Little's law has it; {}",
            what.join(", and ")
        )
    });
    percentiles.into_iter().chain(little).collect()
}

fn rows_of(files: &[Audited]) -> impl Iterator<Item = &Measured> {
    files.iter().flat_map(|file| &file.file.rows)
}

fn file_text(file: &Audited, with_notes: bool, lines: &mut Vec<String>) {
    let shown = |finding: &Finding| with_notes || finding.severity > Severity::Note;
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (row, measured) in file.rows.iter().zip(&file.file.rows) {
        let gpu = measured.setup.gpu.as_deref().unwrap_or_default();
        for finding in row.findings.iter().filter(|finding| shown(finding)) {
            let same = |group: &&mut Group<'_>| {
                group.finding.check == finding.check
                    && group.finding.severity == finding.severity
                    && group.finding.rerun == finding.rerun
            };
            match groups.iter_mut().find(same) {
                Some(group) => match group.rows.last_mut().filter(|last| std::ptr::eq(last.row, row)) {
                    Some(last) => last.findings.push(finding),
                    None => group.rows.push(Found::new(row, finding, gpu)),
                },
                None => groups.push(Group {
                    finding,
                    rows: vec![Found::new(row, finding, gpu)],
                }),
            }
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.finding.severity));
    let tool = file.file.rows.first().map_or("", |row| row.tool.name());
    let has_notes = |row: &Measured| !(row.taken.is_empty() && row.left.is_empty());
    if !groups.is_empty() || (with_notes && file.file.rows.iter().any(has_notes)) {
        lines.push(String::new());
        lines.push(format!("{} ({tool})", file.file.name));
    }
    groups.iter().for_each(|group| group.text(lines));
    if with_notes {
        for row in &file.file.rows {
            let place = if row.place.is_empty() {
                String::new()
            } else {
                format!("{}: ", row.place)
            };
            lines.extend(row.taken.iter().map(|taken| format!("  read   {place}{taken}")));
            lines.extend(
                row.left
                    .iter()
                    .map(|left| format!("  left   {place}{} {}", left.what, left.why)),
            );
        }
    }
}

/// A finding, the first of its kind, and all rows in which one of that kind was made.
struct Group<'a> {
    finding: &'a Finding,
    rows: Vec<Found<'a>>,
}

/// What was found in a row, of one kind, and the row's GPU.
struct Found<'a> {
    row: &'a AuditedRow,
    findings: Vec<&'a Finding>,
    gpu: &'a str,
}

impl<'a> Found<'a> {
    fn new(row: &'a AuditedRow, finding: &'a Finding, gpu: &'a str) -> Found<'a> {
        let findings = vec![finding];
        Found { row, findings, gpu }
    }
}

impl Group<'_> {
    fn text(&self, lines: &mut Vec<String>) {
        let finding = self.finding;
        let mut all = self.rows.iter().flat_map(|found| &found.findings);
        let one_claim = all.all(|other| other.claim == finding.claim);
        let severity = finding.severity.name().to_uppercase();
        let number = match self.rows.len() {
            1 => String::new(),
            number => format!(" ({number} rows)"),
        };
        let head = if one_claim {
            finding.claim.clone()
        } else {
            finding.check.name().replace('-', " ")
        };
        lines.push(format!(
            "  {severity:<10} {head}{number}  [{}]",
            finding.check.name()
        ));
        let shown = self.telling();
        for found in shown.iter().map(|at| &self.rows[*at]) {
            let place = match found.row.place.as_str() {
                "" => String::new(),
                place => format!("{place}: "),
            };
            for finding in &found.findings {
                let claim = match one_claim {
                    true => String::new(),
                    false => format!("{}; ", finding.claim),
                };
                lines.push(format!("    {place}{claim}{}", finding.arithmetic));
            }
        }
        let rest = (0..self.rows.len()).filter(|at| !shown.contains(at));
        let names: Vec<&str> = rest.map(|at| self.rows[at].row.place.as_str()).collect();
        if !names.is_empty() {
            let more = match names.len().saturating_sub(ROWS_NAMED) {
                0 => String::new(),
                more => format!("; {more} more"),
            };
            let named = names.len().min(ROWS_NAMED);
            lines.push(format!("    and {}{more}", names[..named].join("; ")));
        }
        if !finding.rerun.is_empty() {
            lines.push(format!("    rerun: {}", finding.rerun));
        }
    }

    /// The rows whose arithmetic is shown: of each GPU the last one, where a table's load is largest, then the first.
    fn telling(&self) -> Vec<usize> {
        let mut chosen: Vec<usize> = Vec::new();
        for at in (0..self.rows.len()).rev() {
            let seen = chosen
                .iter()
                .any(|other| self.rows[*other].gpu == self.rows[at].gpu);
            if !seen && chosen.len() < ROWS_SHOWN {
                chosen.push(at);
            }
        }
        let rest = (0..self.rows.len()).filter(|at| !chosen.contains(at));
        let fill: Vec<usize> = rest.take(ROWS_SHOWN - chosen.len()).collect();
        chosen.extend(fill);
        chosen.sort_unstable();
        chosen
    }
}

/// The audit as one object.
#[must_use]
pub fn json(files: &[Audited]) -> String {
    let counts = counts(files);
    let files: Vec<Value> = files.iter().map(file_json).collect();
    let object = json!({
        "format_version": FORMAT_VERSION,
        "answer": answer(counts),
        "rows": counts.rows,
        "impossible": counts.impossible,
        "doubtful": counts.doubtful,
        "notes": counts.notes,
        "files": files,
    });
    format!("{object:#}\n")
}

fn file_json(file: &Audited) -> Value {
    let rows = file.rows.iter().zip(&file.file.rows).map(|(row, measured)| {
        let findings: Vec<Value> = row.findings.iter().map(finding_json).collect();
        let left: Vec<Value> = measured
            .left
            .iter()
            .map(|left| json!({"what": left.what, "why": left.why}))
            .collect();
        json!({
            "place": row.place,
            "tool": measured.tool.name(),
            "worst": row.worst().map(Severity::name),
            "in_flight": row.in_flight,
            "findings": findings,
            "lacks_prompt_length": row.lacks_prompt,
            "lacks_gpu": row.lacks_machine.0,
            "lacks_model": row.lacks_machine.1,
            "lacks_percentiles": row.lacks_percentiles,
            "lacks_throughput_or_latency": row.lacks_little.0,
            "lacks_load": row.lacks_little.1,
            "taken": measured.taken,
            "left": left,
        })
    });
    json!({"name": file.file.name, "rows": rows.collect::<Vec<Value>>()})
}

fn finding_json(finding: &Finding) -> Value {
    json!({
        "severity": finding.severity.name(),
        "check": finding.check.name(),
        "claim": finding.claim,
        "arithmetic": finding.arithmetic,
        "rerun": finding.rerun,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Left, Tool};

    #[test]
    fn notes_stand_under_the_heading_of_their_own_file() {
        let file = |name: &str, left: &str| {
            let mut row = Measured::new(Tool::Table, "");
            if !left.is_empty() {
                row.left.push(Left {
                    what: left.to_owned(),
                    why: "is no column that is known".to_owned(),
                });
            }
            Audited {
                rows: crate::audit::audit(std::slice::from_ref(&row), &crate::audit::Known::default()),
                file: ResultFile {
                    name: name.to_owned(),
                    rows: vec![row],
                },
            }
        };
        let files = [file("a.csv", "one"), file("b.csv", "two"), file("c.csv", "")];
        let told = text(&files, true);
        let lines: Vec<&str> = told.lines().filter(|line| !line.is_empty()).collect();
        let expected = [
            "a.csv (CSV table)",
            "  left   one is no column that is known",
            "b.csv (CSV table)",
            "  left   two is no column that is known",
        ];
        for (line, begins) in lines[1..].iter().zip([
            "not checked: whether mean and percentiles of 3 rows go together; no latency has two of them",
            "not checked: whether as many were in flight of 3 rows as Little's law has it; no throughput stands beside a latency",
            "not checked: whether steps of 3 rows are faster",
        ]) {
            assert!(line.starts_with(begins), "{told}");
        }
        assert!(
            lines[2].contains(", and how requests were sent is not known"),
            "{told}"
        );
        assert_eq!(lines[4..], expected, "{told}");
        assert!(!text(&files, false).contains(".csv"));
    }
}
