//! Flags of `vllm serve` and `vllm bench serve` that have no field of their own, each with what becomes of it and why.
//!
//! Those that come one by one are here, with the values that change nothing; `families` lists those of one subject that
//! share a reason. Together with the flags that clap knows they are all that vLLM 0.33 has.

mod bench;
mod families;
mod sglang;
mod trtllm;

/// What a flag without a field of its own does to a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// None: accepted and named with this reason.
    Ignored(&'static str),
    /// Some, which is not modelled: refused with this reason, except where the value is a neutral one, of which several stand
    /// with `|` between them.
    NotModelled(&'static str, &'static str),
}

/// Whether a value follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    One,
    Many,
}

const SERVER: &str = "the simulated server has no such surface";
const LOADING: &str = "loading the model is not part of serving it";
const TEXT: &str = "tokens are simulated, not text";
const LOGS: &str = "it changes what is logged, not what is served";
const SPECULATION: &str = "speculative decoding is modelled for vLLM 0.33 and 0.11 only";
const LOOKUP: &str = "--acceptance-rate says how many drafts stand, however they are found";
const OFFLOAD: &str = "KV offloading is not modelled for SGLang";
const LORA: &str = "LoRA adapters are not modelled";
const GENERATION: &str = "a server that generates is what is simulated: embeddings and scores are not";
const SAMPLING: &str = "sampling does not change the time of a step here";
const IMAGES: &str = "prompts are text tokens";
const CONTEXT_PARALLEL: &str = "context parallelism is not modelled yet";
const ANY_CONTEXT: &str = "CUDA graphs are replayed whatever the context is";
const MICROBATCHES: &str = "overlapped micro-batches are not modelled yet";

use Effect::{Ignored, NotModelled};
use Takes::{Many, Nothing, One};
use bench::BENCH;
use families::FAMILIES;
use sglang::SGLANG;
use trtllm::TRTLLM;

/// Finds a flag by its name in kebab case.
pub(super) fn find(name: &str) -> Option<(Takes, Effect)> {
    let alone = SERVE.iter().chain(BENCH).find(|(known, ..)| *known == name);
    let in_family = || {
        FAMILIES
            .iter()
            .chain(SGLANG)
            .chain(TRTLLM)
            .find(|(.., names)| names.contains(&name))
    };
    alone
        .map(|&(_, takes, effect)| (takes, effect))
        .or_else(|| in_family().map(|&(takes, effect, _)| (takes, effect)))
}

/// Flags of `vllm serve` that have no field of their own.
const SERVE: &[(&str, Takes, Effect)] = &[
    ("host", One, Ignored(SERVER)),
    ("port", One, Ignored(SERVER)),
    ("uds", One, Ignored(SERVER)),
    ("api-key", One, Ignored(SERVER)),
    ("root-path", One, Ignored(SERVER)),
    ("ssl-keyfile", One, Ignored(SERVER)),
    ("ssl-certfile", One, Ignored(SERVER)),
    ("allowed-origins", One, Ignored(SERVER)),
    ("allow-credentials", Nothing, Ignored(SERVER)),
    ("middleware", One, Ignored(SERVER)),
    ("uvicorn-log-level", One, Ignored(LOGS)),
    ("disable-uvicorn-access-log", Nothing, Ignored(LOGS)),
    ("disable-log-requests", Nothing, Ignored(LOGS)),
    ("no-enable-log-requests", Nothing, Ignored(LOGS)),
    ("enable-log-requests", Nothing, Ignored(LOGS)),
    ("disable-log-stats", Nothing, Ignored(LOGS)),
    ("max-log-len", One, Ignored(LOGS)),
    ("otlp-traces-endpoint", One, Ignored(LOGS)),
    ("collect-detailed-traces", One, Ignored(LOGS)),
    ("show-hidden-metrics-for-version", One, Ignored(LOGS)),
    ("kv-events-config", One, Ignored(LOGS)),
    ("kv-cache-metrics", Nothing, Ignored(LOGS)),
    ("served-model-name", Many, Ignored("a name changes nothing")),
    ("tokenizer", One, Ignored(TEXT)),
    ("tokenizer-mode", One, Ignored(TEXT)),
    ("tokenizer-revision", One, Ignored(TEXT)),
    ("skip-tokenizer-init", Nothing, Ignored(TEXT)),
    ("chat-template", One, Ignored(TEXT)),
    ("chat-template-content-format", One, Ignored(TEXT)),
    ("chat-template-kwargs", One, Ignored(TEXT)),
    ("response-role", One, Ignored(TEXT)),
    ("generation-config", One, Ignored(SAMPLING)),
    ("override-generation-config", One, Ignored(SAMPLING)),
    ("enable-auto-tool-choice", Nothing, Ignored(TEXT)),
    ("tool-call-parser", One, Ignored(TEXT)),
    ("reasoning-parser", One, Ignored(TEXT)),
    ("enable-reasoning", Nothing, Ignored(TEXT)),
    ("max-logprobs", One, Ignored(SAMPLING)),
    ("logprobs-mode", One, Ignored(SAMPLING)),
    ("guided-decoding-backend", One, Ignored(SAMPLING)),
    ("structured-outputs-config", One, Ignored(SAMPLING)),
    ("limit-mm-per-prompt", One, Ignored(IMAGES)),
    ("mm-processor-kwargs", One, Ignored(IMAGES)),
    ("allowed-local-media-path", One, Ignored(IMAGES)),
    ("trust-remote-code", Nothing, Ignored(LOADING)),
    ("load-format", One, Ignored(LOADING)),
    ("download-dir", One, Ignored(LOADING)),
    ("revision", One, Ignored(LOADING)),
    ("code-revision", One, Ignored(LOADING)),
    ("hf-token", One, Ignored(LOADING)),
    ("hf-config-path", One, Ignored(LOADING)),
    ("config-format", One, Ignored(LOADING)),
    ("ignore-patterns", Many, Ignored(LOADING)),
    ("model-loader-extra-config", One, Ignored(LOADING)),
    ("max-parallel-loading-workers", One, Ignored(LOADING)),
    ("use-tqdm-on-load", Nothing, Ignored(LOADING)),
    ("safetensors-load-strategy", One, Ignored(LOADING)),
    (
        "enable-sleep-mode",
        Nothing,
        Ignored("the simulated server never sleeps"),
    ),
    (
        "distributed-executor-backend",
        One,
        Ignored("workers are not modelled one by one"),
    ),
    ("worker-cls", One, Ignored("workers are not modelled one by one")),
    ("device", One, Ignored("--gpu says the device")),
    ("task", One, NotModelled("auto|generate", GENERATION)),
    ("runner", One, NotModelled("auto|generate", GENERATION)),
    (
        "disable-custom-all-reduce",
        Nothing,
        Ignored("the calibration says how ranks are joined"),
    ),
    (
        "prefix-caching-hash-algo",
        One,
        Ignored("equal prefixes are found without hashing"),
    ),
    (
        "calculate-kv-scales",
        Nothing,
        Ignored("numbers are not computed"),
    ),
    (
        "max-num-queued-tokens",
        One,
        NotModelled("0", "a limit on queued tokens is not modelled yet"),
    ),
    (
        "long-prefill-token-threshold-adaptive",
        Nothing,
        NotModelled("false", "the adaptive threshold is not modelled yet"),
    ),
    (
        "max-num-partial-prefills",
        One,
        NotModelled(
            "1",
            "vLLM's V1 engine refuses it: long_prefill_token_threshold caps partial prefills",
        ),
    ),
    (
        "max-long-partial-prefills",
        One,
        NotModelled(
            "1",
            "vLLM's V1 engine refuses it: long_prefill_token_threshold caps partial prefills",
        ),
    ),
    (
        "cpu-offload-gb",
        One,
        NotModelled("0", "weights offloaded to the host are not modelled yet"),
    ),
    // Of V0.
    (
        "use-v2-block-manager",
        Nothing,
        Ignored("it is the block manager that is simulated"),
    ),
    ("max-seq-len-to-capture", One, Ignored(ANY_CONTEXT)),
    ("max-context-len-to-capture", One, Ignored(ANY_CONTEXT)),
    ("num-lookahead-slots", One, NotModelled("0", SPECULATION)),
    (
        "worker-use-ray",
        Nothing,
        Ignored("workers are not modelled one by one"),
    ),
    (
        "engine-use-ray",
        Nothing,
        Ignored("workers are not modelled one by one"),
    ),
    ("ngram-prompt-lookup-max", One, Ignored(LOOKUP)),
    ("ngram-prompt-lookup-min", One, Ignored(LOOKUP)),
    ("enable-lora", Nothing, NotModelled("false", LORA)),
    ("lora-modules", Many, NotModelled("", LORA)),
    (
        "hf-overrides",
        One,
        NotModelled(
            "",
            "changed model shapes: write the config.json and give its path",
        ),
    ),
    (
        "rope-scaling",
        One,
        NotModelled(
            "",
            "changed model shapes: write the config.json and give its path",
        ),
    ),
    (
        "disable-sliding-window",
        Nothing,
        NotModelled("false", "sliding windows cannot be switched off yet"),
    ),
    (
        "data-parallel-backend",
        One,
        Ignored("where data-parallel engines run is not modelled"),
    ),
    ("additional-config", One, Ignored("it is read by plug-ins")),
    (
        "nnodes",
        One,
        NotModelled("1", "engines of several nodes are not modelled yet"),
    ),
    (
        "node-rank",
        One,
        NotModelled("0", "engines of several nodes are not modelled yet"),
    ),
    (
        "headless",
        Nothing,
        NotModelled("false", "engines of several nodes are not modelled yet"),
    ),
    (
        "decode-context-parallel-size",
        One,
        NotModelled("1", CONTEXT_PARALLEL),
    ),
    (
        "prefill-context-parallel-size",
        One,
        NotModelled("1", CONTEXT_PARALLEL),
    ),
    ("ubatch-size", One, NotModelled("0", MICROBATCHES)),
    ("enable-dbo", Nothing, NotModelled("false", MICROBATCHES)),
    (
        "enable-eplb",
        Nothing,
        NotModelled("false", "moving experts between ranks (EPLB) is not modelled yet"),
    ),
    (
        "enable-elastic-ep",
        Nothing,
        NotModelled("false", "a number of ranks that changes is not modelled yet"),
    ),
    (
        "enable-hc-sp",
        Nothing,
        NotModelled("false", "sequence parallelism is not modelled yet"),
    ),
    (
        "offload-group-size",
        One,
        NotModelled("0", "weights offloaded to the host are not modelled yet"),
    ),
    (
        "scheduler-cls",
        One,
        NotModelled(
            "",
            "a scheduler of one's own is not modelled: the rules here are vLLM's",
        ),
    ),
    (
        "kv-sharing-fast-prefill",
        Nothing,
        NotModelled("false", "layers that share a KV cache are not modelled"),
    ),
    (
        "prefix-cache-retention-interval",
        One,
        NotModelled("0", "other checkpoints of sliding windows are not modelled yet"),
    ),
    (
        "prefix-match-unit",
        One,
        NotModelled("", "prefixes are found block by block here"),
    ),
    (
        "quantization-config",
        One,
        NotModelled(
            "",
            "write it as quantization_config into the config.json and give its path",
        ),
    ),
    (
        "model-class-overrides",
        One,
        NotModelled(
            "",
            "changed model shapes: write the config.json and give its path",
        ),
    ),
    (
        "diffusion-config",
        One,
        NotModelled("", "diffusion models are not modelled"),
    ),
    (
        "engram-config",
        One,
        NotModelled("", "embeddings kept by the host are not modelled"),
    ),
    (
        "mm-encoder-only",
        Nothing,
        NotModelled("false", "an instance that generates nothing is not modelled"),
    ),
    (
        "config",
        One,
        NotModelled(
            "",
            "a file of flags is read in --serve-cmd only: write its flags, or a scenario",
        ),
    ),
    (
        "swa-bounded-replay",
        Nothing,
        Ignored("it is for DeepSeek-V4.1 only"),
    ),
];
