//! Users who think between their requests: their number is given, and how many of them wait for an answer follows from it.
//!
//! Law: `N = X·(R + Z)`, the interactive response time law (Denning and Buzen 1978): each of N users is either in a request, which
//! takes R, or thinks, for Z. Of them `X·R = N − X·Z` are in flight.

use crate::metrics::Summary;
use crate::quantity::significant_grouped as figure;
use crate::workload::{Arrivals, WorkloadSpec};

/// Users who think.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thinkers {
    users: u32,
    think_s: f64,
}

impl Thinkers {
    /// Those who send all of this traffic; `None` where others do, or nobody ever thinks.
    #[must_use]
    pub fn of(workload: &WorkloadSpec) -> Option<Thinkers> {
        let Arrivals::Users { users, think_time } = workload.arrivals else {
            return None;
        };
        let think_s = think_time.seconds();
        (think_s > 0.0).then_some(Thinkers { users, think_s })
    }

    /// What they were seen to do; `None` where nobody got an answer.
    pub(super) fn seen(self, summary: &Summary) -> Option<UserCycle> {
        let response_s = summary.e2el.mean_s()? + summary.client_queue_time.mean_s().unwrap_or(0.0);
        let per_s = summary.completed as f64 / summary.duration_s;
        (per_s.is_finite() && per_s > 0.0).then_some(UserCycle {
            thinkers: self,
            per_s,
            response_s,
        })
    }
}

/// Share by which the law's product is off where the edges of what was looked at are told of.
const EDGES: f64 = 0.002;

/// How often users come back.
#[derive(Clone, Copy, Debug)]
pub(super) struct UserCycle {
    thinkers: Thinkers,
    per_s: f64,
    response_s: f64,
}

impl UserCycle {
    /// Where their load comes from.
    pub(super) fn sentence(self) -> String {
        let UserCycle {
            thinkers: Thinkers { users, think_s },
            per_s,
            response_s,
        } = self;
        let product = per_s * (response_s + think_s);
        let counted = match (product / f64::from(users) - 1.0).abs() > EDGES {
            // Requests that reach over an edge of the stretch are counted at one of their ends, and take their whole time there.
            true => format!("{} ({users} but for the edges of the stretch)", figure(product)),
            false => figure(product),
        };
        format!(
            "a closed loop of {users} users who think {think} s between requests: N = X·(R + Z) = {} × ({} + {think}) = {}, of whom \
             X·R = {} are in flight; the load follows from N and Z",
            figure(per_s),
            figure(response_s),
            counted,
            figure(per_s * response_s),
            think = figure(think_s),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_in_a_request_or_think() {
        let cycle = UserCycle {
            thinkers: Thinkers {
                users: 20,
                think_s: 2.0,
            },
            per_s: 6.78,
            response_s: 0.95,
        };
        insta::assert_snapshot!(cycle.sentence(), @"a closed loop of 20 users who think 2.00 s between requests: N = X·(R + Z) = 6.78 × (0.950 + 2.00) = 20.0, of whom X·R = 6.44 are in flight; the load follows from N and Z");
    }
}
