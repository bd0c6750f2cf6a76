//! Long answers of calls that are no streams: they go out in parts, and are given up if nobody reads them ([`Stalls`]).
//!
//! HTTP/2 would take an answer of many MiB as one part, and hold it for as long as its client answers pings.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::Frame;
use http_body_util::BodyExt;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::{Code, Status};
use tree_agent_runtime::errors;

use crate::watch::{CHUNK, Line, Stalls};

/// The answer with a body that is given up if it is long and nobody reads it.
pub(crate) async fn bounded(stalls: &Arc<Stalls>, response: Response<Body>) -> Response<Body> {
    let (parts, mut body) = response.into_parts();
    let answer = match body.frame().await {
        Some(Ok(first)) => match first.into_data() {
            Ok(data) if data.len() > CHUNK => Answer::Long(stalls.keep(Unread { data, rest: body })),
            Ok(data) => Answer::Short { first: Some(Ok(Frame::data(data))), rest: body },
            Err(first) => Answer::Short { first: Some(Ok(first)), rest: body },
        },
        first => Answer::Short { first, rest: body },
    };
    Response::from_parts(parts, Body::new(answer))
}

/// The body of an answer.
enum Answer {
    Short { first: Option<Result<Frame<Bytes>, Status>>, rest: Body },
    Long(Arc<Line<Unread>>),
}

/// What is left of a long answer. Its parts are copied, because each would keep the whole message alive.
struct Unread {
    data: Bytes,
    rest: Body,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let line = match &mut *self {
            Self::Short { first, rest } => {
                return match first.take() {
                    Some(first) => Poll::Ready(Some(first)),
                    None => Pin::new(rest).poll_frame(cx),
                };
            }
            Self::Long(line) => line,
        };
        let mut kept = line.kept();
        let Some(kept) = &mut *kept else {
            let text = "the client read nothing of the answer for too long; call again";
            let status = errors::status(Code::DeadlineExceeded, "ANSWER_NOT_READ", text);
            return Poll::Ready(Some(Err(status)));
        };
        kept.unasked_since = None;
        if kept.unread.data.is_empty() {
            match ready!(Pin::new(&mut kept.unread.rest).poll_frame(cx)) {
                Some(Ok(frame)) if frame.is_data() => {
                    kept.unread.data = frame.into_data().unwrap_or_default()
                }
                other => return Poll::Ready(other),
            }
        }
        let size = kept.unread.data.len().min(CHUNK);
        let part = Bytes::copy_from_slice(&kept.unread.data.split_to(size));
        kept.unasked_since = Some(Instant::now());
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Short { first: None, rest } if rest.is_end_stream())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::{StreamExt, stream};
    use http::HeaderMap;
    use http_body_util::StreamBody;

    use super::*;

    async fn answer(stalls: &Arc<Stalls>, message: &Bytes) -> Body {
        let frames = [Ok(Frame::data(message.clone())), Ok(Frame::trailers(HeaderMap::new()))];
        let body = StreamBody::new(stream::iter(frames).map(|frame: Result<_, Status>| frame));
        bounded(stalls, Response::new(Body::new(body))).await.into_body()
    }

    #[tokio::test]
    async fn an_answer_comes_whole_with_its_trailers() {
        let stalls = Arc::new(Stalls::new(Duration::from_secs(60)));
        for size in [0, 1, CHUNK, CHUNK + 1, 5 * CHUNK] {
            let message: Bytes = (0..size).map(|i| (i % 251) as u8).collect();
            let collected = answer(&stalls, &message).await.collect().await.unwrap();
            assert!(collected.trailers().is_some());
            assert_eq!(collected.to_bytes(), message);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_reads_is_dropped() {
        let stalls = Arc::new(Stalls::new(Duration::from_secs(60)));
        let message: Bytes = vec![1; 1 << 20].into();
        let (unasked, mut read) = (answer(&stalls, &message).await, answer(&stalls, &message).await);
        let part = read.frame().await.unwrap().unwrap().into_data().unwrap();
        for _ in 0..59 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert!(!message.is_unique(), "too early");
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert!(message.is_unique(), "one part of {} bytes may be held: by itself", part.len());
        let end = read.frame().await.unwrap().unwrap_err();
        assert_eq!(end.code(), Code::DeadlineExceeded);
        drop(unasked);
    }
}
