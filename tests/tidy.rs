//! House rules that matter, as tests: who may import whom, where printing is allowed, how a file opens and ends.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[path = "tidy/known_errors.rs"]
mod known_errors;
#[path = "tidy/links.rs"]
mod links;
#[path = "tidy/rules.rs"]
mod rules;

/// Layers from the bottom. A module imports its own layer and those beneath it, never one above.
const LAYERS: &[&[&str]] = &[
    &[
        "units", "ids", "rng", "stats", "nearest", "quantity", "python", "window", "digest",
    ],
    &["hardware", "model"],
    &["cost", "workload"],
    &["facts", "kv"],
    &["engine"],
    &["cluster"],
    &["sim"],
    &["live", "metrics", "results", "threads"],
    &["analysis", "audit"],
    &["config", "conform"],
    &["sweep", "calibrate", "validate", "lab"],
    &["report"],
    &["cli", "probe", "serve"],
];
/// Most lines of a file, without the tests at its end.
const LONGEST_FILE: usize = 500;
/// Files that may be longer until their seam is found, and how long. Only ever lowered.
const LONGER: &[(&str, usize)] = &[];

/// A source file without its tests.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// The top-level module that it belongs to.
    fn module(&self) -> &str {
        let rest = self.path.trim_start_matches("src/");
        rest.split(['/', '.']).next().expect("split yields one part")
    }

    /// Its lines that are not comments, numbered from 1.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate();
        lines
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
            .map(|(index, line)| (index + 1, line))
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() {
            walk(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// All of `src`, the files and parts of files that only tests compile left out.
fn sources() -> Vec<Source> {
    let mut paths = Vec::new();
    walk(&root().join("src"), &mut paths);
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "rs"));
    paths.sort();
    let texts: Vec<(PathBuf, String)> = paths
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("sources are text");
            (path, text)
        })
        .collect();
    let for_tests: BTreeSet<PathBuf> = texts
        .iter()
        .flat_map(|(path, text)| test_files(path, text))
        .collect();
    texts
        .into_iter()
        .filter(|(path, _)| !for_tests.contains(path))
        .map(|(path, text)| Source {
            path: relative(&path),
            text: without_tests(&text).to_owned(),
        })
        .collect()
}

fn relative(path: &Path) -> String {
    let path = path.strip_prefix(root()).expect("it lies in the package");
    path.to_string_lossy().replace('\\', "/")
}

/// The files that `#[cfg(test)] mod name;` brings in.
fn test_files(path: &Path, text: &str) -> Vec<PathBuf> {
    let stem = path.file_stem().expect("a source file has a name");
    let folder = path.parent().expect("a source file lies in a folder");
    let folder = match stem.to_str() {
        Some("mod" | "lib" | "main") => folder.to_path_buf(),
        _ => folder.join(stem),
    };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let declared = lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]");
    declared
        .filter_map(|pair| pair[1].rsplit_once("mod ")?.1.strip_suffix(';'))
        .map(|name| folder.join(format!("{name}.rs")))
        .collect()
}

/// Everything before the test module at the end.
fn without_tests(text: &str) -> &str {
    text.find("#[cfg(test)]\nmod tests {")
        .map_or(text, |at| &text[..at])
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|modules| modules.contains(&module))
}

/// Modules named after each `crate::` in a text; both of `use crate::{cost, model}`.
fn imports(text: &str) -> BTreeSet<String> {
    let starts_word = |at: usize| {
        let before = text[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$')
    };
    let name = |text: &str| -> String {
        text.trim_start()
            .chars()
            .take_while(|c| c.is_ascii_lowercase() || *c == '_')
            .collect()
    };
    let mut found = BTreeSet::new();
    for (at, prefix) in text.match_indices("crate::") {
        let rest = &text[at + prefix.len()..];
        if !starts_word(at) {
            continue;
        }
        match rest.strip_prefix('{') {
            Some(group) => {
                let group = group.split(';').next().unwrap_or(group);
                found.extend(top_level(group).map(name));
            }
            None => drop(found.insert(name(rest))),
        }
    }
    found.remove("");
    found
}

/// Splits `a::{b, c}, d}` at the commas outside inner braces.
fn top_level(group: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    group.split(move |c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    })
}

#[test]
fn lower_modules_never_import_higher_ones() {
    let mut wrong = Vec::new();
    for source in sources() {
        let module = source.module();
        if matches!(module, "lib" | "main") {
            continue;
        }
        let Some(own) = layer(module) else {
            wrong.push(format!("{}: `{module}` has no layer", source.path));
            continue;
        };
        let code: String = source.code().flat_map(|(_, line)| [line, "\n"]).collect();
        for import in imports(&code) {
            match layer(&import) {
                Some(other) if other > own => {
                    wrong.push(format!(
                        "{}: layer {own} imports `{import}` of layer {other}",
                        source.path
                    ));
                }
                Some(_) => {}
                None => wrong.push(format!("{}: `crate::{import}` has no layer", source.path)),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn imports_are_seen_in_every_form() {
    let seen = |text: &str| imports(text).into_iter().collect::<Vec<_>>().join(" ");
    assert_eq!(seen("use crate::cost::StepCost;"), "cost");
    assert_eq!(
        seen("use crate::{\n    hardware::{self, Device},\n    model,\n};"),
        "hardware model"
    );
    assert_eq!(seen("let x = f(crate::units::Picos(3));"), "units");
    assert_eq!(seen("use other_crate::sim::Simulation;"), "");
}

#[test]
fn the_table_of_layers_is_the_list_of_modules() {
    let text = std::fs::read_to_string(root().join("src/lib.rs")).expect("lib.rs is there");
    let declared: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub mod ")?.strip_suffix(';'))
        .collect();
    let listed: BTreeSet<&str> = LAYERS
        .iter()
        .flat_map(|modules| modules.iter().copied())
        .collect();
    assert_eq!(declared, listed);
}

#[test]
fn only_the_shell_prints() {
    let prints = ["println!(", "print!(", "dbg!("];
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| source.module() != "cli") {
        for (number, line) in source.code() {
            if prints.iter().any(|print| line.contains(print)) {
                wrong.push(format!("{}:{number}: {}", source.path, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What the core knows nothing of, and the modules that may: the invariant of ARCHITECTURE.md.
const OUTSIDE: &[(&str, &[&str])] = &[
    ("std::fs", &["cli", "probe"]),
    ("std::env", &["cli", "probe"]),
    ("std::net", &["cli", "serve"]),
    ("std::process", &["cli", "main", "probe"]),
    ("std::thread", &["probe", "serve", "threads"]),
    ("std::sync::mpsc", &["serve", "threads"]),
    ("Instant::now", &["cli", "probe", "serve"]),
    ("SystemTime", &["cli", "serve"]),
    ("rayon", &["cli", "sweep", "calibrate"]),
];

/// Uses of what a module may not know of.
fn outside(module: &str, line: &str) -> Vec<&'static str> {
    let is_banned = |(word, allowed): &&(&str, &[&str])| line.contains(word) && !allowed.contains(&module);
    OUTSIDE.iter().filter(is_banned).map(|(word, _)| *word).collect()
}

#[test]
fn the_core_knows_no_files_no_clock_no_environment_and_no_threads() {
    let mut wrong = Vec::new();
    for source in sources() {
        for (number, line) in source.code() {
            for word in outside(source.module(), line) {
                wrong.push(format!("{}:{number}: {word}", source.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// An input that the ledger does not know could be overwritten by an output (`cli/ledger.rs`).
#[test]
fn the_shell_opens_files_through_its_ledger() {
    const OPENS: [&str; 6] = [
        "fs::read(",
        "fs::read_to_string(",
        "fs::write(",
        "fs::OpenOptions",
        "File::open(",
        "File::create(",
    ];
    // A sweep and a search of settings go on from their own file.
    const MAY: [&str; 3] = ["src/cli/ledger.rs", "src/cli/files.rs", "src/cli/kept.rs"];
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| source.module() == "cli") {
        for (number, line) in source.code() {
            if OPENS.iter().any(|opens| line.contains(opens)) && !MAY.contains(&source.path.as_str()) {
                wrong.push(format!("{}:{number}: {}", source.path, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_outside_the_core_is_seen_there() {
    assert_eq!(outside("sim", "use rayon::prelude::*;"), ["rayon"]);
    assert_eq!(
        outside("engine", "let now = std::time::Instant::now();"),
        ["Instant::now"]
    );
    assert!(outside("sweep", "use rayon::prelude::*;").is_empty());
    assert!(outside("config", "env!(\"CARGO_PKG_VERSION\")").is_empty());
    // The table of ARCHITECTURE.md says the same of threads.
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    assert!(text.contains("`sweep`, `calibrate` and `cli` are the only modules that use threads across runs, and\n`threads` within one"));
}

#[test]
fn nothing_is_unwrapped() {
    let mut wrong = Vec::new();
    for source in sources() {
        for (number, line) in source.code().filter(|(_, line)| line.contains(".unwrap()")) {
            wrong.push(format!("{}:{number}: {}", source.path, line.trim()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_file_says_first_what_it_is_and_none_is_too_long() {
    let mut wrong = Vec::new();
    for source in sources() {
        if !source.text.starts_with("//!") {
            wrong.push(format!("{} does not open with `//!`", source.path));
        }
        let lines = source.text.lines().count();
        let allowed = LONGER.iter().find(|(path, _)| *path == source.path);
        if lines > allowed.map_or(LONGEST_FILE, |(_, lines)| *lines) {
            wrong.push(format!("{} has {lines} lines", source.path));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    let mut files = vec![root().join("Cargo.toml")];
    for folder in [
        ".ci",
        "benches",
        "calibrations",
        "docs",
        "examples",
        "hardware_profiles",
        "plots",
        "scenarios",
        "src",
        "tests",
    ] {
        walk(&root().join(folder), &mut files);
    }
    for page in ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"] {
        files.push(root().join(page));
    }
    // In two parts, so that this file passes its own test.
    let banned = [
        concat!("/wo", "rk/"),
        concat!("/ho", "me/"),
        concat!("/ro", "ot/"),
    ];
    let mut wrong = Vec::new();
    for path in files {
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue; // a picture, a font, a compressed recording
        };
        for (index, line) in text.lines().enumerate() {
            if banned.iter().any(|word| line.contains(word)) {
                wrong.push(format!("{}:{}", relative(&path), index + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
