//! Classes of requests: each a share of the traffic with lengths, a priority, a model and an SLO of its own.

use super::super::document::Document;
use super::super::files::Files;
use super::super::judge::Judge;
use super::super::raw::{RawClass, RawClient, RawWorkload};
use super::super::slo;
use super::lengths;
use crate::workload::{Class, Lengths, Prefix, WorkloadSpec};

/// Resolves the classes; those that have a problem are left out, which was reported.
pub(super) fn classes(judge: &mut Judge, raw: &RawWorkload, files: &dyn Files) -> Vec<Class> {
    let mut classes = Vec::new();
    for (index, class) in raw.classes.iter().enumerate() {
        classes.extend(resolve(judge, raw, index, class, files));
    }
    classes
}

/// Resolves a class that has a share.
pub(super) fn resolve(
    judge: &mut Judge,
    all: &RawWorkload,
    index: usize,
    raw: &RawClass,
    files: &dyn Files,
) -> Option<Class> {
    let name = name(judge, all, index, raw)?;
    refuse_without_arrivals(judge, index, raw);
    let key = |name: &str| format!("workload.classes.{index}.{name}");
    let Some(share) = raw.share else {
        if judge.is_wrong(&[&key("arrivals"), &key("share")]) {
            return None;
        }
        let help = "write share = 0.5, or its requests per second: shares are relative to their sum; or give it \
                    [workload.classes.arrivals.poisson]";
        judge.wrong_help(&format!("workload.classes.{index}"), "has no share", name, help);
        return None;
    };
    judge.given(&key("share"), share);
    judge.number(&key("share"), share, |share| share > 0.0, "must be above 0");
    let lengths = own_lengths(judge, index, &name, files)?;
    Some(finish(judge, index, raw, (name, share, lengths)))
}

/// The name of a class; `None` was reported.
pub(super) fn name(judge: &mut Judge, all: &RawWorkload, index: usize, raw: &RawClass) -> Option<String> {
    let Some(name) = raw.name.clone().filter(|name| !name.is_empty()) else {
        let help = "write name = \"chat\" in it";
        judge.wrong_help(
            &format!("workload.classes.{index}"),
            "has no name",
            "a class",
            help,
        );
        return None;
    };
    let mut before = all.classes[..index].iter();
    if before.any(|other| other.name.as_ref() == Some(&name)) {
        let key = format!("workload.classes.{index}.name");
        judge.wrong(&key, "is taken", "another class has it, too");
    }
    Some(name)
}

/// A class with what every one has.
pub(super) fn finish(
    judge: &mut Judge,
    index: usize,
    raw: &RawClass,
    (name, share, lengths): (String, f64, Lengths),
) -> Class {
    Class {
        name,
        share,
        lengths,
        priority: raw.priority.unwrap_or(0),
        model: raw.model.clone(),
        promise: slo::promise(judge, &raw.goodput, &format!("workload.classes.{index}.goodput")),
    }
}

/// What only a client of its own can have.
fn refuse_without_arrivals(judge: &mut Judge, index: usize, raw: &RawClass) {
    let given = [
        ("start", raw.start.is_some()),
        ("num_prompts", raw.num_prompts.is_some()),
        ("duration", raw.duration.is_some()),
        ("prefix", raw.prefix.is_some()),
        ("client", raw.client != RawClient::default()),
    ];
    for (name, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
        judge.wrong_help(
            &format!("workload.classes.{index}.{name}"),
            "needs arrivals of the class's own",
            "a class with a share sends what [workload.arrivals] sends",
            "give [workload.classes.arrivals.poisson] in place of the share, or leave it out",
        );
    }
}

/// The lengths of a class are judged as those of a workload are: its own, or else the workload's.
fn own_lengths(judge: &mut Judge, index: usize, name: &str, files: &dyn Files) -> Option<Lengths> {
    let document: Document = judge.document.of_class(index);
    let (mut own, raw) = Judge::new(document);
    // What has no right shape was found in the scenario, which holds the same tables.
    own.problems.clear();
    let root = format!("workload.classes.{index}");
    let Some(raw) = &raw.workload.lengths else {
        need_lengths(judge, &root, name);
        return None;
    };
    let lengths = lengths::lengths(&mut own, raw, files);
    judge.hear(&mut own, &root, &format!("class {name}"), |key| {
        key.replacen("workload.", &format!("{root}."), 1)
    });
    lengths
}

/// Reports a class without lengths, unless those that there are have a mistake of their own.
pub(super) fn need_lengths(judge: &mut Judge, root: &str, name: &str) {
    if judge.is_wrong(&["workload.lengths", &format!("{root}.lengths")]) {
        return;
    }
    let help = "give [workload.classes.lengths.fixed] below it, or [workload.lengths] for all classes";
    judge.wrong_help(root, "has no lengths", format!("class {name}"), help);
}

/// Classes go with requests that stand alone and have no other say on their lengths or priority.
pub(super) fn check(judge: &mut Judge, raw: &RawWorkload, spec: &WorkloadSpec) {
    if spec.classes.is_empty() {
        return;
    }
    let mut refuse = |why: &str, help: &str| {
        judge.wrong_help("workload.classes", "cannot be told apart here", why, help);
    };
    if spec.listed().is_some() {
        refuse(
            "a trace brings its own requests",
            "leave the classes out, or give one of them the trace: [workload.classes.arrivals.trace]",
        );
    }
    if matches!(spec.prefix, Prefix::Sessions { .. } | Prefix::Reuse(_)) {
        refuse(
            "conversations and reused prompts are of one kind",
            "leave [workload.prefix] out, or give a class arrivals and a prefix of its own",
        );
    }
    if raw.client.priorities.is_some() {
        refuse(
            "client.priorities draws priorities, too",
            "write a priority in each class",
        );
    }
}
