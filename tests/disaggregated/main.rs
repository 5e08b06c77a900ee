//! Prefill and decode on different replicas: the published timelines, laws, losses, and twins of the flows.

#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "other binaries use the rest of it")]
mod common;
#[path = "../engine/draws.rs"]
#[expect(dead_code, reason = "the engines' twins use the rest of it")]
mod draws;
mod golden;
mod laws;
mod lives;
mod losses;
mod setup;
mod sglang_twin;
mod twin_parts;
mod vllm_random;
mod vllm_twin;
