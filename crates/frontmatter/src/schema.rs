//! The JSON Schema of a frontmatter.

use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value};

use crate::{expansion, short};

/// Errors that are told at once.
const ERRORS: usize = 8;
/// Maximum of steps of a pattern with look-around. A schema from elsewhere must not consume the CPU.
const BACKTRACKS: usize = 50_000;
/// Bytes of all compiled patterns of a schema together, so that compiling thousands of them stays cheap.
const PATTERN_BYTES: usize = 8 * 1024 * 1024;

/// A compiled JSON Schema.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
}

impl Schema {
    /// Compiles `schema`, which must describe an object. It refers to no other documents and
    /// not to itself.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(schema: &Map<String, Value>) -> Result<Self, String> {
        match schema.get("type") {
            None => {}
            Some(Value::String(name)) if name == "object" => {}
            Some(other) => {
                return Err(format!(
                    "frontmatter is an object, so its type cannot be {}",
                    short(&other.to_string())
                ));
            }
        }
        let schema = Value::Object(schema.clone());
        expansion::check(&schema)?;
        let bytes = PATTERN_BYTES / parts(&schema).max(1);
        let options = jsonschema::options().should_validate_formats(true).with_pattern_options(
            PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS).size_limit(bytes),
        );
        let built = options.build(&schema);
        let validator = built.map_err(|error| {
            let at = error.instance_path().to_string();
            let at = if at.is_empty() { String::new() } else { format!("{at}: ") };
            let or = if error.to_string().ends_with("is not a \"regex\"") { ", or is too large" } else { "" };
            format!("{at}{}{or}", short(&error.to_string()))
        })?;
        Ok(Self { validator })
    }

    /// What in `fields` breaks the schema, at most the first few errors.
    pub fn errors(&self, fields: &Map<String, Value>) -> Vec<String> {
        let fields = Value::Object(fields.clone());
        let errors = self.validator.iter_errors(&fields).take(ERRORS).map(|error| {
            let path = error.instance_path().to_string();
            let path = path.trim_start_matches('/').replace('/', ".");
            let at =
                if path.is_empty() { "the frontmatter".to_owned() } else { format!("`{}`", short(&path)) };
            format!("{at}: {}", short(&error.to_string()))
        });
        errors.collect()
    }
}

/// The most parts into which the patterns in `value` are compiled. A group or an escape may begin one.
fn parts(value: &Value) -> usize {
    let of = |pattern: &str| 1 + pattern.bytes().filter(|byte| matches!(byte, b'(' | b'\\')).count();
    match value {
        Value::Object(fields) => {
            let each = fields.iter().map(|(name, value)| match (name.as_str(), value) {
                ("pattern", Value::String(pattern)) => of(pattern),
                ("patternProperties", Value::Object(patterns)) => {
                    patterns.iter().map(|(pattern, value)| of(pattern) + parts(value)).sum()
                }
                _ => parts(value),
            });
            each.sum()
        }
        Value::Array(values) => values.iter().map(parts).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn new(schema: Value) -> Result<Schema, String> {
        Schema::new(schema.as_object().expect("an object"))
    }

    #[test]
    fn patterns_share_the_room_for_compiled_ones() {
        for usual in [r"^\w{1,60}$", r"^\d{4}-\d{2}-\d{2}$", r"^(?!.*draft).+$", "^[a-z0-9-]+$"] {
            new(json!({"properties": {"a": {"pattern": usual}}})).expect(usual);
        }
        // Each of these parts alone would be small enough.
        let bomb = r"(?=\p{L}{50})".repeat(4_000);
        let error = new(json!({"properties": {"a": {"pattern": bomb}}})).unwrap_err();
        assert!(error.ends_with("or is too large"), "{error}");
        let many: Map<String, Value> =
            (0..1_000).map(|i| (format!("a{i}"), json!({"pattern": format!(r"\p{{L}}{{50}}{i}")}))).collect();
        let error = new(json!({"properties": many})).unwrap_err();
        assert!(error.ends_with("or is too large"), "{error}");
        let simple: Map<String, Value> =
            (0..1_000).map(|i| (format!("a{i}"), json!({"pattern": format!("^[a-z]{i}+$")}))).collect();
        new(json!({"properties": simple})).expect("a thousand small ones fit");
        assert_eq!(parts(&json!({"patternProperties": {"a(b)": {"pattern": r"\d"}}, "pattern": 1})), 4);
    }
}
