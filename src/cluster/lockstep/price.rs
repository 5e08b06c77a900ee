//! What a step of all ranks takes: each rank's own share beside what is in common.

use super::LockStepSpec;
use super::group::LockStep;
use super::leap::Share;
use super::padding::{Brought, Captured, agreed, attending, gathered};
use crate::cost::{DecodeCost, StepLoad};
use crate::engine::Engine;
use crate::engine::lockstep::RankRun;
use crate::engine::rank::Padding;
use crate::units::Picos;

impl LockStep {
    /// How ranks that bring so much compute together, and what they have in common takes.
    fn together(&mut self, brought: &[Brought]) -> (Padding, Picos) {
        let rank = &self.engines[0];
        let captured = Captured {
            decodes: &|batch| rank.replayed(batch),
            pieces: &|tokens| rank.replayed_pieces(tokens),
        };
        let together = match self.spec {
            LockStepSpec::Agreed { .. } => agreed(captured, brought),
            LockStepSpec::Gathered(gathering) => gathered(gathering, captured, brought),
            LockStepSpec::Attending(how) => attending(how.pads, captured, brought),
        };
        let shared = &mut self.shared;
        let common = shared.all_tokens(together.tokens, together.moved) + shared.all_rows(together.rows);
        (together.padding, common)
    }

    /// Sets the common duration of the step that was just launched.
    pub(super) fn price(&mut self) {
        let brings = |engine: &Engine| Brought::of(engine.newest_load(), engine.newest_extends());
        let brought: Vec<Brought> = self.engines.iter().map(brings).collect();
        let (padding, common) = self.together(&brought);
        let all: u64 = brought.iter().map(|own| own.tokens).sum();
        let others = self.engines.len() as u64 - 1;
        for own in brought.iter().filter(|own| own.has_prompts) {
            self.account.with_prompts += 1;
            self.account.beside_prompts += match padding {
                Padding::Pieces(tokens) => others * tokens,
                Padding::Alone | Padding::Launched { .. } | Padding::Decodes(_) => all - own.tokens,
            };
        }
        let mut shares = Vec::with_capacity(self.engines.len());
        let mut duration = Picos::ZERO;
        for (engine, Brought { tokens, .. }) in self.engines.iter_mut().zip(brought) {
            let contexts = match (tokens, padding) {
                // Its law has the whole of a dummy prompt.
                (0, Padding::Pieces(_)) => StepLoad::default(),
                (0, _) => StepLoad::of_decodes(1, 1),
                _ => engine.newest_load().contexts(),
            };
            let own = beside(engine.newest_law(padding), common).of(&contexts);
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
        let mut brought = Vec::with_capacity(runs.len());
        for run in runs {
            let members = match run {
                RankRun::Idle => 0,
                RankRun::Plain {
                    limit: own, members, ..
                } => {
                    limit = limit.min(*own);
                    u64::from(*members)
                }
            };
            brought.push(Brought {
                tokens: members,
                rows: members,
                has_prompts: false,
            });
        }
        if brought.iter().all(|own| own.tokens == 0) {
            return None;
        }
        let (padding, common) = self.together(&brought);
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
            let law = beside(engine.run_law(members, padding), common);
            shares.push(Share::new(&law, &contexts, members));
        }
        Some((shares, limit))
    }
}

/// A rank's own share beside what is in common, which is on the GPU, too.
fn beside(law: DecodeCost, common: Picos) -> DecodeCost {
    DecodeCost {
        base: law.base + common,
        ..law
    }
}
