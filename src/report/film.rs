//! The first requests of a run, as a page can play them: where each is when, and what the steps meanwhile compute.
//!
//! Times are seconds of the simulated clock. Requests, waits and steps are columns, so that a browser reads them fast. A film ends with the run, or when
//! it is full: when one request more arrives than it holds, or there are more rows of steps than it holds. What comes later is not in it.
//! First token and end are those of the engine: what a front end does with tokens is not shown.

use std::collections::HashMap;

use serde::Serialize;

use crate::ids::RequestId;
use crate::sim::{Fact, Observer, Outcome, Steps};
use crate::units::Picos;

/// A replica, as a film names it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FilmReplica {
    /// Its name.
    pub name: String,
    /// `serves`, `prefills` or `decodes`.
    pub role: &'static str,
    /// Its KV blocks.
    pub kv_blocks: u32,
    /// Tokens of each.
    pub block_size: u32,
    /// Most running sequences.
    pub max_num_seqs: u32,
    /// Most prompt tokens of a step.
    pub max_num_batched_tokens: u32,
}

/// What is filmed.
#[derive(Debug, Serialize)]
pub struct Film {
    /// The end, in seconds.
    pub until: f64,
    /// Nobody arrives after that, in seconds; the film shows how those inside leave.
    pub last_arrival: f64,
    /// Who serves.
    pub replicas: Vec<FilmReplica>,
    /// In order of arrival.
    pub requests: Requests,
    /// Every stretch of waiting in a queue or for KV.
    pub waits: Stretches,
    /// Every stretch in a batch.
    pub stays: Stretches,
    /// In order of time within a replica.
    pub steps: Rows,
}

/// A row is a request. Instants that did not come before the end are null.
#[derive(Debug, Default, Serialize)]
pub struct Requests {
    /// Its client sent it.
    pub arrival: Vec<f64>,
    /// The engine had it.
    pub queued: Vec<Option<f64>>,
    /// It got its first tokens of compute.
    pub admitted: Vec<Option<f64>>,
    /// Its first token was made.
    pub first_token: Vec<Option<f64>>,
    /// It left.
    pub end: Vec<Option<f64>>,
    /// Tokens of its prompt.
    pub prompt: Vec<u32>,
    /// Tokens of its answer, once that has left.
    pub output: Vec<Option<u32>>,
    /// Tokens of its prompt that were found in the prefix cache.
    pub cached: Vec<u32>,
    /// How often it lost its blocks.
    pub preemptions: Vec<u32>,
    /// Where it ran last.
    pub replica: Vec<Option<u32>>,
    /// `completed`, `timed out`, `refused` or `failed`.
    pub fate: Vec<Option<&'static str>>,
}

/// A row is a stretch of a request's time, in order of their beginnings as they were told.
#[derive(Debug, Default, Serialize)]
pub struct Stretches {
    /// Whose: a row of [`Requests`].
    pub request: Vec<usize>,
    /// Where: a place in [`Film::replicas`]; `None` between two.
    pub replica: Vec<Option<u32>>,
    /// Since when.
    pub from: Vec<f64>,
    /// Until when, if it ended.
    pub to: Vec<Option<f64>>,
}

/// A row is a step, or several alike but for contexts that grow.
#[derive(Debug, Default, Serialize)]
pub struct Rows {
    /// Where: a place in [`Film::replicas`].
    pub replica: Vec<u32>,
    /// When the first began.
    pub begin: Vec<f64>,
    /// When the last ended.
    pub end: Vec<f64>,
    /// How many.
    pub count: Vec<u64>,
    /// Prompt tokens of the first.
    pub prefill_tokens: Vec<u64>,
    /// Prompts that those are of.
    pub prefills: Vec<usize>,
    /// Sequences that decode.
    pub decodes: Vec<u32>,
    /// Requests in the batch.
    pub running: Vec<u32>,
    /// Requests in the queue.
    pub waiting: Vec<u32>,
    /// KV blocks in use.
    pub kv_used: Vec<u32>,
}

/// A request that is followed.
#[derive(Clone, Debug)]
struct Followed {
    arrival: Picos,
    queued: Option<Picos>,
    admitted: Option<Picos>,
    first_token: Option<Picos>,
    end: Option<Picos>,
    prompt: u32,
    output: Option<u32>,
    cached: u32,
    preemptions: u32,
    replica: Option<u32>,
    fate: Option<&'static str>,
    /// The wait, or the stay in a batch, that it is in.
    wait: Option<usize>,
    stay: Option<usize>,
}

/// A stretch of a request's time.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    request: usize,
    replica: Option<u32>,
    from: Picos,
    to: Option<Picos>,
}

/// The observer.
#[derive(Debug)]
pub struct Filming {
    replicas: Vec<FilmReplica>,
    most_requests: usize,
    most_rows: usize,
    requests: Vec<Followed>,
    by_id: HashMap<RequestId, usize>,
    waits: Vec<Stretch>,
    stays: Vec<Stretch>,
    rows: Vec<(Picos, Picos)>,
    told: Rows,
    /// The film is full from then on.
    full: Option<Picos>,
}

impl Filming {
    /// Of these replicas, of so many requests and rows of steps at most.
    #[must_use]
    pub fn new(replicas: Vec<FilmReplica>, most_requests: usize, most_rows: usize) -> Filming {
        Filming {
            replicas,
            most_requests,
            most_rows,
            requests: Vec::new(),
            by_id: HashMap::new(),
            waits: Vec::new(),
            stays: Vec::new(),
            rows: Vec::new(),
            told: Rows::default(),
            full: None,
        }
    }

    /// The film of a run that ended then.
    #[must_use]
    pub fn finish(self, end: Picos) -> Film {
        let until = self.full.unwrap_or(end);
        let within = |instant: Option<Picos>| instant.filter(|at| *at <= until).map(Picos::seconds);
        let mut requests = Requests::default();
        // Who came after the film was full by its steps has no place in it.
        let shown = self.requests.partition_point(|request| request.arrival <= until);
        for request in &self.requests[..shown] {
            requests.arrival.push(request.arrival.seconds());
            requests.queued.push(within(request.queued));
            requests.admitted.push(within(request.admitted));
            requests.first_token.push(within(request.first_token));
            requests.end.push(within(request.end));
            requests.prompt.push(request.prompt);
            let has_left = within(request.end).is_some();
            requests.output.push(request.output.filter(|_| has_left));
            requests.cached.push(request.cached);
            requests.preemptions.push(request.preemptions);
            requests.replica.push(request.replica);
            requests.fate.push(request.fate.filter(|_| has_left));
        }
        let columns = |stretches: &[Stretch]| {
            let mut columns = Stretches::default();
            let is_shown = |one: &&Stretch| one.request < shown && one.from <= until;
            for one in stretches.iter().filter(is_shown) {
                columns.request.push(one.request);
                columns.replica.push(one.replica);
                columns.from.push(one.from.seconds());
                columns.to.push(within(one.to));
            }
            columns
        };
        let (waits, stays) = (columns(&self.waits), columns(&self.stays));
        let mut steps = self.told;
        steps.begin = self.rows.iter().map(|(begin, _)| begin.seconds()).collect();
        steps.end = self.rows.iter().map(|(_, end)| end.seconds()).collect();
        Film {
            until: until.seconds(),
            last_arrival: requests.arrival.last().copied().unwrap_or_default(),
            replicas: self.replicas,
            requests,
            waits,
            stays,
            steps,
        }
    }

    fn steps(&mut self, steps: &Steps<'_>) {
        if self.full.is_some_and(|full| steps.begin > full) {
            return;
        }
        if self.rows.len() == self.most_rows {
            self.full = Some(self.full.map_or(steps.begin, |full| full.min(steps.begin)));
            return;
        }
        let room = &self.replicas[steps.replica.0 as usize];
        let rows = &mut self.told;
        rows.replica.push(steps.replica.0);
        rows.count.push(steps.count);
        let chunks = &steps.load.chunks;
        rows.prefill_tokens
            .push(chunks.iter().map(|chunk| u64::from(chunk.new)).sum());
        rows.prefills.push(chunks.len());
        rows.decodes.push(steps.load.decode_seqs);
        rows.running.push(steps.running);
        rows.waiting.push(steps.waiting);
        rows.kv_used
            .push(room.kv_blocks.saturating_sub(steps.free_meanwhile));
        self.rows.push((steps.begin, steps.end));
    }

    fn arrive(&mut self, id: RequestId, arrival: Picos, prompt: u32) {
        if self.full.is_some() {
            return;
        }
        if self.requests.len() == self.most_requests {
            self.full = Some(arrival);
            return;
        }
        self.by_id.insert(id, self.requests.len());
        self.requests.push(Followed {
            arrival,
            queued: None,
            admitted: None,
            first_token: None,
            end: None,
            prompt,
            output: None,
            cached: 0,
            preemptions: 0,
            replica: None,
            fate: None,
            wait: None,
            stay: None,
        });
    }

    /// Whatever it was in before ends.
    fn begin_wait(&mut self, row: usize, from: Picos, replica: Option<u32>) {
        self.end(row, from);
        self.requests[row].wait = Some(self.waits.len());
        self.waits.push(Stretch {
            request: row,
            replica,
            from,
            to: None,
        });
    }

    fn begin_stay(&mut self, row: usize, from: Picos, replica: u32) {
        self.end(row, from);
        self.requests[row].stay = Some(self.stays.len());
        self.requests[row].replica = Some(replica);
        self.stays.push(Stretch {
            request: row,
            replica: Some(replica),
            from,
            to: None,
        });
    }

    /// Who leaves before the queue has it did not wait there.
    fn end(&mut self, row: usize, to: Picos) {
        let request = &mut self.requests[row];
        let wait = request.wait.take().map(|wait| &mut self.waits[wait]);
        let stay = request.stay.take().map(|stay| &mut self.stays[stay]);
        for stretch in [wait, stay].into_iter().flatten() {
            stretch.to = Some(to.max(stretch.from));
        }
    }

    fn leave(&mut self, row: usize, now: Picos) {
        self.end(row, now);
        let request = &mut self.requests[row];
        request.end = Some(request.end.unwrap_or(now));
    }

    fn befall(&mut self, row: usize, fact: &Fact<'_>) {
        match *fact {
            Fact::Sent { entry, replica, .. } => {
                self.requests[row].queued.get_or_insert(entry);
                self.begin_wait(row, entry, Some(replica.0));
            }
            Fact::Admitted {
                now,
                replica,
                cached_tokens,
                ..
            } => {
                self.begin_stay(row, now, replica.0);
                let request = &mut self.requests[row];
                if request.admitted.is_none() {
                    request.admitted = Some(now);
                    request.cached = cached_tokens;
                }
            }
            Fact::Preempted { now, replica, .. } => {
                self.requests[row].preemptions += 1;
                self.begin_wait(row, now, Some(replica.0));
            }
            Fact::HandedOver { now, .. } => self.begin_wait(row, now, None),
            Fact::Crossing { now, to, .. } => self.begin_wait(row, now, Some(to.0)),
            Fact::Returned(part) => self.begin_wait(row, part.end, None),
            Fact::FirstToken { now, .. } => {
                self.requests[row].first_token.get_or_insert(now);
            }
            Fact::Leaving { now, .. } => self.leave(row, now),
            Fact::Rejected { now, .. } => {
                self.leave(row, now);
                self.requests[row].fate = Some("refused");
            }
            Fact::Ended(story) => {
                self.leave(row, story.end);
                let request = &mut self.requests[row];
                request.output = Some(story.output_tokens);
                request.fate = Some(match story.outcome {
                    Outcome::Completed => "completed",
                    Outcome::TimedOut => "timed out",
                    Outcome::Rejected => "refused",
                    Outcome::Failed => "failed",
                });
            }
            _ => {}
        }
    }
}

/// Whom a fact that a film shows is about.
fn whom(fact: &Fact<'_>) -> Option<RequestId> {
    match *fact {
        Fact::Rejected { request, .. } => Some(request.id),
        Fact::Ended(story) | Fact::Returned(story) => Some(story.id),
        Fact::Sent { id, .. }
        | Fact::Admitted { id, .. }
        | Fact::Preempted { id, .. }
        | Fact::HandedOver { id, .. }
        | Fact::Crossing { id, .. }
        | Fact::FirstToken { id, .. }
        | Fact::Leaving { id, .. } => Some(id),
        _ => None,
    }
}

impl Observer for Filming {
    fn observe(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::Steps(steps) => self.steps(steps),
            Fact::Arrived { request } => self.arrive(request.id, request.arrival, request.prompt_tokens),
            _ => {
                if let Some(row) = whom(fact).and_then(|id| self.by_id.get(&id).copied()) {
                    self.befall(row, fact);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
