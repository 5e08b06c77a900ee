//! Names as people write them: `llama3-8b`, `mistral-7b`, `Kimi-K2`, `unsloth/Llama-3.2-1B-Instruct`.
//!
//! A name is cut into words, of which some say nothing of a shape (`instruct`, `hf`), and an id may say more than the name where that
//! is a detail (`7b`, `v0.3`, `2507`). Left out: other makers' names for a model, and who published it: a copy keeps its name, and a model that
//! was trained on gets another. Law: only models of one size are meant by one name; else none is, and all of them are proposed.

use super::{Shipped, all, read};

/// Words that differ between checkpoints of one shape.
const SILENT: [&str; 11] = [
    "base", "c4ai", "chat", "hf", "inst", "instruct", "it", "meta", "nvidia", "pt", "sft",
];

/// How far the parameters of models of one size are apart at most, a vocabulary of another version's: Mistral 7B's 0.1 %.
const ONE_SIZE: f64 = 0.01;

/// The shipped model that is meant by a name; else the ids of those that it may mean, of each shape one.
pub(super) fn meant(name: &str) -> Result<&'static Shipped, Vec<&'static str>> {
    let wanted = words(name);
    let known: Vec<Candidate> = all()
        .map(|shipped| Candidate {
            shipped,
            words: words(shipped.id),
        })
        .collect();
    let telling = telling_ones(&wanted);
    if telling.is_empty() {
        return Err(Vec::new());
    }
    let mut candidates: Vec<&Candidate> = known.iter().filter(|one| one.telling() == telling).collect();
    if candidates.is_empty() {
        candidates.extend(known.iter().filter(|one| one.only_adds_details_to(&telling)));
    }
    let closest = candidates.iter().map(|one| one.shared(&wanted)).max();
    candidates.retain(|one| Some(one.shared(&wanted)) == closest);
    // Of several the newest version, and of those the one that says least beside the name; in the order of listings, as ever.
    candidates.sort_by(|one, other| {
        let newest = other.version().total_cmp(&one.version());
        newest.then(one.words.len().cmp(&other.words.len()))
    });
    match candidates.split_first() {
        Some((first, rest)) if rest.iter().all(|other| first.is_like(other)) => Ok(first.shipped),
        _ => Err(one_of_each_shape(&candidates)),
    }
}

fn one_of_each_shape(candidates: &[&Candidate]) -> Vec<&'static str> {
    let mut seen = Vec::new();
    let is_new = |one: &&&Candidate| {
        let shape = (one.shipped.file, one.shipped.stored);
        let is_new = !seen.contains(&shape);
        seen.push(shape);
        is_new
    };
    let ids = candidates.iter().filter(is_new).map(|one| one.shipped.id);
    ids.collect()
}

struct Candidate {
    shipped: &'static Shipped,
    words: Vec<String>,
}

impl Candidate {
    fn telling(&self) -> Vec<&str> {
        telling_ones(&self.words)
    }

    fn only_adds_details_to(&self, telling: &[&str]) -> bool {
        let own = self.telling();
        let more = own.strip_prefix(telling);
        more.is_some_and(|more| more.iter().all(|word| is_detail(word)))
    }

    /// How many of the words wanted it has: `chat` parts two of one shape.
    fn shared(&self, wanted: &[String]) -> usize {
        wanted.iter().filter(|word| self.words.contains(word)).count()
    }

    /// `0.3` of `v0.3`; 0 where none is told.
    fn version(&self) -> f64 {
        let number = |word: &String| word.strip_prefix('v')?.parse().ok();
        self.words.iter().find_map(number).unwrap_or(0.0)
    }

    /// Whether both are of one size, and of one attention unless they are two versions.
    fn is_like(&self, other: &Candidate) -> bool {
        let (own, their) = (read(self.shipped).0, read(other.shipped).0);
        let ratio = own.parameters() as f64 / their.parameters() as f64;
        own.hidden_size == their.hidden_size
            && own.quantization == their.quantization
            && (ratio - 1.0).abs() <= ONE_SIZE
            && (own.layers == their.layers || self.version() != other.version())
    }
}

fn telling_ones(words: &[String]) -> Vec<&str> {
    let is_telling = |word: &&str| !SILENT.contains(word);
    words.iter().map(String::as_str).filter(is_telling).collect()
}

/// The words of a name's last part, in lower case: `Llama3.1-8B` and `llama-3_1-8b` have the same three.
fn words(name: &str) -> Vec<String> {
    let name = name.trim().trim_end_matches('/').to_lowercase();
    let letters: Vec<char> = name.rsplit('/').next().unwrap_or(&name).chars().collect();
    let is_digit = |at: Option<usize>| {
        at.and_then(|at| letters.get(at))
            .is_some_and(char::is_ascii_digit)
    };
    let mut words = vec![String::new()];
    for (at, &letter) in letters.iter().enumerate() {
        let is_point = matches!(letter, '.' | '_') && is_digit(at.checked_sub(1)) && is_digit(Some(at + 1));
        let word = words.last_mut().expect("there is always one");
        // `llama3` are two words, `k2`, `a3b` and `v0.3` one.
        let is_number_after_word =
            letter.is_ascii_digit() && word.len() > 2 && word.chars().all(char::is_alphabetic);
        match letter {
            _ if is_point => word.push('.'),
            '-' | '_' | '.' | ' ' | ':' => words.push(String::new()),
            _ if is_number_after_word => words.push(letter.to_string()),
            _ => word.push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether a word says a size (`8x7b`, `a3b`, `16e`), a context (`128k`), a version (`v0.3`), a day (`2507`) or 16 bits.
fn is_detail(word: &str) -> bool {
    let is_number = |digits: &str| digits.parse::<f64>().is_ok_and(f64::is_finite);
    let is_day = word.len().is_multiple_of(2) && word.chars().all(|letter| letter.is_ascii_digit());
    let is_size = || {
        let number = word.trim_start_matches('a').strip_suffix(['b', 'm', 'e', 'k']);
        number.is_some_and(|number| number.split('x').all(is_number))
    };
    is_day || is_size() || word == "bf16" || word.strip_prefix('v').is_some_and(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_everyday_name_means_one_model() {
        for (name, id) in [
            ("llama3-8b", "meta-llama/Meta-Llama-3-8B"),
            ("Llama-3-8B-Instruct", "meta-llama/Meta-Llama-3-8B-Instruct"),
            ("llama-2-7b", "meta-llama/Llama-2-7b-hf"),
            ("llama2-7b-chat", "meta-llama/Llama-2-7b-chat-hf"),
            ("Llama 3.1 70B", "meta-llama/Llama-3.1-70B"),
            ("llama3.3:70b", "meta-llama/Llama-3.3-70B-Instruct"),
            ("Llama-4-Scout", "meta-llama/Llama-4-Scout-17B-16E-Instruct"),
            (
                "unsloth/Llama-3.2-1B-Instruct",
                "meta-llama/Llama-3.2-1B-Instruct",
            ),
            ("mistral-7b", "mistralai/Mistral-7B-v0.3"),
            (
                "mistralai/Mistral-7B-Instruct",
                "mistralai/Mistral-7B-Instruct-v0.3",
            ),
            (
                "mistral-small-3.2",
                "mistralai/Mistral-Small-3.2-24B-Instruct-2506",
            ),
            ("Mixtral-8x7B", "mistralai/Mixtral-8x7B-v0.1"),
            ("gemma-3-27b", "google/gemma-3-27b-it"),
            ("qwen2.5-vl-32b", "Qwen/Qwen2.5-VL-32B-Instruct"),
            ("Qwen/Qwen3-VL-32B", "Qwen/Qwen3-VL-32B-Instruct"),
            ("qwen-2.5-7b-instruct", "Qwen/Qwen2.5-7B-Instruct"),
            ("Kimi-K2", "moonshotai/Kimi-K2-Instruct"),
            ("glm-4-9b-it", "zai-org/glm-4-9b"),
            ("TinyLlama", "TinyLlama/TinyLlama-1.1B-Chat-v1.0"),
            ("phi-1.5", "microsoft/phi-1_5"),
            ("gpt-2", "openai-community/gpt2"),
            (
                "nemotron-3-nano-30b",
                "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
            ),
        ] {
            assert_eq!(meant(name).map(|shipped| shipped.id), Ok(id), "{name}");
        }
    }

    #[test]
    fn a_name_of_several_sizes_means_none() {
        let check = |name: &str, ids: &[&str]| assert_eq!(meant(name).err().unwrap(), ids, "{name}");
        check(
            "mixtral",
            &["mistralai/Mixtral-8x7B-v0.1", "mistralai/Mixtral-8x22B-v0.1"],
        );
        // One has a window.
        check(
            "phi-3-mini",
            &[
                "microsoft/Phi-3-mini-4k-instruct",
                "microsoft/Phi-3-mini-128k-instruct",
            ],
        );
        // One is stored in fp8, the other is not.
        check(
            "ministral-3-8b",
            &[
                "mistralai/Ministral-3-8B-Instruct-2512",
                "mistralai/Ministral-3-8B-Base-2512",
            ],
        );
        for name in [
            "",
            "/",
            "instruct",
            "é",
            "llama-8b",
            "quickstart",
            "acme/bot-8b",
            "Qwen3-8B-tuned",
        ] {
            check(name, &[]);
        }
        assert!(meant("qwen3").err().unwrap().len() > 5);
    }

    #[test]
    fn every_id_is_meant_by_itself_whoever_published_it() {
        for shipped in all() {
            let (_, last) = shipped.id.split_once('/').unwrap();
            let found = meant(&format!("acme/{last}")).unwrap_or_else(|others| panic!("{last}: {others:?}"));
            assert_eq!(read(found).0.parameters(), read(shipped).0.parameters(), "{last}");
            assert_eq!(found.stored, shipped.stored, "{last}");
        }
    }
}
