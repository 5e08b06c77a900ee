//! The flags of a row's server, read as the command of a server is: what it sets, what has no effect, what is refused.
//!
//! Tables write them as a whole command, as flags alone, or as words: `max_num_seqs=128 workers=None`. Of words before the first
//! flag only those are taken that are flags of a server; one that is written as a flag, `workers=None`, and is none is named, any
//! other is a remark. A client's command says nothing of the server; among flags alone those are taken that no client has.

use std::collections::BTreeMap;

use toml::Value;

use super::super::words::leaves_windows_out;
use crate::config::pasted::{is_flag_of_servers_alone, is_server_flag, starts_server};
use crate::config::{Diagnostic, Diagnostics, served};

/// What one of these marks as the flags of a client.
const OF_CLIENTS: [&str; 4] = [
    "--dataset-name",
    "--dataset-path",
    "--num-prompts",
    "--random-input-len",
];
/// Words of tables for flags of the engines.
const SHORT: [(&str, &str); 4] = [
    ("gpu-mem-util", "gpu-memory-utilization"),
    ("tp", "tensor-parallel-size"),
    ("dp", "data-parallel-size"),
    ("pp", "pipeline-parallel-size"),
];

/// The flag behind `fp8 skip-SW`.
const SKIPPED: &str = "--kv-cache-dtype-skip-layers=sliding_window";

/// What the flags say.
#[derive(Debug, Default, PartialEq)]
pub(in crate::calibrate) struct Said {
    /// Keys of a scenario, `engine.max_num_seqs`. Whoever writes one into a scenario takes it out.
    pub(in crate::calibrate) keys: BTreeMap<String, Value>,
    /// The model that the command serves, by its name there.
    pub(super) model: Option<String>,
    /// What has no effect, as sentences.
    pub(super) ignored: Vec<String>,
}

impl Said {
    /// Reads the flags of an engine, `vllm@0.11.0` or `sglang`.
    ///
    /// # Errors
    /// What the simulation cannot honour, as one sentence.
    pub(in crate::calibrate) fn of(flags: &str, engine: &str) -> Result<Said, String> {
        let mut said = Said::default();
        said.read_phrases(flags, engine);
        let mut words = shlex::split(flags).ok_or("its flags have a quote that does not end")?;
        for word in words.iter_mut().filter(|word| leaves_windows_out(word)) {
            *word = SKIPPED.to_owned();
        }
        let first = words.iter().position(|word| word.starts_with('-'));
        let (words, flags_alone) = words.split_at(first.unwrap_or(words.len()));
        let command = if starts_server(&[words, flags_alone].concat()) {
            flags.to_owned()
        } else {
            let mut own = said.flags_of(words, engine);
            if flags_alone.iter().any(|word| is_of_client(word)) {
                own.extend(beside_a_clients(flags_alone));
            } else {
                own.extend_from_slice(flags_alone);
            }
            if own.is_empty() {
                return Ok(said);
            }
            command(&own, engine)?
        };
        // As tables abbreviate it; vLLM itself takes only the long name.
        let command = [" ", "="].iter().fold(command, |command, between| {
            let flag = format!("kv-cache-dtype{between}");
            command.replace(&format!("{flag}bf16"), &format!("{flag}bfloat16"))
        });
        let (document, ignored) = served(&command, Some(engine)).map_err(|problems| first_of(&problems))?;
        for (section, table) in document.table() {
            for (key, value) in table.as_table().into_iter().flatten() {
                said.keys.insert(format!("{section}.{key}"), value.clone());
            }
        }
        said.model = match said.keys.remove("model.name") {
            Some(Value::String(model)) => Some(model),
            _ => None,
        };
        said.ignored
            .extend(ignored.iter().map(|sentence| plain(sentence)));
        Ok(said)
    }

    /// What people write in words.
    fn read_phrases(&mut self, flags: &str, engine: &str) {
        let mut say = |key: &str, is_on: bool| self.keys.insert(key.to_owned(), Value::Boolean(is_on));
        for (phrase, is_on) in [("prefix caching on", true), ("prefix caching off", false)] {
            if flags.contains(phrase) {
                match section_of(engine) {
                    "sglang" => say("sglang.disable_radix_cache", !is_on),
                    "trtllm" => say("trtllm.enable_block_reuse", is_on),
                    _ => say("engine.enable_prefix_caching", is_on),
                };
            }
        }
        for (phrase, is_on) in [("chunked prefill on", true), ("chunked prefill off", false)] {
            if flags.contains(phrase) && section_of(engine) != "sglang" {
                say("engine.enable_chunked_prefill", is_on);
            }
        }
    }

    /// Words of a table as flags: `max_num_seqs=128`, `enable_prefix_caching=True`, `enforce_eager`. What Python prints for
    /// nothing is the engine's default.
    fn flags_of(&mut self, words: &[String], engine: &str) -> Vec<String> {
        let mut flags = Vec::new();
        for word in words {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word.as_str(), None),
            };
            let name = name.replace('_', "-");
            let known = SHORT.iter().find(|(short, _)| *short == name);
            let name = known.map_or(name, |(_, name)| (*name).to_owned());
            let is_written_as_one = value.is_some() || word.contains('_') || word.contains('-');
            if !is_written_as_one || !is_server_flag(&name) {
                if value.is_some() {
                    self.ignored.push(format!("`{word}` is no flag of the server"));
                }
                continue;
            }
            match value.map(str::to_lowercase).as_deref() {
                Some("none") => {}
                Some("true") | None => flags.push(format!("--{name}")),
                Some("false") => flags.push(format!("--no-{name}")),
                Some(_) => flags.push(format!("--{name}={}", value.unwrap_or_default())),
            }
        }
        let (own, foreign): (Vec<String>, Vec<String>) =
            flags.into_iter().partition(|flag| !is_of_other(flag, engine));
        let remark = |flag: &String| format!("`{flag}` is no flag of this engine");
        self.ignored.extend(foreign.iter().map(remark));
        own
    }

    /// Takes out the engine that a command starts, which must be the one that the row names; the tag of its image, if it has one.
    ///
    /// # Errors
    /// Where it is another engine.
    pub(in crate::calibrate) fn take_tag(&mut self, name: &str) -> Result<Option<String>, String> {
        let Some(Value::String(started)) = self.take("engine.profile") else {
            return Ok(None);
        };
        let (family, tag) = match started.split_once('@') {
            Some((family, tag)) => (family, Some(tag.to_owned())),
            None => (started.as_str(), None),
        };
        match family == name {
            true => Ok(tag),
            false => Err(format!(
                "the row contradicts itself: its engine is `{name}`, its flags start {family}"
            )),
        }
    }

    /// Takes out a key that a column speaks of, too.
    pub(super) fn take(&mut self, key: &str) -> Option<Value> {
        self.keys.remove(key)
    }

    /// Takes out all keys of a section that nobody has written.
    pub(super) fn take_section(&mut self, section: &str) -> Vec<(String, Value)> {
        let start = format!("{section}.");
        let (of_it, others) = std::mem::take(&mut self.keys)
            .into_iter()
            .partition(|(key, _)| key.starts_with(&start));
        self.keys = others;
        let of_it: BTreeMap<String, Value> = of_it;
        of_it
            .into_iter()
            .map(|(key, value)| (key[start.len()..].to_owned(), value))
            .collect()
    }
}

fn is_of_client(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    OF_CLIENTS.contains(&name)
}

/// Of flags some of which are a client's, those of servers alone, each with its value.
fn beside_a_clients(flags: &[String]) -> Vec<String> {
    let mut is_of_server = false;
    let is_kept = |word: &&String| {
        if let Some(flag) = word.strip_prefix("--") {
            let name = flag.split('=').next().unwrap_or(flag).replace('_', "-");
            is_of_server = is_flag_of_servers_alone(&name);
        }
        is_of_server
    };
    flags.iter().filter(is_kept).cloned().collect()
}

/// The section of an engine's own flags; TensorRT-LLM shares a few of vLLM's.
fn section_of(engine: &str) -> &'static str {
    match engine {
        engine if engine.starts_with("sglang") => "sglang",
        engine if engine.starts_with("tensorrt-llm") => "trtllm",
        _ => "engine",
    }
}

/// Whether a flag is one of the other engine.
fn is_of_other(flag: &str, engine: &str) -> bool {
    let section = match section_of(engine) {
        "sglang" => "engine",
        _ => "sglang",
    };
    let alone = command(&[flag.to_owned()], engine).and_then(|command| {
        let (document, _) = served(&command, None).map_err(|problems| first_of(&problems))?;
        Ok(document.table().get(section).and_then(Value::as_table).cloned())
    });
    let keys = alone.ok().flatten().unwrap_or_default();
    keys.keys().any(|key| key != "profile")
}

/// The command that has these flags.
fn command(flags: &[String], engine: &str) -> Result<String, String> {
    let program = match section_of(engine) {
        "sglang" => "python -m sglang.launch_server",
        "trtllm" => "trtllm-serve",
        _ => "vllm serve",
    };
    let words = program.split(' ').chain(flags.iter().map(String::as_str));
    shlex::try_join(words).map_err(|_| "its flags hold a character that no shell passes on".to_owned())
}

fn first_of(problems: &Diagnostics) -> String {
    let first = problems.0.first().map(Diagnostic::sentence);
    format!("its flags: {}", plain(&first.unwrap_or_default()))
}

/// A sentence about a pasted command, of a row.
fn plain(sentence: &str) -> String {
    sentence.trim_start_matches("in --serve-cmd: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(flags: &str, engine: &str) -> Vec<String> {
        let said = Said::of(flags, engine).unwrap();
        said.keys
            .iter()
            .map(|(key, value)| format!("{key} = {value}"))
            .collect()
    }

    #[test]
    fn a_command_flags_alone_and_words_say_the_same() {
        let expected = ["engine.max_model_len = 4096", "engine.max_num_seqs = 128"];
        for flags in [
            "vllm serve Qwen/Qwen3-8B --max-num-seqs 128 --max-model-len 4096 --port 80",
            "VLLM_LOGGING_LEVEL=INFO vllm serve m --max_num_seqs=128 --max-model-len 4k --max-model-len=4096",
            "--max-num-seqs=128 --max-model-len 4096",
            "with --max-num-seqs=128 --max-model-len 4096",
            "max_num_seqs=128 max_model_len=9999 --max-model-len 4096",
            "--num-prompts 40 --max-num-seqs 128 --seed 3 --max-model-len 4096",
            "max_num_seqs=128 max_model_len=4096 workers=None ignore_eos constant-rate arrivals",
        ] {
            assert_eq!(keys(flags, "vllm@0.11.0"), expected, "{flags}");
        }
        assert_eq!(
            keys(
                "python3 -m sglang.launch_server --model-path m --tp 8 --attention-backend=fa3",
                "sglang"
            ),
            [
                "cluster.tensor_parallel_size = 8",
                "engine.profile = \"sglang\"",
                "sglang.attention_backend = \"fa3\""
            ]
        );
    }

    #[test]
    fn words_of_python_and_of_people_are_read_as_they_are_meant() {
        assert_eq!(
            keys(
                "enforce_eager gpu_mem_util=0.9 enable_prefix_caching=False max_model_len=None",
                "vllm@0.11"
            ),
            [
                "engine.enable_prefix_caching = false",
                "engine.enforce_eager = true",
                "engine.gpu_memory_utilization = 0.9"
            ]
        );
        for (words, engine, expected) in [
            (
                "prefix caching on, block 16",
                "vllm@0.11",
                "engine.enable_prefix_caching = true",
            ),
            (
                "prefix caching off",
                "vllm@0.11",
                "engine.enable_prefix_caching = false",
            ),
            (
                "prefix caching off",
                "sglang",
                "sglang.disable_radix_cache = true",
            ),
            (
                "chunked prefill off",
                "vllm@0.11",
                "engine.enable_chunked_prefill = false",
            ),
        ] {
            assert_eq!(keys(words, engine), [expected]);
        }
        assert_eq!(
            keys("--kv-cache-dtype fp8 skip-SW", "vllm@0.19.1"),
            [
                "model.kv_cache_dtype = \"fp8\"",
                "model.kv_cache_dtype_skip_layers = [\"sliding_window\"]"
            ]
        );
        let said = Said::of("chunks=5 --x", "vllm@0.11").unwrap_err();
        assert!(said.contains("its flags: ") && said.contains("--x"), "{said}");
        let foreign = Said::of(
            "max-num-batched-tokens=8192 (Qwen3-32B H100) page_size=16",
            "sglang",
        )
        .unwrap();
        assert_eq!(
            foreign.ignored,
            ["`--max-num-batched-tokens=8192` is no flag of this engine"]
        );
        assert_eq!(foreign.keys["sglang.page_size"], Value::Integer(16));
        let said = Said::of("workers=None and more", "vllm@0.11").unwrap();
        assert_eq!(said.ignored, ["`workers=None` is no flag of the server"]);
    }

    #[test]
    fn a_client_says_nothing_of_the_server() {
        for flags in [
            "vllm bench serve --dataset-name sharegpt --num-prompts 1000",
            "--backend vllm --port 8081 --model m --dataset-name random --num-prompts 30",
            "",
        ] {
            assert_eq!(Said::of(flags, "vllm@0.11"), Ok(Said::default()), "{flags}");
        }
    }

    #[test]
    fn what_changes_the_result_and_is_not_modelled_is_refused() {
        for (flags, word) in [
            ("--cpu-offload-gb 10", "cpu-offload-gb"),
            ("--enable-lora", "enable-lora"),
            ("max_num_seqs=abc", "abc"),
            ("VLLM_USE_V1=0 vllm serve m", "V0"),
            ("--max-num-seqs abc", "abc"),
            ("--max-num-seqs '4", "quote"),
        ] {
            let reason = Said::of(flags, "vllm@0.11").unwrap_err();
            assert!(reason.contains(word), "{reason}");
        }
        let last = Said::of("--max-num-seqs 4 --max-num-seqs 64", "vllm@0.11").unwrap();
        assert_eq!(last.keys["engine.max_num_seqs"], Value::Integer(64));
        assert!(last.ignored[0].contains("the last"), "{:?}", last.ignored);
    }
}
