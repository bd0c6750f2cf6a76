//! The registry: every tool, and which of them a context offers.

use std::sync::Arc;

use serde_json::{Map, Value};
use tree_agent_contract::{RunContext, Scope};

use crate::args::{self, Args, Param};
use crate::builtin;
use crate::error::ToolError;
use crate::source::{Caller, DocumentSource};

/// What a tool is called, does and takes.
#[derive(Clone, Copy, Debug)]
pub struct ToolSpec {
    /// Its name in calls and events.
    pub name: &'static str,
    /// What it does, for the role that chooses it.
    pub description: &'static str,
    /// Its arguments.
    pub params: &'static [Param],
    /// The scopes in which it is offered.
    pub(crate) scopes: &'static [Scope],
}

impl ToolSpec {
    /// The JSON schema of its arguments.
    pub fn schema(&self) -> Value {
        args::schema(self.params)
    }
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// The answer: at most [`OUTPUT_BYTES`](crate::OUTPUT_BYTES) of body text, and at most a page of rows.
    pub value: Value,
    /// The answer in a few words, for the event log.
    pub summary: String,
}

/// Every built-in tool over one source of documents.
#[derive(Clone)]
pub struct ToolRegistry {
    source: Arc<dyn DocumentSource>,
}

impl ToolRegistry {
    /// The built-in tools over `source`.
    pub fn new(source: Arc<dyn DocumentSource>) -> Self {
        Self { source }
    }

    /// The tools that `context` offers: `list_projects` only where there is more than one project to see.
    pub fn for_context(context: &RunContext) -> impl Iterator<Item = &'static ToolSpec> {
        let scope = context.scope;
        builtin::SPECS.iter().filter(move |spec| spec.scopes.contains(&scope))
    }

    /// The tools of one run.
    pub fn tool_set(&self, caller: Caller) -> ToolSet {
        ToolSet { source: self.source.clone(), caller }
    }
}

/// The tools of one run, bound to its scope.
#[derive(Clone)]
pub struct ToolSet {
    source: Arc<dyn DocumentSource>,
    caller: Caller,
}

impl ToolSet {
    /// What the run's context offers.
    pub fn specs(&self) -> impl Iterator<Item = &'static ToolSpec> {
        ToolRegistry::for_context(&self.caller.context)
    }

    /// Checks the arguments and calls the tool `name`.
    pub async fn call(&self, name: &str, args: &Map<String, Value>) -> Result<ToolOutput, ToolError> {
        let Some(spec) = self.specs().find(|spec| spec.name == name) else {
            let names: Vec<_> = self.specs().map(|spec| spec.name).collect();
            return Err(ToolError::UnknownTool { name: name.to_owned(), available: names.join(", ") });
        };
        let args = Args::check(spec.name, spec.params, args)?;
        builtin::call(self.source.as_ref(), &self.caller, spec.name, args).await
    }
}
