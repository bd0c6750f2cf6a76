//! Counts the answers whose clients do not read on, up to a [`SharedLimit`].
//!
//! HTTP/2 holds a record of every stream and up to one part of its answer, and nothing but the end of the connection
//! takes them from a client that leaves its streams open.
//!
//! An answer without a body has no part that HTTP/2 could ask for. It counts until HTTP/2 has written all that it had
//! to write.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::locked;
use super::shared_limit::{Counter, Held, Share, SharedLimit};

/// The default limit.
pub(super) const ANSWERS: usize = 16_384;

/// Answers without a body that HTTP/2 may not have sent yet, the oldest first. None when the connection has ended.
type Heads = Arc<Mutex<Option<VecDeque<Held>>>>;

/// The unread answers of an open connection.
#[derive(Debug)]
pub(crate) struct Connection {
    share: Share,
    heads: Heads,
}

impl Connection {
    /// A new connection, of which `limit` counts the answers.
    pub(super) fn new(limit: &SharedLimit) -> Self {
        Self { share: limit.connect(), heads: Arc::new(Mutex::new(Some(VecDeque::new()))) }
    }

    /// Completes when the connection has to be cut.
    pub(super) async fn cut(&self) {
        self.share.cut().await;
    }

    /// Answers without a body that have been made, and that HTTP/2 may not have sent yet.
    pub(super) fn heads(&self) -> usize {
        locked(&self.heads).as_ref().map_or(0, VecDeque::len)
    }

    /// So many of them have been sent.
    pub(super) fn sent(&self, heads: usize) {
        if heads > 0
            && let Some(all) = locked(&self.heads).as_mut()
        {
            all.drain(..heads);
        }
    }

    /// What counts the answers of this connection.
    pub(super) fn reader(&self) -> Reader {
        Reader { counter: self.share.counter(), heads: self.heads.clone() }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        locked(&self.heads).take();
    }
}

/// Counts the unread answers of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    counter: Counter,
    heads: Heads,
}

impl Reader {
    /// Waits until there is room for an answer, for some time.
    pub(crate) async fn room(&self) {
        self.counter.room().await;
    }

    /// A new answer without a body, which counts until its connection has sent it.
    pub(crate) fn head(&self) {
        if let Some(heads) = locked(&self.heads).as_mut() {
            heads.push_back(self.counter.hold(1));
        }
    }

    /// A new answer, which counts until its client asks for its first part.
    pub(crate) fn answer(&self) -> Waiting {
        Waiting { held: Some(self.counter.hold(1)), counter: self.counter.clone() }
    }
}

/// Whether one answer waits for its client.
#[derive(Debug)]
pub(crate) struct Waiting {
    counter: Counter,
    held: Option<Held>,
}

impl Waiting {
    /// A part was handed out; until the client has room for the next one, the answer counts.
    pub(crate) fn handed_out(&mut self) {
        self.held.get_or_insert_with(|| self.counter.hold(1));
    }

    /// The client has room for the next part.
    pub(crate) fn asked(&mut self) {
        self.held = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_without_a_body_count_until_they_are_sent() {
        let limit = SharedLimit::new(10, "LIMIT");
        let (first, second) = (Connection::new(&limit), Connection::new(&limit));
        let heads = |connection: &Connection, number| (0..number).for_each(|_| connection.reader().head());
        heads(&first, 7);
        first.sent(first.heads() - 2);
        assert_eq!((first.heads(), limit.held()), (2, 2));
        heads(&first, 6);
        heads(&second, 3);
        assert!(first.share.is_cut() && !second.share.is_cut());
        assert_eq!((limit.held(), limit.ending()), (3, 8));
        // With its connection everything ends that it has not sent, and what comes too late does not count.
        let reader = first.reader();
        drop(first);
        reader.head();
        assert_eq!((limit.held(), limit.ending()), (3, 0));
        drop(second);
        assert_eq!((limit.held(), limit.ending()), (0, 0));
    }

    #[test]
    fn an_answer_counts_while_it_waits_for_its_client() {
        let limit = SharedLimit::new(1, "LIMIT");
        let connection = Connection::new(&limit);
        let mut answer = connection.reader().answer();
        for _ in 0..3 {
            assert_eq!(limit.held(), 1);
            answer.handed_out();
            assert_eq!(limit.held(), 1, "it counted twice");
            answer.asked();
            assert_eq!(limit.held(), 0);
            answer.handed_out();
        }
        assert!(!connection.share.is_cut());
        drop(answer);
        assert_eq!(limit.held(), 0);
    }
}
