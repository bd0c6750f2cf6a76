//! The socket of a connection. It notices when the client takes no more bytes, and takes none from the client while too
//! many requests are ending: a connection makes thousands at once of what has arrived.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::shared_limit::Gate;

/// Whether the last write to a socket has to wait until its client reads. Clones tell the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocked(Arc<AtomicBool>);

impl Blocked {
    /// Whether bytes wait for the client.
    pub(super) fn is_blocked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn note<T>(&self, outcome: Poll<T>) -> Poll<T> {
        self.0.store(outcome.is_pending(), Ordering::Relaxed);
        outcome
    }
}

/// A stream of bytes with a client.
pub(super) struct Socket<S> {
    stream: S,
    blocked: Blocked,
    gate: Gate,
}

impl<S> Socket<S> {
    /// Reads of `stream` while `gate` is open.
    pub(super) fn new(stream: S, gate: Gate) -> (Self, Blocked) {
        let blocked = Blocked::default();
        (Self { stream, blocked: blocked.clone(), gate }, blocked)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.gate.poll_open(cx));
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.blocked.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.blocked.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A socket has nothing to flush: this says nothing about the writes before.
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::shared_limit::SharedLimit;
    use super::*;

    fn gate(limit: &SharedLimit) -> Gate {
        Gate::new(limit.connect().counter())
    }

    #[tokio::test]
    async fn a_stream_is_blocked_while_its_client_has_to_read() {
        let (ours, mut theirs) = tokio::io::duplex(4);
        let (mut stream, blocked) = Socket::new(ours, gate(&SharedLimit::new(1, "LIMIT")));
        stream.write_all(b"1234").await.unwrap();
        assert!(!blocked.is_blocked());
        let mut writing = Box::pin(stream.write_all(b"56"));
        assert!((&mut writing).now_or_never().is_none());
        assert!(blocked.is_blocked());
        let mut read = [0; 4];
        theirs.read_exact(&mut read).await.unwrap();
        writing.await.unwrap();
        assert!(!blocked.is_blocked());
    }
    #[tokio::test]
    async fn nothing_is_read_while_too_many_requests_are_ending() {
        let limit = SharedLimit::new(1, "LIMIT");
        let (ours, mut theirs) = tokio::io::duplex(4);
        let (mut stream, _) = Socket::new(ours, gate(&limit));
        let ended = limit.connect();
        let mut ending: Vec<_> = (0..2).map(|_| ended.counter().hold(1)).collect();
        theirs.write_all(b"1234").await.unwrap();
        let mut read = [0; 4];
        let mut reading = Box::pin(stream.read_exact(&mut read));
        assert!((&mut reading).now_or_never().is_none());
        ending.pop();
        reading.await.unwrap();
        assert_eq!(&read, b"1234");
    }
}
