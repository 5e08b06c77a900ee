//! What a simulation is asked that shares its clock with the world outside: when it has to be gone on with, and what came meanwhile.
//!
//! Whoever goes on to an instant has fixed all that happened until then; what comes from outside comes later than that.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use super::Simulation;
use crate::ids::{ReplicaId, RequestId};
use crate::units::Picos;
use crate::workload::Traffic;

impl<T: Traffic> Simulation<T> {
    /// Lets clients come from outside, and [go away](Simulation::withdraw) at any time, for which their places are kept. Replicas come, go and
    /// report while nobody is inside, too.
    #[must_use]
    pub fn withdrawable(mut self) -> Simulation<T> {
        self.places = Some(FxHashMap::default());
        self
    }

    /// When something happens next that anybody inside could notice, if nobody sends anything that the traffic does not know of yet.
    pub fn next_instant(&mut self) -> Option<Picos> {
        let outside = self.next_from_outside().filter(|_| !self.is_empty());
        let outside = outside.map(|(at, _)| at);
        self.cluster.next_instant().into_iter().chain(outside).min()
    }

    /// Tells the traffic something, after which it may send at another time than it said before.
    pub fn tell_traffic(&mut self, tell: impl FnOnce(&mut T)) {
        tell(&mut self.traffic);
        self.arrival = self.traffic.next_arrival();
    }

    /// The client of a request goes away at `at`, which is not before the instant gone on to last. Nothing comes of it if the request has
    /// left until then.
    ///
    /// # Panics
    /// If places are not [kept](Simulation::withdrawable).
    pub fn withdraw(&mut self, id: RequestId, at: Picos) {
        assert!(self.places.is_some(), "places are kept");
        self.deadlines.push(Reverse((at.max(self.now), id, None)));
    }

    /// From when on the rate limits before the routers would let a request pass, of a class and so many tokens, prompt and
    /// `max_tokens`, as far as they are used now; `None` if they never do.
    #[must_use]
    pub fn payable_at(&self, class: u32, tokens: u64) -> Option<Picos> {
        match &self.gate {
            Some(gate) => gate.payable_at(self.now, class, tokens),
            None => Some(self.now),
        }
    }

    /// Whether each replica schedules a step while the one before is in flight, and who is preempted then has a token of that one.
    #[must_use]
    pub fn schedules_ahead(&self) -> Vec<bool> {
        self.cluster.schedules_ahead()
    }

    /// When the client of a request that has not left has its first token, which was told at an instant.
    pub fn seen_first(&mut self, replica: ReplicaId, id: RequestId, told: Picos) -> Picos {
        let on_its_way = self.outbox.iter().find(|answer| answer.id == id);
        let seen = on_its_way.and_then(|answer| answer.first_token);
        seen.unwrap_or_else(|| told + self.ends.way_out(replica, id))
    }
}
