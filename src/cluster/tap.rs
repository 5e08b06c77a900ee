//! What routers hear of an engine.

use crate::facts::{Fact, Observer};
use crate::ids::RequestId;

/// Hears first tokens on their way to the observer.
pub(super) struct Tap<'a, O> {
    pub(super) observer: &'a mut O,
    pub(super) first_tokens: &'a mut Vec<RequestId>,
}

impl<O: Observer> Observer for Tap<'_, O> {
    fn observe(&mut self, fact: &Fact<'_>) {
        if let Fact::FirstToken { id, .. } = fact {
            self.first_tokens.push(*id);
        }
        self.observer.observe(fact);
    }
}
