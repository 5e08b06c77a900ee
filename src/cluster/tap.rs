//! What routers hear of an engine.

use crate::facts::{Fact, Observer};
use crate::ids::RequestId;

/// Hears first tokens on their way to the observer.
///
/// Who observes is not named by its type, here and in the other taps: every name would be one more copy of all engines.
pub(super) struct Tap<'a> {
    pub(super) observer: &'a mut dyn Observer,
    pub(super) first_tokens: &'a mut Vec<RequestId>,
}

impl Observer for Tap<'_> {
    fn observe(&mut self, fact: &Fact<'_>) {
        if let Fact::FirstToken { id, .. } = fact {
            self.first_tokens.push(*id);
        }
        self.observer.observe(fact);
    }
}
