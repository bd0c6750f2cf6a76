//! The prompts: one template file for each role and strategy, rendered with the input of the role.

use std::sync::LazyLock;

use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;
use tree_agent_contract::DocumentId;
use tree_agent_contract::event::PromptDocument;
use tree_agent_contract::role::{RoleError, RoleErrorKind};

use super::material::data;

/// A rendered prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Prompt {
    /// The same for all calls of a role, so that providers can cache it.
    pub(super) system: String,
    pub(super) user: String,
    /// The documents of which it holds text.
    pub(super) documents: Vec<PromptDocument>,
    /// The task of the node, on one line.
    pub(super) task: String,
    /// One of the documents, for an example.
    pub(super) example: Option<DocumentId>,
}

/// The prompts: those of the strategy `tree`, one for each role, that of the verifier, those of a guided search, and
/// that of the planner of homework.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Template {
    /// The planner.
    Planner,
    /// The executor.
    Executor,
    /// The aggregator.
    Aggregator,
    /// The verifier of the answer.
    Verifier,
    /// The planner of homework.
    Homework,
    /// The picker of a search.
    Picker,
    /// The first level of a search.
    SearchRoot,
    /// The document of a topic.
    SearchDocument,
    /// The topics below a topic.
    SearchChildren,
}

/// Separates the two parts of a file.
const SEPARATOR: &str = "---user---\n";

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    env.add_filter("data", data);
    let files = [
        ("planner", include_str!("../../prompts/tree/planner.md.j2")),
        ("executor", include_str!("../../prompts/tree/executor.md.j2")),
        ("aggregator", include_str!("../../prompts/tree/aggregator.md.j2")),
        ("verifier", include_str!("../../prompts/tree/verifier.md.j2")),
        ("homework", include_str!("../../prompts/homework/planner.md.j2")),
        ("picker", include_str!("../../prompts/search/picker.md.j2")),
    ];
    let mut add = |name: String, text: &'static str| {
        env.add_template_owned(name, text).expect("every template is rendered by a test");
    };
    for (name, text) in files {
        let (system, user) = text.split_once(SEPARATOR).expect("every prompt file has two parts");
        add(format!("{name}.system"), system.trim_end());
        add(format!("{name}.user"), user);
    }
    // All prompts of a conversation share what stands before them.
    let system = include_str!("../../prompts/search/system.md.j2").trim_end();
    let tail = include_str!("../../prompts/search/tail.md.j2");
    for (name, user) in [
        ("search.root", include_str!("../../prompts/search/root.md.j2")),
        ("search.document", include_str!("../../prompts/search/document.md.j2")),
        ("search.children", include_str!("../../prompts/search/children.md.j2")),
    ] {
        add(format!("{name}.system"), system);
        add(format!("{name}.user"), user.trim_end());
    }
    add("search.tail".to_owned(), tail);
    add("rules".to_owned(), include_str!("../../prompts/rules.md.j2").trim_end());
    add("document".to_owned(), include_str!("../../prompts/document.md.j2").trim_end());
    add("citations".to_owned(), include_str!("../../prompts/citations.md.j2").trim_end());
    add("repair".to_owned(), include_str!("../../prompts/repair.md.j2").trim_end());
    env
});

/// Renders the prompt of a role. It contains `schema` if the provider does not enforce it.
pub(super) fn render(
    template: Template,
    schema: Option<&str>,
    values: &impl Serialize,
) -> Result<Prompt, RoleError> {
    let name = match template {
        Template::Planner => "planner",
        Template::Executor => "executor",
        Template::Aggregator => "aggregator",
        Template::Verifier => "verifier",
        Template::Homework => "homework",
        Template::Picker => "picker",
        Template::SearchRoot => "search.root",
        Template::SearchDocument => "search.document",
        Template::SearchChildren => "search.children",
    };
    #[derive(Serialize)]
    struct Schema<'a> {
        schema: Option<&'a str>,
    }
    #[derive(Serialize)]
    struct Values<'a, T> {
        rules: String,
        #[serde(flatten)]
        values: &'a T,
    }
    let values = Values { rules: text("rules", &Schema { schema })?, values };
    Ok(Prompt {
        system: text(&format!("{name}.system"), &values)?,
        user: text(&format!("{name}.user"), &values)?,
        ..Prompt::default()
    })
}

/// What follows every prompt of a search, also one that a user replaced.
pub(super) fn search_tail(values: &impl Serialize) -> Result<String, RoleError> {
    text("search.tail", values)
}

/// The reply to an unusable answer.
#[derive(Serialize)]
pub(super) struct Repair<'a> {
    pub(super) errors: &'a [String],
    /// The answer was cut off at its limit.
    pub(super) cut: bool,
    /// That limit, in tokens.
    pub(super) limit: u32,
    pub(super) schema: Option<&'a str>,
    /// What is asked for again.
    pub(super) whole: &'static str,
}

impl Repair<'_> {
    pub(super) fn render(&self) -> Result<String, RoleError> {
        text("repair", self)
    }
}

/// The request for the text of a document.
#[derive(Serialize)]
pub(super) struct DocumentPrompt<'a> {
    pub(super) label: &'a str,
    pub(super) title: &'a str,
    /// What the document answers.
    pub(super) task: &'a str,
    /// A document for the example of a footnote: small models copy what stands there.
    pub(super) example: Option<DocumentId>,
    /// The answer before was cut off at its limit.
    pub(super) cut: bool,
}

impl DocumentPrompt<'_> {
    pub(super) fn render(&self) -> Result<String, RoleError> {
        text("document", self)
    }
}

/// A citation that does not hold, as the model is told.
#[derive(Serialize)]
pub(super) struct FailedCitation {
    pub(super) number: usize,
    pub(super) claim: String,
    pub(super) document_id: String,
    pub(super) quote: String,
    pub(super) why: &'static str,
}

/// The request to repair citations.
#[derive(Serialize)]
pub(super) struct CitationsPrompt<'a> {
    pub(super) failed: &'a [FailedCitation],
}

impl CitationsPrompt<'_> {
    pub(super) fn render(&self) -> Result<String, RoleError> {
        text("citations", self)
    }
}

fn text(name: &str, values: &impl Serialize) -> Result<String, RoleError> {
    let broken = |e: minijinja::Error| {
        RoleError::new(RoleErrorKind::Internal, format!("the prompt {name} cannot be rendered: {e}"))
    };
    TEMPLATES.get_template(name).and_then(|template| template.render(values)).map_err(broken)
}
