//! How a public benchmark starts its servers, where a row names the benchmark and not the flags.
//!
//! InferenceX (SemiAnalysisAI/InferenceX, `benchmarks/*.sh` at 1fc5d73 and 409e9a4). Its servers of vLLM have in common: steps are
//! scheduled ahead, nothing is cached between requests, a step has up to 8,192 tokens, and as many sequences run as the
//! client keeps in flight. All of Llama 70B have their KV cache in fp8, those of gpt-oss on Hopper have not. Left out: what
//! only some scripts have (sizes of CUDA graphs, fused all-reduces), and servers of SGLang, whose flags differ by script.
//!
//! Of TensorRT-LLM's servers those of Llama 70B in fp8 on H200 are known (`70b_fp8_h200_trt_slurm.sh` at 9596d23, the last before
//! the model was dropped on 2025-10-29, whose image is 1.1.0rc2.post2).

use toml::Value;

use super::super::words::after;
use crate::results::{Load, Setup};

/// Keys that the launch scripts of a row's benchmark set, `engine.async_scheduling`; empty where none is known. What a column
/// of the row says is not among them.
pub(super) fn keys(setup: &Setup) -> Vec<(String, Value)> {
    let is_vllm = setup
        .engine
        .as_deref()
        .is_some_and(|engine| engine.eq_ignore_ascii_case("vllm"));
    let words = format!("{} {}", setup.family, setup.notes).to_lowercase();
    if !words.contains("inferencex") {
        return Vec::new();
    }
    if !is_vllm {
        return of_trtllm(setup);
    }
    let mut keys = vec![
        ("engine.async_scheduling".to_owned(), Value::Boolean(true)),
        ("engine.enable_prefix_caching".to_owned(), Value::Boolean(false)),
        ("engine.max_num_batched_tokens".to_owned(), Value::Integer(8192)),
    ];
    if let Load::Closed { clients } = setup.load
        && let Ok(clients) = i64::try_from(clients)
    {
        keys.push(("engine.max_num_seqs".to_owned(), Value::Integer(clients)));
    }
    let model = setup.model.as_deref().unwrap_or_default().to_lowercase();
    let cache_is_said = setup.kv_cache_dtype.is_some()
        || setup
            .precision
            .as_deref()
            .is_some_and(|precision| precision.contains("kv-"));
    if model.contains("llama") && model.contains("70b") && !cache_is_said {
        keys.push(("model.kv_cache_dtype".to_owned(), Value::from("fp8")));
    }
    keys
}

/// The server of TensorRT-LLM. Its longest sequence is that of the workload; where prompts and answers are as long as each other
/// and ranks are fewer than 8, prompts wait for more of them to come.
fn of_trtllm(setup: &Setup) -> Vec<(String, Value)> {
    let has = |said: &Option<String>, word: &str| {
        let said = said.as_deref().unwrap_or_default().to_lowercase();
        said.contains(word)
    };
    let is_known = has(&setup.engine, "tensorrt-llm")
        && has(&setup.model, "llama")
        && has(&setup.model, "70b")
        && has(&setup.gpu, "h200")
        && has(&setup.precision, "fp8");
    let lengths = [after(&setup.workload, "isl="), after(&setup.workload, "osl=")];
    let (true, [Some(input), Some(output)]) = (is_known, lengths) else {
        return Vec::new();
    };
    let mut keys = vec![
        ("engine.profile", Value::from("tensorrt-llm@1.1.0rc2.post2")),
        ("engine.stream_interval", Value::Integer(10)),
        ("trtllm.max_num_tokens", Value::Integer(16384)),
        ("trtllm.max_seq_len", Value::Integer((input + output) as i64)),
        ("trtllm.cuda_graph_max_batch_size", Value::Integer(1024)),
        ("trtllm.cuda_graph_padding", Value::Boolean(true)),
        ("trtllm.enable_block_reuse", Value::Boolean(false)),
    ];
    if setup.kv_cache_dtype.is_none() {
        keys.push(("model.kv_cache_dtype", Value::from("fp8")));
    }
    let is_short = [input, output]
        .iter()
        .all(|&tokens| (tokens - 1024.0).abs() < 0.5);
    if is_short && setup.tensor_parallel.unwrap_or(1) < 8 {
        keys.push(("trtllm.batch_wait_timeout_iters", Value::Integer(20)));
        keys.push(("trtllm.batch_wait_max_tokens_ratio", Value::Float(0.9)));
    }
    let named = keys.into_iter();
    named.map(|(key, value)| (key.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_servers_of_the_benchmark_are_started_by_its_scripts() {
        let mut setup = Setup {
            engine: Some("vLLM".into()),
            model: Some("meta-llama/Llama-3.1-70B-Instruct".into()),
            family: "aic/inferencex/x".into(),
            load: Load::Closed { clients: 64 },
            ..Setup::default()
        };
        let names = |setup: &Setup| -> Vec<String> { keys(setup).into_iter().map(|(key, _)| key).collect() };
        assert_eq!(
            names(&setup),
            [
                "engine.async_scheduling",
                "engine.enable_prefix_caching",
                "engine.max_num_batched_tokens",
                "engine.max_num_seqs",
                "model.kv_cache_dtype"
            ]
        );
        setup.kv_cache_dtype = Some("bf16".into());
        assert_eq!(names(&setup).len(), 4, "a column knows better");
        setup.kv_cache_dtype = None;
        setup.model = Some("openai/gpt-oss-120b".into());
        assert_eq!(names(&setup).len(), 4);
        setup.engine = Some("sglang".into());
        assert_eq!(names(&setup), Vec::<String>::new());
        setup.engine = Some("vllm".into());
        setup.family = "somebody".into();
        assert_eq!(names(&setup), Vec::<String>::new());
    }

    #[test]
    fn prompts_of_the_same_length_as_answers_wait_on_few_ranks_of_tensorrt_llm() {
        let mut setup = Setup {
            engine: Some("tensorrt-llm".into()),
            model: Some("meta-llama/Llama-3.1-70B".into()),
            gpu: Some("H200-SXM-141GB".into()),
            precision: Some("fp8 (gemm fp8, moe fp8)".into()),
            workload: "random isl=1024 osl=1024 range_ratio=0.8".into(),
            tensor_parallel: Some(4),
            family: "aic/inferencex/x".into(),
            ..Setup::default()
        };
        let waits = |setup: &Setup| keys(setup).iter().any(|(key, _)| key.ends_with("timeout_iters"));
        assert_eq!(keys(&setup).len(), 10);
        assert!(waits(&setup));
        setup.tensor_parallel = Some(8);
        assert!(!waits(&setup));
        setup.tensor_parallel = Some(4);
        setup.workload = "random isl=1024 osl=8192 range_ratio=0.8".into();
        assert!(
            !waits(&setup) && keys(&setup).contains(&("trtllm.max_seq_len".into(), Value::Integer(9216)))
        );
        setup.gpu = Some("B200".into());
        assert_eq!(keys(&setup), []);
    }
}
