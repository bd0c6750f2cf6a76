//! One client of `WatchDocument`: a position in a document's text, which moves when the run's events say that the
//! document has grown. The text is read from the store, from that position on, so that whatever becomes of the events
//! each byte is sent once.
//!
//! Text is read when the client takes it, at most [`READ_BYTES`] at once. A client that reads nothing keeps no more
//! than that in memory, whatever the length of the document.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Buf, Bytes};
use tonic::{Code, Status};
use tree_agent_contract::text::prefix;
use tree_agent_contract::{DocumentId, RunId, Timestamp};
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::watch_document_response::Message;
use tree_agent_runtime::errors::status;
use tree_agent_store::{Store, StoreError};

use super::config::WatchConfig;
use super::frame;
use super::hub::Taken;
use super::pace::{Pace, Until, Watching};
use super::service::{CHUNK, Resume};
use super::stats::{Kind, Stats, Stream};
use super::watches::Feed;
use crate::errors;

/// Bytes of text in one message. It fits into one chunk with what is around it.
const MESSAGE_BYTES: usize = CHUNK - 64;
/// Bytes of text that are read at once.
const READ_BYTES: usize = 4 * MESSAGE_BYTES;

/// Where a stream begins, and where it has come to.
pub(crate) struct DocumentStart {
    pub(crate) document_id: DocumentId,
    /// The run that has it; none for the one that created it.
    pub(crate) of: Option<RunId>,
    /// Sent before everything else.
    pub(crate) summary: Option<pb::DocumentSummary>,
    /// Where the text that was sent ends.
    pub(crate) end: u64,
    /// When the document was written whole. A text that replaces it does not continue it.
    pub(crate) written_at: Timestamp,
    /// Where the present text begins.
    pub(crate) text_start: u64,
    /// The next text takes the place of what the client may have read before.
    pub(crate) replaced: bool,
    /// The document may have text behind what was read: it must be read.
    pub(crate) grown: bool,
    /// The events of its run do not name the document when it changes.
    pub(crate) unnamed: bool,
    /// The run that goes on writing; none when nothing follows.
    pub(crate) followed: Option<Followed>,
}

/// The run of a document.
pub(crate) struct Followed {
    pub(crate) feed: Feed,
    pub(crate) run: RunId,
    /// The last event that was looked at.
    pub(crate) seq: u64,
    /// The run has ended: what is there now is all.
    pub(crate) ended: bool,
}

/// The stream of one client.
pub(crate) struct DocumentWatcher {
    store: Arc<dyn Store>,
    at: DocumentStart,
    /// Read, not yet sent.
    text: Bytes,
    /// Where the text that was handed out ends, for whoever ends the stream without asking.
    position: Arc<AtomicU64>,
    pace: Pace,
}

impl Watching for DocumentWatcher {
    fn pace(&mut self) -> &mut Pace {
        &mut self.pace
    }

    fn resume(&self) -> Resume {
        let hint = Box::new(|at, reason: &str| framed(hint(at, reason)));
        Resume { position: self.position.clone(), hint }
    }

    async fn step(&mut self) -> Option<Result<Bytes, Status>> {
        Some(self.message().await?.map(framed))
    }
}

impl DocumentWatcher {
    pub(crate) fn new(
        at: DocumentStart,
        store: Arc<dyn Store>,
        config: &WatchConfig,
        until: Until,
        stats: &Arc<Stats>,
    ) -> Self {
        let position = Arc::new(AtomicU64::new(at.end));
        let pace = Pace::new(config, until, Stream::new(stats, Kind::Document));
        Self { store, at, text: Bytes::new(), position, pace }
    }

    async fn message(&mut self) -> Option<Result<Message, Status>> {
        if let Some(summary) = self.at.summary.take() {
            return Some(Ok(Message::Document(summary)));
        }
        loop {
            // A text that was replaced may be empty now.
            if !self.text.is_empty() || self.at.replaced && !self.at.grown {
                return Some(self.piece().map(Message::Text));
            }
            let ended = self.at.followed.as_ref().is_none_or(|followed| followed.ended);
            if ended && !self.at.grown {
                return None;
            }
            if let Some(reason) = self.pace.over() {
                return Some(Ok(hint(self.at.end, reason)));
            }
            match self.look().await {
                Ok(true) => {}
                Ok(false) => return Some(Err(rewritten())),
                Err(error) if error.is_transient() => {
                    // While the store is down the stream stays, and the read is repeated.
                    tracing::debug!(document = %self.at.document_id, "cannot read the document: {error}");
                    self.pace.failed();
                }
                Err(error) => return Some(Err(errors::store(error))),
            }
            let done = !self.at.grown && self.at.followed.as_ref().is_none_or(|followed| followed.ended);
            if self.text.is_empty()
                && !self.at.replaced
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
        let offset = self.at.end;
        self.text.advance(text.len());
        self.at.end += text.len() as u64;
        self.position.store(self.at.end, Ordering::Relaxed);
        Ok(pb::DocumentText { offset, text, replaces: std::mem::take(&mut self.at.replaced) })
    }

    /// Looks at the events that are new, and reads on if the document has grown with one of them. False if it was
    /// written anew: what was sent is no part of it.
    async fn look(&mut self) -> Result<bool, StoreError> {
        if !self.pace.may_read() {
            return Ok(true);
        }
        if let Some(followed) = &mut self.at.followed {
            // Before looking, so that a change in between is not missed.
            followed.feed.head.mark_seen();
            loop {
                match followed.feed.hub.after(followed.seq) {
                    Taken::Frames(frames) => {
                        for frame in frames {
                            followed.seq = frame.seq;
                            followed.ended |= frame.last;
                            self.at.grown |= match frame.grown {
                                Some(document) => document == self.at.document_id,
                                None => self.at.unnamed,
                            };
                        }
                    }
                    Taken::Older => {
                        // Which of the events were about this document does not matter: it is read. Whether the run has
                        // ended stands in its row.
                        let run = self.store.run(followed.run).await?;
                        followed.seq = followed.seq.max(run.head_seq);
                        followed.ended = run.status.is_final();
                        self.at.grown = true;
                        break;
                    }
                    Taken::Nothing => break,
                }
            }
            // Whatever its last events were, everything is sent before the end.
            self.at.grown |= followed.ended;
        }
        if self.at.grown {
            let tail = match self.at.of {
                Some(run) => {
                    self.store.document_tail_of(run, self.at.document_id, self.at.end, READ_BYTES).await?
                }
                None => self.store.document_tail(self.at.document_id, self.at.end, READ_BYTES).await?,
            };
            if tail.text_start > self.at.text_start {
                (self.at.text_start, self.at.replaced) = (tail.text_start, true);
            }
            // What a run writes keeps its history, also when its projection is rebuilt.
            if self.at.followed.is_none() && tail.written_at != self.at.written_at {
                return Ok(false);
            }
            // The beginning of a document over the limit is no longer kept.
            self.at.end = self.at.end.max(tail.start.min(tail.end));
            self.at.grown = self.at.end + (tail.bytes.len() as u64) < tail.end;
            self.text = tail.bytes.into();
        }
        self.pace.recovered();
        Ok(true)
    }

    /// Waits for something to do. Returns a heartbeat when the client has heard nothing for too long.
    async fn wait(&mut self) -> Option<Message> {
        // What does not grow has nothing more to wait for than a store that is away.
        let changed = async {
            match &mut self.at.followed {
                Some(followed) if !followed.ended => followed.feed.head.changed().await,
                _ => std::future::pending().await,
            }
        };
        let silent = self.pace.wait(changed).await;
        silent.then_some(Message::Heartbeat(pb::DocumentHeartbeat { end: self.at.end }))
    }
}

fn hint(after_bytes: u64, reason: &str) -> Message {
    Message::ResumeHint(pb::DocumentResumeHint { after_bytes, reason: reason.to_owned() })
}

fn framed(message: Message) -> Bytes {
    frame::framed(&pb::WatchDocumentResponse { message: Some(message) })
}

fn rewritten() -> Status {
    let text = "the document was written anew while it was sent; watch it again from the beginning";
    status(Code::FailedPrecondition, "DOCUMENT_REPLACED", text)
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
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
            let tail = self.store.document_tail(id, 0, 4).await.unwrap();
            let start = DocumentStart {
                document_id: id,
                of: None,
                summary: Some(pb::DocumentSummary::default()),
                end: tail.start,
                written_at: tail.written_at,
                text_start: tail.text_start,
                replaced: false,
                grown: true,
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
