//! What a cluster is made of, beside its engines.

use super::autoscale::Autoscale;
use super::disaggregated::Disaggregation;
use super::router::Policy;
use crate::units::Picos;
use crate::workload::Request;

/// Replicas, who routes between them, and when they come and go.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterSpec {
    /// Engine instances.
    pub replicas: u32,
    /// Who shares requests out between which of them: every replica is in one group.
    pub groups: Vec<Group>,
    /// What happens to replicas at given times, in order of time; where those are equal, in this order.
    pub changes: Vec<Change>,
    /// Failures at random times.
    pub outages: Option<Outages>,
    /// Replicas that come and go with the load; no replica is in two of them.
    pub scalers: Vec<Autoscale>,
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
                serves: Serves::default(),
            }],
            changes: Vec::new(),
            outages: None,
            scalers: Vec::new(),
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
    /// Which requests it gets. Every request that is sent belongs to one group.
    pub serves: Serves,
}

/// Which requests a group of replicas gets.
#[derive(Clone, Debug, PartialEq)]
pub struct Serves {
    /// Of these classes; `None` is any.
    pub classes: Option<Vec<u32>>,
    /// Of at least so many prompt tokens …
    pub least_prompt: u32,
    /// … and at most so many.
    pub most_prompt: u32,
}

impl Default for Serves {
    fn default() -> Serves {
        Serves {
            classes: None,
            least_prompt: 0,
            most_prompt: u32::MAX,
        }
    }
}

impl Serves {
    /// Whether a request goes here.
    #[must_use]
    pub fn takes(&self, request: &Request) -> bool {
        let is_of_class = |classes: &Vec<u32>| classes.contains(&request.class);
        (self.least_prompt..=self.most_prompt).contains(&request.prompt_tokens)
            && self.classes.as_ref().is_none_or(is_of_class)
    }
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

/// What can happen to a replica.
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
