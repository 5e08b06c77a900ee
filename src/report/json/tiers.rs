//! What tiers of KV did, exactly.

use super::super::text_tiers::name;
use super::distribution_ms;
use super::value::Object;
use crate::facts::KvTier;
use crate::metrics::TierSummary;

pub(super) fn object(tiers: &TierSummary, percentiles: &[f64]) -> Object {
    let account = &tiers.account;
    let mut object = Object::default();
    for (key, number) in [
        ("admissions", account.admissions),
        ("asked_tokens", account.asked_tokens),
        ("local_tokens", account.local_tokens),
        ("given_up_chunks", account.given_up_chunks),
    ] {
        object.put(key, number);
    }
    object.put("load_time_s", account.load_time.seconds());
    object.put("store_time_s", account.store_time.seconds());
    object.put("aside_time_s", account.aside_time.seconds());
    for (tier, traffic) in KvTier::ALL.into_iter().zip(&account.tiers) {
        let mut one = Object::default();
        for (key, number) in [
            ("served_tokens", traffic.served_tokens),
            ("loaded_bytes", traffic.loaded_bytes),
            ("stored_chunks", traffic.stored_chunks),
            ("stored_bytes", traffic.stored_bytes),
            ("evicted_chunks", traffic.evicted_chunks),
            ("lost_chunks", traffic.lost_chunks),
            ("held_chunks", traffic.held_chunks),
        ] {
            one.put(key, number);
        }
        object.put(name(tier), one);
    }
    for (name, distribution) in [
        ("loaded_ttft", &tiers.loaded_ttft),
        ("cached_ttft", &tiers.cached_ttft),
        ("computed_ttft", &tiers.computed_ttft),
    ] {
        object.put(&format!("{name}_requests"), distribution.count());
        distribution_ms(&mut object, name, distribution, percentiles, None);
    }
    object
}
