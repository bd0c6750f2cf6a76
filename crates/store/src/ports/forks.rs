//! Forks: runs whose log begins with that of another run.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tree_agent_contract::event::Event;
use tree_agent_contract::{DocumentId, RunId, RunSpec};

use super::{Created, DocumentTail, DocumentVersion, Page, PlacedDocument, RunRow};
use crate::error::StoreError;

/// Forks. Every reader of a fork's log sees one log under the fork's id. Of the run that it forks, nothing is copied
/// and nothing changes.
///
/// What a fork writes is its own: its events from the next seq on, the rows that these touch, its documents and
/// conversations. It reads the documents and conversations of the runs before it as they were at the event that it
/// shares with them.
#[async_trait]
pub trait Forks: Send + Sync {
    /// Writes the row of a fork and its first event, and nothing else.
    ///
    /// Request ids are those of [`create_run`](super::Runs::create_run): if this one was used before by the same user,
    /// nothing is written. It is [`Created::Existing`] if the run is the same fork, else [`StoreError::Conflict`].
    ///
    /// [`StoreError::NotFound`] for an unknown or deleted run, [`StoreError::Archived`] for an archived one, and
    /// [`StoreError::Conflict`] if the run did not write the event `parent_seq`.
    async fn fork_run(&self, fork: NewFork) -> Result<Created, StoreError>;

    /// The parts of the log before the first event that the run wrote itself, the oldest first. Empty if it is no fork,
    /// and for unknown runs.
    async fn segments(&self, run: RunId) -> Result<Vec<Segment>, StoreError>;

    /// A document as `run` has it: its own, else that of the runs before it. Otherwise as
    /// [`document_at`](super::Documents::document_at).
    async fn document_of(
        &self,
        run: RunId,
        id: DocumentId,
        at_seq: Option<u64>,
    ) -> Result<PlacedDocument, StoreError>;

    /// As [`document_versions`](super::Documents::document_versions), of a document as `run` has it.
    async fn document_versions_of(
        &self,
        run: RunId,
        id: DocumentId,
        after: u64,
        limit: usize,
    ) -> Result<Page<DocumentVersion>, StoreError>;

    /// As [`document_tail`](super::Documents::document_tail), of a document as `run` has it.
    async fn document_tail_of(
        &self,
        run: RunId,
        id: DocumentId,
        from: u64,
        max: usize,
    ) -> Result<DocumentTail, StoreError>;
}

/// A fork to be written.
#[derive(Clone, Debug)]
pub struct NewFork {
    /// Its id.
    pub run_id: RunId,
    /// The run that wrote the last event which they share.
    pub parent_run_id: RunId,
    /// That event.
    pub parent_seq: u64,
    /// What the fork is asked for: what the run before it is, with its own owner, name and labels.
    pub spec: RunSpec,
    /// Makes the call idempotent per user; empty for none.
    pub request_id: String,
    /// Its first event, `tree.run_forked`.
    pub event: Event,
    /// The derived columns of its row.
    pub row: RunRow,
    /// What it does differently, in words.
    pub edits: Vec<String>,
}

/// A part of a fork's log that a run before it has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Segment {
    /// The run under which it is stored.
    pub run: RunId,
    /// The run that wrote it.
    pub writer: RunId,
    /// The epoch of that run when it was forked: no event of the part was written in a later one.
    pub epoch: u64,
    /// Its last event. It begins behind the part before.
    pub until: u64,
}
