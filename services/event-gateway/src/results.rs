//! `GetNode` and `GetResult`: parts of a run without its whole tree.

use tonic::Status;
use tree_agent_contract::event::{ArtifactCited, NodeCompleted, NodeResult};
use tree_agent_contract::result::TreeAgentResult;
use tree_agent_contract::{
    ArtifactId, Document, DocumentId, EventBody, NodeId, RunId, RunStatus, RunSummary, Verification,
};
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_store::{Store, StoreError};

use crate::errors;
use crate::fields::id;
use crate::gateway::Gateway;
use crate::view::View;

/// Events that are read at a time, from the end of the log backwards. A result stands near the end.
const PAGE: u64 = 64;

/// One node after the event that is asked for.
pub(crate) async fn node(
    gateway: &Gateway,
    view: &View,
    request: pb::GetNodeRequest,
) -> Result<pb::GetNodeResponse, Status> {
    let run = id(RunId::parse_field("run_id", &request.run_id))?;
    let node = id(NodeId::parse_field("node_id", &request.node_id))?;
    let (snapshot, _place) = gateway.graph_at(view, run, request.at_seq).await?;
    let graph = &snapshot.graph;
    let found = graph.node(node).ok_or_else(|| errors::no_node(run, node))?;
    let children = graph.nodes().iter().filter(|child| child.parent_id == Some(node));
    Ok(pb::GetNodeResponse {
        node: Some(found.to_wire()),
        child_ids: children.map(|child| child.id.to_wire()).collect(),
        seq: graph.seq(),
    })
}

/// What a run returned.
pub(crate) async fn result(store: &dyn Store, run: RunSummary) -> Result<pb::GetResultResponse, Status> {
    let mut response = pb::GetResultResponse {
        run_id: run.run_id.to_wire(),
        status: run.status.to_wire(),
        partial: run.partial,
        error: run.error.clone(),
        usage: Some(run.usage.to_wire()),
        models: run.models.clone(),
        ..Default::default()
    };
    let Some(Returned { result, completed, verification, cited }) = root_result(store, &run).await? else {
        return Ok(response);
    };
    if let Some(document) = document(store, run.run_id, &result).await? {
        response.document_id = Some(document.id.to_wire());
        (response.title, response.text) = (document.title, document.body);
    }
    if let Some(ArtifactCited { citations, counts, disagreements, .. }) = cited {
        response.disagreements = disagreements.to_wire();
        let counts = counts.after(&citations, verification.as_ref());
        if !response.text.is_empty() && !result.is_not_found() {
            response.text.insert_str(0, &format!("*{}*\n\n", counts.in_language(&run.spec.language)));
        }
        response.citations = Some(counts.to_wire());
    }
    response.outcome = completed.map(|completed| completed.outcome.to_wire());
    response.verification = verification.to_wire();
    response.summary.clone_from(&result.summary);
    response.result = Some(result.to_wire());
    Ok(response)
}

/// A result as text: the body of the document to read first, else its payload, else its summary.
pub(crate) async fn synthesis(
    store: &dyn Store,
    run: RunId,
    result: &TreeAgentResult,
) -> Result<String, Status> {
    if let Some(document) = document(store, run, result).await?.filter(|found| !found.body.is_empty()) {
        return Ok(document.body);
    }
    let payload = result.json_payload.as_ref();
    let payload = payload.and_then(|payload| serde_json::to_string_pretty(payload).ok());
    Ok(payload.unwrap_or_else(|| result.summary.clone()))
}

/// What the root returned last.
struct Returned {
    result: TreeAgentResult,
    completed: Option<NodeCompleted>,
    verification: Option<Verification>,
    /// What supports the statements of the artifact to read first.
    cited: Option<ArtifactCited>,
}

/// The last result of the root, and what became of it. Only a run that completed has one.
async fn root_result(store: &dyn Store, run: &RunSummary) -> Result<Option<Returned>, Status> {
    if run.status != RunStatus::Completed {
        return Ok(None);
    }
    let (mut end, mut completed, mut verification) = (run.head_seq, None, None);
    let (mut returned, mut cited) = (None, None);
    'log: while end > 0 {
        let begin = end.saturating_sub(PAGE);
        let (mut of_root, mut seq) = (Vec::new(), begin);
        while seq < end {
            let events = store.read(run.run_id, seq, (end - seq) as usize).await;
            let events = events.map_err(errors::store)?;
            let Some(last) = events.last() else { break };
            seq = last.seq;
            of_root.extend(events.into_iter().filter(|event| event.node_id == run.root_node_id));
        }
        for event in of_root.into_iter().rev() {
            match event.body {
                EventBody::NodeResult(NodeResult { result }) if returned.is_none() => {
                    returned = Some(result);
                }
                // They follow the artifact, before the result that names it.
                EventBody::ArtifactCited(body) if is_primary(&returned, body.artifact_id) => {
                    cited = Some(body)
                }
                EventBody::ArtifactCreated(body) if is_primary(&returned, body.artifact_id) => break 'log,
                // What was written together ends here: it is an artifact of another node.
                EventBody::NodeStatusChanged(_) if returned.is_some() => break 'log,
                EventBody::AnswerVerified(body) if returned.is_none() => {
                    verification = Some(body.verification)
                }
                EventBody::NodeCompleted(body) => completed = Some(body),
                _ => {}
            }
        }
        end = begin;
    }
    Ok(returned.map(|result| Returned { result, completed, verification, cited }))
}

fn is_primary(returned: &Option<TreeAgentResult>, artifact: ArtifactId) -> bool {
    returned.as_ref().is_some_and(|result| result.primary_artifact_id == Some(artifact))
}

/// The document to read first: that of the primary artifact, else the first one.
async fn document(
    store: &dyn Store,
    run: RunId,
    result: &TreeAgentResult,
) -> Result<Option<Document>, Status> {
    let primary = result.primary_artifact_id.map(DocumentId::of_artifact);
    let primary = primary.filter(|id| result.document_ids.contains(id));
    let Some(id) = primary.or_else(|| result.document_ids.first().copied()) else { return Ok(None) };
    match store.document_of(run, id, None).await {
        Ok(placed) => Ok(Some(placed.document)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(errors::store(error)),
    }
}
