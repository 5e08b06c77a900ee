//! Who sends a request only once an answer is there: such a load is neither a rate nor all at once.

/// Those who send a request a while after an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Turns {
    /// Users, each with one request inside at most.
    Users {
        /// How many.
        users: u32,
        /// Mean time from an answer to the next request, in seconds.
        think_time_s: f64,
    },
    /// Conversations, which begin as requests arrive.
    Sessions {
        /// Mean number of requests of each.
        turns: f64,
        /// Mean time from an answer to the next request of the same one, in seconds.
        think_time_s: f64,
    },
}
