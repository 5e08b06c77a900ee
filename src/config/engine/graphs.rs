//! What is compiled and which steps replay CUDA graphs: `enforce_eager`, `-O`, the compilation config's `mode` and
//! `cudagraph_mode`, whose defaults follow from one another (`VllmConfig.__post_init__`).
//!
//! Left out: models that PyTorch's own compiler takes whole (modes 1 and 2), and whole graphs of steps with prompts (`FULL`), which
//! are refused.

use super::super::document::Source;
use super::super::judge::Judge;
use super::super::profile::Profile;
use super::super::raw::{RawEngine, RawGraphMode, spelled};

const CUDAGRAPHS: &str = "engine.cudagraph_mode";

/// Nothing is compiled.
const NO_COMPILATION: u32 = 0;
/// vLLM's own, piece by piece.
const VLLM_COMPILE: u32 = 3;

/// How steps are launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Launches {
    pub(super) graphs: RawGraphMode,
    /// Nothing is compiled, either.
    pub(super) is_eager: bool,
    /// Compiled at level 2 or 3.
    pub(super) is_fully_optimized: bool,
}

pub(super) fn launches(judge: &mut Judge, raw: &RawEngine, profile: &Profile) -> Launches {
    let eager = Launches {
        graphs: RawGraphMode::None,
        is_eager: true,
        is_fully_optimized: false,
    };
    let mut limited = |key: &str, given| judge.required(key, given, (0, 3));
    let level = raw
        .optimization_level
        .map(|level| limited("engine.optimization_level", level));
    let mode = raw
        .compilation_mode
        .map(|mode| limited("engine.compilation_mode", mode));
    if raw.enforce_eager == Some(true) {
        note_eager(judge, raw, level, mode);
        return eager;
    }
    // Until 0.11 `-O` is short for the mode.
    let (level, mode, mode_key) = match profile.startup.level_is_mode {
        true if mode.is_none() => (None, level, "engine.optimization_level"),
        true => (None, mode, "engine.compilation_mode"),
        false => (level, mode, "engine.compilation_mode"),
    };
    let of_level = if level == Some(0) {
        NO_COMPILATION
    } else {
        VLLM_COMPILE
    };
    let mode = mode.unwrap_or(of_level);
    if mode != NO_COMPILATION && mode != VLLM_COMPILE {
        judge.wrong_help(
            mode_key,
            "is not modelled",
            format!("mode {mode} compiles the model whole, and was never measured"),
            "0 (nothing is compiled) and 3 (vLLM's own) are",
        );
    }
    let by_default = match level {
        _ if mode != VLLM_COMPILE => RawGraphMode::None,
        Some(0) => RawGraphMode::None,
        Some(1) => RawGraphMode::Piecewise,
        _ => profile.defaults.cudagraph_mode,
    };
    let source = match by_default == profile.defaults.cudagraph_mode {
        true => profile.source(),
        false => Source::Assumption("what the level of optimization or compilation means".to_string()),
    };
    let graphs = judge.choose(CUDAGRAPHS, raw.cudagraph_mode, by_default, source);
    if graphs == RawGraphMode::Full {
        judge.wrong_help(
            CUDAGRAPHS,
            "has a mode that is not modelled",
            "cudagraph_mode FULL replays one graph for steps with prompts, too, which were never measured; where attention cannot, \
             vLLM takes another mode",
            "none, piecewise, full_decode_only and full_and_piecewise, vLLM's default, are modelled, and another mode is another server",
        );
    }
    if mode == VLLM_COMPILE {
        return Launches {
            graphs,
            is_eager: false,
            is_fully_optimized: level.is_none_or(|level| level >= 2),
        };
    }
    judge_uncompiled(judge, graphs);
    eager
}

/// With `enforce_eager` there is nothing to compile and nothing to capture.
fn note_eager(judge: &mut Judge, raw: &RawEngine, level: Option<u32>, mode: Option<u32>) {
    judge.given("engine.enforce_eager", true);
    if raw.cudagraph_mode.is_some_and(|mode| mode != RawGraphMode::None) {
        judge.wrong(
            CUDAGRAPHS,
            "contradicts enforce_eager",
            "there are no graphs when everything is eager",
        );
    }
    let asked = [
        ("engine.optimization_level", level),
        ("engine.compilation_mode", mode),
    ];
    for (key, number) in asked {
        if let Some(number) = number.filter(|&number| number != NO_COMPILATION) {
            let name = judge.document.name_of(key);
            judge.ignore(format!(
                "{name} {number} has no effect: enforce_eager compiles nothing, as in vLLM"
            ));
        }
    }
}

/// Says what becomes of graphs where nothing is compiled.
fn judge_uncompiled(judge: &mut Judge, graphs: RawGraphMode) {
    match graphs {
        RawGraphMode::None | RawGraphMode::Full => {}
        RawGraphMode::Piecewise | RawGraphMode::FullAndPiecewise => {
            let asked = judge.document.name_of(CUDAGRAPHS);
            judge.ignore(format!(
                "{asked} {} has no effect: pieces need compilation, and without it vLLM has no graphs",
                spelled(graphs)
            ));
        }
        RawGraphMode::FullDecodeOnly => {
            judge.wrong_help(
                CUDAGRAPHS,
                "is not modelled without compilation",
                "graphs of kernels that nothing fused were never measured",
                "leave the compilation's mode out, or write none",
            );
        }
    }
}
