//! Tables: columns as wide as what is in them, a header, and a last column that takes the room that is left.
//!
//! A listing may be wider than the window: nothing in it is cut but the last column. A table that is drawn again and
//! again is cut to the window, because a line that wraps would be drawn over.

use super::paint::{Paint, Palette, fit, width};
use super::printable::one_line;

/// Columns between two columns.
const GAP: usize = 2;
/// The least room of the last column, however narrow the window.
const LAST_MIN: usize = 20;
/// The same, where a line may not wrap.
const LAST_MIN_DRAWN: usize = 10;
/// The least room of other columns there.
const OTHER_MIN: usize = 12;

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
        let widths = self.widths();
        let used: usize = widths.iter().flatten().map(|width| width + GAP).sum();
        self.lines(palette, &widths, columns.saturating_sub(used).max(LAST_MIN))
    }

    /// The same in at most `columns`, whatever has to give way: first the widest columns, then those of the
    /// `expendable` headers, one after the other, then what stands at the end of a line.
    pub(crate) fn render_within(&self, palette: Palette, columns: usize, expendable: &[&str]) -> Vec<String> {
        let mut widths = self.widths();
        let is_too_wide = |widths: &[Option<usize>]| {
            widths.iter().flatten().map(|width| width + GAP).sum::<usize>() + LAST_MIN_DRAWN > columns
        };
        while is_too_wide(&widths)
            && let Some(widest) = widths.iter_mut().flatten().max().filter(|width| **width > OTHER_MIN)
        {
            *widest -= 1;
        }
        for header in expendable {
            if is_too_wide(&widths)
                && let Some(at) = self.headers.iter().position(|known| known == header)
            {
                widths[at] = None;
            }
        }
        let mut left = columns;
        for width in widths.iter_mut().flatten() {
            *width = (*width).min(left);
            left = left.saturating_sub(*width + GAP);
        }
        self.lines(palette, &widths, left)
    }

    /// How wide the columns are without the last.
    fn widths(&self) -> Vec<Option<usize>> {
        let of = |i: usize| {
            let cells = self.rows.iter().map(move |row| width(&row[i].text));
            cells.chain([width(self.headers[i])]).max().unwrap_or_default()
        };
        (0..self.headers.len() - 1).map(of).map(Some).collect()
    }

    /// The lines with columns of these `widths`, without those that have none, and `last` columns for the last.
    fn lines(&self, palette: Palette, widths: &[Option<usize>], last: usize) -> Vec<String> {
        let Some((_, others)) = self.headers.split_last().filter(|_| !self.rows.is_empty()) else {
            return Vec::new();
        };
        let headers: Vec<Cell> = self.headers.iter().map(|header| Cell::new(header, Paint::Dim)).collect();
        let line = |row: &Vec<Cell>| {
            let mut line = String::new();
            for (cell, of_column) in
                row.iter().zip(widths).filter_map(|(cell, width)| Some((cell, (*width)?)))
            {
                let text = fit(&cell.text, of_column);
                line.push_str(&palette.paint(cell.paint, &text));
                line.push_str(&" ".repeat(of_column - width(&text) + GAP));
            }
            let cell = &row[others.len()];
            line.push_str(&palette.paint(cell.paint, &fit(&cell.text, last)));
            line.truncate(line.trim_end().len());
            line
        };
        std::iter::once(&headers).chain(&self.rows).map(line).collect()
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

    #[test]
    fn a_table_that_is_drawn_is_never_wider_than_the_window() {
        let mut table = Table::new(&["ID", "STATUS", "MODEL", "OBJECTIVE"]);
        let row = |id, model, objective| [id, "✓ completed", model, objective].map(Cell::plain).to_vec();
        table.push(row("36db7087", "scripted:latency_ms=300,fanout=3", "What is a lease?"));
        table.push(row("7a7f0686", "offline", "木木木木木木木木木木木木木木木木"));
        let drawn = |columns| table.render_within(Palette { colour: false }, columns, &["MODEL"]);
        for columns in 0..120 {
            for line in drawn(columns) {
                assert!(width(&line) <= columns, "{columns}: {line}");
            }
        }
        assert_eq!(drawn(200), table.render(Palette { colour: false }, 200));
        assert_eq!(drawn(51)[1], "36db7087  ✓ completed  scripted:latenc…  What is a…");
        assert_eq!(drawn(41)[1], "36db7087  ✓ completed  What is a lease?");
        assert_eq!(drawn(12)[1], "36db7087  ✓…");
        // A listing is read by eye and by programs: it is not cut.
        let whole = "36db7087  ✓ completed  scripted:latency_ms=300,fanout=3  What is a lease?";
        assert_eq!(table.render(Palette { colour: false }, 60)[1], whole);
    }
}
