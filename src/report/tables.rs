//! Plain tables for terminals: a rule under the head, no frames.

use comfy_table::{CellAlignment, ContentArrangement, Table, TableStyle};

/// A column's head and the side its cells lean to.
#[derive(Clone)]
pub(crate) struct Column {
    head: String,
    alignment: CellAlignment,
}

impl Column {
    pub(crate) fn left(head: &str) -> Column {
        Column {
            head: head.into(),
            alignment: CellAlignment::Left,
        }
    }

    pub(crate) fn right(head: &str) -> Column {
        Column {
            head: head.into(),
            alignment: CellAlignment::Right,
        }
    }
}

/// Lays out rows under heads, two spaces from the margin, each line ended by a newline.
pub(crate) fn table(columns: &[Column], rows: &[Vec<String>]) -> String {
    table_within(columns, rows, None)
}

/// A table whose cells take several lines where it would be wider than `width` columns.
pub(super) fn table_within(columns: &[Column], rows: &[Vec<String>], width: Option<usize>) -> String {
    let mut table = Table::new();
    table.load_style(TableStyle::new());
    table.set_header(columns.iter().map(|column| column.head.as_str()));
    table.add_rows(rows);
    for (index, column) in columns.iter().enumerate() {
        if let Some(laid_out) = table.column_mut(index) {
            laid_out.set_cell_alignment(column.alignment);
        }
    }
    let natural = table.lines().map(|line| line.trim_end().chars().count()).max();
    if let Some(width) = width.filter(|width| natural.is_some_and(|natural| natural + 1 > *width)) {
        // One column is the margin's.
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(width.saturating_sub(1)).unwrap_or(u16::MAX));
    }
    table
        .lines()
        .map(|line| format!(" {}\n", line.trim_end()))
        .collect()
}

/// A Markdown table; bars within cells are escaped.
pub(crate) fn markdown(columns: &[Column], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(
        columns
            .iter()
            .map(|column| column.head.replace('|', "\\|"))
            .collect(),
    );
    text += &line(
        columns
            .iter()
            .map(|column| if column.leans_right() { "--:" } else { ":--" }.into())
            .collect(),
    );
    for row in rows {
        text += &line(row.iter().map(|cell| cell.replace('|', "\\|")).collect());
    }
    text
}

impl Column {
    pub(super) fn head(&self) -> &str {
        &self.head
    }

    /// A cell in so many columns, leaning as the others do.
    pub(super) fn padded(&self, cell: &str, width: usize) -> String {
        match self.leans_right() {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        }
    }

    /// Of its longest line.
    pub(super) fn head_width(&self) -> usize {
        self.head
            .lines()
            .map(|line| line.chars().count())
            .max()
            .unwrap_or(0)
    }

    /// The same under a head in other lines.
    pub(super) fn headed(&self, lines: impl FnOnce(&str) -> String) -> Column {
        Column {
            head: lines(&self.head),
            alignment: self.alignment,
        }
    }

    fn leans_right(&self) -> bool {
        self.alignment == CellAlignment::Right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_lean_as_told() {
        let columns = [Column::left("name"), Column::right("value")];
        let rows = [
            vec!["a".to_string(), "1".into()],
            vec!["long|er".into(), "1,000".into()],
        ];
        insta::assert_snapshot!(table(&columns, &rows), @r"
        name     value
        a            1
        long|er  1,000
        ");
        insta::assert_snapshot!(markdown(&columns, &rows), @r"
        | name | value |
        | :-- | --: |
        | a | 1 |
        | long\|er | 1,000 |
        ");
    }
}
