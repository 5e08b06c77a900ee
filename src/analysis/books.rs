//! Who looks on while a scenario is simulated: the recorder that keeps the books, and somebody beside it.

use crate::metrics::Recorder;
use crate::sim::{Fact, Observer};
use crate::threads::Behind;

/// A run's books, wherever they are kept.
pub(super) trait Books: Observer {
    /// The recorder, who has heard all that was told until now.
    fn recorder(&mut self) -> &Recorder;

    /// The recorder, once nothing more is told.
    fn close(self) -> Recorder;
}

impl Books for Recorder {
    #[inline(always)]
    fn recorder(&mut self) -> &Recorder {
        self
    }

    fn close(self) -> Recorder {
        self
    }
}

impl Books for Behind<Recorder> {
    fn recorder(&mut self) -> &Recorder {
        self.caught_up()
    }

    fn close(self) -> Recorder {
        self.into_inner()
    }
}

/// Sees nothing.
pub(super) struct Nobody;

impl Observer for Nobody {
    #[inline(always)]
    fn observe(&mut self, _fact: &Fact<'_>) {}
}

/// Two who see the same.
pub(super) struct Both<'a, B, O> {
    pub(super) books: &'a mut B,
    pub(super) watcher: &'a mut O,
}

impl<B: Books, O: Observer> Observer for Both<'_, B, O> {
    #[inline(always)]
    fn observe(&mut self, fact: &Fact<'_>) {
        self.books.observe(fact);
        self.watcher.observe(fact);
    }
}
