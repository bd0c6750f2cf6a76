//! API keys, which must not appear in anything that is shown.

/// A key. No formatting shows it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(String);

impl Secret {
    pub(super) fn new(key: String) -> Self {
        Self(key)
    }

    /// The key itself, only for the request.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// `text` without the key. Parts of the key are removed too, because some providers answer with a shortened key.
    pub(super) fn redact(&self, text: &str) -> String {
        /// Consecutive characters that reveal a key.
        const TELLING: usize = 6;
        let key = self.0.as_bytes();
        let bytes = text.as_bytes();
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        while at < bytes.len() {
            let same = longest_at(key, &bytes[at..]);
            if same >= TELLING.min(key.len()) && same > 0 {
                out.push_str("[key]");
                at += same;
            } else {
                let step = text[at..].chars().next().map_or(1, char::len_utf8);
                out.push_str(&text[at..at + step]);
                at += step;
            }
        }
        out
    }
}

/// The length of the longest part of `key` that `text` begins with.
fn longest_at(key: &[u8], text: &[u8]) -> usize {
    let common = |from: usize| key[from..].iter().zip(text).take_while(|(a, b)| a == b).count();
    (0..key.len()).map(common).max().unwrap_or(0)
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[key]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_and_its_parts_are_taken_out() {
        let key = Secret::new("sk-proj-abcdefghijklmnop".into());
        let body =
            "Incorrect API key provided: sk-proj-abcdefghijklmnop. You sent sk-proj-****mnop; é ijklmnop.";
        let text = key.redact(body);
        assert_eq!(text, "Incorrect API key provided: [key]. You sent [key]****mnop; é [key].");
        assert_eq!(key.redact("nothing to hide"), "nothing to hide");
        assert_eq!(format!("{key:?}"), "[key]");
    }
}
