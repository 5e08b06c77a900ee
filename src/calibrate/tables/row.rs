//! One row of a table, by the names of its columns.

use std::collections::HashMap;

/// Largest size of a kernel in any direction: products of two still count exactly.
pub(in crate::calibrate) const SIZE_MAX: u64 = 1 << 31;

/// A row by column.
pub(super) struct Row(pub(super) HashMap<String, String>);

impl Row {
    /// Nothing where the table has no such column.
    pub(super) fn text(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    pub(super) fn number(&self, key: &str) -> Result<f64, String> {
        let text = self.text(key);
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| format!("`{key}` is `{text}`, not a number"))
    }

    /// The same of what a kernel has at least one of.
    pub(super) fn size(&self, key: &str) -> Result<u64, String> {
        match self.whole(key)? {
            0 => Err(format!("`{key}` is 0; no kernel is so small")),
            size => Ok(size),
        }
    }

    /// A number of things, at most [`SIZE_MAX`].
    pub(super) fn whole(&self, key: &str) -> Result<u64, String> {
        let text = self.text(key);
        let number: u64 = text
            .parse()
            .map_err(|_| format!("`{key}` is `{text}`, not a whole number"))?;
        if number > SIZE_MAX {
            return Err(format!(
                "`{key}` is {number}; no kernel has more than {SIZE_MAX} of it"
            ));
        }
        Ok(number)
    }
}
