//! What can be turned on the page: flags of `run`, each with its bounds and the value that the scenario has.
//!
//! Which there are depends on the traffic (a closed loop has no rate) and the engine (SGLang's flags are others). Bounds are those of the slider: other values
//! may be typed.

use std::collections::BTreeMap;

use clap::CommandFactory;
use serde::Serialize;

use super::super::Cli;
use crate::config::{ENGINES, Resolved, SloMetric};
use crate::hardware;
use crate::model;
use crate::workload::{Arrivals, in_flight, mean_rate};

/// Controls under one heading.
#[derive(Debug, Serialize)]
pub(super) struct Group {
    name: &'static str,
    pub(super) controls: Vec<Control>,
}

/// A flag that can be turned.
#[derive(Debug, Serialize)]
pub(super) struct Control {
    /// Without its dashes; `goodput:ttft` is the part of `--goodput` that is of TTFT.
    pub(super) flag: &'static str,
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) help: String,
    /// It says how strong the load is: a knee looks for that.
    pub(super) load: bool,
    #[serde(flatten)]
    pub(super) kind: Kind,
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum Kind {
    Number {
        scale: Scale,
        low: f64,
        high: f64,
        /// Only whole numbers are taken.
        whole: bool,
        /// `None` where the scenario has no one value.
        value: Option<f64>,
    },
    Choice {
        choices: Vec<Choice>,
        value: Option<String>,
    },
    Switch {
        value: bool,
    },
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Scale {
    Log,
    Linear,
}

#[derive(Debug, Serialize)]
pub(super) struct Choice {
    pub(super) value: String,
    name: String,
}

/// The controls of a scenario, by group.
pub(super) fn of(resolved: &Resolved) -> Vec<Group> {
    let helps = helps();
    let groups = [
        ("Traffic", traffic(resolved)),
        ("Machines", machines(resolved)),
        ("Engine", engine(resolved)),
        ("SLO", slo(resolved)),
    ];
    let with_help = |mut control: Control| {
        if control.help.is_empty() {
            control.help = helps.get(control.flag).cloned().unwrap_or_default();
        }
        control
    };
    groups
        .into_iter()
        .map(|(name, controls)| Group {
            name,
            controls: controls.into_iter().map(with_help).collect(),
        })
        .filter(|group| !group.controls.is_empty())
        .collect()
}

/// The flag that says how strong the load is; `None` where none does, as of a replayed trace.
pub(super) fn load(groups: &[Group]) -> Option<&'static str> {
    let mut controls = groups.iter().flat_map(|group| &group.controls);
    controls.find(|control| control.load).map(|control| control.flag)
}

/// The control of a flag.
pub(super) fn find<'a>(groups: &'a [Group], flag: &str) -> Option<&'a Control> {
    let mut controls = groups.iter().flat_map(|group| &group.controls);
    controls.find(|control| control.flag == flag)
}

/// What `run --help` says of its flags.
pub(super) fn helps() -> BTreeMap<String, String> {
    let all = Cli::command();
    let run = all.find_subcommand("run");
    let args = run.into_iter().flat_map(clap::Command::get_arguments);
    args.filter_map(|arg| Some((arg.get_long()?.to_owned(), arg.get_help()?.to_string())))
        .collect()
}

fn control(flag: &'static str, name: &'static str, unit: &'static str, kind: Kind) -> Control {
    Control {
        flag,
        name,
        unit,
        help: String::new(),
        load: false,
        kind,
    }
}

/// The same of how strong the load is.
fn of_load(control: Control) -> Control {
    Control {
        load: true,
        ..control
    }
}

fn log(low: f64, high: f64, value: Option<f64>) -> Kind {
    Kind::Number {
        scale: Scale::Log,
        low,
        high,
        whole: false,
        value,
    }
}

fn linear(low: f64, high: f64, value: Option<f64>) -> Kind {
    Kind::Number {
        scale: Scale::Linear,
        low,
        high,
        whole: false,
        value,
    }
}

fn whole(scale: Scale, low: f64, high: f64, value: Option<f64>) -> Kind {
    Kind::Number {
        scale,
        low,
        high,
        whole: true,
        value,
    }
}

fn choice<'a>(choices: impl IntoIterator<Item = (&'a str, &'a str)>, value: Option<String>) -> Kind {
    let mut choices: Vec<Choice> = choices
        .into_iter()
        .map(|(value, name)| Choice {
            value: value.to_owned(),
            name: name.to_owned(),
        })
        .collect();
    // A file of the user's, or another spelling.
    if let Some(own) = &value
        && !choices.iter().any(|choice| choice.value == *own)
    {
        let (value, name) = (own.clone(), own.clone());
        choices.insert(0, Choice { value, name });
    }
    Kind::Choice { choices, value }
}

fn words<'a>(all: &'a [&'a str]) -> impl Iterator<Item = (&'a str, &'a str)> {
    all.iter().map(|word| (*word, *word))
}

/// A number of the scenario as it is resolved.
fn number(resolved: &Resolved, key: &str) -> Option<f64> {
    let value = resolved.value(key)?;
    value.as_float().or(value.as_integer().map(|whole| whole as f64))
}

fn text(resolved: &Resolved, key: &str) -> Option<String> {
    resolved.value(key)?.as_str().map(str::to_owned)
}

fn is_set(resolved: &Resolved, key: &str) -> Option<bool> {
    resolved.value(key)?.as_bool()
}

/// A length of all prompts or answers, as it is given; `None` where they have several.
fn length(resolved: &Resolved, key: &str) -> Option<f64> {
    let mut kinds = ["random", "fixed"].iter();
    kinds.find_map(|kind| number(resolved, &format!("workload.lengths.{kind}.{key}")))
}

/// Whether prompts and answers have one length each, to which a flag may set another.
pub(super) fn has_one_length(resolved: &Resolved) -> bool {
    length(resolved, "input_len").is_some() && length(resolved, "output_len").is_some()
}

fn traffic(resolved: &Resolved) -> Vec<Control> {
    let workload = &resolved.scenario.workload;
    let mut controls = Vec::new();
    match &workload.arrivals {
        Arrivals::Users { users, think_time } => {
            let users = Some(f64::from(*users));
            let users = whole(Scale::Log, 1.0, 10_000.0, users);
            controls.push(of_load(control("users", "Users", "", users)));
            let think = Some(think_time.seconds());
            controls.push(control("think-time", "Think time", "s", log(0.1, 1000.0, think)));
        }
        Arrivals::Replay { time_scale, .. } => {
            let scale = log(0.01, 100.0, Some(*time_scale));
            controls.push(control("time-scale", "Time scale of the trace", "×", scale));
        }
        Arrivals::Superposed { .. } => {}
        _ if in_flight(workload).is_some() => {
            let most = workload.client.max_concurrency.map(f64::from);
            let most = whole(Scale::Log, 1.0, 4096.0, most);
            controls.push(of_load(control(
                "max-concurrency",
                "Requests in flight",
                "",
                most,
            )));
        }
        _ => {
            let rate = log(0.1, 1000.0, mean_rate(workload));
            controls.push(of_load(control("request-rate", "Request rate", "req/s", rate)));
        }
    }
    let gamma = match &workload.arrivals {
        Arrivals::Poisson { .. } => Some(1.0),
        Arrivals::Gamma { burstiness, .. } => Some(*burstiness),
        _ => None,
    };
    if gamma.is_some() {
        let burstiness = log(0.05, 20.0, gamma);
        controls.push(control("burstiness", "Burstiness (1 is Poisson)", "", burstiness));
    }
    let has_lengths_of_its_own = matches!(
        workload.arrivals,
        Arrivals::Replay { .. } | Arrivals::Superposed { .. }
    );
    if !has_lengths_of_its_own {
        let (input, output) = (length(resolved, "input_len"), length(resolved, "output_len"));
        let prompt = whole(Scale::Log, 1.0, 131_072.0, input);
        controls.push(control("input-len", "Prompt length", "tokens", prompt));
        let answer = whole(Scale::Log, 1.0, 16_384.0, output);
        controls.push(control("output-len", "Answer length", "tokens", answer));
        if has_one_length(resolved) {
            let ratio = number(resolved, "workload.lengths.random.range_ratio");
            let spread = linear(0.0, 0.99, ratio.or(Some(0.0)));
            controls.push(control("random-range-ratio", "Spread of lengths", "", spread));
        }
    }
    let seed = whole(Scale::Linear, 0.0, 100.0, Some(resolved.scenario.seed as f64));
    controls.push(control("seed", "Seed", "", seed));
    controls
}

fn machines(resolved: &Resolved) -> Vec<Control> {
    let mut controls = vec![];
    let model = choice(
        model::names().map(|name| (name, name)),
        Some(resolved.model.name.clone()),
    );
    controls.push(control("model", "Model", "", model));
    let gpus = hardware::all().iter();
    let gpus = gpus.map(|device| (device.id.as_str(), device.id.as_str()));
    let gpu = choice(gpus, Some(resolved.device.id.clone()));
    controls.push(control("gpu", "GPU", "", gpu));
    // Pools have numbers of their own, which are no flags.
    if resolved.scenario.pools.len() == 1 {
        let ranks = number(resolved, "cluster.tensor_parallel_size").unwrap_or(1.0);
        let ranks = choice(words(&["1", "2", "4", "8"]), Some(ranks.to_string()));
        controls.push(control(
            "tensor-parallel-size",
            "Tensor parallel size",
            "GPUs",
            ranks,
        ));
        let replicas = f64::from(resolved.scenario.cluster.replicas);
        let replicas = whole(Scale::Linear, 1.0, 16.0, Some(replicas));
        controls.push(control("replicas", "Replicas", "", replicas));
        if resolved.scenario.cluster.replicas > 1 {
            const ROUTERS: [&str; 5] = [
                "round_robin",
                "random",
                "least_requests",
                "least_tokens",
                "power_of_two",
            ];
            let router = text(resolved, "cluster.router");
            controls.push(control("router", "Router", "", choice(words(&ROUTERS), router)));
        }
    }
    let methods = ["none", "fp8", "int8", "awq", "gptq"];
    let method = choice(words(&methods), text(resolved, "model.quantization"));
    controls.push(control("quantization", "Quantization", "", method));
    let format = text(resolved, "model.kv_cache_dtype").unwrap_or_else(|| "auto".to_owned());
    let format = choice(words(&["auto", "fp8"]), Some(format));
    controls.push(control("kv-cache-dtype", "KV cache format", "", format));
    controls
}

fn engine(resolved: &Resolved) -> Vec<Control> {
    let engine = &resolved.scenario.first_pool().engine;
    let profile = choice(words(&ENGINES), Some(engine.profile().to_owned()));
    let mut controls = vec![control("engine", "Engine", "", profile)];
    if resolved.scenario.pools.len() > 1 {
        return controls;
    }
    let number = |key: &str| number(resolved, key);
    let mut add = |flag, name, unit, kind| controls.push(control(flag, name, unit, kind));
    let counted = |low, high, value| whole(Scale::Log, low, high, value);
    if engine.name() == "sglang" {
        let chunk = number("sglang.chunked_prefill_size");
        add(
            "chunked-prefill-size",
            "Chunk of a prefill",
            "tokens",
            counted(64.0, 32_768.0, chunk),
        );
        let most = number("sglang.max_running_requests");
        add(
            "max-running-requests",
            "Most running requests",
            "",
            counted(1.0, 4096.0, most),
        );
        let policies = ["fcfs", "lpm", "dfs-weight", "lof", "random"];
        let policy = choice(words(&policies), text(resolved, "sglang.schedule_policy"));
        add("schedule-policy", "Policy of the queue", "", policy);
        let share = linear(0.1, 0.98, number("sglang.mem_fraction_static"));
        add(
            "mem-fraction-static",
            "Share of memory for weights and KV",
            "",
            share,
        );
        return controls;
    }
    if let Some(most) = number("engine.max_num_seqs") {
        add(
            "max-num-seqs",
            "Most running sequences",
            "",
            counted(1.0, 4096.0, Some(most)),
        );
    }
    if let Some(budget) = number("engine.max_num_batched_tokens") {
        let budget = counted(64.0, 65_536.0, Some(budget));
        add(
            "max-num-batched-tokens",
            "Token budget of a step",
            "tokens",
            budget,
        );
    }
    if let Some(share) = number("engine.gpu_memory_utilization") {
        let share = linear(0.1, 0.99, Some(share));
        add("gpu-memory-utilization", "Share of GPU memory", "", share);
    }
    let switches = [
        (
            "enable-chunked-prefill",
            "Chunked prefill",
            "engine.enable_chunked_prefill",
        ),
        (
            "enable-prefix-caching",
            "Prefix caching",
            "engine.enable_prefix_caching",
        ),
    ];
    for (flag, name, key) in switches {
        if let Some(value) = is_set(resolved, key) {
            add(flag, name, "", Kind::Switch { value });
        }
    }
    if let Some(policy) = text(resolved, "engine.scheduling_policy") {
        let policy = choice(words(&["fcfs", "priority"]), Some(policy));
        add("scheduling-policy", "Policy of the queue", "", policy);
    }
    if engine.name() == "vllm" {
        let value = is_set(resolved, "engine.enforce_eager").unwrap_or(false);
        add("enforce-eager", "Without CUDA graphs", "", Kind::Switch { value });
    }
    controls
}

fn slo(resolved: &Resolved) -> Vec<Control> {
    // Percentiles that are promised are no goodput limits, and classes have their own.
    if !resolved.slo.percentiles.is_empty() || !resolved.scenario.workload.classes.is_empty() {
        return Vec::new();
    }
    let limit = |of: SloMetric| {
        let mut limits = resolved.slo.goodput.iter();
        let found = limits.find(|(metric, _)| *metric == of);
        found.map(|(_, limit)| limit.seconds() * 1e3)
    };
    let told = |flag, name, metric, (low, high), of: &str| Control {
        help: format!("Requests count as good whose {of} is no longer than that"),
        ..control(flag, name, "ms", log(low, high, limit(metric)))
    };
    vec![
        told(
            "goodput:ttft",
            "TTFT at most",
            SloMetric::Ttft,
            (10.0, 60_000.0),
            "time to first token",
        ),
        told(
            "goodput:tpot",
            "TPOT at most",
            SloMetric::Tpot,
            (1.0, 1_000.0),
            "mean time per output token",
        ),
    ]
}
