//! What `-L` and `-S` ask for: the axes, the cells of one part, and which of them the machine has no room for.

use std::hash::Hasher;

use serde_json::{Value, json};

use super::disk::Disk;
use super::interrupt;
use crate::config::axes::{self, Axis, Cell};
use crate::config::flags::ScenarioFlags;
use crate::config::{Assembled, Diagnostic, Diagnostics, Document, Place, Resolved, resolve, resolved_toml};
use crate::report::sweep::SweepRow;
use crate::sweep;

/// What varies.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Axes")]
pub struct AxisFlags {
    /// An axis by its values: `-L request-rate 4,8,16`.
    #[arg(short = 'L', long = "list", num_args = 2, value_names = ["NAME", "VALUES"])]
    pub lists: Vec<String>,
    /// An axis by its range, ends included: `-S request-rate 2..32 step 2`.
    #[arg(short = 'S', long = "steps", num_args = 4, value_names = ["NAME", "FROM..TO", "step", "BY"])]
    pub steps: Vec<String>,
    /// Advance all axes together instead of taking every combination.
    #[arg(long)]
    pub link: bool,
}

/// Axis and value.
type Labels = Vec<(String, String)>;

/// One run of a sweep.
pub(super) struct Planned {
    /// Its number among all cells, also those of other parts.
    pub index: usize,
    /// What names it.
    pub labels: Labels,
    /// The run.
    pub resolved: Resolved,
}

/// A cell whose model does not fit its machine: well-formed, and no reason against the others.
pub(super) struct Misfit {
    /// Its number among all cells.
    pub index: usize,
    /// What names it.
    pub labels: Labels,
    /// What is missing, and the smallest changes that fit.
    pub why: String,
}

impl Misfit {
    fn new(index: usize, labels: Labels, problems: &Diagnostics) -> Misfit {
        let sentence = |problem: &Diagnostic| {
            let why = (problem.misfit.as_deref()).map_or(&problem.message, |misfit| &misfit.why);
            let help = problem.help.iter();
            help.fold(why.clone(), |why, help| why + "; " + help)
        };
        let why: Vec<String> = problems.0.iter().map(sentence).collect();
        Misfit {
            index,
            labels,
            why: why.join("; "),
        }
    }

    /// In the place of a run's object.
    pub(super) fn result(&self) -> Value {
        let cell: serde_json::Map<String, Value> = (self.labels.iter())
            .map(|(axis, value)| (axis.clone(), Value::from(value.as_str())))
            .collect();
        json!({"plimsoll": {"verdict": "does_not_fit", "cell": cell, "why": self.why}})
    }
}

/// The cells of one part of a sweep.
#[derive(Default)]
pub(super) struct Plan {
    /// Those to simulate, in their order.
    pub runs: Vec<Planned>,
    /// Those that cannot be, in their order.
    pub misfits: Vec<Misfit>,
}

impl Plan {
    /// The cells of one part; `None` where the user asked to stop.
    ///
    /// # Errors
    /// What is wrong with any cell; that a model does not fit is no mistake.
    pub(super) fn of(cells: Vec<Cell>, part: (usize, usize)) -> Result<Option<Plan>, Diagnostics> {
        let mut plan = Plan::default();
        let mut problems: Vec<Diagnostic> = Vec::new();
        let mut missing: Vec<Diagnostic> = Vec::new();
        // The same mistake in every cell is one mistake.
        let add = |all: &mut Vec<Diagnostic>, more: Diagnostics| {
            for problem in more.0 {
                if !all.contains(&problem) {
                    all.push(problem);
                }
            }
        };
        for (index, Cell { labels, document }) in cells
            .into_iter()
            .enumerate()
            .filter(|(index, _)| index % part.1 == part.0)
        {
            if interrupt::is_asked() {
                return Ok(None);
            }
            match resolve(document, &Disk) {
                Ok(resolved) => plan.runs.push(Planned {
                    index,
                    labels,
                    resolved,
                }),
                Err(wrong) if wrong.is_misfit() => {
                    plan.misfits.push(Misfit::new(index, labels, &wrong));
                    add(&mut missing, wrong);
                }
                Err(wrong) => add(&mut problems, wrong),
            }
        }
        // Where no cell fits all are printed with their reasons.
        if !problems.is_empty() {
            problems.extend(missing);
        }
        match problems.is_empty() {
            true => Ok(Some(plan)),
            false => Err(Diagnostics(problems)),
        }
    }

    /// Every cell in its order; lines of a file name the scenario, too: a file of another one with the same axes must not be
    /// taken for this one's.
    pub(super) fn cells(&self, is_jsonl: bool) -> Vec<sweep::Cell> {
        let runs = self.runs.iter().map(|cell| {
            let told = is_jsonl.then(|| fingerprint(&resolved_toml(&cell.resolved)));
            (cell.index, &cell.labels, told)
        });
        let misfits = self.misfits.iter().map(|cell| {
            let told = is_jsonl.then(|| fingerprint(&cell.why));
            (cell.index, &cell.labels, told)
        });
        let mut cells: Vec<sweep::Cell> = runs
            .chain(misfits)
            .map(|(index, labels, scenario)| {
                let mut settings = labels.clone();
                settings.extend(scenario.map(|scenario| ("scenario".to_owned(), scenario)));
                sweep::Cell { index, settings }
            })
            .collect();
        cells.sort_by_key(|cell| cell.index);
        cells
    }

    /// What names each cell, in the order of [`Plan::cells`].
    pub(super) fn labels(&self) -> Vec<&[(String, String)]> {
        let runs = self.runs.iter().map(|cell| (cell.index, cell.labels.as_slice()));
        let misfits = self
            .misfits
            .iter()
            .map(|cell| (cell.index, cell.labels.as_slice()));
        let mut all: Vec<(usize, &[(String, String)])> = runs.chain(misfits).collect();
        all.sort_by_key(|(index, _)| *index);
        all.into_iter().map(|(_, labels)| labels).collect()
    }

    /// The run of a cell, unless it does not fit.
    pub(super) fn run(&self, index: usize) -> Option<&Planned> {
        let at = self.runs.binary_search_by_key(&index, |cell| cell.index).ok()?;
        Some(&self.runs[at])
    }

    /// What stands in the place of the run of a cell that does not fit.
    pub(super) fn misfit(&self, index: usize) -> Option<Value> {
        let at = self
            .misfits
            .binary_search_by_key(&index, |cell| cell.index)
            .ok()?;
        Some(self.misfits[at].result())
    }

    /// A cell and its run as they are printed.
    pub(super) fn row<'a>(&self, cell: &'a sweep::Cell, run: &'a Value) -> SweepRow<'a> {
        let planned = self.run(cell.index);
        let slo = planned
            .map(|planned| &planned.resolved.slo)
            .filter(|slo| slo.counts_good());
        SweepRow {
            of_whole: false,
            settings: &cell.settings,
            run,
            attainment: slo.map(|slo| slo.attainment),
        }
    }

    /// What does not fit, a sentence for each reason.
    pub(super) fn misfit_notes(&self) -> Vec<String> {
        let mut reasons: Vec<(&str, &Misfit, usize)> = Vec::new();
        for misfit in &self.misfits {
            match reasons.iter_mut().find(|(why, ..)| *why == misfit.why) {
                Some((_, _, cells)) => *cells += 1,
                None => reasons.push((&misfit.why, misfit, 1)),
            }
        }
        let note = |(why, first, cells): (&str, &Misfit, usize)| {
            let named: Vec<String> = first
                .labels
                .iter()
                .map(|(axis, value)| format!("{axis} = {value}"))
                .collect();
            let more = match cells {
                1 => String::new(),
                cells => format!(" and {} more", cells - 1),
            };
            format!(
                "{}{more} does not fit and is not simulated: {why}",
                named.join(", ")
            )
        };
        reasons.into_iter().map(note).collect()
    }
}

impl AxisFlags {
    /// Whether there is any.
    pub(super) fn is_given(&self) -> bool {
        !self.lists.is_empty() || !self.steps.is_empty()
    }

    /// Those that are given.
    pub(super) fn given(&self) -> Result<Vec<Axis>, Diagnostics> {
        let lists = self
            .lists
            .chunks_exact(2)
            .map(|pair| Axis::list(&pair[0], &pair[1]));
        let steps = self.steps.chunks_exact(4).map(|four| match four[2].as_str() {
            "step" => Axis::steps(&four[0], &four[1], &four[3]),
            other => Err(
                Diagnostic::new(format!("`-S`: the third word is `step`, not `{other}`"))
                    .help("write it like -S request-rate 2..32 step 2"),
            ),
        });
        let (mut given, mut wrong) = (Vec::new(), Vec::new());
        for axis in lists.chain(steps) {
            match axis {
                Ok(axis) => given.push(axis),
                Err(problem) => wrong.push(problem),
            }
        }
        match wrong.is_empty() {
            true => Ok(given),
            false => Err(Diagnostics(wrong)),
        }
    }

    /// The scenario's flags with the first values of swept lengths: a request has a prompt and an output, and one of them
    /// may be swept.
    pub(super) fn with_swept_lengths(&self, scenario: &ScenarioFlags) -> ScenarioFlags {
        let mut flags = scenario.clone();
        let firsts = self
            .lists
            .chunks_exact(2)
            .map(|pair| (&pair[0], pair[1].split(',').next().unwrap_or_default()));
        let starts = self
            .steps
            .chunks_exact(4)
            .map(|four| (&four[0], four[1].split("..").next().unwrap_or_default()));
        for (name, first) in firsts.chain(starts) {
            let traffic = &mut flags.traffic;
            let length = match name.trim_start_matches('-').replace('_', "-").as_str() {
                "input-len" => &mut traffic.input_len,
                "output-len" => &mut traffic.output_len,
                "random-input-len" | "random-input" => &mut traffic.random_input_len,
                "random-output-len" | "random-output" => &mut traffic.random_output_len,
                _ => continue,
            };
            // A value that is no count is told where the axis is judged.
            *length = length.or_else(|| first.trim().parse().ok());
        }
        flags
    }

    /// Every combination of these axes' values.
    ///
    /// # Errors
    /// What is wrong with an axis or one of its values.
    pub(super) fn cells(
        &self,
        axes: &[Axis],
        scenario: &ScenarioFlags,
        input: &Assembled,
    ) -> Result<Vec<Cell>, Diagnostics> {
        let replaced: Vec<Diagnostic> = axes
            .iter()
            .filter_map(|axis| replaced(axis, scenario, &input.document))
            .collect();
        if !replaced.is_empty() {
            return Err(Diagnostics(replaced));
        }
        axes::cells(&input.document, axes, self.link)
            .map_err(|unread| with_other_values(unread, &input.document, axes))
    }
}

/// What is wrong with an axis whose flag is given with a value, too, which no cell would have.
fn replaced(axis: &Axis, scenario: &ScenarioFlags, document: &Document) -> Option<Diagnostic> {
    let traffic = &scenario.traffic;
    let name = axis.name.trim_start_matches('-').replace('_', "-");
    // The first of swept lengths stands in the document as if it were given.
    let length = match name.as_str() {
        "input-len" => traffic.input_len,
        "output-len" => traffic.output_len,
        "random-input-len" | "random-input" => traffic.random_input_len,
        "random-output-len" | "random-output" => traffic.random_output_len,
        _ => return axes::given_beside(axis, document),
    };
    length.map(|given| axes::refuse_beside(axis, &format!("--{name}"), &given.to_string()))
}

/// Values of axes that no flag takes, and those beside them that are taken and cannot be honoured: each is judged by itself, so
/// that what it does not go with is left out.
fn with_other_values(mut problems: Diagnostics, document: &Document, axes: &[Axis]) -> Diagnostics {
    const JUDGED: usize = 100;
    let values = axes
        .iter()
        .flat_map(|axis| axis.values.iter().map(move |value| (axis, value)));
    for (axis, value) in values.take(JUDGED) {
        let mut cell = document.clone();
        if !axes::apply(&mut cell, &axis.name, value).is_empty() {
            continue;
        }
        let is_its_own = |problem: &Diagnostic| {
            let place = matches!(&problem.place, Place::Flag(flag) if flag.starts_with("sweep over "));
            place && problem.misfit.is_none()
        };
        let wrong = resolve(cell, &Disk).map_or_else(|wrong| wrong.0, |_| Vec::new());
        for problem in wrong.into_iter().filter(is_its_own) {
            if !problems.0.contains(&problem) {
                problems.0.push(problem);
            }
        }
    }
    problems
}

/// A short name of everything that a cell depends on.
fn fingerprint(text: &str) -> String {
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(text.as_bytes());
    format!("{:016x}", hasher.finish())
}
