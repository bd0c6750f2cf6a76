//! Commands to a run: they are noted, and answered as the script says.

use tonic::{Response, Status};
use tree_agent_proto::v1 as pb;

use super::Fake;

/// A command that arrived.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Steered {
    Pause(pb::PauseRunRequest),
    Resume(pb::ResumeRunRequest),
    Guide(pb::GuideNodeRequest),
    Stop(pb::StopNodeRequest),
    Retry(pb::RetryNodeRequest),
    EditPlan(pb::EditPlanRequest),
    SetBudget(pb::SetBudgetRequest),
    Fork(pb::ForkRunRequest),
}

/// The preview of every command.
pub(crate) fn preview() -> pb::CommandPreview {
    pb::CommandPreview {
        seq: 9,
        node_ids: vec!["a".into()],
        node_count: 3,
        stopped_calls: 0,
        calls: Some(pb::RoleCalls { plan: 2, execute: 3, aggregate: 2, ..Default::default() }),
        reused_nodes: 41,
        tokens: 9_000,
        cost_micros: 120_000,
        notes: vec!["it rains".into()],
    }
}

impl Fake {
    /// Notes a command, and answers it with the next failure of the script, with the preview, or with event 57.
    pub(crate) fn steer<T>(
        &self,
        steered: Steered,
        validate_only: bool,
        answer: impl FnOnce(Option<pb::CommandOutcome>) -> T,
    ) -> Result<Response<T>, Status> {
        let mut state = self.0.lock().unwrap();
        state.steered.push(steered);
        if let Some(failure) = state.steering_failures.pop_front() {
            return Err(failure);
        }
        let outcome = match validate_only {
            true => pb::CommandOutcome { seq: 0, preview: Some(preview()) },
            false => pb::CommandOutcome { seq: 57, preview: None },
        };
        Ok(Response::new(answer(Some(outcome))))
    }
}
