//! A row's run, simulated, beside what was measured.

use super::interval::{OTHER_SEEDS, Uncertainty, of_model, reading_reach, sampling_sigma};
use crate::analysis::{Experiment, RunResult, Verdict, simulate};
use crate::calibrate::interval::model_interval;
use crate::calibrate::plan::{Plan, Unmade};
use crate::config::{Diagnostic, Document, Files, Resolved, resolve};
use crate::metrics::{Distribution, Records, Summary};
use crate::results::{Load, Measured, Stats, strange_columns};

/// Token throughput further than this from requests times length is no token throughput; requests a second are often
/// printed with two digits.
const MISCOUNTED: f64 = 0.1;

/// What a figure is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Time to first token.
    Ttft,
    /// Time per output token after the first, or gaps where only those were measured.
    Tpot,
    /// Send to last token.
    E2el,
    /// Tokens or requests per second.
    Throughput,
}

impl Figure {
    /// All of them, in the order of reports.
    pub const ALL: [Figure; 4] = [Figure::Ttft, Figure::Tpot, Figure::E2el, Figure::Throughput];

    /// As JSON has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Figure::Ttft => "ttft",
            Figure::Tpot => "tpot",
            Figure::E2el => "e2el",
            Figure::Throughput => "throughput",
        }
    }
}

/// One figure, measured and predicted.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Which.
    pub figure: Figure,
    /// The statistic, as JSON has it: `mean_ttft_ms`, `output_tok_s`.
    pub name: String,
    /// As published, in the unit of the name.
    pub measured: f64,
    /// As simulated.
    pub predicted: f64,
    /// How far apart the two may be; `None` where nobody asked.
    pub uncertainty: Option<Uncertainty>,
}

impl Compared {
    /// `predicted / measured − 1`.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }

    /// Where 90 % of measurements should be, in the unit of the name.
    #[must_use]
    pub fn range_90(&self) -> Option<(f64, f64)> {
        self.uncertainty
            .map(|uncertainty| uncertainty.range_90(self.predicted))
    }

    /// Whether the measured value is there.
    #[must_use]
    pub fn is_inside_90(&self) -> Option<bool> {
        self.range_90()
            .map(|(low, high)| (low..=high).contains(&self.measured))
    }
}

/// What became of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It was simulated.
    Predicted {
        /// Its figures.
        figures: Vec<Compared>,
        /// What had to be assumed.
        assumptions: Vec<String>,
        /// What the row's flags say without effect.
        ignored: Vec<String>,
    },
    /// It was not, and why.
    NotModelled(String),
}

impl Outcome {
    /// The figures that are compared; none of a row that was not simulated.
    #[must_use]
    pub fn figures(&self) -> &[Compared] {
        match self {
            Outcome::Predicted { figures, .. } => figures,
            Outcome::NotModelled(_) => &[],
        }
    }

    /// Why it was not simulated.
    #[must_use]
    pub fn reason(&self) -> Option<&String> {
        match self {
            Outcome::NotModelled(reason) => Some(reason),
            Outcome::Predicted { .. } => None,
        }
    }
}

/// On which side of saturation a row's load lies, by the verdict on its own simulation. Past saturation a TTFT measures how
/// long the run went on, so that errors there say little of the model of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// A rate at which its backlog was not seen to grow: kept up with, or too few requests to tell, as most published runs
    /// have near saturation. What is certain is the other side.
    Below,
    /// A rate at which its backlog grows.
    Above,
    /// No rate: a closed loop, a burst, or a row that was not simulated.
    NoRate,
}

impl Side {
    /// All of them, in the order of reports.
    pub const ALL: [Side; 3] = [Side::Below, Side::Above, Side::NoRate];

    /// As JSON has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Side::Below => "below_saturation",
            Side::Above => "above_saturation",
            Side::NoRate => "no_rate",
        }
    }

    fn of(load: &Load, verdict: Verdict) -> Side {
        match (load, verdict) {
            (Load::Open { .. } | Load::Trace, Verdict::Unstable) => Side::Above,
            (Load::Open { .. } | Load::Trace, _) => Side::Below,
            _ => Side::NoRate,
        }
    }
}

/// A row and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its place in the table.
    pub place: String,
    /// The family that it is counted with.
    pub family: String,
    /// What served it, without its version; empty where the table does not say.
    pub engine: String,
    /// `calibrate` or `validate`; empty where the table does not say.
    pub suggested_use: String,
    /// Where its load lies.
    pub side: Side,
    /// The prediction or the reason.
    pub outcome: Outcome,
}

impl Row {
    /// A row that was not simulated.
    #[must_use]
    pub fn not_modelled(row: &Measured, reason: String) -> Row {
        Row::of(row, Side::NoRate, Outcome::NotModelled(reason))
    }

    fn of(row: &Measured, side: Side, outcome: Outcome) -> Row {
        Row {
            place: row.place.clone(),
            family: row.setup.family.clone(),
            engine: engine_name(row),
            suggested_use: row.setup.suggested_use.clone(),
            side,
            outcome,
        }
    }
}

/// Simulates a row's plan and compares every figure that the row has. Intervals take about fifteen simulations more.
#[must_use]
pub fn predict(row: &Measured, plan: Result<Plan, String>, files: &dyn Files, with_intervals: bool) -> Row {
    let mut side = Side::NoRate;
    let outcome = match plan.and_then(|plan| run_or_shorten(row, plan, files, Records::None)) {
        Ok(ran) => {
            side = Side::of(&row.setup.load, ran.result.verdict);
            let mut figures = compare(row, &ran.result.whole);
            if with_intervals {
                add_uncertainty(row, &ran, files, &mut figures);
            }
            if figures.is_empty() {
                Outcome::NotModelled(format!(
                    "the row has no figure that is compared: a mean or a median of TTFT, TPOT, ITL or E2E, or a throughput{}",
                    columns_left(row)
                ))
            } else {
                let mut assumptions = ran.plan.assumptions;
                if names_no_statistic(row) {
                    assumptions.push("the source names no statistic: its column's is taken".to_owned());
                }
                Outcome::Predicted {
                    figures,
                    assumptions,
                    ignored: ran.plan.ignored,
                }
            }
        }
        Err(reason) => Outcome::NotModelled(reason),
    };
    Row::of(row, side, outcome)
}

/// Columns of a row that are not read, one of which may be meant.
fn columns_left(row: &Measured) -> String {
    let left = strange_columns(std::slice::from_ref(row)).into_iter();
    let left = left.map(|(name, meant)| match meant {
        Some(meant) => format!("; its column `{name}` is not known, did you mean `{meant}`?"),
        None => format!("; its column `{name}` is not known"),
    });
    left.collect()
}

/// `vllm` of `vLLM`, `sarathi-serve` of `sarathi-serve (vLLM fork)`.
fn engine_name(row: &Measured) -> String {
    let engine = row.setup.engine.as_deref().unwrap_or_default();
    let name = engine.split(['(', ' ']).next().unwrap_or_default();
    name.to_lowercase()
}

/// A plan, as it was run.
pub(super) struct Ran {
    pub(super) plan: Plan,
    pub(super) resolved: Resolved,
    pub(super) result: RunResult,
}

fn add_uncertainty(row: &Measured, ran: &Ran, files: &dyn Files, figures: &mut [Compared]) {
    let model = model_interval(&ran.resolved);
    // A recorded trace is the same traffic in both runs.
    let is_counted = row.setup.num_prompts.is_some() || row.outcome.duration_s.is_some();
    let is_drawn = is_counted && row.setup.load != Load::Trace;
    let others: Vec<Vec<Compared>> = if is_drawn {
        (1..=OTHER_SEEDS)
            .filter_map(|seed| run(&ran.plan.with_seed(seed), files, Records::None).ok())
            .map(|(_, other)| compare(row, &other.whole))
            .collect()
    } else {
        Vec::new()
    };
    let readings: Vec<Vec<Compared>> = (ran.plan.readings.iter())
        .filter_map(|reading| run_or_shorten(row, ran.plan.read_as(reading), files, Records::None).ok())
        .map(|other| compare(row, &other.result.whole))
        .chain(compare_otherwise(row, &ran.result.whole))
        .collect();
    let has_chance = is_drawn || row.setup.load == Load::Trace;
    for figure in figures {
        let of_it = others.iter().flatten().filter(|other| other.name == figure.name);
        let values: Vec<f64> = std::iter::once(figure.predicted)
            .chain(of_it.map(|other| other.predicted))
            .collect();
        let otherwise = readings
            .iter()
            .flatten()
            .filter(|other| other.name == figure.name);
        let otherwise: Vec<f64> = otherwise.map(|other| other.predicted).collect();
        figure.uncertainty = Some(Uncertainty {
            reading_reach_ln: reading_reach(figure.predicted, &otherwise),
            sampling_sigma_ln: has_chance.then(|| sampling_sigma(&values)),
            ..of_model(&model, figure.figure)
        });
    }
}

/// Runs a plan, with a shorter context where the whole does not fit.
pub(super) fn run_or_shorten(
    row: &Measured,
    plan: Plan,
    files: &dyn Files,
    records: Records,
) -> Result<Ran, String> {
    let ((resolved, result), plan) = plan.attempt(row, |plan| run(plan, files, records))?;
    Ok(Ran {
        plan,
        resolved,
        result,
    })
}

/// A problem as one sentence: what is wrong, why where the place says it, and which known name may be meant.
fn reason(problem: &Diagnostic) -> String {
    let wrong = problem.sentence();
    let meant = problem.help.iter().find(|help| help.starts_with("did you mean"));
    match meant {
        Some(meant) => format!("{wrong}; {meant}"),
        None => wrong,
    }
}

fn run(plan: &Plan, files: &dyn Files, records: Records) -> Result<(Resolved, RunResult), Unmade> {
    let document = Document::parse("row.toml", &plan.scenario).map_err(|problem| problem.message)?;
    let resolved = resolve(document, files).map_err(|problems| Unmade::of(&problems, reason))?;
    let experiment = Experiment::of_whole_run(records);
    let outcome = simulate(&resolved.scenario, &experiment, |_| true);
    if outcome.is_livelocked || outcome.result.whole.completed == 0 {
        return Err("no request of the simulated run was answered".to_owned().into());
    }
    Ok((resolved, outcome.result))
}

/// Which statistic of a latency a published figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Statistic {
    /// The one that its column names: the mean where there is one, else the median.
    Named,
    /// The mean, though the column says median.
    Mean,
}

/// Whether a row's notes say that its source names no statistic. The prediction is that of the column all the same; what
/// the mean would be widens the interval.
fn names_no_statistic(row: &Measured) -> bool {
    row.setup.notes.contains("stat (mean or median) not stated")
}

/// The row's figures and the run's; gaps only where the row has no time per token.
fn compare(row: &Measured, summary: &Summary) -> Vec<Compared> {
    compare_by(row, summary, Statistic::Named)
}

/// The same with the statistic that a row of an unknown one may as well mean, under the names of [`compare`].
fn compare_otherwise(row: &Measured, summary: &Summary) -> Option<Vec<Compared>> {
    names_no_statistic(row).then(|| {
        let mut figures = compare_by(row, summary, Statistic::Mean);
        for figure in &mut figures {
            figure.name = figure.name.replacen("mean_", "median_", 1);
        }
        figures
    })
}

fn compare_by(row: &Measured, summary: &Summary, statistic: Statistic) -> Vec<Compared> {
    let steps = if row.tpot.centre().is_some() {
        ("tpot", &row.tpot, &summary.tpot)
    } else {
        ("itl", &row.itl, &summary.itl)
    };
    let times = [
        (Figure::Ttft, ("ttft", &row.ttft, &summary.ttft)),
        (Figure::Tpot, steps),
        (Figure::E2el, ("e2el", &row.e2el, &summary.e2el)),
    ];
    let mut found: Vec<Compared> = times
        .into_iter()
        .filter_map(|(figure, (name, of, is))| time(figure, (name, statistic), of, is))
        .collect();
    found.extend(throughput(row, summary));
    found
}

fn time(
    figure: Figure,
    (name, statistic): (&str, Statistic),
    measured: &Stats,
    predicted: &Distribution,
) -> Option<Compared> {
    let is_mean = statistic == Statistic::Mean || measured.mean.is_some();
    let measured = measured.mean.or(measured.median)?;
    let (statistic, predicted) = match is_mean {
        true => ("mean", predicted.mean_s()?),
        false => ("median", predicted.quantile_s(0.5)?),
    };
    // A batch that is answered whole has no time per token.
    (measured > 0.0 && predicted > 0.0).then(|| Compared {
        figure,
        name: format!("{statistic}_{name}_ms"),
        measured: measured * 1e3,
        predicted: predicted * 1e3,
        uncertainty: None,
    })
}

/// Output tokens, else all tokens, else requests, per second of the whole run. Tokens that are not requests times their
/// length were counted wrongly by the tool; then requests are what was measured.
fn throughput(row: &Measured, summary: &Summary) -> Option<Compared> {
    let outcome = &row.outcome;
    let known = outcome
        .output_throughput
        .zip(outcome.request_throughput)
        .zip(row.setup.output_tokens);
    let miscounted = known
        .is_some_and(|((tokens, requests), length)| (tokens / (requests * length) - 1.0).abs() > MISCOUNTED);
    let tokens = |rate: Option<f64>| rate.filter(|_| !miscounted);
    let rates = [
        (
            "output_tok_s",
            tokens(outcome.output_throughput),
            summary.output_tokens,
        ),
        (
            "total_tok_s",
            tokens(outcome.total_throughput),
            summary.input_tokens + summary.output_tokens,
        ),
        ("req_s", outcome.request_throughput, summary.completed),
    ];
    let (name, measured, counted) = rates
        .into_iter()
        .find_map(|(name, rate, counted)| Some((name, rate.filter(|rate| *rate > 0.0)?, counted)))?;
    (summary.duration_s > 0.0).then(|| Compared {
        figure: Figure::Throughput,
        name: name.to_owned(),
        measured,
        predicted: counted as f64 / summary.duration_s,
        uncertainty: None,
    })
}
