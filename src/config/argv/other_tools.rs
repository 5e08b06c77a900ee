//! Words of other tools' command lines, and the flag here that means the same: a hint for whoever types them, no other spelling.
//!
//! From the command lines of AIPerf and GenAI-Perf, GuideLLM, llmperf, NVIDIA AISimulate and aiconfigurator, SGLang's batch
//! benchmarks and Locust. Left out: what vLLM and SGLang call so, which is taken. Law: no word is a flag of its own here.

/// Words, and what to write here: a flag, and what there is to say of it.
const WORDS: &[(&[&str], &str)] = &[
    (
        &["rate", "rps", "qps", "arrival-rate", "req-rate", "lambda"],
        "--request-rate",
    ),
    (
        &[
            "isl",
            "input-tokens",
            "input-length",
            "input-size",
            "input-sequence-length",
            "prompt-len",
            "prompt-length",
            "prompt-tokens",
            "mean-input-tokens",
            "synthetic-input-tokens-mean",
            "prompt-input-tokens-mean",
        ],
        "--input-len",
    ),
    (
        &[
            "osl",
            "output-tokens",
            "output-length",
            "output-size",
            "output-sequence-length",
            "gen-len",
            "max-tokens",
            "max-new-tokens",
            "max-completion-tokens",
            "mean-output-tokens",
            "output-tokens-mean",
            "prompt-output-tokens-mean",
        ],
        "--output-len",
    ),
    (
        &[
            "num-requests",
            "requests",
            "request-count",
            "max-requests",
            "max-num-completed-requests",
            "prompts",
            "num-samples",
        ],
        "--num-prompts",
    ),
    (
        &[
            "concurrency",
            "num-concurrent-requests",
            "max-concurrent-requests",
            "parallel",
            "inflight",
        ],
        "--max-concurrency",
    ),
    (
        &[
            "max-seconds",
            "benchmark-duration",
            "run-time",
            "measurement-interval",
        ],
        "--duration, with its unit: 60s",
    ),
    (
        &["batch-size", "bs"],
        "--max-num-seqs, which bounds the batch of a server, or --max-concurrency, which bounds the requests in flight",
    ),
    (&["num-users", "clients"], "--users, with --think-time"),
    (
        &["ttft", "tpot", "e2el", "e2e-latency", "request-latency"],
        "--goodput METRIC:MS: ttft:500 tpot:50",
    ),
    (
        &["num-gpus", "gpu-count", "n-gpus", "total-gpus", "world-size"],
        "--tensor-parallel-size for the GPUs of a server, times --replicas",
    ),
    (
        &[
            "gpu-type",
            "hardware",
            "system",
            "accelerator",
            "device-type",
            "sku",
        ],
        "--gpu",
    ),
    (
        &["num-replicas", "instances", "num-instances", "workers"],
        "--replicas",
    ),
    (
        &["input-file", "trace-file", "request-trace"],
        "--trace, or --dataset-path for lengths alone",
    ),
    (
        &[
            "isl-stddev",
            "osl-stddev",
            "stddev-input-tokens",
            "stddev-output-tokens",
        ],
        "--random-range-ratio",
    ),
];

/// Words for a warm-up, which nobody has to ask for.
const WARM_UP: &[&str] = &[
    "warmup",
    "warm-up",
    "warmup-request-count",
    "num-warmup-requests",
    "warmup-percent",
    "warmup-duration",
];

/// What to say of a flag that another tool has.
#[must_use]
pub fn hint(flag: &str) -> Option<String> {
    let word = flag.trim_start_matches('-').replace('_', "-");
    if WARM_UP.contains(&word.as_str()) {
        return Some(format!(
            "`--{word}`: there is nothing to ask for, the warm-up of a run is found and left out of its steady state"
        ));
    }
    let (_, here) = WORDS.iter().find(|(words, _)| words.contains(&word.as_str()))?;
    Some(format!("`--{word}`: here it is {here}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::{argv, axes};

    #[test]
    fn every_word_is_known_once_and_means_a_flag_that_there_is() {
        let mut seen = BTreeSet::new();
        let all = WORDS.iter().flat_map(|(words, _)| *words).chain(WARM_UP);
        for word in all {
            assert!(seen.insert(word), "{word} twice");
            let normal = argv::normalise(&[format!("--{word}=1")]);
            let is_taken = !normal.ignored.is_empty() || !normal.problems.is_empty();
            assert!(!is_taken && !axes::is_flag(word), "--{word} is a flag here");
        }
        for (words, here) in WORDS {
            let flag = here.split([' ', ',']).next().unwrap();
            assert!(flag.starts_with("--") && axes::is_flag(flag), "{words:?}: {here}");
        }
        assert_eq!(hint("--isl").as_deref(), Some("`--isl`: here it is --input-len"));
        assert!(hint("batch_size").is_some_and(|hint| hint.contains("here it is --max-num-seqs")));
        assert_eq!(hint("--request-rate"), None);
    }
}
