//! The JSON schema of a tool's arguments and the check against it, for built-in and MCP tools alike.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};
use tree_agent_contract::text;

use crate::error::ToolError;

/// Maximum of problems that are reported for one set of arguments.
const PROBLEMS: usize = 8;
/// Maximum of bytes of a problem's text, which a schema can make arbitrarily long.
const PROBLEM_BYTES: usize = 400;
/// Maximum of steps of a pattern with look-around. A schema from elsewhere must not consume the CPU.
const BACKTRACKS: usize = 50_000;

/// A compiled JSON schema of arguments.
#[derive(Debug)]
pub(crate) struct Schema {
    value: Value,
    validator: Validator,
}

impl Schema {
    /// Compiles `value`, which must describe an object. The error says what is wrong with it. References to other
    /// documents are not followed.
    pub(crate) fn new(value: Value) -> Result<Self, String> {
        match value.get("type") {
            None => {}
            Some(Value::String(name)) if name == "object" => {}
            Some(other) => return Err(format!("the arguments of a tool are an object, not {other}")),
        }
        let options = jsonschema::options()
            .should_validate_formats(true)
            .with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS));
        let validator = options.build(&value).map_err(|error| cut(&error.to_string()))?;
        Ok(Self { value, validator })
    }

    /// The schema.
    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// Checks arguments. The error names the first problem and mentions further ones.
    pub(crate) fn check(&self, tool: &str, args: &Map<String, Value>) -> Result<(), ToolError> {
        let instance = Value::Object(args.clone());
        let mut problems =
            self.validator.iter_errors(&instance).take(PROBLEMS).map(|e| self.problem(&instance, &e));
        let Some((field, mut message)) = problems.next() else { return Ok(()) };
        for (other, text) in problems {
            message.push_str(&format!("; {other:?} {text}"));
        }
        Err(ToolError::argument(tool, &field, message))
    }

    /// The argument that an error is about, and what is wrong with it.
    fn problem(&self, instance: &Value, error: &ValidationError<'_>) -> (String, String) {
        let path = error.instance_path().to_string();
        let within = path.trim_start_matches('/').replace('/', ".");
        let join = |name: &str| if within.is_empty() { name.to_owned() } else { format!("{within}.{name}") };
        match error.kind() {
            ValidationErrorKind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                (join(name), format!("is required{}", self.about(name)))
            }
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                let name = unexpected.first().map(String::as_str).unwrap_or_default();
                (join(name), self.unknown())
            }
            // If no argument is allowed, the library does not say which of the given ones is wrong.
            ValidationErrorKind::FalseSchema => {
                let given = instance.pointer(&path).and_then(Value::as_object);
                let name = given.and_then(|object| object.keys().next());
                (join(name.map(String::as_str).unwrap_or_default()), self.unknown())
            }
            // The value may be as long as a document, so it is not repeated.
            _ => (within, cut(&error.masked_with("the value").to_string())),
        }
    }

    fn unknown(&self) -> String {
        let known = self.value.get("properties").and_then(Value::as_object);
        let known: Vec<&str> = known.into_iter().flatten().map(|(name, _)| name.as_str()).take(32).collect();
        cut(&format!("is unknown; known are [{}]", known.join(", ")))
    }

    fn about(&self, name: &str) -> String {
        let about = self.value.pointer(&format!("/properties/{name}/description")).and_then(Value::as_str);
        about.map(|text| format!(": {}", cut(text))).unwrap_or_default()
    }
}

fn cut(text: &str) -> String {
    text::truncate(text, PROBLEM_BYTES).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn named(schema: Value, args: Value) -> Option<(String, String)> {
        let schema = Schema::new(schema).unwrap();
        match schema.check("t", args.as_object().unwrap()) {
            Ok(()) => None,
            Err(ToolError::Argument { field, message, .. }) => Some((field, message)),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn errors_name_the_argument_also_deep_inside() {
        let schema = json!({"type": "object", "required": ["a"], "additionalProperties": false, "properties": {
            "a": {"type": "object", "required": ["b"], "properties": {"b": {"type": "array", "items": {"type": "integer"}}}},
            "c": {"enum": ["x", "y"]},
        }});
        assert_eq!(named(schema.clone(), json!({"a": {"b": [1]}})), None);
        assert_eq!(named(schema.clone(), json!({})).unwrap().0, "a");
        assert_eq!(named(schema.clone(), json!({"a": {}})).unwrap().0, "a.b");
        assert_eq!(named(schema.clone(), json!({"a": {"b": [1, "2"]}})).unwrap().0, "a.b.1");
        let (field, message) = named(schema.clone(), json!({"a": {"b": []}, "d": 1})).unwrap();
        assert_eq!(field, "d");
        assert!(message.contains("a, c"), "{message}");
        let (_, both) = named(schema, json!({"a": {"b": []}, "c": "z", "e": 1})).unwrap();
        assert!(both.contains("\"c\"") || both.contains("\"e\""), "both are told: {both}");
        let nothing = json!({"type": "object", "additionalProperties": false});
        assert_eq!(named(nothing, json!({"x": 1})).unwrap().0, "x");
    }

    #[test]
    fn a_long_value_is_not_repeated() {
        let long = "x".repeat(100_000);
        let (_, message) =
            named(json!({"properties": {"a": {"type": "integer"}}}), json!({ "a": long })).unwrap();
        assert!(message.len() < 500, "{}", message.len());
    }

    #[test]
    fn schemas_that_cannot_be_used_are_refused() {
        for bad in
            [json!({"type": "string"}), json!({"type": "nonsense"}), json!({"$ref": "https://example.org/x"})]
        {
            assert!(Schema::new(bad.clone()).is_err(), "{bad}");
        }
        Schema::new(json!({})).unwrap();
    }

    #[test]
    fn a_pattern_that_explodes_is_an_error_not_a_stall() {
        let schema = json!({"properties": {"a": {"pattern": "^(?=(a+)+$)(a|a)*b$"}}});
        assert!(named(schema, json!({ "a": "a".repeat(60) })).is_some());
    }
}
