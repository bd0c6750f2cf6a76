//! Keeps the log's partitions ahead of time.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tree_agent_store::Archives;

/// Months ahead of this one that have a partition. Enough for an operator to notice that no more can be made.
const MONTHS: u32 = 3;
/// How often that is looked after.
const EVERY: Duration = Duration::from_secs(24 * 3600);
/// How soon a failure is followed by another try.
const AGAIN: Duration = Duration::from_secs(600);

/// Makes the partitions of the coming months, now and every day, until `shutdown`. Failing is no reason to stop
/// anything: the default partition takes what has no other, and the log stays whole.
pub async fn keep_ahead(store: impl Archives, shutdown: CancellationToken) {
    loop {
        let wait = match store.make_partitions(MONTHS).await {
            Ok(0) => EVERY,
            Ok(made) => {
                tracing::info!(made, "partitions of the log made ahead");
                EVERY
            }
            Err(error) => {
                tracing::warn!(error = %error, "partitions of the log cannot be made now");
                AGAIN
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}
