//! Documents without their text, and what a search finds in them.

use tree_agent_contract::error::FieldError;
use tree_agent_contract::{
    DocumentProps, DocumentSummary, RunId, SearchHit, SearchResults, Timestamp, WordCount,
};

use crate::v1 as pb;
use crate::wire::{Wire, wire_message, within};

wire_message! {
    SearchHit => SearchHit {
        document [required], headings, head, offset, passage, lexical_rank, vector_rank, similarity, score,
    }
    WordCount => WordCount { word, passages }
}

impl Wire for SearchResults {
    type Pb = pb::SearchDocumentsResponse;

    fn to_wire(&self) -> Self::Pb {
        pb::SearchDocumentsResponse {
            hits: self.hits.to_wire(),
            total_size: self.total,
            passages: self.passages,
            embedded: self.embedded,
            vectors: self.vectors,
            words: self.words.to_wire(),
        }
    }

    fn from_wire(pb: Self::Pb) -> Result<Self, FieldError> {
        Ok(Self {
            hits: Wire::from_wire(pb.hits).map_err(|e| within("hits", e))?,
            total: pb.total_size,
            passages: pb.passages,
            embedded: pb.embedded,
            vectors: pb.vectors,
            words: Wire::from_wire(pb.words)?,
        })
    }
}

impl Wire for DocumentSummary {
    type Pb = pb::DocumentSummary;

    fn to_wire(&self) -> pb::DocumentSummary {
        let props = &self.props;
        pb::DocumentSummary {
            document_id: self.id.to_wire(),
            kind: self.kind.to_wire(),
            project_id: self.project_id.to_wire(),
            run_id: self.run_id.to_wire(),
            node_id: props.tree_agent_node_id.to_wire(),
            path: self.path.clone(),
            title: self.title.clone(),
            bytes: self.bytes,
            updated_at: Some(self.updated_at.to_wire()),
            content_hash: props.content_hash.as_deref().unwrap_or_default().to_owned(),
            import: props.import.to_wire(),
            parent_id: self.parent_id.map(|id| id.to_wire()).unwrap_or_default(),
            doc_role: props.doc_role.clone().unwrap_or_default(),
            branch_id: props.branch_id.clone().unwrap_or_default(),
            iteration: props.iteration.unwrap_or_default(),
            owner: props.owner.clone().unwrap_or_default(),
            tags: props.tags.clone(),
        }
    }

    /// With the properties that the message carries.
    fn from_wire(pb: pb::DocumentSummary) -> Result<Self, FieldError> {
        let run_id: Option<RunId> = Wire::from_wire(pb.run_id).map_err(|e| within("run_id", e))?;
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let parent_id = some(pb.parent_id).map(Wire::from_wire).transpose();
        let updated_at: Option<Timestamp> =
            Wire::from_wire(pb.updated_at).map_err(|e| within("updated_at", e))?;
        Ok(Self {
            id: Wire::from_wire(pb.document_id).map_err(|e| within("document_id", e))?,
            kind: Wire::from_wire(pb.kind).map_err(|e| within("kind", e))?,
            project_id: Wire::from_wire(pb.project_id).map_err(|e| within("project_id", e))?,
            run_id,
            path: pb.path,
            title: pb.title,
            bytes: pb.bytes,
            props: DocumentProps {
                tree_agent_run_id: run_id,
                tree_agent_node_id: Wire::from_wire(pb.node_id).map_err(|e| within("node_id", e))?,
                import: Wire::from_wire(pb.import).map_err(|e| within("import", e))?,
                content_hash: some(pb.content_hash).map(Into::into),
                doc_role: some(pb.doc_role),
                branch_id: some(pb.branch_id),
                iteration: Some(pb.iteration).filter(|iteration| *iteration > 0),
                owner: some(pb.owner),
                tags: pb.tags,
                ..DocumentProps::default()
            },
            updated_at: updated_at.unwrap_or_default(),
            parent_id: parent_id.map_err(|e| within("parent_id", e))?,
        })
    }
}
