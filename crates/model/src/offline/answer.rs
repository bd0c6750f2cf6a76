//! The answer as people and as other nodes read it: quotations, each below its heading and with the number of its
//! source.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tree_agent_contract::role::{ArtifactDraft, ChildOutcome, ParentHintDraft, ResultDraft};
use tree_agent_contract::text::{count, prefix};
use tree_agent_contract::{Citation, DocumentId, HintType, ResultKind, SuccessAssessment, limits};
use tree_agent_retrieval::Quote as Quoted;

use super::read::Quote;
use super::{LABEL, MODEL, short};

/// Label of the JSON artifact.
const QUOTES: &str = "quotes";
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
    /// Best first.
    pub(super) quotes: Vec<Quote>,
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
}

impl Answer {
    /// What a child of this model returned.
    pub(super) fn of(child: &ChildOutcome) -> Option<Self> {
        let payload = child.result.as_ref()?.json_payload.clone()?;
        let answer: Self = serde_json::from_value(Value::Object(payload)).ok()?;
        (answer.model == MODEL).then_some(answer)
    }

    /// The first line: what was not found.
    pub(super) fn not_found(&self) -> Option<String> {
        match &self.missing {
            Some(missing) => Some(format!("Not found: {missing}.")),
            None if self.quotes.is_empty() => Some("Not found: nothing could be quoted.".to_owned()),
            None => None,
        }
    }

    /// In a sentence or two.
    pub(super) fn summary(&self) -> String {
        let mut paths: Vec<&str> = self.quotes.iter().map(|quote| quote.path.as_str()).collect();
        paths.sort_unstable();
        paths.dedup();
        let first =
            self.quotes.first().map(|quote| format!("“{}” ({})", short(&quote.text, 300), quote.source()));
        match (self.not_found(), first) {
            (Some(missing), Some(first)) => format!("{missing} The nearest passage: {first}"),
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
        let mut text = format!("# {title}\n\n");
        if let Some(missing) = self.not_found() {
            text.push_str(&format!("**{missing}**\n\n"));
        }
        let by_words = self.by_words.iter().map(|note| format!(" {note}")).collect::<String>();
        text.push_str(&format!("*By the {LABEL}.{by_words}*\n"));
        if self.missing.is_some() && !self.quotes.is_empty() {
            text.push_str("\nThe nearest passages:\n");
        }
        let mut sources: Vec<String> = Vec::new();
        let mut above = String::new();
        for quote in &self.quotes {
            let source = short(&quote.source(), 1_000);
            let number = sources.iter().position(|known| *known == source).unwrap_or_else(|| {
                sources.push(source.clone());
                sources.len() - 1
            });
            if source != above {
                text.push_str(&format!("\n### {}\n\n", source.replace('<', "\\<")));
            }
            above = source;
            text.push_str(&quotation(quote, number + 1));
        }
        if !self.named.is_empty() {
            text.push_str("\n## More from the same sources\n\n");
            self.named.iter().for_each(|place| text.push_str(&format!("- {}\n", place.replace('<', "\\<"))));
        }
        if !self.gaps.is_empty() {
            text.push_str("\n## Gaps\n\n");
            self.gaps.iter().for_each(|gap| text.push_str(&format!("- {gap}\n")));
        }
        text.push_str("\n## Sources\n\n");
        if sources.is_empty() {
            text.push_str("None.\n");
        }
        (1..).zip(&sources).for_each(|(number, source)| text.push_str(&format!("{number}. {source}\n")));
        text
    }

    /// The citations of the document.
    pub(super) fn citations(&self) -> Vec<Citation> {
        let of = |(at, quote): (usize, &Quote)| {
            let (claim, id) = (prefix(&quote.text, limits::CLAIM_BYTES), self.held.get(at));
            let claim = if claim.len() < quote.text.len() { claim.rsplit_once('\n')?.0 } else { claim };
            let id = id.copied().unwrap_or(quote.document_id);
            let tells = Quoted::of(claim).letters() >= limits::QUOTE_CHARS;
            tells.then(|| Citation::unchecked(claim.to_owned(), claim.to_owned(), id))
        };
        self.quotes.iter().enumerate().filter_map(of).take(limits::CITATIONS).collect()
    }

    /// The artifacts and the result of the node, whose document is called `label`. It is met if something was found
    /// and the work is `complete`.
    pub(super) fn returned(
        &self,
        label: &str,
        title: &str,
        complete: bool,
    ) -> (Vec<ArtifactDraft>, ResultDraft) {
        let payload = Self { model: MODEL.to_owned(), ..self.clone() };
        let payload = match serde_json::to_value(payload) {
            Ok(Value::Object(payload)) => payload,
            _ => Map::new(),
        };
        let title = short(title, 512);
        let markdown = self.markdown(&title);
        let citations = self.citations();
        let document = ArtifactDraft { citations, ..ArtifactDraft::document(label, title, markdown) };
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

/// One quotation, as an item of a list.
fn quotation(quote: &Quote, number: usize) -> String {
    let text = if quote.is_code { quote.text.clone() } else { flush(&quote.text) };
    let body = fenced(&format!("{}{text}", quote.table_head), quote.is_code);
    let (first, last) =
        (body.lines().next().unwrap_or_default(), body.lines().next_back().unwrap_or_default());
    // What only a line of its own can begin or end must not share it with a quotation mark.
    let begins = ["- ", "* ", "+ ", "|", "```", "~~~", "#", "<", ">", "    "]
        .iter()
        .any(|mark| first.starts_with(mark))
        || first.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(". ");
    let ends = ["```", "~~~", "|", "#", "<", "    "].iter().any(|mark| last.trim_end().starts_with(mark))
        || last.trim_end().ends_with('|');
    let indented: Vec<String> =
        body.lines().map(|line| if line.is_empty() { String::new() } else { format!("  {line}") }).collect();
    let indented = indented.join("\n");
    let more = match quote.more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "- “{}{}{}” [{number}]{more}\n",
        if begins { "\n\n" } else { "" },
        if begins { indented.as_str() } else { indented.trim_start() },
        if ends { "\n\n  " } else { "" },
    )
}

/// `text` with its further lines as little indented as its first one, which begins within an item of a list.
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
fn fenced(text: &str, is_code: bool) -> String {
    const FENCE: &str = "```";
    let fences: Vec<&str> = text.lines().map(str::trim).filter(|line| line.starts_with(FENCE)).collect();
    let is_indented = text.lines().all(|line| line.starts_with("    ") || line.is_empty());
    match fences.as_slice() {
        [] if is_code && !is_indented => format!("{FENCE}\n{text}\n{FENCE}"),
        [first, ..] if fences.len() % 2 == 1 => match *first == FENCE && text.trim_end().ends_with(FENCE) {
            true => format!("{FENCE}\n{text}"),
            false => format!("{text}\n{FENCE}"),
        },
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, is_code: bool) -> String {
        let quote = Quote {
            rank: 1,
            path: "a.md".into(),
            headings: String::new(),
            offset: 0,
            text: text.into(),
            is_code,
            table_head: String::new(),
            more: 0,
            document_id: DocumentId::derive(&[b"a"]),
        };
        quotation(&quote, 1)
    }

    #[test]
    fn quotations_keep_the_form_of_their_text() {
        for (text, is_code, expected) in [
            ("One\ntwo.", false, "- “One\n  two.” [1]\n"),
            ("- one\n- two", false, "- “\n\n  - one\n  - two” [1]\n"),
            ("Do:\n\n1. one", false, "- “Do:\n\n  1. one” [1]\n"),
            ("let x = 1;", true, "- “\n\n  ```\n  let x = 1;\n  ```\n\n  ” [1]\n"),
            ("Use:\n\n```rust\nlet x = 1;", true, "- “Use:\n\n  ```rust\n  let x = 1;\n  ```\n\n  ” [1]\n"),
            ("let x = 1;\n```", true, "- “\n\n  ```\n  let x = 1;\n  ```\n\n  ” [1]\n"),
            ("```\nlet x = 1;\n```", true, "- “\n\n  ```\n  let x = 1;\n  ```\n\n  ” [1]\n"),
            ("| a |\n| --- |", false, "- “\n\n  | a |\n  | --- |\n\n  ” [1]\n"),
        ] {
            assert_eq!(shown(text, is_code), expected);
        }
    }
}
