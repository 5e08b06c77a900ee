//! How a public benchmark starts its servers, where a row names the benchmark and not the flags.
//!
//! InferenceX (SemiAnalysisAI/InferenceX, `benchmarks/*.sh` at 1fc5d73 and 409e9a4). Its servers of vLLM have in common: steps are
//! scheduled ahead, nothing is cached between requests, a step has up to 8,192 tokens, and as many sequences run as the
//! client keeps in flight. All of Llama 70B have their KV cache in fp8, those of gpt-oss on Hopper have not. Left out: what
//! only some scripts have (sizes of CUDA graphs, fused all-reduces), and servers of SGLang, whose flags differ by script.

use toml::Value;

use crate::results::{Load, Setup};

/// Keys that the launch scripts of a row's benchmark set, `engine.async_scheduling`; empty where none is known. What a column
/// of the row says is not among them.
pub(super) fn keys(setup: &Setup) -> Vec<(String, Value)> {
    let is_vllm = setup
        .engine
        .as_deref()
        .is_some_and(|engine| engine.eq_ignore_ascii_case("vllm"));
    let words = format!("{} {}", setup.family, setup.notes).to_lowercase();
    if !is_vllm || !words.contains("inferencex") {
        return Vec::new();
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
}
