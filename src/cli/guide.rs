//! `plimsoll guide`: the pages of `docs/` and their sections, a term of the glossary, and every passage that has a word, without a network.

use std::io::Write;
use std::process::ExitCode;

use super::Exit;
use crate::config::{Diagnostic, Diagnostics};
use crate::nearest::{nearest, squash};
use crate::report::prose::{Block, blocks};
use crate::report::{folded, glossary};

/// What to show.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  plimsoll guide                 # the pages
  plimsoll guide labs            # a page
  plimsoll guide model experts   # its sections with that word in their headings
  plimsoll guide TPOT            # a term of the glossary
  plimsoll guide --find preempt  # every passage that has a word
  plimsoll guide limits --find SGLang")]
pub struct Args {
    /// A page, a page and words of a section's heading, or a term of the glossary.
    #[arg(value_name = "PAGE|TERM")]
    pub name: Vec<String>,
    /// Only the passages with these words, one after the other, of the page or of all pages.
    #[arg(long, value_name = "WORDS")]
    pub find: Option<String>,
}

macro_rules! pages {
    ($($name:literal: $about:literal,)*) => {
        [$(Page { name: $name, about: $about, text: include_str!(concat!("../../docs/", $name, ".md")) }),*]
    };
}

/// A page by its file's name.
struct Page {
    name: &'static str,
    about: &'static str,
    text: &'static str,
}

const GLOSSARY: &str = "glossary";

/// In the order in which a newcomer needs them.
const PAGES: [Page; 15] = pages! {
    "tour": "more questions, each with its command and what it prints",
    "answers": "how to read an answer: verdicts, knees, intervals, trust marks, exit codes",
    "glossary": "every term, as it is used here",
    "labs": "exercises of a course on LLM serving: doing, grading and writing them, and more commands for each",
    "explore": "a page in the browser, live or as one file: knobs, queue and batch in slow motion, predictions",
    "calibrate": "your own measurements: what is taken, what is fitted, what it is worth",
    "serve": "a simulated server for real clients: what they find there, and what answers say",
    "probe": "your own GPU: what the probe measures, and what it found on real cards",
    "scheduler": "a scheduler of your own",
    "trust": "when to believe a figure, and where its intervals come from",
    "limits": "where it ends: what is not modelled or not known",
    "errors": "how far predictions are from published measurements",
    "evidence": "how it is kept right",
    "model": "how long a step takes, formula by formula",
    "engine-rules": "the engines' scheduling rules by their numbers",
};

/// Runs the command.
///
/// # Errors
/// A name that is neither a page nor a term, words that stand nowhere, or stdout that cannot be written.
pub fn run(args: &Args, out: &mut dyn Write, width: Option<usize>) -> anyhow::Result<ExitCode> {
    if args.find.as_deref().is_some_and(|words| words.trim().is_empty()) {
        let problem = Diagnostic::new("--find is given no word to look for");
        return Err(Diagnostics::from(problem.help("write one: `plimsoll guide --find preempt`")).into());
    }
    let page = args.name.first().and_then(|name| page(name));
    let name = args.name.join(" ");
    let text = match (&args.name[..], page, &args.find) {
        ([], _, None) => contents(width),
        ([], _, Some(words)) => {
            passages(&PAGES, words, width).ok_or_else(|| nowhere(words, "no page has"))?
        }
        ([_], Some(page), None) => whole(page, width),
        ([_], Some(page), Some(words)) => passages(std::slice::from_ref(page), words, width)
            .ok_or_else(|| nowhere(words, &format!("`{name}` does not have")))?,
        (_, _, Some(_)) => return Err(no_page(&name)),
        ([_, words @ ..], Some(page), None) => {
            // `model ±` is a term, and `model` a page.
            let words = words.join(" ");
            explained(&name, width)
                .or_else(|| sections(page, &words, width))
                .ok_or_else(|| no_section(page, &words))?
        }
        (_, None, None) => explained(&name, width).ok_or_else(|| unknown(&name))?,
    };
    out.write_all(text.as_bytes())?;
    Ok(Exit::Ok.into())
}

fn page(name: &str) -> Option<&'static Page> {
    let name = name.trim_end_matches(".md");
    PAGES.iter().find(|page| page.name.eq_ignore_ascii_case(name))
}

/// The pages, a line each.
fn contents(width: Option<usize>) -> String {
    let widest = PAGES.iter().map(|page| page.name.len()).max().unwrap_or(0);
    let listed = glossary(PAGES.iter().map(|page| (page.name, page.about)), widest, width);
    let about = "`plimsoll guide PAGE` prints a page, `plimsoll guide TERM` what a term means, `--find WORDS` every passage that has them.\n";
    format!("{listed}\n{}", folded(about, width))
}

/// A page as it is written, or laid out for a screen.
fn whole(page: &Page, width: Option<usize>) -> String {
    match width {
        None => page.text.to_owned(),
        Some(_) => laid_out(blocks(page.text), width),
    }
}

fn laid_out<'a>(blocks: impl IntoIterator<Item = Block<'a>>, width: Option<usize>) -> String {
    let laid_out = blocks.into_iter().map(|block| block.laid_out(width));
    laid_out.collect::<Vec<_>>().join("\n")
}

/// The sections of a page with the words in their headings, each with those below it. `None` where there is none.
fn sections(page: &Page, words: &str, width: Option<usize>) -> Option<String> {
    let mut within = None;
    let kept = blocks(page.text).into_iter().filter(|block| {
        if let Block::Heading(level, _) = *block {
            within = within.filter(|outer| level > *outer);
            within = within.or_else(|| block.says(words).then_some(level));
        }
        within.is_some()
    });
    let kept: Vec<Block> = kept.collect();
    (!kept.is_empty()).then(|| laid_out(kept, width))
}

/// Each passage with the words under its page and heading; of a table the rows. `None` where there is none.
fn passages(pages: &[Page], words: &str, width: Option<usize>) -> Option<String> {
    let mut found = String::new();
    for page in pages {
        let (mut heading, mut told) = ("", "");
        for block in blocks(page.text) {
            let block = match block {
                Block::Heading(_, text) => {
                    heading = text;
                    continue;
                }
                Block::Table(rows) => match rows_with(rows, words) {
                    Some(table) => table,
                    None => continue,
                },
                other => other,
            };
            if block.says(words) {
                if told != heading {
                    found += &format!("== {}: {heading}\n", page.name);
                    told = heading;
                }
                found += &block.laid_out(width);
                found.push('\n');
            }
        }
    }
    (!found.is_empty()).then_some(found)
}

/// A table's head and the rows that have the words.
fn rows_with(rows: Vec<Vec<String>>, words: &str) -> Option<Block<'static>> {
    let mut rows = rows.into_iter();
    let head = rows.next()?;
    let has_words = |row: &Vec<String>| Block::Table(vec![row.clone()]).says(words);
    let kept: Vec<Vec<String>> = rows.filter(has_words).collect();
    (!kept.is_empty()).then(|| Block::Table(std::iter::once(head).chain(kept).collect()))
}

/// The items of the glossary.
fn entries() -> impl Iterator<Item = Block<'static>> {
    let text = PAGES
        .iter()
        .find(|page| page.name == GLOSSARY)
        .map_or("", |page| page.text);
    let is_item = |block: &Block| matches!(block, Block::Text(text) if text.starts_with("* "));
    blocks(text).into_iter().filter(is_item)
}

/// The terms that an item explains: what is in bold, and its other names, which stand behind it before the first colon.
fn terms(item: &str) -> Vec<String> {
    let bold = item.split("**").skip(1).step_by(2);
    let names = item
        .trim_start_matches("* ")
        .split(": ")
        .next()
        .unwrap_or_default();
    let others = names.split([',', '(', ')', ';']);
    bold.chain(others)
        .flat_map(|name| name.split(", "))
        .map(|name| name.trim().trim_matches(['*', '`', ':', ' ']).to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

/// What the glossary says of a term, singular or plural.
fn explained(term: &str, width: Option<usize>) -> Option<String> {
    let asked = squash(term);
    let same = |known: &str| {
        let known = squash(known);
        known == asked || known + "s" == asked
    };
    let told: String = entries()
        .filter(|block| matches!(block, Block::Text(item) if terms(item).iter().any(|known| same(known))))
        .map(|block| block.laid_out(width))
        .collect();
    (!asked.is_empty() && !told.is_empty()).then_some(told)
}

fn unknown(name: &str) -> anyhow::Error {
    let terms: Vec<String> = entries()
        .flat_map(|block| match block {
            Block::Text(item) => terms(&item),
            _ => Vec::new(),
        })
        .collect();
    let known = PAGES
        .iter()
        .map(|page| page.name)
        .chain(terms.iter().map(String::as_str));
    // `L` and `$/h` are near to any word with the letter in it.
    let known = known.filter(|known| squash(known).chars().count() > 2);
    let problem = Diagnostic::new(format!("the guide has no page and no term `{name}`"));
    let problem = match nearest(name, known, 1)[..] {
        [near, ..] => problem.help(format!("did you mean `{near}`?")),
        [] => problem,
    };
    Diagnostics::from(problem.help(format!(
        "`plimsoll guide` lists the pages; `plimsoll guide --find \"{name}\"` looks for words in them"
    )))
    .into()
}

fn no_section(page: &Page, words: &str) -> anyhow::Error {
    let headings = blocks(page.text).into_iter().filter_map(|block| match block {
        Block::Heading(level, text) if level > 1 => Some(text),
        _ => None,
    });
    let headings: Vec<&str> = headings.collect();
    let name = page.name;
    let problem = Diagnostic::new(format!("no section of `{name}` has `{words}` in its heading"));
    let problem = match &headings[..] {
        [] => problem,
        headings => problem.help(format!("its sections are: {}", headings.join(" · "))),
    };
    let help = format!("`plimsoll guide {name} --find \"{words}\"` looks for the words in its text");
    Diagnostics::from(problem.help(help)).into()
}

fn no_page(name: &str) -> anyhow::Error {
    let problem = Diagnostic::new(format!("--find looks through a page, and `{name}` is none"));
    let near = nearest(name, PAGES.iter().map(|page| page.name), 1);
    let problem = near.iter().fold(problem, |problem, near| {
        problem.help(format!("did you mean `{near}`?"))
    });
    Diagnostics::from(
        problem.help("`plimsoll guide` lists the pages; without one it looks through all of them"),
    )
    .into()
}

fn nowhere(words: &str, who: &str) -> anyhow::Error {
    let problem = Diagnostic::new(format!("{who} the words `{words}`, one after the other"));
    Diagnostics::from(problem.help("fewer words, or the beginning of one, are found more easily")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_of_the_folder_is_there_and_named_by_its_heading() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/docs");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|file| {
                file.unwrap()
                    .file_name()
                    .to_str()?
                    .strip_suffix(".md")
                    .map(str::to_owned)
            })
            // The words of `errors`, which `docs/make` puts above its tables.
            .filter(|name| name != "errors-words")
            .collect();
        let mut pages: Vec<&str> = PAGES.iter().map(|page| page.name).collect();
        files.sort_unstable();
        pages.sort_unstable();
        assert_eq!(files, pages);
        for page in PAGES {
            assert!(
                matches!(blocks(page.text)[0], Block::Heading(1, _)),
                "{}",
                page.name
            );
        }
    }

    #[test]
    fn a_term_is_found_by_each_of_its_names() {
        for (asked, told) in [
            ("tpot", "* TPOT, time per output token"),
            ("time per output token", "* TPOT"),
            ("ISL", "* Prompt, answer"),
            ("KV blocks", "KV cache"),
            ("max-num-seqs", "`--max-num-seqs`"),
            ("decode", "* Prefill"),
        ] {
            let said = explained(asked, None).unwrap_or_else(|| panic!("{asked}"));
            assert!(said.contains(told), "{asked}: {said}");
        }
        assert_eq!(explained("entropy", None), None);
        let error = format!("{:?}", unknown("tpott"));
        assert!(error.contains("TPOT"), "{error}");
    }

    #[test]
    fn a_section_ends_where_the_next_of_its_level_begins() {
        let model = page("MODEL").unwrap();
        let experts = sections(model, "experts", None).unwrap();
        assert!(experts.starts_with("Experts\n───────\n"), "{experts}");
        assert!(!experts.contains("Sparse attention\n"), "{experts}");
        assert_eq!(sections(model, "xyzzy", None), None);
        let told = format!("{:?}", no_section(model, "xyzzy"));
        assert!(told.contains("Sparse attention · "), "{told}");
        // A page's own heading is all of it.
        let title = sections(page("limits").unwrap(), "where it ends", None).unwrap();
        assert_eq!(title, laid_out(blocks(page("limits").unwrap().text), None));
    }

    #[test]
    fn passages_stand_under_their_page_and_heading() {
        let found = passages(&PAGES, "nohup", None).unwrap();
        assert!(
            found.starts_with("== answers: Interruptions, limits\n"),
            "{found}"
        );
        // Of a table only the rows that have the words.
        let found = passages(&PAGES, "COLLAPSED", None).unwrap();
        assert!(
            found.contains("`COLLAPSED`") && !found.contains("`NO ANSWERS`"),
            "{found}"
        );
        assert_eq!(passages(&PAGES, "xyzzy", None), None);
    }

    #[test]
    fn a_screen_gets_no_line_of_text_wider_than_itself() {
        for page in PAGES {
            let laid_out = whole(&page, Some(90));
            let is_fenced = |line: &str| line.starts_with("    ");
            let wide = laid_out
                .lines()
                .find(|line| !is_fenced(line) && line.chars().count() > 90);
            assert_eq!(wide, None, "{}", page.name);
            assert!(!laid_out.contains("**"), "{}", page.name);
        }
    }
}
