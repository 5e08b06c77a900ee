//! How far from the best host other hosts may lie that the runs of one server still allow: both ends of every direction.
//!
//! Draws show how a fit scatters, but they scatter too little where priors hold it, and miss terms that only show beyond a
//! threshold. So hosts are sought under which the runs are just a little less likely: from the best host along each principal
//! axis of the Gauss-Newton covariance, with all else at its optimum, until the cost has risen by what 90 % allow (a profile
//! likelihood, Venzon and Moolgavkar 1988). The axes are independent to first order, so their effects on a term or a
//! prediction add up as squares, separately up and down.
//! How wrong a single figure is, is learnt from the fit; the general belief about runs counts as a few figures more. Every
//! point is simulated; slopes are those at the best host, corrected by each simulated point (Broyden 1965).
//! Laws: no run refutes a host at an end by more than that; the ends enclose the best host; nothing is drawn.

use nalgebra::{DMatrix, DVector};

use super::descent::newton;
use super::{BANDWIDTH, Intervals, Linear, Loss, RUN_SIGMA, Trial, rounded_all};
use crate::calibrate::component::{AS_WIDE_AS_BEFORE, rounded};
use crate::calibrate::solve::Parameter;
use crate::stats::Z_90;

/// How much wider priors are here than in a fit: few hosts were measured, and about the next one its own runs know best.
const LOOSELY: f64 = 2.0;
/// How many figures the general belief about errors counts for, and the least share of the believed variance that a fit may find:
/// runs of one server share errors of the model, which a fit does not see.
const BELIEVED: f64 = 4.0;
const LEAST: f64 = 0.25;
/// Error, in the logarithm, beyond which a figure says nothing about the errors of the others.
const FAR: f64 = 0.1;
/// How near to the rise that is sought an end lies, on the scale of standard deviations.
const NEAR: f64 = 0.12;
/// Points along one axis to one side at most, and hosts that are tried at each.
const POINTS: usize = 10;
const TRIED: usize = 3;
/// How much further the next point lies as long as the runs allow the last one.
const FURTHER: f64 = 2.5;
/// Fall of what is minimised that is worth a simulation, as a share of the rise that is sought.
const WORTH: f64 = 0.04;
/// The same below the best host from which on it is sought again.
const BETTER: f64 = 0.2;
const AGAIN: usize = 3;

/// The best host, and how far others reach.
pub(super) struct Reach {
    pub(super) values: Vec<f64>,
    pub(super) interval_90: Intervals,
    /// Terms that the runs hardly narrow, to one side or to both.
    pub(super) unidentified: Vec<&'static str>,
    /// Directions in which the runs know more than the priors; usually sums of terms before the terms themselves.
    pub(super) narrowed: usize,
    /// Terms at both ends of each direction, the wider ones first.
    pub(super) directions: Vec<[Vec<f64>; 2]>,
}

/// The same trial with wider priors.
pub(super) fn loosely<'a>(trial: &Trial<'a>) -> Trial<'a> {
    let mut loose = trial.clone();
    loose
        .parameters
        .iter_mut()
        .filter(|parameter| parameter.name != BANDWIDTH)
        .for_each(|parameter| parameter.sd *= LOOSELY);
    loose
}

/// How far the hosts reach that a trial allows; `start` is where its best host is sought from.
pub(super) fn reach(trial: &Trial, start: &[f64]) -> Reach {
    let first = newton(trial, Loss::SoftL1, start);
    let share = share(trial, &first);
    let trial = &weighted(trial, 1.0 / share.min(1.0));
    let mut values = rounded_all(newton(trial, Loss::SoftL1, &first));
    let goal = Z_90 * share.max(1.0).sqrt();
    let mut walk = Walk::new(trial, &values, goal);
    let mut ends = walk.all();
    for _ in 0..AGAIN {
        if walk.least >= walk.centre_cost - BETTER {
            break;
        }
        // A walk came by a better host than the search for the best one: again from there.
        values = rounded_all(newton(trial, Loss::SoftL1, &walk.best));
        walk = Walk::new(trial, &values, goal);
        ends = walk.all();
    }
    let parameters = trial.parameters.iter().enumerate();
    let widths: Vec<[f64; 2]> = parameters
        .clone()
        .map(|(index, parameter)| {
            let here = parameter.scaled(values[index]);
            let away = |end: &Vec<f64>| parameter.scaled(end[index]) - here;
            [-1.0, 1.0].map(|sign| {
                let furthest = |pair: &[Vec<f64>; 2]| {
                    let both = pair.iter().map(|end| sign * away(end));
                    both.fold(0.0, f64::max)
                };
                ends.iter().map(|pair| furthest(pair).powi(2)).sum::<f64>().sqrt()
            })
        })
        .collect();
    let interval = |(index, [down, up]): (usize, &[f64; 2])| {
        let parameter = &trial.parameters[index];
        let here = parameter.scaled(values[index]);
        let low = parameter.natural(here - down).min(values[index]);
        let high = parameter.natural(here + up).max(values[index]);
        (parameter.name.to_owned(), [rounded(low), rounded(high)])
    };
    let is_open = |(index, _): &(usize, &Parameter)| {
        let open = AS_WIDE_AS_BEFORE * Z_90 * trial.parameters[*index].sd;
        widths[*index].iter().any(|side| *side > open)
    };
    Reach {
        interval_90: widths.iter().enumerate().map(interval).collect(),
        unidentified: parameters.filter(is_open).map(|(_, of)| of.name).collect(),
        narrowed: walk.narrowed,
        directions: ends.into_iter().map(|pair| pair.map(rounded_all)).collect(),
        values,
    }
}

/// The variance that a fit leaves a figure, as a share of the believed one and averaged with it. Above 1, the fit keeps its weights, and
/// the ends lie further out.
fn share(trial: &Trial, values: &[f64]) -> f64 {
    let errors = trial.errors(values);
    // Runs that repeat each other count as one.
    let repeats = |run: usize| {
        let load = trial.loads.of[run];
        trial.loads.of.iter().filter(|other| **other == load).count() as f64
    };
    let figures: f64 = trial.rows.iter().map(|run| 1.0 / repeats(*run)).sum();
    let bounded = |error: f64| (error / RUN_SIGMA).powi(2) / (1.0 + (error / FAR).powi(2));
    let pairs = errors.iter().zip(&trial.weights);
    let sum: f64 = pairs.map(|(error, weight)| weight * bounded(*error)).sum();
    let left = figures * sum / trial.weights.iter().sum::<f64>();
    let freedom = (figures - values.len() as f64).max(0.0);
    ((BELIEVED + left) / (BELIEVED + freedom)).max(LEAST)
}

fn weighted<'a>(trial: &Trial<'a>, factor: f64) -> Trial<'a> {
    let mut weighted = trial.clone();
    weighted.weights.iter_mut().for_each(|weight| *weight *= factor);
    weighted
}

/// A walk from the best host along its principal axes. A place is as many standard deviations along each of them.
struct Walk<'t, 'a> {
    trial: &'t Trial<'a>,
    /// The best host, on the scale of the priors.
    centre: DVector<f64>,
    /// One standard deviation along each axis, on that scale.
    axes: DMatrix<f64>,
    /// Residuals at the centre, and how they move along the axes.
    residuals: DVector<f64>,
    slopes: DMatrix<f64>,
    centre_cost: f64,
    /// The root of how much the cost has risen at an end.
    goal: f64,
    /// Axes along which the belief is not most of what is known.
    narrowed: usize,
    least: f64,
    best: Vec<f64>,
}

/// A place, and the root of how much the cost has risen there.
#[derive(Clone)]
struct Point {
    place: DVector<f64>,
    risen: f64,
}

impl<'t, 'a> Walk<'t, 'a> {
    fn new(trial: &'t Trial<'a>, values: &[f64], goal: f64) -> Walk<'t, 'a> {
        let linear = Linear::new(trial, values);
        let count = values.len();
        let figures = linear.errors.len();
        let scaled = trial.parameters.iter().zip(values);
        let centre = DVector::from_iterator(count, scaled.map(|(of, value)| of.scaled(*value)));
        let widths = DMatrix::from_diagonal(&DVector::from_iterator(
            count,
            trial.parameters.iter().map(|of| of.sd),
        ));
        // What is minimised is a sum of squares: weighted errors of figures, then distances from what is believed.
        let own = DMatrix::from_fn(figures + count, count, |row, column| {
            match row.checked_sub(figures) {
                None => {
                    let slope = linear.slopes[column][row];
                    // A figure that does not exist tells nothing.
                    trial.weights[row].sqrt() * if slope.is_finite() { slope } else { 0.0 } / RUN_SIGMA
                }
                Some(term) if term == column => 1.0 / trial.parameters[column].sd,
                Some(_) => 0.0,
            }
        });
        let whitened = &own * &widths;
        let eigen = (whitened.transpose() * &whitened).symmetric_eigen();
        // The belief alone makes every eigenvalue one at least. The widest direction first.
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|one, other| eigen.eigenvalues[*one].total_cmp(&eigen.eigenvalues[*other]));
        let narrow = |value: f64| 1.0 / value.max(1.0).sqrt() < AS_WIDE_AS_BEFORE;
        let columns: Vec<DVector<f64>> = order
            .iter()
            .map(|at| &widths * eigen.eigenvectors.column(*at) / eigen.eigenvalues[*at].max(1.0).sqrt())
            .collect();
        let axes = DMatrix::from_columns(&columns);
        let residuals = trial.residuals(values);
        let centre_cost = residuals.norm_squared();
        Walk {
            slopes: own * &axes,
            trial,
            centre,
            axes,
            residuals,
            centre_cost,
            goal,
            narrowed: order.iter().filter(|at| narrow(eigen.eigenvalues[**at])).count(),
            least: centre_cost,
            best: values.to_vec(),
        }
    }

    /// Both ends of each axis.
    fn all(&mut self) -> Vec<[Vec<f64>; 2]> {
        let axes = 0..self.axes.ncols();
        axes.map(|axis| [-1.0, 1.0].map(|sign| self.end(axis, sign)))
            .collect()
    }

    fn values(&self, place: &DVector<f64>) -> Vec<f64> {
        let scaled = &self.centre + &self.axes * place;
        let pairs = self.trial.parameters.iter().zip(scaled.iter());
        pairs
            .map(|(parameter, scaled)| parameter.natural(*scaled))
            .collect()
    }

    /// The furthest host along an axis that the runs allow.
    fn end(&mut self, axis: usize, sign: f64) -> Vec<f64> {
        let goal = self.goal;
        let mut slopes = self.slopes.clone();
        let mut inside = Point {
            place: DVector::zeros(self.axes.ncols()),
            risen: 0.0,
        };
        let mut outside: Option<Point> = None;
        let along = |point: &Point| sign * point.place[axis];
        let mut next = goal;
        for _ in 0..POINTS {
            // The others go on as they have gone so far.
            let so_far = along(&inside);
            let mut place = match so_far > 0.0 {
                true => &inside.place * (next / so_far),
                false => DVector::zeros(self.axes.ncols()),
            };
            place[axis] = sign * next;
            let point = self.at_best(axis, place, &mut slopes);
            let is_near = (point.risen - goal).abs() <= NEAR;
            let is_inside = point.risen <= goal;
            let is_at_bounds = is_inside && self.values(&point.place) == self.values(&inside.place);
            if is_inside || is_near {
                inside = point;
            } else {
                outside = Some(point);
            }
            if is_near || is_at_bounds {
                break;
            }
            let (from, risen) = (along(&inside), inside.risen);
            next = match &outside {
                None => FURTHER * from,
                Some(outside) => {
                    let to = along(outside);
                    // Far beyond a threshold a chord leads nowhere.
                    let share = match outside.risen > 3.0 * goal {
                        true => 0.5,
                        false => (goal - risen) / (outside.risen - risen),
                    };
                    from + share.clamp(0.1, 0.9) * (to - from)
                }
            };
        }
        self.values(&inside.place)
    }

    /// The best host with the same distance along an axis.
    fn at_best(&mut self, axis: usize, from: DVector<f64>, slopes: &mut DMatrix<f64>) -> Point {
        let (mut place, mut residuals) = (from, DVector::zeros(0));
        let mut known = (DVector::zeros(self.axes.ncols()), self.residuals.clone());
        let mut cost = f64::INFINITY;
        let mut candidate = place.clone();
        for _ in 0..TRIED {
            let found = self.residuals_at(&candidate);
            mend(slopes, &(&candidate - &known.0), &(&found - &known.1));
            known = (candidate.clone(), found.clone());
            let there = found.norm_squared();
            if there < cost {
                (place, residuals, cost) = (candidate.clone(), found, there);
            }
            let Some((step, fall)) = across(axis, slopes, &residuals) else {
                break;
            };
            if fall < WORTH * self.goal * self.goal {
                break;
            }
            candidate = &place + step;
        }
        Point {
            place,
            risen: (cost - self.centre_cost).max(0.0).sqrt(),
        }
    }

    fn residuals_at(&mut self, place: &DVector<f64>) -> DVector<f64> {
        let values = self.values(place);
        let found = self.trial.residuals(&values);
        let cost = found.norm_squared();
        if cost < self.least {
            (self.least, self.best) = (cost, values);
        }
        found
    }
}

/// Broyden's rank-one correction: the slopes as the step that was made has them.
fn mend(slopes: &mut DMatrix<f64>, step: &DVector<f64>, change: &DVector<f64>) {
    let length = step.norm_squared();
    if length > 0.0 && change.iter().all(|x| x.is_finite()) {
        let missed = change - &*slopes * step;
        *slopes += missed * step.transpose() / length;
    }
}

/// Gauss and Newton's step across an axis, and by how much it lowers the cost.
fn across(axis: usize, slopes: &DMatrix<f64>, residuals: &DVector<f64>) -> Option<(DVector<f64>, f64)> {
    let others = slopes.clone().remove_column(axis);
    if others.ncols() == 0 {
        return None;
    }
    let gradient = others.transpose() * residuals;
    let step = (others.transpose() * &others).cholesky()?.solve(&(-&gradient));
    let fall = -gradient.dot(&step);
    Some((step.insert_row(axis, 0.0), fall))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_across_an_axis_leaves_it_and_slopes_learn_from_steps() {
        let slopes = DMatrix::from_row_slice(3, 2, &[1.0, 1.0, 0.0, 2.0, 0.5, 0.0]);
        let residuals = DVector::from_vec(vec![1.0, 1.0, 0.0]);
        let (step, fall) = across(0, &slopes, &residuals).unwrap();
        assert_eq!(step[0], 0.0);
        let after = (&residuals + &slopes * &step).norm_squared();
        assert!((residuals.norm_squared() - after - fall).abs() < 1e-12, "{fall}");
        let mut learnt = slopes.clone();
        let (step, change) = (
            DVector::from_vec(vec![0.0, 2.0]),
            DVector::from_vec(vec![3.0, 4.0, 1.0]),
        );
        mend(&mut learnt, &step, &change);
        assert!((&learnt * &step - change).norm() < 1e-12);
        assert_eq!(learnt.column(0), slopes.column(0));
        assert!(across(0, &DMatrix::from_element(3, 1, 1.0), &residuals).is_none());
    }
}
