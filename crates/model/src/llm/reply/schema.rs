//! The JSON schema of a type, in the forms in which it is used.

use jsonschema::Validator;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// Maximum of bytes of one quoted error.
const ERROR_BYTES: usize = 240;

/// The schema of an answer.
pub(in crate::llm) struct Schema {
    /// With every bound.
    bounded: Value,
    /// Without bounds on lengths: providers that enforce schemas refuse such bounds, and a slightly long answer is
    /// still usable.
    plain: Value,
    validator: Validator,
}

/// Bounds that depend on the call.
#[derive(Clone, Copy, Debug)]
pub(in crate::llm) struct Bounds {
    /// Bands of a plan.
    pub(in crate::llm) bands: u32,
    /// Steps of a band.
    pub(in crate::llm) steps: u32,
    /// Minimum of steps in a band. A plan with one band and one step would only repeat its node.
    pub(in crate::llm) least_steps: u32,
    /// The only decision of a planner that makes sense, by its place in the schema.
    pub(in crate::llm) decision: Option<usize>,
    /// A planner says what its decision rests on.
    pub(in crate::llm) review: bool,
    /// The prompt explains no more than most answers need, and no more is asked for.
    pub(in crate::llm) is_small: bool,
    /// Topics below a topic.
    pub(in crate::llm) children: u32,
    /// Tokens of an answer.
    pub(in crate::llm) output_tokens: u32,
}

impl Schema {
    pub(super) fn of<T: JsonSchema>() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|s| {
            s.meta_schema = None;
            s.inline_subschemas = true;
        });
        let mut bounded = Value::from(settings.into_generator().into_root_schema_for::<T>());
        walk(&mut bounded, &mut |object| {
            // Names of Rust types mean nothing to a model, nor do formats such as uint32.
            if object.get("title").is_some_and(Value::is_string) {
                object.remove("title");
            }
            object.remove("format");
        });
        let mut plain = bounded.clone();
        walk(&mut plain, &mut |object| {
            for bound in ["maxLength", "minLength", "maxItems", "minItems"] {
                if object.get(bound).is_some_and(Value::is_number) {
                    object.remove(bound);
                }
            }
        });
        let validator = jsonschema::validator_for(&plain).expect("a schema that was derived is valid");
        Self { bounded, plain, validator }
    }

    /// The errors of `value`, at most `most` of them.
    pub(super) fn errors(&self, value: &Value, most: usize) -> Vec<String> {
        let error = |error: jsonschema::ValidationError<'_>| {
            let path = error.instance_path().to_string();
            let at = if path.is_empty() { "the answer".to_owned() } else { path };
            format!("{at}: {}", super::line(&error.to_string(), ERROR_BYTES))
        };
        self.validator.iter_errors(value).take(most).map(error).collect()
    }

    /// The schema for providers that enforce it.
    pub(in crate::llm) fn plain(&self, bounds: Bounds) -> Value {
        asked_for(self.plain.clone(), bounds)
    }

    /// The schema for any other server, whose models may be weak. Everything has a bound, because small models
    /// otherwise write until their answer is cut. Optional properties stay so: where they must be given, small models
    /// fill them with anything.
    pub(in crate::llm) fn bounded(&self, bounds: Bounds) -> Value {
        /// Servers that compile schemas to grammars refuse longer repetitions.
        const LONGEST_REPETITION: u64 = 1_900;
        // Small models fill a text with their prompt until it is full, and then lack tokens for what comes behind it.
        const SMALL_TEXT: u64 = 400;
        let mut schema = asked_for(self.bounded.clone(), bounds);
        walk(&mut schema, &mut |object| {
            if let Some(Value::Object(properties)) = object.get_mut("properties") {
                if let (Some(only), Some(decision)) = (bounds.decision, properties.get_mut("decision")) {
                    decision["anyOf"] = json!([decision["anyOf"][only]]);
                }
                let mut bound = |name: &str, key: &str, most: u64| {
                    if let Some(Value::Object(property)) = properties.get_mut(name) {
                        property.insert(key.to_owned(), json!(most));
                    }
                };
                bound("bands", "maxItems", u64::from(bounds.bands));
                bound("steps", "maxItems", u64::from(bounds.steps));
                bound("tasks", "maxItems", u64::from(bounds.steps));
                bound("children", "maxItems", u64::from(bounds.children));
                bound("steps", "minItems", u64::from(bounds.least_steps.min(bounds.steps)));
                object.insert("additionalProperties".to_owned(), false.into());
            }
            match object.get_mut("maxLength") {
                // The limit on output tokens bounds these strings anyway.
                Some(most) if most.as_u64().is_some_and(|n| n > LONGEST_REPETITION) => {
                    object.remove("maxLength");
                }
                Some(most) if bounds.is_small => *most = most.as_u64().map(|n| n.min(SMALL_TEXT)).into(),
                _ => {}
            }
        });
        schema
    }
}

/// What few steps of a plan need.
const EXTRAS: [&str; 5] = ["leafDecision", "search", "budget", "deliverable", "profile"];

/// Requires what a decision rests on where the schema knows that, or leaves it out; and what few answers need.
fn asked_for(mut schema: Value, bounds: Bounds) -> Value {
    if bounds.is_small {
        walk(&mut schema, &mut |object| {
            if let Some(Value::Object(properties)) = object.get_mut("properties") {
                EXTRAS.iter().for_each(|name| drop(properties.remove(*name)));
            }
        });
    }
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return schema };
    if !bounds.review {
        properties.remove("review");
    } else if properties.contains_key("review")
        && let Some(Value::Array(required)) = schema.get_mut("required")
    {
        required.push("review".into());
    }
    schema
}

/// Calls `each` for every object of `value`, the outer before the inner.
fn walk(value: &mut Value, each: &mut dyn FnMut(&mut serde_json::Map<String, Value>)) {
    match value {
        Value::Object(object) => {
            each(object);
            object.values_mut().for_each(|value| walk(value, each));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| walk(value, each)),
        _ => {}
    }
}
