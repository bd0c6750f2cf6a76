//! Tables: columns as wide as what is in them, a header, and a last column that takes the room that is left.

use super::paint::{Paint, Palette, fit, width};
use super::printable::one_line;

/// Columns between two columns.
const GAP: usize = 2;
/// The least room of the last column, however narrow the window.
const LAST_MIN: usize = 20;

/// A cell; its text is made safe to print.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    paint: Paint,
}

impl Cell {
    /// `text` in a colour.
    pub(crate) fn new(text: impl AsRef<str>, paint: Paint) -> Self {
        Self { text: one_line(text.as_ref()), paint }
    }

    /// `text` without a colour.
    pub(crate) fn plain(text: impl AsRef<str>) -> Self {
        Self::new(text, Paint::Plain)
    }
}

/// A table with its rows.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    headers: &'static [&'static str],
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    pub(crate) fn new(headers: &'static [&'static str]) -> Self {
        Self { headers, rows: Vec::new() }
    }

    /// Adds a row with a cell for each header.
    pub(crate) fn push(&mut self, row: Vec<Cell>) {
        debug_assert_eq!(row.len(), self.headers.len());
        self.rows.push(row);
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The lines, the header first, in at most `columns` if the window is not too narrow; none without rows.
    pub(crate) fn render(&self, palette: Palette, columns: usize) -> Vec<String> {
        if self.rows.is_empty() {
            return Vec::new();
        }
        let headers = self.headers.iter().map(|header| Cell::new(header, Paint::Dim)).collect();
        let rows: Vec<&Vec<Cell>> = std::iter::once(&headers).chain(&self.rows).collect();
        let last = self.headers.len() - 1;
        let widths: Vec<usize> =
            (0..last).map(|i| rows.iter().map(|row| width(&row[i].text)).max().unwrap_or(0)).collect();
        let used: usize = widths.iter().map(|width| width + GAP).sum();
        let room = columns.saturating_sub(used).max(LAST_MIN);
        let line = |row: &Vec<Cell>| {
            let mut line = String::new();
            for (cell, &width_of_column) in row.iter().zip(&widths) {
                line.push_str(&palette.paint(cell.paint, &cell.text));
                line.push_str(&" ".repeat(width_of_column - width(&cell.text) + GAP));
            }
            line.push_str(&palette.paint(row[last].paint, &fit(&row[last].text, room)));
            line.truncate(line.trim_end().len());
            line
        };
        rows.into_iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_the_last_gives_way() {
        let mut table = Table::new(&["ID", "NAME", "OBJECTIVE"]);
        assert_eq!(table.render(Palette { colour: false }, 80), Vec::<String>::new());
        table.push(vec![
            Cell::plain("1"),
            Cell::plain("木"),
            Cell::plain("What is a\nlease, and \x1b[2Jwhy?"),
        ]);
        table.push(vec![Cell::plain("22"), Cell::plain(""), Cell::plain("x")]);
        let lines = table.render(Palette { colour: false }, 32);
        assert_eq!(lines, ["ID  NAME  OBJECTIVE", "1   木    What is a lease, and…", "22        x"]);
    }
}
