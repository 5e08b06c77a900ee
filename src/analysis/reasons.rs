//! Verdicts in words, with their numbers.

use super::bursts::CYCLES_MIN;
use super::generations::STEADY_MIN;
use super::growth::T_RETURNING;
use super::judge::{Assessment, Precision, STABLE_WITHIN};
use super::load::{Load, LoadKind};
use super::users::UserCycle;
use super::verdict::Verdict;
use crate::metrics::Observation;
use crate::quantity::{grouped, significant_grouped as figure};
use crate::workload::AllSend;

/// What the stretch was over which several clients were judged, where they do not all send all the time.
pub(super) fn several_clients(seen: &Observation, load: &Load) -> Option<String> {
    let all = load.all_send?;
    let AllSend { from, until } = all;
    if from >= until {
        return Some(format!(
            "there is no stretch in which all classes send: one has sent its last request at {:.1} s, another begins at {:.1} s",
            until.seconds(),
            from.seconds()
        ));
    }
    if !all.is_stretch(&seen.sending) {
        return Some(format!(
            "there is no stretch in which all classes send: one sent nothing but the first request of all, at {:.1} s",
            until.seconds()
        ));
    }
    let is_cut = from > seen.sending.first || until < seen.sending.last;
    let is_steady_asked = !matches!(load.kind, LoadKind::Varying | LoadKind::AllAtOnce);
    (is_cut && is_steady_asked).then(|| {
        let (from, until) = (from.max(seen.sending.first), until.min(seen.sending.last));
        format!(
            "all classes send from {:.1} s to {:.1} s; only that stretch is judged for a steady state",
            from.seconds(),
            until.seconds()
        )
    })
}

/// What was asked of the system while it was judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) kind: LoadKind,
    pub(super) offered_per_s: f64,
    /// What users who think between requests were seen to do.
    pub(super) users: Option<UserCycle>,
    /// Replicas come and go.
    pub(super) servers_change: bool,
    /// How often traffic whose rate changes by chance went through its states, where that is too seldom.
    pub(super) too_few_cycles: Option<f64>,
    /// Somebody still has an answer in the stretch that counts as steady, or there is none.
    pub(super) serves: bool,
}

/// Requests below which their number is what a run lacks, however often they were replaced.
const FEW: u64 = 200;
/// How many times as many requests as there were a run that is too short needs at least.
const MORE: f64 = 1.2;

/// Sentences behind a verdict, the most important first.
pub(super) fn reasons(seen: &Observation, assessment: &Assessment, asked: Asked) -> Vec<String> {
    if seen.whole.sent == 0 {
        return vec!["no request was sent: there is nothing to judge".to_owned()];
    }
    let mut reasons = vec![verdict_reason(seen, assessment, asked)];
    let whole = &seen.whole;
    // Between prefill and decode a request is lost in more ways.
    let failed = match seen.relays {
        Some(_) => {
            "failed: with a replica that they were on, a transfer, or for want of a decode replica; what they had computed \
             was in vain"
        }
        None => "lost with the replica they were on; what they had computed was in vain",
    };
    let lost = [
        (whole.rejected, "refused", true),
        (whole.timed_out, "given up by their clients", true),
        (whole.failed, failed, false),
    ];
    for (lost, fate, makes_room) in lost {
        if lost > 0 {
            let share = 100.0 * lost as f64 / whole.sent.max(1) as f64;
            let so = match makes_room && whole.completed > 0 && asked.serves {
                true => "; those served waited less because of it",
                false => "",
            };
            reasons.push(format!(
                "{} of {} sent ({share:.1} %) {fate}{so}",
                count(lost),
                count(whole.sent)
            ));
        }
    }
    if let Some(range) = &assessment.steady
        && assessment.verdict != Verdict::Unstable
    {
        let batches = &seen.stretches[range.clone()];
        let (begin, end) = (batches[0].begin_s(), batches[batches.len() - 1].end_s());
        reasons.push(format!(
            "steady from {begin:.1} s to {end:.1} s of {:.1} s; warm-up and drain are left out",
            seen.end.seconds()
        ));
    }
    reasons
}

/// `12,345`.
fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// The same of an estimate.
fn count_of(value: f64) -> String {
    grouped(&format!("{value:.0}"))
}

/// Whether it is only for not having returned that the number in the system is no steady one.
fn is_wandering(assessment: &Assessment) -> bool {
    let known = assessment.in_system.map(|interval| interval.relative());
    assessment.wanders && known.is_some_and(|width| width <= STABLE_WITHIN)
}

/// Why no stretch of a run is one that may be steady. Where hardly anybody is inside, everybody is replaced more often than
/// there are requests, so that is told only where it is what a run lacks.
fn not_begun(ended: u64, generations: usize, needed: f64) -> String {
    if ended < FEW {
        let are = if ended == 1 { "request is" } else { "requests are" };
        return format!(
            "{ended} {are} too few to tell a steady state from chance, or how many it takes; a run that chooses its length (without \
             --num-prompts) begins with {}",
            count(Precision::default().min_requests)
        );
    }
    let needed = needed.max(MORE * ended as f64);
    let lacks = match generations {
        1 => "everybody inside was replaced once, too seldom to tell a steady state from the filling up"
            .to_owned(),
        times if times <= STEADY_MIN => {
            format!(
                "everybody inside was replaced {times} times, too seldom to tell a steady state from the filling up"
            )
        }
        _ => "in no part of the run did as many leave as came and Little's law hold".to_owned(),
    };
    format!(
        "after {} requests {lacks}; at least {} requests would be needed",
        count(ended),
        count_of(needed)
    )
}

/// Of a closed loop without a steady stretch in which not even everybody who was in flight at once was answered twice.
fn few_waves(seen: &Observation, assessment: &Assessment) -> Option<String> {
    let (ended, at_once) = (seen.whole.ended(), seen.whole.max_in_flight);
    let waves = ended as f64 / at_once.max(1) as f64;
    (assessment.steady.is_none() && waves < WAVES).then(|| {
        format!(
            "; {} answers are {waves:.2} waves of the {} in flight: the figures are those of its beginning, and a longer run's are others",
            count(ended),
            count(at_once)
        )
    })
}

/// Waves below which a closed loop has hardly begun.
const WAVES: f64 = 2.0;

fn verdict_reason(seen: &Observation, assessment: &Assessment, asked: Asked) -> String {
    let Asked {
        kind,
        offered_per_s: offered,
        users,
        servers_change,
        too_few_cycles,
        serves: _,
    } = asked;
    if let Some(cycles) = too_few_cycles.filter(|_| assessment.verdict == Verdict::TooShort) {
        return format!(
            "the traffic went through its states {cycles:.1} times: at least {CYCLES_MIN:.0} would be needed to tell its bursts from \
             overload, and its idle times from a steady state"
        );
    }
    let ended = seen.whole.ended();
    let growth = &assessment.growth;
    let width = assessment
        .in_system
        .map_or(f64::INFINITY, |interval| interval.relative())
        * 100.0;
    match assessment.verdict {
        Verdict::Unstable => {
            if let Some(drain_s) = growth.drain_s {
                return format!(
                    "what is served falls behind what arrives: {} requests/s come, and the backlog at the end takes {} s \
                     after the last arrival; any latency here is that of a backlog",
                    figure(offered),
                    figure(drain_s)
                );
            }
            if growth.is_client {
                return format!(
                    "{} requests/s arrive, and the clients' limit on requests in flight lets {}/s fewer through: what they hold back \
                     grows with the run's length, and TTFT, which begins when a request is sent, does not",
                    figure(growth.offered_per_s),
                    figure(growth.per_s)
                );
            }
            let what = match growth.load {
                None if growth.is_queue => "the queue grows".to_owned(),
                None => "the number in the system grows".to_owned(),
                Some(load) => format!(
                    "{load:.2} times what the engine can do is asked of it, and the number running grows"
                ),
            };
            format!(
                "{what} by {} requests/s while {} requests/s arrive: any latency here is a function of the run's length",
                figure(growth.lasting_per_s()),
                figure(growth.offered_per_s)
            )
        }
        Verdict::Stable => {
            format!(
                "the number in the system keeps returning to the same level (mean known within {width:.1} %)"
            )
        }
        Verdict::TooShort | Verdict::Critical if is_wandering(assessment) => {
            let needed = assessment.requests_needed;
            if growth.t >= T_RETURNING {
                format!(
                    "over {} requests the number in the system grows by {} requests/s: too little to tell overload from \
                     chance, and too much for a steady state; at least {} would be needed",
                    count(ended),
                    figure(growth.per_s),
                    count_of(needed)
                )
            } else {
                format!(
                    "over {} requests the number in the system drifts slowly and is not seen to return to its mean: the figures \
                     are those of this stretch; at least {} would be needed",
                    count(ended),
                    count_of(needed)
                )
            }
        }
        Verdict::Critical => format!(
            "so close to saturation that after {} requests the mean number in the system is known only within {width:.0} %; about \
             {} requests would be needed",
            count(ended),
            count_of(assessment.requests_needed)
        ),
        Verdict::TooShort if growth.ambiguous => format!(
            "after {} requests the number in the system still grows by {} requests/s{}",
            count(ended),
            figure(growth.per_s),
            match (assessment.settles_in, growth.load) {
                (Some(requests), _) => format!(
                    ": it is filling up; the same traffic settles in a run of {} requests",
                    count(requests)
                ),
                (None, Some(load)) if load > 1.0 => format!(
                    ": {load:.2} times what the engine can do is asked of it, within the error of that estimate; a longer run would \
                     tell overload from filling up"
                ),
                (None, Some(load)) => format!(": it is filling up, at {load:.2} of what the engine can do"),
                (None, None) => ": a longer run would tell overload from filling up".to_owned(),
            }
        ),
        Verdict::TooShort
            if assessment.steady.is_none()
                && let Some(opening_s) = assessment.opening_s =>
        {
            format!(
                "after {} requests conversations that began first still go on: it takes {} s until as many are under way as will be, and as \
                 long to see what happens then; about {} would do",
                count(ended),
                figure(opening_s),
                count_of(assessment.requests_needed.max(MORE * ended as f64))
            )
        }
        Verdict::TooShort if assessment.requests_needed.is_finite() && assessment.steady.is_some() => {
            format!(
                "{} requests fix the mean number in the system only within {width:.0} %; about {} would do",
                count(ended),
                // What is missing may be something else than that number, so it is never fewer than there were.
                count_of(assessment.requests_needed.max(MORE * ended as f64))
            )
        }
        Verdict::TooShort if assessment.requests_needed.is_finite() => {
            not_begun(ended, assessment.generations, assessment.requests_needed)
        }
        Verdict::TooShort => {
            let are = if ended == 1 { "request is" } else { "requests are" };
            format!("{ended} {are} too few to tell a steady state from the filling up")
        }
        Verdict::Finite => match kind {
            LoadKind::Closed => {
                let loop_of = users.map_or_else(
                    || "a closed loop: the number of users or of requests in flight is given, and the load follows from it".into(),
                    UserCycle::sentence,
                );
                loop_of + &few_waves(seen, assessment).unwrap_or_default()
            }
            LoadKind::AllAtOnce => {
                "everything was sent at once: a finite experiment without a steady state".into()
            }
            LoadKind::Varying if servers_change => {
                "the servers change over the run, and not the load: its figures describe these changes, not a steady state".into()
            }
            LoadKind::Open | LoadKind::Varying => {
                "the load changes over the run: its figures describe this traffic, not a steady state".into()
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_sentences_are_rounded_and_grouped() {
        assert_eq!(figure(936_396_017.158), "936,000,000");
        assert_eq!(
            (figure(954.167), count_of(12_345.6)),
            ("954".into(), "12,346".into())
        );
    }

    #[test]
    fn nobody_is_replaced_more_often_than_there_are_requests() {
        let few = not_begun(30, 117, 60.0);
        assert!(
            few.starts_with("30 requests are too few") && !few.contains("117"),
            "{few}"
        );
        let low = not_begun(600, 900, 1200.0);
        assert!(
            !low.contains("replaced") && low.contains("at least 1,200"),
            "{low}"
        );
        assert!(not_begun(600, 2, 2400.0).contains("replaced 2 times, too seldom"));
    }
}
