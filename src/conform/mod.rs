//! Conformance: is the schedule the engine's own?
//!
//! A recording holds one run of a real engine's scheduler on a virtual clock: its flags, its requests, and every step
//! it took. [`replay`] runs the same requests through this simulator under the recording's linear cost and compares
//! step by step; [`Difference`] says in words where the two first part.

mod recording;
mod replay;

pub use recording::{Recording, RecordingError};
pub use replay::{Agreement, Difference, replay};
