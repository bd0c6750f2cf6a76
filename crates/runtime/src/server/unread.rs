//! A limit of answers whose clients do not read on.
//!
//! HTTP/2 holds a record of every stream and up to one part of its answer, and nothing but the end of the connection
//! takes them from a client that leaves its streams open. One connection may have thousands of them, and a port
//! thousands of connections. If too many answers of a port wait for their clients, the connection with the most of
//! them is cut. What its streams hold goes when their tasks run, which may take a while if many tasks wait. No answers are
//! made meanwhile if too many are to go.
//!
//! An answer without a body has no part that HTTP/2 could ask for. It counts until HTTP/2 has written all that it had
//! to write.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::locked;

/// The default limit.
pub(super) const ANSWERS: usize = 16_384;

/// How long a request waits for answers to end. They end as fast as the machine can drop them.
const PATIENCE: Duration = Duration::from_secs(10);

/// The unread answers of a port. Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct Unread(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: usize,
    /// The answers of all open connections.
    answers: AtomicUsize,
    /// The answers of connections that are over, and whose tasks have not ended yet.
    ending: AtomicUsize,
    /// Notified when there is room for further answers.
    room: Notify,
    cut: AtomicU64,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    connections: BTreeMap<u64, Arc<Counter>>,
    next: u64,
}

/// The unread answers of one connection.
#[derive(Debug, Default)]
struct Counter {
    count: Mutex<Count>,
    cut: CancellationToken,
}

#[derive(Debug, Default)]
struct Count {
    /// With those that are heads only.
    answers: usize,
    /// Answers without a body, such as errors, that HTTP/2 may not have sent yet.
    heads: usize,
    /// The connection is being cut or has ended, and its answers are ending.
    is_over: bool,
}

impl Counter {
    /// Counts a further answer, unless `note` says that it does not count.
    fn add(&self, unread: &Unread, note: impl FnOnce(&mut Count) -> bool) {
        let mut count = locked(&self.count);
        if !note(&mut count) {
            return;
        }
        count.answers += 1;
        if count.is_over {
            unread.0.ending.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let before = unread.0.answers.fetch_add(1, Ordering::Relaxed);
        drop(count);
        if before >= unread.0.limit {
            unread.cut_worst();
        }
    }

    /// So many answers as `which` says do not wait any more.
    fn remove(&self, unread: &Unread, which: impl FnOnce(&mut Count) -> usize) {
        let mut count = locked(&self.count);
        let answers = which(&mut count);
        count.answers -= answers;
        if !count.is_over {
            unread.0.answers.fetch_sub(answers, Ordering::Relaxed);
            return;
        }
        let before = unread.0.ending.fetch_sub(answers, Ordering::Relaxed);
        if before > unread.0.limit && before - answers <= unread.0.limit {
            unread.0.room.notify_waiters();
        }
    }

    /// The connection is over: its answers count as ending from now on. Returns their number, or none if it was over
    /// before.
    fn end(&self, unread: &Unread) -> Option<usize> {
        let mut count = locked(&self.count);
        if std::mem::replace(&mut count.is_over, true) {
            return None;
        }
        unread.0.answers.fetch_sub(count.answers, Ordering::Relaxed);
        unread.0.ending.fetch_add(count.answers, Ordering::Relaxed);
        Some(count.answers)
    }
}

impl Unread {
    /// Counts up to `limit` answers.
    pub(crate) fn new(limit: usize) -> Self {
        let (answers, ending, room, cut, open) = Default::default();
        Self(Arc::new(Shared { limit, answers, ending, room, cut, open }))
    }

    /// Answers that wait for their clients.
    pub(crate) fn answers(&self) -> usize {
        self.0.answers.load(Ordering::Relaxed)
    }

    /// Waits while too many answers are ending.
    async fn room(&self) {
        loop {
            let mut room = std::pin::pin!(self.0.room.notified());
            // What comes after this line is not missed.
            room.as_mut().enable();
            if self.0.ending.load(Ordering::Relaxed) <= self.0.limit {
                return;
            }
            room.await;
        }
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

    /// Cuts the connection with the most unread answers.
    fn cut_worst(&self) {
        let open = locked(&self.0.open);
        // One of several that come here at the same time may have been enough.
        let of = self.answers();
        if of <= self.0.limit {
            return;
        }
        let unread = |counter: &&Arc<Counter>| {
            let count = locked(&counter.count);
            if count.is_over { 0 } else { count.answers }
        };
        let Some(worst) = open.connections.values().max_by_key(unread) else { return };
        let Some(answers) = worst.end(self) else { return };
        self.0.cut.fetch_add(1, Ordering::Relaxed);
        worst.cut.cancel();
        tracing::warn!(
            answers,
            of,
            "too many answers wait for their clients; cutting the connection with the most (TREE_AGENT_UNREAD_ANSWERS)"
        );
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

    /// Answers without a body that have been made, and that HTTP/2 may not have sent yet.
    pub(super) fn heads(&self) -> usize {
        locked(&self.counter.count).heads
    }

    /// So many of them have been sent.
    pub(super) fn sent(&self, heads: usize) {
        if heads > 0 {
            self.counter.remove(&self.unread, |count| {
                count.heads -= heads;
                heads
            });
        }
    }

    /// What counts the answers of this connection.
    pub(super) fn reader(&self) -> Reader {
        Reader { counter: self.counter.clone(), unread: self.unread.clone() }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        locked(&self.unread.0.open).connections.remove(&self.id);
        self.counter.remove(&self.unread, |count| std::mem::take(&mut count.heads));
        self.counter.end(&self.unread);
    }
}

/// Counts the unread answers of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    counter: Arc<Counter>,
    unread: Unread,
}

impl Reader {
    /// Waits until there is room for an answer, up to [`PATIENCE`].
    pub(crate) async fn room(&self) {
        let _ = tokio::time::timeout(PATIENCE, self.unread.room()).await;
    }

    /// A new answer without a body, which counts until its connection has sent it.
    pub(crate) fn head(&self) {
        self.counter.add(&self.unread, |count| {
            // Those of a connection that is over go with it, at once.
            count.heads += usize::from(!count.is_over);
            !count.is_over
        });
    }

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
        if !std::mem::replace(&mut self.counts, true) {
            self.reader.counter.add(&self.reader.unread, |_| true);
        }
    }

    /// The client has room for the next part.
    pub(crate) fn asked(&mut self) {
        if std::mem::take(&mut self.counts) {
            self.reader.counter.remove(&self.reader.unread, |_| 1);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.asked();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

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
        // Its answers do not count any more, whether they have ended or not. It is not cut again.
        assert_eq!((unread.answers(), unread.cut()), (5, 1));
        let more = answers(&many, 10);
        assert_eq!(unread.answers(), 5);
        drop((most, more, many));
        assert_eq!(unread.answers(), 5);
        some.extend(answers(&few, 5));
        assert_eq!((unread.answers(), unread.cut()), (10, 1));
        let rest = answers(&none, 1);
        assert_eq!((is_cut(&few), is_cut(&none), unread.cut()), (true, false, 2));
        assert_eq!(unread.answers(), 1);
        drop((some, rest, few, none));
        assert_eq!((unread.answers(), locked(&unread.0.open).connections.len()), (0, 0));
    }

    #[test]
    fn the_answers_of_a_connection_that_has_ended_cut_no_other() {
        let unread = Unread::new(10);
        let (ended, innocent) = (unread.connect(), unread.connect());
        let ending = answers(&ended, 10);
        drop(ended);
        assert_eq!((unread.answers(), unread.0.ending.load(Ordering::Relaxed)), (0, 10));
        let few = answers(&innocent, 10);
        assert!(!is_cut(&innocent));
        drop((ending, few, innocent));
        assert_eq!((unread.answers(), unread.0.ending.load(Ordering::Relaxed)), (0, 0));
    }

    #[tokio::test]
    async fn no_answers_are_made_while_too_many_are_ending() {
        let unread = Unread::new(10);
        let (first, second) = (unread.connect(), unread.connect());
        let (mut ending, reader) = (answers(&first, 11), second.reader());
        assert!(is_cut(&first));
        let waiting = tokio::spawn(async move { reader.room().await });
        // It waits already when there is room.
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        ending.pop();
        waiting.await.unwrap();
        assert_eq!(unread.answers(), 0);
        second.reader().room().await;
        // Those that are made all the same count as well.
        ending.push(first.reader().answer());
        assert!(second.reader().room().now_or_never().is_none());
    }

    #[test]
    fn answers_without_a_body_count_until_they_are_sent() {
        let unread = Unread::new(10);
        let (first, second) = (unread.connect(), unread.connect());
        let heads = |connection: &Connection, number| (0..number).for_each(|_| connection.reader().head());
        heads(&first, 7);
        first.sent(first.heads() - 2);
        assert_eq!((first.heads(), unread.answers()), (2, 2));
        heads(&first, 6);
        heads(&second, 3);
        assert!(is_cut(&first) && !is_cut(&second));
        assert_eq!((unread.answers(), unread.0.ending.load(Ordering::Relaxed)), (3, 8));
        // With its connection everything ends that it has not sent, and what comes too late does not count.
        let reader = first.reader();
        drop(first);
        reader.head();
        assert_eq!((unread.answers(), unread.0.ending.load(Ordering::Relaxed)), (3, 0));
        drop(second);
        assert_eq!(unread.answers(), 0);
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
