//! What reports need beside a [`RunResult`](crate::analysis::RunResult): who was simulated, and what was assumed.
//!
//! Plain data, filled by the shell from the resolved scenario; nothing here is computed.

mod knee;

pub(super) use self::knee::ClassTails;
pub use self::knee::{KneePoint, KneeView};

use jiff::civil::DateTime;

use crate::analysis::Verdict;
use crate::analysis::closed_form::ClosedForm;
use crate::analysis::costs::Rent;
use crate::analysis::knee::{Count, Demand, Fleet, Loop};
use crate::calibrate::interval::ModelInterval;
use crate::cluster::LockStepAccount;
use crate::cost::Trust;
use crate::metrics::{Anatomies, WaitReport};

/// How far a run came that was stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// Requests that had ended.
    pub ended: u64,
    /// Requests asked for; `None` where the length was chosen automatically.
    pub asked: Option<u64>,
}

/// What a result says about its own making.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultMeta {
    /// When it was made: the one field that is not a function of scenario and seed.
    pub date: DateTime,
    /// The client's `backend` and `endpoint_type`; the engine that it is pointed at where no client was named.
    pub backend: String,
    /// The model as a client names it, where that is another name.
    pub asked_for: Option<String>,
    /// `--label`.
    pub label: Option<String>,
    /// `meta-llama/Llama-3.1-8B-Instruct`.
    pub model_id: String,
    /// How its weights are stored, `bfloat16` or `fp8`; `None` where pools store them differently.
    pub precision: Option<String>,
    /// `H100-SXM-80GB`.
    pub gpu: String,
    /// GPUs that one replica uses.
    pub gpus_per_replica: u32,
    /// Stages of a pipeline among which they are divided; 1 is none.
    pub stages: u32,
    /// Engine instances.
    pub replicas: u32,
    /// The pools that a scenario names, in its order; what stands beside this describes the first. Empty without any.
    pub pools: Vec<PoolMeta>,
    /// The classes of requests and what is promised to each. Empty without any.
    pub classes: Vec<ClassPromise>,
    /// Share of requests that must be good, of each class where there are any, in 0..=1.
    pub attainment: f64,
    /// Whether all that is promised is kept; `None` where nothing is, or the run is too short to say.
    pub slo_kept: Option<bool>,
    /// Whether the intervals leave no doubt of that; `None` where nothing is promised.
    pub slo_decided: Option<bool>,
    /// Limits on percentiles and means.
    pub promises: Vec<Promise>,
    /// What ended it before its traffic did: `livelock`, `overfull` or `clock`.
    pub ended_by: Option<&'static str>,
    /// Requests that were turned away, by reason, and how often one was sent again; those that are not 0.
    pub gate: Vec<(String, u64)>,
    /// What replicas that came and went amounted to.
    pub scaling: Option<ScalingMeta>,
    /// What stepping together cost ranks that do.
    pub lock_step: Option<LockStepAccount>,
    /// What the GPUs cost, those of replicas that come and go on average, or why that is not known.
    pub rent: Result<Rent, String>,
    /// The router between replicas, as a scenario spells it; `None` for one replica.
    pub router: Option<String>,
    /// `vllm@0.33`.
    pub engine: String,
    /// Name of the calibration; `None` is datasheet ceilings alone.
    pub calibration: Option<String>,
    /// Requests asked for; `None` where the length was chosen automatically.
    pub num_prompts: Option<u64>,
    /// How long requests are sent, in seconds, where that is what was asked for.
    pub sending_s: Option<f64>,
    /// Requests per second; infinite when all are sent at once, and where no rate is given. Of several clients it is
    /// the sum of their rates or, where one of these is not sent nearly all the time, what all sent over the time in which any did.
    pub request_rate: f64,
    /// Clients that send side by side, each in its own way: 1 where there is one workload.
    pub clients: u32,
    /// Who sends a request only once an answer is there; `None` where nobody does.
    pub turns: Option<super::Turns>,
    /// The load in words where it is no rate: `with 200 users`.
    pub load: Option<String>,
    /// Shape of the gamma law of gaps; 1 is Poisson.
    pub burstiness: f64,
    /// The client's limit of requests in flight.
    pub max_concurrency: Option<u32>,
    /// A rate that changes over the run.
    pub ramp_up: Option<RampUp>,
    /// `--metadata KEY=VALUE`.
    pub metadata: Vec<(String, String)>,
    /// Percentiles to write, in 0..=100, ascending.
    pub percentiles: Vec<f64>,
    /// Metrics to write percentiles of, `ttft`.
    pub metrics: Vec<String>,
    /// Where Ctrl-C ended the run; `None` where nothing did.
    pub interrupted: Option<Interrupted>,
    /// `--goodput` limits; all must hold for a request to be good.
    pub goodput: Vec<Limit>,
    /// Seed of every random stream.
    pub seed: u64,
    /// Version of this program.
    pub version: String,
    /// How well each component of the step time is known.
    pub trust: Vec<(String, Trust)>,
    /// How far the figures may be off because the step time's parameters are; `None` where it was not asked for.
    pub model_interval: Option<ModelInterval>,
    /// Defaults and substitutions that the user did not write, as sentences.
    pub assumptions: Vec<String>,
    /// Flags that were accepted and have no effect, with the reason.
    pub ignored: Vec<String>,
    /// What else must be said beside the result: substitutions, consequences, who was turned away.
    pub notes: Vec<String>,
    /// Every setting of the scenario that a figure depends on, under its key path.
    pub settings: Vec<(String, String)>,
    /// What the closed form says of it, where it is a queue that has one.
    pub closed_form: Option<ClosedForm>,
    /// How much of the machine was used.
    pub utilisation: Option<Utilisation>,
    /// What times to first token and per output token are made of, where that was watched.
    pub anatomy: Option<Anatomies>,
    /// Who waited for whom, where that was watched.
    pub waits: Option<WaitReport>,
    /// Tokens whose cached KV was evicted, over the whole run; `None` where nothing is cached.
    pub evicted_tokens: Option<u64>,
}

/// A class of requests and what is promised to it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassPromise {
    /// What the scenario calls it.
    pub name: String,
    /// Requests per second that are offered of it; `None` where it has no rate: a closed loop, or all at once.
    pub request_rate: Option<f64>,
    /// Limits that a good request of it meets all of; empty where nothing is promised to it.
    pub limits: Vec<Limit>,
}

/// What replicas that came and went amounted to.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingMeta {
    /// Hours that replicas were paid for.
    pub replica_hours: f64,
    /// Hours that their GPUs were.
    pub gpu_hours: f64,
    /// Their list price; `None` where a GPU has none.
    pub usd: Option<f64>,
    /// How often a replica was started.
    pub started: u64,
    /// How often a start was cancelled before the replica served.
    pub cancelled: u64,
    /// How often one was drained.
    pub drained: u64,
    /// Replicas that were paid for on average.
    pub replicas_mean: f64,
}

/// What a pool is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolMeta {
    /// What the scenario calls it.
    pub name: String,
    /// Engine instances.
    pub replicas: u32,
    /// GPUs that one replica uses.
    pub gpus_per_replica: u32,
    /// `H100-SXM-80GB`.
    pub gpu: String,
    /// `meta-llama/Llama-3.1-8B-Instruct`.
    pub model_id: String,
    /// `vllm@0.33`.
    pub engine: String,
    /// Name of the calibration.
    pub calibration: String,
    /// How much of its machines was used while its steps ran, over the whole run; `None` where none ran.
    pub utilisation: Option<Utilisation>,
}

/// `--ramp-up-strategy` and its ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RampUp {
    /// Exponential rather than linear.
    pub exponential: bool,
    /// Requests per second at the first request.
    pub start_rps: f64,
    /// Requests per second at the last.
    pub end_rps: f64,
}

/// A latency objective.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// `ttft`, `tpot`, `itl` or `e2el`.
    pub metric: String,
    /// The largest good value in seconds.
    pub limit_s: f64,
}

/// A limit on a percentile or the mean of a latency over requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Promise {
    /// `ttft`, `tpot`, `itl` or `e2el`.
    pub metric: String,
    /// Which one, in (0, 100); `None` is the mean.
    pub percentile: Option<f64>,
    /// The largest good value in seconds.
    pub limit_s: f64,
}

/// Work done per second over what the device offers, while steps run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Utilisation {
    /// Model FLOP utilisation: useful FLOP/s over the dense peak, in 0..=1 of the time in which steps ran.
    pub mfu: f64,
    /// Bytes moved per second over the peak bandwidth, in 0..=1 of the same time.
    pub memory_bandwidth: f64,
    /// Time in which steps ran, of all replicas, over the time that all of them were there, in 0..=1.
    pub busy: f64,
    /// Mean time per output token were memory bandwidth the only limit, in seconds: a decode step's over what it brings a sequence.
    pub bandwidth_bound_tpot_s: f64,
}

impl Utilisation {
    /// [`Utilisation::mfu`] over all the time, steps or none.
    #[must_use]
    pub fn wall_clock_mfu(&self) -> f64 {
        self.mfu * self.busy
    }

    /// [`Utilisation::memory_bandwidth`] over all the time, steps or none.
    #[must_use]
    pub fn wall_clock_memory_bandwidth(&self) -> f64 {
        self.memory_bandwidth * self.busy
    }
}

/// How many replicas a rate needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizing {
    /// What was asked; of a closed loop the rate that it sends at.
    pub demand: Demand,
    /// The closed loop that they are counted for, if it is one.
    pub of_loop: Option<Loop>,
    /// Replicas beyond those that carry it.
    pub spares: u64,
    /// One GPU, `H100-SXM-80GB`.
    pub gpu: String,
    /// Where the price of a GPU is from, as a phrase.
    pub price_source: Option<String>,
    /// Requests come in bursts, or more at one time than at another, which replicas behind one router share.
    pub is_bursty: bool,
    /// What has no rate and is sent beside it: `8 of loop in flight`. Empty where all have one.
    pub beside: Vec<String>,
    /// How they were counted; `None` where they were not, because the search was stopped or no number would help.
    pub counted: Option<Counted>,
    /// The answer; `None` where they were not counted, or the count found no number.
    pub fleet: Option<Fleet>,
}

impl Sizing {
    /// Whether the replicas that were counted share bursts, of which the one whose knee was searched has its own.
    pub(super) fn shares_bursts(&self) -> bool {
        self.is_bursty && matches!(self.counted, Some(Counted::BySimulation { .. }))
    }
}

/// How replicas were counted.
#[derive(Clone, Debug, PartialEq)]
pub enum Counted {
    /// As many as the rate over the knee of one makes, for this reason.
    ByKnee(String),
    /// By simulating so many on all of the traffic.
    BySimulation {
        /// What stood before them; `None` of one alone.
        router: Option<String>,
        /// What became of each number.
        count: Count,
    },
}

/// Two quantiles in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantiles {
    /// Median.
    pub p50_s: f64,
    /// 99th percentile.
    pub p99_s: f64,
}

/// The word for a verdict, as JSON and CSV write it.
#[must_use]
pub fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Stable => "stable",
        Verdict::Critical => "critical",
        Verdict::Unstable => "unstable",
        Verdict::TooShort => "too_short",
        Verdict::Finite => "finite",
    }
}
