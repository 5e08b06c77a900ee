//! The part of a fit that stands for shared prefixes: groups of requests with a prefix in front.
//!
//! A group's prefix is the same for short and long prompts, so a trace whose long prompts share more cannot be matched in
//! every quantile: the share of tokens found by a cache is kept, and prompts shorter than the prefix become that long.

use super::fit::three_figures;
use super::twin;
use crate::workload::{Prompt, Request};

/// Groups of requests that share a prefix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedPrefix {
    /// How many groups.
    pub count: u32,
    /// Tokens of the prefix.
    pub prefix_len: u32,
}

/// Groups that give a prompt's tokens the share of hits that the trace has, reused as far apart as there.
///
/// A prefix stands in front of every prompt, so its length solves `H·L / (L + E[max(1, Q − L)]) = share`, with `H` the
/// share of requests that are not the first of their group and `Q` the total prompt length.
pub(super) fn fit_prefix(requests: &[Request], share: f64, total: &[f64]) -> Option<FittedPrefix> {
    if share <= 0.0 {
        return None;
    }
    let n = requests.len() as f64;
    let hit_share = |count: f64| 1.0 - count * (1.0 - (1.0 - 1.0 / count).powf(n)) / n;
    // A geometric number of requests between two uses of one of `count` groups has the median `count · ln 2`.
    let mut count = (median_reuse_distance(requests) / std::f64::consts::LN_2)
        .round()
        .max(1.0);
    while count > 1.0 && hit_share(count) < 1.2 * share {
        count = (count / 2.0).floor().max(1.0);
    }
    let grid: Vec<f64> = (0..1000)
        .map(|i| twin::interpolate(total, (f64::from(i) + 0.5) / 1000.0))
        .collect();
    let shared = |length: f64| {
        let own = grid.iter().map(|tokens| (tokens - length).max(1.0)).sum::<f64>() / grid.len() as f64;
        hit_share(count) * length / (length + own)
    };
    let (mut low, mut high) = (0.0, total[total.len() - 1]);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if shared(middle) < share {
            low = middle
        } else {
            high = middle
        }
    }
    let prefix_len = three_figures(high) as u32;
    (prefix_len > 0).then_some(FittedPrefix {
        count: count as u32,
        prefix_len,
    })
}

/// Median number of requests between a prompt and the last one that shares its longest known beginning; blocks that
/// most requests hold (a system prompt) do not count.
fn median_reuse_distance(requests: &[Request]) -> f64 {
    let mut uses: rustc_hash::FxHashMap<u64, (usize, usize)> = rustc_hash::FxHashMap::default();
    let mut distances = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        let Prompt::Pieces(pieces) = &request.prompt else {
            continue;
        };
        let known = pieces.iter().map_while(|piece| uses.get(&piece.segment.0)).last();
        if let Some(&(last, times)) = known.filter(|(_, times)| 2 * times < index) {
            distances.push((index - last, times));
        }
        for piece in pieces {
            let entry = uses.entry(piece.segment.0).or_default();
            *entry = (index, entry.1 + 1);
        }
    }
    distances.sort_unstable();
    distances
        .get(distances.len() / 2)
        .map_or(1.0, |&(distance, _)| distance as f64)
}
