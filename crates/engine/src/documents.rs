//! The documents of a run: what each is called and where it belongs. Every document is below the workspace of its run.
//!
//! ```text
//! workspace
//! ├─ scratchpad of the root
//! │  ├─ artifacts of the root
//! │  └─ scratchpads of its children, and so on
//! └─ plan                     only homework has one
//! ```
//!
//! In homework a branch has one scratchpad for all its tasks. It is below the main scratchpad, which is the root's, and
//! so is the summary of each iteration.

use tree_agent_contract::document::{Document, DocumentKind, DocumentProps};
use tree_agent_contract::role::KeptDocument;
use tree_agent_contract::text::one_line;
use tree_agent_contract::{DocumentId, NodeId, RunId, RunSpec, Strategy, Timestamp};

/// A document of a run that nothing has been said about.
fn document(run_id: RunId, id: DocumentId, kind: DocumentKind, title: String, now: Timestamp) -> Document {
    Document {
        id,
        kind,
        project_id: None,
        run_id: Some(run_id),
        path: String::new(),
        title,
        body: String::new(),
        props: DocumentProps { tree_agent_run_id: Some(run_id), ..DocumentProps::default() },
        created_at: now,
        updated_at: now,
    }
}

/// The document above all others of a run.
pub(crate) fn workspace(run_id: RunId, spec: &RunSpec, now: Timestamp) -> Document {
    let id = DocumentId::workspace(run_id);
    let workspace = |kind| document(run_id, id, kind, spec.title(), now);
    let workspace = match spec.strategy {
        Strategy::Homework => {
            of_homework(with_role(workspace(DocumentKind::HomeworkWorkspace), "workspace"), "planner")
        }
        Strategy::Tree | Strategy::Search => {
            with_role(workspace(DocumentKind::Workspace), "tree_agent_workspace")
        }
    };
    Document { body: format!("# {}\n\n{}\n", spec.title(), spec.objective.trim()), ..workspace }
}

/// The empty scratchpad of a node.
pub(crate) fn scratchpad(
    run_id: RunId,
    node: NodeId,
    parent: Option<NodeId>,
    depth: u32,
    title: &str,
    now: Timestamp,
) -> Document {
    let id = DocumentId::scratchpad(node);
    let scratchpad = document(run_id, id, DocumentKind::Scratchpad, title.to_owned(), now);
    of_node(with_role(scratchpad, "tree_agent_scratchpad"), node, parent, depth)
}

/// A scratchpad that begins with what its node was asked.
pub(crate) fn asked(scratchpad: Document, reason: &str, criteria: &[String]) -> Document {
    let mut body = format!("# {}\n\n", one_line(&scratchpad.title));
    if !reason.trim().is_empty() && reason.trim() != scratchpad.title.trim() {
        body.push_str(&format!("{}\n\n", reason.trim()));
    }
    for criterion in criteria {
        body.push_str(&format!("- {}\n", one_line(criterion)));
    }
    if !criteria.is_empty() {
        body.push('\n');
    }
    Document { body, ..scratchpad }
}

/// The empty main scratchpad of the homework that `node` does.
pub(crate) fn main_scratchpad(run_id: RunId, node: NodeId, title: &str, now: Timestamp) -> Document {
    let id = DocumentId::scratchpad(node);
    let scratchpad = document(run_id, id, DocumentKind::HomeworkScratchpad, title.to_owned(), now);
    of_node(of_homework(with_role(scratchpad, "scratchpad_root"), "planner"), node, None, 0)
}

/// The plan of the homework that `node` does, before there is one.
pub(crate) fn plan(run_id: RunId, node: NodeId, title: &str, now: Timestamp) -> Document {
    let plan =
        document(run_id, DocumentId::plan(node), DocumentKind::HomeworkPlan, format!("Plan: {title}"), now);
    let plan = of_node(of_homework(with_role(plan, "plan"), "planner"), node, None, 0);
    Document { body: format!("# Plan: {title}\n\nThere is no plan yet.\n"), ..plan }
}

/// The empty scratchpad of a branch of the homework that `node` does. It begins in `iteration`, with a task called
/// `title`.
pub(crate) fn branch(
    run_id: RunId,
    node: NodeId,
    branch: &str,
    iteration: u32,
    title: &str,
    now: Timestamp,
) -> Document {
    let id = DocumentId::branch(node, branch);
    let scratchpad = document(run_id, id, DocumentKind::HomeworkBranch, title.to_owned(), now);
    let scratchpad =
        of_node(of_homework(with_role(scratchpad, "scratchpad_exec"), "executor"), node, None, 1);
    of_branch(scratchpad, branch, iteration)
}

/// The summary of an iteration of the homework that `node` does.
pub(crate) fn iteration(
    run_id: RunId,
    node: NodeId,
    iteration: u32,
    body: String,
    now: Timestamp,
) -> Document {
    let (id, title) = (DocumentId::iteration(node, iteration), format!("Iteration {iteration}"));
    let summary = document(run_id, id, DocumentKind::HomeworkSummary, title, now);
    let mut summary = of_node(of_homework(with_role(summary, "iteration_summary"), "planner"), node, None, 0);
    summary.props.iteration = Some(iteration);
    Document { body, ..summary }
}

/// The document behind an artifact.
pub(crate) fn artifact(
    run_id: RunId,
    id: DocumentId,
    title: String,
    body: String,
    now: Timestamp,
) -> Document {
    let artifact = document(run_id, id, DocumentKind::Artifact, title, now);
    Document { body, ..with_role(artifact, "tree_agent_artifact") }
}

/// The answer of a tool, or a prompt.
pub(crate) fn record(
    run_id: RunId,
    id: DocumentId,
    kind: DocumentKind,
    kept: KeptDocument,
    now: Timestamp,
) -> Document {
    let document = document(run_id, id, kind, kept.title, now);
    let role = if kind == DocumentKind::Prompt { "tree_agent_prompt" } else { "tree_agent_tool_answer" };
    Document { path: kept.path, body: kept.body, ..with_role(document, role) }
}

/// A document that `node` wrote.
pub(crate) fn of_node(mut document: Document, node: NodeId, parent: Option<NodeId>, depth: u32) -> Document {
    document.props.tree_agent_node_id = Some(node);
    document.props.parent_node_id = parent;
    document.props.depth = Some(depth);
    document
}

/// A document of homework that is written by `owner`.
pub(crate) fn of_homework(mut document: Document, owner: &str) -> Document {
    document.props.homework_run_id = document.run_id;
    document.props.owner = Some(owner.into());
    document.props.tags = vec!["homework".into(), owner.into()];
    document
}

/// A document of a branch of homework.
pub(crate) fn of_branch(mut document: Document, branch: &str, iteration: u32) -> Document {
    document.props.branch_id = Some(branch.into());
    document.props.iteration = Some(iteration);
    document
}

fn with_role(mut document: Document, doc_role: &str) -> Document {
    document.props.doc_role = Some(doc_role.into());
    document
}
