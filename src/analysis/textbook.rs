//! The queue of the books that a run is, where it is exactly one, and what its closed form foretells.
//!
//! Only an ideal server is one: its steps last what was said. With steps of one length every place serves by itself, and answers without
//! memory make it M/M/c (Erlang 1917); steps that last as long as they have tokens share one processor among all who are inside, whose
//! mean stay does not depend on the law of the answers (Kleinrock 1976, "Queueing Systems" II, 4.4); users who think make either of them
//! a finite source (the machine repairman; Kleinrock 1975, I, 3.8). One sequence at a time is M/G/1, whatever its steps
//! ([`SingleServer`]). Prompts of one token, so that an answer of n tokens takes n steps.
//!
//! The mean service time and the load are the run's own, by Little's law on the server, so that what is compared is the law and not the
//! draw. Left out: that whoever comes waits for the end of the step under way, half a step on average; answers of fewer than
//! 20 tokens on average, of which that is no small part, have no closed form here.

use super::closed_form::{SingleServer, serves_as_they_come};
use super::{RunResult, Verdict};
use crate::cost::linear::LinearCost;
use crate::metrics::Summary;
use crate::sim::Scenario;
use crate::units::Picos;
use crate::workload::{Arrivals, Lengths, MemorylessLength, Prefix};

/// Steps of a mean service, from which on half a step is small.
const STEPS_MIN: f64 = 20.0;

/// What a closed form says of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Foretold {
    /// Its name: `M/M/4`.
    pub queue: String,
    /// How it is found, in symbols.
    pub formula: &'static str,
    /// What must be known of that, to stand behind its value.
    pub note: &'static str,
    /// Load of a server, ρ.
    pub utilisation: f64,
    /// Mean service time in seconds, as the run had it.
    pub service_s: f64,
    /// Its coefficient of variation, where the law needs it.
    pub service_cv: Option<f64>,
    /// Mean wait in seconds; `None` where nobody waits and all are served at once.
    pub wait_s: Option<f64>,
    /// Mean stay in seconds.
    pub stay_s: f64,
    /// Requests per second, where the queue decides them and not what is offered.
    pub per_s: Option<f64>,
}

/// Who is inside is served by as many as there are places, or all by one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Serves {
    Each,
    Shared,
}

/// What the closed form says of a run that has one. `steps` is how long the steps of an ideal server last.
#[must_use]
pub fn foretold(scenario: &Scenario, steps: Option<LinearCost>, result: &RunResult) -> Option<Foretold> {
    if let Some(served) = SingleServer::of_run(scenario, result) {
        return Some(Foretold {
            queue: "M/G/1".to_owned(),
            formula: "λ·E[S²]/(2·(1 − ρ))",
            note: " by Pollaczek and Khinchine",
            utilisation: served.utilisation,
            service_s: served.service_s,
            service_cv: Some(served.service_cv()),
            wait_s: Some(served.wait_s()),
            stay_s: served.wait_s() + served.service_s,
            per_s: None,
        });
    }
    let pool = scenario.first_pool();
    let workload = &scenario.workload;
    let is_one_server = scenario.pools.len() == 1 && pool.replicas == 1 && serves_as_they_come(&pool.engine);
    let is_plain = workload.classes.is_empty()
        && workload.prefix == Prefix::None
        && workload.endings.is_none()
        && workload.client.max_concurrency.is_none()
        && workload.lengths.constants().0 == Some(1);
    let serves = serves(&steps.filter(|_| is_one_server && is_plain)?)?;
    let stretch = result.steady.as_ref().unwrap_or(&result.whole);
    if stretch.lost() > 0 || result.verdict == Verdict::Unstable {
        return None;
    }
    let places = pool.engine.max_num_seqs();
    let forgets = matches!(
        &workload.lengths,
        Lengths::Memoryless { output: MemorylessLength::Drawn { mean, .. }, .. } if *mean >= STEPS_MIN
    );
    let seen = Seen::of(stretch, serves)?;
    let has_room = stretch.occupancy.running_max < places;
    match (&workload.arrivals, serves) {
        (Arrivals::Poisson { .. }, Serves::Each) if forgets => {
            let is_steady = result.verdict == Verdict::Stable;
            is_steady.then(|| seen.many_servers(places)).flatten()
        }
        (Arrivals::Poisson { .. }, Serves::Shared) if has_room => {
            let is_steady = result.verdict == Verdict::Stable;
            is_steady.then(|| seen.shared()).flatten()
        }
        // Without a time to think they are always inside, and the law is no finite source's.
        (Arrivals::Users { think_time, .. }, _) if *think_time == Picos::ZERO => None,
        (Arrivals::Users { users, think_time }, Serves::Each) if forgets => {
            Some(seen.finite(*users, think_time.seconds(), places, serves))
        }
        (Arrivals::Users { users, think_time }, Serves::Shared) if *users <= places => {
            Some(seen.finite(*users, think_time.seconds(), 1, serves))
        }
        _ => None,
    }
}

/// How steps of so long serve; `None` of those that do neither.
fn serves(steps: &LinearCost) -> Option<Serves> {
    let [per_step, per_token, per_pair] = steps.seconds();
    match (per_step > 0.0, per_token > 0.0, per_pair > 0.0) {
        (true, false, false) => Some(Serves::Each),
        (false, true, false) => Some(Serves::Shared),
        _ => None,
    }
}

/// What a run says of its server.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Requests per second.
    per_s: f64,
    /// Mean number that are served, where each has a server, or the share of the time in which the one works.
    load: f64,
}

impl Seen {
    fn of(stretch: &Summary, serves: Serves) -> Option<Seen> {
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
    fn many_servers(self, servers: u32) -> Option<Foretold> {
        let waits = erlang_c(servers, self.load)?;
        let wait_s = waits * self.service_s() / (f64::from(servers) - self.load);
        Some(Foretold {
            queue: format!("M/M/{servers}"),
            formula: "C·E[S]/(c·(1 − ρ))",
            note: ", C the share that waits, by Erlang",
            utilisation: self.load / f64::from(servers),
            service_s: self.service_s(),
            service_cv: None,
            wait_s: Some(wait_s),
            stay_s: wait_s + self.service_s(),
            per_s: None,
        })
    }

    /// M/G/1-PS: `E[T] = E[S]/(1 − ρ)`.
    fn shared(self) -> Option<Foretold> {
        (self.load < 1.0).then(|| Foretold {
            queue: "M/G/1-PS".to_owned(),
            formula: "E[S]/(1 − ρ)",
            note: ", whatever the law of S",
            utilisation: self.load,
            service_s: self.service_s(),
            service_cv: None,
            wait_s: None,
            stay_s: self.service_s() / (1.0 - self.load),
            per_s: None,
        })
    }

    /// Users who think: `X = (N − E[n])/Z`, `E[T] = N/X − Z`.
    fn finite(self, users: u32, think_s: f64, servers: u32, serves: Serves) -> Foretold {
        let service_s = self.service_s();
        let inside = repairmen(users, servers, service_s / think_s);
        let per_s = (f64::from(users) - inside) / think_s;
        let stay_s = inside / per_s;
        let (queue, wait_s) = match serves {
            Serves::Each => (format!("M/M/{servers}//{users}"), Some(stay_s - service_s)),
            Serves::Shared => (format!("M/G/1-PS//{users}"), None),
        };
        Foretold {
            queue,
            formula: "X = (N − E[n])/Z and N/X − Z",
            note: ", of N users who think for Z on average",
            utilisation: per_s * service_s / f64::from(servers),
            service_s,
            service_cv: None,
            wait_s,
            stay_s,
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
            near(told.stay_s, wait_s + 1.0);
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
        near(told.stay_s, 12.0 / per_s - 1.0);
        // As many servers as users: nobody waits.
        near(seen.finite(12, 1.0, 12, Serves::Each).stay_s, 0.1);
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
        near(told.stay_s, 0.5);
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
