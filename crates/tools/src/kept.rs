//! Documents that tools write for their run. The engine decides what becomes of them, so they are in the store only
//! when the result of the tool is in the log. Until then the call that wrote them can read them from here.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tree_agent_contract::role::KeptDocument;
use tree_agent_contract::{Document, DocumentId, DocumentKind, DocumentProps, Timestamp};
use uuid::Uuid;

use crate::source::Caller;

/// The latest documents that are held. Earlier ones are in the store by then.
const HELD: usize = 8;

/// A document that is named by its text, so that the same text again is the same document.
pub(crate) fn kept(folder: &str, extension: &str, title: String, body: String) -> KeptDocument {
    let hash = Uuid::new_v5(&Uuid::NAMESPACE_OID, body.as_bytes());
    KeptDocument { path: format!("{folder}/{hash}.{extension}"), title, body }
}

/// What the tools of one call have written.
#[derive(Clone, Default)]
pub(crate) struct Kept(Arc<Mutex<VecDeque<Document>>>);

impl Kept {
    /// A tool has written a document on behalf of `caller`.
    pub(crate) fn insert(&self, caller: &Caller, kept: &KeptDocument) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() == HELD {
            held.pop_front();
        }
        held.push_back(Document {
            id: DocumentId::of_run(caller.origin_run_id, &kept.path),
            kind: DocumentKind::Artifact,
            project_id: None,
            run_id: Some(caller.run_id),
            path: kept.path.clone(),
            title: kept.title.clone(),
            body: kept.body.clone(),
            props: DocumentProps::default(),
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
        });
    }

    /// A document that was written.
    pub(crate) fn find(&self, id: DocumentId) -> Option<Document> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter().find(|document| document.id == id).cloned()
    }
}
