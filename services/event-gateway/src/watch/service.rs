//! `WatchRun` on the wire. It stands before the generated server, whose codec would copy every message into a
//! buffer of its own for every client; here the shared bytes of a frame go out as they are.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::extract::State;
use bytes::{Buf, Bytes, BytesMut};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use prost::Message;
use tonic::body::Body;
use tonic::{Code, Status};
use tree_agent_contract::FieldError;
use tree_agent_contract::limits::MESSAGE_BYTES;
use tree_agent_proto::v1::WatchRunRequest;
use tree_agent_runtime::errors;

use crate::gateway::Gateway;

/// The path that is intercepted.
pub(crate) const PATH: &str = "/treeagent.v1.RunService/WatchRun";

/// Messages of one stream, framed.
pub type Messages = BoxStream<'static, Result<Bytes, Status>>;

/// Handles one call.
pub(crate) async fn watch_run(
    State(gateway): State<Arc<Gateway>>,
    request: Request<axum::body::Body>,
) -> Response<Body> {
    let grpc = request.headers().get(header::CONTENT_TYPE);
    if !grpc.is_some_and(|t| t.as_bytes().starts_with(b"application/grpc")) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return response;
    }
    let messages = match read(request.into_body()).await {
        Ok(request) => gateway.watch(request).await,
        Err(status) => Err(status),
    };
    match messages {
        Ok(messages) => {
            let mut response = Response::new(Body::new(Frames::new(messages)));
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
            response
        }
        Err(status) => status.into_http(),
    }
}

/// The one message of the request.
async fn read(body: axum::body::Body) -> Result<WatchRunRequest, Status> {
    let malformed = |what: String| errors::status(Code::Internal, "MALFORMED_REQUEST", what);
    let mut bytes = match Limited::new(body, MESSAGE_BYTES).collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            let text =
                format!("is longer than {MESSAGE_BYTES} bytes; send run_id, after_seq and snapshot only");
            let error = FieldError::new("request", text);
            return Err(errors::field(Code::OutOfRange, "MESSAGE_TOO_LARGE", &error));
        }
        Err(error) => return Err(malformed(format!("the request did not arrive whole: {error}"))),
    };
    if bytes.len() < 5 {
        return Err(malformed("the request holds no message".into()));
    }
    if bytes.get_u8() != 0 {
        let text = "WatchRun takes no compressed request; send it with grpc-encoding identity";
        return Err(errors::status(Code::Unimplemented, "COMPRESSED_REQUEST", text));
    }
    if bytes.get_u32() as usize != bytes.len() {
        return Err(malformed("the request does not hold exactly one message".into()));
    }
    WatchRunRequest::decode(bytes)
        .map_err(|error| malformed(format!("the request is no WatchRunRequest: {error}")))
}

/// The messages of [`Gateway::watch`] as the generated server wants them: for callers that do not come over the
/// intercepted path.
pub(crate) fn decoded<T: Message + Default>(messages: Messages) -> BoxStream<'static, Result<T, Status>> {
    messages
        .map(|message| {
            let message = message?.slice(5..);
            T::decode(message).map_err(|error| Status::internal(error.to_string()))
        })
        .boxed()
}

/// Bytes of messages that go out together: the payload of one HTTP/2 frame at its default size (RFC 9113, 6.5.2).
const CHUNK: usize = 16 * 1024;

/// A response body of framed messages, with gRPC's trailers at the end.
///
/// A frame of HTTP/2 costs a lock, a queue entry and a wake-up whatever it holds. So small messages that are ready at
/// the same time are copied into one; a message that is alone, as on a quiet run, goes out in its shared bytes.
struct Frames {
    messages: Messages,
    /// Was ready, but did not fit into the chunk before.
    held: Option<Option<Result<Bytes, Status>>>,
    ended: bool,
}

impl Frames {
    fn new(messages: Messages) -> Self {
        Self { messages, held: None, ended: false }
    }

    /// `first` and whatever else is ready and fits beside it.
    fn chunk(&mut self, first: Bytes, cx: &mut Context<'_>) -> Bytes {
        let mut copied = BytesMut::new();
        let mut size = first.len();
        while size < CHUNK {
            match Pin::new(&mut self.messages).poll_next(cx) {
                Poll::Ready(Some(Ok(next))) if size + next.len() <= CHUNK => {
                    if copied.is_empty() {
                        copied.reserve(CHUNK);
                        copied.extend_from_slice(&first);
                    }
                    copied.extend_from_slice(&next);
                    size += next.len();
                }
                Poll::Ready(other) => {
                    self.held = Some(other);
                    break;
                }
                Poll::Pending => break,
            }
        }
        if copied.is_empty() { first } else { copied.freeze() }
    }
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
        let next = match self.held.take() {
            Some(held) => held,
            None => ready!(Pin::new(&mut self.messages).poll_next(cx)),
        };
        let status = match next {
            Some(Ok(bytes)) => return Poll::Ready(Some(Ok(Frame::data(self.chunk(bytes, cx))))),
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

    /// The body's data frames for `messages`, and the `grpc-status` of its trailers.
    async fn sent(messages: Vec<Result<Bytes, Status>>) -> (Vec<Bytes>, String) {
        let mut body = Frames::new(futures::stream::iter(messages).boxed());
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
}
