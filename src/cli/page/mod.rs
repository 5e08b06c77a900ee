//! The page in the browser: its files, what it is answered, and what can be turned on it. Who shows it is another's: a server (`explore`), or a file (`report`).

mod allowed;
mod answer;
mod answers;
mod controls;
mod film;
pub(super) mod kept;
mod repeated;
mod stops;
pub(super) mod web;

pub(super) use answer::{Explained, Problem, Ran, Refused, Searched, Start, Unanswered};
pub(super) use answers::Explorer;
pub(super) use film::{LONG, Reel};
pub(super) use repeated::typed;
pub(super) use stops::Stops;

#[cfg(feature = "serve")]
pub(super) use answers::Asked;
