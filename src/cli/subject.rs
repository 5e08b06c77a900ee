//! What was simulated, as titles, headers and the text of a report name it.

use crate::analysis::{Outcome, Verdict};
use crate::config::Resolved;
use crate::report::counted;
use crate::report::figures::count;

/// `4 replicas of Llama-3.1-8B-Instruct on 2 × H100-SXM-80GB`; of several pools each with its GPUs.
pub(super) fn subject(resolved: &Resolved) -> String {
    if resolved.servers.len() > 1 {
        let pools = resolved.scenario.pools.iter().map(|pool| {
            let gpus = pool.replicas * pool.gpus;
            format!("{} ({gpus} × {})", pool.name, pool.device)
        });
        return listed(&pools.collect::<Vec<_>>());
    }
    let one = replica(resolved);
    let cluster = &resolved.scenario.cluster;
    let (least, most) = match cluster.scalers.as_slice() {
        [scaler] => (scaler.least, scaler.members.len() as u32),
        _ => (cluster.replicas, cluster.replicas),
    };
    match (least, most) {
        (1, 1) => one,
        (least, most) if resolved.scenario.lock_step.is_some() && least == most => {
            format!("{most} ranks of {one}")
        }
        (least, most) if least == most => format!("{most} replicas of {one}"),
        (least, most) => format!("{least} to {most} replicas of {one}"),
    }
}

/// One replica: `Llama-3.1-8B-Instruct on H100-SXM-80GB`.
pub(super) fn replica(resolved: &Resolved) -> String {
    let ranks = match resolved.placement.gpus() {
        1 => String::new(),
        ranks => format!("{ranks} × "),
    };
    format!("{} on {ranks}{}", short(&resolved.model.name), resolved.device.id)
}

/// What several runs are of: the subject of all, or the model where they differ in more.
pub(super) fn of_all<'a>(all: impl Iterator<Item = &'a Resolved> + Clone) -> String {
    let whole = agreed(all.clone().map(subject));
    let alone = |one: &'a Resolved| (one.servers.len() == 1).then(|| short(&one.model.name));
    let model = || agreed(all.map(alone)).flatten();
    whole.unwrap_or_else(|| model().unwrap_or_default().to_owned())
}

/// What all say; `None` where they differ.
pub(super) fn agreed<T: PartialEq>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}

/// What a run's figures are not to be taken for, beside its pictures; empty where they are what they look like.
pub(super) fn warning(resolved: &Resolved, outcome: &Outcome) -> String {
    let ended = counted(outcome.counts.ended, "request");
    let cut = outcome.is_interrupted.then(|| {
        let of = match resolved.scenario.workload.num_prompts {
            Some(asked) => format!("{} of {}", count(outcome.counts.ended), counted(asked, "request")),
            None => ended.clone(),
        };
        format!(" · INTERRUPTED after {of}")
    });
    let verdict = match outcome.result.verdict {
        Verdict::Unstable => {
            " · UNSTABLE: requests pile up, and latencies grow with the length of the run".to_owned()
        }
        Verdict::TooShort => {
            format!(" · TOO SHORT: the figures are those of {ended}, and may be chance")
        }
        Verdict::Critical => " · CRITICAL: too near saturation for a precise figure".to_owned(),
        Verdict::Stable | Verdict::Finite => String::new(),
    };
    cut.unwrap_or_default() + &verdict
}

/// The subject of a run's pictures.
pub(super) fn of_run(resolved: &Resolved, outcome: &Outcome) -> String {
    subject(resolved) + &warning(resolved, outcome)
}

/// A model's name without its owner's.
fn short(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// `a, b and c`.
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Document, NoFiles, resolve};

    fn of(cluster: &str) -> String {
        let text = format!(
            "[model]\nname = \"meta-llama/Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"h100\"\n{cluster}\n\
             [workload.arrivals.poisson]\nrequest_rate = 1.0\n[workload.lengths.fixed]\ninput_len = 100\noutput_len = 10\n"
        );
        let document = Document::parse("it.toml", &text).unwrap();
        subject(&resolve(document, &NoFiles).unwrap_or_else(|wrong| panic!("{wrong}")))
    }

    #[test]
    fn replicas_are_named_with_what_each_of_them_is() {
        assert_eq!(of(""), "Llama-3.1-8B-Instruct on H100-SXM-80GB");
        assert_eq!(
            of("replicas = 4\ntensor_parallel_size = 2"),
            "4 replicas of Llama-3.1-8B-Instruct on 2 × H100-SXM-80GB"
        );
    }

    #[test]
    fn several_names_are_one_list() {
        let names = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(listed(&names), "a, b and c");
        assert_eq!(listed(&names[..2]), "a and b");
        assert_eq!(agreed([1, 1].into_iter()), Some(1));
        assert_eq!(agreed([1, 2].into_iter()), None);
    }
}
