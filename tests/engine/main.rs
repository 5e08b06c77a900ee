//! The engine against recordings of the real one, against its naive twin, and against golden traces.

mod cases;
mod conform;
mod drafts;
mod draws;
mod equality;
#[path = "../../examples/shortest_job_first.rs"]
#[expect(dead_code, unreachable_pub, reason = "an example's main is its own")]
mod example;
#[path = "../common/given.rs"]
mod given;
mod golden;
mod laws;
mod lockstep;
mod oracle;
mod runs;
mod scheduled;
mod scheduled_twin;
mod scraped;
mod sglang;
mod sglang_leaps;
mod sglang_twin;
mod timeline;
mod trace;
mod trtllm_twin;
mod twin;
