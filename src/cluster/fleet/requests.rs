//! Requests on their way through the routers of a fleet.

use super::{Routing, Ticket};
use crate::cluster::dispatch::tokens_of;
use crate::cluster::lives::Stage;
use crate::engine::{Engine, Refusal};
use crate::facts::{Completion, Observer};
use crate::units::Picos;
use crate::workload::Request;

impl Routing {
    /// Who gets a request that is sent at `now`; `None` if no replica is up.
    #[inline(never)]
    pub(super) fn route<O: Observer>(
        &mut self,
        engines: &mut [Engine],
        now: Picos,
        request: &Request,
        observer: &mut O,
    ) -> Option<usize> {
        let lane = match self.lanes.as_mut_slice() {
            [lane] => lane,
            lanes => lanes
                .iter_mut()
                .find(|lane| lane.serves.takes(request))
                .expect("every request belongs to a group"),
        };
        lane.hear_evictions(engines, &self.wakes, now, observer);
        lane.read_snapshots(engines, &self.wakes, now, observer);
        let members = &lane.members;
        let engine = |index: usize| &engines[members[index]];
        let index = lane.dispatch.route(request, now, &engine)?;
        Some(members[index])
    }

    /// A request that was routed to `replica` reaches its engine at `entry`.
    #[inline(never)]
    pub(super) fn offer(
        &mut self,
        engine: &mut Engine,
        replica: usize,
        entry: Picos,
        request: &mut Request,
    ) -> Result<Ticket, Refusal> {
        let (id, tokens) = (request.id, tokens_of(request));
        let (lane, index) = self.places[replica];
        let dispatch = &mut self.lanes[lane].dispatch;
        let handle = engine.offer(entry, request).inspect_err(|_| {
            dispatch.left(id);
        })?;
        dispatch.sent(index, id, tokens);
        self.wakes.set(replica, engine.wake());
        Ok(Ticket { replica, handle })
    }

    /// A client has its answer, whatever it is.
    #[inline(never)]
    pub(super) fn answered(&mut self, completion: &Completion) {
        let replica = completion.replica.0 as usize;
        let dispatch = &mut self.lanes[self.places[replica].0].dispatch;
        // One that was refused was never sent, and its router knows.
        let Some(index) = dispatch.left(completion.id) else {
            return;
        };
        if self.lives.stage(replica) == Stage::Draining && dispatch.loads[index].requests == 0 {
            self.lives.give_back(replica, completion.end);
        }
    }
}
