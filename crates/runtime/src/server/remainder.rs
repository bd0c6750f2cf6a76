//! Reads what a service leaves unread of a request's body.
//!
//! HTTP/2 keeps the trailers of a body that nobody reads until the stream ends, and the client decides when that is.
//! They may have hundreds of fields.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio_util::sync::CancellationToken;

/// A body that is read on if it is dropped before its end.
pub(crate) struct ReadToEnd<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
{
    /// None once it has ended.
    body: Option<B>,
    /// When to stop. None if it need not be read on.
    request_ended: Option<CancellationToken>,
}

impl<B> ReadToEnd<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
{
    pub(crate) const fn new(body: B, request_ended: Option<CancellationToken>) -> Self {
        Self { body: Some(body), request_ended }
    }
}

async fn next<B: Body + Unpin>(body: &mut B) -> Option<Result<Frame<B::Data>, B::Error>> {
    std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await
}

/// Reads to the end, however far that is: trailers stand there.
async fn discard<B: Body<Data = Bytes> + Unpin>(mut body: B) {
    while let Some(Ok(_)) = next(&mut body).await {}
}

impl<B> Body for ReadToEnd<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = std::task::ready!(Pin::new(body).poll_frame(cx));
        // Nothing follows on trailers or on an error.
        if !frame.as_ref().is_some_and(|frame| frame.as_ref().is_ok_and(Frame::is_data)) {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}

impl<B> Drop for ReadToEnd<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
{
    fn drop(&mut self) {
        let body = self.body.take().filter(|body| !body.is_end_stream());
        if let (Some(body), Some(request_ended)) = (body, self.request_ended.take())
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { request_ended.run_until_cancelled(discard(body)).await });
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http_body_util::StreamBody;
    use tokio::sync::mpsc;
    use tokio_stream::wrappers::UnboundedReceiverStream;

    use super::*;

    type Parts = mpsc::UnboundedSender<Result<Frame<Bytes>, std::io::Error>>;

    fn body(
        request_ended: Option<&CancellationToken>,
    ) -> (Parts, ReadToEnd<impl Body<Data = Bytes, Error = std::io::Error> + Send + Unpin + 'static>) {
        let (parts, received) = mpsc::unbounded_channel();
        let body = StreamBody::new(UnboundedReceiverStream::new(received));
        (parts, ReadToEnd::new(body, request_ended.cloned()))
    }

    fn part(bytes: usize) -> Result<Frame<Bytes>, std::io::Error> {
        Ok(Frame::data(Bytes::from(vec![0; bytes])))
    }

    #[tokio::test]
    async fn a_body_that_was_dropped_is_read_until_its_request_ends() {
        let request_ended = CancellationToken::new();
        let (parts, body) = body(Some(&request_ended));
        drop(body);
        for _ in 0..2_000 {
            parts.send(part(1_024)).unwrap();
        }
        parts.send(Ok(Frame::trailers(HeaderMap::new()))).unwrap();
        tokio::task::yield_now().await;
        assert!(!parts.is_closed());
        request_ended.cancel();
        parts.closed().await;
    }

    #[tokio::test]
    async fn a_body_that_has_ended_or_is_of_http_1_is_not_read_on() {
        let request_ended = CancellationToken::new();
        let (parts, mut body_of_2) = body(Some(&request_ended));
        parts.send(Ok(Frame::trailers(HeaderMap::new()))).unwrap();
        assert!(next(&mut body_of_2).await.unwrap().unwrap().is_trailers());
        assert!(parts.is_closed() && next(&mut body_of_2).await.is_none());
        let (parts, body_of_1) = body(None);
        drop(body_of_1);
        assert!(parts.is_closed());
    }
}
