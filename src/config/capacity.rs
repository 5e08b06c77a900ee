//! What decides whether a model fits, judged as a whole run's input is: the same keys, defaults and refusals.
//!
//! Left out: promises and step times, which a scenario may hold and memory does not depend on, and all of its traffic but the mean lengths.

use super::base::underlay;
use super::carried_over;
use super::cluster::{self, REPLICAS_MAX};
use super::diagnostic::Diagnostics;
use super::document::{Document, Source};
use super::files::Files;
use super::judge::{Judge, Provenance};
use super::raw::RawScenario;
use super::remedies::Asked;
use super::server::{self, Draft, Server};
use super::version::EngineKind;
use super::{
    blocks, calibrated, expert_parallel, formats, lmcache, lockstep, longest, machine, pipeline, ranks,
    serving, sglang, skipped, speculation, trtllm, workload,
};
use crate::analysis::{BreakEven, break_even};
use crate::engine::EngineSpec;
use crate::engine::memory::{DoesNotFit, MemoryOptions, MemoryPlan, plan};
use crate::hardware::Device;
use crate::model::ModelShape;
use crate::sim::Role;

/// Context that calibrations are read at where there is no traffic.
const PROMPT: u32 = 1024;

/// A model on a GPU under an engine's flags.
#[derive(Clone, Debug)]
pub struct Capacity {
    /// The GPU.
    pub device: Device,
    /// The model in the formats that are asked for.
    pub model: ModelShape,
    /// What of the model one engine's GPUs work at while no other has requests: the model itself, but of experts that engines share a
    /// slice of each.
    pub worked: ModelShape,
    /// What they work at for each of its tokens while all engines have as many: for experts that they share, those of others.
    pub worked_for_all: ModelShape,
    /// Data-parallel engines of the server, of which one is counted.
    pub engines: u32,
    /// The engine profile whose defaults apply, `vllm@0.33`.
    pub profile: String,
    /// What of the flags decides memory.
    pub options: MemoryOptions,
    /// Longest sequence that the server takes.
    pub max_model_len: u32,
    /// How the memory is divided, with the caps of the engine itself.
    pub plan: Result<MemoryPlan, DoesNotFit>,
    /// The engine that would serve, with what it derives from its memory at start; `None` where nothing fits.
    pub engine: Option<EngineSpec>,
    /// Every value's source, in the order of resolution.
    pub provenance: Vec<Provenance>,
    /// Sentences that belong beside the result.
    pub notes: Vec<String>,
    /// Loading KV against computing it, where there are tiers of KV and the model fits.
    pub break_even: Option<BreakEven>,
    /// Prompt and answer of a request in the mean of the traffic, where there is any.
    pub mean_request: Option<(f64, f64)>,
}

/// Judges the machine's part of an input. Pipeline stages are counted here even where no run simulates them.
///
/// # Errors
/// Every problem that could be found.
pub fn capacity(document: Document, files: &dyn Files) -> Result<Capacity, Diagnostics> {
    let pools = document.get("cluster.pools").and_then(toml::Value::as_array);
    let pools = pools.map_or(0, Vec::len);
    let mean_request = mean_request(document.clone(), files);
    let (document, role) = first_server(document);
    let mut found = count(document.clone(), role, files)?;
    found.mean_request = mean_request;
    if pools > 1 {
        let note = format!("the first of the {pools} pools is counted: each is a server of its own");
        found.notes.insert(0, note);
    }
    if let Err(misfit) = &mut found.plan {
        let asked = Asked {
            document: &document,
            role,
            model: &found.model,
            options: &found.options,
            least_context: 0,
            files,
        };
        misfit.remedies = asked.remedies();
    }
    Ok(found)
}

/// Prompt and answer in the mean, shared prefixes included; nothing where the input has no traffic, or a wrong one, which a run refuses.
fn mean_request(mut document: Document, files: &dyn Files) -> Option<(f64, f64)> {
    underlay(&mut document, files, &mut Vec::new()).ok()?;
    let (mut judge, raw) = Judge::new(document);
    let (spec, _) = workload::resolve(&mut judge, &raw.workload, files)?;
    Some(workload::mean_request(&spec, |_| true))
}

/// The input of the one server, or of the first pool's, and what it does.
pub(super) fn first_server(document: Document) -> (Document, Role) {
    let role = match document.get("cluster.pools.0.role").and_then(toml::Value::as_str) {
        Some("prefill") => Role::Prefill,
        Some("decode") => Role::Decode,
        _ => Role::Both,
    };
    match document.get("cluster.pools") {
        Some(_) => (document.of_pool(0), role),
        None => (document, role),
    }
}

/// The same of one server, by its own input; of what does not fit no remedies are looked for.
pub(super) fn count(mut document: Document, role: Role, files: &dyn Files) -> Result<Capacity, Diagnostics> {
    document.remove("sweep");
    let has_role = role != Role::Both;
    let carried = carried_over::settle(&mut document);
    let fitted = longest::settle(&mut document, files);
    let (mut judge, raw) = Judge::new(document);
    judge.notes.extend(carried.into_iter().chain(fitted));
    let (model, device) = server::model_and_device(&mut judge, &raw, files);
    let (tensor_parallel, pipeline_parallel) = layout(&mut judge, &raw, model.as_ref());
    let of_role = (tensor_parallel, role);
    let mut flags = serving::flags(&mut judge, &raw, model.as_ref(), device.as_ref(), of_role);
    if has_role {
        flags.hand_kv_over();
    }
    // What is counted here is more than runs.
    let is_run = pipeline_parallel == 1 || pipeline::is_modelled(&raw, model.as_ref(), &flags, has_role);
    let (of_model, of_device) = (model.as_ref(), device.as_ref());
    let stages = match is_run {
        true => pipeline::resolve(&mut judge, &raw, of_model, of_device, &mut flags, tensor_parallel),
        false => None,
    };
    let (Some(model), Some(device), true) = (model, device, judge.problems.is_empty()) else {
        return Err(Diagnostics(judge.problems));
    };
    let known = calibrated::calibration_of(&raw.cluster, &device, flags.engine(), files);
    let data_parallel = lockstep::ranks(&raw, &model);
    let tensor_parallel = lockstep::attention_group(&raw, tensor_parallel);
    ranks::check(
        &mut judge,
        &raw,
        &model,
        &device,
        &known,
        (tensor_parallel, data_parallel),
    );
    if data_parallel > 1 && flags.drafting().is_some() {
        judge.wrong_help(
            speculation::asker(flags.engine()),
            "is not modelled beside data-parallel ranks in lock-step",
            "schedules of this were never recorded",
            "leave one of them out",
        );
    }
    let kv_format = machine::kv_format(&mut judge, &raw.model, &model, &device, &flags);
    judge.notes.extend(formats::kv_note(kv_format.dtype, &device));
    say_what_is_counted(&mut judge, &raw, pipeline_parallel, is_run);
    expert_parallel::resolve(&mut judge, &raw, &model, tensor_parallel * data_parallel, &flags);
    blocks::check(&mut judge, &raw, &model, tensor_parallel, data_parallel, &flags);
    let engines = lockstep::engines(&raw);
    let worked = lockstep::worked_by_rank(&model, data_parallel, flags.gathers());
    let worked_for_all = model.clone();
    let model = lockstep::of_rank(&model, data_parallel, flags.gathers());
    let options = MemoryOptions {
        pipeline_parallel,
        ..flags.memory_options(&model, tensor_parallel, kv_format)
    };
    judge.notes.extend(flags.windows_note(&model, &options));
    let (profile, max_model_len) = (flags.profile(), flags.max_model_len());
    let is_vllm = flags.engine() == "vllm";
    let copies = calibrated::copies(&raw.cluster, &device, flags.engine(), files);
    let tiers = lmcache::resolve(
        &mut judge,
        &raw,
        &model,
        kv_format,
        tensor_parallel,
        is_vllm,
        &copies,
    );
    judge.check()?;
    if tiers.is_some() {
        pipeline::check_tiers(&mut judge, stages.as_ref());
        judge.check()?;
    }
    let mut answer = plan(&device, &model, &options).map_err(|shortage| DoesNotFit {
        device: device.id.clone(),
        shortage,
        remedies: Vec::new(),
    });
    let (mut engine, mut told) = (None, None);
    if let (Ok(_), Some(tiers)) = (&answer, tiers) {
        let draft = Draft {
            model: Some(model.clone()),
            device: Some(device.clone()),
            tensor_parallel,
            pipeline: stages,
            role,
            flags,
        };
        let server = priced(&mut judge, &raw, draft, files);
        told = server.as_ref().and_then(|server| {
            let config = server.engine.vllm()?;
            let mut cost = (server.cost)();
            let (budget, longest) = (config.max_num_batched_tokens, config.max_model_len - 1);
            Some(break_even(&tiers, &mut *cost, budget, longest))
        });
        engine = server.map(|server| server.engine);
    } else if let Ok(plan) = &mut answer {
        skipped::check_plan(&mut judge, &options, plan);
        // As a run gives an engine its memory; the seed is of shuffles.
        let (served, kept) = match flags.with_memory(&mut judge, plan.clone(), 0) {
            Some(served) if judge.problems.is_empty() => served,
            _ => return Err(Diagnostics(judge.problems)),
        };
        *plan = kept.unwrap_or_else(|| plan.clone());
        engine = Some(served);
    }
    Ok(Capacity {
        device,
        model,
        worked,
        worked_for_all,
        engines,
        profile,
        max_model_len,
        options,
        plan: answer,
        engine,
        provenance: judge.provenance,
        notes: judge.notes,
        break_even: told,
        mean_request: None,
    })
}

/// What is only roughly counted, and what has no effect on it.
fn say_what_is_counted(judge: &mut Judge, raw: &RawScenario, stages: u32, is_run: bool) {
    if !is_run {
        judge.notes.push(format!(
            "{stages} stages: the fullest one is counted, roughly; run, knee and sweep do not model these stages"
        ));
    } else if stages > 1 {
        judge.notes.push(format!(
            "{stages} pipeline stages: figures are per GPU of the stage with the fewest KV blocks; all stages use that block \
             count"
        ));
    }
    if raw.cluster.calibration.is_some() {
        let name = judge.document.name_of("cluster.calibration");
        judge.ignore(format!(
            "{name} has no effect here: a calibration tells time, not memory"
        ));
    }
}

/// The server with its step times. What they take from calibrations is none of the question, and is not told.
fn priced(judge: &mut Judge, raw: &RawScenario, draft: Draft, files: &dyn Files) -> Option<Server> {
    let (notes, provenance) = (judge.notes.len(), judge.provenance.len());
    let server = draft.build(judge, raw, (PROMPT, 0), files);
    judge.notes.truncate(notes);
    judge.provenance.truncate(provenance);
    server
}

/// Ranks and stages of one replica.
fn layout(judge: &mut Judge, raw: &RawScenario, model: Option<&ModelShape>) -> (u32, u32) {
    let is_sglang = raw.engine.kind() == EngineKind::Sglang;
    let attention_ranks = sglang::attention_ranks(&raw.sglang, &raw.cluster);
    let trtllm_ranks = trtllm::attention_ranks(raw);
    let raw = &raw.cluster;
    let tensor_parallel = cluster::tensor_parallel(judge, raw);
    let one = Source::Assumption("one GPU".to_string());
    let limits = (1, pipeline::STAGES_MAX);
    let stages = judge.count(pipeline::STAGES, raw.pipeline_parallel_size, limits, 1, one);
    pipeline::check_depth(judge, model, stages);
    let key = "cluster.replicas";
    if let Some(replicas) = raw
        .replicas
        .map(|given| judge.required(key, given, (1, REPLICAS_MAX)))
        && replicas > 1
    {
        judge.notes.push(format!(
            "one of the {replicas} replicas is counted: each has GPUs of its own"
        ));
    }
    let key = "cluster.data_parallel_size";
    if let Some(engines) = raw.data_parallel_size
        && judge.required(key, engines, (1, REPLICAS_MAX)) > 1
    {
        let shares = match (is_sglang, attention_ranks) {
            (true, 1) => "each has all weights",
            (true, _) => "each has attention of its own and a slice of all else",
            (false, _) => "routed experts are shared among them, all else each holds",
        };
        judge.notes.push(format!(
            "one of the {} data-parallel engines is counted; {shares}",
            engines.0
        ));
    }
    if trtllm_ranks > 1 {
        judge.notes.push(format!(
            "one of the {trtllm_ranks} ranks is counted; routed experts are shared among them, all else each holds"
        ));
    }
    (tensor_parallel, stages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::served;
    use crate::config::{NoFiles, resolve};

    fn document(engine: &str) -> Document {
        served("Llama-3.1-8B-Instruct", "", engine)
    }

    #[test]
    fn a_model_fits_here_as_it_does_in_a_run() {
        for engine in [
            "",
            "profile = \"vllm@0.11\"",
            "max_num_seqs = 8\nmax_model_len = 512",
            "enforce_eager = true",
            "performance_mode = \"throughput\"",
            "enable_chunked_prefill = false\nmax_model_len = 20000",
            "profile = \"hf-cb\"\nmax_model_len = 4096",
            "profile = \"static\"\nmax_num_seqs = 3",
            "profile = \"vllm@0.6\"",
            "profile = \"sglang@0.5.23\"",
            "profile = \"sglang@0.5.4\"\n[sglang]\nmax_running_requests = 7\nmax_total_tokens = 10000",
        ] {
            let alone = capacity(document(engine), &NoFiles).unwrap();
            let plan = alone.plan.unwrap();
            let run = resolve(document(engine), &NoFiles).unwrap();
            assert_eq!(
                Some(plan.num_gpu_blocks),
                run.memory.as_ref().map(|plan| plan.num_gpu_blocks),
                "{engine}"
            );
            let of_run = run.scenario.first_pool().engine.max_num_seqs();
            assert_eq!(alone.engine.unwrap().max_num_seqs(), of_run, "{engine}");
        }
    }

    #[test]
    fn a_group_beyond_a_node_is_refused_as_a_run_refuses_it() {
        let mut input = document("");
        input.set("cluster.tensor_parallel_size", toml::Value::from(16), "");
        let refused = |problems: Diagnostics| problems.to_string();
        let here = refused(capacity(input.clone(), &NoFiles).unwrap_err());
        assert!(here.contains("is larger than a node"), "{here}");
        assert_eq!(here, refused(resolve(input, &NoFiles).map(|_| ()).unwrap_err()));
    }

    #[test]
    fn a_count_beyond_all_sense_is_refused_as_a_run_refuses_it() {
        for (key, count) in [
            ("replicas", 5000),
            ("data_parallel_size", 5000),
            ("tensor_parallel_size", 2000),
        ] {
            let mut input = document("");
            input.set(&format!("cluster.{key}"), toml::Value::from(count), "");
            let here = capacity(input.clone(), &NoFiles).unwrap_err().to_string();
            assert!(here.contains("must lie between 1 and"), "{key}: {here}");
            assert_eq!(
                here,
                resolve(input, &NoFiles).map(|_| ()).unwrap_err().to_string()
            );
        }
    }

    #[test]
    fn the_flags_of_another_version_are_refused_as_a_run_refuses_them() {
        let input = document("profile = \"vllm@0.11\"\nwatermark = 0.1\ngpu_memory_utilization = 92");
        let refused = |problems: Diagnostics| {
            problems
                .0
                .into_iter()
                .map(|problem| problem.message)
                .collect::<Vec<_>>()
        };
        let here = refused(capacity(input.clone(), &NoFiles).unwrap_err());
        assert_eq!(here.len(), 2, "{here:?}");
        assert_eq!(here, refused(resolve(input, &NoFiles).map(|_| ()).unwrap_err()));
    }
}
