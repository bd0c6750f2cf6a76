//! Checks the passages of documents of projects, which are made of their bodies.

use tree_agent_contract::DocumentId;
use tree_agent_store::Store;

use crate::MaintenanceError;

/// Documents of one page: each may hold a megabyte.
const DOCUMENTS: usize = 50;

/// The documents whose passages are not what their bodies say. With `mended`, they are made anew.
///
/// # Errors
/// Only if the store cannot be read or written.
pub async fn passages(store: &dyn Store, mended: bool) -> Result<Vec<DocumentId>, MaintenanceError> {
    let (mut differing, mut after) = (Vec::new(), None);
    loop {
        let checked = store.check_passages(after, DOCUMENTS, mended).await?;
        differing.extend(checked.differing);
        match checked.last {
            Some(last) => after = Some(last),
            None => return Ok(differing),
        }
    }
}
