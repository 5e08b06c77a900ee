//! Pages of Markdown taken apart into blocks, and laid out for a screen.
//!
//! The Markdown is that of `docs/`: headings, paragraphs, lists of `*`, tables, fenced blocks, and pictures on lines of their own. Code
//! stays as it is written; of a link and of what is in bold only the words stay.

use super::page::wrapped;
use super::tables::{Column, table};

/// One block of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Block<'a> {
    /// A heading: how many `#` it has, and its words.
    Heading(usize, &'a str),
    /// A fenced block, line by line.
    Fenced(Vec<&'a str>),
    /// A table: its head, then its rows.
    Table(Vec<Vec<String>>),
    /// A paragraph, or an item of a list with its `* `, as one line.
    Text(String),
}

impl Block<'_> {
    /// Whether the block has these words, whatever their case.
    pub(crate) fn says(&self, words: &str) -> bool {
        let says = |text: &str| text.to_lowercase().contains(&words.to_lowercase());
        match self {
            Block::Heading(_, text) => says(text),
            Block::Fenced(lines) => lines.iter().any(|line| says(line)),
            Block::Table(rows) => rows.iter().flatten().any(|cell| says(cell)),
            Block::Text(text) => says(text),
        }
    }

    /// The block with a line's end, its text and tables within `width` columns; headings are underlined, a page's twice.
    pub(crate) fn laid_out(&self, width: Option<usize>) -> String {
        let columns = width.unwrap_or(usize::MAX);
        match self {
            Block::Heading(level, text) => {
                let line = if *level == 1 { "═" } else { "─" };
                format!("{text}\n{}\n", line.repeat(text.chars().count()))
            }
            Block::Fenced(lines) => lines.iter().map(|line| format!("    {line}\n")).collect(),
            Block::Table(rows) => {
                let heads: Vec<Column> = rows[0].iter().map(|head| Column::left(head)).collect();
                let whole = table(&heads, &rows[1..]);
                match whole.lines().all(|line| line.chars().count() <= columns) {
                    true => whole,
                    false => row_by_row(rows, columns),
                }
            }
            Block::Text(text) => {
                let indent = if text.starts_with("* ") { "  " } else { "" };
                wrapped("", indent, &text.replace("**", ""), columns)
            }
        }
    }
}

/// A table that is wider than the screen: each row a paragraph, its first cell above the others.
fn row_by_row(rows: &[Vec<String>], columns: usize) -> String {
    let heads = &rows[0];
    let mut text = String::new();
    for row in &rows[1..] {
        for (at, (head, cell)) in heads
            .iter()
            .zip(row)
            .enumerate()
            .filter(|(_, (_, cell))| !cell.is_empty())
        {
            text += &match (at, head.is_empty() || heads.len() == 2) {
                (0, _) => wrapped("", "  ", cell, columns),
                (_, true) => wrapped("    ", "      ", cell, columns),
                (_, false) => wrapped("    ", "      ", &format!("{head}: {cell}"), columns),
            };
        }
    }
    text
}

/// The blocks of a page.
pub(crate) fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim().is_empty() || line.starts_with("![") {
            continue;
        }
        if line.starts_with("```") {
            blocks.push(Block::Fenced(
                lines
                    .by_ref()
                    .take_while(|line| !line.starts_with("```"))
                    .collect(),
            ));
        } else if line.starts_with('#') {
            let words = line.trim_start_matches('#');
            blocks.push(Block::Heading(line.len() - words.len(), words.trim()));
        } else if line.starts_with('|') {
            let mut rows = vec![cells(line)];
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                rows.push(cells(row));
            }
            rows.retain(|row| !row.iter().all(|cell| is_rule(cell)));
            blocks.push(Block::Table(rows));
        } else {
            let mut text = line.trim().to_owned();
            while let Some(more) = lines.next_if(|line| goes_on(line)) {
                text.push(' ');
                text += more.trim();
            }
            blocks.push(Block::Text(without_links(&text)));
        }
    }
    blocks
}

/// Whether a line belongs to the paragraph or item before it.
fn goes_on(line: &str) -> bool {
    let begins = ["#", "|", "```", "* ", "!["];
    !line.trim().is_empty() && !begins.iter().any(|begin| line.starts_with(begin))
}

/// Whether a cell is part of the rule under a table's head.
fn is_rule(cell: &str) -> bool {
    !cell.is_empty() && cell.chars().all(|c| matches!(c, '-' | ':'))
}

fn cells(row: &str) -> Vec<String> {
    let inner = row.trim();
    let inner = inner.strip_prefix('|').unwrap_or(inner);
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    inner
        .split('|')
        .map(|cell| without_links(cell.trim()).replace("**", ""))
        .collect()
}

/// Links by their words; a name in brackets that leads nowhere stays.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let parts = link
            .split_once("](")
            .and_then(|(words, target)| Some((words, target.split_once(')')?)));
        plain += before;
        match parts.filter(|(words, (target, _))| !words.contains('[') && !target.contains(' ')) {
            Some((words, (_, after))) => {
                plain += words;
                rest = after;
            }
            None => {
                plain.push('[');
                rest = link;
            }
        }
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Title\n\nOne [page](other.md) says\nmore, 95 % [18.1, 18.9].\n\n![a picture](x.png)\n\n* **A**: first,\n  on two lines\n* **B**: second\n\n| Word | Means |\n|---|---|\n| a | b c |\n\n```\n$ plimsoll knee\n# no heading\n```\n";

    #[test]
    fn a_page_is_taken_apart_into_what_it_holds() {
        let text = |text: &str| Block::Text(text.to_owned());
        assert_eq!(
            blocks(PAGE),
            [
                Block::Heading(1, "Title"),
                text("One page says more, 95 % [18.1, 18.9]."),
                text("* **A**: first, on two lines"),
                text("* **B**: second"),
                Block::Table(vec![
                    vec!["Word".to_owned(), "Means".to_owned()],
                    vec!["a".to_owned(), "b c".to_owned()]
                ]),
                Block::Fenced(vec!["$ plimsoll knee", "# no heading"]),
            ]
        );
    }

    #[test]
    fn blocks_are_as_wide_as_the_screen_but_for_what_is_fenced() {
        let item = Block::Text("* **Knee**: the highest rate within the SLO, and more words".into());
        assert_eq!(
            item.laid_out(Some(40)),
            "* Knee: the highest rate within the SLO,\n  and more words\n"
        );
        assert_eq!(
            blocks(PAGE)[5].laid_out(Some(40)),
            "    $ plimsoll knee\n    # no heading\n"
        );
        let wide = blocks(
            "| Word | In JSON | Means |\n|---|---|---|\n| a | b | so many words that they are folded here |\n",
        );
        assert_eq!(
            wide[0].laid_out(Some(40)),
            "a\n    In JSON: b\n    Means: so many words that they are\n      folded here\n"
        );
        assert_eq!(blocks(PAGE)[0].laid_out(Some(40)), "Title\n═════\n");
        assert_eq!(blocks("### Part")[0].laid_out(Some(40)), "Part\n────\n");
        assert!(item.says("HIGHEST rate") && !item.says("lowest"));
    }
}
