//! How text is decorated and how wide it may be.

/// Whether and how to decorate text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Write ANSI colour codes.
    pub color: bool,
    /// Columns of the screen, where there is one.
    pub width: Option<usize>,
}
