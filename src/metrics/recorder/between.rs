//! What happens to requests between two replicas.

use super::Recorder;
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
        self.waits_again(id, now, running_since, "handed over");
    }
}
