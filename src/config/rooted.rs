//! The files that an input names, by their place from the root: a scenario that spells a run out holds in any folder.
//!
//! A path means a file of the working folder, whichever file it stands in. What is shipped keeps its name, and a file on disk
//! that takes its place is named. Left out: files whose values stand in the input itself (`workload.base`, `--lmcache-config`).

use toml::{Table, Value};

use super::checkpoint;
use super::document::Document;
use super::files::Files;
use super::machine::{is_path, own_profile};
use crate::hardware::{self, Device};

/// A value that names a file, as it was given and from the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rooted {
    key: String,
    given: String,
    path: String,
}

/// Every value of an input that names a file by its place in the working folder.
pub(super) fn of(document: &Document, files: &dyn Files) -> Vec<Rooted> {
    let mut found = Vec::new();
    let mut table = Value::Table(document.table().clone());
    each_text("", &mut table, &mut |key, given| {
        let file = file_of(key, given, files);
        let path = file.and_then(|file| files.whole_path(&file));
        found.extend(path.filter(|path| path != given).map(|path| Rooted {
            key: key.to_owned(),
            given: given.clone(),
            path,
        }));
    });
    found
}

/// The file or folder that a value means; `None` of one that names none.
fn file_of(key: &str, given: &str, files: &dyn Files) -> Option<String> {
    let parts: Vec<&str> = key.split('.').collect();
    let of_server = match parts.as_slice() {
        ["cluster", "pools", _, own @ ..] => own,
        ["cluster", own @ ..] => own,
        own => own,
    };
    match (of_server, parts.as_slice()) {
        (["gpu"], _) => profile_of(given, files),
        (["calibration"], _) => is_path(given, ".toml").then(|| given.to_owned()),
        (["model", "name"], _) => checkpoint::config_of(given, files).map(|_| given.to_owned()),
        (_, ["workload", .., "arrivals", "trace", "path"] | ["workload", .., "lengths", "file", "path"]) => {
            Some(given.to_owned())
        }
        _ => None,
    }
}

/// The profile that is read for a card: a path, or the folder's own of that name where it is not the shipped one.
fn profile_of(name: &str, files: &dyn Files) -> Option<String> {
    if is_path(name, ".toml") {
        return Some(name.to_owned());
    }
    let Ok((shipped, _)) = hardware::find(name) else {
        return own_profile(name, files).map(|(path, _)| path);
    };
    let path = format!("hardware_profiles/{}.toml", shipped.id.to_lowercase());
    let text = String::from_utf8(files.read(&path).ok()?).ok()?;
    let is_other = Device::from_toml(&text, &path).is_ok_and(|device| device != shipped);
    is_other.then_some(path)
}

/// Visits every text of a table with its key path.
fn each_text(key: &str, value: &mut Value, visit: &mut dyn FnMut(&str, &mut String)) {
    let below = |name: &str| match key {
        "" => name.to_owned(),
        key => format!("{key}.{name}"),
    };
    match value {
        Value::String(text) => visit(key, text),
        Value::Table(table) => {
            (table.iter_mut()).for_each(|(name, value)| each_text(&below(name), value, visit))
        }
        Value::Array(items) => (items.iter_mut().enumerate())
            .for_each(|(index, value)| each_text(&below(&index.to_string()), value, visit)),
        _ => {}
    }
}

/// The same table with those values named from the root.
pub(super) fn spelt_out(table: &Table, rooted: &[Rooted]) -> Table {
    let mut whole = Value::Table(table.clone());
    each_text("", &mut whole, &mut |key, text| {
        if let Some(known) = rooted.iter().find(|known| known.key == key) {
            text.clone_from(&known.path);
        }
    });
    match whole {
        Value::Table(table) => table,
        _ => unreachable!("it was a table above"),
    }
}

/// A sentence about files that it names as they were given, with their names from the root: a run of the scenario that says it
/// again says it once.
pub(super) fn said(sentence: &str, rooted: &[Rooted]) -> String {
    // A GPU and a model have names of their own, and a file may be called by a word.
    let is_file = |known: &Rooted| known.key.ends_with(".path") || known.key.ends_with(".calibration");
    let has_no_name = |known: &&Rooted| is_file(known) && known.given.contains(['.', '/']);
    let renamed = |word: &str| {
        let name = word.trim_end_matches(':');
        let known = rooted
            .iter()
            .filter(has_no_name)
            .find(|known| known.given == name);
        known.map_or_else(|| word.to_owned(), |known| word.replacen(name, &known.path, 1))
    };
    sentence.split(' ').map(renamed).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Resolved, resolve, resolved_toml};

    /// A disk with a working folder.
    struct Folder;

    const TRACE: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,374,44\n2023-11-16 18:17:04.03,396,109\n";

    impl Files for Folder {
        fn read(&self, path: &str) -> Result<Vec<u8>, String> {
            let name = path.strip_prefix("/desk/").unwrap_or(path);
            let card = include_str!("../../hardware_profiles/h100-sxm-80gb.toml");
            let text = match name {
                "tr.csv" => TRACE.to_owned(),
                "mine.toml" => include_str!("../../calibrations/h100-sxm-80gb-vllm.toml").to_owned(),
                "m/config.json" => include_str!("../model/shapes/qwen3-8b.json").to_owned(),
                // In the place of a shipped card; one of its name that is the same; one that nobody ships.
                "hardware_profiles/l4-24gb.toml" => {
                    include_str!("../../hardware_profiles/l4-24gb.toml").replace("300 GB/s", "299 GB/s")
                }
                "hardware_profiles/h100-sxm-80gb.toml" => card.to_owned(),
                "hardware_profiles/own-card.toml" => card.replace("H100-SXM-80GB", "Own-Card"),
                _ => return Err(format!("there is no file `{path}`")),
            };
            Ok(text.into_bytes())
        }

        fn whole_path(&self, path: &str) -> Option<String> {
            Some(match path.starts_with('/') {
                true => path.to_owned(),
                false => format!("/desk/{path}"),
            })
        }
    }

    fn run(text: &str) -> Resolved {
        let document = Document::parse("test.toml", text).unwrap();
        resolve(document, &Folder).unwrap_or_else(|problems| panic!("{problems}"))
    }

    fn values(text: &str) -> Vec<(String, String)> {
        let document = Document::parse("test.toml", text).unwrap();
        let rooted = of(&document, &Folder);
        rooted.into_iter().map(|known| (known.key, known.path)).collect()
    }

    #[test]
    fn what_is_spelt_out_names_its_files_from_the_root() {
        let text = "[model]\nname = \"m\"\n[cluster]\ngpu = \"H100-SXM-80GB\"\ncalibration = \"mine.toml\"\n\
                    [workload.arrivals.trace]\npath = \"tr.csv\"\n";
        let first = run(text);
        let spelt = resolved_toml(&first);
        for path in ["\"/desk/m\"", "\"/desk/mine.toml\"", "\"/desk/tr.csv\""] {
            assert!(spelt.contains(path), "{spelt}");
        }
        assert!(spelt.contains("gpu = \"H100-SXM-80GB\""), "{spelt}");
        // What is said of a file is said once, and as often again.
        let second = run(&spelt);
        assert_eq!(second.notes.len(), first.notes.len(), "{:?}", second.notes);
        assert_eq!(second.scenario.workload, first.scenario.workload);
    }

    #[test]
    fn a_profile_that_takes_the_place_of_a_shipped_one_is_named_and_a_shipped_one_stays() {
        let of_card = |name: &str| values(&format!("[cluster]\ngpu = \"{name}\"\n"));
        let path = |stem: &str| {
            vec![(
                "cluster.gpu".to_owned(),
                format!("/desk/hardware_profiles/{stem}.toml"),
            )]
        };
        assert_eq!(of_card("l4"), path("l4-24gb"));
        assert_eq!(of_card("Own Card"), path("own-card"));
        assert_eq!(of_card("h100"), []);
        assert_eq!(of_card("a100"), []);
    }

    #[test]
    fn files_of_pools_and_classes_are_found_and_words_of_the_same_name_are_not() {
        let text = "[[cluster.pools]]\ncalibration = \"mine.toml\"\n[[workload.classes]]\nname = \"a\"\n\
                    lengths.file.path = \"tr.csv\"\n[report.metadata]\ngpu = \"own-card\"\n";
        let keys: Vec<String> = values(text).into_iter().map(|(key, _)| key).collect();
        assert_eq!(
            keys,
            [
                "cluster.pools.0.calibration",
                "workload.classes.0.lengths.file.path"
            ]
        );
    }
}
