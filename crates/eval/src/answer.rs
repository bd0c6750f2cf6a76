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
    /// Reads Markdown: a quotation is a block `> … [^3]`, a source `[^3]: path › heading`.
    pub fn of(markdown: &str, seconds: f64) -> Self {
        let note = |line: &str| {
            let (number, source) = line.strip_prefix("[^")?.split_once("]: ")?;
            let path = source.split(" › ").next().unwrap_or_default().replace('\\', "");
            Some((number.to_owned(), path))
        };
        let sources: HashMap<String, String> = markdown.lines().filter_map(note).collect();
        let (mut quotes, mut text) = (Vec::new(), String::new());
        for line in markdown.lines() {
            let Some(line) = line.strip_prefix('>') else { continue };
            let line = line.strip_prefix(' ').unwrap_or(line);
            let is_escaped = |at: usize| line[..at].ends_with('\\');
            let mark = line.match_indices("[^").find(|(at, _)| !is_escaped(*at));
            let number = mark.and_then(|(at, mark)| Some((at, line[at + mark.len()..].split_once(']')?.0)));
            match number {
                Some((at, number)) => {
                    text.push_str(&line[..at]);
                    let path = sources.get(number).cloned().unwrap_or_default();
                    quotes.push(Quote { text: std::mem::take(&mut text).trim().to_owned(), path });
                }
                None if line.starts_with("```") => {}
                None => text.push_str(&format!("{line}\n")),
            }
        }
        let top = markdown.split("\n>").next().unwrap_or_default();
        let says_nothing = ["**Not found", "**Nicht gefunden"].iter().any(|said| top.contains(said));
        Self { quotes, says_nothing, seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotations_are_read_with_their_sources() {
        let text = "# Q\n\n### y\n\n> A “b” \\[^7] [c]\n> d. [^2]\n\n> ```text\n> e\n> ```\n>\n> [^1] and 3 more\n\n\
                    [^1]: x\\*.md\n[^2]: y/z.md › H › I\n";
        let answer = Answer::of(text, 0.5);
        let quotes: Vec<(&str, &str)> =
            answer.quotes.iter().map(|q| (q.text.as_str(), q.path.as_str())).collect();
        assert_eq!(quotes, [("A “b” \\[^7] [c]\nd.", "y/z.md"), ("e", "x*.md")]);
        assert!(!answer.says_nothing);
        assert!(Answer::of("# Q\n\n**Not found: x.**\n\n> a [^1]\n", 0.0).says_nothing);
    }
}
