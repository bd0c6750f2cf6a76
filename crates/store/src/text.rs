//! Text handling that both adapters share, so that they store and find the same.

use std::borrow::Cow;

/// `text` without NUL characters, which Postgres cannot hold.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{FFFD}")) } else { Cow::Borrowed(text) }
}

/// JSON text without escaped NUL characters.
pub(crate) fn clean_json(json: String) -> String {
    const NUL: &str = "\\u0000";
    if !json.contains(NUL) {
        return json;
    }
    let mut out = String::with_capacity(json.len());
    let mut rest = json.as_str();
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix(NUL) {
            out.push('\u{FFFD}');
            rest = after;
        } else {
            // A backslash and the (ASCII) character that it escapes belong together: `\\u0000` is no NUL.
            let end = rest.len().min(2);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
        }
    }
    out.push_str(rest);
    out
}

/// The last `max` bytes of `text`, beginning at a whole character.
pub(crate) fn tail(text: &str, max: usize) -> &str {
    let mut start = text.len().saturating_sub(max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nul_is_replaced_and_nothing_else() {
        for text in ["", "plain", "a\0b\0", "\\u0000", "\\\0", "\"\u{1}\n"] {
            let json = serde_json::to_string(text).unwrap();
            let cleaned: String = serde_json::from_str(&clean_json(json)).unwrap();
            assert_eq!(cleaned, clean(text), "{text:?}");
        }
    }

    #[test]
    fn a_tail_begins_at_a_character() {
        assert_eq!(tail("aäö", 3), "ö");
        assert_eq!(tail("aäö", 4), "äö");
        assert_eq!(tail("aäö", 99), "aäö");
    }
}
