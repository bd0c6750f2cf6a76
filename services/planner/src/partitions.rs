//! Keeps the log's partitions ahead of time.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tree_agent_store::Archives;

/// How many months after this one have a partition. That leaves an operator time to notice a failure.
const MONTHS_AHEAD: u32 = 3;
/// Time between two rounds.
const INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// Delay before a failed round is repeated.
const RETRY_DELAY: Duration = Duration::from_secs(600);

/// Creates the partitions of the coming months, now and every day, until `shutdown`. A failure stops nothing: the
/// default partition takes events that have no other one.
pub async fn keep_ahead(store: impl Archives, shutdown: CancellationToken) {
    loop {
        let wait = match store.make_partitions(MONTHS_AHEAD).await {
            Ok(0) => INTERVAL,
            Ok(made) => {
                tracing::info!(made, "created partitions of the log");
                INTERVAL
            }
            Err(error) => {
                error.note("cannot create partitions of the log; trying again");
                RETRY_DELAY
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}
