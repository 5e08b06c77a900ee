//! Classes with arrivals of their own: each a client of its own, judged as a whole workload is.
//!
//! Classes with a share are together one client, who sends as `[workload.arrivals]` says. `num_prompts` and `duration` of
//! `[workload]` are of all clients together; one pass over a rate curve that nobody gave a length is its client's own.

use super::arrivals::span_of_pass;
use super::spaces::{Among, Spaces};
use super::{UNREAD, checks, classes, one};
use crate::config::files::Files;
use crate::config::judge::Judge;
use crate::config::raw::{RawArrivals, RawClass, RawWorkload};
use crate::units::Picos;
use crate::workload::{Arrivals, Class, Client, Draws, Prefix, Stream, WorkloadSpec, mean_rate, with_rate};

/// Most clients: each request is compared for each of them.
const CLIENTS_MAX: usize = 1000;

/// Resolves a workload in which classes have arrivals of their own.
pub(super) fn resolve(judge: &mut Judge, raw: &RawWorkload, files: &dyn Files) -> Option<WorkloadSpec> {
    let before = judge.problems.len();
    refuse(judge, raw);
    let num_prompts = raw.num_prompts.map(|count| super::given_prompts(judge, count));
    let mut spaces = Spaces::default();
    let (mut all, mut streams, mut shared) = (Vec::new(), Vec::new(), Vec::new());
    for (index, class) in raw.classes.iter().enumerate() {
        if class.arrivals.is_some() {
            let among = Among {
                ends_with_all: raw.num_prompts.is_some() || raw.duration.is_some(),
                spaces: Some(&mut spaces),
                joined: None,
            };
            let (class, stream) = alone(judge, raw, (index, class), among, files).unzip();
            all.extend(class);
            streams.extend(stream);
        } else {
            let class = classes::resolve(judge, raw, index, class, files);
            shared.extend(class.is_some().then_some(index as u32));
            all.extend(class);
        }
    }
    // What had no right shape was cut out, and reported when it was read.
    if all.len() < raw.classes.len() {
        return None;
    }
    if !shared.is_empty() && judge.problems.len() == before {
        let spec = together(
            judge,
            raw,
            shared.iter().map(|&index| all[index as usize].clone()),
            files,
        )?;
        streams.push((shared, Picos::ZERO, None, spec));
    }
    let duration = raw.duration.as_ref();
    let duration = duration.and_then(|text| judge.span("workload.duration", text, false));
    refuse_late(judge, &streams, duration);
    if judge.problems.len() > before {
        return None;
    }
    streams.sort_by_key(|(classes, ..)| classes[0]);
    let spec = WorkloadSpec {
        arrivals: Arrivals::Superposed {
            streams: numbered(streams).collect(),
        },
        lengths: UNREAD,
        prefix: Prefix::None,
        client: Client::default(),
        num_prompts,
        duration,
        endings: None,
        classes: all,
    };
    at_rate(judge, raw, spec)
}

/// Classes, start, shared space of hash ids and traffic of a client.
type Draft = (Vec<u32>, Picos, Option<usize>, WorkloadSpec);

/// Every client has a space of hash ids of its own, but for those that share one.
fn numbered(drafts: Vec<Draft>) -> impl Iterator<Item = Stream> {
    let clients = drafts.len();
    let drafts = drafts.into_iter().enumerate();
    drafts.map(move |(at, (classes, start, joined, mut spec))| {
        // A benchmark client is alone, and its seed its own.
        spec.client.draws = Draws::Own;
        Stream {
            classes,
            start,
            hash_space: joined.map_or(at, |space| clients + space) as u32,
            spec,
        }
    })
}

/// Who begins when nothing is sent any more.
fn refuse_late(judge: &mut Judge, drafts: &[Draft], duration: Option<Picos>) {
    let Some(end) = duration else { return };
    for (classes, start, ..) in drafts {
        if *start > Picos::ZERO && *start >= end {
            let end_s = end.seconds();
            judge.wrong_help(
                &format!("workload.classes.{}.start", classes[0]),
                "leaves no time to send",
                format!("`duration` of [workload] ends all sending at {end_s} s"),
                "give an earlier start, a longer duration, or leave the class out",
            );
        }
    }
}

/// What contradicts clients of several classes.
fn refuse(judge: &mut Judge, raw: &RawWorkload) {
    let has_shares = raw.classes.iter().any(|class| class.arrivals.is_none());
    let limit = "workload.client.max_concurrency";
    // That flag alone means a closed loop. What is wrong with it is said below.
    let is_by_limit = judge.document.set_by_flag(limit).is_some()
        && judge.document.set_by_flag("workload.arrivals").is_none();
    if raw.arrivals.is_some() && !has_shares && !is_by_limit {
        let key = "workload.arrivals";
        let by_flag = judge.document.set_by_flag(key);
        judge.wrong_help(
            by_flag.as_deref().unwrap_or(key),
            "sends nothing",
            "every class has arrivals of its own",
            "leave it out, or give a class a share in place of its arrivals; `request_rate` in [workload] scales them all",
        );
    }
    if raw.arrivals.is_none() && raw.classes.iter().any(|class| class.share.is_some()) {
        judge.wrong_help(
            "workload.classes",
            "have shares of nothing",
            "no [workload.arrivals]",
            "write [workload.arrivals.poisson] for the classes with a share, or give each arrivals of its own",
        );
    }
    if raw.client.max_concurrency.is_some() {
        judge.wrong_help(
            limit,
            "limits one client",
            "classes with arrivals of their own are several",
            "write max_concurrency in [workload.classes.client] of the class that it limits",
        );
    }
    if raw.client.priorities.is_some() {
        judge.wrong_help(
            "workload.classes",
            "cannot be told apart here",
            "client.priorities draws priorities, too",
            "write a priority in each class",
        );
    }
    if raw.classes.len() > CLIENTS_MAX {
        let label = format!("{} classes", raw.classes.len());
        judge.wrong(
            "workload.classes",
            &format!("may be at most {CLIENTS_MAX} with arrivals of their own"),
            label,
        );
    }
}

/// A class that is a client of its own.
fn alone(
    judge: &mut Judge,
    all: &RawWorkload,
    (index, raw): (usize, &RawClass),
    mut among: Among<'_>,
    files: &dyn Files,
) -> Option<(Class, Draft)> {
    let name = classes::name(judge, all, index, raw)?;
    let root = format!("workload.classes.{index}");
    let key = |name: &str| format!("{root}.{name}");
    if raw.share.is_some() {
        judge.wrong_help(
            &key("share"),
            "contradicts arrivals of the class's own",
            "a share is of what [workload.arrivals] sends",
            "keep one of the two",
        );
    }
    if raw.client.priorities.is_some() {
        let help = "write a priority in the class";
        judge.wrong_help(
            &key("client.priorities"),
            "does not go with classes",
            "a class has one",
            help,
        );
    }
    let start = raw
        .start
        .as_ref()
        .map(|text| judge.span(&key("start"), text, true));
    let is_trace = matches!(raw.arrivals, Some(RawArrivals::Trace(_)));
    let (mut own, whole) = Judge::new(judge.document.of_class(index));
    // What has no right shape was found in the scenario, which holds the same tables.
    own.problems.clear();
    if whole.workload.lengths.is_none() && !is_trace {
        classes::need_lengths(judge, &root, &name);
        return None;
    }
    let spec = one(&mut own, &whole.workload, &mut among, files);
    if let Some(spec) = spec.as_ref().filter(|_| own.problems.is_empty()) {
        let need = "add num_prompts to the class";
        checks::check_combinations(&mut own, spec, need);
        checks::check_clock(&mut own, spec);
    }
    judge.hear(&mut own, &root, &format!("class {name}"), |key| {
        key.replacen("workload.", &format!("{root}."), 1)
    });
    let (spec, start) = (spec?, start.unwrap_or(Some(Picos::ZERO))?);
    let class = classes::finish(judge, index, raw, (name, 1.0, spec.lengths.clone()));
    Some((class, (vec![index as u32], start, among.joined, spec)))
}

/// The client who sends the requests of all classes with a share.
fn together(
    judge: &mut Judge,
    raw: &RawWorkload,
    classes: impl Iterator<Item = Class>,
    files: &dyn Files,
) -> Option<WorkloadSpec> {
    let before = judge.problems.len();
    let own = RawWorkload {
        num_prompts: None,
        duration: None,
        ..raw.clone()
    };
    let mut among = Among {
        ends_with_all: true,
        ..Among::default()
    };
    let mut spec = one(judge, &own, &mut among, files)?;
    let has_length = raw.num_prompts.is_some() || raw.duration.is_some();
    if let Some((seconds, span)) = span_of_pass(&spec.arrivals).filter(|_| !has_length) {
        // No key holds it: `duration` of [workload] is of all clients.
        judge.notes.push(format!(
            "the classes with a share send for {seconds} s: one pass over their rate curve, and nobody gave a length"
        ));
        spec.duration = Some(span);
    }
    spec.classes = classes.collect();
    classes::check(judge, &own, &spec);
    let need =
        "num_prompts of [workload] counts all classes: give these arrivals and num_prompts of their own";
    if judge.problems.len() == before {
        checks::check_combinations(judge, &spec, need);
    }
    (judge.problems.len() == before).then_some(spec)
}

/// All rates scaled to the one that is asked of all clients together.
fn at_rate(judge: &mut Judge, raw: &RawWorkload, spec: WorkloadSpec) -> Option<WorkloadSpec> {
    let Some(asked) = raw.request_rate else {
        return Some(spec);
    };
    let key = "workload.request_rate";
    let asked = judge.rate(key, asked)?;
    let Some(own) = mean_rate(&spec) else {
        let help = "a closed loop sends as fast as it is answered: give max_concurrency instead";
        judge.wrong_help(key, "has nothing to scale", "no class has a rate", help);
        return None;
    };
    let names = |has_rate: bool| {
        let is_meant = |stream: &Stream| mean_rate(&stream.spec).is_some() == has_rate;
        let Arrivals::Superposed { streams } = &spec.arrivals else {
            return String::new();
        };
        let classes = streams
            .iter()
            .filter(|stream| is_meant(stream))
            .flat_map(|stream| &stream.classes);
        let names: Vec<&str> = classes
            .map(|&class| spec.classes[class as usize].name.as_str())
            .collect();
        names.join(", ")
    };
    let kept = match names(false) {
        none if none.is_empty() => String::new(),
        kept if kept.contains(", ") => format!("; {kept} have no rate and stay as they are"),
        kept => format!("; {kept} has no rate and stays as it is"),
    };
    judge.notes.push(format!(
        "rates of {} are multiplied by {:.4} to {asked} requests/s together{kept}",
        names(true),
        asked / own
    ));
    Some(with_rate(&spec, asked))
}

/// A rate of all classes together is of those that have arrivals of their own.
pub(super) fn refuse_rate(judge: &mut Judge, raw: &RawWorkload) {
    if raw.request_rate.is_some() {
        judge.wrong_help(
            "workload.request_rate",
            "scales nothing",
            "no class has arrivals of its own",
            "write it in [workload.arrivals.poisson]",
        );
    }
}

#[cfg(test)]
mod tests;
