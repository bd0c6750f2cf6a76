//! `WatchRun`, `WatchRuns` and `WatchDocument` on the wire. They stand before the generated server, whose codec would
//! copy every message into a buffer of its own for every client; here the shared bytes of a frame go out as they are.
//! And it would keep what a client does not take for ever: here it is given up ([`Stalls`]).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body::Frame;
use prost::Message;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::{Code, Status};
use tree_agent_contract::limits;
use tree_agent_runtime::errors;
use tree_agent_runtime::protocol::read_body;

use super::frame::Messages;
use super::stall::{Line, Stalls};
use crate::auth::Caller;
use crate::shares::{Share, Shares};
use crate::standing::{RIGHTS, Standing};
use crate::view::View;

/// A stream that is watched.
pub(crate) struct Watched {
    pub(crate) messages: Messages,
    pub(crate) resume: Resume,
}

/// Tells a client where to go on when its stream is ended without asking the watcher.
pub(crate) struct Resume {
    /// What `messages` has handed out so far: a seq, bytes of a document, or a time of the list.
    pub(crate) position: Arc<AtomicU64>,
    /// The hint for a position and a reason, framed.
    pub(crate) hint: FrameHint,
}

/// Frames the hint for a position and a reason.
pub(crate) type FrameHint = Box<dyn Fn(u64, &str) -> Bytes + Send + Sync>;

/// Handles one call: the messages of the stream that `watch` opens.
pub(crate) async fn respond<R: Message + Default>(
    stalls: &Arc<Stalls>,
    (streams, standing): (&Shares, &Arc<Standing>),
    request: Request<axum::body::Body>,
    watch: impl AsyncFnOnce(R, &Caller, &View) -> Result<Watched, Status>,
) -> Response<Body> {
    let caller = Caller::of(request.extensions());
    let watched = async {
        let share = streams.take(&caller.user_id, 1).await?;
        // What is lost after that ends the stream.
        let view = standing.view(caller.clone()).await?;
        Ok::<_, Status>((watch(read(request.into_body()).await?, &caller, &view).await?, share, view))
    };
    match watched.await {
        Ok((watched, share, view)) => {
            let lost = standing.clone().lost(caller, view).boxed();
            let mut response = Response::new(Body::new(Frames::new(stalls, watched, Some(share), lost)));
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
            response
        }
        Err(status) => status.into_http(),
    }
}

/// The one message of the request.
async fn read<R: Message + Default>(body: axum::body::Body) -> Result<R, Status> {
    let malformed = |what: String| errors::status(Code::Internal, "MALFORMED_REQUEST", what);
    let mut bytes = read_body(body, limits::REQUEST_BYTES).await?;
    if bytes.len() < 5 {
        return Err(malformed("the request holds no message".into()));
    }
    if bytes.get_u8() != 0 {
        let text = "streams take no compressed request; send it with grpc-encoding identity";
        return Err(errors::status(Code::Unimplemented, "COMPRESSED_REQUEST", text));
    }
    if bytes.get_u32() as usize != bytes.len() {
        return Err(malformed("the request does not hold exactly one message".into()));
    }
    R::decode(bytes).map_err(|error| malformed(format!("the request is not that of this call: {error}")))
}

/// Bytes of messages that go out together: the payload of one HTTP/2 frame at its default size (RFC 9113, 6.5.2).
pub(crate) const CHUNK: usize = 16 * 1024;

/// A response body of framed messages, with gRPC's trailers at the end.
///
/// A frame of HTTP/2 costs a lock, a queue entry and a wake-up whatever it holds. So small messages that are ready at
/// the same time are copied into one; a message that is alone, as on a quiet run, goes out in its shared bytes.
struct Frames {
    line: Arc<Line<Unread>>,
    /// Taken when the stream was given up.
    resume: Option<Resume>,
    /// Completes when the client may not watch any more.
    lost: BoxFuture<'static, ()>,
    /// The position of what was handed out to HTTP/2. Messages beyond it are lost when the stream is given up.
    handed_out: u64,
    ended: bool,
}

/// What a stream has for its client.
struct Unread {
    messages: Messages,
    /// Was ready, but did not fit into the part before.
    held: Option<Option<Result<Bytes, Status>>>,
    /// What its user has of the streams.
    _share: Option<Share>,
}

impl Frames {
    fn new(
        stalls: &Arc<Stalls>,
        watched: Watched,
        share: Option<Share>,
        lost: BoxFuture<'static, ()>,
    ) -> Self {
        let line = stalls.keep(Unread { messages: watched.messages, held: None, _share: share });
        let handed_out = watched.resume.position();
        Self { line, resume: Some(watched.resume), lost, handed_out, ended: false }
    }

    /// The next bytes for the client; `None` when the stream ends well.
    fn next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Status>>> {
        let is_lost = self.resume.is_some() && self.lost.poll_unpin(cx).is_ready();
        let mut kept = self.line.kept();
        if is_lost {
            *kept = None;
        }
        let Some(kept) = &mut *kept else {
            // Given up: one hint, then the end.
            let (resume, why) = (self.resume.take(), if is_lost { RIGHTS } else { "stalled" });
            return Poll::Ready(resume.map(|resume| Ok((resume.hint)(self.handed_out, why))));
        };
        kept.unasked_since = None;
        let next = match kept.unread.held.take() {
            Some(held) => held,
            None => ready!(kept.unread.messages.poll_next_unpin(cx)),
        };
        let next = match (next, &self.resume) {
            (Some(Ok(first)), Some(resume)) => {
                let (chunk, position) = chunk(first, &mut kept.unread, resume, cx);
                self.handed_out = position;
                kept.unasked_since = Some(Instant::now());
                Some(Ok(chunk))
            }
            (next, _) => next,
        };
        Poll::Ready(next)
    }
}

impl Resume {
    fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }
}

/// `first` and whatever else is ready and fits beside it, and the position behind that. What is ready and does not fit
/// is held for the next.
fn chunk(first: Bytes, unread: &mut Unread, resume: &Resume, cx: &mut Context<'_>) -> (Bytes, u64) {
    let mut copied = BytesMut::new();
    let mut size = first.len();
    let mut position = resume.position();
    while size < CHUNK {
        match unread.messages.poll_next_unpin(cx) {
            Poll::Ready(Some(Ok(next))) if size + next.len() <= CHUNK => {
                if copied.is_empty() {
                    copied.reserve(CHUNK);
                    copied.extend_from_slice(&first);
                }
                copied.extend_from_slice(&next);
                size += next.len();
                position = resume.position();
            }
            Poll::Ready(other) => {
                unread.held = Some(other);
                break;
            }
            Poll::Pending => break,
        }
    }
    (if copied.is_empty() { first } else { copied.freeze() }, position)
}

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let status = match ready!(self.next(cx)) {
            Some(Ok(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Some(Err(status)) => status,
            None => Status::ok(""),
        };
        self.ended = true;
        let mut trailers = HeaderMap::new();
        let written = status.add_header(&mut trailers);
        Poll::Ready(Some(written.map(|()| Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use std::time::Duration;

    fn body(
        stalls: &Arc<Stalls>,
        messages: impl futures::Stream<Item = Result<Bytes, Status>> + Send + 'static,
    ) -> Frames {
        let hint = Box::new(|at, reason: &str| format!("{reason} at {at}").into());
        let resume = Resume { position: Arc::new(AtomicU64::new(7)), hint };
        let lost = std::future::pending().boxed();
        Frames::new(stalls, Watched { messages: messages.boxed(), resume }, None, lost)
    }

    /// The body's data frames for `messages`, and the `grpc-status` of its trailers.
    async fn sent(messages: Vec<Result<Bytes, Status>>) -> (Vec<Bytes>, String) {
        let stalls = Arc::new(Stalls::new(Duration::from_secs(60)));
        let mut body = body(&stalls, futures::stream::iter(messages));
        let mut data = Vec::new();
        while let Some(frame) = body.frame().await {
            match frame.expect("a frame").into_data() {
                Ok(bytes) => data.push(bytes),
                Err(frame) => {
                    let trailers = frame.into_trailers().expect("trailers are the only other frame");
                    assert!(http_body::Body::is_end_stream(&body));
                    return (data, trailers["grpc-status"].to_str().expect("a number").to_owned());
                }
            }
        }
        panic!("a body without trailers");
    }

    fn message(byte: u8, size: usize) -> Bytes {
        vec![byte; size].into()
    }

    #[tokio::test]
    async fn what_is_ready_goes_out_together_up_to_a_chunk_and_in_order() {
        let messages: Vec<Bytes> = (0..40).map(|i| message(i, 1_000)).collect();
        let (data, status) = sent(messages.iter().cloned().map(Ok).collect()).await;
        assert_eq!(data.iter().map(Bytes::len).collect::<Vec<_>>(), [16_000, 16_000, 8_000]);
        assert_eq!(data.concat(), messages.concat());
        assert_eq!(status, "0");
    }

    #[tokio::test]
    async fn a_message_that_is_alone_or_large_is_not_copied() {
        for messages in [vec![message(1, 100)], vec![message(1, 20_000), message(2, 20_000)]] {
            let (data, _) = sent(messages.iter().cloned().map(Ok).collect()).await;
            let place = |all: &[Bytes]| all.iter().map(|b| b.as_ptr()).collect::<Vec<_>>();
            assert_eq!(place(&data), place(&messages));
        }
    }

    #[tokio::test]
    async fn what_was_ready_before_a_failure_is_sent_before_it() {
        let messages = vec![Ok(message(1, 10)), Ok(message(2, 10)), Err(Status::unavailable("gone"))];
        let (data, status) = sent(messages).await;
        assert_eq!((data.concat().len(), status.as_str()), (20, "14"));
    }

    /// A message that was ready and did not fit is dropped with the stream, and the client asks for it again.
    #[tokio::test(start_paused = true)]
    async fn what_was_held_for_the_next_part_goes_when_the_stream_is_given_up() {
        let stalls = Arc::new(Stalls::new(Duration::from_secs(60)));
        let position = Arc::new(AtomicU64::new(0));
        let large = message(2, 20_000);
        let (at, held) = (position.clone(), large.clone());
        let messages = futures::stream::iter([(1, message(1, 10)), (2, message(1, 10)), (3, held)])
            .map(move |(seq, message)| {
                at.store(seq, Ordering::Relaxed);
                Ok(message)
            })
            .chain(futures::stream::pending());
        let hint = Box::new(|at, reason: &str| format!("{reason} at {at}").into());
        let watched = Watched { messages: messages.boxed(), resume: Resume { position, hint } };
        let mut body = Frames::new(&stalls, watched, None, std::future::pending().boxed());
        let first = body.frame().await.expect("a frame").expect("no error").into_data().expect("data");
        assert_eq!(first.len(), 20);
        assert!(!large.is_unique(), "the third message is held");
        tokio::time::sleep(Duration::from_secs(76)).await;
        assert!(large.is_unique(), "it is gone");
        let hint = body.frame().await.expect("a hint").expect("no error").into_data().expect("data");
        assert_eq!(hint, "stalled at 2");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_nobody_asks_for_more_lets_go_and_says_where_to_resume() {
        let stalls = Arc::new(Stalls::new(Duration::from_secs(60)));
        let kept = Arc::new(());
        let in_stream = kept.clone();
        let messages = futures::stream::iter([Ok(message(1, 20_000)), Ok(message(2, 20_000))]).chain(
            futures::stream::pending().map(move |never: Result<Bytes, Status>| {
                let _ = &in_stream;
                never
            }),
        );
        let mut body = body(&stalls, messages);
        assert!(body.frame().await.is_some());
        tokio::time::sleep(Duration::from_secs(59)).await;
        assert_eq!(Arc::strong_count(&kept), 2, "given up too early");
        tokio::time::sleep(Duration::from_secs(17)).await;
        assert_eq!(Arc::strong_count(&kept), 1, "what the stream kept is gone");
        let hint = body.frame().await.expect("a hint").expect("no error").into_data().expect("data");
        assert_eq!(hint, "stalled at 7");
        let last = body.frame().await.expect("an end").expect("no error").into_trailers().expect("trailers");
        assert_eq!(last["grpc-status"], "0");
        assert!(body.frame().await.is_none());
    }
}
