//! What a role reads before its model is asked: the documents of its children. Like the end of a scratchpad, that is no
//! call of a tool. What of it stood in the prompt is logged with the use of the model.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};
use tree_agent_contract::role::{ArtifactRef, ChildOutcome, RoleError};
use tree_agent_contract::text::prefix;
use tree_agent_contract::{DocumentId, limits};
use tree_agent_tools::ToolError;

use crate::io::{RoleIo, failed};

/// Documents that are read at the same time.
const AT_ONCE: usize = 4;

/// A document that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Read {
    /// Its beginning: as much as a prompt could hold.
    pub(super) text: String,
    /// Bytes of the whole document.
    pub(super) size: u64,
}

/// The documents that were read.
pub(super) type Documents = BTreeMap<DocumentId, Read>;

/// Reads what `children` want their parent to read, at most `max` bytes of each document. One that is gone is left out.
pub(super) async fn of_children(
    io: &RoleIo,
    children: &[ChildOutcome],
    max: usize,
) -> Result<Documents, RoleError> {
    let mut wanted: Vec<DocumentId> = children.iter().flat_map(named).collect();
    wanted.sort_unstable();
    wanted.dedup();
    wanted.truncate(limits::PROMPT_DOCUMENTS);
    let read = stream::iter(wanted).map(|id| async move {
        match io.tools().document(id).await {
            Ok(document) => {
                let (text, size) = (prefix(&document.body, max).to_owned(), document.body.len() as u64);
                Ok(Some((id, Read { text, size })))
            }
            Err(ToolError::NotFound(_)) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    });
    read.buffered(AT_ONCE).try_filter_map(async |read| Ok(read)).try_collect().await
}

/// The documents that a child names in its hint; its primary document if it names none.
fn named(child: &ChildOutcome) -> Vec<DocumentId> {
    let of = |wanted: fn(&ArtifactRef) -> bool| -> Vec<DocumentId> {
        child.artifacts.iter().filter(|a| wanted(a)).filter_map(|a| a.document_id).collect()
    };
    match of(|artifact| artifact.hinted) {
        hinted if hinted.is_empty() => of(|artifact| artifact.is_primary),
        hinted => hinted,
    }
}
