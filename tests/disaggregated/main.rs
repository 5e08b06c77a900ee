//! Prefill and decode on different replicas: the published timelines, laws, and twins of the flows.

#[path = "../common/mod.rs"]
#[allow(dead_code)]
mod common;
mod golden;
mod laws;
mod nixl_twin;
mod setup;
mod sglang_twin;
