//! The layer around every request. It refuses foreign hosts and origins, limits the body, keeps the caller's deadline,
//! adds a span, a request id and one log line, and adds error details to errors of the gRPC library.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, header, request};
use http_body::{Body as _, Frame, SizeHint};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::body::Body;
use tonic::codegen::{Bytes, StdError};
use tonic::{Code, Status};
use tower::Service;
use tracing::{Instrument, Span};
use tree_agent_contract::text::prefix;

use crate::protocol::{self, Protocol, name};
use crate::server::answers::{Answer, Answers, OnDemand, Static, longer};
use crate::server::bodies::{Bodies, Reservation};
use crate::server::connection::OpenRequest;
use crate::server::hosts::HostError;
use crate::server::public::{self, Place, PublicRequests, is_public};
use crate::server::remainder::ReadToEnd;
use crate::server::shared_limit::SharedLimit;
use crate::server::unread::{Reader, Waiting};
use crate::server::{Hosts, Origins};
use crate::{errors, telemetry};

/// Metadata key of the request id. A client may choose it; the response repeats it.
pub const REQUEST_ID: &str = "x-request-id";

/// Maximum header fields of a request, over HTTP/2 as over HTTP/1.1. HTTP/2 encodes a repeated field in one byte, and
/// it takes a hundred in memory.
const HEADERS: usize = 100;

/// Bytes of a foreign host that its refusal repeats. Refusals need no token, and wait until their clients read.
const HOST_BYTES: usize = 128;

/// Which requests a port admits.
#[derive(Debug)]
pub(crate) struct RequestPolicy {
    pub(crate) hosts: Hosts,
    pub(crate) origins: Origins,
    pub(crate) bodies: Bodies,
    pub(crate) answers: Answers,
    /// The answers that their clients do not read.
    pub(crate) unread: SharedLimit,
    /// The open requests.
    pub(crate) requests: SharedLimit,
    pub(crate) public: PublicRequests,
    /// The maximum bytes of a message, by the path of the method.
    pub(crate) message_bytes: fn(&str) -> usize,
    /// Whether the body of a request counts among the open requests once its answer has begun.
    pub(crate) counts_bodies: bool,
}

/// Why a request is not admitted.
#[derive(Debug)]
enum Refusal {
    Host(HostError),
    Origin,
    /// It has too many header fields.
    Headers,
}

/// A request that may go on.
struct Admitted {
    body: Body,
    /// The share of the budget of bodies, until the answer begins.
    reservation: Option<Arc<Reservation>>,
    /// The place among the public requests, until the answer ends.
    place: Option<Place>,
}

impl RequestPolicy {
    /// Checks a request and limits its body. `Err` is the answer to a request that may not go on.
    fn admit<B>(&self, parts: &request::Parts, protocol: &Protocol, body: B) -> Result<Admitted, Box<Refused>>
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<StdError>,
    {
        if parts.headers.len() > HEADERS {
            return Err(Refusal::Headers.answer(protocol));
        }
        let host = self.hosts.check(parts).map_err(|e| Refusal::Host(e).answer(protocol))?;
        if !self.origins.check(&parts.headers, &host) {
            return Err(Refusal::Origin.answer(protocol));
        }
        let path = parts.uri.path();
        let place = is_public(path).then(|| self.public.enter());
        if body.is_end_stream() {
            return Ok(Admitted { body: Body::empty(), reservation: None, place });
        }
        if let Some(place) = place {
            let body = place.receive(self.bodies.receive_public(&parts.headers, body));
            return Ok(Admitted { body, reservation: None, place: Some(place) });
        }
        let message_bytes = (self.message_bytes)(path);
        match self.bodies.receive(parts, message_bytes, body) {
            Ok((body, reservation)) => {
                Ok(Admitted { body: Body::new(body), reservation: Some(reservation), place: None })
            }
            Err(status) => Err(Refused::of(protocol, status)),
        }
    }
}

impl Refusal {
    /// The response in the form of the protocol. The HTTP status is the same in all of them.
    fn answer(self, protocol: &Protocol) -> Box<Refused> {
        let (http, code, reason, text) = match self {
            Self::Host(HostError::Malformed) => {
                let text = "the request does not name one host".to_owned();
                (StatusCode::BAD_REQUEST, Code::PermissionDenied, "HOST_MALFORMED", text)
            }
            Self::Host(HostError::Unknown(host)) => {
                let host = prefix(&host, HOST_BYTES);
                let text =
                    format!("this server is not called {host}; if it should be, add it to TREE_AGENT_HOSTS");
                (StatusCode::MISDIRECTED_REQUEST, Code::PermissionDenied, "HOST_UNKNOWN", text)
            }
            Self::Origin => {
                let text = "pages of this origin may not call here; to allow it, add it to TREE_AGENT_ALLOWED_ORIGINS";
                (StatusCode::FORBIDDEN, Code::PermissionDenied, "ORIGIN_NOT_ALLOWED", text.to_owned())
            }
            Self::Headers => {
                let text = format!("the request has more than {HEADERS} header fields; send fewer");
                let http = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
                (http, Code::ResourceExhausted, "TOO_MANY_HEADERS", text)
            }
        };
        let mut refused = Refused::of(protocol, errors::status(code, reason, text));
        *refused.response.status_mut() = http;
        refused
    }
}

/// The answer to a request that is not admitted.
struct Refused {
    response: Response<Body>,
    code: Code,
}

impl Refused {
    fn of(protocol: &Protocol, status: Status) -> Box<Self> {
        let code = status.code();
        Box::new(Self { response: protocol.refusal(status), code })
    }
}

/// Wraps the routes of a port for one connection; see the module documentation.
#[derive(Clone, Debug)]
pub(crate) struct RequestService<S> {
    inner: S,
    policy: Arc<RequestPolicy>,
    reader: Reader,
}

impl<S> RequestService<S> {
    pub(crate) const fn new(inner: S, policy: Arc<RequestPolicy>, reader: Reader) -> Self {
        Self { inner, policy, reader }
    }

    /// Answers a request, which is `open` until its answer has ended. The error says that it was not begun.
    pub(crate) async fn answer<B>(
        mut self,
        request: Request<B>,
        open: OpenRequest,
    ) -> Result<Response<Body>, h2::Error>
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<StdError>,
    {
        if open.is_over() {
            // The stream is reset with it, so the client may try again. Over HTTP/1.1 the connection ends.
            return Err(h2::Reason::REFUSED_STREAM.into());
        }
        // The HTTP library hands out no body of such a request, and HTTP/2 would keep what comes behind its head.
        if request.method() == Method::CONNECT && request.version() == Version::HTTP_2 {
            return Err(h2::Reason::CONNECT_ERROR.into());
        }
        let id = request_id(request.headers());
        let method = method(request.uri().path());
        let span = tracing::info_span!("request", method, request_id = id.to_str().unwrap_or_default());
        telemetry::set_remote_parent(&span, request.headers());
        let (parts, body) = request.into_parts();
        let protocol = Protocol::of(&parts);
        let is_http2 = parts.version == Version::HTTP_2;
        let ended = (is_http2 && !body.is_end_stream()).then(CancellationToken::new);
        let body = ReadToEnd::new(body, ended.clone());
        let mut record = Record {
            method,
            started: Instant::now(),
            span: span.clone(),
            code: None,
            open,
            _ended: ended.map(CancellationToken::drop_guard),
        };
        let client = Client { answers: self.policy.answers.clone(), reader: self.reader.clone(), is_http2 };
        let admitted = self.policy.admit(&parts, &protocol, body).and_then(|admitted| {
            let timeout = protocol.timeout(&parts.headers);
            // A call that is late already is not begun.
            let timeout =
                timeout.and_then(|t| if t == Some(Duration::ZERO) { Err(timed_out()) } else { Ok(t) });
            Ok((admitted, timeout.map_err(|status| Refused::of(&protocol, status))?))
        });
        let (Admitted { body, reservation, place }, timeout) = match admitted {
            Ok(admitted) => admitted,
            Err(refused) => {
                let Refused { mut response, code } = *refused;
                response.headers_mut().insert(REQUEST_ID, id);
                return Ok(observe(response, record, code, None, &client).await);
            }
        };
        let answer = async {
            // Probes do not wait. Their number is limited.
            if place.is_none() {
                client.reader.room().await;
            }
            let Ok(()) = std::future::poll_fn(|cx| self.inner.poll_ready(cx)).await;
            let Ok(response) = self.inner.call(Request::from_parts(parts, body)).await;
            response
        }
        .instrument(span);
        let answer = async {
            match timeout {
                None => answer.await,
                Some(timeout) => {
                    let answer = tokio::time::timeout(timeout, answer).await;
                    answer.unwrap_or_else(|_| protocol.refusal(timed_out()))
                }
            }
        };
        let mut response = match &place {
            None => answer.await,
            Some(place) => tokio::select! {
                biased;
                // The service is told as well, but may say it in another way.
                () = place.evicted() => protocol.refusal(public::evicted()),
                answer = answer => answer,
            },
        };
        if let Some(refusal) = reservation.as_ref().and_then(|reservation| reservation.refusal()) {
            protocol.restate(&mut response, refusal);
        }
        if self.policy.counts_bodies {
            record.open.keeps(reservation.as_ref().map_or(0, |reservation| reservation.received()));
        }
        drop(reservation);
        response.headers_mut().insert(REQUEST_ID, id);
        let code = if response.status().is_server_error() { Code::Internal } else { Code::Ok };
        Ok(observe(response, record, code, place, &client).await)
    }
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

/// How an answer goes to its client.
struct Client {
    answers: Answers,
    reader: Reader,
    is_http2: bool,
}

/// Reads the outcome from the headers, or from the trailers when the body ends. `otherwise` is the outcome of a
/// response that is not gRPC. The body ends early if its `place` among the public requests goes to another.
async fn observe(
    response: Response<Body>,
    mut record: Record,
    otherwise: Code,
    place: Option<Place>,
    client: &Client,
) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    if let Some(status) = Status::from_header_map(&parts.headers) {
        record.code = Some(status.code());
        add_error_info(&mut parts.headers, &status);
    } else if !is_grpc(&parts.headers) {
        record.code = Some(otherwise);
    }
    if body.is_end_stream() {
        if client.is_http2 {
            client.reader.head();
        }
        return Response::from_parts(parts, body);
    }
    let body = match place {
        Some(place) => place.answer(body),
        None => body,
    };
    let is_on_demand = parts.extensions.get::<OnDemand>().is_some();
    let body = match () {
        () if parts.extensions.get::<Static>().is_some() => client.answers.pass_uncounted(body),
        () if is_on_demand => client.answers.pass(body),
        () => client.answers.send(body).instrument(record.span.clone()).await,
    };
    let (waiting, divides) = (client.reader.answer(), client.is_http2 && !is_on_demand);
    Response::from_parts(parts, Body::new(Observed { body, record, waiting, last: None, divides }))
}

/// Whether the content type is that of gRPC or gRPC-web.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
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
    open: OpenRequest,
    /// What is left of the request's body is read until then.
    _ended: Option<DropGuard>,
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
    body: Answer,
    record: Record,
    waiting: Waiting,
    /// The last byte of the part before. HTTP/2 takes a whole part when its client has room for one byte of it, and
    /// then asks for the next part, or is done. It takes this byte when the client has room behind the part.
    last: Option<Bytes>,
    /// Parts are divided so. Not over HTTP/1.1, which keeps its parts until they are sent, nor if the body watches by
    /// itself whether its client reads.
    divides: bool,
}

impl http_body::Body for Observed {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        self.waiting.asked();
        if let Some(last) = self.last.take() {
            self.waiting.handed_out();
            return Poll::Ready(Some(Ok(Frame::data(last))));
        }
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
        if frame.is_some() {
            self.waiting.handed_out();
        }
        let divides = |bytes: &Bytes| self.divides && bytes.len() > 1;
        Poll::Ready(match frame {
            Some(Ok(frame)) if frame.data_ref().is_some_and(divides) => {
                Some(Ok(frame.map_data(|mut bytes| {
                    self.last = Some(bytes.split_off(bytes.len() - 1));
                    bytes
                })))
            }
            other => other,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.last.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let last = self.last.as_ref().map_or(0, Bytes::len) as u64;
        longer(&self.body.size_hint(), last)
    }
}
