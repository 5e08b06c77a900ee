//! The text of answers: a tag, then one common word for each further token, so that lengths are right wherever somebody counts.
//!
//! A simulated server has nothing to say. Its answers are filler whose first token is a tag with the request's number and the length of
//! its prompt, `[#12345.678]`. Word `k` ends where an estimate by characters ([`super::text`]) counts `k` tokens, and at the usual four
//! characters a token every word is a space and three letters, one token in the usual vocabularies. Which words they are follows from request
//! and start of the server, so a text that comes back in the next turn is known for the very answer that it was, or for none: one of an
//! earlier server, one that somebody changed, or one that somebody made up differs in its words.

use super::desk::Span;
use super::text::{chars_in, name};

/// Words by their number of letters, from one.
const WORDS: [&[&str]; 9] = [
    &["a", "I", "s", "t", "x", "y", "n", "i"],
    &["of", "to", "in", "is", "it", "on", "as", "we"],
    &[
        "the", "and", "for", "are", "but", "not", "you", "all", "can", "had", "her", "was", "one", "our",
        "out", "day",
    ],
    &["that", "with", "have", "this", "will", "from", "they", "been"],
    &[
        "about", "which", "their", "there", "would", "other", "these", "could",
    ],
    &[
        "people", "should", "number", "system", "before", "little", "things", "always",
    ],
    &[
        "because", "through", "between", "another", "without", "against", "problem", "example",
    ],
    &[
        "question", "together", "children", "business", "possible", "complete", "original", "national",
    ],
    &[
        "different",
        "important",
        "something",
        "following",
        "community",
        "available",
        "questions",
        "including",
    ],
];

/// Bytes of the tag at the start of a text, if there is one.
pub fn tag_length(text: &str) -> Option<usize> {
    parse(text).map(|(_, _, length)| length)
}

/// Request, prompt tokens and bytes of the tag at the start of a text. Only what [`Filler`] writes: no signs, no leading zeros.
fn parse(text: &str) -> Option<(u64, u32, usize)> {
    let rest = text.strip_prefix("[#")?;
    let number = |text: &str| {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let is_plain = digits == 1 || (digits <= 20 && !text.starts_with('0'));
        is_plain.then_some(digits)
    };
    let first = number(rest)?;
    let behind = rest[first..].strip_prefix('.')?;
    let second = number(behind)?;
    behind[second..].strip_prefix(']')?;
    Some((
        rest[..first].parse().ok()?,
        behind[..second].parse().ok()?,
        2 + first + 1 + second + 1,
    ))
}

/// Writes the text of one answer, in as many parts as it comes in.
#[derive(Clone, Debug)]
pub struct Filler {
    id: u64,
    prompt_tokens: u32,
    seed: u64,
    chars_per_token: f64,
}

impl Filler {
    /// Of the answer to request `id`, given by a server that started at `created`.
    pub fn new(id: u64, prompt_tokens: u32, created: u64, chars_per_token: f64) -> Filler {
        Filler {
            id,
            prompt_tokens,
            seed: name("answer", (created, id, prompt_tokens)),
            chars_per_token,
        }
    }

    /// Appends tokens `from .. to` of the answer, counted from 0.
    pub fn write(&self, from: u32, to: u32, text: &mut String) {
        for token in from..to {
            match token {
                0 => text.push_str(&format!("[#{}.{}]", self.id, self.prompt_tokens)),
                word => self.word(word.into(), text),
            }
        }
    }

    /// The text of the first `tokens` tokens.
    pub fn text(&self, tokens: u32) -> String {
        let mut text = String::new();
        self.write(0, tokens, &mut text);
        text
    }

    /// Token `number` of the answer, from 1: a space and letters, as many as the estimate allows.
    fn word(&self, number: u64, text: &mut String) {
        let chars = chars_in(number, self.chars_per_token) - chars_in(number - 1, self.chars_per_token);
        let mut left = chars as usize;
        // One character is a letter alone, since a space would be trimmed at the end of a text.
        let mut drawn = self.draw(number);
        if left > 1 {
            text.push(' ');
            left -= 1;
        }
        while left > 0 {
            let letters = left.min(WORDS.len());
            let words = WORDS[letters - 1];
            text.push_str(words[drawn as usize % words.len()]);
            drawn /= 16;
            left -= letters;
        }
    }

    /// A number that the seed and a token's place decide: one round of SplitMix64.
    fn draw(&self, number: u64) -> u64 {
        let mut z = self.seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// The answer that a text is, whole and unchanged, given by the server that started at `created`.
///
/// Whether that server ever gave an answer of this number and length is for whoever knows them to say.
pub fn recognise(text: &str, created: u64, chars_per_token: f64) -> Option<Span> {
    let (id, start, length) = parse(text)?;
    let words = super::text::count(&text[length..], chars_per_token);
    let tokens = u32::try_from(1 + words).ok()?;
    let filler = Filler::new(id, start, created, chars_per_token);
    (filler.text(tokens) == text).then_some(Span::Answer { id, start, tokens })
}

/// A text of one token that stands for a token id, of which nobody knows the text.
pub fn stand_in(id: u64, number: u64, chars_per_token: f64, text: &mut String) {
    Filler::new(id, 0, 0, chars_per_token).word(number + 1, text);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::serve::text::count;

    #[test]
    fn an_answer_is_a_tag_and_words_of_a_token_each() {
        let text = Filler::new(7, 300, 1, 4.0).text(5);
        let mut parts = text.split(' ');
        assert_eq!(parts.next(), Some("[#7.300]"));
        assert!(parts.all(|word| WORDS[2].contains(&word)), "{text}");
        assert_eq!(text.len(), "[#7.300]".len() + 4 * 4);
        assert_eq!(Filler::new(7, 300, 1, 4.0).text(0), "");
    }

    #[test]
    fn a_tag_is_told_from_what_looks_like_one() {
        for text in ["[#7.300] the", "[#0.0]", "[#18446744073709551615.4294967295]"] {
            assert!(tag_length(text).is_some(), "{text}");
        }
        for text in [
            "[#07.3]",
            "[#7.]",
            "[#.3]",
            "[7.3]",
            "[#7.3",
            "[#-7.3]",
            "[#7.03]",
            "[#18446744073709551616.1]",
            "[#1.4294967296]",
            "",
        ] {
            assert_eq!(tag_length(text), None, "{text}");
        }
    }

    #[test]
    fn an_answer_of_an_earlier_server_is_text() {
        let text = Filler::new(7, 300, 1, 4.0).text(40);
        assert!(recognise(&text, 1, 4.0).is_some());
        assert_eq!(recognise(&text, 2, 4.0), None);
    }

    proptest! {
        #[test]
        fn an_answer_is_estimated_at_its_tokens(id: u64, prompt: u32, tokens in 0u32..300, rate in 1.0f64..30.0) {
            let text = Filler::new(id, prompt, 3, rate).text(tokens);
            prop_assert_eq!(count(&text, rate), u64::from(tokens));
        }

        #[test]
        fn an_answer_is_recognised_and_nothing_else(
            id: u64, prompt: u32, tokens in 1u32..300, rate in 1.0f64..9.0, at: prop::sample::Index,
        ) {
            let text = Filler::new(id, prompt, 3, rate).text(tokens);
            prop_assert_eq!(recognise(&text, 3, rate), Some(Span::Answer { id, start: prompt, tokens }));
            let mut changed = text.clone();
            changed.insert(at.index(text.len() + 1), '!');
            prop_assert_eq!(recognise(&changed, 3, rate), None);
            let longer = format!("{text} the end");
            prop_assert_eq!(recognise(&longer, 4, rate), None);
        }

        #[test]
        fn parts_are_the_whole(cuts in prop::collection::vec(1u32..9, 0..30)) {
            let filler = Filler::new(9, 10, 11, 4.3);
            let (mut told, mut text) = (0, String::new());
            for cut in cuts {
                filler.write(told, told + cut, &mut text);
                told += cut;
            }
            prop_assert_eq!(text, filler.text(told));
        }
    }
}
