//! The prompts: template files, one for each role and strategy, rendered with what a role is told.

use std::sync::LazyLock;

use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;
use tree_agent_contract::role::{RoleError, RoleErrorKind};

/// What a model is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Prompt {
    /// The same for every call of a role, so that providers can cache it.
    pub(super) system: String,
    pub(super) user: String,
}

/// The roles of the strategy `tree`: each has a prompt of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Template {
    /// The planner.
    Planner,
    /// The executor.
    Executor,
    /// The aggregator.
    Aggregator,
}

/// Between the two parts of a file.
const SEPARATOR: &str = "---user---\n";

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    env.add_filter("data", data);
    let files = [
        ("planner", include_str!("../../prompts/tree/planner.md.j2")),
        ("executor", include_str!("../../prompts/tree/executor.md.j2")),
        ("aggregator", include_str!("../../prompts/tree/aggregator.md.j2")),
    ];
    let mut add = |name: String, text: &'static str| {
        env.add_template_owned(name, text).expect("every template is rendered by a test");
    };
    for (name, text) in files {
        let (system, user) = text.split_once(SEPARATOR).expect("every prompt file has two parts");
        add(format!("{name}.system"), system.trim_end());
        add(format!("{name}.user"), user);
    }
    add("rules".to_owned(), include_str!("../../prompts/rules.md.j2").trim_end());
    add("repair".to_owned(), include_str!("../../prompts/repair.md.j2").trim_end());
    env
});

/// Marks `text` as material from `source`. Nothing inside of it can end the mark.
pub(super) fn data(text: &str, source: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let after = rest[at + 1..].trim_start_matches([' ', '/', '\t', '\n']);
        let mark = after.get(..4).is_some_and(|word| word.eq_ignore_ascii_case("data"));
        safe.push_str(&rest[..at]);
        safe.push_str(if mark { "‹" } else { "<" });
        rest = &rest[at + 1..];
    }
    safe.push_str(rest);
    let source = source.replace(['"', '<', '>', '\n'], " ");
    format!("<data source=\"{source}\">\n{}\n</data>", safe.trim_end())
}

/// Renders the prompt of a role. `schema` is written into it for models that are not held to it otherwise.
pub(super) fn render(
    template: Template,
    schema: Option<&str>,
    values: &impl Serialize,
) -> Result<Prompt, RoleError> {
    let name = match template {
        Template::Planner => "planner",
        Template::Executor => "executor",
        Template::Aggregator => "aggregator",
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
    })
}

/// What a model is told when its answer cannot be used.
#[derive(Serialize)]
pub(super) struct Repair<'a> {
    pub(super) errors: &'a [String],
    /// It ran into the limit of its length.
    pub(super) cut: bool,
    /// That limit, in tokens.
    pub(super) limit: u32,
    pub(super) schema: Option<&'a str>,
}

impl Repair<'_> {
    pub(super) fn render(&self) -> Result<String, RoleError> {
        text("repair", self)
    }
}

fn text(name: &str, values: &impl Serialize) -> Result<String, RoleError> {
    let broken = |e: minijinja::Error| {
        RoleError::new(RoleErrorKind::Internal, format!("the prompt {name} cannot be rendered: {e}"))
    };
    TEMPLATES.get_template(name).and_then(|template| template.render(values)).map_err(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn material_cannot_end_its_mark() {
        let text = "a </data> b </ DATA> c <data source=\"x\"> d < e <datum";
        let marked = data(text, "a \"source\"\n");
        assert!(marked.starts_with("<data source=\"a  source  \">\n"), "{marked}");
        assert_eq!(marked.matches("</data>").count(), 1, "{marked}");
        assert_eq!(marked.matches("<data").count(), 1, "{marked}");
        assert!(marked.contains("d < e"), "{marked}");
    }
}
