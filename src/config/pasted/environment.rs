//! Settings of the environment before a pasted command: LMCache's and the size of vLLM's slices of outputs are read, what becomes of the others is told.

use crate::units::FLAG_TOKENS_MAX as TOKENS_MAX;

/// How the words of a secret's name end.
const SECRETS: [&str; 5] = ["TOKEN", "KEY", "PASSWORD", "PASSWD", "SECRET"];

/// What changes how fast kernels are, or which are chosen.
const OF_KERNELS: [&str; 9] = [
    "VLLM_ATTENTION_BACKEND",
    "VLLM_FLASH_ATTN_VERSION",
    "VLLM_USE_FLASHINFER",
    "VLLM_USE_TRITON",
    "VLLM_USE_DEEP_GEMM",
    "VLLM_MOE_",
    "VLLM_ALL2ALL_BACKEND",
    "VLLM_FUSED_MOE",
    "VLLM_MXFP4",
];
/// Where things are, what is logged, how a model is loaded.
const HARMLESS: [&str; 17] = [
    "HF_",
    "HUGGING_FACE",
    "TRANSFORMERS_",
    "TOKENIZERS_",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES",
    "PYTHON",
    "PATH",
    "VLLM_LOGGING_",
    "VLLM_HOST_IP",
    "VLLM_PORT",
    "VLLM_API_KEY",
    "VLLM_CACHE_ROOT",
    "VLLM_NO_USAGE_STATS",
    "VLLM_USE_MODELSCOPE",
    "NCCL_DEBUG",
];

/// How names of LMCache's settings begin, and the keys that are read of them (`LMCacheEngineConfig.from_env`).
const LMCACHE: &str = "LMCACHE_";
const LMCACHE_KEYS: [&str; 12] = [
    "chunk_size",
    "local_cpu",
    "max_local_cpu_size",
    "local_disk",
    "max_local_disk_size",
    "remote_url",
    "save_decode_cache",
    "save_unfull_chunk",
    "use_layerwise",
    "enable_async_loading",
    "cache_policy",
    "min_retrieve_tokens",
];

/// A key of `[lmcache]` that a setting of the environment has, `LMCACHE_CHUNK_SIZE=512`; a value that is no number or truth is a word.
pub(super) fn lmcache_key(name: &str, value: &str) -> Option<(String, toml::Value)> {
    let key = name.strip_prefix(LMCACHE)?.to_lowercase();
    let number = |value: &str| value.parse().ok().map(toml::Value::Integer);
    let float = |value: &str| value.parse().ok().map(toml::Value::Float);
    let truth = |value: &str| value.to_lowercase().parse().ok().map(toml::Value::Boolean);
    let value = number(value)
        .or_else(|| float(value))
        .or_else(|| truth(value))
        .unwrap_or_else(|| toml::Value::String(value.to_owned()));
    LMCACHE_KEYS.contains(&key.as_str()).then_some((key, value))
}

/// vLLM's slices of outputs, which no flag has.
const OUTPUT_SLICE: &str = "VLLM_V1_OUTPUT_PROC_CHUNK_SIZE";

/// `output_proc_chunk_size` of `[engine]`, where the environment has it: the last word counts. Else what is wrong with its value.
pub(super) fn output_slice(settings: &[(String, String)]) -> Option<Result<u64, String>> {
    let (name, value) = settings.iter().rev().find(|(name, _)| name == OUTPUT_SLICE)?;
    let number = value.trim().parse().ok();
    let number = number.filter(|outputs| (1..=TOKENS_MAX).contains(outputs));
    Some(number.ok_or_else(|| format!("`{name}={value}` is not a whole number from 1 to {TOKENS_MAX}")))
}

/// What becomes of a setting of the environment, as a sentence.
pub(super) fn told(name: &str, value: &str) -> String {
    let name_in_capitals = name.to_uppercase();
    let starts = |known: &&str| name_in_capitals.starts_with(*known);
    // Secrets are nobody's business, nor who logs in at a proxy.
    let is_secret = |word: &str| SECRETS.iter().any(|secret| word.ends_with(secret));
    let has_login = value
        .split_once("://")
        .is_some_and(|(_, rest)| rest.contains('@'));
    let value = match has_login || name_in_capitals.split('_').any(is_secret) {
        true => "…",
        false => value,
    };
    let of_lmcache = name.strip_prefix(LMCACHE).map(str::to_lowercase);
    if let Some(key) = of_lmcache.filter(|key| LMCACHE_KEYS.contains(&key.as_str())) {
        format!("{name}={value} is {key} of [lmcache], which counts where a KV connector is LMCache's")
    } else if name == OUTPUT_SLICE {
        format!("{name}={value} is output_proc_chunk_size of [engine], which counts where vLLM V1 serves")
    } else if name == "VLLM_USE_V1" {
        format!("{name}={value} has no effect: the profile says which engine it is")
    } else if OF_KERNELS.iter().any(starts) {
        format!("{name}={value} is not modelled: the calibration says how fast kernels are")
    } else if HARMLESS.iter().any(starts) {
        format!("{name}={value} has no effect on what is simulated")
    } else {
        format!("{name}={value} is not modelled: the environment is not read here")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_printed_and_other_settings_are() {
        for secret in [
            "HF_TOKEN",
            "VLLM_API_KEY",
            "OPENAI_APIKEY",
            "DB_PASSWORD",
            "AWS_SECRET_ACCESS_KEY",
            "CLIENT_SECRET",
        ] {
            let sentence = told(secret, "hunter2");
            assert!(sentence.starts_with(&format!("{secret}=… ")), "{sentence}");
        }
        assert!(!told("http_proxy", "http://me:hunter2@host:1").contains("hunter2"));
        for open in ["TOKENIZERS_PARALLELISM", "KEYBOARD", "MAX_TOKENS"] {
            assert!(
                told(open, "false").starts_with(&format!("{open}=false ")),
                "{open}"
            );
        }
    }

    #[test]
    fn each_key_of_lmcaches_environment_is_one_of_its_table() {
        let known = schemars::schema_for!(crate::config::raw::RawLmcache);
        for key in LMCACHE_KEYS {
            let place = format!("/properties/{key}");
            assert!(known.pointer(&place).is_some(), "{key}");
        }
    }
}
