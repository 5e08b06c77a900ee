//! Flags of SGLang's server that have no field of their own, where vLLM has none of the same name.

use super::Effect::{Ignored, NotModelled};
use super::Takes::{Many, Nothing, One};
use super::{Family, KERNELS, LOADING, LOGS, LORA, MICROBATCHES, PROCESSES, SAMPLING, SERVER, TEXT};
use crate::config::lmcache::HICACHE;

/// Flags of `python -m sglang.launch_server`.
pub(super) const SGLANG: &[Family] = &[
    (
        Nothing,
        Ignored(SERVER),
        "skip-server-warmup enable-custom-logit-processor grpc-mode \
         checkpoint-engine-wait-weights-before-ready",
    ),
    (
        One,
        Ignored(SERVER),
        "fastapi-root-path admin-api-key file-storage-path warmups smg-grpc-mode",
    ),
    (
        Nothing,
        Ignored(LOGS),
        "log-requests show-time-cost enable-metrics enable-metrics-for-all-schedulers \
         enable-cache-report collect-tokens-histogram enable-request-time-stats-logging enable-trace \
         export-metrics-to-file enable-nan-detection sleep-on-idle",
    ),
    (
        One,
        Ignored(LOGS),
        "log-level-http log-requests-level decode-log-interval crash-dump-folder \
         gc-warning-threshold-secs oltp-traces-endpoint watchdog-timeout soft-watchdog-timeout \
         dist-timeout bucket-time-to-first-token bucket-inter-token-latency \
         bucket-e2e-request-latency",
    ),
    (
        Nothing,
        Ignored(TEXT),
        "disable-fast-image-processor is-embedding keep-mm-feature-on-device",
    ),
    (
        One,
        Ignored(TEXT),
        "tokenizer-path tokenizer-worker-num completion-template hf-chat-template-name \
         grammar-backend",
    ),
    (
        One,
        Ignored(SAMPLING),
        "sampling-backend sampling-defaults preferred-sampling-params random-seed \
         constrained-json-whitespace-pattern",
    ),
    (
        Nothing,
        Ignored(LOADING),
        "weight-loader-disable-mmap enable-memory-saver enable-weights-cpu-backup",
    ),
    (
        One,
        Ignored(LOADING),
        "modelopt-quant weight-loader-prefetch-num-threads delete-ckpt-after-loading",
    ),
    (
        Nothing,
        Ignored(KERNELS),
        "disable-cuda-graph-padding enable-profile-cuda-graph enable-cudagraph-gc \
         enable-piecewise-cuda-graph disable-piecewise-cuda-graph enable-nccl-nvls enable-symm-mem \
         enable-mscclpp enable-torch-symm-mem enable-flashinfer-allreduce-fusion \
         enable-tokenizer-batch-encode disable-tokenizer-batch-decode flashinfer-mla-disable-ragged \
         disable-shared-experts-fusion disable-outlines-disk-cache \
         disable-flashinfer-cutlass-moe-fp4-allgather enable-fused-qk-norm-rope \
         enable-flashinfer-trtllm-moe enable-flashinfer-cutlass-moe",
    ),
    (
        One,
        Ignored(KERNELS),
        "mm-attention-backend fp8-gemm-backend fp4-gemm-backend moe-runner-backend \
         flashinfer-mxfp4-moe-precision torch-compile-max-bs triton-attention-num-kv-splits \
         triton-attention-reduce-in-fp32 piecewise-cuda-graph-tokens piecewise-cuda-graph-max-tokens \
         piecewise-cuda-graph-compiler nsa-prefill-backend nsa-decode-backend \
         flashinfer-allreduce-fusion-backend",
    ),
    (Many, Ignored(KERNELS), "cuda-graph-bs"),
    (
        Nothing,
        Ignored(
            "it compiles the decode batches that CUDA graphs capture, whose speed the calibration \
             says; steps without a graph are not compiled with it either",
        ),
        "enable-torch-compile",
    ),
    (Nothing, Ignored(PROCESSES), "enable-p2p-check use-ray"),
    (
        One,
        Ignored(PROCESSES),
        "base-gpu-id gpu-id-step nccl-port dist-init-addr numa-node scheduler-recv-interval-polling",
    ),
    (
        One,
        Ignored("it matters for state-space and hybrid models only"),
        "mamba-ssm-dtype mamba-full-memory-ratio max-mamba-cache-size mamba-scheduler-strategy \
         swa-full-tokens-ratio",
    ),
    (
        One,
        Ignored("it matters with --enable-hierarchical-cache only, which is not modelled and refused"),
        "hicache-ratio hicache-size hicache-write-policy hicache-io-backend hicache-mem-layout \
         hicache-storage-backend hicache-storage-prefetch-policy hicache-storage-backend-extra-config",
    ),
    (
        One,
        Ignored("--pd-flow and --kv-link say how KV gets from one server to the other here"),
        "disaggregation-transfer-backend disaggregation-bootstrap-port disaggregation-ib-device \
         disaggregation-decode-tp disaggregation-decode-dp disaggregation-prefill-pp",
    ),
    (
        One,
        Ignored("it matters with --dp-size only"),
        "dp-attention-input-scattered",
    ),
    (
        One,
        Ignored("experts lie evenly over the GPUs here, and their tokens are exchanged in one way"),
        "deepep-mode deepep-config ep-num-redundant-experts ep-dispatch-algorithm \
         init-expert-location eplb-algorithm eplb-rebalance-num-iterations \
         expert-distribution-recorder-mode tbo-token-distribution-threshold",
    ),
    (
        One,
        Ignored("it matters with LoRA adapters only"),
        "max-loras-per-batch lora-backend",
    ),
    (
        One,
        NotModelled(
            "",
            "weights that torchao quantizes are not modelled: --quantization names what is",
        ),
        "torchao-config",
    ),
    (
        Nothing,
        NotModelled("false", "only full attention is modelled"),
        "disable-hybrid-swa-memory",
    ),
    (
        One,
        NotModelled("lru", "only the least recently used leaf is evicted here"),
        "radix-eviction-policy",
    ),
    (
        One,
        NotModelled("1", "inputs are drained in every pass here"),
        "scheduler-recv-interval",
    ),
    (
        One,
        NotModelled("length", "only retraction by length is modelled"),
        "retraction-policy",
    ),
    (
        One,
        NotModelled("0", "--prefill-decode-interval holds however few run here"),
        "prefill-decode-interval-min-bs",
    ),
    (
        One,
        Ignored("--acceptance-length or --acceptance-rate already say how many drafts stand"),
        "speculative-accept-threshold-single speculative-accept-threshold-acc \
         speculative-ngram-max-trie-depth speculative-ngram-capacity speculative-ngram-min-bfs-breadth \
         speculative-ngram-match-type",
    ),
    (
        One,
        Ignored(KERNELS),
        "speculative-attention-mode speculative-draft-attention-backend speculative-moe-runner-backend \
         speculative-moe-a2a-backend",
    ),
    (
        One,
        Ignored(LOADING),
        "speculative-draft-model-revision speculative-draft-load-format",
    ),
    (
        One,
        NotModelled(
            "",
            "a drafter's head over a part of the vocabulary is not modelled",
        ),
        "speculative-token-map",
    ),
    (
        One,
        NotModelled("10", "only breadths of 10 are modelled of n-grams"),
        "speculative-ngram-max-bfs-breadth",
    ),
    (
        Nothing,
        NotModelled("false", "KV offloading is not modelled for SGLang"),
        "enable-lmcache enable-hisparse",
    ),
    (
        Nothing,
        NotModelled("false", HICACHE),
        "enable-hierarchical-cache",
    ),
    (
        One,
        NotModelled("1", "dense layers lie on all GPUs of a group here"),
        "moe-dense-tp-size",
    ),
    (
        Nothing,
        NotModelled("false", MICROBATCHES),
        "enable-two-batch-overlap enable-single-batch-overlap",
    ),
    (Many, NotModelled("", LORA), "lora-paths"),
];
