//! The engine against recordings of the real one, against its naive twin, and against golden traces.

mod cases;
mod conform;
mod equality;
mod golden;
mod laws;
mod oracle;
mod sglang;
mod sglang_leaps;
mod trace;
mod twin;
