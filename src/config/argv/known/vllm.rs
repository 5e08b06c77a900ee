//! Flags of `vllm serve` that have no field of their own, and those of `vllm bench serve` that share a reason with them.

use super::Effect::{Ignored, NotModelled};
use super::Takes::{Many, Nothing, One};
use super::{
    Family, KERNELS, LOADING, LOGS, LORA, MICROBATCHES, NAME, PROCESSES, SAMPLING, SERVER, SHAPES,
    SPECULATION, TEXT,
};

const ADAPTERS: &str = "it matters with --enable-lora only";
const ANSWERS: &str = "it is about what an answer carries, not when it comes";
const DATA_SET: &str = "it belongs to a data set that is not this one";
const EXPERT_PARALLEL: &str = "experts lie evenly over the ranks here and are exchanged in one way, and without \
     --enable-expert-parallel it means nothing";
const FAULTS: &str = "nothing fails in a simulation";
const IMAGES: &str = "prompts are text tokens";
const NODES: &str = "engines of several nodes are not modelled yet";
const OFFLOADED: &str = "it matters with weights offloaded to the host only";
const SLEEPING: &str = "the simulated server never sleeps";
const STATES: &str = "it matters to cached prefixes of recurrent layers, or with --use-replayssm, only";
const WITH_CONTEXT_PARALLEL: &str = "it matters with context parallelism only";
const WORKERS: &str = "workers are not modelled one by one";

/// Flags of `vllm serve`.
pub(super) const VLLM: &[Family] = &[
    (
        Nothing,
        Ignored(SERVER),
        "allow-credentials grpc enable-ssl-refresh enable-request-id-headers disable-fastapi-docs \
         enable-offline-docs enable-server-load-tracking enable-tokenizer-info-endpoint \
         enable-scale-out enable-flash-late-interaction disable-frontend-multiprocessing",
    ),
    (
        One,
        Ignored(SERVER),
        "host port uds api-key root-path ssl-keyfile ssl-certfile allowed-origins middleware \
         allowed-methods allowed-headers ssl-ca-certs ssl-cert-reqs ssl-ciphers \
         h11-max-incomplete-event-size h11-max-header-count grpc-port \
         disable-access-log-for-endpoints sse-keep-alive-interval shutdown-timeout tool-server \
         fingerprint-mode fingerprint-value",
    ),
    (
        Nothing,
        Ignored(LOGS),
        "disable-uvicorn-access-log disable-log-requests no-enable-log-requests enable-log-requests \
         disable-log-stats kv-cache-metrics aggregate-engine-logging cudagraph-metrics \
         enable-mfu-metrics enable-layerwise-nvtx-tracing enable-logging-iteration-details \
         jit-monitor-verbose ray-workers-use-nsight enable-log-outputs enable-log-deltas \
         log-error-stack fail-on-environ-validation",
    ),
    (
        One,
        Ignored(LOGS),
        "uvicorn-log-level max-log-len otlp-traces-endpoint collect-detailed-traces \
         show-hidden-metrics-for-version kv-events-config log-config-file log-level logging-config \
         custom-histogram-buckets kv-cache-metrics-sample jit-monitor-mode \
         per-request-spec-decode-metrics profiler-config watchdog-config",
    ),
    (Many, Ignored(NAME), "served-model-name"),
    (
        Nothing,
        Ignored(TEXT),
        "skip-tokenizer-init enable-auto-tool-choice enable-reasoning trust-request-chat-template \
         exclude-tools-when-tool-choice-none cohere-is-reasoning-model tokens-only \
         enable-prompt-embeds custom-skip-chat-template",
    ),
    (
        One,
        Ignored(TEXT),
        "tokenizer tokenizer-mode tokenizer-revision chat-template chat-template-content-format \
         chat-template-kwargs response-role tool-call-parser reasoning-parser \
         default-chat-template-kwargs reasoning-effort-map tool-parser-plugin tool-strict-level \
         reasoning-parser-plugin reasoning-config io-processor-plugin cohere-format \
         anthropic-disabled-thinking-effort watermark-config",
    ),
    (
        Nothing,
        Ignored(SAMPLING),
        "use-fp64-gumbel enable-trace-replay enable-batch-sharded-sampling",
    ),
    (
        One,
        Ignored(SAMPLING),
        "generation-config override-generation-config max-logprobs logprobs-mode \
         guided-decoding-backend structured-outputs-config logits-processor-pattern",
    ),
    (Many, Ignored(SAMPLING), "logits-processors"),
    (
        Nothing,
        Ignored(IMAGES),
        "disable-chunked-mm-input disable-mm-preprocessor-cache \
         enable-multimodal-encoder-data-parallel enable-mm-embeds interleave-mm-strings \
         mm-device-do-normalize skip-mm-profiling trust-request-mm-kwargs enable-multimodal-chat",
    ),
    (
        One,
        Ignored(IMAGES),
        "limit-mm-per-prompt mm-processor-kwargs allowed-local-media-path media-io-kwargs \
         mm-encoder-attn-backend mm-encoder-attn-dtype mm-encoder-fp8-scale-path \
         mm-encoder-fp8-scale-save-margin mm-encoder-fp8-scale-save-path mm-encoder-tp-mode \
         mm-hasher-algorithm mm-ipc-gpu-memory-gb mm-processor-cache-gb mm-processor-cache-type \
         mm-processor-device mm-shm-cache-max-object-size-mb mm-tensor-ipc video-pruning-method \
         video-pruning-rate ec-manager-config ec-transfer-config",
    ),
    (Many, Ignored(IMAGES), "allowed-media-domains"),
    (
        Nothing,
        Ignored(LOADING),
        "trust-remote-code use-tqdm-on-load allow-deprecated-quantization",
    ),
    (
        One,
        Ignored(LOADING),
        "load-format download-dir revision code-revision hf-token hf-config-path config-format \
         model-loader-extra-config max-parallel-loading-workers safetensors-load-strategy \
         pt-load-map-location safetensors-prefetch-block-size safetensors-prefetch-num-threads \
         weight-transfer-config",
    ),
    (Many, Ignored(LOADING), "ignore-patterns"),
    (
        Nothing,
        Ignored(SLEEPING),
        "enable-sleep-mode sleep-mode-offload-cudagraph",
    ),
    (One, Ignored(SLEEPING), "sleep-mode-backend"),
    (Many, Ignored(SLEEPING), "sleep-preserve-parameter-names"),
    (Nothing, Ignored(WORKERS), "worker-use-ray engine-use-ray"),
    (One, Ignored(WORKERS), "distributed-executor-backend worker-cls"),
    (One, Ignored("--gpu says the device"), "device"),
    (
        Nothing,
        Ignored("the calibration says how ranks are joined"),
        "disable-custom-all-reduce",
    ),
    (
        One,
        Ignored("equal prefixes are found without hashing"),
        "prefix-caching-hash-algo",
    ),
    (
        Nothing,
        Ignored("numbers are not computed"),
        "calculate-kv-scales",
    ),
    (
        Nothing,
        Ignored("it is the block manager that is simulated"),
        "use-v2-block-manager",
    ),
    (
        One,
        Ignored("CUDA graphs are replayed whatever the context is"),
        "max-seq-len-to-capture max-context-len-to-capture",
    ),
    (
        One,
        Ignored("--acceptance-rate says how many drafts stand, however they are found"),
        "ngram-prompt-lookup-max ngram-prompt-lookup-min",
    ),
    (
        One,
        Ignored("where data-parallel engines run is not modelled"),
        "data-parallel-backend data-parallel-address data-parallel-rpc-port data-parallel-size-local \
         data-parallel-rank data-parallel-start-rank data-parallel-supervisor-port \
         dp-supervisor-probe-interval-s dp-supervisor-probe-timeout-s \
         dp-supervisor-probe-failure-threshold",
    ),
    (One, Ignored("it is read by plug-ins"), "additional-config"),
    (
        Nothing,
        Ignored("it is for DeepSeek-V4.1 only"),
        "swa-bounded-replay",
    ),
    (
        Nothing,
        Ignored(ANSWERS),
        "enable-force-include-usage enable-prompt-tokens-details enable-per-request-metrics \
         return-tokens-as-token-ids enable-return-routed-experts return-sampling-mask",
    ),
    (One, Ignored(ANSWERS), "aux-output-config"),
    (
        Nothing,
        Ignored(KERNELS),
        "enable-flashinfer-autotune disable-cascade-attn monokernel",
    ),
    (
        One,
        Ignored(KERNELS),
        "attention-config moe-backend linear-backend kernel-config ir-op-priority \
         sparse-indexer-topk-backend gdn-prefill-backend kda-decode-backend kda-prefill-backend \
         mamba-backend mamba-ssu-algorithm model-impl override-attention-dtype",
    ),
    (
        Nothing,
        Ignored(PROCESSES),
        "numa-bind enable-cumem-allocator enable-nccl-comm-suspend enable-shm-tensor-arena \
         disable-nccl-for-dp-synchronization",
    ),
    (
        One,
        Ignored(PROCESSES),
        "master-addr master-port distributed-timeout-seconds cpu-distributed-timeout-seconds \
         renderer-num-workers worker-extension-cls",
    ),
    (
        Many,
        Ignored(PROCESSES),
        "device-ids numa-bind-cpus numa-bind-nodes",
    ),
    (
        Nothing,
        Ignored(
            "data-parallel engines are balanced by vLLM's own front end here; --replicas and --router \
             stand for engines behind another balancer",
        ),
        "data-parallel-external-lb data-parallel-hybrid-lb data-parallel-multi-port-external-lb",
    ),
    (
        Nothing,
        Ignored(EXPERT_PARALLEL),
        "enable-ep-weight-filter eplb-log-balancedness",
    ),
    (
        One,
        Ignored(EXPERT_PARALLEL),
        "eplb-config eplb-window-size eplb-step-interval num-redundant-experts \
         expert-placement-strategy elastic-ep-max-dp-size",
    ),
    (Nothing, Ignored(WITH_CONTEXT_PARALLEL), "dcp-q-replicate"),
    (
        One,
        Ignored(WITH_CONTEXT_PARALLEL),
        "dcp-comm-backend dcp-kv-cache-interleave-size cp-kv-cache-interleave-size",
    ),
    (
        One,
        Ignored("it matters with --enable-dbo only"),
        "dbo-decode-token-threshold dbo-prefill-token-threshold",
    ),
    (
        One,
        Ignored(OFFLOADED),
        "offload-backend offload-num-in-group offload-prefetch-step",
    ),
    (Many, Ignored(OFFLOADED), "offload-params cpu-offload-params"),
    (
        Nothing,
        Ignored(ADAPTERS),
        "fully-sharded-loras enable-lora-bias enable-mixed-moe-lora-format enable-moe-shared-loras \
         enable-tower-connector-lora specialize-active-lora",
    ),
    (
        One,
        Ignored(ADAPTERS),
        "max-loras max-lora-rank lora-dtype max-cpu-loras max-lora-cls-labels default-mm-loras \
         lora-extra-vocab-size",
    ),
    (Many, Ignored(ADAPTERS), "lora-target-modules"),
    (
        Nothing,
        Ignored(STATES),
        "enable-mamba-cache-stochastic-rounding enable-mamba-shared-prefix-checkpoint",
    ),
    (
        One,
        Ignored(STATES),
        "mamba-block-size mamba-cache-mode mamba-cache-philox-rounds replayssm-buffer-len",
    ),
    (
        One,
        Ignored("generation is what is simulated"),
        "convert pooler-config override-pooler-config",
    ),
    (Nothing, Ignored(FAULTS), "enable-fault-tolerance"),
    (One, Ignored(FAULTS), "fault-tolerance-config"),
    (
        Nothing,
        Ignored(DATA_SET),
        "no-reranker custom-ensure-client-side-data",
    ),
    (
        One,
        Ignored(DATA_SET),
        "hf-name hf-subset hf-split hf-output-len spec-bench-category spec-bench-output-len \
         speed-bench-category speed-bench-dataset-subset speed-bench-output-len blazedit-min-distance \
         blazedit-max-distance asr-min-audio-len-sec asr-max-audio-len-sec \
         random-mm-base-items-per-request random-mm-num-mm-items-range-ratio \
         random-mm-limit-mm-per-prompt random-mm-bucket-config",
    ),
    (Many, Ignored(DATA_SET), "bfcl-categories"),
    (
        One,
        NotModelled(
            "auto|generate",
            "a server that generates is what is simulated: embeddings and scores are not",
        ),
        "task runner",
    ),
    (
        One,
        NotModelled("0", "a limit on queued tokens is not modelled yet"),
        "max-num-queued-tokens",
    ),
    (
        Nothing,
        NotModelled("false", "the adaptive threshold is not modelled yet"),
        "long-prefill-token-threshold-adaptive",
    ),
    (
        One,
        NotModelled(
            "1",
            "vLLM's V1 engine refuses it: long_prefill_token_threshold caps partial prefills",
        ),
        "max-num-partial-prefills max-long-partial-prefills",
    ),
    (
        One,
        NotModelled("0", "weights offloaded to the host are not modelled yet"),
        "cpu-offload-gb offload-group-size",
    ),
    (One, NotModelled("0", SPECULATION), "num-lookahead-slots"),
    (Nothing, NotModelled("false", LORA), "enable-lora"),
    (Many, NotModelled("", LORA), "lora-modules"),
    (One, NotModelled("", SHAPES), "model-class-overrides"),
    (
        Nothing,
        NotModelled("false", "sliding windows cannot be switched off yet"),
        "disable-sliding-window",
    ),
    (Nothing, NotModelled("false", NODES), "headless"),
    (One, NotModelled("1", NODES), "nnodes"),
    (One, NotModelled("0", NODES), "node-rank"),
    (
        One,
        NotModelled("1", "context parallelism is not modelled yet"),
        "decode-context-parallel-size prefill-context-parallel-size",
    ),
    (Nothing, NotModelled("false", MICROBATCHES), "enable-dbo"),
    (One, NotModelled("0", MICROBATCHES), "ubatch-size"),
    (
        Nothing,
        NotModelled("false", "moving experts between ranks (EPLB) is not modelled yet"),
        "enable-eplb",
    ),
    (
        Nothing,
        NotModelled("false", "a number of ranks that changes is not modelled yet"),
        "enable-elastic-ep",
    ),
    (
        Nothing,
        NotModelled("false", "sequence parallelism is not modelled yet"),
        "enable-hc-sp",
    ),
    (
        One,
        NotModelled(
            "",
            "a scheduler of one's own is not modelled: the rules here are vLLM's",
        ),
        "scheduler-cls",
    ),
    (
        Nothing,
        NotModelled("false", "layers that share a KV cache are not modelled"),
        "kv-sharing-fast-prefill",
    ),
    (
        One,
        NotModelled("0", "other checkpoints of sliding windows are not modelled yet"),
        "prefix-cache-retention-interval",
    ),
    (
        One,
        NotModelled("", "prefixes are found block by block here"),
        "prefix-match-unit",
    ),
    (
        One,
        NotModelled(
            "",
            "write it as quantization_config into the config.json and give its path",
        ),
        "quantization-config",
    ),
    (
        One,
        NotModelled("", "diffusion models are not modelled"),
        "diffusion-config",
    ),
    (
        One,
        NotModelled("", "embeddings kept by the host are not modelled"),
        "engram-config",
    ),
    (
        Nothing,
        NotModelled("false", "an instance that generates nothing is not modelled"),
        "mm-encoder-only",
    ),
    (
        One,
        NotModelled(
            "",
            "a file of flags is read in --serve-cmd only: write its flags, or a scenario",
        ),
        "config",
    ),
    (
        Nothing,
        NotModelled(
            "false",
            "recent inputs beside the states of Mamba2 are not modelled",
        ),
        "use-replayssm",
    ),
];
