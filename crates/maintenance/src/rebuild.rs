//! Rebuilds projections from the log.

use std::time::Duration;

use tree_agent_contract::RunId;
use tree_agent_store::Store;

use crate::verify::{UnknownType, differences};
use crate::{Fold, MaintenanceError, PAGE};

/// Attempts for a run that is being driven.
const TRIES: u32 = 20;

/// The result of a rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuilt {
    /// The run.
    pub run_id: RunId,
    /// The event up to which its projections are now derived.
    pub head_seq: u64,
    /// Rows and columns that differed from the log before the rebuild.
    pub differences: usize,
}

/// Derives every row of `run` from its log again. If the log grew meanwhile because the run is being driven, tries
/// again.
///
/// # Errors
/// [`MaintenanceError::Moving`] if the log grew at every attempt; [`MaintenanceError::Replay`],
/// [`MaintenanceError::Head`] and [`MaintenanceError::Newer`] for a log from which nothing can be derived. Then nothing
/// has changed.
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
        // Events that an earlier attempt read are still valid, because logs only grow.
        loop {
            let after = fold.as_ref().map_or(0, Fold::seq);
            let want = usize::try_from(stored.head_seq.saturating_sub(after)).unwrap_or(PAGE).min(PAGE);
            let page = if want == 0 { Vec::new() } else { store.read(run, after, want).await? };
            if page.is_empty() {
                break;
            }
            if let Some(event) = page.iter().find_map(UnknownType::of) {
                return Err(MaintenanceError::Newer { run, event });
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
