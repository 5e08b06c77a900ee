//! What befalls a request inside an engine: when it waits, runs and has its tokens.
//!
//! The one place where the engines' sequences become facts. Whatever changes a story is told, so each change gives the
//! [`Fact`] that tells it, and when the request leaves the story becomes its [`Completion`]. Law: the time waited is the
//! sum of what [`Fact::Admitted`] tells of it. A request that goes over two replicas has a story on each, and one of its own
//! that follows both.

use crate::facts::{Completion, Fact, Outcome};
use crate::ids::{ReplicaId, RequestId};
use crate::units::Picos;
use crate::workload::Request;

/// Finds the gap that is told with a step, of all who share it: that of the larger of two groups, who had a token at the
/// end of the step before (`last_end`), and who had one in the decode before (`last_decode`) and were kept waiting by
/// prefills since. How many they are, and when they had it. Of the second group `packed` are not among the samplers.
pub(crate) fn common_gap<'a>(
    samplers: impl Iterator<Item = &'a Story>,
    packed: u32,
    last_end: Picos,
    last_decode: Picos,
) -> (u32, Picos) {
    let (mut from_last, mut from_decode) = (0, packed);
    if last_end == last_decode {
        from_last = packed;
    }
    for story in samplers {
        from_last += u32::from(story.had_token_at(last_end));
        from_decode += u32::from(story.had_token_at(last_decode));
    }
    if from_decode > from_last {
        (from_decode, last_decode)
    } else {
        (from_last, last_end)
    }
}

/// A gap of one sequence alone; what its client sees of it is the front end's to say.
pub(crate) fn gap(now: Picos, replica: ReplicaId, id: RequestId, gap: Picos) -> Fact<'static> {
    Fact::Gap {
        now,
        replica,
        id,
        gap,
        seen: gap,
    }
}

/// A request's story on one replica so far.
#[derive(Debug, Default)]
pub(crate) struct Story {
    /// Since when it waits, as its client sees it, if it does.
    waiting_since: Picos,
    /// Since when it waits in this replica's queue, if it does.
    queued_since: Picos,
    /// Since when it runs, if it does.
    running_since: Picos,
    waited: Picos,
    first_scheduled: Option<Picos>,
    first_token: Option<Picos>,
    /// When its last token came. Stale while it is told of a whole batch that its members have had theirs.
    last_token: Picos,
    /// Found in the prefix cache when it was first admitted.
    cached_tokens: u32,
    preemptions: u32,
    /// Tokens below this were computed before and lost.
    recompute_until: u32,
}

impl Story {
    /// A request has come: it waits.
    pub(crate) fn new(request: &Request) -> Story {
        Story {
            waiting_since: request.arrival,
            queued_since: request.arrival,
            running_since: Picos::ZERO,
            waited: Picos::ZERO,
            first_scheduled: None,
            first_token: None,
            last_token: Picos::ZERO,
            cached_tokens: 0,
            preemptions: 0,
            recompute_until: 0,
        }
    }

    /// It has reached the replica's queue.
    #[inline]
    pub(crate) fn enter(&mut self, now: Picos) {
        self.queued_since = now;
    }

    /// Since when it waits in this replica's queue, if it does.
    #[inline]
    pub(crate) fn queued_since(&self) -> Picos {
        self.queued_since
    }

    /// How long it waited before it was last admitted, all waits together.
    #[inline]
    pub(crate) fn waited(&self) -> Picos {
        self.waited
    }

    /// It has run before: it waits, if it does, because it was preempted.
    #[inline]
    pub(crate) fn has_run(&self) -> bool {
        self.first_scheduled.is_some()
    }

    /// Its client has a token.
    #[inline]
    pub(crate) fn has_token(&self) -> bool {
        self.first_token.is_some()
    }

    /// Its client had its last token so far at `at`.
    #[inline]
    pub(crate) fn had_token_at(&self, at: Picos) -> bool {
        self.has_token() && self.last_token == at
    }

    /// Of tokens `from..to`, how many were computed before and lost.
    #[inline]
    pub(crate) fn recomputed(&self, from: u32, to: u32) -> u64 {
        u64::from(self.recompute_until.min(to).saturating_sub(from))
    }

    /// It runs, knowing `known_tokens` tokens, of which `cached_tokens` were found in the prefix cache.
    #[inline]
    pub(crate) fn admit(
        &mut self,
        request: &Request,
        replica: ReplicaId,
        now: Picos,
        known_tokens: u32,
        cached_tokens: u32,
    ) -> Fact<'static> {
        let resumed = self.has_run();
        if !resumed {
            self.first_scheduled = Some(now);
            self.cached_tokens = cached_tokens;
        }
        self.waited += now - self.waiting_since;
        self.running_since = now;
        Fact::Admitted {
            now,
            replica,
            id: request.id,
            waiting_since: self.waiting_since,
            queued_since: self.queued_since,
            known_tokens,
            cached_tokens,
            resumed,
        }
    }

    /// It waits again, and the KV of its first `lost_tokens` tokens is thrown away.
    pub(crate) fn preempt(
        &mut self,
        request: &Request,
        replica: ReplicaId,
        now: Picos,
        lost_tokens: u32,
    ) -> Fact<'static> {
        (self.waiting_since, self.queued_since) = (now, now);
        self.preemptions += 1;
        self.recompute_until = self.recompute_until.max(lost_tokens);
        Fact::Preempted {
            now,
            replica,
            id: request.id,
            running_since: self.running_since,
            lost_tokens,
        }
    }

    /// It is done on the replica `from` and waits for the replica `to`, which will go on with it.
    pub(crate) fn hand_over(
        &mut self,
        request: &Request,
        from: ReplicaId,
        to: ReplicaId,
        now: Picos,
    ) -> Fact<'static> {
        (self.waiting_since, self.queued_since) = (now, now);
        Fact::HandedOver {
            now,
            from,
            to,
            id: request.id,
            running_since: self.running_since,
        }
    }

    /// Its client has a token. Nothing is told of one that the client has waited for since `common`: that gap is told
    /// with the step, of all who share it.
    #[inline]
    pub(crate) fn have_token(
        &mut self,
        request: &Request,
        replica: ReplicaId,
        now: Picos,
        common: Option<Picos>,
    ) -> Option<Fact<'static>> {
        let before = std::mem::replace(&mut self.last_token, now);
        let (id, arrival) = (request.id, request.arrival);
        if self.first_token.is_none() {
            self.first_token = Some(now);
            return Some(Fact::FirstToken {
                now,
                replica,
                id,
                arrival,
            });
        }
        (common != Some(before)).then(|| gap(now, replica, id, now - before))
    }

    /// Its client had its last token so far at `at`, as was told of the whole batch.
    #[inline]
    pub(crate) fn note_token_at(&mut self, at: Picos) {
        self.last_token = at;
    }

    /// The whole of it, when the request leaves with `output_tokens` tokens.
    #[inline]
    pub(crate) fn end(
        &self,
        request: &Request,
        replica: ReplicaId,
        now: Picos,
        outcome: Outcome,
        output_tokens: u32,
    ) -> Completion {
        Completion {
            id: request.id,
            replica,
            outcome,
            arrival: request.arrival,
            client_queue_time: request.client_queue_time,
            first_scheduled: self.first_scheduled.unwrap_or(request.arrival),
            first_token: self.first_token,
            end: now,
            prompt_tokens: request.prompt_tokens,
            output_tokens,
            cached_tokens: self.cached_tokens,
            preemptions: self.preemptions,
            waiting_time: self.waited,
        }
    }
}
