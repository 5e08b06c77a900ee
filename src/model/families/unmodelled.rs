//! Architectures that engines load and a [`ModelShape`](crate::model::ModelShape) cannot describe, and what it is about them.

/// What a name of an architecture begins with, and what such a model has.
const UNMODELLED: [(&str, &str); 30] = [
    ("KimiLinear", LINEAR),
    ("MiniMaxM1", LINEAR),
    ("MiniMaxText01", LINEAR),
    ("MiniMaxForCausalLM", LINEAR),
    ("BailingMoeV2_5", LINEAR),
    ("BailingHybrid", LINEAR),
    ("OlmoHybrid", LINEAR),
    ("Rwkv", LINEAR),
    ("Mamba", STATE_SPACE),
    ("FalconMamba", STATE_SPACE),
    ("FalconH1", STATE_SPACE),
    ("Jamba", STATE_SPACE),
    ("Bamba", STATE_SPACE),
    ("Zamba", STATE_SPACE),
    ("GraniteMoeHybrid", STATE_SPACE),
    ("Plamo2", STATE_SPACE),
    ("Lfm2", STATE_SPACE),
    ("DeepseekV4", COMPRESSED),
    ("Glm5Next", COMPRESSED),
    ("Gemma3n", UNEQUAL),
    ("Gemma4Unified", UNEQUAL),
    ("MiMoV2", UNEQUAL),
    ("Laguna", UNEQUAL),
    ("DeciLM", UNEQUAL),
    ("Step3p5", UNEQUAL),
    ("Afmoe", GATED),
    ("Mllama", CROSS),
    ("Whisper", CROSS),
    ("T5", CROSS),
    ("Bart", CROSS),
];

const LINEAR: &str =
    "layers of linear attention, which keep a state of constant size in place of keys and values";
const STATE_SPACE: &str =
    "state-space or convolution layers, which keep a state of constant size in place of keys and values";
const COMPRESSED: &str = "sparse attention over a context that is compressed in part";
const UNEQUAL: &str = "layers whose attention differs in heads or their width";
const GATED: &str = "attention with a gated output";
const CROSS: &str = "attention to the output of an encoder";

/// What an architecture has that is not modelled, where that is known.
pub(in super::super) fn unmodelled(architecture: &str) -> Option<&'static str> {
    let of = UNMODELLED.iter().find(|(name, _)| architecture.starts_with(name));
    of.map(|&(_, why)| why)
}
