//! A request that waits again: it was preempted, or came back from a replica that failed.

use super::Recorder;
use crate::ids::RequestId;
use crate::metrics::in_flight::Place;
use crate::sim::Completion;
use crate::units::Picos;

impl Recorder {
    pub(super) fn preempted(&mut self, id: RequestId, now: Picos, running_since: Picos) {
        if self.waits_again(id, now, running_since, "preempted") {
            self.open.counts.preemptions += 1;
        }
    }

    /// It ran and waits now; whether it did run, which is a violation if not.
    pub(super) fn waits_again(&mut self, id: RequestId, now: Picos, running_since: Picos, why: &str) -> bool {
        match self.in_flight.get_mut(id) {
            Some(live) if live.place == Place::Running => {
                live.place = Place::Waiting;
                live.ran += now.saturating_sub(running_since);
                live.since = now;
            }
            _ => {
                self.audit
                    .note(|| format!("request {} was {why} while not running", id.0));
                return false;
            }
        }
        self.audit.waits += 1;
        self.shift(now, [0, 1, -1]);
        self.open.peaks.waiting = self.open.peaks.waiting.max(self.level[1] as u64);
        true
    }

    /// Its replica failed, and it waits to be sent again.
    pub(super) fn returned(&mut self, part: &Completion) {
        let now = part.end;
        let Some(live) = self.in_flight.get_mut(part.id) else {
            return self
                .audit
                .note(|| format!("request {} came back while not inside", part.id.0));
        };
        if let Some(replicas) = &mut self.by_replica {
            replicas.ended(part);
        }
        let was = live.place;
        let here = now.saturating_sub(live.since);
        if was == Place::Running {
            live.ran += here;
        }
        (live.place, live.since, live.is_again) = (Place::Waiting, now, true);
        self.audit.returned((was == Place::Waiting).then_some(here));
        match was {
            Place::Waiting => {}
            Place::Running => self.shift(now, [0, 1, -1]),
            Place::Leaving => self.shift(now, [0, 1, 0]),
        }
        self.open.peaks.waiting = self.open.peaks.waiting.max(self.level[1] as u64);
    }
}
