//! Wake-ups: hints over fan-out that there is something for drivers to do.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;
use tree_agent_fanout::{Fanout, Signal, Subscription, Topic};

/// The least time between two wake-ups that are handled.
const GAP: Duration = Duration::from_millis(20);

/// The subscription to the wake topic, which is renewed whenever that is possible.
pub(crate) struct WakeUps {
    fanout: Arc<dyn Fanout>,
    subscription: Option<Subscription>,
    retry_at: Instant,
    /// Somebody has woken the drivers since the last return.
    woken: bool,
    /// When the next return may be.
    quiet_until: Instant,
}

impl WakeUps {
    pub(crate) fn new(fanout: Arc<dyn Fanout>) -> Self {
        Self {
            fanout,
            subscription: None,
            retry_at: Instant::now(),
            woken: false,
            quiet_until: Instant::now(),
        }
    }

    /// Returns when somebody wakes the drivers: at once after a quiet time, then at most once in [`GAP`]. A thousand
    /// runs that are created together wake a driver a few times. It must be safe to drop at any await.
    pub(crate) async fn next(&mut self) {
        loop {
            if self.woken {
                tokio::time::sleep_until(self.quiet_until).await;
                self.drain();
                self.woken = false;
                self.quiet_until = Instant::now() + GAP;
                return;
            }
            if let Some(subscription) = &mut self.subscription {
                match subscription.next().await {
                    Some(Signal::Message(_) | Signal::Missed) => {
                        self.woken = true;
                        continue;
                    }
                    None => self.subscription = None,
                }
            }
            tokio::time::sleep_until(self.retry_at).await;
            self.retry_at = Instant::now() + Duration::from_secs(1);
            match self.fanout.subscribe(Topic::Wake).await {
                Ok(subscription) => {
                    self.subscription = Some(subscription);
                    // Messages from before the subscription would be missed.
                    self.woken = true;
                }
                Err(error) => tracing::debug!(error = %error, "cannot subscribe to wake-ups; polling"),
            }
        }
    }

    /// Forgets the wake-ups that have arrived: one look answers all of them.
    fn drain(&mut self) {
        while let Some(subscription) = &mut self.subscription {
            match subscription.next().now_or_never() {
                Some(Some(_)) => {}
                Some(None) => self.subscription = None,
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tree_agent_fanout::InProcessFanout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_wake_ups_are_one() {
        let fanout: Arc<dyn Fanout> = Arc::new(InProcessFanout::new());
        let mut wake_ups = WakeUps::new(fanout.clone());
        wake_ups.next().await;
        let (publisher, began) = (fanout.clone(), Instant::now());
        let publishing = tokio::spawn(async move {
            for _ in 0..1_000 {
                publisher.publish(vec![(Topic::Wake, Default::default())]).await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        let mut returned = 0;
        while tokio::time::timeout(Duration::from_secs(1), wake_ups.next()).await.is_ok() {
            returned += 1;
        }
        publishing.await.unwrap();
        let most = began.elapsed().as_millis() / GAP.as_millis() + 1;
        assert!((2..=most).contains(&returned), "{returned} returns");
        // After a quiet time there is no delay.
        fanout.publish(vec![(Topic::Wake, Default::default())]).await.unwrap();
        let quiet = Instant::now();
        wake_ups.next().await;
        assert_eq!(quiet.elapsed(), Duration::ZERO);
    }
}
