//! What arrives: arrivals, lengths, shared prefixes, sessions, clients and traces.

mod arrivals;
mod bench;
mod classes;
mod client;
mod endings;
mod generator;
mod groups;
mod lengths;
mod load;
mod memoryless;
mod modulation;
mod posted;
mod recorded;
mod recording;
mod request;
mod reuse;
mod segments;
mod sessions;
mod short_day;
mod spec;
mod superposition;
pub mod text;
pub mod trace;

pub use bench::drawn_by_us;
#[cfg(feature = "serve")]
pub(crate) use endings::EndingSampler;
pub use generator::Generator;
pub use load::{
    TrafficKind, at_once, endless, in_flight, is_closed, mean_rate, opened, traffic_kind, with_in_flight,
    with_rate,
};
pub(crate) use load::{mean_starts, ramp_mean};
pub use memoryless::MemorylessLength;
pub use posted::{Post, Posted, Span};
pub use recording::{Plan, PlannedTurn, Recording};
pub use request::{Piece, Prompt, Request};
pub(crate) use reuse::OCTAVES_MAX;
pub use reuse::ReuseLaw;
pub use short_day::short_day;
pub use spec::{
    Arrivals, Class, Client, Draws, Endings, Lengths, LognormalLength, MmppState, Prefix, Promise, Stream,
    WorkloadSpec,
};
pub use superposition::{AllSend, Superposition};

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

/// Traffic made from a [`WorkloadSpec`], which can tell how far it has come.
pub trait Source: Traffic {
    /// Output tokens of a request sent so far, on average; `None` before the first.
    fn mean_output_tokens(&self) -> Option<f64>;

    /// Whether traffic ended, in part at least, because the next send lies past the end of the clock (213 days).
    fn clock_exhausted(&self) -> bool;

    /// Whether requests may be drawn long before they are sent: what becomes of others changes nothing about them, and
    /// nobody asks for more of the source than the requests and whether the clock ended.
    fn ignores_answers(&self) -> bool;

    /// The stretch in which all of several clients send, as far as is known now; `None` where there is only one.
    fn all_send(&self) -> Option<AllSend> {
        None
    }

    /// The same once no more is sent: of the clients who sent anything, whoever was still to begin.
    fn all_sent(&self) -> Option<AllSend> {
        self.all_send()
    }

    /// When the last request was sent that begins something: what comes later are further turns of conversations, or is sent by
    /// clients who go on as long as others have requests inside. The end of the clock while that is not known.
    fn fresh_until(&self) -> Picos {
        Picos::MAX
    }
}

/// Opens the traffic of `spec`, of whatever kind it is. Whoever asks it for many requests knows the kind.
///
/// # Panics
/// If `spec` is not valid.
#[must_use]
pub fn open(spec: &WorkloadSpec, seed: u64) -> Box<dyn Source> {
    match &spec.arrivals {
        Arrivals::Superposed { .. } => Box::new(Superposition::new(spec, seed)),
        _ => Box::new(Generator::new(spec, seed)),
    }
}

impl Traffic for Box<dyn Source> {
    fn next_arrival(&mut self) -> Option<Picos> {
        self.as_mut().next_arrival()
    }

    fn take(&mut self) -> Request {
        self.as_mut().take()
    }

    fn ended(&mut self, id: RequestId, now: Picos) {
        self.as_mut().ended(id, now);
    }

    fn failed(&mut self, id: RequestId, now: Picos) {
        self.as_mut().failed(id, now);
    }
}
