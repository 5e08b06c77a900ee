//! The host's terms, by inverting the simulator itself: every trial simulates every run.
//!
//! Host terms belong to an engine and its CPUs rather than to a GPU, so runs on other cards count, too, each with the
//! kernels of its own card. A card without a kernel table may use a cousin's with its bandwidth scaled by one factor.
//! Runs cannot tell apart: a term added to every step and a slightly slower kernel (unless batches differ), the front
//! end's delay and the client's, and the terms of asynchronous scheduling at a single batch size. A run that no host
//! explains is left out of the fit and reported (`consensus`), and so is one without which all others are met much
//! better (`alone`).

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
use reach::Reach;
use terms::{BANDWIDTH, Sought, host_term, parameters};
use widths::{Intervals, OtherTerms, Widths, terms_of};

use super::component::{Options, bias, percent, rounded};
use super::doubts;
use super::runs::Run;
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
    /// The worst figure of each run that no host explains, by its place in `runs`.
    pub unexplained: Vec<usize>,
    /// All figures of the other runs, by their places in `runs`.
    pub explained: Vec<usize>,
    /// Those other runs, by their places among the runs given.
    pub met: Vec<usize>,
    /// Terms that lie at an end of what is possible.
    pub at_ends: Vec<&'static str>,
    /// Some runs were too far off to take part in the fit.
    pub is_of_fewer: bool,
    /// The load without which the fit improves by more than chance explains.
    pub stands_alone: Option<StandsAlone>,
    /// Share of the card's bandwidth at which products would read weights under the fitted factor, if that is impossibly high.
    pub over_bandwidth: Option<f64>,
    /// A card of another bandwidth that explains the runs instead of this host, or would be less of a surprise.
    pub slower_card: Option<SlowerCard>,
    /// How well a fit without it predicts each family of runs; empty for fewer than two families.
    pub families: Vec<FamilyEvidence>,
    /// The run that would tell most, in words.
    pub next: Option<String>,
    /// Runs that were given.
    pub given: usize,
    /// The fit moved no term from its prior, and yet the runs are not met.
    pub is_unmoved: bool,
    /// The field that the figures of all files come from, if it is in seconds.
    pub in_seconds: Option<&'static str>,
    /// Runs whose lengths were assumed equal; intervals reach to the fit with scattered lengths.
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
    /// Asked before each simulation; once it says no, the rest is skipped and the fit is worthless.
    pub goes_on: &'a (dyn Fn() -> bool + Sync),
}

/// Expected error of a figure: runs repeat within 2 to 3 %.
const RUN_SIGMA: f64 = 0.03;

/// Fits the terms that the runs speak about; `None` without runs, or where the engine has no terms to start from.
#[must_use]
pub fn fit(runs: &[Run], known: &Known, options: &Options) -> Option<HostFit> {
    let all = Trial::of_all(runs, known)?;
    let basis = Basis::of(&all);
    let firmly = basis.fitted(&all);
    let best = Best::of(firmly.0, firmly.1);
    let (trial, values) = (&best.trial, best.values.as_slice());
    let linear = Linear::new(trial, values);
    let scattered = scattered::as_scattered(trial, values, options);
    let alone = basis
        .beside
        .as_ref()
        .map(|others| alone::beside(trial, others, options));
    let others: Vec<&OtherTerms> = scattered.iter().map(|other| &other.terms).chain(&alone).collect();
    let card = slower_card::slower_card(firmly, (trial, values));
    let mut widths = Widths::of(&best, &linear, &others, card.as_ref(), options);
    let is_unmoved = values == rounded_all(trial.priors()) && !is_as_measured(&linear.errors);
    if is_unmoved {
        widths.unidentified = trial.parameters.iter().map(|parameter| parameter.name).collect();
        widths.narrowed = 0;
    }
    let (host, bandwidth) = (trial.host(values), trial.bandwidth(values));
    let errors = all.errors_under(&host, bandwidth);
    let judged = Judged::of(&all, &basis, &errors);
    let held_out = hold_out::hold_out(trial, &linear, options);
    let unseen = |p: f64| held_out.as_ref().map(|errors| percent(errors, p));
    let kept = basis.fewer.as_ref().map(|fewer| &fewer.trial);
    Some(HostFit {
        bandwidth,
        evidence: BlockEvidence {
            rows: all.rows.len() as u64,
            shapes: all.loads.count as u64,
            kept_rows: kept.map(|kept| kept.rows.len() as u64),
            kept_shapes: kept.map(|kept| kept.loads.count as u64),
            residual_median_pct: percent(&errors, 0.5),
            residual_p95_pct: percent(&errors, 0.95),
            bias_pct: bias(&errors),
            hold_out_median_pct: unseen(0.5),
            hold_out_p95_pct: unseen(0.95),
            sigma_ln: widths.sigma_ln,
            interval_90: widths.interval_90,
            directions: widths.directions,
        },
        unidentified: widths.unidentified,
        parameters: trial.parameters.len(),
        narrowed: widths.narrowed,
        families: families(trial, &linear),
        next: next_run::next_run(trial, &linear),
        runs: judged.figures,
        unexplained: judged.unexplained,
        explained: judged.explained,
        met: judged.met,
        at_ends: belief::at_ends(&trial.parameters, values),
        is_of_fewer: basis.fewer.is_some(),
        stands_alone: basis.stands_alone,
        over_bandwidth: bandwidth.and_then(|factor| slower_card::over_bandwidth(known, factor)),
        slower_card: card.map(|card| card.told),
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
    /// The fit to all of them.
    first: Vec<f64>,
    /// The fit to some of the runs, where the others were left out.
    fewer: Option<Fewer<'a>>,
    /// The fit without a load that stands alone and yet may be right.
    beside: Option<Fewer<'a>>,
    /// That load, or the one that was left out.
    stands_alone: Option<StandsAlone>,
}

impl<'a> Basis<'a> {
    /// Runs that are far off are left out first; a load stands alone only among runs that are all met.
    fn of(all: &Trial<'a>) -> Basis<'a> {
        let first = rounded_all(invert(all, Loss::SoftL1, &all.priors()));
        let mut basis = Basis {
            fewer: consensus::without_far_ones(all, &first),
            beside: None,
            stands_alone: None,
            first,
        };
        if basis.fewer.is_some() {
            return basis;
        }
        if let Some(Alone { others, told }) = alone::alone(all, &basis.first) {
            let place = match told.is_left_out {
                true => &mut basis.fewer,
                false => &mut basis.beside,
            };
            *place = Some(others);
            basis.stands_alone = Some(told);
        }
        basis
    }

    /// The fit to these runs, and the trial that it is of; `all` is that of all runs.
    fn fitted<'f>(&'f self, all: &'f Trial<'a>) -> (&'f Trial<'a>, &'f [f64]) {
        match &self.fewer {
            Some(fewer) => (&fewer.trial, &fewer.values),
            None => (all, &self.first),
        }
    }

    /// Whether a run took no part in the fit.
    fn leaves_out(&self, run: usize) -> bool {
        self.fewer
            .as_ref()
            .is_some_and(|fewer| !fewer.kept.contains(&run))
    }
}

/// The host that is quoted, and the trial that it is the best of.
struct Best<'a> {
    trial: Trial<'a>,
    values: Vec<f64>,
    /// How far other hosts reach that the runs allow, where they are of one's own server.
    reach: Option<Reach>,
}

impl<'a> Best<'a> {
    /// Of one's own server the belief is held less firmly than `trial` does, and the host that is best then is quoted.
    fn of(trial: &Trial<'a>, values: &[f64]) -> Best<'a> {
        if !trial.known.is_of_server {
            return Best {
                trial: trial.clone(),
                values: values.to_vec(),
                reach: None,
            };
        }
        let loose = reach::loosely(trial);
        let reach = reach::reach(&loose, values);
        Best {
            trial: loose,
            values: reach.values.clone(),
            reach: Some(reach),
        }
    }
}

/// Every figure beside what the host that was found makes of it.
struct Judged {
    figures: Vec<RunEvidence>,
    /// The worst figure of each run that is not met.
    unexplained: Vec<usize>,
    /// All figures of the others.
    explained: Vec<usize>,
    /// Those others.
    met: Vec<usize>,
}

impl Judged {
    fn of(all: &Trial, basis: &Basis, errors: &[f64]) -> Judged {
        let mut figures = evidence(&all.runs, errors);
        for (figure, run) in figures.iter_mut().zip(&all.rows) {
            figure.is_left_out = basis.leaves_out(*run);
        }
        let is_alone = |run: usize| basis.stands_alone.is_some() && basis.leaves_out(run);
        let (explained, unexplained) = doubts::explained(&all.rows, &figures, &is_alone);
        Judged {
            met: all.runs_of(&explained),
            figures,
            unexplained,
            explained,
        }
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

impl<'a> Trial<'a> {
    /// `None` where there is nothing to fit to, or no terms to start from.
    fn of(runs: Vec<&'a Run>, known: &'a Known<'a>, sought: Sought) -> Option<Trial<'a>> {
        let base = known.calibration.host.get(known.engine)?;
        if runs.is_empty() {
            return None;
        }
        let figures = runs.iter().enumerate();
        let rows: Vec<usize> = figures
            .flat_map(|(index, run)| vec![index; run.measured.len()])
            .collect();
        Some(Trial {
            base,
            known,
            parameters: parameters(&runs, base, sought, known.bandwidth_of.is_some()),
            cards: runs.iter().map(|run| card(run, known)).collect(),
            weights: weights(&runs, &rows, known),
            loads: loads(&runs),
            rows,
            runs,
            sought,
        })
    }

    /// The trial of all runs that were given, and of all terms that they speak about.
    fn of_all(runs: &'a [Run], known: &'a Known<'a>) -> Option<Trial<'a>> {
        let without = Trial::of(runs.iter().collect(), known, Sought::default())?;
        Trial::of(runs.iter().collect(), known, Sought::of(&without))
    }

    /// The runs of some figures, each once.
    fn runs_of(&self, figures: &[usize]) -> Vec<usize> {
        let mut runs: Vec<usize> = figures.iter().map(|figure| self.rows[*figure]).collect();
        runs.dedup();
        runs
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

    /// A fit to the runs; `centred` is a zero for each parameter.
    fn task<'t>(
        &'t self,
        loss: Loss,
        errors: &'t dyn Fn(&[f64]) -> Vec<f64>,
        centred: &'t [f64],
    ) -> Task<'t> {
        Task {
            parameters: &self.parameters,
            errors,
            weights: &self.weights,
            shifts: centred,
            sigma: RUN_SIGMA,
            loss,
        }
    }

    /// What a fit minimises, at values whose errors are known.
    fn cost(&self, loss: Loss, values: &[f64], errors: &[f64]) -> f64 {
        let centred = vec![0.0; values.len()];
        self.task(loss, &|_| errors.to_vec(), &centred).cost(values)
    }

    /// The squares of these are what a fit minimises the sum of.
    fn residuals(&self, values: &[f64]) -> DVector<f64> {
        let centred = vec![0.0; values.len()];
        self.task(Loss::SoftL1, &|values| self.errors(values), &centred)
            .residuals(values)
    }

    /// The part of the cost that the runs are missed by, whatever was believed.
    fn misses(&self, errors: &[f64]) -> f64 {
        let errors = |_: &[f64]| errors.to_vec();
        let task = Task {
            parameters: &[],
            ..self.task(Loss::SoftL1, &errors, &[])
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
