//! What tiers of KV did, in a few lines: where prompt tokens came from, what was moved, and what it cost and gained.

use super::figures::{count, counted, percent, time};
use crate::analysis::RunResult;
use crate::facts::{KvTier, TierTraffic};
use crate::metrics::{Distribution, TierSummary};

/// Name and sentence of each line; none without tiers.
pub(super) fn lines(result: &RunResult) -> Vec<(&'static str, String)> {
    let Some(tiers) = &result.tiers else {
        return Vec::new();
    };
    let mut lines = vec![("kv tiers", origins(tiers))];
    lines.extend(moved(tiers).map(|moved| ("kv moved", moved)));
    lines.push(("kv time", costs(tiers, result.whole.work.busy_s)));
    lines.extend(first_tokens(tiers).map(|line| ("TTFT", line)));
    lines
}

/// The name of a tier.
pub(super) fn name(tier: KvTier) -> &'static str {
    match tier {
        KvTier::Host => "host",
        KvTier::Disk => "disk",
        KvTier::Remote => "remote",
    }
}

/// Where the tokens of admitted sequences came from.
fn origins(tiers: &TierSummary) -> String {
    let account = &tiers.account;
    let asked = account.asked_tokens.max(1) as f64;
    let mut computed = account.asked_tokens - account.local_tokens;
    let mut parts = vec![format!(
        "GPU cache {}",
        percent(account.local_tokens as f64 / asked)
    )];
    for (tier, traffic) in used(tiers) {
        computed -= traffic.served_tokens;
        parts.push(format!(
            "{} {}",
            name(tier),
            percent(traffic.served_tokens as f64 / asked)
        ));
    }
    parts.push(format!("computed {}", percent(computed as f64 / asked)));
    format!(
        "{} of {} prompt tokens",
        parts.join(" · "),
        count(account.asked_tokens)
    )
}

/// Tiers that hold or held anything.
fn used(tiers: &TierSummary) -> impl Iterator<Item = (KvTier, &TierTraffic)> {
    let all = KvTier::ALL.into_iter().zip(&tiers.account.tiers);
    all.filter(|(tier, traffic)| *tier == KvTier::Host || **traffic != TierTraffic::default())
}

fn moved(tiers: &TierSummary) -> Option<String> {
    let part = |(tier, traffic): (KvTier, &TierTraffic)| {
        let mut part = format!(
            "{} {} loaded, {} stored",
            name(tier),
            gigabytes(traffic.loaded_bytes),
            gigabytes(traffic.stored_bytes)
        );
        if traffic.evicted_chunks > 0 {
            part += &format!(", {} evicted", counted(traffic.evicted_chunks, "chunk"));
        }
        if traffic.lost_chunks > 0 {
            part += &format!(", {} lost with a replica", counted(traffic.lost_chunks, "chunk"));
        }
        part
    };
    let mut parts: Vec<String> = used(tiers).map(part).collect();
    let given_up = tiers.account.given_up_chunks;
    if given_up > 0 {
        parts.push(format!("{} found no room", counted(given_up, "chunk")));
    }
    (!parts.is_empty()).then(|| parts.join(" · "))
}

fn gigabytes(bytes: u64) -> String {
    format!("{} GB", super::figures::significant(bytes as f64 / 1e9))
}

fn costs(tiers: &TierSummary, busy_s: f64) -> String {
    let account = &tiers.account;
    let share = |seconds: f64| percent(if busy_s > 0.0 { seconds / busy_s } else { 0.0 });
    let mut line = format!(
        "look-ups and loads {} of the time of steps · stores {}",
        share(account.load_time.seconds()),
        share(account.store_time.seconds())
    );
    if account.aside_time.0 > 0 {
        let each = account.aside_time.seconds() / account.admissions.max(1) as f64;
        line += &format!(" · aside {} an admission", time(each));
    }
    line
}

/// First tokens by how a request found its KV: loaded, in the GPU's cache, or not at all.
fn first_tokens(tiers: &TierSummary) -> Option<String> {
    let part = |(what, ttft): (&str, &Distribution)| {
        let (p50, p99) = (ttft.quantile_s(0.5)?, ttft.quantile_s(0.99)?);
        let requests = counted(ttft.count(), "request");
        Some(format!("{what} p50 {} p99 {} ({requests})", time(p50), time(p99)))
    };
    let ways = [
        ("KV loaded", &tiers.loaded_ttft),
        ("on the GPU", &tiers.cached_ttft),
        ("computed", &tiers.computed_ttft),
    ];
    let parts: Vec<String> = ways.into_iter().filter_map(part).collect();
    (!parts.is_empty()).then(|| parts.join(" · "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::TierAccount;
    use crate::report::fixtures;
    use crate::units::{PICOS_PER_SECOND, Picos};

    #[test]
    fn tiers_say_where_tokens_came_from_and_what_it_cost() {
        let mut result = fixtures::stable_run();
        assert_eq!(lines(&result), []);
        let mut account = TierAccount {
            admissions: 10,
            asked_tokens: 1000,
            local_tokens: 250,
            load_time: Picos(PICOS_PER_SECOND / 10),
            store_time: Picos(PICOS_PER_SECOND / 20),
            ..TierAccount::default()
        };
        account.tiers[0] = TierTraffic {
            served_tokens: 500,
            loaded_bytes: 2_000_000_000,
            stored_bytes: 3_000_000_000,
            stored_chunks: 90,
            evicted_chunks: 1,
            ..TierTraffic::default()
        };
        let mut warm = Distribution::default();
        warm.record(Picos(PICOS_PER_SECOND / 4), 3);
        result.tiers = Some(TierSummary {
            account,
            loaded_ttft: warm,
            cached_ttft: Distribution::default(),
            computed_ttft: Distribution::default(),
        });
        result.whole.work.busy_s = 1.0;
        let told = lines(&result);
        assert_eq!(
            told[0].1,
            "GPU cache 25.0 % · host 50.0 % · computed 25.0 % of 1,000 prompt tokens"
        );
        assert_eq!(told[1].1, "host 2.00 GB loaded, 3.00 GB stored, 1 chunk evicted");
        assert_eq!(
            told[2].1,
            "look-ups and loads 10.0 % of the time of steps · stores 5.00 %"
        );
        assert_eq!(told[3].1, "KV loaded p50 250 ms p99 250 ms (3 requests)");
    }
}
