//! The text of answers: common words, one for each token, so that lengths are right wherever somebody counts.
//!
//! A simulated server has nothing to say. Token `k` of its answers ends where an estimate by characters ([`super::text`]) counts `k`
//! tokens; at the usual four characters a token every word is a space and three letters, one token in the usual vocabularies. The first 16
//! words are a code: four bits each of the request's number, the length of its prompt and a check that the server's start goes into. The
//! words behind them follow from these. So a text that comes back in the next turn is known for the very answer that it was, or for none:
//! one of an earlier server, one that somebody changed, or one that somebody made up differs. An answer of fewer than 16 tokens, less
//! than a block, is a text like any other.

use super::desk::Span;
use super::text::{chars_in, name};
use crate::ids::RequestId;
use crate::rng::mixed;

/// Words that hold the code.
const CODED: u32 = 16;
/// Bits of the code: of the request's number, of the prompt's length, and of the check.
const ID_BITS: u32 = 32;
const PROMPT_BITS: u32 = 20;
const CHECK_BITS: u32 = 12;
const _: () = assert!(ID_BITS + PROMPT_BITS + CHECK_BITS == 4 * CODED);

/// Sixteen words of each number of letters, from one.
const WORDS: [[&str; 16]; 6] = [
    [
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "k", "l", "m", "n", "o", "s", "t",
    ],
    [
        "of", "to", "in", "is", "it", "on", "as", "we", "he", "by", "or", "at", "if", "so", "no", "up",
    ],
    [
        "the", "and", "for", "are", "but", "not", "you", "all", "can", "had", "her", "was", "one", "our",
        "out", "day",
    ],
    [
        "that", "with", "have", "this", "will", "from", "they", "been", "more", "time", "some", "what",
        "when", "your", "said", "each",
    ],
    [
        "about", "which", "their", "there", "would", "other", "these", "could", "first", "after", "think",
        "where", "being", "under", "years", "world",
    ],
    [
        "people", "should", "number", "system", "before", "little", "things", "always", "really", "around",
        "become", "school", "during", "public", "social", "family",
    ],
];

/// Writes the text of one answer, in as many parts as it comes in.
#[derive(Clone, Debug)]
pub struct Filler {
    code: u64,
    seed: u64,
    chars_per_token: f64,
}

impl Filler {
    /// Of the answer to request `id`, given by a server that started at `created`.
    ///
    /// Numbers from 2³² and prompts of a million tokens do not fit the code; answers to them are not known again.
    pub fn new(id: u64, prompt_tokens: u32, created: u64, chars_per_token: f64) -> Filler {
        let seed = name("answer", (created, id, prompt_tokens));
        let fields = (id << PROMPT_BITS | u64::from(prompt_tokens) & ((1 << PROMPT_BITS) - 1)) << CHECK_BITS;
        Filler {
            code: mixed(fields | seed >> (64 - CHECK_BITS)),
            seed,
            chars_per_token,
        }
    }

    /// Appends tokens `from .. to` of the answer, counted from 0.
    pub fn write(&self, from: u32, to: u32, text: &mut String) {
        for token in from..to {
            let drawn = match token {
                coded if coded < CODED => self.code >> (4 * coded),
                further => mixed(self.seed.wrapping_add(further.into())),
            };
            word(token.into(), drawn, self.chars_per_token, text);
        }
    }

    /// The text of the first `tokens` tokens.
    pub fn text(&self, tokens: u32) -> String {
        let mut text = String::new();
        self.write(0, tokens, &mut text);
        text
    }
}

/// Characters of a token of a text that has one word a token.
fn chars_of(token: u64, chars_per_token: f64) -> usize {
    (chars_in(token + 1, chars_per_token) - chars_in(token, chars_per_token)) as usize
}

/// Whether a token begins with a space. The first does not, since clients trim texts, nor does one of a single character.
fn is_spaced(token: u64, chars: usize) -> bool {
    token > 0 && chars > 1
}

/// Appends a token of so many characters as the estimate allows; the last four bits of `drawn` choose its first letters.
fn word(token: u64, drawn: u64, chars_per_token: f64, text: &mut String) {
    let chars = chars_of(token, chars_per_token);
    let is_spaced = is_spaced(token, chars);
    if is_spaced {
        text.push(' ');
    }
    let (mut left, mut drawn) = (chars - usize::from(is_spaced), drawn);
    while left > 0 {
        let letters = left.min(WORDS.len());
        text.push_str(WORDS[letters - 1][drawn as usize % 16]);
        (left, drawn) = (left - letters, drawn >> 4);
    }
}

/// The inverse of [`mixed`].
fn unmix(mut z: u64) -> u64 {
    z = (z ^ z >> 31 ^ z >> 62).wrapping_mul(0x3196_42b2_d24d_8ec3);
    z = (z ^ z >> 27 ^ z >> 54).wrapping_mul(0x96de_1b17_3f11_9089);
    z ^ z >> 30 ^ z >> 60
}

/// The answer that a text is, whole and unchanged, given by the server that started at `created`.
///
/// Whether that server ever gave an answer of this number and length is for whoever knows them to say.
pub fn recognise(text: &str, created: u64, chars_per_token: f64) -> Option<Span> {
    let fields = unmix(code(text, chars_per_token)?) >> CHECK_BITS;
    let id = fields >> PROMPT_BITS;
    let start = (fields & ((1 << PROMPT_BITS) - 1)) as u32;
    let tokens = u32::try_from(super::text::count(text, chars_per_token)).ok()?;
    let filler = Filler::new(id, start, created, chars_per_token);
    (filler.text(tokens) == text).then_some(Span::Answer {
        id: RequestId(id),
        start,
        tokens,
    })
}

/// What the first words of a text hold; `None` where they are not such words.
fn code(text: &str, chars_per_token: f64) -> Option<u64> {
    let mut rest = text;
    let mut code = 0;
    for token in 0..u64::from(CODED) {
        let chars = chars_of(token, chars_per_token);
        let skipped = usize::from(is_spaced(token, chars));
        let letters = (chars - skipped).min(WORDS.len());
        let written = rest.get(skipped..skipped + letters)?;
        let nibble = WORDS[letters - 1].iter().position(|word| *word == written)?;
        code |= (nibble as u64) << (4 * token);
        rest = rest.get(chars..)?;
    }
    Some(code)
}

/// A text of one token that stands for a token id, of which nobody knows the text; the `number`th of its text.
pub fn stand_in(id: u64, number: u64, chars_per_token: f64, text: &mut String) {
    word(number, mixed(id), chars_per_token, text);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::serve::text::count;

    #[test]
    fn an_answer_is_words_of_a_token_each() {
        let text = Filler::new(7, 300, 1, 4.0).text(50);
        let (first, rest) = text.split_once(' ').unwrap();
        assert!(WORDS[3].contains(&first), "{text}");
        assert!(rest.split(' ').all(|word| WORDS[2].contains(&word)), "{text}");
        assert_eq!(text.len(), 4 * 50);
        assert_eq!(Filler::new(7, 300, 1, 4.0).text(0), "");
    }

    #[test]
    fn words_of_a_length_are_unlike() {
        for (words, letters) in WORDS.iter().zip(1..) {
            let unlike: std::collections::BTreeSet<_> = words.iter().collect();
            assert!(
                unlike.len() == 16 && words.iter().all(|word| word.len() == letters),
                "{words:?}"
            );
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
            id: u32, prompt in 1u32..1 << 20, tokens in 16u32..300, rate in 1.0f64..9.0, at: prop::sample::Index,
        ) {
            let text = Filler::new(id.into(), prompt, 3, rate).text(tokens);
            let known = Span::Answer { id: RequestId(id.into()), start: prompt, tokens };
            prop_assert_eq!(recognise(&text, 3, rate), Some(known));
            let mut changed = text.clone();
            changed.insert(at.index(text.len() + 1), '!');
            prop_assert_eq!(recognise(&changed, 3, rate), None);
            prop_assert_eq!(recognise(&format!("{text} the end"), 3, rate), None);
            prop_assert_eq!(recognise(&Filler::new(id.into(), prompt, 3, rate).text(15), 3, rate), None);
        }

        #[test]
        fn what_the_code_does_not_hold_is_not_taken_for_another(id in 1u64 << 32.., prompt: u32) {
            let text = Filler::new(id, prompt, 3, 4.0).text(60);
            prop_assert_eq!(recognise(&text, 3, 4.0), None);
        }

        #[test]
        fn any_text_is_looked_at(text in ".{0,80}", rate in 1.0f64..9.0) {
            prop_assert_eq!(recognise(&text, 3, rate), None);
        }

        #[test]
        fn mixing_has_an_inverse(z: u64) {
            prop_assert_eq!(unmix(mixed(z)), z);
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
