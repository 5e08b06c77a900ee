//! From a merged table to the format types, collecting every problem of shape rather than the first.
//!
//! Serde stops at its first error. The offending key is then noted, cut out of a copy, and reading starts again,
//! until it succeeds; each round removes a key, so it ends.

use serde::Deserialize;
use toml::{Table, Value};

use super::diagnostic::Diagnostic;
use super::document::{CHOICES, Document};
use super::raw::RawScenario;
use crate::nearest::nearest;

/// Reads as much as has the right shape; the diagnostics say what had not, and the last part names those keys.
pub(super) fn read(document: &Document) -> (RawScenario, Vec<Diagnostic>, Vec<String>) {
    let (raw, mut problems, cut) = shape_of(document, false);
    // Values that a flag replaces do not count; keys that there are not are mistakes wherever they stand.
    for replaced in document.replaced() {
        let (_, unknown, _) = shape_of(replaced, true);
        for problem in unknown {
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
    }
    (raw, problems, cut)
}

/// The same of one input, or only what of it has a name that nothing has.
fn shape_of(document: &Document, only_unknown: bool) -> (RawScenario, Vec<Diagnostic>, Vec<String>) {
    let mut table = document.table().clone();
    let mut problems = Vec::new();
    let classes = document.get("workload.classes").and_then(Value::as_array);
    let of_classes = (0..classes.map_or(0, Vec::len)).flat_map(|index| {
        let own = ["arrivals", "lengths", "prefix"];
        own.map(|choice| format!("workload.classes.{index}.{choice}"))
    });
    let choices = CHOICES.map(str::to_string).into_iter().chain(of_classes);
    for choice in choices.filter(|_| !only_unknown) {
        check_choice(document, &choice, &mut table, &mut problems);
    }
    let mut cut: Vec<String> = Vec::new();
    loop {
        let mut track = serde_path_to_error::Track::new();
        let tracked = serde_path_to_error::Deserializer::new(Value::Table(table.clone()), &mut track);
        let error = match RawScenario::deserialize(tracked) {
            Ok(raw) => return (raw, problems, cut),
            Err(error) => error,
        };
        let path = track.path().to_string().replace('[', ".").replace(']', "");
        let (key, problem) = explain(document, &path, error.message());
        let is_hollow =
            error.message().starts_with("missing field") || error.message().starts_with("wanted exactly 1");
        // What is missing in a table from which something was cut may have been that: one mistake is told once.
        let is_told = !(is_hollow && cut.iter().any(|cut| cut.starts_with(&format!("{path}."))));
        if is_told && (!only_unknown || error.message().starts_with("unknown ")) {
            problems.push(problem);
        }
        cut.push(key.clone());
        if !remove(&mut table, &key) {
            // Cannot happen for a key that was read; without progress the loop would not end.
            return (RawScenario::default(), problems, cut);
        }
    }
}

/// A choice has exactly one key.
fn check_choice(document: &Document, choice: &str, table: &mut Table, problems: &mut Vec<Diagnostic>) {
    let Some(chosen) = document.get(choice) else {
        return;
    };
    let what = choice.rsplit_once('.').map_or(choice, |(_, last)| last);
    let problem = match chosen {
        Value::Table(options) if options.len() == 1 => return,
        Value::Table(options) if options.is_empty() => {
            Diagnostic::new(format!("`{what}` chooses nothing")).label("one key is needed")
        }
        Value::Table(options) => {
            let names: Vec<&str> = options.keys().map(String::as_str).collect();
            Diagnostic::new(format!("`{what}` can be one thing only"))
                .label(format!("this chooses {}", names.join(" and ")))
                .help(format!(
                    "keep one of [{choice}.{}]",
                    names.join(&format!("], [{choice}."))
                ))
        }
        Value::String(name) => Diagnostic::new(format!("`{what}` is a table"))
            .label("not a name")
            .help(format!("write [{choice}.{name}] and its keys below")),
        _ => Diagnostic::new(format!("`{what}` is a table"))
            .help(format!("write [{choice}.NAME] and its keys below")),
    };
    problems.push(problem.at(document.place(choice)));
    remove(table, choice);
}

/// Turns serde's message into ours; returns the key to cut out.
fn explain(document: &Document, path: &str, message: &str) -> (String, Diagnostic) {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let name = |key: &str| document.name_of(key);
    if message.starts_with("unknown field") || message.starts_with("unknown variant") {
        let unknown = quoted.first().copied().unwrap_or(path);
        let key = if path.rsplit('.').next() == Some(unknown) {
            path.to_string()
        } else if path.is_empty() || path == "." {
            unknown.to_string()
        } else {
            format!("{path}.{unknown}")
        };
        let is_value = document.get(&key).is_none();
        let key = if is_value { path.to_string() } else { key };
        return (
            key.clone(),
            unknown_name(
                document,
                &key,
                unknown,
                is_value,
                quoted.get(1..).unwrap_or_default(),
            ),
        );
    }
    if message.starts_with("missing field") {
        let missing = quoted.first().copied().unwrap_or_default();
        let problem = Diagnostic::new(format!("`{missing}` is missing in [{path}]"));
        return (path.to_string(), problem.at(document.place(path)));
    }
    let (found, expected) = match message.split_once(", expected ") {
        Some((found, expected)) => (
            found
                .trim_start_matches("invalid type: ")
                .trim_start_matches("invalid value: "),
            expected,
        ),
        None => ("", message),
    };
    let problem = if found.is_empty() {
        Diagnostic::new(format!("`{}`: {expected}", name(path)))
    } else {
        Diagnostic::new(format!("`{}` must be {}", name(path), plainly(expected)))
            .label(format!("found {}", plainly(found)))
    };
    (path.to_string(), problem.at(document.place(path)).of_value())
}

/// Words for Rust's names of types.
fn plainly(text: &str) -> String {
    match text {
        "f64" | "f32" => "a number".to_string(),
        "i64" | "i32" => "a whole number".to_string(),
        "u64" | "u32" | "u16" | "u8" | "usize" => "a whole number of at least 0".to_string(),
        "a boolean" | "bool" => "true or false".to_string(),
        "a sequence" => "a list in brackets".to_string(),
        other => other
            .replace("struct RawScenario", "a table")
            .split("struct Raw")
            .next()
            .map_or_else(String::new, |head| {
                if head.len() < other.len() {
                    "a table".to_string()
                } else {
                    other.to_string()
                }
            }),
    }
}

fn unknown_name(document: &Document, key: &str, unknown: &str, is_value: bool, known: &[&str]) -> Diagnostic {
    let place = |key: &str| match document.place(&format!("{key}.@key")) {
        _ if is_value => document.place(key),
        place => place,
    };
    let problem = if is_value {
        Diagnostic::new(format!(
            "`{unknown}` is not a value of `{}`",
            document.name_of(key)
        ))
        .of_value()
    } else {
        Diagnostic::new(format!("unknown key `{unknown}`"))
    };
    let elsewhere = match is_value {
        true => Vec::new(),
        false => tables_with(unknown),
    };
    let own = key.rsplit_once('.').map_or("", |(table, _)| table);
    let help = match nearest(unknown, known.iter().copied(), 1).first() {
        _ if !elsewhere.is_empty() && !elsewhere.iter().any(|table| table == own) => {
            let tables: Vec<String> = elsewhere.iter().map(|table| format!("[{table}]")).collect();
            format!("it belongs to {}", tables.join(" or "))
        }
        Some(name) => format!("did you mean `{name}`?"),
        None if known.is_empty() => "no key belongs here".to_string(),
        None => format!("known are {}", known.join(", ")),
    };
    problem.at(place(key)).help(help)
}

/// The tables of a scenario that have a key of this name, by their paths; none where there are so many that naming them helps
/// nobody.
fn tables_with(key: &str) -> Vec<String> {
    const NAMED: usize = 3;
    let schema = schemars::schema_for!(RawScenario).to_value();
    let mut found = Vec::new();
    search_tables(&schema, &schema, "", key, &mut found);
    if found.len() > NAMED { Vec::new() } else { found }
}

/// Searches a table of the schema and the tables in it; what lists hold has no path that could be named.
fn search_tables(
    schema: &serde_json::Value,
    table: &serde_json::Value,
    path: &str,
    key: &str,
    found: &mut Vec<String>,
) {
    const DEPTH: usize = 4;
    let table = of_reference(schema, table);
    // A table that chooses is one of several, each with one key.
    let choices = table.get("oneOf").and_then(serde_json::Value::as_array);
    for choice in choices.into_iter().flatten() {
        search_tables(schema, choice, path, key, found);
    }
    let Some(keys) = table.get("properties").and_then(serde_json::Value::as_object) else {
        return;
    };
    if !path.is_empty() && keys.contains_key(key) {
        found.push(path.to_owned());
    }
    if path.split('.').count() >= DEPTH {
        return;
    }
    for (name, inner) in keys {
        let path = match path {
            "" => name.clone(),
            path => format!("{path}.{name}"),
        };
        search_tables(schema, inner, &path, key, found);
    }
}

/// A part of the schema, or what it refers to, itself or where it may be absent.
fn of_reference<'a>(schema: &'a serde_json::Value, part: &'a serde_json::Value) -> &'a serde_json::Value {
    let choices = ["anyOf", "allOf"].iter().find_map(|of| part.get(of)?.as_array());
    let one = choices.and_then(|all| all.iter().find(|one| one.get("$ref").is_some()));
    let reference = one
        .unwrap_or(part)
        .get("$ref")
        .and_then(serde_json::Value::as_str);
    let target = reference.and_then(|path| schema.pointer(path.trim_start_matches('#')));
    target.unwrap_or(part)
}

fn remove(table: &mut Table, key: &str) -> bool {
    let (parent, last) = key.rsplit_once('.').unwrap_or(("", key));
    if parent.is_empty() {
        return table.remove(last).is_some();
    }
    let mut value: Option<&mut Value> = None;
    for part in parent.split('.') {
        value = match value {
            None => table.get_mut(part),
            Some(Value::Table(inner)) => inner.get_mut(part),
            Some(Value::Array(items)) => part.parse::<usize>().ok().and_then(|index| items.get_mut(index)),
            Some(_) => None,
        };
        if value.is_none() {
            return false;
        }
    }
    match value {
        Some(Value::Table(inner)) => inner.remove(last).is_some(),
        // Cutting an item would shift the ones after it: the whole list goes.
        Some(Value::Array(_)) => remove(table, parent),
        _ => false,
    }
}
