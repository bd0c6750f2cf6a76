//! The layer around every request. It refuses foreign hosts and origins, keeps the caller's deadline, adds a span, a
//! request id and one log line, and adds error details to errors of the gRPC library.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header, request};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use opentelemetry::propagation::Extractor;
use tonic::body::Body;
use tonic::codegen::{Bytes, StdError};
use tonic::{Code, Status};
use tower::Service;
use tower_http::timeout::{TimeoutBody, TimeoutError};
use tracing::{Instrument, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::activity::OpenRequest;
use super::hosts::HostError;
use super::protocol::{self, Protocol, name};
use super::settings::ServerConfig;
use crate::{errors, telemetry};

/// Metadata key of the request id. A client may choose it; the response repeats it.
const REQUEST_ID: &str = "x-request-id";

/// How long a client may pause within the body of its request.
const BODY_PAUSE: Duration = Duration::from_secs(60);

/// Why a request is not admitted.
struct Refusal {
    status: Status,
    /// In all protocols the same; `None` for that which the protocol has for the status.
    http: Option<StatusCode>,
}

impl Refusal {
    fn new(http: StatusCode, code: Code, reason: &str, text: String) -> Self {
        Self { status: errors::status(code, reason, text), http: Some(http) }
    }

    fn answer(self, protocol: &Protocol) -> Response<Body> {
        let mut response = protocol.refusal(self.status);
        if let Some(http) = self.http {
            *response.status_mut() = http;
        }
        response
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self { status, http: None }
    }
}

/// Checks a request. Returns the time that its call may take, if that is limited.
fn admit(
    config: &ServerConfig,
    parts: &request::Parts,
    protocol: &Protocol,
) -> Result<Option<Duration>, Refusal> {
    let host = config.hosts.check(parts).map_err(|error| match error {
        HostError::Malformed => {
            let text = "the request does not name one host".to_owned();
            Refusal::new(StatusCode::BAD_REQUEST, Code::PermissionDenied, "HOST_MALFORMED", text)
        }
        HostError::Unknown(host) => {
            let text =
                format!("this server is not called {host}; if it should be, add it to TREE_AGENT_HOSTS");
            Refusal::new(StatusCode::MISDIRECTED_REQUEST, Code::PermissionDenied, "HOST_UNKNOWN", text)
        }
    })?;
    if !config.origins.check(&parts.headers, &host) {
        let text =
            "pages of this origin may not call here; to allow it, add it to TREE_AGENT_ALLOWED_ORIGINS";
        let (http, code) = (StatusCode::FORBIDDEN, Code::PermissionDenied);
        return Err(Refusal::new(http, code, "ORIGIN_NOT_ALLOWED", text.to_owned()));
    }
    match protocol.timeout(&parts.headers)? {
        // A call that is late already is not begun.
        Some(Duration::ZERO) => Err(timed_out().into()),
        timeout => Ok(timeout),
    }
}

/// Wraps the routes of a port; see the module documentation.
#[derive(Clone, Debug)]
pub(super) struct RequestService<S> {
    inner: S,
    config: Arc<ServerConfig>,
}

impl<S> RequestService<S> {
    pub(super) const fn new(inner: S, config: Arc<ServerConfig>) -> Self {
        Self { inner, config }
    }

    /// Answers a request, which is `open` until its answer has ended.
    pub(super) async fn answer<B>(mut self, request: Request<B>, open: OpenRequest) -> Response<Body>
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<StdError>,
    {
        let id = request_id(request.headers());
        let method = method(request.uri().path());
        let span = tracing::info_span!("request", method, request_id = id.to_str().unwrap_or_default());
        set_remote_parent(&span, request.headers());
        let record = Record { method, started: Instant::now(), span: span.clone(), code: None, _open: open };
        let (parts, body) = request.into_parts();
        let protocol = Protocol::of(&parts);
        let (mut response, otherwise) = match admit(&self.config, &parts, &protocol) {
            Ok(timeout) => {
                let request = Request::from_parts(parts, received(body));
                let answer = async {
                    let Ok(()) = std::future::poll_fn(|cx| self.inner.poll_ready(cx)).await;
                    let Ok(response) = self.inner.call(request).await;
                    response
                }
                .instrument(span);
                let response = match timeout {
                    None => answer.await,
                    Some(timeout) => {
                        let answer = tokio::time::timeout(timeout, answer).await;
                        answer.unwrap_or_else(|_| protocol.refusal(timed_out()))
                    }
                };
                let code = if response.status().is_server_error() { Code::Internal } else { Code::Ok };
                (response, code)
            }
            Err(refusal) => {
                let code = refusal.status.code();
                (refusal.answer(&protocol), code)
            }
        };
        response.headers_mut().insert(REQUEST_ID, id);
        observe(response, record, otherwise)
    }
}

/// The body of a request as services read it.
fn received<B>(body: B) -> Body
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError>,
{
    if body.is_end_stream() {
        return Body::empty();
    }
    Body::new(TimeoutBody::new(BODY_PAUSE, body).map_err(|error| {
        if error.is::<TimeoutError>() {
            let text =
                format!("nothing of the request arrived for {} s; send it again", BODY_PAUSE.as_secs());
            return errors::status(Code::DeadlineExceeded, "BODY_DEADLINE", text);
        }
        let status = Status::from_error(error);
        match status.code() {
            // HTTP/2 says what went wrong. HTTP/1.1 does not: what has arrived is no body, or not all of one.
            Code::Unknown => {
                let text = format!("the request's body cannot be read: {}", status.message());
                errors::status(Code::InvalidArgument, "MALFORMED_REQUEST", text)
            }
            _ => status,
        }
    }))
}

fn request_id(headers: &HeaderMap) -> HeaderValue {
    match headers.get(REQUEST_ID) {
        Some(id) if id.len() <= 128 && id.to_str().is_ok() => id.clone(),
        _ => HeaderValue::try_from(format!("{:016x}", fastrand::u64(..)))
            .expect("hexadecimal digits are a header value"),
    }
}

/// The path of a request, or its beginning, as spans and the log show it for as long as the request is open.
fn method(path: &str) -> String {
    const BYTES: usize = 256;
    path[..path.floor_char_boundary(BYTES)].to_owned()
}

fn timed_out() -> Status {
    let text = "the call took longer than its deadline";
    errors::status(Code::DeadlineExceeded, "DEADLINE_EXCEEDED", text)
}

/// Makes `span` a child of the caller's span, when the request says which that is.
fn set_remote_parent(span: &Span, headers: &HeaderMap) {
    if !headers.contains_key("traceparent") {
        return;
    }
    let parent = opentelemetry::global::get_text_map_propagator(|p| p.extract(&Incoming(headers)));
    // Fails only when traces are not exported: then there is no parent to set.
    let _ = span.set_parent(parent);
}

struct Incoming<'a>(&'a HeaderMap);

impl Extractor for Incoming<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }
    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(http::HeaderName::as_str).collect()
    }
}

/// Reads the outcome from the headers, or from the trailers when the body ends. `otherwise` is the outcome of a
/// response that is not gRPC.
fn observe(response: Response<Body>, mut record: Record, otherwise: Code) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    if let Some(status) = Status::from_header_map(&parts.headers) {
        record.code = Some(status.code());
        add_error_info(&mut parts.headers, &status);
    } else if !is_grpc(&parts.headers) {
        record.code = Some(otherwise);
    }
    let body = if body.is_end_stream() { body } else { Body::new(Observed { body, record }) };
    Response::from_parts(parts, body)
}

/// Whether the content type is that of gRPC or gRPC-web.
fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|t| t.as_bytes().starts_with(b"application/grpc"))
}

/// Adds an `ErrorInfo` to an error without details.
fn add_error_info(headers: &mut HeaderMap, status: &Status) {
    if status.code() != Code::Ok && status.details().is_empty() {
        // Fails only if the message is not a valid header value; then the error stays as it was.
        let _ = protocol::explained(status).add_header(headers);
    }
}

/// One request. It writes its log line when it is dropped, however it ended.
struct Record {
    method: String,
    started: Instant,
    span: Span,
    /// `None` while unknown. If it still is at the end, the client dropped the stream or the connection was cut.
    code: Option<Code>,
    /// Keeps the connection from counting as idle.
    _open: OpenRequest,
}

impl Drop for Record {
    fn drop(&mut self) {
        let _in = self.span.enter();
        let code = self.code.unwrap_or(Code::Cancelled);
        let (method, ms) = (&self.method, self.started.elapsed().as_millis() as u64);
        match code {
            Code::Unknown | Code::Internal | Code::DataLoss => {
                tracing::warn!(method, code = name(code), ms, "request failed");
            }
            Code::Unauthenticated | Code::PermissionDenied | Code::ResourceExhausted => {
                tracing::info!(method, code = name(code), ms, "request refused");
            }
            // What a client did wrong it is told. What is down is said once, by whoever watches it.
            _ => tracing::debug!(method, code = name(code), ms, "request"),
        }
    }
}

struct Observed {
    body: Body,
    record: Record,
}

impl http_body::Body for Observed {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        // Work that a stream does while it is polled belongs to its request.
        let span = telemetry::exporting().then(|| self.record.span.clone());
        let in_span = span.as_ref().map(Span::enter);
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        drop(in_span);
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
