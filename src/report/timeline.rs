//! What engines did, step by step, as a file for Perfetto (`ui.perfetto.dev`) and `chrome://tracing`.
//!
//! A process is a replica. In it are
//!
//! * a track of *steps*, one slice each. A run of equal steps that the simulation leapt over comes out as its single steps;
//! * a track for each *running* request, as few as suffice: a slice from its admission until it leaves the batch, and in it what
//!   it does before its first token there (`prefill`; `resume` after a preemption; `first decode` where another replica
//!   prefilled; `until its answer` where that leaves whole) and then (`decode`). An arrow leads to the step that gave the first token of all, another from the run on the
//!   replica that prefilled to the one that decodes;
//! * spans of time of which several may go on at once: `queued`, `preempted` (queued again), `front end`, `waits for KV`, and `KV transfer` of
//!   each message between replicas;
//! * instants: `preempted`, `rejected`, `timed out`, `failed`;
//! * counters: requests *running* and *waiting*, from the instants at which they come and go, and *KV blocks* in use where a step has another
//!   batch than the one before. Of the steps between two of those the blocks are not told, and so not written.
//!
//! Left out, because facts do not tell it: what the host does beside the GPU, the stages of a pipeline (a step is told from
//! where the one before it ended), and what bounds a step. Who was preempted for which step is an instant of its own.
//!
//! Only what lies in a [`TimeWindow`] is written: whole steps; of runs in a batch the part inside; of waits those that end there.
//! Text is taken as it grows ([`Timeline::take`]), and memory is that of the requests inside.
//!
//! Law: the same command gives the same bytes. Whether the simulation leaps or steps, and however often it pauses, the events are the
//! same, those of a track in the same order; only between steps and the rest the order of lines is that in which they are told.

mod events;
mod lanes;
mod leaving;
mod places;
mod step;
mod window;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub use window::TimeWindow;

use self::events::{Args, Events};
use self::lanes::Lanes;
use self::places::{Handed, Place, Run, Stay};
use crate::ids::{ReplicaId, RequestId};
use crate::sim::{Completion, Fact, Observer, Outcome, Steps};
use crate::units::Picos;
use crate::window::Window;

/// A replica, as a timeline names it.
#[derive(Clone, Debug)]
pub struct TimelineReplica {
    /// Its name.
    pub name: String,
    /// The name of its steps.
    pub steps: String,
    /// Its KV blocks.
    pub kv_blocks: u32,
    /// Tokens of each.
    pub block_size: u32,
    /// Its answers leave whole: nobody sees a first token before the last.
    pub answers_whole: bool,
}

/// How much of a run a timeline holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Steps that are written.
    pub steps: u64,
    /// Steps that do not lie in the window.
    pub left_out: u64,
    /// When the last of all steps ended.
    pub last_end: Picos,
}

/// The observer.
#[derive(Debug)]
pub struct Timeline {
    window: TimeWindow,
    events: Events,
    replicas: Vec<Lanes>,
    inside: Window<Stay>,
    /// Requests on their way into queues: when they get there.
    entries: BinaryHeap<Reverse<(Picos, RequestId)>>,
    /// Number of the next thread.
    next_tid: u32,
    /// The latest instant that was told.
    now: Picos,
    /// The window is over: nobody is followed any more.
    is_over: bool,
    held: Held,
}

impl Timeline {
    /// Of these replicas; `about` says what the run is of.
    #[must_use]
    pub fn new(replicas: &[TimelineReplica], about: &[(&str, String)], window: TimeWindow) -> Timeline {
        let about = about
            .iter()
            .fold(Args::default(), |args, (key, text)| args.saying(key, text));
        let about = about.saying("window", &window.to_string());
        let mut events = Events::about(&about);
        let all = replicas.len();
        let numbered = replicas.iter().enumerate();
        let replicas = numbered
            .map(|(index, replica)| Lanes::new(index, all, replica, &mut events))
            .collect();
        Timeline {
            window,
            events,
            replicas,
            inside: Window::default(),
            entries: BinaryHeap::new(),
            next_tid: u32::try_from(2 * all + 1).expect("replicas are numbered in 32 bits"),
            now: Picos::ZERO,
            is_over: false,
            held: Held::default(),
        }
    }

    /// Bytes of text that wait to be taken.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.events.len()
    }

    /// The text since the last time.
    #[must_use]
    pub fn take(&mut self) -> String {
        self.events.take()
    }

    /// Ends the file with the run, whose rest waits to be taken.
    pub fn finish(&mut self) -> Held {
        self.end_window(self.window.to.min(self.now.max(self.held.last_end)));
        self.events.close();
        self.held
    }

    /// Runs that go on at the end of the window, or of the simulation, are written until then.
    fn end_window(&mut self, end: Picos) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        self.let_in(end);
        for (id, stay) in std::mem::take(&mut self.inside).iter() {
            if let Place::Running(run) = stay.place {
                let how = Args::default().saying("ended_by", "the end of the timeline");
                self.write_run(id, stay, &run, end, &how);
            }
        }
        for lanes in &mut self.replicas {
            lanes.write_level(self.window, &mut self.events);
        }
    }

    fn steps(&mut self, steps: &Steps<'_>) {
        let lanes = &mut self.replicas[steps.replica.0 as usize];
        let used = lanes.used_blocks(steps);
        self.held.last_end = self.held.last_end.max(steps.end);
        let TimeWindow { from, to } = self.window;
        let mut written = 0;
        let mut begin = steps.begin;
        if steps.end > from && begin < to {
            let (name, category) = (step::name(steps.load), step::category(steps.load));
            for index in 0..steps.count {
                let end = begin + steps.duration + steps.duration_increment * index;
                if end > to {
                    break;
                }
                if begin >= from {
                    let used = used.filter(|_| index == 0);
                    if let Some(used) = used {
                        lanes.write_blocks(used, begin, &mut self.events);
                    }
                    let args = step::args(steps, index, used);
                    let span = (begin, end);
                    self.events.slice(lanes.steps, (&name, category), span, &args);
                    lanes.last_step = Some(span);
                    written += 1;
                }
                begin = end;
            }
        }
        self.held.steps += written;
        self.held.left_out += steps.count - written;
    }

    /// Whose entry into a queue has come counts there.
    fn let_in(&mut self, now: Picos) {
        while let Some(Reverse((entry, id))) = self.entries.peek().copied()
            && entry <= now
        {
            self.entries.pop();
            let Some(stay) = self.inside.get_mut(id) else {
                continue;
            };
            if let Place::Queue {
                replica, is_counted, ..
            } = &mut stay.place
                && stay.since == entry
                && !std::mem::replace(is_counted, true)
            {
                self.replicas[*replica].shift(entry, 0, 1, self.window, &mut self.events);
            }
        }
    }

    fn queue(
        &mut self,
        id: RequestId,
        stay: &mut Stay,
        replica: ReplicaId,
        (front, entry): (Picos, Picos),
        now: Picos,
    ) {
        let replica = replica.0 as usize;
        let is_counted = entry <= now;
        if is_counted {
            self.replicas[replica].shift(entry, 0, 1, self.window, &mut self.events);
        } else {
            self.entries.push(Reverse((entry, id)));
        }
        stay.since = entry;
        stay.place = Place::Queue {
            replica,
            front,
            is_counted,
            is_preempted: false,
        };
    }

    fn admit(
        &mut self,
        stay: &mut Stay,
        now: Picos,
        replica: ReplicaId,
        known_tokens: u32,
        cached_tokens: u32,
    ) {
        let replica = replica.0 as usize;
        let lanes = &mut self.replicas[replica];
        lanes.shift(now, 1, 0, self.window, &mut self.events);
        let handed = stay.handed.take();
        stay.since = now;
        stay.place = Place::Running(Run {
            replica,
            slot: lanes.take_slot(now),
            before_token: match (stay.has_token, handed) {
                (true, _) => "resume",
                (false, Some(_)) => "first decode",
                (false, None) if lanes.answers_whole => "until its answer",
                (false, None) => "prefill",
            },
            cached_tokens,
            known_tokens,
            token_at: None,
            token_step: None,
            handed,
        });
    }

    /// What befalls a request that is inside.
    fn befall(&mut self, id: RequestId, stay: &mut Stay, now: Picos, fact: &Fact<'_>) {
        let ended_by = |how: &str| Args::default().saying("ended_by", how);
        match *fact {
            Fact::Sent { replica, entry, .. } => {
                self.leave(id, stay, now, &Args::default());
                let front = match stay.place {
                    Place::FrontEnd { .. } => stay.since,
                    _ => now,
                };
                self.queue(id, stay, replica, (front, entry), now);
            }
            Fact::Admitted {
                replica,
                known_tokens,
                cached_tokens,
                ..
            } => {
                self.leave(id, stay, now, &Args::default());
                self.admit(stay, now, replica, known_tokens, cached_tokens);
            }
            Fact::Preempted {
                replica, lost_tokens, ..
            } => {
                self.leave(id, stay, now, &ended_by("preemption"));
                let args = Args::default().with("lost_tokens", lost_tokens);
                self.instant(id, Some(replica.0 as usize), "preempted", now, args);
                self.queue(id, stay, replica, (now, now), now);
                if let Place::Queue { is_preempted, .. } = &mut stay.place {
                    *is_preempted = true;
                }
            }
            Fact::HandedOver { from, to, .. } => {
                let whom = self.replicas[to.0 as usize].name.clone();
                self.leave(id, stay, now, &ended_by("handing over").saying("to", &whom));
                if let Place::Running(run) = stay.place {
                    stay.handed = Some(Handed {
                        replica: from.0 as usize,
                        slot: run.slot,
                        begin: stay.since,
                        end: now,
                    });
                }
                (stay.place, stay.since) = (Place::FrontEnd { from: None }, now);
            }
            Fact::Crossing { to, .. } => {
                self.leave(id, stay, now, &Args::default());
                let to = to.0 as usize;
                (stay.place, stay.since) = (Place::Crossing { to }, now);
            }
            Fact::Crossed { to, .. } => {
                self.leave(id, stay, now, &Args::default());
                self.queue(id, stay, to, (now, now), now);
            }
            Fact::FirstToken { replica, .. } => {
                stay.has_token = true;
                let last = self.replicas[replica.0 as usize].last_step;
                if let Place::Running(run) = &mut stay.place {
                    run.token_at = Some(now);
                    // A token that came with its KV from elsewhere is none of a step before.
                    run.token_step = last.filter(|(begin, end)| *begin >= stay.since && *end == now);
                }
            }
            Fact::Gap { .. } => {
                if let Place::Running(run) = &mut stay.place {
                    run.token_at.get_or_insert(now);
                }
            }
            Fact::Leaving { .. } => {
                self.leave(id, stay, now, &ended_by("its end"));
                let from = stay.place.replica();
                (stay.place, stay.since) = (Place::FrontEnd { from }, now);
            }
            Fact::Returned(part) => {
                self.leave(id, stay, now, &ended_by("failure"));
                let at = Some(part.replica.0 as usize);
                self.instant(id, at, "failed", now, Args::default());
                (stay.place, stay.since) = (Place::FrontEnd { from: None }, now);
                (stay.has_token, stay.handed) = (false, None);
            }
            _ => {}
        }
    }

    /// A request leaves the system.
    fn end(&mut self, id: RequestId, now: Picos, how: &str, story: Option<&Completion>) {
        let Some(stay) = self.inside.remove(id) else {
            return;
        };
        let mut args = Args::default().saying("ended_by", how);
        if let Some(story) = story {
            args = args.with("output_tokens", story.output_tokens);
        }
        self.leave(id, &stay, now, &args);
        if how != ANSWERED {
            self.instant(id, stay.place.replica(), how, now, Args::default());
        }
    }
}

/// How a request ends that has its answer.
const ANSWERED: &str = "its end";

impl Observer for Timeline {
    fn observe(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::Steps(steps) => return self.steps(steps),
            Fact::Transferred {
                now,
                from,
                to,
                id,
                bytes,
                asked,
            } => return self.transferred(from, to, id, bytes, (asked, now)),
            _ => {}
        }
        if self.is_over {
            return;
        }
        let Some((id, now)) = whom_and_when(fact) else {
            return;
        };
        if now > self.window.to {
            return self.end_window(self.window.to);
        }
        self.now = self.now.max(now);
        self.let_in(now);
        match *fact {
            Fact::Arrived { request } => {
                let stay = Stay {
                    arrival: request.arrival,
                    prompt_tokens: request.prompt_tokens,
                    place: Place::FrontEnd { from: None },
                    since: request.arrival,
                    has_token: false,
                    handed: None,
                };
                self.inside.insert(id, stay);
            }
            Fact::Rejected { .. } => self.end(id, now, "rejected", None),
            Fact::Ended(story) => {
                let how = match story.outcome {
                    Outcome::Completed => ANSWERED,
                    Outcome::TimedOut => "timed out",
                    Outcome::Rejected => "rejected",
                    Outcome::Failed => "failed",
                };
                self.end(id, now, how, Some(story));
            }
            _ => {
                let Some(mut stay) = self.inside.get_mut(id).copied() else {
                    return;
                };
                self.befall(id, &mut stay, now, fact);
                if let Some(kept) = self.inside.get_mut(id) {
                    *kept = stay;
                }
            }
        }
    }
}

/// Whom a fact about where requests are is about, and when it came about; `None` of others.
fn whom_and_when(fact: &Fact<'_>) -> Option<(RequestId, Picos)> {
    match *fact {
        Fact::Arrived { request } => Some((request.id, request.arrival)),
        Fact::Rejected { now, request, .. } => Some((request.id, now)),
        Fact::Ended(story) | Fact::Returned(story) => Some((story.id, story.end)),
        Fact::Sent { now, id, .. }
        | Fact::Admitted { now, id, .. }
        | Fact::Preempted { now, id, .. }
        | Fact::HandedOver { now, id, .. }
        | Fact::Crossing { now, id, .. }
        | Fact::Crossed { now, id, .. }
        | Fact::FirstToken { now, id, .. }
        | Fact::Gap { now, id, .. }
        | Fact::Leaving { now, id } => Some((id, now)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
