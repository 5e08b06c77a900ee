//! Whether a run's figures describe the system or only the run.

use crate::metrics::{
    LittleAudit, PartSummary, RelaySummary, ReplicaSummary, RequestRecord, SeriesPoint, SpeculationSummary,
    Summary, TierSummary,
};

/// What a run is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The number in the system returns to the same level again and again: figures are properties of the system.
    Stable,
    /// So near to saturation that no affordable run gives the asked precision.
    Critical,
    /// Requests pile up, waiting or in the batch: any latency is a function of how long one ran.
    Unstable,
    /// Not enough requests to tell.
    TooShort,
    /// A closed loop or a finite experiment without steady state in question (all at once, offline).
    Finite,
}

/// An estimate with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The point estimate.
    pub value: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// A run with its judgement: what reports print.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// The whole run as vLLM's client would see it: ramp, drain and overload included.
    pub whole: Summary,
    /// Warm-up and drain cut; `None` where no steady state was reached.
    pub steady: Option<Summary>,
    /// Start and end of the steady stretch in seconds.
    pub steady_window_s: Option<(f64, f64)>,
    /// The verdict.
    pub verdict: Verdict,
    /// Sentences behind it, the first is the most important.
    pub reasons: Vec<String>,
    /// Requests sent per second, from the first to the last.
    pub offered_per_s: f64,
    /// Growth of the number in the system, requests per second, over the run; under overload that which goes on.
    pub growth_per_s: f64,
    /// What grows is held back in clients, behind a limit on what they have in flight, and not in the system.
    pub is_held_back: bool,
    /// Intervals of steady-state means by metric name (`ttft`, `tpot`, `itl`, `e2el`, `p99_ttft` …), seconds.
    pub intervals: Vec<(String, Estimate)>,
    /// Little's law, over the whole run.
    pub little: LittleAudit,
    /// Violations of conservation laws; empty on every correct run.
    pub violations: Vec<String>,
    /// What each replica did over the whole run, where there are several.
    pub by_replica: Vec<ReplicaSummary>,
    /// What tiers of KV did, where there are any.
    pub tiers: Option<TierSummary>,
    /// How many drafts stood, where any were made.
    pub speculation: Option<SpeculationSummary>,
    /// What became of each class of requests over the whole run, where there are several.
    pub by_class: Vec<PartSummary>,
    /// Share of the requests of each class that met every limit that holds for them: over the steady stretch with its 95 %
    /// interval, or as it was counted in a finite experiment or a run that is too short to be judged. Empty where there are no
    /// classes, or under overload.
    pub class_attainment: Vec<Option<Estimate>>,
    /// What each pool answered over the whole run, where there are several.
    pub by_pool: Vec<PartSummary>,
    /// What happened between prefill and decode, where they are on different replicas.
    pub relays: Option<RelaySummary>,
    /// State over time.
    pub series: Vec<SeriesPoint>,
    /// A sample of each pool's steps, for the roofline chart: (load, duration in seconds, how many like it).
    pub sampled_steps: Vec<Vec<(crate::cost::StepLoad, f64, u64)>>,
    /// Per-request records, when asked for.
    pub records: Option<Vec<RequestRecord>>,
}

impl RunResult {
    /// The stretch whose figures may be quoted: the steady one, or the whole run where the load itself varies or ends and
    /// no steady state is in question.
    #[must_use]
    pub fn quotable(&self) -> Option<&Summary> {
        let is_finite = self.verdict == Verdict::Finite;
        self.steady.as_ref().or(is_finite.then_some(&self.whole))
    }
}
