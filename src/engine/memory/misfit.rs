//! What is short when nothing fits, in types and in words.

use std::fmt;

use super::MemoryOptions;
use super::options::ESTIMATES_OFF;
use crate::units::Bytes;

/// Digits behind the point of a GiB that tell kilobytes apart; a block is never smaller.
const MOST_PLACES: usize = 6;

/// Nothing can be served, and what would change that.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub struct DoesNotFit {
    /// The device.
    pub device: String,
    /// What is short.
    pub shortage: Shortage,
    /// Changes that make it fit, each judged anew; the smallest first. Empty where none of those tried does.
    pub remedies: Vec<Remedy>,
}

/// What is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Flags that no device can satisfy.
    HeadsNotDivisible {
        /// `query` or `KV`.
        kind: &'static str,
        /// How many.
        heads: u32,
        /// TP.
        tensor_parallel: u32,
    },
    /// Weights and the rest alone exceed the budget.
    NoRoomForKv {
        /// Weights of a rank.
        weights: Bytes,
        /// Activations, graphs, runtime.
        other: Bytes,
        /// `total · gpu_memory_utilization`.
        requested: Bytes,
    },
    /// The pool is smaller than one request of `max_model_len` (V1-71).
    OneRequestDoesNotFit {
        /// The pool.
        kv_pool: Bytes,
        /// Bytes of one longest request.
        needed: Bytes,
        /// Its tokens.
        max_model_len: u32,
        /// Who sized the pool.
        sized_by: PoolSize,
    },
    /// A pool that was asked for by size leaves the weights no room in the device's memory.
    PoolBeyondMemory {
        /// The pool.
        kv_pool: Bytes,
        /// Weights of a rank.
        weights: Bytes,
        /// All of the device.
        memory: Bytes,
        /// Who sized the pool.
        sized_by: PoolSize,
    },
}

/// Who says how large the KV pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolSize {
    /// What is left of the budget.
    TheRest,
    /// [`MemoryOptions::kv_cache_memory_bytes`].
    Bytes,
    /// [`MemoryOptions::num_gpu_blocks_override`].
    Blocks,
}

impl PoolSize {
    /// Who that is under these options.
    #[must_use]
    pub fn of(options: &MemoryOptions) -> PoolSize {
        match (options.num_gpu_blocks_override, options.kv_cache_memory_bytes) {
            (Some(_), _) => PoolSize::Blocks,
            (None, Some(_)) => PoolSize::Bytes,
            (None, None) => PoolSize::TheRest,
        }
    }

    /// The flag that sizes the pool.
    #[must_use]
    pub fn flag(self) -> Option<&'static str> {
        match self {
            PoolSize::TheRest => None,
            PoolSize::Bytes => Some("--kv-cache-memory-bytes"),
            PoolSize::Blocks => Some("--num-gpu-blocks-override"),
        }
    }
}

/// A change of flags after which the model fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Remedy {
    /// As one would type it, `--quantization fp8`.
    pub flags: String,
    /// Tokens that the pool then holds.
    pub tokens: u64,
    /// It fits by less than estimates may be off ([`super::MemoryPlan::is_tight`]).
    pub is_tight: bool,
}

impl DoesNotFit {
    /// What is short, in words.
    #[must_use]
    pub fn reason(&self) -> String {
        self.shortage.told_of(&self.device)
    }

    /// The changes that make it fit, in a line.
    #[must_use]
    pub fn smallest_changes(&self) -> String {
        if self.remedies.is_empty() {
            return "no change of quantization, context or GPUs that was tried makes it fit".to_owned();
        }
        let flags: Vec<&str> = self.remedies.iter().map(|remedy| remedy.flags.as_str()).collect();
        format!("smallest change that fits: {}", flags.join("   |   "))
    }

    /// Those of the changes that fit by less than estimates may be off, and how much that is.
    #[must_use]
    pub fn tight_changes(&self) -> Option<String> {
        let tight = self.remedies.iter().filter(|remedy| remedy.is_tight);
        let tight: Vec<&str> = tight.map(|remedy| remedy.flags.as_str()).collect();
        (!tight.is_empty()).then(|| {
            format!(
                "fits barely, by less than the {:.1} GiB by which what is estimated may be off: {}",
                ESTIMATES_OFF.gib(),
                tight.join("   |   ")
            )
        })
    }
}

impl fmt::Display for DoesNotFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "does not fit: {}\n  {}",
            self.reason(),
            self.smallest_changes()
        )
    }
}

impl Shortage {
    /// As many digits of GiB as tell what is needed from what there is: one, unless both then read alike.
    fn places(self) -> usize {
        let (needed, offered) = match self {
            Shortage::HeadsNotDivisible { .. } => return 1,
            Shortage::NoRoomForKv {
                weights,
                other,
                requested,
            } => ([weights, other], requested),
            Shortage::OneRequestDoesNotFit { kv_pool, needed, .. } => ([needed, Bytes(0)], kv_pool),
            Shortage::PoolBeyondMemory {
                kv_pool,
                weights,
                memory,
                ..
            } => ([kv_pool, weights], memory),
        };
        let is_told = |places: &usize| {
            let unit = 10f64.powi(*places as i32);
            let read = |bytes: Bytes| (bytes.gib() * unit).round();
            needed.map(read).iter().sum::<f64>() > read(offered)
        };
        (1..MOST_PLACES).find(is_told).unwrap_or(MOST_PLACES)
    }

    /// The same in words.
    #[must_use]
    pub fn told_of(self, device: &str) -> String {
        let places = self.places();
        let gib = |bytes: Bytes| format!("{:.places$} GiB", bytes.gib());
        match self {
            Shortage::HeadsNotDivisible {
                kind,
                heads,
                tensor_parallel,
            } => format!("{heads} {kind} heads cannot be divided by {tensor_parallel} ranks"),
            Shortage::NoRoomForKv {
                weights,
                other,
                requested,
            } => {
                let rest = match other {
                    Bytes(0) => String::new(),
                    other => format!(" + {} activations and runtime", gib(other)),
                };
                format!(
                    "needs {} weights{rest} a GPU, {device} offers {}",
                    gib(weights),
                    gib(requested)
                )
            }
            Shortage::OneRequestDoesNotFit {
                kv_pool,
                needed,
                max_model_len,
                sized_by,
            } => {
                let one = format!(
                    "one request of {max_model_len} tokens needs {} of KV cache",
                    gib(needed)
                );
                match sized_by.flag() {
                    Some(flag) => format!("{one}, {flag} gives {}", gib(kv_pool)),
                    None => format!("{one}, {device} has {} left", gib(kv_pool)),
                }
            }
            Shortage::PoolBeyondMemory {
                kv_pool,
                weights,
                memory,
                sized_by,
            } => format!(
                "{} asks for {} of KV cache beside {} of weights, {device} has {}",
                sized_by.flag().unwrap_or("the pool"),
                gib(kv_pool),
                gib(weights),
                gib(memory)
            ),
        }
    }
}

#[cfg(test)]
mod tests;
