//! What is asked of a fleet by whoever has a clock beside its own.

use super::Cluster;
use crate::engine::Engine;
use crate::units::Picos;

impl Cluster {
    /// Whether each replica schedules a step while the one before is in flight.
    pub(crate) fn schedules_ahead(&self) -> Vec<bool> {
        self.engines.iter().map(Engine::schedules_ahead).collect()
    }

    /// When something happens next without anything from outside.
    pub(crate) fn next_instant(&self) -> Option<Picos> {
        self.engines.iter().filter_map(Engine::next).min()
    }
}
