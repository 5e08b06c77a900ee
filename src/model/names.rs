//! Names of models: which two mean one, and which cannot.

use super::registry::find;

/// Whether two names mean one model: its maker may be left out, and a path ends in the name.
///
/// ```
/// assert!(plimsoll::model::is_same_name("Qwen/Qwen3-8B", "/models/qwen3-8b/"));
/// ```
#[must_use]
pub fn is_same_name(one: &str, other: &str) -> bool {
    let last = |name: &str| {
        let name = name.trim_end_matches('/');
        name.rsplit('/').next().unwrap_or(name).to_lowercase()
    };
    last(one) == last(other)
}

/// Whether two names cannot mean one model: both are shipped and differ in shape, or they say sizes that differ. A name that is
/// nowhere known, as a tuned model's or a server's own, contradicts nothing but by the size in it.
///
/// ```
/// use plimsoll::model::is_other;
/// assert!(is_other("facebook/opt-125m", "meta-llama/Llama-3.1-8B-Instruct"));
/// assert!(!is_other("acme/Meta-Llama-3.1-8B-tuned-FP8", "meta-llama/Llama-3.1-8B-Instruct"));
/// ```
#[must_use]
pub fn is_other(one: &str, other: &str) -> bool {
    if is_same_name(one, other) {
        return false;
    }
    match (find(one), find(other)) {
        (Ok((one, _)), Ok((other, _))) => {
            (one.hidden_size, one.vocab_size) != (other.hidden_size, other.vocab_size)
                || one.layers != other.layers
        }
        _ => size(one)
            .zip(size(other))
            .is_some_and(|(one, other)| (one / other).ln().abs() > SIZES_APART),
    }
}

/// How far two spellings of one size lie apart at most, of the logarithm: `8B` and `8.03B`.
const SIZES_APART: f64 = 0.1;

/// The parameters that a name says, in billions: `8B`, `125m`, `8x7B`.
fn size(name: &str) -> Option<f64> {
    let of = |word: &str| {
        let (digits, unit) = word.split_at_checked(word.len().checked_sub(1)?)?;
        let unit = match unit {
            "b" => 1.0,
            "m" => 1e-3,
            _ => return None,
        };
        let factors = digits.split('x').map(|digits| {
            let is_number = digits.starts_with(|first: char| first.is_ascii_digit());
            digits
                .parse::<f64>()
                .ok()
                .filter(|number| is_number && *number > 0.0)
        });
        let product: Option<f64> = factors.product();
        Some(unit * product?)
    };
    let name = name.trim_end_matches('/').to_lowercase();
    let last = name.rsplit('/').next()?;
    last.split(['-', '_', ' ', ':']).find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_of_other_shapes_or_sizes_are_others_and_spellings_are_not() {
        let llama = "meta-llama/Llama-3.1-8B-Instruct";
        for other in [
            "openai/gpt-oss-120b",
            "opt-125m",
            "Qwen/Qwen3-8B",
            "acme/support-bot-70b",
            "mistralai/Mixtral-8x7B-v0.1",
        ] {
            assert!(is_other(llama, other) && is_other(other, llama), "{other}");
        }
        for same in [
            "llama-3.1-8b-instruct",
            "/data/models/Llama-3.1-8B-Instruct/",
            "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8",
            "meta-llama/Meta-Llama-3-8B",
            "default",
            "acme/bot-8.03b",
            "é",
        ] {
            assert!(!is_other(llama, same) && !is_other(same, llama), "{same}");
        }
    }
}
