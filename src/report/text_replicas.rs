//! What each of several replicas did, in one line: how even the load was.

use super::figures::{count, percent, significant};
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
