//! What a step of all ranks takes: how far batches are padded, how tokens move, and each rank's own share.

use super::LockStepSpec;
use super::group::LockStep;
use super::leap::Share;
use crate::cost::{DecodeCost, Moved, StepLoad};
use crate::engine::Engine;
use crate::engine::lockstep::RankRun;
use crate::units::Picos;

impl LockStep {
    /// How ranks with batches of these sizes compute together, 0 being a dummy: the batch that each is padded to, if they are,
    /// and what the experts take of all of them.
    fn together(&mut self, sizes: &[u64], has_prompts: bool) -> (Option<u32>, Picos) {
        let ranks = sizes.len() as u64;
        let largest = sizes.iter().copied().max().unwrap_or(0).max(1);
        let captured = match has_prompts {
            false => self.engines[0].replayed(largest as u32),
            true => None,
        };
        let sum: u64 = sizes.iter().sum();
        let (padded, tokens, moved) = match (captured, self.spec) {
            (Some(batch), _) => (Some(largest as u32), u64::from(batch) * ranks, Moved::Scattered),
            (None, LockStepSpec::Agreed { .. }) => {
                let dummies = sizes.iter().filter(|&&size| size == 0).count() as u64;
                (None, sum + dummies, Moved::Scattered)
            }
            // Whatever moves less (`DpPaddingMode.get_dp_padding_mode`).
            (None, LockStepSpec::Gathered) if !has_prompts && 2 * sum > largest * ranks => {
                (Some(largest as u32), largest * ranks, Moved::Scattered)
            }
            (None, LockStepSpec::Gathered) => (None, sum, Moved::Summed),
        };
        (padded, self.shared.all_tokens(tokens, moved))
    }

    /// Sets the common duration of the step that was just launched.
    pub(super) fn price(&mut self) {
        let loads = self.engines.iter().map(Engine::newest_load);
        let sizes: Vec<u64> = loads.map(|load| load.tokens()).collect();
        let has_prompts = self.engines.iter().any(Engine::newest_extends);
        let (padded, experts) = self.together(&sizes, has_prompts);
        let mut shares = Vec::with_capacity(self.engines.len());
        let mut duration = Picos::ZERO;
        for (engine, tokens) in self.engines.iter_mut().zip(sizes) {
            let contexts = match tokens {
                0 => StepLoad::of_decodes(1, 1),
                _ => engine.newest_load().contexts(),
            };
            let own = beside(engine.newest_law(padded), experts).of(&contexts);
            duration = duration.max(own);
            shares.push((tokens > 0).then_some(own));
        }
        if let Some(jitter) = &mut self.jitter {
            duration = jitter.disturb(duration);
        }
        for engine in &mut self.engines {
            engine.retime_newest(duration);
        }
        self.shares.push_back(shares);
    }

    /// What each rank needs by itself in the steps of a run, and how many steps its batch and blocks allow; `None` if
    /// nobody works.
    pub(super) fn shares_of(&mut self, runs: &[RankRun]) -> Option<(Vec<Share>, u64)> {
        let mut limit = u64::MAX;
        let mut sizes = Vec::with_capacity(runs.len());
        for run in runs {
            sizes.push(match run {
                RankRun::Idle => 0,
                RankRun::Plain {
                    limit: own, members, ..
                } => {
                    limit = limit.min(*own);
                    u64::from(*members)
                }
            });
        }
        if sizes.iter().all(|&size| size == 0) {
            return None;
        }
        let (padded, experts) = self.together(&sizes, false);
        let mut shares = Vec::with_capacity(runs.len());
        for (engine, run) in self.engines.iter_mut().zip(runs) {
            let (members, contexts) = match *run {
                RankRun::Idle => (0, StepLoad::of_decodes(1, 1)),
                RankRun::Plain {
                    members,
                    kv_tokens,
                    longest,
                    beyond,
                    ..
                } => {
                    let contexts = StepLoad {
                        decode_seqs: members,
                        decode_kv_tokens: kv_tokens,
                        decode_longest: longest,
                        decode_beyond: beyond.0,
                        seqs_beyond: beyond.1,
                        ..StepLoad::default()
                    };
                    (members, contexts)
                }
            };
            let law = beside(engine.run_law(members, padded), experts);
            shares.push(Share::new(&law, &contexts, members));
        }
        Some((shares, limit))
    }
}

/// A rank's own share beside the experts, which are on the GPU, too.
fn beside(law: DecodeCost, experts: Picos) -> DecodeCost {
    DecodeCost {
        base: law.base + experts,
        ..law
    }
}
