//! Whether a result was measured with a speculative decoder, which sets no laws of one token a step.
//!
//! From flags by their names, and from what people wrote by words that mean nothing else. A `draft` is a draft of anything,
//! and a model may be called Eagle. What a file does not say is not guessed.

use super::measured::Setup;

/// How the names of flags, or of what a client counted, begin: vLLM, SGLang, TensorRT-LLM, TGI, llama.cpp.
const FLAGS: [&str; 9] = [
    "speculat",
    "num_speculative_tokens",
    "spec_method",
    "spec_model",
    "spec_tokens",
    "spec_decod",
    "accept_length",
    "draft_model",
    "model_draft",
];
/// Words for the method, in the case of letters in which they mean it.
const WORDS: [&str; 6] = ["speculative", "Speculative", "MTP", "mtp", "EAGLE", "Medusa"];
/// What stands before a method that was not used.
const NOT: [&str; 5] = ["no", "No", "not", "without", "non"];

impl Setup {
    /// Whether a speculative decoder is named: several tokens may come out of one step.
    #[must_use]
    pub fn speculates(&self) -> bool {
        names_a_flag(&self.flags)
            || [&self.flags, &self.notes, &self.workload]
                .into_iter()
                .any(|text| says_so(text))
    }
}

/// `--speculative-config={…}`, `speculative accept_length=2.4`: names of options, never their values.
fn names_a_flag(flags: &str) -> bool {
    flags.split_whitespace().any(|word| {
        let name = word.split(['=', ':']).next().unwrap_or(word);
        let name = name
            .trim_start_matches('-')
            .replace('-', "_")
            .to_ascii_lowercase();
        FLAGS.iter().any(|flag| name.starts_with(flag)) || (word.starts_with("--draft") && name == "draft")
    })
}

/// `with EAGLE-3`, `n-gram drafts`; but not `without MTP`, nor a path or a model with such a word in it.
fn says_so(text: &str) -> bool {
    let is_between = |c: char| c.is_whitespace() || ",;:()[]\"'=+.".contains(c);
    let words: Vec<&str> = text.split(is_between).filter(|word| !word.is_empty()).collect();
    (0..words.len()).any(|at| {
        let (word, next) = (words[at], words.get(at + 1).copied().unwrap_or_default());
        // `EAGLE-3`, `eagle3`, `MTP-enabled`.
        let first = word.split('-').next().unwrap_or(word);
        let name = first.trim_end_matches(|c: char| c.is_ascii_digit());
        let is_numbered = name.len() < first.len();
        let is_method = WORDS.contains(&name)
            || (name.eq_ignore_ascii_case("eagle") && is_numbered)
            || (matches!(word, "n-gram" | "ngram")
                && (next.starts_with("draft") || next.starts_with("specul")));
        is_method && !(at > 0 && NOT.contains(&words[at - 1]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decoder_is_named_and_not_guessed() {
        let speculates = |flags: &str, notes: &str| {
            let (flags, notes) = (flags.to_owned(), notes.to_owned());
            Setup {
                flags,
                notes,
                ..Setup::default()
            }
            .speculates()
        };
        for flags in [
            "--speculative-config {\"method\":\"ngram\"}",
            "vllm serve m --num-speculative-tokens=3",
            "--speculative-algorithm EAGLE3",
            "speculative accept_length=2.4",
            "--spec-method mtp",
            "--draft 8",
            "first try, with EAGLE-3",
        ] {
            assert!(speculates(flags, ""), "{flags}");
        }
        for notes in [
            "speculative decoding on",
            "MTP, 3 tokens",
            "with EAGLE3",
            "eagle3-tp2",
            "speculative-decoding",
            "n-gram drafts",
        ] {
            assert!(speculates("", notes), "{notes}");
        }
        for notes in [
            "first draft of the numbers",
            "launch flags and spec-decoding status not in this extract",
            "no speculative decoding",
            "without MTP",
            "n-gram statistics of prompts",
            "the model is RWKV/eagle-7b",
            "tests the SMTP gateway; spec-compliant",
        ] {
            assert!(!speculates("", notes), "{notes}");
        }
        for flags in [
            "--served-model-name draft",
            "label=first draft",
            "--model x/Eagle-MTP",
        ] {
            assert!(!speculates(flags, ""), "{flags}");
        }
    }
}
