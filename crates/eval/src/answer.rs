//! What an answer says: its quotations, and whether it says that there is none.

use std::collections::HashMap;

/// An answer, as a reader gets it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// In their order.
    pub quotes: Vec<Quote>,
    /// It says at its top that nothing was found.
    pub says_nothing: bool,
    /// From the question to the answer.
    pub seconds: f64,
}

/// A quotation, and the path of its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quote {
    /// Its text.
    pub text: String,
    /// The document.
    pub path: String,
}

impl Answer {
    /// Reads Markdown: a quotation is `“…” [3]` or `“…” [^3]`, a source `3. path › heading` or `[^3]: path › heading`.
    pub fn of(markdown: &str, seconds: f64) -> Self {
        let (body, sources) = markdown.rsplit_once("\n## Sources\n").unwrap_or((markdown, markdown));
        let number = |line: &str| {
            let digits = line.trim_start_matches(['[', '^']);
            let end = digits.find(|c: char| !c.is_ascii_digit())?;
            let rest = digits[end..].trim_start_matches(['.', ']', ':']);
            let path = rest.split(" › ").next().unwrap_or_default().trim();
            (end > 0).then(|| (digits[..end].to_owned(), path.trim_matches('`').to_owned()))
        };
        let sources: HashMap<String, String> = sources.lines().filter_map(number).collect();
        let mut quotes = Vec::new();
        let mut rest = body;
        while let Some((_, after)) = rest.split_once('“') {
            // Quotation marks may stand within; the last one has a number behind it.
            let ends = after.match_indices('”').find_map(|(at, mark)| {
                let behind = after[at + mark.len()..].trim_start_matches(' ').strip_prefix('[')?;
                let (number, left) = behind.trim_start_matches('^').split_once(']')?;
                number.bytes().all(|b| b.is_ascii_digit()).then_some((at, number, left))
            });
            let Some((at, number, left)) = ends else { break };
            let path = sources.get(number).cloned().unwrap_or_default();
            quotes.push(Quote { text: after[..at].trim().to_owned(), path });
            rest = left;
        }
        let top = body.split("\n- ").next().unwrap_or_default();
        Self { quotes, says_nothing: top.contains("Not found") || top.contains("not found"), seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotations_are_read_with_their_sources() {
        let text = "# Q\n\n- “A “b” [c]\n  d.” [2]\n- “\n\n  - e\n\n  ” [1]\n\n## Sources\n\n1. x.md\n2. y/z.md › H › I\n";
        let answer = Answer::of(text, 0.5);
        let quotes: Vec<(&str, &str)> =
            answer.quotes.iter().map(|q| (q.text.as_str(), q.path.as_str())).collect();
        assert_eq!(quotes, [("A “b” [c]\n  d.", "y/z.md"), ("- e", "x.md")]);
        assert!(!answer.says_nothing);
        assert!(Answer::of("# Q\n\n**Not found: x.**\n\n- “a” [1]\n", 0.0).says_nothing);
    }
}
