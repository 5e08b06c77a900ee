//! How much steps scatter, from the gaps between tokens that were measured.
//!
//! Runs are simulated under the fitted calibration with the law of [`crate::cost::jitter`] until the upper percentiles of
//! their gaps, each over the median gap, come out as measured. A ratio does not depend on the level, which the host's terms
//! decide, and the simulation has all other causes of long gaps, such as another prompt in the step. Rare stalls are sought
//! only in runs of which every gap is known, and no longer than the longest gap: one percentile cannot tell their rate from
//! their length. They are kept only if they improve the fit by more than chance explains. How far off a percentile is, is
//! judged by several seeds (`likelihood`). Runs that the fitted host does not explain say nothing here.
//! Left out: time per token of whole requests, in which the scatter of single steps averages out.
//!
//! The search is a grid and a walk with shrinking strides, since percentiles of a simulation are too grainy for slopes. Every
//! trial uses the same seeds, so that trials differ by the law alone. Law: `cv = 0` without stalls is the model without
//! scatter, to the last digit.

mod likelihood;

use std::collections::BTreeMap;
use std::sync::Mutex;

use likelihood::Beside;
use rayon::prelude::*;

use super::component::{bias, percent, rounded};
use super::runs::Run;
use crate::cost::calibration::{BlockEvidence, Calibration};
use crate::cost::jitter::JitterLaw;
use crate::stats::Z_90;
use crate::units::Picos;

/// A law and how well it is known.
pub struct JitterFit {
    /// The law.
    pub law: JitterLaw,
    /// Its intervals, and how far percentiles of gaps are off under it.
    pub evidence: BlockEvidence,
    /// Parameters that the gaps do not decide.
    pub unidentified: Vec<&'static str>,
    /// What to know beside it.
    pub remark: Option<String>,
}

/// Upper percentiles of a run's gaps between tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tails {
    /// Percent, and the gap at it over the median gap.
    pub over_median: Vec<(f64, f64)>,
    /// Gaps that the percentiles are of.
    pub gaps: u64,
    /// The longest gap, ms, where every gap of the run is behind them.
    pub longest_ms: Option<f64>,
}

impl Tails {
    /// Whether every gap of the run is behind them.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.longest_ms.is_some()
    }
}

/// What a percentile over the median is off by without chance: as a tool prints it, and of all gaps by one definition.
const TAIL_SIGMA: f64 = 0.05;
const WHOLE_SIGMA: f64 = 0.02;
/// What a run's ratios tell at most, however many there are.
const CAUSES: f64 = 4.0;
/// What scatter is expected, and its width in the logarithm: kernels repeat within 1 %, a shared host within 10 %.
const CV_PRIOR: f64 = 0.03;
const CV_SD_LN: f64 = 1.0;
/// Below this, scatter drowns in what a client's clock adds.
const CV_LEAST: f64 = 0.002;
/// The widest that `--step-jitter` takes.
const CV_MOST: f64 = 2.0;
/// What the search for stalls must gain by their two parameters, on the scale of a likelihood.
const STALLS_COST: f64 = 4.0;
/// What they must gain to be believed: chi squared of two parameters exceeds it once in a thousand.
const STALLS_EVIDENCE: f64 = 13.8;
/// Share of the misses that they may leave.
const STALLS_LEAVE: f64 = 0.3;
/// Seeds that tell what chance makes of a percentile: fewer where there are so many gaps that it makes little, and they cost much.
const SEEDS: std::ops::RangeInclusive<u64> = 3..=8;
const GAPS_BY_SEEDS: u64 = 400_000;
/// Where the walk for stalls begins, a second and ms.
const STALL_RATES: [f64; 4] = [0.05, 0.3, 1.5, 8.0];
const STALL_MS: [f64; 4] = [10.0, 30.0, 100.0, 300.0];
/// How long a stall is at least and at most, as `--step-jitter` takes it.
const STALL_MS_LEAST: f64 = 1.0;
const STALL_MS_MOST: f64 = 1e4;
/// Share of the time that stalls take at most, as a calibration file may say.
const STALLED_MOST: f64 = 0.5;
/// Rise of the cost at the ends of a 90 % interval.
const RISE_90: f64 = 2.71;
/// Stride of the walk at its start and at its end, in the logarithm.
const STRIDES: (f64, f64) = (0.7, 0.04);

/// Fits the law to all runs that have tails; `None` without any, or once `goes_on` says no.
#[must_use]
pub fn fit(
    runs: &[&Run],
    calibration: &Calibration,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> Option<JitterFit> {
    let has_tails = |run: &&&Run| !run.tails.over_median.is_empty();
    let runs: Vec<&Run> = runs.iter().filter(has_tails).copied().collect();
    if runs.is_empty() {
        return None;
    }
    let whole: Vec<&Run> = runs.iter().filter(|run| run.tails.is_whole()).copied().collect();
    let whole_runs = whole.len();
    let search = Search::new(runs, calibration, goes_on);
    let mut best = search.walk(search.first(), &[0]);
    let unsought = unsought(whole_runs, search.longest_ms);
    if unsought.is_none() {
        let of_whole = match whole_runs == search.runs.len() {
            true => None,
            false => Some(Search::new(whole, calibration, goes_on)),
        };
        best = match &of_whole {
            None => search.stalls(best).unwrap_or(best),
            Some(of_whole) => {
                let without = of_whole.walk(of_whole.first(), &[0]);
                let with = of_whole.stalls(without);
                // Their scatter is that of all runs, beside stalls that only some can show.
                with.map_or(best, |with| search.walk(with, &[0]))
            }
        };
    }
    if !goes_on() {
        return None;
    }
    Some(search.found(best, unsought))
}

/// Why stalls were not sought, where they were not, by the runs of which every gap is known and the longest of those gaps.
fn unsought(whole_runs: usize, longest_ms: f64) -> Option<&'static str> {
    match whole_runs {
        0 => Some(NO_STALLS),
        _ if longest_ms <= STALL_MS_LEAST => Some(SHORT_GAPS),
        _ => None,
    }
}

/// `cv`, stalls a second, ms of each; no stalls where the latter are 0.
type Law = [f64; 3];

fn law(values: Law) -> JitterLaw {
    JitterLaw {
        cv: values[0],
        stalls_per_s: values[1],
        stall: Picos::from_seconds(1e-3 * values[2]),
        stalls_in_mean: true,
    }
}

/// Whether gaps are so much likelier with stalls as chance does not make them, and hardly missed any more: where the model is far off
/// either way, a law with more parameters is less so for no reason.
fn is_evident(without: Beside, with: Beside) -> bool {
    without.cost - with.cost > STALLS_EVIDENCE && with.misses < STALLS_LEAVE * without.misses
}

/// Whether stalls could be: no cost is below zero, so these gain no more than there is.
fn can_be_evident(without: Beside) -> bool {
    without.cost > STALLS_EVIDENCE
}

struct Search<'a> {
    runs: Vec<&'a Run>,
    /// The longest gap of all runs of which every gap is known: no stall was longer.
    longest_ms: f64,
    calibration: &'a Calibration,
    /// How often each law is simulated.
    seeds: u64,
    goes_on: &'a (dyn Fn() -> bool + Sync),
    /// How likely the ratios are under laws that were tried, by the bits of these: walks come back to where they were.
    tried: Mutex<BTreeMap<[u64; 3], Beside>>,
}

impl<'a> Search<'a> {
    fn new(
        runs: Vec<&'a Run>,
        calibration: &'a Calibration,
        goes_on: &'a (dyn Fn() -> bool + Sync),
    ) -> Search<'a> {
        let longest = runs.iter().filter_map(|run| run.tails.longest_ms);
        let gaps: u64 = runs.iter().map(|run| run.tails.gaps).sum();
        Search {
            longest_ms: longest.fold(0.0, f64::max),
            seeds: (GAPS_BY_SEEDS / gaps.max(1)).clamp(*SEEDS.start(), *SEEDS.end()),
            runs,
            calibration,
            goes_on,
            tried: Mutex::default(),
        }
    }

    /// ln(predicted/measured) of every ratio of a run, of a seed; 0 is the run's own.
    fn errors_of(&self, run: &Run, values: Law, seed: u64) -> Vec<f64> {
        if !(self.goes_on)() {
            return vec![0.0; run.tails.over_median.len()];
        }
        let predicted = run.predict_tails(self.calibration, law(values), seed);
        let pairs = predicted.iter().zip(&run.tails.over_median);
        pairs
            .map(|(predicted, (_, measured))| (predicted / measured).ln())
            .collect()
    }

    /// How likely all ratios are.
    fn beside(&self, values: Law) -> Beside {
        let tried = || self.tried.lock().expect("no law is tried while it is held");
        let bits = values.map(f64::to_bits);
        let known = tried().get(&bits).copied();
        known.unwrap_or_else(|| {
            let found = self.simulated(values);
            tried().insert(bits, found);
            found
        })
    }

    fn simulated(&self, values: Law) -> Beside {
        let of_run = |run: &&Run| {
            let floor = match run.tails.is_whole() {
                true => WHOLE_SIGMA,
                false => TAIL_SIGMA,
            };
            let seeds = (0..self.seeds).into_par_iter();
            let by_seed: Vec<Vec<f64>> = seeds.map(|seed| self.errors_of(run, values, seed)).collect();
            let ratios = 0..run.tails.over_median.len();
            let all = ratios.map(|ratio| Beside::new(by_seed.iter().map(|own| own[ratio]), floor));
            all.sum::<Beside>().times(self.share(run))
        };
        let all: Vec<Beside> = self.runs.par_iter().map(of_run).collect();
        all.into_iter().sum()
    }

    /// What is minimised: how unlikely the ratios are, and the square of the distance from what is expected.
    fn cost(&self, values: Law) -> f64 {
        if 1e-3 * values[1] * values[2] >= STALLED_MOST {
            return f64::INFINITY;
        }
        let stalls = if values[1] > 0.0 { STALLS_COST } else { 0.0 };
        self.beside(values).cost + stalls + ((values[0].max(CV_LEAST) / CV_PRIOR).ln() / CV_SD_LN).powi(2)
    }

    /// How much each ratio of a run tells: ratios of one run share their causes, and so do runs of one load.
    fn share(&self, run: &Run) -> f64 {
        let repeats = self
            .runs
            .iter()
            .filter(|other| other.load == run.load && other.family == run.family);
        (CAUSES / run.tails.over_median.len() as f64).min(1.0) / repeats.count() as f64
    }

    /// The best scatter without stalls on a coarse grid.
    fn first(&self) -> Law {
        let grid = [CV_LEAST, 0.01, CV_PRIOR, 0.08, 0.2, 0.5];
        self.best(grid.into_iter().map(|cv| [cv, 0.0, 0.0]))
    }

    /// The best stalls beside a known scatter on a coarse grid.
    fn first_stalls(&self, known: Law) -> Law {
        let pairs = STALL_RATES
            .into_iter()
            .flat_map(|rate| STALL_MS.map(|ms| (rate, ms.min(self.longest_ms))));
        // Stalls may have passed for scatter.
        let scatters = [known[0], (known[0] / 3.0).max(CV_LEAST)];
        self.best(pairs.flat_map(|(rate, ms)| scatters.map(|cv| [cv, rate, ms])))
    }

    fn best(&self, candidates: impl Iterator<Item = Law>) -> Law {
        let judged = candidates.map(|values| (self.cost(values), values));
        let least = judged.min_by(|one, other| one.0.total_cmp(&other.0));
        least.expect("a grid has points").1
    }

    /// The best law with stalls, where gaps are evidently likelier with them than by the best law without.
    fn stalls(&self, without: Law) -> Option<Law> {
        if !can_be_evident(self.beside(without)) {
            return None;
        }
        let with = self.walk(self.first_stalls(without), &[0, 1, 2]);
        let is_better = self.cost(with) < self.cost(without);
        (is_better && is_evident(self.beside(without), self.beside(with))).then_some(with)
    }

    /// Goes downhill along one parameter after the other, with ever shorter strides.
    fn walk(&self, from: Law, free: &[usize]) -> Law {
        let (mut best, mut least) = (from, self.cost(from));
        let mut stride = STRIDES.0;
        while stride > STRIDES.1 && (self.goes_on)() {
            let mut moved = false;
            for &parameter in free {
                for factor in [stride.exp(), (-stride).exp()] {
                    let mut values = best;
                    values[parameter] = self.bounded(parameter, values[parameter] * factor);
                    let cost = self.cost(values);
                    if cost < least {
                        (best, least, moved) = (values, cost, true);
                    }
                }
            }
            if !moved {
                stride /= 2.0;
            }
        }
        best
    }

    /// Where the gaps are less likely by [`RISE_90`] to both sides, everything else kept. What is expected beforehand does not
    /// count: it would part steps that do not scatter from the least scatter that is sought.
    fn interval(&self, best: Law, parameter: usize) -> [f64; 2] {
        let least = self.beside(best).cost;
        let end = |factor: f64| {
            let mut values = best;
            loop {
                let next = self.bounded(parameter, values[parameter] * factor);
                if next == values[parameter] {
                    return next;
                }
                values[parameter] = next;
                if self.beside(values).cost > least + RISE_90 {
                    return next;
                }
            }
        };
        [rounded(end(1.0 / INTERVAL_STEP)), rounded(end(INTERVAL_STEP))]
    }

    /// A parameter inside what `--step-jitter` takes, and what was seen.
    fn bounded(&self, parameter: usize, value: f64) -> f64 {
        let longest = self.longest_ms.clamp(STALL_MS_LEAST, STALL_MS_MOST);
        let (least, most) = [(CV_LEAST, CV_MOST), (1e-3, 100.0), (STALL_MS_LEAST, longest)][parameter];
        value.clamp(least, most)
    }

    fn found(&self, best: Law, remark: Option<&str>) -> JitterFit {
        let best = best.map(rounded);
        let errors: Vec<f64> = self
            .runs
            .iter()
            .flat_map(|run| self.errors_of(run, best, 0))
            .collect();
        let has_stalls = best[1] > 0.0;
        let sought = if has_stalls {
            &PARAMETERS[..]
        } else {
            &PARAMETERS[..1]
        };
        let intervals = sought
            .iter()
            .enumerate()
            .map(|(index, name)| ((*name).to_owned(), self.interval(best, index)));
        let interval_90: BTreeMap<String, [f64; 2]> = intervals.collect();
        let [low, high] = interval_90[PARAMETERS[0]];
        let is_prior = (high / low).ln() >= 2.0 * Z_90 * CV_SD_LN;
        JitterFit {
            law: law(best),
            unidentified: if is_prior { vec![PARAMETERS[0]] } else { Vec::new() },
            evidence: BlockEvidence {
                rows: errors.len() as u64,
                shapes: self.runs.len() as u64,
                residual_median_pct: percent(&errors, 0.5),
                residual_p95_pct: percent(&errors, 0.95),
                bias_pct: bias(&errors),
                interval_90,
                ..BlockEvidence::default()
            },
            remark: remark.map(str::to_owned),
        }
    }
}

/// As files spell them.
const PARAMETERS: [&str; 3] = ["cv", "stalls_per_s", "stall_ms"];
const INTERVAL_STEP: f64 = 1.12;
const NO_STALLS: &str = "stalls of steps were not sought: their rate and length show only where a result holds every gap \
                         (vllm bench serve --save-detailed)";
const SHORT_GAPS: &str = "stalls of steps were not sought: no gap of the results that hold every one is longer than the shortest stall, 1 ms";

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two laws that are both far off the better one may be so by chance; of one that is met it is not.
    #[test]
    fn stalls_need_more_than_a_better_fit() {
        let all = |misses: f64, cost: f64| Beside { misses, cost };
        assert!(
            !is_evident(all(15.0, 15.0), all(4.0, 4.0)),
            "less than chance gives"
        );
        assert!(
            !is_evident(all(400.0, 90.0), all(200.0, 60.0)),
            "the model is off by more either way"
        );
        assert!(is_evident(all(160.0, 70.0), all(10.0, 10.0)));
        // Stalls are not sought where even those that explain all would gain too little.
        let (near, far) = (all(10.0, STALLS_EVIDENCE), all(10.0, STALLS_EVIDENCE + 0.1));
        assert!(!can_be_evident(near) && !is_evident(near, Beside::default()));
        assert!(can_be_evident(far) && is_evident(far, Beside::default()));
    }

    #[test]
    fn stalls_that_were_not_sought_are_said_not_to_be() {
        assert_eq!(unsought(0, 0.0), Some(NO_STALLS));
        assert_eq!(unsought(2, STALL_MS_LEAST), Some(SHORT_GAPS));
        assert_eq!(unsought(2, 1.5), None);
    }
}
