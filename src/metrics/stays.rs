//! Where every request is, and Little's law for each such place.
//!
//! From its arrival to its end a request is at one place at a time: with a *front end* (before the routers, on its way into
//! an engine, between two servers, and on its way back to its client), in the *queue* of a replica, in its *running* batch,
//! or *crossing*: it waits for nothing but its KV on the way to the replica that will decode. A server of SGLang's that
//! has been told of a request before its prefill is over does not count it yet.
//!
//! Law: at each place the area under the number there is the sum of the stays, and so it is for each replica as a whole.
//! The areas come from the instants at which facts were told; the stays from what engines, routers and requests say of
//! themselves when they are over. All places' areas add up to that of the system. In integers, so exactly.

use super::stretch::INSIDE;
use super::summary::LittleCheck;
use crate::ids::RequestId;
use crate::sim::{Completion, Fact};
use crate::units::{PICOS_PER_SECOND, Picos};
use crate::window::Window;

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    FrontEnd,
    Queue(usize),
    Running(usize),
    Crossing {
        to: usize,
        /// It was in the queue there before.
        is_back: bool,
    },
}

/// A request inside.
#[derive(Clone, Copy, Debug)]
struct Stay {
    place: Place,
    /// Since when it is there; of one that was sent on, perhaps an instant to come.
    since: Picos,
    /// Since when the front end has, or had, it: as long as nobody told of that stay.
    front: Option<Picos>,
    /// The same of the queue that it is in, or has left to cross.
    queue: Option<Picos>,
    /// How long it crossed meanwhile.
    crossed: i128,
    /// Σ of its runs that are over.
    ran: i128,
    /// Where it ran last and since when, if its answer is on the way.
    left: Option<(usize, Picos)>,
    /// It was sent again after its replica failed: its story does not tell how long it ran where.
    is_again: bool,
}

/// Running sums of one place. Exact, in picoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    level: i64,
    level_max: i64,
    /// −Σ change·instant.
    moment: i128,
    visits: u64,
    stayed: i128,
}

impl Tally {
    fn enter(&mut self, now: Picos) {
        self.shift(now, 1);
        self.visits += 1;
    }

    fn shift(&mut self, now: Picos, by: i64) {
        self.level += by;
        self.level_max = self.level_max.max(self.level);
        self.moment -= i128::from(by) * i128::from(now.0);
    }

    /// ∫ number here, up to `end`.
    fn area(&self, end: Picos) -> i128 {
        i128::from(self.level) * i128::from(end.0) + self.moment
    }

    fn check(&self, end: Picos) -> LittleCheck {
        let seconds = end.seconds().max(f64::MIN_POSITIVE);
        LittleCheck {
            l: self.area(end) as f64 / end.0.max(1) as f64,
            lambda: self.visits as f64 / seconds,
            w: self.stayed as f64 / PICOS_PER_SECOND as f64 / self.visits.max(1) as f64,
        }
    }
}

/// The places of one replica.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    queue: Tally,
    running: Tally,
    /// Queue and running batch together, by who comes and leaves.
    inside: Tally,
    crossing: Tally,
}

/// Little's law for one replica.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PlaceChecks {
    pub(super) inside: LittleCheck,
    pub(super) waiting: LittleCheck,
    pub(super) running: LittleCheck,
    pub(super) crossing: LittleCheck,
    pub(super) running_max: u32,
}

/// Everybody inside, and the sums of all places.
#[derive(Clone, Debug)]
pub(super) struct Stays {
    inside: Window<Stay>,
    front: Tally,
    replicas: Vec<Places>,
}

impl Stays {
    pub(super) fn new(replicas: u32) -> Stays {
        Stays {
            inside: Window::default(),
            front: Tally::default(),
            replicas: vec![Places::default(); replicas as usize],
        }
    }

    /// What befalls a request.
    pub(super) fn observe(&mut self, fact: &Fact<'_>) {
        let id = match *fact {
            Fact::Arrived { request } => return self.arrive(request.id, request.arrival),
            Fact::Rejected { now, request, .. } => return self.end(request.id, now, None),
            Fact::Ended(story) => return self.end(story.id, story.end, Some(story)),
            Fact::Sent { id, .. }
            | Fact::Admitted { id, .. }
            | Fact::Preempted { id, .. }
            | Fact::HandedOver { id, .. }
            | Fact::Crossing { id, .. }
            | Fact::Crossed { id, .. }
            | Fact::Leaving { id, .. } => id,
            Fact::Returned(part) => part.id,
            _ => return,
        };
        // Whoever is told of and is not inside is a broken law of its own, which the audit of the system finds.
        let Some(mut stay) = self.inside.get_mut(id).copied() else {
            return;
        };
        self.move_on(&mut stay, fact);
        if let Some(kept) = self.inside.get_mut(id) {
            *kept = stay;
        }
    }

    fn move_on(&mut self, stay: &mut Stay, fact: &Fact<'_>) {
        match *fact {
            Fact::Sent { replica, entry, .. } => self.queue(stay, replica.0 as usize, entry),
            Fact::Admitted {
                now,
                replica,
                waiting_since,
                queued_since,
                ..
            } => {
                let replica = replica.0 as usize;
                if stay.front.take().is_some() {
                    self.front.stayed += between(waiting_since, queued_since);
                }
                if stay.queue.take().is_some() {
                    let crossed = std::mem::take(&mut stay.crossed);
                    self.replicas[replica].has_queued(between(queued_since, now) - crossed);
                }
                self.come(stay, Place::Running(replica), now);
            }
            Fact::Preempted {
                now,
                replica,
                running_since,
                ..
            } => {
                self.has_run(stay, between(running_since, now));
                self.queue(stay, replica.0 as usize, now);
            }
            Fact::HandedOver {
                now, running_since, ..
            } => {
                self.has_run(stay, between(running_since, now));
                self.return_to_front_end(stay, now);
            }
            Fact::Crossing { now, to, .. } => {
                let to = to.0 as usize;
                let is_back = stay.queue.is_some();
                stay.queue.get_or_insert(now);
                self.come(stay, Place::Crossing { to, is_back }, now);
            }
            Fact::Crossed { now, to, since, .. } => {
                let (to, took) = (to.0 as usize, between(since, now));
                self.replicas[to].crossing.stayed += took;
                stay.crossed += took;
                self.come(stay, Place::Queue(to), now);
            }
            Fact::Leaving { now, .. } => {
                match stay.place {
                    // How long it ran its story will tell.
                    Place::Running(replica) => stay.left = Some((replica, stay.since)),
                    _ => self.settle(stay, now),
                }
                self.return_to_front_end(stay, now);
            }
            Fact::Returned(part) => {
                self.conclude_with(stay, part);
                self.return_to_front_end(stay, part.end);
                (stay.is_again, stay.ran, stay.left) = (true, 0, None);
            }
            _ => {}
        }
    }

    fn arrive(&mut self, id: RequestId, now: Picos) {
        self.front.enter(now);
        let stay = Stay {
            place: Place::FrontEnd,
            since: now,
            front: Some(now),
            queue: None,
            crossed: 0,
            ran: 0,
            left: None,
            is_again: false,
        };
        self.inside.insert(id, stay);
    }

    fn end(&mut self, id: RequestId, now: Picos, story: Option<&Completion>) {
        let Some(mut stay) = self.inside.remove(id) else {
            return;
        };
        match story {
            Some(story) => self.conclude_with(&mut stay, story),
            None => self.settle(&mut stay, now),
        }
        self.tally(stay.place).shift(now, -1);
        if let Some(replica) = stay.place.of_replica() {
            self.replicas[replica].inside.shift(now, -1);
        }
    }

    fn tally(&mut self, place: Place) -> &mut Tally {
        match place {
            Place::FrontEnd => &mut self.front,
            Place::Queue(replica) => &mut self.replicas[replica].queue,
            Place::Running(replica) => &mut self.replicas[replica].running,
            Place::Crossing { to, .. } => &mut self.replicas[to].crossing,
        }
    }

    /// A request goes from where it is to `place` at `now`.
    fn come(&mut self, stay: &mut Stay, place: Place, now: Picos) {
        self.turn_back(stay, now);
        let before = std::mem::replace(&mut stay.place, place);
        stay.since = now;
        self.tally(before).shift(now, -1);
        // Between queue and batch nobody leaves the replica; who comes back to a queue after crossing is no new visit.
        let is_back = matches!(before, Place::Crossing { is_back: true, .. });
        let (from, to) = (before.of_replica(), place.of_replica());
        if from != to {
            if let Some(from) = from {
                self.replicas[from].inside.shift(now, -1);
            }
            if let Some(to) = to {
                self.replicas[to].inside.shift(now, 1);
                self.replicas[to].inside.visits += u64::from(!is_back);
            }
        }
        let tally = self.tally(place);
        tally.shift(now, 1);
        tally.visits += u64::from(!is_back);
    }

    fn queue(&mut self, stay: &mut Stay, replica: usize, now: Picos) {
        self.come(stay, Place::Queue(replica), now);
        (stay.queue, stay.crossed) = (Some(now), 0);
    }

    fn return_to_front_end(&mut self, stay: &mut Stay, now: Picos) {
        self.come(stay, Place::FrontEnd, now);
        (stay.front, stay.queue, stay.crossed) = (Some(now), None, 0);
    }

    /// Who leaves at `now`, before the queue that it was sent to has it, was with the front end all the time.
    fn turn_back(&mut self, stay: &mut Stay, now: Picos) {
        let entry = stay.since;
        let Place::Queue(replica) = stay.place else { return };
        if entry <= now {
            return;
        }
        let Places { queue, inside, .. } = &mut self.replicas[replica];
        for tally in [queue, inside] {
            tally.shift(entry, -1);
            tally.visits -= 1;
        }
        self.front.shift(entry, 1);
        (stay.place, stay.queue) = (Place::FrontEnd, None);
        stay.since = stay.front.unwrap_or(now);
    }

    /// A run is over, of so long.
    fn has_run(&mut self, stay: &mut Stay, took: i128) {
        stay.ran += took;
        if let Place::Running(replica) = stay.place {
            self.replicas[replica].has_run(took);
        }
    }

    /// A request leaves with a story, which tells how long it ran last: it was somewhere all the time, and where it did
    /// not wait it ran.
    fn conclude_with(&mut self, stay: &mut Stay, story: &Completion) {
        let last = match stay.place {
            Place::Running(replica) => Some((replica, stay.since, story.end)),
            _ => stay.left.map(|(replica, since)| (replica, since, stay.since)),
        };
        if let Some((replica, since, until)) = last {
            let way_back = between(until, story.end);
            let took = match stay.is_again {
                true => between(since, until),
                false => {
                    let waited = i128::from(story.waiting_time.0);
                    between(story.arrival, story.end) - waited - stay.ran - way_back
                }
            };
            self.replicas[replica].has_run(took);
        }
        self.settle(stay, story.end);
    }

    /// What nobody told of the waits of a request that leaves where it is at `now`.
    fn settle(&mut self, stay: &mut Stay, now: Picos) {
        self.turn_back(stay, now);
        let here = between(stay.since, now);
        let mut front_until = now;
        if let Place::Crossing { to, .. } = stay.place {
            self.replicas[to].crossing.stayed += here;
            stay.crossed += here;
        }
        if let (Place::Queue(replica) | Place::Crossing { to: replica, .. }, Some(queued)) =
            (stay.place, stay.queue.take())
        {
            self.replicas[replica].has_queued(between(queued, now) - std::mem::take(&mut stay.crossed));
            front_until = queued;
        }
        if let Some(front) = stay.front.take() {
            self.front.stayed += between(front, front_until);
        }
    }

    /// Little's law for the front ends and for each replica over `0..end`, and in words the laws that are broken.
    pub(super) fn conclude(
        mut self,
        end: Picos,
        system_area: i128,
    ) -> (LittleCheck, Vec<PlaceChecks>, Vec<String>) {
        let open: Vec<Stay> = self.inside.iter().map(|(_, stay)| *stay).collect();
        for mut stay in open {
            let running = match stay.place {
                Place::Running(replica) => Some((replica, between(stay.since, end))),
                _ => stay
                    .left
                    .map(|(replica, since)| (replica, between(since, stay.since))),
            };
            if let Some((replica, took)) = running {
                self.replicas[replica].has_run(took);
            }
            self.settle(&mut stay, end);
        }
        let mut broken = Vec::new();
        let mut area = 0;
        let mut judge = |tally: &Tally, what: &str, of: Option<usize>| {
            let here = tally.area(end);
            if tally.level < 0 || here != tally.stayed {
                let of = of.map_or(String::new(), |replica| format!(" of replica {replica}"));
                let check = tally.check(end);
                let by_law = check.lambda * check.w;
                broken.push(format!(
                    "Little's law fails for the {what}{of}: L = {}, λW = {by_law}",
                    check.l
                ));
            }
            here
        };
        area += judge(&self.front, "front ends", None);
        for (replica, places) in self.replicas.iter().enumerate() {
            area += judge(&places.queue, "queue", Some(replica));
            area += judge(&places.running, "running batch", Some(replica));
            area += judge(&places.crossing, "transfers", Some(replica));
            judge(&places.inside, "requests", Some(replica));
        }
        if area != system_area {
            broken.push(format!(
                "replicas, transfers and front ends hold {} request-seconds, the system {}",
                area as f64 / PICOS_PER_SECOND as f64,
                system_area as f64 / PICOS_PER_SECOND as f64,
            ));
        }
        let checks = self.replicas.iter().map(|places| PlaceChecks {
            inside: places.inside.check(end),
            waiting: places.queue.check(end),
            running: places.running.check(end),
            crossing: places.crossing.check(end),
            running_max: u32::try_from(places.running.level_max).expect(INSIDE),
        });
        (self.front.check(end), checks.collect(), broken)
    }
}

impl Place {
    /// The replica that has it in its queue or batch.
    fn of_replica(self) -> Option<usize> {
        match self {
            Place::Queue(replica) | Place::Running(replica) => Some(replica),
            Place::FrontEnd | Place::Crossing { .. } => None,
        }
    }
}

impl Places {
    fn has_queued(&mut self, took: i128) {
        self.queue.stayed += took;
        self.inside.stayed += took;
    }

    fn has_run(&mut self, took: i128) {
        self.running.stayed += took;
        self.inside.stayed += took;
    }
}

fn between(from: Picos, to: Picos) -> i128 {
    i128::from(to.0) - i128::from(from.0)
}

#[cfg(test)]
mod tests;
