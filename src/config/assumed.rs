//! Values that nobody gave, kept in the scenario that spells them out: run again, it says of itself what its first run said.

use super::diagnostic::Diagnostic;
use super::document::Source;
use super::judge::{Judge, Provenance};

/// `assumed = […]`, a line an entry, `KEY = VALUE (REASON)`.
pub(super) fn written<'a>(assumptions: impl Iterator<Item = &'a Provenance>) -> String {
    let mut lines = String::new();
    for Provenance { key, value, source } in assumptions {
        let why = match source {
            Source::Profile(name) => format!("default of {name}"),
            Source::Assumption(why) => why.clone(),
            _ => continue,
        };
        let entry = toml::Value::String(format!("{key} = {value} ({why})"));
        lines += &format!("    {entry},\n");
    }
    if lines.is_empty() {
        return lines;
    }
    format!(
        "# What nobody gave. A value that is changed below is no longer assumed.\nassumed = [\n{lines}]\n\n"
    )
}

/// Counts those values of a file as assumed that its list names and nothing has changed since.
pub(super) fn restore(judge: &mut Judge, entries: &[String]) {
    let mut kept = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let Some((key, value, why)) = parse(entry) else {
            let place = judge.place(&format!("assumed.{at}"));
            let problem = Diagnostic::new(format!("`{entry}` is not an assumed value")).at(place);
            judge
                .report(problem.help("write KEY = VALUE (REASON), as --dry-run does, or leave the line out"));
            continue;
        };
        let is_unchanged = matches!(judge.document.source(key), Some(Source::File { .. }))
            && judge.document.get(key).is_some_and(|now| is_same(now, value));
        if is_unchanged {
            kept.push(Provenance {
                key: key.to_string(),
                value: value.to_string(),
                source: Source::Assumption(why.to_string()),
            });
        }
    }
    judge
        .provenance
        .retain(|known| kept.iter().all(|own| own.key != known.key));
    // What nobody gave cannot be without effect.
    for Provenance { key, .. } in &kept {
        let name = key.rsplit('.').next().unwrap_or(key);
        let is_of_it = |sentence: &String| sentence.starts_with(&format!("{name} has no effect"));
        judge.ignored.retain(|sentence| !is_of_it(sentence));
        judge.notes.retain(|sentence| !is_of_it(sentence));
    }
    judge.provenance.extend(kept);
    judge.document.remove("assumed");
}

/// `KEY = […]`, a sentence an entry; nothing where nothing was said.
pub(super) fn told(key: &str, what: &str, sentences: &[String]) -> String {
    if sentences.is_empty() {
        return String::new();
    }
    let entries = sentences
        .iter()
        .map(|sentence| toml::Value::from(sentence.as_str()));
    let lines: String = entries.map(|entry| format!("    {entry},\n")).collect();
    format!("# {what}\n{key} = [\n{lines}]\n\n")
}

/// Says again what a file says was said, in its place; what resolving it said anew is said once.
pub(super) fn repeat(judge: &mut Judge, ignored: &[String], notes: &[String]) {
    put_first(&mut judge.ignored, ignored);
    put_first(&mut judge.notes, notes);
    put_first(&mut judge.notes, ignored);
    judge.document.remove("ignored");
    judge.document.remove("notes");
}

/// Puts sentences before the others, each once.
pub(super) fn put_first(all: &mut Vec<String>, first: &[String]) {
    all.retain(|sentence| !first.iter().any(|known| is_same_sentence(known, sentence)));
    all.splice(0..0, first.iter().cloned());
}

/// Whether two sentences differ at most in who gave the key that they begin with: `--serve-cmd --swap-space has …` of a
/// command line is `swap_space has …` of the file that spells it out.
fn is_same_sentence(known: &str, now: &str) -> bool {
    let differs_in_name = |(key, rest): (&str, &str)| {
        let is_of_key = known
            .strip_suffix(rest)
            .is_some_and(|name| name.replace('-', "_").contains(key));
        rest.contains(' ') && is_of_key
    };
    known == now || now.split_once(' ').is_some_and(differs_in_name)
}

fn parse(entry: &str) -> Option<(&str, &str, &str)> {
    let (key, rest) = entry.split_once(" = ")?;
    let (value, why) = rest.split_once(" (")?;
    Some((key, value, why.strip_suffix(')')?))
}

/// Whether a value is the written one; `1` and `1.0` are the same number, and a choice among tables is the table's name.
fn is_same(now: &toml::Value, written: &str) -> bool {
    if let Some(table) = now.as_table() {
        return table.len() == 1 && table.contains_key(written);
    }
    let text = now.as_str().map_or_else(|| now.to_string(), str::to_string);
    let number = |text: &str| text.parse::<f64>().ok();
    text == written || number(&text).is_some_and(|now| number(written) == Some(now))
}
