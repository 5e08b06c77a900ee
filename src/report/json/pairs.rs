//! The cheapest numbers of prefill and decode replicas as one JSON object.

use super::cost::Cost;
use super::knee::{estimate, optional, scenario};
use super::value::{Object, Value};
use crate::report::pairs::{PairRow, PairSizing};
use crate::report::trust::trust_word;
use crate::report::views::verdict_word;

/// Writes the search as a line of JSON, without a newline at its end: `sizing` has the answer and every pair that was tried.
#[must_use]
pub fn pairs(sizing: &PairSizing) -> String {
    let mut object = Object::default();
    object.put("format_version", super::FORMAT_VERSION);
    object.put("version", super::VERSION);
    object.put("scenario", scenario(sizing.scenario.as_deref(), sizing.seed));
    object.put("subject", sizing.subject.clone());
    if sizing.is_interrupted {
        object.put("interrupted", true);
    }
    object.put("sizing", Value::Object(answer(sizing)));
    object.put("cost", Value::Object(paid(sizing).object()));
    object.put("promises", sizing.promises.clone());
    let mut trust = Object::default();
    for (component, how) in &sizing.trust {
        trust.put(component, trust_word(*how).to_owned());
    }
    object.put("trust", Value::Object(trust));
    let doubt = sizing.doubt.as_ref().and_then(|doubt| doubt.as_ref().ok());
    let interval = doubt.map(|doubt| super::plimsoll::figure_interval(&doubt.knee));
    object.put("model_interval", interval);
    object.put("assumptions", sizing.assumptions.clone());
    object.put("ignored", sizing.ignored.clone());
    let unknown = sizing.doubt.iter().filter_map(|doubt| doubt.as_ref().err());
    let unknown = unknown.map(|why| format!("the model's interval is not known: {why}"));
    object.put(
        "notes",
        sizing.notes.iter().cloned().chain(unknown).collect::<Vec<_>>(),
    );
    object.line()
}

fn answer(sizing: &PairSizing) -> Object {
    let best = sizing.best();
    let mut object = Object::default();
    object.put("for_rate", sizing.rate);
    object.put("prefill", best.map(|row| row.pair.prefill));
    object.put("decode", best.map(|row| row.pair.decode));
    object.put("gpus", best.map(|row| row.gpus));
    let (low, high) = sizing.gpus_95();
    object.put("gpus_low", best.and(low));
    object.put("gpus_high", best.and(high));
    // The cheapest pairs at both ends of the model's 90 % interval.
    let doubt = sizing.doubt.as_ref().and_then(|doubt| doubt.as_ref().ok());
    for (end, pair) in [
        ("low", doubt.and_then(|doubt| doubt.fast)),
        ("high", doubt.and_then(|doubt| doubt.slow)),
    ] {
        object.put(&format!("prefill_model_{end}"), pair.map(|pair| pair.prefill));
        object.put(&format!("decode_model_{end}"), pair.map(|pair| pair.decode));
        object.put(&format!("gpus_model_{end}"), pair.map(|pair| pair.gpus));
    }
    object.put("usd_per_hour", best.and_then(|row| row.usd_per_hour));
    let per_million = sizing.usd_per_million();
    object.put(
        "usd_per_million_output_tokens",
        per_million.map(|(output, _)| output),
    );
    object.put("usd_per_million_tokens", per_million.map(|(_, all)| all));
    object.put("counted_by", "simulation");
    object.put("routing", sizing.router.clone().map_or(Value::Null, Value::Text));
    object.put("is_cheapest", sizing.is_cheapest());
    object.put("began_with", vec![sizing.start.0, sizing.start.1]);
    object.put("tried", sizing.rows.iter().map(tried).collect::<Vec<Value>>());
    object
}

/// What the pair costs.
fn paid(sizing: &PairSizing) -> Cost {
    let best = sizing.best();
    let per_million = sizing.usd_per_million();
    let each = best.and_then(|row| Some((row.pair.prefill, row.pair.decode, sizing.usd_each?)));
    let by_pool = each.map(|(prefill, decode, [of_prefill, of_decode])| {
        [
            ("prefill", prefill as f64 * of_prefill),
            ("decode", decode as f64 * of_decode),
        ]
    });
    Cost {
        gpus: best.map(|row| row.gpus as f64),
        usd_per_hour: best.and_then(|row| row.usd_per_hour),
        usd_per_million_output_tokens: per_million.map(|(output, _)| output),
        usd_per_million_tokens: per_million.map(|(_, all)| all),
        by_pool: by_pool
            .into_iter()
            .flatten()
            .map(|(name, usd)| (name.to_owned(), usd))
            .collect(),
        prices: sizing.price_source.clone(),
    }
}

fn tried(row: &PairRow) -> Value {
    let (pair, point) = (&row.pair, &row.pair.point);
    let ms = |pair: Option<(f64, f64)>| optional(pair.map(|(_, p99)| p99 * 1e3));
    let mut object = Object::default();
    object.put("prefill", pair.prefill);
    object.put("decode", pair.decode);
    object.put("gpus", row.gpus);
    object.put("usd_per_hour", row.usd_per_hour);
    object.put("verdict", verdict_word(point.verdict).to_owned());
    object.put("requests", point.requests);
    object.put("kept", point.is_within());
    object.put("attainment", estimate(point.attainment));
    object.put("p99_ttft_ms", ms(point.ttft_s));
    object.put("p99_tpot_ms", ms(point.tpot_s));
    object.put("prefill_busy", row.busy.map(|busy| busy.0));
    object.put("decode_busy", row.busy.map(|busy| busy.1));
    Value::Object(object)
}
