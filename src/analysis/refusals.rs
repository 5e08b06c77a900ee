//! Clients who are refused and send again at the same instant.
//!
//! A closed loop sends its next request as soon as one has left, a refused one, too: so does the semaphore of `vllm bench serve`
//! (B-4), and so does a user without a think time. Where everybody is refused, because no replica is up or the gateway lets nobody
//! in, no time passes until something else happens, which without time it never does. A number of requests is used up in no
//! time; an endless loop stays there for ever, and its run is ended.

use crate::sim::{Refusals, Simulation};
use crate::workload::{Arrivals, Prefix, Traffic, WorkloadSpec, is_closed};

/// Refusals at one instant, beside one of each client, that end a run: were any let in, it would be among so many.
pub const REFUSED_AT_ONCE: u64 = 10_000;

/// A closed loop that was refused and sent again at the same instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedAgain {
    /// Refused at the instant at which most were: more than there are clients, so that they tell how many requests were left to
    /// send, and not how many the server turns away.
    pub refusals: Refusals,
    /// It would never have ended, and the run was ended there.
    pub ended_the_run: bool,
}

impl RefusedAgain {
    /// What became of a run whose clients can be refused `at_once` before one is for the second time.
    pub(super) fn of<T: Traffic>(
        simulation: &Simulation<T>,
        at_once: Option<u64>,
        ended_the_run: bool,
    ) -> Option<RefusedAgain> {
        let [last, most] = simulation.refused_at_once();
        let refusals = if ended_the_run { last } else { most };
        at_once
            .is_some_and(|clients| refusals.count > clients)
            .then_some(RefusedAgain {
                refusals,
                ended_the_run,
            })
    }
}

/// Requests that can be refused at one instant before a client of a closed loop is refused for the second time: one of each
/// place or user, and all that others send at once. `None` where there is no closed loop.
pub(super) fn at_once_at_most(workload: &WorkloadSpec) -> Option<u64> {
    let parts = workload.parts();
    let is_recorded = |part: &WorkloadSpec| matches!(part.prefix, Prefix::Recorded(_));
    let alone = |part: &&WorkloadSpec| match &part.arrivals {
        // Whoever is refused begins the next conversation, until all have begun.
        _ if is_recorded(part) => part.listed().map_or(0, |all| all.len() as u64),
        Arrivals::Users { users, .. } => u64::from(*users),
        Arrivals::AllAtOnce => match part.client.max_concurrency {
            Some(places) => u64::from(places),
            None => part.num_prompts.unwrap_or(0),
        },
        // One instant may be that of many lines.
        Arrivals::Replay { requests, .. } => requests.len() as u64,
        _ => 1,
    };
    let has_loop = parts.iter().any(|part| is_closed(part) && !is_recorded(part));
    has_loop.then(|| parts.iter().map(alone).sum())
}

/// Whether these refusals are of clients who send again for ever, `at_once` as [`at_once_at_most`] says.
pub(super) fn is_for_ever(refusals: Refusals, at_once: Option<u64>) -> bool {
    at_once.is_some_and(|most| refusals.count >= most + REFUSED_AT_ONCE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Picos;
    use crate::workload::{Client, Draws, Lengths};

    fn spec(arrivals: Arrivals, max_concurrency: Option<u32>) -> WorkloadSpec {
        WorkloadSpec {
            arrivals,
            lengths: Lengths::Fixed {
                input_len: 1,
                output_len: 1,
            },
            prefix: Prefix::None,
            client: Client {
                max_concurrency,
                rescale_arrivals: false,
                draws: Draws::Own,
                timeout: None,
                priorities: Vec::new(),
            },
            num_prompts: Some(50_000),
            duration: None,
            endings: None,
            classes: Vec::new(),
        }
    }

    #[test]
    fn only_a_closed_loop_is_refused_for_ever() {
        let many = Refusals {
            at: Picos::ZERO,
            count: 40_000,
        };
        // As many at once as a batch has are refused once each.
        let batch = spec(Arrivals::AllAtOnce, None);
        assert_eq!(at_once_at_most(&batch), None);
        assert!(!is_for_ever(many, at_once_at_most(&batch)));
        let closed = spec(Arrivals::AllAtOnce, Some(64));
        assert_eq!(at_once_at_most(&closed), Some(64));
        assert!(is_for_ever(many, at_once_at_most(&closed)));
        let users = Arrivals::Users {
            users: 30_000,
            think_time: Picos::ZERO,
        };
        let crowd = at_once_at_most(&spec(users, None));
        assert_eq!(crowd, Some(30_000));
        assert!(is_for_ever(many, crowd));
        assert!(!is_for_ever(
            Refusals {
                count: 39_999,
                ..many
            },
            crowd
        ));
    }
}
