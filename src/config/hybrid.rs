//! Models with recurrent layers: which engine serves them here, and what of it is not modelled.
//!
//! vLLM 0.33 caches their prefixes unless told otherwise: it cuts prompts at the ends of blocks, keeps the state at each, and a hit
//! needs a state that is still there. None of that is modelled, so it is off, and a note says so. Law: nothing that would change
//! a result is taken in silence.

use super::diagnostic::Diagnostic;
use super::document::Source;
use super::judge::Judge;
use super::profile::Profile;
use super::raw::{RawEngine, RawScenario};
use super::version::EngineKind;
use crate::engine::memory::{MemoryPlan, PoolRules};
use crate::model::ModelShape;

const CACHING: &str = "engine.enable_prefix_caching";

/// Whether prefixes of such a model are cached: they are not, whatever the version's default is.
pub(super) fn caching(judge: &mut Judge, raw: &RawEngine, profile: &Profile) -> bool {
    match raw.enable_prefix_caching {
        Some(true) => judge.wrong_help(
            CACHING,
            "is not modelled for a model with recurrent layers",
            "a hit needs the state at the end of a cached block, which is kept and evicted apart from keys and values",
            "leave it out, or write false, and serve with --no-enable-prefix-caching",
        ),
        None if profile.defaults.enable_prefix_caching => judge.notes.push(format!(
            "{} caches prefixes of this model by default, which is not modelled for recurrent layers: what is counted and run is \
             a server with --no-enable-prefix-caching",
            profile.profile
        )),
        Some(false) | None => {}
    }
    let source = Source::Assumption("cached states of recurrent layers are not modelled".to_string());
    judge.take(CACHING, raw.enable_prefix_caching, false, source);
    false
}

/// Formats of states, which are the checkpoint's here.
pub(super) fn check_formats(judge: &mut Judge, raw: &RawEngine, model: Option<&ModelShape>) {
    let has_states = model.is_some_and(|model| model.recurrence().is_some());
    for (key, given) in [
        ("engine.mamba_cache_dtype", &raw.mamba_cache_dtype),
        ("engine.mamba_ssm_cache_dtype", &raw.mamba_ssm_cache_dtype),
    ] {
        let Some(given) = given else { continue };
        judge.given(key, given);
        let name = judge.document.name_of(key);
        if given.eq_ignore_ascii_case("auto") {
            judge.ignore(format!("{name} auto has no effect: this is already the default"));
        } else if !has_states && model.is_some() {
            judge.ignore(format!(
                "{name} {given} has no effect: the model has no recurrent layers"
            ));
        } else {
            judge.wrong_help(
                key,
                "is not supported: it would change the result",
                "here states of recurrent layers are in the checkpoint's format",
                "leave it out, or write auto",
            );
        }
    }
}

/// Whether layers with a window keep everything, because vLLM's hybrid allocator is off.
pub(super) fn keeps_windows(judge: &mut Judge, raw: &RawEngine, model: Option<&ModelShape>) -> bool {
    let key = "engine.disable_hybrid_kv_cache_manager";
    let (Some(is_off), Some(model)) = (raw.disable_hybrid_kv_cache_manager, model) else {
        return false;
    };
    judge.given(key, is_off);
    if !is_off {
        return false;
    }
    if model.recurrence().is_some() || model.per_layer_input.is_some() {
        judge.wrong_help(
            key,
            "does not go with this model",
            "its layers keep unlike things, which only that allocator lays out",
            "leave it out",
        );
    } else if !model.has_windows() {
        let name = judge.document.name_of(key);
        judge.ignore(format!(
            "{name} has no effect: no layer of the model has a window or a state"
        ));
    }
    model.has_windows()
}

/// Engines whose memory for states is not modelled.
pub(super) fn check_engine(judge: &mut Judge, raw: &RawScenario, model: &ModelShape) {
    if model.recurrence().is_none() {
        return;
    }
    let other = match raw.engine.kind() {
        EngineKind::Vllm => return,
        EngineKind::Sglang => "SGLang has a pool of states beside that of tokens",
        EngineKind::Scheduled(_) => "this engine has no blocks for states",
        EngineKind::Trtllm => "TensorRT-LLM has a pool of states of its own",
    };
    refuse(judge, other);
}

/// Versions of vLLM whose allocator lays states out otherwise.
pub(super) fn check_version(judge: &mut Judge, profile: &Profile, model: &ModelShape) {
    if model.recurrence().is_some() && profile.pool_rules() != PoolRules::BY_REQUESTS {
        refuse(judge, "older versions pad and group the states otherwise");
    }
}

fn refuse(judge: &mut Judge, why: &str) {
    let problem = "serves no model with recurrent layers here";
    judge.wrong_help("engine.profile", problem, why.to_string(), "use vllm@0.33");
}

/// Pools that hand keys and values over would hand states over, too.
pub(super) fn check_role(judge: &mut Judge, key: &str, model: Option<&ModelShape>) {
    if model.is_some_and(|model| model.recurrence().is_some()) {
        judge.wrong_help(
            key,
            "does not go with a model with recurrent layers",
            "the transfer of their states is not modelled",
            "serve it by pools that do both, prefill and decode",
        );
    }
}

/// Full CUDA graphs ask for a block of states for each sequence that may run (`resolve_cudagraph_mode_and_sizes`).
pub(super) fn check_seats(judge: &mut Judge, plan: &MemoryPlan, max_num_seqs: u32, has_full_graphs: bool) {
    let blocks = plan.num_gpu_blocks;
    if plan.layout.states.is_some() && has_full_graphs && max_num_seqs > blocks {
        let why = format!(
            "max_num_seqs = {max_num_seqs} is more than the pool has blocks, {blocks}: vLLM does not start so, because CUDA graphs of a \
             model with recurrent layers need a state for each sequence"
        );
        let place = judge.place("engine.max_num_seqs");
        let problem = Diagnostic::new(format!("does not fit: {why}"))
            .at(place)
            .misfit(why);
        judge.report(problem.help(format!("smallest change that fits: --max-num-seqs {blocks}")));
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::{BASE, resolve_text};

    /// The base scenario with a hybrid that fits one GPU.
    fn told(more: &str) -> Result<crate::config::Resolved, String> {
        let text = BASE.replacen(
            "meta-llama/Llama-3.1-8B-Instruct",
            "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
            1,
        );
        let text = text.replacen("[engine]\n", &format!("[engine]\n{more}\n"), 1);
        resolve_text(&text).map_err(|problems| problems.to_string())
    }

    #[test]
    fn a_hybrid_runs_without_prefix_caching_and_says_so() {
        let resolved = told("max_num_seqs = 128").unwrap_or_else(|problems| panic!("{problems}"));
        let engine = resolved.scenario.first_pool().engine.vllm().unwrap();
        assert!(!engine.enable_prefix_caching);
        // (3 · 6144 · 2 + 64 · 64 · 128 · 4) B ÷ 1,024 B a token; 6 attention layers, and 23 others in four groups.
        assert_eq!((engine.block_size, engine.kv_groups.states), (2096, 4));
        let says = |text: &str| resolved.notes.iter().any(|note| note.contains(text));
        assert!(says("--no-enable-prefix-caching"), "{:?}", resolved.notes);
        let off = told("max_num_seqs = 128\nenable_prefix_caching = false").unwrap();
        assert!(
            off.notes
                .iter()
                .all(|note| !note.contains("--no-enable-prefix-caching"))
        );
    }

    #[test]
    fn formats_of_states_other_than_the_checkpoint_s_are_refused() {
        let told = |words: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            let problems = crate::config::argv::normalise(&words).problems;
            problems
                .iter()
                .map(|problem| problem.render(false))
                .collect::<String>()
        };
        assert!(told("--use-replayssm").contains("Mamba2"));
        let of_hybrid = |more: &str| super::tests::told(&format!("max_num_seqs = 128\n{more}"));
        let wrong = of_hybrid("mamba_ssm_cache_dtype = \"float16\"").err().unwrap();
        assert!(wrong.contains("in the checkpoint's format"), "{wrong}");
        assert!(of_hybrid("mamba_ssm_cache_dtype = \"auto\"").is_ok());
        let plain =
            resolve_text(&BASE.replacen("[engine]\n", "[engine]\nmamba_ssm_cache_dtype = \"float16\"\n", 1));
        let ignored = plain.unwrap_or_else(|problems| panic!("{problems}")).ignored;
        assert!(
            ignored
                .iter()
                .any(|told| told.contains("has no recurrent layers")),
            "{ignored:?}"
        );
    }

    #[test]
    fn without_the_hybrid_allocator_windows_keep_everything() {
        let fitted = |line: &str| {
            let flags =
                crate::config::flags::tests::flags_of(&format!("--gpu h100 --max-model-len 32768 {line}"));
            let input = crate::config::assemble(&flags, &crate::config::NoFiles).unwrap();
            crate::config::capacity(input.document, &crate::config::NoFiles)
                .map_err(|problems| problems.to_string())
        };
        let off = "--disable-hybrid-kv-cache-manager";
        let requests = |line: &str| fitted(line).unwrap().plan.unwrap().concurrency(32_768);
        assert!(requests(&format!("openai/gpt-oss-20b {off}")) < requests("openai/gpt-oss-20b"));
        let dense = fitted(&format!("Qwen/Qwen3-8B {off}")).unwrap().notes;
        assert!(
            dense
                .iter()
                .any(|note| note.contains("no layer of the model has a window")),
            "{dense:?}"
        );
        let hybrid = fitted(&format!("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16 {off}")).unwrap_err();
        assert!(hybrid.contains("does not go with this model"), "{hybrid}");
    }

    #[test]
    fn models_fit_with_the_blocks_that_their_states_and_layers_make() {
        let fitted = |line: &str| {
            let words = format!("--gpu h100 --tensor-parallel-size 2 --max-model-len 32768 {line}");
            let input = crate::config::assemble(
                &crate::config::flags::tests::flags_of(&words),
                &crate::config::NoFiles,
            );
            let capacity = crate::config::capacity(input.unwrap().document, &crate::config::NoFiles);
            capacity
                .unwrap_or_else(|problems| panic!("{problems}"))
                .plan
                .unwrap()
                .layout
        };
        // (3 · 6144 · 2 + 16 · 128 · 128 · 4) B ÷ 1,152 B a token, the next multiple of 128; 20 layers in three groups of 7.
        let kimi = fitted("moonshotai/Kimi-Linear-48B-A3B-Instruct");
        assert_eq!(
            (kimi.block_size, kimi.groups.full, kimi.groups.states),
            (1024, 1, 3)
        );
        // (3 · (4096 + 256) · 2 + 64 · 64 · 128 · 2) B ÷ 2,048 B a token; 36 layers in nine groups of 4.
        let granite = fitted("ibm-granite/granite-4.0-h-small");
        assert_eq!(
            (granite.block_size, granite.groups.full, granite.groups.states),
            (528, 1, 9)
        );
        // 49 layers of 4 KV heads of 128 on each rank, in one group.
        let searched = fitted("nvidia/Llama-3_3-Nemotron-Super-49B-v1");
        assert_eq!(searched.bytes_per_token.0, 49 * 2 * 4 * 128 * 2);
        assert_eq!((searched.block_size, searched.groups.full), (16, 1));
    }

    #[test]
    fn what_is_not_modelled_of_a_hybrid_is_refused() {
        let refused = |more: &str, why: &str| {
            let problems = told(more).err().unwrap_or_else(|| panic!("{more} is taken"));
            assert!(problems.contains(why), "{more}: {problems}");
        };
        refused(
            "enable_prefix_caching = true",
            "is not modelled for a model with recurrent layers",
        );
        refused("profile = \"vllm@0.11\"", "use vllm@0.33");
        refused("profile = \"sglang@0.5.23\"", "use vllm@0.33");
        refused("profile = \"vllm@0.6\"", "use vllm@0.33");
        refused(
            "max_num_seqs = 5000",
            "CUDA graphs of a model with recurrent layers need a state",
        );
        let eager = told("max_num_seqs = 4096\nenforce_eager = true");
        assert!(eager.is_ok(), "{:?}", eager.err());
    }
}
