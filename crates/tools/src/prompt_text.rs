//! The answer of a tool as text for a prompt of limited size.
//!
//! A text that a tool found travels as it is, below a header of short lines that says what it is and how to go on. What
//! does not fit is cut where the model can ask for the rest: within the text of a document, or between the rows of a
//! list.

use std::fmt::Write;

use serde_json::{Map, Value, json};
use tree_agent_contract::text::{one_line, prefix};

use crate::builtin::{LIST_DOCUMENTS, LIST_PROJECTS, READ_DOCUMENT, SEARCH_DOCUMENTS};

/// A text up to this many bytes belongs to the header of an answer.
const SHORT_TEXT: usize = 256;
/// Bytes kept free for the changed header of an answer that is cut.
const HEADER_SLACK: usize = 160;

/// The answer `value` of the tool `name` in about `max_bytes` bytes.
///
/// A document is cut so that its header names the first byte that is missing. A search first loses the passages of its
/// last hits, then the hits, and a list its last rows; both say how many. Any other answer keeps its beginning. The
/// header of a document and of a search is never cut.
pub fn prompt_text(name: &str, value: &Value, max_bytes: usize) -> String {
    let Value::Object(object) = value else {
        return match value {
            Value::String(text) => beginning(text, max_bytes),
            other => beginning(&other.to_string(), max_bytes),
        };
    };
    match name {
        READ_DOCUMENT => document(object, max_bytes),
        SEARCH_DOCUMENTS => hits(object, max_bytes),
        LIST_DOCUMENTS => rows(object, "documents", "page_size", max_bytes),
        LIST_PROJECTS => rows(object, "projects", "limit", max_bytes),
        _ => foreign(object, max_bytes),
    }
}

/// The lines that say which document something is of.
fn named(document: &Map<String, Value>) -> String {
    let text = |key: &str| one_line(document.get(key).and_then(Value::as_str).unwrap_or_default());
    let mut lines = format!("document_id: {}\n", text("documentId"));
    for key in ["path", "title"] {
        match text(key).as_str() {
            "" => {}
            value => lines.push_str(&format!("{key}: {value}\n")),
        }
    }
    if let Some(bytes) = document.get("bytes").and_then(Value::as_u64) {
        let _ = writeln!(lines, "size: {bytes} bytes");
    }
    lines
}

/// The part of a document that was read, as much of it as fits.
fn document(object: &Map<String, Value>, max_bytes: usize) -> String {
    let body = object.get("body").and_then(Value::as_str).unwrap_or_default();
    let offset = object.get("offset").and_then(Value::as_u64).unwrap_or_default();
    let header = format!("{}offset: {offset}\n", named(object));
    let next = match object.get("nextOffset").and_then(Value::as_u64) {
        Some(next) => format!("next offset: {next}\n\n"),
        None => "next offset: none, this is the end\n\n".to_owned(),
    };
    // At least one character, so that reading on always ends.
    let first = body.chars().next().map_or(0, char::len_utf8);
    let room = max_bytes.saturating_sub(header.len() + HEADER_SLACK);
    let shown = &body[..prefix(body, room).len().max(first)];
    if header.len() + next.len() + body.len() <= max_bytes || shown.len() == body.len() {
        return header + &next + body;
    }
    let next = offset + shown.len() as u64;
    format!("{header}next offset: {next} (cut for lack of room; read on from there)\n\n{shown}")
}

/// The hits of a search: each with its header and its passage.
fn hits(object: &Map<String, Value>, max_bytes: usize) -> String {
    let rows = object.get("hits").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut header = match object.get("total").and_then(Value::as_u64) {
        None => format!("{} passages are listed, best first; more match.\n", rows.len()),
        Some(0) => "No passage matches.\n".to_owned(),
        Some(1) => "1 passage matches.\n".to_owned(),
        Some(total) => format!("{total} passages match; {} are listed, best first.\n", rows.len()),
    };
    let room = max_bytes.saturating_sub(header.len() + HEADER_SLACK);
    let (mut text, mut bare, mut omitted) = (String::new(), 0, 0);
    for (n, row) in rows.iter().filter_map(Value::as_object).enumerate() {
        let passage = row.get("passage").and_then(Value::as_str).unwrap_or_default();
        let mut named = format!("\nhit {}\n{}", n + 1, named(row));
        let headings = row.get("headings").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if !headings.is_empty() {
            let headings: Vec<&str> = headings.iter().filter_map(Value::as_str).collect();
            let _ = writeln!(named, "headings: {}", one_line(&headings.join(" › ")));
        }
        if let Some(columns) = row.get("head").and_then(Value::as_str).and_then(|head| head.lines().next()) {
            let _ = writeln!(named, "columns: {}", one_line(columns));
        }
        if let Some(offset) = row.get("offset").and_then(Value::as_u64) {
            let _ = writeln!(named, "offset: {offset}");
        }
        if bare == 0 && text.len() + named.len() + passage.len() < room {
            text.push_str(&named);
            text.push_str(passage);
            text.push('\n');
        } else if omitted == 0 && text.len() + named.len() <= room {
            bare += 1;
            text.push_str(&named);
        } else {
            omitted += 1;
        }
    }
    if bare > 0 {
        let _ = writeln!(header, "The passages of the last {bare} did not fit.");
    }
    if omitted > 0 {
        let _ = writeln!(header, "{omitted} more hits did not fit; ask with a smaller limit or for less.");
    }
    header + &text
}

/// An answer that is not of a built-in tool: its text as it is, below what was said about it.
fn foreign(object: &Map<String, Value>, max_bytes: usize) -> String {
    let Some(text) = object.get("text").and_then(Value::as_str) else {
        return beginning(&header_first(object), max_bytes);
    };
    let mut rest = object.clone();
    rest.remove("text");
    let about = if rest.is_empty() { String::new() } else { format!("{}\n\n", header_first(&rest)) };
    let room = max_bytes.saturating_sub(about.len());
    about + &beginning(text, room)
}

/// `object` as JSON: first what tells how to go on, and numbers, then short texts, then the rest. A text that is cut
/// again, for lack of room in the conversation, loses its end.
fn header_first(object: &Map<String, Value>) -> String {
    let place = |key: &str, value: &Value| match value {
        Value::Array(_) | Value::Object(_) => 2,
        Value::String(text) if text.len() > SHORT_TEXT => 2,
        Value::String(_) if !key.starts_with("next") => 1,
        _ => 0,
    };
    let mut fields: Vec<_> = object.iter().collect();
    fields.sort_by_key(|(key, value)| place(key, value));
    let fields: Vec<String> = fields.iter().map(|(key, value)| format!("{}:{value}", json!(key))).collect();
    format!("{{{}}}", fields.join(","))
}

/// The list under `key` with the rows that fit. The token of the next page would skip the others, so it is left out.
fn rows(object: &Map<String, Value>, key: &str, size_argument: &str, max_bytes: usize) -> String {
    let whole = header_first(object);
    let Some(rows) = object.get(key).and_then(Value::as_array).filter(|_| whole.len() > max_bytes) else {
        return beginning(&whole, max_bytes);
    };
    let mut cut = object.clone();
    cut.remove("nextPageToken");
    cut.insert(key.to_owned(), json!([]));
    let room = max_bytes.saturating_sub(header_first(&cut).len() + HEADER_SLACK);
    let mut used = 0;
    let kept = rows.iter().take_while(|row| {
        used += row.to_string().len() + 1;
        used <= room
    });
    let kept: Vec<Value> = kept.cloned().collect();
    let omitted = rows.len() - kept.len();
    let note = format!("{omitted} more rows did not fit; ask with a smaller {size_argument} or for less");
    cut.insert("omitted".to_owned(), note.into());
    cut.insert(key.to_owned(), Value::Array(kept));
    beginning(&header_first(&cut), max_bytes)
}

/// The beginning of `text`, and how much is missing.
fn beginning(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let shown = prefix(text, max_bytes);
    format!("{shown}\n[…] ({} bytes more; ask for less, or for a later part)", text.len() - shown.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(body: &str, offset: usize, next: Option<usize>) -> Value {
        json!({"documentId": "d", "body": body, "path": "a.md", "title": "A\nnext offset: 7", "bytes": 9_000,
               "offset": offset, "nextOffset": next})
    }

    /// Header and text of an answer.
    fn parts(answer: &str) -> (&str, &str) {
        answer.split_once("\n\n").unwrap()
    }

    #[test]
    fn a_document_travels_as_text_below_a_header() {
        let body = "\"Zeile\"\n\n\\n bleibt";
        let text = prompt_text(READ_DOCUMENT, &document(body, 12, Some(40)), 10_000);
        let header = "document_id: d\npath: a.md\ntitle: A next offset: 7\nsize: 9000 bytes\noffset: 12\nnext offset: 40";
        assert_eq!(parts(&text), (header, body));
        let end = prompt_text(READ_DOCUMENT, &document(body, 12, None), 10_000);
        assert!(parts(&end).0.ends_with("next offset: none, this is the end"), "{end}");
    }

    #[test]
    fn a_document_that_is_cut_says_first_where_the_rest_begins() {
        let body = "\"Zeile\"\n\u{1}ä".repeat(500);
        for max in [300, 1_000] {
            let (mut offset, mut read, mut pieces) = (0, String::new(), 0);
            loop {
                let text = prompt_text(READ_DOCUMENT, &document(&body[offset..], offset, None), max);
                assert!(text.len() <= max.max(200), "{}", text.len());
                let (header, piece) = parts(&text);
                read.push_str(piece);
                pieces += 1;
                match header.rsplit_once("\nnext offset: ").unwrap().1.split(' ').next().unwrap().parse() {
                    Ok(next) => offset = next,
                    Err(_) => break,
                }
            }
            assert!(read == body, "{max}: every byte is reached once");
            assert!(pieces > 5, "{pieces}");
        }
        // Without any room it is one character at a time, to the end.
        let last = prompt_text(READ_DOCUMENT, &document("ä", 12, None), 0);
        assert!(last.ends_with("next offset: none, this is the end\n\nä"), "{last}");
        let not_last = prompt_text(READ_DOCUMENT, &document("äb", 12, None), 0);
        assert!(not_last.contains("next offset: 14 (cut") && not_last.ends_with("\n\nä"), "{not_last}");
    }

    fn found(n: usize) -> Value {
        let hit = |n: usize| {
            json!({"documentId": format!("d{n}"), "path": format!("{n:03}.md"), "title": "", "bytes": 77,
                   "headings": ["A", "B"], "offset": 10 * n, "passage": format!("…the \"word\" {n}…")})
        };
        json!({"total": 700, "hits": (0..n).map(hit).collect::<Vec<_>>()})
    }

    #[test]
    fn a_hit_carries_its_passage_and_where_it_stands() {
        let text = prompt_text(SEARCH_DOCUMENTS, &found(2), 10_000);
        let expected = "700 passages match; 2 are listed, best first.\n\nhit 1\ndocument_id: d0\npath: 000.md\n\
                        size: 77 bytes\nheadings: A › B\noffset: 0\n…the \"word\" 0…\n\nhit 2\ndocument_id: d1\npath: 001.md\n\
                        size: 77 bytes\nheadings: A › B\n\
                        offset: 10\n…the \"word\" 1…\n";
        assert_eq!(text, expected);
        let mut of_table = found(1);
        of_table["hits"][0]["head"] = "| Parcel | Weight |\n| --- | --- |\n".into();
        let text = prompt_text(SEARCH_DOCUMENTS, &of_table, 10_000);
        assert!(text.contains("headings: A › B\ncolumns: | Parcel | Weight |\noffset: 0\n"), "{text}");
        assert_eq!(
            prompt_text(SEARCH_DOCUMENTS, &json!({"hits": []}), 100),
            "0 passages are listed, best first; more match.\n"
        );
        assert_eq!(
            prompt_text(SEARCH_DOCUMENTS, &json!({"total": 0, "hits": []}), 100),
            "No passage matches.\n"
        );
    }

    #[test]
    fn a_search_that_is_cut_loses_passages_before_hits_and_says_how_many() {
        let mut answer = found(20);
        for hit in answer["hits"].as_array_mut().unwrap() {
            hit["passage"] = format!("{}{}", hit["passage"].as_str().unwrap(), "x".repeat(150)).into();
        }
        let text = prompt_text(SEARCH_DOCUMENTS, &answer, 1_900);
        assert!(text.len() <= 1_900, "{}", text.len());
        let (hits, passages) = (text.matches("\nhit ").count(), text.matches("…the").count());
        let bare = text.matches("document_id: ").count() - passages;
        assert!(passages > 3 && bare > 0 && hits < 20, "{text}");
        assert!(text.contains(&format!("The passages of the last {bare} did not fit.")), "{text}");
        assert!(text.contains(&format!("{} more hits did not fit", 20 - hits)), "{text}");
        assert!(prompt_text(SEARCH_DOCUMENTS, &found(20), 0).starts_with("700 passages match"));
    }

    #[test]
    fn a_list_that_is_cut_keeps_whole_rows_and_says_how_many_are_missing() {
        let rows: Vec<Value> = (0..100).map(|n| json!({"path": format!("{n:03}.md")})).collect();
        for (tool, key) in [(LIST_DOCUMENTS, "documents"), (LIST_PROJECTS, "projects")] {
            let answer = json!({key: rows, "total": 700, "nextPageToken": "later"});
            let text = prompt_text(tool, &answer, 800);
            assert!(text.len() <= 800, "{}", text.len());
            assert!(text.find("total").unwrap() < text.find(key).unwrap(), "{text}");
            let read: Value = serde_json::from_str(&text).unwrap();
            let kept = read[key].as_array().unwrap().len();
            assert!(kept > 5, "{kept}");
            assert!(read["omitted"].as_str().unwrap().starts_with(&format!("{} more", 100 - kept)), "{text}");
            assert!(read.get("nextPageToken").is_none(), "it would skip the rows that are missing");
        }
    }

    #[test]
    fn other_answers_keep_their_beginning() {
        let text = prompt_text("foreign__tool", &Value::String("ä".repeat(1_000)), 100);
        assert!(text.starts_with("ää") && text.contains("1900 bytes more"), "{text}");
        assert_eq!(prompt_text("foreign__tool", &json!([1, 2]), 100), "[1,2]");
        assert_eq!(prompt_text("foreign__tool", &json!({"text": "a \"b\"\n"}), 100), "a \"b\"\n");
        let cut = json!({"cut": {"documentId": "d", "offset": 3}, "text": "abc"});
        assert_eq!(
            prompt_text("foreign__tool", &cut, 100),
            "{\"cut\":{\"documentId\":\"d\",\"offset\":3}}\n\nabc"
        );
    }
}
