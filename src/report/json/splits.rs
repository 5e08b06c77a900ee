//! Every share of some GPUs between prefill and decode as one JSON object.

use super::cost::Cost;
use super::knee::{estimate, optional, scenario};
use super::value::{Object, Value};
use crate::report::First;
use crate::report::splits::{Costs, SplitRow, Splits};

/// Writes all ways as a line of JSON, without a newline at its end. Rates are requests per second.
#[must_use]
pub fn splits(splits: &Splits) -> String {
    let mut object = Object::default();
    object.put("format_version", super::FORMAT_VERSION);
    object.put("version", super::VERSION);
    object.put("scenario", scenario(splits.scenario.as_deref(), splits.seed));
    object.put("subject", splits.subject.clone());
    object.put("gpus", u64::from(splits.gpus));
    object.put("promises", splits.promises.clone());
    if splits.missing > 0 {
        object.put("interrupted", true);
    }
    let best = splits.best_split().map(|row| Value::Object(way(row, splits)));
    object.put("best_split", best.unwrap_or(Value::Null));
    let (apart, together) = (splits.best_split(), splits.together());
    let ratio = apart
        .zip(together)
        .filter(|(_, together)| together.rate() > 0.0)
        .map(|(apart, together)| apart.rate() / together.rate());
    object.put("apart_over_together", optional(ratio));
    let ways = splits.rows.iter();
    let ways = ways.map(|row| Value::Object(way(row, splits))).collect();
    object.put("ways", Value::List(ways));
    object.line()
}

fn way(row: &SplitRow, splits: &Splits) -> Object {
    let mut object = Object::default();
    let (prefill, decode) = row.split.unwrap_or((0, 0));
    object.put("prefill", u64::from(prefill));
    object.put("decode", u64::from(decode));
    object.put(
        "both",
        u64::from(if row.split.is_none() { splits.replicas } else { 0 }),
    );
    object.put("knee", estimate(row.within_slo));
    object.put("at_most", optional(row.bound));
    object.put("saturation", estimate(row.saturation));
    object.put("limited_by", row.breaks.map(First::words));
    object.put("breaks_first", row.breaks.map(First::code));
    object.put("prefill_busy", optional(row.busy.map(|busy| busy.0)));
    object.put("decode_busy", optional(row.busy.map(|busy| busy.1)));
    object.put("transfer_share_of_ttft", optional(row.transfer_share));
    object.put("usd_per_hour", optional(row.usd_per_hour));
    object.put(
        "usd_per_million_output_tokens",
        optional(row.usd_per_million_output_tokens()),
    );
    let paid = Cost {
        gpus: Some(f64::from(splits.gpus)),
        usd_per_hour: row.usd_per_hour,
        usd_per_million_output_tokens: row.usd_per_million_output_tokens(),
        usd_per_million_tokens: row.usd_per_million_tokens(),
        by_pool: row.usd_by_pool.clone(),
        prices: splits.price_source.clone(),
    };
    object.put("cost", Value::Object(paid.object()));
    if let Some(costs) = &row.costs {
        object.put("costs", Value::Object(costs_of(costs)));
    }
    object
}

fn costs_of(costs: &Costs) -> Object {
    let mut object = Object::default();
    object.put("prefill_replica_s", optional(costs.prompt_s));
    object.put("output_tokens", costs.output_tokens);
    object.put("mean_tpot_s", costs.tpot_s);
    object.put("median_itl_s", costs.itl_s[0]);
    object.put("p99_itl_s", costs.itl_s[1]);
    object.put("kv_bytes", optional(costs.transfer.map(|(bytes, _)| bytes)));
    object.put(
        "mean_message_s",
        optional(costs.transfer.map(|(_, seconds)| seconds)),
    );
    object
}
