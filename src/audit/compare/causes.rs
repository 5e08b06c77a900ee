//! The patterns by which moves have causes, in the order in which they are tried.

use super::super::case::Case;
use super::super::finding::{plain, time};
use super::chance::{Chance, Length};
use super::definition::{of_steps, of_throughput};
use super::said::{other_length, other_load, setups};
use super::{Cause, Comparison, Moved};
use crate::results::{Load, Measured, Stats};

/// Two moves that agree this closely are one.
const ALIKE: f64 = 0.35;

/// What explains the moves, the surest first.
pub(super) fn causes(predicted: &Measured, measured: &Measured, comparison: &Comparison) -> Vec<Cause> {
    if comparison.largest().is_none() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let (setup, is_other_machine) = setups(predicted, measured).unzip();
    found.extend(setup);
    found.extend(other_run(predicted, measured));
    if is_other_machine == Some(true) || found.iter().any(|cause| cause.kind == "load") {
        return found;
    }
    if let Some(units) = other_unit(comparison) {
        found.push(units);
        return found;
    }
    // Columns of two workloads that are unlike agree by chance only.
    if !found.iter().any(|cause| cause.kind == "lengths") {
        let of = ["predicted", "measured"];
        let either = other_definition([predicted, measured], of)
            .or_else(|| other_definition([measured, predicted], [of[1], of[0]]))
            .or_else(|| of_steps(measured, comparison));
        found.extend(either);
        found.extend(of_throughput([predicted, measured], comparison));
    }
    if found.iter().any(|cause| cause.kind == "definition") {
        return found;
    }
    found.extend(client_limit(predicted, measured));
    found.extend(steps(predicted, measured, comparison));
    found.extend(first_token(predicted, measured, comparison));
    found.extend(throughput(comparison));
    found
}

/// Loads or lengths that differ explain more than any model of a server.
fn other_run(predicted: &Measured, measured: &Measured) -> Vec<Cause> {
    let (a, b) = (&predicted.setup, &measured.setup);
    let mut found = Vec::new();
    if let Some(load) = other_load(a, b) {
        found.push(Cause {
            kind: "load",
            words: format!("not the same {load}"),
        });
    }
    let step = predicted.tpot.centre().unwrap_or(0.0);
    let chances = [Chance::new(predicted), Chance::new(measured)];
    for (what, which, one, other, cost) in [
        ("prompts", Length::Prompt, a.input_tokens, b.input_tokens, None),
        (
            "answers",
            Length::Answer,
            a.output_tokens,
            b.output_tokens,
            Some(step),
        ),
    ] {
        let (Some(differ), Some((one, other))) = (other_length(what, one, other), one.zip(other)) else {
            continue;
        };
        let more = cost.filter(|step| *step > 0.0).map_or(String::new(), |step| {
            format!(", {} of e2el each", time(((other - one) * step).abs()))
        });
        let chance = chances[0].of_length(which).hypot(chances[1].of_length(which));
        let by_chance = if (other / one - 1.0).abs() <= chance {
            ", which lengths drawn at random may do"
        } else {
            ""
        };
        found.push(Cause {
            kind: "lengths",
            words: differ + by_chance + &more,
        });
    }
    found
}

/// Times that are all about a thousand times as long, or a thousandth, are the same times in another unit.
fn other_unit(comparison: &Comparison) -> Option<Cause> {
    const THOUSAND: f64 = 1e3;
    /// How far a factor may be from it.
    const NEAR: f64 = 3.0;
    let times: Vec<f64> = comparison
        .figures
        .iter()
        .filter(|figure| figure.is_time && figure.predicted > 0.0 && figure.measured > 0.0)
        .map(|figure| figure.measured / figure.predicted)
        .collect();
    let is_near = |factor: f64| move |ratio: &f64| (factor / NEAR..=factor * NEAR).contains(ratio);
    let (longer, shorter) = match times.is_empty() {
        true => return None,
        false => (
            times.iter().all(is_near(THOUSAND)),
            times.iter().all(is_near(1.0 / THOUSAND)),
        ),
    };
    let which = match (longer, shorter) {
        (true, _) => {
            "a thousand times those of the first: the first may be in seconds, where milliseconds are read"
        }
        (_, true) => {
            "a thousandth of those of the first: the second may be in seconds, where milliseconds are read"
        }
        _ => return None,
    };
    Some(Cause {
        kind: "units",
        words: format!("the times of the second result are about {which}"),
    })
}

/// A column that agrees with another one of the other result, or of its own, is that other thing; `names` are those of both.
fn other_definition([sound, row]: [&Measured; 2], [theirs, own_name]: [&str; 2]) -> Option<Cause> {
    let near = |one: f64, other: f64| (one / other - 1.0).abs() < 0.1;
    let centre = |stats: &Stats| stats.centre().filter(|value| *value > 0.0);
    let (first, whole) = (centre(&sound.ttft), centre(&sound.e2el));
    let definition = |words: String| {
        Some(Cause {
            kind: "definition",
            words,
        })
    };
    if let (Some(first), Some(whole), Some(ttft)) = (first, whole, centre(&row.ttft))
        && near(ttft, whole)
        && ttft > 2.0 * first
        && centre(&row.e2el).is_none_or(|own| near(ttft, own))
    {
        return definition(format!(
            "the {own_name} ttft {} is the {theirs} e2el {}: the column is the whole answer",
            time(ttft),
            time(whole)
        ));
    }
    let (step, gap) = (centre(&sound.tpot), centre(&row.itl));
    if let (Some(step), Some(gap), Some(own)) = (step, gap, centre(&row.tpot))
        && near(own, step)
        && near(2.0 * gap, step)
        && !centre(&sound.itl).is_some_and(|theirs| near(theirs, gap))
    {
        return definition(format!(
            "the {own_name} itl is half of its own tpot: empty chunks are counted beside every token"
        ));
    }
    // Each result by its own times: of another run the same time per token may be right.
    let [odd, others] = [row, sound].map(|row| Case::new(row, None).tpot_with_first());
    let odd = odd.filter(|_| others.is_none())?;
    definition(format!(
        "the {own_name} tpot {} is latency over tokens, {} / {}: it counts the first token, and without that is {}",
        time(odd.tpot),
        time(odd.whole),
        plain(odd.tokens),
        time(odd.sound)
    ))
}

/// Fewer in flight than predicted, and slower: the client kept requests back.
fn client_limit(predicted: &Measured, measured: &Measured) -> Option<Cause> {
    let open = matches!(measured.setup.load, Load::Open { .. } | Load::Burst);
    let (one, other) = (Case::new(predicted, None), Case::new(measured, None));
    let (expected, is) = (one.in_flight()?, other.in_flight()?);
    let rates = one.throughput()?.value / other.throughput()?.value;
    let fewer = is.value * (1.0 + is.slack) < 0.8 * expected.low();
    (open && fewer && rates > 1.05).then(|| Cause {
        kind: "client-limit",
        words: format!(
            "{} in flight ({}) where {} were predicted, at lower throughput: a limit of the client",
            plain(is.value),
            is.how,
            plain(expected.value)
        ),
    })
}

/// Two or more quantiles of one latency: did all move by one time, or by one factor?
enum Shape {
    Shift(f64),
    Scale(f64),
    Tail,
    Mixed,
}

fn shape(predicted: &Stats, measured: &Stats) -> Option<Shape> {
    let low = predicted.median.zip(measured.median)?;
    let top = [99.0, 95.0, 90.0];
    let high = top
        .iter()
        .find_map(|percent| predicted.percentile(*percent).zip(measured.percentile(*percent)))?;
    let (shift_low, shift_high) = (low.1 - low.0, high.1 - high.0);
    let (scale_low, scale_high) = (low.1 / low.0, high.1 / high.0);
    if (scale_low - 1.0).abs() < 0.03 && (scale_high - 1.0).abs() > 0.15 {
        return Some(Shape::Tail);
    }
    // A shift and a factor cannot be told apart where the quantiles lie close together.
    if high.0 < 1.15 * low.0 || shift_low == 0.0 {
        return Some(Shape::Mixed);
    }
    let by_shift = (shift_high / shift_low - 1.0).abs();
    let by_scale = ((scale_high - 1.0) / (scale_low - 1.0) - 1.0).abs();
    Some(match (by_shift < ALIKE, by_scale < ALIKE) {
        (true, _) if by_shift <= by_scale => Shape::Shift(shift_low),
        (_, true) => Shape::Scale(scale_low),
        _ => Shape::Mixed,
    })
}

/// What every decode step takes more or less.
fn steps(predicted: &Measured, measured: &Measured, comparison: &Comparison) -> Option<Cause> {
    let moved = |name: &str| {
        ["median", "mean"]
            .iter()
            .find_map(|of| comparison.figure(&format!("{of} {name}")))
    };
    let step = moved("itl")
        .or_else(|| moved("tpot"))
        .filter(|step| step.is_real())?;
    let by = step.measured - step.predicted;
    let (more, sign) = if by > 0.0 {
        ("more", "slower")
    } else {
        ("less", "faster")
    };
    let is_against = |figure: &&Moved| {
        let is_of_steps = figure.name.ends_with(" itl") || figure.name.ends_with(" tpot");
        is_of_steps && figure.is_real() && (figure.measured > figure.predicted) != (by > 0.0)
    };
    let is_doubtful = comparison.figures.iter().any(|figure| is_against(&figure));
    let of_gaps = shape(&predicted.itl, &measured.itl).or_else(|| shape(&predicted.tpot, &measured.tpot));
    Some(match of_gaps {
        Some(Shape::Shift(shift)) => Cause {
            kind: "host-overhead",
            words: format!(
                "every step takes {} {more}, at the median as in the tail: time of the host (scheduler, sampling, \
                 detokenisation, graphs), not of a kernel",
                time(shift.abs())
            ),
        },
        Some(Shape::Scale(factor)) => Cause {
            kind: "bandwidth",
            words: format!(
                "every step is {factor:.2} times as long, at the median as in the tail: memory bandwidth, clocks, \
                 precision, the number of GPUs, or a host that is not hidden behind steps (synchronous scheduling)"
            ),
        },
        Some(Shape::Tail) => Cause {
            kind: "step-tail",
            words: "gaps agree at the median and not in the tail: prompts in the same steps (token budget, chunks), or \
                    stalls of the host"
                .to_owned(),
        },
        // Longer at the median and shorter on average, or the other way round: no step is just slower.
        _ if is_doubtful => return None,
        _ => Cause {
            kind: "step-time",
            words: format!(
                "steps are {:.0} % {sign} ({} {more}): host overhead or bandwidth; runs at two batch sizes would tell \
                 which",
                100.0 * step.change().abs(),
                time(by.abs())
            ),
        },
    })
}

/// Whether answers of several tokens leave in one piece.
fn is_whole(row: &Measured) -> bool {
    let both = row.ttft.median.zip(row.e2el.median);
    both.is_some_and(|(first, whole)| whole > 0.0 && first >= 0.99 * whole)
        && row.setup.output_tokens.is_some_and(|tokens| tokens > 8.0)
}

/// What the first token takes more or less, beyond a step.
fn first_token(predicted: &Measured, measured: &Measured, comparison: &Comparison) -> Option<Cause> {
    let median = comparison
        .figure("median ttft")
        .or_else(|| comparison.figure("mean ttft"))?;
    if is_whole(predicted) != is_whole(measured) {
        let which = if is_whole(predicted) { "first" } else { "second" };
        return Some(Cause {
            kind: "not-streamed",
            words: format!(
                "in the {which} result the first token comes with the last: its answers leave whole (static batching, or a \
                 client that does not stream), so only e2el can be compared"
            ),
        });
    }
    let tail = comparison
        .figure("p99 ttft")
        .or_else(|| comparison.figure("p95 ttft"));
    let tail = tail.or_else(|| comparison.figure("p90 ttft"));
    let tail = tail.filter(|tail| tail.few.is_none());
    let tail_change = tail.map_or(0.0, Moved::change);
    if tail_change.abs() > 0.2 && tail_change.abs() > 2.0 * median.change().abs() {
        let tail = tail?;
        let how = if tail_change > 0.0 { "longer" } else { "shorter" };
        return Some(Cause {
            kind: "queueing",
            words: format!(
                "{} is {} ({} against {}) while {} moved by {:+.0} %: the queue, that is burstier arrivals, other \
                 admission (token budget, `max_num_seqs`) or a load nearer to saturation",
                tail.name,
                how,
                time(tail.measured),
                time(tail.predicted),
                median.name,
                100.0 * median.change()
            ),
        });
    }
    if !median.is_real() {
        return None;
    }
    let by = median.measured - median.predicted;
    let more = if by > 0.0 { "more" } else { "less" };
    Some(match shape(&predicted.ttft, &measured.ttft) {
        Some(Shape::Shift(shift)) => Cause {
            kind: "front-end",
            words: format!(
                "the first token takes {} {more}, at the median as in the tail: tokenisation, HTTP and the front end",
                time(shift.abs())
            ),
        },
        Some(Shape::Scale(factor)) => Cause {
            kind: "prefill",
            words: format!(
                "the first token takes {factor:.2} times as long, at the median as in the tail: prompt computation, or \
                 prefix cache hits"
            ),
        },
        _ => Cause {
            kind: "first-token",
            words: format!(
                "the first token takes {} {more}: front end, prompt computation or queueing",
                time(by.abs())
            ),
        },
    })
}

/// Throughput alone: latencies agree, so the run's edges do not.
fn throughput(comparison: &Comparison) -> Option<Cause> {
    let rate = comparison
        .figure("request throughput")
        .or_else(|| comparison.figure("output throughput"))?;
    let times_moved = comparison
        .figures
        .iter()
        .any(|figure| figure.is_time && figure.is_real());
    (rate.is_real() && !times_moved).then(|| Cause {
        kind: "run-edges",
        words: format!(
            "{} moved by {:+.0} % and no latency did: another length of run, ramp, drain, failed requests or idle time",
            rate.name,
            100.0 * rate.change()
        ),
    })
}
