//! Notices when a socket takes no more bytes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

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

/// A stream that notes how its writes end.
#[derive(Debug)]
pub(super) struct Watched<S> {
    stream: S,
    blocked: Blocked,
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S) -> (Self, Blocked) {
        let blocked = Blocked::default();
        (Self { stream, blocked: blocked.clone() }, blocked)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
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

    use super::*;

    #[tokio::test]
    async fn a_stream_is_blocked_while_its_client_has_to_read() {
        let (ours, mut theirs) = tokio::io::duplex(4);
        let (mut stream, blocked) = Watched::new(ours);
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
}
