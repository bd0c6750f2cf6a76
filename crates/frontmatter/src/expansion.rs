//! How large a JSON Schema is when its references are followed. It bounds what a check of a document costs, and keeps a
//! schema from calling itself until the stack ends.

use std::collections::HashMap;

use serde_json::Value;

use crate::short;

/// Parts that a schema may have with all references followed.
const PARTS: usize = 10_000;
/// References that may be followed within each other.
const CHAIN: usize = 32;

/// Checks that `schema` refers to itself nowhere and stays small when its references are followed.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check(schema: &Value) -> Result<(), String> {
    let mut expansion = Expansion { schema, known: HashMap::new(), open: vec!["#"] };
    expansion.parts(schema, true).map(|_| ())
}

struct Expansion<'a> {
    schema: &'a Value,
    /// The parts below each reference.
    known: HashMap<&'a str, usize>,
    /// The references that are being followed.
    open: Vec<&'a str>,
}

impl<'a> Expansion<'a> {
    fn parts(&mut self, value: &'a Value, is_root: bool) -> Result<usize, String> {
        let mut parts = 1;
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    parts += match (name.as_str(), value) {
                        ("$ref", Value::String(to)) => self.follow(to)?,
                        ("$dynamicRef" | "$recursiveRef", Value::String(_)) => {
                            return Err(format!("{name} is not supported; use $ref"));
                        }
                        ("$id" | "id", Value::String(_)) if !is_root => {
                            return Err(format!("{name} is only supported at the top of the schema"));
                        }
                        _ => self.parts(value, false)?,
                    };
                    bounded(parts)?;
                }
            }
            Value::Array(values) => {
                for value in values {
                    parts += self.parts(value, false)?;
                    bounded(parts)?;
                }
            }
            _ => {}
        }
        Ok(parts)
    }

    fn follow(&mut self, to: &'a str) -> Result<usize, String> {
        if let Some(parts) = self.known.get(to) {
            return Ok(*parts);
        }
        let shown = short(to);
        if self.open.contains(&to) {
            return Err(format!("$ref {shown}: refers to itself"));
        }
        if self.open.len() > CHAIN {
            return Err(format!("$ref {shown}: more than {CHAIN} references lead to it"));
        }
        let pointer =
            to.strip_prefix('#').filter(|at| (at.is_empty() || at.starts_with('/')) && !at.contains('%'));
        let pointer =
            pointer.ok_or_else(|| format!("$ref {shown}: name a place in the schema, such as #/$defs/x"))?;
        let found = self.schema.pointer(pointer);
        let value = found.ok_or_else(|| format!("$ref {shown}: there is no such place in the schema"))?;
        self.open.push(to);
        let parts = self.parts(value, false)?;
        self.open.pop();
        self.known.insert(to, parts);
        Ok(parts)
    }
}

fn bounded(parts: usize) -> Result<(), String> {
    match parts <= PARTS {
        true => Ok(()),
        false => Err(format!("has more than {PARTS} parts when its references are followed")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    /// Definitions of which each names the next one `times` times.
    fn chain(definitions: usize, times: usize) -> Value {
        let next = |i: usize| json!({"allOf": vec![json!({"$ref": format!("#/$defs/a{}", i + 1)}); times]});
        let mut defs: Map<String, Value> = (0..definitions).map(|i| (format!("a{i}"), next(i))).collect();
        defs.insert(format!("a{definitions}"), json!({"type": "object"}));
        json!({"$id": "https://example.org/s", "$defs": defs, "$ref": "#/$defs/a0"})
    }

    #[test]
    fn references_are_followed_as_far_as_they_stay_small() {
        for good in [
            json!({"properties": {"$ref": {"type": "string"}, "id": {"type": "string"}}}),
            json!({"$defs": {"t": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/t"}, "b": {"$ref": "#/$defs/t"}}}),
            chain(30, 1),
            chain(8, 2),
        ] {
            assert_eq!(check(&good), Ok(()), "{good}");
        }
        for (bad, why) in [
            (json!({"$ref": "#"}), "$ref #: refers to itself"),
            (json!({"properties": {"a": {"$ref": "#/properties/a"}}}), "refers to itself"),
            (json!({"properties": {"a": {"items": {"$ref": "#"}}}}), "refers to itself"),
            (json!({"$ref": "https://example.org/x"}), "name a place in the schema"),
            (json!({"$ref": "#/$defs/x"}), "no such place"),
            (json!({"$dynamicRef": "#x"}), "not supported"),
            (json!({"allOf": [{"$id": "x"}]}), "only supported at the top"),
            (chain(40, 1), "more than 32 references"),
            (chain(20, 2), "more than 10000 parts"),
            (chain(3_000, 1), "more than 32 references"),
        ] {
            let error = check(&bad).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
