//! Flags of SGLang's server that have no field of their own, by subject, where vLLM has none of the same name.

use super::Effect::{self, Ignored, NotModelled};
use super::Takes::{self, Many, Nothing, One};
use crate::config::lmcache::HICACHE;

use super::{LOADING, LOGS, LORA, OFFLOAD, SAMPLING, SERVER, SPECULATION, TEXT};

const KERNELS: &str = "the calibration says how fast kernels are";
const DISAGGREGATION: &str = "--pd-flow and --kv-link say how KV gets from one server to the other here";
const EXPERTS: &str = "dense layers lie on all GPUs of a group here";
const TUNING: &str = "it matters for state-space and hybrid models only";
const NODES: &str = "where processes run is not modelled";

/// Whether a value follows, what becomes of it, and the flags' names.
type Family = (Takes, Effect, &'static [&'static str]);

/// Flags of `python -m sglang.launch_server`.
pub(super) const SGLANG: &[Family] = &[
    (
        One,
        Ignored(SERVER),
        &[
            "fastapi-root-path",
            "admin-api-key",
            "file-storage-path",
            "warmups",
            "smg-grpc-mode",
        ],
    ),
    (
        Nothing,
        Ignored(SERVER),
        &[
            "skip-server-warmup",
            "enable-custom-logit-processor",
            "grpc-mode",
            "checkpoint-engine-wait-weights-before-ready",
        ],
    ),
    (
        One,
        Ignored(LOGS),
        &[
            "log-level",
            "log-level-http",
            "log-requests-level",
            "decode-log-interval",
            "crash-dump-folder",
            "gc-warning-threshold-secs",
            "oltp-traces-endpoint",
            "watchdog-timeout",
            "soft-watchdog-timeout",
            "dist-timeout",
            "bucket-time-to-first-token",
            "bucket-inter-token-latency",
            "bucket-e2e-request-latency",
        ],
    ),
    (
        Nothing,
        Ignored(LOGS),
        &[
            "log-requests",
            "show-time-cost",
            "enable-metrics",
            "enable-metrics-for-all-schedulers",
            "enable-cache-report",
            "collect-tokens-histogram",
            "enable-request-time-stats-logging",
            "enable-trace",
            "export-metrics-to-file",
            "enable-nan-detection",
            "sleep-on-idle",
        ],
    ),
    (
        One,
        Ignored(TEXT),
        &[
            "tokenizer-path",
            "tokenizer-worker-num",
            "completion-template",
            "hf-chat-template-name",
            "grammar-backend",
        ],
    ),
    (
        Nothing,
        Ignored(TEXT),
        &[
            "disable-fast-image-processor",
            "is-embedding",
            "keep-mm-feature-on-device",
        ],
    ),
    (
        One,
        Ignored(SAMPLING),
        &[
            "sampling-backend",
            "sampling-defaults",
            "preferred-sampling-params",
            "random-seed",
            "constrained-json-whitespace-pattern",
        ],
    ),
    (
        One,
        Ignored(LOADING),
        &[
            "model-impl",
            "modelopt-quant",
            "weight-loader-prefetch-num-threads",
            "delete-ckpt-after-loading",
        ],
    ),
    (
        Nothing,
        Ignored(LOADING),
        &[
            "weight-loader-disable-mmap",
            "enable-memory-saver",
            "enable-weights-cpu-backup",
        ],
    ),
    (
        One,
        Ignored(KERNELS),
        &[
            "mm-attention-backend",
            "fp8-gemm-backend",
            "fp4-gemm-backend",
            "moe-runner-backend",
            "flashinfer-mxfp4-moe-precision",
            "torch-compile-max-bs",
            "triton-attention-num-kv-splits",
            "triton-attention-reduce-in-fp32",
            "piecewise-cuda-graph-tokens",
            "piecewise-cuda-graph-max-tokens",
            "piecewise-cuda-graph-compiler",
            "nsa-prefill-backend",
            "nsa-decode-backend",
            "flashinfer-allreduce-fusion-backend",
        ],
    ),
    (Many, Ignored(KERNELS), &["cuda-graph-bs"]),
    (
        One,
        NotModelled(
            "",
            "weights that torchao quantizes are not modelled: --quantization names what is",
        ),
        &["torchao-config"],
    ),
    (
        Nothing,
        Ignored(
            "it compiles the decode batches that CUDA graphs capture, whose speed the calibration says; steps without a graph are \
             not compiled with it either",
        ),
        &["enable-torch-compile"],
    ),
    (
        Nothing,
        Ignored(KERNELS),
        &[
            "disable-cuda-graph-padding",
            "enable-profile-cuda-graph",
            "enable-cudagraph-gc",
            "enable-piecewise-cuda-graph",
            "disable-piecewise-cuda-graph",
            "enable-nccl-nvls",
            "enable-symm-mem",
            "enable-mscclpp",
            "enable-torch-symm-mem",
            "enable-flashinfer-allreduce-fusion",
            "enable-tokenizer-batch-encode",
            "disable-tokenizer-batch-decode",
            "flashinfer-mla-disable-ragged",
            "disable-shared-experts-fusion",
            "disable-outlines-disk-cache",
            "disable-flashinfer-cutlass-moe-fp4-allgather",
            "enable-fused-qk-norm-rope",
            "enable-flashinfer-trtllm-moe",
            "enable-flashinfer-cutlass-moe",
        ],
    ),
    (
        One,
        Ignored(NODES),
        &[
            "base-gpu-id",
            "gpu-id-step",
            "nccl-port",
            "dist-init-addr",
            "numa-node",
            "scheduler-recv-interval-polling",
        ],
    ),
    (Nothing, Ignored(NODES), &["enable-p2p-check", "use-ray"]),
    (
        One,
        Ignored(TUNING),
        &[
            "mamba-ssm-dtype",
            "mamba-full-memory-ratio",
            "max-mamba-cache-size",
            "mamba-scheduler-strategy",
            "swa-full-tokens-ratio",
        ],
    ),
    (
        Nothing,
        NotModelled("false", "only full attention is modelled"),
        &["disable-hybrid-swa-memory"],
    ),
    (
        One,
        NotModelled("lru", "only the least recently used leaf is evicted here"),
        &["radix-eviction-policy"],
    ),
    (
        One,
        NotModelled("1", "inputs are drained in every pass here"),
        &["scheduler-recv-interval"],
    ),
    (
        One,
        NotModelled("length", "only retraction by length is modelled"),
        &["retraction-policy"],
    ),
    (
        One,
        NotModelled("0", "--prefill-decode-interval holds however few run here"),
        &["prefill-decode-interval-min-bs"],
    ),
    (
        One,
        NotModelled("", SPECULATION),
        &[
            "speculative-algorithm",
            "speculative-algo",
            "speculative-draft-model-path",
            "speculative-draft-model",
            "speculative-num-steps",
            "speculative-eagle-topk",
            "speculative-num-draft-tokens",
            "speculative-token-map",
            "speculative-accept-threshold-single",
            "speculative-accept-threshold-acc",
        ],
    ),
    (
        Nothing,
        NotModelled("false", OFFLOAD),
        &["enable-lmcache", "enable-hisparse"],
    ),
    (
        Nothing,
        NotModelled("false", HICACHE),
        &["enable-hierarchical-cache"],
    ),
    (
        One,
        Ignored("it matters with --enable-hierarchical-cache only, which is not modelled and refused"),
        &[
            "hicache-ratio",
            "hicache-size",
            "hicache-write-policy",
            "hicache-io-backend",
            "hicache-mem-layout",
            "hicache-storage-backend",
            "hicache-storage-prefetch-policy",
            "hicache-storage-backend-extra-config",
        ],
    ),
    (
        One,
        Ignored(DISAGGREGATION),
        &[
            "disaggregation-transfer-backend",
            "disaggregation-bootstrap-port",
            "disaggregation-ib-device",
            "disaggregation-decode-tp",
            "disaggregation-decode-dp",
            "disaggregation-prefill-pp",
        ],
    ),
    (One, NotModelled("1", EXPERTS), &["moe-dense-tp-size"]),
    (
        One,
        Ignored("it matters with --dp-size only"),
        &["dp-attention-input-scattered"],
    ),
    (
        One,
        Ignored("experts lie evenly over the GPUs here, and their tokens are exchanged in one way"),
        &[
            "deepep-mode",
            "deepep-config",
            "ep-num-redundant-experts",
            "ep-dispatch-algorithm",
            "init-expert-location",
            "eplb-algorithm",
            "eplb-rebalance-num-iterations",
            "expert-distribution-recorder-mode",
            "tbo-token-distribution-threshold",
        ],
    ),
    (
        Nothing,
        NotModelled("false", "overlapped micro-batches are not modelled yet"),
        &["enable-two-batch-overlap", "enable-single-batch-overlap"],
    ),
    (Many, NotModelled("", LORA), &["lora-paths"]),
    (
        One,
        Ignored("it matters with LoRA adapters only"),
        &["max-loras-per-batch", "lora-backend", "max-lora-rank"],
    ),
    (
        One,
        NotModelled(
            "",
            "changed model shapes: write the config.json and give its path",
        ),
        &["json-model-override-args"],
    ),
];
