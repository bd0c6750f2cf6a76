//! How large a JSON Schema is when its references are followed. It bounds what a check of a document costs, and keeps a
//! schema from calling itself until the stack ends.

use serde_json::Value;

use crate::short;

/// Parts that a schema may have with all references followed.
const PARTS: usize = 10_000;
/// Levels that it may have.
const LEVELS: usize = 128;

/// Checks that `schema` stays small when its references are followed, so it refers to itself nowhere.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check(schema: &Value) -> Result<(), String> {
    follow(schema, schema, LEVELS, &mut PARTS.clone())
}

/// Follows the references below `value`, which may have so many more `levels` and `parts`.
fn follow(schema: &Value, value: &Value, levels: usize, parts: &mut usize) -> Result<(), String> {
    *parts = parts.saturating_sub(1);
    if levels == 0 || *parts == 0 {
        return Err(format!(
            "has more than {PARTS} parts or {LEVELS} levels when its references are followed; a schema may not refer to \
             itself"
        ));
    }
    let fields = match value {
        Value::Object(fields) => fields,
        Value::Array(values) => {
            return values.iter().try_for_each(|value| follow(schema, value, levels - 1, parts));
        }
        _ => return Ok(()),
    };
    fields.iter().try_for_each(|(name, value)| match (name.as_str(), value) {
        ("$ref", Value::String(to)) => follow(schema, place(schema, to)?, levels - 1, parts),
        ("$dynamicRef" | "$recursiveRef", Value::String(_)) => {
            Err(format!("{name} is not supported; use $ref"))
        }
        ("$id" | "id", Value::String(_)) if levels != LEVELS => {
            Err(format!("{name} is only supported at the top of the schema"))
        }
        _ => follow(schema, value, levels - 1, parts),
    })
}

/// The place in `schema` that a reference names.
fn place<'a>(schema: &'a Value, to: &str) -> Result<&'a Value, String> {
    let shown = short(to);
    let pointer =
        to.strip_prefix('#').filter(|at| (at.is_empty() || at.starts_with('/')) && !at.contains('%'));
    let pointer =
        pointer.ok_or_else(|| format!("$ref {shown}: name a place in the schema, such as #/$defs/x"))?;
    schema.pointer(pointer).ok_or_else(|| format!("$ref {shown}: there is no such place in the schema"))
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
            (json!({"$ref": "#"}), "may not refer to itself"),
            (json!({"properties": {"a": {"$ref": "#/properties/a"}}}), "may not refer to itself"),
            (json!({"properties": {"a": {"items": {"$ref": "#"}}}}), "may not refer to itself"),
            (json!({"$ref": "https://example.org/x"}), "name a place in the schema"),
            (json!({"$ref": "#/$defs/x"}), "no such place"),
            (json!({"$dynamicRef": "#x"}), "not supported"),
            (json!({"allOf": [{"$id": "x"}]}), "only supported at the top"),
            (chain(60, 1), "128 levels"),
            (chain(20, 2), "more than 10000 parts"),
            (chain(3_000, 1), "128 levels"),
        ] {
            let error = check(&bad).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
