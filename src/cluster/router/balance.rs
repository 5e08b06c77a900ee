//! Routers that look at loads only, or at nothing.

use rand::RngExt;
use rand::rngs::ChaCha8Rng;

use super::{Router, View};
use crate::units::Picos;
use crate::workload::Request;

/// In turn, over those up.
#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    next: usize,
}

impl RoundRobin {
    /// The next one in turn that is up.
    pub(super) fn turn(&mut self, view: &View<'_>) -> Option<usize> {
        let replicas = view.loads.len();
        let found = (0..replicas)
            .map(|ahead| (self.next + ahead) % replicas)
            .find(|&index| view.loads[index].is_up)?;
        self.next = (found + 1) % replicas;
        Some(found)
    }
}

impl Router for RoundRobin {
    fn route(&mut self, _: &Request, _: Picos, view: &View<'_>) -> Option<usize> {
        self.turn(view)
    }
}

/// Uniformly at random.
#[derive(Debug)]
pub(super) struct Random {
    rng: ChaCha8Rng,
}

impl Random {
    pub(super) fn new(rng: ChaCha8Rng) -> Random {
        Random { rng }
    }
}

impl Router for Random {
    fn route(&mut self, _: &Request, _: Picos, view: &View<'_>) -> Option<usize> {
        one_of(&mut self.rng, view, None)
    }
}

/// A random one of those up, `but` left out.
fn one_of(rng: &mut ChaCha8Rng, view: &View<'_>, but: Option<usize>) -> Option<usize> {
    let candidates = || {
        view.up()
            .map(|(index, _)| index)
            .filter(|&index| Some(index) != but)
    };
    let count = candidates().count();
    if count == 0 {
        return None;
    }
    candidates().nth(rng.random_range(0..count))
}

/// Fewest requests in flight.
pub(super) struct LeastRequests;

impl Router for LeastRequests {
    fn route(&mut self, _: &Request, _: Picos, view: &View<'_>) -> Option<usize> {
        view.fewest_requests()
    }
}

/// Fewest tokens in flight.
pub(super) struct LeastTokens;

impl Router for LeastTokens {
    fn route(&mut self, _: &Request, _: Picos, view: &View<'_>) -> Option<usize> {
        view.least(|_, load| load.tokens)
    }
}

/// The better of two random ones.
#[derive(Debug)]
pub(super) struct PowerOfTwo {
    rng: ChaCha8Rng,
}

impl PowerOfTwo {
    pub(super) fn new(rng: ChaCha8Rng) -> PowerOfTwo {
        PowerOfTwo { rng }
    }
}

impl Router for PowerOfTwo {
    fn route(&mut self, _: &Request, _: Picos, view: &View<'_>) -> Option<usize> {
        let first = one_of(&mut self.rng, view, None)?;
        let Some(second) = one_of(&mut self.rng, view, Some(first)) else {
            return Some(first);
        };
        let load = |index: usize| view.loads[index].requests;
        Some(if load(second) < load(first) { second } else { first })
    }
}
