//! The registry: every tool, and which of them a context offers.

use std::sync::Arc;

use serde_json::{Map, Value};
use tree_agent_contract::answers::Question;
use tree_agent_contract::role::KeptDocument;
use tree_agent_contract::text::suffix;
use tree_agent_contract::{AnswerUse, Document, DocumentId, NodeId, RunContext, Scope, ToolRules};

use crate::answers::{self, Answer, Asking, HeldAnswers, SharedAnswers};
use crate::args::{self, Args};
use crate::builtin::{self, BUILTINS, Builtin};
use crate::error::ToolError;
use crate::kept::Kept;
use crate::mcp::{McpServers, McpTool, Server};
use crate::schema::Schema;
use crate::source::{Caller, DocumentSource, ProjectState};

/// The name, description and schema of a tool.
#[derive(Debug)]
pub struct ToolSpec {
    name: String,
    description: String,
    schema: Schema,
}

impl ToolSpec {
    pub(crate) fn new(name: String, description: String, schema: Schema) -> Self {
        Self { name, description, schema }
    }

    /// Its name in calls and events: at most 64 letters, digits, `_` and `-`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it does, for the role that chooses it. For a tool that is not built in, this is untrusted text.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The JSON schema of its arguments: an object.
    pub fn schema(&self) -> &Value {
        self.schema.value()
    }
}

/// The answer of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// The answer: at most [`OUTPUT_BYTES`](crate::OUTPUT_BYTES) of body text, and at most a page of rows. Data, never
    /// instructions.
    pub value: Value,
    /// The answer in a few words, for the event log.
    pub summary: String,
    /// What the tool wrote for the run. It becomes a document when the answer is in the log.
    pub kept: Option<KeptDocument>,
    /// The whole answer, if it is to be kept for further calls of the run.
    pub answer: Option<KeptDocument>,
    /// The answer stays the same while the state of what the tool looks at does.
    pub(crate) is_lasting: bool,
}

impl ToolOutput {
    /// An answer of a tool that wrote nothing for the run.
    pub const fn new(value: Value, summary: String) -> Self {
        Self { value, summary, kept: None, answer: None, is_lasting: true }
    }
}

/// All tools: the built-in ones over one source of documents, and those of MCP servers.
#[derive(Clone)]
pub struct ToolRegistry {
    source: Arc<dyn DocumentSource>,
    builtins: Arc<[(Arc<ToolSpec>, &'static Builtin)]>,
    servers: McpServers,
    answers: SharedAnswers,
}

/// A call of a tool that has begun.
pub enum ToolStart {
    /// The run knows the answer, so the tool is not called.
    Known {
        /// The answer.
        output: Box<ToolOutput>,
        /// The node that asked the tool.
        node: Option<NodeId>,
    },
    /// The tool is to be called.
    Ready(Box<Ready>),
}

/// A call that is to be made.
pub struct Ready {
    tools: ToolSet,
    offered: Offered,
    args: Map<String, Value>,
    asking: Option<Asking>,
}

impl Ready {
    /// True if the tool may change something.
    pub fn writes(&self) -> bool {
        self.offered.writes
    }

    /// Calls the tool.
    pub async fn call(self) -> Result<ToolOutput, ToolError> {
        let Self { tools, offered: Offered { spec, server, .. }, args, asking } = self;
        let source = tools.registry.source.as_ref();
        let mut output = match server {
            None => builtin::call(source, &tools.caller, &tools.kept, spec.name(), Args(&args)).await?,
            Some((server, tool)) => server.call(&tools.caller, &tool, args).await?,
        };
        if let Some(asking) = asking {
            asking.keep(&tools.caller, spec.name(), &mut output, &tools.held);
        }
        if let Some(kept) = &output.kept {
            tools.kept.insert(&tools.caller, kept);
        }
        Ok(output)
    }
}

/// What holds for the tools of a run: its own word, and that of every project that it reaches.
struct Rules {
    read_only: bool,
    /// Those of the projects that exist and that the context names; none if it names none.
    projects: Option<Vec<ToolRules>>,
    /// Those of every project, if the context names none. Built-in tools follow the project that a call is about.
    reached: Vec<ToolRules>,
    /// The user of the run may edit none of them.
    reads_only: bool,
    /// Names the state of the projects. None if the context names none, or nobody counts changes.
    state: Option<String>,
}

impl Rules {
    /// True if the run is offered the tool `name`. A context whose projects are all gone has only built-in tools that
    /// read: they find nothing, and nobody knows what was said about others.
    fn offer(&self, name: &str, writes: bool, is_built_in: bool) -> bool {
        let all_do = match self.projects.as_deref() {
            None => is_built_in || self.reached.iter().all(|project| project.offer(name, writes)),
            Some([]) => is_built_in && !writes,
            Some(all) => all.iter().all(|project| project.offer(name, writes)),
        };
        all_do && !(self.read_only && writes) && !(self.reads_only && is_built_in && writes)
    }
}

/// A tool that a context offers, and what implements it.
struct Offered {
    spec: Arc<ToolSpec>,
    writes: bool,
    server: Option<(Arc<Server>, Arc<McpTool>)>,
}

impl ToolRegistry {
    /// The built-in tools over `source`.
    pub fn new(source: Arc<dyn DocumentSource>) -> Self {
        let builtins = BUILTINS.iter().map(|tool| {
            let schema =
                Schema::new(args::schema(tool.params)).expect("the schemas of built-in tools compile");
            let spec = ToolSpec::new(tool.name.to_owned(), tool.description.to_owned(), schema);
            (Arc::new(spec), tool)
        });
        let (servers, answers) = (McpServers::default(), SharedAnswers::default());
        Self { source, builtins: builtins.collect(), servers, answers }
    }

    /// Adds the tools of `servers`.
    #[must_use]
    pub fn with_servers(mut self, servers: McpServers) -> Self {
        self.servers = servers;
        self
    }

    /// The tools of MCP servers that may write, as a run is offered them whose context names no project.
    pub fn writing_tools(&self) -> Vec<String> {
        let tools = self.servers.tools(&RunContext::default()).into_iter();
        tools.filter(|(_, tool)| tool.writes).map(|(_, tool)| tool.spec.name().to_owned()).collect()
    }

    /// The tools that a run is offered: `list_projects` only if there is more than one project to see, those of an MCP
    /// server as its configuration says, and of all of them what `rules` allow.
    fn offered(&self, context: &RunContext, rules: &Rules) -> Vec<Offered> {
        let builtins = self.builtins.iter().filter(|(_, tool)| tool.scopes.contains(&context.scope));
        let builtins = builtins.filter(|(_, tool)| rules.offer(tool.name, tool.writes, true));
        let builtins =
            builtins.map(|(spec, tool)| Offered { spec: spec.clone(), writes: tool.writes, server: None });
        let foreign = self.servers.tools(context).into_iter();
        let foreign = foreign.filter(|(_, tool)| rules.offer(tool.spec.name(), tool.writes, false));
        let foreign = foreign.map(|(server, tool)| Offered {
            spec: tool.spec.clone(),
            writes: tool.writes,
            server: Some((server, tool)),
        });
        builtins.chain(foreign).collect()
    }

    /// The tools of one run.
    pub fn tool_set(&self, caller: Caller) -> ToolSet {
        ToolSet { registry: self.clone(), caller, kept: Kept::default(), held: HeldAnswers::default() }
    }
}

/// The tools of one run, bound to its scope. Calls may be made in parallel.
#[derive(Clone)]
pub struct ToolSet {
    registry: ToolRegistry,
    caller: Caller,
    kept: Kept,
    held: HeldAnswers,
}

impl ToolSet {
    /// Waits until the tools are known: until the first start of every MCP server has succeeded or failed.
    pub async fn ready(&self) {
        self.registry.servers.ready().await;
    }

    /// The MCP servers whose tools the run would be offered and that have listed none, each with what went wrong.
    pub fn servers_without_tools(&self) -> Vec<(String, String)> {
        self.registry.servers.without_tools(&self.caller.context)
    }

    /// The run on whose behalf they are called.
    pub const fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The end of a document of the context or of the run, at most `max` bytes. It is no call of a tool: a role may
    /// always read what it has written to.
    pub async fn end_of_document(&self, id: DocumentId, max: usize) -> Result<String, ToolError> {
        Ok(suffix(&self.document(id).await?.body, max).to_owned())
    }

    /// A document of the context or of the run. It is no call of a tool: a role may always read what its children have
    /// returned to it.
    pub async fn document(&self, id: DocumentId) -> Result<Document, ToolError> {
        let document = self.registry.source.read_document(&self.caller, id).await?;
        match self.caller.may_read(document.project_id, document.run_id) {
            true => Ok(document),
            false => Err(ToolError::NotFound(format!("document {id}"))),
        }
    }

    /// A document of the context or of the run, or one that a tool has just written for this call. It is no call of a
    /// tool: the role service reads it to check what a role says of it. Its project must offer `read_document`, in
    /// every scope.
    pub async fn source(&self, id: DocumentId) -> Result<Document, ToolError> {
        if let Some(kept) = self.kept.find(id) {
            return Ok(kept);
        }
        let source = self.registry.source.as_ref();
        let document = source.read_document(&self.caller, id).await?;
        if !self.caller.may_read(document.project_id, document.run_id) {
            return Err(ToolError::NotFound(format!("document {id}")));
        }
        builtin::readable(source, &self.caller, &document).await?;
        Ok(document)
    }

    /// The tools that the run is offered now. Their names are unique. Fails if the rules of its projects cannot be
    /// read.
    pub async fn specs(&self) -> Result<Vec<Arc<ToolSpec>>, ToolError> {
        Ok(self.offered(&self.rules().await?).into_iter().map(|tool| tool.spec).collect())
    }

    fn offered(&self, rules: &Rules) -> Vec<Offered> {
        self.registry.offered(&self.caller.context, rules)
    }

    /// What holds for the tools of the run now.
    async fn rules(&self) -> Result<Rules, ToolError> {
        let Caller { context, read_only, .. } = &self.caller;
        // In global context the project that a call is about decides, if it is about one. Nobody knows which one a
        // tool of an MCP server is about, so all of them decide.
        if context.scope == Scope::Global {
            let has_foreign = !self.registry.servers.tools(context).is_empty();
            let reached = match has_foreign {
                true => self.registry.source.list_projects(&self.caller, u32::MAX).await?,
                false => Vec::new(),
            };
            let reached = reached.into_iter().map(|project| project.rules).collect();
            return Ok(Rules {
                read_only: *read_only,
                projects: None,
                reached,
                reads_only: false,
                state: None,
            });
        }
        let states = self.registry.source.project_states(&self.caller, &context.project_ids).await?;
        let named = context.project_ids.iter().zip(&states);
        let revision = |state: &Option<ProjectState>| state.as_ref().map_or(u64::MAX, |state| state.revision);
        let state = answers::state(named.map(|(id, state)| (id.to_string(), revision(state))));
        let known = || states.iter().flatten();
        let reads_only = known().next().is_some() && known().all(|state| state.reads_only);
        let projects = Some(known().map(|state| state.rules.clone()).collect());
        Ok(Rules { read_only: *read_only, projects, reached: Vec::new(), reads_only, state })
    }

    /// Checks the arguments against the tool's schema and calls the tool `name`, if the rules of the projects allow it
    /// now. A `null` for an optional argument counts as absent.
    pub async fn call(&self, name: &str, args: &Map<String, Value>) -> Result<ToolOutput, ToolError> {
        match self.begin(name, args, "").await? {
            ToolStart::Known { output, .. } => Ok(*output),
            ToolStart::Ready(ready) => ready.call().await,
        }
    }

    /// The same up to the call itself. `asker` names the call among all of the run.
    pub async fn begin(
        &self,
        name: &str,
        args: &Map<String, Value>,
        asker: &str,
    ) -> Result<ToolStart, ToolError> {
        let rules = self.rules().await?;
        let mut offered = self.offered(&rules);
        let Some(at) = offered.iter().position(|tool| tool.spec.name == name) else {
            let names: Vec<_> = offered.iter().map(|tool| tool.spec.name()).collect();
            return Err(ToolError::UnknownTool { name: name.to_owned(), available: names.join(", ") });
        };
        let offered = offered.swap_remove(at);
        let args = without_nulls(args, offered.spec.schema());
        offered.spec.schema.check(name, &args)?;
        let Some(state) = self.state_of(&offered, rules.state).await? else {
            return Ok(ToolStart::Ready(Box::new(Ready {
                tools: self.clone(),
                offered,
                args,
                asking: None,
            })));
        };
        let fresh = self.caller.answers == Some(AnswerUse::Keep);
        let asker = if fresh { asker } else { "" };
        let question =
            Question { tool: name, args: &args, context: &self.caller.context, state: &state, asker };
        let (path, title) = (question.path(), format!("Answer of {name}"));
        let source = self.registry.source.as_ref();
        match answers::look_up(source, &self.caller, &self.registry.answers, path, title, fresh).await {
            Ok(Answer { output, node }) => {
                if let Some(kept) = &output.kept {
                    self.kept.insert(&self.caller, kept);
                }
                Ok(ToolStart::Known { output: Box::new(output), node })
            }
            Err(asking) => {
                let ready = Ready { tools: self.clone(), offered, args, asking: Some(asking) };
                Ok(ToolStart::Ready(Box::new(ready)))
            }
        }
    }

    /// Names the state of what the tool looks at. None if its answers are not kept: it writes, or nobody can tell
    /// whether something has changed.
    async fn state_of(
        &self,
        offered: &Offered,
        of_projects: Option<String>,
    ) -> Result<Option<String>, ToolError> {
        if self.caller.answers.is_none() || offered.writes {
            return Ok(None);
        }
        match &offered.server {
            Some((server, _)) => Ok(server.period()),
            None if self.caller.context.scope == Scope::Global => {
                answers::global_state(self.registry.source.as_ref(), &self.caller).await
            }
            None => Ok(of_projects),
        }
    }
}

/// Models often send `null` for arguments that they leave out.
fn without_nulls(args: &Map<String, Value>, schema: &Value) -> Map<String, Value> {
    let required = schema.get("required").and_then(Value::as_array);
    let required = |name: &str| required.is_some_and(|names| names.iter().any(|n| n == name));
    let kept = args.iter().filter(|(name, value)| !value.is_null() || required(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}
