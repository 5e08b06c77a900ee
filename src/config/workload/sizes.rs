//! What a law of traffic amounts to: its rate, its longest request, its typical context.

use crate::workload::{
    Arrivals, Class, Lengths, LognormalLength, Prefix, Request, WorkloadSpec, mean_rate, mean_starts,
};

/// Starts per second where they are slowest, of a request or a conversation: what bounds how long so many of them take.
/// `None` where not traffic alone decides it. What a workload offers is [`crate::workload::mean_rate`].
#[must_use]
pub(super) fn slowest_start_rate(arrivals: &Arrivals) -> Option<f64> {
    match arrivals {
        Arrivals::Ramp {
            start_rate, end_rate, ..
        } => Some(start_rate.min(*end_rate)),
        Arrivals::Replay { .. } => None,
        arrivals => mean_starts(arrivals),
    }
}

/// The longest prompt and the longest output that can occur, shared prefixes included, and the key to blame.
pub(in crate::config) fn longest(spec: &WorkloadSpec) -> (u64, u64, &'static str) {
    if let Some(requests) = spec.listed() {
        let most = |len: fn(&Request) -> u32| requests.iter().map(len).max().map_or(1, u64::from);
        return (
            most(|request| request.prompt_tokens),
            most(|request| request.output_tokens),
            "workload.arrivals.trace.path",
        );
    }
    let key = match &spec.lengths {
        Lengths::Fixed { .. } => "workload.lengths.fixed.input_len",
        Lengths::RandomVllm { .. } => "workload.lengths.random.input_len",
        Lengths::RandomSglang { .. } => "workload.lengths.random_sglang.input_len",
        Lengths::Lognormal { .. } => "workload.lengths.lognormal.input.max",
        Lengths::Memoryless {
            is_geometric: true, ..
        } => "workload.lengths.geometric",
        Lengths::Memoryless { .. } => "workload.lengths.exponential",
        Lengths::Quantiles { .. } => "workload.lengths.quantiles.input",
        Lengths::Empirical { .. } => "workload.lengths.file.path",
    };
    let [(_, input), (_, output)] = spec.lengths.ranges();
    let shared = spec.prefix.shared_len();
    (u64::from(input) + u64::from(shared), u64::from(output), key)
}

/// Prompt and `max_tokens` of the smallest request that can occur, shared prefixes included.
pub(in crate::config) fn smallest(spec: &WorkloadSpec) -> u64 {
    let least = |pairs: &mut dyn Iterator<Item = (u32, u32)>| {
        let sums = pairs.map(|(prompt, output)| u64::from(prompt) + u64::from(output));
        sums.min().unwrap_or(2)
    };
    if let Some(requests) = spec.listed() {
        return least(
            &mut requests
                .iter()
                .map(|request| (request.prompt_tokens, request.max_tokens)),
        );
    }
    let own = match &spec.lengths {
        Lengths::Empirical { pairs } => least(&mut pairs.iter().copied()),
        law => law
            .ranges()
            .iter()
            .map(|(shortest, _)| u64::from(*shortest))
            .sum(),
    };
    own + u64::from(spec.prefix.shared_len())
}

/// The workload of each class by itself, with its number; the whole workload where there are none.
pub(in crate::config) fn by_class(spec: &WorkloadSpec) -> Vec<(Option<usize>, WorkloadSpec)> {
    if spec.classes.is_empty() {
        return vec![(None, spec.clone())];
    }
    let classes = spec.classes.iter().enumerate();
    let alone = classes.map(|(index, class)| {
        let sent_by = spec.stream_of(index as u32).map_or(spec, |stream| &stream.spec);
        let alone = WorkloadSpec {
            lengths: class.lengths.clone(),
            classes: Vec::new(),
            ..sent_by.clone()
        };
        (Some(index), alone)
    });
    alone.collect()
}

/// The context that a sequence has on average over its decode steps, for kernels that depend on it; of the classes that
/// `is_served` picks, by their shares.
#[must_use]
pub(in crate::config) fn typical_context(spec: &WorkloadSpec, is_served: impl Fn(usize) -> bool) -> u32 {
    let (prompt, output) = mean_request(spec, is_served);
    (prompt + output / 2.0).round().clamp(1.0, 1e9) as u32
}

/// Tokens of a prompt, shared ones and those of turns before included, and of an answer, in the mean; of the classes that `is_served`
/// picks, by their shares.
#[must_use]
pub(in crate::config) fn mean_request(spec: &WorkloadSpec, is_served: impl Fn(usize) -> bool) -> (f64, f64) {
    let (mut prompts, mut outputs, mut shares) = (0.0, 0.0, 0.0);
    let rates = rates_by_class(spec);
    for (class, alone) in by_class(spec) {
        let share = match class {
            None => 1.0,
            Some(index) if is_served(index) => rates[index],
            Some(_) => continue,
        };
        let (prompt, output) = mean_of_class(&alone);
        prompts += share * prompt;
        outputs += share * output;
        shares += share;
    }
    if shares > 0.0 {
        (prompts / shares, outputs / shares)
    } else {
        (0.0, 0.0)
    }
}

/// How many requests come of each class, relative to each other. Where each sends by itself it is their rates; one
/// that has no rate counts as the others do on average, because what a closed loop gets done is for the simulation to find.
fn rates_by_class(spec: &WorkloadSpec) -> Vec<f64> {
    let Arrivals::Superposed { streams } = &spec.arrivals else {
        return spec.classes.iter().map(|class| class.share).collect();
    };
    let known: Vec<f64> = streams
        .iter()
        .filter_map(|stream| mean_rate(&stream.spec))
        .collect();
    let usual = known.iter().sum::<f64>() / known.len().max(1) as f64;
    let usual = if usual > 0.0 { usual } else { 1.0 };
    let rate = |(index, class): (u32, &Class)| {
        let stream = spec.stream_of(index)?;
        let all: f64 = stream
            .classes
            .iter()
            .map(|&of| spec.classes[of as usize].share)
            .sum();
        Some(mean_rate(&stream.spec).unwrap_or(usual) * class.share / all)
    };
    (0..)
        .zip(&spec.classes)
        .map(|of| rate(of).unwrap_or(usual))
        .collect()
}

fn mean_of_class(spec: &WorkloadSpec) -> (f64, f64) {
    let mean = |values: &mut dyn Iterator<Item = u32>| {
        let (sum, count) = values.fold((0.0, 0u64), |(sum, count), value| {
            (sum + f64::from(value), count + 1)
        });
        sum / count.max(1) as f64
    };
    let trapezoid = |values: &[f64]| {
        values
            .windows(2)
            .map(|pair| (pair[0] + pair[1]) / 2.0)
            .sum::<f64>()
            / (values.len() - 1) as f64
    };
    let lognormal = |length: &LognormalLength| {
        (length.median * (length.sigma * length.sigma / 2.0).exp()).min(f64::from(length.max))
    };
    let (prompt, output) = match (spec.listed(), &spec.lengths) {
        (Some(requests), _) => (
            mean(&mut requests.iter().map(|request| request.prompt_tokens)),
            mean(&mut requests.iter().map(|request| request.output_tokens)),
        ),
        (
            _,
            Lengths::Fixed {
                input_len,
                output_len,
            }
            | Lengths::RandomVllm {
                input_len,
                output_len,
                ..
            },
        ) => (f64::from(*input_len), f64::from(*output_len)),
        (
            _,
            Lengths::RandomSglang {
                input_len,
                output_len,
                range_ratio,
            },
        ) => {
            let middle = (1.0 + range_ratio) / 2.0;
            (f64::from(*input_len) * middle, f64::from(*output_len) * middle)
        }
        (_, Lengths::Lognormal { input, output, .. }) => (lognormal(input), lognormal(output)),
        (_, Lengths::Memoryless { input, output, .. }) => (input.mean(), output.mean()),
        (_, Lengths::Quantiles { input, output, .. }) => (trapezoid(input), trapezoid(output)),
        (_, Lengths::Empirical { pairs }) => (
            mean(&mut pairs.iter().map(|pair| pair.0)),
            mean(&mut pairs.iter().map(|pair| pair.1)),
        ),
    };
    let shared = match spec.prefix {
        Prefix::Groups { prefix_len, .. } => f64::from(prefix_len),
        Prefix::Sessions {
            shared_system_len,
            turns,
            ..
        } => f64::from(shared_system_len) + (turns - 1.0) / 2.0 * (prompt + output),
        Prefix::None | Prefix::Reuse(_) | Prefix::Recorded(_) => 0.0,
    };
    (prompt + shared, output)
}
