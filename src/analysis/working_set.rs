//! The working set of a workload's prompts: hit rate of a prefix cache over its size.
//!
//! One pass over the requests gives all sizes ([`crate::kv`]'s stack distances). It assumes least recently used and one
//! request at a time, so it is what the prompts themselves allow: an engine that serves many at once holds the blocks of
//! those that run, too, and computes a prefix twice where two ask for it at once. Prompts and answers are cached, as both
//! engines do. A size that the largest request does not fit has a hit rate all the same.

use crate::kv::StackDistances;
use crate::units::Picos;
use crate::workload::{Piece, Request, Traffic};

/// Share of an endless cache's hits that counts as all but all of them.
pub const KNEE_SHARE: f64 = 0.95;

/// Requests between two questions whether to go on.
const GLANCE: u64 = 1 << 12;
/// Texts, runs of blocks that were always asked for together, that are held in memory: at about 200 B each 3 GB.
pub const TEXTS_MAX: usize = 15_000_000;

/// How many of the requests were looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// All.
    AtAll,
    /// As many as until the caller had enough.
    UntilStopped,
    /// As many as until [`TEXTS_MAX`] different texts had been seen.
    UntilFull,
}

/// Share of the prompt tokens of requests that caches of so many tokens find, in blocks of 16 tokens, vLLM's: what a fit
/// compares a trace with its twin by.
#[must_use]
pub fn hit_rates(requests: &[Request], cache_tokens: &[u64]) -> Vec<f64> {
    const BLOCK: u32 = 16;
    let set = WorkingSet::of(requests.iter().cloned(), BLOCK);
    cache_tokens
        .iter()
        .map(|tokens| set.hit_rate(tokens / u64::from(BLOCK)))
        .collect()
}

/// Hit rate over size.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkingSet {
    /// Tokens of a block.
    pub block: u32,
    /// Requests looked at.
    pub requests: u64,
    /// Their prompt tokens.
    pub prompt_tokens: u64,
    /// Tokens of the longest prompt.
    pub longest_prompt_tokens: u32,
    /// Blocks of different content.
    pub distinct_blocks: u64,
    /// Blocks that the largest request needs.
    pub largest_request_blocks: u64,
    /// Corners of the curve: (blocks, hit tokens), from (0, 0) on.
    corners: Vec<(u64, u64)>,
}

impl WorkingSet {
    /// The working set of requests in the order in which they come.
    #[must_use]
    pub fn of(requests: impl Iterator<Item = Request>, block: u32) -> WorkingSet {
        WorkingSet::of_some(requests, block, |_| true).0
    }

    /// The same of as many of the requests as are looked at before their texts are more than are held in memory, or before
    /// `go_on`, which is told now and then how many were, says no; and why it ended.
    #[must_use]
    pub fn of_some(
        requests: impl Iterator<Item = Request>,
        block: u32,
        mut go_on: impl FnMut(u64) -> bool,
    ) -> (WorkingSet, Looked) {
        let mut looked = Looked::AtAll;
        let mut stack = StackDistances::new(block);
        let (mut count, mut longest) = (0, 0);
        let mut pieces: Vec<Piece> = Vec::new();
        for request in requests {
            pieces.clear();
            pieces.extend(request.prompt_pieces());
            pieces.push(Piece {
                segment: request.output_segment,
                start: request.prompt_tokens,
                tokens: request.output_tokens,
            });
            // The last output token never has KV (EV-5).
            let tokens = request.prompt_tokens + request.output_tokens - 1;
            stack.visit(&pieces, request.prompt_tokens, tokens);
            longest = longest.max(request.prompt_tokens);
            count += 1;
            if count % GLANCE == 0 && !go_on(count) {
                looked = Looked::UntilStopped;
                break;
            }
            if stack.texts() >= TEXTS_MAX {
                looked = Looked::UntilFull;
                break;
            }
        }
        let set = WorkingSet {
            block,
            requests: count,
            prompt_tokens: stack.queried_tokens(),
            longest_prompt_tokens: longest,
            distinct_blocks: stack.distinct_blocks(),
            largest_request_blocks: stack.largest_request_blocks(),
            corners: stack.corners(),
        };
        (set, looked)
    }

    /// The working set of synthetic traffic, each request of which ends when it comes; `most` requests at most, and as
    /// many as [`WorkingSet::of_some`] looks at.
    #[must_use]
    pub fn of_traffic(
        mut traffic: impl Traffic,
        most: u64,
        block: u32,
        go_on: impl FnMut(u64) -> bool,
    ) -> (WorkingSet, Looked) {
        let mut sent = 0;
        let requests = std::iter::from_fn(|| {
            if sent == most {
                return None;
            }
            let arrival: Picos = traffic.next_arrival()?;
            let request = traffic.take();
            traffic.ended(request.id, arrival);
            sent += 1;
            Some(request)
        });
        WorkingSet::of_some(requests, block, go_on)
    }

    /// Hit tokens of a cache of so many blocks.
    #[must_use]
    pub fn hit_tokens(&self, blocks: u64) -> u64 {
        let after = self.corners.partition_point(|&(size, _)| size <= blocks);
        let (from, hits) = self.corners[after - 1];
        match self.corners.get(after) {
            None => hits,
            Some(&(to, more)) => {
                let part = u128::from(more - hits) * u128::from(blocks - from) / u128::from(to - from);
                hits + part as u64
            }
        }
    }

    /// Share of prompt tokens that a cache of so many blocks finds.
    #[must_use]
    pub fn hit_rate(&self, blocks: u64) -> f64 {
        self.hit_tokens(blocks) as f64 / self.prompt_tokens.max(1) as f64
    }

    /// Share of prompt tokens that an endless cache finds.
    #[must_use]
    pub fn endless_hit_rate(&self) -> f64 {
        self.hit_rate(u64::MAX)
    }

    /// The smallest cache that has `share` of an endless cache's hits; `None` where nothing is ever found.
    #[must_use]
    pub fn blocks_for_share(&self, share: f64) -> Option<u64> {
        let all = self.corners.last().map_or(0, |corner| corner.1);
        if all == 0 {
            return None;
        }
        let wanted = (share * all as f64).ceil() as u64;
        let after = self.corners.partition_point(|&(_, hits)| hits < wanted).max(1);
        let ((from, hits), &(to, more)) = (self.corners[after - 1], self.corners.get(after)?);
        let part = u128::from(wanted - hits) * u128::from(to - from);
        Some(from + part.div_ceil(u128::from(more - hits).max(1)) as u64)
    }

    /// The knee: the smallest cache with [`KNEE_SHARE`] of all hits.
    #[must_use]
    pub fn knee_blocks(&self) -> Option<u64> {
        self.blocks_for_share(KNEE_SHARE)
    }

    /// Points to draw, (blocks, hit rate): up to `count` sizes in geometric steps from `smallest` on, and the last corner.
    #[must_use]
    pub fn points(&self, smallest: u64, count: u32) -> Vec<(u64, f64)> {
        let smallest = smallest.max(1);
        let largest = self.distinct_blocks.max(smallest);
        let ratio = largest as f64 / smallest as f64;
        let mut sizes: Vec<u64> = (0..=count)
            .map(|at| (smallest as f64 * ratio.powf(f64::from(at) / f64::from(count.max(1)))).round() as u64)
            .collect();
        sizes.dedup();
        sizes
            .into_iter()
            .map(|size| (size, self.hit_rate(size)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::constant::ConstantCost;
    use crate::engine::{EngineConfig, KvGroups, Policy, VersionSwitches};
    use crate::facts::{Fact, Observer};
    use crate::sim::{Frontend, Simulation, Until};
    use crate::workload::{Arrivals, Client, Draws, Generator, Lengths, Prefix, WorkloadSpec};

    /// One request after the other; prompts of 8 + 5 blocks with answers that fill whole blocks.
    fn one_by_one(output_len: u32, zipf: f64) -> WorkloadSpec {
        WorkloadSpec {
            classes: Vec::new(),
            arrivals: Arrivals::AllAtOnce,
            lengths: Lengths::Fixed {
                input_len: 80,
                output_len,
            },
            prefix: Prefix::Groups {
                count: 12,
                prefix_len: 128,
                zipf,
                exact_shares: false,
            },
            client: Client {
                max_concurrency: Some(1),
                rescale_arrivals: false,
                draws: Draws::Own,
                timeout: None,
                priorities: Vec::new(),
            },
            num_prompts: Some(400),
            duration: None,
            endings: None,
        }
    }

    #[derive(Default)]
    struct Hits(u64);

    impl Observer for Hits {
        fn observe(&mut self, fact: &Fact<'_>) {
            if let Fact::Admitted { cached_tokens, .. } = fact {
                self.0 += u64::from(*cached_tokens);
            }
        }
    }

    /// Hit tokens of vLLM's engine with a pool of so many usable blocks.
    fn engine_hits(spec: &WorkloadSpec, blocks: u32) -> u64 {
        let config = EngineConfig {
            profile: "test".to_owned(),
            max_model_len: 1024,
            max_num_seqs: 8,
            max_num_batched_tokens: 2048,
            enable_chunked_prefill: true,
            long_prefill_token_threshold: 0,
            policy: Policy::Fcfs,
            block_size: 16,
            num_gpu_blocks: blocks + 1,
            kv_groups: KvGroups::ONE,
            enable_prefix_caching: true,
            watermark_blocks: 0,
            prefill_schedule_interval: 1,
            stages: 1,
            queue_depth: 1,
            max_num_queued_reqs: None,
            idle_pass_sleep: Picos(1),
            speculation: None,
            switches: VersionSwitches::VLLM_0_33,
        };
        let cost = ConstantCost {
            per_step: Picos::from_seconds(0.01),
            per_decode_seq: Picos::ZERO,
        };
        let traffic = Generator::new(spec, 5);
        let mut hits = Hits::default();
        let mut simulation = Simulation::new(config, Box::new(cost), Frontend::default(), traffic);
        simulation.advance(Until::DRAINED, &mut hits);
        hits.0
    }

    #[test]
    fn an_engine_that_serves_one_by_one_hits_as_the_curve_says() {
        for zipf in [0.0, 1.2] {
            // 208 + 49 − 1 tokens have KV: 16 whole blocks, no partial one.
            let spec = one_by_one(49, zipf);
            let curve = WorkingSet::of_traffic(Generator::new(&spec, 5), u64::MAX, 16, |_| true).0;
            assert_eq!((curve.requests, curve.largest_request_blocks), (400, 16));
            for blocks in [16, 24, 33, 40, 64, 100, 150, 200, 1000] {
                assert_eq!(
                    engine_hits(&spec, blocks),
                    curve.hit_tokens(u64::from(blocks)),
                    "{blocks} blocks"
                );
            }
        }
    }

    #[test]
    fn a_partial_block_takes_at_most_one_block_of_the_cache() {
        let spec = one_by_one(40, 0.8);
        let curve = WorkingSet::of_traffic(Generator::new(&spec, 5), u64::MAX, 16, |_| true).0;
        for blocks in [20, 40, 64, 90, 120, 200] {
            let hits = engine_hits(&spec, blocks);
            let (low, high) = (
                curve.hit_tokens(u64::from(blocks) - 1),
                curve.hit_tokens(u64::from(blocks)),
            );
            assert!(
                (low..=high).contains(&hits),
                "{blocks} blocks: {low} {hits} {high}"
            );
        }
    }

    #[test]
    fn the_knee_is_the_smallest_size_with_its_share() {
        let curve = WorkingSet::of_traffic(Generator::new(&one_by_one(49, 1.0), 5), u64::MAX, 16, |_| true).0;
        let knee = curve.knee_blocks().unwrap();
        let wanted = KNEE_SHARE * curve.endless_hit_rate();
        assert!(curve.hit_rate(knee) >= wanted && curve.hit_rate(knee - 1) < wanted);
        let points = curve.points(16, 40);
        assert!(
            points
                .windows(2)
                .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1)
        );
        assert!((points[points.len() - 1].1 - curve.endless_hit_rate()).abs() < 1e-12);
        let alone = WorkloadSpec {
            prefix: Prefix::None,
            ..one_by_one(49, 0.0)
        };
        let some = WorkingSet::of_traffic(Generator::new(&alone, 5), 50, 16, |_| true).0;
        assert_eq!(some.knee_blocks(), None);
    }

    #[test]
    fn a_pass_ends_where_it_is_told_to() {
        let endless = WorkloadSpec {
            num_prompts: None,
            ..one_by_one(49, 1.0)
        };
        let (some, looked) = WorkingSet::of_traffic(Generator::new(&endless, 5), u64::MAX, 16, |count| {
            count < 3 * GLANCE
        });
        assert_eq!((some.requests, looked), (3 * GLANCE, Looked::UntilStopped));
    }
}
