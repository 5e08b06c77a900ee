//! What tiers of KV did: the accounts of all replicas, and first tokens with and without loaded KV.

use rustc_hash::FxHashSet;

use super::distribution::Distribution;
use crate::facts::TierAccount;
use crate::ids::{ReplicaId, RequestId};
use crate::units::Picos;

/// What the tiers of all replicas did over a whole run.
#[derive(Clone, Debug)]
pub struct TierSummary {
    /// The sum of the replicas' accounts.
    pub account: TierAccount,
    /// Time to first token of completed requests that were given KV from a tier at an admission.
    pub warm_ttft: Distribution,
    /// Of those that were not.
    pub cold_ttft: Distribution,
}

/// Collects it.
#[derive(Clone, Debug, Default)]
pub(super) struct Tiers {
    /// By replica, the latest; none unless somebody told.
    accounts: Vec<TierAccount>,
    warm: FxHashSet<RequestId>,
    warm_ttft: Distribution,
    cold_ttft: Distribution,
}

impl Tiers {
    /// A request was admitted, and `tokens` of its KV came from outside.
    pub(super) fn loaded(&mut self, id: RequestId, tokens: u32) {
        if tokens > 0 {
            self.warm.insert(id);
        }
    }

    /// A request was answered.
    pub(super) fn completed(&mut self, id: RequestId, ttft: Picos) {
        if self.warm.remove(&id) {
            self.warm_ttft.record(ttft, 1);
        } else {
            self.cold_ttft.record(ttft, 1);
        }
    }

    /// A request left without an answer.
    pub(super) fn lost(&mut self, id: RequestId) {
        self.warm.remove(&id);
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
            warm_ttft: self.warm_ttft,
            cold_ttft: self.cold_ttft,
        })
    }
}
