//! What README and the guide show is what the binary prints: every command of theirs that needs no file of the reader's. Kernel tables by the
//! names of those in `tests/data/kernels` are these.

use std::collections::BTreeMap;
use std::path::Path;

use crate::{Desk, text};

/// A command of a page and the lines that stand below it.
struct Shown {
    command: String,
    lines: Vec<String>,
}

/// The commands of all blocks, continued lines joined.
fn shown(page: &str) -> Vec<Shown> {
    let mut all: Vec<Shown> = Vec::new();
    // The fence that is open: of a block without a language or of a console's, which show what is printed, or of another.
    let mut fence: Option<&str> = None;
    for line in page.lines() {
        if line.starts_with("```") {
            fence = fence.is_none().then_some(line);
            continue;
        }
        let is_block = matches!(fence, Some("```" | "```console"));
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

/// Whether a line is what a page shows of it, from its first character to its last, `…` standing for anything.
fn is_as_shown(printed: &str, shown: &str) -> bool {
    let (printed, shown) = (printed.trim_end(), shown.trim_end());
    let Some((first, rest)) = shown.split_once('…') else {
        return printed == shown;
    };
    let Some(mut ahead) = printed.strip_prefix(first) else {
        return false;
    };
    let (between, last) = rest.rsplit_once('…').unwrap_or(("", rest));
    for part in between.split('…') {
        match ahead.find(part) {
            Some(at) => ahead = &ahead[at + part.len()..],
            None => return false,
        }
    }
    ahead.ends_with(last)
}

#[test]
fn lines_are_compared_from_end_to_end() {
    for (printed, shown, is_same) in [
        ("  a 12 b", "  a 12 b", true),
        ("  a 12 b", "a 12 b", false),
        ("  a 12 b", "  a 12", false),
        ("  a 12 b", "  a 1…", true),
        ("  a 12 b", "…12…", true),
        ("  a 12 b", "  a…2…b", true),
        ("  a 12 b", "  a…b 12…", false),
        ("ab", "ab…b", false),
    ] {
        assert_eq!(is_as_shown(printed, shown), is_same, "{shown}");
    }
}

/// README and the pages of the guide that show what is printed.
const PAGES: [&str; 4] = ["README.md", "docs/tour.md", "docs/calibrate.md", "docs/labs.md"];

fn page(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

#[test]
fn readme_lists_every_command() {
    let help = text(&Desk::new().run("--help").stdout);
    let listed: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(listed.len() >= 18, "{listed:?}");
    let readme = page("README.md");
    let first_cells: Vec<&str> = readme
        .lines()
        .skip_while(|line| *line != "| Command | Question |")
        .take_while(|line| line.starts_with('|'))
        .filter_map(|line| line.split('|').nth(1))
        .collect();
    let lacking = listed
        .iter()
        .filter(|name| !first_cells.iter().any(|cell| cell.contains(&format!("`{name}`"))));
    assert_eq!(lacking.collect::<Vec<_>>(), [&""; 0]);
}

#[test]
fn pages_count_the_recordings_that_are_there() {
    let count = |folder: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data/recordings")
            .join(folder);
        std::fs::read_dir(folder).unwrap().count()
    };
    let all = |folders: &[&str]| folders.iter().map(|folder| count(folder)).sum::<usize>();
    let (drafts, stages, states) = (
        count("random-0.33-drafts"),
        count("random-0.33-stages"),
        count("random-0.33-states"),
    );
    let newest = all(&["sync", "async", "random-0.33"]) + drafts + stages + states;
    let older = all(&["random-0.11", "random-0.11-drafts", "random-0.11-stages"]);
    let sglang_drafts = count("sglang-drafts");
    let told = format!(
        "{newest} runs of vLLM 0.33's own V1 scheduler ({drafts} with drafts, {stages} on the stages of a pipeline, {states} with \
         recurrent states), {older} of 0.11's, {} of 0.6.6's V0, {} of SGLang 0.5.23's ({sglang_drafts} with drafts), {} of 0.5.4's, and {} of TensorRT-LLM's",
        count("random-0.6"),
        all(&["sglang-normal", "sglang-overlap", "sglang-drafts"]),
        count("sglang-0.5.4"),
        count("random-trtllm"),
    );
    let in_one_line = |name| page(name).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(in_one_line("docs/evidence.md").contains(&told), "{told}");
    let every = newest
        + older
        + all(&[
            "random-0.6",
            "sglang-normal",
            "sglang-overlap",
            "sglang-drafts",
            "sglang-0.5.4",
            "random-trtllm",
        ]);
    assert!(
        in_one_line("README.md").contains(&format!("{every} recorded runs")),
        "{every}"
    );
}

#[test]
fn pages_show_what_is_printed() {
    let (mut commands, mut stale) = (0, Vec::new());
    // A command that two pages show runs once.
    let mut printed_by: BTreeMap<String, String> = BTreeMap::new();
    for Shown { command, lines } in PAGES.iter().flat_map(|name| shown(&page(name))) {
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
        let printed = printed_by.entry(command.clone()).or_insert_with(|| {
            let desk = Desk::new();
            for name in files {
                std::fs::copy(table(name), desk.path().join(name)).unwrap();
            }
            let output = desk.run(&command);
            text(&output.stdout) + &text(&output.stderr)
        });
        let mut printed = printed.lines();
        for line in lines
            .iter()
            .filter(|line| !line.trim().is_empty() && line.trim() != "…")
        {
            // In order; what the page leaves out is passed over.
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
