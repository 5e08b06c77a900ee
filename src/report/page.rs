//! Text as wide as the screen it goes to: sentences are wrapped, and what is too wide for a table is told in several.

use super::tables::{Column, table, table_within};
use super::views::Style;

/// Widest sentences in columns, however wide the screen.
pub(super) const WIDTH: usize = 100;
/// Narrower screens fold by themselves.
const NARROWEST: usize = 40;
/// Where sentences begin, right of their names.
const INDENT: &str = "              ";

/// A text that grows line by line.
#[derive(Debug)]
pub(super) struct Page {
    text: String,
    /// Columns of the screen, where there is one.
    screen: Option<usize>,
}

impl Page {
    pub(super) fn new(style: Style) -> Page {
        Page {
            text: String::new(),
            screen: style.width.map(|width| width.max(NARROWEST)),
        }
    }

    /// Columns of sentences.
    pub(super) fn width(&self) -> usize {
        self.screen.map_or(WIDTH, |screen| screen.min(WIDTH))
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// A line as it is.
    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// The first line. It is whole where no screen is too narrow for it, however long: scripts read it.
    pub(super) fn answer(&mut self, line: &str) {
        match self.screen {
            Some(screen) => self.text += &wrapped("", "  ", line, screen),
            None => self.line(line),
        }
    }

    /// Lines that something else laid out.
    pub(super) fn block(&mut self, lines: &str) {
        self.text.push_str(lines);
    }

    /// A table; one that is too wide for the screen is told in several, each with its first `keys` columns.
    pub(super) fn table(&mut self, columns: &[Column], rows: &[Vec<String>], keys: usize) {
        self.text += &match self.screen {
            Some(screen) => panels(columns, rows, keys, screen),
            None => table(columns, rows),
        };
    }

    /// A name and its sentences, wrapped with a hanging indent.
    pub(super) fn listed(&mut self, name: &str, sentences: &[String]) {
        for (index, sentence) in sentences.iter().enumerate() {
            let lead = match index {
                0 => format!("  {name:<10}  "),
                _ => INDENT.into(),
            };
            self.text += &wrapped(&lead, INDENT, sentence, self.width());
        }
    }

    /// A name and its only sentence.
    pub(super) fn fact(&mut self, name: &str, sentence: &str) {
        self.listed(name, &[sentence.to_owned()]);
    }
}

/// A sentence in lines of at most `width` columns after `lead`, the others after `indent`.
pub(crate) fn wrapped(lead: &str, indent: &str, sentence: &str, width: usize) -> String {
    let mut text = String::new();
    let mut line = lead.to_owned();
    for word in sentence.split(' ') {
        // A line that holds nothing yet takes any word: a longer one could not stand elsewhere.
        if columns(&line) + columns(word) > width && !line.trim().is_empty() {
            text += line.trim_end();
            text.push('\n');
            line = indent.to_owned();
        }
        line += word;
        line.push(' ');
    }
    text + line.trim_end() + "\n"
}

/// Text that something else laid out, its long lines folded under their own beginning.
pub(crate) fn folded(text: &str, width: Option<usize>) -> String {
    let Some(width) = width.map(|width| width.max(NARROWEST)) else {
        return text.to_owned();
    };
    let line = |line: &str| {
        let depth = line.len() - line.trim_start().len();
        wrapped("", &" ".repeat(depth.min(width / 2) + 2), line, width)
    };
    text.lines().map(line).collect()
}

/// A table, told in several where it is wider than the screen.
pub(super) fn table_on(
    columns: &[Column],
    rows: &[Vec<String>],
    keys: usize,
    width: Option<usize>,
) -> String {
    match width {
        Some(width) => panels(columns, rows, keys, width.max(NARROWEST)),
        None => table(columns, rows),
    }
}

/// Columns that a text takes on a screen: colour codes take none.
fn columns(text: &str) -> usize {
    let mut parts = text.split('\u{1b}');
    let plain = parts.next().map_or(0, |part| part.chars().count());
    let after_code = |part: &str| part.split_once('m').map_or(0, |(_, rest)| rest.chars().count());
    plain + parts.map(after_code).sum::<usize>()
}

/// A table within `width` columns. One that is wider is told in several below each other, as many columns in each as fit
/// beside the first `keys`; where not even two fit, cells take several lines.
pub(super) fn panels(columns: &[Column], rows: &[Vec<String>], keys: usize, width: usize) -> String {
    // Cells have a blank on either side; the margin's stands for the last one's, which is trimmed.
    const GAP: usize = 2;
    let widths: Vec<usize> = (0..columns.len())
        .map(|at| {
            let cells = rows.iter().map(|row| row[at].chars().count());
            cells.chain([columns[at].head_width()]).max().unwrap_or(0) + GAP
        })
        .collect();
    let of_keys: usize = widths[..keys].iter().sum();
    let widest = widths[keys..].iter().max().copied().unwrap_or(0);
    if widths.iter().sum::<usize>() <= width || of_keys + widest > width {
        return table_within(columns, rows, Some(width));
    }
    let mut chosen: Vec<Vec<usize>> = Vec::new();
    let mut used = usize::MAX;
    for (at, own) in widths.iter().enumerate().skip(keys) {
        if used.saturating_add(*own) > width {
            chosen.push((0..keys).collect());
            used = of_keys;
        }
        used += own;
        chosen.last_mut().expect("one was just begun").push(at);
    }
    let panel = |places: &Vec<usize>| {
        let columns: Vec<Column> = places.iter().map(|&at| columns[at].clone()).collect();
        let pick = |row: &Vec<String>| places.iter().map(|&at| row[at].clone()).collect();
        table_within(&columns, &rows.iter().map(pick).collect::<Vec<_>>(), None)
    };
    chosen.iter().map(panel).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    #[test]
    fn a_table_that_is_too_wide_is_told_in_several() {
        let columns = [
            Column::right("req/s"),
            Column::right("TTFT p50"),
            Column::right("TPOT p50"),
            Column::left("state"),
        ];
        let rows = [
            ["4.00", "28.0 ms", "7.00 ms", "stable"],
            ["▶ 28.0", "–", "–", "UNSTABLE: grows"],
        ];
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect();
        assert_snapshot!(panels(&columns, &rows, 1, 45), @r"
         req/s  TTFT p50  TPOT p50  state
          4.00   28.0 ms   7.00 ms  stable
        ▶ 28.0         –         –  UNSTABLE: grows
        ");
        assert_snapshot!(panels(&columns, &rows, 1, 28), @r"
         req/s  TTFT p50  TPOT p50
          4.00   28.0 ms   7.00 ms
        ▶ 28.0         –         –

         req/s  state
          4.00  stable
        ▶ 28.0  UNSTABLE: grows
        ");
    }

    #[test]
    fn no_cell_is_folded_and_no_line_too_long_where_two_columns_fit() {
        let columns = ["", "mean", "p50", "p99"].map(Column::right);
        let rows = [
            vec!["TTFT", "40.9 ms", "39.3 ms", "58.7 ms"],
            vec!["E2EL", "1.70 s", "1.71 s", "1.91 s"],
        ];
        let rows = rows.map(|row| row.into_iter().map(str::to_owned).collect::<Vec<_>>());
        for width in 15..40 {
            let text = panels(&columns, &rows, 1, width);
            assert!(
                text.lines().all(|line| line.chars().count() <= width),
                "{width}\n{text}"
            );
            for cell in rows.iter().flatten() {
                assert!(text.contains(cell), "{width}: {cell}\n{text}");
            }
        }
    }

    #[test]
    fn what_was_laid_out_before_is_folded_under_its_own_beginning() {
        let text = "short\n  a line that is longer than the screen is wide, by far\n";
        assert_eq!(folded(text, None), text);
        assert_snapshot!(folded(text, Some(40)), @r"
        short
          a line that is longer than the screen
            is wide, by far
        ");
    }

    #[test]
    fn sentences_hang_under_their_beginning() {
        let mut page = Page::new(Style {
            width: Some(40),
            ..Style::default()
        });
        page.answer("24.2 req/s within SLO  (95 % [22.9, 25.3])   saturates at 27.6 req/s");
        page.fact("why", "one two three four five six seven eight");
        assert_snapshot!(page.into_text(), @r"
        24.2 req/s within SLO  (95 % [22.9,
          25.3])   saturates at 27.6 req/s
          why         one two three four five
                      six seven eight
        ");
    }
}
