//! Arguments of the built-in tools. One description gives the JSON schema, and arguments that match it are read by
//! name.

use serde_json::{Map, Value, json};
use uuid::Uuid;

/// The type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParamKind {
    /// Text of at most this many characters.
    Text(usize),
    /// A whole number within these bounds.
    Integer(u64, u64),
    /// A UUID.
    Id,
}

/// One argument of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Param {
    /// Its key.
    pub(crate) name: &'static str,
    /// Its type.
    pub(crate) kind: ParamKind,
    /// Whether it is required (and, for text, must not be blank).
    pub(crate) required: bool,
    /// What it means.
    pub(crate) about: &'static str,
}

/// The JSON schema of `params`.
pub(crate) fn schema(params: &[Param]) -> Value {
    let properties: Map<String, Value> = params
        .iter()
        .map(|p| {
            let schema = match p.kind {
                ParamKind::Text(max) if p.required => {
                    json!({"type": "string", "maxLength": max, "pattern": "\\S", "description": p.about})
                }
                ParamKind::Text(max) => json!({"type": "string", "maxLength": max, "description": p.about}),
                ParamKind::Integer(min, max) => {
                    json!({"type": "integer", "minimum": min, "maximum": max, "description": p.about})
                }
                ParamKind::Id => json!({"type": "string", "format": "uuid", "description": p.about}),
            };
            (p.name.to_owned(), schema)
        })
        .collect();
    let required: Vec<&str> = params.iter().filter(|p| p.required).map(|p| p.name).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// Arguments that match the schema of their tool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Args<'a>(pub(crate) &'a Map<String, Value>);

impl<'a> Args<'a> {
    /// The text of argument `name`; empty if absent.
    pub(crate) fn text(&self, name: &str) -> &'a str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The number of argument `name`. A schema also accepts 2.0 as a whole number.
    pub(crate) fn integer(&self, name: &str) -> Option<u64> {
        let value = self.0.get(name)?;
        value.as_u64().or_else(|| value.as_f64().map(|n| n as u64))
    }

    /// The id of argument `name`.
    pub(crate) fn id<T: From<Uuid>>(&self, name: &str) -> Option<T> {
        Uuid::try_parse(self.text(name)).ok().map(T::from)
    }
}
