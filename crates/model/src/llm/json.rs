//! Finds the JSON object, or a list, in a model's answer: in code fences, between prose, with trailing commas, with
//! raw line breaks in its texts. A cut object is an error and is never completed by guessing.

use serde_json::{Map, Value};
use tree_agent_contract::text::{one_line, prefix};

/// Maximum of possible beginnings of an object that are tried.
const TRIED: usize = 32;

/// The first readable object in `text`. The error is written for the model and says what is wrong.
pub(super) fn object(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim().is_empty() {
        return Err("the answer was empty".to_owned());
    }
    let mut first_error = None;
    let mut from = 0;
    for _ in 0..TRIED {
        let Some(at) = text[from..].find('{').map(|i| from + i) else { break };
        let end = match end_of(&text[at..]) {
            Ok(end) => at + end,
            Err(open) => {
                let message = format!(
                    "the JSON is cut: {open} brackets or texts are still open at the end of the answer"
                );
                return Err(first_error.unwrap_or(message));
            }
        };
        match read(&text[at..end]) {
            Ok(object) if !object.is_empty() => return Ok(object),
            Ok(_) => {}
            Err(error) => {
                first_error.get_or_insert_with(|| format!("the JSON cannot be read: {error}"));
            }
        }
        // After a readable but empty object, try the next one. Objects inside a broken one are not an answer.
        from = end;
    }
    Err(first_error.unwrap_or_else(|| {
        let beginning = prefix(&one_line(text), 160).to_owned();
        format!("the answer holds no JSON object; it begins with {beginning:?}")
    }))
}

/// The list in `text`, if it begins before any object.
pub(super) fn list(text: &str) -> Option<Vec<Value>> {
    let at = text.find(['[', '{']).filter(|&at| text[at..].starts_with('['))?;
    let end = at + end_of(&text[at..]).ok()?;
    let list = &text[at..end];
    serde_json::from_str(list).or_else(|_| serde_json::from_str(&repaired(list))).ok()
}

/// The end of the object or list that `text` begins with, or the number of brackets and texts that are still open.
fn end_of(text: &str) -> Result<usize, usize> {
    let (mut depth, mut in_text, mut escaped) = (0usize, false, false);
    for (i, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => depth += 1,
            b'}' | b']' if !in_text => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Ok(i + 1);
                }
            }
            _ => {}
        }
    }
    Err(depth + usize::from(in_text))
}

fn read(text: &str) -> Result<Map<String, Value>, serde_json::Error> {
    serde_json::from_str(text).or_else(|error| serde_json::from_str(&repaired(text)).map_err(|_| error))
}

/// `text` without commas before closing brackets, and with control characters inside of texts escaped.
fn repaired(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut in_text, mut escaped) = (false, false);
    for c in text.chars() {
        if in_text {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => in_text = false,
                '\n' => {
                    out.push_str("\\n");
                    continue;
                }
                '\t' => {
                    out.push_str("\\t");
                    continue;
                }
                c if c.is_control() => continue,
                _ => {}
            }
        } else {
            match c {
                '"' => in_text = true,
                '}' | ']' => {
                    let kept = out.trim_end().trim_end_matches(',').len();
                    if out[kept..].contains(',') {
                        out.truncate(kept);
                    }
                }
                _ => {}
            }
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_stands_round_the_object_does_not_matter() {
        let expected = json!({"a": [1, {"b": "}"}], "c": "x\ny"});
        for text in [
            r#"{"a":[1,{"b":"}"}],"c":"x\ny"}"#,
            "Here you are:\n```json\n{\"a\": [1, {\"b\": \"}\"},], \"c\": \"x\\ny\",}\n```\nAnything else?",
            "{} {\"a\": [1, {\"b\": \"}\"} , ] , \"c\": \"x\ny\"}",
            "\u{feff}```\n{\"a\":[1,{\"b\":\"}\"}],\"c\":\"x\\ny\"}```",
        ] {
            assert_eq!(Value::Object(object(text).expect(text)), expected, "{text}");
        }
    }

    #[test]
    fn cut_json_is_an_error_and_not_a_guess() {
        for text in [r#"{"a": 1, "b": [1, 2"#, r#"{"a": "never end"#, "```json\n{\"a\": {\"b\": 1}"] {
            assert!(object(text).unwrap_err().contains("cut"), "{text}");
        }
    }

    #[test]
    fn what_is_no_json_is_told() {
        assert!(object(" \n").unwrap_err().contains("empty"));
        assert!(object("I'm sorry, I can't help with that.").unwrap_err().contains("I'm sorry"));
        assert!(object("{'a': 1}").unwrap_err().contains("cannot be read"));
        assert!(object("{}").unwrap_err().contains("no JSON object"));
    }

    #[test]
    fn a_list_is_found_if_it_comes_first() {
        assert_eq!(list("Here:\n```json\n[{\"a\": 1},]\n```"), Some(vec![json!({"a": 1})]));
        assert_eq!(list("[]"), Some(vec![]));
        for none in ["{\"a\": [1]}", "[1, 2", "", "no list [at all"] {
            assert_eq!(list(none), None, "{none}");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_breaks_it(text in ".{0,200}", deep in "[\\[{\"\\\\,}\\]a ]{0,200}") {
            let _ = object(&text);
            let _ = object(&deep);
            let _ = list(&deep);
        }

        #[test]
        fn every_cut_of_an_object_is_an_error(at in 1usize..60) {
            let whole = r#"{"mode":"plan","steps":[{"id":"a","title":"x, y"},{"id":"b"}]}"#;
            proptest::prop_assert!(object(&whole[..at.min(whole.len() - 1)]).is_err());
        }
    }
}
