//! Sources that disagree: found among the sentences that were quoted or near for one answer, checked, and told in it.

use tree_agent_contract::language::Sentence;
use tree_agent_contract::role::{ArtifactDraft, RoleError};
use tree_agent_contract::text::{one_line, prefix};
use tree_agent_contract::{Citation, Disagreement, DocumentId, Side, limits};
use tree_agent_retrieval::{Said, Told, Visible, differ};
use unicode_segmentation::UnicodeSegmentation;

use crate::claims::without_marks;
use crate::footnotes::{self, Cited};
use crate::io::RoleIo;

/// Sentences that are compared with each other.
const COMPARED: usize = 240;
/// Letters of the shortest one.
const LETTERS: usize = 12;

/// A sentence of a source, and what it is about.
#[derive(Clone, Debug)]
pub(crate) struct Quoted {
    pub(crate) document_id: DocumentId,
    pub(crate) quote: String,
    pub(crate) said: Said,
    pub(crate) context: Said,
}

impl Quoted {
    /// The sentences of a passage below `headings`.
    pub(crate) fn all(document_id: DocumentId, passage: &str, headings: &str) -> Vec<Self> {
        let context = Said::of(headings);
        let lines =
            passage.split("\n\n").flat_map(|part| match part.trim_start().starts_with(['-', '*', '|']) {
                true => part.lines().map(str::to_owned).collect::<Vec<_>>(),
                false => vec![one_line(part)],
            });
        let lines: Vec<String> = lines.collect();
        let sentences = lines.iter().flat_map(|line| line.split_sentence_bounds());
        let sentences =
            sentences.map(|sentence| sentence.trim_matches(|c: char| c.is_whitespace() || c == '|'));
        sentences
            .filter(|sentence| sentence.chars().filter(|c| c.is_alphanumeric()).count() >= LETTERS)
            .map(|sentence| Self {
                document_id,
                quote: sentence.to_owned(),
                said: Said::of(sentence),
                context: context.clone(),
            })
            .collect()
    }

    /// What an artifact cites.
    pub(crate) fn cited(markdown: &str) -> Vec<Self> {
        let of = |note: Cited| {
            let Citation { document_id, quote, .. } = note.citation;
            Self { document_id, said: Said::of(&quote), quote, context: Said::default() }
        };
        footnotes::citations(markdown).into_iter().map(of).collect()
    }

    fn told(&self) -> Told<'_> {
        Told { said: &self.said, context: &self.context }
    }
}

/// The pairs of sentences of different documents that differ in one value.
pub(crate) fn among(quoted: impl Iterator<Item = Quoted>) -> Vec<Disagreement> {
    let quoted: Vec<Quoted> = quoted.take(COMPARED).collect();
    let mut found: Vec<Disagreement> = Vec::new();
    for (at, one) in quoted.iter().enumerate() {
        for other in quoted.iter().take(at).filter(|other| other.document_id != one.document_id) {
            let Some(values) = differ(other.told(), one.told()) else { continue };
            let is_known = |pair: &Disagreement| {
                let of = |quote: &str| pair.sides.iter().any(|side| side.quote == quote);
                of(&one.quote) || of(&other.quote)
            };
            if found.len() == limits::DISAGREEMENTS {
                return found;
            }
            if !found.iter().any(is_known) {
                let side = |(quoted, value): (&Quoted, String)| Side {
                    value,
                    quote: prefix(&quoted.quote, limits::QUOTE_BYTES).to_owned(),
                    document_id: quoted.document_id,
                    passage: None,
                    source_title: String::new(),
                    source_path: String::new(),
                    dated: String::new(),
                };
                found.push(Disagreement { sides: [other, one].into_iter().zip(values).map(side).collect() });
            }
        }
    }
    found
}

/// Pairs as a prompt shows them: which places disagree, and what each says.
pub(crate) fn lines(pairs: &[Disagreement]) -> Vec<String> {
    let side = |side: &Side| format!("document_id {} says “{}”", side.document_id, side.quote);
    pairs.iter().map(|pair| pair.sides.iter().map(side).collect::<Vec<_>>().join(", and ")).collect()
}

/// Looks the sentences up in their sources, and puts the newer one first. A pair of which one is not found is none.
///
/// # Errors
/// If a source cannot be read now.
pub(super) async fn settle(artifacts: &mut [ArtifactDraft], io: &RoleIo) -> Result<(), RoleError> {
    for artifact in artifacts {
        let mut settled = Vec::new();
        for mut pair in std::mem::take(&mut artifact.disagreements) {
            for side in &mut pair.sides {
                let Some(source) = super::read(io, side.document_id).await? else { continue };
                (_, side.passage) = Visible::of(&source.path, &source.body).judge(&side.quote);
                side.dated = dated(&source.path).or_else(|| dated(&source.title)).unwrap_or_default();
                (side.source_title, side.source_path) = (source.title, source.path);
            }
            let [a, b] = &pair.sides[..] else { continue };
            if is_newer(&b.dated, &a.dated) {
                pair.sides.reverse();
            }
            settled.extend(pair.sides.iter().all(|side| side.passage.is_some()).then_some(pair));
        }
        artifact.disagreements = settled;
    }
    Ok(())
}

/// Writes the pairs of a document into it, in the language of the run.
pub(super) fn tell(artifact: &mut ArtifactDraft, language: &str) {
    let Some(markdown) = artifact.document_markdown.as_ref().filter(|_| !artifact.disagreements.is_empty())
    else {
        return;
    };
    let mut section = format!("## {}\n\n", Sentence::Disagree.of(language, &[]));
    for Disagreement { sides } in &artifact.disagreements {
        let [a, b] = &sides[..] else { continue };
        let shown = |side: &Side| {
            let name = if side.source_path.is_empty() { &side.source_title } else { &side.source_path };
            let dated = if side.dated.is_empty() { String::new() } else { format!(", {}", side.dated) };
            format!("“{}” ({}{dated})", without_marks(&side.quote), one_line(name))
        };
        let why = if is_newer(&a.dated, &b.dated) { Sentence::NewerFirst } else { Sentence::NoneNewer };
        let why = why.of(language, &[]);
        section.push_str(&format!("- **{} / {}**: {} – {}. {why}\n", a.value, b.value, shown(a), shown(b)));
    }
    // Before the footnotes, which end a text.
    let (text, notes) = markdown.split_at(first_note(markdown));
    let whole = format!("{}\n\n{section}\n{}", text.trim_end(), notes.trim_start());
    if whole.len() <= limits::DOCUMENT_BYTES {
        artifact.document_markdown = Some(whole);
    }
}

/// The byte at which the footnotes at the end of a text begin.
fn first_note(markdown: &str) -> usize {
    let mut at = markdown.len();
    for block in markdown.rsplit("\n\n") {
        let start = at - block.len();
        if !block.trim().is_empty() && !block.trim_start().starts_with("[^") {
            return at;
        }
        at = start.saturating_sub(2);
    }
    at
}

/// True if it is known which of two days or years is later, and it is `one`. A year says nothing of a day in it.
fn is_newer(one: &str, other: &str) -> bool {
    !other.is_empty() && one > other && !one.starts_with(other)
}

/// The day or the year that a path or a title says, the latest one.
fn dated(text: &str) -> Option<String> {
    let is_day = |part: &&str| {
        let parts: Vec<&str> = part.split('-').collect();
        let is_number = |text: &str, digits| text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
        matches!(parts[..], [year, month, day] if is_number(year, 4) && is_number(month, 2) && is_number(day, 2)
            && ("01"..="12").contains(&month) && ("01"..="31").contains(&day))
    };
    let day = text.split(|c: char| !c.is_ascii_digit() && c != '-').map(|part| part.trim_matches('-'));
    let year = text.split(|c: char| !c.is_ascii_digit()).filter(|part| part.len() == 4);
    let year = year.filter(|part| ("1500".."2200").contains(part));
    day.filter(is_day).max().or_else(|| year.max()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_says_in_its_name_when_it_is_of() {
        for (name, expected) in [
            ("reports/annual-2019.md", Some("2019")),
            ("minutes/2024-05-31-board.md", Some("2024-05-31")),
            ("fy2023/budget.md", Some("2023")),
            ("drafts/2024-13-01.md", Some("2024")),
            ("port-8080.md", None),
            ("avon.md", None),
        ] {
            assert_eq!(dated(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn pairs_stand_before_the_footnotes() {
        let side = |value: &str, dated: &str| Side {
            value: value.into(),
            quote: format!("It has {value} arches."),
            document_id: DocumentId::derive(&[value.as_bytes()]),
            passage: None,
            source_title: String::new(),
            source_path: format!("{value}.md"),
            dated: dated.into(),
        };
        let told = |text: &str, dated: [&str; 2]| {
            let mut draft = ArtifactDraft::document("answer", "Answer", text);
            draft.disagreements =
                vec![Disagreement { sides: vec![side("12", dated[0]), side("14", dated[1])] }];
            tell(&mut draft, "en");
            draft.document_markdown.unwrap()
        };
        let line = "## Sources disagree\n\n- **12 / 14**: “It has 12 arches.” (12.md, 2024) – “It has 14 arches.” (14.md, \
                    2019). The newer source comes first.\n";
        assert_eq!(
            told("# A\n\nText.[^1]\n\n[^1]: x \"y\"\n[^2]: z\n", ["2024", "2019"]),
            format!("# A\n\nText.[^1]\n\n{line}\n[^1]: x \"y\"\n[^2]: z\n")
        );
        assert_eq!(told("# A\n", ["2024", "2019"]), format!("# A\n\n{line}\n"));
        for unknown in [["", "2019"], ["2019", ""], ["2024-05-31", "2024"], ["2024", "2024"]] {
            assert!(told("# A\n", unknown).contains("Nothing says which is newer."), "{unknown:?}");
        }
    }
}
