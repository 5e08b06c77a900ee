//! What makes a fit of the host doubtful: runs that no host explains.
//!
//! The host's terms are the only ones that runs move. If the GPU, the model or a flag is another than was said, they run
//! to the end of what is possible and the runs are still not met; such a fit must not look like a measured one. A run that is
//! far off beside runs that are met is left out of the fit, and the fit is doubted all the same.

use super::host::HostFit;
use crate::cost::calibration::RunEvidence;
use crate::quantity::significant;
use crate::stats::quantile;

/// Factor between a run and its fit, either way, above which it is not of the server that was described.
const MISFIT: f64 = 1.25;
/// Width of an interval, relative to its middle, below which a parameter stands at the end of what is possible.
const STUCK: f64 = 1e-3;

/// Doubts about a fit, in words, the gravest first.
#[must_use]
pub fn doubts(host: &HostFit) -> Vec<String> {
    let mut doubts = Vec::new();
    let factors: Vec<f64> = host.runs.iter().map(factor).collect();
    let median = quantile(&factors, 0.5).unwrap_or(1.0);
    let is_minority = 2 * (host.met.len() as u64) < host.evidence.shapes;
    if median > MISFIT && is_minority {
        doubts.push(format!(
            "no host explains these runs: they are a factor of {} off in the median after the fit; is it this GPU, this \
             model, these flags, this engine? the terms are marked prior",
            significant(median)
        ));
    } else if let Some(&worst) = furthest(&host.unexplained, &host.runs) {
        let RunEvidence {
            run,
            figure,
            measured,
            predicted,
            ..
        } = &host.runs[worst];
        let (count, are) = match host.unexplained.len() {
            1 => ("1".to_owned(), "is"),
            more => (more.to_string(), "are"),
        };
        let and = match host.is_of_fewer {
            true => " and left out of it",
            false => "",
        };
        doubts.push(format!(
            "{count} of {} runs {are} off by more than a factor of {MISFIT} after the fit{and}: {run} measured {figure} {}, and the fit \
             has {}; is it this GPU, this model, these flags, this engine, and is the file whole? the terms are marked prior",
            host.evidence.shapes,
            significant(*measured),
            significant(*predicted)
        ));
    }
    for name in stuck(host) {
        doubts.push(format!(
            "{name} stands at the end of what is possible: something else than the host makes these runs slow or fast"
        ));
    }
    doubts
}

/// Whether something in the runs is not the host's doing.
#[must_use]
pub fn is_doubtful(host: &HostFit) -> bool {
    !doubts(host).is_empty()
}

/// Which figures belong to runs that are met, and the worst figure of each run that is not; `runs_of` tells the run of each.
pub(super) fn explained(runs_of: &[usize], figures: &[RunEvidence]) -> (Vec<usize>, Vec<usize>) {
    let (mut met, mut not_met) = (Vec::new(), Vec::new());
    let mut all = 0..figures.len();
    while let Some(first) = all.next() {
        let mut own = vec![first];
        own.extend(
            all.clone()
                .take_while(|&figure| runs_of[figure] == runs_of[first]),
        );
        own[1..].iter().for_each(|_| _ = all.next());
        match furthest(&own, figures) {
            Some(&worst) if is_off(&figures[worst]) => not_met.push(worst),
            _ => met.extend(own),
        }
    }
    (met, not_met)
}

/// A figure that is no number is met by nothing.
fn is_off(figure: &RunEvidence) -> bool {
    factor(figure) > MISFIT || factor(figure).is_nan()
}

/// By how much a figure is too high or too low: 1.25 for a fourth more as for a fifth less.
fn factor(figure: &RunEvidence) -> f64 {
    (figure.predicted / figure.measured).ln().abs().exp()
}

/// The figure that is off by the largest factor, either way.
fn furthest<'a>(among: &'a [usize], figures: &[RunEvidence]) -> Option<&'a usize> {
    let factor = |index: &&usize| factor(&figures[**index]);
    among.iter().max_by(|a, b| factor(a).total_cmp(&factor(b)))
}

/// Parameters that every draw puts at one place.
fn stuck(host: &HostFit) -> Vec<&String> {
    let intervals = host.evidence.interval_90.iter();
    intervals
        .filter(|(_, [low, high])| high - low <= STUCK * (high + low) / 2.0)
        .map(|(name, _)| name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_figure_that_is_off_makes_its_run_unexplained() {
        let figure = |measured: f64, predicted: f64| RunEvidence {
            run: String::new(),
            figure: String::new(),
            measured,
            predicted,
            is_left_out: false,
        };
        let figures = [
            figure(6.5, 6.4),
            figure(15.0, 14.0),
            figure(0.5, 10.1),
            figure(71.8, 73.3),
            figure(10.0, 7.4),
            figure(10.0, 12.6),
            figure(8.0, 9.0),
        ];
        let runs_of = [0, 0, 1, 1, 2, 2, 3];
        assert_eq!(explained(&runs_of, &figures), (vec![0, 1, 6], vec![2, 4]));
        assert_eq!(furthest(&[2, 4], &figures), Some(&2));
        // A fourth more is as far as a fifth less, and the further figure is the one that is judged.
        let figures = [figure(100.0, 126.0), figure(100.0, 78.0)];
        assert_eq!(explained(&[0, 0], &figures), (vec![], vec![1]));
        let figures = [figure(100.0, 124.0), figure(100.0, 81.0)];
        assert_eq!(explained(&[0, 0], &figures), (vec![0, 1], vec![]));
    }
}
