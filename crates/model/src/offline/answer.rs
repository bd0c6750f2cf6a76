//! The answer as people and as other nodes read it: quotations, each below its heading and with the number of its
//! source.

use std::collections::BTreeMap;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tree_agent_contract::language::Sentence;
use tree_agent_contract::role::{ArtifactDraft, ChildOutcome, ParentHintDraft, ResultDraft};
use tree_agent_contract::text::{count, prefix};
use tree_agent_contract::{
    Citation, Disagreement, DocumentId, HintType, ResultKind, SuccessAssessment, limits,
};
use tree_agent_retrieval::Quote as Words;

use super::read::Quote;
use super::{MODEL, short};
use crate::cite::disagree::{self, Quoted};

/// Label of the JSON artifact.
const QUOTES: &str = "quotes";
/// Bytes that the escapes of a quotation may take.
const ESCAPES: usize = 64;
/// Places that are named and not quoted.
pub(super) const NAMED: usize = 5;

/// What a node answers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    /// Who wrote it.
    #[serde(default)]
    pub(super) model: String,
    /// What was not found, as a phrase; then the quotations are only the nearest ones.
    pub(super) missing: Option<String>,
    /// Best first; part by part, if there are parts.
    pub(super) quotes: Vec<Quote>,
    /// The parts of a brief.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) parts: Vec<AnsweredPart>,
    /// Further places of the same sources.
    #[serde(default)]
    pub(super) named: Vec<String>,
    /// Why meaning did not count, as a sentence.
    pub(super) by_words: Option<String>,
    /// What could not be done, as sentences.
    #[serde(skip)]
    pub(super) gaps: Vec<String>,
    /// The documents that hold the quotations, if they are not the sources themselves.
    #[serde(skip)]
    pub(super) held: Vec<DocumentId>,
    /// The language of its own sentences.
    #[serde(skip)]
    pub(super) language: String,
}

/// A part of a brief, and what was found for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AnsweredPart {
    /// Its heading.
    pub(super) title: String,
    /// What was not found, as a phrase.
    pub(super) missing: Option<String>,
    /// How many of the quotations belong to it.
    pub(super) quotes: usize,
}

impl Answer {
    /// What a child of this model returned.
    pub(super) fn of(child: &ChildOutcome) -> Option<Self> {
        let payload = child.result.as_ref()?.json_payload.clone()?;
        let answer: Self = serde_json::from_value(Value::Object(payload)).ok()?;
        (answer.model == MODEL).then_some(answer)
    }

    /// Adds the answer to a part of a brief.
    pub(super) fn add(&mut self, title: String, part: Self) {
        let missing = part
            .missing
            .or_else(|| part.quotes.is_empty().then(|| Sentence::NothingQuoted.of(&self.language, &[])));
        self.parts.push(AnsweredPart { title, missing, quotes: part.quotes.len() });
        self.quotes.extend(part.quotes);
        let room = NAMED.saturating_sub(self.named.len());
        self.named.extend(part.named.into_iter().take(room));
        self.held.extend(part.held);
        self.gaps.extend(part.gaps);
        self.by_words = self.by_words.take().or(part.by_words);
        // Nothing is found if no part is.
        self.missing = match self.parts.iter().all(|part| part.missing.is_some()) {
            true => self.parts.first().and_then(|part| part.missing.clone()),
            false => None,
        };
    }

    /// The first line: what was not found.
    pub(super) fn not_found(&self) -> Option<String> {
        let nothing = || Sentence::NothingQuoted.of(&self.language, &[]);
        let missing = self.missing.clone().or_else(|| self.quotes.is_empty().then(nothing))?;
        Some(Sentence::NotFound.of(&self.language, &[&missing]))
    }

    /// In a sentence or two.
    pub(super) fn summary(&self) -> String {
        let mut paths: Vec<&str> = self.quotes.iter().map(|quote| quote.path.as_str()).collect();
        paths.sort_unstable();
        paths.dedup();
        let first =
            self.quotes.first().map(|quote| format!("“{}” ({})", short(&quote.text, 300), quote.source()));
        match (self.not_found(), first) {
            (Some(missing), Some(first)) => {
                format!("{missing} {} {first}", Sentence::Nearest.of(&self.language, &[]))
            }
            (Some(missing), None) => missing,
            (None, first) => format!(
                "{} from {}. The best: {}",
                count(self.quotes.len(), "passage"),
                count(paths.len(), "document"),
                first.unwrap_or_default()
            ),
        }
    }

    /// The document called `title`.
    pub(super) fn markdown(&self, title: &str) -> String {
        let say = |sentence: Sentence| sentence.of(&self.language, &[]);
        let mut text = format!("# {}\n\n", escaped(title));
        if let Some(missing) = self.not_found() {
            text.push_str(&format!("**{}**\n\n", escaped(&missing)));
        }
        let by_words = self.by_words.iter().map(|note| format!(" {note}")).collect::<String>();
        text.push_str(&format!("*{}{by_words}*\n", say(Sentence::ByRules)));
        if self.missing.is_some() && !self.quotes.is_empty() {
            text.push_str(&format!("\n{}\n", say(Sentence::Nearest)));
        }
        let mut sources = Sources::default();
        let mut quotes = self.quotes.iter();
        for part in &self.parts {
            text.push_str(&format!("\n## {}\n", escaped(&part.title)));
            if let Some(missing) = &part.missing {
                let missing = Sentence::NotFound.of(&self.language, &[missing]);
                text.push_str(&format!("\n**{}**\n", escaped(&missing)));
            }
            sources.quote(&mut text, quotes.by_ref().take(part.quotes));
        }
        sources.quote(&mut text, quotes);
        for (heading, lines) in [(Sentence::MorePlaces, &self.named), (Sentence::Gaps, &self.gaps)] {
            if !lines.is_empty() {
                text.push_str(&format!("\n## {}\n\n", say(heading)));
                lines.iter().for_each(|line| text.push_str(&format!("- {}\n", escaped(line))));
            }
        }
        text.push('\n');
        text.push_str(&sources.notes);
        text
    }

    /// The citations of the document.
    pub(super) fn citations(&self) -> Vec<Citation> {
        let of = |(at, quote): (usize, &Quote)| {
            let cut = prefix(&quote.text, limits::CLAIM_BYTES - ESCAPES);
            let cut = if cut.len() < quote.text.len() { cut.rsplit_once('\n')?.0 } else { cut };
            let claim = if quote.is_verbatim { cut.to_owned() } else { without_notes(cut) };
            let tells = Words::of(&claim).letters() >= limits::QUOTE_CHARS;
            // The document of a child says it as this one does.
            let (id, words) = match self.held.get(at) {
                Some(document) => (*document, claim.clone()),
                None => (quote.document_id, cut.to_owned()),
            };
            (tells && claim.len() <= limits::CLAIM_BYTES).then(|| Citation::unchecked(claim, words, id))
        };
        self.quotes.iter().enumerate().filter_map(of).take(limits::CITATIONS).collect()
    }

    /// What the quotations say differently of the same.
    fn disagreements(&self) -> Vec<Disagreement> {
        if self.missing.is_some() {
            return Vec::new();
        }
        let quoted = self.quotes.iter().filter(|quote| !quote.is_verbatim).flat_map(|quote| {
            Quoted::all(quote.document_id, &quote.text, &format!("{}\n{}", quote.headings, quote.table_head))
        });
        disagree::among(quoted)
    }

    /// The artifacts and the result of the node, whose document is called `label`. It is met if something was found
    /// and the work is `complete`.
    pub(super) fn returned(
        &self,
        label: &str,
        title: String,
        complete: bool,
    ) -> (Vec<ArtifactDraft>, ResultDraft) {
        let payload = Self { model: MODEL.to_owned(), ..self.clone() };
        let payload = match serde_json::to_value(payload) {
            Ok(Value::Object(payload)) => payload,
            _ => Map::new(),
        };
        let markdown = self.markdown(&title);
        let (citations, disagreements) = (self.citations(), self.disagreements());
        let document =
            ArtifactDraft { citations, disagreements, ..ArtifactDraft::document(label, title, markdown) };
        let json = ArtifactDraft::json(QUOTES, payload);
        let notes: Vec<String> = self.not_found().into_iter().chain(self.gaps.iter().cloned()).collect();
        let met = self.not_found().is_none() && complete;
        let notes = (!notes.is_empty()).then(|| short(&notes.join(" "), 4_000));
        let result = ResultDraft {
            success_assessment: Some(SuccessAssessment { met, notes }),
            parent_hint: ParentHintDraft {
                hint_type: HintType::ReadJson,
                artifact_labels: vec![QUOTES.to_owned(), label.to_owned()],
            },
            ..ResultDraft::new(ResultKind::Hybrid, self.summary(), label)
        };
        (vec![document, json], result)
    }
}

/// The sources of the quotations, each a footnote.
#[derive(Default)]
struct Sources {
    numbers: BTreeMap<String, usize>,
    notes: String,
    above: String,
}

impl Sources {
    /// Adds quotations to `text`, each below the place where it stands, with the mark of its source.
    fn quote<'a>(&mut self, text: &mut String, quotes: impl Iterator<Item = &'a Quote>) {
        self.above.clear();
        for quote in quotes {
            let source = escaped(&short(&quote.source(), 1_000));
            let next = self.numbers.len() + 1;
            let number = *self.numbers.entry(source.clone()).or_insert(next);
            if number == next {
                self.notes.push_str(&format!("[^{number}]: {source}\n"));
            }
            if source != self.above {
                text.push_str(&format!("\n### {source}\n"));
            }
            text.push_str(&format!("\n{}", quotation(quote, number)));
            self.above = source;
        }
    }
}

/// `text` on one line, of which nothing is a mark or a link. Underscores within words are no marks.
fn escaped(text: &str) -> String {
    let is_link = text.contains("](");
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let mut is_in_word = || {
            out.ends_with(char::is_alphanumeric) && chars.peek().is_some_and(|next| next.is_alphanumeric())
        };
        let is_mark = match c {
            '\\' | '`' | '*' | '<' => true,
            '_' => !is_in_word(),
            '[' => is_link || chars.peek() == Some(&'^'),
            _ => false,
        };
        out.extend(is_mark.then_some('\\'));
        out.push(c);
    }
    out
}

/// One quotation, as a block of its own with the mark of its source at its end.
fn quotation(quote: &Quote, number: usize) -> String {
    // To Markdown, each of these ends a line.
    let text = format!("{}{}", quote.table_head, quote.text).replace("\r\n", "\n").replace('\r', "\n");
    let text = match quote.is_verbatim {
        true => fenced(&text),
        false => without_notes(&whole(&flush(&text))),
    };
    let last = text.lines().next_back().unwrap_or_default().trim_start();
    // What only a line of its own can end must not share it with the mark.
    let is_apart = quote.is_verbatim
        || ["```", "~~~", "|", "#", "<"].iter().any(|mark| last.starts_with(mark))
        || last.trim_end().ends_with('|')
        || last.starts_with('[') && last.contains("]: ");
    let more = match quote.more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let text = format!("{text}{}[^{number}]{more}", if is_apart { "\n\n" } else { " " });
    let line = |line: &str| if line.is_empty() { ">\n".to_owned() } else { format!("> {line}\n") };
    text.lines().map(line).collect()
}

/// Marks of footnotes of a source are text here. In code they are no marks anyway.
fn without_notes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let code = Parser::new(text).into_offset_iter().filter_map(|(event, range)| {
        matches!(event, Event::Start(Tag::CodeBlock(_)) | Event::Code(_)).then_some(range)
    });
    let mut end = 0;
    for range in code {
        out.push_str(&text[end..range.start].replace("[^", "\\[^"));
        out.push_str(&text[range.clone()]);
        end = range.end;
    }
    out + &text[end..].replace("[^", "\\[^")
}

/// `text` as a block of code, which is shown as it stands.
fn fenced(text: &str) -> String {
    let ticks = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(ticks.max(2) + 1);
    format!("{fence}text\n{}\n{fence}", text.trim_end())
}

/// `text` with its further lines as little indented as its first one, which may begin within an item of a list.
fn flush(text: &str) -> String {
    let further = || text.lines().skip(1).filter(|line| !line.trim().is_empty());
    let indent =
        further().map(|line| line.len() - line.trim_start_matches(' ').len()).min().unwrap_or_default();
    let lines = text
        .lines()
        .enumerate()
        .map(|(at, line)| if at == 0 { line } else { line.get(indent..).unwrap_or("") });
    lines.collect::<Vec<_>>().join("\n")
}

/// `text` with both marks around its code, of which a part may have lost one.
fn whole(text: &str) -> String {
    let is_open = |text: &str| {
        let last = Parser::new(&format!("{text}\n\nend")).last().map(Event::into_static);
        matches!(last, Some(Event::End(TagEnd::CodeBlock)))
    };
    let lost_first = text.trim_end().ends_with("```").then(|| format!("```\n{text}"));
    let lost_last = ["```", "~~~"].map(|fence| format!("{text}\n{fence}"));
    let mut all = std::iter::once(text.to_owned()).chain(lost_first).chain(lost_last);
    all.find(|text| !is_open(text)).unwrap_or_else(|| fenced(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, is_verbatim: bool) -> String {
        let quote = Quote {
            rank: 1,
            path: "a.md".into(),
            headings: String::new(),
            offset: 0,
            text: text.into(),
            is_verbatim,
            table_head: String::new(),
            more: 0,
            document_id: DocumentId::derive(&[b"a"]),
        };
        quotation(&quote, 1)
    }

    #[test]
    fn quotations_keep_the_form_of_their_text() {
        for (text, is_verbatim, expected) in [
            ("One\ntwo.", false, "> One\n> two. [^1]\n"),
            ("- one\n- two", false, "> - one\n> - two [^1]\n"),
            ("Do:\n\n1. one", false, "> Do:\n>\n> 1. one [^1]\n"),
            ("See[^1] and [1] here.", false, "> See\\[^1] and [1] here. [^1]\n"),
            ("let x = 1; // [^1]", true, "> ```text\n> let x = 1; // [^1]\n> ```\n>\n> [^1]\n"),
            ("a ``` b", true, "> ````text\n> a ``` b\n> ````\n>\n> [^1]\n"),
            ("Use:\n\n```rust\nlet x = 1;", false, "> Use:\n>\n> ```rust\n> let x = 1;\n> ```\n>\n> [^1]\n"),
            ("let x = 1;\n```", false, "> ```\n> let x = 1;\n> ```\n>\n> [^1]\n"),
            ("~~~\n```\n~~~\nSee.[^2]", false, "> ~~~\n> ```\n> ~~~\n> See.\\[^2] [^1]\n"),
            ("One.\r\r# Two[^3]", true, "> ```text\n> One.\n>\n> # Two[^3]\n> ```\n>\n> [^1]\n"),
            ("| a |\n| --- |", false, "> | a |\n> | --- |\n>\n> [^1]\n"),
        ] {
            assert_eq!(shown(text, is_verbatim), expected);
        }
    }
}
