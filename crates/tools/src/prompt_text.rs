//! The answer of a tool as text for a prompt of limited size.
//!
//! What tells a model how to go on (`nextOffset`, `nextPageToken`, `total`) comes first, and what does not fit is cut where
//! the model can ask for the rest: within the text of a document, or between the rows of a list.

use serde_json::{Map, Value, json};
use tree_agent_contract::text::prefix;

use crate::builtin::{LIST_DOCUMENTS, LIST_PROJECTS, READ_DOCUMENT, SEARCH_DOCUMENTS};

/// A text up to this many bytes belongs to the header of an answer.
const SHORT_TEXT: usize = 256;
/// Bytes kept free for the changed header of an answer that is cut.
const HEADER_SLACK: usize = 160;

/// The answer `value` of the tool `name`, which was called with `args`, in about `max_bytes` bytes.
///
/// A document is cut so that `nextOffset` names the first byte that is missing. A list loses its last rows and says how
/// many. Any other answer keeps its beginning.
pub fn prompt_text(name: &str, args: &Map<String, Value>, value: &Value, max_bytes: usize) -> String {
    let Value::Object(object) = value else {
        return match value {
            Value::String(text) => beginning(text, max_bytes),
            other => beginning(&other.to_string(), max_bytes),
        };
    };
    let whole = header_first(object);
    if whole.len() <= max_bytes {
        return whole;
    }
    let cut = match name {
        READ_DOCUMENT => cut_document(object, args, max_bytes),
        LIST_DOCUMENTS => cut_rows(object, "documents", "page_size", max_bytes),
        SEARCH_DOCUMENTS => cut_rows(object, "hits", "limit", max_bytes),
        LIST_PROJECTS => cut_rows(object, "projects", "limit", max_bytes),
        _ => None,
    };
    beginning(&cut.map_or(whole, |object| header_first(&object)), max_bytes)
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

/// The document with as much of its body as fits, and the offset at which the rest begins.
fn cut_document(
    object: &Map<String, Value>,
    args: &Map<String, Value>,
    max_bytes: usize,
) -> Option<Map<String, Value>> {
    let body = object.get("body")?.as_str()?;
    let offset = args.get("offset").and_then(Value::as_f64).unwrap_or_default() as usize;
    let mut cut = object.clone();
    cut.insert("body".to_owned(), "".into());
    let room = max_bytes.saturating_sub(header_first(&cut).len() + HEADER_SLACK);
    let mut used = 0;
    let kept = body.chars().take_while(|&c| {
        used += json_len(c);
        used <= room
    });
    let end: usize = kept.map(char::len_utf8).sum();
    // At least one character, so that reading on always ends.
    let end = end.max(body.chars().next().map_or(0, char::len_utf8));
    cut.insert("nextOffset".to_owned(), (offset + end).into());
    cut.insert("body".to_owned(), body[..end].into());
    Some(cut)
}

/// Bytes of `c` within a JSON text.
const fn json_len(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        c => c.len_utf8(),
    }
}

/// The list under `key` with the rows that fit. The token of the next page would skip the others, so it is left out.
fn cut_rows(
    object: &Map<String, Value>,
    key: &str,
    size_argument: &str,
    max_bytes: usize,
) -> Option<Map<String, Value>> {
    let rows = object.get(key)?.as_array()?;
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
    Some(cut)
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

    fn document(body: &str, next: Option<usize>) -> Value {
        json!({"documentId": "d", "body": body, "path": "a.md", "nextOffset": next})
    }

    #[test]
    fn a_document_that_is_cut_says_first_where_the_rest_begins() {
        let body = "\"Zeile\"\n\u{1}ä".repeat(500);
        let args = |offset: usize| Map::from_iter([("offset".to_owned(), json!(offset))]);
        let (mut offset, mut read, mut pieces) = (0, String::new(), 0);
        loop {
            let answer = document(&body[offset..], None);
            let text = prompt_text(READ_DOCUMENT, &args(offset), &answer, 1_000);
            assert!(text.len() <= 1_000, "{}", text.len());
            let header = text.find("nextOffset").unwrap();
            assert!(header < text.find("\"body\"").unwrap(), "the header comes first: {text}");
            let piece: Value = serde_json::from_str(&text).unwrap();
            read.push_str(piece["body"].as_str().unwrap());
            pieces += 1;
            match piece["nextOffset"].as_u64() {
                Some(next) => offset = next as usize,
                None => break,
            }
        }
        assert_eq!(read, body);
        assert!(pieces > 5, "{pieces}");
    }

    #[test]
    fn the_header_of_an_answer_that_fits_comes_first_too() {
        let long = "x".repeat(300);
        let text = prompt_text(READ_DOCUMENT, &Map::new(), &document(&long, Some(300)), 10_000);
        assert!(text.find("\"nextOffset\":300").unwrap() < text.find("\"body\"").unwrap(), "{text}");
        assert!(text.find("\"nextOffset\":300").unwrap() < text.find("\"path\"").unwrap(), "{text}");
    }

    #[test]
    fn a_list_that_is_cut_keeps_whole_rows_and_says_how_many_are_missing() {
        let rows: Vec<Value> = (0..100).map(|n| json!({"path": format!("{n:03}.md")})).collect();
        for (tool, key) in [(LIST_DOCUMENTS, "documents"), (SEARCH_DOCUMENTS, "hits")] {
            let answer = json!({key: rows, "total": 700, "nextPageToken": "later"});
            let text = prompt_text(tool, &Map::new(), &answer, 800);
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
        let text = prompt_text("foreign__tool", &Map::new(), &Value::String("ä".repeat(1_000)), 100);
        assert!(text.starts_with("ää") && text.contains("1900 bytes more"), "{text}");
        assert_eq!(prompt_text("foreign__tool", &Map::new(), &json!([1, 2]), 100), "[1,2]");
    }
}
