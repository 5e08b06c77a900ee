//! vLLM's command-line spelling brought to one form, and the flags that a simulation does not need.
//!
//! vLLM takes `--max_num_seqs` for `--max-num-seqs`, `--no-X` for `--X=false`, and short forms of several letters
//! (`-tp`). Flags are put in one form before clap sees them. Of the flags that have no field of their own here each
//! is known with its reason: either it cannot change a simulated result and is accepted, by name, or it would and
//! is refused.

use super::diagnostic::{Diagnostic, Place};

/// vLLM's short forms.
const SHORT: [(&str, &str); 8] = [
    ("-tp", "--tensor-parallel-size"),
    ("-pp", "--pipeline-parallel-size"),
    ("-dp", "--data-parallel-size"),
    ("-ep", "--enable-expert-parallel"),
    ("-q", "--quantization"),
    ("-sc", "--speculative-config"),
    ("-cc", "--compilation-config"),
    ("-O", "--optimization-level"),
];

/// Other spellings of flags that exist here.
const ALIASES: [(&str, &str); 3] = [
    ("--prefix-len", "--random-prefix-len"),
    ("--cuda-graph-sizes", "--cudagraph-capture-sizes"),
    ("--dataset", "--dataset-path"),
];

/// Switches that take `--no-X`.
const SWITCHES: [&str; 5] = [
    "enable-chunked-prefill",
    "enable-prefix-caching",
    "scheduler-reserve-full-isl",
    "async-scheduling",
    "enforce-eager",
];

/// What a flag without a field of its own does to a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// None: accepted and named with this reason.
    Ignored(&'static str),
    /// Some, which is not modelled: refused with this reason, except where the value is the neutral one.
    NotModelled(&'static str, &'static str),
}

/// Whether a value follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Nothing,
    One,
    Many,
}

const SERVER: &str = "the simulated server has no such surface";
const LOADING: &str = "loading the model is not part of serving it";
const TEXT: &str = "tokens are simulated, not text";
const LOGS: &str = "it changes what is logged, not what is served";
const SPECULATION: &str = "speculative decoding is not modelled yet";
const OFFLOAD: &str = "KV offloading is not modelled yet";
const LORA: &str = "LoRA adapters are not modelled";
const SAMPLING: &str = "sampling does not change the time of a step here";
const CLIENT: &str = "there is no connection to make";

use Effect::{Ignored, NotModelled};
use Takes::{Many, Nothing, One};

/// Flags of `vllm serve` and `vllm bench serve` that have no field of their own.
const KNOWN: &[(&str, Takes, Effect)] = &[
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
    ("limit-mm-per-prompt", One, Ignored("prompts are text tokens")),
    ("mm-processor-kwargs", One, Ignored("prompts are text tokens")),
    (
        "allowed-local-media-path",
        One,
        Ignored("prompts are text tokens"),
    ),
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
    (
        "api-server-count",
        One,
        Ignored("the front end's delay does not depend on load here"),
    ),
    ("device", One, Ignored("--gpu says the device")),
    ("task", One, Ignored("generation is what is simulated")),
    ("runner", One, Ignored("generation is what is simulated")),
    (
        "disable-custom-all-reduce",
        Nothing,
        Ignored("the calibration says how ranks are joined"),
    ),
    (
        "attention-backend",
        One,
        Ignored("the calibration says how fast attention is"),
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
        "optimization-level",
        One,
        Ignored("the calibration is of compiled kernels; use --enforce-eager or --compilation-config"),
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
        "swap-space",
        One,
        Ignored("V1 recomputes what it preempts and never swaps"),
    ),
    (
        "num-scheduler-steps",
        One,
        NotModelled(
            "1",
            "multi-step scheduling was a feature of V0, which is not modelled yet",
        ),
    ),
    (
        "scheduler-delay-factor",
        One,
        NotModelled(
            "0",
            "the delay factor was a feature of V0, which is not modelled yet",
        ),
    ),
    (
        "enable-expert-parallel",
        Nothing,
        NotModelled("false", "expert parallelism is not modelled yet"),
    ),
    (
        "cpu-offload-gb",
        One,
        NotModelled("0", "weights offloaded to the host are not modelled yet"),
    ),
    ("kv-offloading-size", One, NotModelled("0", OFFLOAD)),
    ("kv-offloading-backend", One, NotModelled("", OFFLOAD)),
    (
        "kv-transfer-config",
        One,
        NotModelled(
            "",
            "KV transfer between engines (prefill/decode disaggregation, LMCache) is not modelled yet",
        ),
    ),
    ("speculative-config", One, NotModelled("", SPECULATION)),
    ("spec-method", One, NotModelled("", SPECULATION)),
    ("spec-model", One, NotModelled("", SPECULATION)),
    ("spec-tokens", One, NotModelled("0", SPECULATION)),
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
        Ignored("it matters with --data-parallel-size only"),
    ),
    ("additional-config", One, Ignored("it is read by plug-ins")),
    // vllm bench serve
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
        NotModelled(
            "0",
            "warm-up requests are not sent: the simulated server has nothing to warm, but their prompt would be in the prefix cache",
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
    (
        "append-result",
        Nothing,
        NotModelled("false", "each result is a file of its own"),
    ),
    ("lora-assignment", One, Ignored(LORA)),
    (
        "random-batch-size",
        One,
        NotModelled("1", "it is for embedding models"),
    ),
    (
        "plot-timeline",
        Nothing,
        Ignored("use --format or plimsoll timeline"),
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

/// SGLang's flags and what vLLM calls them.
const SGLANG: [(&str, &str); 9] = [
    ("tp-size", "--tensor-parallel-size"),
    (
        "mem-fraction-static",
        "--gpu-memory-utilization (which counts other memory, too)",
    ),
    (
        "chunked-prefill-size",
        "--max-num-batched-tokens or --long-prefill-token-threshold",
    ),
    ("max-prefill-tokens", "--max-num-batched-tokens"),
    ("max-running-requests", "--max-num-seqs"),
    ("schedule-policy", "--scheduling-policy"),
    (
        "schedule-conservativeness",
        "nothing: vLLM does not estimate output lengths",
    ),
    ("page-size", "--block-size"),
    ("disable-radix-cache", "--no-enable-prefix-caching"),
];

/// Arguments that clap understands, and what happened to the rest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Normalised {
    /// For clap.
    pub args: Vec<String>,
    /// Flags without effect, each with its reason.
    pub ignored: Vec<String>,
    /// Flags that cannot be honoured.
    pub problems: Vec<Diagnostic>,
}

/// Brings `args` (without the program's name) to clap's form.
#[must_use]
pub fn normalise(args: &[String]) -> Normalised {
    let mut out = Normalised::default();
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        at += 1;
        if arg == "--" {
            out.args.extend_from_slice(&args[at - 1..]);
            break;
        }
        let Some((name, value)) = flag(arg) else {
            out.args.push(arg.clone());
            continue;
        };
        if let Some((_, vllm)) = SGLANG.iter().find(|(sglang, _)| *sglang == name) {
            at += take_values(&args[at..], One, value.is_some()).len();
            let problem =
                Diagnostic::new(format!("`--{name}` is a flag of SGLang")).help(format!("vLLM's is {vllm}"));
            out.problems.push(
                problem
                    .at(Place::Flag(format!("--{name}")))
                    .help("SGLang's scheduler is not modelled yet"),
            );
            continue;
        }
        if let Some((_, takes, effect)) = KNOWN.iter().find(|(known, ..)| *known == name) {
            let values = take_values(&args[at..], *takes, value.is_some());
            at += values.len();
            out.drop_flag(
                &name,
                value.as_deref().or(values.first().map(String::as_str)),
                *effect,
            );
            continue;
        }
        // `--enable-chunked-prefill false`, as people write it.
        let said = args
            .get(at)
            .filter(|next| ["true", "false"].contains(&next.as_str()));
        let value = match said {
            Some(said) if value.is_none() && SWITCHES.contains(&name.as_str()) => {
                at += 1;
                Some(said.clone())
            }
            _ => value,
        };
        out.args.push(match (name.strip_prefix("no-"), value) {
            (Some(switch), None) if SWITCHES.contains(&switch) => format!("--{switch}=false"),
            (_, Some(value)) => format!("--{name}={value}"),
            (_, None) => format!("--{name}"),
        });
    }
    out
}

/// A long flag's name in kebab case and its attached value; `None` for anything else.
fn flag(arg: &str) -> Option<(String, Option<String>)> {
    let (name, value) = match arg.split_once('=') {
        Some((name, value)) => (name, Some(value.to_string())),
        None => (arg, None),
    };
    let long = SHORT
        .iter()
        .find(|(short, _)| *short == name)
        .map(|(_, long)| *long);
    // `-tp4` and `-O3`, as vLLM takes them.
    let glued = || {
        let (short, rest) = arg.split_at_checked(if arg.starts_with("-O") { 2 } else { 3 })?;
        let (_, long) = SHORT.iter().find(|(known, _)| *known == short)?;
        (value.is_none() && rest.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| (*long, Some(rest.to_string())))
    };
    let (name, value) = match long {
        Some(long) => (long, value),
        None => glued().unwrap_or((name, value)),
    };
    let name = name.strip_prefix("--")?.replace('_', "-");
    let alias = ALIASES
        .iter()
        .find(|(alias, _)| alias[2..] == name)
        .map(|(_, real)| real[2..].to_string());
    Some((alias.unwrap_or(name), value))
}

fn take_values(rest: &[String], takes: Takes, has_value: bool) -> &[String] {
    let most = match takes {
        _ if has_value => 0,
        Nothing => 0,
        One => 1,
        Many => usize::MAX,
    };
    let is_value = |arg: &&String| !arg.starts_with("--") || takes == One;
    let count = rest.iter().take_while(is_value).take(most).count();
    &rest[..count]
}

impl Normalised {
    fn drop_flag(&mut self, name: &str, value: Option<&str>, effect: Effect) {
        match effect {
            Ignored(reason) => self.ignored.push(format!("--{name} has no effect: {reason}")),
            NotModelled(neutral, _) if !neutral.is_empty() && value == Some(neutral) => {
                self.ignored.push(format!("--{name} {neutral} has no effect"));
            }
            NotModelled(_, reason) => {
                let problem = Diagnostic::new(format!(
                    "`--{name}` would change the result, and cannot be honoured"
                ));
                self.problems
                    .push(problem.label(reason).at(Place::Flag(format!("--{name}"))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &str) {
        let args: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        assert_eq!(normalise(&args).args.join(" "), expected, "{line}");
    }

    #[test]
    fn every_spelling_of_vllm_becomes_one() {
        check(
            "-tp 2 --max_num_seqs=8",
            "--tensor-parallel-size 2 --max-num-seqs=8",
        );
        check("-tp=2 -tp4", "--tensor-parallel-size=2 --tensor-parallel-size=4");
        check("--no-enable-prefix-caching", "--enable-prefix-caching=false");
        check(
            "--no_enable_chunked_prefill m",
            "--enable-chunked-prefill=false m",
        );
        check("-q fp8 -o out.json", "--quantization fp8 -o out.json");
        check("-- --host x", "-- --host x");
    }

    #[test]
    fn flags_without_effect_are_taken_out_with_their_values_and_named() {
        check(
            "m --host 0.0.0.0 --port 8000 --disable-log-requests --max-num-seqs 4",
            "m --max-num-seqs 4",
        );
        check("--served-model-name a b --max-num-seqs 4", "--max-num-seqs 4");
        let args = ["--temperature".to_string(), "0".to_string()];
        assert!(normalise(&args).ignored[0].starts_with("--temperature has no effect"));
    }

    #[test]
    fn what_would_change_the_result_is_refused_unless_neutral() {
        let problems = |line: &str| {
            normalise(&line.split_whitespace().map(str::to_string).collect::<Vec<_>>())
                .problems
                .len()
        };
        assert_eq!(problems("--speculative-config {}"), 1);
        assert_eq!(problems("--cpu-offload-gb 0"), 0);
        assert_eq!(problems("--cpu-offload-gb 4"), 1);
        assert_eq!(problems("--mem-fraction-static 0.8"), 1);
    }
}
