//! What arrives: arrivals, lengths, shared prefixes, sessions, clients and traces.

mod request;
mod spec;
pub mod trace;

pub use request::{Piece, Prompt, Request};
pub use spec::{Arrivals, Client, Endings, Lengths, LognormalLength, MmppState, Prefix, WorkloadSpec};

use crate::ids::RequestId;
use crate::units::Picos;

/// A stream of requests in order of time, which the simulation pulls from and reports endings to.
///
/// Open traffic ignores the reports; closed loops, sessions and clients with a concurrency limit send their next
/// request because of them.
pub trait Traffic {
    /// When the next request is sent, as far as is known now; `None` while nothing is due before another ends.
    fn next_arrival(&mut self) -> Option<Picos>;

    /// Takes the request that [`Traffic::next_arrival`] announced.
    fn take(&mut self) -> Request;

    /// Learns that a request left the system at `now`, completed or not.
    fn ended(&mut self, id: RequestId, now: Picos);
}
