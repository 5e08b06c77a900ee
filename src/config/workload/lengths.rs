//! How long prompts and outputs are, what prompts share, and where outputs end by themselves.

use std::sync::Arc;

use super::replay::read_trace;
use crate::config::document::Source;
use crate::config::files::Files;
use crate::config::judge::Judge;
use crate::config::raw::{
    RawEndings, RawLengthFile, RawLengthFilter, RawLengths, RawLognormalLength, RawMemoryless, RawPrefix,
    RawReuse,
};
use crate::config::scalar::Count;
use crate::units::TEXT_TOKENS_MAX;
use crate::workload::trace::ReadOptions;
use crate::workload::{Endings, Lengths, LognormalLength, MemorylessLength, OCTAVES_MAX, Prefix, ReuseLaw};

/// Longest prompt or output that is taken seriously.
const LEN_MAX: u64 = TEXT_TOKENS_MAX as u64;

/// The law of the lengths.
pub(super) fn lengths(judge: &mut Judge, raw: &RawLengths, files: &dyn Files) -> Option<Lengths> {
    let key = |name: &str| format!("workload.lengths.{name}");
    let before = judge.problems.len();
    let lengths = match raw {
        RawLengths::Fixed(raw) => Lengths::Fixed {
            input_len: judge.required(&key("fixed.input_len"), raw.input_len, (1, LEN_MAX)),
            output_len: judge.required(&key("fixed.output_len"), raw.output_len, (1, LEN_MAX)),
        },
        RawLengths::Random(raw) => {
            assume_ratio(judge, &key("random.range_ratio"), "all lengths equal");
            judge.fraction(&key("random.range_ratio"), raw.range_ratio, true, false);
            let output_range_ratio = raw.output_range_ratio.unwrap_or(raw.range_ratio);
            // One that stands for both is judged once.
            if raw.output_range_ratio.is_some() {
                judge.fraction(&key("random.output_range_ratio"), output_range_ratio, true, false);
            }
            Lengths::RandomVllm {
                input_len: judge.required(&key("random.input_len"), raw.input_len, (1, LEN_MAX)),
                output_len: judge.required(&key("random.output_len"), raw.output_len, (1, LEN_MAX)),
                range_ratio: raw.range_ratio,
                output_range_ratio,
            }
        }
        RawLengths::RandomSglang(raw) => {
            if raw.output_range_ratio.is_some() {
                judge.wrong_help(
                    &key("random_sglang.output_range_ratio"),
                    "is of vLLM's data set",
                    "SGLang's has one range ratio for both lengths",
                    "leave it out, or use [workload.lengths.random]",
                );
            }
            assume_ratio(
                judge,
                &key("random_sglang.range_ratio"),
                "from one token to the given length",
            );
            judge.fraction(&key("random_sglang.range_ratio"), raw.range_ratio, true, true);
            Lengths::RandomSglang {
                input_len: judge.required(&key("random_sglang.input_len"), raw.input_len, (1, LEN_MAX)),
                output_len: judge.required(&key("random_sglang.output_len"), raw.output_len, (1, LEN_MAX)),
                range_ratio: raw.range_ratio,
            }
        }
        RawLengths::Lognormal(raw) => {
            correlation(judge, &key("lognormal.correlation"), raw.correlation);
            Lengths::Lognormal {
                input: lognormal(judge, &key("lognormal.input"), &raw.input),
                output: lognormal(judge, &key("lognormal.output"), &raw.output),
                correlation: raw.correlation,
            }
        }
        RawLengths::Exponential(raw) => memoryless(judge, &key("exponential"), raw, false),
        RawLengths::Geometric(raw) => memoryless(judge, &key("geometric"), raw, true),
        RawLengths::Quantiles(raw) => {
            correlation(judge, &key("quantiles.correlation"), raw.correlation);
            quantiles(judge, &key("quantiles.input"), &raw.input);
            quantiles(judge, &key("quantiles.output"), &raw.output);
            Lengths::Quantiles {
                input: raw.input.clone().into(),
                output: raw.output.clone().into(),
                correlation: raw.correlation,
            }
        }
        RawLengths::File(raw) => Lengths::Empirical {
            pairs: pairs(judge, raw, files)?,
        },
    };
    (judge.problems.len() == before).then_some(lengths)
}

/// Writes down what a spread that nobody gave makes of lengths.
fn assume_ratio(judge: &mut Judge, key: &str, what: &str) {
    if judge.document.get(key).is_none() {
        judge.assume(key, 0.0, Source::Assumption(what.to_owned()));
    }
}

fn correlation(judge: &mut Judge, key: &str, value: f64) {
    judge.number(
        key,
        value,
        |value| value > -1.0 && value < 1.0,
        "must lie between -1 and 1, ends left out",
    );
}

fn lognormal(judge: &mut Judge, key: &str, raw: &RawLognormalLength) -> LognormalLength {
    let max = judge.required(&format!("{key}.max"), raw.max, (1, LEN_MAX));
    judge.number(
        &format!("{key}.sigma"),
        raw.sigma,
        |sigma| (0.0..=10.0).contains(&sigma),
        "must lie between 0 and 10",
    );
    let most = f64::from(max);
    // Draws above `max` are repeated: with the median above it more than half would be, and the law another one.
    judge.number(
        &format!("{key}.median"),
        raw.median,
        |median| median >= 1.0 && median <= most,
        "must be at least 1 and at most max",
    );
    LognormalLength {
        median: raw.median,
        sigma: raw.sigma,
        max,
    }
}

/// Times the mean that a length has at most where nobody says: e⁻²⁰ of those drawn are longer.
const MEMORYLESS_CUT: f64 = 20.0;

fn memoryless(judge: &mut Judge, key: &str, raw: &RawMemoryless, is_geometric: bool) -> Lengths {
    let input = match (raw.input_len, raw.input_mean) {
        (Some(_), Some(_)) => {
            judge.wrong_help(
                &format!("{key}.input_mean"),
                "stands beside `input_len`",
                "both say how long prompts are",
                "leave one of them out",
            );
            MemorylessLength::Constant(1)
        }
        (None, None) => {
            judge.missing(
                &format!("[{key}] does not say how long prompts are"),
                "add `input_len`, the same for all, or `input_mean`",
            );
            MemorylessLength::Constant(1)
        }
        (Some(tokens), None) => {
            if raw.input_max.is_some() {
                judge.wrong_help(
                    &format!("{key}.input_max"),
                    "stands beside `input_len`",
                    "prompts are all of that length",
                    "leave it out, or give `input_mean`",
                );
            }
            MemorylessLength::Constant(judge.required(&format!("{key}.input_len"), tokens, (1, LEN_MAX)))
        }
        (None, Some(mean)) => drawn(judge, key, "input", mean, raw.input_max),
    };
    Lengths::Memoryless {
        input,
        output: drawn(judge, key, "output", raw.output_mean, raw.output_max),
        is_geometric,
    }
}

/// A mean and the longest that is drawn.
fn drawn(judge: &mut Judge, key: &str, part: &str, mean: f64, max: Option<Count>) -> MemorylessLength {
    let (of_mean, of_max) = (format!("{key}.{part}_mean"), format!("{key}.{part}_max"));
    judge.number(
        &of_mean,
        mean,
        |mean| (1.0..=LEN_MAX as f64).contains(&mean),
        "must be at least 1 and at most 2^28 tokens",
    );
    let max = match max {
        Some(max) => judge.required(&of_max, max, (1, LEN_MAX)),
        None => {
            let max = (MEMORYLESS_CUT * mean).ceil().clamp(1.0, LEN_MAX as f64) as u32;
            judge.assume(
                &of_max,
                i64::from(max),
                Source::Assumption("20 times the mean".to_owned()),
            );
            max
        }
    };
    // Draws above it are repeated: with the mean above it the law would be another one.
    judge.number(
        &of_mean,
        mean,
        |mean| mean <= f64::from(max),
        "must be at most the longest, draws above which are repeated",
    );
    MemorylessLength::Drawn { mean, max }
}

fn quantiles(judge: &mut Judge, key: &str, values: &[f64]) {
    if values.len() < 2 {
        judge.wrong(
            key,
            "needs at least 2 values",
            "from probability 0 to 1, equally spaced",
        );
    }
    for (at, &value) in values.iter().enumerate() {
        judge.number(
            &format!("{key}.{at}"),
            value,
            |value| (1.0..=LEN_MAX as f64).contains(&value),
            "must be at least 1 and at most 2^28 tokens",
        );
    }
    if let Some(at) = values.windows(2).position(|pair| pair[0] > pair[1]) {
        let label = format!("{} comes after {}", values[at + 1], values[at]);
        judge.wrong(&format!("{key}.{}", at + 1), "must not decrease", label);
    }
}

fn pairs(judge: &mut Judge, raw: &RawLengthFile, files: &dyn Files) -> Option<Arc<[(u32, u32)]>> {
    let key = "workload.lengths.file.path";
    let is_sharegpt = raw.filter == Some(RawLengthFilter::Sharegpt);
    let options = ReadOptions {
        skip_empty: true,
        vllm_filter: is_sharegpt,
        ..ReadOptions::default()
    };
    let trace = read_trace(judge, key, &raw.path, &options, files)?;
    let output_len = raw
        .output_len
        .map(|count| judge.required("workload.lengths.file.output_len", count, (1, LEN_MAX)));
    let all = trace.requests.len();
    let kept: Arc<[(u32, u32)]> = trace
        .requests
        .iter()
        .map(|request| (request.prompt_tokens, request.output_tokens))
        .filter(|&(prompt, output)| {
            let is_long_enough = prompt >= 4 && (output_len.is_some() || output >= 4);
            !is_sharegpt
                || (is_long_enough && prompt <= 1024 && prompt + output_len.unwrap_or(output) <= 2048)
        })
        .map(|(prompt, output)| (prompt, output_len.unwrap_or(output)))
        .collect();
    if is_sharegpt && kept.len() < all {
        judge.notes.push(format!(
            "{}: {} of {all} rows are kept, as `vllm bench serve --dataset-name sharegpt` does",
            raw.path,
            kept.len()
        ));
    }
    if kept.is_empty() {
        judge.wrong(key, "has no usable row", "none has a prompt and an output");
        return None;
    }
    Some(kept)
}

pub(super) fn prefix(judge: &mut Judge, raw: Option<&RawPrefix>, is_replay: bool) -> Prefix {
    let key = |name: &str| format!("workload.prefix.{name}");
    if is_replay && !matches!(raw, None | Some(RawPrefix::None(_))) {
        judge.wrong_help(
            "workload.prefix",
            "has no meaning beside a trace",
            "the trace brings its own sharing",
            "leave one of the two out",
        );
    }
    match raw {
        None | Some(RawPrefix::None(_)) => Prefix::None,
        Some(RawPrefix::Groups(raw)) => {
            judge.number(
                &key("groups.zipf"),
                raw.zipf,
                |zipf| (0.0..=10.0).contains(&zipf),
                "must lie between 0 and 10",
            );
            Prefix::Groups {
                count: judge.required(&key("groups.count"), raw.count, (1, 1 << 24)),
                prefix_len: judge.required(&key("groups.prefix_len"), raw.prefix_len, (1, LEN_MAX)),
                zipf: raw.zipf,
                exact_shares: raw.exact_shares,
            }
        }
        Some(RawPrefix::Reuse(raw)) => reuse(judge, raw),
        Some(RawPrefix::Sessions(raw)) => {
            judge.number(
                &key("sessions.turns"),
                raw.turns,
                |turns| (1.0..=1e6).contains(&turns),
                "must be at least 1 and at most 1e6",
            );
            if raw.fixed_turns && raw.turns.fract() != 0.0 {
                judge.wrong(
                    &key("sessions.turns"),
                    "must be whole when fixed_turns is set",
                    format!("{} is not", raw.turns),
                );
            }
            let think_time = judge
                .duration(&key("sessions.think_time"), &raw.think_time, true)
                .unwrap_or_default();
            Prefix::Sessions {
                turns: raw.turns,
                fixed_turns: raw.fixed_turns,
                think_time,
                shared_system_len: judge.required(
                    &key("sessions.shared_system_len"),
                    raw.shared_system_len,
                    (0, LEN_MAX),
                ),
            }
        }
    }
}

fn reuse(judge: &mut Judge, raw: &RawReuse) -> Prefix {
    let key = |name: &str| format!("workload.prefix.reuse.{name}");
    judge.fraction(&key("probability"), raw.probability, true, true);
    judge.fraction(&key("share"), raw.share, false, true);
    Prefix::Reuse(ReuseLaw {
        system_len: judge.required(&key("system_len"), raw.system_len, (0, LEN_MAX)),
        probability: raw.probability,
        share: raw.share,
        distances: distances(judge, raw),
    })
}

/// How far back prompts lie that are continued, by octaves.
fn distances(judge: &mut Judge, raw: &RawReuse) -> Arc<[f64]> {
    let key = |name: &str| format!("workload.prefix.reuse.{name}");
    let lognormal = [
        ("distance_median", raw.distance_median),
        ("distance_sigma", raw.distance_sigma),
    ];
    if let Some(octaves) = &raw.distances {
        for (name, _) in lognormal.iter().filter(|(_, value)| value.is_some()) {
            judge.wrong_help(
                &key(name),
                "stands beside `distances`",
                "both say how far back prompts lie",
                "leave one of them out",
            );
        }
        octave_shares(judge, &key("distances"), octaves);
        return octaves.as_slice().into();
    }
    let (Some(median), Some(sigma)) = (raw.distance_median, raw.distance_sigma) else {
        judge.missing(
            "[workload.prefix.reuse] does not say how far back prompts lie that are continued",
            "add `distances` (shares of 1, 2 to 3, 4 to 7, … requests), or `distance_median` and `distance_sigma`",
        );
        return [1.0].into();
    };
    judge.number(
        &key("distance_median"),
        median,
        |median| (1.0..=1e5).contains(&median),
        "must lie between 1 and 1e5",
    );
    judge.number(
        &key("distance_sigma"),
        sigma,
        |sigma| (0.0..=5.0).contains(&sigma),
        "must lie between 0 and 5",
    );
    ReuseLaw::lognormal_distances(median, sigma)
}

fn octave_shares(judge: &mut Judge, key: &str, shares: &[f64]) {
    if !(1..=OCTAVES_MAX).contains(&shares.len()) {
        judge.wrong(
            key,
            "must have 1 to 20 numbers",
            format!("these are {}", shares.len()),
        );
    } else if let Some(share) = shares.iter().find(|share| !(share.is_finite() && **share >= 0.0)) {
        judge.wrong(key, "must not hold negative shares", format!("{share} is one"));
    } else if shares.iter().all(|share| *share == 0.0) {
        judge.wrong(key, "must not all be 0", "nothing lies at any distance");
    } else if shares.iter().sum::<f64>().is_infinite() {
        judge.wrong(
            key,
            "must have a sum",
            "these are too large for one; only their ratios count",
        );
    }
}

pub(super) fn endings(judge: &mut Judge, raw: &RawEndings) -> Endings {
    match *raw {
        RawEndings::Hazard(ref raw) => {
            judge.fraction("workload.endings.hazard.per_token", raw.per_token, false, false);
            Endings::Hazard {
                per_token: raw.per_token,
            }
        }
        RawEndings::Share(ref raw) => {
            judge.fraction("workload.endings.share.early", raw.early, true, true);
            Endings::Share { early: raw.early }
        }
    }
}
