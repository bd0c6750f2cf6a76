//! API keys, which must not appear in anything that is shown.

/// A key of an API. No formatting shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// The key that a variable holds; none if it is blank.
    pub fn of(text: &str) -> Option<Self> {
        Some(text.trim()).filter(|text| !text.is_empty()).map(|text| Self(text.to_owned()))
    }

    /// Fails with the reason if no key looks like this.
    pub fn check(&self) -> Result<(), &'static str> {
        match self.0.chars().all(|c| c.is_ascii_graphic()) {
            true => Ok(()),
            false => Err("holds characters that no key has; copy the key again"),
        }
    }

    /// The key itself, only for the request.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// `text` without the key. Parts of the key are removed too, because some providers answer with a shortened key.
    pub fn redact(&self, text: &str) -> String {
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

impl std::fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[key]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_and_its_parts_are_taken_out() {
        let key = ApiKey::of(" sk-proj-abcdefghijklmnop\n").unwrap();
        let body =
            "Incorrect API key provided: sk-proj-abcdefghijklmnop. You sent sk-proj-****mnop; é ijklmnop.";
        let text = key.redact(body);
        assert_eq!(text, "Incorrect API key provided: [key]. You sent [key]****mnop; é [key].");
        assert_eq!(key.redact("nothing to hide"), "nothing to hide");
        assert_eq!(format!("{key:?}"), "[key]");
        assert_eq!((key.check(), ApiKey::of(" ")), (Ok(()), None));
        assert!(ApiKey::of("sk proj").unwrap().check().is_err());
    }
}
