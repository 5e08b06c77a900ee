//! From the front ends that were measured to the next one.

use crate::calibrate::component::rounded;
use crate::calibrate::runs::Run;

/// What one more front end adds, in ms, after those of `runs` were found to add `seen` where `before` was expected.
///
/// Front ends differ by [`crate::cost::discrepancy::REQUEST_SD_LN`] in the logarithm, and their mean was known no better before any was seen: the
/// normal law's posterior mean gives each server that was seen as much weight as the prior has.
pub(in crate::calibrate) fn next_front_end(before: f64, seen: f64, runs: &[Run]) -> f64 {
    let seen_by = runs.iter().filter(|run| run.shows_front_end());
    let mut servers: Vec<&str> = seen_by.map(|run| run.family.as_str()).collect();
    servers.sort_unstable();
    servers.dedup();
    shrunk(before, seen, servers.len())
}

fn shrunk(before: f64, seen: f64, servers: usize) -> f64 {
    let weight = servers as f64 / (servers as f64 + 1.0);
    rounded(before * (seen / before).powf(weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of one server as much as of the prior, in the logarithm; of many hardly anything of the prior.
    #[test]
    fn one_front_end_is_half_of_what_is_known_of_the_next() {
        assert!((shrunk(2.0, 18.0, 1) - 6.0).abs() < 0.01);
        assert!((shrunk(2.0, 16.0, 2) - 8.0).abs() < 0.01);
        assert!((shrunk(2.0, 18.0, 0) - 2.0).abs() < 0.01);
        assert!((shrunk(2.0, 18.0, 1000) - 18.0).abs() < 0.1);
    }
}
