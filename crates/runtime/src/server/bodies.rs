//! Limits of request bodies: each has a deadline and a maximum size, and all together have a budget of bytes.
//!
//! What counts is the memory that a body leads to. A message of gRPC counts with its announced length, because the
//! gRPC library allocates it as soon as its prefix has arrived.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, request};
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use tonic::{Code, Status};
use tree_agent_contract::FieldError;

use super::framing::{Framing, PREFIX};
use super::{MESSAGE_BYTES, public};
use crate::errors;

/// Maximum bytes of one request body. A message of the maximum size fits in every encoding of gRPC-web.
const BODY_BYTES: usize = 2 * MESSAGE_BYTES;
/// What an open body counts before anything has arrived, besides the head of its request: the buffer with which the
/// gRPC library reads it.
const BUFFER_BYTES: usize = 8 * 1024;
/// What a header field takes besides its text: its entry in the map of headers, which grows by doubling.
const FIELD_BYTES: usize = 208;

/// What a part takes besides its bytes.
const PART_BYTES: usize = 64;

/// Limits of request bodies.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    /// How long a body may take to arrive. Default 60 s.
    pub deadline: Duration,
    /// Bytes of all bodies whose requests are still being received or processed, until their answers begin: those that
    /// have arrived, and those that the prefixes of their messages announce. Default 128 MiB.
    pub bytes: usize,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self { deadline: Duration::from_secs(60), bytes: 128 * 1024 * 1024 }
    }
}

/// The request bodies of a port. Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct Bodies(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: BodyLimits,
    held: AtomicUsize,
    refused: AtomicU64,
}

impl Bodies {
    pub(crate) fn new(limits: BodyLimits) -> Self {
        Self(Arc::new(Shared { limits, held: AtomicUsize::new(0), refused: AtomicU64::new(0) }))
    }

    /// Bytes that bodies may hold in memory.
    pub(crate) fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    /// Number of bodies refused because of their size, their deadline or the budget.
    pub(crate) fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Wraps the body of a new request, whose messages have at most `message` bytes. It counts until both the body and
    /// the reservation are dropped. An error if there is no room for it.
    pub(crate) fn receive<B>(
        &self,
        head: &request::Parts,
        message: usize,
        body: B,
    ) -> Result<(Received<B>, Arc<Reservation>), Status> {
        let (bytes, received, refusal) = Default::default();
        let reservation = Arc::new(Reservation { bodies: self.clone(), bytes, received, refusal });
        reservation.add(BUFFER_BYTES + head_bytes(head))?;
        let received = self.limit(&head.headers, message, body, Some(reservation.clone()));
        Ok((received, reservation))
    }

    /// Wraps the body of a health check or of reflection. It does not count, because the number of these requests is
    /// limited, see [`public`].
    pub(crate) fn receive_public<B>(&self, headers: &HeaderMap, body: B) -> Received<B> {
        self.limit(headers, public::MESSAGE_BYTES, body, None)
    }

    fn limit<B>(
        &self,
        headers: &HeaderMap,
        message: usize,
        body: B,
        reservation: Option<Arc<Reservation>>,
    ) -> Received<B> {
        let deadline = Instant::now() + self.0.limits.deadline;
        let (bodies, framing) = (self.clone(), Framing::of(headers));
        Received { body, bodies, reservation, framing, message, received: 0, deadline, timer: None }
    }

    fn refuse(&self, code: Code, reason: &str, message: &str) -> Status {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
        errors::status(code, reason, message)
    }

    /// Nothing is decoded at that point, so the field that is too long is unknown.
    fn too_long(&self, bytes: usize, limit: usize) -> Status {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
        let text = format!(
            "is too long ({bytes} bytes have arrived or are announced, the limit is {limit}); shorten its longest \
             text, such as an objective or a document's body, or send it in parts"
        );
        errors::field(Code::OutOfRange, "MESSAGE_TOO_LARGE", &FieldError::new("request", text))
    }
}

/// The memory that the texts and the headers of a request take.
pub(super) fn head_bytes(head: &request::Parts) -> usize {
    let field = |(name, value): (&HeaderName, &HeaderValue)| FIELD_BYTES + name.as_str().len() + value.len();
    head.method.as_str().len()
        + head.uri.authority().map_or(0, |authority| authority.as_str().len())
        + head.uri.path_and_query().map_or(0, |path| path.as_str().len())
        + head.headers.iter().map(field).sum::<usize>()
}

/// The share of the budget that one request holds.
#[derive(Debug)]
pub(crate) struct Reservation {
    bodies: Bodies,
    bytes: AtomicUsize,
    /// Bytes of the body that have arrived.
    received: AtomicUsize,
    refusal: OnceLock<Status>,
}

impl Reservation {
    /// Why the body was refused, if it was. Whoever reads a body passes its error on, but not always as it was.
    pub(crate) fn refusal(&self) -> Option<&Status> {
        self.refusal.get()
    }

    /// Bytes of the body that have arrived.
    pub(crate) fn received(&self) -> usize {
        self.received.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) -> Result<(), Status> {
        let shared = &self.bodies.0;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if shared.held.fetch_add(bytes, Ordering::Relaxed) + bytes > shared.limits.bytes {
            let text =
                "this server is receiving too many bytes at the same time; try again (TREE_AGENT_BODY_MIB)";
            return Err(self.bodies.refuse(Code::ResourceExhausted, "BODY_BUDGET", text));
        }
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.bodies.0.held.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

/// A body that is being received.
pub(crate) struct Received<B> {
    body: B,
    bodies: Bodies,
    reservation: Option<Arc<Reservation>>,
    framing: Framing,
    /// Maximum bytes of one message.
    message: usize,
    /// Bytes that have arrived.
    received: usize,
    deadline: Instant,
    /// Created when the body is first awaited; most bodies arrive with their heads.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<B> Received<B> {
    /// Counts a part that has arrived, and what it announces.
    fn count(&mut self, part: &[u8]) -> Result<(), Status> {
        let (bodies, reservation, limit) = (&self.bodies, &self.reservation, self.message);
        let first = self.received == 0;
        self.received += part.len();
        if let Some(reservation) = reservation {
            reservation.received.fetch_add(part.len(), Ordering::Relaxed);
        }
        if self.received > BODY_BYTES {
            let text = "the request is too long; send it in parts";
            return Err(bodies.refuse(Code::ResourceExhausted, "BODY_TOO_LARGE", text));
        }
        let add = |bytes| reservation.as_ref().map_or(Ok(()), |reservation| reservation.add(bytes));
        add(PART_BYTES)?;
        match &mut self.framing {
            Framing::Prefixed(prefixes) => prefixes.scan(part, |announced| {
                if announced > limit + PREFIX {
                    return Err(bodies.too_long(announced - PREFIX, limit));
                }
                add(announced)
            }),
            Framing::Plain if self.received > limit => Err(bodies.too_long(self.received, limit)),
            Framing::Plain => add(part.len()),
            Framing::Base64 if self.received > base64_bytes(limit + PREFIX) => {
                Err(bodies.too_long(self.received, limit))
            }
            // The announced length is unknown, so the maximum counts.
            Framing::Base64 => add(part.len() + if first { limit } else { 0 }),
        }
    }
}

/// The length of so many bytes in base64. A client may encode them in several pieces, each with its own padding.
const fn base64_bytes(bytes: usize) -> usize {
    const PADDING: usize = 1_024;
    bytes.div_ceil(3) * 4 + PADDING
}

impl<B> Received<B> {
    /// Remembers why the body is refused.
    fn refused(&self, status: Status) -> Status {
        if let Some(reservation) = &self.reservation {
            // Only the first reason counts.
            let _ = reservation.refusal.set(status.clone());
        }
        status
    }
}

impl<B> Body for Received<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<tonic::codegen::StdError>,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        match Pin::new(&mut this.body).poll_frame(cx) {
            // No service reads trailers. The gRPC library would keep them, and they may have hundreds of fields.
            Poll::Ready(Some(Ok(frame))) if frame.is_trailers() => Poll::Ready(None),
            Poll::Ready(Some(Ok(frame))) => {
                let counted = frame.data_ref().map_or(Ok(()), |part| this.count(part));
                // A copy: a part may be one byte of a buffer of many kilobytes.
                let frame = frame.map_data(|bytes| Bytes::copy_from_slice(&bytes));
                Poll::Ready(Some(counted.map(|()| frame).map_err(|status| this.refused(status))))
            }
            Poll::Ready(Some(Err(error))) => {
                let status = Status::from_error(error.into());
                // HTTP/2 says what went wrong. HTTP/1.1 does not: what has arrived is no body, or not all of one.
                Poll::Ready(Some(Err(match status.code() {
                    Code::Unknown => {
                        let text = format!("the request's body cannot be read: {}", status.message());
                        this.refused(errors::status(Code::InvalidArgument, "MALFORMED_REQUEST", text))
                    }
                    _ => status,
                })))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                let deadline = this.deadline;
                let timer = this.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
                timer.as_mut().poll(cx).map(|()| {
                    let text = "the request did not arrive in time; send it again (TREE_AGENT_BODY_SECONDS)";
                    Some(Err(this.refused(this.bodies.refuse(Code::DeadlineExceeded, "BODY_DEADLINE", text))))
                })
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http::header;
    use http_body_util::BodyExt;
    use tokio::sync::mpsc;
    use tokio_stream::StreamExt;
    use tokio_stream::wrappers::UnboundedReceiverStream;

    use super::*;

    const LIMITS: BodyLimits = BodyLimits { deadline: Duration::from_secs(60), bytes: 100_000 };

    type Parts = mpsc::UnboundedSender<Bytes>;

    /// The head of a request with the path `/`.
    fn head(headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>) -> request::Parts {
        let mut head = http::Request::new(()).into_parts().0;
        head.headers.extend(headers);
        head
    }

    /// A body to which parts can be sent, as it is received.
    fn body(
        bodies: &Bodies,
        content_type: &'static str,
    ) -> (Parts, impl Body<Data = Bytes, Error = Status> + Unpin, Arc<Reservation>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let frames = UnboundedReceiverStream::new(receiver).map(|bytes| Ok::<_, Status>(Frame::data(bytes)));
        let head = head([(header::CONTENT_TYPE, HeaderValue::from_static(content_type))]);
        let frames = http_body_util::StreamBody::new(frames);
        let (received, reservation) = bodies.receive(&head, MESSAGE_BYTES, frames).unwrap();
        (sender, received, reservation)
    }

    /// What such a body counts before anything has arrived.
    fn opened(content_type: &str) -> usize {
        BUFFER_BYTES + "GET/".len() + FIELD_BYTES + "content-type".len() + content_type.len()
    }

    fn part(bytes: usize) -> Bytes {
        Bytes::from(vec![0; bytes])
    }

    /// The prefix of a message.
    fn prefix(bytes: usize) -> Bytes {
        [&[0][..], &(bytes as u32).to_be_bytes()].concat().into()
    }

    #[tokio::test(start_paused = true)]
    async fn all_bodies_share_one_budget_until_their_requests_are_answered() {
        let bodies = Bodies::new(LIMITS);
        let (first, mut one, answered) = body(&bodies, "application/json");
        let (second, mut two, _) = body(&bodies, "application/json");
        first.send(part(80_000)).unwrap();
        one.frame().await.unwrap().unwrap();
        second.send(part(20_000)).unwrap();
        let error = two.frame().await.unwrap().unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted);
        drop(two);
        assert_eq!((bodies.held(), bodies.refused()), (opened("application/json") + PART_BYTES + 80_000, 1));
        drop(one);
        assert_eq!(answered.received(), 80_000);
        assert_eq!(
            bodies.held(),
            opened("application/json") + PART_BYTES + 80_000,
            "the request is still at work with what it received"
        );
        drop(answered);
        assert_eq!(bodies.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_keeps_nothing_but_its_own_bytes() {
        let bodies = Bodies::new(LIMITS);
        let (sender, mut received, _) = body(&bodies, "application/json");
        let buffer = part(8_192);
        for n in 1..=3 {
            sender.send(buffer.slice(n..n + 1)).unwrap();
            let part = received.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(part.len() == 1 && !buffer.as_ptr_range().contains(&part.as_ptr()));
            assert_eq!(bodies.held(), opened("application/json") + n * (PART_BYTES + 1));
        }
    }

    #[tokio::test]
    async fn trailers_are_dropped() {
        let bodies = Bodies::new(LIMITS);
        let fields = [(header::CONTENT_TYPE, HeaderValue::from_static("x"))].into_iter().collect();
        let parts = [Frame::data(part(1)), Frame::trailers(fields)].map(Ok::<_, Status>);
        let sent = http_body_util::StreamBody::new(tokio_stream::iter(parts));
        let (received, _reservation) = bodies.receive(&head([]), MESSAGE_BYTES, sent).unwrap();
        let received = received.collect().await.unwrap();
        assert!(received.trailers().is_none());
        assert_eq!(received.to_bytes().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_announced_message_counts_before_it_arrives() {
        for content_type in ["application/grpc", "application/grpc-web+proto"] {
            let bodies = Bodies::new(LIMITS);
            let (first, mut one, _) = body(&bodies, content_type);
            let (second, mut two, _) = body(&bodies, content_type);
            first.send(prefix(80_000)).unwrap();
            one.frame().await.unwrap().unwrap();
            assert_eq!(bodies.held(), 2 * opened(content_type) + PART_BYTES + PREFIX + 80_000);
            second.send(prefix(80_000)).unwrap();
            assert_eq!(two.frame().await.unwrap().unwrap_err().code(), Code::ResourceExhausted);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_in_base64_counts_as_if_it_had_the_maximum_size() {
        let bodies = Bodies::new(BodyLimits { bytes: MESSAGE_BYTES + 100_000, ..LIMITS });
        let (first, mut one, _) = body(&bodies, "application/grpc-web-text");
        let (second, mut two, _) = body(&bodies, "application/grpc-web-text");
        first.send(part(8)).unwrap();
        one.frame().await.unwrap().unwrap();
        second.send(part(8)).unwrap();
        assert_eq!(two.frame().await.unwrap().unwrap_err().code(), Code::ResourceExhausted);
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_in_base64_has_the_same_limit() {
        let bodies = Bodies::new(BodyLimits { bytes: usize::MAX / 2, ..LIMITS });
        let (parts, mut received, reservation) = body(&bodies, "application/grpc-web-text");
        parts.send(part(MESSAGE_BYTES / 3 * 4)).unwrap();
        received.frame().await.unwrap().unwrap();
        assert!(reservation.refusal().is_none());
        parts.send(part(2_000)).unwrap();
        assert_eq!(received.frame().await.unwrap().unwrap_err().code(), Code::OutOfRange);
        assert_eq!(reservation.refusal().map(Status::code), Some(Code::OutOfRange));
    }

    #[tokio::test(start_paused = true)]
    async fn open_bodies_count_before_anything_arrives() {
        let bodies = Bodies::new(LIMITS);
        let room = LIMITS.bytes / opened("application/grpc");
        let open: Vec<_> = (0..room).map(|_| body(&bodies, "application/grpc")).collect();
        let refused = bodies.receive(&head([]), MESSAGE_BYTES, http_body_util::Empty::<Bytes>::new());
        assert_eq!(refused.err().map(|error| error.code()), Some(Code::ResourceExhausted));
        drop(open);
        assert_eq!(bodies.held(), 0);
    }

    #[test]
    fn the_head_of_an_open_request_counts() {
        let bodies = Bodies::new(LIMITS);
        let receive = |head| bodies.receive(&head, MESSAGE_BYTES, http_body_util::Empty::<Bytes>::new());
        let field = |value: &str| (HeaderName::from_static("name"), HeaderValue::try_from(value).unwrap());
        let mut long_path = head((0..10).map(|_| field("value")));
        long_path.uri = format!("/{}", "p".repeat(1_000)).parse().unwrap();
        let open = receive(long_path).unwrap();
        assert_eq!(bodies.held(), BUFFER_BYTES + "GET".len() + 1_001 + 10 * (FIELD_BYTES + 9));
        let refused = receive(head([field(&"x".repeat(LIMITS.bytes))]));
        assert_eq!(refused.err().map(|error| error.code()), Some(Code::ResourceExhausted));
        drop(open);
        assert_eq!(bodies.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_has_a_deadline_however_it_drips() {
        let bodies = Bodies::new(LIMITS);
        let (parts, mut received, _) = body(&bodies, "application/json");
        let begin = Instant::now();
        tokio::spawn(async move {
            while parts.send(part(1)).is_ok() {
                tokio::time::sleep(Duration::from_secs(7)).await;
            }
        });
        let error = loop {
            if let Err(error) = received.frame().await.unwrap() {
                break error;
            }
        };
        assert_eq!((error.code(), begin.elapsed()), (Code::DeadlineExceeded, LIMITS.deadline));
    }

    #[tokio::test(start_paused = true)]
    async fn one_message_and_one_body_have_limits_of_their_own() {
        let bodies = Bodies::new(BodyLimits { bytes: usize::MAX >> 1, ..LIMITS });
        let (parts, mut received, _) = body(&bodies, "application/json");
        parts.send(part(MESSAGE_BYTES)).unwrap();
        received.frame().await.unwrap().unwrap();
        parts.send(part(1)).unwrap();
        assert_eq!(received.frame().await.unwrap().unwrap_err().code(), Code::OutOfRange);

        let (parts, mut received, _) = body(&bodies, "application/grpc");
        parts.send(prefix(MESSAGE_BYTES + 1)).unwrap();
        assert_eq!(received.frame().await.unwrap().unwrap_err().code(), Code::OutOfRange);

        let (parts, mut received, _) = body(&bodies, "application/grpc");
        for _ in 0..2 {
            parts
                .send([prefix(MESSAGE_BYTES - PREFIX), part(MESSAGE_BYTES - PREFIX)].concat().into())
                .unwrap();
            received.frame().await.unwrap().unwrap();
        }
        parts.send(part(1)).unwrap();
        assert_eq!(received.frame().await.unwrap().unwrap_err().code(), Code::ResourceExhausted);
    }
}
