//! What each of several replicas did, in one line: how even the load was; and where requests were, in another.

use super::figures::{count, percent, significant};
use super::text_whole::agrees;
use super::views::ResultMeta;
use crate::analysis::RunResult;
use crate::cluster::LockStepAccount;
use crate::metrics::ReplicaSummary;

/// From the least to the most of all replicas; `None` where there is one only.
pub(super) fn replicas(result: &RunResult) -> Option<String> {
    let replicas = &result.by_replica;
    let span_s = result.whole.duration_s;
    if replicas.len() < 2 || span_s <= 0.0 {
        return None;
    }
    let mut parts = vec![
        format!(
            "{} requests each",
            range(
                replicas,
                |replica| replica.admitted as f64,
                |requests| count(requests as u64)
            )
        ),
        format!(
            "{} running",
            range(replicas, |replica| replica.running.l, significant)
        ),
        format!(
            "busy {}",
            range(replicas, |replica| (replica.busy_s / span_s).min(1.0), percent)
        ),
    ];
    if replicas.iter().any(|replica| replica.cache_hit_tokens > 0) {
        let hits = |replica: &ReplicaSummary| {
            replica.cache_hit_tokens as f64 / replica.cache_queries_tokens.max(1) as f64
        };
        parts.push(format!("cache hits {}", range(replicas, hits, percent)));
    }
    let lost: u64 = replicas.iter().map(|replica| replica.lost).sum();
    if lost > 0 {
        parts.push(format!(
            "lost {}",
            range(replicas, |replica| replica.lost as f64, |lost| count(lost as u64))
        ));
    }
    Some(parts.join(" · "))
}

/// `prefill 3.21 (2.10 waiting) + KV on its way 0.12 + decode 8.40 (0 waiting) + front ends 0.02 = 11.8 ✓`: requests at each
/// place on average, which add up to the system's L. Each place's is held against its own λW. `None` where there is one
/// replica only.
pub(super) fn places(result: &RunResult, meta: &ResultMeta) -> Option<String> {
    let front_ends = result.little.front_ends?;
    let replicas = &result.by_replica;
    let mut groups: Vec<(String, ReplicaSummary)> = Vec::new();
    if let Some(relays) = &result.relays {
        groups.push(("prefill".into(), relays.of_role(true, replicas)));
        groups.push(("decode".into(), relays.of_role(false, replicas)));
    } else if meta.pools.is_empty() {
        let name = format!("{} replicas", replicas.len());
        groups.push((name, ReplicaSummary::together(replicas)));
    } else {
        let mut rest = replicas.as_slice();
        for pool in &meta.pools {
            let (own, others) = rest.split_at_checked(pool.replicas as usize)?;
            groups.push((pool.name.clone(), ReplicaSummary::together(own)));
            rest = others;
        }
    }
    let mut parts = Vec::new();
    let mut is_right = agrees(&front_ends);
    let mut sum = front_ends.l;
    for (name, places) in &groups {
        is_right &= [&places.inside, &places.waiting, &places.running, &places.crossing]
            .into_iter()
            .all(agrees);
        sum += places.inside.l + places.crossing.l;
        if places.crossing.lambda > 0.0 {
            parts.push(format!("KV on its way {}", significant(places.crossing.l)));
        }
        let (inside, waiting) = (significant(places.inside.l), significant(places.waiting.l));
        parts.push(format!("{name} {inside} ({waiting} waiting)"));
    }
    parts.push(format!("front ends {}", significant(front_ends.l)));
    let system = result.little.system.l;
    is_right &= (sum - system).abs() <= 1e-6 * system.abs().max(1e-3);
    let mark = if is_right { "✓" } else { "DIFFER" };
    Some(format!("{} = {} {mark}", parts.join(" + "), significant(sum)))
}

/// `4 engines waited 21 % of their step time for the slowest of them, 3 % went to dummy batches · 1,200 steps`; `None`
/// without steps.
pub(super) fn lock_step(account: &LockStepAccount) -> Option<String> {
    Some(format!(
        "{} engines with work waited {} of all step time for the slowest of them · engines without work spent {} of it in \
         dummy batches · {} steps",
        account.ranks,
        percent(account.waited_share()?),
        percent(account.idle_share()?),
        count(account.steps),
    ))
}

/// `980–1,020`, or one figure where all are alike.
fn range(
    replicas: &[ReplicaSummary],
    figure: impl Fn(&ReplicaSummary) -> f64,
    write: impl Fn(f64) -> String,
) -> String {
    let figures = || replicas.iter().map(&figure);
    let least = write(figures().fold(f64::INFINITY, f64::min));
    let most = write(figures().fold(0.0, f64::max));
    if least == most {
        least
    } else {
        format!("{least} to {most}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::LittleCheck;
    use crate::report::fixtures;
    use crate::units::Picos;

    #[test]
    fn waiting_for_the_slowest_is_told() {
        let account = LockStepAccount {
            ranks: 4,
            steps: 1200,
            stepping: Picos(1000),
            dummies: 300,
            idle: 400,
            waited: 1000,
            ..LockStepAccount::default()
        };
        let told = "4 engines with work waited 25.0 % of all step time for the slowest of them · engines without work spent \
                    10.0 % of it in dummy batches · 1,200 steps";
        assert_eq!(lock_step(&account).as_deref(), Some(told));
        assert_eq!(lock_step(&LockStepAccount::default()), None);
    }

    #[test]
    fn the_spread_between_replicas_is_told() {
        let replica = |admitted, hits, lost| ReplicaSummary {
            admitted,
            completed: admitted - lost,
            lost,
            output_tokens: 0,
            busy_s: 5.0,
            preemptions: 0,
            cache_queries_tokens: 1000,
            cache_hit_tokens: hits,
            running: LittleCheck {
                l: 2.5,
                lambda: 1.0,
                w: 2.5,
            },
            ..ReplicaSummary::default()
        };
        let mut result = fixtures::stable_run();
        assert_eq!(replicas(&result), None);
        result.by_replica = vec![replica(980, 400, 0), replica(1020, 425, 3)];
        result.whole.duration_s = 10.0;
        let told = "980 to 1,020 requests each · 2.50 running · busy 50.0 % · cache hits 40.0 % to 42.5 % · lost 0 to 3";
        assert_eq!(replicas(&result).as_deref(), Some(told));
    }
}
