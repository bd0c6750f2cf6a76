//! The JSON Schema of a frontmatter.

use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value};

use crate::short;

/// Errors that are told at once.
const ERRORS: usize = 8;
/// Maximum of steps of a pattern with look-around. A schema from elsewhere must not consume the CPU.
const BACKTRACKS: usize = 50_000;
/// Bytes of a compiled pattern. A schema holds thousands of patterns, and compiling each must stay cheap.
const PATTERN_BYTES: usize = 256 * 1024;

/// A compiled JSON Schema.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
}

impl Schema {
    /// Compiles `schema`, which must describe an object. References to other documents are not followed.
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
        let options = jsonschema::options().should_validate_formats(true).with_pattern_options(
            PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS).size_limit(PATTERN_BYTES),
        );
        let built = options.build(&Value::Object(schema.clone()));
        let validator = built.map_err(|error| {
            let at = error.instance_path().to_string();
            let at = if at.is_empty() { String::new() } else { format!("{at}: ") };
            format!("{at}{}", short(&error.to_string()))
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
