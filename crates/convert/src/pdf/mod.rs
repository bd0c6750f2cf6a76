//! PDF as Markdown, page by page.
//!
//! A library gives the letters and their places, also those of the invisible text that scanners put behind pictures.
//! Words, lines, columns and tables are found from the places alone: what is drawn is known for sure, what a program
//! meant by it is not. A page that the library cannot read falls to another one.

mod layout;
mod words;

use std::collections::{BTreeMap, HashMap, HashSet};

use pdf_inspector::extract_pages_markdown_mem;
use tree_agent_contract::text::{FOOT, HEAD};

use self::layout::{Block, Line, Table};
use self::words::{Word, words};
use crate::table::{Cell, Row, sheet};
use crate::text::tidy;
use crate::{Converted, Fault, Reason};

/// Pages, and a fifth of all, on which the first or the last line must be the same to be no text of each of them.
const REPEATED: usize = 3;
/// Points above the foot of a page where a table ends that goes on: a wide margin, and some rows.
const FOOT_HEIGHT: f64 = 130.0;
/// Lines at the head and at the foot of a page that are looked at.
const NEAR: usize = 3;
/// Signs that cut a word at the end of a line.
const HYPHENS: [char; 3] = ['-', '\u{2010}', '\u{ad}'];
/// Words before which a hyphen stays.
const AFTER_HYPHEN: &[&str] =
    &["and", "or", "to", "und", "oder", "bis", "et", "ou", "og", "eller", "en", "of", "y", "o", "e"];

/// A PDF as Markdown, with a mark before each page that has text.
pub(crate) fn pdf(bytes: &[u8]) -> Result<Converted, Fault> {
    let (mut pages, others) = match words(bytes) {
        // What is damaged may be read nevertheless.
        Err(Fault { reason: Reason::Broken, why }) => {
            let others = otherwise(bytes, None);
            if others.is_empty() {
                return Err(Fault::new(Reason::Broken, why));
            }
            (others.keys().map(|page| (*page, None)).collect(), others)
        }
        read => {
            let pages: Pages = read?;
            let failed: Vec<u32> =
                pages.iter().filter(|(_, words)| words.is_none()).map(|(page, _)| *page - 1).collect();
            let others = if failed.is_empty() { BTreeMap::new() } else { otherwise(bytes, Some(&failed)) };
            (pages, others)
        }
    };
    let heads = repeated(&mut pages, true);
    let feet = repeated(&mut pages, false);
    let size = usual_size(&pages);
    let mut text = String::new();
    let (mut empty, mut last) = (Vec::new(), None);
    for (page, words) in &pages {
        let mut blocks = match (words, others.get(page)) {
            (Some(words), _) => layout::blocks(words, size),
            (None, Some(other)) if !other.trim().is_empty() => vec![Block::Text(other.clone())],
            (None, _) => Vec::new(),
        };
        if blocks.is_empty() {
            empty.push(*page);
            continue;
        }
        if let (Some(Block::Table(before)), Some(Block::Table(table))) = (&last, blocks.first_mut()) {
            go_on(table, before);
        }
        text.push_str(&format!("<!-- Page {page} -->\n\n"));
        for block in &blocks {
            text.push_str(&match block {
                Block::Table(table) => sheet(&table.rows),
                Block::Text(text) => text.clone(),
            });
            text.push_str("\n\n");
        }
        last = blocks.pop();
    }
    let mut left_out = Vec::new();
    let failed = pages.iter().filter(|(page, words)| words.is_none() && !empty.contains(page));
    let failed: Vec<u32> = failed.map(|(page, _)| *page).collect();
    for (pages, what) in [
        (&empty, "without text, which may be scans or pictures"),
        (&failed, "with letters that could not be placed, so columns and tables may be mixed up"),
    ] {
        if !pages.is_empty() && !text.is_empty() {
            let numbers = pages.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            left_out.push(format!("{} {numbers} {what}", if pages.len() == 1 { "page" } else { "pages" }));
        }
    }
    for (name, lines) in [(HEAD, heads), (FOOT, feet)] {
        if !lines.is_empty() && !text.is_empty() {
            text.push_str(&format!("<!-- {name} -->\n\n{}\n\n", lines.join("\n\n")));
        }
    }
    Ok(Converted { title: String::new(), text: tidy(&joined(&text, &pages)), left_out })
}

/// The Markdown that another library makes of these pages, counted from zero; of all without any.
fn otherwise(bytes: &[u8], pages: Option<&[u32]>) -> BTreeMap<u32, String> {
    let read = extract_pages_markdown_mem(bytes, pages).map(|read| read.pages).unwrap_or_default();
    read.into_iter().map(|page| (page.page + 1, page.markdown)).collect()
}

type Pages = BTreeMap<u32, Option<Vec<Word>>>;

/// The size of most letters.
fn usual_size(pages: &Pages) -> f64 {
    let mut sizes: HashMap<i32, usize> = HashMap::new();
    for word in pages.values().flatten().flatten() {
        *sizes.entry((word.size * 4.0).round() as i32).or_default() += word.text.len();
    }
    let most = sizes.into_iter().max_by_key(|(size, letters)| (*letters, -size));
    most.map_or(0.0, |(size, _)| f64::from(size) / 4.0)
}

/// Takes the first or the last line out of the pages where it is the same and in the same place, but for the number of
/// the page, and returns how it reads on the first of them. A row of a table is no such line.
fn repeated(pages: &mut Pages, is_first: bool) -> Vec<String> {
    let mut seen: BTreeMap<(String, i64), Vec<(u32, Line)>> = BTreeMap::new();
    for (page, words) in pages.iter() {
        let lines = layout::lines(words.as_deref().unwrap_or_default());
        let Some(from) = lines.len().checked_sub(NEAR) else { continue };
        let near = if is_first { &lines[..NEAR] } else { &lines[from..] };
        let line = if is_first { &near[0] } else { &near[NEAR - 1] };
        if !layout::is_table(near) {
            let text = line.text().chars().filter(|c| !c.is_ascii_digit()).collect();
            seen.entry((text, line.y.round() as i64)).or_default().push((*page, line.clone()));
        }
    }
    let many = REPEATED.max(pages.len() / 5);
    seen.retain(|_, lines| lines.len() >= many && has_one_text(lines));
    for (page, line) in seen.values().flatten() {
        if let Some(Some(words)) = pages.get_mut(page) {
            words.retain(|word| !line.words.iter().any(|of| (of.y, of.left) == (word.y, word.left)));
        }
    }
    let texts = seen.into_values().map(|lines| lines[0].1.text());
    texts.filter(|text| text.contains(char::is_alphabetic)).collect()
}

/// Whether lines of pages differ only in the numbers of the pages.
fn has_one_text(lines: &[(u32, Line)]) -> bool {
    let numbers = |(page, line): &(u32, Line)| -> (i64, Vec<i64>) {
        let text = line.text();
        let numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok());
        (i64::from(*page), numbers.collect())
    };
    let all: Vec<_> = lines.iter().map(numbers).collect();
    let (first_page, first) = &all[0];
    (0..first.len()).all(|at| {
        all.iter().all(|(_, numbers)| numbers.get(at) == Some(&first[at]))
            || all.iter().all(|(page, numbers)| {
                numbers.get(at).and_then(|number| number.checked_sub(*page))
                    == first[at].checked_sub(*first_page)
            })
    })
}

/// Repeats the head of the table on the page before, if this one goes on with its rows: it begins with values where
/// that one has values below names, or that one ends at the foot of its page, and the columns stand in the same places.
fn go_on(table: &mut Table, before: &Table) {
    let (Some((head, body)), Some(first)) = (before.rows.split_first(), table.rows.first()) else { return };
    let is_value = |cell: &Cell| cell.text.contains(|c: char| c.is_ascii_digit());
    let in_values = |(column, cell): (usize, &Cell)| {
        let values = body.iter().filter(|row| row.get(column).is_some_and(is_value)).count();
        is_value(cell) && !is_value(&head[column]) && 2 * values >= body.len()
    };
    let names = |row: &Row| row.iter().map(|cell| cell.text.to_lowercase()).collect::<Vec<_>>();
    let is_beneath =
        before.lefts.iter().zip(&table.lefts).all(|(one, other)| (one - other).abs() < before.gap / 2.0);
    // Pages begin at the height 0.
    let is_cut = is_beneath && (-FOOT_HEIGHT..0.0).contains(&before.end);
    if head.len() == first.len()
        && !body.is_empty()
        && names(head) != names(first)
        && (is_cut || first.iter().enumerate().any(in_values))
    {
        table.rows.insert(0, head.clone());
    }
}

/// `text` in which words that the ends of lines cut are whole.
fn joined(text: &str, pages: &Pages) -> String {
    let is_cut =
        |word: &&str| word.strip_suffix(HYPHENS).is_some_and(|word| word.ends_with(char::is_alphabetic));
    let words = pages.values().flatten().flatten().map(|word| word.text.as_str());
    let ends: HashSet<&str> = words.filter(is_cut).collect();
    let inner = |word: &'_ str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    let compounds: HashSet<String> =
        text.split_whitespace().filter(|word| word.contains('-')).map(inner).collect();
    let mut joined = String::with_capacity(text.len());
    for word in text.split_inclusive(char::is_whitespace) {
        let plain = word.trim_end();
        let before = joined.trim_end().rsplit(char::is_whitespace).next().unwrap_or_default();
        let is_end =
            ends.contains(before) && plain.starts_with(char::is_lowercase) && !AFTER_HYPHEN.contains(&plain);
        if is_end && joined.len() - joined.trim_end().len() == 1 {
            let stem = before.trim_end_matches(HYPHENS);
            let is_compound = compounds.contains(&inner(&format!("{stem}-{plain}")));
            joined.truncate(joined.trim_end().trim_end_matches(HYPHENS).len());
            joined.push_str(if is_compound { "-" } else { "" });
        }
        joined.push_str(word);
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{locked_pdf, pdf_of};

    #[test]
    fn a_pdf_names_its_pages() {
        let text =
            pdf(&pdf_of(&["The lease decides.\nIt lasts five seconds.", "The fence holds."])).unwrap().text;
        let (first, second) = text.split_once("<!-- Page 2 -->").unwrap();
        assert!(first.starts_with("<!-- Page 1 -->") && first.contains("It lasts five seconds."), "{text}");
        assert!(second.contains("The fence holds."), "{text}");
    }

    #[test]
    fn a_page_without_text_costs_only_itself() {
        let read = pdf(&pdf_of(&["The lease decides.", "", "The fence holds."])).unwrap();
        let text = "<!-- Page 1 -->\n\nThe lease decides.\n\n<!-- Page 3 -->\n\nThe fence holds.";
        let left_out = ["page 2 without text, which may be scans or pictures"];
        assert_eq!((read.text.as_str(), &read.left_out[..]), (text, &left_out.map(str::to_owned)[..]));
        assert_eq!(pdf(&pdf_of(&["", ""])).unwrap().text, "");
    }

    #[test]
    fn a_table_goes_on_below_its_head() {
        let row = |cells: [&str; 2]| cells.map(Cell::new).to_vec();
        let table = |rows: &[[&str; 2]], lefts: [f64; 2], end: f64| Table {
            rows: rows.iter().map(|cells| row(*cells)).collect(),
            lefts: lefts.to_vec(),
            end,
            gap: 12.0,
        };
        let before = |end| table(&[["Seed", "Grams"], ["Kale", "115"], ["Leek", "152"]], [60.0, 100.0], end);
        for (first, left, end, goes_on) in [
            (["Chard", "189"], 70.0, -300.0, true),
            (["Tool", "Place"], 70.0, -90.0, false),
            (["Tool", "Place"], 60.0, -300.0, false),
            (["Chard", "many"], 60.0, -90.0, true),
            (["Seed", "Grams"], 60.0, -90.0, false),
        ] {
            let mut table = table(&[first, ["Rocket", "226"]], [left, 100.0], 100.0);
            go_on(&mut table, &before(end));
            assert_eq!(table.rows.len() == 3, goes_on, "{first:?}");
        }
    }

    #[test]
    fn only_the_number_of_the_page_may_differ_in_what_is_repeated() {
        let pages = |text: fn(usize) -> String| (1..=4).map(text).collect::<Vec<_>>();
        let read = |pages: Vec<String>| {
            pdf(&pdf_of(&pages.iter().map(String::as_str).collect::<Vec<_>>())).unwrap().text
        };
        let text =
            read(pages(|n| format!("Report 2026, page {n}\nThe year {n} was good.\nTonnage: {}", n * n * 7)));
        assert_eq!(text.matches("Report 2026").count(), 1, "{text}");
        assert!([7, 28, 63, 112].iter().all(|tons| text.contains(&format!("Tonnage: {tons}"))), "{text}");
    }

    #[test]
    fn a_file_that_cannot_be_read_has_a_reason() {
        assert_eq!(pdf(&locked_pdf()).unwrap_err().reason, Reason::Password);
        assert_eq!(pdf(b"%PDF-1.4\nnothing").unwrap_err().reason, Reason::Broken);
    }
}
