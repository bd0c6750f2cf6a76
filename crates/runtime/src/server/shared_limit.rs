//! A limit of what the connections of a port hold together, such as open requests.
//!
//! One connection may have thousands of streams, and a port thousands of connections. If all of them together hold too
//! much, the connection that holds the most is cut. What its streams hold goes when their tasks run, which may take a
//! while if many tasks wait. Whoever is about to make more waits if too much is still ending.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::locked;

/// How long a request or a connection waits for others to end. They end as fast as the machine can drop them.
const PATIENCE: Duration = Duration::from_secs(10);

/// The limit and what is held at present. Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct SharedLimit(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: usize,
    /// The variable that sets it.
    setting: &'static str,
    /// What all open connections hold.
    held: AtomicUsize,
    /// What connections held that are over, and whose tasks have not ended yet.
    ending: AtomicUsize,
    /// Notified when there is room for more.
    room: Notify,
    cut: AtomicU64,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    connections: BTreeMap<u64, Arc<Part>>,
    next: u64,
}

/// What one connection holds.
#[derive(Debug, Default)]
struct Part {
    count: Mutex<Count>,
    cut: CancellationToken,
}

#[derive(Debug, Default)]
struct Count {
    held: usize,
    /// The connection is being cut or has ended, and what it holds is ending.
    is_over: bool,
}

impl Part {
    fn add(&self, of: &SharedLimit, number: usize) {
        let mut count = locked(&self.count);
        count.held += number;
        if count.is_over {
            of.0.ending.fetch_add(number, Ordering::Relaxed);
            return;
        }
        let before = of.0.held.fetch_add(number, Ordering::Relaxed);
        drop(count);
        if before + number > of.0.limit {
            of.cut_worst();
        }
    }

    fn remove(&self, of: &SharedLimit, number: usize) {
        let mut count = locked(&self.count);
        count.held -= number;
        if !count.is_over {
            of.0.held.fetch_sub(number, Ordering::Relaxed);
            return;
        }
        let before = of.0.ending.fetch_sub(number, Ordering::Relaxed);
        if before > of.0.limit && before - number <= of.0.limit {
            of.0.room.notify_waiters();
        }
    }

    /// The connection is over: what it holds counts as ending from now on. Returns how much that is, or none if it was
    /// over before.
    fn end(&self, of: &SharedLimit) -> Option<usize> {
        let mut count = locked(&self.count);
        if std::mem::replace(&mut count.is_over, true) {
            return None;
        }
        of.0.held.fetch_sub(count.held, Ordering::Relaxed);
        of.0.ending.fetch_add(count.held, Ordering::Relaxed);
        Some(count.held)
    }
}

impl SharedLimit {
    /// The limit that the variable `setting` sets.
    pub(crate) fn new(limit: usize, setting: &'static str) -> Self {
        let (held, ending, room, cut, open) = Default::default();
        Self(Arc::new(Shared { limit, setting, held, ending, room, cut, open }))
    }

    /// What all open connections hold.
    pub(crate) fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    /// Number of connections that were cut.
    pub(crate) fn cut(&self) -> u64 {
        self.0.cut.load(Ordering::Relaxed)
    }

    /// A new connection. It is open until the returned value is dropped.
    pub(crate) fn connect(&self) -> Share {
        let part = Arc::new(Part::default());
        let mut open = locked(&self.0.open);
        let id = open.next;
        open.next += 1;
        open.connections.insert(id, part.clone());
        Share { id, counter: Counter { part, of: self.clone() } }
    }

    fn has_room(&self) -> bool {
        self.0.ending.load(Ordering::Relaxed) <= self.0.limit
    }

    /// Waits while too much is ending.
    async fn room(&self) {
        loop {
            let mut room = std::pin::pin!(self.0.room.notified());
            // What comes after this line is not missed.
            room.as_mut().enable();
            if self.has_room() {
                return;
            }
            room.await;
        }
    }

    /// Cuts the connection that holds the most.
    fn cut_worst(&self) {
        let open = locked(&self.0.open);
        // One of several that come here at the same time may have been enough.
        let of = self.held();
        if of <= self.0.limit {
            return;
        }
        let held = |part: &&Arc<Part>| {
            let count = locked(&part.count);
            if count.is_over { 0 } else { count.held }
        };
        let Some(worst) = open.connections.values().max_by_key(held) else { return };
        let Some(held) = worst.end(self) else { return };
        self.0.cut.fetch_add(1, Ordering::Relaxed);
        worst.cut.cancel();
        let setting = self.0.setting;
        tracing::warn!(
            held,
            of,
            ending = self.0.ending.load(Ordering::Relaxed),
            "clients are beyond {setting} together; cutting the connection with the most"
        );
    }

    /// What connections held that are over, and whose tasks have not ended yet.
    #[cfg(test)]
    pub(super) fn ending(&self) -> usize {
        self.0.ending.load(Ordering::Relaxed)
    }
}

/// The share of an open connection.
#[derive(Debug)]
pub(crate) struct Share {
    id: u64,
    counter: Counter,
}

impl Share {
    /// Completes when the connection has to be cut.
    pub(super) async fn cut(&self) {
        self.counter.part.cut.cancelled().await;
    }

    /// What counts for this connection.
    pub(super) fn counter(&self) -> Counter {
        self.counter.clone()
    }

    #[cfg(test)]
    pub(super) fn is_cut(&self) -> bool {
        self.counter.part.cut.is_cancelled()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Counter { part, of } = &self.counter;
        locked(&of.0.open).connections.remove(&self.id);
        part.end(of);
    }
}

/// Counts what one connection holds.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    part: Arc<Part>,
    of: SharedLimit,
}

impl Counter {
    /// Counts so many more until the returned value is dropped.
    pub(crate) fn hold(&self, number: usize) -> Held {
        self.part.add(&self.of, number);
        Held { counter: self.clone(), number }
    }

    /// Waits until there is room for more, up to [`PATIENCE`].
    pub(crate) async fn room(&self) {
        let _ = tokio::time::timeout(PATIENCE, self.of.room()).await;
    }
}

/// Opens while there is room for more.
pub(super) struct Gate {
    counter: Counter,
    waiting: Option<BoxFuture<'static, ()>>,
}

impl Gate {
    /// A gate that opens when `counter` has room.
    pub(super) const fn new(counter: Counter) -> Self {
        Self { counter, waiting: None }
    }

    /// Ready when there is room, or when there was none for [`PATIENCE`].
    pub(super) fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.waiting.is_none() && self.counter.of.has_room() {
            return Poll::Ready(());
        }
        let counter = &self.counter;
        let waiting = self.waiting.get_or_insert_with(|| {
            let counter = counter.clone();
            async move { counter.room().await }.boxed()
        });
        ready!(waiting.poll_unpin(cx));
        self.waiting = None;
        Poll::Ready(())
    }
}

/// Something that counts.
#[derive(Debug)]
pub(crate) struct Held {
    counter: Counter,
    number: usize,
}

impl Held {
    /// Whether its connection is being cut or has ended.
    pub(super) fn is_over(&self) -> bool {
        locked(&self.counter.part.count).is_over
    }

    /// Counts so many more.
    pub(super) fn grow(&mut self, number: usize) {
        self.counter.part.add(&self.counter.of, number);
        self.number += number;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.counter.part.remove(&self.counter.of, self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn hold(share: &Share, number: usize) -> Vec<Held> {
        (0..number).map(|_| share.counter().hold(1)).collect()
    }

    #[test]
    fn the_connection_that_holds_the_most_is_cut() {
        let limit = SharedLimit::new(10, "LIMIT");
        let (few, many, none) = (limit.connect(), limit.connect(), limit.connect());
        let mut some = hold(&few, 4);
        let most = hold(&many, 6);
        assert!(![&few, &many, &none].into_iter().any(Share::is_cut));
        some.extend(hold(&few, 1));
        assert_eq!([&few, &many, &none].map(Share::is_cut), [false, true, false]);
        // What it holds does not count any more, whether it has ended or not. It is not cut again.
        assert_eq!((limit.held(), limit.cut()), (5, 1));
        let more = hold(&many, 10);
        assert_eq!(limit.held(), 5);
        drop((most, more, many));
        assert_eq!(limit.held(), 5);
        some.extend(hold(&few, 5));
        assert_eq!((limit.held(), limit.cut()), (10, 1));
        let rest = hold(&none, 1);
        assert_eq!((few.is_cut(), none.is_cut(), limit.cut()), (true, false, 2));
        assert_eq!(limit.held(), 1);
        drop((some, rest, few, none));
        assert_eq!((limit.held(), limit.ending(), locked(&limit.0.open).connections.len()), (0, 0, 0));
    }

    #[test]
    fn what_a_connection_held_that_has_ended_cuts_no_other() {
        let limit = SharedLimit::new(10, "LIMIT");
        let (ended, innocent) = (limit.connect(), limit.connect());
        let ending = hold(&ended, 10);
        drop(ended);
        assert_eq!((limit.held(), limit.ending()), (0, 10));
        let few = hold(&innocent, 10);
        assert!(!innocent.is_cut());
        drop((ending, few, innocent));
        assert_eq!((limit.held(), limit.ending()), (0, 0));
    }

    #[tokio::test]
    async fn nothing_is_made_while_too_much_is_ending() {
        let limit = SharedLimit::new(10, "LIMIT");
        let (first, second) = (limit.connect(), limit.connect());
        let (mut ending, counter) = (hold(&first, 11), second.counter());
        assert!(first.is_cut());
        let waiting = tokio::spawn(async move { counter.room().await });
        // It waits already when there is room.
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        ending.pop();
        waiting.await.unwrap();
        assert_eq!(limit.held(), 0);
        second.counter().room().await;
        // What is made all the same counts as well.
        ending.push(first.counter().hold(1));
        assert!(second.counter().room().now_or_never().is_none());
    }
    #[tokio::test]
    async fn one_may_count_for_several() {
        let limit = SharedLimit::new(10, "LIMIT");
        let (small, large) = (limit.connect(), limit.connect());
        let (one, mut several) = (small.counter().hold(1), vec![large.counter().hold(9)]);
        assert!(!large.is_cut() && !several[0].is_over());
        several.push(large.counter().hold(9));
        assert!(large.is_cut() && several[0].is_over() && !one.is_over());
        assert_eq!((limit.held(), limit.ending()), (1, 18));
        let counter = small.counter();
        let waiting = tokio::spawn(async move { counter.room().await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        several.pop();
        waiting.await.unwrap();
        drop((several, one));
        assert_eq!((limit.held(), limit.ending()), (0, 0));
    }
}
