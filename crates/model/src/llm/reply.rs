//! What the roles ask a model for: types of their own, which give the JSON schema, and how they become the contract's.
//!
//! They differ from the contract where that makes a good answer easier to write: what can be counted (positions) or
//! derived (the kind of a result) is not asked for, free JSON is a list of keys and values, the planner's choice is a
//! union whose first property is its constant `mode`, and everything has a bound. Models that are held to a schema
//! then rarely fail, and those that are not are told what was wrong.

mod aggregator;
mod executor;
mod planner;
mod returned;
mod schema;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tree_agent_contract::role::ScratchpadDraft;
use tree_agent_contract::{Invalid, limits, text};

pub(super) use aggregator::AggregatorReply;
pub(super) use executor::ExecutorReply;
pub(super) use planner::PlannerReply;
pub(super) use schema::{Bounds, Schema};

/// Errors that a repair quotes at the most.
const QUOTED_ERRORS: usize = 8;

/// A role's answer as a model writes it.
pub(super) trait Reply: Sized {
    /// What the role is told.
    type Input: Sync;
    /// What the role answers.
    type Output;

    /// The schema of the answer.
    fn schema() -> &'static Schema;

    /// Reads `object`, and turns it into what the contract wants. `shown`: its notes stand in the scratchpad already.
    /// The errors are for the model.
    fn read(
        object: Map<String, Value>,
        input: &Self::Input,
        shown: bool,
    ) -> Result<Self::Output, Vec<String>>;
}

/// Checks `value` against `schema`, then reads it.
fn read_as<T: DeserializeOwned>(value: Value, schema: &Schema) -> Result<T, Vec<String>> {
    let errors = schema.errors(&value, QUOTED_ERRORS);
    if !errors.is_empty() {
        return Err(errors);
    }
    serde_json::from_value(value).map_err(|error| vec![error.to_string()])
}

fn contract_errors(invalid: &Invalid) -> Vec<String> {
    invalid.0.iter().take(QUOTED_ERRORS).map(ToString::to_string).collect()
}

/// The scratchpad entry of an answer: the notes of the model unless they were shown, and a line that says what came of it.
fn scratchpad(notes: &str, shown: bool, outcome: &str) -> ScratchpadDraft {
    let markdown = if shown || notes.trim().is_empty() {
        format!("{outcome}\n")
    } else {
        format!("{}\n\n{outcome}\n", notes.trim_end())
    };
    let tail_preview = text::suffix(&markdown, limits::TAIL_PREVIEW_BYTES).to_owned();
    ScratchpadDraft { tail_preview, append_markdown: markdown }
}

/// The beginning of `text`, at most `max` bytes of it: a text that is too long is no reason to ask again.
fn cut(text: &str, max: usize) -> String {
    text::truncate(text, max).into_owned()
}

/// `cut`, on one line.
fn line(text: &str, max: usize) -> String {
    cut(&text::one_line(text), max)
}
