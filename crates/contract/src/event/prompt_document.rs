//! What a prompt holds of a document.

use serde::{Deserialize, Serialize};

use crate::ids::DocumentId;

/// Text of a document in a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptDocument {
    /// The document.
    pub document_id: DocumentId,
    /// The byte at which the text begins.
    #[serde(default)]
    pub offset: u64,
    /// Bytes of the text, as the document holds it.
    pub bytes: u64,
    /// Bytes of the whole document.
    pub size: u64,
}
