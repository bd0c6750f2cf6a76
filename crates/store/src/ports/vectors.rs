//! Vectors: what the texts of passages mean to a model.

use std::time::Duration;

use async_trait::async_trait;
use tree_agent_contract::{DocumentId, ProjectId, RunContext};
use uuid::Uuid;

use super::PassageId;
use crate::error::StoreError;

/// Vectors of the texts of passages, kept by the hashes of the texts.
#[async_trait]
pub trait Vectors: Send + Sync {
    /// Lets every text wait that has no vector of `model`. It looks at all passages. Texts of new passages wait by
    /// themselves.
    async fn find_unembedded(&self, model: &str) -> Result<(), StoreError>;

    /// Takes texts, at most `limit`, that wait for a vector of `model`. Nobody else gets them for as long as they are
    /// held, unless they get their vectors.
    async fn take_unembedded(
        &self,
        model: &str,
        limit: usize,
        hold: Duration,
    ) -> Result<Vec<Unembedded>, StoreError>;

    /// How many texts wait.
    async fn count_unembedded(&self) -> Result<u64, StoreError>;

    /// Keeps vectors of `model` by the hashes of their texts. Those whose text is gone are left out.
    async fn put_vectors(&self, model: &str, vectors: Vec<(Uuid, Vec<i8>)>) -> Result<(), StoreError>;

    /// Whether vectors that were read before still hold.
    async fn vector_marks(&self, model: &str, context: &RunContext) -> Result<VectorMarks, StoreError>;

    /// Passages of a project with their vectors of `model`, if they have some: `limit` of them, in the order of their
    /// ids after `after`.
    async fn vectors(
        &self,
        model: &str,
        project: ProjectId,
        after: Option<PassageId>,
        limit: usize,
    ) -> Result<Vec<(PassageId, Option<Vec<i8>>)>, StoreError>;

    /// How many passages that the context allows, below `path_prefix`, have a vector of `model`.
    async fn embedded(&self, model: &str, context: &RunContext, path_prefix: &str)
    -> Result<u64, StoreError>;

    /// The documents of the projects that the context allows whose paths begin with `path_prefix`.
    async fn documents_below(
        &self,
        context: &RunContext,
        path_prefix: &str,
    ) -> Result<Vec<DocumentId>, StoreError>;
}

/// A text whose meaning is not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unembedded {
    /// Names the text: [`text_hash`](crate::text_hash).
    pub hash: Uuid,
    /// What a model reads.
    pub text: String,
}

/// As long as the mark of a project is the same, its passages are. A passage that has a vector keeps it. One that has
/// none may get it when the mark of the model changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VectorMarks {
    /// How often vectors of the model were written.
    pub model: u64,
    /// The projects that the context allows, with their revisions.
    pub projects: Vec<(ProjectId, u64)>,
}
