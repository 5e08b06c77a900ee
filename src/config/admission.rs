//! What stands before the routers: rate limits, a limit of requests in flight, retries.

use super::document::Source;
use super::judge::Judge;
use super::raw::{RawAdmission, RawCluster, RawRateLimit, RawRetries};
use super::scalar::Rate;
use super::workload::{by_class, longest, smallest};
use crate::sim::{Admission, Bucket, RateLimit, Retries};
use crate::units::{PICOS_PER_SECOND, Picos};
use crate::workload::WorkloadSpec;

/// What the simulated clock shows, in seconds: 213 days.
const CLOCK_S: f64 = u64::MAX as f64 / PICOS_PER_SECOND as f64;
/// The longest that a bucket may take to fill, in seconds: less than the clock by more than rounding.
const FILLS_S: f64 = CLOCK_S * (1.0 - 1e-9);
/// First wait before a request is sent again, where nobody says.
const BACKOFF: &str = "100 ms";

/// Resolves what stands before the routers; nothing does where nobody says.
pub(super) fn resolve(judge: &mut Judge, raw: &RawCluster, spec: Option<&WorkloadSpec>) -> Admission {
    let rates = raw.rate_limits.iter().enumerate();
    let rates = rates.map(|(index, limit)| rate_limit(judge, index, limit, spec));
    let rates: Vec<Option<RateLimit>> = rates.collect();
    let gate = &raw.admission;
    Admission {
        rates: rates.into_iter().flatten().collect(),
        retries: raw.retries.as_ref().map(|raw| retries(judge, raw)),
        ..places(judge, gate)
    }
}

fn places(judge: &mut Judge, raw: &RawAdmission) -> Admission {
    let key = |name: &str| format!("cluster.admission.{name}");
    let max_in_flight = raw
        .max_in_flight
        .map(|most| judge.required(&key("max_in_flight"), most, (1, 1 << 24)));
    let max_queue = raw
        .max_queue
        .map(|most| judge.required(&key("max_queue"), most, (0, 1 << 24)));
    let queue_timeout = raw
        .queue_timeout
        .as_ref()
        .and_then(|text| judge.duration(&key("queue_timeout"), text, false));
    let needs = [
        (
            "max_queue",
            max_queue.is_some(),
            "max_in_flight",
            max_in_flight.is_some(),
        ),
        (
            "queue_timeout",
            raw.queue_timeout.is_some(),
            "max_queue",
            max_queue.is_some_and(|most| most > 0),
        ),
    ];
    for (name, is_given, needed, is_there) in needs {
        if is_given && !is_there {
            judge.wrong_help(
                &key(name),
                "has no effect",
                format!("without {needed} nobody waits"),
                format!("add {needed} to [cluster.admission], or leave it out"),
            );
        }
    }
    Admission {
        max_in_flight,
        max_queue: max_queue.unwrap_or(0),
        queue_timeout,
        ..Admission::default()
    }
}

fn rate_limit(
    judge: &mut Judge,
    index: usize,
    raw: &RawRateLimit,
    spec: Option<&WorkloadSpec>,
) -> Option<RateLimit> {
    let root = format!("cluster.rate_limits.{index}");
    let key = |name: &str| format!("{root}.{name}");
    let class = match (&raw.class, spec) {
        (None, _) => None,
        (Some(_), None) => return None,
        (Some(name), Some(spec)) => {
            let Some(class) = spec.classes.iter().position(|class| class.name == *name) else {
                let known: Vec<&str> = spec.classes.iter().map(|class| class.name.as_str()).collect();
                let help = match known.is_empty() {
                    true => "the workload has no [[workload.classes]]: leave `class` out".to_string(),
                    false => format!("classes are {}", known.join(", ")),
                };
                judge.wrong_help(&key("class"), "is no class of the workload", name.clone(), help);
                return None;
            };
            Some(class as u32)
        }
    };
    let requests = bucket(
        judge,
        "requests",
        (&key("requests_per_second"), raw.requests_per_second),
        (&key("burst"), raw.burst),
    );
    let tokens = bucket(
        judge,
        "tokens",
        (&key("tokens_per_second"), raw.tokens_per_second),
        (&key("token_burst"), raw.token_burst),
    );
    if let (Some(bucket), Some(spec)) = (tokens, spec) {
        check_smallest(judge, &key("token_burst"), bucket, spec, class);
    }
    if raw.requests_per_second.is_none() && raw.tokens_per_second.is_none() {
        let help = "give requests_per_second, tokens_per_second or both";
        judge.wrong_help(&root, "limits nothing", "a limit without a rate", help);
    }
    Some(RateLimit {
        class,
        requests,
        tokens,
    })
}

/// A bucket that never holds enough for one request refuses them all, whatever the load.
fn check_smallest(judge: &mut Judge, key: &str, bucket: Bucket, spec: &WorkloadSpec, class: Option<u32>) {
    let is_limited = |index: Option<usize>| class.is_none() || index.map(|index| index as u32) == class;
    let limited = by_class(spec).into_iter().filter(|(index, _)| is_limited(*index));
    let (smallest, largest) = limited.fold((u64::MAX, 0), |(least, most), (_, alone)| {
        let (prompt, output, _) = longest(&alone);
        (least.min(smallest(&alone)), most.max(prompt + output))
    });
    let burst = bucket.burst;
    if (smallest as f64) > burst {
        judge.wrong_help(
            key,
            "is less than any request takes: all would be refused",
            format!("the bucket holds {burst} tokens, prompt and max_tokens are {smallest} or more"),
            format!("write token_burst = {largest}, the most that a request takes"),
        );
    } else if (largest as f64) > burst {
        judge.notes.push(format!(
            "a request of more than {burst} tokens (prompt and max_tokens) never passes the rate limit; some may take up to {largest}"
        ));
    }
}

/// A bucket holds what flows in within a second, unless somebody says otherwise.
fn bucket(
    judge: &mut Judge,
    things: &str,
    (rate_key, rate): (&str, Option<f64>),
    (burst_key, burst): (&str, Option<f64>),
) -> Option<Bucket> {
    let Some(rate) = rate else {
        if burst.is_some() {
            let label = "a burst of a rate that is not given";
            judge.wrong(burst_key, "has no effect", label);
        }
        return None;
    };
    let per_second = judge.rate_of(rate_key, Rate(rate), things)?;
    let source = Source::Assumption("what flows in within a second".to_string());
    let burst = judge.take(burst_key, burst, per_second.max(1.0), source);
    judge.number(burst_key, burst, |burst| burst >= 1.0, "must be at least 1");
    if burst / per_second > FILLS_S {
        let label = format!(
            "{burst} at {per_second} per second flow in over {:.0} days",
            burst / per_second / 86_400.0
        );
        let help = format!(
            "write {:.0} or less, or a higher rate",
            (FILLS_S * per_second).floor()
        );
        judge.wrong_help(
            burst_key,
            "does not fill within the 213 days of the simulated clock",
            label,
            help,
        );
        return None;
    }
    Some(Bucket { per_second, burst })
}

fn retries(judge: &mut Judge, raw: &RawRetries) -> Retries {
    let key = |name: &str| format!("cluster.retries.{name}");
    let most = match raw.max_retries {
        Some(most) => judge.required(&key("max_retries"), most, (1, 100)),
        None => {
            let help = "write max_retries = 1, or leave [cluster.retries] out";
            judge.wrong_help("cluster.retries", "says not how often", "no max_retries", help);
            1
        }
    };
    let source = || Source::Assumption("as most clients do".to_string());
    let backoff = match &raw.backoff {
        Some(text) => judge.duration(&key("backoff"), text, true),
        None => {
            judge.assume(&key("backoff"), BACKOFF.to_string(), source());
            crate::quantity::parse_duration(BACKOFF).ok()
        }
    };
    let on_failure = judge.take(&key("on_failure"), raw.on_failure, true, source());
    let on_refusal = judge.take(&key("on_refusal"), raw.on_refusal, true, source());
    if !on_failure && !on_refusal {
        judge.wrong(
            &key("on_failure"),
            "leaves nothing to retry",
            "nor does on_refusal",
        );
    }
    let backoff = backoff.unwrap_or(Picos::ZERO);
    check_longest_wait(judge, most, backoff);
    Retries {
        most,
        backoff,
        on_failure,
        on_refusal,
    }
}

/// The last wait is the longest: `backoff · 2^(most − 1)`.
fn check_longest_wait(judge: &mut Judge, most: u32, backoff: Picos) {
    let longest_s = backoff.seconds() * 2f64.powi(most as i32 - 1);
    if longest_s <= CLOCK_S {
        return;
    }
    let fitting = (CLOCK_S / backoff.seconds()).log2().floor() + 1.0;
    let help = match fitting {
        more if more >= 1.0 => format!("write max_retries = {more} or less, or a shorter backoff"),
        _ => "write a shorter backoff".to_string(),
    };
    judge.wrong_help(
        "cluster.retries.max_retries",
        "does not fit the simulated clock",
        format!(
            "each wait is twice the one before: the last of {most} would be {:.1e} days of 213",
            longest_s / 86_400.0
        ),
        help,
    );
}
