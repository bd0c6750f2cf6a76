//! Footnotes are how language models cite in a document: a mark such as `[^1]` behind a sentence, and below the text a
//! line `[^1]: DOCUMENT_ID "the words"`. Models know this form, and people can read it.

use std::collections::{BTreeMap, BTreeSet};

use tree_agent_contract::text::{one_line, prefix};
use tree_agent_contract::{Citation, DocumentId, Verdict, limits};

use crate::cite::unchecked;
use crate::claims::Claims;

/// What a citation quotes if its footnote is missing or says nothing. It is in no document.
const NOTHING: &str = "(no words are quoted)";
/// Begins what is added to a footnote of which a citation does not hold.
const UNVERIFIED: &str = "(unverified:";

/// The source that a footnote names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) document_id: DocumentId,
    pub(super) quote: String,
}

impl Source {
    /// Reads the text of a footnote. What names no document gets an id that no document has.
    pub(super) fn of(text: &str) -> Self {
        let text = one_line(text.split(UNVERIFIED).next().unwrap_or_default());
        let is_outside = |c: char| !c.is_ascii_alphanumeric() && c != '-';
        let named = text.split(char::is_whitespace).find_map(|word| {
            let id = word.trim_matches(is_outside);
            Some((id, id.parse::<DocumentId>().ok()?))
        });
        let rest = named.as_ref().and_then(|(id, _)| text.split_once(id)).map_or(&*text, |(_, rest)| rest);
        let mark = |c| matches!(c, '"' | '\u{201c}'..='\u{201f}' | '\u{ab}' | '\u{bb}');
        let quote = match (rest.find(mark), rest.rfind(mark)) {
            (Some(begin), Some(end)) if begin < end => rest[begin..end].trim_start_matches(mark),
            _ => rest.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '(').trim_end_matches(mark),
        };
        let quote = quote.trim();
        let quote = if quote.is_empty() { NOTHING } else { prefix(quote, limits::QUOTE_BYTES) };
        let document_id =
            named.map_or_else(|| DocumentId::derive(&[b"no document", text.as_bytes()]), |(_, id)| id);
        Self { document_id, quote: quote.to_owned() }
    }

    fn line(&self, number: &str) -> String {
        format!("[^{number}]: {} \"{}\"", self.document_id, self.quote)
    }
}

/// A citation and the footnote that it comes from.
pub(super) struct Cited {
    pub(super) number: String,
    pub(super) citation: Citation,
}

/// The citations of a document, in the order of its sentences.
pub(super) fn citations(markdown: &str) -> Vec<Cited> {
    let read = Claims::of(markdown);
    let sources: BTreeMap<&str, Source> = read
        .footnotes
        .iter()
        .filter_map(|note| {
            let text = markdown.get(note.range.clone())?.split_once("]:")?.1;
            Some((note.number.as_str(), Source::of(text)))
        })
        .collect();
    let mut cited = Vec::new();
    for claim in &read.claims {
        let mut seen = BTreeSet::new();
        for number in claim.notes.iter().map(String::as_str).filter(|number| seen.insert(*number)) {
            if cited.len() == limits::CITATIONS {
                return cited;
            }
            let source = sources.get(number).cloned().unwrap_or_else(|| Source::of(""));
            let text = prefix(&claim.text, limits::CLAIM_BYTES);
            // A mark may stand alone.
            let text = if text.is_empty() { "(no words)" } else { text };
            let citation = unchecked(text.to_owned(), source.quote, source.document_id);
            cited.push(Cited { number: number.to_owned(), citation });
        }
    }
    cited
}

/// The document with other sources in these footnotes. Footnotes that are missing are added.
pub(super) fn with_sources(markdown: &str, sources: &BTreeMap<String, Source>) -> String {
    with_lines(markdown, |number, _| sources.get(number).map(|source| source.line(number)), sources.keys())
}

/// The document in which footnotes say which of its citations do not hold, by the number of the footnote.
pub(super) fn with_verdicts(markdown: &str, verdicts: &BTreeMap<String, Verdict>) -> String {
    let line = |number: &str, known: &str| {
        let remark = format!("{UNVERIFIED} {})", told(*verdicts.get(number)?));
        Some(match known {
            "" => format!("[^{number}]: {remark}"),
            known => format!("{} {remark}", known.split(UNVERIFIED).next().unwrap_or_default().trim_end()),
        })
    };
    with_lines(markdown, line, verdicts.keys())
}

/// What a verdict says to readers and to the model.
pub(super) const fn told(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Verified => "verified",
        Verdict::NoSource => "there is no document with this document_id",
        Verdict::NotFound => "the document does not contain these words",
        Verdict::TooShort => "the quote or the statement is too short to identify a passage",
        Verdict::NoClaim => "the text does not contain the statement",
    }
}

/// The document with the lines that `line` makes of footnotes, by their number and what they were. Those of `numbers`
/// that have no footnote are added at the end.
fn with_lines<'a>(
    markdown: &str,
    line: impl Fn(&str, &str) -> Option<String>,
    numbers: impl Iterator<Item = &'a String>,
) -> String {
    let read = Claims::of(markdown);
    let (mut text, mut at) = (String::with_capacity(markdown.len()), 0);
    for note in &read.footnotes {
        let Some(known) = markdown.get(note.range.clone()) else { continue };
        if let Some(new) = line(&note.number, known.trim_end()) {
            text.push_str(markdown.get(at..note.range.start).unwrap_or_default());
            text.push_str(&new);
            // The line breaks below it stay.
            at = note.range.start + known.trim_end().len();
        }
    }
    text.push_str(markdown.get(at..).unwrap_or_default());
    let known: BTreeSet<&str> = read.footnotes.iter().map(|note| note.number.as_str()).collect();
    let missing = numbers.filter(|number| !known.contains(number.as_str()));
    let missing: Vec<String> = missing.filter_map(|number| line(number, "")).collect();
    if !missing.is_empty() {
        text = format!("{}\n\n{}\n", text.trim_end(), missing.join("\n"));
    }
    if text.len() > limits::DOCUMENT_BYTES { markdown.to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b";

    #[test]
    fn footnotes_name_a_document_and_its_words() {
        let id: DocumentId = ID.parse().unwrap();
        for (text, quote) in [
            (format!("{ID} \"It has \"12\" arches.\""), "It has \"12\" arches."),
            (format!("`{ID}`: \u{201c}It has\n    12 arches.\u{201d} (p. 3)"), "It has 12 arches."),
            (format!("document_id {ID}, \u{ab}It has 12 arches.\u{bb}"), "It has 12 arches."),
            (format!("{ID}: It has 12 arches."), "It has 12 arches."),
            (format!("{ID} \"It has 12 arches.\" (unverified: \"x\")"), "It has 12 arches."),
            (ID.to_owned(), NOTHING),
        ] {
            assert_eq!(Source::of(&text), Source { document_id: id, quote: quote.to_owned() }, "{text}");
        }
        let unknown = Source::of("avon.md \"It has 12 arches.\"");
        assert_eq!(unknown.quote, "It has 12 arches.");
        assert_ne!(unknown.document_id, Source::of("exe.md \"It has 12 arches.\"").document_id);
    }

    #[test]
    fn every_mark_is_a_citation_and_a_missing_footnote_is_one_that_does_not_hold() {
        let text = format!("It has 12 arches.[^1][^2] It stands in Avon.[^1]\n\n[^1]: {ID} \"It has\"\n");
        let cited = citations(&text);
        let shown: Vec<_> = cited
            .iter()
            .map(|c| (c.number.as_str(), c.citation.claim.as_str(), c.citation.quote.as_str()))
            .collect();
        assert_eq!(
            shown,
            [
                ("1", "It has 12 arches.", "It has"),
                ("2", "It has 12 arches.", NOTHING),
                ("1", "It stands in Avon.", "It has"),
            ]
        );
    }

    #[test]
    fn footnotes_are_replaced_and_remarked_upon_in_place() {
        let text =
            format!("One is here.[^1] Two is there.[^2]\n\n[^1]: {ID} \"a\"\n[^3]: {ID} \"c\"\n\nEnd.\n");
        let sources = BTreeMap::from([
            ("1".to_owned(), Source { document_id: ID.parse().unwrap(), quote: "b".into() }),
            ("2".to_owned(), Source { document_id: ID.parse().unwrap(), quote: "d".into() }),
        ]);
        let other = with_sources(&text, &sources);
        assert_eq!(
            other,
            format!(
                "One is here.[^1] Two is there.[^2]\n\n[^1]: {ID} \"b\"\n[^3]: {ID} \"c\"\n\nEnd.\n\n[^2]: {ID} \"d\"\n"
            )
        );
        let verdicts = BTreeMap::from([("1".to_owned(), Verdict::NotFound)]);
        let told = with_verdicts(&other, &verdicts);
        assert!(told.contains(&format!(
            "[^1]: {ID} \"b\" (unverified: the document does not contain these words)\n"
        )));
        assert_eq!(with_verdicts(&told, &verdicts), told);
        assert_eq!(Source::of(&format!("{ID} \"b\" (unverified: x)")).quote, "b");
    }
}
