//! The built-in tools over documents and projects.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use tree_agent_contract::text::{count, prefix, suffix};
use tree_agent_contract::{
    Document, DocumentId, DocumentKind, DocumentSummary, ProjectId, Scope, SearchHit, SearchResults,
    ToolRules, limits,
};

use crate::args::{Args, Param, ParamKind};
use crate::error::ToolError;
use crate::kept::{Kept, kept};
use crate::registry::ToolOutput;
use crate::source::{Caller, DocumentSource, ListDocuments, NewDocument, SearchDocuments, is_source};

/// Lists source documents.
pub const LIST_DOCUMENTS: &str = "list_documents";
/// Full-text search over source documents.
pub const SEARCH_DOCUMENTS: &str = "search_documents";
/// Reads one document.
pub const READ_DOCUMENT: &str = "read_document";
/// Writes a source document.
pub const CREATE_DOCUMENT: &str = tree_agent_contract::project::CREATE_DOCUMENT;
/// Writes a note of the run.
pub const WRITE_NOTE: &str = "write_note";
/// Lists projects.
pub const LIST_PROJECTS: &str = "list_projects";

/// Bytes of body text in one answer of [`READ_DOCUMENT`]; longer documents are read in pieces by `offset`.
pub const OUTPUT_BYTES: usize = 256 * 1024;
/// Maximum of hits of one search.
pub const SEARCH_LIMIT_MAX: u64 = 100;
/// Seconds that a search may wait for vectors.
pub const WHOLE_WITHIN_MAX: u64 = 30;
/// Bytes of a search query.
pub const QUERY_BYTES: usize = 1024;
/// Bytes of a path.
const PATH_BYTES: usize = 1024;

const ANY: &[Scope] = Scope::ALL;
const SEVERAL: &[Scope] = &[Scope::Global, Scope::MultiProject];

const fn param(name: &'static str, kind: ParamKind, required: bool, about: &'static str) -> Param {
    Param { name, kind, required, about }
}

const PREFIX: Param =
    param("path_prefix", ParamKind::Text(PATH_BYTES), false, "Only documents whose path begins with this.");

/// A built-in tool.
pub(crate) struct Builtin {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) params: &'static [Param],
    /// The scopes in which it is offered.
    pub(crate) scopes: &'static [Scope],
    /// It changes a project.
    pub(crate) writes: bool,
}

/// Every built-in tool.
pub(crate) const BUILTINS: &[Builtin] = &[
    Builtin {
        name: LIST_DOCUMENTS,
        description: "Lists the source documents of the context by path: id, project, path, title and size.",
        params: &[
            param("project_id", ParamKind::Id, false, "Only documents of this project."),
            PREFIX,
            param(
                "page_size",
                ParamKind::Integer(1, limits::PAGE_MAX as u64),
                false,
                "Rows of the page; 100 by default.",
            ),
            param("page_token", ParamKind::Text(PATH_BYTES * 4), false, "nextPageToken of the page before."),
        ],
        scopes: ANY,
        writes: false,
    },
    Builtin {
        name: SEARCH_DOCUMENTS,
        description: "Searches the source documents of the context: the passages that answer a question or hold words, best \
                      first, with their headings, the offset at which read_document finds them, and the total.",
        params: &[
            param("query", ParamKind::Text(QUERY_BYTES), true, "A question, or words to look for."),
            PREFIX,
            param(
                "limit",
                ParamKind::Integer(1, SEARCH_LIMIT_MAX),
                false,
                "Hits at the most; 10 by default.",
            ),
            param(
                "whole_within",
                ParamKind::Integer(0, WHOLE_WITHIN_MAX),
                false,
                "Seconds to wait until all passages can be found by meaning; else the order is by words alone.",
            ),
        ],
        scopes: ANY,
        writes: false,
    },
    Builtin {
        name: READ_DOCUMENT,
        description: "Reads a document of the context, or one that this run wrote, from a byte offset.",
        params: &[
            param("document_id", ParamKind::Id, true, "The document."),
            param(
                "offset",
                ParamKind::Integer(0, limits::DOCUMENT_BYTES as u64),
                false,
                "Where to begin; 0 by default.",
            ),
            param(
                "max_bytes",
                ParamKind::Integer(1, OUTPUT_BYTES as u64),
                false,
                "Bytes of text at the most; 262144 by default. nextOffset says where to go on.",
            ),
        ],
        scopes: ANY,
        writes: false,
    },
    Builtin {
        name: CREATE_DOCUMENT,
        description: "Writes a source document into a project of the context. The same path again replaces it. What people \
                      imported stays as it is.",
        params: &[
            param(
                "project_id",
                ParamKind::Id,
                false,
                "The project; may be left out where the context has just one.",
            ),
            param("path", ParamKind::Text(PATH_BYTES), true, "Path within the project, /-separated."),
            param(
                "title",
                ParamKind::Text(limits::TITLE_BYTES),
                false,
                "The first heading or file name by default.",
            ),
            param("body", ParamKind::Text(limits::DOCUMENT_BYTES), true, "Markdown or plain text."),
        ],
        scopes: ANY,
        writes: true,
    },
    Builtin {
        name: WRITE_NOTE,
        description: "Keeps notes or findings as a document of this run, below the scratchpad of this task. Later tasks and \
                      people can read it by its id. No project changes.",
        params: &[
            param("title", ParamKind::Text(limits::TITLE_BYTES), true, "What it is about."),
            param("body", ParamKind::Text(limits::DOCUMENT_BYTES), true, "Markdown."),
        ],
        scopes: ANY,
        writes: true,
    },
    Builtin {
        name: LIST_PROJECTS,
        description: "Lists the projects of the context by name.",
        params: &[param(
            "limit",
            ParamKind::Integer(1, limits::PAGE_MAX as u64),
            false,
            "Rows at the most; 100 by default.",
        )],
        scopes: SEVERAL,
        writes: false,
    },
];

/// Calls the tool `name` with arguments that fit it. What a source answers is filtered again by the caller's scope.
pub(crate) async fn call(
    source: &dyn DocumentSource,
    caller: &Caller,
    held: &Kept,
    name: &str,
    args: Args<'_>,
) -> Result<ToolOutput, ToolError> {
    match name {
        LIST_DOCUMENTS => list_documents(source, caller, args).await,
        SEARCH_DOCUMENTS => search_documents(source, caller, args).await,
        READ_DOCUMENT => read_document(source, caller, held, args).await,
        CREATE_DOCUMENT => create_document(source, caller, args).await,
        WRITE_NOTE => write_note(caller, args),
        LIST_PROJECTS => list_projects(source, caller, args).await,
        other => Err(ToolError::UnknownTool { name: other.to_owned(), available: String::new() }),
    }
}

/// Those of `projects` that do not offer the tool `name`, in global context. In any other the rules of all projects of
/// the context held before the call.
async fn closed(
    s: &dyn DocumentSource,
    caller: &Caller,
    name: &str,
    projects: impl Iterator<Item = ProjectId>,
) -> Result<BTreeSet<ProjectId>, ToolError> {
    match caller.context.scope {
        Scope::Global => denying(s, caller, name, projects).await,
        Scope::Project | Scope::MultiProject => Ok(BTreeSet::new()),
    }
}

/// Those of `projects` that do not offer the tool `name`.
async fn denying(
    s: &dyn DocumentSource,
    caller: &Caller,
    name: &str,
    projects: impl Iterator<Item = ProjectId>,
) -> Result<BTreeSet<ProjectId>, ToolError> {
    let distinct: BTreeSet<ProjectId> = projects.collect();
    let projects: Vec<ProjectId> = distinct.into_iter().collect();
    if projects.is_empty() {
        return Ok(BTreeSet::new());
    }
    let states = s.project_states(caller, &projects).await?;
    let denying = projects.into_iter().zip(states);
    let denying = denying.filter(|(_, state)| {
        state.as_ref().is_some_and(|state| !offer(&state.rules, name) || state.reads_only && writes(name))
    });
    Ok(denying.map(|(project, _)| project).collect())
}

/// Whether a project with these rules offers the built-in tool `name`.
fn offer(rules: &ToolRules, name: &str) -> bool {
    rules.offer(name, writes(name))
}

fn writes(name: &str) -> bool {
    BUILTINS.iter().any(|tool| tool.name == name && tool.writes)
}

/// An error if `document` is of a project that does not let it be read, in whatever context. What the run wrote itself
/// is of no project.
pub(crate) async fn readable(
    s: &dyn DocumentSource,
    caller: &Caller,
    document: &Document,
) -> Result<(), ToolError> {
    let is_own = document.kind == DocumentKind::Artifact && document.run_id == Some(caller.run_id);
    let project = document.project_id.filter(|_| !is_own);
    match denying(s, caller, READ_DOCUMENT, project.into_iter()).await?.first() {
        Some(&project) => Err(ToolError::Denied { tool: READ_DOCUMENT.to_owned(), project }),
        None => Ok(()),
    }
}

/// An error if the call is about a project that does not offer the tool `name`.
async fn allowed(
    s: &dyn DocumentSource,
    caller: &Caller,
    name: &str,
    project: Option<ProjectId>,
) -> Result<(), ToolError> {
    match closed(s, caller, name, project.into_iter()).await?.first() {
        Some(&project) => Err(ToolError::Denied { tool: name.to_owned(), project }),
        None => Ok(()),
    }
}

async fn list_documents(
    s: &dyn DocumentSource,
    caller: &Caller,
    args: Args<'_>,
) -> Result<ToolOutput, ToolError> {
    let project_id = args.id::<ProjectId>("project_id");
    if let Some(project) = project_id
        && !caller.context.allows(project)
    {
        return Err(ToolError::NotFound(format!("project {project}")));
    }
    allowed(s, caller, LIST_DOCUMENTS, project_id).await?;
    let query = ListDocuments {
        project_id,
        path_prefix: args.text("path_prefix").to_owned(),
        page_size: args.integer("page_size").unwrap_or(limits::PAGE_DEFAULT as u64) as u32,
        page_token: args.text("page_token").to_owned(),
    };
    let mut listing = s.list_documents(caller, &query).await?;
    listing.documents.retain(|d| is_source(d) && caller.may_read(d.project_id, d.run_id));
    let closed =
        closed(s, caller, LIST_DOCUMENTS, listing.documents.iter().filter_map(|d| d.project_id)).await?;
    listing.documents.retain(|d| d.project_id.is_none_or(|project| !closed.contains(&project)));
    let more = if listing.next_page_token.is_empty() { "" } else { ", more follow" };
    Ok(ToolOutput::new(
        json!({
            "documents": listing.documents.iter().map(summary_json).collect::<Vec<_>>(),
            "nextPageToken": listing.next_page_token,
        }),
        format!("{}{more}", count(listing.documents.len(), "document")),
    ))
}

async fn search_documents(
    s: &dyn DocumentSource,
    caller: &Caller,
    args: Args<'_>,
) -> Result<ToolOutput, ToolError> {
    let query = SearchDocuments {
        query: args.text("query").to_owned(),
        path_prefix: args.text("path_prefix").to_owned(),
        limit: args.integer("limit").unwrap_or(10) as u32,
        whole_within: args.integer("whole_within").map(|seconds| seconds as u8),
    };
    let SearchResults { mut hits, total, passages, embedded, vectors, words } =
        s.search_documents(caller, &query).await?;
    let answered = hits.len();
    // Beyond the page, nobody knows of which projects the passages are.
    let is_counted = total <= answered as u64 || all_offer(s, caller, SEARCH_DOCUMENTS).await?;
    hits.retain(|hit| {
        is_source(&hit.document) && caller.may_read(hit.document.project_id, hit.document.run_id)
    });
    let projects = hits.iter().filter_map(|hit| hit.document.project_id);
    let closed = closed(s, caller, SEARCH_DOCUMENTS, projects).await?;
    hits.retain(|hit| hit.document.project_id.is_none_or(|project| !closed.contains(&project)));
    let total = total.saturating_sub((answered - hits.len()) as u64);
    let value: Vec<Value> = hits
        .iter()
        .map(|hit| {
            let mut row = summary_json(&hit.document);
            row.insert("headings".to_owned(), json!(hit.headings));
            if !hit.head.is_empty() {
                row.insert("head".to_owned(), hit.head.as_str().into());
            }
            row.insert("offset".to_owned(), hit.offset.into());
            row.insert("passage".to_owned(), hit.passage.as_str().into());
            row.insert("lexicalRank".to_owned(), hit.lexical_rank.into());
            row.insert("vectorRank".to_owned(), hit.vector_rank.into());
            row.insert("similarity".to_owned(), hit.similarity.into());
            row.insert("score".to_owned(), hit.score.into());
            Value::Object(row)
        })
        .collect();
    let shown = value.len();
    let summary = match total {
        _ if !is_counted => format!("{}, more match", count(shown, "hit")),
        total if total > shown as u64 => format!("{} of {total}", count(shown, "hit")),
        _ => count(shown, "hit"),
    };
    let summary = summary + &named_first(&hits);
    let mut answer = json!({ "hits": value });
    if is_counted {
        answer = json!({
            "total": total,
            "hits": value,
            "words": words,
            "passages": passages,
            "embedded": embedded,
            "vectors": vectors,
        });
    }
    Ok(ToolOutput::new(answer, summary))
}

/// The documents of the first hits, for a summary.
fn named_first(hits: &[SearchHit]) -> String {
    const NAMED: usize = 3;
    const PATH: usize = 60;
    let mut paths: Vec<&str> = hits.iter().map(|hit| suffix(&hit.document.path, PATH)).collect();
    paths.dedup();
    paths.truncate(NAMED);
    if paths.is_empty() { String::new() } else { format!(": {}", paths.join(", ")) }
}

/// Whether all projects that the caller sees are known to offer the tool `name`. Outside of global context they do, or
/// it is not called.
async fn all_offer(s: &dyn DocumentSource, caller: &Caller, name: &str) -> Result<bool, ToolError> {
    if caller.context.scope != Scope::Global {
        return Ok(true);
    }
    let projects = s.list_projects(caller, limits::PAGE_MAX as u32).await?;
    Ok(projects.len() < limits::PAGE_MAX && projects.iter().all(|project| offer(&project.rules, name)))
}

async fn read_document(
    s: &dyn DocumentSource,
    caller: &Caller,
    held: &Kept,
    args: Args<'_>,
) -> Result<ToolOutput, ToolError> {
    let id = args
        .id::<DocumentId>("document_id")
        .ok_or_else(|| ToolError::argument(READ_DOCUMENT, "document_id", "is required"))?;
    let document = match held.find(id) {
        Some(document) => document,
        None => s.read_document(caller, id).await?,
    };
    if !caller.may_read(document.project_id, document.run_id) {
        return Err(ToolError::NotFound(format!("document {id}")));
    }
    allowed(s, caller, READ_DOCUMENT, document.project_id).await?;
    let Document { body, path, title, .. } = &document;
    let offset = args.integer("offset").unwrap_or(0) as usize;
    if !body.is_char_boundary(offset) {
        let message =
            format!("{offset} is beyond the {} bytes or inside a character; use nextOffset", body.len());
        return Err(ToolError::argument(READ_DOCUMENT, "offset", message));
    }
    let max = args.integer("max_bytes").unwrap_or(OUTPUT_BYTES as u64) as usize;
    // At least one whole character, so that reading in pieces always ends.
    let first = body[offset..].chars().next().map_or(0, char::len_utf8);
    let end = offset + prefix(&body[offset..], max).len().max(first);
    let name = if path.is_empty() { title } else { path };
    let mut output = ToolOutput::new(
        json!({
            "documentId": document.id,
            "projectId": document.project_id,
            "path": path,
            "title": title,
            "bytes": body.len(),
            "offset": offset,
            "body": &body[offset..end],
            "nextOffset": (end < body.len()).then_some(end),
        }),
        format!("{name}, {} of {} bytes", end - offset, body.len()),
    );
    if let Some(import) = document.props.import.as_ref().filter(|import| !import.left_out.is_empty()) {
        output.value["leftOut"] = json!(import.left_out);
    }
    // A document of the run may grow, which no revision tells.
    Ok(ToolOutput { is_lasting: !document.kind.grows(), ..output })
}

fn write_note(caller: &Caller, args: Args<'_>) -> Result<ToolOutput, ToolError> {
    let given = |name| match args.text(name).trim() {
        "" => Err(ToolError::argument(WRITE_NOTE, name, "must not be empty")),
        text => Ok(text),
    };
    let (title, body) = (given("title")?, given("body")?);
    let note = kept("notes", "md", title.to_owned(), format!("# {title}\n\n{body}\n"));
    let id = DocumentId::of_run(caller.origin_run_id, &note.path);
    let summary = format!("{title}, {} bytes, as document {id}", note.body.len());
    let value = json!({ "documentId": id, "title": title, "bytes": note.body.len() });
    Ok(ToolOutput { kept: Some(note), ..ToolOutput::new(value, summary) })
}

async fn create_document(
    s: &dyn DocumentSource,
    caller: &Caller,
    args: Args<'_>,
) -> Result<ToolOutput, ToolError> {
    let project_id = match (args.id::<ProjectId>("project_id"), caller.context.project_ids.as_slice()) {
        (Some(id), _) if caller.context.allows(id) => id,
        (Some(id), _) => return Err(ToolError::NotFound(format!("project {id}"))),
        (None, [only]) => *only,
        (None, _) => {
            return Err(ToolError::argument(
                CREATE_DOCUMENT,
                "project_id",
                "is required where the context is not one project",
            ));
        }
    };
    let path = args.text("path");
    if path.starts_with('/') || path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        let message = format!("{path:?} must be relative and have no empty, . or .. parts");
        return Err(ToolError::argument(CREATE_DOCUMENT, "path", message));
    }
    // Also in a context of several projects: its user may edit one and only read another.
    if let Some(&project) = denying(s, caller, CREATE_DOCUMENT, std::iter::once(project_id)).await?.first() {
        return Err(ToolError::Denied { tool: CREATE_DOCUMENT.to_owned(), project });
    }
    let document = NewDocument {
        project_id,
        path: path.to_owned(),
        title: args.text("title").to_owned(),
        body: args.text("body").to_owned(),
    };
    // The run keeps a copy as an artifact of the node: what it returned stays what it was.
    let copy = kept("documents", "md", document.title.clone(), document.body.clone());
    let written = s.create_document(caller, document).await?;
    let summary = format!("wrote {}, {} bytes", written.path, written.bytes);
    Ok(ToolOutput { kept: Some(copy), ..ToolOutput::new(Value::Object(summary_json(&written)), summary) })
}

async fn list_projects(
    s: &dyn DocumentSource,
    caller: &Caller,
    args: Args<'_>,
) -> Result<ToolOutput, ToolError> {
    let limit = args.integer("limit").unwrap_or(limits::PAGE_DEFAULT as u64) as u32;
    let mut projects = s.list_projects(caller, limit).await?;
    projects.retain(|p| caller.context.allows(p.id));
    let rows: Vec<Value> = projects
        .iter()
        .map(|p| json!({"projectId": p.id, "name": p.name, "description": p.description, "documents": p.document_count}))
        .collect();
    Ok(ToolOutput::new(json!({ "projects": rows }), count(rows.len(), "project")))
}

fn summary_json(document: &DocumentSummary) -> Map<String, Value> {
    let mut row = Map::new();
    row.insert("documentId".to_owned(), json!(document.id));
    row.insert("projectId".to_owned(), json!(document.project_id));
    row.insert("path".to_owned(), document.path.as_str().into());
    row.insert("title".to_owned(), document.title.as_str().into());
    row.insert("bytes".to_owned(), document.bytes.into());
    row
}

#[cfg(test)]
mod tests {
    use tree_agent_contract::project::BUILTIN_TOOLS;

    use super::*;

    #[test]
    fn the_contract_knows_every_built_in_tool() {
        assert_eq!(BUILTINS.iter().map(|tool| tool.name).collect::<Vec<_>>(), BUILTIN_TOOLS);
    }
}
