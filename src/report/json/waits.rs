//! Who waited for whom, and how long, as an object.

use super::distribution_ms;
use super::value::{Object, Value};
use crate::metrics::{PrefixWaits, PriorityWaits, WaitClass, WaitReport, Waiter};

const PERCENTILES: [f64; 4] = [50.0, 90.0, 95.0, 99.0];

/// Of hits and misses, of the front end and the engine's queue, of priorities, and of those who waited longest.
pub(super) fn object(report: &WaitReport) -> Object {
    let class = |class: &WaitClass| {
        let mut object = Object::default();
        object.put("requests", class.waits.count());
        object.put("overtaken", class.overtaken);
        distribution_ms(&mut object, "wait", &class.waits, &PERCENTILES, None);
        distribution_ms(&mut object, "ttft", &class.ttft, &PERCENTILES, None);
        object.put("max_wait_ms", class.waits.max_s().map(|seconds| seconds * 1e3));
        object
    };
    let waiter = |waiter: &Waiter| {
        let mut object = Object::default();
        object.put("request", waiter.id.0);
        object.put("prefix", waiter.prefix.map(u64::from));
        object.put("wait_ms", waiter.wait_s * 1e3);
        object.put("overtaken_by", waiter.overtaken_by);
        object.put("hit", waiter.is_hit);
        object.put("admitted", waiter.was_admitted);
        object
    };
    let prefix = |prefix: &PrefixWaits| {
        let mut object = Object::default();
        object.put("prefix", u64::from(prefix.prefix));
        object.put("requests", prefix.requests);
        object.put("hits", prefix.hits);
        object.put("mean_wait_ms", prefix.waited_s / prefix.requests as f64 * 1e3);
        object.put("max_wait_ms", prefix.longest_s * 1e3);
        object.put("overtaken_by", prefix.overtaken_by);
        Value::Object(object)
    };
    let mut object = Object::default();
    object.put("caches_prefixes", report.caches_prefixes);
    object.put("hits", class(&report.hits));
    object.put("misses", class(&report.misses));
    // What `queue_time` is of the whole run, in its two parts.
    for (name, part) in [
        ("front_end", &report.front_end),
        ("engine_queue", &report.engine_queue),
    ] {
        distribution_ms(&mut object, name, part, &PERCENTILES, None);
    }
    if !report.priorities.is_empty() {
        let each = report
            .priorities
            .iter()
            .map(|one| Value::Object(of_priority(one)));
        object.put("priorities", each.collect::<Vec<_>>());
        object.put("of_other_priorities", report.of_other_priorities);
    }
    object.put("overtaken_share", report.overtaken_share());
    object.put("never_admitted", report.never_admitted);
    object.put("most_overtaken", report.most_overtaken.as_ref().map(waiter));
    let longest = report.longest.iter().map(|one| Value::Object(waiter(one)));
    object.put("longest", longest.collect::<Vec<_>>());
    object.put("prefixes", report.prefixes.iter().map(prefix).collect::<Vec<_>>());
    object
}

fn of_priority(of: &PriorityWaits) -> Object {
    let mut object = Object::default();
    object.put("priority", Value::Signed(of.priority));
    object.put("sent", of.sent);
    object.put("completed", of.ttft.count());
    for (name, of) in [("wait", &of.waits), ("ttft", &of.ttft), ("e2el", &of.e2el)] {
        distribution_ms(&mut object, name, of, &PERCENTILES, None);
    }
    object
}
