//! Changes of flags after which a model fits.
//!
//! Each is written into the input as it was given and judged anew, as if the user had asked for it: what the engine refuses is not
//! proposed, nor what fits only while other defaults stay as they were. Left out: what the traffic's promises make of it.

use toml::Value;

use super::capacity::count;
use super::document::Document;
use super::files::Files;
use super::pipeline::STAGES;
use crate::engine::memory::{MemoryOptions, PoolSize, Remedy};
use crate::model::{Dtype, ModelShape, Quantization};
use crate::sim::Role;

/// A shorter context than this, in tokens, is no answer to a share of the memory that is too small, nor to too few GPUs.
const CONTEXT_MIN: u64 = 1024;

/// Tensor-parallel sizes that are proposed: those of one NVLink domain.
const RANKS: [u32; 4] = [1, 2, 4, 8];

/// Numbers of stages that are proposed where one node is too small: nodes of as many ranks as one has.
const NODES: [u32; 4] = [2, 3, 4, 8];

/// What was asked for and does not fit.
pub(super) struct Asked<'a> {
    /// The server's input, without what was assumed about it.
    pub(super) document: &'a Document,
    pub(super) role: Role,
    pub(super) model: &'a ModelShape,
    pub(super) options: &'a MemoryOptions,
    /// Tokens that the longest prompt needs of the context.
    pub(super) least_context: u32,
    pub(super) files: &'a dyn Files,
}

/// A change of one flag.
#[derive(Clone)]
struct Change {
    /// As one would type it.
    flag: String,
    key: &'static str,
    /// What the key then has; nothing where it is taken out.
    value: Option<Value>,
}

fn with(key: &'static str, flag: &str, value: impl Into<Value>) -> Change {
    let value = value.into();
    let word = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Change {
        flag: format!("{flag} {word}"),
        key,
        value: Some(value),
    }
}

fn without(key: &'static str, flag: &str) -> Change {
    Change {
        flag: format!("without {flag}"),
        key,
        value: None,
    }
}

fn ranks(count: u32) -> Change {
    with("cluster.tensor_parallel_size", "-tp", count)
}

impl Asked<'_> {
    /// Single changes first, from the least to the most disruptive, then pairs that need fewer GPUs than any of those.
    pub(super) fn remedies(&self) -> Vec<Remedy> {
        // A flag that is to blame: no other change is as small as taking it back, or as a context that such a share holds.
        if let Some(without) = self.pool_by_formula() {
            return vec![without];
        }
        if let Some(larger) = self.larger_share() {
            let shorter = self.shorter_context(&[]);
            let shorter = shorter.filter(|remedy| remedy.tokens >= CONTEXT_MIN);
            return std::iter::once(larger).chain(shorter).collect();
        }
        let fp8 = self.stored_as("fp8");
        let alone = fp8.as_ref().and_then(|fp8| self.tried(fp8));
        let on_these_gpus = [alone, self.shorter_context(&[]), self.fp8_kv()];
        let on_these_gpus: Vec<Remedy> = on_these_gpus.into_iter().flatten().collect();
        if !on_these_gpus.is_empty() {
            return on_these_gpus.into_iter().chain(self.more_gpus(&[])).collect();
        }
        let candidates = [
            fp8.as_ref().and_then(|fp8| self.shorter_context(fp8)),
            self.more_gpus_and_shorter_context(&[]),
            self.more_gpus(&[]),
        ];
        let mut found: Vec<Remedy> = candidates.into_iter().flatten().collect();
        if !found.is_empty() {
            found.extend(self.next_larger().filter(|larger| !found.contains(larger)));
            return found;
        }
        // Four bits come late, since they take a checkpoint of their own, and several nodes last.
        let more = |narrow: &[Change]| {
            let shorter = self.more_gpus_and_shorter_context(narrow);
            shorter.or_else(|| self.more_gpus(narrow))
        };
        let in_four_bits = |awq: &[Change]| {
            let alone = self.tried(awq).or_else(|| self.shorter_context(awq));
            alone.or_else(|| more(awq))
        };
        fp8.and_then(|fp8| more(&fp8))
            .or_else(|| in_four_bits(&self.stored_as("awq")?))
            .into_iter()
            .chain(self.more_stages())
            .collect()
    }

    /// What is left with these changes; nothing if they are refused or it does not fit.
    fn tried(&self, changes: &[Change]) -> Option<Remedy> {
        let mut changed = self.document.clone();
        for Change { flag, key, value } in changes {
            match value {
                Some(value) => changed.set(key, value.clone(), flag),
                None => changed.remove(key),
            }
        }
        let found = count(changed, self.role, self.files).ok()?;
        let plan = found.plan.ok()?;
        let flags: Vec<&str> = changes.iter().map(|change| change.flag.as_str()).collect();
        Some(Remedy {
            flags: flags.join(" "),
            tokens: plan.tokens(),
            is_tight: plan.is_tight(&found.options),
        })
    }

    /// Without the flag that sizes the pool.
    fn pool_by_formula(&self) -> Option<Remedy> {
        let sized_by = PoolSize::of(self.options);
        let key = match sized_by {
            PoolSize::TheRest => return None,
            PoolSize::Bytes => "engine.kv_cache_memory_bytes",
            PoolSize::Blocks => "engine.num_gpu_blocks_override",
        };
        self.tried(&[without(key, sized_by.flag()?)])
    }

    /// The smallest share of the memory that is enough, where a smaller one than the engine's own was asked for.
    fn larger_share(&self) -> Option<Remedy> {
        let budget = self.options.budget;
        let key = match budget.flag {
            "--mem-fraction-static" => "sglang.mem_fraction_static",
            "--kv-cache-free-gpu-memory-fraction" => "trtllm.kv_cache_free_gpu_memory_fraction",
            _ => "engine.gpu_memory_utilization",
        };
        let at = |steps: u32| self.tried(&[with(key, budget.flag, f64::from(steps) / budget.digits)]);
        let (mut low, mut high) = (
            (self.options.gpu_memory_utilization * budget.digits).floor() as u32,
            (budget.usual * budget.digits).round() as u32,
        );
        let mut found = (low < high).then(|| at(high))??;
        // A larger share fits where a smaller one does.
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match at(middle) {
                Some(smaller) => (found, high) = (smaller, middle),
                None => low = middle,
            }
        }
        Some(found)
    }

    /// Weights in fewer bits. An engine takes no other format than that of a checkpoint that is quantized already.
    fn stored_as(&self, method: &str) -> Option<[Change; 1]> {
        let is_free = self.model.quantization == Quantization::None;
        is_free.then(|| [with("model.quantization", "--quantization", method)])
    }

    fn fp8_kv(&self) -> Option<Remedy> {
        let flag = "--kv-cache-dtype";
        let format = self.options.kv_format;
        if format.is_mixed() {
            let skipped = "model.kv_cache_dtype_skip_layers";
            return self.tried(&[without(skipped, &format!("{flag}-skip-layers"))]);
        }
        let is_wide = format.dtype.bytes() > Dtype::Fp8.bytes();
        is_wide.then(|| self.tried(&[with("model.kv_cache_dtype", flag, "fp8")]))?
    }

    /// The longest context of whole kibitokens (or, below, whole blocks) that fits, beside what else is changed.
    fn shorter_context(&self, beside: &[Change]) -> Option<Remedy> {
        let at = |tokens: u32| {
            let length = with("engine.max_model_len", "--max-model-len", tokens);
            self.tried(&[beside, &[length]].concat())
        };
        let units = [CONTEXT_MIN as u32, self.options.block_size].into_iter();
        let mut units = units.filter(|&unit| unit <= self.options.max_model_len);
        let (unit, mut found) = units.find_map(|unit| Some((unit, at(unit)?)))?;
        // Fitting is monotone in the length, so the largest multiple is found by bisection.
        let (mut low, mut high) = (1, self.options.max_model_len / unit + 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match at(middle * unit) {
                Some(longer) => (found, low) = (longer, middle),
                None => high = middle,
            }
        }
        (low * unit >= self.least_context).then_some(found)
    }

    fn is_divided(&self) -> bool {
        self.model
            .indivisible_heads(self.options.tensor_parallel)
            .is_none()
    }

    /// Larger groups of ranks, the nearest first; before them, where the heads cannot be divided by what was asked for, the smaller ones.
    fn other_ranks(&self) -> impl Iterator<Item = u32> {
        let (asked, is_divided) = (self.options.tensor_parallel, self.is_divided());
        let smaller = RANKS.into_iter().rev();
        let smaller = smaller.filter(move |&ranks| !is_divided && ranks < asked);
        smaller.chain(RANKS.into_iter().filter(move |&ranks| ranks > asked))
    }

    /// The nearest larger group, where the heads cannot be divided by what was asked for: who asked for three GPUs may want no fewer.
    fn next_larger(&self) -> Option<Remedy> {
        let larger = RANKS
            .into_iter()
            .filter(|&ranks| ranks > self.options.tensor_parallel);
        let mut larger = larger.filter(|_| !self.is_divided());
        larger.find_map(|count| self.tried(&[ranks(count)]))
    }

    /// The nearest of the other groups of ranks.
    fn more_gpus(&self, beside: &[Change]) -> Option<Remedy> {
        self.other_ranks()
            .find_map(|count| self.tried(&[beside, &[ranks(count)]].concat()))
    }

    /// The nearest of them with which some context of at least [`CONTEXT_MIN`] fits, if the whole does not.
    fn more_gpus_and_shorter_context(&self, beside: &[Change]) -> Option<Remedy> {
        self.other_ranks()
            .find_map(|count| {
                let grouped = [beside, &[ranks(count)]].concat();
                let shorter = self.shorter_context(&grouped);
                let remedy = shorter.filter(|remedy| remedy.tokens >= CONTEXT_MIN)?;
                Some((self.tried(&grouped).is_none(), remedy))
            })
            .and_then(|(is_shortened, remedy)| is_shortened.then_some(remedy))
    }

    /// The fewest stages of a whole node's ranks, where no number of ranks of one node is enough.
    fn more_stages(&self) -> Option<Remedy> {
        let (tensor_parallel, stages) = (self.options.tensor_parallel, self.options.pipeline_parallel);
        let divides = |count: &u32| self.model.indivisible_heads(*count).is_none();
        let is_divided = self.is_divided();
        // A node may have fewer GPUs than eight.
        let groups = RANKS.into_iter().rev().filter(divides);
        let groups: Vec<u32> = groups
            .filter(|&count| count >= tensor_parallel || !is_divided)
            .collect();
        let is_plain = |nodes: &u32| {
            let changed = MemoryOptions {
                pipeline_parallel: *nodes,
                ..self.options.clone()
            };
            changed.has_plain_stages(self.model)
        };
        let more = NODES.into_iter().filter(|&nodes| nodes > stages);
        more.filter(|nodes| self.options.can_pipeline && is_plain(nodes))
            .find_map(|nodes| {
                let staged = with(STAGES, "-pp", nodes);
                groups
                    .iter()
                    .find_map(|&count| self.tried(&[ranks(count), staged.clone()]))
            })
    }
}

#[cfg(test)]
mod tests;
