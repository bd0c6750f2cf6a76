//! What the tools are called, what they take, and what they do to the world.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Deserialize;

/// How to use the tools, for the assistant.
pub(crate) const INSTRUCTIONS: &str = "tree-agent answers questions that are too large for one prompt: a tree of agents \
    divides the work, reads the documents of projects, and writes one answer whose quotes are checked. \
    start_research returns at once with the id of a run. Call wait_research with this id until the run has ended, then \
    research_result, and cite for the quote behind a statement. A run goes on while nobody waits, and after the server \
    or you have started again. search_documents and read_document look at the documents directly.";

/// A run that begins.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Start {
    /// What to find out: a question, or a brief of several parts.
    pub(crate) objective: String,
    /// Ids or names of the projects whose documents are read. All that the user may read, if it is left out.
    #[serde(default)]
    pub(crate) projects: Vec<String>,
    /// How the work is divided. tree: a plan that is carried out in parallel. search: topics that are explored one
    /// after the other. homework: several rounds over the same branches.
    #[serde(default)]
    pub(crate) strategy: Strategy,
    /// A model as list_projects names it; the server's own, if it is left out.
    #[serde(default)]
    pub(crate) model: String,
    /// The most that the run may cost, in US dollars.
    pub(crate) max_cost_usd: Option<f64>,
    /// The longest that it may take, in minutes.
    pub(crate) max_minutes: Option<u32>,
    /// The run waits for a person once it has a plan. Answer with steer_research.
    #[serde(default)]
    pub(crate) review: bool,
    /// The same text again starts no second run. Use one per question, so that a call can be repeated safely.
    #[serde(default)]
    pub(crate) request_id: String,
}

#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Strategy {
    #[default]
    Tree,
    Search,
    Homework,
}

/// A wait.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wait {
    /// The id of the run.
    pub(crate) run: String,
    /// `since` of the answer before, so that a pause which is known already is no reason to answer.
    #[serde(default)]
    pub(crate) since: u64,
    /// How long to wait, in seconds: 0 to 45.
    #[serde(default = "usual_seconds")]
    #[schemars(range(max = 45))]
    pub(crate) seconds: u64,
}

fn usual_seconds() -> u64 {
    30
}

/// A run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfRun {
    /// The id of the run.
    pub(crate) run: String,
}

/// Quotes of an answer.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cite {
    /// The id of the run.
    pub(crate) run: String,
    /// Only statements or quotes with this text.
    #[serde(default)]
    pub(crate) containing: String,
    /// At most so many: 1 to 50.
    #[serde(default = "usual_limit")]
    #[schemars(range(min = 1, max = 50))]
    pub(crate) limit: usize,
}

fn usual_limit() -> usize {
    20
}

/// A command to a run.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Steer {
    /// The id of the run.
    pub(crate) run: String,
    /// pause: nothing new begins. resume: ends a pause. guide: tells the next calls `text`. stop: nothing new begins,
    /// and what there is becomes the answer, or with a node the answer of that node. approve: the answer to a review,
    /// with `text` for what to do otherwise.
    pub(crate) action: Action,
    /// The node to steer, with everything below it; the whole run if it is left out.
    #[serde(default)]
    pub(crate) node: String,
    /// What to tell.
    #[serde(default)]
    pub(crate) text: String,
}

#[derive(Clone, Copy, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    Pause,
    Resume,
    Guide,
    Stop,
    Approve,
}

/// Nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// A search.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Search {
    /// Words, or a question.
    pub(crate) query: String,
    /// Ids or names of projects; all if it is left out.
    #[serde(default)]
    pub(crate) projects: Vec<String>,
    /// At most so many passages: 1 to 50.
    #[serde(default = "usual_limit")]
    #[schemars(range(min = 1, max = 50))]
    pub(crate) limit: usize,
}

/// A part of a document.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Read {
    /// The id of the document, as search_documents and cite name it.
    pub(crate) document: String,
    /// The first character, counted from 0.
    #[serde(default)]
    pub(crate) from: usize,
    /// At most so many characters: 1 to 30000.
    #[serde(default = "usual_characters")]
    #[schemars(range(min = 1, max = 30_000))]
    pub(crate) characters: usize,
}

fn usual_characters() -> usize {
    8_000
}

/// All tools.
pub(crate) fn all() -> Vec<Tool> {
    let reads = || ToolAnnotations::new().read_only(true).open_world(false);
    let writes = || ToolAnnotations::new().read_only(false).destructive(false);
    vec![
        tool::<Start>(
            "start_research",
            "Starts a run and returns its id within a second. It costs what its models cost, up to max_cost_usd.",
            // Its tools may reach what the server is configured for.
            writes().idempotent(false).open_world(true),
        ),
        tool::<Wait>(
            "wait_research",
            "Waits, for at most 45 seconds, until a run has ended or needs a person, and says how far it is.",
            reads(),
        ),
        tool::<OfRun>(
            "research_result",
            "The answer of a run that has ended, with how many of its statements are supported, and sources that \
             disagree.",
            reads(),
        ),
        tool::<Cite>(
            "cite",
            "The quotes behind the statements of an answer: each with its document, its place, and whether it was \
             found there.",
            reads(),
        ),
        tool::<Steer>(
            "steer_research",
            "Pauses, resumes, guides or stops a run, or answers its review.",
            writes().destructive(true).idempotent(true).open_world(false),
        ),
        tool::<Nothing>("list_projects", "The projects with their documents, and the models.", reads()),
        tool::<Search>("search_documents", "Passages of documents, the best first.", reads()),
        tool::<Read>("read_document", "The text of a document, a part at a time.", reads()),
    ]
}

fn tool<T: JsonSchema>(name: &'static str, about: &'static str, hints: ToolAnnotations) -> Tool {
    let schema = serde_json::to_value(schemars::schema_for!(T)).unwrap_or_default();
    let schema: JsonObject = schema.as_object().cloned().unwrap_or_default();
    let mut tool = Tool::new(name, about, Arc::new(schema));
    tool.annotations = Some(hints);
    tool
}
