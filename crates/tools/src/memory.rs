//! Documents in memory: for tests and for trying a model without a server.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tree_agent_contract::role::KeptDocument;
use tree_agent_contract::{
    Document, DocumentId, DocumentKind, DocumentProps, DocumentSummary, NodeId, ProjectId, RunId, SearchHit,
    SearchResults, Timestamp, ToolRules,
};
use tree_agent_retrieval::{Counts, Passage, Query, chunk, default_title, rank};

use crate::error::ToolError;
use crate::source::{
    Caller, DocumentSource, ListDocuments, Listing, NewDocument, ProjectInfo, ProjectState, SearchDocuments,
};

/// Projects and documents in memory.
#[derive(Default)]
pub struct MemoryDocuments {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    projects: BTreeMap<ProjectId, String>,
    documents: BTreeMap<DocumentId, Document>,
    rules: BTreeMap<ProjectId, ToolRules>,
    /// Changes of anything.
    changes: u64,
}

impl MemoryDocuments {
    /// Adds a project named `name` and returns its id, the same for the same name.
    pub fn add_project(&self, name: &str) -> ProjectId {
        let id = ProjectId::derive(&[b"memory", name.as_bytes()]);
        self.lock().projects.insert(id, name.to_owned());
        id
    }

    /// Sets what tools may do in a project.
    pub fn set_rules(&self, project: ProjectId, rules: ToolRules) {
        let mut state = self.lock();
        state.changes += 1;
        state.rules.insert(project, rules);
    }

    /// Adds or replaces a source document as people import it, and returns its id, the same for the same project and
    /// path.
    pub fn add_source(&self, project: ProjectId, path: &str, body: &str) -> DocumentId {
        let id = source_id(project, path);
        self.put(Document {
            id,
            kind: DocumentKind::Source,
            project_id: Some(project),
            run_id: None,
            path: path.to_owned(),
            title: default_title(path, body),
            body: body.to_owned(),
            props: DocumentProps::default(),
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
        });
        id
    }

    /// Removes the source document of a project at `path`, if there is one.
    pub fn remove_source(&self, project: ProjectId, path: &str) {
        let mut state = self.lock();
        state.changes += 1;
        state.documents.remove(&source_id(project, path));
    }

    /// Adds an answer that `run` keeps, as the engine would.
    pub fn add_answer(&self, run: RunId, node: NodeId, answer: &KeptDocument) {
        let id = DocumentId::of_run(run, &answer.path);
        let document = of_run(run, id, DocumentKind::ToolAnswer, &answer.title, &answer.body);
        let props = DocumentProps { tree_agent_node_id: Some(node), ..DocumentProps::default() };
        self.put(Document { path: answer.path.clone(), props, ..document });
    }

    /// Adds a document that `run` wrote.
    pub fn add_artifact(&self, run: RunId, id: DocumentId, title: &str, body: &str) {
        self.put(of_run(run, id, DocumentKind::Artifact, title, body));
    }

    /// Adds a scratchpad of `run`.
    pub fn add_scratchpad(&self, run: RunId, id: DocumentId, body: &str) {
        self.put(of_run(run, id, DocumentKind::Scratchpad, "Scratchpad", body));
    }

    fn put(&self, document: Document) {
        let mut state = self.lock();
        // What a run writes changes no project.
        state.changes += u64::from(document.project_id.is_some());
        state.documents.insert(document.id, document);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sources that the caller may see, by path.
    fn sources(&self, caller: &Caller, project: Option<ProjectId>, prefix: &str) -> Vec<Document> {
        let state = self.lock();
        let mut found: Vec<Document> = state
            .documents
            .values()
            .filter(|d| d.kind == DocumentKind::Source && caller.may_read(d.project_id, d.run_id))
            .filter(|d| project.is_none_or(|p| d.project_id == Some(p)) && d.path.starts_with(prefix))
            .cloned()
            .collect();
        found.sort_by(|a, b| (&a.path, a.id).cmp(&(&b.path, b.id)));
        found
    }
}

/// A document of a run.
fn of_run(run: RunId, id: DocumentId, kind: DocumentKind, title: &str, body: &str) -> Document {
    Document {
        id,
        kind,
        project_id: None,
        run_id: Some(run),
        path: String::new(),
        title: title.to_owned(),
        body: body.to_owned(),
        props: DocumentProps::default(),
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
    }
}

fn source_id(project: ProjectId, path: &str) -> DocumentId {
    DocumentId::derive(&[project.as_bytes(), path.as_bytes()])
}

fn summary(d: &Document) -> DocumentSummary {
    DocumentSummary {
        id: d.id,
        kind: d.kind,
        project_id: d.project_id,
        run_id: d.run_id,
        path: d.path.clone(),
        title: d.title.clone(),
        bytes: d.body.len() as u64,
        props: d.props.clone(),
        updated_at: d.updated_at,
        parent_id: None,
    }
}

#[async_trait]
impl DocumentSource for MemoryDocuments {
    async fn list_documents(&self, caller: &Caller, query: &ListDocuments) -> Result<Listing, ToolError> {
        let all = self.sources(caller, query.project_id, &query.path_prefix);
        let from: usize = query.page_token.parse().unwrap_or(0);
        let to = from.saturating_add(query.page_size as usize).min(all.len());
        Ok(Listing {
            documents: all.get(from..to).unwrap_or_default().iter().map(summary).collect(),
            next_page_token: if to < all.len() { to.to_string() } else { String::new() },
        })
    }

    async fn search_documents(
        &self,
        caller: &Caller,
        query: &SearchDocuments,
    ) -> Result<SearchResults, ToolError> {
        let sources = self.sources(caller, None, &query.path_prefix);
        let pieces: Vec<_> = sources
            .iter()
            .flat_map(|document| {
                chunk(&document.path, &document.body).into_iter().map(move |piece| (document, piece))
            })
            .collect();
        let passages: Vec<_> = pieces
            .iter()
            .map(|(document, piece)| Passage {
                path: &document.path,
                title: &document.title,
                headings: &piece.headings,
                kind: piece.kind,
                head: &document.body[piece.head.clone()],
                text: &document.body[piece.range.clone()],
                offset: piece.range.start,
            })
            .collect();
        let terms: Vec<Vec<String>> = passages.iter().map(Passage::terms).collect();
        let words = Query::new(&query.query);
        let counts = Counts::of(&words, &terms);
        let ranked = rank(&words, &passages, &counts);
        let hits = (1..).zip(ranked.iter().take(query.limit as usize)).map(|(place, ranked)| {
            let (document, piece) = &pieces[ranked.index];
            SearchHit {
                document: summary(document),
                headings: piece.headings.clone(),
                head: document.body[piece.head.clone()].to_owned(),
                offset: piece.range.start as u64,
                passage: document.body[piece.range.clone()].to_owned(),
                lexical_rank: place,
                vector_rank: 0,
                similarity: None,
                score: ranked.score,
            }
        });
        Ok(SearchResults {
            hits: hits.collect(),
            total: ranked.len() as u64,
            passages: pieces.len() as u64,
            words: counts.words(&words),
            ..SearchResults::default()
        })
    }

    async fn read_document(&self, caller: &Caller, id: DocumentId) -> Result<Document, ToolError> {
        let found = self.lock().documents.get(&id).cloned();
        found
            .filter(|d| caller.may_read(d.project_id, d.run_id))
            .ok_or_else(|| ToolError::NotFound(format!("document {id}")))
    }

    async fn project_states(
        &self,
        _: &Caller,
        projects: &[ProjectId],
    ) -> Result<Vec<Option<ProjectState>>, ToolError> {
        let state = self.lock();
        let of = |id: &ProjectId| ProjectState {
            rules: state.rules.get(id).cloned().unwrap_or_default(),
            revision: 1 + state.changes,
            reads_only: false,
        };
        Ok(projects.iter().map(|id| state.projects.contains_key(id).then(|| of(id))).collect())
    }

    async fn create_document(
        &self,
        caller: &Caller,
        document: NewDocument,
    ) -> Result<DocumentSummary, ToolError> {
        let project = document.project_id;
        if !caller.context.allows(project) || !self.lock().projects.contains_key(&project) {
            return Err(ToolError::NotFound(format!("project {project}")));
        }
        let id = source_id(project, &document.path);
        {
            let state = self.lock();
            let there = state.documents.get(&id);
            let is_imported = there.is_some_and(|found| found.props.tree_agent_run_id.is_none());
            if is_imported && !state.rules.get(&project).is_some_and(|rules| rules.replace_imported) {
                let text =
                    format!("{:?} was imported, and stays as it is; choose another path", document.path);
                return Err(ToolError::Source(text));
            }
        }
        self.add_source(project, &document.path, &document.body);
        let mut state = self.lock();
        let stored =
            state.documents.get_mut(&id).ok_or_else(|| ToolError::NotFound(format!("document {id}")))?;
        stored.props.tree_agent_run_id = Some(caller.run_id);
        if !document.title.is_empty() {
            stored.title = document.title;
        }
        Ok(summary(stored))
    }

    async fn list_projects(&self, caller: &Caller, limit: u32) -> Result<Vec<ProjectInfo>, ToolError> {
        let state = self.lock();
        let mut projects: Vec<ProjectInfo> = state
            .projects
            .iter()
            .filter(|(id, _)| caller.context.allows(**id))
            .map(|(id, name)| ProjectInfo {
                id: *id,
                name: name.clone(),
                description: String::new(),
                document_count: state.documents.values().filter(|d| d.project_id == Some(*id)).count() as u64,
                rules: state.rules.get(id).cloned().unwrap_or_default(),
                revision: 1 + state.changes,
            })
            .collect();
        projects.sort_by(|a, b| a.name.cmp(&b.name));
        projects.truncate(limit as usize);
        Ok(projects)
    }
}
