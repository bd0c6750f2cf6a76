//! The two answers of a research: a document, and the topics below it.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tree_agent_contract::role::{ResearchForm, ResearchInput, RoleErrorKind};
use tree_agent_contract::search::{ChildDraft, TopicList, tidy};
use tree_agent_contract::{limits, text};
use tree_agent_frontmatter::{Schema as Frontmatter, parse, quoted};

use super::super::material::unmarked;
use super::schema::Schema;
use super::{Reply, json, line, read_as};

/// Bytes of a summary that is taken from a document.
const SUMMARY: usize = 1_000;

/// Reads the document of a topic: Markdown below YAML frontmatter that keeps to the schema of the run.
#[derive(Debug)]
pub(in crate::llm) struct DocumentReply;

/// A document and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::llm) struct ResearchedDocument {
    pub(in crate::llm) markdown: String,
    /// Its `summary` or `description`, else its first paragraph.
    pub(in crate::llm) summary: String,
}

impl Reply for DocumentReply {
    type Input = ResearchInput;
    type Output = ResearchedDocument;
    const WHOLE: &'static str = "document with its frontmatter";
    const SHARES_PREFIX: bool = true;
    // The next attempt would end in the same way, so the topic fails at once.
    const GIVEN_UP: RoleErrorKind = RoleErrorKind::Rejected;

    fn schema() -> Option<&'static Schema> {
        None
    }

    fn read(text: &str, input: &ResearchInput, _shown: bool) -> Result<ResearchedDocument, Vec<String>> {
        let mut markdown = unmarked(without_fence(text));
        if parse(&markdown).is_err()
            && let Some(quoted) = quoted(&markdown)
        {
            markdown = quoted;
        }
        if markdown.len() > limits::DOCUMENT_BYTES {
            let most = limits::DOCUMENT_BYTES;
            return Err(vec![format!("it is {} bytes long; at most {most} are allowed", markdown.len())]);
        }
        let document = parse(&markdown).map_err(|error| vec![error])?;
        if let Some(schema) = &input.frontmatter_schema {
            // The run was refused if its schema cannot be used.
            let schema = Frontmatter::new(schema).map_err(|error| vec![error])?;
            let errors = schema.errors(&document.fields);
            if !errors.is_empty() {
                return Err(errors);
            }
        }
        if document.body.trim().is_empty() {
            return Err(vec!["there is nothing below the frontmatter".to_owned()]);
        }
        let summary = summary(&document.fields, document.body);
        Ok(ResearchedDocument { markdown: format!("{}\n", markdown.trim_end()), summary })
    }
}

/// The document in an answer that has a code fence around the whole of it, or a remark before it.
fn without_fence(text: &str) -> &str {
    let text = text.trim().trim_start_matches('\u{feff}');
    if text.starts_with("---") {
        return text;
    }
    let Some(at) = text.find("```") else { return text };
    let Some((language, inside)) = text[at + 3..].split_once('\n') else { return text };
    let is_markdown = matches!(language.trim(), "" | "markdown" | "md" | "yaml");
    match inside.trim_end().strip_suffix("```") {
        Some(document) if is_markdown && inside.trim_start().starts_with("---") => document.trim(),
        _ => text,
    }
}

fn summary(fields: &Map<String, Value>, body: &str) -> String {
    let named = ["summary", "description"].iter().find_map(|name| fields.get(*name)?.as_str());
    let first = || {
        let mut paragraphs = body.split("\n\n").map(str::trim);
        paragraphs.find(|p| !p.is_empty() && !p.starts_with('#')).unwrap_or_else(|| body.trim())
    };
    let summary = named.filter(|text| !text.trim().is_empty()).unwrap_or_else(first);
    text::truncate(&text::one_line(summary), SUMMARY).into_owned()
}

// Models read the doc comments of these types, which are the descriptions in the schema.

/// The topics below.
#[derive(Debug, Deserialize, JsonSchema)]
pub(in crate::llm) struct ChildrenReply {
    /// What these topics cover together, in one or two sentences.
    #[schemars(length(max = 400))]
    summary: String,
    /// The topics, the most fundamental first. An empty list says that nothing is left to research below.
    children: Vec<Topic>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Topic {
    /// What it is about, in a few words.
    #[schemars(length(min = 1, max = 120))]
    title: String,
    /// How much its research promises for the objective, from 0 to 1.
    score: Option<f64>,
    /// Its name in paths.
    #[schemars(skip)]
    slug: Option<String>,
}

/// The topics below, as the contract wants them.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::llm) struct ResearchedChildren {
    pub(in crate::llm) summary: String,
    pub(in crate::llm) tidied: TopicList,
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(Schema::of::<ChildrenReply>);

impl Reply for ChildrenReply {
    type Input = ResearchInput;
    type Output = ResearchedChildren;
    const SHARES_PREFIX: bool = true;

    fn schema() -> Option<&'static Schema> {
        Some(&SCHEMA)
    }

    fn read(text: &str, input: &ResearchInput, _shown: bool) -> Result<ResearchedChildren, Vec<String>> {
        // A plain list is understood too.
        let value = match json::list(text) {
            Some(children) => json!({"summary": "", "children": children}),
            None => Value::Object(json::object(text).map_err(|error| vec![error])?),
        };
        let reply: Self = read_as(value, &SCHEMA)?;
        let drafts = reply.children.into_iter().map(|topic| ChildDraft {
            title: topic.title,
            slug: topic.slug,
            score: topic.score,
        });
        let mut tidied = tidy(drafts);
        // Small models list what is beside and above a topic again below it, and below that again.
        let listed: Vec<String> =
            input.path.iter().chain(&input.siblings).map(|title| title.to_lowercase()).collect();
        let before = tidied.children.len();
        tidied.children.retain(|child| !listed.contains(&child.title.to_lowercase()));
        tidied.dropped = tidied.dropped.saturating_add((before - tidied.children.len()) as u32);
        let most = input.max_children as usize;
        if tidied.children.len() > most {
            tidied.dropped = tidied.dropped.saturating_add((tidied.children.len() - most) as u32);
            tidied.children.truncate(most);
        }
        if tidied.children.is_empty() && input.form == ResearchForm::Root {
            return Err(vec!["children: is empty; the first level has at least one topic".to_owned()]);
        }
        Ok(ResearchedChildren { summary: line(&reply.summary, SUMMARY), tidied })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::tests::research_input;

    const GOOD: &str = "---\ntitle: Tides\nlevel: basic\n---\n\n# Tides\n\nThe moon\nmoves them.\n\nMore.";

    fn document(text: &str) -> Result<ResearchedDocument, Vec<String>> {
        let mut input = research_input();
        let schema = json!({"required": ["title"], "properties": {"level": {"enum": ["basic", "advanced"]}}});
        input.frontmatter_schema = schema.as_object().cloned();
        DocumentReply::read(text, &input, false)
    }

    #[test]
    fn a_document_is_read_also_in_a_fence() {
        for text in [
            GOOD.to_owned(),
            format!("Here it is:\n\n```markdown\n{GOOD}\n```\n"),
            format!("```\n{GOOD}\n```"),
            GOOD.replace(
                "More.",
                "<data-0123456789abcdef source=\"sea.md\">\nMore.\n</data-0123456789abcdef>",
            ),
        ] {
            let document = document(&text).expect("a document");
            assert_eq!(document.markdown, format!("{GOOD}\n"), "{text}");
            assert_eq!(document.summary, "The moon moves them.");
        }
        let colon = document("---\ntitle: Depth: 12 m\n---\n\n# Depth").expect("a document");
        assert!(colon.markdown.starts_with("---\ntitle: \"Depth: 12 m\"\n---\n"), "{}", colon.markdown);
        let code = "---\ntitle: Code\nsummary: How it runs.\n---\n\n```sh\nmake\n```";
        let read = document(code).expect("a document");
        assert_eq!((read.markdown, read.summary), (format!("{code}\n"), "How it runs.".to_owned()));
    }

    #[test]
    fn what_is_wrong_with_a_document_is_told() {
        for (text, expected) in [
            ("# Tides", "must begin with its frontmatter"),
            ("---\nlevel: basic\n---\n\n# Tides", "\"title\" is a required property"),
            ("---\ntitle: T\nlevel: odd\n---\n\n# Tides", "`level`"),
            ("---\ntitle: T\n---\n \n", "nothing below the frontmatter"),
        ] {
            let errors = document(text).unwrap_err().join("; ");
            assert!(errors.contains(expected), "{text:?}: {errors}");
        }
    }

    #[test]
    fn topics_are_read_tidied_and_capped() {
        let mut input = research_input();
        input.max_children = 2;
        let read = |text: &str| ChildrenReply::read(text, &input, false);
        let answer = r#"{"summary": "Two.", "children": [{"title": "A/b", "score": 2}, {"title": " "}, {"title": "C"}, {"title": "D"}]}"#;
        let ResearchedChildren { summary, tidied } = read(answer).unwrap();
        let slugs: Vec<&str> = tidied.children.iter().map(|c| c.slug.as_str()).collect();
        assert_eq!((summary.as_str(), slugs, tidied.dropped), ("Two.", vec!["a-b", "c"], 2));
        assert_eq!(tidied.children[0].score, Some(1.0));
        let list = read("```json\n[{\"title\": \"A\", \"slug\": \"of-mine\"}]\n```").unwrap();
        assert_eq!(list.tidied.children[0].slug, "of-mine");
        assert!(read("[]").unwrap().tidied.children.is_empty());
        let mut below = research_input();
        (below.path, below.siblings) = (vec!["Above".into(), "Here".into()], vec!["Beside".into()]);
        let again = r#"[{"title": "beside"}, {"title": "Above"}, {"title": "Here"}, {"title": "New"}]"#;
        let tidied = ChildrenReply::read(again, &below, false).unwrap().tidied;
        assert_eq!((tidied.children.len(), tidied.children[0].title.as_str(), tidied.dropped), (1, "New", 3));
        assert!(read(r#"{"summary": ""}"#).unwrap_err()[0].contains("children"));
    }

    #[test]
    fn the_first_level_cannot_be_empty() {
        let mut input = research_input();
        input.form = ResearchForm::Root;
        assert!(ChildrenReply::read("[]", &input, false).unwrap_err()[0].contains("at least one topic"));
    }
}
