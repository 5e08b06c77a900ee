//! Experts that lie whole on some GPUs of those that share a layer, and not in slices on all of them.
//!
//! vLLM's `--enable-expert-parallel` deals them out to every GPU. SGLang's `--ep-size` and TensorRT-LLM's `--ep_size` say to how many
//! groups, of `tp_size / ep_size` GPUs with a slice of each of their experts (`moe_tp_size` of both); SGLang's kernels that send tokens only where they
//! are routed (`--moe-a2a-backend`) set it to all GPUs, whatever was asked for.
//!
//! Left out: how these kernels exchange tokens, experts that are held twice, and experts that are more popular than others.

use super::judge::Judge;
use super::raw::{RawScenario, RawSglang};
use super::serving::Flags;
use crate::model::{Mlp, ModelShape};

const SIZE: &str = "cluster.expert_parallel_size";
const BACKEND: &str = "sglang.moe_a2a_backend";

/// What `--moe-a2a-backend` may be, of this release and those about it (`MOE_A2A_BACKEND_CHOICES`).
const BACKENDS: [&str; 10] = [
    "none",
    "deepep",
    "deepep_v2",
    "mooncake",
    "nixl",
    "mori",
    "ascend_fuseep",
    "flashinfer",
    "megamoe",
    "pplx",
];

/// Groups of GPUs that hold experts whole, each some, of so many GPUs that share a layer; 1 where every GPU has a slice of each.
pub(super) fn groups(raw: &RawScenario, model: &ModelShape, gpus: u32) -> u32 {
    if !model.has_experts() {
        return 1;
    }
    if raw.cluster.enable_expert_parallel == Some(true) || sends_tokens(&raw.sglang) {
        return gpus;
    }
    let asked = raw.cluster.expert_parallel_size.map_or(1, |groups| groups.0);
    u32::try_from(asked).map_or(gpus, |asked| asked.clamp(1, gpus))
}

/// Tokens go only where they are routed.
fn sends_tokens(raw: &RawSglang) -> bool {
    raw.moe_a2a_backend
        .as_deref()
        .is_some_and(|backend| backend != "none")
}

/// The same, judged.
pub(super) fn resolve(
    judge: &mut Judge,
    raw: &RawScenario,
    model: &ModelShape,
    gpus: u32,
    flags: &Flags,
) -> u32 {
    judge_backend(judge, raw, model, gpus);
    if let Some(asked) = raw.cluster.expert_parallel_size {
        judge.given(SIZE, asked);
        if let Some((problem, why, help)) = wrong(model, gpus, asked.0, flags) {
            judge.wrong_help(SIZE, problem, why, help);
            return 1;
        }
        if sends_tokens(&raw.sglang) && asked.0 != u64::from(gpus) {
            judge.ignore(format!(
                "ep_size = {asked} has no effect: with this moe_a2a_backend SGLang takes all {gpus} GPUs"
            ));
        }
    }
    let groups = groups(raw, model, gpus);
    if groups > 1 && !matches!(flags, Flags::Vllm(_)) {
        let each = match gpus / groups {
            1 => "each GPU holds some experts whole".to_owned(),
            slices => format!("each {slices} GPUs hold some experts, a slice of them on each"),
        };
        judge.notes.push(format!(
            "{each}: a step waits for those to which most tokens are routed, as chance deals them out (no expert is more popular than \
             another)"
        ));
    }
    groups
}

/// What is wrong with so many groups: the problem, why, and what to write instead.
fn wrong(model: &ModelShape, gpus: u32, asked: u64, flags: &Flags) -> Option<(&'static str, String, String)> {
    let leave_out = "leave it out".to_owned();
    if matches!(flags, Flags::Vllm(_)) {
        let why = "vLLM deals experts out to all GPUs, or to none".to_owned();
        let help = "write --enable-expert-parallel, or leave it out".to_owned();
        return Some(("is a flag of SGLang and TensorRT-LLM", why, help));
    }
    if asked == 0 {
        return Some(("must be at least 1, not 0", String::new(), leave_out));
    }
    let experts = model.layers.iter().find_map(|group| match group.mlp {
        Mlp::Experts { experts, .. } => Some(experts),
        Mlp::Dense { .. } | Mlp::Absent => None,
    });
    let Some(experts) = experts else {
        let why = "the model has no experts".to_owned();
        return (asked > 1).then_some(("has no effect", why, leave_out));
    };
    let write = format!("write a divisor of both: 1 to {gpus}");
    if !u64::from(gpus).is_multiple_of(asked) {
        let why = format!("{asked} groups of {gpus} GPUs");
        return Some(("does not divide the GPUs that share a layer", why, write));
    }
    (!u64::from(experts).is_multiple_of(asked)).then(|| {
        let why = format!("{experts} experts for {asked} groups");
        ("does not divide the model's experts", why, write)
    })
}

fn judge_backend(judge: &mut Judge, raw: &RawScenario, model: &ModelShape, gpus: u32) {
    let Some(backend) = raw.sglang.moe_a2a_backend.as_deref() else {
        return;
    };
    judge.given(BACKEND, backend);
    if !BACKENDS.contains(&backend) {
        judge.wrong_help(
            BACKEND,
            "is no backend of SGLang",
            backend,
            format!("one of {}", BACKENDS.join(", ")),
        );
    } else if backend != "none" && (gpus < 2 || !model.has_experts()) {
        judge.ignore(format!(
            "moe_a2a_backend = {backend} has no effect without experts on several GPUs"
        ));
    } else if backend != "none" {
        judge.notes.push(format!(
            "moe_a2a_backend = {backend}: every GPU gets all tokens here, as without it; kernels that send each only where it is routed move \
             less"
        ));
    }
}

#[cfg(test)]
mod tests {
    use crate::config::flags::tests::{TRAFFIC, said};
    use crate::config::tests::resolve_served;
    use crate::config::{Diagnostics, Resolved};

    fn judged(engine: &str, cluster: &str, rest: &str) -> Result<Resolved, Diagnostics> {
        let cluster = format!("tensor_parallel_size = 4\n{cluster}");
        let rest = format!("profile = \"{engine}\"\n{rest}");
        resolve_served("Qwen/Qwen3-30B-A3B", &cluster, &rest)
    }

    fn groups(engine: &str, cluster: &str, rest: &str) -> u32 {
        let resolved = judged(engine, cluster, rest).unwrap_or_else(|problems| panic!("{problems}"));
        resolved.placement.expert_groups
    }

    #[test]
    fn experts_are_dealt_out_as_each_engine_says() {
        for engine in ["sglang@0.5.4", "sglang@0.5.23", "tensorrt-llm"] {
            assert_eq!(groups(engine, "", ""), 1);
            assert_eq!(groups(engine, "expert_parallel_size = 2", ""), 2);
            assert_eq!(groups(engine, "expert_parallel_size = 4", ""), 4);
        }
        assert_eq!(groups("vllm", "enable_expert_parallel = true", ""), 4);
        let sends = "[sglang]\nmoe_a2a_backend = \"deepep\"";
        assert_eq!(groups("sglang@0.5.23", "", sends), 4);
        assert_eq!(groups("sglang@0.5.23", "expert_parallel_size = 2", sends), 4);
        let stays = "[sglang]\nmoe_a2a_backend = \"none\"";
        assert_eq!(groups("sglang@0.5.23", "", stays), 1);
        // With attention of their own all GPUs share the experts.
        let ranks = "data_parallel_size = 4\nexpert_parallel_size = 4";
        let apart = "[sglang]\nenable_dp_attention = true\nenable_dp_lm_head = true";
        assert_eq!(groups("sglang@0.5.4", ranks, apart), 4);
    }

    #[test]
    fn groups_that_do_not_come_out_even_are_refused() {
        for (engine, cluster, rest, why) in [
            (
                "sglang",
                "expert_parallel_size = 3",
                "",
                "does not divide the GPUs",
            ),
            (
                "sglang",
                "expert_parallel_size = 8",
                "",
                "does not divide the GPUs",
            ),
            ("sglang", "expert_parallel_size = 0", "", "at least 1"),
            (
                "vllm",
                "expert_parallel_size = 4",
                "",
                "is a flag of SGLang and TensorRT-LLM",
            ),
            (
                "sglang",
                "",
                "[sglang]\nmoe_a2a_backend = \"shout\"",
                "is no backend of SGLang",
            ),
        ] {
            let told = judged(engine, cluster, rest).map(|_| ()).unwrap_err().to_string();
            assert!(told.contains(why), "{engine} {cluster}: {told}");
        }
    }

    #[test]
    fn each_engine_s_own_spelling_is_understood() {
        for command in [
            "deepseek-ai/DeepSeek-V3 --engine sglang --context-length 4096 -tp 8 --ep-size 8",
            "deepseek-ai/DeepSeek-V3 --engine sglang --context-length 4096 -tp 8 --ep 2 --moe-a2a-backend none",
            "openai/gpt-oss-120b --engine tensorrt-llm --max_seq_len 4096 -tp 4 --ep_size 4",
        ] {
            let told = said(&format!("{TRAFFIC} --gpu h200 {command}"));
            assert!(told.contains("some experts"), "{command}: {told}");
        }
    }
}
