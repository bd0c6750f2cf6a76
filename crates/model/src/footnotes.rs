//! Footnotes are how language models cite in a document: a mark such as `[^1]` behind a sentence, and below the text a
//! line `[^1]: DOCUMENT_ID "the words"`. Models know this form, and people can read it.

use std::collections::{BTreeMap, BTreeSet};

use pulldown_cmark::{Event, Options, Parser, Tag};
use tree_agent_contract::language::{LANGUAGES, Sentence, translate};
use tree_agent_contract::text::{one_line, prefix};
use tree_agent_contract::{Citation, DocumentId, Verdict, limits};

use crate::claims::Claims;

/// The highest number of a footnote.
const HIGHEST: usize = 9_999;
/// What a citation quotes if its footnote is missing or says nothing. It is in no document.
const NOTHING: &str = "(no words are quoted)";

/// The source that a footnote names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) document_id: DocumentId,
    pub(crate) quote: String,
}

impl Source {
    /// A source with a quote on one line.
    pub(crate) fn new(document_id: DocumentId, quote: &str) -> Self {
        Self { document_id, quote: quote.to_owned() }
    }

    /// Reads the text of a footnote. What names no document gets no invented one.
    pub(crate) fn of(text: &str) -> Self {
        let text = one_line(text);
        let text = without_remark(&text);
        let is_outside = |c: char| !c.is_ascii_alphanumeric() && c != '-';
        let named = text.split(char::is_whitespace).find_map(|word| {
            let id = word.trim_matches(is_outside);
            Some((id, id.parse::<DocumentId>().ok()?))
        });
        let rest = named.as_ref().and_then(|(id, _)| text.split_once(id)).map_or(text, |(_, rest)| rest);
        let mark = |c| matches!(c, '"' | '\u{201c}'..='\u{201f}' | '\u{ab}' | '\u{bb}');
        let quote = match (rest.find(mark), rest.rfind(mark)) {
            (Some(begin), Some(end)) if begin < end => rest[begin..end].trim_start_matches(mark),
            _ => rest.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '(').trim_end_matches(mark),
        };
        let quote = quote.trim();
        let quote = if quote.is_empty() { NOTHING } else { whole_words(quote, limits::QUOTE_BYTES) };
        let document_id = named.map_or(DocumentId::NONE, |(_, id)| id);
        Self { document_id, quote: quote.to_owned() }
    }

    fn line(&self, number: &str) -> String {
        match self.document_id {
            DocumentId::NONE => format!("[^{number}]: \"{}\"", self.quote),
            id => format!("[^{number}]: {id} \"{}\"", self.quote),
        }
    }
}

/// The text of a footnote without what `with_verdicts` has added at its end. Nothing else is a remark: the words that
/// are quoted may look like one.
fn without_remark(text: &str) -> &str {
    let text = text.trim_end();
    let reasons = Verdict::ALL.iter().map(|verdict| verdict.reason()).chain([Sentence::NoneNamed.english()]);
    let languages = LANGUAGES.iter().map(|language| language.code);
    let mut remarks = reasons.flat_map(|why| languages.clone().map(move |language| remark(why, language)));
    remarks.find_map(|remark| text.strip_suffix(&remark)).map_or(text, str::trim_end)
}

/// True if a check has said that the footnote does not hold.
fn is_remarked_upon(text: &str) -> bool {
    let begins = |of: Sentence, code| of.of(code, &[""]).trim_end_matches(')').trim_end().to_owned();
    let remarks = LANGUAGES.iter().flat_map(|language| {
        [Sentence::Unverified, Sentence::DoubtedNote].map(|remark| begins(remark, language.code))
    });
    remarks.into_iter().any(|remark| text.contains(&remark))
}

/// `why`, which is a sentence of the table, in the language of the run.
fn remark(why: &str, language: &str) -> String {
    Sentence::Unverified.of(language, &[translate(language, why)])
}

/// The beginning of `text` in at most `max` bytes. It ends behind a word where it can: half a word is found nowhere.
pub(crate) fn whole_words(text: &str, max: usize) -> &str {
    let cut = prefix(text, max);
    if text[cut.len()..].chars().next().is_none_or(char::is_whitespace) {
        return cut.trim_end();
    }
    // A text with hardly any white space is of a script that does without it.
    cut.rfind(char::is_whitespace).filter(|end| *end >= max / 2).map_or(cut, |end| cut[..end].trim_end())
}

/// A citation and the footnote that it comes from.
pub(crate) struct Cited {
    pub(crate) number: String,
    pub(crate) citation: Citation,
    /// Its footnote names a document, and no check has remarked on it.
    pub(crate) holds: bool,
}

/// The citations of a document, in the order of its sentences.
pub(crate) fn citations(markdown: &str) -> Vec<Cited> {
    let read = Claims::of(markdown);
    let mut sources: BTreeMap<&str, (Source, bool)> = BTreeMap::new();
    for note in &read.footnotes {
        let text = markdown.get(note.range.clone()).and_then(|note| note.split_once("]:"));
        if let Some((_, text)) = text {
            // Readers are shown the first of several footnotes with one number.
            sources.entry(&note.number).or_insert_with(|| (Source::of(text), !is_remarked_upon(text)));
        }
    }
    let mut cited = Vec::new();
    for claim in &read.claims {
        let mut seen = BTreeSet::new();
        for number in claim.notes.iter().map(String::as_str).filter(|number| seen.insert(*number)) {
            if cited.len() == limits::CITATIONS {
                return cited;
            }
            let (source, is_unremarked) =
                sources.get(number).cloned().unwrap_or_else(|| (Source::of(""), false));
            let text = whole_words(&claim.text, limits::CLAIM_BYTES);
            // A mark may stand alone.
            let text = if text.is_empty() { "(no words)" } else { text };
            let citation = Citation::unchecked(text.to_owned(), source.quote, source.document_id);
            let holds = is_unremarked && citation.document_id != DocumentId::NONE;
            cited.push(Cited { number: number.to_owned(), citation, holds });
        }
    }
    cited
}

/// The document without footnotes that no mark refers to, which small models write.
pub(crate) fn without_idle(markdown: &str) -> String {
    let events = || Parser::new_ext(markdown, Options::ENABLE_FOOTNOTES).into_offset_iter();
    let marks: BTreeSet<String> = events()
        .filter_map(|(event, _)| match event {
            Event::FootnoteReference(label) => Some(label.to_string()),
            _ => None,
        })
        .collect();
    let (mut text, mut at) = (String::with_capacity(markdown.len()), 0);
    for (event, range) in events() {
        if let Event::Start(Tag::FootnoteDefinition(label)) = event
            && !marks.contains(&*label)
            && range.start >= at
        {
            text.push_str(&markdown[at..range.start]);
            at = range.end;
        }
    }
    text.push_str(&markdown[at..]);
    text
}

/// The document with other sources in these footnotes. Footnotes that are missing are added.
pub(crate) fn with_sources(markdown: &str, sources: &BTreeMap<String, Source>) -> String {
    with_lines(markdown, |number, _| sources.get(number).map(|source| source.line(number)), sources.keys())
}

/// The document with more footnotes behind its statements. `added`: the byte of the text at which the mark stands, in
/// order, and the source. None if it would be too long.
pub(crate) fn with_more(markdown: &str, added: &[(usize, Source)], language: &str) -> Option<String> {
    let mut next = Claims::of(markdown).highest_note();
    let (mut text, mut at) = (String::with_capacity(markdown.len()), 0);
    let mut lines: Vec<(&Source, String)> = Vec::new();
    for (end, source) in added {
        let number = match lines.iter().find(|(known, _)| *known == source) {
            Some((_, number)) => number.clone(),
            None => {
                next = Some(next + 1).filter(|next| *next <= HIGHEST)?;
                lines.push((source, next.to_string()));
                next.to_string()
            }
        };
        text.push_str(markdown.get(at..*end)?);
        text.push_str(&format!("[^{number}]"));
        at = *end;
    }
    text.push_str(markdown.get(at..)?);
    let found = Sentence::FoundAfterwards.of(language, &[]);
    let lines: Vec<String> =
        lines.iter().map(|(source, number)| format!("{} {found}", source.line(number))).collect();
    let text = format!("{}\n\n{}\n", text.trim_end(), lines.join("\n"));
    (text.len() <= limits::DOCUMENT_BYTES).then_some(text)
}

/// The document in which footnotes say what else their quotes say. `doubts`: by the number of the footnote.
pub(crate) fn with_doubts(markdown: &str, doubts: &BTreeMap<String, String>, language: &str) -> String {
    let line = |number: &str, known: &str| {
        let doubt = Sentence::DoubtedNote.of(language, &[doubts.get(number)?]);
        Some(if known.ends_with(&doubt) { known.to_owned() } else { format!("{known} {doubt}") })
    };
    with_lines(markdown, line, std::iter::empty())
}

/// The document in which footnotes say why none of their citations holds, in the language of the run. `verdicts`: the
/// reason, by the number of the footnote.
pub(crate) fn with_verdicts(
    markdown: &str,
    verdicts: &BTreeMap<String, &'static str>,
    language: &str,
) -> String {
    let line = |number: &str, known: &str| {
        let remark = remark(verdicts.get(number)?, language);
        Some(match known {
            "" => format!("[^{number}]: {remark}"),
            known => format!("{} {remark}", without_remark(known)),
        })
    };
    with_lines(markdown, line, verdicts.keys())
}

/// The document with the lines that `line` makes of footnotes, by their number and what they were. Those of `numbers`
/// that have no footnote are added at the end. Of several footnotes with one number the first one counts.
fn with_lines<'a>(
    markdown: &str,
    line: impl Fn(&str, &str) -> Option<String>,
    numbers: impl Iterator<Item = &'a String>,
) -> String {
    let read = Claims::of(markdown);
    let (mut text, mut at) = (String::with_capacity(markdown.len()), 0);
    let mut known_numbers = BTreeSet::new();
    for note in &read.footnotes {
        let is_first = known_numbers.insert(note.number.as_str());
        let Some(known) = markdown.get(note.range.clone()).filter(|_| is_first) else { continue };
        if let Some(new) = line(&note.number, known.trim_end()) {
            text.push_str(markdown.get(at..note.range.start).unwrap_or_default());
            text.push_str(&new);
            // The line breaks below it stay.
            at = note.range.start + known.trim_end().len();
        }
    }
    text.push_str(markdown.get(at..).unwrap_or_default());
    let missing = numbers.filter(|number| !known_numbers.contains(number.as_str()));
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
            (
                format!("{ID} \"It has 12 arches.\" (unverified: the document does not contain these words)"),
                "It has 12 arches.",
            ),
            (format!("{ID}: It has 12 arches. (unverified: verified)"), "It has 12 arches."),
            (format!("(unverified: verified) {ID} \"It has 12 arches.\""), "It has 12 arches."),
            // Words of the quote.
            (format!("{ID} \"It has (unverified: 12) arches.\""), "It has (unverified: 12) arches."),
            (format!("{ID} \"12 arches (unverified: verified)\""), "12 arches (unverified: verified)"),
            (ID.to_owned(), NOTHING),
        ] {
            assert_eq!(Source::of(&text), Source { document_id: id, quote: quote.to_owned() }, "{text}");
        }
        let unknown = Source::of("avon.md \"It has 12 arches.\"");
        assert_eq!(unknown.quote, "It has 12 arches.");
        assert_eq!(unknown.document_id, DocumentId::NONE);
        assert_eq!(unknown.line("1"), "[^1]: \"It has 12 arches.\"");
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
    fn the_first_of_several_footnotes_with_one_number_counts() {
        let text = format!("It has 12 arches.[^1]\n\n[^1]: {ID} \"first\"\n[^1]: {ID} \"second\"\n");
        let quotes: Vec<_> = citations(&text).into_iter().map(|c| c.citation.quote).collect();
        assert_eq!(quotes, ["first"]);
        let verdicts = BTreeMap::from([("1".to_owned(), Verdict::NoSource.reason())]);
        let told = with_verdicts(&text, &verdicts, "en");
        assert!(told.contains("\"first\" (unverified: "), "{told}");
        assert!(told.ends_with(&format!("[^1]: {ID} \"second\"\n")), "{told}");
        let source = Source { document_id: ID.parse().unwrap(), quote: "third".into() };
        let other = with_sources(&text, &BTreeMap::from([("1".to_owned(), source)]));
        assert_eq!(other, text.replace("first", "third"));
    }

    #[test]
    fn long_claims_and_quotes_end_behind_a_word() {
        let long = "arches ".repeat(1_000);
        let text = format!("It has {long}end.[^1]\n\n[^1]: {ID} \"{long}\"\n");
        let citation = &citations(&text)[0].citation;
        assert!(citation.claim.ends_with(" arches") && citation.claim.len() > limits::CLAIM_BYTES - 8);
        assert!(citation.quote.ends_with(" arches") && citation.quote.len() > limits::QUOTE_BYTES - 8);
        assert!(citation.claim.len() <= limits::CLAIM_BYTES && citation.quote.len() <= limits::QUOTE_BYTES);
        assert_eq!(whole_words("one two", 3), "one");
        assert_eq!(whole_words("one two", 4), "one");
        assert_eq!(whole_words("one two", 6), "one");
        assert_eq!(whole_words("one two", 7), "one two");
        assert_eq!(whole_words("a 潮は一日に二回変わる", 10), "a 潮は", "there is hardly any white space");
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
        let verdicts = BTreeMap::from([("1".to_owned(), Verdict::NotFound.reason())]);
        let told = with_verdicts(&other, &verdicts, "fr");
        assert!(told.contains(&format!(
            "[^1]: {ID} \"b\" (unverified: the document does not contain these words)\n"
        )));
        assert_eq!(with_verdicts(&told, &verdicts, "en"), told);
        let bare = format!("One is here.[^1]\n\n[^1]: {ID}: no (unverified: mark)\n");
        let german = with_verdicts(&other, &verdicts, "de");
        let remark = "(nicht belegt: das Dokument enthält diese Worte nicht)";
        assert!(german.contains(&format!("[^1]: {ID} \"b\" {remark}\n")), "{german}");
        assert_eq!(with_verdicts(&german, &verdicts, "de"), german);
        assert_eq!(with_verdicts(&german, &verdicts, "en"), told, "both remarks are known");
        assert_eq!(Source::of(&format!("{ID} \"b\" {remark}")).quote, "b");
        let told = with_verdicts(&bare, &verdicts, "");
        assert!(told.contains("no (unverified: mark) (unverified: the document does not"), "{told}");
        assert_eq!(with_verdicts(&told, &verdicts, "en"), told);
    }
}
