//! Flags of `vllm bench serve` and `sglang.bench_serving` that have no field of their own.

use super::Effect::{Ignored, NotModelled};
use super::Takes::{Many, Nothing, One};
use super::{BEAMS, Family, LORA, NAME, SAMPLING, TEXT};

const CLIENT: &str = "there is no connection to make";
const GSP: &str =
    "the generated-shared-prefix data set has fixed lengths, one turn and a shuffled order here";
const SELF_TIMED: &str = "a trace always brings its own arrival times; --request-rate scales them";
const SONNET: &str =
    "sonnet has its usual lengths here; for others use --dataset-name random with --random-prefix-len";
const TRACE_FIELDS: &str = "the fields of a trace are named as Mooncake names them";

/// Flags of benchmark clients.
pub(super) const BENCH: &[Family] = &[
    (
        Nothing,
        Ignored(TEXT),
        "gsp-fast-prepare tokenize-prompt apply-chat-template skip-chat-template",
    ),
    (
        One,
        Ignored(
            "warm-up requests are not sent: the first prompt, which they leave in the cache, is not \
             there",
        ),
        "warmup-requests",
    ),
    (
        Nothing,
        Ignored("the cache is empty when a run begins"),
        "flush-cache",
    ),
    (
        One,
        Ignored("-o FILE or --save-result write the result here"),
        "output-file",
    ),
    (
        Nothing,
        Ignored("--save-detailed writes them here"),
        "output-details",
    ),
    (Nothing, Ignored(SAMPLING), "return-logprob"),
    (
        One,
        Ignored(SAMPLING),
        "extra-request-body logprobs top-p top-k min-p temperature frequency-penalty presence-penalty \
         repetition-penalty extra-body",
    ),
    (
        Nothing,
        Ignored("it says whose profilers to start; --prefill and --decode ask for pools of both kinds here"),
        "pd-separated",
    ),
    (Nothing, Ignored(CLIENT), "insecure"),
    (One, Ignored(CLIENT), "backend endpoint-type base-url endpoint"),
    (Many, Ignored(CLIENT), "header"),
    (
        One,
        Ignored("the simulated server is ready at once"),
        "ready-check-timeout-sec",
    ),
    (One, Ignored(NAME), "request-id-prefix"),
    (
        Nothing,
        Ignored("it changes the client's screen only"),
        "disable-tqdm",
    ),
    (Nothing, Ignored("there is nothing to profile"), "profile"),
    (
        One,
        Ignored(
            "the simulated server has nothing to warm; that the first prompt would then be in the \
             prefix cache is left out",
        ),
        "num-warmups",
    ),
    (
        Nothing,
        Ignored("outputs have the asked length unless [workload.endings] says otherwise"),
        "ignore-eos",
    ),
    (
        Nothing,
        Ignored("it is about how a data set is downloaded"),
        "no-stream",
    ),
    (One, Ignored(LORA), "lora-assignment"),
    (
        Nothing,
        Ignored("--charts FOLDER draws the run over time"),
        "plot-timeline",
    ),
    (
        One,
        Ignored("it is for --plot-timeline"),
        "timeline-itl-thresholds",
    ),
    (Nothing, Ignored("use plimsoll trace"), "plot-dataset-stats"),
    (Nothing, Ignored(SELF_TIMED), "self-timed"),
    (
        One,
        NotModelled("512", "a hash of a trace stands for 512 tokens, as in Mooncake's"),
        "timed-trace-chunk-hash-size",
    ),
    (
        One,
        NotModelled(
            "0.001",
            "a trace's timestamps are milliseconds, as in Mooncake's; --time-scale stretches them",
        ),
        "timed-trace-sec-multiplier",
    ),
    (
        One,
        NotModelled("timestamp", TRACE_FIELDS),
        "timed-trace-label-timestamp",
    ),
    (
        One,
        NotModelled("input_length", TRACE_FIELDS),
        "timed-trace-label-input-length",
    ),
    (
        One,
        NotModelled("output_length", TRACE_FIELDS),
        "timed-trace-label-output-length",
    ),
    (
        One,
        NotModelled("hash_ids", TRACE_FIELDS),
        "timed-trace-label-hash-ids",
    ),
    (Nothing, NotModelled("false", GSP), "gsp-ordered"),
    (One, NotModelled("1.0", GSP), "gsp-range-ratio"),
    (One, NotModelled("1", GSP), "gsp-num-turns"),
    (
        Nothing,
        NotModelled(
            "false",
            "routing keys are not modelled: --router prefix_hash keeps prefixes together",
        ),
        "gsp-send-routing-key",
    ),
    (
        Nothing,
        NotModelled("false", "answers are streamed"),
        "disable-stream",
    ),
    (
        Nothing,
        NotModelled(
            "false",
            "give [workload.endings]: where outputs end by themselves is a law there",
        ),
        "disable-ignore-eos",
    ),
    (One, NotModelled("550", SONNET), "sonnet-input-len"),
    (One, NotModelled("150", SONNET), "sonnet-output-len"),
    (One, NotModelled("200", SONNET), "sonnet-prefix-len"),
    (
        One,
        NotModelled("0", "probe requests are not modelled"),
        "probe-request-rate",
    ),
    (Nothing, NotModelled("false", BEAMS), "use-beam-search"),
    (
        Nothing,
        NotModelled("false", "lengths are drawn with replacement"),
        "no-oversample disable-shuffle",
    ),
    (
        One,
        NotModelled("1", "it is for embedding models"),
        "random-batch-size",
    ),
    (Nothing, NotModelled("", SELF_TIMED), "no-self-timed"),
];
