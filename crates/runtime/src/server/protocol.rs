//! The protocol of a request: what it says of its deadline, and the form that a refusal takes in it.

use std::time::Duration;

use axum::response::IntoResponse;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header, request};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use prost::Message;
use serde_json::{Value, json};
use tonic::body::Body;
use tonic::codegen::StdError;
use tonic::{Code, Status};
use tonic_types::pb as rpc;

use crate::errors;

/// The protocol of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Grpc,
    /// With the content type that was asked for.
    GrpcWeb(HeaderValue),
    /// Plain HTTP: calls with JSON.
    Connect,
    /// No call: a page of the UI, metrics and the like.
    Http,
}

impl Protocol {
    /// The protocol that a request says that it speaks.
    pub(crate) fn of(parts: &request::Parts) -> Self {
        // The API as plain HTTP becomes calls of Connect.
        if parts.uri.path().starts_with("/v1/") {
            return Self::Connect;
        }
        let Some(content_type) = parts.headers.get(header::CONTENT_TYPE) else { return Self::Http };
        let text = content_type.as_bytes();
        let essence = text.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
        let is = |known: &[u8]| essence.eq_ignore_ascii_case(known);
        match () {
            () if text.starts_with(b"application/grpc-web") => Self::GrpcWeb(content_type.clone()),
            () if text.starts_with(b"application/grpc") => Self::Grpc,
            () if parts.method == Method::POST && (is(b"application/json") || is(b"application/proto")) => {
                Self::Connect
            }
            () => Self::Http,
        }
    }

    /// The deadline of a call, if it has one. Connect has a header of its own; that of gRPC counts, too, because
    /// some proxies translate only the body.
    pub(crate) fn timeout(&self, headers: &HeaderMap) -> Result<Option<Duration>, Status> {
        match self {
            Self::Http => Ok(None),
            Self::Connect => match headers.get(CONNECT_TIMEOUT) {
                Some(millis) => connect_timeout(millis).map(Some),
                None => Ok(grpc_timeout(headers)),
            },
            Self::Grpc | Self::GrpcWeb(_) => Ok(grpc_timeout(headers)),
        }
    }

    /// The answer that refuses a request.
    pub(crate) fn refusal(&self, status: Status) -> Response<Body> {
        match self {
            Self::Grpc => status.into_http(),
            Self::GrpcWeb(content_type) => {
                let mut response = status.into_http();
                response.headers_mut().insert(header::CONTENT_TYPE, content_type.clone());
                response
            }
            Self::Connect => connect_error(&status),
            Self::Http => {
                let text = format!("{}\n", status.message());
                let plain = (http(status.code()), [(header::X_CONTENT_TYPE_OPTIONS, "nosniff")], text);
                plain.into_response().map(Body::new)
            }
        }
    }
}

/// All bytes of a request's body. An error if there are more than `limit`.
pub async fn read_body<B>(body: B, limit: usize) -> Result<Bytes, Status>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<StdError>,
{
    match Limited::new(body, limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let text =
                format!("the request is too long, the limit is {limit} bytes; shorten its longest text");
            Err(errors::status(Code::ResourceExhausted, "MESSAGE_TOO_LARGE", text))
        }
        Err(error) => Err(Status::from_error(error)),
    }
}

const CONNECT_TIMEOUT: &str = "connect-timeout-ms";

/// At most ten digits, as the protocol says.
fn connect_timeout(millis: &HeaderValue) -> Result<Duration, Status> {
    let text = millis.to_str().ok().filter(|text| text.bytes().all(|digit| digit.is_ascii_digit()));
    let millis = text.filter(|text| text.len() <= 10).and_then(|text| text.parse().ok());
    millis.map(Duration::from_millis).ok_or_else(|| {
        let text = format!("{CONNECT_TIMEOUT} must be a number of milliseconds with at most ten digits");
        errors::status(Code::InvalidArgument, "MALFORMED_REQUEST", text)
    })
}

/// The caller's deadline from `grpc-timeout`; `None` if there is none or if it is malformed.
fn grpc_timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let value: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(value * 3_600)),
        "M" => Some(Duration::from_secs(value * 60)),
        "S" => Some(Duration::from_secs(value)),
        "m" => Some(Duration::from_millis(value)),
        "u" => Some(Duration::from_micros(value)),
        "n" => Some(Duration::from_nanos(value)),
        _ => None,
    }
}

/// `status` with an `ErrorInfo` if it has no details, such as one for an unknown method or an oversized message.
pub(crate) fn explained(status: &Status) -> Status {
    if status.code() == Code::Ok || !status.details().is_empty() {
        return status.clone();
    }
    let message = match status.code() {
        Code::Unimplemented if status.message().is_empty() => "this server has no such method",
        _ => status.message(),
    };
    let mut explained = errors::status(status.code(), name(status.code()), message);
    *explained.metadata_mut() = status.metadata().clone();
    explained
}

/// The name of a status code, as gRPC spells it.
pub(super) const fn name(code: Code) -> &'static str {
    names(code).0
}

/// The answer to a call of the Connect protocol that failed.
pub fn connect_error(status: &Status) -> Response<Body> {
    let mut response = Response::new(Body::new(axum::body::Body::from(connect_json(status).to_string())));
    *response.status_mut() = http(status.code());
    *response.headers_mut() = status.metadata().clone().into_headers();
    // They were those of an answer without a body.
    for name in [header::CONTENT_LENGTH, header::TRAILER] {
        response.headers_mut().remove(name);
    }
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// An error as the Connect protocol writes it.
pub fn connect_json(status: &Status) -> Value {
    let status = &explained(status);
    let mut error = json!({ "code": names(status.code()).1, "message": status.message() });
    let details = rpc::Status::decode(status.details()).map(|status| status.details).unwrap_or_default();
    if !details.is_empty() {
        error["details"] = details.iter().map(|any| detail(&any.type_url, &any.value)).collect();
    }
    error
}

/// A detail as protobuf, and as JSON for people who read it.
fn detail(type_url: &str, value: &[u8]) -> Value {
    let name = type_url.rsplit('/').next().unwrap_or_default();
    let debug = match name {
        "google.rpc.ErrorInfo" => rpc::ErrorInfo::decode(value)
            .ok()
            .map(|info| json!({ "reason": info.reason, "domain": info.domain, "metadata": info.metadata })),
        "google.rpc.BadRequest" => rpc::BadRequest::decode(value).ok().map(|bad| {
            let violations = bad.field_violations.iter();
            let violations = violations.map(|v| json!({ "field": v.field, "description": v.description }));
            json!({ "fieldViolations": violations.collect::<Vec<_>>() })
        }),
        _ => None,
    };
    let mut detail = json!({ "type": name, "value": STANDARD_NO_PAD.encode(value) });
    if let Some(debug) = debug {
        detail["debug"] = debug;
    }
    detail
}

/// The names of a code in gRPC and in Connect, and its HTTP status.
const fn names(code: Code) -> (&'static str, &'static str, u16) {
    match code {
        Code::Ok => ("OK", "unknown", 500),
        Code::Cancelled => ("CANCELLED", "canceled", 499),
        Code::Unknown => ("UNKNOWN", "unknown", 500),
        Code::InvalidArgument => ("INVALID_ARGUMENT", "invalid_argument", 400),
        Code::DeadlineExceeded => ("DEADLINE_EXCEEDED", "deadline_exceeded", 504),
        Code::NotFound => ("NOT_FOUND", "not_found", 404),
        Code::AlreadyExists => ("ALREADY_EXISTS", "already_exists", 409),
        Code::PermissionDenied => ("PERMISSION_DENIED", "permission_denied", 403),
        Code::ResourceExhausted => ("RESOURCE_EXHAUSTED", "resource_exhausted", 429),
        Code::FailedPrecondition => ("FAILED_PRECONDITION", "failed_precondition", 400),
        Code::Aborted => ("ABORTED", "aborted", 409),
        Code::OutOfRange => ("OUT_OF_RANGE", "out_of_range", 400),
        Code::Unimplemented => ("UNIMPLEMENTED", "unimplemented", 501),
        Code::Internal => ("INTERNAL", "internal", 500),
        Code::Unavailable => ("UNAVAILABLE", "unavailable", 503),
        Code::DataLoss => ("DATA_LOSS", "data_loss", 500),
        Code::Unauthenticated => ("UNAUTHENTICATED", "unauthenticated", 401),
    }
}

/// The HTTP status of a code.
fn http(code: Code) -> StatusCode {
    StatusCode::from_u16(names(code).2).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_read_as_grpc_writes_it() {
        let read = |text: &'static str| {
            grpc_timeout(&HeaderMap::from_iter([(
                http::HeaderName::from_static("grpc-timeout"),
                HeaderValue::from_static(text),
            )]))
        };
        assert_eq!(read("2H"), Some(Duration::from_secs(7_200)));
        assert_eq!(read("3M"), Some(Duration::from_secs(180)));
        assert_eq!(read("99999999S"), Some(Duration::from_secs(99_999_999)));
        assert_eq!(read("5m"), Some(Duration::from_millis(5)));
        assert_eq!(read("5u"), Some(Duration::from_micros(5)));
        assert_eq!(read("5n"), Some(Duration::from_nanos(5)));
        for bad in ["", "S", "5", "5s", "-5S", "100000000S", "5 S"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
