//! Loading KV against computing it, where a fit has tiers of KV.

use serde_json::{Value, json};

use crate::analysis::BreakEven;
use crate::cli::figures::grouped;
use crate::config::{Capacity, Source};
use crate::facts::KvTier;
use crate::report::figures::{bytes_per_s, time};
use crate::units::BytesPerSec;

fn name(tier: KvTier) -> &'static str {
    match tier {
        KvTier::Host => "host",
        KvTier::Disk => "disk",
        KvTier::Remote => "remote",
    }
}

fn rate(rate: BytesPerSec) -> String {
    bytes_per_s(rate.0)
}

/// The answer: the bandwidth above which loading pays, and from how many tokens on it does.
pub(super) fn answer(told: &BreakEven) -> String {
    let tiers = told.tiers.iter().map(|tier| {
        let from = match tier.from_tokens {
            Some(tokens) => format!("pays from {} tokens", grouped(u64::from(tokens))),
            None => "never pays".to_string(),
        };
        format!("{} {}: {from}", name(tier.tier), rate(tier.bandwidth))
    });
    format!(
        "KV beats computing above {} a rank  |  {}",
        rate(told.needed),
        tiers.collect::<Vec<_>>().join("  |  ")
    )
}

/// Bandwidths and latencies that nobody gave, each with what is usual.
pub(super) fn assumptions(question: &Capacity) -> Option<String> {
    let values = question.provenance.iter().filter_map(|value| {
        let name = value.key.strip_prefix("lmcache.")?;
        let Source::Assumption(why) = &value.source else {
            return None;
        };
        let is_time = name.ends_with("bandwidth") || name.ends_with("latency");
        is_time.then(|| format!("{name} {} ({why})", value.value))
    });
    let values: Vec<String> = values.collect();
    (!values.is_empty()).then(|| values.join(" · "))
}

/// The arithmetic, a line a quantity.
pub(super) fn arithmetic(told: &BreakEven) -> Vec<(&'static str, String)> {
    let tokens = grouped(u64::from(told.prompt_tokens));
    let mut lines = vec![(
        "  break-even",
        format!(
            "{} B a token and rank ÷ ({} ÷ {tokens} tokens computed alone) = {}",
            grouped(told.bytes_per_token.0),
            time(told.compute.seconds()),
            rate(told.needed)
        ),
    )];
    for tier in &told.tiers {
        let what = match tier.tier {
            KvTier::Host => "  from host",
            KvTier::Disk => "  from disk",
            KvTier::Remote => "  from remote",
        };
        let sum = tier.load + tier.step;
        lines.push((
            what,
            format!(
                "{} look-up and latency + {tokens} tokens at {} + step of the last token {} = {}, computed {}",
                time(tier.fixed.seconds()),
                rate(tier.bandwidth),
                time(tier.step.seconds()),
                time(sum.seconds()),
                time(told.compute.seconds())
            ),
        ));
    }
    lines
}

/// All of it, in seconds and bytes per second.
pub(super) fn to_json(told: &BreakEven) -> Value {
    let tiers = told.tiers.iter().map(|tier| {
        json!({
            "tier": name(tier.tier),
            "bandwidth_bytes_per_s": tier.bandwidth.0,
            "fixed_s": tier.fixed.seconds(),
            "load_s": tier.load.seconds(),
            "last_step_s": tier.step.seconds(),
            "pays_from_tokens": tier.from_tokens,
        })
    });
    json!({
        "prompt_tokens": told.prompt_tokens,
        "compute_s": told.compute.seconds(),
        "kv_bytes_per_token_and_rank": told.bytes_per_token.0,
        "ranks": told.ranks,
        "needed_bytes_per_s_and_rank": told.needed.0,
        "tiers": tiers.collect::<Vec<_>>(),
    })
}
