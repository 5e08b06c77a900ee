//! What happens to requests between two replicas.

use super::{Place, Recorder};
use crate::ids::RequestId;
use crate::sim::Fact;
use crate::units::Picos;

impl Recorder {
    pub(super) fn between_replicas(&mut self, fact: &Fact<'_>) {
        let relays = self.relays.get_or_insert_default();
        match *fact {
            Fact::HandedOver {
                now,
                id,
                running_since,
                ..
            } => self.handed_over(id, now, running_since),
            Fact::Transferred {
                now,
                from,
                to,
                bytes,
                asked,
                ..
            } => relays.transferred((from, to), bytes, now - asked),
            Fact::Released {
                now, since, blocks, ..
            } => relays.released(blocks, now - since),
            Fact::Relayed(relay) => relays.relayed(relay),
            Fact::Links { uses, .. } => relays.links(uses),
            _ => {}
        }
    }

    /// It ran on one replica and will run on another.
    fn handed_over(&mut self, id: RequestId, now: Picos, running_since: Picos) {
        match self.in_flight.get_mut(id) {
            Some(live) if live.place == Place::Running => {
                live.place = Place::Waiting;
                live.ran += now.saturating_sub(running_since);
                live.since = now;
            }
            _ => {
                return self
                    .audit
                    .note(|| format!("request {} was handed over while not running", id.0));
            }
        }
        self.audit.waits += 1;
        self.shift(now, [0, 1, -1]);
        self.open.peaks.waiting = self.open.peaks.waiting.max(self.level[1] as u64);
    }
}
