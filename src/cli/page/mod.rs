//! The page in the browser: its files, what it is answered, and what can be turned on it. Who shows it is another's: a server (`explore`), or a file (`report`).

mod answers;
mod controls;
mod film;
pub(super) mod kept;
mod repeated;
pub(super) mod web;

pub(super) use answers::{Explained, Explorer, Problem, Ran, Refused, Searched, Start, Unanswered};
pub(super) use controls::LOADS;
pub(super) use film::{LONG, Reel};
pub(super) use repeated::typed;

#[cfg(feature = "serve")]
pub(super) use answers::Asked;
