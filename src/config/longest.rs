//! `--max-model-len auto`: the longest sequence that the KV pool holds, as vLLM finds it at start-up.
//!
//! vLLM plans its memory for what the model allows, and where one request of that length does not fit it takes the longest that does
//! (`_auto_fit_max_model_len` of vLLM 0.33, a bisection over tokens). So it is here: the machine is judged once without the key, and the
//! length that was found is written into the input. What is wrong with the rest is left for the judge to say.

use toml::Value;

use super::capacity::{count, first_server};
use super::document::Document;
use super::files::Files;
use super::profile;
use super::scalar::Context;
use crate::engine::memory::longest_context;

const KEY: &str = "engine.max_model_len";
/// As the origin of the value is told, and by which it is known again.
const OF: &str = "--max-model-len auto, the longest that fits";

/// Puts the longest length that fits where `auto` was asked for; what is to be said of it.
pub(super) fn settle(document: &mut Document, files: &dyn Files) -> Option<String> {
    let asked: Context = document.get(KEY)?.clone().try_into().ok()?;
    if asked != Context::Longest {
        return None;
    }
    let mut without = document.clone();
    without.remove(KEY);
    let (server, role) = first_server(without);
    let found = count(server, role, files).ok()?;
    let (version, _) = profile::find(&found.profile).ok()?;
    if !version.startup.fits_context {
        return None;
    }
    let allowed = found.max_model_len;
    let longest = match &found.plan {
        Ok(_) => allowed,
        Err(_) => {
            longest_context(&found.device, &found.model, &found.options, 1).filter(|&tokens| tokens > 1)?
        }
    };
    document.remove(KEY);
    document.set_default(KEY, Value::from(longest), OF);
    Some(match longest < allowed {
        true => format!(
            "max_model_len auto: {longest} tokens are the longest that fits the KV pool; the model allows {allowed}, and --max-model-len \
             of a shorter one leaves more requests room"
        ),
        false => format!("max_model_len auto: all {allowed} tokens that the model allows fit the KV pool"),
    })
}

#[cfg(test)]
mod tests {
    use crate::config::flags::tests::{flags_of, resolve_line};
    use crate::config::{NoFiles, assemble, capacity};

    fn fitted(line: &str) -> (u32, bool) {
        let input = assemble(&flags_of(line), &NoFiles).unwrap_or_else(|problems| panic!("{problems}"));
        let found = capacity(input.document, &NoFiles).unwrap_or_else(|problems| panic!("{problems}"));
        (found.max_model_len, found.plan.is_ok())
    }

    #[test]
    fn auto_is_the_longest_that_fits() {
        for word in ["auto", "-1"] {
            // All of a small model's context fits; of a large one's so much that a token more does not.
            let line = format!("Qwen/Qwen3-8B --gpu h100 --max-model-len {word}");
            assert_eq!(fitted(&line), (40_960, true));
            let tight = "meta-llama/Llama-3.1-8B-Instruct --gpu l4 --max-model-len";
            let (longest, fits) = fitted(&format!("{tight} {word}"));
            assert!(fits && longest < 131_072, "{longest}");
            assert!(!fitted(&format!("{tight} {}", longest + 1)).1);
        }
    }

    #[test]
    fn a_run_takes_it_and_says_so() {
        let traffic = "--request-rate 1 --input-len 100 --output-len 10";
        let line = |engine: &str| {
            format!(
                "--gpu l4 {traffic} --serve-cmd 'vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len auto' {engine}"
            )
        };
        let run = resolve_line(&line("")).unwrap_or_else(|problems| panic!("{problems}"));
        let length = run.scenario.first_pool().engine.vllm().unwrap().max_model_len;
        assert!(
            run.notes
                .iter()
                .any(|note| note.contains(&format!("auto: {length} tokens"))),
            "{:?}",
            run.notes
        );
        let is_told = run.assumptions().any(|value| value.key == "engine.max_model_len");
        assert!(is_told, "its source stands beside the value");
        let older = resolve_line(&line("--engine vllm@0.11")).map(|_| ()).unwrap_err();
        assert!(older.to_string().contains("since 0.14"), "{older}");
    }
}
