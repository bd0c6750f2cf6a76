//! `WatchRun` on the wire. It stands before the generated server, whose codec would copy every message into a
//! buffer of its own for every client; here the shared bytes of a frame go out as they are.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::extract::State;
use bytes::{Buf, Bytes};
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
            let mut response = Response::new(Body::new(Frames { messages, ended: false }));
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

/// A response body of framed messages, with gRPC's trailers at the end.
struct Frames {
    messages: Messages,
    ended: bool,
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
        let status = match ready!(Pin::new(&mut self.messages).poll_next(cx)) {
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
