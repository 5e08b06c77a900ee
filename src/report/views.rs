//! What reports need beside a [`RunResult`](crate::analysis::RunResult): who was simulated, and what was assumed.
//!
//! Plain data, filled by the shell from the resolved scenario; nothing here is computed.

use jiff::civil::DateTime;

use crate::analysis::costs::Rent;
use crate::analysis::knee::{ClientLimit, Count, Demand, Fleet, Sending, WhenFull};
use crate::analysis::textbook::Foretold;
use crate::analysis::{Estimate, Verdict};
use crate::calibrate::interval::{FigureInterval, ModelInterval};
use crate::cluster::LockStepAccount;
use crate::cost::Trust;
use crate::metrics::WaitReport;
use crate::report::First;

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
    pub closed_form: Option<Foretold>,
    /// How much of the machine was used.
    pub utilisation: Option<Utilisation>,
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

/// A search for the highest rate within the objectives, ready to be drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct KneeView {
    /// What was simulated: `Llama-3.1-8B-Instruct on H100-SXM-80GB`.
    pub subject: String,
    /// What the scenario is called, where it is a file or ships.
    pub scenario: Option<String>,
    /// Seed of every random stream.
    pub seed: u64,
    /// Simulated rates, ascending.
    pub points: Vec<KneePoint>,
    /// Highest rate that meets the objectives, requests per second; `None` where none does.
    pub knee: Option<Estimate>,
    /// Rate above which requests pile up without bound, waiting or in the batch, requests per second.
    pub saturation: Option<Estimate>,
    /// What the server does once it is full, where that is less than what it takes while it keeps up.
    pub when_full: Option<WhenFull>,
    /// What the clients push at most, where that is less than what the server takes: neither of the above is the server's then.
    pub client: Option<ClientLimit>,
    /// Requests that the client has in flight at most.
    pub max_concurrency: Option<u32>,
    /// The objectives.
    pub limits: Vec<Limit>,
    /// The classes of requests, each of which must keep its own. Empty without any.
    pub classes: Vec<ClassPromise>,
    /// Limits on percentiles and means.
    pub promises: Vec<Promise>,
    /// Share of requests that must meet them, in 0..=1.
    pub attainment: f64,
    /// Ctrl-C ended the search: more rates would have been tried.
    pub is_interrupted: bool,
    /// It ended what follows from the search, which is whole: how far the model may be off, or how many replicas a rate needs.
    pub is_cut_after: bool,
    /// All rates were looked at with one traffic of a given span, sped up and slowed down: intervals are those of the search, and
    /// say nothing of another such traffic.
    pub is_of_one_traffic: bool,
    /// What binds first at the knee, as a phrase: `TTFT p99 reaching 490 ms of 500 ms: …`.
    pub limited_by: Option<String>,
    /// What breaks first, for programs, and in a word or two.
    pub breaks_first: First,
    /// The resource that is pressed the hardest at the knee, as files spell it.
    pub hardest_pressed: Option<&'static str>,
    /// Prompt tokens per second at the knee, those that are answered beside its rate with them.
    pub prompt_tokens_per_s: Option<f64>,
    /// Output tokens per second at the knee, those that are answered beside its rate with them.
    pub output_tokens_per_s: Option<f64>,
    /// Share of the output tokens asked for that the engine's context cuts off there; 0 without such a rate.
    pub answers_cut: f64,
    /// Share of the requests that the server refuses there because they are longer than it holds.
    pub too_long: f64,
    /// How long the requests are sent for there, where the load has an end.
    pub sending: Option<Sending>,
    /// The same at the rate that replicas were counted for.
    pub sending_counted: Option<Sending>,
    /// How well each component of the step time is known.
    pub trust: Vec<(String, Trust)>,
    /// Defaults and substitutions, as sentences.
    pub assumptions: Vec<String>,
    /// How far the knee may be off because the step time's parameters are; `None` where it was not asked for.
    pub model: Option<FigureInterval>,
    /// Why that is not told, where there is a knee and it cannot be.
    pub model_unknown: Option<String>,
    /// Lowest rate that was to be looked at, where one was given.
    pub min_rate: Option<f64>,
    /// What else must be known of the search, as sentences.
    pub notes: Vec<String>,
    /// What was given and has no effect, as sentences.
    pub ignored: Vec<String>,
    /// First part of a saved result's name, where one was given.
    pub label: Option<String>,
    /// Pairs kept in the JSON.
    pub metadata: Vec<(String, String)>,
    /// What has no rate and is sent beside every rate: `8 of loop in flight`. Empty where all have one.
    pub beside: Vec<String>,
    /// How many replicas a rate needs, where that was asked.
    pub sizing: Option<Sizing>,
    /// What the pools cost, or why that is not known; `None` where it is not told.
    pub rent: Option<Result<Rent, String>>,
}

impl KneeView {
    /// The rate that saturation lies below, where no lower one was seen to be stable: what was served there is no bracket.
    #[must_use]
    pub fn saturates_below(&self) -> Option<f64> {
        let open = self.saturation.filter(|estimate| estimate.low <= 0.0);
        open.map(|estimate| estimate.high)
    }

    /// The rate that the clients push at most, where the SLO is met up to there and the server's knee was not seen.
    #[must_use]
    pub fn only_client(&self) -> Option<Estimate> {
        self.client
            .filter(|client| client.is_within)
            .map(|client| client.rate)
    }

    /// Whether what was asked for is kept: at some rate, or by some number of replicas.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        match &self.sizing {
            Some(sizing) => sizing.fleet.is_some(),
            None => self.knee.is_some() || self.only_client().is_some(),
        }
    }

    /// How long the requests are sent for that an answer is about: those of the rate that replicas were counted for, or of the knee.
    #[must_use]
    pub fn served(&self) -> Option<Sending> {
        match self.sizing.as_ref().and_then(|sizing| sizing.counted.as_ref()) {
            Some(Counted::BySimulation { .. }) => self.sending_counted,
            Some(Counted::ByKnee(_)) | None => self.sending,
        }
    }

    /// Above which not all that is offered is served, be it the server's saturation or the client's plateau.
    #[must_use]
    pub fn ceiling(&self) -> Option<Estimate> {
        self.saturation.or(self.client.map(|client| client.rate))
    }

    /// What the intervals of the knee and of saturation hold for.
    #[must_use]
    pub fn certainty(&self) -> &'static str {
        match self.is_of_one_traffic {
            true => "in this traffic",
            false => "95 %",
        }
    }
}

/// How many replicas a rate needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizing {
    /// What was asked.
    pub demand: Demand,
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

/// What becomes of a class at one rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassTails {
    /// 99th percentile of its TTFT in seconds.
    pub p99_ttft_s: Option<f64>,
    /// 99th percentile of its TPOT in seconds.
    pub p99_tpot_s: Option<f64>,
}

/// One simulated rate of a knee search.
#[derive(Clone, Debug, PartialEq)]
pub struct KneePoint {
    /// Offered load in requests per second.
    pub request_rate: f64,
    /// What its figures are worth.
    pub verdict: Verdict,
    /// Requests simulated.
    pub requests: u64,
    /// What waits for a place waits at the client, and hardly anybody in the server.
    pub is_held_by_client: bool,
    /// Mean wait at the client in seconds, which is in no latency; `None` where nobody waits there.
    pub client_queue_s: Option<f64>,
    /// Of each class, the 99th percentiles of TTFT and TPOT over the whole run, in seconds. Empty without classes, or where no
    /// steady state exists.
    pub by_class: Vec<ClassTails>,
    /// Share of requests within all limits, in 0..=1.
    pub attainment: Option<f64>,
    /// Time to first token; `None` where no steady state exists.
    pub ttft: Option<Quantiles>,
    /// 95 % interval of its 99th percentile, seconds.
    pub p99_ttft: Option<Estimate>,
    /// Mean time per output token of a request.
    pub tpot: Option<Quantiles>,
    /// Gaps between tokens.
    pub itl: Option<Quantiles>,
    /// Send to last token.
    pub e2el: Option<Quantiles>,
    /// Requests completed per second; at overload what the system can do.
    pub request_throughput: Option<Estimate>,
    /// Output tokens per second.
    pub output_throughput: Option<f64>,
    /// Mean running sequences.
    pub running: Option<f64>,
    /// Mean waiting sequences.
    pub waiting: Option<f64>,
    /// Mean share of KV blocks in use, in 0..=1.
    pub kv_usage: Option<f64>,
    /// Growth of the number in the system, requests per second.
    pub growth_per_s: f64,
    /// Share of requests that the server refused, in 0..=1.
    pub refused: f64,
    /// Share of requests that their clients gave up, in 0..=1.
    pub given_up: f64,
    /// Share of requests that were lost with the replica they were on, in 0..=1.
    pub failed: f64,
    /// Too many refused or given up for the rate to count as served.
    pub is_losing: bool,
}

impl KneePoint {
    /// Whether the rate cannot be told from one that overloads the system: its latencies are then what they are at least.
    #[must_use]
    pub fn may_be_past_saturation(&self) -> bool {
        self.p99_ttft.is_some_and(|known| known.high.is_infinite())
    }
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
