//! The host's terms, by inverting the simulator itself: every trial simulates every run.
//!
//! Host terms belong to an engine and its CPUs rather than to a GPU, so runs on other cards count, too, each with its
//! own card's kernels. A card without a kernel table of its own may have the bandwidth of a cousin's scaled by one
//! factor. What cannot be told apart: a term added to every step from a slightly slower kernel (runs of several
//! batches can), the front end's delay from the client's, and the terms of asynchronous scheduling from each other at
//! one batch size. A run that no host explains decides nothing: it is left out of the fit (`consensus`) and told, and so is one without
//! which all others are met much better (`alone`).

mod alone;
mod belief;
mod consensus;
mod descent;
mod families;
mod front_end;
mod hold_out;
mod linear;
mod loads;
mod next_run;
mod scattered;
mod slower_card;
mod terms;

pub(super) use front_end::next_front_end;

pub use alone::{Moved, StandsAlone};
pub use slower_card::SlowerCard;

use alone::Alone;
use consensus::Fewer;
use descent::{invert, is_as_measured};
use families::families;
use linear::{Linear, NUDGE, draws};
use loads::{Loads, OWN_WEIGHT, loads, weights};
use rayon::prelude::*;
use std::collections::BTreeMap;
use terms::{
    BANDWIDTH, MOVES, SLOW_LAUNCHES, SLOW_STREAMING, STREAMING_MOVES, host_term, launches, parameters,
    streaming,
};

use super::component::{Options, bias, intervals, percent, rounded, unidentified};
use super::doubts;
use super::runs::{Figure, Run};
use super::solve::{Loss, Parameter, Task};
use crate::cost::calibration::{
    BlockEvidence, Calibration, FamilyEvidence, GemmForm, Host, KernelFormat, RunEvidence, for_device,
};
use crate::hardware::Device;
use crate::stats::quantile;

/// Fitted terms of one engine's host.
pub struct HostFit {
    /// All terms, fitted and not.
    pub host: Host,
    /// Factor on the bandwidth of products, where it was sought.
    pub bandwidth: Option<f64>,
    /// How well they are known.
    pub evidence: BlockEvidence,
    /// Parameters that the runs do not decide.
    pub unidentified: Vec<&'static str>,
    /// Parameters that were fitted.
    pub parameters: usize,
    /// Measured and reproduced.
    pub runs: Vec<RunEvidence>,
    /// Of each run that no host explains the figure that is furthest off, by its place in `runs`.
    pub unexplained: Vec<usize>,
    /// Figures of all other runs, by their places in `runs`.
    pub explained: Vec<usize>,
    /// Those other runs, by their places among all that were given.
    pub met: Vec<usize>,
    /// Terms that lie at an end of what is possible.
    pub at_ends: Vec<&'static str>,
    /// Runs that are far off took no part in the fit.
    pub is_of_fewer: bool,
    /// The load without which the fit gains more than chance gives.
    pub stands_alone: Option<StandsAlone>,
    /// Share of the card's bandwidth at which products would read weights with the factor that was found, where that is more than there is.
    pub over_bandwidth: Option<f64>,
    /// The card that would explain the runs with less of a surprise than this host.
    pub slower_card: Option<SlowerCard>,
    /// Each family of runs as a fit without it has it; none where there are fewer than two.
    pub families: Vec<FamilyEvidence>,
    /// The run that would tell most, in words.
    pub next: Option<String>,
    /// Runs that were given.
    pub given: usize,
    /// No term could be moved from what was believed, and that is not as measured.
    pub is_unmoved: bool,
    /// Runs whose lengths were taken to be equal and may not have been; intervals reach to scattered ones.
    pub scattered: usize,
}

/// What is known before: the device, its calibration with every block filled, and the engine.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// The device that the calibration is for.
    pub device: &'a Device,
    /// Its kernels.
    pub calibration: &'a Calibration,
    /// Whose host terms.
    pub engine: &'a str,
    /// Id of the card whose runs decide a factor on the bandwidth of products: the device, or a cousin that has the
    /// same chip.
    pub bandwidth_of: Option<&'a str>,
    /// Asked before each simulation; once it says no the rest is skipped, and the fit is of no use.
    pub goes_on: &'a (dyn Fn() -> bool + Sync),
}

/// Expected error of a figure: runs repeat within 2 to 3 %.
const RUN_SIGMA: f64 = 0.03;

/// Fits the terms that the runs speak about; `None` without runs, or where the engine has no terms to start from.
#[must_use]
pub fn fit(runs: &[Run], known: &Known, options: &Options) -> Option<HostFit> {
    let all = Trial::of_all(runs, known)?;
    let first = rounded_all(invert(&all, Loss::SoftL1, &all.priors()));
    let Basis {
        fewer,
        beside,
        stands_alone,
    } = Basis::of(&all, &first);
    let (trial, values) = fewer
        .as_ref()
        .map_or((&all, &first), |fewer| (&fewer.trial, &fewer.values));
    let linear = Linear::new(trial, values);
    let scattered = scattered::as_scattered(trial, values, options);
    let alone = beside.map(|others| alone::beside(trial, &others, options));
    let mut draws = draws(trial, &linear, options);
    let mut interval_90 = holding(intervals(&trial.parameters, &draws), &trial.parameters, values);
    for other in scattered.iter().map(|other| &other.terms).chain(&alone) {
        widen(&mut interval_90, &other.interval_90);
        draws.extend(other.draws.iter().cloned());
    }
    let is_unmoved = *values == rounded_all(trial.priors()) && !is_as_measured(&linear.errors);
    let host = trial.host(values);
    let bandwidth = trial.bandwidth(values);
    let errors = all.errors_under(&host, bandwidth);
    let held_out = hold_out::hold_out(trial, &linear, options);
    let unseen = |p: f64| held_out.as_ref().map(|errors| percent(errors, p));
    let mut told = evidence(&all.runs, &errors);
    if let Some(fewer) = &fewer {
        for (figure, run) in told.iter_mut().zip(&all.rows) {
            figure.is_left_out = !fewer.kept.contains(run);
        }
    }
    let is_alone = |run: usize| {
        let is_out = |fewer: &Fewer| !fewer.kept.contains(&run);
        stands_alone.is_some() && fewer.as_ref().is_some_and(is_out)
    };
    let (explained, unexplained) = doubts::explained(&all.rows, &told, &is_alone);
    let parameters = &trial.parameters;
    let mut met: Vec<usize> = explained.iter().map(|figure| all.rows[*figure]).collect();
    met.dedup();
    Some(HostFit {
        bandwidth,
        evidence: BlockEvidence {
            rows: all.rows.len() as u64,
            shapes: loads(&all.runs).count as u64,
            kept_rows: fewer.as_ref().map(|fewer| fewer.trial.rows.len() as u64),
            kept_shapes: fewer.as_ref().map(|fewer| fewer.trial.loads.count as u64),
            residual_median_pct: percent(&errors, 0.5),
            residual_p95_pct: percent(&errors, 0.95),
            bias_pct: bias(&errors),
            hold_out_median_pct: unseen(0.5),
            hold_out_p95_pct: unseen(0.95),
            sigma_ln: rounded(sigma(parameters, &draws)),
            interval_90,
        },
        unidentified: match is_unmoved {
            true => parameters.iter().map(|parameter| parameter.name).collect(),
            false => unidentified(parameters, &draws),
        },
        parameters: parameters.len(),
        families: families(trial, &linear),
        next: next_run::next_run(trial, &linear),
        runs: told,
        unexplained,
        explained,
        met,
        at_ends: belief::at_ends(parameters, values),
        is_of_fewer: fewer.is_some(),
        stands_alone,
        over_bandwidth: bandwidth.and_then(|factor| slower_card::over_bandwidth(known, factor)),
        slower_card: slower_card::slower_card(trial, values),
        given: runs.len(),
        is_unmoved,
        scattered: scattered.map_or(0, |other| other.runs),
        host,
    })
}

/// Which runs the terms are fitted to.
struct Basis<'a> {
    /// The fit to some of the runs, where the others were left out.
    fewer: Option<Fewer<'a>>,
    /// The fit without a load that stands alone and yet may be right.
    beside: Option<Fewer<'a>>,
    /// That load, or the one that was left out.
    stands_alone: Option<StandsAlone>,
}

impl<'a> Basis<'a> {
    /// Runs that are far off are left out first; a load stands alone only among runs that are all met.
    fn of(all: &Trial<'a>, first: &[f64]) -> Basis<'a> {
        let mut basis = Basis {
            fewer: consensus::without_far_ones(all, first),
            beside: None,
            stands_alone: None,
        };
        if basis.fewer.is_some() {
            return basis;
        }
        if let Some(Alone { others, told }) = alone::alone(all, first) {
            let place = match told.is_left_out {
                true => &mut basis.fewer,
                false => &mut basis.beside,
            };
            *place = Some(others);
            basis.stands_alone = Some(told);
        }
        basis
    }
}

/// Terms as another fit has them, to which intervals reach.
struct OtherTerms {
    interval_90: Intervals,
    draws: Vec<Vec<f64>>,
}

/// Intervals by the names of parameters.
type Intervals = BTreeMap<String, [f64; 2]>;

/// Draws are of the runs' first-order expansion, whose best values may lie beside those of the runs: an interval reaches
/// to what it is the interval of.
fn holding(mut intervals: Intervals, parameters: &[Parameter], values: &[f64]) -> Intervals {
    for (parameter, value) in parameters.iter().zip(values) {
        if let Some([low, high]) = intervals.get_mut(parameter.name) {
            (*low, *high) = (low.min(*value), high.max(*value));
        }
    }
    intervals
}

/// Makes intervals reach to the ends of others.
fn widen(intervals: &mut Intervals, others: &Intervals) {
    for (name, [low, high]) in intervals {
        if let Some([lower, higher]) = others.get(name) {
            (*low, *high) = (low.min(*lower), high.max(*higher));
        }
    }
}

fn rounded_all(values: Vec<f64>) -> Vec<f64> {
    values.into_iter().map(rounded).collect()
}

/// Least relative uncertainty of the host's share: one CPU is not another.
const HOST_SIGMA: f64 = 0.2;

/// A run's own card: this device's kernels, or the best that ship.
fn card(run: &Run, known: &Known) -> (Calibration, bool) {
    let id = run.resolved.device.id.as_str();
    let own = id == known.device.id || known.bandwidth_of == Some(id);
    let calibration = if own {
        known.calibration.clone()
    } else {
        for_device(&run.resolved.device, known.engine).calibration
    };
    (calibration, own)
}

/// Runs, and what is sought from them.
struct Trial<'a> {
    base: &'a Host,
    known: &'a Known<'a>,
    parameters: Vec<Parameter>,
    runs: Vec<&'a Run>,
    cards: Vec<(Calibration, bool)>,
    /// The run of each figure.
    rows: Vec<usize>,
    weights: Vec<f64>,
    loads: Loads,
    sought: Sought,
}

/// Terms that only some runs speak about.
#[derive(Clone, Copy, Debug, Default)]
struct Sought {
    /// Launches of steps without a graph.
    launches: bool,
    /// The API server's time for a token.
    streaming: bool,
}

impl<'a> Trial<'a> {
    /// `None` where there is nothing to fit, or nothing to fit to.
    fn of(runs: Vec<&'a Run>, known: &'a Known<'a>, sought: Sought) -> Option<Trial<'a>> {
        let base = known.calibration.host.get(known.engine)?;
        let mut parameters = parameters(&runs, base, known.bandwidth_of.is_some());
        if runs.is_empty() || parameters.is_empty() {
            return None;
        }
        let terms = [
            (sought.launches, launches(base)),
            (sought.streaming, streaming(base)),
        ];
        for (_, term) in terms.into_iter().filter(|(is_sought, _)| *is_sought) {
            // A factor on the bandwidth stays the last of the parameters.
            let place = parameters.len() - usize::from(known.bandwidth_of.is_some());
            parameters.insert(place, term);
        }
        let figures = runs.iter().enumerate();
        let rows: Vec<usize> = figures
            .flat_map(|(index, run)| vec![index; run.measured.len()])
            .collect();
        Some(Trial {
            base,
            known,
            parameters,
            cards: runs.iter().map(|run| card(run, known)).collect(),
            weights: weights(&runs, &rows, known),
            loads: loads(&runs),
            rows,
            runs,
            sought,
        })
    }

    /// The trial of all runs that were given. Launches are sought where slow ones would show in a figure: in steps beyond the largest
    /// captured graph, or of an engine without any; the time for a token where so many are streamed that it shows.
    fn of_all(runs: &'a [Run], known: &'a Known<'a>) -> Option<Trial<'a>> {
        let without = Trial::of(runs.iter().collect(), known, Sought::default())?;
        let as_believed = without.errors_under(without.base, None);
        let figures = || without.runs.iter().flat_map(|run| &run.measured);
        let moves = |term: &str, factor: f64, least: f64, counts: fn(Figure) -> bool| {
            let mut slow = without.base.clone();
            *host_term(&mut slow, term) *= factor;
            let slowly = without.errors_under(&slow, None);
            let moved = as_believed.iter().zip(&slowly).zip(figures());
            let mut counted = moved.filter(|(_, (figure, _))| counts(*figure));
            counted.any(|((believed, slow), _)| (slow - believed).abs() > least)
        };
        let sought = Sought {
            launches: moves("eager_launch_us", SLOW_LAUNCHES, MOVES, |_| true),
            streaming: without.base.per_output_token_us > 0.0
                && moves("per_output_token_us", SLOW_STREAMING, STREAMING_MOVES, |figure| {
                    !matches!(figure, Figure::TtftP50 | Figure::TtftMean)
                }),
        };
        Trial::of(runs.iter().collect(), known, sought)
    }

    fn priors(&self) -> Vec<f64> {
        self.parameters.iter().map(|parameter| parameter.prior).collect()
    }

    fn host(&self, values: &[f64]) -> Host {
        let mut host = self.base.clone();
        for (parameter, value) in self.parameters.iter().zip(values) {
            if parameter.name != BANDWIDTH {
                *host_term(&mut host, parameter.name) = *value;
            }
        }
        host
    }

    /// The factor on the bandwidth of products, where it is sought: the last of the parameters.
    fn bandwidth(&self, values: &[f64]) -> Option<f64> {
        self.known.bandwidth_of.map(|_| values[values.len() - 1])
    }

    /// ln(predicted/measured) of every figure of every run.
    fn errors(&self, values: &[f64]) -> Vec<f64> {
        self.errors_under(&self.host(values), self.bandwidth(values))
    }

    fn errors_under(&self, host: &Host, bandwidth: Option<f64>) -> Vec<f64> {
        let errors: Vec<Vec<f64>> = self
            .runs
            .par_iter()
            .enumerate()
            .map(|(index, run)| {
                if !(self.known.goes_on)() {
                    return vec![0.0; run.measured.len()];
                }
                let predicted = run.predict(&self.card(index, host, bandwidth));
                let pairs = predicted.iter().zip(&run.measured);
                pairs
                    .map(|(predicted, (_, measured))| (predicted / measured).ln())
                    .collect()
            })
            .collect();
        errors.concat()
    }

    /// The card of a run under terms that are tried.
    fn card(&self, run: usize, host: &Host, bandwidth: Option<f64>) -> Calibration {
        let (card, is_own) = &self.cards[run];
        let mut card = card.clone();
        card.host.insert(self.known.engine.to_owned(), host.clone());
        if let Some(factor) = bandwidth.filter(|_| *is_own) {
            scale_bandwidth(&mut card, factor);
        }
        card
    }

    /// What a fit minimises, at values whose errors are known.
    fn cost(&self, loss: Loss, values: &[f64], errors: &[f64]) -> f64 {
        let task = Task {
            parameters: &self.parameters,
            errors: &|_| errors.to_vec(),
            weights: &self.weights,
            shifts: &vec![0.0; values.len()],
            sigma: RUN_SIGMA,
            loss,
        };
        task.cost(values)
    }
}

/// The widest of the terms that are added to a synchronous step, by its draws; without runs of that kind, of the others.
fn sigma(parameters: &[Parameter], draws: &[Vec<f64>]) -> f64 {
    let width = |index: usize| {
        let column: Vec<f64> = draws.iter().map(|draw| draw[index].ln()).collect();
        let at = |p: f64| quantile(&column, p).unwrap_or(0.0);
        (at(0.84) - at(0.16)) / 2.0
    };
    let widest = |names: [&str; 2]| {
        let named = parameters
            .iter()
            .enumerate()
            .filter(|(_, p)| names.contains(&p.name));
        named.map(|(index, _)| width(index)).reduce(f64::max)
    };
    let widest =
        widest(["step_us", "per_seq_us"]).or_else(|| widest(["async_gap_us", "async_gap_per_seq_us"]));
    widest.unwrap_or(HOST_SIGMA).max(HOST_SIGMA)
}

fn evidence(runs: &[&Run], errors: &[f64]) -> Vec<RunEvidence> {
    let figures = runs
        .iter()
        .flat_map(|run| run.measured.iter().map(move |figure| (run, figure)));
    figures
        .zip(errors)
        .map(|((run, (figure, measured)), error)| RunEvidence {
            run: run.label.clone(),
            figure: figure.name().to_owned(),
            measured: *measured,
            predicted: rounded(measured * error.exp()),
            is_left_out: false,
        })
        .collect()
}

/// One factor on what reads weights. Caches are left: runs of small batches say little of them.
pub fn scale_bandwidth(calibration: &mut Calibration, factor: f64) {
    for format in [KernelFormat::Bf16, KernelFormat::Fp8, KernelFormat::Int8] {
        if let Some(gemm) = calibration.gemm.get_mut(&format) {
            match &mut gemm.form {
                GemmForm::OccupancyPnorm(form) => {
                    form.bandwidth_efficiency = rounded(form.bandwidth_efficiency * factor);
                }
                GemmForm::C5(form) => form.w_gbs = rounded(form.w_gbs * factor),
            }
        }
    }
}
