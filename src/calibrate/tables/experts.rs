//! Rows of routed experts: what a benchmark routes to the GPU that it times.
//!
//! `dist` is `balanced` (rows go to the experts in turn) or `power_law_α`. With `ep` above 1 the timed GPU has one part of
//! the experts: any where routing is balanced, the fullest where it is skewed. Tokens are those of all GPUs.

use std::collections::BTreeSet;

use super::kernels::{Read, format};
use super::skew::power_law;
use super::{Row, Table};
use crate::calibrate::observation::{Block, Kernel, Observation};
use crate::cost::experts::{Load, MoeShape};
use crate::cost::operators::table_widths;

pub(super) fn row(row: &Row) -> Read {
    let dtype = row.text("dtype");
    let Some(format) = format(dtype) else {
        return Ok(Err(format!("the format `{dtype}` is not modelled")));
    };
    let narrow = |key: &str| {
        let value = row.size(key)?;
        u32::try_from(value).map_err(|_| format!("`{key}` is {value}, more than is possible"))
    };
    let (experts, experts_per_token, tokens) = (narrow("experts")?, narrow("topk")?, row.size("tokens")?);
    let ranks = narrow("ep")?;
    if ranks > 1 && row.text("fw") == "sglang" {
        return Ok(Err(
            "SGLang's times with expert parallelism are hardly below those without: what a GPU was sent is not told".to_owned(),
        ));
    }
    if experts_per_token > experts || experts % ranks != 0 {
        return Err(format!(
            "{experts_per_token} of {experts} experts on {ranks} GPUs: each GPU holds as many, and a token uses some of them"
        ));
    }
    let dist = row.text("dist");
    let load = match dist.strip_prefix("power_law_") {
        None if matches!(dist, BALANCED | "uniform") => {
            Load::balanced(experts, experts_per_token, tokens, ranks)
        }
        None => return Ok(Err(format!("routing by `{dist}` is not modelled"))),
        Some(_) if experts > MANY => {
            return Ok(Err("skewed routing to so many experts is not modelled".to_owned()));
        }
        Some(exponent) => {
            let parsed = exponent.parse().ok();
            let exponent = parsed
                .filter(|exponent: &f64| exponent.is_finite() && *exponent >= 0.0)
                .ok_or_else(|| format!("`dist` is `{dist}`; its exponent is no number from 0 on"))?;
            power_law(exponent, experts, experts_per_token, tokens, ranks)
        }
    };
    let inner = row.size("inter")?.div_ceil(row.size("tp")?);
    let shape = MoeShape {
        tokens,
        hidden: narrow("hidden")?,
        matrices: 3,
        intermediate: u32::try_from(inner)
            .map_err(|_| format!("`inter` is {inner}, more than is possible"))?,
        experts,
        experts_per_token,
        load,
        weight_bytes: table_widths(format).0,
        activation_bytes: 2.0,
    };
    let name = format!("{dist}, {} tp {} ep {ranks}", row.text("model"), row.text("tp"));
    Ok(Ok((Block::Moe(format), Kernel::Moe(shape), name)))
}

const BALANCED: &str = "balanced";
/// Above any model's; the draws of skewed routing take time.
const MANY: u32 = 4096;

/// Leaves skewed routing out of a fit where balanced routing was measured, too: which experts are popular is one draw in
/// each row, and the expected one is what can be computed.
pub fn prefer_balanced(table: &mut Table) {
    let is_balanced = |row: &Observation| row.shape.starts_with(BALANCED);
    let balanced: BTreeSet<Block> = table
        .observations
        .iter()
        .filter(|row| is_balanced(row))
        .map(|row| row.block)
        .collect();
    let before = table.observations.len();
    table
        .observations
        .retain(|row| !balanced.contains(&row.block) || is_balanced(row));
    let left = (before - table.observations.len()) as u64;
    if left > 0 {
        let reason = "routing is skewed, and the same was measured with balanced routing";
        table.left.insert(reason.to_owned(), left);
    }
}
