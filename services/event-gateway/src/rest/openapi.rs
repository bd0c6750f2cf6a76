//! The description of the API as plain HTTP, in [OpenAPI 3.1](https://spec.openapis.org/oas/v3.1.1.html), from the
//! descriptors and their comments. Only events are described by hand: they have the form of docs/events.md.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::LazyLock;

use prost_reflect::{EnumDescriptor, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};
use tree_agent_contract::EventBody;

use super::LAST_EVENT_ID;
use super::route::{ROUTES, Route};
use crate::connect::DESCRIPTORS;

/// The document, as it is served.
pub(crate) static DOCUMENT: LazyLock<String> = LazyLock::new(|| Api::default().document().to_string());

const WELL_KNOWN: &str = "google.protobuf.";
pub(super) const EVENT: &str = "treeagent.v1.Event";

/// Objects in a query are named by the fields within them; deeper ones only a body can hold.
const QUERY_DEPTH: usize = 2;

/// The document in the making.
#[derive(Default)]
struct Api {
    /// Comments by the file and the path of what they are about.
    comments: HashMap<(String, Vec<i32>), String>,
    schemas: BTreeMap<String, Value>,
    /// Messages whose schemas are not made yet.
    wanted: BTreeSet<String>,
}

impl Api {
    fn document(mut self) -> Value {
        for file in DESCRIPTORS.files() {
            let info = file.file_descriptor_proto().source_code_info.clone().unwrap_or_default();
            let comments = info.location.into_iter().filter_map(|location| {
                let text = location.leading_comments?.split_whitespace().collect::<Vec<_>>().join(" ");
                Some(((file.name().to_owned(), location.path), text))
            });
            self.comments.extend(comments);
        }
        let mut paths = Map::new();
        for route in ROUTES.iter() {
            let verb = route.verb.as_str().to_ascii_lowercase();
            let operation = self.operation(route);
            let at_path = &mut paths.entry(path_of(route)).or_insert_with(|| json!({}))[&verb];
            match at_path.is_null() {
                true => *at_path = operation,
                false => join(at_path, operation, !route.method.is_server_streaming()),
            }
        }
        while let Some(name) = self.wanted.pop_first() {
            let message = DESCRIPTORS.get_message_by_name(&name).expect("it is named by another descriptor");
            let schema = self.message(&message);
            self.schemas.insert(message.name().to_owned(), schema);
        }
        self.schemas.insert("Event".into(), event());
        self.schemas.insert("Error".into(), error());
        json!({
            "openapi": "3.1.0",
            "info": {
                "title": "tree-agent",
                "version": env!("CARGO_PKG_VERSION"),
                "description": "Agents that decompose work. Messages are those of the protobuf package \
                    treeagent.v1 in the proto3 JSON mapping: names in camel case, 64-bit numbers as strings.",
                "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            },
            "servers": [{ "url": "/" }],
            "security": [{ "token": [] }, {}],
            "paths": paths,
            "components": {
                "schemas": self.schemas,
                "securitySchemes": { "token": { "type": "http", "scheme": "bearer", "bearerFormat": "JWT" } },
            },
        })
    }

    fn operation(&mut self, route: &Route) -> Value {
        let method = &route.method;
        let is_stream = method.is_server_streaming();
        let (input, output) = (method.input(), method.output());
        let mut parameters: Vec<_> =
            route.fields().map(|name| self.parameter(&input, name, "path")).collect();
        let mut operation = json!({
            "operationId": method.name(),
            "tags": [method.parent_service().name()],
            "description": self.comment(&method.parent_file(), method.path()),
        });
        if route.takes_body {
            let schema = self.reference(&input);
            operation["requestBody"] =
                json!({ "required": true, "content": { "application/json": { "schema": schema } } });
        } else {
            let in_path: Vec<_> = route.fields().collect();
            for path in query_fields(&input, QUERY_DEPTH) {
                if !in_path.contains(&&*path) {
                    parameters.push(self.parameter(&input, &path, "query"));
                }
            }
        }
        if is_stream {
            parameters.push(json!({
                "name": LAST_EVENT_ID, "in": "header", "schema": { "type": "string" },
                "description": "The id of the last event that the client has: the stream goes on behind it.",
            }));
        }
        operation["parameters"] = json!(parameters);
        let content = match is_stream {
            true => json!({ "text/event-stream": { "schema": { "type": "string" } } }),
            false => json!({ "application/json": { "schema": self.reference(&output) } }),
        };
        let refused = json!({ "$ref": "#/components/schemas/Error" });
        operation["responses"] = json!({
            "200": { "description": self.comment(&output.parent_file(), output.path()), "content": content },
            "default": { "description": "Refused or failed.", "content": { "application/json": { "schema": refused } } },
        });
        operation
    }

    /// The parameter for the field at `path`, such as `context.project_ids`.
    fn parameter(&mut self, of: &MessageDescriptor, path: &str, place: &str) -> Value {
        let mut message = of.clone();
        let mut names = Vec::new();
        let mut last = None;
        for name in path.split('.') {
            let field = message.get_field_by_name(name).expect("the path was found in the message");
            names.push(field.json_name().to_owned());
            if let Kind::Message(inner) = field.kind() {
                message = inner;
            }
            last = Some(field);
        }
        let field = last.expect("a path has a part");
        let name = if place == "path" { last_part(path).to_owned() } else { names.join(".") };
        let mut schema = self.field(&field);
        if place == "path"
            && let Some(schema) = schema.as_object_mut()
        {
            schema.insert("minLength".into(), json!(1));
        }
        let description = self.comment(&field.parent_message().parent_file(), field.path());
        json!({ "name": name, "in": place, "required": place == "path", "schema": schema, "description": description })
    }

    fn message(&mut self, message: &MessageDescriptor) -> Value {
        let file = message.parent_file();
        let fields = message.fields().map(|field| {
            let mut schema = self.field(&field);
            let comment = self.comment(&file, field.path());
            if let (Some(schema), false) = (schema.as_object_mut(), comment.is_empty()) {
                schema.insert("description".into(), comment.into());
            }
            (field.json_name().to_owned(), schema)
        });
        let properties: Map<_, _> = fields.collect();
        json!({ "type": "object", "description": self.comment(&file, message.path()), "properties": properties })
    }

    fn field(&mut self, field: &FieldDescriptor) -> Value {
        if field.is_map() {
            let entry = field.kind().as_message().map(|entry| self.field(&entry.map_entry_value_field()));
            return json!({ "type": "object", "additionalProperties": entry });
        }
        let mut one = self.kind(&field.kind());
        // The id of a project may be its name.
        if let ("run_id" | "node_id" | "document_id" | "artifact_id", Some(one)) =
            (field.name(), one.as_object_mut())
        {
            one.insert("format".into(), json!("uuid"));
        }
        if field.is_list() { json!({ "type": "array", "items": one }) } else { one }
    }

    fn kind(&mut self, kind: &Kind) -> Value {
        match kind {
            Kind::Bool => json!({ "type": "boolean" }),
            Kind::String => json!({ "type": "string" }),
            Kind::Bytes => json!({ "type": "string", "contentEncoding": "base64" }),
            Kind::Float | Kind::Double => json!({ "type": "number" }),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => json!({ "type": "integer", "format": "int32" }),
            Kind::Uint32 | Kind::Fixed32 => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
                json!({ "type": "string", "pattern": "^-?[0-9]{1,19}$" })
            }
            Kind::Uint64 | Kind::Fixed64 => json!({ "type": "string", "pattern": "^[0-9]{1,19}$" }),
            Kind::Enum(names) => names_of(names),
            Kind::Message(message) => self.reference(message),
        }
    }

    /// A message as a part of another.
    fn reference(&mut self, message: &MessageDescriptor) -> Value {
        let name = message.full_name();
        if let Some(known) = name.strip_prefix(WELL_KNOWN) {
            return match known {
                "Timestamp" => json!({ "type": "string", "format": "date-time" }),
                "Duration" => json!({ "type": "string", "pattern": "^-?[0-9]+(\\.[0-9]{1,9})?s$" }),
                "FieldMask" => json!({ "type": "string" }),
                "ListValue" => json!({ "type": "array" }),
                "Value" => json!({}),
                _ => json!({ "type": "object" }),
            };
        }
        if name != EVENT && !self.schemas.contains_key(message.name()) {
            self.wanted.insert(name.to_owned());
        }
        json!({ "$ref": format!("#/components/schemas/{}", message.name()) })
    }

    fn comment(&self, file: &FileDescriptor, path: &[i32]) -> String {
        self.comments.get(&(file.name().to_owned(), path.to_vec())).cloned().unwrap_or_default()
    }
}

/// The path of a route. A field of a field is named by its last part, as in paths of the same project.
fn path_of(route: &Route) -> String {
    route.fields().fold(route.template.clone(), |path, field| {
        path.replace(&format!("{{{field}}}"), &format!("{{{}}}", last_part(field)))
    })
}

fn last_part(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// The paths of the fields of a message that a query can hold.
fn query_fields(message: &MessageDescriptor, depth: usize) -> Vec<String> {
    let mut paths = Vec::new();
    for field in message.fields() {
        match field.kind() {
            Kind::Message(inner) if !inner.full_name().starts_with(WELL_KNOWN) => {
                if depth > 1 && !field.is_list() && !field.is_map() {
                    let below = query_fields(&inner, depth - 1);
                    paths.extend(below.iter().map(|path| format!("{}.{path}", field.name())));
                }
            }
            _ => paths.push(field.name().to_owned()),
        }
    }
    paths
}

/// Adds a second operation to the one at the same path: a stream beside a page of the same.
fn join(operation: &mut Value, mut other: Value, is_first: bool) {
    if is_first {
        std::mem::swap(operation, &mut other);
    }
    let description = format!("{} As a stream: {}", text(operation), text(&other));
    operation["description"] = description.into();
    let more = std::mem::take(&mut other["parameters"]);
    if let (Some(parameters), Value::Array(more)) = (operation["parameters"].as_array_mut(), more) {
        for parameter in more {
            if !parameters.iter().any(|known| known["name"] == parameter["name"]) {
                parameters.push(parameter);
            }
        }
    }
    let content = &mut other["responses"]["200"]["content"];
    if let (Some(all), Value::Object(more)) =
        (operation["responses"]["200"]["content"].as_object_mut(), content.take())
    {
        all.extend(more);
    }
}

fn text(operation: &Value) -> &str {
    operation["description"].as_str().unwrap_or_default()
}

fn names_of(names: &EnumDescriptor) -> Value {
    let names: Vec<_> = names.values().map(|value| value.name().to_owned()).collect();
    json!({ "type": "string", "enum": names })
}

fn event() -> Value {
    json!({
        "type": "object",
        "description": "An event of a run's log. docs/events.md describes the payload of each type.",
        "required": ["runId", "seq", "nodeId", "timestamp", "type", "payload"],
        "properties": {
            "runId": { "type": "string", "format": "uuid" },
            "seq": { "type": "integer", "minimum": 1 },
            "nodeId": { "type": "string", "format": "uuid" },
            "parentNodeId": { "type": ["string", "null"], "format": "uuid" },
            "timestamp": { "type": "string", "format": "date-time" },
            "type": { "type": "string", "examples": EventBody::TYPES },
            "payload": { "type": "object" },
        },
    })
}

fn error() -> Value {
    json!({
        "type": "object",
        "required": ["code", "message"],
        "properties": {
            "code": { "type": "string", "examples": ["invalid_argument", "not_found", "permission_denied"] },
            "message": { "type": "string" },
            "details": { "type": "array", "items": {
                "type": "object",
                "properties": {
                    "type": { "type": "string" },
                    "value": { "type": "string" },
                    "debug": { "type": "object" },
                },
            } },
        },
    })
}
