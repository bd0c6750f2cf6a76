//! Long texts as several documents.

use tree_agent_contract::limits::{DOCUMENT_BYTES, PATH_BYTES, TITLE_BYTES};
use tree_agent_contract::text::{place, prefix};
use tree_agent_retrieval::default_title;

/// Bytes of the head of a table that the next part repeats.
const HEAD_BYTES: usize = 16 * 1024;
/// Bytes that are added to a part: what is repeated at its beginning, and at its end a rule and links to two paths of
/// which every byte is escaped.
const ROOM: usize = 2 * HEAD_BYTES + 4 * PATH_BYTES;

/// One document of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its path within the project.
    pub path: String,
    /// Its title; empty for one that the server finds in the text.
    pub title: String,
    /// Its text.
    pub body: String,
}

/// The documents of a text. A text that fits is one document; a longer one is split between paragraphs, else between
/// lines, into numbered parts that name each other at their ends. The first part has the path of the file. A part that
/// begins within a page, a sheet or a table repeats its mark and the head of the table.
pub fn split(path: &str, title: &str, text: String) -> Vec<Part> {
    if text.len() <= DOCUMENT_BYTES {
        return vec![Part { path: path.to_owned(), title: title.to_owned(), body: text }];
    }
    let title = match title {
        "" => default_title(path, &text),
        title => title.to_owned(),
    };
    let pieces = cut(&text, DOCUMENT_BYTES - ROOM);
    let number = pieces.len();
    let mut end = 0;
    // A file cannot have files below it, so no other document has such a path.
    let path_of = |part: usize| if part == 1 { path.to_owned() } else { format!("{path}/part-{part:02}") };
    let link = |words: &str, part: usize| {
        let target = path_of(part).replace('<', "\\<").replace('>', "\\>");
        format!(" {words}: [part {part} of {number}](<{target}>).")
    };
    pieces
        .into_iter()
        .zip(1..)
        .map(|(piece, part)| {
            let suffix = format!(" (part {part} of {number})");
            let again = repeated(&text, end);
            end += piece.len();
            let mut body = format!("{again}{piece}\n\n---\n\nPart {part} of {number}.");
            if part > 1 {
                body.push_str(&link("Previous", part - 1));
            }
            if part < number {
                body.push_str(&link("Next", part + 1));
            }
            body.push('\n');
            Part {
                path: path_of(part),
                title: format!("{}{suffix}", prefix(&title, TITLE_BYTES - suffix.len())),
                body,
            }
        })
        .collect()
}

/// What a part that begins at byte `at` repeats.
fn repeated(text: &str, at: usize) -> String {
    let (before, after) = text.split_at(at);
    let mark = place(text, at).map(|place| format!("<!-- {place} -->\n\n"));
    let head = || {
        let table = before.rfind("\n\n").map_or(before, |begin| &before[begin + 2..]);
        let (first, rest) = table.split_once('\n')?;
        let head = format!("{first}\n{}\n", rest.lines().next()?);
        (first.starts_with('|') && rest.starts_with("| ---") && head.len() <= HEAD_BYTES).then_some(head)
    };
    let head = after.starts_with('|').then(head).flatten();
    mark.unwrap_or_default() + &head.unwrap_or_default()
}

/// Pieces of at most `max` bytes that are the text when they are put together.
fn cut(mut text: &str, max: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    while text.len() > max {
        let window = prefix(text, max);
        let behind = |mark: &str| window.rfind(mark).map(|at| at + mark.len());
        // A bound too far from the end would make small pieces.
        let near = |at: &usize| *at >= max / 2;
        let at = behind("\n\n")
            .max(behind("\n\r\n"))
            .filter(near)
            .or_else(|| behind("\n").filter(near))
            // Between two records of JSON in one line.
            .or_else(|| behind("},").filter(near))
            .unwrap_or(window.len());
        let (piece, rest) = text.split_at(at);
        pieces.push(piece);
        text = rest;
    }
    if !text.is_empty() {
        pieces.push(text);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_fits_is_one_document() {
        let text = "x".repeat(DOCUMENT_BYTES);
        let parts = split("a.md", "", text.clone());
        assert_eq!(parts, [Part { path: "a.md".into(), title: String::new(), body: text }]);
    }

    #[test]
    fn a_long_text_is_split_into_parts_that_name_each_other() {
        let paragraph = format!("{}\n\n", "wörd ".repeat(200));
        let text = format!("# Long\n\n{}", paragraph.repeat(3 * DOCUMENT_BYTES / paragraph.len()));
        let parts = split("notes/a <b>.md", "", text.clone());
        let paths: Vec<&str> = parts.iter().map(|part| part.path.as_str()).collect();
        assert_eq!(paths[..2], ["notes/a <b>.md", "notes/a <b>.md/part-02"]);
        assert_eq!(parts.len(), 4);
        let mut whole = String::new();
        for (part, number) in parts.iter().zip(1..) {
            assert!(part.body.len() <= DOCUMENT_BYTES, "{}", part.body.len());
            assert_eq!(part.title, format!("Long (part {number} of 4)"));
            let (piece, end) = part.body.rsplit_once("\n\n---\n\n").unwrap();
            assert!(number == 4 || piece.ends_with("\n\n"), "between paragraphs");
            assert!(end.starts_with(&format!("Part {number} of 4.")), "{end}");
            assert_eq!(end.contains("Previous: ["), number > 1, "{end}");
            assert_eq!(end.contains("Next: ["), number < 4, "{end}");
            whole.push_str(piece);
        }
        assert!(whole == text, "nothing is lost");
        let end = parts[1].body.rsplit_once("---\n\n").unwrap().1;
        let expected = "Part 2 of 4. Previous: [part 1 of 4](<notes/a \\<b\\>.md>). \
                        Next: [part 3 of 4](<notes/a \\<b\\>.md/part-03>).\n";
        assert_eq!(end, expected);
    }

    #[test]
    fn a_part_of_a_table_has_its_head_and_its_sheet() {
        let rows = "| 1 | one more row of a long table |\n".repeat(2 * DOCUMENT_BYTES / 35);
        let text = format!("<!-- Sheet All -->\n\n## All\n\n| Number | Name |\n| --- | --- |\n{rows}");
        for part in &split("a.xlsx", "a.xlsx", text)[1..] {
            let head = "<!-- Sheet All -->\n\n| Number | Name |\n| --- | --- |\n| 1 | one more";
            assert!(part.body.starts_with(head), "{}", &part.body[..200]);
            assert!(part.body.len() <= DOCUMENT_BYTES);
        }
    }

    #[test]
    fn texts_without_bounds_are_split_between_characters() {
        for text in
            ["é".repeat(50), "a\n".repeat(50), format!("{}\n\n{}", "a".repeat(9), "é\r\n\r\n".repeat(30))]
        {
            let pieces = cut(&text, 13);
            assert!(pieces.iter().all(|piece| !piece.is_empty() && piece.len() <= 13), "{pieces:?}");
            assert_eq!(pieces.concat(), text);
        }
        assert_eq!(cut("aaaaaaaa\n\nbbbbb\nccccc", 12), ["aaaaaaaa\n\n", "bbbbb\nccccc"]);
        assert_eq!(cut("[{\"a\":1},{\"a\":22}]", 12), ["[{\"a\":1},", "{\"a\":22}]"]);
    }
}
