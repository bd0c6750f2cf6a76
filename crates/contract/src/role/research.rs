//! Research: the executor's part in a guided search.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{CallContext, ScratchpadDraft};
use crate::error::{Checks, Invalid};
use crate::limits;
use crate::search::{self, ChildEntry, SearchPrompts};
use crate::session::{self, SessionFork, SessionMessage};
use crate::status::named_enum;

named_enum! {
    /// What is researched.
    ResearchForm {
        /// The root of the search: only the topics of the first level, exhaustively.
        Root = "root",
        /// A topic: its document, then the topics below it, in one conversation.
        Topic = "topic",
    }
}

/// The input of a research.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResearchInput {
    /// The node and its run.
    pub call: CallContext,
    /// What is researched.
    pub form: ResearchForm,
    /// The titles from the first level down to the topic; empty for the root.
    pub path: Vec<String>,
    /// The titles of the topics beside it, which others research.
    pub siblings: Vec<String>,
    /// The tree of topics so far, as text of a bounded length; empty for the root. Its topics are not to be listed
    /// again.
    pub outline: String,
    /// The conversation in which it is researched; none for the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionFork>,
    /// Prompts that replace those of the program.
    #[serde(default)]
    pub prompts: SearchPrompts,
    /// JSON Schema of the document's frontmatter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frontmatter_schema: Option<Map<String, Value>>,
    /// Topics that may be listed.
    pub max_children: u32,
    /// Names the topic among its siblings; empty for the root.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub slug: String,
}

/// The answer of a research.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResearchOutput {
    /// The topic's document: Markdown with YAML frontmatter. None for the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_markdown: Option<String>,
    /// What the document says, in a few sentences. For the root, what the first level covers.
    pub summary: String,
    /// The topics below, the most fundamental first. None means that the topic is a leaf.
    #[serde(default)]
    pub children: Vec<ChildEntry>,
    /// Topics that were left out, as [`tidy`](crate::search::tidy) counts them.
    #[serde(default)]
    pub dropped: u32,
    /// What this research adds to the conversation, in order. Empty for the root.
    #[serde(default)]
    pub messages: Vec<SessionMessage>,
    /// What goes to the scratchpad.
    pub scratchpad: ScratchpadDraft,
}

impl ResearchOutput {
    /// Checks every rule of the answer to `input`.
    pub fn validate(&self, form: ResearchForm) -> Result<(), Invalid> {
        let mut c = Checks::default();
        self.scratchpad.check(&mut c);
        c.text("summary", &self.summary, limits::TEXT_BYTES);
        search::check_children(&self.children, &mut c);
        session::check(&self.messages, &mut c);
        match form {
            ResearchForm::Root => {
                c.require(self.document_markdown.is_none(), "documentMarkdown", || {
                    "must be absent, because the root has no document".into()
                });
                c.require(self.messages.is_empty(), "messages", || {
                    "must be empty, because the root has no conversation".into()
                });
                c.require(!self.children.is_empty(), "children", || {
                    "must not be empty; the first level of a search has at least one topic".into()
                });
            }
            ResearchForm::Topic => {
                let document = self.document_markdown.as_deref().unwrap_or_default();
                c.text("documentMarkdown", document, limits::DOCUMENT_BYTES);
            }
        }
        c.finish()
    }
}
