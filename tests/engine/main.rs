//! The engine against recordings of the real one, against its naive twin, and against golden traces.

mod cases;
mod conform;
mod equality;
mod golden;
mod laws;
mod oracle;
mod sglang;
mod sglang_leaps;
mod sglang_twin;
mod trace;
mod twin;
