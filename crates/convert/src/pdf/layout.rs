//! A page by the places of its words: lines, columns, tables.

use super::HYPHENS;
use super::words::Word;
use crate::document::escaped;
use crate::table::{Cell, Row, cell_text};

/// Two columns are at least so many times the size of their letters apart.
const GUTTER: f64 = 0.9;
/// A line that is so many times as high as other text is a heading.
const HIGHER: f64 = 1.12;
/// A gap between lines that is so many times the usual one ends a paragraph.
const PARAGRAPH: f64 = 1.3;
/// More dots in a line are no words.
const DOTS: usize = 4;
/// Lines that are so many times their size apart do not stand in the same columns.
const APART: f64 = 3.2;
/// A line that is nearer than so much of the usual gap between rows belongs to the row.
const NEAR: f64 = 0.85;
/// A line that ends so much of the width before others ends its paragraph.
const SHORT: f64 = 0.3;
/// A gap between rows that is so many times the usual one ends a table.
const TABLE: f64 = 2.2;

/// Lines below a line that are tried as the first one of columns.
const LINES: usize = 100;
/// Two rows alone are a table if their columns are so far apart.
const WIDE: f64 = 1.8;

/// A piece of a page.
#[derive(Clone, Debug)]
pub(super) enum Block {
    Text(String),
    Table(Table),
}

/// A table of a page.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
    /// Where each column begins.
    pub(super) lefts: Vec<f64>,
    /// Where its last line stands.
    pub(super) end: f64,
    /// From one row to the next, as most are.
    pub(super) gap: f64,
}

/// Words side by side.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) words: Vec<Word>,
    pub(super) y: f64,
    size: f64,
}

impl Line {
    pub(super) fn text(&self) -> String {
        self.words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
    }

    fn left(&self) -> f64 {
        self.words.first().map_or(0.0, |word| word.left)
    }

    fn right(&self) -> f64 {
        self.words.last().map_or(0.0, |word| word.right)
    }
}

/// The pieces of a page. `size` is that of most letters of the file.
pub(super) fn blocks(words: &[Word], size: f64) -> Vec<Block> {
    let lines = lines(words);
    let mut blocks = Vec::new();
    let mut at = 0;
    let mut text = 0;
    while at < lines.len() {
        let (mut end, mut gutters) = side_by_side(&lines[at..]);
        // A line above, such as a title, may hide gutters of what follows.
        for first in at + 1..(at + end).min(at + LINES) {
            let (further, others) = side_by_side(&lines[first..]);
            if further * others.len() > end * gutters.len() {
                (at, end, gutters) = (first, further, others);
            }
        }
        let beside = &lines[at..at + end];
        let middles: Vec<f64> = gutters.iter().map(|(from, to)| (from + to) / 2.0).collect();
        let parted = part(beside, &middles);
        let is_beside = |row: &&Vec<Line>| row.iter().filter(|cell| !cell.words.is_empty()).count() > 1;
        if gutters.is_empty() || parted.iter().filter(is_beside).count() < 2 {
            at += 1;
            continue;
        }
        let kind = Kind::of(&parted);
        // Lines with words in one column only are no rows at the edges of a table.
        let (from, to) = match kind {
            Kind::Table => (
                parted.iter().position(|row| is_beside(&row)).unwrap_or(0),
                parted.iter().rposition(|row| is_beside(&row)).unwrap_or(0) + 1,
            ),
            Kind::Columns | Kind::Items => (0, parted.len()),
        };
        let is_wide = gutters.iter().all(|(from, to)| to - from > WIDE * size);
        if kind == Kind::Table && to - from < 3 && !is_wide {
            at += 1;
            continue;
        }
        blocks.extend(paragraphs(&lines[text..at + from], size));
        match kind {
            Kind::Columns => {
                for column in 0..=gutters.len() {
                    let column: Vec<Word> = parted.iter().flat_map(|row| row[column].words.clone()).collect();
                    blocks.extend(self::blocks(&column, size));
                }
            }
            Kind::Items => {
                let items = parted.chunk_by(|_, next| next[0].words.is_empty());
                let words = |row: &Vec<Line>| {
                    row.iter().map(Line::text).collect::<Vec<_>>().join(" ").trim().to_owned()
                };
                let item = |rows: &[Vec<Line>]| rows.iter().map(words).collect::<Vec<_>>().join(" ");
                blocks.extend(items.map(|rows| Block::Text(escaped(item(rows).trim()))));
            }
            Kind::Table => blocks.extend(tables(&parted[from..to])),
        }
        at += to;
        text = at;
    }
    blocks.extend(paragraphs(&lines[text..], size));
    blocks
}

/// Whether lines may be rows of a table.
pub(super) fn is_table(lines: &[Line]) -> bool {
    let (end, gutters) = side_by_side(lines);
    end == lines.len() && !gutters.is_empty()
}

/// What stands side by side.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Columns of text, to be read one after the other.
    Columns,
    /// Names with texts beside them.
    Items,
    /// Rows of cells.
    Table,
}

impl Kind {
    fn of(rows: &[Vec<Line>]) -> Self {
        let columns = rows.first().map_or(0, Vec::len);
        let prose = (0..columns).filter(|column| goes_on(rows, *column)).count();
        let count = |is: &dyn Fn(&Vec<Line>) -> bool| rows.iter().filter(|row| is(row)).count();
        let is_filled = |row: &Vec<Line>, column: usize| !row[column].words.is_empty();
        let has_head = || {
            count(&|row| is_filled(row, 0)) > 1
                && rows.iter().take(2).all(|row| is_filled(row, 0) && is_filled(row, 1))
                && rows[0].iter().all(|cell| cell.words.len() <= 3)
        };
        if prose == columns {
            return Self::Columns;
        }
        if columns != 2 {
            return Self::Table;
        }
        let (left, both) =
            (count(&|row| is_filled(row, 0)), count(&|row| is_filled(row, 0) && is_filled(row, 1)));
        let marks = count(&|row| is_filled(row, 0) && is_mark(&row[0].text()));
        // What stands beside text without being level with it is a column of its own.
        let is_beside = prose > 0 && 10 * both < 7 * left;
        if marks == left || !is_beside && goes_on(rows, 1) && is_sparse(rows) && !has_head() {
            return Self::Items;
        }
        if is_beside { Self::Columns } else { Self::Table }
    }
}

/// Whether a text only begins an item of a list.
fn is_mark(text: &str) -> bool {
    let is_number =
        text.strip_suffix(['.', ')']).is_some_and(|number| number.chars().all(|c| c.is_ascii_digit()));
    is_number && text.len() > 1 || text.chars().count() == 1 && !text.contains(char::is_alphanumeric)
}

/// Whether the first column is empty in many rows.
fn is_sparse(rows: &[Vec<Line>]) -> bool {
    10 * rows.iter().filter(|row| row[0].words.is_empty()).count() >= 3 * rows.len()
}

/// The lines, from the top. Words whose feet are nearly as high stand in one line.
pub(super) fn lines(words: &[Word]) -> Vec<Line> {
    let mut sorted: Vec<&Word> = words.iter().collect();
    sorted.sort_by(|a, b| a.y.total_cmp(&b.y));
    let mut lines: Vec<Line> = Vec::new();
    for word in sorted {
        // Small letters may be raised, as those of notes are.
        let is_raised = |line: &Line| (word.size / line.size).max(line.size / word.size) > 1.25;
        let near = |line: &Line| {
            0.45 * if is_raised(line) { word.size.max(line.size) } else { word.size.min(line.size) }
        };
        match lines.last_mut().filter(|line| word.y - line.y < near(line)) {
            Some(line) => {
                if word.size > line.size {
                    (line.size, line.y) = (word.size, word.y);
                }
                line.words.push(word.clone());
            }
            None => lines.push(Line { words: vec![word.clone()], y: word.y, size: word.size }),
        }
    }
    for line in &mut lines {
        line.words.sort_by(|a, b| a.left.total_cmp(&b.left));
        // Dots that lead from a title to its page.
        let is_dots = |word: &Word| word.text.chars().all(|c| c == '.');
        let dots: usize = line.words.iter().filter(|word| is_dots(word)).map(|word| word.text.len()).sum();
        if dots > DOTS {
            line.words.retain(|word| !is_dots(word));
        }
    }
    lines
}

/// How many of the first lines have gutters in common, and where these begin and end. A gutter has words on both sides.
/// Few lines with many gutters count more than many lines with few.
fn side_by_side(lines: &[Line]) -> (usize, Vec<(f64, f64)>) {
    let mut best = (0, Vec::new());
    let mut free: Vec<(f64, f64)> = vec![(f64::MIN, f64::MAX)];
    let (mut left, mut right) = (f64::MAX, f64::MIN);
    for (at, line) in lines.iter().enumerate() {
        if at > 0 && line.y - lines[at - 1].y > APART * line.size {
            break;
        }
        for word in &line.words {
            (left, right) = (left.min(word.left), right.max(word.right));
            let cut = |(from, to): (f64, f64)| [(from, to.min(word.left)), (from.max(word.right), to)];
            free = free.into_iter().flat_map(cut).filter(|(from, to)| to > from).collect();
        }
        let is_gutter =
            |(from, to): &&(f64, f64)| *from >= left && *to <= right && to - from >= GUTTER * line.size;
        let gutters: Vec<(f64, f64)> = free.iter().filter(is_gutter).copied().collect();
        if gutters.is_empty() && at > 0 {
            break;
        }
        if (at + 1) * gutters.len() > best.0 * best.1.len() {
            best = (at + 1, gutters);
        }
    }
    best
}

/// The lines, each in as many pieces as there are columns.
fn part(lines: &[Line], gutters: &[f64]) -> Vec<Vec<Line>> {
    let part = |line: &Line| {
        let mut row = vec![Line { words: Vec::new(), ..line.clone() }; gutters.len() + 1];
        for word in &line.words {
            let column = gutters.iter().filter(|gutter| word.left > **gutter).count();
            row[column].words.push(word.clone());
        }
        row
    };
    lines.iter().map(part).collect()
}

/// Whether the lines of a column are sentences that go on from one to the next.
fn goes_on(rows: &[Vec<Line>], column: usize) -> bool {
    let lines: Vec<String> =
        rows.iter().map(|row| row[column].text()).filter(|text| !text.is_empty()).collect();
    let going = lines.windows(2).filter(|pair| {
        pair[1].starts_with(char::is_lowercase) && !pair[0].ends_with(['.', '!', '?', ':'])
            || pair[0].ends_with(HYPHENS)
    });
    let words: usize = lines.iter().map(|line| line.split(' ').count()).sum();
    lines.len() > 2 && words >= 3 * lines.len() && 5 * going.count() >= 2 * (lines.len() - 1)
}

/// The tables in rows of cells: one for each group of rows that stand together. A line without all cells that is nearer
/// to the row above it than rows are, or to the one below it, belongs to that.
fn tables(lines: &[Vec<Line>]) -> Vec<Block> {
    let gaps: Vec<f64> = lines.windows(2).map(|pair| pair[1][0].y - pair[0][0].y).collect();
    let is_whole = |row: &Vec<Line>| row.iter().all(|cell| !cell.words.is_empty());
    let whole = gaps.iter().zip(&lines[1..]).filter(|(_, row)| is_whole(row));
    let mut sorted: Vec<f64> = whole.map(|(gap, _)| *gap).collect();
    sorted.sort_by(f64::total_cmp);
    let usual = sorted.get(sorted.len() / 2).copied().unwrap_or(f64::MAX);
    let columns = lines.first().map_or(0, Vec::len);
    let is_wrapped = is_sparse(lines) && (1..columns).any(|column| goes_on(lines, column));
    let mut tables: Vec<Vec<Row>> = Vec::new();
    let mut is_begun = false;
    for (at, line) in lines.iter().enumerate() {
        let gap = if at == 0 { f64::MAX } else { gaps[at - 1] };
        let is_part = !is_whole(line) && usual < f64::MAX;
        let is_above = is_part && gap < NEAR * usual || is_wrapped && line[0].words.is_empty();
        let row = || line.iter().map(|cell| Cell::new(cell_text(&cell.text()))).collect::<Row>();
        match tables.last_mut().and_then(|rows| rows.last_mut()) {
            Some(row) if is_above || is_begun => {
                for (cell, more) in row.iter_mut().zip(line).filter(|(_, more)| !more.words.is_empty()) {
                    cell.text = format!("{} {}", cell.text, cell_text(&more.text())).trim().to_owned();
                }
                is_begun = false;
                continue;
            }
            Some(_) if gap <= TABLE * usual => {}
            _ => tables.push(Vec::new()),
        }
        is_begun = is_part
            && line[0].words.is_empty()
            && gaps.get(at).is_some_and(|below| *below < NEAR * usual.min(gap));
        if let Some(rows) = tables.last_mut() {
            rows.push(row());
        }
    }
    let lefts = (0..columns).map(|column| {
        lines.iter().map(|row| row[column].left()).filter(|left| *left > 0.0).fold(f64::MAX, f64::min)
    });
    let (lefts, end) = (lefts.collect::<Vec<_>>(), lines.last().map_or(0.0, |row| row[0].y));
    let gap = if usual < f64::MAX { usual } else { 0.0 };
    tables.into_iter().map(|rows| Block::Table(Table { rows, lefts: lefts.clone(), end, gap })).collect()
}

/// The paragraphs and headings of lines.
fn paragraphs(lines: &[Line], size: f64) -> Vec<Block> {
    let mut gaps: Vec<f64> = lines.windows(2).map(|pair| pair[1].y - pair[0].y).collect();
    gaps.sort_by(f64::total_cmp);
    let usual = gaps.get(gaps.len() / 3).copied().unwrap_or(f64::MAX);
    let left = lines.iter().map(Line::left).fold(f64::MAX, f64::min);
    let right = lines.iter().map(Line::right).fold(f64::MIN, f64::max);
    // A line that ends early ends its paragraph, unless the sentence goes on.
    let is_short = |line: &Line| right - line.right() > SHORT * (right - left);
    let goes_on =
        |line: &Line| line.words.first().is_some_and(|word| word.text.starts_with(char::is_lowercase));
    let indent = |line: &Line| line.left() - left > 0.8 * line.size;
    let is_heading = |line: &Line| {
        let letters = |least: f64| -> usize {
            line.words.iter().filter(|word| word.size > least).map(|word| word.text.len()).sum()
        };
        2 * letters(HIGHER * size) > letters(0.0)
    };
    let is_item = |line: &Line| line.words.len() > 1 && is_mark(&line.words[0].text);
    let groups = lines.chunk_by(|line, next| {
        let is_end = next.y - line.y > PARAGRAPH * usual.max(next.size)
            || indent(next) && !indent(line)
            || is_heading(line) != is_heading(next)
            || is_short(line) && !goes_on(next)
            || is_item(next);
        !is_end
    });
    let text = |group: &[Line]| {
        let text = group.iter().map(Line::text).collect::<Vec<_>>().join(" ");
        Block::Text(if is_heading(&group[0]) { format!("## {text}") } else { escaped(&text) })
    };
    groups.map(text).collect()
}
