//! What times to first token and per output token are made of, as an object. Times in milliseconds.

use super::value::{Object, Value};
use crate::metrics::{Anatomies, TpotPart, TtftPart};

/// Of groups of requests, as a line of JSON without a newline at its end.
#[must_use]
pub fn anatomy(anatomies: &Anatomies) -> String {
    object(anatomies).line()
}

/// Of groups of requests: all, those about percentiles, the slowest.
pub(super) fn object(anatomies: &Anatomies) -> Object {
    let ttft = anatomies.by_ttft().into_iter().map(|group| {
        let mut parts = Object::default();
        for part in TtftPart::ALL {
            parts.put(part.name(), group.part_s(part) * 1e3);
        }
        let mut object = Object::default();
        object.put("group", group.name.to_owned());
        object.put("requests", group.requests);
        object.put("from_rank", group.ranks.0);
        object.put("to_rank", group.ranks.1);
        object.put("mean_ttft_ms", group.ttft_s() * 1e3);
        object.put("queue_ms", group.queue_s() * 1e3);
        object.put("parts_ms", parts);
        object.put("prompt_tokens_to_compute", group.prompt_tokens);
        Value::Object(object)
    });
    let tpot = anatomies.by_tpot().into_iter().map(|group| {
        let mut parts = Object::default();
        for part in TpotPart::ALL {
            parts.put(part.name(), group.part_s(part) * 1e3);
        }
        let mut object = Object::default();
        object.put("group", group.name.to_owned());
        object.put("requests", group.requests);
        object.put("mean_tpot_ms", group.tpot_s() * 1e3);
        object.put("parts_ms", parts);
        Value::Object(object)
    });
    let mut object = Object::default();
    object.put("requests_kept", anatomies.requests().len() as u64);
    object.put("one_in", anatomies.one_in);
    object.put("ttft", ttft.collect::<Vec<_>>());
    object.put("tpot", tpot.collect::<Vec<_>>());
    object
}
