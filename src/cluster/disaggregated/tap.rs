//! Two replicas' facts about one request become those of one request.

use super::flight::{Flight, Flights};
use crate::facts::{Fact, Observer, Relay};
use crate::ids::RequestId;

/// Hears a prefill replica: its one token is nobody's, and what a request does there is remembered.
pub(super) struct PrefillTap<'a, O> {
    pub(super) observer: &'a mut O,
    pub(super) flights: &'a mut Flights,
}

impl<O: Observer> Observer for PrefillTap<'_, O> {
    fn observe(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::Admitted {
                now,
                id,
                waiting_since,
                cached_tokens,
                ..
            } => {
                let Some(flight) = live(self.flights, id) else {
                    return;
                };
                let account = &mut flight.account;
                if account.first_scheduled.is_none() {
                    account.first_scheduled = Some(now);
                    account.cached_tokens = cached_tokens;
                }
                account.waited += now - waiting_since;
                account.running_since = now;
            }
            Fact::Preempted { id, .. } => {
                let Some(flight) = live(self.flights, id) else {
                    return;
                };
                flight.account.preemptions += 1;
            }
            Fact::FirstToken { .. } | Fact::Gap { .. } => return,
            _ => {}
        }
        self.observer.observe(fact);
    }
}

/// Hears a decode replica: a request waits there since its prefill was over, and how it came is told with its first token.
pub(super) struct DecodeTap<'a, O> {
    pub(super) observer: &'a mut O,
    pub(super) flights: &'a mut Flights,
    pub(super) first_tokens: &'a mut Vec<RequestId>,
}

impl<O: Observer> Observer for DecodeTap<'_, O> {
    fn observe(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::Admitted {
                now,
                replica,
                id,
                waiting_since,
                known_tokens,
                cached_tokens,
                ..
            } => {
                let Some(flight) = live(self.flights, id) else {
                    return;
                };
                let is_first = flight.times.joined.is_none();
                flight.times.joined.get_or_insert(now);
                let handover = flight.account.prefilled.unwrap_or(waiting_since);
                self.observer.observe(&Fact::Admitted {
                    now,
                    replica,
                    id,
                    waiting_since: if is_first { handover } else { waiting_since },
                    known_tokens,
                    cached_tokens,
                    // It ran before, on the prefill replica.
                    resumed: true,
                });
            }
            Fact::FirstToken { now, id, .. } => {
                let Some(flight) = live(self.flights, id) else {
                    return;
                };
                self.first_tokens.push(id);
                let relay = Relay {
                    id,
                    arrival: flight.request.arrival,
                    waited: flight.account.waited,
                    prefilled: flight.account.prefilled.unwrap_or(now),
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
            Fact::Preempted { id, .. } | Fact::Gap { id, .. } | Fact::Loaded { id, .. } => {
                if live(self.flights, id).is_some() {
                    self.observer.observe(fact);
                }
            }
            _ => self.observer.observe(fact),
        }
    }
}

/// The flight of a request whose client waits.
fn live(flights: &mut Flights, id: RequestId) -> Option<&mut Flight> {
    flights.get_mut(&id).filter(|flight| !flight.is_abandoned)
}
