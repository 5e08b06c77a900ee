//! The knee: the highest rate that meets the objective, and the rate at which the queue starts to grow.
//!
//! Both are intervals on the *rate*. A search brackets by doubling, guided by what an overloaded run could serve,
//! then halves the bracket; every rate sees the same random streams, so neighbouring points differ by the rate and
//! not by luck. Overloaded points are cheap because growth shows early.

mod binding;
mod count;
mod limiter;
mod objective;
mod outcome;
mod pairs;
mod point;
mod search;
mod sending;
mod sizing;
mod working_off;

pub use binding::Binding;
pub use count::{Count, CountEnding, CountOptions, Crew, count};
pub use limiter::{EngineLimits, FRONT_END_FULL, Limiter, Pressure};
pub use objective::{Constraint, Objective, Statistic};
pub use outcome::{ClientLimit, Knee, WhenFull};
pub use pairs::{Pair, PairEnding, PairOptions, Pairs, cheapest_pair};
pub use point::{Lost, Point};
pub use search::{SearchOptions, search};
pub use sending::{Sending, is_burst};
pub use sizing::{Demand, Fleet, scales};
