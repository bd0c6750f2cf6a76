//! The API as plain HTTP: `GET /v1/runs/{run_id}` and so on, as `google.api.http` annotates the methods.
//!
//! A request becomes a call of the [Connect protocol](crate::connect), and passes everything that such a call passes.
//! What its path and its query say is [`Bound`] to the message behind the guard. A stream is answered as server-sent
//! events. Errors have the form of Connect.

mod bound;
mod events;
pub(crate) mod openapi;
mod route;

use std::borrow::Cow;

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use percent_encoding::percent_decode_str;
use prost_reflect::MethodDescriptor;
use tonic::body::Body;
use tonic::{Code, Status};
use tree_agent_runtime::errors;
use tree_agent_runtime::protocol::connect_error;

pub(crate) use bound::Bound;
pub(crate) use events::{respond, with_events};
use route::{ROUTES, Route};

use crate::connect::malformed;

/// What all paths begin with.
const PREFIX: &str = "/v1/";
/// The header with which a client goes on with a stream of events.
const LAST_EVENT_ID: &str = "last-event-id";

/// True for a request to the API as plain HTTP. Preflights are answered elsewhere.
pub(crate) fn is_request<B>(request: &Request<B>) -> bool {
    request.uri().path().starts_with(PREFIX) && request.method() != Method::OPTIONS
}

/// Why a request is no call.
pub(crate) struct Refusal {
    status: Status,
    /// Another status than the error has in Connect.
    http: Option<StatusCode>,
    /// The verbs that the path answers.
    allowed: String,
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self { status, http: None, allowed: String::new() }
    }
}

impl Refusal {
    /// The answer to the request.
    pub(crate) fn answer(self) -> Response<Body> {
        let mut response = connect_error(&self.status);
        if let Some(http) = self.http {
            *response.status_mut() = http;
        }
        if let (Ok(allowed), Some(StatusCode::METHOD_NOT_ALLOWED)) = (self.allowed.try_into(), self.http) {
            response.headers_mut().insert(header::ALLOW, allowed);
        }
        response
    }
}

/// The call that a request is.
pub(crate) fn translated<B>(request: Request<B>) -> Result<Request<B>, Refusal> {
    let (mut parts, body) = request.into_parts();
    let route = route_of(&parts.method, parts.uri.path(), &parts.headers)?;
    let bound = bound_to(route, &parts.uri, &parts.headers)?;
    let path = format!("/{}/{}", route.method.parent_service().full_name(), route.method.name());
    let path: PathAndQuery = path.parse().expect("names of methods are paths");
    let mut uri = parts.uri.into_parts();
    uri.path_and_query = Some(path);
    parts.uri = Uri::from_parts(uri).expect("only the path is another");
    parts.method = Method::POST;
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    parts.extensions.insert(bound);
    Ok(Request::from_parts(parts, body))
}

/// The route of a request, or why there is none.
fn route_of(verb: &Method, path: &str, headers: &HeaderMap) -> Result<&'static Route, Refusal> {
    let at_path: Vec<_> = ROUTES.iter().filter(|route| route.values(path).is_some()).collect();
    // `/v1/runs/events` is no run with the id `events`.
    let most = at_path.iter().map(|route| route.literals()).max().unwrap_or_default();
    let mut found: Vec<_> = at_path.into_iter().filter(|route| route.literals() == most).collect();
    if found.is_empty() {
        let text = format!("there is no {path}; /openapi.json lists what there is");
        return Err(errors::status(Code::NotFound, "NO_SUCH_PATH", text).into());
    }
    let mut verbs: Vec<_> = found.iter().map(|route| route.verb.as_str()).collect();
    verbs.dedup();
    let allowed = verbs.join(", ");
    found.retain(|route| route.verb == verb);
    let wants_events = headers
        .get_all(header::ACCEPT)
        .iter()
        .any(|accept| accept.to_str().is_ok_and(|accept| accept.contains("text/event-stream")));
    // Where there is only one of the two, that is the answer.
    let is_wanted = |route: &&&Route| route.method.is_server_streaming() == wants_events;
    let Some(route) = found.iter().find(is_wanted).or(found.first()) else {
        let text = format!("{path} answers {allowed}");
        let status = errors::status(Code::Unimplemented, "NOT_ALLOWED", text);
        return Err(Refusal { status, http: Some(StatusCode::METHOD_NOT_ALLOWED), allowed });
    };
    let content_type = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    if route.takes_body && !content_type.is_empty() && !content_type.starts_with(b"application/json") {
        let text = "the body is JSON; send content-type application/json";
        let status = errors::status(Code::InvalidArgument, "CONTENT_TYPE", text);
        let http = Some(StatusCode::UNSUPPORTED_MEDIA_TYPE);
        return Err(Refusal { status, http, allowed });
    }
    Ok(route)
}

/// What path, query and headers say of the request's message.
fn bound_to(route: &Route, uri: &Uri, headers: &HeaderMap) -> Result<Bound, Status> {
    let mut bound = Bound { takes_body: route.takes_body, fields: Vec::new() };
    for pair in uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        bound.fields.push((decoded(name)?, decoded(value)?));
    }
    if let (Some(last), Some(field)) = (headers.get(LAST_EVENT_ID), position(&route.method)) {
        let last = last.to_str().map_err(|_| malformed(format!("{LAST_EVENT_ID} is no text")))?;
        if !last.is_empty() {
            bound.fields.retain(|(name, _)| !events::is_named(&route.method, name, field));
            bound.fields.push((field.to_owned(), last.to_owned()));
        }
    }
    for (name, value) in route.values(uri.path()).unwrap_or_default() {
        bound.fields.push((name.to_owned(), decoded(value)?));
    }
    Ok(bound)
}

/// The field of a stream's request that says where it goes on.
fn position(method: &MethodDescriptor) -> Option<&'static str> {
    let input = method.input();
    ["after_seq", "resume_token", "after_bytes"]
        .into_iter()
        .find(|name| method.is_server_streaming() && input.get_field_by_name(name).is_some())
}

fn decoded(text: &str) -> Result<String, Status> {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced)
        .decode_utf8()
        .map(Cow::into_owned)
        .map_err(|_| malformed(format!("{text:?} is not UTF-8 once it is decoded")))
}
