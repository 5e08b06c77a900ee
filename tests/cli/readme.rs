//! What README shows is what the binary prints: every command of it that needs no file of the reader's. Kernel tables by the
//! names of those in `tests/data/kernels` are these.

use std::path::Path;

use crate::{Desk, text};

/// A command of README and the lines that stand below it.
struct Shown {
    command: String,
    lines: Vec<String>,
}

/// The commands of all blocks, continued lines joined.
fn shown(readme: &str) -> Vec<Shown> {
    let mut all: Vec<Shown> = Vec::new();
    // The fence that is open: of a block without a language, which shows what is printed, or of another.
    let mut fence: Option<&str> = None;
    for line in readme.lines() {
        if line.starts_with("```") {
            fence = fence.is_none().then_some(line);
            continue;
        }
        let is_block = fence == Some("```");
        let Some(last) = all.last_mut().filter(|_| is_block && !line.starts_with("$ ")) else {
            if is_block && let Some(command) = line.strip_prefix("$ plimsoll ") {
                let lines = Vec::new();
                all.push(Shown {
                    command: command.to_owned(),
                    lines,
                });
            }
            continue;
        };
        match last.command.strip_suffix('\\') {
            Some(begun) => last.command = format!("{begun} {}", line.trim()),
            None => last.lines.push(line.to_owned()),
        }
    }
    all
}

/// Whether a line is what README shows of it, `…` standing for anything.
fn is_as_shown(printed: &str, shown: &str) -> bool {
    let mut rest = printed;
    shown.split('…').all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

#[test]
fn readme_shows_what_is_printed() {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let (mut commands, mut stale) = (0, Vec::new());
    for Shown { command, lines } in shown(&readme) {
        let words = shlex::split(&command).unwrap();
        let is_file = |word: &&String| [".csv", ".json", ".toml"].iter().any(|end| word.ends_with(end));
        let written = words
            .iter()
            .position(|word| word == "-o")
            .and_then(|at| words.get(at + 1));
        let files: Vec<&String> = words
            .iter()
            .filter(is_file)
            .filter(|word| Some(*word) != written)
            .collect();
        let table = |name: &String| {
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/data/kernels")
                .join(name)
        };
        if !files.iter().all(|name| table(name).exists()) || command.contains('…') {
            continue;
        }
        commands += 1;
        let desk = Desk::new();
        for name in files {
            std::fs::copy(table(name), desk.path().join(name)).unwrap();
        }
        let output = desk.run(&command);
        let printed = text(&output.stdout) + &text(&output.stderr);
        let mut printed = printed.lines();
        for line in lines
            .iter()
            .filter(|line| !line.trim().is_empty() && line.trim() != "…")
        {
            // In order; what README leaves out is passed over.
            let mut ahead = printed.clone();
            if ahead.any(|printed| is_as_shown(printed, line)) {
                printed = ahead;
            } else {
                stale.push(format!("{command}\n    {line}"));
            }
        }
    }
    assert!(commands >= 10, "{commands}");
    assert!(stale.is_empty(), "not printed any more:\n{}", stale.join("\n"));
}
