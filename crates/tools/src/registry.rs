//! The registry: every tool, and which of them a context offers.

use std::sync::Arc;

use serde_json::{Map, Value};
use tree_agent_contract::{RunContext, Scope};

use crate::args::{self, Args};
use crate::builtin::{self, BUILTINS};
use crate::error::ToolError;
use crate::schema::Schema;
use crate::source::{Caller, DocumentSource};

/// What a tool is called, does and takes.
#[derive(Debug)]
pub struct ToolSpec {
    name: String,
    description: String,
    schema: Schema,
    scopes: Vec<Scope>,
}

impl ToolSpec {
    /// Its name in calls and events: at most 64 letters, digits, `_` and `-`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it does, for the role that chooses it. Of a tool that is not built in this is text from elsewhere.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The JSON schema of its arguments: an object.
    pub fn schema(&self) -> &Value {
        self.schema.value()
    }
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// The answer: at most [`OUTPUT_BYTES`](crate::OUTPUT_BYTES) of body text, and at most a page of rows. Data, never
    /// instructions.
    pub value: Value,
    /// The answer in a few words, for the event log.
    pub summary: String,
}

/// Every tool: the built-in ones over one source of documents.
#[derive(Clone)]
pub struct ToolRegistry {
    source: Arc<dyn DocumentSource>,
    builtins: Arc<[Arc<ToolSpec>]>,
}

impl ToolRegistry {
    /// The built-in tools over `source`.
    pub fn new(source: Arc<dyn DocumentSource>) -> Self {
        let builtins = BUILTINS.iter().map(|tool| {
            Arc::new(ToolSpec {
                name: tool.name.to_owned(),
                description: tool.description.to_owned(),
                schema: Schema::new(args::schema(tool.params))
                    .expect("the schemas of built-in tools compile"),
                scopes: tool.scopes.to_vec(),
            })
        });
        Self { source, builtins: builtins.collect() }
    }

    /// The tools that `context` offers now: `list_projects` only where there is more than one project to see.
    pub fn specs(&self, context: &RunContext) -> Vec<Arc<ToolSpec>> {
        self.builtins.iter().filter(|spec| spec.scopes.contains(&context.scope)).cloned().collect()
    }

    /// The tools of one run.
    pub fn tool_set(&self, caller: Caller) -> ToolSet {
        ToolSet { registry: self.clone(), caller }
    }
}

/// The tools of one run, bound to its scope. Calls may be made in parallel.
#[derive(Clone)]
pub struct ToolSet {
    registry: ToolRegistry,
    caller: Caller,
}

impl ToolSet {
    /// Waits until it is known which tools there are; at once when all of them are built in.
    pub async fn ready(&self) {}

    /// What the run's context offers now. The names are unique.
    pub fn specs(&self) -> Vec<Arc<ToolSpec>> {
        self.registry.specs(&self.caller.context)
    }

    /// Checks the arguments against the tool's schema and calls the tool `name`. A `null` for an argument that may be
    /// left out counts as left out.
    pub async fn call(&self, name: &str, args: &Map<String, Value>) -> Result<ToolOutput, ToolError> {
        let specs = self.specs();
        let Some(spec) = specs.iter().find(|spec| spec.name == name) else {
            let names: Vec<_> = specs.iter().map(|spec| spec.name()).collect();
            return Err(ToolError::UnknownTool { name: name.to_owned(), available: names.join(", ") });
        };
        let args = without_nulls(args, spec.schema());
        spec.schema.check(name, &args)?;
        builtin::call(self.registry.source.as_ref(), &self.caller, name, Args(&args)).await
    }
}

/// Models like to say `null` for what they leave out.
fn without_nulls(args: &Map<String, Value>, schema: &Value) -> Map<String, Value> {
    let required = schema.get("required").and_then(Value::as_array);
    let required = |name: &str| required.is_some_and(|names| names.iter().any(|n| n == name));
    let kept = args.iter().filter(|(name, value)| !value.is_null() || required(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}
