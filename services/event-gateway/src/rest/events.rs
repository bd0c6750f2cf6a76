//! Events as JSON: server-sent events of a stream, and pages of a log.
//!
//! An event of a log has the form of docs/events.md, as everywhere but in protobuf. It has no name on the stream, so
//! that the plainest client hears it. The other messages of a stream are named after their fields (`caught_up`,
//! `heartbeat`, `resume_hint`); `end` says that nothing follows, and `error` why. The id of each is where to go on.

use bytes::{Buf, Bytes, BytesMut};
use futures::{Stream, StreamExt, stream};
use http::{HeaderValue, Response, header};
use http_body::Frame;
use http_body_util::{BodyStream, StreamBody};
use prost::Message;
use prost_reflect::{DynamicMessage, Kind, MethodDescriptor, Value as Field};
use serde_json::{Value, json};
use tonic::body::Body;
use tonic::{Code, Status};
use tree_agent_contract::Event;
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_runtime::protocol::connect_json;

use super::openapi::EVENT;
use crate::connect::PREFIX;

/// Whether `name` names the field of a request, in either spelling.
pub(super) fn is_named(method: &MethodDescriptor, name: &str, field: &str) -> bool {
    method
        .input()
        .get_field_by_name(field)
        .is_some_and(|field| [field.name(), field.json_name()].contains(&name))
}

/// The answer of a stream as server-sent events.
pub(crate) fn respond(method: &MethodDescriptor, response: Response<Body>) -> Result<Response<Body>, Status> {
    let (parts, body) = response.into_parts();
    if let Some(status) = Status::from_header_map(&parts.headers).filter(|status| status.code() != Code::Ok) {
        return Err(status);
    }
    let frames = written(method.clone(), body).map(|bytes| Ok::<_, Status>(Frame::data(bytes)));
    let mut response = Response::new(Body::new(StreamBody::new(frames)));
    for (name, value) in [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        // Proxies of nginx's kind would keep the events until there are many.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

/// What is left to write.
struct Writer {
    method: MethodDescriptor,
    body: BodyStream<Body>,
    /// Messages with their prefixes, the last one perhaps not whole.
    read: BytesMut,
    /// The stream said that it is to be opened again.
    goes_on: bool,
    ended: bool,
}

fn written(method: MethodDescriptor, body: Body) -> impl Stream<Item = Bytes> + Send {
    let writer =
        Writer { method, body: BodyStream::new(body), read: BytesMut::new(), goes_on: false, ended: false };
    stream::unfold(writer, |mut writer| async {
        let bytes = writer.next().await?;
        Some((bytes, writer))
    })
}

impl Writer {
    /// The next events; none at the end.
    async fn next(&mut self) -> Option<Bytes> {
        while !self.ended {
            let text = match self.body.next().await {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        self.read.extend_from_slice(&data);
                        self.whole().unwrap_or_else(|status| self.last(&status))
                    }
                    Err(frame) => {
                        let status = frame.trailers_ref().and_then(Status::from_header_map);
                        self.last(&status.unwrap_or_else(|| Status::ok("")))
                    }
                },
                Some(Err(status)) => self.last(&status),
                None => self.last(&Status::ok("")),
            };
            if !text.is_empty() {
                return Some(text.into());
            }
        }
        None
    }

    /// The events of all messages that are whole.
    fn whole(&mut self) -> Result<String, Status> {
        let mut text = String::new();
        while let Some(head) = self.read.first_chunk::<PREFIX>() {
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            if self.read.len() < PREFIX + length {
                break;
            }
            self.read.advance(PREFIX);
            let message = self.read.split_to(length).freeze();
            text += &self.event(&message)?;
        }
        Ok(text)
    }

    /// One message.
    fn event(&mut self, message: &Bytes) -> Result<String, Status> {
        let output = self.method.output();
        let message = DynamicMessage::decode(output, message.clone()).map_err(|error| broken(&error))?;
        let Some((field, value)) = message.fields().next() else { return Ok(String::new()) };
        let Some(inner) = value.as_message() else { return Ok(String::new()) };
        self.goes_on = field.name() == "resume_hint";
        let id = position(inner).map(|id| format!("id: {id}\n")).unwrap_or_default();
        let (name, data) = match field.name() {
            "event" => (String::new(), as_documented(inner)?),
            name => {
                (format!("event: {name}\n"), serde_json::to_value(inner).map_err(|error| broken(&error))?)
            }
        };
        Ok(format!("{id}{name}data: {data}\n\n"))
    }

    /// The last event.
    fn last(&mut self, status: &Status) -> String {
        self.ended = true;
        match status.code() {
            Code::Ok if self.goes_on => String::new(),
            Code::Ok => "event: end\ndata: {}\n\n".into(),
            _ => format!("event: error\ndata: {}\n\n", connect_json(status)),
        }
    }
}

/// Where a stream goes on behind a message.
fn position(message: &DynamicMessage) -> Option<String> {
    let number = |name: &str| message.get_field_by_name(name).and_then(|value| value.as_u64());
    if let (Some(offset), Some(Field::String(text))) =
        (number("offset"), message.get_field_by_name("text").as_deref())
    {
        return Some((offset + text.len() as u64).to_string());
    }
    let token = message.get_field_by_name("resume_token");
    let token = token.and_then(|token| token.as_str().filter(|token| !token.is_empty()).map(str::to_owned));
    ["seq", "after_seq", "end", "after_bytes"].into_iter().find_map(number).map(|n| n.to_string()).or(token)
}

fn broken(error: &dyn std::fmt::Display) -> Status {
    Status::internal(format!("the answer has no JSON form: {error}"))
}

/// An event of a log in the form of docs/events.md.
fn as_documented(event: &DynamicMessage) -> Result<Value, Status> {
    let event = pb::Event::decode(&*event.encode_to_vec()).map_err(|error| broken(&error))?;
    let event = Event::from_wire(event).map_err(|error| broken(&error))?;
    serde_json::to_value(&event).map_err(|error| broken(&error))
}

/// An answer as JSON, in which each event of a log has the form of docs/events.md.
pub(crate) fn with_events(answer: &DynamicMessage) -> Result<Value, Status> {
    let mut value = serde_json::to_value(answer).map_err(|error| broken(&error))?;
    let is_event = |kind: Kind| kind.as_message().is_some_and(|kind| kind.full_name() == EVENT);
    let events = answer.fields().find(|(field, _)| field.is_list() && is_event(field.kind()));
    if let Some((field, Field::List(events))) = events {
        let events: Result<Vec<_>, _> =
            events.iter().filter_map(Field::as_message).map(as_documented).collect();
        value[field.json_name()] = json!(events?);
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::connect::DESCRIPTORS;

    /// All histories that are recorded, which have every type of event. They are lines of `export`.
    fn recorded(folder: &Path) -> Vec<Value> {
        let mut lines = Vec::new();
        for entry in std::fs::read_dir(folder).expect("a folder of the project") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                lines.extend(recorded(&path));
            } else if path.extension().is_some_and(|ending| ending == "jsonl") {
                let text = std::fs::read_to_string(&path).expect("a text");
                lines.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")));
            }
        }
        lines
    }

    #[test]
    fn every_type_of_event_has_the_form_of_an_export() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/engine/tests/histories");
        let mut seen = std::collections::BTreeSet::new();
        for line in recorded(&folder) {
            let Ok(event) = serde_json::from_value::<Event>(line.clone()) else { continue };
            let expected = serde_json::to_value(&event).expect("JSON");
            let page = pb::ListEventsResponse { events: vec![event.to_wire()], ..Default::default() };
            let of = DESCRIPTORS.get_message_by_name("treeagent.v1.ListEventsResponse").expect("a message");
            let page = DynamicMessage::decode(of, &*page.encode_to_vec()).expect("a page");
            assert_eq!(with_events(&page).expect("JSON")["events"], json!([expected]), "{line}");
            seen.insert(event.body.event_type().to_owned());
        }
        assert_eq!(seen.len(), tree_agent_contract::EventBody::TYPES.len());
    }
}
