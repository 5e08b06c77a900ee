//! Architectures that engines load and a [`ModelShape`](crate::model::ModelShape) cannot describe, and what it is about them.

/// What a name of an architecture begins with, and what such a model has.
const UNMODELLED: [(&str, &str); 19] = [
    ("BailingMoeV2_5", LINEAR),
    ("Rwkv", LINEAR),
    ("MiniMaxM1", DROPPED),
    ("MiniMaxText01", DROPPED),
    ("MiniMaxForCausalLM", DROPPED),
    ("Bamba", DROPPED),
    ("Plamo2", DROPPED),
    ("Mamba", ALONE),
    ("FalconMamba", ALONE),
    ("Jamba", STATE_SPACE),
    ("Zamba", STATE_SPACE),
    ("DeepseekV4", COMPRESSED),
    ("Glm5Next", COMPRESSED),
    ("Gemma3n", PREDICTED),
    ("Gemma4Unified", UNEQUAL),
    ("Mllama", CROSS),
    ("Whisper", CROSS),
    ("T5", CROSS),
    ("Bart", CROSS),
];

const LINEAR: &str =
    "layers of linear attention, which keep a state of constant size in place of keys and values";
const STATE_SPACE: &str =
    "state-space layers of another kind than Mamba2's, or layers that share their weights";
const ALONE: &str = "layers of constant state alone, and none that attends";
const DROPPED: &str =
    "layers of constant state, and vLLM 0.33, which alone serves such here, loads it no longer";
const COMPRESSED: &str = "sparse attention over a context that is compressed in part";
const UNEQUAL: &str = "layers whose attention differs in heads or their width";
const PREDICTED: &str = "several residual streams, of which layers predict and correct all but one";
const CROSS: &str = "attention to the output of an encoder";

/// What an architecture has that is not modelled, where that is known.
pub(in super::super) fn unmodelled(architecture: &str) -> Option<&'static str> {
    let of = UNMODELLED.iter().find(|(name, _)| architecture.starts_with(name));
    of.map(|&(_, why)| why)
}
