//! Guided search: what a run is told about it, the lists of topics that it grows, and how its nodes are shown.
//!
//! | limit | what it bounds | default |
//! | --- | --- | --- |
//! | `concurrency` | topics under research at the same time | 4 |
//! | `maxDepth` | levels of topics; topics on the last level are listed but not researched (level 1 always is) | 4 |
//! | [`SEARCH_CHILDREN`](crate::limits::SEARCH_CHILDREN) | topics in one list | 1,000 |
//! | `budgets.maxNodes` | topics of the run, listed ones included | 1,000 |
//!
//! The limits of the tree strategy on bands, steps, children and depth do not apply to a search. A step of a plan may
//! be a search of its own, with a `maxDepth` that counts from its node and a limit of topics ([`StepSearch`]).

pub mod slug;

/// The message of a topic that is listed at the depth limit and not researched.
pub const DEPTH_GUARD: &str = "guard:maxDepth";

mod children;
mod messages;
mod template;

pub(crate) use children::check as check_children;
pub use children::{ChildDraft, ChildEntry, TopicList, clean_title, tidy};
pub use messages::Message;
pub use template::fill;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with_macros::skip_serializing_none;

use crate::error::{Checks, FieldError, Invalid};
use crate::graph::GraphNode;
use crate::limits;
use crate::status::{NodeStatus, named_enum};

named_enum! {
    /// Who chooses the topic that is researched next.
    #[derive(Default)]
    PickerPolicy {
        /// A model that sees the whole tree.
        #[default]
        Llm = "llm",
        /// The first topic in breadth-first order.
        BreadthFirst = "breadth-first",
        /// The topic to which its parent's research gave the highest score.
        BestFirst = "best-first",
    }
}

/// The names that a prompt for a document or for topics may hold.
pub const RESEARCH_NAMES: &[&str] = &[
    "title",
    "slug",
    "path",
    "parents",
    "depth",
    "status",
    "objective",
    "siblings",
    "schema",
    "max_children",
];
/// The names that a picker's prompt may hold.
pub const PICK_NAMES: &[&str] = &["objective", "outline", "leaves", "note"];

/// Prompts that replace those of the program. `{{name}}` stands for a value, and conditions choose between texts
/// ([`fill`]).
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SearchPrompts {
    /// Asks for the topics of the first level.
    pub root: Option<String>,
    /// Asks for the document of a topic.
    pub document: Option<String>,
    /// Asks for the topics below a topic.
    pub children: Option<String>,
    /// Asks for the topic that is researched next.
    pub picker: Option<String>,
}

/// How a search works. Fixed for the life of its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SearchConfig {
    /// Topics under research at the same time. Default 4.
    pub concurrency: u32,
    /// Levels of topics. Topics on the last level are listed but not researched; level 1 always is. Default 4.
    pub max_depth: u32,
    /// Who chooses the topic that is researched next.
    pub picker: PickerPolicy,
    /// Prompts that replace those of the program.
    pub prompts: SearchPrompts,
    /// JSON Schema of the frontmatter of every document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frontmatter_schema: Option<Map<String, Value>>,
    /// True: the root ends with an overview that answers the objective and links all documents. Default true.
    pub synthesis: bool,
}

impl Default for SearchConfig {
    fn default() -> Self {
        Self {
            concurrency: 4,
            max_depth: 4,
            picker: PickerPolicy::default(),
            prompts: SearchPrompts::default(),
            frontmatter_schema: None,
            synthesis: true,
        }
    }
}

impl SearchConfig {
    /// Checks every limit. Whether the schema is one is for those who use it.
    pub fn validate(&self) -> Result<(), Invalid> {
        let mut c = Checks::default();
        c.range("search.concurrency", self.concurrency.into(), 1..=limits::SEARCH_CONCURRENCY);
        c.range("search.max_depth", self.max_depth.into(), 1..=64);
        let SearchPrompts { root, document, children, picker } = &self.prompts;
        for (name, prompt, known) in [
            ("root", root, RESEARCH_NAMES),
            ("document", document, RESEARCH_NAMES),
            ("children", children, RESEARCH_NAMES),
            ("picker", picker, PICK_NAMES),
        ] {
            let Some(prompt) = prompt else { continue };
            let field = format!("search.prompts.{name}");
            c.text(&field, prompt, limits::PROMPT_BYTES);
            if let Some(problem) = template::problem(prompt, known) {
                c.push(FieldError::new(field, problem));
            }
        }
        if let Some(schema) = &self.frontmatter_schema {
            const FIELD: &str = "search.frontmatter_schema";
            let levels = 1 + schema.values().map(levels).max().unwrap_or_default();
            c.require(levels <= limits::SCHEMA_LEVELS, FIELD, || {
                format!("has {levels} levels; at most {} are allowed", limits::SCHEMA_LEVELS)
            });
            let text = serde_json::to_string(schema).unwrap_or_default();
            c.at_most(FIELD, &text, limits::PROMPT_BYTES);
        }
        c.finish()
    }

    /// The same without the prompts and the schema, as lists of runs carry it.
    #[must_use]
    pub fn without_texts(&self) -> Self {
        Self { prompts: SearchPrompts::default(), frontmatter_schema: None, ..self.clone() }
    }

    /// True if a topic `depth` levels below the root of the search is researched. Others are only listed.
    pub const fn researches(&self, depth: u32) -> bool {
        depth == 1 || depth < self.max_depth
    }
}

named_enum! {
    /// How far the research of a topic has come, as users see it.
    Expansion {
        /// Not researched: it waits, it failed, or a limit ended it.
        Unexpanded = "unexpanded",
        /// Under research.
        InProgress = "in-progress",
        /// Researched, with topics below it.
        Expanded = "expanded",
        /// Researched, with nothing below it.
        Leaf = "leaf",
    }
}

impl Expansion {
    /// That of a node. `has_children`: there are nodes below it.
    pub fn of(node: &GraphNode, has_children: bool) -> Self {
        match node.status {
            _ if node.result.is_some() && has_children => Self::Expanded,
            NodeStatus::Completed => Self::Leaf,
            status if status.is_final() || node.started_at.is_none() => Self::Unexpanded,
            _ => Self::InProgress,
        }
    }
}

/// The limits of a search that carries out one step of a plan, within those of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StepSearch {
    /// Levels of topics below the node of the step, as [`SearchConfig::max_depth`] counts them. Default 3.
    pub max_depth: u32,
    /// Topics of the search, listed ones included. Default 50.
    pub max_nodes: u32,
}

impl Default for StepSearch {
    fn default() -> Self {
        Self { max_depth: 3, max_nodes: 50 }
    }
}

/// What a search has done. The result of its root holds these counts as JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SearchCounts {
    /// Topics that were researched and have topics below them.
    pub expanded: u64,
    /// Topics that were researched and have none.
    pub leaves: u64,
    /// Topics that needed no research, because they were complete before the run.
    pub skipped: u64,
}

impl SearchCounts {
    /// What a search has done, as users read it.
    pub fn sentence(&self) -> String {
        let [expanded, leaves, skipped] = [self.expanded, self.leaves, self.skipped].map(|n| n.to_string());
        Message::COMPLETE.with(&[&expanded, &leaves, &skipped])
    }
}

/// Objects and arrays within each other. Decoders bound them.
fn levels(value: &Value) -> usize {
    match value {
        Value::Object(fields) => 1 + fields.values().map(levels).max().unwrap_or_default(),
        Value::Array(values) => 1 + values.iter().map(levels).max().unwrap_or_default(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_of_a_search_is_checked() {
        SearchConfig::default().validate().expect("the defaults are good");
        let long = "x".repeat(limits::PROMPT_BYTES + 1);
        let root = Some("{{outline}}".into());
        let prompts = SearchPrompts { picker: Some(long), document: Some(" ".into()), children: None, root };
        let bad = SearchConfig { concurrency: 0, max_depth: 65, prompts, ..SearchConfig::default() };
        let Invalid(errors) = bad.validate().unwrap_err();
        let fields: Vec<_> = errors.iter().map(|e| e.field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "search.concurrency",
                "search.max_depth",
                "search.prompts.root",
                "search.prompts.document",
                "search.prompts.picker"
            ]
        );
    }

    #[test]
    fn a_schema_has_a_limit_of_levels() {
        let nested = |levels: usize| {
            let schema = (1..levels).fold(serde_json::json!({}), |inner, level| match level % 2 {
                0 => serde_json::json!({"not": inner}),
                _ => serde_json::json!([inner]),
            });
            let schema = serde_json::json!({"allOf": schema}).as_object().cloned();
            SearchConfig { frontmatter_schema: schema, ..SearchConfig::default() }.validate()
        };
        nested(limits::SCHEMA_LEVELS - 1).expect("as many as are allowed");
        let error = nested(limits::SCHEMA_LEVELS).unwrap_err().to_string();
        assert_eq!(error, "search.frontmatter_schema: has 25 levels; at most 24 are allowed");
    }

    #[test]
    fn the_first_level_is_always_researched_and_the_last_one_is_not() {
        let of = |max_depth| SearchConfig { max_depth, ..SearchConfig::default() };
        assert!(of(1).researches(1) && !of(1).researches(2));
        assert!(of(2).researches(1) && !of(2).researches(2));
        assert!(of(4).researches(3) && !of(4).researches(4));
    }

    #[test]
    fn a_config_reads_back_and_lists_do_not_carry_its_texts() {
        assert_eq!(serde_json::from_str::<SearchConfig>("{}").unwrap(), SearchConfig::default());
        let prompts = SearchPrompts { document: Some("d".into()), ..SearchPrompts::default() };
        let schema = serde_json::json!({"type": "object"}).as_object().cloned();
        let config = SearchConfig {
            picker: PickerPolicy::BestFirst,
            prompts,
            frontmatter_schema: schema,
            synthesis: false,
            ..SearchConfig::default()
        };
        let json = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<SearchConfig>(&json).unwrap(), config);
        let listed = SearchConfig { synthesis: false, picker: PickerPolicy::BestFirst, ..Default::default() };
        assert_eq!(config.without_texts(), listed);
    }
}
