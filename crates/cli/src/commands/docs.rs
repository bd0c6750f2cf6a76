//! `docs`: the documents of a run or a project, and search.

mod search;

use std::collections::HashMap;

use clap::{Args, Subcommand};
use serde::Serialize;
use tree_agent_contract::{DocumentId, DocumentKind, NodeId, ProjectId, RunId, Timestamp, limits};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;

use super::follow::now;
use crate::client::Client;
use crate::complete;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Rows;
use crate::value::RunRef;
use crate::view::line::leads;
use crate::view::paint::{Paint, ago};
use crate::view::printable::one_line;
use crate::view::table::Cell;
use crate::view::usage::grouped;

/// List the documents of a run or a project, or search the documents of projects
///
/// Those of a run come in the order of their tree.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Docs {
    #[command(subcommand)]
    action: Option<Action>,
    /// The run: its id, the beginning or end of it, @latest, or @2 for the one before
    #[arg(add = complete::runs(), required_unless_present = "project")]
    run: Option<RunRef>,
    /// The documents of this project: its name or id
    #[arg(long, value_name = "PROJECT", add = complete::projects(), conflicts_with = "run")]
    project: Option<String>,
    /// Draw the tree of the run's documents
    #[arg(long, requires = "run")]
    tree: bool,
    /// Only documents of this branch of homework
    #[arg(long, value_name = "BRANCH", requires = "run")]
    branch: Option<String>,
    /// Only documents with this role, such as scratchpad_exec or plan
    #[arg(long, value_name = "ROLE", requires = "run")]
    role: Option<String>,
    /// Only paths that begin with this
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true)]
    path: String,
}

/// What is done with documents.
#[derive(Debug, Subcommand)]
enum Action {
    Search(search::Search),
}

/// The columns of the table.
const HEADERS: &[&str] = &["KIND", "TITLE", "BRANCH", "BYTES", "CHANGED", "ID"];

/// A document without its text, as `-o json` prints it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SummaryJson {
    id: DocumentId,
    kind: DocumentKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    project_id: Option<ProjectId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_id: Option<NodeId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_id: Option<DocumentId>,
    #[serde(skip_serializing_if = "String::is_empty")]
    role: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    branch_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    iteration: Option<u32>,
    path: String,
    title: String,
    bytes: u64,
    updated_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "String::is_empty")]
    left_out: String,
}

impl Docs {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        if let Some(Action::Search(search)) = &self.action {
            return search.run(context).await;
        }
        let client = context.connect().await?;
        let (run_id, project_ids) = match (&self.run, &self.project) {
            (Some(run), _) => (client.find_run(run).await?.to_string(), Vec::new()),
            (None, Some(project)) => {
                (String::new(), vec![client.existing_project(project).await?.project_id])
            }
            (None, None) => return Err(CliError::Usage("name a run, or a project with --project".into())),
        };
        let filter = pb::ListDocumentsRequest {
            run_id,
            project_ids,
            branch_id: self.branch.clone().unwrap_or_default(),
            doc_role: self.role.clone().unwrap_or_default(),
            path_prefix: self.path.clone(),
            ..Default::default()
        };
        let draws = self.tree && !context.out.is_json();
        let (mut tree, mut rows) = (Vec::new(), Rows::new(&context.out, HEADERS));
        each(&client, filter, |document| {
            let document = SummaryJson::from_wire(document)?;
            match draws {
                true => tree.push(document),
                false => rows.push(&document, SummaryJson::cells)?,
            }
            Ok(())
        })
        .await?;
        for line in drawn(&tree) {
            context.out.line(line)?;
        }
        let found = if draws { tree.len() } else { rows.finish()? };
        if found == 0 {
            context.out.note("there are no such documents");
        }
        Ok(Exit::Success)
    }
}

/// Hands over the documents of all pages.
pub(super) async fn each(
    client: &Client,
    mut filter: pb::ListDocumentsRequest,
    mut take: impl FnMut(pb::DocumentSummary) -> Result<(), CliError>,
) -> Result<(), CliError> {
    filter.page_size = limits::PAGE_MAX as u32;
    loop {
        let page = client.ask(filter.clone()).await?;
        page.documents.into_iter().try_for_each(&mut take)?;
        filter.page_token = page.next_page_token;
        if filter.page_token.is_empty() {
            return Ok(());
        }
    }
}

impl SummaryJson {
    pub(crate) fn from_wire(summary: pb::DocumentSummary) -> Result<Self, CliError> {
        let parent_id = match summary.parent_id {
            id if id.is_empty() => None,
            id => Some(Wire::from_wire(id)?),
        };
        Ok(Self {
            id: Wire::from_wire(summary.document_id)?,
            kind: Wire::from_wire(summary.kind)?,
            project_id: Wire::from_wire(summary.project_id)?,
            run_id: Wire::from_wire(summary.run_id)?,
            node_id: Wire::from_wire(summary.node_id)?,
            parent_id,
            role: summary.doc_role,
            branch_id: summary.branch_id,
            iteration: Some(summary.iteration).filter(|iteration| *iteration > 0),
            path: summary.path,
            title: summary.title,
            bytes: summary.bytes,
            updated_at: Wire::from_wire(summary.updated_at)?,
            left_out: summary.import.map(|import| import.left_out).unwrap_or_default(),
        })
    }

    /// The last part of the kind: what follows `document.`, without `tree_agent.`.
    fn kind(&self) -> &'static str {
        let kind = self.kind.as_str();
        let kind = kind.strip_prefix("document.").unwrap_or(kind);
        kind.strip_prefix("tree_agent.").unwrap_or(kind)
    }

    /// Its path, or its title if it has none.
    fn name(&self) -> String {
        one_line(if self.path.is_empty() { &self.title } else { &self.path })
    }

    pub(crate) fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::plain(self.kind()),
            Cell::plain(self.name()),
            Cell::plain(&self.branch_id),
            Cell::plain(grouped(self.bytes)),
            Cell::new(self.updated_at.map(|at| ago(at, now())).unwrap_or_default(), Paint::Dim),
            Cell::new(self.id.to_string(), Paint::Dim),
        ]
    }
}

/// The lines of a tree. Documents come each after the one above it; those whose parent is not among them are at the
/// top.
fn drawn(documents: &[SummaryJson]) -> Vec<String> {
    let (mut known, mut depths) = (HashMap::new(), Vec::with_capacity(documents.len()));
    for document in documents {
        let depth = document.parent_id.and_then(|id| known.get(&id)).map_or(0, |above: &usize| above + 1);
        known.insert(document.id, depth);
        depths.push(depth);
    }
    let line = |(document, lead): (&SummaryJson, String)| {
        let branch = match document.branch_id.as_str() {
            "" => String::new(),
            branch => format!(" [{}]", one_line(branch)),
        };
        let (kind, name, bytes) = (document.kind(), document.name(), grouped(document.bytes));
        format!("{lead}{kind}{branch}  {name}  {bytes} bytes  {}", document.id)
    };
    documents.iter().zip(leads(&depths)).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(n: u128, parent: Option<u128>, kind: DocumentKind, branch: &str) -> SummaryJson {
        let id = |n| DocumentId(uuid::Uuid::from_u128(n));
        SummaryJson {
            id: id(n),
            kind,
            project_id: None,
            run_id: None,
            node_id: None,
            parent_id: parent.map(id),
            role: String::new(),
            branch_id: branch.into(),
            iteration: None,
            path: String::new(),
            title: format!("Document {n}"),
            bytes: 1_234,
            updated_at: None,
            left_out: String::new(),
        }
    }

    #[test]
    fn the_tree_shows_kind_title_branch_and_size() {
        use DocumentKind::{Artifact, HomeworkBranch, HomeworkPlan, HomeworkScratchpad, HomeworkWorkspace};
        let lines = drawn(&[
            document(1, None, HomeworkWorkspace, ""),
            document(2, Some(1), HomeworkScratchpad, ""),
            document(3, Some(2), HomeworkBranch, "b1"),
            document(4, Some(3), Artifact, ""),
            document(5, Some(2), HomeworkBranch, "b2"),
            document(6, Some(1), HomeworkPlan, ""),
            document(7, Some(99), Artifact, ""),
        ]);
        let lines: Vec<_> = lines.iter().map(|line| line.rsplit_once("  ").unwrap().0).collect();
        assert_eq!(
            lines,
            [
                "homework.workspace  Document 1  1,234 bytes",
                "├─ homework.scratchpad.root  Document 2  1,234 bytes",
                "│  ├─ homework.scratchpad.exec [b1]  Document 3  1,234 bytes",
                "│  │  └─ artifact  Document 4  1,234 bytes",
                "│  └─ homework.scratchpad.exec [b2]  Document 5  1,234 bytes",
                "└─ homework.plan  Document 6  1,234 bytes",
                "artifact  Document 7  1,234 bytes",
            ]
        );
    }
}
