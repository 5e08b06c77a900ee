//! A finished run as it was seen, and the averages over any stretch of it. Law: stretches are consecutive and complete.

use super::LittleAudit;
use super::by_replica::ReplicaSummary;
use super::fleet::Fleet;
use super::options::SloLimits;
use super::parts::PartSummary;
use super::relays::RelaySummary;
use super::speculation::SpeculationSummary;
use super::stretch::Stretch;
use super::summary::{RequestRecord, SeriesPoint, Summary};
use super::tiers::TierSummary;
use crate::cost::StepLoad;
use crate::units::Picos;

/// When requests were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sending {
    /// When the first one was.
    pub first: Picos,
    /// When the last one was.
    pub last: Picos,
    /// When the last one would have been without a limit on requests in flight: nothing new came after that.
    pub last_wished: Picos,
}

/// A finished run as it was seen, before anyone judges it.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Closed batches, then what came after the last; consecutive and complete.
    pub stretches: Vec<Stretch>,
    /// How many of the stretches are whole batches.
    pub whole_batches: usize,
    /// The machines.
    pub fleet: Fleet,
    /// Goodput limits.
    pub slo: SloLimits,
    /// Whether good requests were counted: there are limits, of all requests or of a class.
    pub counts_good: bool,
    /// When requests were sent: what follows is drain.
    pub sending: Sending,
    /// The end of the run: the last answer if it drained.
    pub end: Picos,
    /// All of it.
    pub whole: Summary,
    /// Little's law over all of it.
    pub little: LittleAudit,
    /// What each replica did, where there are several.
    pub by_replica: Vec<ReplicaSummary>,
    /// What tiers of KV did, where there are any.
    pub tiers: Option<TierSummary>,
    /// How many drafts stood, where any were made.
    pub speculation: Option<SpeculationSummary>,
    /// What became of each class of requests, where there are several.
    pub by_class: Vec<PartSummary>,
    /// What each pool answered, where there are several.
    pub by_pool: Vec<PartSummary>,
    /// What happened between prefill and decode, where they are on different replicas.
    pub relays: Option<RelaySummary>,
    /// Broken conservation laws.
    pub violations: Vec<String>,
    /// State over time.
    pub series: Vec<SeriesPoint>,
    /// A sample of each pool's steps: (load, seconds, how many like it).
    pub sampled_steps: Vec<Vec<(StepLoad, f64, u64)>>,
    /// Per-request records, when asked for, in order of leaving.
    pub records: Option<Vec<RequestRecord>>,
}

impl Observation {
    /// The averages over consecutive stretches; `None` for an empty range.
    #[must_use]
    pub fn summary_of(&self, stretches: std::ops::Range<usize>) -> Option<Summary> {
        let inside = |upto: &[Stretch]| {
            upto.iter().map(Stretch::sent).sum::<u64>() - upto.iter().map(Stretch::ended).sum::<u64>()
        };
        let joined = Stretch::joined(self.stretches.get(stretches.clone())?)?;
        let joined = joined.with_whole_instants(&self.stretches[stretches.end..]);
        let inside = inside(&self.stretches[..stretches.end]);
        Some(joined.summary(
            &self.fleet,
            inside,
            self.whole.max_output_tokens_per_s as u64,
            self.counts_good,
        ))
    }
}
