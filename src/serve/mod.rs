//! `plimsoll serve` towards its clients: OpenAI's API with vLLM's extras over HTTP, answered by a simulated server.
//!
//! In reading order: [`desk`] is the seam to the simulation (requests in, tokens as they come); [`text`] turns prompts into runs of
//! tokens and [`filler`] makes the text of answers; [`openai`] reads requests and writes answers; [`http`] has the routes and the socket.
//! All of these know what clients see and nothing of how long anything takes. Behind the desk, [`pacer`] goes on with the simulation
//! ([`crate::live`]) as the wall's [`clock`] does, `books` and `asked` keep what happens and what was asked, and [`server`] holds all together.

mod asked;
mod books;
pub mod clock;
pub mod desk;
pub mod filler;
pub mod http;
pub mod lateness;
pub mod openai;
pub mod pacer;
pub mod server;
pub mod text;

pub use asked::Rows;

#[cfg(test)]
mod tests;
