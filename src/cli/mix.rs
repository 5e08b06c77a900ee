//! The load in words, and what of it a search for a rate scales.

use crate::config::Resolved;
use crate::report::counted;
use crate::report::figures::significant;
use crate::workload::{Arrivals, WorkloadSpec, mean_rate};

/// The load where it is no plain rate: `with 200 users`.
pub(super) fn load(workload: &WorkloadSpec) -> Option<String> {
    match &workload.arrivals {
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

/// `at 12.0 req/s and 64 of batch in flight`; `None` where all have a rate, which then says it.
fn several(workload: &WorkloadSpec) -> Option<String> {
    let rate = mean_rate(workload).map(|rate| format!("at {} req/s", significant(rate)));
    let mut words: Vec<String> = rate.into_iter().collect();
    for (class, spec) in without_rate(workload) {
        words.push(match (&spec.arrivals, spec.client.max_concurrency) {
            (Arrivals::Users { users, .. }, _) => {
                format!("{} of {class}", counted(u64::from(*users), "user"))
            }
            (_, Some(limit)) => format!("{limit} of {class} in flight"),
            (_, None) => match spec.num_prompts {
                Some(count) => format!("{count} of {class} at once"),
                None => format!("{class} at once"),
            },
        });
    }
    let is_plain = words.len() == 1 && mean_rate(workload).is_some();
    (!is_plain).then(|| words.join(" and "))
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
