//! A limit of answers whose clients do not read on.
//!
//! HTTP/2 holds a record of every stream and up to one part of its answer, and nothing but the end of the connection
//! takes them from a client that leaves its streams open. One connection may have thousands of them, and a port
//! thousands of connections. If too many answers of a port wait for their clients, the connection with the most of
//! them is cut.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio_util::sync::CancellationToken;

/// The default limit.
pub(super) const ANSWERS: usize = 16_384;

/// The unread answers of a port. Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct Unread(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: usize,
    answers: AtomicUsize,
    cut: AtomicU64,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    connections: BTreeMap<u64, Arc<Counter>>,
    next: u64,
    /// The connection that was cut last. Its answers count until its tasks have ended.
    cutting: Weak<Counter>,
}

/// The unread answers of one connection.
#[derive(Debug, Default)]
struct Counter {
    answers: AtomicUsize,
    cut: CancellationToken,
}

impl Unread {
    /// Counts up to `limit` answers.
    pub(crate) fn new(limit: usize) -> Self {
        let (answers, cut, open) = Default::default();
        Self(Arc::new(Shared { limit, answers, cut, open }))
    }

    /// Answers that wait for their clients.
    pub(crate) fn answers(&self) -> usize {
        self.0.answers.load(Ordering::Relaxed)
    }

    /// Number of connections that were cut.
    pub(crate) fn cut(&self) -> u64 {
        self.0.cut.load(Ordering::Relaxed)
    }

    /// A new connection. It is open until the returned value is dropped.
    pub(crate) fn connect(&self) -> Connection {
        let counter = Arc::new(Counter::default());
        let mut open = locked(&self.0.open);
        let id = open.next;
        open.next += 1;
        open.connections.insert(id, counter.clone());
        Connection { id, counter, unread: self.clone() }
    }

    /// Cuts the connection with the most unread answers. While those of one that was cut still count, no other is cut.
    fn cut_worst(&self) {
        let mut open = locked(&self.0.open);
        let unread = |counter: &Counter| counter.answers.load(Ordering::Relaxed);
        if open.cutting.upgrade().is_some_and(|counter| unread(&counter) > 0) {
            return;
        }
        let Some(worst) = open.connections.values().max_by_key(|counter| unread(counter)).cloned() else {
            return;
        };
        tracing::warn!(
            answers = unread(&worst),
            of = self.answers(),
            "too many answers wait for their clients; cutting the connection with the most (TREE_AGENT_UNREAD_ANSWERS)"
        );
        open.cutting = Arc::downgrade(&worst);
        drop(open);
        self.0.cut.fetch_add(1, Ordering::Relaxed);
        worst.cut.cancel();
    }
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct Connection {
    id: u64,
    counter: Arc<Counter>,
    unread: Unread,
}

impl Connection {
    /// Completes when the connection has to be cut.
    pub(super) async fn cut(&self) {
        self.counter.cut.cancelled().await;
    }

    /// What counts the answers of this connection.
    pub(super) fn reader(&self) -> Reader {
        Reader { counter: self.counter.clone(), unread: self.unread.clone() }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        locked(&self.unread.0.open).connections.remove(&self.id);
    }
}

/// Counts the unread answers of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    counter: Arc<Counter>,
    unread: Unread,
}

impl Reader {
    /// A new answer, which counts until its client asks for its first part.
    pub(crate) fn answer(&self) -> Waiting {
        let mut waiting = Waiting { reader: self.clone(), counts: false };
        waiting.handed_out();
        waiting
    }
}

/// Whether one answer waits for its client.
#[derive(Debug)]
pub(crate) struct Waiting {
    reader: Reader,
    counts: bool,
}

impl Waiting {
    /// A part was handed out; until the client has room for the next one, the answer counts.
    pub(crate) fn handed_out(&mut self) {
        if std::mem::replace(&mut self.counts, true) {
            return;
        }
        let Reader { counter, unread } = &self.reader;
        counter.answers.fetch_add(1, Ordering::Relaxed);
        if unread.0.answers.fetch_add(1, Ordering::Relaxed) >= unread.0.limit {
            unread.cut_worst();
        }
    }

    /// The client has room for the next part.
    pub(crate) fn asked(&mut self) {
        if std::mem::take(&mut self.counts) {
            self.reader.counter.answers.fetch_sub(1, Ordering::Relaxed);
            self.reader.unread.0.answers.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.asked();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_cut(connection: &Connection) -> bool {
        connection.counter.cut.is_cancelled()
    }

    fn answers(connection: &Connection, number: usize) -> Vec<Waiting> {
        (0..number).map(|_| connection.reader().answer()).collect()
    }

    #[test]
    fn the_connection_with_the_most_unread_answers_is_cut() {
        let unread = Unread::new(10);
        let (few, many, none) = (unread.connect(), unread.connect(), unread.connect());
        let mut some = answers(&few, 4);
        let most = answers(&many, 6);
        assert!(![&few, &many, &none].into_iter().any(is_cut));
        some.extend(answers(&few, 1));
        assert_eq!([is_cut(&few), is_cut(&many), is_cut(&none)], [false, true, false]);
        // Its answers count until they are dropped, and until then no other connection is cut.
        some.extend(answers(&few, 3));
        assert_eq!((is_cut(&few), unread.cut()), (false, 1));
        drop((most, many));
        assert_eq!(unread.answers(), 8);
        some.extend(answers(&few, 2));
        assert!(!is_cut(&few));
        some.extend(answers(&few, 1));
        assert_eq!((is_cut(&few), unread.cut()), (true, 2));
        drop((some, few, none));
        assert_eq!((unread.answers(), locked(&unread.0.open).connections.len()), (0, 0));
    }

    #[test]
    fn an_answer_counts_while_it_waits_for_its_client() {
        let unread = Unread::new(1);
        let connection = unread.connect();
        let mut answer = connection.reader().answer();
        for _ in 0..3 {
            assert_eq!(unread.answers(), 1);
            answer.handed_out();
            assert_eq!(unread.answers(), 1, "it counted twice");
            answer.asked();
            assert_eq!(unread.answers(), 0);
            answer.handed_out();
        }
        assert!(!is_cut(&connection));
        drop(answer);
        assert_eq!(unread.answers(), 0);
    }
}
