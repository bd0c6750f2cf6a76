//! Unary calls of the [Connect protocol](https://connectrpc.com/docs/protocol): plain HTTP POST with JSON or protobuf.
//!
//! A call becomes a gRPC call to the same services, and its answer is translated back. The layer stands behind the
//! guard, so that a body is read only for callers who may call. Streams are left to gRPC and gRPC-web.

use std::convert::Infallible;
use std::fmt::Display;
use std::sync::LazyLock;

use bytes::{BufMut, Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, Version, header};
use http_body_util::{BodyExt, Full};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, Kind, MessageDescriptor, MethodDescriptor};
use serde_json::Value;
use tonic::body::Body;
use tonic::service::Routes;
use tonic::{Code, Status};
use tower::ServiceExt;
use tree_agent_contract::{FieldError, limits};
use tree_agent_runtime::errors;
use tree_agent_runtime::protocol::{connect_error as error, read_body};

use crate::imports::{IMPORT_FILE, too_large};
use crate::rest::{self, Bound};

const JSON: &str = "application/json";
const PROTO: &str = "application/proto";
/// The package whose methods can be called; the descriptors have the services that only the cluster calls, too.
pub(crate) const PACKAGE: &str = "treeagent.v1.";
/// Bytes before each message of gRPC.
pub(crate) const PREFIX: usize = 5;

/// Every file of the API, as data.
pub(crate) static DESCRIPTORS: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(tree_agent_proto::DESCRIPTORS).expect("descriptors that are compiled in")
});

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

/// The answer to a call of this protocol that did not get as far as its method: a refusal in gRPC's form.
pub(crate) fn refusal(response: Response<Body>) -> Response<Body> {
    let is_grpc =
        response.headers().get(header::CONTENT_TYPE).is_some_and(|t| t.as_bytes() == b"application/grpc");
    match Status::from_header_map(response.headers()) {
        Some(status) if is_grpc => error(&status),
        _ => response,
    }
}

/// Translates a call of this protocol for `services`, which speak gRPC.
pub(crate) async fn call(services: Routes, request: Request<Body>) -> Result<Response<Body>, Infallible> {
    let (mut parts, body) = request.into_parts();
    let codec = Codec::of(&parts.headers).unwrap_or(Codec::Json);
    let bound = parts.extensions.remove::<Bound>();
    let is_rest = bound.is_some();
    let method = match method(&parts, is_rest) {
        Ok(method) => method,
        Err(status) => return Ok(error(&status)),
    };
    let body = read_body(body, request_bytes(&method)).await.map_err(|status| match status.code() {
        Code::ResourceExhausted if parts.uri.path() == IMPORT_FILE => too_large(),
        _ => status,
    });
    let message = body.and_then(|bytes| match bound {
        Some(bound) => Ok(bound.message(&method.input(), &bytes)?.encode_to_vec().into()),
        None => to_proto(codec, &method, bytes),
    });
    let message = match message {
        Ok(message) => message,
        Err(status) => return Ok(error(&status)),
    };
    let response = services.oneshot(grpc_request(parts, message)).await?;
    let answer = match is_rest {
        true if method.is_server_streaming() => rest::respond(&method, response),
        _ => answer(codec, &method, response, is_rest).await,
    };
    Ok(answer.unwrap_or_else(|status| error(&blamed(status))))
}

/// The gRPC library calls a request that it cannot read an internal error. Messages that nest too deep get that far.
fn blamed(status: Status) -> Status {
    match status.message().starts_with("failed to decode Protobuf message") {
        true => malformed(format!("the body cannot be read: {}", status.message())),
        false => status,
    }
}

/// The method that is called, when this protocol can serve it.
fn method(parts: &Parts, streams: bool) -> Result<MethodDescriptor, Status> {
    let unimplemented = |text: String| errors::status(Code::Unimplemented, "UNIMPLEMENTED", text);
    let path = parts.uri.path();
    let name = path.strip_prefix('/').filter(|name| name.starts_with(PACKAGE));
    let found = name.and_then(|name| name.split_once('/')).and_then(|(service, method)| {
        DESCRIPTORS.get_service_by_name(service)?.methods().find(|found| found.name() == method)
    });
    let method = found.ok_or_else(|| unimplemented(format!("there is no method {path}")))?;
    if method.is_server_streaming() && !streams {
        let text = format!("{} is a stream; call it with gRPC, gRPC-web or a GET of /v1", method.name());
        return Err(unimplemented(text));
    }
    if parts.headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        let text = "compressed requests are not taken; send content-encoding identity";
        return Err(unimplemented(text.into()));
    }
    Ok(method)
}

/// The maximum bytes of a request: those that the service takes.
fn request_bytes(method: &MethodDescriptor) -> usize {
    match method.parent_service().name() {
        "DocumentService" => limits::DOCUMENT_REQUEST_BYTES,
        "RunService" => limits::RUN_REQUEST_BYTES,
        _ => limits::REQUEST_BYTES,
    }
}

pub(crate) fn malformed(text: String) -> Status {
    errors::status(Code::InvalidArgument, "MALFORMED_REQUEST", text)
}

fn to_proto(codec: Codec, method: &MethodDescriptor, bytes: Bytes) -> Result<Bytes, Status> {
    if codec == Codec::Proto {
        return Ok(bytes);
    }
    // A request without any field may be left out.
    let json: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
    let mut reader = serde_json::Deserializer::from_slice(json);
    let message = DynamicMessage::deserialize(method.input(), &mut reader)
        .and_then(|message| reader.end().map(|()| message))
        .map_err(|error| match serde_json::from_slice(json) {
            Ok(value) => refused_json(&method.input(), &value, &error),
            Err(_) => not_json(&method.input(), &error),
        })?;
    Ok(message.encode_to_vec().into())
}

pub(crate) fn not_json(of: &MessageDescriptor, error: &dyn Display) -> Status {
    malformed(format!("the body is not the JSON of {}: {error}", of.name()))
}

/// Why `value` is not the JSON of a message. An enum value that does not exist is told with those that do.
pub(crate) fn refused_json(of: &MessageDescriptor, value: &Value, error: &dyn Display) -> Status {
    match unknown_name(of, value, "") {
        Some(refused) => errors::invalid_field(&refused.field, refused.message),
        None => not_json(of, error),
    }
}

/// The first name in `value`, a message at `path`, that its enum does not have.
fn unknown_name(of: &MessageDescriptor, value: &Value, path: &str) -> Option<FieldError> {
    value.as_object()?.iter().find_map(|(name, value)| {
        let field = of.get_field_by_json_name(name).or_else(|| of.get_field_by_name(name))?;
        let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        values.iter().enumerate().find_map(|(i, value)| {
            let at = if field.is_list() { format!("[{i}]") } else { String::new() };
            match field.kind() {
                Kind::Message(inner) => unknown_name(&inner, value, &format!("{path}{}{at}.", field.name())),
                Kind::Enum(names) => {
                    let name = value.as_str().filter(|name| names.get_value_by_name(name).is_none())?;
                    let valid: Vec<_> = names.values().skip(1).map(|value| value.name().to_owned()).collect();
                    let text = format!("is {name:?}; expected {}", valid.join(", "));
                    Some(FieldError::new(format!("{path}{}{at}", field.name()), text))
                }
                _ => None,
            }
        })
    })
}

/// The call as gRPC, with what the layers before have said of it. What its headers say is not about the gRPC call.
fn grpc_request(parts: Parts, message: Bytes) -> Request<Body> {
    let mut framed = BytesMut::with_capacity(PREFIX + message.len());
    framed.put_u8(0);
    framed.put_u32(message.len() as u32);
    framed.put(message);
    let mut request = Request::new(Body::new(Full::new(framed.freeze())));
    *request.method_mut() = parts.method;
    *request.uri_mut() = parts.uri;
    *request.version_mut() = Version::HTTP_2;
    *request.extensions_mut() = parts.extensions;
    let headers = [(header::CONTENT_TYPE, "application/grpc"), (header::TE, "trailers")];
    request.headers_mut().extend(headers.map(|(name, value)| (name, HeaderValue::from_static(value))));
    request
}

async fn answer(
    codec: Codec,
    method: &MethodDescriptor,
    response: Response<Body>,
    is_rest: bool,
) -> Result<Response<Body>, Status> {
    let (parts, body) = response.into_parts();
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
        Codec::Json => (JSON, to_json(method, message, is_rest)?.into()),
    };
    let mut response = Response::new(Body::new(Full::new(body)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    Ok(response)
}

fn to_json(method: &MethodDescriptor, message: &[u8], is_rest: bool) -> Result<Vec<u8>, Status> {
    let failed = |error: String| Status::internal(format!("the answer has no JSON form: {error}"));
    let message =
        DynamicMessage::decode(method.output(), message).map_err(|error| failed(error.to_string()))?;
    match is_rest {
        true => Ok(rest::with_events(&message)?.to_string().into_bytes()),
        false => serde_json::to_vec(&message).map_err(|error| failed(error.to_string())),
    }
}
