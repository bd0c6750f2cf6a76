//! One client of `WatchDocument`: a position in a document's text, which moves when the run's events say that the document
//! has grown. The text is read from the store, from that position on, so that whatever becomes of the events each byte is
//! sent once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt;
use tonic::Status;
use tree_agent_contract::{DocumentId, RunId};
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::watch_document_response::Message;
use tree_agent_store::{DocumentTail, Store, StoreError};

use super::frame;
use super::hub::Taken;
use super::pace::{Pace, Until};
use super::service::{Resume, Watched};
use super::stats::{Stats, Stream};
use super::{Feed, WatchConfig};
use crate::errors;

/// Where a stream begins.
pub(crate) struct DocumentStart {
    pub(crate) document_id: DocumentId,
    /// Sent before everything else.
    pub(crate) summary: pb::DocumentSummary,
    /// The text from where the client wants it.
    pub(crate) tail: DocumentTail,
    /// The run that goes on writing, and an event of it whose text is in `tail`; none when nothing follows.
    pub(crate) followed: Option<(Feed, RunId, u64)>,
}

/// Makes the messages of one stream as fast as the client takes them.
pub(crate) struct DocumentWatcher {
    store: Arc<dyn Store>,
    document_id: DocumentId,
    summary: Option<pb::DocumentSummary>,
    /// Read, not yet sent.
    text: Option<DocumentTail>,
    /// Where the text that was read ends.
    end: u64,
    /// Where the text that was handed out ends, for whoever ends the stream without asking.
    position: Arc<AtomicU64>,
    followed: Option<Followed>,
    /// The document has grown: it must be read.
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
            summary: Some(start.summary),
            end: start.tail.end,
            position: Arc::new(AtomicU64::new(start.tail.start)),
            text: Some(start.tail).filter(|tail| !tail.bytes.is_empty()),
            followed,
            grown: false,
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
            if let Some(tail) = self.text.take() {
                self.position.store(tail.end, Ordering::Relaxed);
                return Some(text(tail).map(Message::Text));
            }
            let ended = self.followed.as_ref().is_none_or(|followed| followed.ended);
            if ended && !self.grown {
                return None;
            }
            if let Some(reason) = self.pace.over() {
                return Some(Ok(self.close(reason)));
            }
            if let Err(error) = self.look().await {
                if !error.is_transient() {
                    return Some(Err(errors::store(&error)));
                }
                // While the store is down the stream stays, and the read is repeated.
                tracing::debug!(document = %self.document_id, "cannot read the document: {error}");
                self.pace.failed();
            }
            let done = !self.grown && self.followed.as_ref().is_none_or(|followed| followed.ended);
            if self.text.is_none()
                && !done
                && let Some(heartbeat) = self.wait().await
            {
                return Some(Ok(heartbeat));
            }
        }
    }

    /// Looks at the events that are new, and reads on if the document has grown with one of them.
    async fn look(&mut self) -> Result<(), StoreError> {
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
                            self.grown |= frame.grown == Some(self.document_id);
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
            let tail = self.store.document_tail(self.document_id, self.end).await?;
            self.grown = false;
            self.end = tail.end.max(self.end);
            self.text = Some(tail).filter(|tail| !tail.bytes.is_empty());
        }
        self.pace.recovered();
        Ok(())
    }

    /// Waits for something to do. Returns a heartbeat when the client has heard nothing for too long.
    async fn wait(&mut self) -> Option<Message> {
        // A document that was sent whole has nothing more to wait for than a store that is away.
        let followed = self.followed.as_mut()?;
        let changed = async {
            match followed.ended {
                true => std::future::pending().await,
                false => followed.feed.head.changed().await,
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

/// Text as it is sent. What a position in the middle of a character would make of it cannot happen: positions are where
/// text ended before, and text ends with whole characters.
fn text(tail: DocumentTail) -> Result<pb::DocumentText, Status> {
    let text = String::from_utf8(tail.bytes)
        .map_err(|error| Status::internal(format!("the document is not UTF-8: {error}")))?;
    Ok(pb::DocumentText { offset: tail.start, text })
}
