//! Unary calls of the [Connect protocol](https://connectrpc.com/docs/protocol): plain HTTP POST with JSON or protobuf.
//!
//! A call becomes a gRPC call to the same services, and its answer is translated back. The layer stands behind the
//! guard, so that a body is read only for callers who may call. Streams are left to gRPC and gRPC-web.

use std::fmt::Display;
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use futures::FutureExt;
use futures::future::{BoxFuture, Either};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Version, header};
use http_body_util::{BodyExt, Full};
use prost::Message;
use prost_reflect::{DynamicMessage, MethodDescriptor};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::Service;
use tree_agent_runtime::errors;
use tree_agent_runtime::protocol::connect_error as error;

use crate::descriptors;

const JSON: &str = "application/json";
const PROTO: &str = "application/proto";
/// The package whose methods can be called.
const PACKAGE: &str = "treeagent.v1";
/// Bytes before each message of gRPC.
const PREFIX: usize = 5;

/// How the messages of a call are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Codec {
    Json,
    Proto,
}

impl Codec {
    fn of(headers: &HeaderMap) -> Option<Self> {
        let content_type = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        match () {
            () if essence.eq_ignore_ascii_case(JSON) => Some(Self::Json),
            () if essence.eq_ignore_ascii_case(PROTO) => Some(Self::Proto),
            () => None,
        }
    }
}

/// True for a call of this protocol, by its content type.
pub(crate) fn is_call(headers: &HeaderMap) -> bool {
    Codec::of(headers).is_some()
}

/// Translates calls of this protocol for services that speak gRPC. All others pass.
#[derive(Clone)]
pub(crate) struct Connect<S>(S);

impl<S> Connect<S> {
    pub(crate) const fn new(services: S) -> Self {
        Self(services)
    }
}

impl<S> Service<Request<Body>> for Connect<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<S::Future, BoxFuture<'static, Result<Response<Body>, S::Error>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Some(codec) = Codec::of(request.headers()) else { return Either::Left(self.0.call(request)) };
        // The one that is ready makes the call.
        let clone = self.0.clone();
        let services = std::mem::replace(&mut self.0, clone);
        Either::Right(call(services, codec, request).boxed())
    }
}

/// The answer to a call of this protocol that did not get as far as [`Connect`]: a refusal in gRPC's form.
pub(crate) fn refusal(response: Response<Body>) -> Response<Body> {
    let is_grpc =
        response.headers().get(header::CONTENT_TYPE).is_some_and(|t| t.as_bytes() == b"application/grpc");
    match Status::from_header_map(response.headers()) {
        Some(status) if is_grpc => error(&status),
        _ => response,
    }
}

async fn call<S>(mut services: S, codec: Codec, request: Request<Body>) -> Result<Response<Body>, S::Error>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    let (parts, body) = request.into_parts();
    let method = match method(&parts) {
        Ok(method) => method,
        Err(status) => return Ok(error(&status)),
    };
    // The server has limited the body, with an error that says so.
    let body = body.collect().await.map(|body| body.to_bytes());
    let message = match body.and_then(|bytes| to_proto(codec, &method, bytes)) {
        Ok(message) => message,
        Err(status) => return Ok(error(&status)),
    };
    let response = services.call(grpc_request(parts, message)).await?;
    Ok(answer(codec, &method, response).await.unwrap_or_else(|status| error(&blamed(status))))
}

/// The gRPC library calls a request that it cannot read an internal error. Messages that nest too deep get that far.
fn blamed(status: Status) -> Status {
    match status.message().starts_with("failed to decode Protobuf message") {
        true => malformed(format!("the body cannot be read: {}", status.message())),
        false => status,
    }
}

/// The method that is called, when this protocol can serve it.
fn method(parts: &Parts) -> Result<MethodDescriptor, Status> {
    let unimplemented = |text: String| errors::status(Code::Unimplemented, "UNIMPLEMENTED", text);
    let path = parts.uri.path();
    let found = path.strip_prefix('/').and_then(|path| path.split_once('/')).and_then(|(service, method)| {
        let service = descriptors::pool().get_service_by_name(service)?;
        // The pool has the services that only the cluster calls, too.
        let is_public = service.parent_file().package_name() == PACKAGE;
        is_public.then(|| service.methods().find(|found| found.name() == method)).flatten()
    });
    let method = found.ok_or_else(|| unimplemented(format!("there is no method {path}")))?;
    if method.is_server_streaming() || method.is_client_streaming() {
        let text = format!("{} is a stream; call it with gRPC or gRPC-web", method.name());
        return Err(unimplemented(text));
    }
    let header = |name| parts.headers.get(name).map(HeaderValue::as_bytes);
    if header("connect-protocol-version").is_some_and(|version| version != b"1") {
        return Err(errors::invalid_field("connect-protocol-version", "is not known; send 1"));
    }
    if header("content-encoding").is_some_and(|encoding| encoding != b"identity") {
        return Err(unimplemented(
            "compressed requests are not taken; send content-encoding identity".into(),
        ));
    }
    Ok(method)
}

fn malformed(text: String) -> Status {
    errors::status(Code::InvalidArgument, "MALFORMED_REQUEST", text)
}

fn to_proto(codec: Codec, method: &MethodDescriptor, bytes: Bytes) -> Result<Bytes, Status> {
    let not = |form, error: &dyn Display| {
        malformed(format!("the body is not the {form} of {}: {error}", method.input().name()))
    };
    if codec == Codec::Proto {
        // The gRPC library would call it an internal error.
        DynamicMessage::decode(method.input(), &*bytes).map_err(|error| not("protobuf", &error))?;
        return Ok(bytes);
    }
    // A request without any field may be left out.
    let json: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
    let mut reader = serde_json::Deserializer::from_slice(json);
    let message = DynamicMessage::deserialize(method.input(), &mut reader)
        .and_then(|message| reader.end().map(|()| message))
        .map_err(|error| not("JSON", &error))?;
    Ok(message.encode_to_vec().into())
}

fn grpc_request(mut parts: Parts, message: Bytes) -> Request<Body> {
    // What headers of gRPC say is not about this request. Its deadline is kept by the server.
    let grpc: Vec<HeaderName> = parts.headers.keys().filter(|name| is_grpc(name)).cloned().collect();
    for name in grpc {
        parts.headers.remove(name);
    }
    for name in [
        "content-length",
        "content-encoding",
        "accept-encoding",
        "connect-protocol-version",
        "connect-timeout-ms",
    ] {
        parts.headers.remove(name);
    }
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    parts.headers.insert(header::TE, HeaderValue::from_static("trailers"));
    parts.version = Version::HTTP_2;
    let mut framed = BytesMut::with_capacity(PREFIX + message.len());
    framed.put_u8(0);
    framed.put_u32(message.len() as u32);
    framed.put(message);
    Request::from_parts(parts, Body::new(Full::new(framed.freeze())))
}

fn is_grpc(name: &HeaderName) -> bool {
    name.as_str().starts_with("grpc-")
}

async fn answer(
    codec: Codec,
    method: &MethodDescriptor,
    response: Response<Body>,
) -> Result<Response<Body>, Status> {
    let (mut parts, body) = response.into_parts();
    if let Some(status) = Status::from_header_map(&parts.headers) {
        return Err(status);
    }
    let collected = body.collect().await?;
    let trailers = collected.trailers().cloned().unwrap_or_default();
    if let Some(status) = Status::from_header_map(&trailers).filter(|status| status.code() != Code::Ok) {
        return Err(status);
    }
    let bytes = collected.to_bytes();
    let message = bytes.get(PREFIX..).unwrap_or_default();
    let (content_type, body) = match codec {
        Codec::Proto => (PROTO, bytes.slice(bytes.len() - message.len()..)),
        Codec::Json => (JSON, to_json(method, message)?.into()),
    };
    // What this protocol has no use for.
    let grpc: Vec<HeaderName> = parts.headers.keys().filter(|name| is_grpc(name)).cloned().collect();
    for name in grpc.into_iter().chain([header::CONTENT_LENGTH, header::TRAILER]) {
        parts.headers.remove(name);
    }
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    for (name, value) in &trailers {
        let name = HeaderName::try_from(format!("trailer-{name}")).ok();
        if let Some(name) = name.filter(|name| !name.as_str().starts_with("trailer-grpc-")) {
            parts.headers.append(name, value.clone());
        }
    }
    parts.version = Version::default();
    Ok(Response::from_parts(parts, Body::new(Full::new(body))))
}

fn to_json(method: &MethodDescriptor, message: &[u8]) -> Result<Vec<u8>, Status> {
    let failed = |error: String| Status::internal(format!("the answer has no JSON form: {error}"));
    let message =
        DynamicMessage::decode(method.output(), message).map_err(|error| failed(error.to_string()))?;
    serde_json::to_vec(&message).map_err(|error| failed(error.to_string()))
}
