//! Tables as people draw them: with titles above the head, heads of several rows, notes beside them, cells that span
//! others.

use std::collections::BTreeMap;

/// Rows before the head of a table that are looked at.
const LEADING: usize = 12;
/// A longer text of a cell that spans others is not repeated in them.
const REPEATED_BYTES: usize = 200;

/// One cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    /// Its text, on one line.
    pub(crate) text: String,
    /// It belongs to the cell on its left.
    pub(crate) is_across: bool,
    /// It belongs to the cell above it.
    pub(crate) is_down: bool,
}

impl Cell {
    /// A cell that spans no other.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// The cell in another place that it spans: `columns` to its right, `rows` below it.
    pub(crate) fn again(&self, columns: usize, rows: usize) -> Self {
        let text = if self.text.len() <= REPEATED_BYTES { self.text.clone() } else { String::new() };
        Self { text, is_across: columns > 0, is_down: rows > 0 }
    }

    fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// It has a text of its own.
    fn is_own(&self) -> bool {
        !self.is_empty() && !self.is_across && !self.is_down
    }

    /// A number, with or without a unit, or a date or a truth. A year may be the name of a column.
    fn is_value(&self) -> bool {
        let text = self.text.as_str();
        let letters = text.chars().filter(|c| c.is_alphabetic()).count();
        let is_year = text.len() == 4 && text.parse::<u32>().is_ok_and(|year| (1900..2100).contains(&year));
        matches!(text, "TRUE" | "FALSE" | "true" | "false")
            || text.contains(|c: char| c.is_ascii_digit()) && letters <= 3 && !is_year
    }

    /// How it looks: `9.9` for a number with a point, `a9 9` for Q1 2026.
    fn shape(&self) -> String {
        let sign = |c: char| match c {
            c if c.is_ascii_digit() => '9',
            c if c.is_alphabetic() => 'a',
            c => c,
        };
        let mut signs: Vec<char> = self.text.chars().map(sign).collect();
        signs.dedup();
        signs.into_iter().collect()
    }
}

/// The cells of one row.
pub(crate) type Row = Vec<Cell>;

/// Markdown for the rows of a sheet: a table for each group of rows between empty ones, below the lines above its head.
/// A group without a head of its own goes on with the columns of the one before.
pub(crate) fn sheet(rows: &[Row]) -> String {
    let groups = rows.split(|row| row.iter().all(Cell::is_empty)).filter(|group| !group.is_empty());
    let mut parts = Vec::new();
    let mut before: Option<Group<'_>> = None;
    for rows in groups {
        let group = Group::of(rows);
        parts.extend(group.above.iter().map(line));
        let head = before
            .as_ref()
            .filter(|before| group.goes_on(before))
            .map(|before| &before.table[..before.heads]);
        parts.push(match head {
            Some(head) => markdown(&[head, group.table].concat(), head.len()),
            None => markdown(group.table, group.heads),
        });
        if head.is_none() {
            before = Some(group);
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

/// Rows of a sheet that stand together.
struct Group<'a> {
    /// Titles and the like.
    above: &'a [Row],
    table: &'a [Row],
    /// Rows of its head.
    heads: usize,
}

impl<'a> Group<'a> {
    fn of(rows: &'a [Row]) -> Self {
        let extents: Vec<usize> = rows.iter().map(extent).collect();
        let mut times: BTreeMap<usize, usize> = BTreeMap::new();
        extents.iter().for_each(|extent| *times.entry(*extent).or_default() += 1);
        let usual =
            times.into_iter().max_by_key(|(extent, times)| (*times, *extent)).map_or(0, |(extent, _)| extent);
        let own = |row: &Row| row.iter().filter(|cell| cell.is_own()).count();
        let is_head = |at: usize| {
            let row = &rows[at];
            extents[at] >= usual.min(2) && own(row) + 1 >= usual.min(3) && is_named(row, rows.get(at + 1))
        };
        // A title is alone in its row; what stands above a wider head may have more cells.
        let titles = rows.iter().take_while(|row| own(row) == 1 && (usual > 1 || rows.len() == 1)).count();
        let wider = (titles..rows.len().min(LEADING)).find(|at| extents[*at] >= usual && is_head(*at));
        let is_narrow = |at: usize| extents[titles..at].iter().all(|extent| *extent < usual);
        let first = wider.filter(|at| is_narrow(*at)).unwrap_or(titles);
        let (above, table) = rows.split_at(first);
        let heads = if !table.is_empty() && is_head(first) { 1 + further_heads(table) } else { 0 };
        Self { above, table, heads }
    }

    /// Whether it has the columns of the group before, and no head that is surely one.
    fn goes_on(&self, before: &Group<'_>) -> bool {
        let widest = |rows: &[Row]| rows.iter().map(extent).max().unwrap_or(0);
        let (head, body) = self.table.split_at(self.heads);
        let is_sure = head.last().is_some_and(|head| {
            let has_values = |(column, cell): (usize, &Cell)| {
                !cell.is_value() && body.iter().any(|row| row.get(column).is_some_and(Cell::is_value))
            };
            head.iter().enumerate().any(has_values)
        });
        before.heads > 0 && self.above.is_empty() && !is_sure && widest(self.table) == widest(before.table)
    }
}

/// Columns up to the last one that is filled.
fn extent(row: &Row) -> usize {
    row.iter().rposition(|cell| !cell.is_empty()).map_or(0, |at| at + 1)
}

/// Whether a row may be the names of columns: no values, or such that look unlike those below, after a name.
fn is_named(row: &Row, next: Option<&Row>) -> bool {
    let first = row.iter().find(|cell| !cell.is_empty());
    let differs = |(column, cell): (usize, &Cell)| {
        let below = next.and_then(|next| next.get(column)).filter(|below| !below.is_empty());
        !cell.is_value() || below.is_none_or(|below| below.shape() != cell.shape())
    };
    let is_free = !row.iter().any(Cell::is_value);
    is_free
        || next.is_some() && first.is_some_and(|cell| !cell.is_value()) && row.iter().enumerate().all(differs)
}

/// A row that is no row of a table.
fn line(row: &Row) -> String {
    let cells: Vec<&str> = row.iter().filter(|cell| cell.is_own()).map(|cell| cell.text.as_str()).collect();
    let join = if cells.len() == 2 && !cells[0].ends_with(':') { ": " } else { " " };
    cells.join(join)
}

/// How many rows below the first one belong to the head: those that name only what names of several columns span.
pub(crate) fn further_heads(rows: &[Row]) -> usize {
    let below = rows.windows(2).take(2).take_while(|pair| {
        let is_spanned = |column: usize| {
            let is_across = |at: usize| pair[0].get(at).is_some_and(|cell| cell.is_across);
            pair[0].get(column).is_none_or(Cell::is_empty) || is_across(column) || is_across(column + 1)
        };
        let mut named = pair[1].iter().enumerate().filter(|(_, cell)| cell.is_own());
        pair[0].iter().any(|cell| cell.is_across && !cell.is_empty())
            && !pair[1].iter().any(|cell| !cell.is_down && cell.is_value())
            && pair[1].iter().any(Cell::is_own)
            && named.all(|(column, _)| is_spanned(column))
    });
    below.count()
}

/// A Markdown table whose first `heads` rows are its head. Empty columns are left out.
pub(crate) fn markdown(rows: &[Row], heads: usize) -> String {
    let width = rows.iter().map(Vec::len).max().unwrap_or(0);
    let text = |row: &Row, column: usize| {
        let is_alone = row.iter().filter(|cell| cell.is_own()).count() == 1 && row.len() > 2;
        let cell = row.get(column).filter(|cell| !(is_alone && cell.is_across && !cell.is_down));
        cell.map(|cell| cell.text.clone()).unwrap_or_default()
    };
    let mut columns = vec![String::new(); width];
    for row in &rows[..heads] {
        for (column, head) in columns.iter_mut().enumerate() {
            let name = row.get(column).map(|cell| cell.text.as_str()).unwrap_or_default();
            if head.is_empty() {
                name.clone_into(head);
            } else if !name.is_empty() && !head.ends_with(name) {
                head.push_str(&format!(" / {name}"));
            }
        }
    }
    let mut written = vec![columns];
    written.extend(rows[heads..].iter().map(|row| (0..width).map(|column| text(row, column)).collect()));
    let is_filled = |column: &usize| written.iter().any(|row: &Vec<String>| !row[*column].is_empty());
    let kept: Vec<usize> = (0..width).filter(is_filled).collect();
    if kept.is_empty() {
        return String::new();
    }
    let write = |row: &Vec<String>| {
        let cells: Vec<&str> = kept.iter().map(|column| row[*column].as_str()).collect();
        format!("| {} |", cells.join(" | "))
    };
    let mut lines: Vec<String> = written.iter().map(write).collect();
    lines.insert(1, format!("| {} |", vec!["---"; kept.len()].join(" | ")));
    lines.join("\n")
}

/// A text on one line, with what would end its cell escaped.
pub(crate) fn cell_text(text: &str) -> String {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("<br>").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<Row> {
        let cell = |text: &str| match text {
            "<" => Cell { is_across: true, ..Cell::default() },
            "^" => Cell { is_down: true, ..Cell::default() },
            text => Cell::new(text),
        };
        let mut rows: Vec<Row> = text.lines().map(|line| line.split(',').map(cell).collect()).collect();
        for row in 0..rows.len() {
            for column in 0..rows[row].len() {
                let cell = &rows[row][column];
                let of = match (cell.is_across, cell.is_down) {
                    (true, _) => &rows[row][column - 1],
                    (_, true) => &rows[row - 1][column],
                    _ => continue,
                };
                rows[row][column].text = of.text.clone();
            }
        }
        rows
    }

    #[test]
    fn the_head_is_below_what_stands_above_the_table() {
        for (text, written) in [
            (
                "Name,Town\nAda,Oslo\n,\nBo,Rome",
                "| Name | Town |\n| --- | --- |\n| Ada | Oslo |\n\n| Name | Town |\n| --- | --- |\n| Bo | Rome |",
            ),
            (
                "Item,Q1 2026,Jan 26\nPump,4,5",
                "| Item | Q1 2026 | Jan 26 |\n| --- | --- | --- |\n| Pump | 4 | 5 |",
            ),
            ("Name,Qty\nPump,4", "| Name | Qty |\n| --- | --- |\n| Pump | 4 |"),
            (
                "Sales 2026\nRegion,Q1,Q2\nNorth,410,455",
                "Sales 2026\n\n| Region | Q1 | Q2 |\n| --- | --- | --- |\n| North | 410 | 455 |",
            ),
            (
                "Sales,<,<\n,,\nRegion,Q1,Q2\nNorth,1,2",
                "Sales\n\n| Region | Q1 | Q2 |\n| --- | --- | --- |\n| North | 1 | 2 |",
            ),
            (
                "Readings\nCreated,2026-03-09\nMeter,Place,kWh\nM-17,House,4310",
                "Readings\n\nCreated: 2026-03-09\n\n| Meter | Place | kWh |\n| --- | --- | --- |\n| M-17 | House | 4310 |",
            ),
            (
                ",Grain,Ore\n2023,310,88\n2024,355,71",
                "|  | Grain | Ore |\n| --- | --- | --- |\n| 2023 | 310 | 88 |\n| 2024 | 355 | 71 |",
            ),
            ("1,2\n3,4", "|  |  |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |"),
            ("A,B,,see\n1,2,,\n3,4,,", "| A | B | see |\n| --- | --- | --- |\n| 1 | 2 |  |\n| 3 | 4 |  |"),
            (
                "Region,2023,2024\nNorth,1,2",
                "| Region | 2023 | 2024 |\n| --- | --- | --- |\n| North | 1 | 2 |",
            ),
            (
                "A,B\n1,2\n,\nC,D\n3,4",
                "| A | B |\n| --- | --- |\n| 1 | 2 |\n\n| C | D |\n| --- | --- |\n| 3 | 4 |",
            ),
        ] {
            assert_eq!(sheet(&rows(text)), written, "{text}");
        }
    }

    #[test]
    fn cells_that_span_others_keep_their_columns() {
        for (text, written) in [
            (
                "Name,Address,<\nAda,Main St,London",
                "| Name | Address | Address |\n| --- | --- | --- |\n| Ada | Main St | London |",
            ),
            (
                "Team,Name\nRail,Cem\n^,Dana",
                "| Team | Name |\n| --- | --- |\n| Rail | Cem |\n| Rail | Dana |",
            ),
            (
                "Ferry,Leaves,<\n^,first,last\nNorth,06:20,19:00",
                "| Ferry | Leaves / first | Leaves / last |\n| --- | --- | --- |\n| North | 06:20 | 19:00 |",
            ),
            ("A,B,C\nGroup,<,<\n1,2,3", "| A | B | C |\n| --- | --- | --- |\n| Group |  |  |\n| 1 | 2 | 3 |"),
            ("A,B,C\n1,never,<", "| A | B | C |\n| --- | --- | --- |\n| 1 | never | never |"),
        ] {
            assert_eq!(sheet(&rows(text)), written, "{text}");
        }
    }
}
