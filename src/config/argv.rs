//! vLLM's and SGLang's command-line spelling brought to one form, and the flags that a simulation does not need.
//!
//! vLLM takes `--max_num_seqs` for `--max-num-seqs`, `--no-X` for `--X=false`, and short forms of several letters
//! (`-tp`). Flags are put in one form before clap sees them. Of the flags that have no field of their own here each
//! is known with its reason: either it cannot change a simulated result and is accepted, by name, or it would and
//! is refused.

mod known;
mod other_tools;
mod repeated;
mod typography;
mod unparsable;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::diagnostic::{Diagnostic, Place};
use known::Effect::{Ignored, NotModelled};
use known::Takes::{Many, Nothing, One};
use known::{Effect, Takes};

pub use other_tools::hint;
pub use repeated::{Replaced, last_wins, repeated};
pub(super) use unparsable::{unknown, unparsable};

/// vLLM's short forms.
const SHORT: [(&str, &str); 10] = [
    ("-tp", "--tensor-parallel-size"),
    ("-pp", "--pipeline-parallel-size"),
    ("-dp", "--data-parallel-size"),
    ("-dcp", "--decode-context-parallel-size"),
    ("-pcp", "--prefill-context-parallel-size"),
    ("-ep", "--enable-expert-parallel"),
    ("-q", "--quantization"),
    ("-sc", "--speculative-config"),
    ("-cc", "--compilation-config"),
    ("-O", "--optimization-level"),
];

/// Other spellings of flags that exist here.
const ALIASES: [(&str, &str); 19] = [
    ("--random-input", "--random-input-len"),
    ("--random-output", "--random-output-len"),
    ("--num-prompt", "--num-prompts"),
    ("--device-memory-utilization", "--gpu-memory-utilization"),
    ("--prefix-len", "--random-prefix-len"),
    ("--cuda-graph-sizes", "--cudagraph-capture-sizes"),
    ("--dataset", "--dataset-path"),
    ("--tp-size", "--tensor-parallel-size"),
    ("--tp", "--tensor-parallel-size"),
    ("--dp-size", "--data-parallel-size"),
    ("--dp", "--data-parallel-size"),
    ("--pp-size", "--pipeline-parallel-size"),
    ("--pp", "--pipeline-parallel-size"),
    ("--ep-size", "--expert-parallel-size"),
    ("--ep", "--expert-parallel-size"),
    ("--moe-expert-parallel-size", "--expert-parallel-size"),
    ("--model-path", "--model"),
    ("--disable-overlap", "--disable-overlap-schedule"),
    // Python's parser takes the beginning of a name.
    ("--mem-frac", "--mem-fraction-static"),
];

/// Flags whose JSON may be given key by key.
const DOTTED: [&str; 3] = ["compilation-config", "speculative-config", "hf-overrides"];

/// The key of `pass_config` whose effect on time is known.
const PASS_MODELLED: &str = "fuse_allreduce_rms";
/// What vLLM 0.11 and older call it.
const PASS_MODELLED_OLDER: &str = "enable_fi_allreduce_fusion";
/// Keys of vLLM's compilation config that say which kernels are fused and how they are compiled, and how fast the result is.
const OF_COMPILATION: [&str; 12] = [
    "pass_config",
    "custom_ops",
    "splitting_ops",
    "use_inductor",
    "use_inductor_graph_partition",
    "inductor_compile_config",
    "inductor_passes",
    "compile_sizes",
    "cudagraph_num_of_warmups",
    "cache_dir",
    "debug_dump_path",
    "compile_cache_save_format",
];

/// SGLang 0.5.23's spelling of `--dp-size N --enable-dp-attention` (`handle_deprecated_dp_attention`).
const ATTENTION_RANKS: [&str; 2] = ["attn-dp-size", "attention-data-parallel-size"];

/// Flags that only a server for real clients has an effect for.
pub const SERVING: [&str; 3] = ["host", "port", "served-model-name"];

/// The flags whose values are flags.
const VARIANTS: [&str; 2] = ["--variant", "--what-if"];

/// Switches that take `--no-X`.
const SWITCHES: [&str; 8] = [
    "disable-hybrid-kv-cache-manager",
    "enable-chunked-prefill",
    "enable-prefix-caching",
    "scheduler-reserve-full-isl",
    "async-scheduling",
    "enforce-eager",
    "enable-expert-parallel",
    "use-kv-events",
];

/// Arguments that clap understands, and what happened to the rest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Normalised {
    /// For clap.
    pub args: Vec<String>,
    /// Flags without effect, each with its reason.
    pub ignored: Vec<String>,
    /// Flags that cannot be honoured.
    pub problems: Vec<Diagnostic>,
    /// The JSON that dotted flags make, by the flag that they are short for, until it joins `args`.
    pub dotted: BTreeMap<String, Map<String, Value>>,
}

/// Whether a flag without a field of its own is listed, with an effect or without.
pub(super) fn is_known(name: &str) -> bool {
    known::find(name).is_some()
}

/// Brings `args` (without the program's name) to clap's form.
#[must_use]
pub fn normalise(args: &[String]) -> Normalised {
    normalise_beside(args, &[])
}

/// The same for a command that has flags of its own by these names, which have no effect elsewhere.
#[must_use]
pub fn normalise_beside(args: &[String], own: &[&str]) -> Normalised {
    let mut out = with_plain_signs(args);
    let meant = std::mem::take(&mut out.args);
    let mut args = Args { rest: &meant };
    while let Some(arg) = args.next() {
        if arg == "--" {
            out.put_together();
            out.args.push(arg.clone());
            out.args.extend_from_slice(args.rest);
            break;
        }
        if VARIANTS.contains(&arg.as_str()) {
            // Its text is a command of its own, with spellings that are read there.
            out.args.push(arg.clone());
            out.args.extend(args.next().cloned());
            continue;
        }
        match flag(arg) {
            None => out.args.push(arg.clone()),
            Some(flag) if !flag.path.is_empty() => out.take_dotted(flag, &mut args),
            Some(flag) if own.contains(&flag.name.as_str()) => {
                let value = flag.value.map_or(String::new(), |value| format!("={value}"));
                out.args.push(format!("--{}{value}", flag.name));
            }
            Some(flag) if ATTENTION_RANKS.contains(&flag.name.as_str()) => {
                out.take_attention_ranks(flag, &mut args);
            }
            Some(flag) => {
                let is_done = out.take_known(&flag, &mut args) || out.take_switched_off(&flag.name);
                if !is_done {
                    out.take_own(flag, &mut args);
                }
            }
        }
    }
    out.put_together();
    out
}

/// The arguments with hyphens and without quotes where other signs stand for them, which is a problem.
#[must_use]
pub fn with_plain_signs(args: &[String]) -> Normalised {
    let (args, problems) = typography::meant(args);
    Normalised {
        args,
        problems,
        ..Normalised::default()
    }
}

/// What is still to be read.
struct Args<'a> {
    rest: &'a [String],
}

impl<'a> Args<'a> {
    fn next(&mut self) -> Option<&'a String> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn next_if(&mut self, is_meant: impl FnOnce(&str) -> bool) -> Option<&'a String> {
        let first = self.rest.first()?;
        is_meant(first).then(|| self.next()).flatten()
    }

    /// What stands behind a flag of our own and belongs to it, where clap would not see that.
    fn value_of(&mut self, name: &str) -> Option<String> {
        // `--enable-chunked-prefill false`, as people write it.
        if is_switch(name)
            && let Some(said) = truth(self.rest.first())
        {
            self.next();
            return Some(said);
        }
        // `--kv-link-latency -5us`: no flag begins with a digit, so this is a value, and whoever judges it says what is
        // wrong with it.
        let is_json = name == "compilation-config";
        self.next_if(|next| is_negative_number(next) || (is_json && is_value(next)))
            .cloned()
    }
}

/// Whether an argument can be the value of a flag before it.
fn is_value(arg: &str) -> bool {
    arg != "--" && flag(arg).is_none()
}

fn is_switch(name: &str) -> bool {
    SWITCHES.contains(&name)
}

/// A long flag in kebab case.
struct Flag {
    name: String,
    /// `cudagraph_mode` of `-cc.cudagraph_mode=NONE`: vLLM puts these together into the flag's JSON.
    path: Vec<String>,
    /// What is attached to it.
    value: Option<String>,
}

/// Takes a flag apart; `None` for anything else.
fn flag(arg: &str) -> Option<Flag> {
    let (whole, value) = match arg.split_once('=') {
        Some((name, value)) => (name, Some(value.to_string())),
        None => (arg, None),
    };
    let (name, path) = match whole.split_once('.') {
        Some((name, path)) => (name, path.split('.').map(str::to_string).collect()),
        None => (whole, Vec::new()),
    };
    let long = SHORT
        .iter()
        .find(|(short, _)| *short == name)
        .map(|(_, long)| *long)
        // `-O.level=3`, as vLLM 0.11 takes it, where `-O` is short for the whole config.
        .map(|long| match (long, path.is_empty()) {
            ("--optimization-level", false) => "--compilation-config",
            (long, _) => long,
        });
    // `-tp4` and `-O3`, as vLLM takes them.
    let glued = || {
        let (short, rest) = arg.split_at_checked(if arg.starts_with("-O") { 2 } else { 3 })?;
        let (_, long) = SHORT.iter().find(|(known, _)| *known == short)?;
        (value.is_none() && rest.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| (*long, Some(rest.to_string())))
    };
    let (name, value) = match long {
        Some(long) => (long, value),
        None => glued().unwrap_or((name, value)),
    };
    let name = name.strip_prefix("--")?.replace('_', "-");
    let alias = ALIASES
        .iter()
        .find(|(alias, _)| alias[2..] == name)
        .map(|(_, real)| real[2..].to_string());
    Some(Flag {
        name: alias.unwrap_or(name),
        path,
        value,
    })
}

/// A truth value in any case.
fn truth(word: Option<&String>) -> Option<String> {
    let word = word?.to_lowercase();
    ["true", "false"].contains(&word.as_str()).then_some(word)
}

/// A dash and a digit, perhaps behind a point.
fn is_negative_number(arg: &str) -> bool {
    let rest = arg.strip_prefix('-').map(|rest| rest.trim_start_matches('.'));
    rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

fn json_or_text(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_string()))
}

fn take_values(rest: &[String], takes: Takes, has_value: bool) -> &[String] {
    let most = match takes {
        _ if has_value => 0,
        Nothing => 0,
        One => 1,
        Many => usize::MAX,
    };
    let is_value = |arg: &&String| !arg.starts_with("--") || takes == One;
    let count = rest.iter().take_while(is_value).take(most).count();
    &rest[..count]
}

/// Whether a value is a neutral one of a flag, as a word or as a number; a flag without one has none.
fn is_same(value: &str, neutral: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    neutral.split('|').any(|neutral| {
        !neutral.is_empty()
            && (value == neutral || number(value).is_some_and(|value| number(neutral) == Some(value)))
    })
}

impl Normalised {
    /// `-cc.cudagraph_mode=NONE` or `-cc.cudagraph_mode NONE`.
    fn take_dotted(&mut self, Flag { name, path, value }: Flag, args: &mut Args<'_>) {
        match value.or_else(|| args.next_if(is_value).cloned()) {
            Some(value) => self.dotted(&name, &path, value),
            None => self.without_value(&format!("--{name}.{}", path.join("."))),
        }
    }

    /// A flag without a field of its own here.
    fn take_known(&mut self, Flag { name, value, .. }: &Flag, args: &mut Args<'_>) -> bool {
        let Some((takes, effect)) = known::find(name) else {
            return false;
        };
        let values = take_values(args.rest, takes, value.is_some());
        args.rest = &args.rest[values.len()..];
        let value = value.as_deref().or(values.first().map(String::as_str));
        self.drop_flag(name, value, effect);
        true
    }

    /// Every switch of vLLM has its `--no-X`, which asks for what is done anyway.
    fn take_switched_off(&mut self, name: &str) -> bool {
        let Some((Nothing, effect)) = name.strip_prefix("no-").and_then(known::find) else {
            return false;
        };
        let reason = match effect {
            Ignored(reason) => reason,
            NotModelled(..) => "it is off in any case",
        };
        self.drop_flag(name, None, Ignored(reason));
        true
    }

    /// One rank is what there is without it.
    fn take_attention_ranks(&mut self, flag: Flag, args: &mut Args<'_>) {
        let ranks = flag.value.or_else(|| args.next_if(is_value).cloned());
        if ranks.as_deref() != Some("1") {
            self.args.push("--enable-dp-attention".to_owned());
        }
        self.args.push(match ranks {
            Some(ranks) => format!("--data-parallel-size={ranks}"),
            None => "--data-parallel-size".to_owned(),
        });
    }

    /// A flag that clap knows, or nobody.
    fn take_own(&mut self, Flag { name, value, .. }: Flag, args: &mut Args<'_>) {
        // `=True`, as vLLM's older switches take it.
        let value = match is_switch(&name) {
            true => truth(value.as_ref()).or(value),
            false => value,
        };
        let value = value.or_else(|| args.value_of(&name));
        let value = match (name.as_str(), value) {
            ("compilation-config", None) => return self.without_value("--compilation-config"),
            ("compilation-config", Some(config)) => Some(self.without_kernels(config)),
            (_, value) => value,
        };
        self.args.push(match (name.strip_prefix("no-"), value) {
            (Some(switch), None) if is_switch(switch) => format!("--{switch}=false"),
            (_, Some(value)) => format!("--{name}={value}"),
            (_, None) => format!("--{name}"),
        });
    }

    /// One key of a flag that is JSON.
    fn dotted(&mut self, name: &str, path: &[String], value: String) {
        if !DOTTED.contains(&name) {
            let whole = format!("{name}.{}", path.join("."));
            match known::find(name) {
                Some((_, effect)) => self.drop_flag(&whole, Some(&value), effect),
                None => self.args.push(format!("--{whole}={value}")),
            }
            return;
        }
        let (value, path) = match path.split_last() {
            // `-cc.cudagraph_capture_sizes+=1,2,4` adds to a list.
            Some((last, before)) if last.ends_with('+') => {
                let items = value.split(',').map(json_or_text).collect();
                let last = last.trim_end_matches('+').to_string();
                (Value::Array(items), [before, &[last]].concat())
            }
            _ => (json_or_text(&value), path.to_vec()),
        };
        let mut table = self.dotted.entry(name.to_owned()).or_default();
        let (last, before) = path.split_last().expect("a dotted flag has a path");
        for key in before {
            let inner = table
                .entry(key.clone())
                .or_insert_with(|| Value::Object(Map::new()));
            if !inner.is_object() {
                *inner = Value::Object(Map::new());
            }
            table = inner.as_object_mut().expect("just seen to");
        }
        match (table.get_mut(last), value) {
            // As vLLM puts them together: lists grow, of anything else the last counts.
            (Some(Value::Array(items)), Value::Array(more)) => items.extend(more),
            (Some(there), value) => {
                let said = format!("--{name}.{}", path.join("."));
                self.ignored.push(format!(
                    "{said} {there} has no effect: it is given again, and the last counts, as in vLLM"
                ));
                *there = value;
            }
            (None, value) => {
                table.insert(last.clone(), value);
            }
        }
    }

    fn without_value(&mut self, flag: &str) {
        let problem = Diagnostic::new(format!("`{flag}` needs a value, and none follows"))
            .help(format!("write {flag}=VALUE"));
        self.problems.push(problem.at(Place::Flag(flag.to_string())));
    }

    /// Gives dotted flags the form that they are short for.
    fn put_together(&mut self) {
        for (name, config) in std::mem::take(&mut self.dotted) {
            let config = Value::Object(config).to_string();
            let config = match name.as_str() {
                "compilation-config" => self.without_kernels(config),
                _ => config,
            };
            self.args.push(format!("--{name}={config}"));
        }
    }

    /// A compilation config without what only says how kernels are made; whatever is no JSON object stays.
    fn without_kernels(&mut self, config: String) -> String {
        let Ok(Value::Object(mut keys)) = serde_json::from_str(&config) else {
            return config;
        };
        let passes = keys.get_mut("pass_config").and_then(Value::as_object_mut);
        let modelled = passes.and_then(|passes| {
            let older = passes.remove(PASS_MODELLED_OLDER);
            Some((PASS_MODELLED, passes.remove(PASS_MODELLED).or(older)?))
        });
        for key in OF_COMPILATION {
            if keys
                .remove(key)
                .is_some_and(|value| value != Value::Object(Map::new()))
            {
                let reason = "the calibration says how fast compiled kernels are";
                self.ignored
                    .push(format!("--compilation-config.{key} has no effect: {reason}"));
            }
        }
        if let Some((pass, value)) = modelled {
            let passes = Map::from_iter([(pass.to_owned(), value)]);
            keys.insert("pass_config".to_owned(), Value::Object(passes));
        }
        Value::Object(keys).to_string()
    }

    fn drop_flag(&mut self, name: &str, value: Option<&str>, effect: Effect) {
        match effect {
            Ignored(reason) => self.ignored.push(format!("--{name} has no effect: {reason}")),
            NotModelled(neutral, _) if value.is_some_and(|value| is_same(value, neutral)) => {
                let value = value.unwrap_or(neutral);
                self.ignored.push(format!(
                    "--{name} {value} has no effect: this is already the default"
                ));
            }
            NotModelled(_, reason) => {
                let problem = Diagnostic::new(format!(
                    "`--{name}` is not supported: it would change the result ({reason})"
                ));
                self.problems.push(problem.at(Place::Flag(format!("--{name}"))));
            }
        }
    }
}

#[cfg(test)]
mod tests;
