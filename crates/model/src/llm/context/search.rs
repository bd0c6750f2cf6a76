//! The inputs of a guided search as its prompts show them.
//!
//! A prompt that a user replaced takes the place of ours, with its names filled in. What stands before it, and the
//! remarks after it, stay, because the answer could not be read without them.

use std::fmt::Write;

use serde::Serialize;
use tree_agent_contract::language::language;
use tree_agent_contract::role::{
    CallContext, OfferedLeaf, PickInput, ResearchForm, ResearchInput, RoleError,
};
use tree_agent_contract::search::{Expansion, fill};

use super::super::ask::Setting;
use super::super::material::line;
use super::super::prompt::{Prompt, Template, render, search_tail};
use super::super::survey::Hit;
use super::PromptTrimmer;

#[derive(Serialize)]
struct TopicView {
    title: String,
    slug: String,
    path: String,
    parents: String,
    depth: usize,
    objective: String,
    reason: String,
    siblings: String,
    /// The English name of the language of the run; empty if nobody knows.
    language: &'static str,
    max_children: u32,
    /// The schema of the frontmatter, for what stands before the prompt.
    frontmatter: Option<String>,
}

#[derive(Serialize)]
struct Tail<'a> {
    /// What a search for the topic finds.
    passages: Vec<Hit>,
    outline: String,
    schema: Option<&'a str>,
    shortened: u32,
    finish: Option<String>,
    left_out: Vec<String>,
}

impl TopicView {
    fn of(input: &ResearchInput, trimmer: &mut PromptTrimmer) -> Self {
        let siblings: Vec<String> = input.siblings.iter().map(|title| format!("- {}", line(title))).collect();
        let path: Vec<String> = input.path.iter().map(|title| line(title)).collect();
        Self {
            title: trimmer.own(&line(&input.call.title)),
            slug: input.slug.clone(),
            path: trimmer.own(&path.join(" › ")),
            parents: trimmer.own(&path[..path.len().saturating_sub(1)].join(" › ")),
            depth: path.len(),
            objective: trimmer.own(&input.call.objective),
            reason: match input.form {
                // The root of a search inside of a tree has a reason of its own.
                ResearchForm::Root if input.call.depth > 0 => trimmer.own(&line(&input.call.reason)),
                _ => String::new(),
            },
            siblings: trimmer.summary(&siblings.join("\n")),
            language: language(&input.call.language).map_or("", |language| language.name),
            max_children: input.max_children,
            frontmatter: input.frontmatter_schema.as_ref().and_then(|s| serde_json::to_string(s).ok()),
        }
    }

    fn values(&self) -> [(&'static str, String); 10] {
        [
            ("title", self.title.clone()),
            ("slug", self.slug.clone()),
            ("path", self.path.clone()),
            ("parents", self.parents.clone()),
            ("depth", self.depth.to_string()),
            // Whoever is asked about a topic is researching it.
            ("status", Expansion::InProgress.to_string()),
            ("objective", self.objective.clone()),
            ("siblings", self.siblings.clone()),
            ("schema", self.frontmatter.clone().unwrap_or_default()),
            ("max_children", self.max_children.to_string()),
        ]
    }
}

/// The prompt for the document of a topic.
pub(in crate::llm) fn document(
    input: &ResearchInput,
    passages: &[Hit],
    setting: Setting<'_>,
    trimmer: &mut PromptTrimmer,
) -> Result<Prompt, RoleError> {
    research(input, Template::SearchDocument, input.prompts.document.as_deref(), passages, setting, trimmer)
}

/// The prompt for the topics below a topic, or for the first level.
pub(in crate::llm) fn children(
    input: &ResearchInput,
    setting: Setting<'_>,
    trimmer: &mut PromptTrimmer,
) -> Result<Prompt, RoleError> {
    match input.form {
        ResearchForm::Root => {
            let replaced = input.prompts.root.as_deref();
            research(input, Template::SearchRoot, replaced, &[], setting, trimmer)
        }
        ResearchForm::Topic => {
            let replaced = input.prompts.children.as_deref();
            research(input, Template::SearchChildren, replaced, &[], setting, trimmer)
        }
    }
}

fn research(
    input: &ResearchInput,
    template: Template,
    replaced: Option<&str>,
    passages: &[Hit],
    setting: Setting<'_>,
    trimmer: &mut PromptTrimmer,
) -> Result<Prompt, RoleError> {
    let view = TopicView::of(input, trimmer);
    let mut prompt = render(template, None, &view)?;
    if let Some(replaced) = replaced {
        prompt.user = filled(replaced, &view.values());
    }
    tell(&mut prompt, &input.call, trimmer);
    // Whatever prompt lists topics, it is told of those that are there.
    let outline = match template {
        Template::SearchChildren => trimmer.outline(&input.outline),
        _ => String::new(),
    };
    let tail = Tail {
        passages: trimmer.passages(passages),
        outline,
        schema: setting.schema,
        shortened: setting.shortened,
        finish: finish(&input.call),
        left_out: trimmer.left_out(),
    };
    prompt.user.push_str(&search_tail(&tail)?);
    Ok(prompt)
}

fn filled(prompt: &str, values: &[(&'static str, String)]) -> String {
    let values: Vec<(&str, &str)> = values.iter().map(|(name, value)| (*name, value.as_str())).collect();
    fill(prompt, &values)
}

/// Adds what people have told the node, also to a prompt that a user replaced.
fn tell(prompt: &mut Prompt, call: &CallContext, trimmer: &mut PromptTrimmer) {
    let told = trimmer.told(call);
    if !told.is_empty() {
        let _ = write!(prompt.user, "\n\n# What the user says\n\n{told}");
    }
}

fn finish(call: &CallContext) -> Option<String> {
    call.finish.as_ref().map(|f| format!("{} of {} ({})", f.left, f.limit, f.budget))
}

#[derive(Serialize)]
struct PickerView {
    objective: String,
    outline: String,
    leaves: String,
    note: String,
    left_out: Vec<String>,
}

/// The picker's prompt.
pub(in crate::llm) fn picker(
    input: &PickInput,
    _setting: Setting<'_>,
    trimmer: &mut PromptTrimmer,
) -> Result<Prompt, RoleError> {
    let mut view = PickerView {
        objective: trimmer.own(&input.call.objective),
        outline: trimmer.outline(&input.outline),
        leaves: trimmer.own(&leaves(&input.leaves)),
        note: input.note.clone(),
        left_out: Vec::new(),
    };
    view.left_out = trimmer.left_out();
    let mut prompt = render(Template::Picker, None, &view)?;
    if let Some(replaced) = &input.prompt {
        let values = [
            ("objective", view.objective.clone()),
            ("outline", view.outline.clone()),
            ("leaves", view.leaves.clone()),
            ("note", view.note.clone()),
        ];
        prompt.user = filled(replaced, &values);
        // A picker that is asked again must know why.
        if !view.note.is_empty() && !prompt.user.contains(&view.note) {
            prompt.user.push_str("\n\n");
            prompt.user.push_str(&view.note);
        }
    }
    tell(&mut prompt, &input.call, trimmer);
    Ok(prompt)
}

/// One line for each topic that may be picked: its path, its title and what is known of it.
fn leaves(leaves: &[OfferedLeaf]) -> String {
    let mut lines = String::new();
    for leaf in leaves {
        let _ = write!(lines, "- {}: {}", leaf.path, line(&leaf.title));
        if let Some(score) = leaf.score {
            let _ = write!(lines, " (promises {score:.2})");
        }
        if leaf.leaves_below > 0 {
            let _ = write!(lines, " (a branch; {} topics in it)", leaf.leaves_below);
        }
        lines.push('\n');
    }
    lines
}
