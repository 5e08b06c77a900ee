//! What arrives: arrivals, lengths, shared prefixes, sessions, clients and traces.

mod arrivals;
mod classes;
mod client;
mod endings;
mod generator;
mod groups;
mod lengths;
mod load;
mod modulation;
mod request;
mod reuse;
mod segments;
mod sessions;
mod spec;
pub mod trace;

pub use generator::Generator;
pub use load::{TrafficKind, is_closed, mean_rate, traffic_kind, with_rate};
pub use request::{Piece, Prompt, Request};
pub use reuse::ReuseLaw;
pub use spec::{
    Arrivals, Class, Client, Endings, Lengths, LognormalLength, MmppState, Prefix, Promise, WorkloadSpec,
};

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

    /// Learns that a request was answered at `now`. Reports come in order of time.
    fn ended(&mut self, id: RequestId, now: Picos);

    /// Learns that a request left without its answer at `now`: refused, or given up by its client. Told instead of
    /// [`Traffic::ended`]; it differs only for conversations, which break off.
    fn failed(&mut self, id: RequestId, now: Picos) {
        self.ended(id, now);
    }
}
