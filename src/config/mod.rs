//! From what a user wrote to a valid scenario: the only judge of user input.
//!
//! Low to high, as in ripgrep: [`raw`] mirrors a file, [`Document`] layers files and flags and remembers where each
//! value came from, [`resolve`] checks everything and builds the plain types that the simulation runs on. What it
//! returns is valid; what it refuses it refuses with a place and a remedy, all problems at once. Nothing is clamped,
//! ignored or substituted in silence: each assumed value is listed with its reason.

pub mod diagnostic;
mod document;
pub mod raw;
mod read;
pub mod scalar;

pub use diagnostic::{Diagnostic, Diagnostics};
pub use document::{Document, Source};
