//! Projections made again from the log.

use std::time::Duration;

use tree_agent_contract::RunId;
use tree_agent_store::Store;

use crate::verify::differences;
use crate::{Fold, MaintenanceError, PAGE};

/// How often a run that is being driven is tried.
const TRIES: u32 = 20;

/// What a rebuild did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuilt {
    /// The run.
    pub run_id: RunId,
    /// The event up to which its projections now stand.
    pub head_seq: u64,
    /// Rows and columns that differed from the log before.
    pub differences: usize,
}

/// Replaces every row that is derived from the log of `run` by what the log says. While the run is being driven it
/// is tried again each time that the log grew meanwhile.
///
/// # Errors
/// [`MaintenanceError::Moving`] when it grew at every try; [`MaintenanceError::Replay`] and
/// [`MaintenanceError::Head`] for a log from which nothing can be derived. Nothing has changed then.
pub async fn rebuild(store: &dyn Store, run: RunId) -> Result<Rebuilt, MaintenanceError> {
    let mut fold: Option<Fold> = None;
    for attempt in 0..TRIES {
        let stored = store.stored(run).await?;
        if stored.archived {
            return Err(MaintenanceError::Archived(run));
        }
        if stored.head_seq != stored.last_seq {
            let (head_seq, last_seq) = (stored.head_seq, stored.last_seq);
            return Err(MaintenanceError::Head { run, head_seq, last_seq });
        }
        // What was read in an earlier try still stands: logs only grow.
        loop {
            let after = fold.as_ref().map_or(0, Fold::seq);
            let want = usize::try_from(stored.head_seq.saturating_sub(after)).unwrap_or(PAGE).min(PAGE);
            let page = if want == 0 { Vec::new() } else { store.read(run, after, want).await? };
            if page.is_empty() {
                break;
            }
            Fold::extend(&mut fold, &page)?;
        }
        let head_seq = stored.head_seq;
        let Some(whole) = fold.as_ref().map(|fold| fold.clone().whole()) else {
            return Err(MaintenanceError::Head { run, head_seq, last_seq: 0 });
        };
        let differences = differences(&stored.rows, &whole.rows(run)).len();
        if store.replace_projection(run, head_seq, whole).await? {
            return Ok(Rebuilt { run_id: run, head_seq, differences });
        }
        tokio::time::sleep(Duration::from_millis(20) * (attempt + 1)).await;
    }
    Err(MaintenanceError::Moving(run))
}
