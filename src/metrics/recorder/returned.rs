//! A request that came back from a replica that failed, and waits to be sent again.

use super::Recorder;
use crate::metrics::in_flight::Place;
use crate::sim::Completion;

impl Recorder {
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
