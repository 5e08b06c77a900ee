//! From an input to a run: the one door through which user input becomes a scenario.

use std::collections::BTreeMap;

use toml::Value;

use super::admission;
use super::assumed;
use super::base;
use super::carried_over;
use super::cluster;
use super::diagnostic::Diagnostics;
use super::disaggregation;
use super::document::{Document, Source};
use super::files::Files;
use super::gate;
use super::idle;
use super::jitter::{self, step_jitter};
use super::judge::{Judge, Provenance};
use super::lmcache;
use super::lockstep;
use super::longest;
use super::pipeline;
use super::pools::{self, PoolDraft};
use super::price;
use super::raw::RawScenario;
use super::raw::{RawClass, RawGoodput, RawWorkload};
use super::report::{self, Report};
use super::rooted::{self, Rooted};
use super::server::{Server, serves_class};
use super::settings;
use super::slo::{self, Slo};
use super::speculation;
use super::workload::{self, RunLength};
use crate::cluster::ClusterSpec;
use crate::cluster::router::Policy;
use crate::cost::Trust;
use crate::cost::calibration::Calibration;
use crate::cost::jitter::JitterLaw;
use crate::cost::roofline::Placement;
use crate::engine::lmcache::LmcacheConfig;
use crate::engine::memory::MemoryPlan;
use crate::hardware::Device;
use crate::model::ModelShape;
use crate::sim::{Pool, Scenario};
use crate::workload::{Arrivals, WorkloadSpec};

/// A valid run and everything that must be said about it.
#[derive(Clone)]
pub struct Resolved {
    /// What is simulated.
    pub scenario: Scenario,
    /// The model.
    pub model: ModelShape,
    /// The GPU.
    pub device: Device,
    /// How the model lies on its GPUs.
    pub placement: Placement,
    /// Where the GPU's memory goes; `None` where the number of blocks was given.
    pub memory: Option<MemoryPlan>,
    /// Name of the calibration.
    pub calibration: String,
    /// Its parameters, every block filled.
    pub parameters: Calibration,
    /// The worst of its parts.
    pub trust: Trust,
    /// What each pool of the scenario runs on; the first one's parts stand above, too.
    pub servers: Vec<Server>,
    /// What is promised.
    pub slo: Slo,
    /// How long the run lasts.
    pub length: RunLength,
    /// What a result reports.
    pub report: Report,
    /// Every value's source, in the order of resolution.
    pub provenance: Vec<Provenance>,
    /// Sentences that belong beside the result: substitutions, flags without effect, consequences.
    pub notes: Vec<String>,
    /// Those of the notes that name something without effect.
    pub ignored: Vec<String>,
    /// The input with every assumed value spelt out.
    pub(super) document: Document,
    /// Those of its values that name files.
    pub(super) rooted: Vec<Rooted>,
}

impl Resolved {
    /// Values that nobody gave.
    pub fn assumptions(&self) -> impl Iterator<Item = &Provenance> {
        self.provenance
            .iter()
            .filter(|provenance| provenance.is_assumed())
    }

    /// A value of the input, every assumed one spelt out, by its dotted key: `engine.max_num_seqs`.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.document.get(key)
    }

    /// Tokens of a prompt, shared ones included, and of an answer, in the mean.
    #[must_use]
    pub fn mean_lengths(&self) -> (f64, f64) {
        workload::mean_request(&self.scenario.workload, |_| true)
    }

    /// What the scenario is called that the run is of, as it was given or ships; `None` where all of it is spelt out in flags.
    #[must_use]
    pub fn scenario_name(&self) -> Option<String> {
        let mut given = self.provenance.iter();
        given.find_map(|value| match &value.source {
            Source::File { name, .. } => Some(name.clone()),
            _ => None,
        })
    }

    /// Whether steps last what was said, and not what a machine takes.
    #[must_use]
    pub fn is_ideal(&self) -> bool {
        self.servers.iter().any(|server| server.step_time.is_some())
    }

    /// Every setting that a figure depends on, under its key path, `engine.max_num_seqs`.
    #[must_use]
    pub fn settings(&self) -> BTreeMap<String, String> {
        settings::of(&rooted::spelt_out(self.document.table(), &self.rooted))
    }

    /// Requests per second that the traffic offers on average, turns of conversations included; infinite where it has no
    /// rate of its own.
    #[must_use]
    pub fn request_rate(&self) -> f64 {
        crate::workload::mean_rate(&self.scenario.workload).unwrap_or(f64::INFINITY)
    }
}

impl Resolved {
    /// Puts what was said before the input was judged, about a command line, before what was said since. A scenario that
    /// spells a run out has it already.
    pub fn said_before(&mut self, notes: &[String], ignored: &[String]) {
        assumed::put_first(&mut self.notes, notes);
        assumed::put_first(&mut self.ignored, ignored);
    }

    /// Takes back that the router has no effect: more replicas are to be put behind it.
    pub fn router_acts(&mut self) {
        let is_other = |sentence: &String| !idle::is_on_router(sentence);
        self.notes.retain(is_other);
        self.ignored.retain(is_other);
    }

    /// Takes back that the precision has no effect beside a length: a search sets the length of its runs itself.
    pub fn precision_acts(&mut self) {
        let is_other = |sentence: &String| sentence != workload::PRECISION_IDLE;
        self.notes.retain(is_other);
        self.ignored.retain(is_other);
    }

    /// Notes on other things than what had no effect.
    #[must_use]
    pub fn other_notes(&self) -> Vec<String> {
        let is_other = |note: &&String| !self.ignored.contains(note);
        self.notes.iter().filter(is_other).cloned().collect()
    }
}

/// Whether any class of requests has limits of its own.
fn promises_to_classes(workload: &RawWorkload) -> bool {
    let goodput = |class: &RawClass| class.goodput != RawGoodput::default();
    workload.classes.iter().any(goodput)
}

/// What stands for all requests has no effect where every class has its own: a flag that would change nothing is refused,
/// and what stands in the file is named.
fn refuse_unread(judge: &mut Judge, raw: &RawScenario) {
    let classes = &raw.workload.classes;
    if classes.is_empty() {
        return;
    }
    let has_goodput = |class: &RawClass| class.goodput != RawGoodput::default();
    let own = [
        (
            "workload.lengths",
            "lengths",
            raw.workload.lengths.is_some() && classes.iter().all(|class| class.lengths.is_some()),
        ),
        (
            "slo.goodput",
            "goodput",
            raw.slo.goodput != RawGoodput::default() && classes.iter().all(has_goodput),
        ),
    ];
    for (table, of_class, is_unread) in own {
        let Some(key) = judge.document.first_given(table).filter(|_| is_unread) else {
            continue;
        };
        let why = format!("every class of requests has {of_class} of its own");
        if let Some(Source::Flag(_)) = judge.document.source(&key) {
            let help =
                format!("write {of_class} into the [[workload.classes]] that they are for, or leave it out");
            judge.wrong_help(&key, "has no effect", why, help);
        } else {
            judge.ignore(format!("[{table}] has no effect: {why}"));
        }
    }
}

/// Judges an input and builds the run.
///
/// # Errors
/// Every problem that could be found.
pub fn resolve(mut document: Document, files: &dyn Files) -> Result<Resolved, Diagnostics> {
    let mut notes = Vec::new();
    base::underlay(&mut document, files, &mut notes)?;
    document.remove("sweep");
    notes.extend(carried_over::settle(&mut document));
    notes.extend(document.roles_give_way());
    document.roles_become_pools()?;
    notes.extend(longest::settle(&mut document, files));
    let (mut judge, raw) = Judge::new(document);
    judge.notes = notes;
    let shape = judge.problems.len();
    let seed = seed(&mut judge, &raw);
    let mut pools = pools::draft(&mut judge, &raw, files);
    let mut cluster = cluster::resolve(&mut judge, &raw, &mut pools);
    let lock_step = lockstep::resolve(&mut judge, &raw, &pools);
    let jitter = step_jitter(&mut judge, raw.cluster.step_jitter.as_ref());
    let price = price::given(&mut judge, &raw.cluster);
    // Memory formulas need valid flags: those of machine, model and engine. What is wrong with the traffic does not keep
    // them from being judged.
    let can_build =
        judge.problems.len() == shape && !judge.is_wrong(&["cluster", "engine", "model", "sglang", "trtllm"]);
    let mut slo = slo::resolve(&mut judge, &raw.slo, promises_to_classes(&raw.workload));
    let report = report::resolve(&mut judge, &raw.report);
    refuse_unread(&mut judge, &raw);
    let traffic = workload::resolve(&mut judge, &raw.workload, files);
    let spec = traffic.as_ref().map(|(spec, _)| spec);
    let admission = admission::resolve(&mut judge, &raw.cluster, spec);
    if let Some((spec, _)) = &traffic {
        share_out(&mut judge, &raw, spec, &mut pools, &mut cluster);
    }
    let Some((mut spec, length)) = traffic.filter(|_| judge.problems.is_empty()) else {
        if can_build {
            judge_servers(&mut judge, &raw, pools, seed, files);
        }
        return Err(Diagnostics(judge.problems));
    };
    judge.notes.extend(workload::sessions_notes(&spec));
    judge.notes.extend(workload::draws_note(&spec, seed));
    judge.notes.extend(lone_requests(&cluster, &spec));
    let context = |pool: &PoolDraft| {
        let served = &cluster.groups[pool.group].serves;
        workload::typical_context(&spec, |class| serves_class(served, Some(class)))
    };
    let Some((mut pools, servers)) = build(&mut judge, &raw, pools, context, seed, files) else {
        return Err(Diagnostics(judge.problems));
    };
    price::resolve(&mut judge, price, &mut pools, &servers);
    if pools.iter().any(|pool| pool.engine.answers_whole()) {
        let is_all = pools.iter().all(|pool| pool.engine.answers_whole());
        slo::without_gaps(&mut judge, is_all, &mut slo, &mut spec.classes);
    }
    cluster.disaggregation = disaggregation::resolve(&mut judge, &raw, &mut pools, &servers, &cluster);
    if cluster.disaggregation.is_none() {
        disaggregation::refuse_connector(&mut judge, &raw);
    }
    let steps = pools.iter().map(|pool| (pool.cost)().decode(1).at(1, 1));
    if let Some(shortest) = steps.min() {
        workload::check_closed_clock(&mut judge, &spec, shortest);
    }
    let jitter = laws(&mut judge, jitter.as_ref(), &servers);
    let lock_step = lock_step.and_then(|spec| lockstep::build(&mut judge, spec, &servers[0]));
    let tiers = tiers(&mut judge, &raw, &pools, &servers);
    if tiers.is_some() {
        pipeline::check_tiers(&mut judge, servers[0].placement.pipeline.as_ref());
    }
    let beside = speculation::Beside {
        pools: &pools,
        cluster: &cluster,
        is_in_lock_step: lock_step.is_some(),
        has_tiers: tiers.is_some(),
    };
    speculation::check(&mut judge, &raw, beside);
    judge.check()?;
    assumed::restore(&mut judge, &raw.assumed);
    idle::note(&mut judge, &raw, (&pools, &cluster, &spec));
    assumed::repeat(&mut judge, &raw.ignored, &raw.notes);
    judge.check()?;
    let scenario = Scenario {
        pools,
        cluster,
        tiers,
        lock_step,
        admission,
        jitter,
        workload: spec,
        seed,
    };
    let first = servers[0].clone();
    let rooted = rooted::of(&judge.document, files);
    Ok(Resolved {
        scenario,
        model: first.model,
        device: first.device,
        placement: first.placement,
        memory: first.memory,
        calibration: first.calibration.name.clone(),
        parameters: first.calibration,
        trust: first.trust,
        servers,
        slo,
        length,
        report,
        provenance: judge.provenance,
        notes: judge.notes,
        ignored: judge.ignored,
        document: judge.document,
        rooted,
    })
}

/// Says who serves which requests, and checks that these fit their context.
fn share_out(
    judge: &mut Judge,
    raw: &RawScenario,
    spec: &WorkloadSpec,
    pools: &mut [PoolDraft],
    cluster: &mut ClusterSpec,
) {
    gate::resolve(judge, pools, spec, cluster);
    let refuses = workload::refuses_too_long(judge, &raw.workload);
    for pool in pools {
        let served = &cluster.groups[pool.group].serves;
        pool.judge(judge, raw, |judge, _, draft| {
            draft.check_context(judge, spec, served, refuses);
        });
    }
}

/// The pools and what they run on, each at the `context` of its own requests; `None` was reported, of all pools.
fn build(
    judge: &mut Judge,
    raw: &RawScenario,
    pools: Vec<PoolDraft>,
    context: impl Fn(&PoolDraft) -> u32,
    seed: u64,
    files: &dyn Files,
) -> Option<(Vec<Pool>, Vec<Server>)> {
    let built = pools.into_iter().map(|pool| {
        let context = context(&pool);
        pool.build(judge, raw, (context, seed), files)
    });
    let built: Vec<Option<(Pool, Server)>> = built.collect();
    built.into_iter().collect()
}

/// How the steps of each pool scatter, where they do.
fn laws(judge: &mut Judge, asked: Option<&jitter::Asked>, servers: &[Server]) -> Vec<JitterLaw> {
    let of_server = |server: &Server| {
        asked.and_then(|asked| asked.law(judge, &server.calibration, &server.placement.engine))
    };
    servers.iter().filter_map(of_server).collect()
}

/// Context at which a server is judged whose traffic is not known.
const CONTEXT: u32 = 1024;

/// Judges the servers of an input whose traffic is wrong: whether the model lies on its ranks and fits, and the tiers beside it.
fn judge_servers(judge: &mut Judge, raw: &RawScenario, pools: Vec<PoolDraft>, seed: u64, files: &dyn Files) {
    // A server is not judged beside problems of its own: those that there are lie elsewhere.
    let elsewhere = std::mem::take(&mut judge.problems);
    if let Some((pools, servers)) = build(judge, raw, pools, |_| CONTEXT, seed, files) {
        tiers(judge, raw, &pools, &servers);
    }
    judge.problems.splice(0..0, elsewhere);
}

fn seed(judge: &mut Judge, raw: &RawScenario) -> u64 {
    let key = "workload.seed";
    match raw.workload.seed {
        Some(seed) => {
            judge.given(key, seed);
            seed.0
        }
        None => {
            judge.assume(key, 0i64, Source::Assumption("the first seed".to_string()));
            0
        }
    }
}

/// Tiers of KV beside the one pool there is.
fn tiers(judge: &mut Judge, raw: &RawScenario, pools: &[Pool], servers: &[Server]) -> Option<LmcacheConfig> {
    let (pool, server) = (pools.first()?, servers.first()?);
    let placement = &server.placement;
    let tiers = lmcache::resolve(
        judge,
        raw,
        &server.model,
        placement.kv_format,
        placement.tensor_parallel,
        pool.engine.vllm().is_some(),
        &server.calibration.copies,
    )?;
    if pools.len() > 1 {
        judge.wrong_help(
            "lmcache",
            "does not go with several pools",
            "whose tiers these are is not said",
            "describe one pool, or leave it out",
        );
    }
    Some(tiers)
}

/// A router that keeps conversations together has nothing to go by where every request stands alone.
fn lone_requests(cluster: &ClusterSpec, spec: &WorkloadSpec) -> Option<String> {
    let is_asked = cluster
        .groups
        .iter()
        .any(|group| group.policy == Policy::SessionAffinity);
    (is_asked && !has_sessions(spec)).then(|| {
        "router = session_affinity has no conversations to keep together: it takes replicas in turn, as round_robin does"
            .to_string()
    })
}

/// Whether requests belong to conversations or users.
fn has_sessions(spec: &WorkloadSpec) -> bool {
    match &spec.arrivals {
        Arrivals::Users { .. } => true,
        Arrivals::Replay { requests, .. } => requests.iter().any(|request| request.session.is_some()),
        Arrivals::Superposed { streams } => streams.iter().any(|stream| has_sessions(&stream.spec)),
        _ => spec.has_conversations(),
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod together;
