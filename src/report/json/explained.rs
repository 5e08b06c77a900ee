//! `explain` as one JSON object.

use super::knee::{estimate, optional, scenario};
use super::value::{Object, Value};
use super::{FORMAT_VERSION, VERSION, anatomy};
use crate::report::explained::{Explained, Found, Tried, WhatIf};
use crate::report::trust::trust_word;
use crate::report::views::verdict_word;

/// Writes all of it as a line of JSON, without a newline at its end.
#[must_use]
pub fn explained(view: &Explained) -> String {
    let mut object = Object::default();
    object.put("format_version", FORMAT_VERSION);
    object.put("version", VERSION);
    object.put("subject", view.subject.clone());
    object.put("scenario", scenario(view.scenario.as_deref(), view.seed));
    if let Some(missing) = view.interrupted {
        object.put("interrupted", true);
        object.put("changes_missing", missing.changes as u64);
        object.put("knees_missing", missing.knees as u64);
    }
    object.put("load", view.load.clone());
    object.put("load_of", view.of.code());
    object.put("load_value", optional(view.load_value));
    object.put(
        "bound_by",
        view.bound
            .as_ref()
            .map_or(Value::Null, |(_, code)| (*code).into()),
    );
    object.put(
        "at_the_knee",
        view.at_knee.clone().map_or(Value::Null, Value::Text),
    );
    object.put(
        "p50_ttft_ms",
        optional(view.p50_ttft_s.map(|seconds| seconds * 1e3)),
    );
    object.put("slo", view.slo.map(|slo| slo.code()));
    object.put(
        "no_answers",
        view.standing.instead.clone().map_or(Value::Null, Value::Text),
    );
    object.put(
        "client_is_the_limit",
        view.client.is_some() || matches!(view.base.knee, Found::Client(_)),
    );
    object.put("same_requests", view.are_same_requests);
    object.put("as_it_is", tried(&view.base));
    object.put("anatomy", anatomy::object(&view.anatomies));
    let what_ifs = view
        .what_ifs
        .iter()
        .map(|one| Value::Object(what_if(one, &view.base)));
    object.put("what_ifs", what_ifs.collect::<Vec<_>>());
    let left_out = view.left_out.iter().map(|(name, why)| {
        let mut object = Object::default();
        object.put("name", name.clone());
        object.put("why", why.clone());
        Value::Object(object)
    });
    object.put("left_out", left_out.collect::<Vec<_>>());
    object.put("no_knee", view.no_knee.clone().map_or(Value::Null, Value::Text));
    let mut audits = Object::default();
    for (name, sentence) in &view.audits {
        audits.put(name, sentence.clone());
    }
    object.put("audits", audits);
    let mut trust = Object::default();
    for (component, how) in &view.trust {
        trust.put(component, trust_word(*how).to_owned());
    }
    object.put("trust", trust);
    object.put("assumptions", view.assumptions.clone());
    object.put("notes", view.notes.clone());
    object.line()
}

fn what_if(of: &WhatIf, base: &Tried) -> Object {
    let mut object = Object::default();
    object.put("name", of.name.clone());
    object.put("flags", of.flags.clone());
    object.put("kind", of.kind.code());
    object.put("was_tried", of.tried.is_some());
    if let Some(own) = &of.tried {
        object.extend(tried(own));
    }
    object.put("knee_change_beyond_chance", optional(of.gain(base)));
    object.put("p99_ttft_change_beyond_chance", optional(of.ttft_change(base)));
    let (itl, tpot) = (
        of.moved(base, |tried| tried.p99_itl),
        of.moved(base, |tried| tried.p99_tpot),
    );
    object.put("p99_itl_change_beyond_chance", optional(itl));
    object.put("p99_tpot_change_beyond_chance", optional(tpot));
    object.put("makes_the_load_stable", of.rescued(base).is_some());
    object
}

fn tried(tried: &Tried) -> Object {
    let ms = |seconds: Option<f64>| optional(seconds.map(|seconds| seconds * 1e3));
    let mut object = Object::default();
    object.put("gpus", tried.gpus);
    object.put("verdict", verdict_word(tried.verdict).to_owned());
    object.put("requests", tried.requests);
    object.put("unanswered", tried.unanswered);
    object.put("knee", estimate(tried.knee.knee()));
    let why = match &tried.knee {
        Found::None => Value::Text("no load meets the SLO".to_owned()),
        Found::Client(most) => Value::Text(format!(
            "the client is the limit, which pushes at most {}",
            most.value
        )),
        Found::Failed(why) => Value::Text(why.clone()),
        Found::Knee(_) | Found::Nothing => Value::Null,
    };
    object.put("no_knee", why);
    object.put("p99_ttft_ms", ms(tried.p99_ttft.map(|p99| p99.value)));
    object.put(
        "p99_ttft_low_ms",
        ms(tried.p99_ttft.map(|p99| p99.low).filter(|low| *low > 0.0)),
    );
    object.put(
        "p99_ttft_high_ms",
        ms(tried.p99_ttft.map(|p99| p99.high).filter(|high| high.is_finite())),
    );
    object.put("p99_itl_ms", ms(tried.p99_itl.map(|p99| p99.value)));
    object.put("p99_tpot_ms", ms(tried.p99_tpot.map(|p99| p99.value)));
    object
}
