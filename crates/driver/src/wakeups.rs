//! Wake-ups: hints over fan-out that there is something for drivers to do.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tree_agent_fanout::{Fanout, Signal, Subscription, Topic};

/// The subscription to the wake topic, which is renewed whenever that is possible.
pub(crate) struct WakeUps {
    fanout: Arc<dyn Fanout>,
    subscription: Option<Subscription>,
    retry_at: Instant,
}

impl WakeUps {
    pub(crate) fn new(fanout: Arc<dyn Fanout>) -> Self {
        Self { fanout, subscription: None, retry_at: Instant::now() }
    }

    /// Returns when somebody wakes the drivers. It must be safe to drop at any await.
    pub(crate) async fn next(&mut self) {
        loop {
            if let Some(subscription) = &mut self.subscription {
                match subscription.next().await {
                    Some(Signal::Message(_) | Signal::Missed) => return,
                    None => self.subscription = None,
                }
            }
            tokio::time::sleep_until(self.retry_at).await;
            self.retry_at = Instant::now() + Duration::from_secs(1);
            match self.fanout.subscribe(Topic::Wake).await {
                Ok(subscription) => {
                    self.subscription = Some(subscription);
                    // Messages from before the subscription would be missed.
                    return;
                }
                Err(error) => tracing::debug!(error = %error, "cannot subscribe to wake-ups; polling"),
            }
        }
    }
}
