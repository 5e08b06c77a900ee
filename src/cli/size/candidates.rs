//! Who is to be chosen from: cards, how many GPUs share a replica, and what else axes vary; and what each card costs.

use toml::Value;

use super::super::disk::Disk;
use super::super::inputs;
use super::super::knee::{self, SizingFlags, SplitFlags};
use super::super::plan::{OF_A_CARD, PRICE};
use super::said::{Elsewhere, SIZE};
use super::{Args, SPARES_MAX, demand};
use crate::config::axes::{self, Axis, Cell};
use crate::config::{Diagnostic, Diagnostics, Place, Prices};
use crate::cost::calibration::is_calibrated;
use crate::hardware::{self, Device};
use crate::report::purchases::Config;

/// The axis of cards, and that of the GPUs that share a replica.
const GPU: &str = "gpu";
const TENSOR_PARALLEL: &str = "tensor-parallel-size";
/// The key of a card.
const CARD: &str = "cluster.gpu";
/// The sizes that are tried: attention's heads divide by powers of two, and a node has eight GPUs.
const SIZES: &str = "1,2,4,8";
/// All cards that have a price.
const ALL: &str = "all";
/// Flags of traffic that are the demand, of which there is one.
const DEMANDS: [&str; 5] = ["request-rate", "users", "think-time", "trace", "time-scale"];

/// Cards, sizes and prices.
#[derive(Clone, Debug)]
pub(super) struct Candidates {
    /// Cards as an axis has them, and each card; none where an axis of the user's says which.
    cards: Vec<(String, Device)>,
    /// How many GPUs share a replica is said: by a flag, an axis, a variant or a pasted command.
    has_own_sizes: bool,
    prices: Prices,
    /// Cards that are not tried, and why.
    pub(super) left_out: Option<String>,
    /// What there is to say of how names were read.
    pub(super) notes: Vec<String>,
}

impl Candidates {
    /// Those of a command line.
    ///
    /// # Errors
    /// All that is wrong with the flags of this command by themselves.
    pub(super) fn of(args: &Args) -> Result<Candidates, Diagnostics> {
        let mut problems = demand::problems(args);
        if args.spare > SPARES_MAX {
            let message = format!("--spare {} is more than {SPARES_MAX} replicas", args.spare);
            problems.push(Diagnostic::new(message).at(Place::Flag("--spare".to_owned())));
        }
        let own_axes = args.axes.given().unwrap_or_else(|wrong| {
            problems.extend(wrong.0);
            Vec::new()
        });
        let is_own = |name: &str| own_axes.iter().any(|axis| sets(axis, name));
        problems.extend(own_axes.iter().filter_map(of_demand));
        let cluster = &args.scenario.server.machines.cluster;
        let has_size = cluster.tensor_parallel_size.is_some() || is_own(TENSOR_PARALLEL);
        let elsewhere = Elsewhere::of(args, SIZES);
        let names_card = is_own(GPU) || elsewhere.varies_gpu;
        let named: Vec<&String> = args.gpus.iter().chain(&cluster.gpu).collect();
        if !args.gpus.is_empty() && cluster.gpu.is_some() {
            let problem = Diagnostic::new("--gpu and --gpus both say which cards to choose from");
            let help = "leave one of the two out: --gpus h100,l40s names several";
            problems.push(problem.at(Place::Flag("--gpus".to_owned())).help(help));
        } else if !named.is_empty() && names_card {
            let by = if is_own(GPU) { "-L gpu" } else { "a variant" };
            let problem = Diagnostic::new(format!("{by} and --gpus both say which cards to choose from"));
            problems.push(
                problem
                    .at(Place::Flag("--gpus".to_owned()))
                    .help("leave one of the two out"),
            );
        }
        if args.disaggregated && args.output_is_kept() {
            let problem = Diagnostic::new(
                "--disaggregated keeps nothing in a .jsonl file: pools are counted once all is searched",
            );
            let help = "write another form: -o FILE.json, or .csv";
            problems.push(problem.at(Place::Flag("--disaggregated".to_owned())).help(help));
        }
        let (mut notes, mut left_out) = (Vec::new(), None);
        let mut cards = Vec::new();
        let is_all = matches!(&named[..], [one] if one.as_str() == ALL);
        if !names_card && !is_all && !named.is_empty() {
            for name in named {
                match card(name) {
                    Ok((card, note)) => {
                        notes.extend(note);
                        cards.push(card);
                    }
                    Err(problem) => problems.push(problem),
                }
            }
        }
        let own: Vec<Device> = cards.iter().map(|(_, device)| device.clone()).collect();
        let prices = Prices::read(args.prices.as_deref(), &args.price_of, &own, &Disk);
        let prices = prices.unwrap_or_else(|wrong| {
            problems.extend(wrong.0);
            Prices::default()
        });
        notes.extend(prices.notes.iter().cloned());
        if !names_card && cards.is_empty() {
            let has_price = |device: &&Device| device.price.is_some() || prices.of(&device.id).is_some();
            let shipped = hardware::all().iter();
            cards = match is_all {
                true => shipped.clone().filter(has_price).map(whole).collect(),
                false => shipped
                    .clone()
                    .filter(|device| is_calibrated(&device.id))
                    .map(whole)
                    .collect(),
            };
            let unpriced: Vec<&str> = shipped
                .filter(|device| !has_price(device))
                .map(|device| device.id.as_str())
                .collect();
            left_out = (is_all && !unpriced.is_empty()).then(|| {
                format!(
                    "no price is known of {}: --price GPU=USD gives one",
                    unpriced.join(", ")
                )
            });
        }
        if !problems.is_empty() {
            return Err(Diagnostics(problems));
        }
        notes.extend(elsewhere.note.filter(|_| !has_size));
        Ok(Candidates {
            cards,
            has_own_sizes: has_size || elsewhere.holds_size,
            prices,
            left_out,
            notes,
        })
    }

    /// The same as knees of settings side by side.
    pub(super) fn as_knee(&self, args: &Args) -> knee::Args {
        let mut scenario = args.scenario.clone();
        let mut axes = args.axes.clone();
        let mut own: Vec<String> = Vec::new();
        if !self.cards.is_empty() {
            scenario.server.machines.cluster.gpu = None;
            axes.beside.retain(|(flag, _)| flag != GPU);
            let values: Vec<&str> = self.cards.iter().map(|(value, _)| value.as_str()).collect();
            own.extend([GPU.to_owned(), values.join(",")]);
        }
        if !self.has_own_sizes {
            own.extend([TENSOR_PARALLEL, SIZES].map(str::to_owned));
        }
        axes.lists.splice(0..0, own);
        knee::Args {
            scenario,
            min_rate: None,
            max_rate: None,
            axes,
            sizing: SizingFlags {
                for_rate: args.for_rate,
            },
            splits: SplitFlags::default(),
            output: args.output.clone(),
        }
    }

    /// The settings, of which all replicas do both.
    pub(super) fn together(cells: &[Cell]) -> Vec<Cell> {
        let mut cells = cells.to_vec();
        cells
            .iter_mut()
            .for_each(|cell| knee::do_both(&mut cell.document));
        cells
    }

    /// The settings, each with the price of its card where one was given.
    pub(super) fn priced(&self, mut cells: Vec<Cell>) -> Vec<Cell> {
        for cell in &mut cells {
            let id = match cell.document.get(CARD).and_then(Value::as_str) {
                Some(name) => self.id(name),
                None => continue,
            };
            if let Some(usd) = id.and_then(|id| self.prices.of(&id)) {
                cell.document.set(PRICE, Value::Float(usd), OF_A_CARD);
            }
        }
        cells
    }

    /// The id of a card as an axis or a scenario names it.
    fn id(&self, name: &str) -> Option<String> {
        let own = self.cards.iter().find(|(value, _)| value == name);
        match own {
            Some((_, device)) => Some(device.id.clone()),
            None => inputs::device(name).ok().map(|(device, _)| device.id),
        }
    }

    /// What a setting is.
    pub(super) fn config(&self, cell: &Cell) -> Config {
        let value = |key: &str| cell.document.get(key);
        let number = |key: &str| {
            let number = value(key).and_then(Value::as_integer);
            number.and_then(|number| u64::try_from(number).ok()).unwrap_or(1)
        };
        let named = value(CARD).and_then(Value::as_str).unwrap_or_default();
        let is_other = |(axis, _): &&(String, String)| !is_of(axis, GPU) && !is_of(axis, TENSOR_PARALLEL);
        Config {
            gpu: self.id(named).unwrap_or_else(|| named.to_owned()),
            named: named.to_owned(),
            tensor_parallel: match value(SIZE) {
                None => "1".to_owned(),
                Some(size) => size.as_str().map_or_else(|| size.to_string(), str::to_owned),
            },
            pipeline_parallel: number("cluster.pipeline_parallel_size"),
            data_parallel: number("cluster.data_parallel_size"),
            rest: cell.labels.iter().filter(is_other).cloned().collect(),
        }
    }
}

impl Args {
    /// Whether finished settings are kept in a file.
    fn output_is_kept(&self) -> bool {
        let is_jsonl = |file: &String| file.ends_with(".jsonl");
        self.output.output.as_ref().is_some_and(is_jsonl)
    }
}

/// A card by its id, as an axis has it.
fn whole(device: &Device) -> (String, Device) {
    (device.id.clone(), device.clone())
}

/// A card by its name or the path of its profile, and how the name was read.
fn card(name: &str) -> Result<((String, Device), Option<String>), Diagnostic> {
    let at_flag = |problem: Diagnostic| problem.at(Place::Flag("--gpus".to_owned()));
    if name.to_lowercase().ends_with(".toml") {
        let read = inputs::device(name).map_err(|error| at_flag(Diagnostic::new(format!("{error:#}"))))?;
        return Ok(((name.to_owned(), read.0), None));
    }
    match hardware::find(name) {
        Ok((device, note)) => Ok((whole(&device), note)),
        Err(unknown) => {
            let text = unknown.to_string();
            let mut lines = text.lines().map(str::trim);
            let problem = Diagnostic::new(lines.next().unwrap_or_default());
            Err(at_flag(lines.fold(problem, |problem, line| problem.help(line))))
        }
    }
}

/// Whether an axis sets a flag of this name, or its key.
fn sets(axis: &Axis, flag: &str) -> bool {
    is_of(&axis.name, flag)
}

/// The same of its name.
fn is_of(axis: &str, flag: &str) -> bool {
    let key = axis.rsplit('.').next().unwrap_or(axis);
    axes::own_name(axis) == flag || key.replace('_', "-") == flag
}

/// That an axis sets the demand.
fn of_demand(axis: &Axis) -> Option<Diagnostic> {
    let flag = DEMANDS
        .into_iter()
        .find(|flag| sets(axis, flag) && !axis.name.contains(".classes."))?;
    let first = axis.values.first().map_or("", String::as_str);
    let problem = Diagnostic::new(format!("size buys for one demand, and an axis sets --{flag}"));
    let help = format!("give one value (--{flag} {first}), and each other in a command of its own");
    Some(problem.at(Place::of_axis(&axis.name)).help(help))
}
