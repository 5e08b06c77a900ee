//! Births and deaths: M/M/c, the shared processor, and the finite source of each.
//!
//! In a state of n inside the next comes at λ, or of N users who think for Z at (N − n)/Z, and one leaves at min(n, c)/E[S]. How often each
//! state is seen follows from the balance between neighbours (Kleinrock 1975, "Queueing Systems" I, 3). A shared processor has the rates
//! of one server whatever the law of the service (Kleinrock 1976, II, 4.4).

use super::{ClosedForm, Serves};
use crate::metrics::Summary;

/// What a run says of its server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Requests per second.
    per_s: f64,
    /// Mean number that are served, where each has a server, or the share of the time in which the one works.
    load: f64,
}

impl Seen {
    pub(super) fn of(stretch: &Summary, serves: Serves) -> Option<Seen> {
        let per_s = stretch.completed as f64 / stretch.duration_s;
        let load = match serves {
            Serves::Each => stretch.occupancy.running,
            Serves::Shared => stretch.occupancy.busy,
        };
        (per_s > 0.0 && per_s.is_finite()).then_some(Seen { per_s, load })
    }

    fn service_s(self) -> f64 {
        self.load / self.per_s
    }

    /// M/M/c: `E[W] = C(c, a)·E[S]/(c − a)`, a = λ·E[S].
    pub(super) fn many_servers(self, servers: u32) -> Option<ClosedForm> {
        let waits = erlang_c(servers, self.load)?;
        let wait_s = waits * self.service_s() / (f64::from(servers) - self.load);
        Some(ClosedForm {
            queue: format!("M/M/{servers}"),
            formula: "C·E[S]/(c·(1 − ρ))",
            note: ", C the share that waits, by Erlang",
            utilisation: self.load / f64::from(servers),
            service_s: self.service_s(),
            service_cv: None,
            wait_s: Some(wait_s),
            response_s: wait_s + self.service_s(),
            per_s: None,
        })
    }

    /// M/G/1-PS: `E[T] = E[S]/(1 − ρ)`.
    pub(super) fn shared(self) -> Option<ClosedForm> {
        (self.load < 1.0).then(|| ClosedForm {
            queue: "M/G/1-PS".to_owned(),
            formula: "E[S]/(1 − ρ)",
            note: ", whatever the law of S",
            utilisation: self.load,
            service_s: self.service_s(),
            service_cv: None,
            wait_s: None,
            response_s: self.service_s() / (1.0 - self.load),
            per_s: None,
        })
    }

    /// Users who think: `X = (N − E[n])/Z`, `E[T] = N/X − Z`.
    pub(super) fn finite(self, users: u32, think_s: f64, servers: u32, serves: Serves) -> ClosedForm {
        let service_s = self.service_s();
        let inside = repairmen(users, servers, service_s / think_s);
        let per_s = (f64::from(users) - inside) / think_s;
        let response_s = inside / per_s;
        let (queue, wait_s) = match serves {
            Serves::Each => (format!("M/M/{servers}//{users}"), Some(response_s - service_s)),
            Serves::Shared => (format!("M/G/1-PS//{users}"), None),
        };
        ClosedForm {
            queue,
            formula: "X = (N − E[n])/Z and N/X − Z",
            note: ", of N users who think for Z on average",
            utilisation: per_s * service_s / f64::from(servers),
            service_s,
            service_cv: None,
            wait_s,
            response_s,
            per_s: Some(per_s),
        }
    }
}

/// Erlang's delay formula: the share of arrivals that wait in M/M/c, `offered` = λ·E[S]; `None` at saturation and above.
fn erlang_c(servers: u32, offered: f64) -> Option<f64> {
    let lost = (1..=servers).fold(1.0, |lost, at| offered * lost / (f64::from(at) + offered * lost));
    let load = offered / f64::from(servers);
    (load < 1.0).then(|| lost / (1.0 - load * (1.0 - lost)))
}

/// Mean number inside of a finite source, `ratio` = E[S]/Z: the birth and death of n in 0..=N with rates (N − n)/Z and min(n, c)/E[S].
fn repairmen(users: u32, servers: u32, ratio: f64) -> f64 {
    let (mut weight, mut all, mut inside) = (1.0, 1.0, 0.0);
    for n in 1..=users {
        weight *= f64::from(users - n + 1) * ratio / f64::from(n.min(servers));
        all += weight;
        inside += f64::from(n) * weight;
        // Thousands of users would overflow; only ratios count.
        if all > 1e200 {
            (weight, all, inside) = (weight / all, 1.0, inside / all);
        }
    }
    inside / all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, expected: f64) {
        assert!((got / expected - 1.0).abs() < 1e-5, "{got} instead of {expected}");
    }

    #[test]
    fn erlangs_tables_and_the_repairmans_are_met() {
        for (servers, offered, waits, wait_s) in [
            (2, 1.5, 0.642_857, 1.285_714),
            (4, 3.0, 0.509_434, 0.509_434),
            (64, 56.0, 0.215_123, 0.026_890_4),
        ] {
            near(erlang_c(servers, offered).unwrap(), waits);
            let seen = Seen {
                per_s: offered,
                load: offered,
            };
            let told = seen.many_servers(servers).unwrap();
            near(told.wait_s.unwrap(), wait_s);
            near(told.response_s, wait_s + 1.0);
        }
        assert_eq!(erlang_c(4, 4.0), None);
        // M/M/1//12 with S = 0.1 s and Z = 1 s: p0 by its own sum.
        let terms = (0..=12).scan(1.0, |term, n| {
            let now = *term;
            *term *= f64::from(12 - n) * 0.1;
            Some(now)
        });
        let p0 = 1.0 / terms.sum::<f64>();
        let per_s = (1.0 - p0) / 0.1;
        let seen = Seen {
            per_s: 10.0,
            load: 1.0,
        };
        let told = seen.finite(12, 1.0, 1, Serves::Each);
        near(told.per_s.unwrap(), per_s);
        near(told.response_s, 12.0 / per_s - 1.0);
        // As many servers as users: nobody waits.
        near(seen.finite(12, 1.0, 12, Serves::Each).response_s, 0.1);
        assert!(repairmen(100_000, 4, 0.1) > 99_000.0);
    }

    #[test]
    fn a_shared_processor_takes_as_long_as_its_load_has_it() {
        let told = Seen {
            per_s: 8.0,
            load: 0.8,
        }
        .shared()
        .unwrap();
        near(told.response_s, 0.5);
        assert_eq!((told.wait_s, told.per_s), (None, None));
        assert_eq!(
            Seen {
                per_s: 8.0,
                load: 1.0
            }
            .shared(),
            None
        );
    }
}
