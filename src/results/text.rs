//! What printed texts and tables share: numbers as people group them, colours of a terminal, lines of a file.

use std::borrow::Cow;
use std::collections::HashMap;

/// A printed number of at least 0, `827.89` or `12,827.89`.
///
/// A comma parts thousands, in groups of three; elsewhere it is the decimal comma of another country, and reading over it would
/// make a hundred times the figure.
pub(super) fn number(text: &str) -> Result<f64, String> {
    if let Some(what) = ungrouped(text) {
        return Err(what);
    }
    match text.replace(',', "").parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err(format!("`{text}` must be a number of at least 0")),
    }
}

/// What is wrong with a number whose commas part no thousands.
fn ungrouped(text: &str) -> Option<String> {
    let is_number = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b',' | b'.'));
    if !is_number || !text.contains(',') {
        return None;
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or_default();
    let is_first = (1..=3).contains(&first.len()) && !first.starts_with('0');
    let is_grouped = is_first && groups.all(|group| group.len() == 3) && !fraction.contains(',');
    (!is_grouped).then(|| {
        format!("`{text}` has a comma that parts no thousands: write a decimal point, and thousands in groups of three")
    })
}

/// A text without the sequences by which a terminal colours it (ECMA-48: `ESC [ … letter`).
pub(super) fn without_colours(text: &str) -> Cow<'_, str> {
    if !text.contains("\u{1b}[") {
        return Cow::Borrowed(text);
    }
    let mut pieces = text.split("\u{1b}[");
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(|c: char| ('\u{40}'..='\u{7e}').contains(&c));
        out.push_str(end.map_or("", |end| &piece[end + 1..]));
    }
    Cow::Owned(out)
}

/// Lines of a text by byte, asked for in order. The reader of CSV counts no empty lines, and counts late where lines end in two
/// characters.
pub(super) struct Lines<'a> {
    text: &'a str,
    at: usize,
    line: u64,
}

impl<'a> Lines<'a> {
    /// Of a text that is read from its first line on.
    pub(super) fn of(text: &'a str) -> Lines<'a> {
        Lines { text, at: 0, line: 1 }
    }

    /// The line of the record that a reader of CSV has at a position, or behind the ends of lines that stand there.
    pub(super) fn at(&mut self, position: Option<&csv::Position>) -> u64 {
        let bytes = self.text.as_bytes();
        let byte = position.and_then(|position| usize::try_from(position.byte()).ok());
        let byte = byte.unwrap_or(0).min(bytes.len());
        let ends = bytes[byte..]
            .iter()
            .take_while(|byte| matches!(byte, b'\r' | b'\n'));
        let start = byte + ends.count();
        if start > self.at {
            let passed = bytes[self.at..start].iter().filter(|byte| **byte == b'\n');
            self.line += passed.count() as u64;
            self.at = start;
        }
        self.line
    }
}

/// Rows of a CSV table by their columns' names, each with its line in the file; what is wrong with a row that is none.
pub fn csv_rows(text: &str) -> impl Iterator<Item = (u64, Result<HashMap<String, String>, String>)> {
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .from_reader(text.as_bytes());
    let header = reader.headers().cloned().unwrap_or_default();
    let mut lines = Lines::of(text);
    reader.into_records().map(move |record| {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                return (
                    lines.at(error.position()),
                    Err("cannot be read as CSV".to_owned()),
                );
            }
        };
        let line = lines.at(record.position());
        if record.len() != header.len() {
            let what = format!("has {} cells, the header has {}", record.len(), header.len());
            return (line, Err(what));
        }
        let cells = header.iter().zip(&record);
        let owned = |(name, cell): (&str, &str)| (name.to_owned(), cell.to_owned());
        (line, Ok(cells.map(owned).collect()))
    })
}

/// `vllm@0.6.3`, `vllm 0.6.3` and `vLLM v0.6.3` taken apart; `None` where a name has no version behind it.
pub(super) fn engine_and_version(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let (engine, version) = text.split_once('@').or_else(|| {
        let (engine, rest) = text.split_once(char::is_whitespace)?;
        let digits = rest.trim().trim_start_matches(['v', 'V']);
        let is_version = digits.starts_with(|c: char| c.is_ascii_digit()) && digits.contains('.');
        is_version.then_some((engine, rest.trim()))
    })?;
    Some((engine, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_part_thousands_and_nothing_else() {
        for (text, expected) in [
            ("827.89", 827.89),
            ("1,234", 1234.0),
            ("12,345,678.5", 12_345_678.5),
            ("3e2", 300.0),
        ] {
            assert_eq!(number(text), Ok(expected), "{text}");
        }
        for text in ["827,89", "0,123", "1234,567", "1,23,456", "1.234,56", "1,", ",5"] {
            let told = number(text).unwrap_err();
            assert!(told.contains("comma that parts no thousands"), "{text}: {told}");
        }
        assert!(number("fast, very").unwrap_err().contains("must be a number"));
    }

    #[test]
    fn colours_are_no_text() {
        assert_eq!(
            without_colours("\u{1b}[32mMean\u{1b}[0m TTFT\u{1b}[1;31m: 5"),
            "Mean TTFT: 5"
        );
        assert_eq!(without_colours("cut \u{1b}[3"), "cut ");
        assert_eq!(without_colours("plain"), "plain");
    }

    #[test]
    fn lines_are_those_of_the_file() {
        for ends in ["\n", "\r\n"] {
            let text = ["a,b", "1,2", "", "3", "", "", "5,\"x", "y\"", "7,8"].join(ends);
            let found: Vec<(u64, bool)> = csv_rows(&text).map(|(line, row)| (line, row.is_ok())).collect();
            assert_eq!(found, [(2, true), (4, false), (7, true), (9, true)], "{ends:?}");
        }
        assert_eq!(csv_rows("").count(), 0);
    }
}
