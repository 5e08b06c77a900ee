//! What is written of a request: its time at a place when it leaves there, and what happens at one instant.

use super::Timeline;
use super::events::{Args, Nanos, Track};
use super::places::{Place, Run, Stay};
use crate::ids::{ReplicaId, RequestId};
use crate::units::Picos;

impl Timeline {
    /// A request leaves the place where it is: what it did there is written.
    pub(super) fn leave(&mut self, id: RequestId, stay: &Stay, now: Picos, how: &Args) {
        match stay.place {
            Place::FrontEnd { from: None } => {}
            Place::FrontEnd { from: Some(from) } => self.span(id, from, "front end", (stay.since, now)),
            Place::Queue {
                replica,
                front,
                is_counted,
                is_preempted,
            } => {
                self.span(id, replica, "front end", (front, stay.since.min(now)));
                if is_counted {
                    let name = if is_preempted { "preempted" } else { "queued" };
                    self.span(id, replica, name, (stay.since, now));
                    self.replicas[replica].shift(now, 0, -1, self.window, &mut self.events);
                }
            }
            Place::Running(run) => {
                self.write_run(id, stay, &run, now, how);
                let lanes = &mut self.replicas[run.replica];
                lanes.free_slot(run.slot, now);
                lanes.shift(now, -1, 0, self.window, &mut self.events);
            }
            Place::Crossing { to } => self.span(id, to, "waits for KV", (stay.since, now)),
        }
    }

    /// A stretch of a request's time at a replica, if there is any.
    fn span(&mut self, id: RequestId, replica: usize, name: &str, whole: (Picos, Picos)) {
        if let Some(part) = self.window.part(whole).filter(|(begin, end)| begin < end) {
            let args = Args::default().with("request", id.0);
            self.events
                .span(self.replicas[replica].pid, id.0, name, part, &args);
        }
    }

    pub(super) fn write_run(&mut self, id: RequestId, stay: &Stay, run: &Run, end: Picos, how: &Args) {
        let Some((begin, end)) = self.window.part((stay.since, end)) else {
            return;
        };
        let track = self.replicas[run.replica].track(run.slot, &mut self.next_tid, &mut self.events);
        let args = Args::default()
            .with("request", id.0)
            .with("prompt_tokens", stay.prompt_tokens)
            .with("known_tokens", run.known_tokens)
            .with("cached_tokens", run.cached_tokens)
            .with("arrival_s", stay.arrival.seconds())
            .with("admitted_s", stay.since.seconds());
        let name = format!("request {}", id.0);
        self.events.begin(track, (&name, "request"), begin, &args);
        // A token at the start of the window is one before it.
        let token_at = run.token_at.map_or(end, |at| at.clamp(begin, end));
        let none = Args::default();
        if begin < token_at || end == begin {
            self.events
                .begin(track, (run.before_token, "phase"), begin, &none);
            self.flow_from(run, begin, track);
            self.events.end(track, token_at, &none);
        } else {
            self.flow_from(run, begin, track);
        }
        if token_at < end {
            self.events.begin(track, ("decode", "phase"), token_at, &none);
            self.events.end(track, end, &none);
        }
        self.events.end(track, end, how);
    }

    /// Arrows that begin or end where a run that is being written begins.
    fn flow_from(&mut self, run: &Run, begin: Picos, track: Track) {
        if let Some(handed) = run.handed
            && let Some((first, last)) = self.window.part((handed.begin, handed.end))
        {
            let before =
                self.replicas[handed.replica].track(handed.slot, &mut self.next_tid, &mut self.events);
            let from = (before, Nanos::last_of(first, last));
            self.events.flow("handed over", from, (track, Nanos::of(begin)));
        }
        if let Some((first, last)) = run.token_step {
            let steps = self.replicas[run.replica].steps;
            let to = (steps, Nanos::last_of(first, last));
            self.events.flow("first token", (track, Nanos::of(begin)), to);
        }
    }

    /// What befalls a request at one instant, at a replica or, before it is sent to one, at none.
    pub(super) fn instant(
        &mut self,
        id: RequestId,
        replica: Option<usize>,
        name: &str,
        now: Picos,
        args: Args,
    ) {
        let scope = if replica.is_some() { 'p' } else { 'g' };
        if let Some(lanes) = self.replicas.get(replica.unwrap_or(0))
            && self.window.part((now, now)).is_some()
        {
            let args = args.with("request", id.0);
            self.events.instant((lanes.steps, scope), name, now, &args);
        }
    }

    /// Bytes that went from one replica to another.
    pub(super) fn transferred(
        &mut self,
        from: ReplicaId,
        to: ReplicaId,
        id: RequestId,
        bytes: u64,
        whole: (Picos, Picos),
    ) {
        let Some(part) = self.window.part(whole).filter(|(begin, end)| begin < end) else {
            return;
        };
        let args = Args::default()
            .with("request", id.0)
            .with("bytes", bytes)
            .saying("from", &self.replicas[from.0 as usize].name);
        let number = self.events.number();
        let pid = self.replicas[to.0 as usize].pid;
        self.events.span(pid, number, "KV transfer", part, &args);
    }
}
