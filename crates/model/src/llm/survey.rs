//! What a planner is shown of the things it plans with: the documents of the context, what one search finds for its
//! task, and the tools of executors. A planner cannot call tools, so this is looked up for it. It is no call of a tool,
//! uses up no budget, and keeps to the rules of the projects. The passages that stood in the prompt are logged.

use serde::Serialize;
use serde_json::{Map, Value, json};
use tree_agent_contract::role::CallContext;
use tree_agent_contract::text::{one_line, prefix};
use tree_agent_contract::{DocumentId, limits};
use tree_agent_tools::{LIST_DOCUMENTS, SEARCH_DOCUMENTS, ToolError};

use super::material::line;
use crate::io::RoleIo;

/// Pages of the list of documents that are read.
const PAGES: usize = 4;
/// Lines of the folded list.
const LINES: usize = 60;
/// Hits of the search for a plan.
const HITS: usize = 8;
/// Hits of the search for a worker.
const PASSAGES: usize = 6;
/// Bytes of the query, which a search accepts.
const QUERY: usize = 1_000;
/// Bytes of a path or of the description of a tool.
const SHOWN: usize = 240;
/// Tools that are named.
const TOOLS: usize = 48;

/// The surroundings of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Survey {
    /// The documents in words, such as `at least 4000 documents`; empty if they could not be listed.
    pub(super) count: String,
    /// One line for each document or folder.
    pub(super) listing: Vec<String>,
    pub(super) hits: Vec<Hit>,
    /// Name and description of each tool.
    pub(super) tools: Vec<String>,
}

/// A passage that the search found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Hit {
    pub(super) id: DocumentId,
    #[serde(skip)]
    pub(super) offset: u64,
    #[serde(skip)]
    pub(super) size: u64,
    /// Its document, and the headings above it.
    pub(super) place: String,
    pub(super) passage: String,
}

impl Survey {
    /// Looks up what there is for the task of `call`. What cannot be looked up is left out: a plan is possible without.
    pub(super) async fn of(call: &CallContext, io: &RoleIo) -> Self {
        let (documents, hits, tools) = futures::join!(documents(io), hits(call, HITS, io), tools(io));
        let (count, listing) = documents.unwrap_or_else(|error| unknown("the documents", &error));
        Self {
            count,
            listing,
            hits: hits.unwrap_or_else(|error| unknown("a search", &error)),
            tools: tools.unwrap_or_else(|error| unknown("the tools", &error)),
        }
    }
}

/// The passages that a search finds for the task of `call`, with which its worker begins.
pub(super) async fn passages(call: &CallContext, io: &RoleIo) -> Vec<Hit> {
    hits(call, PASSAGES, io).await.unwrap_or_else(|error| unknown("a search", &error))
}

fn unknown<T: Default>(what: &str, error: &ToolError) -> T {
    // Projects may not offer them.
    if !matches!(error, ToolError::UnknownTool { .. } | ToolError::Denied { .. }) {
        tracing::warn!("the prompt does without {what}: {error}");
    }
    T::default()
}

async fn call(io: &RoleIo, name: &str, args: Value) -> Result<Value, ToolError> {
    let Value::Object(args) = args else { unreachable!("arguments are an object") };
    Ok(io.tools().call(name, &args).await?.value)
}

async fn documents(io: &RoleIo) -> Result<(String, Vec<String>), ToolError> {
    let (mut paths, mut token) = (Vec::new(), String::new());
    for _ in 0..PAGES {
        let mut args = Map::from_iter([("page_size".to_owned(), json!(limits::PAGE_MAX))]);
        if !token.is_empty() {
            args.insert("page_token".to_owned(), token.into());
        }
        let page = call(io, LIST_DOCUMENTS, Value::Object(args)).await?;
        for row in page["documents"].as_array().into_iter().flatten() {
            paths.push(one_line(row["path"].as_str().unwrap_or_default()));
        }
        token = page["nextPageToken"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            break;
        }
    }
    let count = match (paths.len(), token.is_empty()) {
        (1, true) => "1 document".to_owned(),
        (n, true) => format!("{n} documents"),
        (n, false) => format!("more than {n} documents"),
    };
    Ok((count, folded(paths, LINES)))
}

async fn hits(about: &CallContext, most: usize, io: &RoleIo) -> Result<Vec<Hit>, ToolError> {
    let query = if about.depth == 0 { &about.objective } else { &about.title };
    let query = prefix(query.trim(), QUERY);
    if query.is_empty() {
        return Ok(Vec::new());
    }
    let found = call(io, SEARCH_DOCUMENTS, json!({ "query": query, "limit": most })).await?;
    let hit = |row: &Value| {
        let headings = row["headings"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let place: Vec<&str> = row["path"].as_str().into_iter().chain(headings).collect();
        Some(Hit {
            id: row["documentId"].as_str()?.parse().ok()?,
            offset: row["offset"].as_u64().unwrap_or_default(),
            size: row["bytes"].as_u64()?,
            place: prefix(&one_line(&place.join(" › ")), SHOWN).to_owned(),
            passage: row["passage"].as_str()?.to_owned(),
        })
    };
    Ok(found["hits"].as_array().into_iter().flatten().filter_map(hit).collect())
}

async fn tools(io: &RoleIo) -> Result<Vec<String>, ToolError> {
    let specs = io.tools().specs().await?;
    let line = |name: &str, about: &str| {
        let about = line(about);
        // The first sentence says what a tool is for.
        let about = about.split_inclusive(". ").next().unwrap_or_default().trim_end();
        format!("{name}: {}", prefix(about, SHOWN))
    };
    Ok(specs.iter().take(TOOLS).map(|spec| line(spec.name(), spec.description())).collect())
}

/// Paths in at most `lines` lines: folders stay closed where they would take too many.
fn folded(mut paths: Vec<String>, lines: usize) -> Vec<String> {
    paths.sort_unstable();
    // Each line is a range of paths and the length of the folder that they share; 0 for single documents.
    let mut shown = level_of(&paths, 0..paths.len(), 0);
    if shown.len() > lines {
        let rest: usize = shown.drain(lines.saturating_sub(1)..).map(|(range, _)| range.len()).sum();
        let mut out = written(&paths, &shown);
        out.push(format!("… and {rest} more documents"));
        return out;
    }
    // The folder that takes the fewest lines more is opened first, so that as many as possible are open.
    loop {
        let cheapest = shown
            .iter()
            .enumerate()
            .filter(|(_, (_, folder))| *folder > 0)
            .map(|(at, (range, folder))| (level_of(&paths, range.clone(), *folder), at))
            .min_by_key(|(inside, at)| (inside.len(), *at));
        match cheapest {
            Some((inside, at)) if shown.len() - 1 + inside.len() <= lines => {
                drop(shown.splice(at..=at, inside))
            }
            _ => return written(&paths, &shown),
        }
    }
}

type Line = (std::ops::Range<usize>, usize);

/// The documents and folders directly below the folder of which `paths[range]` are the documents.
fn level_of(paths: &[String], range: std::ops::Range<usize>, folder: usize) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for at in range {
        let below = paths[at][folder..].find('/').map_or(0, |slash| folder + slash + 1);
        match lines.last_mut() {
            Some((last, length))
                if below > 0 && *length == below && paths[last.start][..below] == paths[at][..below] =>
            {
                last.end = at + 1;
            }
            _ => lines.push((at..at + 1, below)),
        }
    }
    lines
}

fn written(paths: &[String], lines: &[Line]) -> Vec<String> {
    let line = |(range, folder): &Line| match (range.len(), *folder) {
        (1, _) | (_, 0) => prefix(&paths[range.start], SHOWN).to_owned(),
        (n, folder) => format!("{} ({n} documents)", prefix(&paths[range.start][..folder], SHOWN)),
    };
    lines.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(paths: &[&str]) -> Vec<String> {
        paths.iter().map(|path| (*path).to_owned()).collect()
    }

    #[test]
    fn folders_open_as_far_as_there_are_lines() {
        let all = paths(&["b/x.md", "a/1.md", "a/2.md", "a/3.md", "b/c/y.md", "b/c/z.md", "top.md"]);
        assert_eq!(folded(all.clone(), 9).len(), 7, "every document");
        assert_eq!(folded(all.clone(), 4), ["a/ (3 documents)", "b/c/ (2 documents)", "b/x.md", "top.md"]);
        assert_eq!(folded(all.clone(), 3), ["a/ (3 documents)", "b/ (3 documents)", "top.md"]);
        assert_eq!(folded(all, 2), ["a/ (3 documents)", "… and 4 more documents"]);
        assert_eq!(folded(Vec::new(), 2), [""; 0]);
        assert_eq!(folded(paths(&["only/deep/one.md"]), 1), ["only/deep/one.md"]);
    }
}
