//! `aiperf profile`, and `genai-perf profile` before it.

use super::Means::{Flag, Idle, Refused};
use super::Takes::{Many, Nothing, One};
use super::{CLIENT, Means, Part, Row, SCREEN, Said, TOKENS, read};

/// Prompts that nobody gave a length.
const PROMPT: f64 = 550.0;
const CONVERSATIONS: &str =
    "conversations of one turn are read; for several give a scenario with [workload.prefix.sessions]";
const MEDIA: &str = "text alone is modelled: leave it out";

#[rustfmt::skip]
const FLAGS: &[Row] = &[
    (&["m", "model", "model-names"], One, Flag("--model")),
    (&["request-rate"], One, Means::Part(Part::Rate)),
    (&["concurrency"], One, Means::Part(Part::Concurrency)),
    (&["arrival-pattern", "request-rate-mode"], One, Means::Part(Part::Pattern)),
    (&["arrival-smoothness"], One, Means::Part(Part::Smoothness)),
    (&["benchmark-duration"], One, Means::Part(Part::Seconds)),
    (&["request-count", "num-requests"], One, Flag("--num-prompts")),
    (&["random-seed"], One, Flag("--seed")),
    (&["goodput"], Many, Flag("--goodput")),
    (&["prompt-input-tokens-mean", "synthetic-input-tokens-mean", "isl"], One, Means::Part(Part::Prompt)),
    (&["prompt-input-tokens-stddev", "synthetic-input-tokens-stddev", "isl-stddev"], One, Means::Part(Part::PromptDeviation)),
    (&["prompt-output-tokens-mean", "output-tokens-mean", "osl"], One, Means::Part(Part::Answer)),
    (&["prompt-output-tokens-stddev", "output-tokens-stddev", "osl-stddev"], One, Means::Part(Part::AnswerDeviation)),
    (&["prompt-prefix-pool-size", "prefix-prompt-pool-size", "num-prefix-prompts"], One, Means::Part(Part::Prefixes)),
    (&["prompt-prefix-length", "prefix-prompt-length"], One, Means::Part(Part::PrefixTokens)),
    (&["shared-system-prompt-length"], One, Flag("--random-prefix-len")),
    (&["input-file"], One, Means::Part(Part::File)),
    (&["custom-dataset-type"], One, Means::Part(Part::FileKind)),
    (&["fixed-schedule"], Nothing, Means::Part(Part::Scheduled)),
    (&["conversation-turn-mean", "session-turns-mean"], One, Means::Part(Part::Turns)),
    (&["streaming"], Nothing, Idle("answers are streamed here in any case")),
    (&["num-dataset-entries", "num-prompts", "conversation-num", "num-conversations", "num-sessions"], One,
     Idle("prompts are all different here; there they are used again once so many were sent, and a prefix cache would find them")),
    (&["warmup-request-count", "warmup-duration", "warmup-concurrency", "num-warmup-requests"], One, Idle("no requests are sent before those that count")),
    (&["benchmark-grace-period", "request-timeout-seconds"], One, Idle("all requests are answered")),
    (&["measurement-interval", "stability-percentage"], One,
     Idle("a run ends by its number of requests, --request-count, or chooses it itself; --duration beside --bench-cmd is its length")),
    (&["extra-inputs"], Many, Idle("sampling changes no time of a step, and answers have the length that is asked for")),
    (&["u", "url", "H", "header"], Many, Idle(CLIENT)),
    (&["endpoint-type", "endpoint", "custom-endpoint", "api-key", "transport", "transport-type", "connection-reuse-strategy", "service-kind", "backend",
       "workers-max", "max-workers", "record-processors", "record-processor-service-count", "num-workers"], One, Idle(CLIENT)),
    (&["tokenizer", "tokenizer-revision", "dataset-sampling-strategy"], One, Idle(TOKENS)),
    (&["tokenizer-trust-remote-code", "use-server-token-count", "use-legacy-max-tokens"], Nothing, Idle(TOKENS)),
    (&["ui", "ui-type", "artifact-dir", "output-artifact-dir", "profile-export-file", "profile-export-prefix", "export-level", "log-level", "slice-duration", "gpu-telemetry", "server-metrics"], One, Idle(SCREEN)),
    (&["v", "vv", "verbose", "extra-verbose", "generate-plots", "no-gpu-telemetry", "no-server-metrics"], Nothing, Idle(SCREEN)),
    (&["fixed-schedule-auto-offset"], Nothing, Idle("a trace begins with its first request here")),
    (&["conversation-turn-stddev", "session-turns-stddev", "conversation-turn-delay-mean", "session-turn-delay-mean", "user-centric-rate",
       "user-context-prompt-length"], One, Refused(CONVERSATIONS)),
    (&["audio-length-mean", "image-width-mean", "image-height-mean", "video-width", "video-height"], One, Refused(MEDIA)),
    (&["public-dataset", "seq-dist", "sequence-distribution"], One, Refused("give lengths in its place: --isl and --osl, or --dataset-name sharegpt --dataset-path FILE beside")),
    (&["fixed-schedule-start-offset", "fixed-schedule-end-offset"], One, Refused("cut the trace, or leave it out")),
    (&["prefill-concurrency", "request-cancellation-rate", "concurrency-ramp-duration", "request-rate-ramp-duration"], One, Refused("leave it out")),
];

pub(super) fn put(said: &mut Said, args: &[String]) {
    read(said, args, &[FLAGS]);
    let is_scheduled = said.part(Part::Scheduled).is_some();
    let kind = said.part(Part::FileKind);
    let is_trace = is_scheduled || kind.as_ref().is_some_and(|(_, kind)| kind == "mooncake_trace");
    put_load(said, is_trace);
    if let Some(seconds) = said.number(Part::Seconds) {
        said.put("--duration", format!("{seconds}s"));
    }
    if let Some((flag, turns)) = said.part(Part::Turns).filter(|(_, turns)| turns != "1") {
        said.wrong(&flag, &format!("is {turns}"), CONVERSATIONS);
    }
    match (said.part(Part::File), kind) {
        (Some((_, file)), kind) if is_scheduled || kind.as_ref().is_some_and(|(_, kind)| kind == "mooncake_trace") => {
            // Lengths are the trace's own.
            said.out.words.drain(..2);
            said.put("--trace", file);
        }
        (Some((flag, _)), _) => said.wrong(
            &flag,
            "is a file of prompts, which are not read",
            "of files traces are: --custom-dataset-type mooncake_trace, or --fixed-schedule; or give lengths: --isl and --osl",
        ),
        (None, kind) => {
            if let Some((flag, _)) = kind {
                said.idle(&flag, "no file is named");
            }
            put_lengths(said);
        }
    }
}

/// When requests are sent. A trace has times of its own.
fn put_load(said: &mut Said, is_trace: bool) {
    let (rate, concurrency) = (said.number(Part::Rate), said.number(Part::Concurrency));
    let rate = rate.filter(|_| !is_trace);
    if is_trace && let Some((flag, _)) = said.part(Part::Rate) {
        said.idle(&flag, "a trace has times of its own");
    }
    if let Some(rate) = rate {
        said.put("--request-rate", rate);
    }
    match (rate, concurrency) {
        (_, Some(concurrency)) => said.put("--max-concurrency", concurrency),
        (None, None) if !is_trace => {
            said.put("--max-concurrency", 1);
            said.out.notes.push(format!(
                "one request is in flight, as {} has it by default",
                said.program
            ));
        }
        _ => {}
    }
    let smoothness = said.number(Part::Smoothness);
    let pattern = said.part(Part::Pattern);
    let is_gamma = pattern.as_ref().is_some_and(|(_, pattern)| pattern == "gamma");
    for (part, has_effect, why) in [
        (Part::Pattern, rate.is_some(), "requests are sent at no rate"),
        (
            Part::Smoothness,
            rate.is_some() && is_gamma,
            "gaps are those of no gamma law (--arrival-pattern gamma)",
        ),
    ] {
        if let Some((flag, _)) = said.part(part).filter(|_| !has_effect) {
            said.idle(&flag, why);
        }
    }
    match pattern
        .as_ref()
        .map(|(flag, pattern)| (flag.as_str(), pattern.as_str()))
    {
        _ if rate.is_none() => {}
        Some((_, "constant")) => said.put("--burstiness", "inf"),
        None if said.program == "genai-perf" => {
            said.put("--burstiness", "inf");
            said.out
                .notes
                .push("genai-perf sends at constant gaps".to_owned());
        }
        Some((_, "gamma")) => said.put("--burstiness", smoothness.unwrap_or(1.0)),
        Some((_, "poisson")) | None => {}
        Some((flag, other)) => {
            let (flag, what) = (flag.to_owned(), format!("is `{other}`"));
            said.wrong(&flag, &what, "constant, poisson and gamma are read");
        }
    }
}

fn put_lengths(said: &mut Said) {
    let prompt = said.number(Part::Prompt);
    if prompt.is_none() {
        said.out.notes.push(format!(
            "prompts have {PROMPT} tokens, as {} has it by default",
            said.program
        ));
    }
    let answer = said.number(Part::Answer);
    if answer.is_none() {
        let help = "give --osl in the command; a model's own lengths are not known here";
        said.wrong(
            "--osl",
            "is not given, so that the model decides how long answers are",
            help,
        );
    }
    let deviations =
        [Part::PromptDeviation, Part::AnswerDeviation].map(|part| said.number(part).unwrap_or(0.0));
    said.put_lengths(
        (Some(prompt.unwrap_or(PROMPT)), deviations[0]),
        (answer, deviations[1]),
    );
    let (prefixes, tokens) = (said.number(Part::Prefixes), said.number(Part::PrefixTokens));
    match (prefixes, tokens) {
        (Some(1.0), Some(tokens)) => said.put("--random-prefix-len", tokens),
        (Some(number), Some(tokens)) if number > 1.0 && tokens > 0.0 => said.wrong(
            "--num-prefix-prompts",
            "is more than 1, and several prefixes before prompts of random lengths are not put into vLLM's words",
            "write [workload.prefix.groups] of a scenario, count and prefix_len",
        ),
        _ => {
            for part in [Part::Prefixes, Part::PrefixTokens] {
                if let Some((flag, _)) = said.part(part) {
                    said.idle(&flag, "prefixes need their number and their length, more than 0");
                }
            }
        }
    }
}
