//! A length by a law without memory: of what is still to come the length so far says nothing. Who draws it: [`super::lengths`].

/// A length by a law without memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MemorylessLength {
    /// Always the same.
    Constant(u32),
    /// Drawn.
    Drawn {
        /// Mean in tokens before the law is cut, at least 1.
        mean: f64,
        /// Longest allowed; what is longer is drawn again.
        max: u32,
    },
}

impl MemorylessLength {
    pub(super) fn range(self) -> (u32, u32) {
        match self {
            MemorylessLength::Constant(tokens) => (tokens, tokens),
            MemorylessLength::Drawn { max, .. } => (1, max),
        }
    }

    pub(super) fn constant(self) -> Option<u32> {
        match self {
            MemorylessLength::Constant(tokens) => Some(tokens),
            MemorylessLength::Drawn { .. } => None,
        }
    }

    /// The mean in tokens, of a law that is hardly cut.
    #[must_use]
    pub fn mean(self) -> f64 {
        match self {
            MemorylessLength::Constant(tokens) => f64::from(tokens),
            MemorylessLength::Drawn { mean, max } => mean.min(f64::from(max)),
        }
    }
}
