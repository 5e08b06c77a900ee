//! The lists of modules that a checkpoint does not quantize, as each method writes them.
//!
//! Law: of several lists the one counts that vLLM reads for the method, and the others are told.

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::Value;

use super::modules::{Rule, Stays};
use super::quantization::method;

/// All keys under which checkpoints list modules.
const KEYS: [&str; 5] = [
    "ignore",
    "ignored_layers",
    "modules_to_not_convert",
    "exclude_modules",
    "llm_int8_skip_modules",
];

/// The key of the list that counts: of those that vLLM reads for the method the first that is not empty, else any.
fn listed(config: &Value) -> Option<&'static str> {
    let read: &[&str] = match method(config) {
        "compressed-tensors" => &["ignore"],
        "fp8" => &["ignored_layers", "modules_to_not_convert"],
        "fbgemm_fp8" | "awq" | "awq_marlin" => &["modules_to_not_convert"],
        "bitsandbytes" => &["llm_int8_skip_modules"],
        _ => &["ignore", "exclude_modules"],
    };
    let is_there = |key: &&&'static str| !words(config, key).is_empty();
    read.iter().chain(&KEYS).find(is_there).copied()
}

/// A sentence about the lists that do not count; `None` where none says more than the one that does.
pub(super) fn unread(config: &Value) -> Option<String> {
    let read = match method(config) {
        // Of experts only, whatever is listed.
        "mxfp4" => return None,
        // Patterns and blocks under keys of their own.
        "gptq" | "gptq_marlin" => None,
        _ => listed(config),
    };
    let counted: BTreeSet<&str> =
        read.map_or_else(BTreeSet::new, |key| words(config, key).into_iter().collect());
    let says_more = |key: &&str| words(config, key).iter().any(|entry| !counted.contains(entry));
    let others: Vec<String> = KEYS
        .iter()
        .filter(|key| says_more(key))
        .map(|key| format!("`{key}`"))
        .collect();
    let beside = read.map_or(String::new(), |key| format!(" beside `{key}`"));
    (!others.is_empty()).then(|| {
        format!(
            "what the checkpoint lists under {} counts for nothing: vLLM does not read it of this method{beside}",
            others.join(" and ")
        )
    })
}

/// Which layers the checkpoint does not quantize, each method by the rule that vLLM has for its lists.
pub(super) fn stays(config: &Value) -> Result<Stays, String> {
    let listed = listed(config);
    let entries = listed.map_or_else(Vec::new, |key| words(config, key));
    let mut stays = Stays {
        key: listed.unwrap_or(""),
        ..Stays::default()
    };
    let exactly =
        |stays: &mut Stays, entries: Vec<&str>| stays.names.extend(entries.into_iter().map(of_first_expert));
    match method(config) {
        // Experts only, which no list keeps.
        "mxfp4" => {}
        "compressed-tensors" => {
            let (patterns, names): (Vec<&str>, Vec<&str>) =
                entries.into_iter().partition(|entry| entry.starts_with("re:"));
            exactly(&mut stays, names);
            stays.except = patterns
                .into_iter()
                .map(pattern_or_name)
                .collect::<Result<_, _>>()?;
            let targets = targets(config)?;
            if !targets
                .iter()
                .any(|target| matches!(target, Rule::Class(part) if part == "linear"))
            {
                stays.targets = Some(targets);
                stays.key = listed.unwrap_or("targets");
            }
        }
        "fp8" | "fbgemm_fp8" => exactly(&mut stays, entries),
        "gptq" | "gptq_marlin" => gptq(config, &mut stays)?,
        // `is_layer_skipped` with substrings, and `is_layer_skipped_bnb`.
        "awq" | "awq_marlin" => {
            let entries: BTreeSet<String> = entries.into_iter().map(of_first_expert).collect();
            stays.except = entries.into_iter().map(Rule::Letters).collect();
        }
        "bitsandbytes" => {
            stays.except = entries
                .into_iter()
                .map(|entry| Rule::Words(entry.to_string()))
                .collect();
        }
        // ModelOpt: parts of names, and wildcards.
        _ => {
            let rule = |entry: &str| match entry.contains('*') {
                true => Regex::new(&format!("^{}$", regex::escape(entry).replace(r"\*", ".*")))
                    .map(|pattern| Rule::Pattern(pattern, entry.to_string())),
                false => Ok(Rule::Within(entry.to_string())),
            };
            stays.except = entries
                .into_iter()
                .map(rule)
                .collect::<Result<_, _>>()
                .map_err(|error| error.to_string())?;
        }
    }
    Ok(stays)
}

/// The targets of all groups that quantize weights. A name without a dot is a class.
fn targets(config: &Value) -> Result<Vec<Rule>, String> {
    let groups = config.get("config_groups").and_then(Value::as_object);
    let quantized = groups
        .into_iter()
        .flat_map(|groups| groups.values())
        .filter(|group| group.get("weights").is_some_and(|weights| !weights.is_null()));
    let mut targets = Vec::new();
    for group in quantized {
        if !group.get("targets").is_some_and(Value::is_array) {
            targets.push(Rule::Class("linear".to_string()));
        }
        for target in words(group, "targets") {
            targets.push(match target.contains(['.', ':']) {
                true => pattern_or_name(target)?,
                false => Rule::Class(target.to_lowercase()),
            });
        }
    }
    Ok(targets)
}

/// GPTQ: `dynamic` has patterns, `-:` for what is left out, and `modules_in_block_to_quantize` names what is not.
fn gptq(config: &Value, stays: &mut Stays) -> Result<(), String> {
    let dynamic = config.get("dynamic").and_then(Value::as_object);
    for (entry, own) in dynamic.into_iter().flatten() {
        if let Some(left_out) = entry.strip_prefix("-:") {
            stays.except.push(pattern(left_out, entry)?);
            stays.key = "dynamic";
        } else if let Some(key) = ["bits", "group_size"]
            .into_iter()
            .find(|key| own.get(key).is_some() && own.get(key) != config.get(key))
        {
            return Err(format!(
                "gives `{entry}` a {key} of its own in `dynamic`: one format beside 16 bits is modelled"
            ));
        }
    }
    let blocks = config
        .get("modules_in_block_to_quantize")
        .and_then(Value::as_array);
    if let Some(blocks) = blocks.filter(|blocks| !blocks.is_empty()) {
        let flat = blocks.iter().flat_map(|block| match block.as_array() {
            Some(names) => names.iter().filter_map(Value::as_str).collect(),
            None => Vec::from_iter(block.as_str()),
        });
        stays.targets = Some(flat.map(|name| Rule::Within(name.to_string())).collect());
        stays.key = "modules_in_block_to_quantize";
    }
    Ok(())
}

fn words<'a>(config: &'a Value, key: &str) -> Vec<&'a str> {
    let list = config.get(key).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn pattern_or_name(entry: &str) -> Result<Rule, String> {
    match entry.strip_prefix("re:") {
        Some(text) => pattern(text, entry),
        None => Ok(Rule::Exact(entry.to_string())),
    }
}

/// As Python's `re.match` has it: from the beginning, to any end. `written` is the whole entry.
fn pattern(text: &str, written: &str) -> Result<Rule, String> {
    Regex::new(&format!("^(?:{text})"))
        .map(|pattern| Rule::Pattern(pattern, written.to_string()))
        .map_err(|_| {
            format!("has the pattern `{text}`, which is not understood: it must do without looking around")
        })
}

/// Experts of a layer are one kernel: the first stands for them.
fn of_first_expert(name: &str) -> String {
    let Some((before, after)) = name.split_once("experts.") else {
        return name.to_string();
    };
    let rest = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
    match rest.len() < after.len() {
        true => format!("{before}experts.0{rest}"),
        false => name.to_string(),
    }
}

#[cfg(test)]
mod tests;
