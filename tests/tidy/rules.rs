//! Rules are cited by number: what is cited is explained in one place, and what is explained there is cited.

use std::collections::BTreeSet;
use std::path::Path;

use super::{relative, root, walk};

/// Where most of them are explained.
const PAGE: &str = "docs/engine-rules.md";
/// Families of rules, and where each is explained.
const FAMILIES: &[(&str, &str)] = &[
    ("V1", PAGE),
    ("VS", PAGE),
    ("V0", PAGE),
    ("ST", PAGE),
    ("SG", PAGE),
    ("RT", PAGE),
    ("PD", PAGE),
    ("LM", PAGE),
    ("SD", PAGE),
    ("EV", PAGE),
    ("TP", PAGE),
    ("PP", PAGE),
    ("DP", PAGE),
    ("EP", PAGE),
    ("QZ", PAGE),
    ("R", PAGE),
    ("B", PAGE),
    ("Q", PAGE),
    ("C", PAGE),
    ("TR", "src/engine/trtllm/mod.rs"),
    ("D", "tests/engine/twin/drafts.rs"),
];

/// A family and a number, which may have a letter behind it.
type Rule = (&'static str, u32, String);

/// A rule at the start of `text`, and what follows it.
fn rule(text: &str) -> Option<(Rule, &str)> {
    let named = |family: &&'static str| text.strip_prefix(*family)?.strip_prefix('-');
    let (family, rest) = FAMILIES
        .iter()
        .find_map(|(family, _)| Some((*family, named(family)?)))?;
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number = rest[..digits].parse().ok()?;
    let rest = &rest[digits..];
    let letters = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).len();
    (letters <= 1).then(|| ((family, number, rest[..letters].to_owned()), &rest[letters..]))
}

/// Whether a name may begin behind `before`.
fn begins(before: Option<char>) -> bool {
    before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '-' | '_' | '.'))
}

/// The rules that a text cites, ranges ("ST-1 to ST-5") whole, definitions left out.
fn cited(text: &str) -> BTreeSet<Rule> {
    let mut all = BTreeSet::new();
    for (at, _) in text.match_indices(|c: char| c.is_ascii_uppercase()) {
        let before = &text[..at];
        if !begins(before.chars().next_back()) || before.ends_with("* **") {
            continue;
        }
        let Some((first, rest)) = rule(&text[at..]) else {
            continue;
        };
        if let Some(((family, last, _), _)) = rest.strip_prefix(" to ").and_then(rule)
            && family == first.0
        {
            all.extend((first.1..=last).map(|number| (family, number, String::new())));
        }
        all.insert(first);
    }
    all
}

/// The rules that a text explains: `* **ST-1** …` at the start of a line, of a comment or not.
fn explained(text: &str) -> Vec<Rule> {
    text.lines()
        .filter_map(|line| {
            let line = line.trim_start_matches("//!").trim_start();
            let (rule, rest) = rule(line.strip_prefix("* **")?)?;
            rest.starts_with("** ").then_some(rule)
        })
        .collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("sources are text")
}

#[test]
fn every_rule_that_is_cited_is_explained_and_the_other_way_round() {
    let mut files = Vec::new();
    for folder in ["src", "tests"] {
        walk(&root().join(folder), &mut files);
    }
    files.retain(|path| {
        let is_source = path
            .extension()
            .is_some_and(|ending| ["rs", "toml", "py"].iter().any(|one| ending == *one));
        is_source && !path.ends_with(file!())
    });
    let mut undefined = Vec::new();
    let mut used = BTreeSet::new();
    let mut known = BTreeSet::new();
    let places: BTreeSet<&str> = FAMILIES.iter().map(|(_, place)| *place).collect();
    for place in places {
        for rule in explained(&read(&root().join(place))) {
            let home = FAMILIES.iter().find(|(family, _)| *family == rule.0);
            assert_eq!(
                home.map(|(_, home)| *home),
                Some(place),
                "{rule:?} is explained elsewhere"
            );
            assert!(known.insert(rule.clone()), "{rule:?} is explained twice");
        }
    }
    for path in files {
        for rule in cited(&read(&path)) {
            if !known.contains(&rule) {
                undefined.push(format!("{}: {}-{}{}", relative(&path), rule.0, rule.1, rule.2));
            }
            used.insert(rule);
        }
    }
    assert!(
        undefined.is_empty(),
        "explained nowhere:\n{}",
        undefined.join("\n")
    );
    // At the head of a file stands all that it does, whether somebody points there or not.
    let of_page = |rule: &&Rule| FAMILIES.contains(&(rule.0, PAGE));
    let unused: Vec<_> = known.difference(&used).filter(of_page).collect();
    assert!(unused.is_empty(), "explained, but cited nowhere: {unused:?}");
}

#[test]
fn citations_are_seen_in_every_form() {
    let of = |text: &str| {
        let names = cited(text)
            .into_iter()
            .map(|(family, number, letter)| format!("{family}-{number}{letter}"));
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        of("(V1-22) as SG-33b, ST-1 to ST-3 have it"),
        "SG-33b ST-1 ST-2 ST-3 V1-22"
    );
    assert_eq!(of("CRC-32, FNV-1a, 8B-16, GPU-R-5, D-rank, V1-8x2"), "");
    assert_eq!(of("//! * **TR-1** as TR-2 has it"), "TR-2");
    assert_eq!(explained("//! * **TR-1** a\n* **V1-2** b\n* TR-3 c").len(), 2);
}
