//! JSON as Python writes it: with bare `Infinity` and `NaN`, which no JSON has.

use std::borrow::Cow;

/// Puts `Infinity`, `-Infinity` and `NaN` between quotes where they stand outside of strings. Python writes them bare.
#[must_use]
pub fn quote_bare_numbers(text: &str) -> Cow<'_, str> {
    if !["Infinity", "NaN"].iter().any(|word| text.contains(word)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.find(['"', 'I', 'N', '-']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let word = ["Infinity", "-Infinity", "NaN"]
            .iter()
            .find(|word| rest.starts_with(**word));
        let length = match word {
            Some(word) => {
                out.extend(["\"", word, "\""]);
                rest = &rest[word.len()..];
                continue;
            }
            None if rest.starts_with('"') => string_length(rest),
            None => 1,
        };
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Bytes of the string that a text begins with, both quotes included; all of the text where it does not end.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}
