//! The answers that the roles ask a model for: their own types, which define the JSON schema, and their conversion to
//! the contract.
//!
//! They differ from the contract where that makes it easier for a model to answer well. The schema does not ask for
//! what we can count (positions) or derive (the kind of a result). Free JSON is a list of keys and values. The
//! planner's choice is a union whose first property is the constant `mode`. Every string and list has a maximum length.
//! With an enforced schema, models then rarely fail; without one, the repair request lists their mistakes.

mod aggregator;
mod executor;
mod homework;
mod picker;
mod planner;
mod research;
mod returned;
mod review;
mod schema;
mod verifier;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tree_agent_contract::role::{ArtifactDraft, RoleErrorKind, ScratchpadDraft};
use tree_agent_contract::{Invalid, text};

pub(super) use aggregator::AggregatorReply;
pub(super) use executor::ExecutorReply;
pub(super) use homework::HomeworkReply;
pub(super) use picker::PickerReply;
pub(super) use planner::PlannerReply;
pub(super) use research::{ChildrenReply, DocumentReply};
pub(super) use schema::{Bounds, Schema};
pub(super) use verifier::VerifierReply;

use super::json;

/// Maximum of errors that a repair quotes.
const QUOTED_ERRORS: usize = 8;

/// A role's answer as a model writes it.
pub(super) trait Reply: Sized {
    /// The input of the role.
    type Input: Sync;
    /// The output of the role.
    type Output;

    /// What a repair asks for again, without its article.
    const WHOLE: &'static str = "JSON object";
    /// How a call ends whose answers could not be repaired.
    const GIVEN_UP: RoleErrorKind = RoleErrorKind::InvalidOutput;

    /// True if the answer names documents, whose texts are asked for after it.
    const NAMES_DOCUMENTS: bool = false;

    /// The title of the document that the answer must have; none if it needs none.
    fn needed_document(_input: &Self::Input) -> Option<&str> {
        None
    }

    /// True if the call is one of several in a conversation. Its request then looks like theirs, so that providers can
    /// cache what they share: the same tools, and no enforced schema.
    const SHARES_PREFIX: bool = false;

    /// What it returns with citations.
    fn artifacts(_output: &mut Self::Output) -> &mut [ArtifactDraft] {
        &mut []
    }

    /// The schema of the answer; none if it is text.
    fn schema() -> Option<&'static Schema>;

    /// Converts the answer `text` to the contract. `shown` is true if its notes are in the scratchpad already. The
    /// errors are written for the model.
    fn read(text: &str, input: &Self::Input, shown: bool) -> Result<Self::Output, Vec<String>>;
}

/// The JSON object in an answer.
fn object(text: &str) -> Result<Map<String, Value>, Vec<String>> {
    json::object(text).map_err(|error| vec![error])
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

/// The scratchpad entry of an answer: the notes of the model, unless they were shown, and a line with the outcome.
fn scratchpad(notes: &str, shown: bool, outcome: &str) -> ScratchpadDraft {
    let markdown = if shown || notes.trim().is_empty() {
        format!("{outcome}\n")
    } else {
        format!("{}\n\n{outcome}\n", notes.trim_end())
    };
    ScratchpadDraft::of(markdown)
}

/// `text` in at most `max` bytes. We cut a text that is too long instead of asking the model to repair it.
fn cut(text: &str, max: usize) -> String {
    text::truncate(text, max).into_owned()
}

/// `cut`, on one line.
fn line(text: &str, max: usize) -> String {
    cut(&text::one_line(text), max)
}
