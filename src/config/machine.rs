//! Model and GPU, which come from registries and files, and how the one lies in the memory of the other.

use super::checkpoint::{self, Unreadable};
use super::diagnostic::Diagnostic;
use super::document::Source;
use super::files::{Files, text_of};
use super::formats;
use super::judge::Judge;
use super::quantization;
use super::raw::{RawCluster, RawDtype, RawKvDtype, RawModel, spelled};
use super::remedies::Asked;
use super::scalar::Count;
use super::serving::Flags;
use super::skipped;
use super::sparse;
use crate::engine::memory::{self, DoesNotFit, MemoryOptions, MemoryPlan, PoolSize, Shortage};
use crate::hardware::{self, Device};
use crate::model::{self, Dtype, KvFormat, ModelShape};
use crate::sim::Role;

/// Whether a name is a path rather than an id of a registry.
pub(super) fn is_path(name: &str, extension: &str) -> bool {
    name.ends_with(extension) || name.starts_with('.') || name.starts_with('/')
}

/// The model's shape in its asked formats; `None` was reported.
pub(super) fn model(judge: &mut Judge, raw: &RawModel, files: &dyn Files) -> Option<ModelShape> {
    let key = "model.name";
    let Some(name) = &raw.name else {
        judge.missing("no model is given", "give its Hugging Face id, meta-llama/Llama-3.1-8B-Instruct (`plimsoll models` lists the bundled ones)");
        return None;
    };
    judge.given(key, name);
    let found = match checkpoint::read(name, files) {
        Some(Ok(found)) => found,
        Some(Err(Unreadable { what, why })) => {
            judge.wrong(key, what, why);
            return None;
        }
        None => model_by_name(judge, name, files)?,
    };
    let (mut shape, notes) = found;
    judge.notes.extend(notes);
    if let Some(dtype) = raw.dtype {
        judge.given("model.dtype", spelled(dtype));
        shape.dtype = match dtype {
            RawDtype::Auto => shape.dtype,
            RawDtype::Bfloat16 => Dtype::Bf16,
            RawDtype::Float16 | RawDtype::Half => Dtype::Fp16,
            RawDtype::Float32 | RawDtype::Float => Dtype::Fp32,
        };
    }
    if let Some(method) = &raw.quantization {
        shape = quantization::asked(judge, shape, method);
    }
    judge.notes.extend(shape.kept_note());
    Some(shape)
}

fn model_by_name(judge: &mut Judge, name: &str, files: &dyn Files) -> Option<(ModelShape, Vec<String>)> {
    match model::find_checkpoint(name) {
        Ok(found) => Some(found),
        Err(_) if files.is_folder(name) => {
            let why = format!("the folder `{name}` holds no config.json");
            let problem = Diagnostic::new(why).at(judge.place("model.name")).of_value();
            judge.report(problem.help(
                "give the folder of a checkpoint as Hugging Face has it, or the path of its config.json",
            ));
            None
        }
        Err(unknown) => {
            let mut problem = Diagnostic::new(format!("no shape of the model `{name}` is bundled"))
                .at(judge.place("model.name"))
                .of_value();
            if !unknown.suggestions.is_empty() {
                problem = problem.help(format!("did you mean {}?", unknown.suggestions.join(" or ")));
            }
            if let Some(hint) = unknown.copy_hint() {
                problem = problem.help(hint);
            }
            judge.report(problem.help("or give the path of its config.json"));
            None
        }
    }
}

/// The text of the file that `key` names; `None` was reported.
fn text_file(judge: &mut Judge, key: &str, path: &str, files: &dyn Files) -> Option<String> {
    let text = text_of(path, files);
    text.map_err(|(what, why)| judge.senseless(key, what, why)).ok()
}

/// The GPU, with a bridge where one is fitted; `None` was reported.
pub(super) fn device(judge: &mut Judge, raw: &RawCluster, files: &dyn Files) -> Option<Device> {
    let device = card(judge, raw, files)?;
    if device.differs_from_shipped() {
        judge.notes.push(format!(
            "the profile has the id of a card that ships, {}, and other figures: what was measured on that card is a prior of this one",
            device.id
        ));
    }
    let key = "cluster.nvlink_bridge";
    let Some(is_fitted) = raw.nvlink_bridge else {
        if would_use_bridge(raw, &device) {
            let source = Source::Assumption("pairs are sold with and without one".to_string());
            judge.assume(key, false, source);
            judge.notes.push(format!(
                "{} is taken without its NVLink bridge: all-reduces, and what stages hand on, go over PCIe; --nvlink-bridge if the pair has one",
                device.id
            ));
        }
        return Some(device);
    };
    judge.given(key, is_fitted);
    if !is_fitted {
        return Some(device);
    }
    let bridged = device.bridged();
    if bridged.is_none() {
        let (why, help) = match device.nvlink {
            Some(_) => ("has NVLink without one", "leave it out"),
            None => (
                "takes none, as its profile has it",
                "leave it out, or give a hardware profile with link.nvlink_bridge",
            ),
        };
        judge.wrong_help(key, "is not there", format!("{} {why}", device.id), help);
    }
    bridged
}

/// Whether a group of GPUs that exchange in every step is small enough for a bridge that the card takes.
fn would_use_bridge(raw: &RawCluster, device: &Device) -> bool {
    let of = |count: Option<Count>| count.map_or(1, |count| u32::try_from(count.0).unwrap_or(u32::MAX));
    let ranks = of(raw.tensor_parallel_size);
    let stages = ranks.saturating_mul(of(raw.pipeline_parallel_size));
    let engines = raw
        .enable_expert_parallel
        .unwrap_or(false)
        .then(|| of(raw.data_parallel_size));
    let groups = [ranks, stages, ranks.saturating_mul(engines.unwrap_or(1))];
    let is_bridged = |bridged: &Device| {
        let joins = |&gpus: &u32| gpus > 1 && bridged.nvlink_of(gpus).is_some();
        groups.iter().any(joins)
    };
    raw.step_time.is_none() && device.nvlink.is_none() && device.bridged().as_ref().is_some_and(is_bridged)
}

fn card(judge: &mut Judge, raw: &RawCluster, files: &dyn Files) -> Option<Device> {
    let key = "cluster.gpu";
    let Some(name) = &raw.gpu else {
        judge.missing(
            "no GPU is given",
            "give --gpu H100-SXM-80GB (`plimsoll hw` lists the known ones)",
        );
        return None;
    };
    judge.given(key, name);
    if is_path(name, ".toml") {
        let text = text_file(judge, key, name, files)?;
        return read_card(judge, &text, name);
    }
    let unknown = match hardware::find(name) {
        Ok((device, note)) => {
            judge.notes.extend(note);
            return on_disk(judge, device, files);
        }
        Err(unknown) => unknown,
    };
    if let Some((path, text)) = own_profile(name, files) {
        let device = read_card(judge, &text, &path)?;
        judge.notes.push(format!("GPU read from {path}"));
        return Some(device);
    }
    let mut problem = Diagnostic::new(format!("unknown GPU `{name}`"))
        .at(judge.place(key))
        .of_value();
    if let Some((count, card)) = &unknown.counted {
        problem = problem.help(format!("`--gpu` names one card: write --gpu {card} -tp {count}"));
    }
    if !unknown.suggestions.is_empty() {
        problem = problem.help(format!("did you mean {}?", unknown.suggestions.join(" or ")));
    }
    judge.report(
        problem.help("`plimsoll hw` lists the known ones; the path of a hardware profile will do, too"),
    );
    None
}

/// A card by the text of its profile; `None` was reported.
fn read_card(judge: &mut Judge, text: &str, path: &str) -> Option<Device> {
    let read = Device::from_toml(text, path);
    let wrong = |error: hardware::ProfileError| {
        judge.senseless("cluster.gpu", "is not a hardware profile", error.to_string());
    };
    read.map_err(wrong).ok()
}

/// Path and text of the working folder's own profile of that name.
pub(super) fn own_profile(name: &str, files: &dyn Files) -> Option<(String, String)> {
    let stem = name.to_lowercase().replace(['_', ' '], "-");
    [name, &stem].into_iter().find_map(|stem| {
        let path = format!("hardware_profiles/{stem}.toml");
        // What is no text is no profile either, which whoever reads it says.
        let text = String::from_utf8_lossy(&files.read(&path).ok()?).into_owned();
        Some((path, text))
    })
}

/// A profile on disk takes the place of the shipped one of its name.
fn on_disk(judge: &mut Judge, shipped: Device, files: &dyn Files) -> Option<Device> {
    let path = format!("hardware_profiles/{}.toml", shipped.id.to_lowercase());
    let Ok(bytes) = files.read(&path) else {
        return Some(shipped);
    };
    let own = read_card(judge, &String::from_utf8_lossy(&bytes), &path)?;
    if own != shipped {
        let note = format!("{path} takes the place of the shipped profile");
        judge.notes.push(note);
    }
    Some(own)
}

/// The [format of the KV cache](formats::kv_dtype), that of layers left out of it, and what is to be said of them.
pub(super) fn kv_format(
    judge: &mut Judge,
    raw_model: &RawModel,
    model: &ModelShape,
    device: &Device,
    flags: &Flags,
) -> KvFormat {
    let (key, raw) = ("model.kv_cache_dtype", raw_model.kv_cache_dtype);
    if let Some(dtype) = raw {
        judge.given(key, spelled(dtype));
    }
    let dtype = formats::kv_dtype(raw, model, |scheme| flags.heeds(scheme));
    if let (None | Some(RawKvDtype::Auto), Some(scheme)) = (raw, model.kv_scheme) {
        match flags.heeds(scheme) {
            true => {
                let said = "the checkpoint asks for it, and the engine takes it under auto";
                if raw.is_none() {
                    judge.assume(key, "fp8".to_string(), Source::Assumption(said.to_string()));
                }
                let way_out = format!("--kv-cache-dtype {} keeps it in 16 bits", model.dtype.name());
                judge
                    .notes
                    .push(format!("the KV cache is fp8: {said}; {way_out}"));
            }
            false => judge.notes.push(format!(
                "the checkpoint asks for a KV cache in fp8, which {} does not take under auto: it is {} without \
                 --kv-cache-dtype fp8",
                flags.profile(),
                model.dtype.name()
            )),
        }
    }
    let dtype = sparse::kv_dtype(judge, raw, dtype, model, device, flags);
    skipped::kv_format(judge, raw_model, dtype, model)
}

/// Divides the memory; `None` does not fit, and was reported with what would.
pub(super) fn plan(
    judge: &mut Judge,
    model: &ModelShape,
    device: &Device,
    options: &MemoryOptions,
    role: Role,
    files: &dyn Files,
) -> Option<MemoryPlan> {
    let shortage = match memory::plan(device, model, options) {
        Ok(plan) => {
            skipped::check_plan(judge, options, &plan);
            return Some(plan);
        }
        Err(shortage) => shortage,
    };
    let asked = Asked {
        document: &judge.asked,
        role,
        model,
        options,
        least_context: judge.least_context,
        files,
    };
    let misfit = DoesNotFit {
        device: device.id.clone(),
        shortage,
        remedies: asked.remedies(),
    };
    let is_of_context = matches!(misfit.shortage, Shortage::OneRequestDoesNotFit { .. });
    let key = match misfit.shortage {
        Shortage::HeadsNotDivisible { .. } => "cluster.tensor_parallel_size",
        Shortage::OneRequestDoesNotFit { .. } if judge.document.source("engine.max_model_len").is_some() => {
            "engine.max_model_len"
        }
        Shortage::PoolBeyondMemory { sized_by, .. } | Shortage::OneRequestDoesNotFit { sized_by, .. }
            if sized_by.flag().is_some() =>
        {
            match sized_by {
                PoolSize::Blocks => "engine.num_gpu_blocks_override",
                _ => "engine.kv_cache_memory_bytes",
            }
        }
        _ => "cluster.gpu",
    };
    let why = misfit.reason();
    let cell = judge.document.swept(&["cluster.", "model.", "engine."]);
    let message = if cell.is_empty() {
        format!("does not fit: {why}")
    } else {
        format!("the cell {} does not fit: {why}", cell.join(", "))
    };
    let notes = beside_a_misfit(judge);
    let mut problem = Diagnostic::new(message).at(judge.place(key)).misfit(why);
    if let Some(misfit) = &mut problem.misfit {
        misfit.notes = notes;
        misfit.is_of_context = is_of_context;
    }
    judge.report(problem.help(misfit.smallest_changes()));
    None
}

/// What was said before nothing fitted, and the values that nobody gave of those that decide the memory.
fn beside_a_misfit(judge: &Judge) -> Vec<String> {
    const DECIDE: [&str; 4] = [
        "gpu_memory_utilization",
        "max_model_len",
        "max_num_batched_tokens",
        "max_num_seqs",
    ];
    let assumed = judge.provenance.iter().filter(|value| value.is_assumed());
    let assumed: Vec<String> = assumed
        .filter_map(|value| {
            let key = value.key.strip_prefix("engine.")?;
            DECIDE.contains(&key).then(|| format!("{key} = {}", value.value))
        })
        .collect();
    let assumed = (!assumed.is_empty()).then(|| format!("assumed {}", assumed.join(", ")));
    judge.notes.iter().cloned().chain(assumed).collect()
}

#[cfg(test)]
mod tests;
