//! What became of each class of requests, and what each pool is and answered, over the whole run.

use super::super::views::{ClassPromise, PoolMeta, ResultMeta};
use super::value::{Object, Value};
use super::{distribution_ms, plimsoll};
use crate::analysis::RunResult;
use crate::metrics::{PartSummary, ReplicaSummary, of_pools};

const PERCENTILES: [f64; 4] = [50.0, 90.0, 95.0, 99.0];

/// One object a class, in the order of the scenario.
pub(super) fn classes(result: &RunResult, meta: &ResultMeta) -> Vec<Value> {
    let parts = meta.classes.iter().zip(&result.by_class);
    let object = |(index, (class, part)): (usize, (&ClassPromise, &PartSummary))| {
        let mut object = Object::default();
        object.put("name", class.name.as_str());
        object.put("request_rate", class.request_rate);
        object.put("sent_per_s", part.sent_per_s());
        object.put(
            "in_system",
            part.stayed_s() / result.whole.duration_s.max(f64::MIN_POSITIVE),
        );
        let attained = result.class_attainment.get(index).copied().flatten();
        if let Some(share) = attained.filter(|_| !class.limits.is_empty()) {
            object.put("attainment", share.value);
            object.put("attainment_95", vec![share.low, share.high]);
        }
        let is_promised = result.whole.good.is_some() && !class.limits.is_empty();
        figures(&mut object, part, result, is_promised.then_some(part.good));
        object.into()
    };
    parts.enumerate().map(object).collect()
}

/// One object a pool, in the order of the scenario.
pub(super) fn pools(result: &RunResult, meta: &ResultMeta) -> Vec<Value> {
    let replicas = of_pools(&result.by_replica, meta.pools.iter().map(|pool| pool.replicas));
    let object = |(index, pool): (usize, &PoolMeta)| {
        let mut object = Object::default();
        object.put("name", pool.name.as_str());
        object.put("replicas", pool.replicas);
        object.put("gpus_per_replica", pool.gpus_per_replica);
        object.put("gpu", pool.gpu.as_str());
        object.put("model_id", pool.model_id.as_str());
        object.put("engine", pool.engine.as_str());
        object.put("calibration", pool.calibration.as_str());
        if let Some(replicas) = replicas[index] {
            object.put("busy", super::super::text_parts::busy(replicas, result));
            let all = ReplicaSummary::together(replicas);
            plimsoll::places(&mut object, &all);
            object.put("running_max", all.running_max);
            object.put("kv_usage_max", all.kv_usage_max);
        }
        object.put("utilisation", plimsoll::utilisation(pool.utilisation.as_ref()));
        if let Some(part) = result.by_pool.get(index) {
            figures(&mut object, part, result, result.whole.good.map(|_| part.good));
        }
        object.into()
    };
    meta.pools.iter().enumerate().map(object).collect()
}

/// What became of a part's requests; `good` of them kept what is promised to them, where anything is.
fn figures(object: &mut Object, part: &PartSummary, result: &RunResult, good: Option<u64>) {
    for (key, number) in [
        ("sent", part.sent),
        ("completed", part.completed),
        ("rejected", part.rejected),
        ("timed_out", part.timed_out),
        ("failed", part.failed),
        ("input_tokens", part.input_tokens),
        ("output_tokens", part.output_tokens),
    ] {
        object.put(key, number);
    }
    let seconds = result.whole.duration_s;
    let per_second = |number: u64| {
        if seconds > 0.0 {
            number as f64 / seconds
        } else {
            0.0
        }
    };
    object.put("request_throughput", per_second(part.completed));
    object.put("request_goodput", good.map(per_second));
    object.put("output_throughput", per_second(part.output_tokens));
    for (name, of) in [
        ("ttft", &part.ttft),
        ("tpot", &part.tpot),
        ("e2el", &part.e2el),
        ("queue_time", &part.queue_time),
    ] {
        distribution_ms(object, name, of, &PERCENTILES, None);
    }
}
