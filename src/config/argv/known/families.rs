//! Families of flags: those of one subject share what becomes of them and why.

use super::Effect::{self, Ignored, NotModelled};
use super::Takes::{self, Many, Nothing, One};
use super::{IMAGES, LOADING, LOGS, SAMPLING, SERVER, TEXT};

const KERNELS: &str = "the calibration says how fast kernels are";
const PROCESSES: &str = "where processes run is not modelled";
const SLEEPING: &str = "the simulated server never sleeps";
const FAULTS: &str = "nothing fails in a simulation";
const GENERATION: &str = "generation is what is simulated";
const ANSWERS: &str = "it is about what an answer carries, not when it comes";
const PLACES: &str = "where data-parallel engines run is not modelled";
const BALANCED_OUTSIDE: &str = "data-parallel engines are balanced by vLLM's own front end here; --replicas and --router stand for engines \
     behind another balancer";
const EXPERT_PARALLEL: &str = "experts lie evenly over the ranks here and are exchanged in one way, and without --enable-expert-parallel it means nothing";
const CONTEXT_PARALLEL: &str = "it matters with context parallelism only";
const MICROBATCHES: &str = "it matters with --enable-dbo only";
const OFFLOADED: &str = "it matters with weights offloaded to the host only";
const ADAPTERS: &str = "it matters with --enable-lora only";
const STATES: &str = "it matters to cached prefixes of recurrent layers, or with --use-replayssm, only";
const DATA_SET: &str = "it belongs to a data set that is not this one";

/// Whether a value follows, what becomes of it, and the flags' names.
type Family = (Takes, Effect, &'static [&'static str]);

/// Flags of `vllm serve` and `vllm bench serve`, by subject.
pub(super) const FAMILIES: &[Family] = &[
    (
        One,
        Ignored(SERVER),
        &[
            "allowed-methods",
            "allowed-headers",
            "ssl-ca-certs",
            "ssl-cert-reqs",
            "ssl-ciphers",
            "h11-max-incomplete-event-size",
            "h11-max-header-count",
            "grpc-port",
            "disable-access-log-for-endpoints",
            "sse-keep-alive-interval",
            "shutdown-timeout",
            "tool-server",
            "fingerprint-mode",
            "fingerprint-value",
        ],
    ),
    (
        Nothing,
        Ignored(SERVER),
        &[
            "grpc",
            "enable-ssl-refresh",
            "enable-request-id-headers",
            "disable-fastapi-docs",
            "enable-offline-docs",
            "enable-server-load-tracking",
            "enable-tokenizer-info-endpoint",
            "enable-scale-out",
            "enable-flash-late-interaction",
            "disable-frontend-multiprocessing",
        ],
    ),
    (
        One,
        Ignored(TEXT),
        &[
            "default-chat-template-kwargs",
            "reasoning-effort-map",
            "tool-parser-plugin",
            "tool-strict-level",
            "reasoning-parser-plugin",
            "reasoning-config",
            "io-processor-plugin",
            "cohere-format",
            "anthropic-disabled-thinking-effort",
            "watermark-config",
        ],
    ),
    (
        Nothing,
        Ignored(TEXT),
        &[
            "trust-request-chat-template",
            "exclude-tools-when-tool-choice-none",
            "cohere-is-reasoning-model",
            "tokens-only",
            "enable-prompt-embeds",
            "custom-skip-chat-template",
        ],
    ),
    (Many, Ignored(SAMPLING), &["logits-processors"]),
    (One, Ignored(SAMPLING), &["logits-processor-pattern"]),
    (
        Nothing,
        Ignored(SAMPLING),
        &[
            "use-fp64-gumbel",
            "enable-trace-replay",
            "enable-batch-sharded-sampling",
        ],
    ),
    (One, Ignored(ANSWERS), &["aux-output-config"]),
    (
        Nothing,
        Ignored(ANSWERS),
        &[
            "enable-force-include-usage",
            "enable-prompt-tokens-details",
            "enable-per-request-metrics",
            "return-tokens-as-token-ids",
            "enable-return-routed-experts",
            "return-sampling-mask",
        ],
    ),
    (
        One,
        Ignored(LOGS),
        &[
            "log-config-file",
            "log-level",
            "logging-config",
            "custom-histogram-buckets",
            "kv-cache-metrics-sample",
            "jit-monitor-mode",
            "per-request-spec-decode-metrics",
            "profiler-config",
            "watchdog-config",
        ],
    ),
    (
        Nothing,
        Ignored(LOGS),
        &[
            "aggregate-engine-logging",
            "cudagraph-metrics",
            "enable-mfu-metrics",
            "enable-layerwise-nvtx-tracing",
            "enable-logging-iteration-details",
            "jit-monitor-verbose",
            "ray-workers-use-nsight",
            "enable-log-outputs",
            "enable-log-deltas",
            "log-error-stack",
            "fail-on-environ-validation",
        ],
    ),
    (
        One,
        Ignored(LOADING),
        &[
            "pt-load-map-location",
            "safetensors-prefetch-block-size",
            "safetensors-prefetch-num-threads",
            "weight-transfer-config",
        ],
    ),
    (Nothing, Ignored(LOADING), &["allow-deprecated-quantization"]),
    (
        One,
        Ignored(KERNELS),
        &[
            "attention-config",
            "moe-backend",
            "linear-backend",
            "kernel-config",
            "ir-op-priority",
            "sparse-indexer-topk-backend",
            "gdn-prefill-backend",
            "kda-decode-backend",
            "kda-prefill-backend",
            "mamba-backend",
            "mamba-ssu-algorithm",
            "model-impl",
            "override-attention-dtype",
        ],
    ),
    (
        Nothing,
        Ignored(KERNELS),
        &["enable-flashinfer-autotune", "disable-cascade-attn", "monokernel"],
    ),
    (
        One,
        Ignored(PROCESSES),
        &[
            "master-addr",
            "master-port",
            "distributed-timeout-seconds",
            "cpu-distributed-timeout-seconds",
            "renderer-num-workers",
            "worker-extension-cls",
        ],
    ),
    (
        Many,
        Ignored(PROCESSES),
        &["device-ids", "numa-bind-cpus", "numa-bind-nodes"],
    ),
    (
        Nothing,
        Ignored(PROCESSES),
        &[
            "numa-bind",
            "enable-cumem-allocator",
            "enable-nccl-comm-suspend",
            "enable-shm-tensor-arena",
            "disable-nccl-for-dp-synchronization",
        ],
    ),
    (
        One,
        Ignored(PLACES),
        &[
            "data-parallel-address",
            "data-parallel-rpc-port",
            "data-parallel-size-local",
            "data-parallel-rank",
            "data-parallel-start-rank",
            "data-parallel-supervisor-port",
            "dp-supervisor-probe-interval-s",
            "dp-supervisor-probe-timeout-s",
            "dp-supervisor-probe-failure-threshold",
        ],
    ),
    (
        Nothing,
        Ignored(BALANCED_OUTSIDE),
        &[
            "data-parallel-external-lb",
            "data-parallel-hybrid-lb",
            "data-parallel-multi-port-external-lb",
        ],
    ),
    (
        One,
        Ignored(EXPERT_PARALLEL),
        &[
            "eplb-config",
            "eplb-window-size",
            "eplb-step-interval",
            "num-redundant-experts",
            "expert-placement-strategy",
            "elastic-ep-max-dp-size",
        ],
    ),
    (
        Nothing,
        Ignored(EXPERT_PARALLEL),
        &["enable-ep-weight-filter", "eplb-log-balancedness"],
    ),
    (
        One,
        Ignored(CONTEXT_PARALLEL),
        &[
            "dcp-comm-backend",
            "dcp-kv-cache-interleave-size",
            "cp-kv-cache-interleave-size",
        ],
    ),
    (Nothing, Ignored(CONTEXT_PARALLEL), &["dcp-q-replicate"]),
    (
        One,
        Ignored(MICROBATCHES),
        &["dbo-decode-token-threshold", "dbo-prefill-token-threshold"],
    ),
    (
        One,
        Ignored(OFFLOADED),
        &["offload-backend", "offload-num-in-group", "offload-prefetch-step"],
    ),
    (
        Many,
        Ignored(OFFLOADED),
        &["offload-params", "cpu-offload-params"],
    ),
    (
        One,
        Ignored(ADAPTERS),
        &[
            "max-loras",
            "max-lora-rank",
            "lora-dtype",
            "max-cpu-loras",
            "max-lora-cls-labels",
            "default-mm-loras",
            "lora-extra-vocab-size",
        ],
    ),
    (Many, Ignored(ADAPTERS), &["lora-target-modules"]),
    (
        Nothing,
        Ignored(ADAPTERS),
        &[
            "fully-sharded-loras",
            "enable-lora-bias",
            "enable-mixed-moe-lora-format",
            "enable-moe-shared-loras",
            "enable-tower-connector-lora",
            "specialize-active-lora",
        ],
    ),
    (
        One,
        Ignored(STATES),
        &[
            "mamba-block-size",
            "mamba-cache-mode",
            "mamba-cache-philox-rounds",
            "replayssm-buffer-len",
        ],
    ),
    (
        Nothing,
        Ignored(STATES),
        &[
            "enable-mamba-cache-stochastic-rounding",
            "enable-mamba-shared-prefix-checkpoint",
        ],
    ),
    (
        Nothing,
        NotModelled(
            "false",
            "recent inputs beside the states of Mamba2 are not modelled",
        ),
        &["use-replayssm"],
    ),
    (
        One,
        Ignored(IMAGES),
        &[
            "media-io-kwargs",
            "mm-encoder-attn-backend",
            "mm-encoder-attn-dtype",
            "mm-encoder-fp8-scale-path",
            "mm-encoder-fp8-scale-save-margin",
            "mm-encoder-fp8-scale-save-path",
            "mm-encoder-tp-mode",
            "mm-hasher-algorithm",
            "mm-ipc-gpu-memory-gb",
            "mm-processor-cache-gb",
            "mm-processor-cache-type",
            "mm-processor-device",
            "mm-shm-cache-max-object-size-mb",
            "mm-tensor-ipc",
            "video-pruning-method",
            "video-pruning-rate",
            "ec-manager-config",
            "ec-transfer-config",
        ],
    ),
    (Many, Ignored(IMAGES), &["allowed-media-domains"]),
    (
        Nothing,
        Ignored(IMAGES),
        &[
            "disable-chunked-mm-input",
            "disable-mm-preprocessor-cache",
            "enable-multimodal-encoder-data-parallel",
            "enable-mm-embeds",
            "interleave-mm-strings",
            "mm-device-do-normalize",
            "skip-mm-profiling",
            "trust-request-mm-kwargs",
            "enable-multimodal-chat",
        ],
    ),
    (
        One,
        Ignored(GENERATION),
        &["convert", "pooler-config", "override-pooler-config"],
    ),
    (One, Ignored(SLEEPING), &["sleep-mode-backend"]),
    (Nothing, Ignored(SLEEPING), &["sleep-mode-offload-cudagraph"]),
    (Many, Ignored(SLEEPING), &["sleep-preserve-parameter-names"]),
    (One, Ignored(FAULTS), &["fault-tolerance-config"]),
    (Nothing, Ignored(FAULTS), &["enable-fault-tolerance"]),
    (
        One,
        Ignored(DATA_SET),
        &[
            "hf-name",
            "hf-subset",
            "hf-split",
            "hf-output-len",
            "spec-bench-category",
            "spec-bench-output-len",
            "speed-bench-category",
            "speed-bench-dataset-subset",
            "speed-bench-output-len",
            "blazedit-min-distance",
            "blazedit-max-distance",
            "asr-min-audio-len-sec",
            "asr-max-audio-len-sec",
            "random-mm-base-items-per-request",
            "random-mm-num-mm-items-range-ratio",
            "random-mm-limit-mm-per-prompt",
            "random-mm-bucket-config",
        ],
    ),
    (Many, Ignored(DATA_SET), &["bfcl-categories"]),
    (
        Nothing,
        Ignored(DATA_SET),
        &["no-reranker", "custom-ensure-client-side-data"],
    ),
];
