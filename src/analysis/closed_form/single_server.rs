//! One sequence at a time and Poisson arrivals: M/G/1.
//!
//! `E[W] = λ·E[S²] / (2·(1 − ρ))` (Pollaczek 1930, Khinchine 1932; Kleinrock 1975, "Queueing Systems" I, 5.6). The service time is the run's
//! own: its mean by Little's law on the server, ρ = `λ·E[S]`, and its variance what the response time's has beyond the wait's, which does
//! not depend on one's own service where all are served as they come. Left out: batches, which have no such form, and queues in another
//! order.

use super::ClosedForm;
use crate::metrics::{Distribution, Summary};

/// A server of one request at a time, as a run saw it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SingleServer {
    /// Requests per second.
    per_s: f64,
    /// ρ.
    utilisation: f64,
    /// Mean service time in seconds.
    service_s: f64,
    service_variance: f64,
}

impl SingleServer {
    /// `None` of one that was never empty, and of too few requests.
    pub(super) fn of(steady: &Summary) -> Option<SingleServer> {
        let per_s = steady.completed as f64 / steady.duration_s;
        let utilisation = steady.occupancy.running;
        let deviation = |of: &Distribution| of.std_s();
        let variance = deviation(&steady.e2el)?.powi(2) - deviation(&steady.queue_time)?.powi(2);
        (per_s > 0.0 && utilisation < 1.0).then_some(SingleServer {
            per_s,
            utilisation,
            service_s: utilisation / per_s,
            service_variance: variance.max(0.0),
        })
    }

    pub(super) fn closed_form(self) -> ClosedForm {
        ClosedForm {
            queue: "M/G/1".to_owned(),
            formula: "λ·E[S²]/(2·(1 − ρ))",
            note: " by Pollaczek and Khinchine",
            utilisation: self.utilisation,
            service_s: self.service_s,
            service_cv: Some(self.service_variance.sqrt() / self.service_s),
            wait_s: Some(self.wait_s()),
            response_s: self.wait_s() + self.service_s,
            per_s: None,
        }
    }

    /// The mean wait in seconds.
    fn wait_s(self) -> f64 {
        let second_moment = self.service_s.powi(2) + self.service_variance;
        self.per_s * second_moment / (2.0 * (1.0 - self.utilisation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_that_of_the_books() {
        let told = |service_variance: f64| {
            SingleServer {
                per_s: 0.8,
                utilisation: 0.8,
                service_s: 1.0,
                service_variance,
            }
            .closed_form()
        };
        // M/M/1: ρ/(μ − λ); M/D/1: half of it.
        assert!((told(1.0).wait_s.unwrap() - 4.0).abs() < 1e-12);
        assert!((told(0.0).wait_s.unwrap() - 2.0).abs() < 1e-12);
        assert!((told(1.0).service_cv.unwrap() - 1.0).abs() < 1e-12);
        assert!((told(1.0).response_s - 5.0).abs() < 1e-12);
    }
}
