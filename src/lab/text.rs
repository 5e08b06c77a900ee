//! Text with figures in it.

use super::Reference;

/// A text whose braces stand for figures; `{{` and `}}` are braces themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Words(String),
    Figure(Reference),
}

impl Text {
    /// Takes a text apart.
    ///
    /// # Errors
    /// A brace without its other one, or what is no reference between them.
    pub fn parse(text: &str) -> Result<Text, String> {
        let mut pieces = Vec::new();
        let mut words = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            words += &rest[..at];
            let (brace, after) = rest[at..].split_at(1);
            if let Some(after) = after.strip_prefix(brace) {
                words += brace;
                rest = after;
                continue;
            }
            let inner = match brace {
                "{" => after.split_once('}'),
                _ => None,
            };
            let (inner, after) = inner.ok_or_else(|| {
                format!("a `{brace}` without its other one; `{brace}{brace}` is the sign itself")
            })?;
            if !words.is_empty() {
                pieces.push(Piece::Words(std::mem::take(&mut words)));
            }
            pieces.push(Piece::Figure(Reference::parse(inner)?));
            rest = after;
        }
        words += rest;
        if !words.is_empty() {
            pieces.push(Piece::Words(words));
        }
        Ok(Text { pieces })
    }

    /// What its braces hold.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Figure(reference) => Some(reference),
            Piece::Words(_) => None,
        })
    }

    /// The text with `figure` in place of every reference.
    ///
    /// # Errors
    /// That of the first figure that is not to be had.
    pub fn filled<E>(&self, mut figure: impl FnMut(&Reference) -> Result<String, E>) -> Result<String, E> {
        self.pieces
            .iter()
            .map(|piece| match piece {
                Piece::Words(words) => Ok(words.clone()),
                Piece::Figure(reference) => figure(reference),
            })
            .collect()
    }
}
