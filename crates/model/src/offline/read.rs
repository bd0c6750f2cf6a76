//! Reads the passages that a plan names, each document once.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::{Map, json};
use tree_agent_contract::language::Sentence;
use tree_agent_contract::role::RoleError;
use tree_agent_contract::{DocumentId, limits, text};
use tree_agent_retrieval::{Format, Kind, Piece, chunk, names};
use tree_agent_tools::{OUTPUT_BYTES, READ_DOCUMENT, ToolError};

use super::hits::{source, unable, words};
use super::question;
use super::step::{Pick, hash};
use crate::io::RoleIo;

/// Words of a list that is quoted whole, and of one with numbers, whose steps belong together.
const LIST_WORDS: usize = 120;
/// See [`LIST_WORDS`].
const STEPS_WORDS: usize = 300;

/// A passage as it is quoted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Quote {
    /// Its place among the passages of the whole question, from 1.
    pub(super) rank: u32,
    pub(super) path: String,
    /// The headings above it, with ` › ` between them.
    pub(super) headings: String,
    /// The byte at which it begins.
    pub(super) offset: usize,
    pub(super) text: String,
    /// It is shown as it stands: the source is no Markdown, or it is code without the marks that say so.
    #[serde(default)]
    pub(super) is_verbatim: bool,
    /// The first lines of the table that it is a part of, if it does not hold them.
    #[serde(default)]
    pub(super) table_head: String,
    /// Items of the list that follow.
    #[serde(default)]
    pub(super) more: usize,
    /// The document that it is quoted from.
    pub(super) document_id: DocumentId,
}

impl Quote {
    /// Where it stands, for people.
    pub(super) fn source(&self) -> String {
        source(&self.path, &self.headings)
    }

    /// Takes in `next`, which stands behind it in the same section: what is one text is one quotation. False if
    /// something stands between them, or it would be too long to be one statement.
    fn join(&mut self, next: &Self, Window { start, body, .. }: &Window) -> bool {
        let (begin, end) =
            (self.offset.saturating_sub(*start), (next.offset + next.text.len()).saturating_sub(*start));
        let between = body.get(begin + self.text.len()..next.offset.saturating_sub(*start));
        let is_next =
            self.headings == next.headings && between.is_some_and(|between| between.trim().is_empty());
        let is_alike =
            self.is_verbatim == next.is_verbatim && self.more == 0 && end - begin <= limits::CLAIM_BYTES;
        if is_next && is_alike {
            self.text = body[begin..end].to_owned();
            self.rank = self.rank.min(next.rank);
            self.more = next.more;
        }
        is_next && is_alike
    }
}

/// A part of a document, from a byte on.
struct Window {
    start: usize,
    body: String,
    pieces: Vec<Piece>,
}

/// What was read.
#[derive(Default)]
pub(super) struct Read {
    /// The passages, best first.
    pub(super) quotes: Vec<Quote>,
    /// What could not be read, as sentences.
    pub(super) gaps: Vec<String>,
    /// What sources of code define beside what is quoted, if the question asks for all: a sentence for each.
    pub(super) others: Vec<String>,
}

/// The passages that `picks` name for `question`.
pub(super) async fn quotes(io: &RoleIo, question: &str, picks: &[Pick]) -> Result<Read, RoleError> {
    let Read { mut quotes, mut gaps, mut others } = Read::default();
    let for_all = question::asks_for_all(question);
    let mut documents: Vec<(DocumentId, Vec<&Pick>)> = Vec::new();
    for pick in picks {
        match documents.iter_mut().find(|(id, _)| *id == pick.document_id) {
            Some((_, picks)) => picks.push(pick),
            None => documents.push((pick.document_id, vec![pick])),
        }
    }
    for (id, mut picks) in documents {
        picks.sort_by_key(|pick| pick.offset);
        let mut window: Option<Window> = None;
        let first = quotes.len();
        for pick in picks {
            if window.as_ref().is_none_or(|w| pick.offset + pick.bytes > w.start + w.body.len()) {
                let start = if pick.offset + pick.bytes <= OUTPUT_BYTES { 0 } else { pick.offset };
                match read(io, id, start, &pick.path).await {
                    Ok(body) => window = Some(Window { start, pieces: chunk(&pick.path, &body), body }),
                    Err(ToolError::NotFound(_)) => {
                        gaps.push(format!("{} was deleted before it could be read.", pick.path));
                        break;
                    }
                    // The place is no longer one in this document.
                    Err(ToolError::Argument { .. }) => {}
                    Err(error) => {
                        let gap = unable(&error, READ_DOCUMENT)?;
                        gaps.extend((!gaps.contains(&gap)).then_some(gap));
                        break;
                    }
                }
            }
            match window.as_ref().and_then(|window| quote(pick, window)) {
                Some(quote) => {
                    let before = if quotes.len() > first { quotes.last_mut() } else { None };
                    let joined =
                        before.zip(window.as_ref()).is_some_and(|(last, window)| last.join(&quote, window));
                    quotes.extend((!joined).then_some(quote));
                }
                None => gaps.push(format!("{} has changed since it was found.", pick.path)),
            }
        }
        if let Some(window) = window.as_ref().filter(|_| for_all) {
            others.push(self::others(io, &quotes[first..], window));
        }
    }
    quotes.sort_by_key(|quote| quote.rank);
    others.retain(|line| !line.is_empty());
    // Two passages of a list may have become the same one.
    let mut places: Vec<(DocumentId, Range<usize>)> = Vec::new();
    quotes.retain(|quote| {
        let own = quote.offset..quote.offset + quote.text.len();
        let is_new =
            !places.iter().any(|(id, r)| *id == quote.document_id && own.start < r.end && r.start < own.end);
        places.push((quote.document_id, own));
        is_new
    });
    gaps.dedup();
    Ok(Read { quotes, gaps, others })
}

/// The names that a source defines and that `quotes` do not show, as a sentence; empty if there are none. Of a longer
/// source than fits into a window nobody knows all.
fn others(io: &RoleIo, quotes: &[Quote], window: &Window) -> String {
    /// Bytes of names that are listed.
    const NAMES: usize = 2_000;
    let Some(Quote { path, .. }) =
        quotes.first().filter(|_| window.start == 0 && window.body.len() < OUTPUT_BYTES)
    else {
        return String::new();
    };
    let all = names(path, &window.body);
    let shown: Vec<String> = quotes.iter().flat_map(|quote| names(path, &quote.text)).collect();
    let others: Vec<&str> = all.iter().filter(|name| !shown.contains(name)).map(String::as_str).collect();
    if others.is_empty() {
        return String::new();
    }
    let (quoted, total) = ((all.len() - others.len()).to_string(), all.len().to_string());
    let others = text::truncate(&others.join(", "), NAMES).into_owned();
    format!("{path}: {}", Sentence::OfAll.of(io.language(), &[&quoted, &total, &others]))
}

async fn read(io: &RoleIo, id: DocumentId, start: usize, path: &str) -> Result<String, ToolError> {
    let mut args = Map::from_iter([("document_id".to_owned(), json!(id))]);
    if start > 0 {
        args.insert("offset".to_owned(), json!(start));
    }
    let answer = io.call_tool(READ_DOCUMENT, args, &format!("to quote {path}")).await?;
    Ok(answer["body"].as_str().unwrap_or_default().to_owned())
}

fn quote(pick: &Pick, Window { start, body, pieces }: &Window) -> Option<Quote> {
    let begin = pick.offset.checked_sub(*start)?;
    let mut range = begin..begin + pick.bytes;
    body.get(range.clone()).filter(|text| hash(text) == pick.hash)?;
    let mut more = 0;
    let mut is_verbatim = Format::of(&pick.path, "") != Format::Markdown;
    if let Some(at) = pieces.iter().position(|piece| piece.range == range) {
        let all = run(body, pieces, at);
        match pieces[at].kind {
            Kind::List => {
                let text = &body[all.clone()];
                let most = if is_numbered(text) { STEPS_WORDS } else { LIST_WORDS };
                if words(text) <= most {
                    range = all;
                } else {
                    more = body[range.end..all.end].lines().filter(|line| is_item(line)).count();
                }
            }
            Kind::Code => {
                let text = &body[range.clone()];
                let is_indented = text.lines().all(|line| line.starts_with("    ") || line.is_empty());
                is_verbatim |= !text.contains("```") && !text.contains("~~~") && !is_indented;
            }
            Kind::Table | Kind::Text | Kind::Quote => {}
        }
    }
    Some(Quote {
        rank: pick.rank,
        path: pick.path.clone(),
        headings: pick.headings.clone(),
        offset: start + range.start,
        text: body[range].to_owned(),
        is_verbatim,
        table_head: table_head(&pick.head),
        more,
        document_id: pick.document_id,
    })
}

/// The bytes of all pieces of the list, table or code that the piece at `at` belongs to: those of its kind around it
/// with nothing between them.
fn run(body: &str, pieces: &[Piece], at: usize) -> Range<usize> {
    let belongs = |a: &Piece, b: &Piece| {
        // A sentence that leads to the whole stands above its later pieces.
        let same =
            a.headings == b.headings || b.headings.split_last().is_some_and(|(_, above)| a.headings == above);
        a.kind == b.kind && same && body[a.range.end..b.range.start].trim().is_empty()
    };
    let first =
        (1..=at).rev().take_while(|&i| belongs(&pieces[i - 1], &pieces[i])).last().map_or(at, |i| i - 1);
    let last =
        (at + 1..pieces.len()).take_while(|&i| belongs(&pieces[i - 1], &pieces[i])).last().unwrap_or(at);
    pieces[first].range.start..pieces[last].range.end
}

/// A head of a table as Markdown, from its first line: with the line below it that makes it one.
fn table_head(first: &str) -> String {
    let cells =
        first.trim().trim_start_matches('|').trim_end_matches('|').replace("\\|", "").split('|').count();
    if first.is_empty() { String::new() } else { format!("{first}\n|{}\n", " --- |".repeat(cells)) }
}

/// Whether a line begins an item of a list that is not within another.
fn is_item(line: &str) -> bool {
    let line = line.strip_prefix(' ').unwrap_or(line);
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with(['-', '*', '+']) && line[1..].starts_with(' ')
        || number.len() < line.len() && [". ", ") "].iter().any(|mark| number.starts_with(mark))
}

fn is_numbered(text: &str) -> bool {
    text.lines()
        .find(|line| is_item(line))
        .is_some_and(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit()))
}
