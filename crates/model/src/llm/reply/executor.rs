//! The executor's answer.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tree_agent_contract::role::{ArtifactDraft, ExecuteInput, ExecutorOutput};

use super::planner::Notes;
use super::returned::{ArtifactReply, ResultReply, needed_document, returned, tidy};
use super::schema::Schema;
use super::{Reply, contract_errors, line, object, read_as};

/// What you made and found.
#[derive(Debug, Deserialize, JsonSchema)]
pub(in crate::llm) struct ExecutorReply {
    scratchpad: Notes,
    #[schemars(length(min = 1, max = 4))]
    artifacts: Vec<ArtifactReply>,
    result: ResultReply,
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(Schema::of::<ExecutorReply>);

impl Reply for ExecutorReply {
    type Input = ExecuteInput;
    type Output = ExecutorOutput;
    const NAMES_DOCUMENTS: bool = true;

    fn needed_document(input: &ExecuteInput) -> Option<&str> {
        needed_document(&input.call)
    }

    fn artifacts(output: &mut ExecutorOutput) -> &mut [ArtifactDraft] {
        &mut output.artifacts
    }

    fn schema() -> Option<&'static Schema> {
        Some(&SCHEMA)
    }

    fn read(text: &str, input: &ExecuteInput, shown: bool) -> Result<ExecutorOutput, Vec<String>> {
        let mut object = object(text)?;
        tidy(&mut object);
        let reply: Self = read_as(Value::Object(object), &SCHEMA)?;
        let (artifacts, result) =
            returned(reply.artifacts, reply.result, &input.call, |summary| format!("{summary}\n"));
        let scratchpad =
            reply.scratchpad.with(shown, &format!("**Result:** {}", line(&result.summary, 1_000)));
        let output = ExecutorOutput { actions: Vec::new(), artifacts, result, scratchpad };
        output.validate().map_err(|invalid| contract_errors(&invalid))?;
        Ok(output)
    }
}
