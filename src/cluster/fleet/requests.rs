//! Requests on their way through the routers of a fleet.

use super::{Routing, Ticket};
use crate::cluster::lives::Stage;
use crate::cluster::router::View;
use crate::engine::{Engine, Refusal};
use crate::facts::{Completion, Observer};
use crate::units::Picos;
use crate::workload::Request;

impl Routing {
    /// Who gets a request that is sent at `now`; `None` if no replica is up.
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
        let members = &lane.members;
        let view = View {
            loads: &lane.loads,
            cached_tokens: &|index| engines[members[index]].heard_tokens(request, now),
        };
        let index = lane.router.route(request, now, &view)?;
        assert!(lane.loads[index].is_up, "a router chooses among those up");
        Some(members[index])
    }

    /// A request that was routed to `replica` reaches its engine at `entry`.
    pub(super) fn offer(
        &mut self,
        engine: &mut Engine,
        replica: usize,
        entry: Picos,
        request: Request,
    ) -> Result<Ticket, (Refusal, Request)> {
        let (id, tokens) = (
            request.id,
            u64::from(request.prompt_tokens) + u64::from(request.max_tokens),
        );
        let handle = match engine.offer(entry, request) {
            Ok(handle) => handle,
            Err(refused) => {
                // Its router counted on it.
                let (lane, index) = self.places[replica];
                self.lanes[lane].router.answered(index, id);
                return Err(refused);
            }
        };
        self.sent.insert(id, (replica, tokens));
        let load = self.load(replica);
        load.requests += 1;
        load.tokens += tokens;
        load.sent_since_report += 1;
        self.wakes.set(replica, engine.wake());
        Ok(Ticket { replica, handle })
    }

    /// A client has its answer, whatever it is.
    pub(super) fn answered(&mut self, completion: &Completion) {
        // A refused request was never sent, and its router knows.
        if let Some((replica, tokens)) = self.sent.remove(&completion.id) {
            let (lane, index) = self.places[replica];
            let lane = &mut self.lanes[lane];
            lane.loads[index].requests -= 1;
            lane.loads[index].tokens -= tokens;
            lane.router.answered(index, completion.id);
            if self.lives.stage(replica) == Stage::Draining && lane.loads[index].requests == 0 {
                self.lives.give_back(replica, completion.end);
            }
        }
    }
}
