//! What work would take by itself: a prompt on an empty server, and the decodes of a step without the prompts in it.

use rustc_hash::FxHashMap;

use super::history::cuts_prompts;
use crate::cost::{DecodeCost, StepCost, StepLoad};
use crate::engine::EngineSpec;
use crate::sim::Pool;
use crate::units::Picos;

/// Prompts whose time is remembered; with more kinds of them than these all are asked for anew.
const REMEMBERED: usize = 1 << 16;

/// The price of work on the servers of one pool.
pub(super) struct Alone {
    cost: Box<dyn StepCost>,
    /// Most tokens of a prompt in a step.
    chunk: u32,
    reads_at_most: Option<u32>,
    decodes: Vec<Option<DecodeCost>>,
    /// By cached and known tokens.
    prompts: FxHashMap<(u32, u32), Picos>,
    load: StepLoad,
}

impl Alone {
    pub(super) fn of(pool: &Pool) -> Alone {
        let cost = (pool.cost)();
        Alone {
            reads_at_most: cost.reads_at_most(),
            cost,
            chunk: chunk(&pool.engine),
            decodes: Vec::new(),
            prompts: FxHashMap::default(),
            load: StepLoad::default(),
        }
    }

    /// The time of a prompt of which `cached` tokens are there, cut as the engine cuts it where nobody else is.
    pub(super) fn prompt(&mut self, cached: u32, known: u32) -> Picos {
        if let Some(time) = self.prompts.get(&(cached, known)) {
            return *time;
        }
        let (mut time, mut computed) = (Picos::ZERO, cached);
        while computed < known {
            let new = (known - computed).min(self.chunk);
            self.load.clear();
            match computed + new == known {
                true => {
                    self.load.add_within(computed, new, self.reads_at_most);
                    self.load.sampled_rows = 1;
                }
                false => self.load.chunks.push(crate::cost::Chunk { computed, new }),
            }
            time += match self.load.only_decodes() {
                true => self.cost.decode(1).of(&self.load),
                false => self.cost.step(&self.load),
            };
            computed += new;
        }
        if self.prompts.len() >= REMEMBERED {
            self.prompts.clear();
        }
        self.prompts.insert((cached, known), time);
        time
    }

    /// The time of a step's decodes without the prompts that share it.
    pub(super) fn decodes(&mut self, step: &StepLoad) -> Picos {
        if step.decode_seqs == 0 {
            return Picos::ZERO;
        }
        let contexts = StepLoad {
            sampled_rows: step.decode_seqs + step.drafts,
            ..step.contexts()
        };
        if step.drafts > 0 {
            return self.cost.step(&contexts);
        }
        let batch = step.decode_seqs as usize;
        if self.decodes.len() <= batch {
            self.decodes.resize(batch + 1, None);
        }
        let law = self.decodes[batch].get_or_insert_with(|| self.cost.decode(step.decode_seqs));
        law.of(&contexts)
    }
}

/// Most tokens of a prompt that an engine computes in one step where it serves nobody else.
fn chunk(engine: &EngineSpec) -> u32 {
    if !cuts_prompts(engine) {
        return u32::MAX;
    }
    let budget = engine.prompt_tokens_per_step();
    let chunk = match engine {
        EngineSpec::Vllm(config) => match config.long_prefill_token_threshold {
            0 => budget,
            _ if config.switches.threshold_not_when_alone => budget,
            threshold => budget.min(threshold),
        },
        EngineSpec::Sglang(config) => budget / config.page_size * config.page_size,
        EngineSpec::Trtllm(_) | EngineSpec::Scheduled(_) => budget,
    };
    chunk.max(1)
}
