//! Text as wide as the screen it goes to: sentences are wrapped, and what is too wide for a table is told in several.

use super::style::Style;
use super::tables::{Column, table, table_within};

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

/// Names of at most `widest` columns and what each is, beside each other; a text that is too long goes on under its beginning,
/// or a little right of the names' where that leaves too little room.
pub(crate) fn glossary<'a>(
    entries: impl Iterator<Item = (&'a str, &'a str)>,
    widest: usize,
    width: Option<usize>,
) -> String {
    let width = width.map_or(usize::MAX, |width| width.max(NARROWEST));
    let indent = " ".repeat(match widest + GAP <= width / 2 {
        true => widest + GAP,
        false => 2 * GAP,
    });
    let line = |(name, said)| wrapped(&format!("{name:<widest$}  "), &indent, said, width);
    entries.map(line).collect()
}

/// A list whose columns are as wide as what stands in them, each row a line; a table in several where the screen is narrower than that.
pub(crate) fn list_on(columns: &[Column], rows: &[Vec<String>], width: Option<usize>) -> String {
    let widest = |at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        cells.fold(columns[at].head().chars().count(), usize::max)
    };
    let widths: Vec<usize> = (0..columns.len()).map(widest).collect();
    let line = |cells: Vec<&str>| -> String {
        let cells = cells.into_iter().enumerate();
        let cells: Vec<String> = cells
            .map(|(at, cell)| columns[at].padded(cell, widths[at]))
            .collect();
        cells.join("  ").trim_end().to_owned() + "\n"
    };
    let head = line(columns.iter().map(Column::head).collect());
    let rest = rows
        .iter()
        .map(|row| line(row.iter().map(String::as_str).collect()));
    let list = head + &rest.collect::<String>();
    match width.map(|width| width.max(NARROWEST)) {
        Some(width) if list.lines().any(|line| line.chars().count() > width) => {
            panels(columns, rows, 1, width)
        }
        _ => list,
    }
}

/// A table, told in several where it is wider than the screen.
pub(crate) fn table_on(
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

/// Cells have a blank on either side; the margin's stands for the last one's, which is trimmed.
const GAP: usize = 2;
/// Columns that a text gets at least where it is folded to stand in one table with all others.
const READABLE: usize = 20;
/// Heads are folded to no fewer columns.
const HEAD_MIN: usize = 6;

/// Columns that each column of a table takes.
fn widths(columns: &[Column], rows: &[Vec<String>]) -> Vec<usize> {
    let longest = |cell: &String| cell.lines().map(|line| line.chars().count()).max();
    let of = |at: usize| {
        let cells = rows.iter().filter_map(|row| longest(&row[at]));
        cells.chain([columns[at].head_width()]).max().unwrap_or(0) + GAP
    };
    (0..columns.len()).map(of).collect()
}

/// Whether the widest column has room beside the first `keys`.
fn has_room(widths: &[usize], keys: usize, width: usize) -> bool {
    let widest = widths[keys..].iter().max().copied().unwrap_or(0);
    widths[..keys].iter().sum::<usize>() + widest <= width
}

/// A table within `width` columns. One that is wider is told in several below each other, as many columns in each as fit
/// beside the first `keys`; where not even two fit, long heads of keys and long texts take several lines, and at last all cells.
pub(super) fn panels(columns: &[Column], rows: &[Vec<String>], keys: usize, width: usize) -> String {
    let as_they_are = widths(columns, rows);
    if !has_room(&as_they_are, keys, width) {
        let (columns, rows) = narrowed(columns, rows, keys, width);
        return match has_room(&widths(&columns, &rows), keys, width) {
            true => panels(&columns, &rows, keys, width),
            false => table_within(&columns, &rows, Some(width)),
        };
    }
    let widths = as_they_are;
    let of_keys: usize = widths[..keys].iter().sum();
    if widths.iter().sum::<usize>() <= width {
        return table_within(columns, rows, None);
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

/// The same table with heads of keys folded within their words until keys take half of the width, and texts too wide for what
/// is left folded between theirs.
fn narrowed(
    columns: &[Column],
    rows: &[Vec<String>],
    keys: usize,
    width: usize,
) -> (Vec<Column>, Vec<Vec<String>>) {
    let folded_to = |limit: usize| -> Vec<Column> {
        let key = |column: &Column| column.headed(|head| in_lines(head, &[' ', '_', '-', '.'], limit));
        let (of_keys, others) = columns.split_at(keys);
        of_keys.iter().map(key).chain(others.iter().cloned()).collect()
    };
    let longest = columns[..keys].iter().map(Column::head_width).max().unwrap_or(0);
    let takes = |columns: &[Column]| widths(columns, rows)[..keys].iter().sum::<usize>();
    let mut tried = (HEAD_MIN..=longest).rev().map(folded_to);
    let columns = tried
        .find(|columns| takes(columns) <= width / 2)
        .unwrap_or_else(|| folded_to(HEAD_MIN));
    let widths = widths(&columns, rows);
    let (of_keys, total) = (widths[..keys].iter().sum::<usize>(), widths.iter().sum::<usize>());
    let cell = |(at, cell): (usize, &String)| {
        if at < keys || of_keys + widths[at] <= width {
            return cell.clone();
        }
        let others = total - widths[at];
        let beside = if others + READABLE <= width {
            others
        } else {
            of_keys
        };
        in_lines(cell, &[' '], width.saturating_sub(beside + GAP))
    };
    let rows = rows.iter().map(|row| row.iter().enumerate().map(cell).collect());
    let rows = rows.collect();
    (columns, rows)
}

/// A text in lines of at most `limit` columns, each ending after one of these letters; a piece without them is never broken.
fn in_lines(text: &str, after: &[char], limit: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for piece in text.split_inclusive(after) {
        match lines.last_mut() {
            Some(line) if columns(line) + columns(piece.trim_end()) <= limit => line.push_str(piece),
            _ => lines.push(piece.to_owned()),
        }
    }
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join("\n")
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

    /// Two long keys and a long text leave no room for one another.
    #[test]
    fn heads_are_folded_within_their_words_and_texts_between_theirs() {
        let columns = [
            Column::left("enable_prefix_caching"),
            Column::left("workload.prefix_groups.prefix_len"),
            Column::right("req/s"),
            Column::left("state"),
        ];
        let rows = [["true", "256", "15.0", "stable, too short for the SLO"]];
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect();
        assert_snapshot!(panels(&columns, &rows, 2, 80), @r"
        enable_prefix_  workload.prefix_   req/s  state
        caching         groups.prefix_len
        true            256                 15.0  stable, too short for the SLO
        ");
        for width in 50..120 {
            let text = panels(&columns, &rows, 2, width);
            assert!(
                text.lines().all(|line| line.chars().count() <= width),
                "{width}\n{text}"
            );
            for whole in ["caching", "stable,", "SLO"] {
                assert!(text.contains(whole), "{width}: {whole}\n{text}");
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
    fn a_long_entry_goes_on_beside_its_name() {
        let entries = [
            ("chat", "what people say"),
            ("code-completion", "what they leave unsaid and undone"),
        ];
        let told = |width| glossary(entries.into_iter(), 15, width);
        assert_eq!(
            told(None),
            "chat             what people say\ncode-completion  what they leave unsaid and undone\n"
        );
        assert_snapshot!(told(Some(40)), @r"
        chat             what people say
        code-completion  what they leave unsaid
                         and undone
        ");
    }

    #[test]
    fn a_list_becomes_a_table_where_the_screen_is_too_narrow() {
        let columns = [
            Column::left("GPU"),
            Column::right("GiB"),
            Column::right("bandwidth"),
        ];
        let name = "B300-SXM-288GB-OF-A-CLUSTER-OF-ONE";
        let row = [name, "267.7", "8 TB/s"].map(str::to_owned).to_vec();
        let told = |width| list_on(&columns, std::slice::from_ref(&row), width);
        let whole = told(None);
        assert_eq!(whole.lines().last().unwrap(), format!("{name}  267.7     8 TB/s"));
        assert_eq!(told(Some(52)), whole);
        assert!(told(Some(51)).lines().all(|line| line.chars().count() <= 51));
        assert!(told(Some(51)) != whole && told(Some(51)).contains(name));
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
