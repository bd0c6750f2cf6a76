//! What the parts of an office file hold beside what a library reads of them.
//!
//! A paragraph of any part is looked for in the text, word by word. If a word is missing, the paragraph is added at the
//! end, below the name of its part: heads and feet of pages, comments, text in drawings. What nobody sees in the file,
//! such as hidden rows, is only named.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::{Cursor, Read};

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use tree_agent_contract::text::{CHARTS, COMMENTS, DIAGRAMS, DRAWINGS, FOOT, FURTHER, HEAD, NOTES};
use zip::ZipArchive;

/// Bytes of one part that are read.
const PART_BYTES: u64 = 64 * 1024 * 1024;
/// Cells that are named; further ones are counted.
const NAMED: usize = 5;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// Paragraphs that the text lacks, below the names of their parts.
    pub(crate) sections: BTreeMap<&'static str, Vec<String>>,
    /// What was left out.
    pub(crate) left_out: Vec<String>,
    /// Names of the sheets that can be seen.
    pub(crate) sheets: Vec<String>,
}

/// What the parts of a file hold beside `text`. A file that is no archive has no parts.
pub(crate) fn beside(bytes: &[u8], text: &str) -> Beside {
    let mut found = Beside::default();
    let Ok(mut archive) = ZipArchive::new(Cursor::new(bytes)) else {
        old_sheets(bytes, &mut found);
        return found;
    };
    let names: Vec<String> = archive.file_names().map(str::to_owned).collect();
    let mut part = |name: &str| {
        let mut xml = Vec::new();
        archive.by_name(name).ok()?.take(PART_BYTES).read_to_end(&mut xml).ok()?;
        Some(xml)
    };
    let read: HashSet<String> = words(text).collect();
    let joined = format!(" {} ", words(text).collect::<Vec<_>>().join(" "));
    // Of further text the library reads most; of other parts it reads all or nothing.
    let is_read = |place: &str, paragraph: &str| match place {
        FURTHER => words(paragraph).all(|word| read.contains(&word)),
        _ => joined.contains(&format!(" {} ", words(paragraph).collect::<Vec<_>>().join(" "))),
    };
    let book = part("xl/workbook.xml")
        .map(|xml| workbook(&xml, &part("xl/_rels/workbook.xml.rels").unwrap_or_default()));
    for (name, _, is_hidden) in book.iter().flatten() {
        match is_hidden {
            true => found.left_out.push(format!("hidden sheet {name}")),
            false => found.sheets.push(name.clone()),
        }
    }
    let mut pictures = 0;
    let mut deleted = 0;
    for name in &names {
        let is_picture = mime_guess::from_path(name).first().is_some_and(|kind| kind.type_() == "image");
        pictures += usize::from(is_picture && !name.contains("Thumbnail") && !name.contains("thumbnail"));
        if name.contains("/embeddings/") {
            found.left_out.push(format!("embedded file {}", name.rsplit('/').next().unwrap_or_default()));
        }
        if let Some((sheet, ..)) =
            book.iter().flatten().find(|(_, target, is_hidden)| !is_hidden && name == target)
        {
            found.left_out.extend(part(name).map(|xml| hidden_of(&xml, sheet)).unwrap_or_default());
        }
        let Some(place) = place(name) else { continue };
        for piece in part(name).map(|xml| pieces(&xml, place)).unwrap_or_default() {
            match piece {
                Piece::Deleted(text) => deleted += words(&text).count(),
                Piece::Sheet(name) => found.sheets.push(name),
                Piece::Hidden(what) if found.left_out.contains(&what) => {}
                Piece::Hidden(what) => found.left_out.push(what),
                Piece::Text(place, text) if is_read(place, &text) => {}
                Piece::Text(place, text) => {
                    let section = found.sections.entry(place).or_default();
                    if !section.contains(&text) {
                        section.push(text);
                    }
                }
            }
        }
    }
    if pictures > 0 {
        found.left_out.push(format!("{pictures} {}", plural(pictures, "picture")));
    }
    if deleted > 0 {
        let words = plural(deleted, "word");
        found.left_out.push(format!("text that is marked as deleted ({deleted} {words})"));
    }
    found
}

/// The sheets of a workbook of Excel before 2007: `BoundSheet8` of [MS-XLS] names each, and says whether it is hidden.
fn old_sheets(bytes: &[u8], found: &mut Beside) {
    const BOUND_SHEET: u16 = 0x85;
    let mut stream = Vec::new();
    let read = cfb::CompoundFile::open(Cursor::new(bytes)).and_then(|mut file| {
        let name = if file.is_stream("/Workbook") { "/Workbook" } else { "/Book" };
        file.open_stream(name)?.take(PART_BYTES).read_to_end(&mut stream)
    });
    let mut rest = stream.as_slice();
    while let (Ok(_), [kind, more, low, high, after @ ..]) = (&read, rest) {
        let Some((record, others)) = after.split_at_checked(usize::from(u16::from_le_bytes([*low, *high])))
        else {
            return;
        };
        if u16::from_le_bytes([*kind, *more]) == BOUND_SHEET
            && let [_, _, _, _, state, 0, long, wide, name @ ..] = record
        {
            let long = usize::from(*long);
            let name: String = match wide & 1 {
                0 => name.iter().take(long).map(|byte| char::from(*byte)).collect(),
                _ => {
                    let units =
                        name.chunks_exact(2).take(long).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
                    char::decode_utf16(units).flatten().collect()
                }
            };
            match state & 3 {
                0 => found.sheets.push(name),
                _ => found.left_out.push(format!("hidden sheet {name}")),
            }
        }
        rest = others;
    }
}

/// The words of a text: letters and digits without what stands between them.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// The place of the paragraphs of a part, by its name; none for a part whose text nobody sees as such.
fn place(name: &str) -> Option<&'static str> {
    let file = name.rsplit('/').next()?;
    let is = |beginning: &str| file.starts_with(beginning) && file.ends_with(".xml");
    match name {
        _ if name.contains("glossary/") || name.contains("/_rels/") => None,
        "word/document.xml" | "content.xml" => Some(FURTHER),
        "styles.xml" => Some(""),
        _ if is("header") => Some(HEAD),
        _ if is("footer") => Some(FOOT),
        _ if is("comment") && !is("commentAuthors") || name.contains("threadedComments/") => Some(COMMENTS),
        _ if is("notesSlide") => Some(NOTES),
        _ if is("footnotes") || is("endnotes") => Some(FURTHER),
        _ if name.contains("diagrams/data") => Some(DIAGRAMS),
        _ if is("drawing") => Some(DRAWINGS),
        _ if name.contains("/charts/chart") && is("chart") => Some(CHARTS),
        _ if name.starts_with("ppt/slides/slide") => Some(FURTHER),
        _ if name.ends_with(".xhtml") || name.ends_with(".html") => Some(FURTHER),
        _ => None,
    }
}

/// What a part holds.
enum Piece {
    /// A paragraph and its place.
    Text(&'static str, String),
    /// Text that is marked as deleted.
    Deleted(String),
    /// What is hidden and was read nevertheless, in words.
    Hidden(String),
    /// The name of a sheet.
    Sheet(String),
}

/// What a part holds. What is within an element for the head of pages, a comment and the like has that place.
fn pieces(xml: &[u8], part: &'static str) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let mut text = String::new();
    let (mut style, mut hidden) = (String::new(), HashSet::new());
    walk(xml, |step| match step {
        Step::Begin(name, tag) => {
            let flag = |key: &str, value: &str| attribute(tag, key).is_some_and(|found| found == value);
            match name {
                "sld" if flag("show", "0") => {
                    found.push(Piece::Hidden("a hidden slide was read as the others".to_owned()));
                }
                "style" => style = attribute(tag, "name").unwrap_or_default(),
                "table-properties" if flag("display", "false") => {
                    hidden.insert(style.clone());
                }
                // In sheets, each table is a sheet.
                "table" if open.iter().any(|name| name == "spreadsheet") => {
                    let sheet = attribute(tag, "name").unwrap_or_default();
                    if attribute(tag, "style-name").is_some_and(|style| hidden.contains(&style)) {
                        found.push(Piece::Hidden(format!("the hidden sheet {sheet} was read as the others")));
                    }
                    found.push(Piece::Sheet(sheet));
                }
                "table-row" if flag("visibility", "collapse") || flag("visibility", "filter") => {
                    found.push(Piece::Hidden("hidden rows were read as the others".to_owned()));
                }
                "br" | "tab" | "s" | "line-break" => text.push(' '),
                _ => {}
            }
            if ends(name) {
                end(&mut found, &open, &mut text, part);
            }
            open.push(name.to_owned());
        }
        Step::Text(words) => {
            let is_office = open.first().is_some_and(|root| !root.starts_with("document-") && root != "html");
            let last = open.last().map_or("", String::as_str);
            let is_text = match part {
                CHARTS => last == "t",
                _ if is_office => matches!(last, "t" | "delText" | "text"),
                _ => last != "date" && !within(&open, &["head", "script", "style", "note-citation"]),
            };
            match is_text {
                true if within(&open, &["del", "moveFrom", "tracked-changes"]) => {
                    found.push(Piece::Deleted(words.to_owned()));
                }
                true => text.push_str(words),
                false => {}
            }
        }
        Step::End(name) => {
            if ends(name) {
                end(&mut found, &open, &mut text, part);
            }
            open.pop();
        }
    });
    found
}

/// Whether one of the open elements has one of these names.
fn within(open: &[String], names: &[&str]) -> bool {
    open.iter().any(|name| names.contains(&name.as_str()))
}

/// Whether an element begins and ends a paragraph.
fn ends(name: &str) -> bool {
    matches!(name, "p" | "h" | "si" | "text" | "li" | "td" | "div" | "comment" | "annotation")
        || name.len() == 2 && name.starts_with('h')
}

/// Takes the paragraph that ends here. One of a part without a place counts only within an element that has one.
fn end(found: &mut Vec<Piece>, open: &[String], text: &mut String, part: &'static str) {
    let place = match part {
        _ if within(open, &["header", "header-left", "header-first"]) => HEAD,
        _ if within(open, &["footer", "footer-left", "footer-first"]) => FOOT,
        _ if within(open, &["annotation"]) => COMMENTS,
        _ => part,
    };
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if !words.is_empty() && !place.is_empty() {
        found.push(Piece::Text(place, words));
    }
    text.clear();
}

/// The sheets of a workbook: their names, the parts that hold them, and whether they are hidden.
fn workbook(xml: &[u8], relations: &[u8]) -> Vec<(String, String, bool)> {
    let mut targets = HashMap::new();
    walk(relations, |step| {
        if let Step::Begin("Relationship", tag) = step
            && let (Some(id), Some(target)) = (attribute(tag, "Id"), attribute(tag, "Target"))
        {
            let target = target.strip_prefix('/').map_or_else(|| format!("xl/{target}"), str::to_owned);
            targets.insert(id, target);
        }
    });
    let mut sheets = Vec::new();
    walk(xml, |step| {
        if let Step::Begin("sheet", tag) = step {
            let target = attribute(tag, "id").and_then(|id| targets.remove(&id)).unwrap_or_default();
            let is_hidden = attribute(tag, "state").is_some_and(|state| state != "visible");
            sheets.push((attribute(tag, "name").unwrap_or_default(), target, is_hidden));
        }
    });
    sheets
}

fn plural(number: usize, word: &str) -> String {
    if number == 1 { word.to_owned() } else { format!("{word}s") }
}

/// What a sheet hides, and the formulas of which it keeps no value.
fn hidden_of(xml: &[u8], sheet: &str) -> Vec<String> {
    let (mut rows, mut columns, mut formulas) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    let (mut hidden, mut is_hidden_row) = (Vec::new(), false);
    let (mut cell, mut has_formula, mut has_value, mut open) = (String::new(), false, false, String::new());
    let (mut printed, mut found) = (String::new(), Vec::new());
    walk(xml, |step| match step {
        Step::Begin(name, tag) => {
            let is_hidden =
                || attribute(tag, "hidden").is_some_and(|hidden| matches!(hidden.as_str(), "1" | "true"));
            let number = |key| attribute(tag, key).and_then(|number| number.parse::<u32>().ok()).unwrap_or(0);
            match name {
                "row" => is_hidden_row = is_hidden(),
                "col" if is_hidden() => hidden.push((number("min"), number("max"))),
                "c" => {
                    (cell, has_formula, has_value) = (attribute(tag, "r").unwrap_or_default(), false, false)
                }
                "f" => has_formula = true,
                _ => {}
            }
            name.clone_into(&mut open);
        }
        Step::Text(text) if open.ends_with("Header") || open.ends_with("Footer") => printed.push_str(text),
        Step::Text(text) if matches!(open.as_str(), "v" | "t") && !text.trim().is_empty() => {
            has_value = true;
            let (column, row) = cell.split_at(cell.find(|c: char| c.is_ascii_digit()).unwrap_or(cell.len()));
            if is_hidden_row {
                rows.insert(row.to_owned());
            }
            let number = column.bytes().fold(0_u32, |number, letter| {
                number.saturating_mul(26).saturating_add(u32::from(letter.saturating_sub(b'A')) + 1)
            });
            if hidden.iter().any(|(first, last)| (*first..=*last).contains(&number)) {
                columns.insert(number);
            }
        }
        Step::Text(_) => {}
        Step::End("c") if has_formula && !has_value => formulas.push(std::mem::take(&mut cell)),
        Step::End(_) => {
            open.clear();
            let words = uncoded(&std::mem::take(&mut printed));
            if !words.is_empty() {
                found.push(format!("on printed pages of sheet {sheet}: {words}"));
            }
        }
    });
    for (number, what) in [(rows.len(), "row"), (columns.len(), "column")] {
        if number > 0 {
            found.push(format!("{number} hidden {} of sheet {sheet}", plural(number, what)));
        }
    }
    if !formulas.is_empty() {
        let more = formulas.len().saturating_sub(NAMED);
        formulas.truncate(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        found.push(format!("formulas of sheet {sheet} without a kept value: {}{more}", formulas.join(", ")));
    }
    found
}

/// What stands at the head or the foot of printed pages, without codes such as `&P` for the number of the page.
fn uncoded(text: &str) -> String {
    let mut parts = text.split('&');
    let mut words = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let shown = match part.chars().next() {
            Some('"') => part[1..].split_once('"').map_or("", |(_, shown)| shown),
            Some('K') => part.get(7..).unwrap_or_default(),
            Some(c) if c.is_ascii_digit() => part.trim_start_matches(|c: char| c.is_ascii_digit()),
            first => &part[first.map_or(0, char::len_utf8)..],
        };
        words.push_str(&format!(" {shown}"));
    }
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A step through XML; names are without their prefixes.
enum Step<'a> {
    Begin(&'a str, &'a BytesStart<'a>),
    Text(&'a str),
    End(&'a str),
}

/// Goes through XML until its end, or the first fault.
fn walk(xml: &[u8], mut see: impl FnMut(Step<'_>)) {
    let mut reader = Reader::from_reader(xml);
    reader.config_mut().expand_empty_elements = true;
    loop {
        match reader.read_event() {
            Ok(Event::Start(tag)) => {
                see(Step::Begin(&String::from_utf8_lossy(tag.local_name().as_ref()), &tag));
            }
            Ok(Event::End(tag)) => see(Step::End(&String::from_utf8_lossy(tag.local_name().as_ref()))),
            Ok(Event::Text(text)) => see(Step::Text(&text.decode().unwrap_or_default())),
            Ok(Event::CData(text)) => see(Step::Text(&text.decode().unwrap_or_default())),
            Ok(Event::GeneralRef(name)) => {
                let number = name.resolve_char_ref().ok().flatten().map(String::from);
                let name = name.decode().unwrap_or_default();
                let entity = || quick_xml::escape::resolve_predefined_entity(&name).map(str::to_owned);
                see(Step::Text(&number.or_else(entity).unwrap_or_default()));
            }
            Ok(Event::Eof) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

/// The value of an attribute, whatever its prefix is.
fn attribute(tag: &BytesStart<'_>, name: &str) -> Option<String> {
    let mut attributes = tag.attributes().flatten();
    let found = attributes.find(|attribute| attribute.key.local_name().as_ref() == name.as_bytes())?;
    found.normalized_value(quick_xml::XmlVersion::Implicit1_0).ok().map(|value| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::zip_of;

    #[test]
    fn what_a_sheet_hides_is_counted_if_it_holds_something() {
        let sheet = "<worksheet><cols><col min='3' max='16384' hidden='1'/></cols><sheetData><row r='1'><c r='A1'><v>1</v></c>\
                     <c r='C1'><v>2</v></c><c r='B1'><f>A1*2</f><v/></c></row><row r='2' hidden='1'><c r='A2'><v>3</v></c></row>\
                     <row r='3' hidden='1'/></sheetData><headerFooter><oddFooter>&amp;L&amp;\"Arial,Bold\"&amp;12Harbour \
                     Board&amp;RPage &amp;P</oddFooter></headerFooter></worksheet>";
        let expected = [
            "on printed pages of sheet S: Harbour Board Page",
            "1 hidden row of sheet S",
            "1 hidden column of sheet S",
            "formulas of sheet S without a kept value: B1",
        ];
        assert_eq!(hidden_of(sheet.as_bytes(), "S"), expected);
    }

    #[test]
    fn comments_are_kept_though_their_words_are_in_the_text() {
        let comment =
            "<w:comments><w:comment><w:p><w:t>28 days, said the board?</w:t></w:p></w:comment></w:comments>";
        let body = "<w:document><w:p><w:t>The board said: 28 days. The </w:t></w:p><w:del><w:delText>old</w:delText></w:del>\
                    </w:document>";
        let file =
            zip_of(&[("word/comments.xml", comment.as_bytes()), ("word/document.xml", body.as_bytes())]);
        let found = beside(&file, "The board said: 28 days.");
        let expected = BTreeMap::from([(COMMENTS, vec!["28 days, said the board?".into()])]);
        assert_eq!(found.sections, expected);
        assert_eq!(found.left_out, ["text that is marked as deleted (1 word)"]);
    }
}
