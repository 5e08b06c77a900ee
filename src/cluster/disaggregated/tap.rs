//! Two replicas' facts about one request become those of one request.

use super::flight::{Flight, Flights};
use crate::facts::{Fact, Observer, Relay};
use crate::ids::RequestId;

/// Hears a prefill replica: its one token is nobody's, and what a request does there is remembered.
pub(super) struct PrefillTap<'a> {
    pub(super) observer: &'a mut dyn Observer,
    pub(super) flights: &'a mut Flights,
}

impl Observer for PrefillTap<'_> {
    fn observe(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::Admitted { id, .. } | Fact::Preempted { id, .. } => {
                if let Some(flight) = live(self.flights, id) {
                    self.observer.observe(&flight.retell(fact));
                }
            }
            Fact::FirstToken { .. } | Fact::Gap { .. } => {}
            _ => self.observer.observe(fact),
        }
    }
}

/// Hears a decode replica: a request waits there since its prefill was over, and how it came is told with its first token.
pub(super) struct DecodeTap<'a> {
    pub(super) observer: &'a mut dyn Observer,
    pub(super) flights: &'a mut Flights,
    pub(super) first_tokens: &'a mut Vec<RequestId>,
}

impl Observer for DecodeTap<'_> {
    fn observe(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::Admitted { now, id, .. } => {
                if let Some(flight) = live(self.flights, id) {
                    flight.times.joined.get_or_insert(now);
                    self.observer.observe(&flight.retell(fact));
                }
            }
            Fact::Preempted { id, .. } => {
                if let Some(flight) = live(self.flights, id) {
                    self.observer.observe(&flight.retell(fact));
                }
            }
            Fact::FirstToken { now, replica, id, .. } => {
                let Some(flight) = live(self.flights, id) else {
                    return;
                };
                self.first_tokens.push(id);
                flight.story.have_token(&flight.request, replica, now, None);
                let relay = Relay {
                    id,
                    arrival: flight.request.arrival,
                    waited: flight.times.waited,
                    prefilled: flight.times.prefilled.unwrap_or(now),
                    known: flight.times.known.unwrap_or(now),
                    // Pushed KV needs no memory before the step that admits its request.
                    reserved: flight.times.reserved.or(flight.times.joined).unwrap_or(now),
                    arrived: flight.times.arrived.unwrap_or(now),
                    joined: flight.times.joined.unwrap_or(now),
                    first_token: now,
                    bytes: flight.cargo.bytes,
                };
                self.observer.observe(&Fact::Relayed(&relay));
                self.observer.observe(fact);
            }
            Fact::Gap { id, .. } | Fact::Loaded { id, .. } => {
                if live(self.flights, id).is_some() {
                    self.observer.observe(fact);
                }
            }
            _ => self.observer.observe(fact),
        }
    }
}

impl Flight {
    /// What a replica tells of its part becomes a fact of the whole story.
    fn retell(&mut self, fact: &Fact<'_>) -> Fact<'static> {
        match *fact {
            Fact::Admitted {
                now,
                replica,
                queued_since,
                known_tokens,
                cached_tokens,
                ..
            } => {
                // SGLang's decode server has known it from the start.
                self.story.enter(queued_since.max(self.story.queued_since()));
                self.story
                    .admit(&self.request, replica, now, known_tokens, cached_tokens)
            }
            Fact::Preempted {
                now,
                replica,
                lost_tokens,
                ..
            } => self.story.preempt(&self.request, replica, now, lost_tokens),
            _ => unreachable!("replicas tell of waits and ends of waits"),
        }
    }
}

/// The flight of a request whose client waits.
fn live(flights: &mut Flights, id: RequestId) -> Option<&mut Flight> {
    flights.get_mut(&id).filter(|flight| !flight.is_abandoned)
}
