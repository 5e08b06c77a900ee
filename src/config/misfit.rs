//! A model that does not fit one of several pools: whose it is, and what to change there alone.

use toml::Value;

use super::diagnostic::Diagnostic;
use super::document::Document;

/// A misfit of one pool, by the pool's name and its model, with keys of its table for flags, which would change every pool.
pub(super) fn misfit_of(mut problem: Diagnostic, name: &str, own: &Document) -> Diagnostic {
    let model = own.get("model.name").and_then(Value::as_str);
    let model = model.map_or(String::new(), |model| format!(" ({model})"));
    problem.message = format!("{name}{model}: {}", problem.message);
    if let Some(misfit) = &mut problem.misfit {
        misfit.why = format!("{name}{model}: {}", misfit.why);
    }
    for help in &mut problem.help {
        let keys = as_keys(help);
        if keys != *help {
            *help = format!("{keys}; in {name}");
        }
    }
    problem
}

/// Flags in a sentence, `-tp 2 --quantization fp8`, as the keys of a pool: `tensor_parallel_size = 2, model.quantization = "fp8"`.
fn as_keys(sentence: &str) -> String {
    const KEYS: [(&str, &str); 5] = [
        ("-tp", "tensor_parallel_size"),
        ("--tensor-parallel-size", "tensor_parallel_size"),
        ("--quantization", "model.quantization"),
        ("--kv-cache-dtype", "model.kv_cache_dtype"),
        ("--max-model-len", "engine.max_model_len"),
    ];
    let mut told: Vec<String> = Vec::new();
    let mut words = sentence.split_whitespace();
    while let Some(word) = words.next() {
        let key = KEYS.iter().find(|(flag, _)| *flag == word);
        let Some(((_, key), value)) = key.and_then(|key| Some((key, words.next()?))) else {
            told.push(word.to_owned());
            continue;
        };
        let is_number = value.parse::<f64>().is_ok();
        let value = if is_number {
            value.to_owned()
        } else {
            format!("\"{value}\"")
        };
        // Two keys that belong together are one change.
        match told.last_mut().filter(|before| before.contains(" = ")) {
            Some(before) => before.push_str(&format!(" and {key} = {value}")),
            None => told.push(format!("{key} = {value}")),
        }
    }
    told.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_would_change_every_pool_are_keys_of_one() {
        let said = "smallest change that fits: -tp 2   |   --quantization fp8 --max-model-len 1024";
        assert_eq!(
            as_keys(said),
            "smallest change that fits: tensor_parallel_size = 2 | model.quantization = \"fp8\" and engine.max_model_len = 1024"
        );
        assert_eq!(as_keys("the model is too large"), "the model is too large");
    }
}
