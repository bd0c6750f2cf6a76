//! The documents that a call works on.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tree_agent_contract::role::{CallContext, RoleError, RoleErrorKind};
use tree_agent_contract::{DocumentId, limits};
use tree_agent_tools::{LIST_DOCUMENTS, READ_DOCUMENT, SEARCH_DOCUMENTS, ToolError};

use super::failed;
use super::markdown::pieces;
use super::names::key;
use super::rank::Passage;
use super::words::Term;
use crate::io::RoleIo;

/// A context with at most this many documents, and at most [`SMALL_BYTES`] of text, is read whole.
pub(super) const SMALL_DOCUMENTS: usize = 200;
/// See [`SMALL_DOCUMENTS`].
pub(super) const SMALL_BYTES: u64 = 4 * 1024 * 1024;
/// Documents that are read of a larger context.
pub(super) const CANDIDATES: usize = 40;
/// Terms that are searched for one by one in a larger context: all that a question has.
const SEARCHED_TERMS: usize = 16;
/// The same in a run whose tool calls are limited.
const SEARCHED_TERMS_LIMITED: usize = 6;
/// So many searches find enough together when each finds less; see [`SHARED_HITS`].
const SEARCHES: usize = 4;
/// Hits of one of several searches for single terms, which share [`CANDIDATES`].
const SHARED_HITS: usize = 16;
/// Documents that are read for a name that a passage brings up, for that name beside words of the question, and at most
/// for all such names of one round.
const NAMED_HITS: usize = 3;
/// See [`NAMED_HITS`].
const BESIDE_HITS: usize = 8;
/// See [`NAMED_HITS`].
const FOLLOWED: usize = 40;
/// Documents are counted up to this number. Beyond it, how rare a word is changes little.
pub(super) const COUNTED: usize = 5_000;
/// Documents of a page, and documents that are listed at the most.
const PAGE: usize = limits::PAGE_MAX;
/// See [`PAGE`].
const LISTED: usize = 20_000;

/// What was read of the context.
pub(super) struct Corpus {
    /// The documents, by path.
    pub(super) docs: Vec<Doc>,
    /// The context holds no document at all.
    pub(super) is_empty: bool,
    /// These are all documents of the context.
    pub(super) is_whole: bool,
    /// Documents of the context, counted up to [`COUNTED`].
    pub(super) documents: usize,
    /// Documents that hold a term, by its stems, as search counted them.
    pub(super) counted: BTreeMap<Vec<String>, u64>,
}

impl Corpus {
    /// All passages, by path and position.
    pub(super) fn passages(&self) -> Vec<Passage> {
        self.docs.iter().flat_map(Doc::passages).collect()
    }
}

/// A document with its body.
#[derive(Clone, Debug)]
pub(super) struct Doc {
    id: DocumentId,
    path: String,
    body: String,
}

impl Doc {
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn id(&self) -> DocumentId {
        self.id
    }

    pub(super) fn body(&self) -> &str {
        &self.body
    }

    /// Its passages, in order.
    pub(super) fn passages(&self) -> impl Iterator<Item = Passage> {
        pieces(&self.path, &self.body).into_iter().map(|piece| Passage {
            text: self.body[piece.range.clone()].to_owned(),
            path: self.path.clone(),
            heading: piece.heading,
            position: piece.range.start as u64,
            document_id: Some(self.id),
        })
    }
}

/// A document that is there to be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) path: String,
    id: DocumentId,
    bytes: u64,
}

/// Why a guided search is refused where documents cannot be listed.
const NOT_LISTED: &str = "a guided search with the offline model begins with the list of documents, but not all \
                          projects of the context offer list_documents; allow that tool, or use another strategy";

/// Every document whose path begins with `prefix`, by path; at most [`LISTED`] of them. The flag says that there are
/// more.
pub(super) async fn all(io: &RoleIo, prefix: &str, purpose: &str) -> Result<(Vec<Entry>, bool), RoleError> {
    let (mut found, mut token) = (Vec::new(), String::new());
    loop {
        let (entries, next) = page(io, prefix, &token, PAGE, purpose).await.map_err(|error| {
            if is_not_offered(&error) {
                RoleError::new(RoleErrorKind::Rejected, NOT_LISTED)
            } else {
                failed(error)
            }
        })?;
        found.extend(entries);
        match next {
            Some(next) if found.len() < LISTED => token = next,
            next => {
                found.sort();
                // Projects may hold the same path.
                return Ok((found, next.is_some()));
            }
        }
    }
}

/// Those of `entries`, from the first, that are few and small enough to be read.
pub(super) async fn read_first(io: &RoleIo, entries: &[Entry]) -> Result<Vec<Doc>, RoleError> {
    read_all(io, entries.iter().take(SMALL_DOCUMENTS).cloned().collect()).await
}

/// The documents in which `terms` may stand: all of a small context, what search finds in a larger one.
pub(super) async fn gather(io: &RoleIo, call: &CallContext, terms: &[Term]) -> Result<Corpus, RoleError> {
    let (entries, more) = list(io, "", "to see what there is to read").await?;
    // A run that may make few tool calls must not spend them all on one node.
    let quarter = call.budgets.max_tool_calls.map_or(u64::MAX, |most| most / 4);
    let affordable_reads = usize::try_from(quarter).unwrap_or(usize::MAX);
    // A project that does not list its documents may be a part of the context.
    let lists_none = entries.is_empty() && !more;
    let small = !lists_none
        && !more
        && entries.len() <= affordable_reads
        && entries.iter().map(|e| e.bytes).sum::<u64>() <= SMALL_BYTES;
    let documents = if more { number(io).await? } else { entries.len() };
    let mut counted = BTreeMap::new();
    let entries = match small {
        true => entries,
        false => {
            let limited = call.budgets.max_tool_calls.is_some();
            let alone = if limited { SEARCHED_TERMS_LIMITED } else { SEARCHED_TERMS };
            match search(io, terms, alone, &mut counted).await? {
                Some(found) => found,
                // Without a search, those that are listed first are better than none.
                None => entries.into_iter().take(affordable_reads).collect(),
            }
        }
    };
    // A list that could not be had any more says nothing.
    let is_empty = lists_none && entries.is_empty() && !io.ran_out_of_tool_calls();
    Ok(Corpus {
        docs: read_all(io, entries).await?,
        is_empty,
        is_whole: small || is_empty,
        documents,
        counted,
    })
}

/// Reads what search finds for `names`, each by itself and beside `words`, unless it was read before.
pub(super) async fn follow(
    io: &RoleIo,
    corpus: &mut Corpus,
    names: &[String],
    words: &[String],
) -> Result<(), RoleError> {
    let mut found: Vec<Entry> = Vec::new();
    for name in names {
        let Some(stems) = key(name).filter(|stems| !corpus.counted.contains_key(stems)) else { continue };
        let Some((hits, total)) = hits(io, name, NAMED_HITS).await? else { break };
        // A search that cannot count its documents says nothing of how rare the name is.
        if let Some(total) = total {
            corpus.counted.insert(stems, total);
        }
        let few = total.is_some_and(|total| total <= NAMED_HITS as u64);
        let mut answers = vec![hits];
        // A search without a document that holds all words answers with those that hold some, the rarest first.
        if !few && !words.is_empty() {
            let beside = self::hits(io, &format!("{name} {}", words.join(" ")), BESIDE_HITS).await?;
            answers.extend(beside.map(|(hits, _)| hits));
        }
        let known = |entry: &Entry| corpus.docs.iter().any(|doc| doc.id == entry.id);
        for entry in answers.into_iter().flatten() {
            if found.len() < FOLLOWED && !found.contains(&entry) && !known(&entry) {
                found.push(entry);
            }
        }
    }
    corpus.docs.extend(read_all(io, found).await?);
    corpus.docs.sort_by(|a, b| (&a.path, &a.body).cmp(&(&b.path, &b.body)));
    Ok(())
}

/// How many documents the context holds, counted up to [`COUNTED`].
async fn number(io: &RoleIo) -> Result<usize, RoleError> {
    let (mut counted, mut token) = (0, String::new());
    while counted < COUNTED {
        let (entries, next) = match page(io, "", &token, PAGE, "to count the documents").await {
            // They cannot be listed, and so not be counted.
            Err(error) if is_not_offered(&error) => return Ok(COUNTED),
            page => page.map_err(failed)?,
        };
        counted += entries.len();
        match next {
            Some(next) => token = next,
            None => break,
        }
    }
    Ok(counted)
}

/// What search finds, and how many documents match if it says so. None if no search can be made any more.
async fn hits(
    io: &RoleIo,
    query: &str,
    limit: usize,
) -> Result<Option<(Vec<Entry>, Option<u64>)>, RoleError> {
    let args = Map::from_iter([("query".to_owned(), json!(query)), ("limit".to_owned(), json!(limit))]);
    match io.call_tool(SEARCH_DOCUMENTS, args, &format!("to find documents about {query}")).await {
        Ok(hits) => Ok(Some((entries(&hits["hits"]), hits["total"].as_u64()))),
        Err(error) if cannot_search(&error) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Whether no search can be made any more: the tool calls are used up, or a project of the context does not offer it.
const fn cannot_search(error: &ToolError) -> bool {
    matches!(error, ToolError::Budget(_)) || is_not_offered(error)
}

/// Whether a project of the context does not offer the tool.
const fn is_not_offered(error: &ToolError) -> bool {
    matches!(error, ToolError::UnknownTool { .. } | ToolError::Denied { .. })
}

/// The documents at `paths`, which may stand in several projects each. One that is gone is left out. One of a project
/// that does not list its documents is found as it was found before: by a search for `terms`.
pub(super) async fn named(io: &RoleIo, paths: &[String], terms: &[Term]) -> Result<Vec<Doc>, RoleError> {
    let mut entries = Vec::new();
    let (mut listed, mut more) = (Vec::new(), true);
    if paths.len() > 1 {
        (listed, more) = list(io, "", "to find the documents that the step names").await?;
    }
    for path in paths {
        let found = match more {
            true => list(io, path, &format!("to find {path}")).await?.0,
            false => listed.clone(),
        };
        entries.extend(found.into_iter().filter(|e| e.path == *path));
    }
    let is_known = |path: &&String| entries.iter().any(|entry: &Entry| entry.path == **path);
    let unknown: Vec<&String> = paths.iter().filter(|path| !is_known(path)).collect();
    if !unknown.is_empty() {
        let found = search(io, terms, SEARCHED_TERMS, &mut BTreeMap::new()).await?;
        entries.extend(found.into_iter().flatten().filter(|entry| unknown.contains(&&entry.path)));
    }
    entries.sort();
    entries.dedup();
    read_all(io, entries).await
}

/// The first documents of the list, and whether there are more, which may only be found by a search.
async fn list(io: &RoleIo, prefix: &str, purpose: &str) -> Result<(Vec<Entry>, bool), RoleError> {
    match page(io, prefix, "", SMALL_DOCUMENTS, purpose).await {
        Ok((entries, next)) => Ok((entries, next.is_some())),
        // The projects of the context do not list their documents.
        Err(error) if is_not_offered(&error) => Ok((Vec::new(), true)),
        Err(error) => Err(failed(error)),
    }
}

/// A page of the list of documents, and the token of the next.
async fn page(
    io: &RoleIo,
    prefix: &str,
    token: &str,
    size: usize,
    purpose: &str,
) -> Result<(Vec<Entry>, Option<String>), ToolError> {
    let mut args = Map::from_iter([("page_size".to_owned(), size.into())]);
    for (name, value) in [("path_prefix", prefix), ("page_token", token)] {
        if !value.is_empty() {
            args.insert(name.to_owned(), value.into());
        }
    }
    let page = match io.call_tool(LIST_DOCUMENTS, args, purpose).await {
        Ok(page) => page,
        Err(ToolError::Budget(_)) => return Ok((Vec::new(), None)),
        Err(error) => return Err(error),
    };
    let next = page["nextPageToken"].as_str().filter(|token| !token.is_empty()).map(str::to_owned);
    Ok((entries(&page["documents"]), next))
}

/// The documents that search finds for the terms together and for each alone, the best of every query first: a term
/// that few documents share with the others must be read about as well. None if no search can be made any more.
async fn search(
    io: &RoleIo,
    terms: &[Term],
    alone: usize,
    counted: &mut BTreeMap<Vec<String>, u64>,
) -> Result<Option<Vec<Entry>>, RoleError> {
    let together = terms.iter().map(|t| t.shown.as_str()).collect::<Vec<_>>().join(" ");
    let alone = terms.iter().take(alone).map(|t| (t.shown.clone(), Some(&t.stems)));
    let alone = alone.filter(|(t, _)| terms.len() == 1 || *t != together);
    let all = (terms.len() > 1).then(|| (together.clone(), None));
    let mut answers: Vec<Vec<Entry>> = Vec::new();
    let several = alone.clone().count() >= SEARCHES;
    for (query, stems) in all.into_iter().chain(alone) {
        let limit = if several && stems.is_some() { SHARED_HITS } else { CANDIDATES };
        let Some((entries, total)) = hits(io, &query, limit).await? else {
            if answers.is_empty() {
                return Ok(None);
            }
            break;
        };
        if let Some((stems, total)) = stems.zip(total) {
            counted.insert(stems.clone(), total);
        }
        answers.push(entries);
    }
    let mut found: Vec<Entry> = Vec::new();
    for rank in 0..CANDIDATES {
        for entry in answers.iter().filter_map(|answer| answer.get(rank)) {
            if found.len() < CANDIDATES && !found.contains(entry) {
                found.push(entry.clone());
            }
        }
    }
    Ok(Some(found))
}

fn entries(rows: &Value) -> Vec<Entry> {
    let rows = rows.as_array().map(Vec::as_slice).unwrap_or_default();
    rows.iter()
        .filter_map(|row| {
            Some(Entry {
                path: row["path"].as_str()?.to_owned(),
                id: row["documentId"].as_str()?.parse().ok()?,
                bytes: row["bytes"].as_u64()?,
            })
        })
        .collect()
}

async fn read_all(io: &RoleIo, mut entries: Vec<Entry>) -> Result<Vec<Doc>, RoleError> {
    entries.sort();
    let mut docs = Vec::with_capacity(entries.len());
    let mut bytes = 0;
    for entry in entries {
        bytes += entry.bytes;
        if bytes > SMALL_BYTES {
            break;
        }
        match read(io, entry.id, &format!("to read {}", entry.path)).await {
            Ok(body) => docs.push(Doc { id: entry.id, path: entry.path, body }),
            // Deleted since it was listed.
            Err(ToolError::NotFound(_)) => {}
            Err(error) if is_not_offered(&error) => {}
            // What was read is worth more than nothing.
            Err(ToolError::Budget(_)) => break,
            Err(error) => return Err(failed(error)),
        }
    }
    // Projects may hold the same path; their ids differ between stores, what they say does not.
    docs.sort_by(|a, b| (&a.path, &a.body).cmp(&(&b.path, &b.body)));
    Ok(docs)
}

/// A whole document, in as many pieces as it takes.
pub(super) async fn read(io: &RoleIo, id: DocumentId, purpose: &str) -> Result<String, ToolError> {
    let mut body = String::new();
    loop {
        let mut args = Map::from_iter([("document_id".to_owned(), json!(id))]);
        if !body.is_empty() {
            args.insert("offset".to_owned(), body.len().into());
        }
        let piece = io.call_tool(READ_DOCUMENT, args, purpose).await?;
        body.push_str(piece["body"].as_str().unwrap_or_default());
        match piece["nextOffset"].as_u64() {
            Some(next) if next == body.len() as u64 => {}
            _ => return Ok(body),
        }
    }
}
