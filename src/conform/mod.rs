//! Conformance: is the schedule the engine's own?
//!
//! A recording holds one run of a real engine's scheduler on a virtual clock: its flags, its requests, and every step
//! it took. [`replay`] runs the same requests through this simulator under the recording's linear cost and compares
//! step by step; [`Difference`] says in words where the two first part.

mod check;
mod difference;
mod recording;
mod replay;
mod requests;
mod sglang;
mod sglang_replay;
mod trtllm;
mod v0;
mod whose;

pub use check::RecordingError;
pub use difference::{Agreement, Difference};
pub use recording::{AnyRecording, RecordedResult, Recording};
pub use sglang::{SglangRecording, SglangStep};

/// Replays a recording.
///
/// # Errors
/// The first difference.
pub fn replay(recording: &AnyRecording) -> Result<Agreement, Box<Difference>> {
    match recording {
        AnyRecording::Vllm(recording) => replay::replay(recording),
        AnyRecording::Sglang(recording) => sglang_replay::replay(recording, false),
    }
}

/// Replays a recording with every sequence visited in every step.
///
/// # Errors
/// The first difference.
pub fn replay_stepwise(recording: &AnyRecording) -> Result<Agreement, Box<Difference>> {
    match recording {
        AnyRecording::Vllm(_) => replay(recording),
        AnyRecording::Sglang(recording) => sglang_replay::replay(recording, true),
    }
}
