//! How failures of the store look to clients.

use std::borrow::Borrow;

use tonic::{Code, Status};
use tree_agent_contract::{DocumentId, FieldError, NodeId, ProjectId, RunId, limits};
use tree_agent_engine::ReplayError;
use tree_agent_runtime::errors::{chain, field, status};
use tree_agent_store::StoreError;

/// A failure of the store as a status. What does not exist names its field.
pub(crate) fn store(error: impl Borrow<StoreError>) -> Status {
    let error = error.borrow();
    match error {
        StoreError::NotFound { what, .. } => not_found(&format!("{what}_id"), error.to_string()),
        StoreError::Conflict(_) => status(Code::AlreadyExists, "CONFLICT", error.to_string()),
        StoreError::Archived(_) => status(Code::FailedPrecondition, "ARCHIVED", error.to_string()),
        StoreError::Unavailable { .. } => {
            error.note("a call is refused");
            status(Code::Unavailable, "STORE_UNAVAILABLE", "the store is unavailable now; try again")
        }
        StoreError::Broken { .. } => {
            tracing::error!("{}", chain(error));
            status(Code::Internal, "STORE_BROKEN", error.to_string())
        }
    }
}

/// As [`store`], for a call whose conflict is about what `name` names.
pub(crate) fn conflict(name: &str) -> impl FnOnce(StoreError) -> Status {
    move |error| match error {
        StoreError::Conflict(message) => already_exists(name, message),
        other => store(other),
    }
}

/// As [`store`], for a call that does not find what `name` names.
pub(crate) fn missing(name: &str) -> impl FnOnce(StoreError) -> Status {
    move |error| match error {
        StoreError::NotFound { .. } => not_found(name, error.to_string()),
        other => store(other),
    }
}

/// Streams are answered before the generated services, with messages that are encoded once for all of them.
pub(crate) fn intercepted() -> Status {
    Status::internal("streams are not served here")
}

/// `NOT_FOUND` for what `name` names.
pub(crate) fn not_found(name: &str, message: impl Into<String>) -> Status {
    field(Code::NotFound, "NOT_FOUND", &FieldError::new(name, message))
}

/// `NOT_FOUND` for a node that the run does not have.
pub(crate) fn no_node(run: RunId, node: NodeId) -> Status {
    not_found("node_id", format!("node {node} does not exist in run {run}"))
}

/// `FAILED_PRECONDITION` for a run that cannot be deleted yet.
pub(crate) fn not_ended(run: RunId) -> Status {
    let message = format!("run {run} has not ended; cancel it first, and delete it when it has ended");
    field(Code::FailedPrecondition, "RUN_NOT_ENDED", &FieldError::new("run_id", message))
}

/// `FAILED_PRECONDITION` for a command to a run that has ended.
pub(crate) fn run_ended(run: RunId) -> Status {
    let message = format!(
        "run {run} has ended and takes no commands; fork it (ForkRun) to go on from any of its events"
    );
    field(Code::FailedPrecondition, "RUN_ENDED", &FieldError::new("run_id", message))
}

/// Why nobody else may write a document of a run.
pub(crate) fn run_writes_its_documents(run: RunId) -> Status {
    let message = format!("run {run} writes its own documents; write into a project instead");
    field(Code::FailedPrecondition, "DOCUMENT_OF_RUN", &FieldError::new("run_id", message))
}

/// `FAILED_PRECONDITION` for a document that stays with its run.
pub(crate) fn document_of_run(id: DocumentId) -> Status {
    let message = format!("document {id} belongs to a run and stays with it; delete the run");
    field(Code::FailedPrecondition, "DOCUMENT_OF_RUN", &FieldError::new("document_id", message))
}

/// `FAILED_PRECONDITION` for a document that another import, a person or a tool has written.
pub(crate) fn not_of_import(id: DocumentId, source: &str) -> Status {
    let message = format!("document {id} was not written last by the import {source:?}");
    field(Code::FailedPrecondition, "NOT_OF_IMPORT", &FieldError::new("import_source", message))
}

/// `FAILED_PRECONDITION` for a project that live runs name in their context.
pub(crate) fn in_use(project: ProjectId, runs: &[RunId]) -> Status {
    let runs: Vec<String> = runs.iter().map(RunId::to_string).collect();
    let named = match runs.is_empty() {
        // Those that the caller may not read.
        true => "of others".to_owned(),
        false => format!("among them {}", runs.join(", ")),
    };
    let message = format!(
        "project {project} is used by live runs, {named}; wait until they have ended, cancel them, or set force"
    );
    field(Code::FailedPrecondition, "PROJECT_IN_USE", &FieldError::new("project_id", message))
}

/// `FAILED_PRECONDITION` for a project in `name` that takes nothing new.
pub(crate) fn archived_project(name: &str, project: ProjectId) -> Status {
    let message = format!("project {project} is archived; set its status to active first");
    field(Code::FailedPrecondition, "PROJECT_ARCHIVED", &FieldError::new(name, message))
}

/// `FAILED_PRECONDITION` for a document that a tool may not replace.
pub(crate) fn imported(path: &str) -> Status {
    let message =
        format!("{path:?} was imported by people, and tools may not replace it; choose another path");
    field(Code::FailedPrecondition, "DOCUMENT_IMPORTED", &FieldError::new("path", message))
}

/// `ALREADY_EXISTS` for what `name` names.
pub(crate) fn already_exists(name: &str, message: impl Into<String>) -> Status {
    field(Code::AlreadyExists, "ALREADY_EXISTS", &FieldError::new(name, message))
}

/// `OUT_OF_RANGE` for a seq in `name` beyond the head of the log.
pub(crate) fn beyond_head(name: &str, seq: u64, head: u64) -> Status {
    let message = format!("is {seq}, beyond the head of the run's log, which is {head}");
    field(Code::OutOfRange, "BEYOND_HEAD", &FieldError::new(name, message))
}

/// `OUT_OF_RANGE` for a graph of more bytes than an answer may have.
pub(crate) fn graph_too_large(bytes: usize) -> Status {
    let message = format!(
        "the graph takes {bytes} bytes, more than the {} of an answer; ask for an earlier at_seq, page the log with ListEvents, or watch the run",
        limits::GRAPH_BYTES
    );
    field(Code::OutOfRange, "GRAPH_TOO_LARGE", &FieldError::new("at_seq", message))
}

/// `OUT_OF_RANGE` for a position in `name` beyond the end of a document.
pub(crate) fn beyond_end(name: &str, position: u64, end: u64) -> Status {
    let message = format!("is {position}, beyond the end of the document, which is {end}");
    field(Code::OutOfRange, "BEYOND_END", &FieldError::new(name, message))
}

/// `DATA_LOSS` for a log that does not go on where it should: somebody changed it by hand, or a restore went wrong.
pub(crate) fn gap(run: RunId, after_seq: u64, next: u64) -> Status {
    let message = format!(
        "the log of run {run} goes on with seq {next} after {after_seq}; `tree-agent verify {run}` says what is wrong"
    );
    tracing::error!("{message}");
    status(Code::DataLoss, "LOG_GAP", message)
}

/// A log that does not replay: a defect, or a log that was changed by hand.
pub(crate) fn replay(error: ReplayError) -> Status {
    tracing::error!("{}", chain(&error));
    status(Code::Internal, "LOG_BROKEN", format!("the run's log does not replay: {error}"))
}
