//! Routers that send what belongs together to one replica, without looking into it.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};

use super::balance::RoundRobin;
use super::{Router, View};
use crate::rng::mixed;
use crate::units::Picos;
use crate::workload::{Piece, Prompt, Request};

/// Prompt tokens that are hashed.
const HASHED_TOKENS: u32 = 256;
/// Places of each replica on the ring.
const PLACES: usize = 160;
/// A replica with more than this times the mean load is passed over.
const LOAD_FACTOR: f64 = 1.25;

/// The replica that the conversation was on before.
#[derive(Debug, Default)]
pub(super) struct SessionAffinity {
    homes: FxHashMap<u64, usize>,
    turns: RoundRobin,
}

impl Router for SessionAffinity {
    fn route(&mut self, request: &Request, _: Picos, view: &View<'_>) -> Option<usize> {
        let Some(session) = request.session else {
            return self.turns.turn(view);
        };
        if let Some(&home) = self.homes.get(&session)
            && view.loads[home].is_up
        {
            return Some(home);
        }
        let home = self.turns.turn(view)?;
        self.homes.insert(session, home);
        Some(home)
    }
}

/// The head of the prompt on a ring of hashes.
#[derive(Debug)]
pub(super) struct PrefixHash {
    ring: BTreeMap<u64, usize>,
}

impl PrefixHash {
    pub(super) fn new(replicas: usize) -> PrefixHash {
        let places = (0..replicas).flat_map(|replica| (0..PLACES).map(move |place| (replica, place)));
        PrefixHash {
            ring: places
                .map(|(replica, place)| (hash((replica, place)), replica))
                .collect(),
        }
    }
}

impl Router for PrefixHash {
    fn route(&mut self, request: &Request, _: Picos, view: &View<'_>) -> Option<usize> {
        let (replicas, requests) = view
            .up()
            .fold((0u32, 0u32), |(n, sum), (_, load)| (n + 1, sum + load.requests));
        let limit = LOAD_FACTOR * f64::from(requests) / f64::from(replicas.max(1));
        let place = prefix_hash(request);
        let clockwise = self.ring.range(place..).chain(self.ring.range(..place));
        let mut fits = clockwise
            .map(|(_, &replica)| replica)
            .filter(|&replica| view.loads[replica].is_up);
        match fits.next() {
            Some(owner) if f64::from(view.loads[owner].requests) <= limit => Some(owner),
            _ => view.fewest_requests(),
        }
    }
}

/// A hash of the first [`HASHED_TOKENS`] tokens.
fn prefix_hash(request: &Request) -> u64 {
    match &request.prompt {
        Prompt::Unique => hash((u64::MAX, request.id.0)),
        Prompt::Pieces(pieces) => {
            let mut left = HASHED_TOKENS;
            let mut head: Vec<Piece> = Vec::new();
            for piece in pieces {
                let tokens = piece.tokens.min(left);
                left -= tokens;
                if tokens > 0 {
                    head.push(Piece { tokens, ..*piece });
                }
            }
            hash(head)
        }
    }
}

/// A hash whose bits are well spread: the ring is ordered by it.
fn hash(value: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    mixed(hasher.finish())
}
