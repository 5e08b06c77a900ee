//! What tiers of KV did: the accounts of all replicas, and first tokens with and without loaded KV.

use rustc_hash::FxHashMap;

use super::distribution::Distribution;
use crate::facts::TierAccount;
use crate::ids::{ReplicaId, RequestId};
use crate::units::Picos;

/// What the tiers of all replicas did over a whole run.
#[derive(Clone, Debug)]
pub struct TierSummary {
    /// The sum of the replicas' accounts.
    pub account: TierAccount,
    /// Time to first token of completed requests, by how they found their KV at their first admission.
    pub loaded_ttft: Distribution,
    /// Nothing was loaded, and something was in the GPU's prefix cache.
    pub cached_ttft: Distribution,
    /// Neither: all was computed.
    pub computed_ttft: Distribution,
}

/// How a request found its KV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Loaded,
    Cached,
}

/// Collects it.
#[derive(Clone, Debug, Default)]
pub(super) struct Tiers {
    /// By replica, the latest; none unless somebody told.
    accounts: Vec<TierAccount>,
    /// Requests inside that were admitted; `None` had to compute everything.
    found: FxHashMap<RequestId, Option<Found>>,
    loaded_ttft: Distribution,
    cached_ttft: Distribution,
    computed_ttft: Distribution,
}

impl Tiers {
    /// A request was admitted, perhaps again: `cached` tokens were in the prefix cache, `loaded` ones came from outside.
    pub(super) fn admitted(&mut self, id: RequestId, cached: u32, loaded: u32) {
        let found = match (cached, loaded) {
            (0, 0) => None,
            (_, 0) => Some(Found::Cached),
            _ => Some(Found::Loaded),
        };
        self.found.entry(id).or_insert(found);
    }

    /// A request was answered.
    pub(super) fn completed(&mut self, id: RequestId, ttft: Picos) {
        let ttfts = match self.found.remove(&id).flatten() {
            Some(Found::Loaded) => &mut self.loaded_ttft,
            Some(Found::Cached) => &mut self.cached_ttft,
            None => &mut self.computed_ttft,
        };
        ttfts.record(ttft, 1);
    }

    /// A request left without an answer.
    pub(super) fn lost(&mut self, id: RequestId) {
        self.found.remove(&id);
    }

    /// A replica told what it has done so far.
    pub(super) fn account(&mut self, replica: ReplicaId, account: &TierAccount) {
        let at = replica.0 as usize;
        if self.accounts.len() <= at {
            self.accounts.resize(at + 1, TierAccount::default());
        }
        self.accounts[at].clone_from(account);
    }

    /// All of it; `None` where no replica has tiers.
    pub(super) fn conclude(self) -> Option<TierSummary> {
        let account = self.accounts.into_iter().reduce(|sum, one| sum.plus(&one))?;
        Some(TierSummary {
            account,
            loaded_ttft: self.loaded_ttft,
            cached_ttft: self.cached_ttft,
            computed_ttft: self.computed_ttft,
        })
    }
}
