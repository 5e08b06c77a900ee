//! The page in the browser: its files, what it is answered, and what can be turned on it. Who shows it is another's: a server (`explore`), or a file (`report`).

mod answers;
mod controls;
mod film;
mod repeated;
pub(super) mod web;

pub(super) use answers::{Asked, Explorer, Problem, Unanswered};
