//! Files of options that the command of a server names: vLLM's and SGLang's `--config`, whose keys are flags, and TensorRT-LLM's
//! `--extra_llm_api_options` (`--config`), whose keys are fields of its `LlmArgs`.
//!
//! A flag beside vLLM's and SGLang's files replaces what they say (`FlexibleArgumentParser`, `ConfigArgumentMerger`); TensorRT-LLM's replaces flags
//! (`update_llm_args_with_extra_dict`). Law: every key becomes a flag, is named as one without effect, or is refused.

use serde_json::Value;

use super::super::diagnostic::{Diagnostic, Place};
use super::super::files::{Files, text_of};

/// What TensorRT-LLM's keys are called as flags.
const FLAGS: [(&str, &str); 24] = [
    ("max_batch_size", "max-batch-size"),
    ("max_num_tokens", "max-num-tokens"),
    ("max_seq_len", "max-seq-len"),
    ("tensor_parallel_size", "tensor-parallel-size"),
    ("pipeline_parallel_size", "pipeline-parallel-size"),
    ("moe_expert_parallel_size", "expert-parallel-size"),
    (
        "kv_cache_config.free_gpu_memory_fraction",
        "kv-cache-free-gpu-memory-fraction",
    ),
    ("kv_cache_config.max_tokens", "kv-cache-max-tokens"),
    ("kv_cache_config.tokens_per_block", "tokens-per-block"),
    ("kv_cache_config.enable_block_reuse", "enable-block-reuse"),
    ("kv_cache_config.enable_partial_reuse", "enable-partial-reuse"),
    ("kv_cache_config.dtype", "kv-cache-dtype"),
    (
        "scheduler_config.capacity_scheduler_policy",
        "capacity-scheduler-policy",
    ),
    ("batch_wait_timeout_iters", "batch-wait-timeout-iters"),
    ("batch_wait_max_tokens_ratio", "batch-wait-max-tokens-ratio"),
    ("disable_overlap_scheduler", "disable-overlap-scheduler"),
    ("cuda_graph_config.max_batch_size", "cuda-graph-max-batch-size"),
    ("cuda_graph_config.enable_padding", "cuda-graph-padding"),
    ("enable_chunked_prefill", "enable-chunked-prefill"),
    ("stream_interval", "stream-interval"),
    ("enable_attention_dp", "enable-attention-dp"),
    (
        "attention_dp_config.enable_balance",
        "attention-dp-enable-balance",
    ),
    ("attention_dp_config.timeout_iters", "attention-dp-timeout-iters"),
    (
        "attention_dp_config.batching_wait_iters",
        "attention-dp-batching-wait-iters",
    ),
];

/// Keys without effect, themselves or what is below them, and why.
const WITHOUT_EFFECT: [(&[&str], &str); 6] = [
    (
        &[
            "moe_config",
            "attn_backend",
            "torch_compile_config",
            "allreduce_strategy",
            "nvfp4_gemm_config",
            "use_cute_dsl_blockscaling_mm",
        ],
        "the calibration says how fast kernels are",
    ),
    (
        &[
            "print_iter_log",
            "enable_iter_perf_stats",
            "enable_iter_req_stats",
            "return_perf_metrics",
            "perf_metrics_max_requests",
            "enable_layerwise_nvtx_marker",
        ],
        "logs and statistics take no time here",
    ),
    (
        &[
            "trust_remote_code",
            "tokenizer",
            "tokenizer_mode",
            "skip_tokenizer_init",
            "load_format",
            "checkpoint_format",
            "model",
            "revision",
        ],
        "it is about loading",
    ),
    (
        &[
            "guided_decoding_backend",
            "reasoning_parser",
            "sampler_type",
            "gather_generation_logits",
            "postprocess_tokenizer_dir",
            "num_postprocess_workers",
        ],
        "it is about what an answer carries, not when it comes",
    ),
    (
        &[
            "backend",
            "gpus_per_node",
            "env_overrides",
            "orchestrator_type",
            "cache_transceiver_config",
            "kv_cache_config.event_buffer_max_size",
            "kv_cache_config.copy_on_partial_reuse",
            "kv_cache_config.use_uvm",
        ],
        "where and how processes run is not modelled",
    ),
    (
        &["enable_lm_head_tp_in_adp"],
        "it slices the LM head of drafts alone, and nothing drafts here",
    ),
];

/// A command's words with what its files say, and sentences on what of that has no effect.
pub(super) type Expanded = (Vec<String>, Vec<String>);

/// Puts what the files of options of a server's command say into its words.
pub(super) fn expand(
    words: Vec<String>,
    server: &str,
    files: &dyn Files,
) -> Result<Expanded, Vec<Diagnostic>> {
    let names: &[&str] = match server {
        "tensorrt-llm" => &["--extra_llm_api_options", "--extra-llm-api-options", "--config"],
        _ => &["--config"],
    };
    let (mut rest, mut told, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    let (mut before, mut behind) = (Vec::new(), Vec::new());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (word.clone(), None),
        };
        if !names.contains(&name.as_str()) {
            rest.push(word);
            continue;
        }
        let Some(path) = value.or_else(|| words.next()) else {
            rest.push(word);
            continue;
        };
        match read(&path, files) {
            Err(wrong) => problems.push(wrong),
            Ok(options) if server == "tensorrt-llm" => {
                let said = of_trtllm(&path, &options);
                behind.extend(said.words);
                told.extend(said.ignored);
                problems.extend(said.problems);
            }
            Ok(options) => before.extend(options.iter().flat_map(|(key, value)| flag(key, value))),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    // Behind the model: a flag that takes a list would take it, too.
    let model = rest.iter().take_while(|word| !word.starts_with('-')).count();
    let flags = rest.split_off(model);
    let all = [rest, before, flags, behind].concat();
    Ok((all, told))
}

/// The keys of a file, in the order of their names.
fn read(path: &str, files: &dyn Files) -> Result<Vec<(String, Value)>, Diagnostic> {
    let problem = |what: String| Diagnostic::new(what).at(Place::Flag("--serve-cmd".to_owned()));
    let text = text_of(path, files).map_err(|(what, why)| {
        problem(format!(
            "in --serve-cmd: the file of options {path} {what}: {why}"
        ))
        .help("put it where the command finds it, or write its keys as flags")
    })?;
    let value: Value = serde_saphyr::from_str(&text)
        .map_err(|error| problem(format!("in --serve-cmd: {path} is not YAML: {error}")))?;
    match value {
        Value::Object(keys) => Ok(keys.into_iter().collect()),
        Value::Null => Ok(Vec::new()),
        _ => Err(problem(format!(
            "in --serve-cmd: {path} has no keys: it holds `key: value` lines"
        ))),
    }
}

/// A flag and its value, as vLLM and SGLang write a key of their files; none of a switch that is off.
fn flag(key: &str, value: &Value) -> Vec<String> {
    let name = format!("--{}", key.replace('_', "-"));
    match value {
        Value::Null | Value::Bool(false) => Vec::new(),
        Value::Bool(true) => vec![name],
        Value::Array(items) => std::iter::once(name).chain(items.iter().map(written)).collect(),
        _ => vec![name, written(value)],
    }
}

/// A value as a command line has it.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What a file of TensorRT-LLM's says.
#[derive(Debug, Default)]
struct Said {
    words: Vec<String>,
    ignored: Vec<String>,
    problems: Vec<Diagnostic>,
}

fn of_trtllm(path: &str, options: &[(String, Value)]) -> Said {
    let mut said = Said::default();
    for (key, value) in options {
        said.take(path, key, value);
    }
    said
}

impl Said {
    fn take(&mut self, path: &str, key: &str, value: &Value) {
        if let Some((_, flag)) = FLAGS.iter().find(|(name, _)| *name == key) {
            return match value {
                Value::Null => {}
                _ => self
                    .words
                    .push(format!("--{flag}={}", written(value).to_lowercase())),
            };
        }
        let is_below = |name: &&str| key == *name || key.starts_with(&format!("{name}."));
        if let Some((_, why)) = WITHOUT_EFFECT
            .iter()
            .find(|(names, _)| names.iter().any(is_below))
        {
            return self
                .ignored
                .push(format!("`{key}` of {path} has no effect: {why}"));
        }
        match (key, value) {
            ("cuda_graph_config", Value::Null) => self.words.push("--enforce-eager".to_owned()),
            ("cuda_graph_config.batch_sizes", Value::Array(sizes)) => self.take_sizes(path, sizes),
            (_, Value::Object(below)) if !key.contains('.') => {
                for (name, value) in below {
                    self.take(path, &format!("{key}.{name}"), value);
                }
            }
            // What is off is as if it were not there.
            (_, Value::Null | Value::Bool(false)) => {}
            _ => self.problems.push(
                Diagnostic::new(format!(
                    "in --serve-cmd: `{key}` of {path} is not supported: it is not known here, or not modelled, and may change the result"
                ))
                .at(Place::Flag("--serve-cmd".to_owned()))
                .help("leave it out of the file"),
            ),
        }
    }

    /// The largest of the captured sizes; those below it are TensorRT-LLM's own here.
    fn take_sizes(&mut self, path: &str, sizes: &[Value]) {
        let Some(largest) = sizes.iter().filter_map(Value::as_u64).max() else {
            return;
        };
        self.words.push(format!("--cuda-graph-max-batch-size={largest}"));
        self.ignored.push(format!(
            "of `cuda_graph_config.batch_sizes` of {path} the largest counts, {largest}: those below it are the server's own here"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::flags::tests::Memory;

    fn words(command: &str) -> Vec<String> {
        command.split(' ').map(str::to_owned).collect()
    }

    const TRTLLM: &str = "max_batch_size: 64\nkv_cache_config:\n  free_gpu_memory_fraction: 0.8\n  enable_block_reuse: false\n\
        scheduler_config:\n  capacity_scheduler_policy: MAX_UTILIZATION\ncuda_graph_config:\n  batch_sizes: [1, 2, 48]\n  enable_padding: true\n\
        moe_config:\n  backend: CUTLASS\nenable_attention_dp: true\nattention_dp_config:\n  timeout_iters: 60\nenable_lm_head_tp_in_adp: true\nprint_iter_log: true\n";

    const FILES: Memory = Memory(&[
        ("extra.yml", TRTLLM),
        ("eager.yml", "cuda_graph_config: null\n"),
        (
            "apart.yml",
            "enable_attention_dp: true\nattention_dp_config:\n  enable_balance: true\n  enable_kv_cache_aware_routing: true\nkv_cache_config:\n  host_cache_size: 100\n",
        ),
        (
            "vllm.yaml",
            "max-num-seqs: 64\nenforce_eager: true\nasync-scheduling: false\ncudagraph-capture-sizes: [1, 2]\n",
        ),
        ("list.yaml", "- 1\n- 2\n"),
        ("broken.yaml", "a: [1\n"),
    ]);

    fn expanded(command: &str, server: &str) -> Result<Expanded, Vec<String>> {
        let messages =
            |problems: Vec<Diagnostic>| problems.into_iter().map(|problem| problem.message).collect();
        expand(words(command), server, &FILES).map_err(messages)
    }

    #[test]
    fn the_options_of_tensorrt_llm_stand_behind_its_flags() {
        for name in ["--extra_llm_api_options", "--config"] {
            let (args, ignored) = expanded(
                &format!("m --max_batch_size 8 {name} extra.yml --tp_size 2"),
                "tensorrt-llm",
            )
            .unwrap();
            let (own, of_file) = args.split_at(5);
            assert_eq!(own.join(" "), "m --max_batch_size 8 --tp_size 2");
            let expected = [
                "--attention-dp-timeout-iters=60",
                "--cuda-graph-max-batch-size=48",
                "--cuda-graph-padding=true",
                "--enable-attention-dp=true",
                "--enable-block-reuse=false",
                "--kv-cache-free-gpu-memory-fraction=0.8",
                "--max-batch-size=64",
                "--capacity-scheduler-policy=max_utilization",
            ];
            assert_eq!(of_file, expected);
            assert_eq!(ignored.len(), 4, "{ignored:?}");
        }
        let (args, _) = expanded("m --config=eager.yml", "tensorrt-llm").unwrap();
        assert_eq!(args, ["m", "--enforce-eager"]);
    }

    #[test]
    fn what_is_not_modelled_or_cannot_be_read_is_refused_with_its_key() {
        let told = expanded("m --extra_llm_api_options apart.yml", "tensorrt-llm").unwrap_err();
        assert!(
            told.iter()
                .any(|told| told.contains("`attention_dp_config.enable_kv_cache_aware_routing` of apart.yml")),
            "{told:?}"
        );
        assert!(
            told.iter()
                .any(|told| told.contains("`kv_cache_config.host_cache_size`")),
            "{told:?}"
        );
        for (file, why) in [
            ("none.yml", "cannot be read"),
            ("list.yaml", "has no keys"),
            ("broken.yaml", "is not YAML"),
        ] {
            let told = expanded(&format!("m --config {file}"), "vllm").unwrap_err();
            assert!(told[0].contains(why), "{told:?}");
        }
    }

    #[test]
    fn the_flags_of_vllm_s_and_sglang_s_files_stand_before_the_command_s() {
        let (args, _) = expanded("m --config vllm.yaml --max-num-seqs 8", "vllm").unwrap();
        assert_eq!(
            args.join(" "),
            "m --cudagraph-capture-sizes 1 2 --enforce-eager --max-num-seqs 64 --max-num-seqs 8"
        );
    }
}
