//! What it is served on: machines, replicas, the router between them, and when replicas come and go.

use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RawEngine, RawLink, RawModel, RawSglang, RawTrtllm};
use crate::config::scalar::{Count, Duration};

/// What it is served on.
#[derive(Args, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawCluster {
    /// GPU id, `H100-SXM-80GB` (`plimsoll hw`; any shortening by whole parts), or the path of a hardware profile.
    #[arg(long, value_name = "GPU", help_heading = "Machines")]
    pub gpu: Option<String>,
    /// US dollars per GPU-hour, in place of the list price of the GPU's profile.
    #[arg(
        long,
        value_name = "USD",
        help_heading = "Machines",
        allow_negative_numbers = true
    )]
    pub price: Option<f64>,
    /// PCIe cards are joined in pairs by NVLink bridges; groups of more than two cross PCIe all the same.
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Machines"
    )]
    pub nvlink_bridge: Option<bool>,
    /// Calibration of the step time: the name of a shipped one, or a path; default the best for this GPU and engine.
    #[arg(long, value_name = "NAME", help_heading = "Machines")]
    pub calibration: Option<String>,
    /// An ideal server, for laws of queueing: how long a step lasts whatever the GPU, `100ms`, or `6ms + 20us/token + 1.5ns/pair`
    /// for each step, each token in it and each pair of a token and one that it attends to. Front ends take no time then.
    #[arg(long, value_name = "LAW", help_heading = "Machines")]
    pub step_time: Option<String>,
    /// How steps scatter around their cost, `cv=0.05,stall-rate=0.1,stall=20ms`: coefficient of variation, pauses a second
    /// and how long each is; or `calibrated`, as `plimsoll calibrate` found it. Off if not given, and slower, since steps
    /// are taken one by one.
    #[arg(long, value_name = "LAW", help_heading = "Machines")]
    pub step_jitter: Option<String>,
    /// GPUs that share every layer of one replica (-tp).
    #[arg(long, value_name = "N", help_heading = "Machines")]
    pub tensor_parallel_size: Option<Count>,
    /// Stages that a replica's layers are split into (-pp); vLLM's.
    #[arg(long, value_name = "N", help_heading = "Machines")]
    pub pipeline_parallel_size: Option<Count>,
    /// What is between two stages: nvlink, pcie (as the GPU's profile has them), pcie3 to pcie6, ib-100 to ib-800, eth-10 to
    /// eth-800, or a bandwidth of each GPU, one direction, `25GB/s`; default NVLink or PCIe inside a node, else ib-400.
    #[arg(long, value_name = "LINK", help_heading = "Machines")]
    pub stage_link: Option<String>,
    /// From the end of a stage to the first byte on the next one; default 10 µs inside a node, 30 µs over a network.
    #[arg(long, value_name = "TIME", help_heading = "Machines")]
    pub stage_link_latency: Option<Duration>,
    /// Data-parallel engines inside one server, balanced as it does (-dp); with experts those of vLLM step together.
    #[arg(long, value_name = "N", help_heading = "Machines")]
    pub data_parallel_size: Option<Count>,
    /// GPUs hold experts whole, each some of them, not a slice of all (-ep): those of an engine, or of all data-parallel ones.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Machines")]
    pub enable_expert_parallel: Option<bool>,
    /// Groups that experts are dealt out to whole, of the GPUs that share a layer (--ep-size): SGLang's and TensorRT-LLM's.
    #[arg(long, value_name = "N", help_heading = "Machines")]
    pub expert_parallel_size: Option<Count>,
    /// Steps between two agreements of data-parallel engines with experts on whether anybody has work left.
    #[arg(long, value_name = "N", help_heading = "Machines")]
    pub dp_sync_interval: Option<Count>,
    /// Engine instances behind a router.
    #[arg(long, value_name = "N", help_heading = "Cluster")]
    pub replicas: Option<Count>,
    /// Who gets a request.
    #[arg(long, value_name = "POLICY", help_heading = "Cluster")]
    pub router: Option<RawRouter>,
    /// cache_aware: share of a prompt that must match for the match to decide.
    #[arg(
        long,
        value_name = "FRACTION",
        help_heading = "Cluster",
        allow_negative_numbers = true
    )]
    pub cache_threshold: Option<f64>,
    /// cache_aware: loads are out of balance if they differ by more requests …
    #[arg(long, value_name = "N", help_heading = "Cluster")]
    pub balance_abs_threshold: Option<Count>,
    /// cache_aware: … and by more than this factor.
    #[arg(
        long,
        value_name = "FACTOR",
        help_heading = "Cluster",
        allow_negative_numbers = true
    )]
    pub balance_rel_threshold: Option<f64>,
    /// kv_events: what a prompt token to compute weighs against a block that decodes.
    #[arg(
        long,
        value_name = "WEIGHT",
        help_heading = "Cluster",
        allow_negative_numbers = true
    )]
    pub overlap_weight: Option<f64>,
    /// kv_events: engines tell the router what they cache and evict; false has it go by what it sent where.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Cluster")]
    pub use_kv_events: Option<bool>,
    /// kv_events: from a change in an engine's cache to the router's knowing it; default 5 ms.
    #[arg(long, value_name = "TIME", help_heading = "Cluster")]
    pub kv_event_latency: Option<Duration>,
    /// kv_events without events: how long what was sent to a replica counts as cached there; default 120 s.
    #[arg(long, value_name = "TIME", help_heading = "Cluster")]
    pub router_ttl: Option<Duration>,
    /// Mean time between a replica's start and its failure (MTBF); both means or neither.
    #[arg(long, value_name = "TIME", help_heading = "Cluster")]
    pub mean_time_between_failures: Option<Duration>,
    /// Mean time until a failed replica serves again (MTTR), its start included.
    #[arg(long, value_name = "TIME", help_heading = "Cluster")]
    pub mean_time_to_recovery: Option<Duration>,
    /// What happens to replicas at given times; at one time in this order.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<RawReplicaEvent>,
    /// Pools of unlike replicas; each is a server of its own, and what it leaves out is that of the scenario.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<RawPool>,
    /// Most requests behind the gateway at once, and how they wait for a place.
    #[arg(skip)]
    #[serde(skip_serializing_if = "RawAdmission::is_default")]
    pub admission: RawAdmission,
    /// Limits on the rate of all requests or of a class; what is above them is refused (429).
    #[arg(skip)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rate_limits: Vec<RawRateLimit>,
    /// Requests that are sent again; default none is.
    #[arg(skip)]
    pub retries: Option<RawRetries>,
    /// Replicas that come and go with the load; of pools each by itself. Default all are there all the time.
    #[arg(skip)]
    pub autoscale: Option<RawAutoscale>,
    /// The pool that only prefills; short for one of the pools with that role.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill: Option<RawPool>,
    /// The pool that only decodes; short for one of the pools with that role.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode: Option<RawPool>,
    /// What KV crosses from prefill to decode, and how.
    #[arg(skip)]
    #[serde(skip_serializing_if = "is_unset")]
    pub link: RawLink,
}

impl RawCluster {
    /// Keys by which replicas come and go, and whether they are given.
    pub(in crate::config) fn comings_and_goings(&self) -> [(&'static str, bool); 3] {
        [
            ("cluster.events", !self.events.is_empty()),
            ("cluster.autoscale", self.autoscale.is_some()),
            (
                "cluster.mean_time_between_failures",
                self.mean_time_between_failures.is_some(),
            ),
        ]
    }
}

/// Replicas that come and go with the load; `replicas` are there at first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawAutoscale {
    /// Fewest replicas; default 1.
    pub min_replicas: Option<Count>,
    /// Most replicas.
    pub max_replicas: Option<Count>,
    /// What is looked at; default in_flight.
    pub signal: Option<RawSignal>,
    /// The signal's value for each replica that is aimed at.
    pub target: Option<f64>,
    /// Time between two looks; default 15 s.
    pub interval: Option<Duration>,
    /// From the start of a replica until it serves; default 60 s.
    pub startup_delay: Option<Duration>,
    /// How long fewer must be enough before any is given back; default 300 s.
    pub scale_in_delay: Option<Duration>,
}

/// What an autoscaler looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RawSignal {
    /// Requests in flight.
    InFlight,
    /// Requests that wait in the engines.
    Waiting,
    /// Shares of KV blocks in use, between 0 and 1.
    KvUsage,
}

/// Most requests behind the gateway at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawAdmission {
    /// Most requests in flight on all servers; default no limit.
    pub max_in_flight: Option<Count>,
    /// Requests that wait for a place, first come, first served; what is beyond is refused (503). Default none waits.
    pub max_queue: Option<Count>,
    /// Longest wait; then it is refused (503). Default for ever.
    pub queue_timeout: Option<Duration>,
}

impl RawAdmission {
    fn is_default(&self) -> bool {
        *self == RawAdmission::default()
    }
}

/// A token bucket for requests, one for tokens, or both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawRateLimit {
    /// Name of the class that it limits; default all requests together.
    pub class: Option<String>,
    /// Requests per second.
    pub requests_per_second: Option<f64>,
    /// Requests that may come at once; default those of a second.
    pub burst: Option<f64>,
    /// Tokens per second: prompt and max_tokens of each request, taken when it comes.
    pub tokens_per_second: Option<f64>,
    /// Tokens that may come at once; default those of a second.
    pub token_burst: Option<f64>,
}

/// Requests that are sent again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawRetries {
    /// Most times that one request is sent again.
    pub max_retries: Option<Count>,
    /// Wait before the first time; each further one waits twice as long. Default 100 ms.
    pub backoff: Option<Duration>,
    /// After the replica that it was on failed; default true.
    pub on_failure: Option<bool>,
    /// After a 429 or a 503, of a server or of the gateway, or while no replica is up; default true.
    pub on_refusal: Option<bool>,
}

fn is_unset(link: &RawLink) -> bool {
    *link == RawLink::default()
}

/// Replicas that are alike: a server's tables, of which those given here replace the scenario's own key by key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawPool {
    /// What results call it.
    pub name: Option<String>,
    /// Engine instances; default 1.
    pub replicas: Option<Count>,
    /// What its replicas do of a request; default both.
    pub role: Option<RawRole>,
    /// GPU id, or the path of a hardware profile.
    pub gpu: Option<String>,
    /// Calibration of the step time: the name of a shipped one, or a path.
    pub calibration: Option<String>,
    /// GPUs that share every layer of one replica.
    pub tensor_parallel_size: Option<Count>,
    /// Stages that a replica's layers are split into.
    pub pipeline_parallel_size: Option<Count>,
    /// What is between two stages.
    pub stage_link: Option<String>,
    /// From the end of a stage to the first byte on the next one.
    pub stage_link_latency: Option<Duration>,
    /// Who gets a request of this pool's.
    pub router: Option<RawRouter>,
    /// It gets prompts of at least so many tokens; default any.
    pub min_prompt_tokens: Option<Count>,
    /// It gets prompts of at most so many tokens; default any.
    pub max_prompt_tokens: Option<Count>,
    /// Replicas that come and go with the load of this pool.
    pub autoscale: Option<RawAutoscale>,
    /// What is served.
    pub model: RawModel,
    /// Which engine serves, and how vLLM is configured.
    pub engine: RawEngine,
    /// How SGLang is configured.
    pub sglang: RawSglang,
    /// How TensorRT-LLM is configured.
    pub trtllm: RawTrtllm,
}

/// What a replica does of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RawRole {
    /// Prompt and answer.
    Both,
    /// Prompts only.
    Prefill,
    /// Answers only.
    Decode,
}

/// Who gets a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake")]
pub enum RawRouter {
    /// In turn.
    #[value(alias = "round-robin")]
    RoundRobin,
    /// Uniformly at random.
    Random,
    /// Fewest requests in flight.
    #[value(alias = "least-requests")]
    LeastRequests,
    /// Fewest tokens in flight, prompt plus max_tokens.
    #[value(alias = "least-tokens")]
    LeastTokens,
    /// The less loaded of two random replicas.
    #[value(alias = "power-of-two")]
    PowerOfTwo,
    /// A conversation or user stays where it began.
    #[value(alias = "session-affinity")]
    SessionAffinity,
    /// By a hash of the first 256 prompt tokens, unless that replica is overloaded.
    #[value(alias = "prefix-hash")]
    PrefixHash,
    /// SGLang's router: longest match in its own tree of texts, unless loads are out of balance.
    #[value(alias = "cache-aware")]
    CacheAware,
    /// Dynamo's router: tokens to compute and blocks in use, by the engines' KV events.
    #[value(alias = "kv-events")]
    KvEvents,
    /// vLLM's balancer between data-parallel engines, on reports every 100 ms.
    #[value(alias = "vllm-data-parallel")]
    VllmDataParallel,
}

/// Something happens to a replica.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RawReplicaEvent {
    /// When, from the start of the run.
    pub at: Option<Duration>,
    /// Which replica, from 0.
    pub replica: Option<Count>,
    /// What.
    pub kind: Option<RawReplicaChange>,
}

/// What can happen to a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RawReplicaChange {
    /// It fails: requests inside are lost, and its cache.
    Fail,
    /// It begins to take requests, empty. A replica whose first event this is starts down.
    Up,
    /// It takes no new requests and finishes those inside.
    Drain,
}
