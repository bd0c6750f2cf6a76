//! Research in a guided search: the sources of what speaks of the objective are the first level, and the headings below
//! which they do so are the second.
//!
//! The document of a source quotes the best of its passages, that of a heading what stands below it and was not quoted
//! above. Any other topic, such as one that a person added, is a question of its own.

use std::collections::BTreeSet;

use serde_json::json;
use tree_agent_contract::limits;
use tree_agent_contract::role::{
    ResearchForm, ResearchInput, ResearchOutput, RoleError, RoleErrorKind, ScratchpadDraft,
};
use tree_agent_contract::search::{ChildDraft, ChildEntry, clean_title, tidy};
use tree_agent_contract::session::{SessionMessage, Speaker};
use tree_agent_contract::text::count;
use tree_agent_frontmatter::{Schema, parse, write};

use super::answer::Answer;
use super::evidence::{best, wait};
use super::execute;
use super::hits::{Hit, MANY_HITS, search};
use super::read::{Read, quotes};
use super::step::Pick;
use super::{WORDS, short};
use crate::io::RoleIo;

/// What the frontmatter names as the author.
const AUTHOR: &str = "offline model: it quotes and does not reason";

/// Does the research.
pub(super) async fn research(input: &ResearchInput, io: &RoleIo) -> Result<ResearchOutput, RoleError> {
    match input.form {
        ResearchForm::Root => first_level(input, io).await,
        ResearchForm::Topic => topic(input, io).await,
    }
}

async fn first_level(input: &ResearchInput, io: &RoleIo) -> Result<ResearchOutput, RoleError> {
    let objective = &input.call.objective;
    let found = search(io, objective, "", MANY_HITS, wait(&input.call)).await?;
    if let Some(unable) = found.unable {
        return Err(RoleError::new(RoleErrorKind::Rejected, unable));
    }
    let mut drafts: Vec<ChildDraft> = Vec::new();
    for hit in &found.hits {
        let title = document_title(&hit.title, &hit.path);
        if !drafts.iter().any(|draft| draft.title == title) {
            drafts.push(ChildDraft { title, slug: None, score: promise(hit) });
        }
    }
    let mut summary = format!("{} hold what speaks of the objective.", count(drafts.len(), "document"));
    if drafts.is_empty() {
        drafts.push(ChildDraft { title: short(objective, 300), ..ChildDraft::default() });
        summary = "Nothing speaks of the objective.".to_owned();
    }
    let (children, dropped) = capped(drafts, input);
    let scratchpad = ScratchpadDraft::of(format!("**First level.** {summary}\n{}", lines(&children)));
    Ok(ResearchOutput {
        document_markdown: None,
        summary,
        children,
        dropped,
        messages: Vec::new(),
        scratchpad,
    })
}

/// How much the first passage of a topic promises: the share of passages that are no better, in two digits.
fn promise(hit: &Hit) -> Option<f64> {
    Some(f64::from((MANY_HITS as u32 + 1).saturating_sub(hit.rank)) / MANY_HITS as f64)
}

async fn topic(input: &ResearchInput, io: &RoleIo) -> Result<ResearchOutput, RoleError> {
    let title = short(&input.call.title, 512);
    let path = input.path.first().and_then(|title| path_of(title)).unwrap_or_default();
    let mut hits = match path {
        "" => Vec::new(),
        path => search(io, &input.call.objective, path, MANY_HITS, 0).await?.hits,
    };
    let common = common_headings(&hits);
    let mut drafts: Vec<ChildDraft> = Vec::new();
    let (quoted, further) = best(std::mem::take(&mut hits), WORDS);
    if input.path.len() == 1 {
        for hit in &further {
            let Some(heading) = hit.headings.get(common) else { continue };
            if !drafts.iter().any(|draft| is_same(&draft.title, heading)) {
                drafts.push(ChildDraft { title: heading.clone(), slug: None, score: promise(hit) });
            }
        }
        hits = quoted;
    } else if let [_, heading] = input.path.as_slice() {
        let below = |hit: &Hit| hit.headings.get(common).is_some_and(|own| is_same(own, heading));
        hits = best(further.into_iter().filter(below).collect(), WORDS).0;
    }
    let answer = match hits.is_empty() {
        true => execute::answer(io, &title, 0, WORDS).await?,
        false => {
            let picks: Vec<Pick> = hits.iter().map(Pick::of).collect();
            let Read { quotes, gaps, .. } = quotes(io, &input.call.objective, &picks).await?;
            Answer { quotes, gaps, language: io.language().to_owned(), ..Answer::default() }
        }
    };
    let (markdown, summary) = (answer.markdown(&title), answer.summary());
    let document = with_frontmatter(input, &title, &summary, &answer, &markdown)?;
    let (children, dropped) = capped(drafts, input);
    let topics = if children.is_empty() { "None.".to_owned() } else { lines(&children) };
    let messages = vec![
        SessionMessage::new(Speaker::User, &format!("Document: {}", input.path.join(" › "))),
        SessionMessage::new(Speaker::Assistant, &markdown),
        SessionMessage::new(Speaker::User, "Topics below?"),
        SessionMessage::new(Speaker::Assistant, &topics),
    ];
    Ok(ResearchOutput {
        document_markdown: Some(document),
        scratchpad: ScratchpadDraft::of(format!("**Read.** {summary}\n\nTopics below: {topics}\n")),
        summary,
        children,
        dropped,
        messages,
    })
}

/// The title of the topic that stands for a document.
fn document_title(title: &str, path: &str) -> String {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    format!("{} (`{path}`)", if title.is_empty() { name } else { title })
}

/// The document that a topic stands for.
fn path_of(title: &str) -> Option<&str> {
    Some(title.strip_suffix("`)")?.rsplit_once(" (`")?.1)
}

/// How many headings, from the outermost, all passages share: the title of their document.
fn common_headings(hits: &[Hit]) -> usize {
    let Some(first) = hits.first() else { return 0 };
    hits.iter().fold(first.headings.len().min(1), |common, hit| {
        first.headings.iter().zip(&hit.headings).take(common).take_while(|(a, b)| a == b).count()
    })
}

/// True if a heading and a title that was made of it are the same.
fn is_same(title: &str, heading: &str) -> bool {
    clean_title(title).to_lowercase() == clean_title(heading).to_lowercase()
}

/// The document with its frontmatter. It can say its title, its summary, its sources and who wrote it; a schema that
/// wants more is one that this model cannot meet.
fn with_frontmatter(
    input: &ResearchInput,
    title: &str,
    summary: &str,
    answer: &Answer,
    markdown: &str,
) -> Result<String, RoleError> {
    let sources: BTreeSet<&str> = answer.quotes.iter().map(|quote| quote.path.as_str()).collect();
    let mut fields = vec![
        ("title", json!(title)),
        ("summary", json!(summary)),
        ("sources", json!(sources)),
        ("author", json!(AUTHOR)),
    ];
    let Some(wanted) = &input.frontmatter_schema else { return Ok(write(fields, markdown)) };
    if wanted.get("additionalProperties") == Some(&json!(false)) {
        let known = wanted.get("properties").and_then(|p| p.as_object());
        fields.retain(|(name, _)| known.is_some_and(|known| known.contains_key(*name)));
    }
    let rejected = |message: String| RoleError::new(RoleErrorKind::Rejected, message);
    let schema = Schema::new(wanted)
        .map_err(|error| rejected(format!("the schema of the frontmatter cannot be used: {error}")))?;
    let document = write(fields, markdown);
    let errors =
        parse(&document).map_or_else(|error| vec![error], |document| schema.errors(&document.fields));
    match errors.as_slice() {
        [] => Ok(document),
        errors => Err(rejected(format!(
            "the offline model writes the frontmatter title, summary, sources and author, which does not meet the \
             schema: {}",
            errors.join("; ")
        ))),
    }
}

fn capped(drafts: Vec<ChildDraft>, input: &ResearchInput) -> (Vec<ChildEntry>, u32) {
    let mut tidied = tidy(drafts);
    let most = (input.max_children as usize).min(limits::SEARCH_CHILDREN);
    if tidied.children.len() > most {
        tidied.dropped = tidied.dropped.saturating_add((tidied.children.len() - most) as u32);
        tidied.children.truncate(most);
    }
    (tidied.children, tidied.dropped)
}

fn lines(children: &[ChildEntry]) -> String {
    children.iter().map(|child| format!("- {}\n", child.title)).collect()
}
