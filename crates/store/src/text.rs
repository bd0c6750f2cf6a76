//! Text handling that both adapters share, so that they store and find the same.

use std::borrow::Cow;

use crate::error::StoreError;

/// `text` as every store keeps it: without NUL characters, which Postgres cannot hold. U+FFFD stands for each.
pub fn clean(text: &str) -> Cow<'_, str> {
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

/// `text` in lower case, the same way for every database.
pub(crate) fn fold(text: &str) -> String {
    clean(text).to_lowercase()
}

/// The JSON text of `value`, without NUL characters.
pub(crate) fn json_text(value: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map(clean_json)
        .map_err(|e| StoreError::broken("a value has no JSON form", e))
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
}
