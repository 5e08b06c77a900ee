//! Tokens of a text that nobody tokenized: an estimate by kinds of characters.
//!
//! Chinese, Japanese and Korean characters mostly are tokens of their own; of all others a given number make one token, rounded up. The
//! count never falls as a text grows, so a text has a place where each of its tokens ends. Left out: what real vocabularies hold.

/// Whether a character is Chinese, Japanese or Korean, and so a token of its own.
pub fn is_a_token(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}')
}

/// Tokens that so many characters make which are not tokens of their own.
pub fn tokens_of(characters: u64, chars_per_token: f64) -> f64 {
    (characters as f64 / chars_per_token).ceil()
}

/// Estimated number of tokens of a text.
pub fn estimate(text: &str, chars_per_token: f64) -> f64 {
    let (mut wide, mut narrow) = (0u64, 0u64);
    for c in text.chars() {
        if is_a_token(c) {
            wide += 1;
        } else {
            narrow += 1;
        }
    }
    wide as f64 + tokens_of(narrow, chars_per_token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_are_tokens_and_others_share_one() {
        assert_eq!(estimate("", 4.0), 0.0);
        assert_eq!(estimate("12345678", 4.0), 2.0);
        assert_eq!(estimate("123456789", 4.0), 3.0);
        assert_eq!(estimate("你好 abcd", 4.0), 2.0 + 2.0);
        assert_eq!(estimate("abcdefg", 3.5), 2.0);
    }
}
