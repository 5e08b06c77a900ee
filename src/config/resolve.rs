//! From an input to a run: the one door through which user input becomes a scenario.

use super::assumed;
use super::cluster;
use super::diagnostic::{Diagnostic, Diagnostics};
use super::document::{Document, Source};
use super::files::{self, Files};
use super::formats;
use super::jitter::step_jitter;
use super::judge::{Judge, Provenance};
use super::lmcache;
use super::machine;
use super::raw::RawScenario;
use super::report::{self, Report};
use super::serving;
use super::slo::{self, Slo};
use super::workload::{self, RunLength};
use crate::cost::Trust;
use crate::cost::calibration::Calibration;
use crate::cost::roofline::Placement;
use crate::engine::memory::MemoryPlan;
use crate::hardware::Device;
use crate::model::ModelShape;
use crate::sim::Scenario;
use crate::workload::Prefix;

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
    /// The input with every assumed value spelt out.
    document: Document,
}

impl Resolved {
    /// Values that nobody gave.
    pub fn assumptions(&self) -> impl Iterator<Item = &Provenance> {
        self.provenance
            .iter()
            .filter(|provenance| provenance.is_assumed())
    }

    /// The most informative name of the scenario's rate: requests per second, infinite when all are sent at once.
    #[must_use]
    pub fn request_rate(&self) -> f64 {
        let traffic = &self.scenario.workload;
        workload::mean_rate(&traffic.arrivals)
            .or_else(|| crate::workload::mean_rate(traffic))
            .unwrap_or(f64::INFINITY)
    }
}

/// Judges an input and builds the run.
///
/// # Errors
/// Every problem that could be found.
pub fn resolve(mut document: Document, files: &dyn Files) -> Result<Resolved, Diagnostics> {
    let mut notes = Vec::new();
    if let Err(problem) = underlay(&mut document, files, &mut notes) {
        return Err(problem.into());
    }
    document.remove("sweep");
    let (mut judge, raw) = Judge::new(document);
    judge.notes = notes;
    let seed = seed(&mut judge, &raw);
    let mut model = machine::model(&mut judge, &raw.model, files);
    let device = machine::device(&mut judge, &raw.cluster, files);
    if let (Some(model), Some(device)) = (&mut model, &device) {
        formats::check(&mut judge, &raw.model, model, device);
    }
    let tensor_parallel = cluster::tensor_parallel(&mut judge, &raw.cluster);
    let model_len = model.as_ref().map(|model| model.max_position);
    let flags = serving::flags(&mut judge, &raw, model.as_ref(), device.as_ref(), tensor_parallel);
    let balancer = flags.data_parallel_balancer();
    let cluster = cluster::resolve(&mut judge, &raw.cluster, model.as_ref(), balancer);
    let jitter = step_jitter(&mut judge, raw.cluster.step_jitter.as_ref());
    let slo = slo::resolve(&mut judge, &raw.slo);
    let report = report::resolve(&mut judge, &raw.report);
    let traffic = workload::resolve(&mut judge, &raw.workload, files);
    if let Some((spec, _)) = &traffic
        && !judge.is_wrong(&[flags.context_key()])
    {
        let context = (flags.context_key(), flags.max_model_len());
        workload::check_context(&mut judge, spec, context, model_len);
    }
    let (Some(model), Some(device), Some((spec, length))) = (model, device, traffic) else {
        return Err(Diagnostics(judge.problems));
    };
    let context = workload::typical_context(&spec);
    judge.notes.extend(sessions_note(&spec.prefix));
    let machine = machine::build(
        &mut judge,
        &raw,
        &model,
        &device,
        tensor_parallel,
        flags,
        (context, seed),
        files,
    );
    let kv_dtype = machine.as_ref().map(|machine| machine.placement.kv_dtype);
    let serves_vllm = machine
        .as_ref()
        .is_none_or(|machine| machine.engine.vllm().is_some());
    let tiers = lmcache::resolve(
        &mut judge,
        &raw,
        &model,
        kv_dtype.unwrap_or(model.dtype),
        tensor_parallel,
        serves_vllm,
    );
    if let Some(machine) = &machine {
        let shortest = (machine.cost)().decode(1).at(1, 1);
        workload::check_closed_clock(&mut judge, &spec, shortest);
    }
    let jitter = jitter
        .zip(machine.as_ref())
        .and_then(|(asked, machine)| asked.law(&mut judge, &machine.calibration, &machine.placement.engine));
    let (Some(machine), true) = (machine, judge.problems.is_empty()) else {
        return Err(Diagnostics(judge.problems));
    };
    assumed::restore(&mut judge, &raw.assumed);
    if !judge.problems.is_empty() {
        return Err(Diagnostics(judge.problems));
    }
    let scenario = Scenario {
        engine: machine.engine,
        cluster,
        cost: machine.cost,
        frontend: machine.frontend,
        tiers,
        jitter,
        workload: spec,
        seed,
    };
    Ok(Resolved {
        scenario,
        model,
        device,
        placement: machine.placement,
        memory: machine.memory,
        calibration: machine.calibration.name.clone(),
        parameters: machine.calibration,
        trust: machine.trust,
        slo,
        length,
        report,
        provenance: judge.provenance,
        notes: judge.notes,
        document: judge.document,
    })
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

/// With sessions, a rate is of conversations.
fn sessions_note(prefix: &Prefix) -> Option<String> {
    let Prefix::Sessions {
        turns, fixed_turns, ..
    } = prefix
    else {
        return None;
    };
    let each = if *fixed_turns { "each" } else { "each on average" };
    Some(format!(
        "the arrival rate is of conversations, which send {turns} requests {each}"
    ))
}

/// Puts the workload that the scenario starts from below it.
fn underlay(document: &mut Document, files: &dyn Files, notes: &mut Vec<String>) -> Result<(), Diagnostic> {
    let key = "workload.base";
    let Some(name) = document
        .get(key)
        .and_then(toml::Value::as_str)
        .map(str::to_string)
    else {
        return Ok(());
    };
    let wrong = |document: &Document, error: String| {
        let known: Vec<&str> = files::SHIPPED
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| name.starts_with("workloads/"))
            .collect();
        let problem = Diagnostic::new(format!("`{}` names no workload", document.name_of(key)));
        problem
            .at(document.place(key))
            .label(error)
            .help(format!("shipped are {}", known.join(", ")))
    };
    let (name, text) = match files::find(&name, files) {
        Some(shipped) => {
            if shipped.is_on_disk {
                notes.push(format!(
                    "{} on disk is used instead of the one inside the program",
                    shipped.name
                ));
            }
            (shipped.name, shipped.text)
        }
        None => {
            let bytes = files.read(&name).map_err(|error| wrong(document, error))?;
            let text =
                String::from_utf8(bytes).map_err(|_| wrong(document, format!("{name} is not text")))?;
            (name, text)
        }
    };
    document.underlay(&name, &text)?;
    document.remove(key);
    Ok(())
}

/// The input that reproduces a run to the last bit with this version: every assumed value is written out.
#[must_use]
pub fn resolved_toml(resolved: &Resolved) -> String {
    let mut text = format!(
        "# Everything that this run depends on; plimsoll {} reproduces it from this file.\n",
        env!("CARGO_PKG_VERSION")
    );
    let scenario = &resolved.scenario;
    text += &format!(
        "# {} on {}: {} KV blocks of {} tokens; step time by {}\n",
        resolved.model.name,
        resolved.device.id,
        scenario.engine.num_gpu_blocks(),
        scenario.engine.block_size(),
        resolved.calibration
    );
    text.push('\n');
    text += &assumed::written(resolved.assumptions());
    text += &toml::to_string(resolved.document.table())
        .expect("a table that was read from TOML can be written as TOML");
    text
}
