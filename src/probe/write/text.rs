//! How a calibration file is spelt: numbers, estimates with their intervals, sections and tables of rows.

use std::fmt::Write;

use super::super::sample::Estimate;

/// A quoted string of TOML.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A number with five significant digits, always as a float.
pub(super) fn number(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return "0.0".to_owned();
    }
    let digits = (4 - x.abs().log10().floor() as i32).max(1) as usize;
    let text = format!("{x:.digits$}");
    let short = text.trim_end_matches('0');
    if short.ends_with('.') {
        format!("{short}0")
    } else {
        short.to_owned()
    }
}

/// `[a, b]` of items that are written already.
pub(super) fn list(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = items.into_iter().collect();
    format!("[{}]", items.join(", "))
}

/// `{ v, ci, n }` of an estimate in the key's unit.
pub(super) fn measured(estimate: Estimate, unit: f64) -> String {
    let [v, low, high] = [estimate.value, estimate.low, estimate.high].map(|x| number(x / unit));
    format!("{{ v = {v}, ci = [{low}, {high}], n = {} }}", estimate.n)
}

/// A text that grows line by line.
#[derive(Default)]
pub(super) struct File(String);

impl File {
    pub(super) fn into_text(self) -> String {
        self.0
    }

    pub(super) fn line(&mut self, text: &str) {
        self.0 += text;
        self.0.push('\n');
    }

    pub(super) fn section(&mut self, name: &str) {
        let _ = writeln!(self.0, "\n[{name}]");
    }

    pub(super) fn key(&mut self, key: &str, value: &str) {
        let _ = writeln!(self.0, "{key} = {value}");
    }

    pub(super) fn estimate(&mut self, key: &str, estimate: Option<Estimate>, unit: f64) {
        if let Some(estimate) = estimate {
            self.key(key, &measured(estimate, unit));
        }
    }

    /// A table of rows under one key, with the names of its columns as a comment.
    pub(super) fn rows(&mut self, key: &str, names: &str, rows: impl Iterator<Item = String>) {
        self.line(&format!("# {names}"));
        self.line(&format!("{key} = ["));
        for row in rows {
            self.line(&format!("    {row},"));
        }
        self.line("]");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_five_digits_and_their_point() {
        let texts: Vec<String> = [776.0, 4231.26, 0.000_123_456, 12.0, 0.0, 123_456.7]
            .map(number)
            .to_vec();
        assert_eq!(
            texts,
            ["776.0", "4231.3", "0.00012346", "12.0", "0.0", "123456.7"]
        );
    }
}
