//! What a mean and a percentile would scatter by in another run, from deviations alone.
//!
//! Two kinds of deviation: what each request has by itself averages out over requests, what all of a time share only over
//! times. A file does not tell the law of its values, so a percentile is taken to be as ill known as the worst law that is
//! common: a median as that of lengths drawn evenly between two ends, a tail as a normal law's or, where it is longer, as
//! that of a tail that falls by a power.

use crate::stats::crowd::sparseness;

/// Square of a flat law's standard error at the median against that of its mean: `√12 σ / 2√n`.
const FLAT: f64 = 3.0;

/// Relative variances of a latency, and how many values each is seen through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    /// Of what each request has by itself.
    pub(super) own: f64,
    /// Of what all of a time share.
    pub(super) shared: f64,
    /// Requests.
    pub(super) requests: f64,
    /// Times anew that what is shared was seen.
    pub(super) times: f64,
}

impl Spread {
    /// Standard error of the mean, relative to it.
    pub(super) fn of_mean(&self) -> f64 {
        (self.own / self.requests + self.shared / self.times).sqrt()
    }

    /// Standard error of the percentile at a share, relative to it; `over_median` is how many times the median it is.
    pub(super) fn of_percentile(&self, share: f64, over_median: Option<f64>) -> f64 {
        if share == 0.5 {
            return (FLAT * (self.own / self.requests + self.shared / self.times)).sqrt();
        }
        let sparse = sparseness(share).powi(2);
        let normal = sparse * self.own.ln_1p();
        let power = over_median.map_or(0.0, |over| power_tail(share, over));
        let own = normal.max(power) / self.requests;
        (own + sparse * self.shared.ln_1p() / self.times).sqrt()
    }
}

/// Variance of the logarithm of a percentile of one value, where beyond the median values get rarer by a power of their size:
/// the power follows from how far out the percentile lies.
fn power_tail(share: f64, over_median: f64) -> f64 {
    let beyond = 1.0 - share;
    if share <= 0.5 || over_median <= 1.0 {
        return 0.0;
    }
    let slope = over_median.ln() / (0.5 / beyond).ln();
    slope * slope * share / beyond
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_known_as_well_as_that_of_a_flat_law_and_a_tail_as_its_length_tells() {
        let spread = Spread {
            own: 0.04,
            shared: 0.0,
            requests: 400.0,
            times: 10.0,
        };
        assert!((spread.of_mean() - 0.01).abs() < 1e-12);
        assert!((spread.of_percentile(0.5, None) - 0.01 * 3f64.sqrt()).abs() < 1e-12);
        // Four values lie beyond a p99 of 400; a power that makes it three times the median halves a value in 2.47 folds.
        let known = 3f64.ln() / 50f64.ln() * (0.99f64 / 0.01 / 400.0).sqrt();
        assert!((spread.of_percentile(0.99, Some(3.0)) - known).abs() < 1e-12);
        // A short tail is no better known than a normal law's.
        let normal = sparseness(0.99) * (0.04f64.ln_1p() / 400.0).sqrt();
        assert!((spread.of_percentile(0.99, Some(1.1)) - normal).abs() < 1e-12);
    }

    #[test]
    fn a_tail_of_what_is_shared_is_of_as_few_values_as_times() {
        let spread = Spread {
            own: 0.0,
            shared: 0.0018,
            requests: 2000.0,
            times: 168.0,
        };
        // Of 168 times two are beyond: 1.2 %, where ten pairs of seeds scatter by 1.4 %.
        let error = spread.of_percentile(0.99, None);
        assert!((error - 0.0122).abs() < 2e-4, "{error}");
    }
}
