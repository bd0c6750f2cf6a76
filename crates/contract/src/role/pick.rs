//! Picking: the planner's part in a guided search.

use serde::{Deserialize, Serialize};

use super::CallContext;
use crate::error::{Checks, Invalid};
use crate::limits;

/// A topic that may be picked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferedLeaf {
    /// Its slugs from the first level down, joined by slashes: what a pick names.
    pub path: String,
    /// What it is about.
    pub title: String,
    /// Levels below the root of the search; 1 for the first.
    pub depth: u32,
    /// How much it promises, from 0 to 1, in the judgement of the research that found it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Above 0: it is not a topic to research but a branch, shown as one line, with this many of them. Whoever picks it
    /// is asked again within it.
    #[serde(default)]
    pub leaves_below: u64,
}

/// The input of a picker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PickInput {
    /// The root of the search and its run.
    pub call: CallContext,
    /// The tree: one line for each topic, indented, with its status. Finished and large branches are folded.
    pub outline: String,
    /// What may be picked, in breadth-first order.
    pub leaves: Vec<OfferedLeaf>,
    /// Why the picker is asked again; empty the first time.
    #[serde(default)]
    pub note: String,
    /// The prompt that replaces that of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// The answer of a picker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PickOutput {
    /// The path of an offered leaf. Another path is no failure: the picker is asked again once.
    pub path: String,
    /// Why this one.
    pub reason: String,
}

impl PickOutput {
    /// Checks the size of the answer. Whether the path can be picked is for the search to say.
    pub fn validate(&self) -> Result<(), Invalid> {
        let mut c = Checks::default();
        c.at_most("path", &self.path, limits::PICK_BYTES);
        c.at_most("reason", &self.reason, limits::TEXT_BYTES);
        c.finish()
    }

    /// The path that a model's answer names: what stands in the last `<output>` tags, without spaces, slashes and
    /// quotes around it. None if there are no such tags.
    pub fn path_in(answer: &str) -> Option<&str> {
        let (_, after) = answer.rsplit_once("<output>")?;
        let (path, _) = after.split_once("</output>")?;
        Some(path.trim_matches(|c: char| c.is_whitespace() || matches!(c, '/' | '"' | '\'' | '`')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pick_stands_in_output_tags() {
        let read = PickOutput::path_in;
        assert_eq!(read("First <output>a</output>, no: <output>\n /a/b-2/ \n</output>."), Some("a/b-2"));
        assert_eq!(read("<output>`a/b`</output>"), Some("a/b"));
        assert_eq!(read("<output></output>"), Some(""));
        for none in ["a/b", "<output>a", "a</output>", "</output><output>"] {
            assert_eq!(read(none), None, "{none:?}");
        }
    }
}
