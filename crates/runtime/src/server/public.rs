//! Limits of health checks, which need no token, and of reflection, whose requests are as small. They are apart from
//! the limits of other requests, so that a stranger can use up neither the memory nor the budget of request bodies.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::FutureExt;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::body::Body;
use tonic::{Code, Status};

use super::locked;
use crate::errors;

/// Maximum of open public requests of a port. With what waits for their services they take at most some 60 MB, besides
/// their answers, which count as those of others do.
const OPEN: usize = 1_024;

/// Maximum bytes of one message of a public request.
pub(super) const MESSAGE_BYTES: usize = 4 * 1024;

/// Maximum bytes of a public request that have arrived and that its service has not read. A service reads on when its
/// client has read the answers so far.
const UNREAD_BYTES: usize = 32 * 1024;

/// What a part counts besides its bytes: its place in the queue.
const PART_OVERHEAD: usize = 64;

/// Whether a call of this path is limited here.
pub(crate) fn is_public(path: &str) -> bool {
    path.starts_with("/grpc.health.") || path.starts_with("/grpc.reflection.")
}

/// The error of a request whose place went to a newer one.
pub(crate) fn evicted() -> Status {
    let text = format!("more than {OPEN} health checks and reflection streams are open; try again");
    errors::status(Code::ResourceExhausted, "PUBLIC_REQUESTS", text)
}

fn unread() -> Status {
    let text = format!("more than {UNREAD_BYTES} bytes of requests wait; read the answers first");
    errors::status(Code::ResourceExhausted, "PUBLIC_REQUESTS", text)
}

/// The open public requests of a port. A new one is always admitted: if there are too many, the oldest ends. A probe
/// that is answered at once therefore succeeds however many requests a stranger holds open. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct PublicRequests(Arc<Mutex<VecDeque<Weak<Open>>>>);

/// An open request.
#[derive(Debug, Default)]
struct Open {
    evicted: CancellationToken,
    /// The answer while it is being sent. It is kept here because HTTP/2 asks an answer for nothing while its client
    /// reads nothing, so that the answer itself would not notice that it has to end.
    answer: Mutex<Option<Body>>,
}

impl PublicRequests {
    /// Admits a request, which is open until the returned place is dropped.
    pub(crate) fn enter(&self) -> Place {
        let place = Arc::new(Open::default());
        let mut open = locked(&self.0);
        if open.len() >= OPEN {
            open.retain(|place| place.strong_count() > 0);
        }
        let oldest = if open.len() >= OPEN { open.pop_front() } else { None };
        open.push_back(Arc::downgrade(&place));
        drop(open);
        if let Some(oldest) = oldest.and_then(|oldest| oldest.upgrade()) {
            oldest.evict();
        }
        Place(place)
    }
}

impl Open {
    /// Ends the request. What was kept for it is dropped now, whether its client reads or not.
    fn evict(&self) {
        self.evicted.cancel();
        let answer = locked(&self.answer).take();
        drop(answer);
    }
}

/// The place of one open request.
#[derive(Debug)]
pub(crate) struct Place(Arc<Open>);

impl Place {
    /// Completes when the request has to end.
    pub(crate) async fn evicted(&self) {
        self.0.evicted.cancelled().await;
    }

    /// Reads the body of the request as it arrives. HTTP/2 would otherwise keep what its service does not read: as much
    /// as its windows allow.
    pub(crate) fn receive<B>(&self, body: B) -> Body
    where
        B: HttpBody<Data = Bytes, Error = Status> + Send + Unpin + 'static,
    {
        let (parts, received) = mpsc::unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        tokio::spawn(read_ahead(body, parts, waiting.clone(), self.0.evicted.clone()));
        Body::new(ReadAhead { received, waiting })
    }

    /// Keeps the answer until it has been sent, or the request has to end.
    pub(crate) fn answer(self, body: Body) -> Body {
        let mut kept = locked(&self.0.answer);
        // An eviction that comes later finds the answer here.
        if !self.0.evicted.is_cancelled() {
            *kept = Some(body);
        }
        drop(kept);
        let evicted = Box::pin(self.0.evicted.clone().cancelled_owned());
        Body::new(PublicAnswer { open: Some(self.0), evicted })
    }
}

/// A part of a body, or why it ends.
type Part = Result<Frame<Bytes>, Status>;

/// Passes `body` on to `parts` while it is read and no more than [`UNREAD_BYTES`] are `waiting`.
async fn read_ahead<B>(
    mut body: B,
    parts: mpsc::UnboundedSender<Part>,
    waiting: Arc<AtomicUsize>,
    has_to_end: CancellationToken,
) where
    B: HttpBody<Data = Bytes, Error = Status> + Unpin,
{
    loop {
        let next = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
        let part = tokio::select! {
            part = next => part,
            () = has_to_end.cancelled() => Some(Err(evicted())),
            () = parts.closed() => return,
        };
        let part = match part {
            None => return,
            // Trailers end a body, and mean nothing to these services.
            Some(Ok(frame)) if frame.is_trailers() => return,
            Some(part) => part,
        };
        let bytes = counted(&part);
        let part = match waiting.fetch_add(bytes, Ordering::Relaxed) + bytes {
            waiting if waiting > UNREAD_BYTES => Err(unread()),
            _ => part,
        };
        let ends = part.is_err();
        if parts.send(part).is_err() || ends {
            return;
        }
    }
}

fn counted(part: &Part) -> usize {
    PART_OVERHEAD + part.as_ref().ok().and_then(Frame::data_ref).map_or(0, Bytes::len)
}

/// The body of a public request as its service reads it.
struct ReadAhead {
    received: mpsc::UnboundedReceiver<Part>,
    waiting: Arc<AtomicUsize>,
}

impl HttpBody for ReadAhead {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Part>> {
        let part = ready!(self.received.poll_recv(cx));
        if let Some(part) = &part {
            self.waiting.fetch_sub(counted(part), Ordering::Relaxed);
        }
        Poll::Ready(part)
    }
}

/// The body of an answer to a public request.
struct PublicAnswer {
    /// None once it has ended.
    open: Option<Arc<Open>>,
    evicted: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl HttpBody for PublicAnswer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Part>> {
        let Some(open) = self.open.clone() else { return Poll::Ready(None) };
        // Also wakes this answer when its request has to end.
        let is_evicted = self.evicted.poll_unpin(cx).is_ready();
        let mut answer = locked(&open.answer);
        let part = match &mut *answer {
            Some(answer) if !is_evicted => ready!(Pin::new(answer).poll_frame(cx)),
            _ => {
                let mut trailers = HeaderMap::new();
                // Cannot fail: the message is a valid header value.
                let _ = evicted().add_header(&mut trailers);
                Some(Ok(Frame::trailers(trailers)))
            }
        };
        if part.as_ref().is_none_or(|part| part.as_ref().map_or(true, Frame::is_trailers)) {
            *answer = None;
            drop(answer);
            self.open = None;
        }
        Poll::Ready(part)
    }

    fn is_end_stream(&self) -> bool {
        self.open.as_ref().is_none_or(|open| locked(&open.answer).as_ref().is_some_and(Body::is_end_stream))
    }
}

impl Drop for PublicAnswer {
    fn drop(&mut self) {
        // An eviction that runs at the moment keeps the place a little longer than its answer.
        if let Some(open) = &self.open {
            let answer = locked(&open.answer).take();
            drop(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full, StreamBody};
    use tokio_stream::wrappers::UnboundedReceiverStream;

    use super::*;

    fn is_evicted(place: &Place) -> bool {
        place.0.evicted.is_cancelled()
    }

    #[test]
    fn the_oldest_open_request_ends_when_there_are_too_many() {
        let requests = PublicRequests::default();
        let open: Vec<Place> = (0..OPEN).map(|_| requests.enter()).collect();
        assert!(!open.iter().any(is_evicted));
        let newest = requests.enter();
        let ended: Vec<bool> = open.iter().map(is_evicted).collect();
        assert!(ended[0] && !ended[1..].contains(&true), "another request ended");
        assert!(!is_evicted(&newest), "the new request ended");
    }

    #[test]
    fn requests_that_are_answered_end_no_other() {
        let requests = PublicRequests::default();
        let slow = requests.enter();
        for _ in 0..10 * OPEN {
            drop(requests.enter());
        }
        assert!(!is_evicted(&slow));
    }

    /// A body that ends with `bytes`, and whether it still exists.
    fn answer() -> (Body, Weak<()>) {
        let (exists, bytes) = (Arc::new(()), Full::new(Bytes::from_static(b"answer")));
        let gone = Arc::downgrade(&exists);
        let body = bytes.map_frame(move |frame| {
            let _with_the_body = &exists;
            frame
        });
        (Body::new(body), gone)
    }

    #[tokio::test]
    async fn what_is_kept_for_an_evicted_request_goes_though_its_client_reads_nothing() {
        let requests = PublicRequests::default();
        let place = requests.enter();
        let (parts, sent) = mpsc::unbounded_channel::<Part>();
        let received = place.receive(StreamBody::new(UnboundedReceiverStream::new(sent)));
        let (body, exists) = answer();
        let mut unread = place.answer(body);
        let _others: Vec<Place> = (0..OPEN).map(|_| requests.enter()).collect();
        assert_eq!(exists.strong_count(), 0, "the answer is still kept");
        parts.closed().await;
        let error = received.collect().await.unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted);
        let end = unread.frame().await.unwrap().unwrap().into_trailers().unwrap();
        assert_eq!(Status::from_header_map(&end).map(|status| status.code()), Some(Code::ResourceExhausted));
        assert!(unread.frame().await.is_none());
    }

    #[tokio::test]
    async fn an_answer_that_waits_is_told_that_its_request_has_to_end() {
        let requests = PublicRequests::default();
        let silent = Body::new(StreamBody::new(tokio_stream::pending::<Part>()));
        let waiting = tokio::spawn(requests.enter().answer(silent).collect());
        // The answer waits already when the others come.
        tokio::task::yield_now().await;
        let _others: Vec<Place> = (0..OPEN).map(|_| requests.enter()).collect();
        let end = waiting.await.unwrap().unwrap();
        assert!(end.trailers().is_some_and(|end| end.contains_key("grpc-status")));
    }

    #[tokio::test]
    async fn an_answer_that_is_sent_leaves_its_place() {
        let requests = PublicRequests::default();
        let (body, exists) = answer();
        let sent = requests.enter().answer(body).collect().await.unwrap().to_bytes();
        assert_eq!((&sent[..], exists.strong_count()), (&b"answer"[..], 0));
        let (body, exists) = answer();
        drop(requests.enter().answer(body));
        assert_eq!(exists.strong_count(), 0);
        assert!(locked(&requests.0).iter().all(|place| place.strong_count() == 0));
    }

    #[tokio::test]
    async fn a_request_waits_for_its_service_up_to_a_limit() {
        for part in [1, 1_000, 16 * 1024] {
            let place = PublicRequests::default().enter();
            let (parts, sent) = mpsc::unbounded_channel::<Part>();
            let mut received = place.receive(StreamBody::new(UnboundedReceiverStream::new(sent)));
            let frame = || Ok(Frame::data(Bytes::from(vec![0; part])));
            // What is read makes room.
            for _ in 0..2 * UNREAD_BYTES / part {
                parts.send(frame()).unwrap();
                assert_eq!(received.frame().await.unwrap().unwrap().into_data().unwrap().len(), part);
            }
            while parts.send(frame()).is_ok() {
                tokio::task::yield_now().await;
            }
            let mut kept = 0;
            let error = loop {
                match received.frame().await.unwrap() {
                    Ok(frame) => kept += PART_OVERHEAD + frame.data_ref().unwrap().len(),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.code(), Code::ResourceExhausted);
            assert!((UNREAD_BYTES / 2..=UNREAD_BYTES).contains(&kept), "{kept} bytes in parts of {part}");
        }
    }
}
