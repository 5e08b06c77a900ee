//! Several replicas behind a router: who gets a request, who is up.
//!
//! A replica computes as if it were alone. It is visited when something that others may notice happens on it
//! (`engine::Wake`) or a request is sent to it, and leaps in between, so a fleet costs what its events cost,
//! not replicas times events. One replica alone, always up, needs no router and takes a path without any of this.

mod fleet;
mod links;
pub mod router;
mod spec;
mod wakes;

pub use links::{LinkRate, LinkTally};
pub use spec::{Change, ChangeKind, ClusterSpec, Outages};

pub(crate) use fleet::{Cluster, Ticket};
