//! What a path and a query say of a message, beside its body.

use bytes::Bytes;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value};
use tonic::Status;
use tree_agent_runtime::errors::invalid_field;

use crate::connect::{malformed, not_json, refused_json};

/// Fields of a request's message, by their paths, such as `context.project_ids`.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    /// The rest of the message is the body.
    pub(super) takes_body: bool,
    pub(super) fields: Vec<(String, String)>,
}

impl Bound {
    /// The message that the request is.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the body is not the JSON of the message, or a field cannot be what it is given.
    pub(crate) fn message(self, of: &MessageDescriptor, body: &Bytes) -> Result<DynamicMessage, Status> {
        let mut message = match &**body {
            [] => Value::Object(Map::new()),
            _ if !self.takes_body => {
                return Err(malformed("this path takes no body; its fields go into the query".into()));
            }
            body => serde_json::from_slice(body).map_err(|error| not_json(of, &error))?,
        };
        let Value::Object(fields) = &mut message else {
            return Err(not_json(of, &"it is no object"));
        };
        for (path, text) in self.fields {
            insert(of, fields, &path, &path, text)?;
        }
        DynamicMessage::deserialize(of.clone(), &message).map_err(|error| refused_json(of, &message, &error))
    }
}

/// Puts the `text` of the field at `rest` into the object `into`, which is a message of the type `of`.
fn insert(
    of: &MessageDescriptor,
    into: &mut Map<String, Value>,
    path: &str,
    rest: &str,
    text: String,
) -> Result<(), Status> {
    let (name, below) = match rest.split_once('.') {
        Some((name, below)) => (name, Some(below)),
        None => (rest, None),
    };
    let known = of.get_field_by_json_name(name).or_else(|| of.get_field_by_name(name));
    let known = known.ok_or_else(|| {
        let names: Vec<_> = of.fields().map(|field| field.json_name().to_owned()).collect();
        invalid_field(path, format!("there is no field {name}; there are {}", names.join(", ")))
    })?;
    // A body may spell it in either way.
    if let Some(spelt) = into.remove(known.name()) {
        into.insert(known.json_name().to_owned(), spelt);
    }
    match (known.kind(), below) {
        (Kind::Message(inner), Some(below)) if !known.is_list() && !known.is_map() => {
            let entry = into.entry(known.json_name()).or_insert_with(|| Value::Object(Map::new()));
            let inside = entry.as_object_mut();
            let inside =
                inside.ok_or_else(|| invalid_field(path, format!("{name} is no object in the body")))?;
            insert(&inner, inside, path, below, text)
        }
        (_, Some(_)) => Err(invalid_field(path, format!("{name} has no fields"))),
        (kind, None) => {
            let value = value(&known, &kind, path, text)?;
            if known.is_list() {
                let list = into.entry(known.json_name()).or_insert_with(|| Value::Array(Vec::new()));
                let list = list.as_array_mut();
                list.ok_or_else(|| invalid_field(path, format!("{name} is no list in the body")))?
                    .push(value);
            } else {
                into.insert(known.json_name().to_owned(), value);
            }
            Ok(())
        }
    }
}

/// The JSON of a field that is written as text. Numbers, names of enums, times and the like may be strings.
fn value(known: &FieldDescriptor, kind: &Kind, path: &str, text: String) -> Result<Value, Status> {
    match (kind, &*text) {
        _ if known.is_map() => Err(invalid_field(path, "is a map, which only a body can hold")),
        (Kind::Bool, "true" | "") => Ok(Value::Bool(true)),
        (Kind::Bool, "false") => Ok(Value::Bool(false)),
        (Kind::Bool, other) => Err(invalid_field(path, format!("is {other:?}; expected true or false"))),
        (Kind::Uint32 | Kind::Uint64, number) if number.parse::<u64>().is_err() => {
            Err(invalid_field(path, format!("is {number:?}; expected a number that is not negative")))
        }
        (Kind::Message(message), _) if !message.full_name().starts_with("google.protobuf.") => {
            let names: Vec<_> =
                message.fields().map(|field| format!("{path}.{}", field.json_name())).collect();
            Err(invalid_field(path, format!("is an object; name its fields: {}", names.join(", "))))
        }
        _ => Ok(Value::String(text)),
    }
}
