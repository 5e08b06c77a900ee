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
mod reach;
mod scattered;
mod slower_card;
mod terms;
mod widths;

pub(super) use front_end::next_front_end;

pub use alone::{Moved, StandsAlone};
pub use slower_card::SlowerCard;
pub use terms::{scale_bandwidth, under_terms};

use alone::Alone;
use consensus::Fewer;
use descent::{invert, is_as_measured};
use families::families;
use linear::{Linear, NUDGE};
use loads::{Loads, OWN_WEIGHT, loads, weights};
use nalgebra::DVector;
use rayon::prelude::*;
use terms::{
    BANDWIDTH, MOVES, SLOW_LAUNCHES, SLOW_STREAMING, STREAMING_MOVES, host_term, launches, parameters,
    streaming,
};
use widths::{Intervals, OtherTerms, Widths, pair, terms_of, widen};

use super::component::{Options, bias, percent, rounded};
use super::doubts;
use super::runs::{Figure, Run};
use super::solve::{Loss, Parameter, Task};
use crate::cost::calibration::{BlockEvidence, Calibration, FamilyEvidence, Host, RunEvidence, for_device};
use crate::hardware::Device;

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
    /// As many of them as the runs decide, apart or together.
    pub narrowed: usize,
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
    /// The card that explains the runs instead of this host, or would with less of a surprise.
    pub slower_card: Option<SlowerCard>,
    /// Each family of runs as a fit without it has it; none where there are fewer than two.
    pub families: Vec<FamilyEvidence>,
    /// The run that would tell most, in words.
    pub next: Option<String>,
    /// Runs that were given.
    pub given: usize,
    /// No term could be moved from what was believed, and that is not as measured.
    pub is_unmoved: bool,
    /// The field of all files in which the figures stand in seconds, if they do.
    pub in_seconds: Option<&'static str>,
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
    /// The terms are for the server that was measured, and not for everybody's.
    pub is_of_server: bool,
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
    let firmly = (trial, values.as_slice());
    let loose = known.is_of_server.then(|| reach::loosely(trial));
    let reached = loose.as_ref().map(|loose| reach::reach(loose, values));
    let (trial, values) = match (&loose, &reached) {
        (Some(loose), Some(reached)) => (loose, reached.values.as_slice()),
        _ => firmly,
    };
    let linear = Linear::new(trial, values);
    let scattered = scattered::as_scattered(trial, values, options);
    let alone = beside.map(|others| alone::beside(trial, &others, options));
    let others: Vec<&OtherTerms> = scattered.iter().map(|other| &other.terms).chain(&alone).collect();
    let slower_card = slower_card::slower_card(firmly, (trial, values));
    let mut widths = match &reached {
        Some(reached) => Widths::reached(trial, reached),
        None => Widths::drawn(trial, &linear, &others, options),
    };
    for other in &others {
        widen(&mut widths.interval_90, &other.interval_90);
    }
    if reached.is_some() {
        let ends = others.iter().map(|other| terms_of(trial, values, &other.values));
        let of_card = slower_card.iter().map(|card| card.terms.clone());
        let here = terms_of(trial, values, values);
        let further = ends.chain(of_card).map(|other| pair(other, here.clone()));
        widths.directions.extend(further);
    }
    let is_unmoved = values == rounded_all(trial.priors()) && !is_as_measured(&linear.errors);
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
            sigma_ln: widths.sigma_ln,
            interval_90: widths.interval_90,
            directions: widths.directions,
        },
        unidentified: match is_unmoved {
            true => parameters.iter().map(|parameter| parameter.name).collect(),
            false => widths.unidentified,
        },
        parameters: parameters.len(),
        narrowed: if is_unmoved { 0 } else { widths.narrowed },
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
        slower_card: slower_card.map(|card| card.told),
        in_seconds: runs[0]
            .in_seconds
            .filter(|_| runs.iter().all(|run| run.in_seconds.is_some())),
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

fn rounded_all(values: Vec<f64>) -> Vec<f64> {
    values.into_iter().map(rounded).collect()
}

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
#[derive(Clone)]
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

    /// The part of it that the runs are missed by, whatever was believed.
    fn misses(&self, errors: &[f64]) -> f64 {
        let task = Task {
            parameters: &[],
            errors: &|_| errors.to_vec(),
            weights: &self.weights,
            shifts: &[],
            sigma: RUN_SIGMA,
            loss: Loss::SoftL1,
        };
        task.cost(&[])
    }

    /// Weighted mean square of errors, over that by which runs repeat.
    fn scatter(&self, errors: &[f64]) -> f64 {
        let squares = errors.iter().zip(&self.weights);
        let squares: f64 = squares
            .map(|(error, weight)| weight * (error / RUN_SIGMA).powi(2))
            .sum();
        squares / self.weights.iter().sum::<f64>()
    }

    /// What the squares are of that a fit minimises the sum of.
    fn residuals(&self, values: &[f64]) -> DVector<f64> {
        let task = Task {
            parameters: &self.parameters,
            errors: &|values| self.errors(values),
            weights: &self.weights,
            shifts: &vec![0.0; values.len()],
            sigma: RUN_SIGMA,
            loss: Loss::SoftL1,
        };
        task.residuals(values)
    }
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
