//! The load in words, and what of it a search for a rate scales.

use crate::analysis::{RunResult, Verdict};
use crate::config::Resolved;
use crate::report::figures::significant;
use crate::report::{Turns, counted};
use crate::workload::{Arrivals, Prefix, WorkloadSpec, mean_rate};

/// The load where it is no plain rate: `with 200 users`.
pub(super) fn load(workload: &WorkloadSpec) -> Option<String> {
    match &workload.arrivals {
        Arrivals::Users { users, .. } if workload.has_conversations() => {
            let counted = counted(u64::from(*users), "conversation");
            Some(format!("with {counted} under way"))
        }
        Arrivals::Replay { time_scale: 1.0, .. } => Some("as the trace has it".to_owned()),
        Arrivals::Replay { time_scale, .. } => Some(format!(
            "as the trace has it, its times × {}",
            significant(*time_scale)
        )),
        Arrivals::Users { users, .. } => Some(format!("with {}", counted(u64::from(*users), "user"))),
        Arrivals::Superposed { .. } => several(workload),
        _ => None,
    }
}

/// The load of a run. Rates of classes add up only while all of them send: where that is not the stretch that a run's figures
/// are of, it is what they sent on average.
pub(super) fn load_of(workload: &WorkloadSpec, result: &RunResult) -> Option<String> {
    let is_judged = !matches!(result.verdict, Verdict::Finite | Verdict::TooShort);
    match uneven(workload, result) {
        Some(sent) if !is_judged => Some(format!("at {} req/s on average", significant(sent))),
        Some(_) => load(workload).or_else(|| Some(format!("at {} req/s", significant(mean_rate(workload)?)))),
        None => load(workload),
    }
}

/// Clients that send side by side.
pub(super) fn clients(workload: &WorkloadSpec) -> u32 {
    match &workload.arrivals {
        Arrivals::Superposed { streams } => streams.len() as u32,
        _ => 1,
    }
}

/// Who of one client's sends only once an answer is there.
pub(super) fn turns(workload: &WorkloadSpec) -> Option<Turns> {
    match (&workload.arrivals, &workload.prefix) {
        (_, Prefix::Recorded(recording)) => Some(Turns::Sessions {
            turns: recording.mean_turns(),
            think_time_s: recording.mean_think_time().seconds(),
        }),
        (Arrivals::Users { users, think_time }, _) => Some(Turns::Users {
            users: *users,
            think_time_s: think_time.seconds(),
        }),
        (Arrivals::Superposed { .. }, _) => None,
        (
            _,
            Prefix::Sessions {
                turns, think_time, ..
            },
        ) => Some(Turns::Sessions {
            turns: *turns,
            think_time_s: think_time.seconds(),
        }),
        _ => None,
    }
}

/// What several clients sent a second over the time in which any of them did, where some of those that have a rate send for less
/// than nearly all of that time, so that no sum of rates says it.
pub(super) fn uneven(workload: &WorkloadSpec, result: &RunResult) -> Option<f64> {
    const NEARLY: f64 = 0.9;
    let Arrivals::Superposed { streams } = &workload.arrivals else {
        return None;
    };
    let all = span_s(result)?;
    let timed = streams.iter().filter(|stream| mean_rate(&stream.spec).is_some());
    let parts = timed.flat_map(|stream| stream.classes.iter());
    let spans = parts.filter_map(|&class| result.by_class.get(class as usize)?.sending);
    let is_short = spans
        .map(|(first, last)| last.saturating_sub(first).seconds())
        .any(|own| own < NEARLY * all);
    is_short.then(|| sent_on_average(result)).flatten()
}

/// Seconds from the first request of all classes to the last.
fn span_s(result: &RunResult) -> Option<f64> {
    let sending = || result.by_class.iter().filter_map(|part| part.sending);
    let first = sending().map(|(first, _)| first).min()?;
    let last = sending().map(|(_, last)| last).max()?;
    let span_s = last.saturating_sub(first).seconds();
    (span_s > 0.0).then_some(span_s)
}

fn sent_on_average(result: &RunResult) -> Option<f64> {
    Some(result.whole.sent as f64 / span_s(result)?)
}

/// `at 12.0 req/s and 64 of batch in flight`; `None` where all have a rate, which then says it.
fn several(workload: &WorkloadSpec) -> Option<String> {
    let rate = mean_rate(workload).map(|rate| format!("at {} req/s", significant(rate)));
    let mut words: Vec<String> = rate.into_iter().collect();
    words.extend(beside(workload));
    let is_plain = words.len() == 1 && mean_rate(workload).is_some();
    (!is_plain).then(|| words.join(" and "))
}

/// What each class is that has no rate, `64 of batch in flight`.
pub(super) fn beside(workload: &WorkloadSpec) -> Vec<String> {
    let word = |(class, spec): (&str, &WorkloadSpec)| match (&spec.arrivals, spec.client.max_concurrency) {
        (Arrivals::Users { users, .. }, _) => {
            format!("{} of {class}", counted(u64::from(*users), "user"))
        }
        (_, Some(limit)) => format!("{limit} of {class} in flight"),
        (_, None) => match spec.num_prompts {
            Some(count) => format!("{count} of {class} at once"),
            None => format!("{class} at once"),
        },
    };
    without_rate(workload).into_iter().map(word).collect()
}

/// Classes that have no rate, with what sends them.
fn without_rate(workload: &WorkloadSpec) -> Vec<(&str, &WorkloadSpec)> {
    let Arrivals::Superposed { streams } = &workload.arrivals else {
        return Vec::new();
    };
    let streams = streams.iter().filter(|stream| mean_rate(&stream.spec).is_none());
    let named = streams.flat_map(|stream| {
        let names = stream
            .classes
            .iter()
            .map(|&class| workload.classes[class as usize].name.as_str());
        names.map(move |name| (name, &stream.spec))
    });
    named.collect()
}

/// Requests per second that are offered of each class.
pub(super) fn rates(workload: &WorkloadSpec) -> Vec<Option<f64>> {
    let rate = |index: usize| {
        let stream = workload.stream_of(index as u32);
        let spec = stream.map_or(workload, |stream| &stream.spec);
        let together = |class: u32| {
            workload
                .classes
                .get(class as usize)
                .map_or(0.0, |class| class.share)
        };
        let all: f64 = match stream {
            Some(stream) => stream.classes.iter().map(|&class| together(class)).sum(),
            None => workload.classes.iter().map(|class| class.share).sum(),
        };
        Some(mean_rate(spec)? * workload.classes[index].share / all)
    };
    (0..workload.classes.len()).map(rate).collect()
}

/// What a search over rates does with classes that have arrivals of their own.
pub(super) fn scaling_note(resolved: &Resolved) -> Option<String> {
    let workload = &resolved.scenario.workload;
    let Arrivals::Superposed { .. } = workload.arrivals else {
        return None;
    };
    let kept: Vec<&str> = without_rate(workload)
        .into_iter()
        .map(|(class, _)| class)
        .collect();
    let stays = match kept.as_slice() {
        [] => String::new(),
        [one] => format!("; {one} has no rate and stays as it is"),
        several => format!("; {} have no rate and stay as they are", several.join(", ")),
    };
    Some(format!(
        "a rate is that of all classes together: their own are scaled by one factor, so that they keep their mix{stays}"
    ))
}
