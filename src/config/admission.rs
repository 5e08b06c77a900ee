//! What stands before the routers: rate limits, a limit of requests in flight, retries.

use super::document::Source;
use super::judge::Judge;
use super::raw::{RawAdmission, RawCluster, RawRateLimit, RawRetries};
use super::scalar::Rate;
use crate::sim::{Admission, Bucket, RateLimit, Retries};
use crate::units::Picos;
use crate::workload::WorkloadSpec;

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
        (&key("requests_per_second"), raw.requests_per_second),
        (&key("burst"), raw.burst),
    );
    let tokens = bucket(
        judge,
        (&key("tokens_per_second"), raw.tokens_per_second),
        (&key("token_burst"), raw.token_burst),
    );
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

/// A bucket holds what flows in within a second, unless somebody says otherwise.
fn bucket(
    judge: &mut Judge,
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
    let per_second = judge.rate(rate_key, Rate(rate))?;
    let source = Source::Assumption("what flows in within a second".to_string());
    let burst = judge.take(burst_key, burst, per_second.max(1.0), source);
    judge.number(burst_key, burst, |burst| burst >= 1.0, "must be at least 1");
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
    Retries {
        most,
        backoff: backoff.unwrap_or(Picos::ZERO),
        on_failure,
        on_refusal,
    }
}
