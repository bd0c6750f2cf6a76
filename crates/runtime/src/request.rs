//! What happens round every request, once: a span, one log line when it ends, a request id, and error details
//! on errors that the gRPC library made by itself.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};
use tracing::{Instrument, Span};
use tree_agent_contract::FieldError;

use crate::{errors, telemetry};

/// Metadata key of the request id. A client may choose it; the answer repeats it.
pub const REQUEST_ID: &str = "x-request-id";

/// Wraps a service; see the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestLayer;

impl<S> Layer<S> for RequestLayer {
    type Service = RequestService<S>;
    fn layer(&self, inner: S) -> Self::Service {
        RequestService(inner)
    }
}

/// What [`RequestLayer`] makes.
#[derive(Clone, Debug)]
pub struct RequestService<S>(S);

impl<S> Service<Request<Body>> for RequestService<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let id = request_id(request.headers());
        let method = request.uri().path().to_owned();
        let span = tracing::info_span!("request", method, request_id = id.to_str().unwrap_or_default());
        telemetry::adopt(&span, request.headers());
        let record = Record { method, started: Instant::now(), span: span.clone(), code: None };
        let answer = span.in_scope(|| self.0.call(request));
        Box::pin(async move {
            let mut response = answer.instrument(span).await?;
            response.headers_mut().insert(REQUEST_ID, id);
            Ok(observe(response, record))
        })
    }
}

fn request_id(headers: &HeaderMap) -> HeaderValue {
    match headers.get(REQUEST_ID) {
        Some(id) if id.len() <= 128 && id.to_str().is_ok() => id.clone(),
        _ => HeaderValue::try_from(format!("{:016x}", fastrand::u64(..)))
            .expect("hexadecimal digits are a header value"),
    }
}

/// Reads the outcome from the headers, or from the trailers once the body has ended.
fn observe(response: Response<Body>, mut record: Record) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    if let Some(status) = Status::from_header_map(&parts.headers) {
        record.code = Some(status.code());
        explain(&mut parts.headers, status);
    } else if !parts.headers.get(http::header::CONTENT_TYPE).is_some_and(is_grpc) {
        record.code = Some(if parts.status.is_server_error() { Code::Internal } else { Code::Ok });
    }
    if body.is_end_stream() {
        return Response::from_parts(parts, body);
    }
    Response::from_parts(parts, Body::new(Observed { body, record }))
}

fn is_grpc(content_type: &HeaderValue) -> bool {
    content_type.as_bytes().starts_with(b"application/grpc")
}

/// Adds an `ErrorInfo` to an error without details, such as one for an unknown method or an oversized message.
fn explain(headers: &mut HeaderMap, status: Status) {
    if status.code() == Code::Ok || !status.details().is_empty() {
        return;
    }
    let message = match status.code() {
        Code::Unimplemented if status.message().is_empty() => "this server has no such method",
        _ => status.message(),
    };
    let explained = match message.strip_prefix("Error, decoded message length too large: ") {
        // Refused before it is decoded, so which of its fields is too long is not known.
        Some(sizes) => {
            let message = format!(
                "is too long ({sizes}); shorten its longest text, such as an objective or a document's body, or send it \
                 in parts"
            );
            errors::field(status.code(), "MESSAGE_TOO_LARGE", &FieldError::new("request", message))
        }
        None => errors::status(status.code(), name(status.code()), message),
    };
    // Fails only for a message that is no header value; the error then stays as it was.
    let _ = explained.add_header(headers);
}

/// The name of a status code, as gRPC spells it.
pub const fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

/// One request; its log line is written when it is dropped, whatever the way it ended.
struct Record {
    method: String,
    started: Instant,
    span: Span,
    /// None while unknown: a stream that ends so was dropped by its client or cut.
    code: Option<Code>,
}

impl Drop for Record {
    fn drop(&mut self) {
        let _in = self.span.enter();
        let code = self.code.unwrap_or(Code::Cancelled);
        let (method, ms) = (&self.method, self.started.elapsed().as_millis() as u64);
        match code {
            Code::Ok | Code::Cancelled => tracing::debug!(method, code = name(code), ms, "request"),
            Code::Unknown | Code::Internal | Code::Unavailable | Code::DataLoss | Code::DeadlineExceeded => {
                tracing::warn!(method, code = name(code), ms, "request failed");
            }
            _ => tracing::info!(method, code = name(code), ms, "request refused"),
        }
    }
}

struct Observed {
    body: Body,
    record: Record,
}

impl http_body::Body for Observed {
    type Data = tonic::codegen::Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        let frame = {
            // What a stream does while it is read belongs to its request, too.
            let span = telemetry::exporting().then(|| self.record.span.clone());
            let _in = span.as_ref().map(Span::enter);
            ready!(Pin::new(&mut self.body).poll_frame(cx))
        };
        match &frame {
            Some(Ok(frame)) => {
                if let Some(status) = frame.trailers_ref().and_then(Status::from_header_map) {
                    self.record.code = Some(status.code());
                }
            }
            Some(Err(status)) => self.record.code = Some(status.code()),
            None => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
