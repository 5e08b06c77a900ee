//! Flags of the servers and clients that people run which have no field of their own here, each with what becomes of it and why.
//!
//! Flags that share both stand in one row. Together with the flags that clap knows they are all that vLLM 0.33 has.

mod bench;
mod sglang;
mod trtllm;
mod vllm;

use bench::BENCH;
use sglang::SGLANG;
use trtllm::TRTLLM;
use vllm::VLLM;

/// What a flag without a field of its own does to a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// None: accepted and named with this reason.
    Ignored(&'static str),
    /// Some, which is not modelled: refused with this reason, except where the value is a neutral one, of which several stand
    /// with `|` between them.
    NotModelled(&'static str, &'static str),
}

/// Whether a value follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    One,
    Many,
}

/// Whether a value follows, what becomes of the flag, and the names of all flags like that, with blanks between them.
type Family = (Takes, Effect, &'static str);

// Reasons that several kinds of programs share.
const BEAMS: &str = "beam search is not modelled";
const KERNELS: &str = "the calibration says how fast kernels are";
const LOADING: &str = "loading the model is not part of serving it";
const LOGS: &str = "it changes what is logged, not what is served";
const LORA: &str = "LoRA adapters are not modelled";
const MICROBATCHES: &str = "overlapped micro-batches are not modelled yet";
const NAME: &str = "a name changes nothing";
const PROCESSES: &str = "where processes run is not modelled";
const SAMPLING: &str = "sampling does not change the time of a step here";
const SERVER: &str = "the simulated server has no such surface";
const SHAPES: &str = "changed model shapes: write the config.json and give its path";
const SPECULATION: &str = "speculative decoding is modelled for vLLM 0.33 and 0.11 and for SGLang 0.5.23";
const TEXT: &str = "tokens are simulated, not text";

fn families() -> impl Iterator<Item = &'static Family> {
    [VLLM, BENCH, SGLANG, TRTLLM].into_iter().flatten()
}

/// Finds a flag by its name in kebab case.
pub(super) fn find(name: &str) -> Option<(Takes, Effect)> {
    families()
        .find(|(.., names)| names.split(' ').any(|known| known == name))
        .map(|&(takes, effect, _)| (takes, effect))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_flag_is_listed_once() {
        let mut seen = BTreeSet::new();
        for name in families().flat_map(|(.., names)| names.split(' ')) {
            assert!(!name.is_empty() && seen.insert(name), "{name} twice");
        }
    }
}
