//! What roles are told about their node, its surroundings and its run, assembled from the state alone.

use tree_agent_contract::answers::SIBLINGS;
use tree_agent_contract::role::*;
use tree_agent_contract::text::prefix;
use tree_agent_contract::{
    AnswerUse, Budgets, NodeStatus, Outcome, SiblingFindings, StepId, StepStatus, Strategy, Timestamp,
    TreeAgentResult, limits,
};

use crate::amounts::Amounts;
use crate::budgets;
use crate::call::Asked;
use crate::state::State;
use crate::steering::GuidanceEntry;

/// Bytes of the title and the summary of a sibling.
const SUMMARY_BYTES: usize = 400;

/// What every call for the node at `at` is told.
pub(crate) fn context(
    state: &State,
    at: usize,
    kind: CallKind,
    attempt: u32,
    allotted: Amounts,
    now: Timestamp,
) -> CallContext {
    let (node, spec) = (state.node(at), state.spec());
    let sibling_index = state.control(at).parent.map_or(0, |p| {
        state.control(p).bands().children.iter().position(|&c| c == at).unwrap_or_default() as u32
    });
    let run_id = state.graph().run_id();
    // A subtree is told its own limits.
    let [max_tokens, max_cost_micros, max_tool_calls] = state.limits_of(at);
    let budgets = Budgets { max_tokens, max_cost_micros, max_tool_calls, ..spec.budgets.clone() };
    let made = state.control(at).earlier_calls.iter().filter(|tool| tool.is_made);
    CallContext {
        run_id,
        node_id: node.id,
        attempt,
        objective: spec.objective.clone(),
        title: node.title.clone(),
        reason: node.reason.clone(),
        success_criteria: node.success_criteria.clone(),
        depth: node.depth,
        budgets,
        context: spec.context.clone(),
        model: state.model(at).to_owned(),
        scratchpad_tail: node.scratchpad_tail.clone().unwrap_or_default(),
        sibling_index,
        allowance: budgets::allowance(state, at, allotted),
        finish: budgets::finish(state, at, kind, now),
        read_only: spec.read_only,
        keep_prompts: spec.keep_prompts,
        origin_run_id: (state.origin() != run_id).then(|| state.origin()),
        guidance: guidance(state, at),
        deliverable: state.control(at).deliverable,
        profile: state.control(at).profile,
        started_at: Some(now),
        time_left_ms: Some(budgets::time_left(state, at, now)),
        answers: Some(answer_use(state, at, attempt)),
        siblings: sibling_findings(state, at, kind),
        language: spec.language.clone(),
        earlier_calls: made.map(|tool| tool.call.clone()).collect(),
    }
}

/// What a call for the node at `at` does about kept answers. Earlier ones are not used again where something went
/// wrong with them: not by the call that is made again, and not below a node that began again.
fn answer_use(state: &State, at: usize, attempt: u32) -> AnswerUse {
    let control = state.control(at);
    let again =
        attempt > 1 || control.restarted || state.line(at).any(|at| state.control(at).begun_again() > 0);
    if again { AnswerUse::Keep } else { AnswerUse::Reuse }
}

/// What the latest siblings of the node at `at` have found so far. A search tells its nodes about each other in its own
/// way, and an executor is told the results of earlier bands in full.
fn sibling_findings(state: &State, at: usize, kind: CallKind) -> Vec<SiblingFindings> {
    if !matches!(kind, CallKind::Plan | CallKind::Execute) {
        return Vec::new();
    }
    let parent = state.control(at).parent;
    let siblings = parent.map(|p| state.control(p).bands().children.as_slice()).unwrap_or_default();
    let told = siblings.iter().rev().copied().filter(|&s| s != at);
    let told = told.filter(|&s| kind == CallKind::Plan || !is_earlier(state, s, at));
    let mut told: Vec<SiblingFindings> = told
        .map(|s| {
            let node = state.node(s);
            let summary = node.result.as_ref().map(|result| prefix(&result.summary, SUMMARY_BYTES));
            SiblingFindings {
                node_id: node.id,
                title: prefix(&node.title, SUMMARY_BYTES).to_owned(),
                status: node.status,
                summary: summary.unwrap_or_default().to_owned(),
                findings: state.answers().findings(s),
            }
        })
        .filter(|sibling| !sibling.summary.is_empty() || !sibling.findings.is_empty())
        .take(SIBLINGS)
        .collect();
    told.reverse();
    told
}

/// True if an executor of the node at `at` is told the result of its sibling `other` in full.
fn is_earlier(state: &State, other: usize, at: usize) -> bool {
    let is_before = state.node(other).band_index < state.node(at).band_index
        || state.control(other).born_version < state.control(at).born_version;
    other < at && is_before && state.node(other).status.is_final()
}

/// What people have told the node at `at`, or those above it for everything below, the latest last.
fn guidance(state: &State, at: usize) -> Vec<Guidance> {
    let mut told: Vec<&GuidanceEntry> = state
        .line(at)
        .flat_map(|above| {
            state.control(above).steered().guidance.iter().filter(move |t| above == at || t.subtree)
        })
        .collect();
    told.sort_by_key(|told| told.seq);
    let latest = told.len().saturating_sub(limits::GUIDANCE);
    told[latest..].iter().map(|told| told.guidance.clone()).collect()
}

/// What the node at `at` is asked to do, for searches that carry it out: its title and how it will be judged.
pub(crate) fn task(state: &State, at: usize) -> String {
    let node = state.node(at);
    let mut task = node.title.clone();
    for criterion in &node.success_criteria {
        task.push_str("\n- ");
        task.push_str(criterion);
    }
    task
}

/// The summary of the latest plan of the node at `at`.
pub(crate) fn plan_summary(state: &State, at: usize) -> String {
    state.node(at).plan.as_ref().map(|p| p.summary.clone()).unwrap_or_default()
}

/// What a call for the node at `at` is asked for, beyond its kind.
pub(crate) fn asked(state: &State, at: usize) -> Asked {
    let above = state.control(at).parent.map(|parent| state.control(parent).strategy);
    let form = match above == Some(Strategy::Search) {
        true => ResearchForm::Topic,
        false => ResearchForm::Root,
    };
    let latest = || state.node(at).plan.as_ref().and_then(|plan| plan.iteration).unwrap_or_default();
    let iteration = (state.control(at).strategy == Strategy::Homework).then(|| latest() + 1);
    Asked { form, iteration }
}

/// The status of a step whose node has `status`.
pub(crate) fn step_status(status: NodeStatus) -> StepStatus {
    match status {
        NodeStatus::Completed => StepStatus::Completed,
        NodeStatus::Failed => StepStatus::Failed,
        NodeStatus::Cancelled => StepStatus::Cancelled,
        _ => StepStatus::Running,
    }
}

/// Every step of every plan of the node at `at`, with its outcome.
pub(crate) fn prior_steps(state: &State, at: usize) -> Vec<PriorStep> {
    let step = |(id, child): &(StepId, usize)| {
        let node = state.node(*child);
        let told = |result: &TreeAgentResult| {
            let lists = [("Found", &result.key_findings), ("Missing", &result.gaps)];
            let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
            let lists = lists.map(|(what, list)| format!("\n{what}: {}", list.join("; ")));
            lists.fold(result.summary.clone(), |told, list| told + &list)
        };
        let summary = node.result.as_deref().map(told).or_else(|| node.error.clone());
        PriorStep {
            id: id.clone(),
            title: node.title.clone(),
            status: step_status(node.status),
            summary: summary.unwrap_or_default(),
        }
    };
    state.control(at).bands().steps.iter().map(step).collect()
}

/// The results that an executor may use: those of siblings in earlier bands, and of its own children if it planned
/// before.
pub(crate) fn earlier_outcomes(state: &State, at: usize) -> Vec<ChildOutcome> {
    let own = state.control(at).bands().children.iter().copied();
    let parent = state.control(at).parent;
    let siblings = parent.map(|p| state.control(p).bands().children.as_slice()).unwrap_or_default();
    let before = siblings.iter().copied().take_while(|&s| s < at).filter(|&s| is_earlier(state, s, at));
    outcomes(state, before.chain(own.filter(|&s| state.node(s).status.is_final())))
}

/// The outcomes of the children of the node at `at`, in the order of its plans.
pub(crate) fn child_outcomes(state: &State, at: usize) -> Vec<ChildOutcome> {
    outcomes(state, state.latest_children(at))
}

/// Bytes of JSON artifacts that one call is given: far more than a prompt holds, and far less than a message.
const DATA_BYTES: usize = 1024 * 1024;

/// The outcomes of `nodes`.
pub(crate) fn outcomes(state: &State, nodes: impl Iterator<Item = usize>) -> Vec<ChildOutcome> {
    let mut room = DATA_BYTES;
    nodes.map(|at| child_outcome(state, at, &mut room)).collect()
}

/// The outcome of the node at `at`. Its data is given as long as there is `room`.
fn child_outcome(state: &State, at: usize, room: &mut usize) -> ChildOutcome {
    let node = state.node(at);
    // A later result replaces the artifacts of an earlier one.
    let result = node.result.as_deref();
    let current =
        node.artifacts.iter().filter(|a| result.is_none_or(|r| r.artifact_ids.contains(&a.artifact_id)));
    let artifacts = current.map(|a| {
        let shown = state.control(at).shown.iter().find(|s| s.id == a.artifact_id);
        ArtifactRef {
            label: a.label.clone(),
            title: a.title.clone(),
            document_id: a.document_id,
            is_primary: a.is_primary,
            snippet: shown.and_then(|s| s.snippet.clone()),
            hinted: shown.is_some_and(|s| s.hinted),
            json_payload: a.json_payload.as_ref().and_then(|payload| {
                let bytes = serde_json::to_string(payload).map_or(usize::MAX, |text| text.len());
                let fits = *room >= bytes;
                *room = room.saturating_sub(bytes);
                fits.then(|| payload.clone())
            }),
        }
    });
    ChildOutcome {
        node_id: node.id,
        step_id: node.step_id.clone().unwrap_or_else(|| StepId::new("")),
        title: node.title.clone(),
        status: node.status,
        partial: node.outcome == Some(Outcome::Partial),
        result: node.result.as_deref().cloned(),
        error: match node.status {
            NodeStatus::Cancelled => node.message.clone(),
            _ => node.error.clone(),
        },
        artifacts: artifacts.collect(),
        scratchpad_doc_id: node.scratchpad_doc_id.filter(|_| node.result.is_none()),
        scratchpad_tail: node.scratchpad_tail.clone().filter(|_| node.result.is_none()),
    }
}
