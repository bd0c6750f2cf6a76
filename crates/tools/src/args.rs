//! Arguments of tools: one description gives both the JSON schema and the validation.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::error::ToolError;

/// What values an argument takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// Text of at most so many bytes.
    Text(usize),
    /// A whole number within these bounds.
    Integer(u64, u64),
    /// A UUID.
    Id,
}

/// One argument of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its key.
    pub name: &'static str,
    /// What it takes.
    pub kind: ParamKind,
    /// Whether it must be given (and, for text, be non-empty).
    pub required: bool,
    /// What it means.
    pub about: &'static str,
}

/// The JSON schema of `params`.
pub(crate) fn schema(params: &[Param]) -> Value {
    let properties: Map<String, Value> = params
        .iter()
        .map(|p| {
            let schema = match p.kind {
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

/// Arguments that fit their description.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a>(&'a Map<String, Value>);

impl<'a> Args<'a> {
    /// Checks `args` against `params`; the error names the argument.
    pub(crate) fn check(
        tool: &str,
        params: &[Param],
        args: &'a Map<String, Value>,
    ) -> Result<Self, ToolError> {
        let wrong = |field: &str, message: String| Err(ToolError::argument(tool, field, message));
        for key in args.keys() {
            if !params.iter().any(|p| p.name == key) {
                let known: Vec<_> = params.iter().map(|p| p.name).collect();
                return wrong(key, format!("is unknown; {tool} takes [{}]", known.join(", ")));
            }
        }
        for p in params {
            let value = match args.get(p.name) {
                None | Some(Value::Null) if p.required => {
                    return wrong(p.name, format!("is required: {}", p.about));
                }
                None | Some(Value::Null) => continue,
                Some(value) => value,
            };
            match p.kind {
                ParamKind::Text(max) => match value.as_str() {
                    None => return wrong(p.name, format!("must be a string, not {value}")),
                    Some(text) if p.required && text.trim().is_empty() => {
                        return wrong(p.name, "must not be empty".into());
                    }
                    Some(text) if text.len() > max => {
                        return wrong(
                            p.name,
                            format!("is {} bytes long; at most {max} are allowed", text.len()),
                        );
                    }
                    Some(_) => {}
                },
                ParamKind::Integer(min, max) => match value.as_u64() {
                    Some(n) if (min..=max).contains(&n) => {}
                    _ => {
                        return wrong(
                            p.name,
                            format!("must be a whole number from {min} to {max}, not {value}"),
                        );
                    }
                },
                ParamKind::Id => {
                    if value.as_str().is_none_or(|text| Uuid::try_parse(text).is_err()) {
                        return wrong(p.name, format!("must be a UUID, not {value}"));
                    }
                }
            }
        }
        Ok(Self(args))
    }

    /// The text under `name`; empty when absent.
    pub fn text(&self, name: &str) -> &'a str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The number under `name`.
    pub fn integer(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(Value::as_u64)
    }

    /// The id under `name`.
    pub fn id<T: From<Uuid>>(&self, name: &str) -> Option<T> {
        Uuid::try_parse(self.text(name)).ok().map(T::from)
    }
}
