//! How well a stretch that is short against the memory of the number inside knows a latency.
//!
//! Whoever shares a batch shares its steps, so latencies vary in two ways: by what each request has by itself, and by the
//! number inside, which a whole crowd of requests has in common. That number remembers itself.

use statrs::distribution::{Continuous, ContinuousCDF, Normal};

/// What the requests of a time share.
///
/// A number inside of mean `N` forgets itself at a rate of `(1 − s)/W`, where `W` is the stay and `s` how much longer, relatively,
/// a step gets with more inside: it then varies by `1/(N(1 − s))` (the stationary variance of the linearised birth-death
/// process), and the time per token by `s²` of that, relative squares both. So `s` follows from the deviation of TPOT, and
/// a stretch of duration `D` sees `D(1 − s)/W` independent values.
///
/// Over 40 seeds of each of nine loads up to nine tenths of saturation the standard errors that this makes are 0.7 to 2 times
/// the scatter of means between seeds. Nearer to saturation, where a queue has a memory of its own, those of TTFT are too small.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crowd {
    /// Relative variance of the time per token.
    pub variance: f64,
    /// How many independent values of it the stretch saw, at least 1.
    pub values: f64,
    /// Relative variance of the number inside a server.
    number_variance: f64,
}

impl Crowd {
    /// From the mean stay and the duration in seconds, the mean number inside one server, how many servers there are, and the
    /// relative variance of the time per token. `None` where nobody stays.
    #[must_use]
    pub fn new(stay_s: f64, duration_s: f64, inside: f64, servers: f64, variance: f64) -> Option<Crowd> {
        let are_there = stay_s > 0.0 && duration_s > 0.0 && inside >= 0.0 && variance >= 0.0;
        // The root of s²/(1 − s) = N·v that lies below 1.
        let excess = inside * variance;
        let gain = ((excess * excess + 4.0 * excess).sqrt() - excess) / 2.0;
        let values = servers * duration_s * (1.0 - gain) / stay_s;
        (are_there && values.is_finite()).then(|| Crowd {
            variance,
            values: values.max(1.0),
            number_variance: 1.0 / (inside * (1.0 - gain)).max(f64::MIN_POSITIVE),
        })
    }

    /// So many requests that have nothing in common.
    #[must_use]
    pub fn apart(requests: f64) -> Crowd {
        Crowd {
            variance: 0.0,
            values: requests,
            number_variance: 0.0,
        }
    }

    /// Standard error of the mean number inside, relative to it.
    #[must_use]
    pub fn number_error(&self) -> f64 {
        (self.number_variance / self.values).sqrt()
    }

    /// Standard error, relative to the value, of the mean of `counted` latencies with this relative variance, or of their
    /// quantile at `quantile`: by the density there of a log-normal law, which latencies are near, whose logarithm varies by
    /// `ln(1 + v)`. What is everybody's own makes a quantile `sparseness` times as uncertain as the mean; of what is shared the
    /// variance grows by that factor once and the error by its root: what a batch shares moves the whole law, as it moves the
    /// mean, and widens its tail besides.
    #[must_use]
    pub fn standard_error(&self, variance: f64, counted: f64, quantile: Option<f64>) -> f64 {
        let shared = variance.min(self.variance);
        let own = variance - shared;
        let (own, shared) = match quantile {
            None => (own, shared),
            Some(_) => (own.ln_1p(), shared.ln_1p()),
        };
        let sparse = quantile.map_or(1.0, sparseness);
        (sparse.powi(2) * own / counted + sparse * shared / self.values.min(counted)).sqrt()
    }
}

/// How much less well a quantile is known than a mean: `√(p(1−p)) / φ(z)` of the normal law.
#[must_use]
pub fn sparseness(p: f64) -> f64 {
    let law = Normal::standard();
    (p * (1.0 - p)).sqrt() / law.pdf(law.inverse_cdf(p))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_known_less_well_the_further_out_they_are() {
        for (p, known) in [(0.5, 1.253), (0.9, 1.709), (0.95, 2.113), (0.99, 3.733)] {
            assert!((sparseness(p) - known).abs() < 1e-3, "{p} {}", sparseness(p));
        }
    }

    #[test]
    fn without_a_shared_step_values_are_independent_and_with_one_they_are_not() {
        // Steps of one length: a stay is forgotten in a stay, and what varies is everybody's own.
        let apart = Crowd::new(10.0, 200.0, 100.0, 1.0, 0.0).unwrap();
        assert_eq!(apart.values, 20.0);
        assert!((apart.standard_error(0.04, 400.0, None) - 0.01).abs() < 1e-12);
        // N·v = 0.5 makes s = 0.5: ten independent values, whatever the count.
        let together = Crowd::new(10.0, 200.0, 100.0, 1.0, 0.005).unwrap();
        assert!((together.values - 10.0).abs() < 1e-9);
        // A hundred inside vary by √2 times as much as on their own, which ten looks make 4.5 %.
        assert!((together.number_error() - (0.02f64 / 10.0).sqrt()).abs() < 1e-9);
        assert!((together.standard_error(0.005, 1e9, None) - (0.005f64 / 10.0).sqrt()).abs() < 1e-12);
        // Four servers with as many inside each see four times as much, and nobody's stay is no crowd.
        assert!((Crowd::new(10.0, 200.0, 100.0, 4.0, 0.005).unwrap().values - 40.0).abs() < 1e-9);
        assert_eq!(Crowd::new(0.0, 200.0, 0.0, 1.0, 0.0), None);
    }
}
