//! Answers of tools that a run keeps, so that no work is done twice.
//!
//! The answer of a tool that only reads is kept whole as a document of the run. Its path is a hash of everything that
//! the answer depends on: the tool, its arguments, the context of the run and the state of what the tool looks at. Who
//! asks the same while nothing has changed finds the document, and whoever asks after a change does not. So nothing has
//! to be compared, and no list of answers travels with calls.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::context::RunContext;
use crate::ids::{DocumentId, NodeId};
use crate::limits;
use crate::status::{NodeStatus, named_enum};
use crate::text::{hex, prefix};

/// The folder of the answers among the documents of a run.
pub const FOLDER: &str = "tool-answers";
/// Bytes of the answers that one run keeps. Further answers are not kept.
pub const ANSWERS_BYTES: u64 = 64 * 1024 * 1024;
/// A run that has kept more bytes of prompts keeps no further ones: of its 16 MB, the longest would not fit.
pub const PROMPTS_FULL: u64 = 16 * 1024 * 1024 - limits::KEPT_PROMPT_BYTES as u64;
/// Calls of one role call that the run could answer itself. They cost nothing but events.
pub const CACHED_CALLS: u32 = 1_000;
/// The latest siblings whose findings a call is told.
pub const SIBLINGS: usize = 12;
/// The latest findings of one sibling that a call is told.
pub const FINDINGS: usize = 6;
/// Bytes of each text of a finding.
const FINDING_BYTES: usize = 160;

named_enum! {
    /// What a role call does about answers of its run.
    AnswerUse {
        /// It keeps its answers but uses no earlier ones: it is made again, because something may be wrong with them.
        Keep = "keep",
        /// It keeps answers and uses those that are there.
        Reuse = "reuse",
    }
}

/// A text in the log that a document of the run holds: the answer of a tool, or a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptText {
    /// The document that holds it.
    pub document_id: DocumentId,
    /// Its bytes; 0 if the run had it already.
    #[serde(default)]
    pub bytes: u64,
}

/// What one tool call of a sibling found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The tool.
    pub tool: String,
    /// What it was asked, in short.
    pub about: String,
    /// What it answered, in short.
    pub found: String,
}

impl Finding {
    /// A finding; texts may have any length.
    pub fn of(tool: &str, about: String, found: &str) -> Self {
        Self { tool: short(tool), about, found: short(found) }
    }

    /// What a tool is asked with `args`, in short.
    pub fn about(args: Option<&Map<String, Value>>) -> String {
        let one = |(name, value): (&String, &Value)| match value {
            Value::String(text) => format!("{name}: {}", short(text)),
            other => format!("{name}: {other}"),
        };
        short(&args.into_iter().flatten().map(one).collect::<Vec<_>>().join(", "))
    }
}

fn short(text: &str) -> String {
    prefix(text, FINDING_BYTES).to_owned()
}

/// What a sibling has found so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SiblingFindings {
    /// The sibling.
    pub node_id: NodeId,
    /// Its task.
    pub title: String,
    /// Where it stands.
    pub status: NodeStatus,
    /// The summary of its result; empty while it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// Its latest tool calls that found something to say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// Everything that an answer depends on.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The tool.
    pub tool: &'a str,
    /// Its arguments.
    pub args: &'a Map<String, Value>,
    /// What the run may look at.
    pub context: &'a RunContext,
    /// Names the state of what the tool looks at. It is another one after every change.
    pub state: &'a str,
    /// The call that asks, if it keeps its answers from others; else empty.
    pub asker: &'a str,
}

impl Question<'_> {
    /// The path of the document that holds the answer.
    pub fn path(&self) -> String {
        let mut hash = Sha256::new();
        let mut part = |text: &str| {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        };
        part(self.tool);
        part(&canonical(&Value::Object(self.args.clone())));
        part(self.context.scope.as_str());
        let mut projects: Vec<String> = self.context.project_ids.iter().map(ToString::to_string).collect();
        projects.sort();
        part(&projects.join(" "));
        part(self.state);
        part(self.asker);
        format!("{FOLDER}/{}.json", hex(&hash.finalize()))
    }
}

/// True for the path of an answer.
pub fn is_answer(path: &str) -> bool {
    path.strip_prefix(FOLDER).is_some_and(|rest| rest.starts_with('/'))
}

/// `value` as JSON text with sorted keys.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let fields: Vec<String> = fields
                .into_iter()
                .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), canonical(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(canonical).collect();
            format!("[{}]", values.join(","))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::context::Scope;
    use crate::ids::ProjectId;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn a_path_depends_on_everything_that_the_answer_depends_on() {
        let project = |n: u8| ProjectId::derive(&[&[n]]);
        let context = |projects: &[u8]| RunContext {
            scope: Scope::MultiProject,
            project_ids: projects.iter().map(|n| project(*n)).collect(),
        };
        let (args, both, one) =
            (object(json!({"a": 1, "b": [{"y": 2, "x": 1}]})), context(&[1, 2]), context(&[1]));
        let asked = Question { tool: "search", args: &args, context: &both, state: "7", asker: "" };
        let path = asked.path();
        assert!(is_answer(&path) && path.len() == FOLDER.len() + 1 + 64 + 5, "{path}");
        let (order, swapped) = (object(json!({"b": [{"x": 1, "y": 2}], "a": 1})), context(&[2, 1]));
        assert_eq!(path, Question { args: &order, context: &swapped, ..asked }.path(), "order says nothing");
        let other = object(json!({"a": "1", "b": [{"y": 2, "x": 1}]}));
        let others = [
            Question { tool: "searc", ..asked },
            Question { args: &other, ..asked },
            Question { context: &one, ..asked },
            Question { state: "8", ..asked },
            Question { asker: "node", ..asked },
            Question { state: "", asker: "7", ..asked },
        ];
        let paths: std::collections::BTreeSet<String> = others.iter().map(Question::path).collect();
        assert!(paths.len() == others.len() && !paths.contains(&path));
        assert!(!is_answer("tool-answers.json") && !is_answer("notes/tool-answers/x.json"));
    }

    #[test]
    fn a_finding_is_short_whatever_the_call_was() {
        let args = object(json!({"query": "ä".repeat(9_000), "limit": 3}));
        let about = Finding::about(Some(&args));
        assert!(about.contains("query: ää") && about.len() <= FINDING_BYTES);
        let finding = Finding::of("search_documents", about, &"x".repeat(9_000));
        assert_eq!(finding.found.len(), FINDING_BYTES);
        let about = Finding::about(Some(&object(json!({"page_size": 3, "path_prefix": "a/"}))));
        assert!(about.contains("page_size: 3") && about.contains("path_prefix: a/"));
        assert_eq!(Finding::about(None), "");
    }
}
