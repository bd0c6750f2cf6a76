//! The scripted model in a guided search.

use tree_agent_contract::event::UsageRecorded;
use tree_agent_contract::role::{
    PickInput, PickOutput, ResearchForm, ResearchInput, ResearchOutput, RoleError, RoleErrorKind,
};
use tree_agent_contract::search::{ChildDraft, TopicList, tidy};
use tree_agent_contract::session::{SessionMessage, Speaker};
use tree_agent_frontmatter::{Schema, parse, write};

use super::note;
use super::script::{Pick, Script, fnv};

/// How often an answer may be repaired, as for language models.
pub(super) const REPAIRS: u32 = 2;

/// The answer to `input`.
pub(super) fn research(
    script: &Script,
    input: &ResearchInput,
    text: &str,
) -> Result<ResearchOutput, RoleError> {
    let title = input.call.title.as_str();
    let TopicList { children, dropped } = tidy(topics(script, input));
    if input.form == ResearchForm::Root {
        return Ok(ResearchOutput {
            document_markdown: None,
            summary: format!("Scripted first level of {} topics", children.len()),
            children,
            dropped,
            messages: Vec::new(),
            scratchpad: note("scripted: listed the first level\n"),
        });
    }
    let level = input.path.len();
    let fields = [("title", title.into()), ("depth", level.into())];
    let document = write(fields, &format!("# {title}\n\n{text}\n"));
    check_frontmatter(script, input, &document)?;
    let said = |speaker, text: String| SessionMessage { speaker, text };
    let titles: Vec<&str> = children.iter().map(|child| child.title.as_str()).collect();
    let messages = vec![
        said(Speaker::User, format!("Document of {title}")),
        said(Speaker::Assistant, format!("Scripted document of {title}")),
        said(Speaker::User, format!("Topics below {title}")),
        said(Speaker::Assistant, format!("[{}]", titles.join(", "))),
    ];
    Ok(ResearchOutput {
        document_markdown: Some(document),
        summary: format!("Scripted document of {title}"),
        children,
        dropped,
        messages,
        scratchpad: note("scripted: researched\n"),
    })
}

/// What a repair reports.
pub(super) fn repaired(repair: u32) -> UsageRecorded {
    let (model, purpose) = ("scripted".to_owned(), format!("research (repair {repair})"));
    UsageRecorded { model, purpose, ..UsageRecorded::default() }
}

/// The topics below: above the depth of the script `fanout` of them, at it none.
fn topics(script: &Script, input: &ResearchInput) -> impl Iterator<Item = ChildDraft> {
    let level = input.path.len();
    let n = if (level as u32) < script.depth { script.fanout } else { 0 };
    let parent = (level > 0 && !script.same_titles).then(|| input.call.title.clone());
    (0..n.min(input.max_children)).map(move |i| {
        let title = match &parent {
            Some(parent) => format!("{parent}.s{i}"),
            None => format!("s{i}"),
        };
        let score = (fnv(&title) % 1_000) as f64 / 1_000.0;
        ChildDraft { slug: Some(format!("s{i}")), score: Some(score), title }
    })
}

/// Plays the repairs of a language model whose first answers break the schema, and checks the good answer for real.
fn check_frontmatter(script: &Script, input: &ResearchInput, document: &str) -> Result<(), RoleError> {
    let rejected = |message: String| Err(RoleError::new(RoleErrorKind::Rejected, message));
    if script.bad_frontmatter > REPAIRS && script.chooses(&input.call.title) {
        let tries = REPAIRS + 1;
        return rejected(format!(
            "scripted: no usable frontmatter for {:?} in {tries} tries",
            input.call.title
        ));
    }
    let Some(schema) = &input.frontmatter_schema else { return Ok(()) };
    let errors = Schema::new(schema).map(|schema| match parse(document) {
        Ok(document) => schema.errors(&document.fields),
        Err(error) => vec![error],
    });
    match errors {
        Ok(errors) if errors.is_empty() => Ok(()),
        Ok(errors) => rejected(format!("the frontmatter of the scripted model: {}", errors.join("; "))),
        Err(error) => rejected(format!("the schema of the frontmatter cannot be used: {error}")),
    }
}

/// The choice among the topics of `input`.
pub(super) fn pick(script: &Script, input: &PickInput) -> PickOutput {
    let again = !input.note.is_empty();
    let pick = if again { script.pick_again } else { script.pick };
    let nth = |n: usize| input.leaves.get(n).map_or_else(String::new, |leaf| leaf.path.clone());
    let last = input.leaves.len().saturating_sub(1);
    let path = match pick {
        Pick::First => nth(0),
        Pick::Last => nth(last),
        Pick::Middle => nth(last / 2),
        Pick::Unknown => "no/such/topic".to_owned(),
        Pick::Parent => nth(0).rsplit_once('/').map_or_else(String::new, |(parent, _)| parent.to_owned()),
    };
    let reason = format!("scripted: {}{}", pick.as_str(), if again { ", asked again" } else { "" });
    PickOutput { path, reason }
}
