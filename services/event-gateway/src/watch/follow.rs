//! Follows one watched run: what fan-out says and what the log has, merged into its hub.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;
use tree_agent_contract::RunId;
use tree_agent_fanout::{Signal, Topic};
use tree_agent_store::{READ_BYTES, StoreError};

use super::frame::{self, Frame};
use super::hub::{Hub, hear, pending, subscribe};
use super::watches::{Feed, Watches};

/// Events read from the log at a time.
const PAGE: usize = 512;
/// Maximum of publications that are taken together.
const BURST: usize = 128;

/// Follows `run`, beginning now if nobody else does.
pub(crate) fn feed(watches: &Arc<Watches>, run: RunId) -> Feed {
    let mut hubs = watches.hubs();
    let hub = hubs.entry(run).or_insert_with(|| {
        let hub = Arc::new(Hub::new(run, &watches.config));
        tokio::spawn(follow(hub.clone(), watches.clone()));
        hub
    });
    Feed { hub: hub.clone(), head: hub.subscribe(), stats: watches.stats.clone() }
}

/// Follows the run of `hub` until nobody has watched it for a while: subscribe first, then read the gap, then
/// live. Whatever fan-out loses, doubles or reorders is mended from the log.
async fn follow(hub: Arc<Hub>, watches: Arc<Watches>) {
    tokio::select! {
        biased;
        () = watches.done.cancelled() => {}
        () = listen(&hub, &watches) => {}
    }
    tracing::debug!(run = %hub.run, "no longer followed");
}

async fn listen(hub: &Hub, watches: &Watches) {
    // Where the window begins; what is older, watchers read from the log.
    while let Err(error) = begin(hub, watches).await {
        error.note("cannot read the head of a log");
        tokio::time::sleep(watches.config.head_check).await;
        if hub.watchers() == 0 && watches.forget_if_idle(hub) {
            return;
        }
    }
    // The broker may be slow to answer, or absent: the log is followed meanwhile.
    let mut confirming = Some(subscribe(&*watches.fanout, Topic::Run(hub.run)).boxed());
    let mut subscription = None;
    let mut idle_since = None;
    let mut tick = tokio::time::interval((watches.config.linger / 4).max(Duration::from_millis(10)));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        // In a fixed order, so that the same events lead to the same calls; what is always ready comes last.
        tokio::select! {
            biased;
            _ = tick.tick() => {
                if hub.watchers() > 0 {
                    idle_since = None;
                } else if idle_since.get_or_insert_with(Instant::now).elapsed() >= watches.config.linger
                    && watches.forget_if_idle(hub)
                {
                    return;
                }
            }
            () = hub.bridge.notified() => {
                catch_up(hub, watches).await;
                if subscription.is_none() && confirming.is_none() {
                    confirming = Some(subscribe(&*watches.fanout, Topic::Run(hub.run)).boxed());
                }
            }
            confirmed = pending(&mut confirming) => {
                confirming = None;
                subscription = confirmed;
                // From here on every message is heard; what was appended before is in the log.
                catch_up(hub, watches).await;
            }
            signal = hear(&mut subscription) => {
                let Some(first) = signal else {
                    subscription = None;
                    continue;
                };
                // Whatever the broker sends in one go is handed on in one go: waking the watchers is what costs.
                tokio::task::yield_now().await;
                let more = subscription.iter_mut().flat_map(|s| std::iter::from_fn(|| s.next().now_or_never()?));
                take(hub, watches, std::iter::once(first).chain(more.take(BURST))).await;
            }
        }
    }
}

async fn begin(hub: &Hub, watches: &Watches) -> Result<(), StoreError> {
    let heads = watches.store.heads(&[hub.run]).await?;
    if let Some((_, head)) = heads.first() {
        hub.head.set(*head);
    }
    Ok(())
}

/// Takes the events from the messages and reads missing ones from the log. A message that does not fit the run is
/// dropped.
async fn take(hub: &Hub, watches: &Watches, signals: impl Iterator<Item = Signal>) {
    let (mut frames, mut missed) = (Vec::new(), false);
    let run = hub.run.to_string();
    for signal in signals {
        match signal {
            Signal::Message(message) => match frame::batch(message, &run) {
                Ok(batch) => frames.extend(batch),
                Err(error) => {
                    tracing::debug!(run, "a published message is dropped: {error}");
                    watches.stats.unfit_messages.fetch_add(1, Ordering::Relaxed);
                    missed = true;
                }
            },
            Signal::Missed => missed = true,
        }
    }
    if !hub.extend(frames) || missed {
        catch_up(hub, watches).await;
    }
}

/// Reads everything behind the hub's head from the log. When that fails, the next check of heads asks again.
async fn catch_up(hub: &Hub, watches: &Watches) {
    watches.stats.catch_ups.fetch_add(1, Ordering::Relaxed);
    loop {
        match watches.store.read(hub.run, hub.head(), PAGE).await {
            Ok(events) => {
                let frames: Vec<Frame> = events.iter().map(Frame::of).collect();
                // A page that the store has cut because of its bytes is large, also in this form.
                let bytes: usize = frames.iter().map(|frame| frame.bytes.len()).sum();
                let more = frames.len() == PAGE || bytes >= READ_BYTES / 8;
                // A page that does not move on would be read for ever.
                if !hub.resume(frames) || !more {
                    return;
                }
            }
            Err(error) => {
                error.note("cannot read a log");
                return;
            }
        }
    }
}
