//! Flags of `vllm bench serve` that have no field of their own.

use super::Effect::{self, Ignored, NotModelled};
use super::Takes::{self, Many, Nothing, One};
use super::{LORA, SAMPLING, TEXT};

const TRACE_FIELDS: &str = "the fields of a trace are named as Mooncake names them";
const SONNET: &str =
    "sonnet has its usual lengths here; for others use --dataset-name random with --random-prefix-len";
const GSP: &str =
    "the generated-shared-prefix data set has fixed lengths, one turn and a shuffled order here";
const CLIENT: &str = "there is no connection to make";

/// Each with what becomes of it.
pub(super) const BENCH: &[(&str, Takes, Effect)] = &[
    (
        "timed-trace-chunk-hash-size",
        One,
        NotModelled("512", "a hash of a trace stands for 512 tokens, as in Mooncake's"),
    ),
    (
        "timed-trace-sec-multiplier",
        One,
        NotModelled(
            "0.001",
            "a trace's timestamps are milliseconds, as in Mooncake's; --time-scale stretches them",
        ),
    ),
    (
        "timed-trace-label-timestamp",
        One,
        NotModelled("timestamp", TRACE_FIELDS),
    ),
    (
        "timed-trace-label-input-length",
        One,
        NotModelled("input_length", TRACE_FIELDS),
    ),
    (
        "timed-trace-label-output-length",
        One,
        NotModelled("output_length", TRACE_FIELDS),
    ),
    (
        "timed-trace-label-hash-ids",
        One,
        NotModelled("hash_ids", TRACE_FIELDS),
    ),
    ("gsp-range-ratio", One, NotModelled("1.0", GSP)),
    ("gsp-num-turns", One, NotModelled("1", GSP)),
    ("gsp-ordered", Nothing, NotModelled("false", GSP)),
    ("gsp-fast-prepare", Nothing, Ignored(TEXT)),
    (
        "gsp-send-routing-key",
        Nothing,
        NotModelled(
            "false",
            "routing keys are not modelled: --router prefix_hash keeps prefixes together",
        ),
    ),
    (
        "warmup-requests",
        One,
        Ignored(
            "warm-up requests are not sent: the first prompt, which they leave in the cache, is not there",
        ),
    ),
    (
        "flush-cache",
        Nothing,
        Ignored("the cache is empty when a run begins"),
    ),
    (
        "output-file",
        One,
        Ignored("-o FILE or --save-result write the result here"),
    ),
    (
        "output-details",
        Nothing,
        Ignored("--save-detailed writes them here"),
    ),
    (
        "disable-stream",
        Nothing,
        NotModelled("false", "answers are streamed"),
    ),
    (
        "disable-ignore-eos",
        Nothing,
        NotModelled(
            "false",
            "give [workload.endings]: where outputs end by themselves is a law there",
        ),
    ),
    ("tokenize-prompt", Nothing, Ignored(TEXT)),
    ("return-logprob", Nothing, Ignored(SAMPLING)),
    ("apply-chat-template", Nothing, Ignored(TEXT)),
    ("extra-request-body", One, Ignored(SAMPLING)),
    (
        "pd-separated",
        Nothing,
        Ignored("it says whose profilers to start; --prefill and --decode ask for pools of both kinds here"),
    ),
    ("sonnet-input-len", One, NotModelled("550", SONNET)),
    ("sonnet-output-len", One, NotModelled("150", SONNET)),
    ("sonnet-prefix-len", One, NotModelled("200", SONNET)),
    ("backend", One, Ignored(CLIENT)),
    ("endpoint-type", One, Ignored(CLIENT)),
    ("base-url", One, Ignored(CLIENT)),
    ("endpoint", One, Ignored(CLIENT)),
    ("header", Many, Ignored(CLIENT)),
    ("insecure", Nothing, Ignored(CLIENT)),
    (
        "ready-check-timeout-sec",
        One,
        Ignored("the simulated server is ready at once"),
    ),
    ("request-id-prefix", One, Ignored("a name changes nothing")),
    (
        "disable-tqdm",
        Nothing,
        Ignored("it changes the client's screen only"),
    ),
    ("profile", Nothing, Ignored("there is nothing to profile")),
    (
        "num-warmups",
        One,
        Ignored(
            "the simulated server has nothing to warm; that the first prompt would then be in the prefix cache is left out",
        ),
    ),
    (
        "probe-request-rate",
        One,
        NotModelled("0", "probe requests are not modelled"),
    ),
    ("logprobs", One, Ignored(SAMPLING)),
    ("top-p", One, Ignored(SAMPLING)),
    ("top-k", One, Ignored(SAMPLING)),
    ("min-p", One, Ignored(SAMPLING)),
    ("temperature", One, Ignored(SAMPLING)),
    ("frequency-penalty", One, Ignored(SAMPLING)),
    ("presence-penalty", One, Ignored(SAMPLING)),
    ("repetition-penalty", One, Ignored(SAMPLING)),
    (
        "use-beam-search",
        Nothing,
        NotModelled("false", "beam search is not modelled"),
    ),
    (
        "ignore-eos",
        Nothing,
        Ignored("outputs have the asked length unless [workload.endings] says otherwise"),
    ),
    ("extra-body", One, Ignored(SAMPLING)),
    (
        "no-stream",
        Nothing,
        Ignored("it is about how a data set is downloaded"),
    ),
    (
        "no-oversample",
        Nothing,
        NotModelled("false", "lengths are drawn with replacement"),
    ),
    (
        "disable-shuffle",
        Nothing,
        NotModelled("false", "lengths are drawn with replacement"),
    ),
    ("skip-chat-template", Nothing, Ignored(TEXT)),
    ("lora-assignment", One, Ignored(LORA)),
    (
        "random-batch-size",
        One,
        NotModelled("1", "it is for embedding models"),
    ),
    (
        "plot-timeline",
        Nothing,
        Ignored("--charts FOLDER draws the run over time"),
    ),
    (
        "timeline-itl-thresholds",
        One,
        Ignored("it is for --plot-timeline"),
    ),
    ("plot-dataset-stats", Nothing, Ignored("use plimsoll trace")),
    (
        "self-timed",
        Nothing,
        Ignored("a trace always brings its own arrival times; --request-rate scales them"),
    ),
    (
        "no-self-timed",
        Nothing,
        NotModelled(
            "",
            "a trace always brings its own arrival times; --request-rate scales them",
        ),
    ),
];
