//! What is worth asking of a scenario by itself: the settings that its engine has and its traffic can feel, each changed alone.
//!
//! What cannot matter here is left out with its reason; what the engine or the model refuses is told by whoever reads the flags.

use std::collections::BTreeMap;

use crate::analysis::Outcome;
use crate::analysis::knee::Limiter;
use crate::cli::run::{caches_prefixes, shares_prefixes};
use crate::config::Resolved;
use crate::engine::EngineSpec;
use crate::engine::sglang::QueuePolicy;
use crate::metrics::Summary;
use crate::model::Quantization;
use crate::report::explained::Kind;
use crate::report::figures::{count, percent};
use crate::report::limiter_code;
use crate::sim::Role;

/// A change by its flags.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Question {
    pub(super) name: String,
    pub(super) flags: String,
    pub(super) kind: Kind,
}

/// What is asked, and what is not, with the reason.
#[derive(Default)]
pub(super) struct Questions {
    pub(super) asked: Vec<Question>,
    pub(super) left_out: Vec<(String, String)>,
    /// Those that cannot matter at this load, and may at the knee.
    pub(super) at_the_knee: Vec<AtTheKnee>,
}

/// A question that is asked where a resource is pressed the hardest at the knee, and else left out with its reason.
pub(super) struct AtTheKnee {
    /// As files spell it.
    pub(super) pressed: &'static str,
    pub(super) question: Question,
    pub(super) why_not: String,
}

impl Questions {
    fn ask(&mut self, name: impl Into<String>, flags: impl Into<String>, kind: Kind) {
        self.asked.push(Question {
            name: name.into(),
            flags: flags.into(),
            kind,
        });
    }

    fn ask_if_pressed(&mut self, pressed: Limiter, question: Question, why_not: String) {
        self.at_the_knee.push(AtTheKnee {
            pressed: limiter_code(pressed),
            question,
            why_not,
        });
    }

    fn leave_out(&mut self, name: impl Into<String>, why: impl Into<String>) {
        self.left_out.push((name.into(), why.into()));
    }
}

/// Of memory in use at most, above which more of it may matter.
const SCARCE: f64 = 0.5;

/// Everything that is asked by default.
pub(super) fn by_default(resolved: &Resolved, outcome: &Outcome) -> Questions {
    let mut questions = Questions::default();
    let engine = &resolved.scenario.first_pool().engine;
    let summary = outcome.result.quotable().unwrap_or(&outcome.result.whole);
    if resolved.is_ideal() {
        questions.leave_out(
            "machines and number formats",
            "the server is ideal: its steps last as long as was said",
        );
    } else {
        budget(&mut questions, engine);
    }
    seats(&mut questions, engine, outcome, summary);
    machines(&mut questions, resolved);
    if !resolved.is_ideal() {
        numbers(&mut questions, resolved);
        memory(&mut questions, resolved, summary);
    }
    sharing(&mut questions, resolved);
    cutting(&mut questions, engine);
    order(&mut questions, resolved);
    questions
}

/// Half the token budget of a step, and twice as much.
fn budget(questions: &mut Questions, engine: &EngineSpec) {
    let flag = match engine {
        EngineSpec::Vllm(_) | EngineSpec::Scheduled(_) => "max-num-batched-tokens",
        EngineSpec::Sglang(config) if config.chunked_prefill_size.is_some() => "chunked-prefill-size",
        EngineSpec::Sglang(_) => "max-prefill-tokens",
        EngineSpec::Trtllm(_) => "max-num-tokens",
    };
    let now = engine.prompt_tokens_per_step();
    for then in [now / 2, now.saturating_mul(2)] {
        questions.ask(
            format!("{flag} {} → {}", count(now.into()), count(then.into())),
            format!("--{flag} {then}"),
            Kind::Setting,
        );
    }
}

/// Half as many sequences at once, and twice as many, where that many come.
fn seats(questions: &mut Questions, engine: &EngineSpec, outcome: &Outcome, summary: &Summary) {
    let flag = match engine {
        EngineSpec::Vllm(_) | EngineSpec::Scheduled(_) => "max-num-seqs",
        EngineSpec::Sglang(_) => "max-running-requests",
        EngineSpec::Trtllm(_) => "max-batch-size",
    };
    let now = engine.max_num_seqs();
    let of_replicas = outcome
        .result
        .by_replica
        .iter()
        .map(|replica| replica.running_max);
    let most = of_replicas.max().unwrap_or(summary.occupancy.running_max);
    let why = format!("no more than {} run at once at this load", count(most.into()));
    let of = |then: u32| Question {
        name: format!("{flag} {} → {}", count(now.into()), count(then.into())),
        flags: format!("--{flag} {then}"),
        kind: Kind::Setting,
    };
    // One seat has no half.
    match of(now / 2) {
        _ if now < 2 => {}
        half if most > now / 2 => questions.asked.push(half),
        half => questions.leave_out(half.name, why.clone()),
    }
    match of(now.saturating_mul(2)) {
        twice if most >= now => questions.asked.push(twice),
        twice => questions.ask_if_pressed(Limiter::MaxNumSeqs, twice, why),
    }
}

/// More GPUs, in two ways that take as many.
fn machines(questions: &mut Questions, resolved: &Resolved) {
    let scenario = &resolved.scenario;
    let pools = |role: Role| scenario.pools.iter().find(|pool| pool.role == role);
    if let (Some(prefill), Some(decode)) = (pools(Role::Prefill), pools(Role::Decode)) {
        let (x, y) = (prefill.replicas, decode.replicas);
        questions.ask(
            "+1 prefill replica",
            format!("--prefill {} --decode {y}", x + 1),
            Kind::Hardware,
        );
        questions.ask(
            "+1 decode replica",
            format!("--prefill {x} --decode {}", y + 1),
            Kind::Hardware,
        );
        return;
    }
    if scenario.pools.len() > 1 {
        questions.leave_out(
            "more GPUs",
            "the scenario names its pools: --what-if with a scenario of other pools asks",
        );
        return;
    }
    if scenario.lock_step.is_some() {
        questions.leave_out(
            "more GPUs",
            "the replicas are ranks of one server: --what-if \"-dp N\" asks",
        );
        return;
    }
    let replicas = scenario.cluster.replicas;
    if !resolved.is_ideal() {
        let ranks = resolved
            .servers
            .first()
            .map_or(1, |server| server.placement.gpus() / server.placement.stages());
        questions.ask(
            format!("-tp {ranks} → {}", 2 * ranks),
            format!("-tp {}", 2 * ranks),
            Kind::Hardware,
        );
    }
    if replicas > 1 {
        questions.ask(
            "+1 replica",
            format!("--replicas {}", replicas + 1),
            Kind::Hardware,
        );
    }
    questions.ask(
        format!("replicas {replicas} → {}", 2 * replicas),
        format!("--replicas {}", 2 * replicas),
        Kind::Hardware,
    );
}

/// Fewer bits of weights and of the KV cache.
fn numbers(questions: &mut Questions, resolved: &Resolved) {
    let name = "fp8 weights";
    match resolved.model.quantization {
        Quantization::None => questions.ask(name, "--quantization fp8", Kind::Numbers),
        stored => questions.leave_out(
            name,
            format!("the weights are stored as {} already", stored.name()),
        ),
    }
    let settings = resolved.settings();
    let stored = settings
        .get("model.kv_cache_dtype")
        .map_or("auto", String::as_str);
    let name = "fp8 KV cache";
    match stored.trim_matches('"').starts_with("fp8") {
        false => questions.ask(name, "--kv-cache-dtype fp8", Kind::Numbers),
        true => questions.leave_out(name, "it is stored so already"),
    }
}

/// More of the GPU's memory.
fn memory(questions: &mut Questions, resolved: &Resolved, summary: &Summary) {
    let (flag, key, most) = match resolved.scenario.first_pool().engine {
        EngineSpec::Sglang(_) => ("mem-fraction-static", "sglang.mem_fraction_static", 0.95),
        EngineSpec::Trtllm(_) => (
            "kv-cache-free-gpu-memory-fraction",
            "trtllm.kv_cache_free_gpu_memory_fraction",
            0.95,
        ),
        EngineSpec::Vllm(_) | EngineSpec::Scheduled(_) => {
            ("gpu-memory-utilization", "engine.gpu_memory_utilization", 0.95)
        }
    };
    let settings: BTreeMap<String, String> = resolved.settings();
    let overridden = settings
        .get("engine.num_gpu_blocks_override")
        .and_then(|blocks| blocks.parse::<u64>().ok());
    let question = match (
        overridden,
        settings.get(key).and_then(|now| now.parse::<f64>().ok()),
    ) {
        // The number of blocks makes a share of the memory void.
        (Some(now), _) => Question {
            name: format!("num-gpu-blocks-override {} → {}", count(now), count(2 * now)),
            flags: format!("--num-gpu-blocks-override {}", 2 * now),
            kind: Kind::Setting,
        },
        (None, Some(now)) if now < most => Question {
            name: format!("{flag} {now} → {most}"),
            flags: format!("--{flag} {most}"),
            kind: Kind::Setting,
        },
        (None, Some(now)) => return questions.leave_out(flag, format!("it is {now} already")),
        (None, None) => {
            return questions.leave_out(
                flag,
                "the size of the KV pool was given or is derived, and no share of the memory",
            );
        }
    };
    let used = summary.occupancy.kv_usage_max;
    if used >= SCARCE || summary.preemptions > 0 {
        return questions.asked.push(question);
    }
    let why = format!(
        "the KV pool is never more than {} full at this load",
        percent(used)
    );
    questions.ask_if_pressed(Limiter::KvBlocks, question, why);
}

/// The prefix cache off, or on.
fn sharing(questions: &mut Questions, resolved: &Resolved) {
    let is_on = caches_prefixes(&resolved.scenario);
    let name = format!("prefix caching {}", if is_on { "off" } else { "on" });
    if !shares_prefixes(&resolved.scenario) {
        return questions.leave_out(name, "no prompts of this traffic begin alike");
    }
    let flag = match resolved.scenario.first_pool().engine {
        EngineSpec::Sglang(_) => format!("--disable-radix-cache={is_on}"),
        EngineSpec::Trtllm(_) => format!("--enable-block-reuse={}", !is_on),
        EngineSpec::Vllm(_) | EngineSpec::Scheduled(_) => format!("--enable-prefix-caching={}", !is_on),
    };
    questions.ask(name, flag, Kind::Setting);
}

/// Prompts whole, or in chunks where they are whole.
fn cutting(questions: &mut Questions, engine: &EngineSpec) {
    let asked = match engine {
        EngineSpec::Vllm(config) => Some((config.enable_chunked_prefill, "--enable-chunked-prefill")),
        EngineSpec::Trtllm(config) => Some((config.enable_chunked_prefill, "--enable-chunked-prefill")),
        EngineSpec::Sglang(config) if config.chunked_prefill_size.is_some() => {
            return questions.ask("chunked prefill off", "--chunked-prefill-size -1", Kind::Setting);
        }
        EngineSpec::Sglang(_) | EngineSpec::Scheduled(_) => None,
    };
    if let Some((is_on, flag)) = asked {
        let name = format!("chunked prefill {}", if is_on { "off" } else { "on" });
        questions.ask(name, format!("{flag}={}", !is_on), Kind::Setting);
    }
}

/// Another order of the queue, where the traffic can feel one.
fn order(questions: &mut Questions, resolved: &Resolved) {
    match &resolved.scenario.first_pool().engine {
        EngineSpec::Sglang(config) if shares_prefixes(&resolved.scenario) && config.radix_cache => {
            let (now, then) = match config.policy {
                QueuePolicy::Fcfs => ("fcfs", "lpm"),
                _ => ("lpm", "fcfs"),
            };
            questions.ask(
                format!("schedule-policy {now} → {then}"),
                format!("--schedule-policy {then}"),
                Kind::Setting,
            );
        }
        EngineSpec::Vllm(_) => {
            let settings = resolved.settings();
            let has_priorities = settings
                .keys()
                .any(|key| key.starts_with("workload.") && key.ends_with(".priority"));
            let is_fcfs = resolved.scenario.first_pool().engine.serves_in_order();
            match (has_priorities, is_fcfs) {
                (true, true) => questions.ask(
                    "scheduling-policy fcfs → priority",
                    "--scheduling-policy priority",
                    Kind::Setting,
                ),
                (_, false) => questions.ask(
                    "scheduling-policy priority → fcfs",
                    "--scheduling-policy fcfs",
                    Kind::Setting,
                ),
                (false, true) => questions.leave_out("scheduling-policy", "no request has a priority"),
            }
        }
        _ => {}
    }
}
