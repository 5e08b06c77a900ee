//! OpenAI's API as vLLM 0.33 serves it: `/v1/completions`, `/v1/chat/completions`, `/v1/models`, `/tokenize` and `/detokenize`.
//!
//! In reading order: [`fields`] reads JSON as pydantic does and says all that is wrong with it, [`parameters`] lists every parameter and
//! what is made of it, [`prompt`] and [`chat`] turn prompts into runs of tokens, [`request`] turns a body into what the desk is asked,
//! [`answers`] waits for what it says, [`stream`] and [`whole`] write that down, [`shapes`] are the JSON of it, [`error`] that of errors.

pub mod answers;
pub mod chat;
pub mod error;
pub mod fields;
pub mod parameters;
pub mod prompt;
pub mod request;
pub mod shapes;
pub mod stream;
pub mod tokenize;
pub mod whole;

/// Which of the two ways of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// `/v1/completions`.
    Completions,
    /// `/v1/chat/completions`.
    Chat,
}
