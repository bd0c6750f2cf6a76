//! A budget for answers that their clients have not read yet.
//!
//! HTTP/2 asks a body for its first part, and for each further one when the client has room for it. A client that gives
//! no room would keep whole answers in memory, as many as it may have streams. Every answer is therefore encoded at
//! once and counts until all of it is handed out, in parts of [`PART_BYTES`]. If all of them together exceed the
//! budget, those that have gone without progress for the longest are dropped, until a quarter of the budget is free.
//!
//! HTTP/2 has taken a first part of every answer by then, and no status can stand behind a part of a message. The
//! stream of a dropped answer is therefore reset with ENHANCE_YOUR_CALM, which gRPC libraries report as
//! `RESOURCE_EXHAUSTED`. Over HTTP/1.1 the connection is closed.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use http_body::{Body as _, Frame, SizeHint};
use tonic::body::Body;
use tonic::codegen::Bytes;
use tonic::{Code, Status};

use super::locked;
use crate::errors;

/// Maximum bytes that are handed out at once. HTTP/2 sends them in one frame, and keeps no more of a slow stream.
const PART_BYTES: usize = 16 * 1024;

/// The default budget in bytes.
pub(super) const BUDGET_BYTES: usize = 256 * 1024 * 1024;

/// The answers of a port that are being sent. Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct Answers(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    budget: usize,
    /// Bytes of all parts that wait.
    held: AtomicUsize,
    /// A clock that ticks whenever an answer makes progress.
    ticks: AtomicU64,
    dropped: AtomicU64,
    waiting: Mutex<BTreeMap<u64, Arc<Waiting>>>,
}

/// The part of one answer that has been encoded and not handed out.
#[derive(Debug)]
struct Waiting {
    /// None once it was dropped.
    bytes: Mutex<Option<Bytes>>,
    /// Its whole length. All of it counts until the last part is handed out, because all of it stays in memory.
    length: usize,
    /// When it last made progress.
    tick: AtomicU64,
}

impl Answers {
    pub(crate) fn new(budget: usize) -> Self {
        let (held, ticks, dropped) = Default::default();
        Self(Arc::new(Shared { budget, held, ticks, dropped, waiting: Mutex::default() }))
    }

    /// Bytes of answers that wait for their clients.
    pub(crate) fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    /// Number of answers dropped because their clients did not read them.
    pub(crate) fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }

    /// Wraps the body of an answer. Encodes its first message now, and drops what it was made of if it was the only
    /// one.
    pub(crate) async fn send(&self, body: Body) -> Answer {
        let mut answer = self.pass(body);
        match answer.ask().await {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(bytes) => answer.wait(bytes),
                Err(frame) => answer.then = Some(Ok(frame)),
            },
            other => answer.then = other,
        }
        if answer.waiting.is_none() {
            return answer;
        }
        // The encoder of the gRPC library keeps its buffer until it has said how the call ended.
        answer.then = answer.ask().await;
        answer
    }

    /// Wraps the body of an answer that is made while its client reads it.
    pub(crate) fn pass(&self, body: Body) -> Answer {
        Answer { body: Some(body), answers: self.clone(), waiting: None, then: None, counts: true }
    }

    /// Wraps the body of an answer that takes no memory, because its bytes are part of the program.
    pub(crate) fn pass_uncounted(&self, body: Body) -> Answer {
        let mut answer = self.pass(body);
        answer.counts = false;
        answer
    }

    fn tick(&self) -> u64 {
        self.0.ticks.fetch_add(1, Ordering::Relaxed)
    }

    fn add(&self, bytes: Bytes) -> (u64, Arc<Waiting>) {
        let (id, length) = (self.tick(), bytes.len());
        let waiting = Arc::new(Waiting { bytes: Mutex::new(Some(bytes)), length, tick: AtomicU64::new(id) });
        let mut all = locked(&self.0.waiting);
        all.insert(id, waiting.clone());
        if self.0.held.fetch_add(length, Ordering::Relaxed) + length > self.0.budget {
            self.make_room(&all, id);
        }
        (id, waiting)
    }

    /// Drops the answers that have gone without progress for the longest, all but `newest`, until a quarter of the
    /// budget is free.
    fn make_room(&self, all: &BTreeMap<u64, Arc<Waiting>>, newest: u64) {
        let mut oldest: Vec<_> = all.iter().filter(|(id, _)| **id != newest).map(|(_, w)| w).collect();
        oldest.sort_by_key(|waiting| waiting.tick.load(Ordering::Relaxed));
        for waiting in oldest {
            if self.held() <= self.0.budget / 4 * 3 {
                break;
            }
            if locked(&waiting.bytes).take().is_some() {
                self.0.held.fetch_sub(waiting.length, Ordering::Relaxed);
                self.0.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn remove(&self, id: u64) {
        if let Some(waiting) = locked(&self.0.waiting).remove(&id)
            && locked(&waiting.bytes).take().is_some()
        {
            self.0.held.fetch_sub(waiting.length, Ordering::Relaxed);
        }
    }
}

/// Marks an answer whose body is asked for parts by HTTP/2 alone, because it watches by itself whether its client
/// reads. An extension of the response.
#[derive(Clone, Copy, Debug)]
pub struct OnDemand;

/// Marks an answer whose bytes are part of the program. They are not copied, so it takes no memory however many clients
/// leave it unread, and does not count. An extension of the response.
#[derive(Clone, Copy, Debug)]
pub struct Static;

/// The body of an answer that is being sent.
pub(crate) struct Answer {
    /// None once it has ended.
    body: Option<Body>,
    answers: Answers,
    waiting: Option<(u64, Arc<Waiting>)>,
    /// What follows on that.
    then: Option<Result<Frame<Bytes>, Status>>,
    /// Its bytes count while they wait.
    counts: bool,
}

impl Answer {
    /// What the body says next, if it says it at once.
    async fn ask(&mut self) -> Option<Result<Frame<Bytes>, Status>> {
        std::future::poll_fn(|cx| match self.poll_body(cx) {
            Poll::Ready(frame) => Poll::Ready(frame),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(&mut *body).poll_frame(cx));
        // Nothing follows on an error, or on trailers.
        let goes_on = frame.as_ref().is_some_and(|frame| frame.as_ref().is_ok_and(Frame::is_data));
        if !goes_on || body.is_end_stream() {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn wait(&mut self, bytes: Bytes) {
        self.waiting = Some(self.answers.add(bytes));
    }

    /// The next part of what waits.
    fn take(&mut self) -> Option<Result<Frame<Bytes>, Status>> {
        let (id, waiting) = self.waiting.as_ref()?;
        let mut bytes = locked(&waiting.bytes);
        let part = bytes.as_mut().map(|bytes| part_of(bytes, waiting.length));
        let is_last = bytes.as_ref().is_none_or(Bytes::is_empty);
        drop(bytes);
        waiting.tick.store(self.answers.tick(), Ordering::Relaxed);
        if is_last {
            self.answers.remove(*id);
            self.waiting = None;
        }
        match part {
            Some(part) => Some(Ok(Frame::data(part))),
            None => {
                (self.body, self.then) = (None, None);
                Some(Err(dropped()))
            }
        }
    }

    /// Bytes that wait.
    fn left(&self) -> u64 {
        let waiting = self.waiting.as_ref();
        waiting.map_or(0, |(_, waiting)| locked(&waiting.bytes).as_ref().map_or(0, Bytes::len) as u64)
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some((id, _)) = self.waiting.take() {
            self.answers.remove(id);
        }
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if !self.counts {
            return self.poll_body(cx);
        }
        if let Some(part) = self.take() {
            return Poll::Ready(Some(part));
        }
        let frame = match self.then.take() {
            Some(then) => Some(then),
            None => ready!(self.poll_body(cx)),
        };
        let frame = match frame {
            Some(Ok(frame)) => frame,
            end => return Poll::Ready(end),
        };
        // Most parts of a stream are small and go straight on.
        if frame.data_ref().is_none_or(|bytes| bytes.len() <= PART_BYTES) {
            return Poll::Ready(Some(Ok(frame)));
        }
        if let Ok(bytes) = frame.into_data() {
            self.wait(bytes);
        }
        Poll::Ready(self.take())
    }

    fn is_end_stream(&self) -> bool {
        self.waiting.is_none()
            && self.then.is_none()
            && self.body.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let then = self.then.as_ref().and_then(|then| then.as_ref().ok()?.data_ref());
        let left = self.left() + then.map_or(0, |bytes| bytes.len() as u64);
        let rest = self.body.as_ref().map_or(SizeHint::with_exact(0), http_body::Body::size_hint);
        longer(&rest, left)
    }
}

/// The size of a body with so many bytes before it.
pub(crate) fn longer(rest: &SizeHint, bytes: u64) -> SizeHint {
    let mut hint = SizeHint::new();
    hint.set_lower(rest.lower() + bytes);
    if let Some(upper) = rest.upper() {
        hint.set_upper(upper + bytes);
    }
    hint
}

/// How an answer ends that was dropped.
fn dropped() -> Status {
    let text = "the answer was not read for too long while others waited; ask again (TREE_AGENT_ANSWER_MIB)";
    let mut status = errors::status(Code::ResourceExhausted, "ANSWER_BUDGET", text);
    // The HTTP library resets the stream with the reason that it finds in the source of the error.
    status.set_source(Arc::new(h2::Error::from(h2::Reason::ENHANCE_YOUR_CALM)));
    status
}

/// Takes the next part. The part of a longer answer is a copy: a slice would keep the whole answer in memory for as
/// long as HTTP/2 keeps the part.
fn part_of(bytes: &mut Bytes, length: usize) -> Bytes {
    let part = bytes.split_to(bytes.len().min(PART_BYTES));
    if part.len() == length { part } else { Bytes::copy_from_slice(&part) }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full, StreamBody};

    use super::*;

    fn whole(bytes: usize) -> Body {
        Body::new(Full::new(Bytes::from(vec![7; bytes])))
    }

    #[tokio::test]
    async fn an_answer_is_handed_out_in_parts_and_counts_until_then() {
        let answers = Answers::new(100_000);
        let mut answer = answers.send(whole(40_000)).await;
        assert_eq!((answers.held(), answer.size_hint().exact()), (40_000, Some(40_000)));
        let part = answer.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!((part.len(), answers.held()), (PART_BYTES, 40_000));
        assert_eq!(answer.size_hint().exact(), Some(40_000 - PART_BYTES as u64));
        let rest = answer.collect().await.unwrap().to_bytes();
        assert_eq!((rest.len(), answers.held(), answers.dropped()), (40_000 - PART_BYTES, 0, 0));
        drop(answers.send(whole(40_000)).await);
        assert_eq!(answers.held(), 0, "an answer whose client left");
    }

    #[tokio::test]
    async fn what_is_not_read_makes_room_for_what_is() {
        let answers = Answers::new(1_000_000);
        let unread: Vec<Answer> =
            futures::future::join_all((0..9).map(|_| answers.send(whole(100_000)))).await;
        let mut slow = answers.send(whole(100_000)).await;
        slow.frame().await.unwrap().unwrap();
        // Everybody after that is served, and so is the slow one, because it makes progress.
        for _ in 0..100 {
            let body = answers.send(whole(100_000)).await.collect().await.unwrap();
            assert_eq!(body.to_bytes().len(), 100_000);
            assert!(answers.held() <= 1_000_000);
        }
        assert_eq!(slow.collect().await.unwrap().to_bytes().len(), 100_000 - PART_BYTES);
        let mut errors = 0;
        for answer in unread {
            let Err(error) = answer.collect().await else { continue };
            assert_eq!(error.code(), Code::ResourceExhausted);
            let reset = std::error::Error::source(&error).and_then(|e| e.downcast_ref::<h2::Error>());
            assert_eq!(reset.and_then(h2::Error::reason), Some(h2::Reason::ENHANCE_YOUR_CALM));
            errors += 1;
        }
        assert_eq!(errors, answers.dropped());
        assert!((2..=4).contains(&errors), "{errors} were dropped");
        assert_eq!(answers.held(), 0);
    }

    #[tokio::test]
    async fn what_is_part_of_the_program_neither_counts_nor_is_copied() {
        static PAGE: [u8; 50_000] = [7; 50_000];
        let answers = Answers::new(1_000);
        let body = || Body::new(Full::new(Bytes::from_static(&PAGE)));
        let mut page = answers.pass_uncounted(body());
        assert_eq!((page.size_hint().exact(), answers.held()), (Some(50_000), 0));
        let part = page.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!((part.as_ptr(), part.len(), answers.held()), (PAGE.as_ptr(), PAGE.len(), 0));
        assert!(page.frame().await.is_none());
    }

    #[tokio::test]
    async fn one_answer_may_exceed_the_budget_alone() {
        let answers = Answers::new(1_000);
        let body = answers.send(whole(50_000)).await.collect().await.unwrap();
        assert_eq!((body.to_bytes().len(), answers.dropped()), (50_000, 0));
    }

    #[tokio::test]
    async fn streams_trailers_and_errors_pass() {
        let answers = Answers::new(1_000_000);
        let trailers = http::HeaderMap::from_iter([(
            http::HeaderName::from_static("grpc-status"),
            http::HeaderValue::from_static("0"),
        )]);
        let frames = [
            Ok(Frame::data(Bytes::from_static(b"a"))),
            Ok(Frame::data(Bytes::from(vec![b'b'; 50_000]))),
            Ok(Frame::trailers(trailers.clone())),
        ];
        let body = Body::new(StreamBody::new(futures::stream::iter(frames.map(|f: Result<_, Status>| f))));
        let body = answers.send(body).await.collect().await.unwrap();
        assert_eq!(body.trailers(), Some(&trailers));
        assert_eq!(body.to_bytes().len(), 50_001);
        let only =
            StreamBody::new(futures::stream::iter([Ok::<_, Status>(Frame::trailers(trailers.clone()))]));
        assert_eq!(answers.send(Body::new(only)).await.collect().await.unwrap().trailers(), Some(&trailers));
        let failed = StreamBody::new(futures::stream::iter([Err::<Frame<Bytes>, _>(Status::aborted("no"))]));
        let error = answers.send(Body::new(failed)).await.collect().await.unwrap_err();
        assert_eq!(error.code(), Code::Aborted);
        assert!(answers.send(Body::empty()).await.is_end_stream());
        assert_eq!(answers.held(), 0);
    }
}
