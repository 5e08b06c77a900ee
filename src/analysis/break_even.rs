//! When loading KV beats computing it again (LM-10).
//!
//! A prompt that is in a tier as whole chunks is loaded, and its last token computed; or it is computed, in steps of the
//! token budget. Both on an idle replica. Loading pays above a bandwidth: KV bytes of a token ÷ time to compute it.

use crate::cost::{Chunk, StepCost, StepLoad};
use crate::engine::lmcache::{LmcacheConfig, TierConfig, transfer_time};
use crate::facts::KvTier;
use crate::units::{Bytes, BytesPerSec, Picos};

/// Prompts that are tried out, at most.
const PROMPTS_MAX: u32 = 1024;

/// Loading against computing, on one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct BreakEven {
    /// Prompt whose computation gives the time of a token.
    pub prompt_tokens: u32,
    /// What computing it takes.
    pub compute: Picos,
    /// KV bytes of a token on one rank.
    pub bytes_per_token: Bytes,
    /// Ranks, each of which loads its share at once.
    pub ranks: u32,
    /// What each rank must load per second for loading to pay.
    pub needed: BytesPerSec,
    /// By tier.
    pub tiers: Vec<TierBreakEven>,
}

/// One tier.
#[derive(Clone, Debug, PartialEq)]
pub struct TierBreakEven {
    /// Which.
    pub tier: KvTier,
    /// What reaches each rank per second, all of the way.
    pub bandwidth: BytesPerSec,
    /// Look-up and latency.
    pub fixed: Picos,
    /// What loading the prompt takes, `fixed` included.
    pub load: Picos,
    /// The step that computes the last token.
    pub step: Picos,
    /// From how many tokens on loading pays; `None` if it never does up to the longest prompt.
    pub from_tokens: Option<u32>,
}

/// Compares the two for every tier. `budget` is the most tokens of a step, `longest` the longest prompt.
pub fn break_even(config: &LmcacheConfig, cost: &mut dyn StepCost, budget: u32, longest: u32) -> BreakEven {
    let chunk = config.chunk_size;
    let prompt_tokens = (budget.min(longest) / chunk).max(1) * chunk;
    let compute = compute_time(cost, prompt_tokens, budget);
    let tiers = [
        config.host.map(|_| (KvTier::Host, None)),
        config.disk.map(|disk| (KvTier::Disk, Some(disk))),
        config.remote.map(|remote| (KvTier::Remote, Some(remote))),
    ];
    let stride = (longest / chunk).div_ceil(PROMPTS_MAX).max(1) * chunk;
    let prompts: Vec<(u32, Picos, Picos)> = (1..=longest / stride)
        .map(|nth| nth * stride)
        .map(|tokens| {
            (
                tokens,
                compute_time(cost, tokens, budget),
                last_step(cost, tokens),
            )
        })
        .collect();
    let step = last_step(cost, prompt_tokens);
    let tiers = tiers.into_iter().flatten().map(|(tier, behind)| {
        let fixed = config.lookup_latency + behind.map_or(Picos::ZERO, |behind| behind.latency);
        let way = |tokens: u32| way_time(config, behind, tokens);
        let loses = |&(tokens, compute, step): &(u32, Picos, Picos)| fixed + way(tokens) + step >= compute;
        let last_loss = prompts.iter().rposition(loses);
        let first_gain = last_loss.map_or(0, |at| at + 1);
        let bytes = config.rank_bytes(prompt_tokens).0 as f64;
        TierBreakEven {
            tier,
            bandwidth: BytesPerSec(bytes / way(prompt_tokens).seconds()),
            fixed,
            load: fixed + way(prompt_tokens),
            step,
            from_tokens: prompts.get(first_gain).map(|&(tokens, ..)| tokens),
        }
    });
    BreakEven {
        prompt_tokens,
        compute,
        bytes_per_token: config.bytes_per_token,
        ranks: config.ranks,
        needed: BytesPerSec(config.rank_bytes(prompt_tokens).0 as f64 / compute.seconds()),
        tiers: tiers.collect(),
    }
}

/// From a tier up to the GPU, without look-up and latency.
fn way_time(config: &LmcacheConfig, behind: Option<TierConfig>, tokens: u32) -> Picos {
    let first = behind.map_or(Picos::ZERO, |behind| {
        transfer_time(config.all_bytes(tokens), behind.read_bandwidth)
    });
    first + transfer_time(config.rank_bytes(tokens), config.load_bandwidth)
}

/// A prompt alone, in steps of the budget.
fn compute_time(cost: &mut dyn StepCost, tokens: u32, budget: u32) -> Picos {
    let mut time = Picos::ZERO;
    let mut computed = 0;
    while computed < tokens {
        let new = budget.min(tokens - computed);
        time += if new == 1 {
            last_step(cost, computed + 1)
        } else {
            cost.step(&StepLoad {
                chunks: vec![Chunk { computed, new }],
                sampled_rows: u32::from(computed + new == tokens),
                ..StepLoad::default()
            })
        };
        computed += new;
    }
    time
}

/// The last of `tokens` tokens alone.
fn last_step(cost: &mut dyn StepCost, tokens: u32) -> Picos {
    let load = StepLoad::of_decodes(1, tokens).reading(cost.reads_at_most());
    cost.decode(1).of(&load)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::linear::LinearCost;
    use crate::kv::CachePolicy;

    fn config(load: f64, disk: f64) -> LmcacheConfig {
        let behind = TierConfig {
            capacity: Bytes(1 << 40),
            read_bandwidth: BytesPerSec(disk),
            write_bandwidth: BytesPerSec(disk),
            latency: Picos::ZERO,
        };
        LmcacheConfig {
            chunk_size: 256,
            save_unfull_chunk: false,
            save_decode_cache: false,
            min_retrieve_tokens: 0,
            cache_policy: CachePolicy::Lru,
            enable_async_loading: false,
            layers: None,
            bytes_per_token: Bytes(131_072),
            ranks: 1,
            lookup_latency: Picos(1_000_000_000),
            load_bandwidth: BytesPerSec(load),
            store_bandwidth: BytesPerSec(load),
            host: Some(Bytes(1 << 40)),
            disk: Some(behind),
            remote: None,
        }
    }

    #[test]
    fn the_8b_at_16_us_a_token_needs_8_gb_per_second() {
        let mut cost = LinearCost::new(0.0, 16e-6, 0.0);
        let told = break_even(&config(20e9, 4e9), &mut cost, 8192, 8192);
        assert!((told.needed.0 - 8.192e9).abs() < 1e6, "{told:?}");
        assert_eq!(told.compute, Picos(131_072_000_000));
        let [host, disk] = &told.tiers[..] else {
            panic!("two tiers")
        };
        // 6.55 µs a token against 16, and a look-up of 1 ms: from 106 tokens on, so from the first chunk.
        assert_eq!(host.from_tokens, Some(256));
        assert_eq!(host.load, Picos(1_000_000_000 + 53_687_091_200));
        // 32.8 + 6.55 µs a token never pay.
        assert_eq!(disk.from_tokens, None);
        assert!((disk.bandwidth.0 - 1.0 / (1.0 / 4e9 + 1.0 / 20e9)).abs() < 1e3);
    }

    #[test]
    fn fixed_costs_set_the_shortest_prompt() {
        let mut cost = LinearCost::new(0.0, 16e-6, 0.0);
        let slow = LmcacheConfig {
            lookup_latency: Picos(5_000_000_000),
            ..config(20e9, 40e9)
        };
        let told = break_even(&slow, &mut cost, 8192, 8192);
        // 5 ms ÷ (16 − 6.55 µs) = 529 tokens, and 5 ms ÷ (16 − 6.55 − 3.28 µs) = 811.
        let from: Vec<_> = told.tiers.iter().map(|tier| tier.from_tokens).collect();
        assert_eq!(from, [Some(768), Some(1024)]);
    }
}
