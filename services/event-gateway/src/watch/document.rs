//! One client of `WatchDocument`: a position in a document's text, which moves when the run's events say that the
//! document has grown. The text is read from the store, from that position on, so that whatever becomes of the events
//! each byte is sent once.
//!
//! Text is read when the client takes it, at most [`READ_BYTES`] at once. A client that reads nothing keeps no more
//! than that in memory, whatever the length of the document.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Buf, Bytes};
use futures::StreamExt;
use tonic::{Code, Status};
use tree_agent_contract::text::prefix;
use tree_agent_contract::{DocumentId, RunId, Timestamp};
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::watch_document_response::Message;
use tree_agent_store::{DocumentTail, Store, StoreError};

use super::config::WatchConfig;
use super::frame;
use super::hub::Taken;
use super::pace::{Pace, Until};
use super::service::{CHUNK, Resume, Watched};
use super::stats::{Stats, Stream};
use super::watches::Feed;
use crate::errors;

/// Bytes of text in one message. It fits into one chunk with what is around it.
const MESSAGE_BYTES: usize = CHUNK - 64;
/// Bytes of text that are read at once.
const READ_BYTES: usize = 4 * MESSAGE_BYTES;

/// Where a stream begins.
pub(crate) struct DocumentStart {
    pub(crate) document_id: DocumentId,
    /// The run that has it; none for the one that created it.
    pub(crate) of: Option<RunId>,
    /// Sent before everything else.
    pub(crate) summary: pb::DocumentSummary,
    /// The first character of the text from where the client wants it.
    pub(crate) tail: DocumentTail,
    /// The client may have read a text that was replaced since then.
    pub(crate) replaced: bool,
    /// The events of its run do not name the document when it changes.
    pub(crate) unnamed: bool,
    /// The run that goes on writing, and an event of it whose text is known; none when nothing follows.
    pub(crate) followed: Option<(Feed, RunId, u64)>,
}

/// Makes the messages of one stream as fast as the client takes them.
pub(crate) struct DocumentWatcher {
    store: Arc<dyn Store>,
    document_id: DocumentId,
    of: Option<RunId>,
    summary: Option<pb::DocumentSummary>,
    /// Read, not yet sent.
    text: Bytes,
    /// Where the text that was sent ends.
    end: u64,
    /// When the document was written whole. A text that replaces it does not continue it.
    written_at: Timestamp,
    /// Where the present text begins.
    text_start: u64,
    /// The next text takes the place of what was sent before.
    replaced: bool,
    unnamed: bool,
    /// Where the text that was handed out ends, for whoever ends the stream without asking.
    position: Arc<AtomicU64>,
    followed: Option<Followed>,
    /// The document may have text behind what was read: it must be read.
    grown: bool,
    closed: bool,
    pace: Pace,
}

struct Followed {
    feed: Feed,
    run: RunId,
    /// The last event that was looked at.
    seq: u64,
    /// The run has ended: what is there now is all.
    ended: bool,
}

impl DocumentWatcher {
    pub(crate) fn new(
        start: DocumentStart,
        store: Arc<dyn Store>,
        config: &WatchConfig,
        until: Until,
        stats: &Arc<Stats>,
    ) -> Self {
        let followed = start.followed.map(|(feed, run, seq)| Followed { feed, run, seq, ended: false });
        Self {
            store,
            document_id: start.document_id,
            of: start.of,
            summary: Some(start.summary),
            end: start.tail.start,
            written_at: start.tail.written_at,
            text_start: start.tail.text_start,
            replaced: start.replaced,
            unnamed: start.unnamed,
            position: Arc::new(AtomicU64::new(start.tail.start)),
            text: Bytes::new(),
            followed,
            grown: start.tail.start < start.tail.end,
            closed: false,
            pace: Pace::new(config, until, Stream::of_a_document(stats)),
        }
    }

    /// All messages.
    pub(crate) fn watched(self) -> Watched {
        let resume = Resume {
            position: self.position.clone(),
            hint: Box::new(|at, reason| frame::framed(&response(hint(at, reason)))),
        };
        let messages = futures::stream::unfold(self, async |mut watcher| {
            let message = watcher.next().await?;
            Some((message.map(|message| frame::framed(&message)), watcher))
        });
        Watched { messages: messages.boxed(), resume }
    }

    /// The next message; `None` when the stream ends well.
    async fn next(&mut self) -> Option<Result<pb::WatchDocumentResponse, Status>> {
        if self.closed {
            return self.pace.last_word().map(Err);
        }
        let message = self.step().await;
        self.pace.sent();
        self.closed |= !matches!(message, Some(Ok(_)));
        message.map(|message| Ok(response(message?)))
    }

    async fn step(&mut self) -> Option<Result<Message, Status>> {
        if let Some(summary) = self.summary.take() {
            return Some(Ok(Message::Document(summary)));
        }
        loop {
            // A text that was replaced may be empty now.
            if !self.text.is_empty() || self.replaced && !self.grown {
                return Some(self.piece().map(Message::Text));
            }
            let ended = self.followed.as_ref().is_none_or(|followed| followed.ended);
            if ended && !self.grown {
                return None;
            }
            if let Some(reason) = self.pace.over() {
                return Some(Ok(self.close(reason)));
            }
            match self.look().await {
                Ok(()) => {}
                Err(Unreadable::Store(error)) if error.is_transient() => {
                    // While the store is down the stream stays, and the read is repeated.
                    tracing::debug!(document = %self.document_id, "cannot read the document: {error}");
                    self.pace.failed();
                }
                Err(Unreadable::Store(error)) => return Some(Err(errors::store(error))),
                Err(Unreadable::Replaced) => return Some(Err(replaced())),
            }
            let done = !self.grown && self.followed.as_ref().is_none_or(|followed| followed.ended);
            if self.text.is_empty()
                && !self.replaced
                && !done
                && let Some(heartbeat) = self.wait().await
            {
                return Some(Ok(heartbeat));
            }
        }
    }

    /// The next message of the text that was read.
    fn piece(&mut self) -> Result<pb::DocumentText, Status> {
        let text = std::str::from_utf8(&self.text)
            .map_err(|error| Status::internal(format!("the document is not UTF-8: {error}")))?;
        let text = prefix(text, MESSAGE_BYTES).to_owned();
        let offset = self.end;
        self.text.advance(text.len());
        self.end += text.len() as u64;
        self.position.store(self.end, Ordering::Relaxed);
        Ok(pb::DocumentText { offset, text, replaces: std::mem::take(&mut self.replaced) })
    }

    /// Looks at the events that are new, and reads on if the document has grown with one of them.
    async fn look(&mut self) -> Result<(), Unreadable> {
        if !self.pace.may_read() {
            return Ok(());
        }
        if let Some(followed) = &mut self.followed {
            // Before looking, so that a change in between is not missed.
            followed.feed.head.mark_seen();
            loop {
                match followed.feed.hub.after(followed.seq) {
                    Taken::Frames(frames) => {
                        for frame in frames {
                            followed.seq = frame.seq;
                            followed.ended |= frame.last;
                            self.grown |= match frame.grown {
                                Some(document) => document == self.document_id,
                                None => self.unnamed,
                            };
                        }
                    }
                    Taken::Older => {
                        // Which of the events were about this document does not matter: it is read. Whether the run has
                        // ended stands in its row.
                        let run = self.store.run(followed.run).await?;
                        followed.seq = followed.seq.max(run.head_seq);
                        followed.ended = run.status.is_final();
                        self.grown = true;
                        break;
                    }
                    Taken::Nothing => break,
                }
            }
            // Whatever its last events were, everything is sent before the end.
            self.grown |= followed.ended;
        }
        if self.grown {
            let tail = match self.of {
                Some(run) => self.store.document_tail_of(run, self.document_id, self.end, READ_BYTES).await?,
                None => self.store.document_tail(self.document_id, self.end, READ_BYTES).await?,
            };
            if tail.text_start > self.text_start {
                (self.text_start, self.replaced) = (tail.text_start, true);
            }
            // What a run writes keeps its history, also when its projection is rebuilt.
            if self.followed.is_none() && tail.written_at != self.written_at {
                return Err(Unreadable::Replaced);
            }
            // The beginning of a document over the limit is no longer kept.
            self.end = self.end.max(tail.start.min(tail.end));
            self.grown = self.end + (tail.bytes.len() as u64) < tail.end;
            self.text = tail.bytes.into();
        }
        self.pace.recovered();
        Ok(())
    }

    /// Waits for something to do. Returns a heartbeat when the client has heard nothing for too long.
    async fn wait(&mut self) -> Option<Message> {
        // What does not grow has nothing more to wait for than a store that is away.
        let changed = async {
            match &mut self.followed {
                Some(followed) if !followed.ended => followed.feed.head.changed().await,
                _ => std::future::pending().await,
            }
        };
        let silent = self.pace.wait(changed).await;
        silent.then_some(Message::Heartbeat(pb::DocumentHeartbeat { end: self.end }))
    }

    fn close(&mut self, reason: &str) -> Message {
        self.closed = true;
        hint(self.end, reason)
    }
}

fn hint(after_bytes: u64, reason: &str) -> Message {
    Message::ResumeHint(pb::DocumentResumeHint { after_bytes, reason: reason.to_owned() })
}

fn response(message: Message) -> pb::WatchDocumentResponse {
    pb::WatchDocumentResponse { message: Some(message) }
}

/// Why the text cannot be read.
enum Unreadable {
    Store(StoreError),
    /// The document was written anew. What was sent is no part of it.
    Replaced,
}

impl From<StoreError> for Unreadable {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

fn replaced() -> Status {
    let text = "the document was written anew while it was sent; watch it again from the beginning";
    tree_agent_runtime::errors::status(Code::FailedPrecondition, "DOCUMENT_REPLACED", text)
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;
    use tree_agent_contract::document::{Document, DocumentKind, DocumentProps};
    use tree_agent_contract::{ProjectId, Timestamp};
    use tree_agent_store::embedded::EmbeddedStore;
    use tree_agent_store::{Documents, NewProject, Project, Projects};

    use super::*;
    use crate::watch::frame::Messages;

    const BODY_BYTES: usize = 300_000;

    struct Written {
        store: Arc<EmbeddedStore>,
        document: Document,
    }

    impl Written {
        async fn new() -> Self {
            let store = Arc::new(EmbeddedStore::open_in_memory().await.unwrap());
            let id = ProjectId(uuid::Uuid::from_u128(1));
            let project = Project::new(id, "One", Timestamp(1));
            let new = NewProject { project, user_id: String::new(), request_id: String::new() };
            store.create_project(new).await.unwrap();
            let document = Document {
                id: DocumentId::source(id, "a.md"),
                kind: DocumentKind::Source,
                project_id: Some(id),
                run_id: None,
                path: "a.md".into(),
                title: "A".into(),
                body: "aü€🙂".repeat(BODY_BYTES / 10),
                props: DocumentProps::default(),
                created_at: Timestamp(1),
                updated_at: Timestamp(1),
            };
            store.put_document(document.clone()).await.unwrap();
            Self { store, document }
        }

        async fn watch(&self) -> Messages {
            let id = self.document.id;
            let start = DocumentStart {
                document_id: id,
                of: None,
                summary: pb::DocumentSummary::default(),
                tail: self.store.document_tail(id, 0, 4).await.unwrap(),
                replaced: false,
                unnamed: false,
                followed: None,
            };
            let until = Until { drain: CancellationToken::new(), expires_at: None };
            let (config, stats) = (WatchConfig::default(), Arc::new(Stats::default()));
            DocumentWatcher::new(start, self.store.clone(), &config, until, &stats).watched().messages
        }
    }

    #[tokio::test]
    async fn text_is_sent_in_messages_that_fit_into_one_part() {
        let written = Written::new().await;
        let messages: Vec<Bytes> =
            written.watch().await.map(|message| message.expect("a message")).collect().await;
        assert!(messages.iter().all(|message| message.len() <= CHUNK));
        // A few bytes are left over when characters do not fill a message.
        assert!(messages.len() <= 2 + 5 * BODY_BYTES.div_ceil(READ_BYTES), "{}", messages.len());
        let mut text = String::new();
        for message in &messages[1..] {
            let message = <pb::WatchDocumentResponse as prost::Message>::decode(message.slice(5..)).unwrap();
            let Some(Message::Text(piece)) = message.message else { panic!("{message:?}") };
            assert_eq!(piece.offset, text.len() as u64);
            text.push_str(&piece.text);
        }
        assert!(text == written.document.body);
    }

    /// The text is read while it is taken, so an unread stream keeps no more than what was read at once.
    #[tokio::test]
    async fn what_is_not_taken_is_not_read() {
        let mut written = Written::new().await;
        let mut messages = written.watch().await;
        assert!(messages.next().await.unwrap().is_ok(), "the summary");
        assert!(messages.next().await.unwrap().is_ok(), "the first text");
        written.document.body = "another text".repeat(BODY_BYTES / 10);
        written.document.updated_at = Timestamp(2);
        written.store.put_document(written.document.clone()).await.unwrap();
        let mut taken = 1;
        let error = loop {
            match messages.next().await.expect("an error comes before the end") {
                Ok(_) => taken += 1,
                Err(status) => break status,
            }
        };
        assert!(taken * MESSAGE_BYTES <= READ_BYTES + MESSAGE_BYTES, "{taken}");
        assert_eq!(error.code(), Code::FailedPrecondition);
        assert!(error.message().contains("watch it again"), "{error}");
        assert!(messages.next().await.is_none());
    }
}
