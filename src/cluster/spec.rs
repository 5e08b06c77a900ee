//! What a cluster is made of, beside its engines.

use super::disaggregated::Disaggregation;
use super::router::Policy;
use crate::units::Picos;

/// Replicas, who routes between them, and when they come and go.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterSpec {
    /// Engine instances.
    pub replicas: u32,
    /// Who shares requests out between which of them: every replica is in one group.
    pub groups: Vec<Group>,
    /// What happens to replicas at given times, in order of time.
    pub changes: Vec<Change>,
    /// Failures at random times.
    pub outages: Option<Outages>,
    /// Prefill and decode on different replicas; groups are then not looked at.
    pub disaggregation: Option<Disaggregation>,
}

impl ClusterSpec {
    /// One replica that is always up.
    #[must_use]
    pub fn single() -> ClusterSpec {
        ClusterSpec::of(1, Policy::RoundRobin)
    }

    /// So many replicas that are always up.
    #[must_use]
    pub fn of(replicas: u32, policy: Policy) -> ClusterSpec {
        ClusterSpec {
            replicas,
            groups: vec![Group {
                policy,
                members: (0..replicas).collect(),
            }],
            changes: Vec::new(),
            outages: None,
            disaggregation: None,
        }
    }
}

/// Replicas that serve the same requests, and the router in front of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Who gets a request.
    pub policy: Policy,
    /// Replicas, from 0, in ascending order.
    pub members: Vec<u32>,
}

/// Something happens to a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at: Picos,
    /// Which, from 0.
    pub replica: u32,
    /// What.
    pub kind: ChangeKind,
}

/// What can happen to a replica, in the order in which changes of one instant are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// It takes requests, its cache empty: after a failure or a start, whose delay is in the time of the change.
    Up,
    /// It takes no new requests and finishes those inside.
    Drain,
    /// It fails: everybody inside is lost with its cache.
    Fail,
}

/// Every replica fails by itself, at exponential times, and comes back after exponential times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outages {
    /// Mean time between recovery and the next failure (MTBF), in seconds.
    pub mean_up_s: f64,
    /// Mean time to recovery (MTTR), restart included, in seconds.
    pub mean_down_s: f64,
}
