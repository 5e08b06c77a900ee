//! What a run measured, in the field's terms. Times in seconds; reports convert.

use super::Distribution;
use crate::cost::bounds::StepsBySize;
use crate::sim::Completion;

/// Everything measured over one stretch of simulated time.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Length of the stretch in seconds. For a whole run: start of sending to the last answer (B-11).
    pub duration_s: f64,
    /// Requests sent.
    pub sent: u64,
    /// Requests answered whole.
    pub completed: u64,
    /// Requests refused ([`Outcome::Rejected`](crate::facts::Outcome)).
    pub rejected: u64,
    /// Those of them that are longer than the server holds, which it refuses at any load.
    pub too_long: u64,
    /// Requests whose client gave up.
    pub timed_out: u64,
    /// Requests lost ([`Outcome::Failed`](crate::facts::Outcome)).
    pub failed: u64,
    /// Requests still inside at the end.
    pub inside: u64,
    /// Prompt tokens of completed requests.
    pub input_tokens: u64,
    /// Output tokens of completed requests.
    pub output_tokens: u64,
    /// Output tokens that these asked for: more, where the engine's context cut answers.
    pub asked_tokens: u64,
    /// Time to first token, per request.
    pub ttft: Distribution,
    /// Mean time per output token after the first, per request of more than one token.
    pub tpot: Distribution,
    /// Every gap between two tokens.
    pub itl: Distribution,
    /// Send to last token, per request.
    pub e2el: Distribution,
    /// Arrival to first scheduling, per request.
    pub queue_time: Distribution,
    /// Time in the client before sending, per request.
    pub client_queue_time: Distribution,
    /// Requests that met every goodput limit; `None` when no limit was set.
    pub good: Option<u64>,
    /// Time averages of the engines' state.
    pub occupancy: Occupancy,
    /// Work done, from which utilisation follows.
    pub work: WorkCounters,
    /// Preemptions.
    pub preemptions: u64,
    /// Prompt tokens looked up in the prefix cache and found there, at first admission.
    pub cache_queries_tokens: u64,
    /// See `cache_queries_tokens`.
    pub cache_hit_tokens: u64,
    /// Largest number of requests in flight.
    pub max_in_flight: u64,
    /// Most requests in flight at some time within one second, whoever ended in it among them (B-14); of a whole run.
    pub max_concurrent: u64,
    /// Most output tokens in any whole second (B-14).
    pub max_output_tokens_per_s: f64,
}

impl Summary {
    /// Requests that left, however.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.completed + self.lost()
    }

    /// Share of the output tokens asked for that the engine's context cut off: prompt and answer have `max_model_len` together
    /// (V1-61, SG-25).
    #[must_use]
    pub fn cut_share(&self) -> f64 {
        match self.asked_tokens.saturating_sub(self.output_tokens) {
            0 => 0.0,
            cut => cut as f64 / self.asked_tokens as f64,
        }
    }

    /// Share of the sampled rows whose token somebody got: of a closed batch `Σ O / (B · max O)` (ST-5).
    #[must_use]
    pub fn useful_rows(&self) -> Option<f64> {
        let rows = self.work.sampled_rows;
        (rows > 0).then(|| self.output_tokens as f64 / rows as f64)
    }

    /// Share of the prompt positions computed that are padding: of a closed batch `1 − Σ P / (B · max P)` (ST-5).
    #[must_use]
    pub fn prompt_padding(&self) -> Option<f64> {
        let positions = self.work.prefill_tokens;
        (positions > 0).then(|| 1.0 - self.input_tokens as f64 / positions as f64)
    }

    /// Requests that left without all their tokens: refused, given up or failed.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.rejected + self.timed_out + self.failed
    }
}

/// Time averages over a stretch, all replicas together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Occupancy {
    /// Requests sent and not ended, `L`: waiting, running, or with their answer on the way back from the engine.
    pub in_system: f64,
    /// Waiting sequences.
    pub waiting: f64,
    /// Running sequences.
    pub running: f64,
    /// Share of the KV blocks of all replicas in use.
    pub kv_usage: f64,
    /// Share of time in which a step runs.
    pub busy: f64,
    /// Largest share of its KV blocks that any one replica had in use.
    pub kv_usage_max: f64,
    /// Most running at once, on all replicas together.
    pub running_max: u32,
    /// Most waiting at once, on all replicas together.
    pub waiting_max: u32,
}

impl Occupancy {
    /// Requests whose answer is on the way from their engine to their client.
    #[must_use]
    pub fn handing_on(&self) -> f64 {
        (self.in_system - self.waiting - self.running).max(0.0)
    }

    /// Requests that nobody computes for: they wait, in front of an engine or behind it.
    #[must_use]
    pub fn aside(&self) -> f64 {
        (self.in_system - self.running).max(0.0)
    }
}

/// Sums over executed steps; FLOPs and bytes are linear in them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkCounters {
    /// Steps executed.
    pub steps: u64,
    /// Of them without any chunk.
    pub decode_only_steps: u64,
    /// Seconds in which a step ran.
    pub busy_s: f64,
    /// Tokens computed in chunks.
    pub prefill_tokens: u64,
    /// Of them computed again after preemptions.
    pub recomputed_tokens: u64,
    /// Tokens computed by decoding sequences.
    pub decode_tokens: u64,
    /// Of them drafts that were verified.
    pub draft_tokens: u64,
    /// Rows sampled.
    pub sampled_rows: u64,
    /// Σ decode KV tokens read.
    pub decode_kv_tokens: u128,
    /// Σ over chunks of `q·(2c + q + 1)`, twice the attended pairs.
    pub chunk_pairs_doubled: u128,
    /// Σ over chunks of `c + q`, KV tokens read.
    pub chunk_kv_tokens: u64,
    /// Steps by their number of tokens.
    pub by_size: StepsBySize,
}

impl WorkCounters {
    /// Shares of steps of sequences that decoded, whatever they brought to be verified.
    #[must_use]
    pub fn decodes(&self) -> u64 {
        self.decode_tokens - self.draft_tokens
    }

    /// Adds another's steps.
    pub fn add(&mut self, other: &WorkCounters) {
        self.steps += other.steps;
        self.decode_only_steps += other.decode_only_steps;
        self.busy_s += other.busy_s;
        self.prefill_tokens += other.prefill_tokens;
        self.recomputed_tokens += other.recomputed_tokens;
        self.decode_tokens += other.decode_tokens;
        self.draft_tokens += other.draft_tokens;
        self.sampled_rows += other.sampled_rows;
        self.decode_kv_tokens += other.decode_kv_tokens;
        self.chunk_pairs_doubled += other.chunk_pairs_doubled;
        self.chunk_kv_tokens += other.chunk_kv_tokens;
        self.by_size.merge(&other.by_size);
    }
}

/// Little's law from independent sums: the area under N(t) against Σ of sojourn times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LittleCheck {
    /// Time-average number inside, from the area under N(t).
    pub l: f64,
    /// Arrival rate, per second.
    pub lambda: f64,
    /// Mean sojourn, in seconds, from per-request times.
    pub w: f64,
}

impl LittleCheck {
    /// Adds another part of the same stretch of time: numbers and rates add up, sojourns weigh by their number.
    pub fn add(&mut self, other: &LittleCheck) {
        let lambda = self.lambda + other.lambda;
        if lambda > 0.0 {
            self.w = (self.w * self.lambda + other.w * other.lambda) / lambda;
        }
        self.l += other.l;
        self.lambda = lambda;
    }
}

/// Subsystems, each checked by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LittleAudit {
    /// Sent to ended.
    pub system: LittleCheck,
    /// Waiting queue (every visit counts).
    pub waiting: LittleCheck,
    /// Running batch (every visit counts).
    pub running: LittleCheck,
    /// With the front ends: on no replica, on the way to one, or on the way back; known where there are several replicas.
    /// The other two count the way in and between as waiting, the way back as neither.
    pub front_ends: Option<LittleCheck>,
}

/// One request of a run whose records were kept.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestRecord {
    /// The story.
    pub completion: Completion,
    /// Its class, from 0; 0 where there are none.
    pub class: u32,
    /// Its token gaps in seconds; filled only when asked for.
    pub itls_s: Vec<f64>,
}

/// A state at an instant, for charts over time. Bounded in number: neighbours are merged as a run grows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SeriesPoint {
    /// Middle of the interval in seconds.
    pub t_s: f64,
    /// Mean running sequences.
    pub running: f64,
    /// Mean waiting sequences.
    pub waiting: f64,
    /// Mean share of KV blocks in use.
    pub kv_usage: f64,
    /// Requests in the system: waiting, running, or with their answer on the way back from the engine.
    pub in_system: f64,
    /// Output tokens per second.
    pub output_tokens_per_s: f64,
    /// Requests that were sent per second.
    pub arrivals_per_s: f64,
    /// Mean of the gaps that ended in the interval, in seconds; `None` where none did.
    pub mean_itl_s: Option<f64>,
    /// The longest of them.
    pub max_itl_s: Option<f64>,
    /// How many they are.
    pub gaps: u64,
}

impl SeriesPoint {
    /// Requests that nobody computes for: they wait, in front of an engine or behind it.
    #[must_use]
    pub fn aside(&self) -> f64 {
        (self.in_system - self.running).max(0.0)
    }
}
