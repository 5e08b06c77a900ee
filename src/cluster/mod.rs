//! Several replicas behind routers: who gets a request, who is up, and how many there are.
//!
//! A replica computes as if it were alone. It is visited when something that others may notice happens on it
//! (`engine::Wake`) or a request is sent to it, and leaps in between, so a fleet costs what its events cost,
//! not replicas times events. One replica alone, always up, needs no router and takes a path without any of this.

mod autoscale;
mod disaggregated;
mod dispatch;
mod fleet;
mod front_ends;
mod frontend;
mod lane;
mod links;
mod lives;
mod lockstep;
pub mod router;
mod serving;
mod spec;
mod streaming;
mod tap;
mod wakes;

pub use autoscale::{Autoscale, Signal};
pub use disaggregated::{Disaggregation, Flow, Lease, LoadFailure};
pub use frontend::{Asked, Frontend, Taken};
pub use links::LinkRate;
pub use lives::Payroll;
pub use lockstep::{AttentionDp, Balance, Coordination, Gathering, LockStepAccount, LockStepSpec};
pub use spec::{Change, ChangeKind, ClusterSpec, Group, Outages, Serves};

pub(crate) use disaggregated::Disaggregated;
pub(crate) use fleet::Cluster;
pub(crate) use front_ends::FrontEnds;
pub(crate) use serving::{Serving, Ticket};
