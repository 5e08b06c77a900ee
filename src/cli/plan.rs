//! What `-L` and `-S` ask for: the axes, the cells of one part, and which of them cannot be run.

mod common;
mod refused;
mod variants;

use std::collections::BTreeMap;
use std::hash::Hasher;

use clap::ArgAction;
use clap::parser::ValueSource;
use serde_json::Value;

pub(super) use self::common::Common;
pub(super) use self::refused::Refused;
pub(super) use self::variants::AXIS as VARIANT;

use super::disk::Disk;
use super::interrupt;
use super::outputs::OutputFlags;
use crate::config::axes::{self, Axis, Cell};
use crate::config::flags::ScenarioFlags;
use crate::config::{
    Assembled, Diagnostic, Diagnostics, Document, OF_EACH_CARD, Place, Resolved, Source, resolve,
    resolved_as_given,
};
use crate::report::sweep::SweepRow;
use crate::sweep;

/// What varies.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Axes")]
pub struct AxisFlags {
    /// An axis by its values: `-L request-rate 4,8,16`. Beside `-L engine vllm,sglang` the longest sequence (`--max-model-len`) and
    /// the most requests at once (`--max-num-seqs`) are each engine's own.
    #[arg(short = 'L', long = "list", num_args = 2, value_names = ["NAME", "VALUES"])]
    pub lists: Vec<String>,
    /// An axis by its range, ends included: `-S request-rate 2..32 step 2`.
    #[arg(short = 'S', long = "steps", num_args = 4, value_names = ["NAME", "FROM..TO", "step", "BY"])]
    pub steps: Vec<String>,
    /// A way of serving by its flags, combined with all axes; give several: `--variant "wide: -tp 8" --variant "split: -tp 4 --prefill 1 --decode 1"`.
    #[arg(long = "variant", value_name = "[NAME:] FLAGS", allow_hyphen_values = true)]
    pub variants: Vec<String>,
    /// Advance all axes together instead of taking every combination.
    #[arg(long)]
    pub link: bool,
    /// Flags that the command line gives, and their values.
    #[arg(skip)]
    pub beside: Vec<(String, String)>,
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

/// The cells of one part of a sweep.
#[derive(Default)]
pub(super) struct Plan {
    /// Those to simulate, in their order.
    pub runs: Vec<Planned>,
    /// Those that cannot be, in their order.
    pub refused: Vec<Refused>,
}

impl Plan {
    /// The cells of one part; `None` where the user asked to stop. `judge` is asked of each cell that resolves, by its number, in
    /// their order.
    ///
    /// # Errors
    /// Values of axes that mean nothing in any cell. What is wrong where no cell can be run, be it of all of them or of each; that
    /// no model fits is no mistake. Two cells that are one.
    pub(super) fn of(
        cells: Vec<Cell>,
        part: (usize, usize),
        mut judge: impl FnMut(usize, &Resolved) -> Result<(), Diagnostics>,
    ) -> Result<Option<Plan>, Diagnostics> {
        let mut plan = Plan::default();
        let price = cells.first().map(|cell| cell.document.place(PRICE));
        for (index, Cell { labels, document }) in cells
            .into_iter()
            .enumerate()
            .filter(|(index, _)| index % part.1 == part.0)
        {
            if interrupt::is_asked() {
                return Ok(None);
            }
            let judged = resolve(document, &Disk).and_then(|resolved| {
                judge(index, &resolved)?;
                Ok(resolved)
            });
            match judged {
                Ok(resolved) => plan.runs.push(Planned {
                    index,
                    labels,
                    resolved,
                }),
                Err(wrong) => plan.refused.push(Refused::new(index, labels, wrong)),
            }
        }
        let mistakes = refused::mistakes(&plan.refused);
        if !mistakes.is_empty() {
            return Err(Diagnostics(mistakes));
        }
        if plan.runs.is_empty() && plan.refused.iter().any(|cell| !cell.is_misfit) {
            return Err(refused::told(&plan.refused));
        }
        match one_card_twice(&plan.runs)
            .or_else(|| one_price_for_unlike_cards(&plan.runs, price.unwrap_or_default()))
        {
            Some(wrong) => Err(wrong.into()),
            None => Ok(Some(plan)),
        }
    }

    /// Every cell in its order. With `kept` they are for lines of a file, which name the scenario, too, and what else decides the
    /// results: a file of another one with the same axes must not be taken for this one's.
    pub(super) fn cells(&self, kept: Option<&str>) -> Vec<sweep::Cell> {
        let named = |text: &str| kept.map(|beside| fingerprint(&[text, beside].concat()));
        let runs = self.runs.iter().map(|cell| {
            let told = kept.and_then(|_| named(&resolved_as_given(&cell.resolved)));
            (cell.index, &cell.labels, told)
        });
        let refused = self
            .refused
            .iter()
            .map(|cell| (cell.index, &cell.labels, named(&cell.why)));
        let mut cells: Vec<sweep::Cell> = runs
            .chain(refused)
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
        let refused = self
            .refused
            .iter()
            .map(|cell| (cell.index, cell.labels.as_slice()));
        let mut all: Vec<(usize, &[(String, String)])> = runs.chain(refused).collect();
        all.sort_by_key(|(index, _)| *index);
        all.into_iter().map(|(_, labels)| labels).collect()
    }

    /// The run of a cell, unless it is refused.
    pub(super) fn run(&self, index: usize) -> Option<&Planned> {
        let at = self.runs.binary_search_by_key(&index, |cell| cell.index).ok()?;
        Some(&self.runs[at])
    }

    /// A cell that cannot be run.
    pub(super) fn refused(&self, index: usize) -> Option<&Refused> {
        let at = self
            .refused
            .binary_search_by_key(&index, |cell| cell.index)
            .ok()?;
        Some(&self.refused[at])
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

    /// What cannot be run, a sentence for each reason.
    pub(super) fn refusals(&self) -> Vec<String> {
        refused::notes(&self.refused)
    }
}

/// What is wrong where two cells differ only in how their card is spelt: they are one run.
fn one_card_twice(runs: &[Planned]) -> Option<Diagnostic> {
    let axes = runs.first()?.labels.iter().map(|(axis, _)| axis);
    let is_of_card = |axis: &&String| ["gpu", "cluster.gpu"].contains(&axis.trim_start_matches('-'));
    let axis = axes.clone().position(|axis| is_of_card(&axis))?;
    let mut alike: BTreeMap<Vec<&str>, Vec<&Planned>> = BTreeMap::new();
    for run in runs {
        let others = run.labels.iter().enumerate().filter(|(at, _)| *at != axis);
        let others = others.map(|(_, (_, value))| value.as_str()).collect();
        let known = alike.entry(others).or_default();
        if let Some(first) = known
            .iter()
            .find(|first| first.resolved.device == run.resolved.device)
        {
            let (name, second) = &run.labels[axis];
            let (_, first) = &first.labels[axis];
            let card = &run.resolved.device.id;
            let problem = Diagnostic::new(format!(
                "`{name}` = {second} is given twice: {first} is {card}, too"
            ))
            .at(Place::Flag(format!("sweep over {name}")));
            return Some(problem.help("a run stands for its value once: leave one out"));
        }
        known.push(run);
    }
    None
}

/// The key of what a GPU-hour costs.
pub(super) const PRICE: &str = "cluster.price";

/// By what it is set where each card has a price of its own.
pub(super) const OF_A_CARD: &str = "--prices";

/// That one price which was given, there, is that of unlike cards; none where the price varies, too, or each card has its own.
fn one_price_for_unlike_cards(runs: &[Planned], given_at: Place) -> Option<Diagnostic> {
    let is_of_price = |(axis, _): &(String, String)| ["price", PRICE].contains(&axis.trim_start_matches('-'));
    let is_of_card = |run: &Planned| {
        let mut given = run.resolved.provenance.iter();
        given.any(|value| value.key == PRICE && value.source == Source::Flag(OF_A_CARD.to_owned()))
    };
    let is_given = |run: &&Planned| {
        let price = run.resolved.scenario.first_pool().price.as_ref();
        let is_one = !run.labels.iter().any(is_of_price) && !is_of_card(run);
        price.is_some_and(|price| price.listed.is_none()) && is_one
    };
    let device = |run: &Planned| run.resolved.device.id.clone();
    let mut given = runs.iter().filter(is_given).map(device);
    let first = given.next()?;
    given.any(|other| other != first).then(|| {
        let name = match &given_at {
            Place::Flag(flag) => flag.clone(),
            Place::File(..) | Place::Nowhere => format!("`{PRICE}`"),
        };
        Diagnostic::new(format!(
            "{name} is one price for every GPU-hour, and these are cards that cost unlike amounts"
        ))
        .at(given_at)
        .help(format!("leave it out: {OF_EACH_CARD}"))
    })
}

impl AxisFlags {
    /// Whether there is any, or a variant.
    pub(super) fn is_given(&self) -> bool {
        self.has_axes() || !self.variants.is_empty()
    }

    /// Whether there is any axis.
    pub(super) fn has_axes(&self) -> bool {
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

    /// Remembers the flags of the command line that axes may set, too.
    pub(super) fn remember(&mut self, command: &clap::Command, matches: &clap::ArgMatches) {
        let written = |arg: &clap::Arg| {
            let id = arg.get_id().as_str();
            let is_given = matches.value_source(id) == Some(ValueSource::CommandLine);
            let words = matches.get_raw(id).filter(|_| is_given)?;
            let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
            // Of several values at once an axis adds another.
            let is_one = matches!(arg.get_action(), ArgAction::Set) && words.len() == 1;
            is_one.then_some((arg.get_long()?.to_owned(), words.concat()))
        };
        self.beside = command.get_arguments().filter_map(written).collect();
    }

    /// The command with the first value of each axis.
    ///
    /// # Errors
    /// What is wrong with an axis, or with the command.
    pub(super) fn first(
        &self,
        scenario: &ScenarioFlags,
        output: &OutputFlags,
    ) -> Result<Assembled, Diagnostics> {
        Common::read(self, scenario, output)?.first(&self.given()?)
    }

    /// What is wrong with an axis whose flag is given with a value, too, which no cell would have; `alone` is what the flags set.
    fn replaced(&self, axis: &Axis, alone: &Document) -> Option<Diagnostic> {
        let name = axes::own_name(&axis.name);
        let given = self.beside.iter().find(|(flag, _)| *flag == name);
        match given {
            Some((_, value)) => Some(axes::refuse_beside(axis, &format!("--{name}"), value)),
            None => axes::given_beside(axis, alone),
        }
    }
}

/// A short name of everything that a cell depends on.
fn fingerprint(text: &str) -> String {
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(text.as_bytes());
    format!("{:016x}", hasher.finish())
}
