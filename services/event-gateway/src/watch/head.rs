//! The head of a watched run: a number that changes, and tasks that wait for a change.
//!
//! It is like tokio's `watch`, but it wakes waiters in a deterministic order. `watch` wakes them in random order, so a
//! simulation of many watchers would not replay byte for byte. As in `watch`, waiters are spread over a few lists, so
//! that a thousand of them do not contend for one lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Lists of waiters.
const LISTS: usize = 8;

/// The side that changes the number.
pub(crate) struct Head(Arc<Shared>);

/// A waiter.
pub(crate) struct Reader {
    shared: Arc<Shared>,
    list: usize,
    seen: u64,
}

struct Shared {
    seq: AtomicU64,
    readers: AtomicUsize,
    joined: AtomicUsize,
    waiting: [Notify; LISTS],
}

impl Head {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Shared {
            seq: AtomicU64::new(0),
            readers: AtomicUsize::new(0),
            joined: AtomicUsize::new(0),
            waiting: Default::default(),
        }))
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.seq.load(Ordering::SeqCst)
    }

    /// Changes the number and wakes all waiters.
    pub(crate) fn set(&self, seq: u64) {
        self.0.seq.store(seq, Ordering::SeqCst);
        self.0.waiting.iter().for_each(Notify::notify_waiters);
    }

    /// A reader that has seen the current number.
    pub(crate) fn subscribe(&self) -> Reader {
        self.0.readers.fetch_add(1, Ordering::SeqCst);
        let list = self.0.joined.fetch_add(1, Ordering::Relaxed) % LISTS;
        Reader { shared: self.0.clone(), list, seen: self.get() }
    }

    /// Number of readers.
    pub(crate) fn readers(&self) -> usize {
        self.0.readers.load(Ordering::SeqCst)
    }
}

impl Reader {
    /// Marks the current number as seen.
    pub(crate) fn mark_seen(&mut self) {
        self.seen = self.shared.seq.load(Ordering::SeqCst);
    }

    /// Returns when the number differs from the one last seen. May be dropped at any await.
    pub(crate) async fn changed(&mut self) {
        loop {
            // Register before reading the number, so that a later change is noticed.
            let woken = self.shared.waiting[self.list].notified();
            let seq = self.shared.seq.load(Ordering::SeqCst);
            if seq != self.seen {
                self.seen = seq;
                return;
            }
            woken.await;
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.readers.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn every_reader_hears_of_each_change() {
        let head = Head::new();
        let mut readers: Vec<Reader> = (0..20).map(|_| head.subscribe()).collect();
        assert_eq!(head.readers(), 20);
        for seq in 1..=3 {
            let waiting: Vec<_> = readers.iter_mut().map(|reader| reader.changed()).collect();
            let mut all = futures::future::join_all(waiting);
            assert!((&mut all).now_or_never().is_none());
            head.set(seq);
            all.await;
        }
        head.set(4);
        readers[0].changed().now_or_never().expect("a change before the wait counts");
        readers[1].mark_seen();
        assert!(readers[1].changed().now_or_never().is_none(), "what was seen is no change");
        readers.truncate(2);
        assert_eq!((head.get(), head.readers()), (4, 2));
    }
}
