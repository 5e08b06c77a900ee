//! Robust, bounded least squares with priors: the one solver of every fit.
//!
//! Minimises `Σ w·ρ(ln(model/measured)/σ) + Σ ((x − prior)/sd)²` by Levenberg-Marquardt with a numeric Jacobian from several
//! starts; by [`Loss`] `ρ(r) = 2s²(√(1 + (r/s)²) − 1)`, soft-L1, or `ρ(r) = r²/(1 + (r/s)²)`, Geman-McClure. Parameters move freely on a line that a logistic
//! curve bends into their bounds. Deterministic: starts come from a seeded stream, and ties go to the first.

use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::storage::Owned;
use nalgebra::{DMatrix, DVector, Dyn};
use rand::RngExt;
use rand::rngs::ChaCha8Rng;

/// How a parameter is searched, where it may lie, and what is believed of it before any measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its key in a calibration file.
    pub name: &'static str,
    /// Searched by its logarithm: a factor rather than a difference.
    pub is_log: bool,
    /// Smallest value.
    pub low: f64,
    /// Largest value.
    pub high: f64,
    /// Expected value.
    pub prior: f64,
    /// Standard deviation of what is believed, of the logarithm where that is searched.
    pub sd: f64,
}

impl Parameter {
    /// A positive parameter, believed within a factor.
    #[must_use]
    pub fn factor(name: &'static str, (low, high): (f64, f64), prior: f64, sd: f64) -> Parameter {
        Parameter {
            name,
            is_log: true,
            low,
            high,
            prior: prior.clamp(low, high),
            sd,
        }
    }

    /// A parameter that may be zero, believed within a difference.
    #[must_use]
    pub fn term(name: &'static str, (low, high): (f64, f64), prior: f64, sd: f64) -> Parameter {
        Parameter {
            is_log: false,
            ..Parameter::factor(name, (low, high), prior, sd)
        }
    }

    /// The value on the scale in which the prior is normal.
    #[must_use]
    pub fn scaled(&self, value: f64) -> f64 {
        if self.is_log { value.ln() } else { value }
    }

    /// How far apart two values are, in standard deviations of what is believed.
    #[must_use]
    pub fn apart(&self, one: f64, other: f64) -> f64 {
        ((self.scaled(one) - self.scaled(other)) / self.sd).abs()
    }

    /// Back from that scale.
    pub(super) fn natural(&self, scaled: f64) -> f64 {
        let value = if self.is_log { scaled.exp() } else { scaled };
        value.clamp(self.low, self.high)
    }

    fn ends(&self) -> (f64, f64) {
        (self.scaled(self.low), self.scaled(self.high))
    }

    /// From the unbounded line to a value.
    fn bend(&self, free: f64) -> f64 {
        let (low, high) = self.ends();
        self.natural(low + (high - low) / (1.0 + (-free).exp()))
    }

    /// From a value to the unbounded line; a value at a bound lies a little inside.
    fn unbend(&self, value: f64) -> f64 {
        let (low, high) = self.ends();
        let share = ((self.scaled(value) - low) / (high - low)).clamp(1e-3, 1.0 - 1e-3);
        (share / (1.0 - share)).ln()
    }
}

/// One fit.
pub struct Task<'a> {
    /// What is sought.
    pub parameters: &'a [Parameter],
    /// ln(model/measured) of every row at given values.
    pub errors: &'a dyn Fn(&[f64]) -> Vec<f64>,
    /// How often each row counts.
    pub weights: &'a [f64],
    /// Where each prior is centred, in standard deviations from its own centre.
    pub shifts: &'a [f64],
    /// Expected error of one row, of the logarithm.
    pub sigma: f64,
    /// What a far row costs.
    pub loss: Loss,
}

/// What a row costs that is far off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It pulls with a constant force. One minimum near any other, so where a fit begins hardly matters.
    SoftL1,
    /// It pulls ever less (Geman and McClure 1985): `ρ(r) = r²/(1 + (r/s)²)`. Many minima.
    Redescending,
}

/// Error of the logarithm beyond which a row pulls with a constant force, or ever less.
const SOFT: f64 = 0.1;

impl Task<'_> {
    /// What is minimised is the sum of their squares: of every row, then of every prior.
    pub(super) fn residuals(&self, values: &[f64]) -> DVector<f64> {
        let soft = SOFT / self.sigma;
        let robust = |error: f64| {
            let r = error / self.sigma;
            let root = (1.0 + (r / soft).powi(2)).sqrt();
            match self.loss {
                Loss::SoftL1 => (2.0 * soft * soft * (root - 1.0)).max(0.0).sqrt().copysign(r),
                Loss::Redescending => r / root,
            }
        };
        let rows = (self.errors)(values);
        let rows = rows.iter().zip(self.weights);
        let data = rows.map(|(error, weight)| weight.sqrt() * robust(*error));
        let priors = self.parameters.iter().zip(values).zip(self.shifts);
        let priors = priors.map(|((parameter, value), shift)| {
            (parameter.scaled(*value) - parameter.scaled(parameter.prior)) / parameter.sd - shift
        });
        DVector::from_iterator(self.weights.len() + self.parameters.len(), data.chain(priors))
    }

    /// What is minimised.
    #[must_use]
    pub fn cost(&self, values: &[f64]) -> f64 {
        self.residuals(values).norm_squared()
    }

    /// The best values that are found from these starts.
    #[must_use]
    pub fn solve(&self, starts: &[Vec<f64>]) -> Vec<f64> {
        let mut best: Option<(f64, Vec<f64>)> = None;
        for start in starts {
            let free = self.parameters.iter().zip(start);
            let problem = Free {
                task: self,
                free: DVector::from_iterator(start.len(), free.map(|(p, value)| p.unbend(*value))),
            };
            let (solved, _) = LevenbergMarquardt::new()
                .with_patience(PATIENCE)
                .minimize(problem);
            let values = solved.values();
            let cost = self.cost(&values);
            if best
                .as_ref()
                .is_none_or(|(least, _)| cost < *least * (1.0 - 1e-9))
            {
                best = Some((cost, values));
            }
        }
        best.expect("there is at least one start").1
    }
}

/// Evaluations allowed for each parameter.
const PATIENCE: usize = 60;

/// The prior's centres, then points drawn around them.
#[must_use]
pub fn starts(parameters: &[Parameter], count: usize, stream: &mut ChaCha8Rng) -> Vec<Vec<f64>> {
    let centre = parameters.iter().map(|parameter| parameter.prior).collect();
    let mut starts = vec![centre];
    for _ in 1..count {
        let near = |parameter: &Parameter| {
            let away = parameter.sd * (3.0 * stream.random::<f64>() - 1.5);
            parameter.natural(parameter.scaled(parameter.prior) + away)
        };
        starts.push(parameters.iter().map(near).collect());
    }
    starts
}

/// A task at a point of the unbounded space.
struct Free<'t, 'a> {
    task: &'t Task<'a>,
    free: DVector<f64>,
}

impl Free<'_, '_> {
    fn values(&self) -> Vec<f64> {
        let pairs = self.task.parameters.iter().zip(self.free.iter());
        pairs.map(|(parameter, free)| parameter.bend(*free)).collect()
    }

    fn at(&self, index: usize, step: f64) -> DVector<f64> {
        let mut moved = Free {
            task: self.task,
            free: self.free.clone(),
        };
        moved.free[index] += step;
        self.task.residuals(&moved.values())
    }
}

/// Step of the numeric derivative on the unbounded line: far above the noise of sums over steps rounded to picoseconds.
const STEP: f64 = 1e-3;

impl LeastSquaresProblem<f64, Dyn, Dyn> for Free<'_, '_> {
    type ParameterStorage = Owned<f64, Dyn>;
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;

    fn set_params(&mut self, free: &DVector<f64>) {
        // Further out the logistic curve is flat and a derivative would vanish.
        self.free = free.map(|x| x.clamp(-9.0, 9.0));
    }

    fn params(&self) -> DVector<f64> {
        self.free.clone()
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        let residuals = self.task.residuals(&self.values());
        residuals.iter().all(|r| r.is_finite()).then_some(residuals)
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        let columns: Vec<DVector<f64>> = (0..self.free.len())
            .map(|index| (self.at(index, STEP) - self.at(index, -STEP)) / (2.0 * STEP))
            .collect();
        let jacobian = DMatrix::from_columns(&columns);
        jacobian.iter().all(|x| x.is_finite()).then_some(jacobian)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    /// A line through the origin and an offset, with one wild row.
    fn line(loss: Loss, weights: &[f64], shifts: &[f64], sd: f64) -> Vec<f64> {
        let parameters = [
            Parameter::factor("slope", (0.1, 10.0), 1.0, sd),
            Parameter::term("offset", (0.0, 5.0), 1.0, sd),
        ];
        let rows = [(1.0, 2.5), (2.0, 4.5), (4.0, 8.5), (8.0, 16.5), (3.0, 60.0)];
        let errors = |values: &[f64]| {
            let error = |(x, y): &(f64, f64)| ((values[0] * x + values[1]) / y).ln();
            rows.iter().map(error).collect()
        };
        let task = Task {
            parameters: &parameters,
            errors: &errors,
            weights,
            shifts,
            sigma: 0.01,
            loss,
        };
        let mut stream = ChaCha8Rng::seed_from_u64(1);
        task.solve(&starts(&parameters, 3, &mut stream))
    }

    #[test]
    fn a_wild_row_hardly_moves_the_fit() {
        let values = line(Loss::SoftL1, &[1.0; 5], &[0.0; 2], 10.0);
        assert!((values[0] / 2.0 - 1.0).abs() < 0.1, "{values:?}");
        let without = line(Loss::SoftL1, &[1.0, 1.0, 1.0, 1.0, 0.0], &[0.0; 2], 10.0);
        assert!(
            (without[0] - 2.0).abs() < 1e-3 && (without[1] - 0.5).abs() < 1e-3,
            "{without:?}"
        );
    }

    #[test]
    fn a_redescending_loss_lets_go_of_a_wild_row() {
        let values = line(Loss::Redescending, &[1.0; 5], &[0.0; 2], 10.0);
        assert!(
            (values[0] - 2.0).abs() < 5e-3 && (values[1] - 0.5).abs() < 5e-3,
            "{values:?}"
        );
    }

    #[test]
    fn without_rows_the_prior_is_the_answer_wherever_it_is_centred() {
        let values = line(Loss::SoftL1, &[0.0; 5], &[0.0, 1.0], 0.5);
        assert!(
            (values[0] - 1.0).abs() < 1e-3 && (values[1] - 1.5).abs() < 1e-3,
            "{values:?}"
        );
    }
}
