//! The cells of a sweep: every combination of values, and the flags that a command with these values has.

use super::{Axis, CELLS_MAX, neutral, set_flag, set_key, twice};
use crate::config::diagnostic::{Diagnostic, Diagnostics};
use crate::config::document::Document;
use crate::config::flags::ScenarioFlags;

/// One combination of the axes' values.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Axis and value, in the order of the axes.
    pub labels: Vec<(String, String)>,
    /// The command with these values.
    pub document: Document,
}

/// Every combination, the last axis fastest; with `linked` axes advance together and have equal lengths.
///
/// `command` says what is run with the values of a cell; `document` is where the axes may stand.
///
/// # Errors
/// Names that are neither keys nor flags, values that do not parse or go together, too many cells, linked axes of unequal
/// length.
pub fn cells(
    document: &Document,
    axes: &[Axis],
    linked: bool,
    command: impl Fn(&[(String, String)]) -> Result<Document, Diagnostics>,
) -> Result<Vec<Cell>, Diagnostics> {
    if let Some(twice) = twice::given_twice(axes).or_else(|| twice::repeated(document, axes, linked)) {
        return Err(twice.into());
    }
    let lengths: Vec<usize> = axes.iter().map(|axis| axis.values.len()).collect();
    let count = if linked {
        linked_length(&lengths)?
    } else {
        lengths
            .iter()
            .try_fold(1usize, |product, &length| product.checked_mul(length))
            .unwrap_or(usize::MAX)
    };
    if count > CELLS_MAX {
        return Err(
            Diagnostic::new(format!("the sweep has more than {CELLS_MAX} cells"))
                .help("take fewer values")
                .into(),
        );
    }
    let mut cells = Vec::with_capacity(count);
    let mut problems: Vec<Diagnostic> = Vec::new();
    for index in 0..count {
        let mut rest = index;
        let mut chosen = vec![index; axes.len()];
        if !linked {
            for (at, &length) in lengths.iter().enumerate().rev() {
                chosen[at] = rest % length;
                rest /= length;
            }
        }
        let of_axis = |(axis, &at): (&Axis, &usize)| (axis.name.clone(), axis.values[at].clone());
        let labels: Vec<(String, String)> = axes.iter().zip(&chosen).map(of_axis).collect();
        match command(&labels) {
            Ok(document) => cells.push(Cell { labels, document }),
            Err(wrong) => {
                for problem in wrong.0 {
                    if !problems.contains(&problem) {
                        problems.push(problem);
                    }
                }
            }
        }
    }
    if problems.is_empty() {
        Ok(cells)
    } else {
        Err(Diagnostics(problems))
    }
}

fn linked_length(lengths: &[usize]) -> Result<usize, Diagnostics> {
    let first = lengths.first().copied().unwrap_or(0);
    if lengths.iter().all(|&length| length == first) {
        return Ok(first);
    }
    let problem =
        Diagnostic::new("linked axes have different numbers of values").label(format!("{lengths:?}"));
    Err(problem.help("leave --link out for all combinations").into())
}

/// What axes set beside the flags of a command line.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// Flags, by their own names.
    pub(in crate::config) flags: Vec<String>,
    /// Keys and their values.
    keys: Vec<(String, String)>,
}

impl Swept {
    /// Sets the keys; what is wrong with them.
    pub(in crate::config) fn set_keys(&self, document: &mut Document) -> Vec<Diagnostic> {
        let set = |(key, value): &(String, String)| set_key(document, key, value).err();
        self.keys.iter().filter_map(set).collect()
    }
}

/// A command's flags with the values of a cell in their places, and which these are.
///
/// # Errors
/// Names that are no flags, and values that cannot be read.
pub fn with_values(
    flags: &ScenarioFlags,
    values: &[(String, String)],
) -> Result<(ScenarioFlags, Swept), Diagnostics> {
    let mut flags = flags.clone();
    let mut swept = Swept::default();
    let mut problems = Vec::new();
    for (name, value) in values {
        if name.contains('.') {
            swept.keys.push((name.clone(), value.clone()));
            continue;
        }
        match set_flag(&mut flags, name, value) {
            Ok(own) => swept.flags.push(own),
            Err(wrong) => problems.extend(wrong),
        }
    }
    neutral::in_the_engine_s_words(&mut flags, &mut swept);
    match problems.is_empty() {
        true => Ok((flags, swept)),
        false => Err(Diagnostics(problems)),
    }
}

/// What is wrong with values that no flag takes, each told once.
#[must_use]
pub fn unreadable(axes: &[Axis]) -> Vec<Diagnostic> {
    let mut problems: Vec<Diagnostic> = Vec::new();
    for axis in axes.iter().filter(|axis| !axis.name.contains('.')) {
        for value in &axis.values {
            let wrong = set_flag(&mut ScenarioFlags::default(), &axis.name, value);
            for problem in wrong.err().unwrap_or_default() {
                if !problems.contains(&problem) {
                    problems.push(problem);
                }
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use toml::Value;

    use super::*;
    use crate::config::{Ground, NoFiles};

    #[test]
    fn cells_are_all_combinations_or_pairs() {
        let axes = [
            Axis::list("request_rate", "1,2").unwrap(),
            Axis::list("engine.max_num_seqs", "8,16").unwrap(),
        ];
        let ground = Ground::from(Document::default());
        let flags = ScenarioFlags::default();
        let all_of = |axes: &[Axis], linked| {
            cells(ground.document(), axes, linked, |values| {
                Ok(ground.cell(&flags, values, &NoFiles)?.document)
            })
        };
        let all = all_of(&axes, false).unwrap();
        let rate = |cell: &Cell| {
            cell.document
                .get("workload.arrivals.poisson.request_rate")
                .and_then(Value::as_float)
        };
        let seqs = |cell: &Cell| {
            cell.document
                .get("engine.max_num_seqs")
                .and_then(Value::as_integer)
        };
        let seen: Vec<_> = all.iter().map(|cell| (rate(cell), seqs(cell))).collect();
        assert_eq!(
            seen,
            [
                (Some(1.0), Some(8)),
                (Some(1.0), Some(16)),
                (Some(2.0), Some(8)),
                (Some(2.0), Some(16))
            ]
        );
        assert_eq!(all_of(&axes, true).unwrap().len(), 2);
        assert!(
            all_of(&[Axis::list("request_rats", "1").unwrap()], false)
                .unwrap_err()
                .to_string()
                .contains("did you mean `request-rate`")
        );
    }
}
