//! Where every unfinished request is, in a ring indexed by request number.
//!
//! Requests are numbered in the order of their arrival, so the live ones lie in a window: entering, finding and
//! leaving are array accesses.

use std::collections::VecDeque;

use crate::ids::RequestId;
use crate::units::Picos;

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Gone,
    Waiting,
    Running,
}

/// What is remembered of an unfinished request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    pub(super) arrival: Picos,
    /// Since when it is where it is.
    pub(super) since: Picos,
    /// Time spent running in visits that preemptions ended.
    pub(super) ran: Picos,
    pub(super) place: Place,
    pub(super) class: u32,
    /// Its answer is on the way to its client: it counts as running, and takes no place in the batch.
    pub(super) is_leaving: bool,
    /// It was sent again after its replica failed: no single server tells all of its story.
    pub(super) is_again: bool,
}

const GONE: Live = Live {
    arrival: Picos::ZERO,
    since: Picos::ZERO,
    ran: Picos::ZERO,
    place: Place::Gone,
    class: 0,
    is_leaving: false,
    is_again: false,
};

/// The unfinished requests.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight {
    base: u64,
    ring: VecDeque<Live>,
}

impl InFlight {
    /// A request arrives and waits; `false` if it is inside already.
    pub(super) fn enter(&mut self, id: RequestId, arrival: Picos, class: u32) -> bool {
        if self.ring.is_empty() {
            self.base = id.0;
        }
        while id.0 < self.base {
            self.ring.push_front(GONE);
            self.base -= 1;
        }
        let place = (id.0 - self.base) as usize;
        while self.ring.len() <= place {
            self.ring.push_back(GONE);
        }
        let fresh = self.ring[place].place == Place::Gone;
        self.ring[place] = Live {
            arrival,
            since: arrival,
            ran: Picos::ZERO,
            place: Place::Waiting,
            class,
            is_leaving: false,
            is_again: false,
        };
        fresh
    }

    /// The request, if it is inside.
    pub(super) fn get_mut(&mut self, id: RequestId) -> Option<&mut Live> {
        let place = id.0.checked_sub(self.base)? as usize;
        self.ring.get_mut(place).filter(|live| live.place != Place::Gone)
    }

    /// Takes the request out.
    pub(super) fn leave(&mut self, id: RequestId) -> Option<Live> {
        let live = std::mem::replace(self.get_mut(id)?, GONE);
        while self.ring.front().is_some_and(|first| first.place == Place::Gone) {
            self.ring.pop_front();
            self.base += 1;
        }
        Some(live)
    }

    /// Everyone still inside.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Live> {
        self.ring.iter().filter(|live| live.place != Place::Gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_enter_in_any_order_and_leave_once() {
        let mut inside = InFlight::default();
        for id in [5, 7, 4] {
            assert!(inside.enter(RequestId(id), Picos(id), 0));
        }
        assert!(!inside.enter(RequestId(7), Picos(7), 0));
        assert_eq!(
            inside.leave(RequestId(4)).map(|live| live.arrival),
            Some(Picos(4))
        );
        assert!(inside.leave(RequestId(4)).is_none());
        assert!(inside.leave(RequestId(6)).is_none());
        assert_eq!(inside.iter().count(), 2);
        assert!(inside.leave(RequestId(5)).is_some() && inside.leave(RequestId(7)).is_some());
        assert!(inside.enter(RequestId(1), Picos(1), 0));
    }
}
