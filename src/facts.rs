//! The one stream of facts that a simulation tells, and the trait of those who listen.
//!
//! Observers cannot influence a run. Metrics, per-request records, timelines and audits are all observers.

mod tiers;

pub use tiers::{KvTier, TierAccount, TierTraffic};

use crate::cost::StepLoad;
use crate::ids::{ReplicaId, RequestId};
use crate::units::Picos;
use crate::workload::Request;

/// Something that listens.
pub trait Observer {
    /// Called for every fact: what befalls requests in order of time, steps in order of time within a replica. A run of
    /// steps is told when it is over, before any token or end that its steps bring about, but perhaps after arrivals and
    /// admissions meanwhile.
    fn observe(&mut self, fact: &Fact<'_>);
}

impl<O: Observer + ?Sized> Observer for &mut O {
    fn observe(&mut self, fact: &Fact<'_>) {
        (**self).observe(fact);
    }
}

/// What can be told.
#[derive(Debug)]
pub enum Fact<'a> {
    /// A client sent a request (at `request.arrival`).
    Arrived {
        /// The request.
        request: &'a Request,
    },
    /// It was refused ([`Outcome::Rejected`]).
    Rejected {
        /// When.
        now: Picos,
        /// Which.
        request: &'a Request,
        /// Why.
        why: Rejection,
    },
    /// A request was sent on to a replica, whose queue it reaches when the front end is done with it.
    Sent {
        /// When.
        now: Picos,
        /// Where.
        replica: ReplicaId,
        /// Which.
        id: RequestId,
        /// When the engine has it, unless it leaves before.
        entry: Picos,
    },
    /// It got its first tokens of compute: waiting → running. Told again when it resumes after a preemption.
    Admitted {
        /// When the step was scheduled.
        now: Picos,
        /// Where.
        replica: ReplicaId,
        /// Which.
        id: RequestId,
        /// Since when it had been waiting (arrival or preemption).
        waiting_since: Picos,
        /// Since when it had been waiting in this replica's queue: front ends are not part of it.
        queued_since: Picos,
        /// Prompt (or known) tokens of the sequence, and how many of them were found in the prefix cache.
        known_tokens: u32,
        /// Prefix-cache hit.
        cached_tokens: u32,
        /// It had been preempted before.
        resumed: bool,
    },
    /// Told after [`Fact::Admitted`] by a replica that can be given KV from outside.
    Loaded {
        /// When the step was scheduled; a load aside was complete before, another one is part of the step.
        now: Picos,
        /// Where.
        replica: ReplicaId,
        /// Which.
        id: RequestId,
        /// Prefix-cache hit.
        cached_tokens: u32,
        /// Tokens behind it that it need not compute, perhaps none.
        tokens: u32,
    },
    /// It lost its blocks and waits again.
    Preempted {
        /// When.
        now: Picos,
        /// Where.
        replica: ReplicaId,
        /// Which.
        id: RequestId,
        /// Since when it had been running.
        running_since: Picos,
        /// Tokens whose KV is thrown away.
        lost_tokens: u32,
    },
    /// Drafts of it were verified; the tokens that came of them are told beside.
    Verified {
        /// When.
        now: Picos,
        /// Which.
        id: RequestId,
        /// Draft tokens that were verified.
        drafts: u32,
        /// How many of them, the first ones, stand.
        accepted: u32,
    },
    /// Its prefill is over on one replica, and it waits to be decoded on another: running → waiting. It is then told as
    /// admitted, and resumed, on the other.
    HandedOver {
        /// When.
        now: Picos,
        /// The replica that prefilled.
        from: ReplicaId,
        /// The replica that will decode.
        to: ReplicaId,
        /// Which.
        id: RequestId,
        /// Since when it had been running.
        running_since: Picos,
    },
    /// Whoever waits on no replica's account waits from now on for its KV to cross to the replica that will decode.
    Crossing {
        /// When.
        now: Picos,
        /// The replica that will decode.
        to: ReplicaId,
        /// Which.
        id: RequestId,
    },
    /// That wait is over, with its KV or without: it waits in the queue of the replica that will decode.
    Crossed {
        /// When.
        now: Picos,
        /// The replica that will decode.
        to: ReplicaId,
        /// Which.
        id: RequestId,
        /// Since when it waited for its KV.
        since: Picos,
    },
    /// KV of a request has crossed from one replica to another, in one message of perhaps several.
    Transferred {
        /// When the last byte was there.
        now: Picos,
        /// Sender.
        from: ReplicaId,
        /// Receiver.
        to: ReplicaId,
        /// Whose.
        id: RequestId,
        /// How much.
        bytes: u64,
        /// When it could have begun.
        asked: Picos,
    },
    /// A prefill replica has let go of a request's KV.
    Released {
        /// When.
        now: Picos,
        /// Where.
        replica: ReplicaId,
        /// Whose.
        id: RequestId,
        /// Since when it was kept only for its transfer.
        since: Picos,
        /// How many blocks.
        blocks: u32,
    },
    /// Told before [`Fact::FirstToken`] of a request that was prefilled on another replica.
    Relayed(&'a Relay),
    /// What links between replicas have carried so far; told whenever a run pauses.
    Links {
        /// Up to when.
        now: Picos,
        /// Every replica's.
        uses: &'a [LinkUse],
    },
    /// One step, or a run of identical decode steps, was executed.
    Steps(&'a Steps<'a>),
    /// A sequence emitted its first token at `now`, the end of a step; what the front end adds is not in it.
    FirstToken {
        /// When.
        now: Picos,
        /// Where.
        replica: ReplicaId,
        /// Which.
        id: RequestId,
        /// When it was sent.
        arrival: Picos,
    },
    /// A gap between two tokens of one sequence that is not the common one of [`Steps`]: after a preemption, or when
    /// the token budget passed it over.
    Gap {
        /// When the later token came.
        now: Picos,
        /// Where.
        replica: ReplicaId,
        /// Which.
        id: RequestId,
        /// How long, between the ends of the two steps.
        gap: Picos,
        /// How long its client waited: another time where the front end was not equally busy at both.
        seen: Picos,
    },
    /// More tokens reach a client in one piece with the one told last: nobody sees a gap between them. An answer that
    /// leaves whole is told so.
    Burst {
        /// When.
        now: Picos,
        /// Which.
        id: RequestId,
        /// How many more.
        tokens: u32,
    },
    /// The replica that a request was on failed, and it will be sent again: it waits, as it did before it was taken in.
    /// The completion is that replica's part of its story.
    Returned(&'a Completion),
    /// An answer left its engine and is on its way: its client has it, and it is told as [`Fact::Ended`], when the front end's
    /// delay is over. Told only where there is such a delay.
    Leaving {
        /// When.
        now: Picos,
        /// Whose.
        id: RequestId,
    },
    /// A request left the system.
    Ended(&'a Completion),
    /// What a replica has moved to and from its tiers of KV since the start; told again with larger figures.
    Tiers {
        /// Whose.
        replica: ReplicaId,
        /// The account.
        account: &'a TierAccount,
    },
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The server holds no request as long as that, whatever the load: 400.
    TooLong,
    /// A server, a gateway or its queue was full, or no replica was up: 503.
    Unavailable,
    /// It was above a limit of rates: 429.
    RateLimited,
}

/// A step, or `count` steps of the same batch, each one KV token per sequence longer than the one before.
///
/// Step `i` (from 0) lasts `duration + i·duration_increment` and ends that much after step `i − 1` ends; only the
/// first may have started after an idle time, so its token gap is `gap` and may exceed its duration.
#[derive(Clone, Copy, Debug)]
pub struct Steps<'a> {
    /// Where.
    pub replica: ReplicaId,
    /// When the first began on the GPU.
    pub begin: Picos,
    /// When the last ended.
    pub end: Picos,
    /// How many.
    pub count: u64,
    /// Duration of the first.
    pub duration: Picos,
    /// What each lasts longer than the one before.
    pub duration_increment: Picos,
    /// Sequences that emit a token in each of these steps and had the one before together: they share the gap.
    pub gap_seqs: u32,
    /// Their gap in the first step: end of this step minus end of the one that brought the token before; as clients see it, unless
    /// [`Steps::seen`] says that.
    pub gap: Picos,
    /// Sequences that are handed something at the end of each step: those, and whoever has a gap of its own or a first token.
    pub handed: u32,
    /// Their gaps as clients see them, where a front end that has fallen behind makes those of later steps others, too.
    pub seen: Option<&'a SeenGaps>,
    /// What the first step computes. In step `i` `decode_kv_tokens` is larger by `i·decode_seqs`.
    pub load: &'a StepLoad,
    /// Tokens computed again because of preemptions, within the load.
    pub recomputed_tokens: u64,
    /// `running` after scheduling.
    pub running: u32,
    /// `waiting` after scheduling.
    pub waiting: u32,
    /// Free KV blocks after scheduling the first, the null block left out.
    pub free_blocks: u32,
    /// Free KV blocks while the first runs: fewer than [`Steps::free_blocks`] by what the step took that was scheduled meanwhile,
    /// more by what those gave back who ended before it began.
    pub free_meanwhile: u32,
    /// Token slots in those blocks that each takes more than the one before: one for a sequence, or more where groups of
    /// layers have blocks of their own.
    pub kv_slots: u32,
}

/// The gaps of a run of steps as clients see them. A front end that has fallen behind hands tokens on `each` apart until it has
/// caught up; from then on they are as far apart as their steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenGaps {
    /// That of the first step.
    pub first: Picos,
    /// Steps behind the first whose tokens are handed on as soon as those before are.
    pub behind: u64,
    /// The gap of each of them.
    pub each: Picos,
    /// That of the step after them, if the run has one.
    pub caught_up: Picos,
}

impl Steps<'_> {
    /// The same with what it borrows at another place.
    #[inline(always)]
    #[must_use]
    pub fn at<'b>(&self, load: &'b StepLoad, seen: Option<&'b SeenGaps>) -> Steps<'b> {
        Steps { load, seen, ..*self }
    }
}

/// How a request got from its arrival over two replicas to its first token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relay {
    /// Which.
    pub id: RequestId,
    /// When it was sent.
    pub arrival: Picos,
    /// How long it waited for its prefill, of the time before that was over.
    pub waited: Picos,
    /// When its prefill was over.
    pub prefilled: Picos,
    /// When the decode engine had it.
    pub known: Picos,
    /// When the decode replica took memory for it; before the prefill in SGLang, after it in vLLM.
    pub reserved: Picos,
    /// When all of its KV was there.
    pub arrived: Picos,
    /// When it began to run on the decode replica.
    pub joined: Picos,
    /// When its first token came.
    pub first_token: Picos,
    /// KV bytes that crossed for it.
    pub bytes: u64,
}

/// A replica's link, both ways, from the start of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkUse {
    /// Whose.
    pub replica: ReplicaId,
    /// It prefills; the others decode.
    pub prefills: bool,
    /// Bandwidth outwards.
    pub send_bytes_per_s: u64,
    /// Bandwidth inwards.
    pub receive_bytes_per_s: u64,
    /// What went out.
    pub sent: LinkTally,
    /// What came in.
    pub received: LinkTally,
}

/// What one direction of one link did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkTally {
    /// Bytes of the transfers that are over.
    pub bytes: u64,
    /// How many those were.
    pub transfers: u64,
    /// Time in which at least one transfer flowed.
    pub busy: Picos,
    /// Σ of the times that the transfers flowed, in picoseconds: `λW` of Little's law.
    pub flowed: u128,
    /// ∫ number of flowing transfers, in picoseconds, from the instants of its changes: `L`.
    pub area: i128,
    /// Transfers that were asked for.
    pub asked: u64,
    /// ∫ number of transfers that were asked for and are not over, their latency included, from the instants of its changes.
    pub in_flight: i128,
    /// Of that, Σ of the times of transfers of which nobody is told: they were given up, or are under way.
    pub untold: u128,
}

/// A request's whole story, told when it leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which.
    pub id: RequestId,
    /// Where it ran.
    pub replica: ReplicaId,
    /// Why it left.
    pub outcome: Outcome,
    /// When it was sent.
    pub arrival: Picos,
    /// Time in the client before that.
    pub client_queue_time: Picos,
    /// When it was first scheduled; the arrival if never.
    pub first_scheduled: Picos,
    /// When the client had its first token; `None` if it never did.
    pub first_token: Option<Picos>,
    /// When the client had its last token, or it gave up.
    pub end: Picos,
    /// Prompt tokens.
    pub prompt_tokens: u32,
    /// Tokens delivered.
    pub output_tokens: u32,
    /// Prompt tokens found in the prefix cache at first admission.
    pub cached_tokens: u32,
    /// How often it was preempted.
    pub preemptions: u32,
    /// Sum of the time spent waiting for admission, resumptions included.
    pub waiting_time: Picos,
}

/// Why a request left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// All its tokens were delivered (also when `max_model_len` cut it).
    Completed,
    /// The client gave up.
    TimedOut,
    /// It was refused: by a full server, gateway or queue, or for want of a replica that is up (503); above a limit of rates (429); because it
    /// could never be served; or SGLang aborted it, since alone it did not fit its KV pool (SG-33).
    Rejected,
    /// It was lost with the replica that it was on, with the transfer of its KV, or for want of a decode replica.
    Failed,
}
