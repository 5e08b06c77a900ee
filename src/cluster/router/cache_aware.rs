//! `sglang_router`'s default policy: by longest match in its own tree of texts, unless loads are out of balance.

use super::text_tree::TextTree;
use super::{Router, View};
use crate::units::Picos;
use crate::workload::Request;

/// Its parameters, by the names and defaults of the command line (RT-4).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheAware {
    /// The share of the text that must match for the match to decide.
    pub cache_threshold: f64,
    /// Loads are out of balance if they differ by more requests than this …
    pub balance_abs_threshold: u32,
    /// … and by more than this factor.
    pub balance_rel_threshold: f64,
    /// Tokens of text kept for each replica when the tree is trimmed.
    pub max_tree_tokens: u64,
    /// How often it is trimmed.
    pub eviction_interval: Picos,
}

impl Default for CacheAware {
    fn default() -> Self {
        CacheAware {
            cache_threshold: 0.3,
            balance_abs_threshold: 64,
            balance_rel_threshold: 1.5,
            // 2²⁶ characters, of which a token has about four.
            max_tree_tokens: 1 << 24,
            eviction_interval: Picos(120_000_000_000_000),
        }
    }
}

/// The policy with its tree. It never learns what the replicas evict (RT-1).
#[derive(Debug)]
pub(super) struct CacheAwareRouter {
    options: CacheAware,
    tree: TextTree,
    next_eviction: Picos,
}

impl CacheAwareRouter {
    pub(super) fn new(options: CacheAware, replicas: usize) -> CacheAwareRouter {
        CacheAwareRouter {
            options,
            tree: TextTree::new(replicas),
            next_eviction: options.eviction_interval,
        }
    }

    fn choose(&mut self, request: &Request, view: &View<'_>) -> Option<usize> {
        let loads = || view.up().map(|(_, load)| load.requests);
        let (low, high) = (loads().min()?, loads().max()?);
        let is_imbalanced = high - low > self.options.balance_abs_threshold
            && f64::from(high) > self.options.balance_rel_threshold * f64::from(low);
        if is_imbalanced {
            return view.fewest_requests();
        }
        let (matched, owner) = self.tree.longest_match(request);
        let share = f64::from(matched) / f64::from(request.prompt_tokens);
        match owner {
            Some(owner) if share > self.options.cache_threshold => {
                if view.loads[owner].is_up {
                    return Some(owner);
                }
                self.tree.forget(owner);
                view.up().next().map(|(first, _)| first)
            }
            _ => view.fewest_requests(),
        }
    }
}

impl Router for CacheAwareRouter {
    fn route(&mut self, request: &Request, now: Picos, view: &View<'_>) -> Option<usize> {
        if now >= self.next_eviction {
            self.tree.trim(self.options.max_tree_tokens);
            let interval = self.options.eviction_interval.0.max(1);
            self.next_eviction = Picos((now.0 / interval + 1).saturating_mul(interval));
        }
        let chosen = self.choose(request, view)?;
        self.tree.insert(request, chosen);
        Some(chosen)
    }
}
