//! Passages of documents: what a search looks at.

use async_trait::async_trait;
use tree_agent_contract::document::DocumentSummary;
use tree_agent_contract::{DocumentId, RunContext};
use tree_agent_retrieval::{Counts, Kind, Passage, Query};

use crate::error::StoreError;

/// Passages of one [search](Passages::find_passages) at the most.
pub const CANDIDATES: usize = 200;

/// Passages of the documents of projects. They are made of each document when it is put, and go with it.
#[async_trait]
pub trait Passages: Send + Sync {
    /// The passages that may answer a query best, at most [`CANDIDATES`], and how often its clauses occur. Those whose
    /// clauses weigh the most come first, then those that begin their documents, so every store gives the same ones.
    async fn find_passages(&self, query: PassageQuery) -> Result<FoundPassages, StoreError>;

    /// These passages, in their order. Those that are not there are left out.
    async fn passages(&self, ids: &[PassageId]) -> Result<Vec<StoredPassage>, StoreError>;

    /// Compares the passages of `limit` documents, by id after `after`, with what their bodies say. With `mended`,
    /// all of them are made anew, with the index of their words. A title that an earlier version found in a body is
    /// out of date, too, if it is none.
    async fn check_passages(
        &self,
        after: Option<DocumentId>,
        limit: usize,
        mended: bool,
    ) -> Result<CheckedPassages, StoreError>;
}

/// The name of a passage: its document, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PassageId {
    /// The document.
    pub document: DocumentId,
    /// From 0.
    pub ordinal: u32,
}

/// What to search for, and where.
#[derive(Clone, Debug, Default)]
pub struct PassageQuery {
    /// What for.
    pub query: Query,
    /// Where: sources of the projects that the context allows.
    pub context: RunContext,
    /// Only documents whose paths begin with this.
    pub path_prefix: String,
}

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundPassages {
    /// The candidates.
    pub passages: Vec<StoredPassage>,
    /// What the weights of the clauses are made of.
    pub counts: Counts,
    /// How many passages hold any of the clauses.
    pub total: u64,
}

/// A passage as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredPassage {
    /// Its name.
    pub id: PassageId,
    /// Its document.
    pub document: DocumentSummary,
    /// The headings above it.
    pub headings: Vec<String>,
    /// What it is.
    pub kind: Kind,
    /// The head of the table that it goes on with.
    pub head: String,
    /// The byte of the body at which it begins.
    pub offset: u64,
    /// Its text, as it stands there.
    pub text: String,
}

impl StoredPassage {
    /// What is ranked of it.
    pub fn ranked(&self) -> Passage<'_> {
        Passage {
            path: &self.document.path,
            title: &self.document.title,
            headings: &self.headings,
            kind: self.kind,
            head: &self.head,
            text: &self.text,
            offset: self.offset as usize,
        }
    }
}

/// Documents that were looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckedPassages {
    /// Those whose passages were not what their bodies say.
    pub differing: Vec<DocumentId>,
    /// The last one that was looked at; none if there was none.
    pub last: Option<DocumentId>,
}
