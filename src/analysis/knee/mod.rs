//! The knee: the highest rate that meets the objective, and the rate at which the queue starts to grow.
//!
//! Of a closed loop, which sets its own rate, the most that may be in flight ([`in_flight`]).
//!
//! Both are intervals on the *rate*. A search brackets by doubling, guided by what an overloaded run could serve,
//! then halves the bracket; every rate sees the same random streams, so neighbouring points differ by the rate and
//! not by luck. Overloaded points are cheap because growth shows early.

mod binding;
mod count;
mod fewest;
mod in_flight;
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
pub use in_flight::{InFlight, InFlightEnding, InFlightOptions, in_flight};
pub use limiter::{EngineLimits, FRONT_END_FULL, Limiter, Pressure};
pub use objective::{Constraint, Objective, Statistic};
pub use outcome::{ClientLimit, Knee, WhenFull};
pub use pairs::{Pair, PairEnding, PairOptions, Pairs, cheapest_pair};
pub use point::{Lost, Point};
pub use search::{SearchOptions, search};
pub use sending::{Sending, is_burst};
pub use sizing::{Demand, Fleet, Loop, NeededBy, scales};
