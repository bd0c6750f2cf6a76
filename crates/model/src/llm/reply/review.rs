//! What a planner's decision rests on, for the person who reviews it.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use tree_agent_contract::{Premises, limits};

use super::cut;

// Models read the doc comments of these types, which are the descriptions in the schema.

/// What the decision rests on.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReviewReply {
    /// What you take for granted, one statement each.
    #[schemars(length(max = 8), inner(length(max = 240)))]
    assumptions: Vec<String>,
    /// What somebody may expect and will not get, one thing each.
    #[schemars(length(max = 8), inner(length(max = 240)))]
    left_out: Vec<String>,
}

/// Takes it from the answer. A decision without it is still one, so it is never asked for again.
pub(super) fn premises(answer: &mut Map<String, Value>) -> Option<Premises> {
    let reply: ReviewReply = serde_json::from_value(answer.remove("review")?).ok()?;
    let texts = |texts: Vec<String>| {
        let texts = texts.iter().filter(|text| !text.trim().is_empty());
        texts.take(limits::PREMISES).map(|text| cut(text, limits::TEXT_BYTES)).collect()
    };
    Some(Premises { assumptions: texts(reply.assumptions), left_out: texts(reply.left_out) })
}
