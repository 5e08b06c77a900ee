//! The figures of one run of a comparison.

use crate::analysis::{Outcome, RunResult, Verdict};
use crate::facts::TierAccount;
use crate::metrics::{Distribution, RelaySummary, SeriesPoint, Stage, Summary, WaitReport};
use crate::report::json;
use crate::report::versus::MEASURES;

/// What is kept of a run.
pub(super) struct Run {
    pub(super) verdict: Verdict,
    /// In the order of [`MEASURES`].
    pub(super) figures: Vec<Option<f64>>,
    /// Time to first token of those that were answered, by request; in seconds.
    pub(super) ttfts: Vec<(u64, f64)>,
    pub(super) sent: u64,
    /// The same figures of the steady stretch, where the run has one.
    pub(super) steady: Option<Vec<Option<f64>>>,
    /// What must be said beside it.
    pub(super) remarks: Vec<String>,
    /// Conservation laws that it breaks.
    pub(super) violations: Vec<String>,
    /// What charts are drawn from, of the first seed.
    pub(super) shown: Option<Shown>,
}

/// What charts are drawn from.
pub(super) struct Shown {
    pub(super) whole: Summary,
    pub(super) series: Vec<SeriesPoint>,
}

impl Run {
    /// The figures of a run whose records were kept.
    pub(super) fn of(outcome: Outcome, waits: &WaitReport, remarks: Vec<String>, is_shown: bool) -> Run {
        let evicted = outcome.evicted_tokens;
        let result = outcome.result;
        let pools = result.relays.as_ref().map(|relays| Pools::of(&result, relays));
        let tiers = result.tiers.as_ref().map(|told| Tiers::of(&told.account));
        let figures = |summary: &Summary| -> Vec<Option<f64>> {
            let of = |key| figure(key, summary, waits, evicted, (pools.as_ref(), tiers.as_ref()));
            MEASURES.iter().map(|measure| of(measure.key)).collect()
        };
        let mut ttfts: Vec<(u64, f64)> = result
            .records
            .iter()
            .flatten()
            .filter_map(|record| Some((record.completion.id.0, json::ttft_s(record)?)))
            .collect();
        ttfts.sort_by_key(|(id, _)| *id);
        Run {
            verdict: result.verdict,
            figures: figures(&result.whole),
            steady: result.steady.as_ref().map(figures),
            remarks,
            violations: result.violations,
            ttfts,
            sent: result.whole.sent,
            shown: is_shown.then_some(Shown {
                whole: result.whole,
                series: result.series,
            }),
        }
    }
}

/// What prefill and decode pools did.
struct Pools {
    /// Mean share of the time in which a step ran.
    busy: [f64; 2],
    /// Share of TTFT that is left of the transfer.
    transfer_share: f64,
}

impl Pools {
    fn of(result: &RunResult, relays: &RelaySummary) -> Pools {
        let span_s = result.whole.duration_s.max(f64::MIN_POSITIVE);
        let busy = [true, false].map(|prefills| {
            let replicas = result.by_replica.iter().zip(&relays.links);
            let of_role = replicas.filter(|(_, link)| link.prefills == prefills);
            let (count, busy_s) = of_role.fold((0, 0.0), |(count, sum), (replica, _)| {
                (count + 1, sum + replica.busy_s)
            });
            (busy_s / span_s / f64::from(count.max(1))).min(1.0)
        });
        Pools {
            busy,
            transfer_share: relays.stage_s(Stage::Transfer) / relays.ttft_s().max(f64::MIN_POSITIVE),
        }
    }
}

/// What tiers of KV served.
struct Tiers {
    tokens: u64,
    /// Of all prompt tokens that were asked for.
    share: f64,
}

impl Tiers {
    fn of(account: &TierAccount) -> Tiers {
        let tokens = account.tiers.iter().map(|tier| tier.served_tokens).sum();
        Tiers {
            tokens,
            share: tokens as f64 / account.asked_tokens.max(1) as f64,
        }
    }
}

/// A figure by its name; `None` where the run has none. Those of the cache are zero where nothing is cached.
fn figure(
    key: &str,
    whole: &Summary,
    waits: &WaitReport,
    evicted: u64,
    (pools, tiers): (Option<&Pools>, Option<&Tiers>),
) -> Option<f64> {
    let share = |part: u64, all: u64| (all > 0).then(|| part as f64 / all as f64);
    let per_second = |number: u64| (whole.duration_s > 0.0).then(|| number as f64 / whole.duration_s);
    let p99 = |distribution: &Distribution| distribution.quantile_s(0.99);
    let longest = [&waits.hits.waits, &waits.misses.waits].map(Distribution::max_s);
    match key {
        "hit_rate" => share(whole.cache_hit_tokens, whole.cache_queries_tokens),
        "tier_hit_rate" => Some(tiers.map_or(0.0, |tiers| tiers.share)),
        "saved_prefill_tokens" => {
            Some((whole.cache_hit_tokens + tiers.map_or(0, |tiers| tiers.tokens)) as f64)
        }
        "evicted_tokens" => Some(evicted as f64),
        "mean_ttft_s" => whole.ttft.mean_s(),
        "p99_ttft_s" => p99(&whole.ttft),
        "mean_ttft_hit_s" => waits.hits.ttft.mean_s(),
        "mean_ttft_miss_s" => waits.misses.ttft.mean_s(),
        "mean_tpot_s" => seen(&whole.tpot)?.mean_s(),
        "p99_tpot_s" => p99(seen(&whole.tpot)?),
        "p99_itl_s" => p99(seen(&whole.itl)?),
        "p99_e2el_s" => p99(&whole.e2el),
        "request_throughput" => per_second(whole.completed),
        "output_throughput" => per_second(whole.output_tokens),
        "attainment" => whole.good.and_then(|good| share(good, whole.ended())),
        "longest_wait_s" => longest.into_iter().flatten().reduce(f64::max),
        "overtaken_share" => Some(waits.overtaken_share()),
        "preemptions" => Some(whole.preemptions as f64),
        "lost_share" => share(whole.lost(), whole.ended()),
        "prefill_busy" => pools.map(|pools| pools.busy[0]),
        "decode_busy" => pools.map(|pools| pools.busy[1]),
        "transfer_share" => pools.map(|pools| pools.transfer_share),
        _ => unreachable!("every measure has its figure"),
    }
}

/// Gaps between tokens; none where every answer leaves whole, which is not the same as gaps of 0 s.
fn seen(gaps: &Distribution) -> Option<&Distribution> {
    (gaps.max_s() != Some(0.0)).then_some(gaps)
}

/// Shares of the requests answered in both whose first token came over a second later, and sooner; `None` where the
/// requests are not the same.
pub(super) fn moved(base: &[Run], other: &[Run]) -> Option<(f64, f64)> {
    const A_SECOND: f64 = 1.0;
    let (mut pairs, mut later, mut sooner) = (0u64, 0u64, 0u64);
    for (base, other) in base.iter().zip(other) {
        let mut rest = other.ttfts.iter().peekable();
        for &(id, before) in &base.ttfts {
            while rest.peek().is_some_and(|(candidate, _)| *candidate < id) {
                rest.next();
            }
            let Some(&&(_, after)) = rest.peek().filter(|(candidate, _)| *candidate == id) else {
                continue;
            };
            pairs += 1;
            later += u64::from(after > before + A_SECOND);
            sooner += u64::from(after < before - A_SECOND);
        }
    }
    let share = |part: u64| part as f64 / pairs as f64;
    (pairs > 0).then(|| (share(later), share(sooner)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_paired_by_number() {
        let run = |ttfts: &[(u64, f64)]| Run {
            verdict: Verdict::Stable,
            figures: Vec::new(),
            ttfts: ttfts.to_vec(),
            sent: 4,
            steady: None,
            remarks: Vec::new(),
            violations: Vec::new(),
            shown: None,
        };
        let base = [run(&[(0, 1.0), (1, 1.0), (2, 5.0), (4, 1.0)])];
        let other = [run(&[(0, 1.5), (2, 1.0), (3, 9.0), (4, 2.5)])];
        // Of three pairs one is later and one sooner.
        let (later, sooner) = moved(&base, &other).unwrap();
        assert!((later - 1.0 / 3.0).abs() < 1e-12 && (sooner - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(moved(&base, &[run(&[])]), None);
    }
}
