//! Limits of request bodies: each has a deadline and a maximum size, and all together have a budget of bytes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use tonic::{Code, Status};

use super::MESSAGE_BYTES;
use crate::errors;

/// Maximum bytes of one request body. A message of the maximum size fits in every encoding of gRPC-web. A longer
/// message is refused earlier, by its length prefix, with an error that names the limit.
const BODY_BYTES: usize = 2 * MESSAGE_BYTES;

/// Limits of request bodies.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    /// How long a body may take to arrive. Default 60 s.
    pub deadline: Duration,
    /// Bytes of all bodies whose requests are still being received or processed. Default 128 MiB.
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

    /// Received bytes that may still be in memory.
    pub(crate) fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    /// Number of bodies refused because of their size, their deadline or the budget.
    pub(crate) fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Wraps the body of a new request. Its bytes count until both the body and the reservation are dropped.
    pub(crate) fn receive<B>(&self, body: B) -> (Received<B>, Arc<Reservation>) {
        let reservation = Arc::new(Reservation { bodies: self.clone(), bytes: AtomicUsize::new(0) });
        let deadline = Instant::now() + self.0.limits.deadline;
        (Received { body, reservation: reservation.clone(), deadline, timer: None }, reservation)
    }

    fn refuse(&self, code: Code, reason: &str, message: &str) -> Status {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
        errors::status(code, reason, message)
    }
}

/// The share of the budget that one request holds.
#[derive(Debug)]
pub(crate) struct Reservation {
    bodies: Bodies,
    bytes: AtomicUsize,
}

impl Reservation {
    fn add(&self, bytes: usize) -> Result<(), Status> {
        let shared = &self.bodies.0;
        if self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > BODY_BYTES {
            shared.held.fetch_add(bytes, Ordering::Relaxed);
            let text = "the request is too long; send it in parts";
            return Err(self.bodies.refuse(Code::ResourceExhausted, "BODY_TOO_LARGE", text));
        }
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
    reservation: Arc<Reservation>,
    deadline: Instant,
    /// Created when the body is first awaited; most bodies arrive with their heads.
    timer: Option<Pin<Box<Sleep>>>,
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
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Buf::remaining);
                Poll::Ready(Some(this.reservation.add(bytes).map(|()| frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(Status::from_error(error.into())))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                let deadline = this.deadline;
                let timer = this.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
                timer.as_mut().poll(cx).map(|()| {
                    let text = "the request did not arrive in time; send it again (TREE_AGENT_BODY_SECONDS)";
                    let bodies = &this.reservation.bodies;
                    Some(Err(bodies.refuse(Code::DeadlineExceeded, "BODY_DEADLINE", text)))
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
    use http_body_util::BodyExt;
    use tokio::sync::mpsc;
    use tokio_stream::StreamExt;
    use tokio_stream::wrappers::UnboundedReceiverStream;

    use super::*;

    const LIMITS: BodyLimits = BodyLimits { deadline: Duration::from_secs(60), bytes: 1_000 };

    type Parts = mpsc::UnboundedSender<Bytes>;

    /// A body to which parts can be sent, as it is received.
    fn body(bodies: &Bodies) -> (Parts, impl Body<Data = Bytes, Error = Status> + Unpin, Arc<Reservation>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let frames = UnboundedReceiverStream::new(receiver).map(|bytes| Ok::<_, Status>(Frame::data(bytes)));
        let (received, reservation) = bodies.receive(http_body_util::StreamBody::new(frames));
        (sender, received, reservation)
    }

    fn part(bytes: usize) -> Bytes {
        Bytes::from(vec![0; bytes])
    }

    #[tokio::test(start_paused = true)]
    async fn all_bodies_share_one_budget_until_their_requests_are_answered() {
        let bodies = Bodies::new(LIMITS);
        let (first, mut one, answered) = body(&bodies);
        let (second, mut two, _) = body(&bodies);
        first.send(part(900)).unwrap();
        one.frame().await.unwrap().unwrap();
        second.send(part(200)).unwrap();
        let error = two.frame().await.unwrap().unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted);
        drop(two);
        assert_eq!((bodies.held(), bodies.refused()), (900, 1));
        drop(one);
        assert_eq!(bodies.held(), 900, "the request is still at work with what it received");
        drop(answered);
        assert_eq!(bodies.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_has_a_deadline_however_it_drips() {
        let bodies = Bodies::new(LIMITS);
        let (parts, mut received, _) = body(&bodies);
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
    async fn one_body_has_a_limit_of_its_own() {
        let bodies = Bodies::new(BodyLimits { bytes: usize::MAX >> 1, ..LIMITS });
        let (parts, mut received, _) = body(&bodies);
        parts.send(part(BODY_BYTES)).unwrap();
        received.frame().await.unwrap().unwrap();
        parts.send(part(1)).unwrap();
        assert_eq!(received.frame().await.unwrap().unwrap_err().code(), Code::ResourceExhausted);
    }
}
