//! How a person is asked to look at a plan. A client that can ask gets the question as an unfinished result of
//! `wait_research`, and sends the answer with the same call again. Others read of it, and use `steer_research`.

use std::collections::BTreeMap;

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, ElicitRequest, ElicitRequestParams, ElicitationSchema, InputRequest,
    InputRequiredResult, ProtocolVersion,
};
use rmcp::service::{RequestContext, RoleServer};
use serde::Deserialize;
use serde_json::json;
use tonic::{Code, Status};
use tree_agent_proto::v1 as pb;
use tree_agent_proto::v1::run_service_client::RunServiceClient;

use crate::calls::{Failure, guide, runs};
use crate::{Api, said};

/// The name of the question.
const QUESTION: &str = "review";

/// What a person has said.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    action: String,
    #[serde(default)]
    content: Content,
}

#[derive(Debug, Default, Deserialize)]
struct Content {
    #[serde(default)]
    decision: String,
    #[serde(default)]
    text: String,
}

/// Whether the client can ask a person, and there is something to ask.
pub(crate) fn is_asked(answer: &pb::WaitRunResponse, context: &RequestContext<RoleServer>) -> bool {
    let can_ask = context.client_capabilities().is_some_and(|client| client.elicitation.is_some());
    let is_new = context
        .protocol_version()
        .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
    can_ask && is_new && answer.reason() == pb::WaitReason::NeedsPerson
}

/// The question about a run that waits for a review; none if it waits for something else.
pub(crate) async fn question(
    api: Api,
    answer: &pb::WaitRunResponse,
) -> Result<Option<InputRequiredResult>, Failure> {
    let run = answer.run.clone().unwrap_or_default();
    let request =
        pb::GetNodeRequest { run_id: run.run_id.clone(), node_id: run.root_node_id, ..Default::default() };
    let root = runs(api).get_node(request).await?.into_inner().node.unwrap_or_default();
    let Some(review) = &root.review else { return Ok(None) };
    let schema = json!({
        "type": "object",
        "properties": {
            "decision": { "type": "string", "enum": ["carry out", "stop"], "title": "What to do with the plan" },
            "text": { "type": "string", "title": "What to do otherwise" },
        },
        "required": ["decision"],
    });
    let schema: ElicitationSchema = serde_json::from_value(schema).map_err(internal)?;
    let form = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: said::plan(&root, review),
        requested_schema: schema,
    };
    let asked = InputRequest::Elicitation(ElicitRequest::new(form));
    let requests = BTreeMap::from([(QUESTION.to_owned(), asked)]);
    Ok(Some(InputRequiredResult::from_input_requests(requests)))
}

fn internal(error: serde_json::Error) -> Failure {
    Failure::Protocol(ErrorData::internal_error(error.to_string(), None))
}

/// The answer that comes with a call.
pub(crate) fn answer(request: &CallToolRequestParams) -> Result<Option<Answer>, Failure> {
    let Some(answer) = request.input_responses.as_ref().and_then(|all| all.get(QUESTION)) else {
        return Ok(None);
    };
    let answer = serde_json::from_value(answer.clone());
    answer
        .map(Some)
        .map_err(|error| Status::invalid_argument(format!("the answer to the review: {error}")).into())
}

/// Does what a person has said. Somebody who did not want to answer leaves the run as it is.
pub(crate) async fn carry_out(api: Api, run: &str, answer: Answer) -> Result<(), Failure> {
    let mut runs = runs(api);
    match (&*answer.action, &*answer.content.decision) {
        ("accept", "stop") => {
            let request =
                pb::CancelRunRequest { run_id: run.to_owned(), reason: "stopped at its review".into() };
            runs.cancel_run(request).await?;
        }
        ("accept", _) => approve(&mut runs, run, answer.content.text).await?,
        _ => {}
    }
    Ok(())
}

/// Ends the review of a run, with a text for what to do otherwise. A review that has ended meanwhile is no error.
pub(crate) async fn approve(
    runs: &mut RunServiceClient<Api>,
    run: &str,
    text: String,
) -> Result<(), Failure> {
    if !text.trim().is_empty() {
        guide(runs, run, String::new(), text).await?;
    }
    let request = pb::ResumeRunRequest { run_id: run.to_owned(), ..Default::default() };
    match runs.resume_run(request).await {
        Err(status) if status.code() != Code::FailedPrecondition => Err(status.into()),
        _ => Ok(()),
    }
}
