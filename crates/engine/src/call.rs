//! Role calls as data: how they are named, what goes in and what comes out.

use tree_agent_contract::role::*;
use tree_agent_contract::{NodeId, NodeStatus};

/// Identifies one role call of a run. An answer whose key is not in flight is stale and is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallKey {
    /// The node.
    pub node_id: NodeId,
    /// The role.
    pub kind: CallKind,
    /// The number of calls that the node needed before this one.
    pub round: u32,
    /// 1 for the first attempt.
    pub attempt: u32,
}

/// A role call to be made now.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleCall {
    /// Its key.
    pub key: CallKey,
    /// The input of the role.
    pub input: CallInput,
    /// Its time limit in milliseconds.
    pub timeout_ms: u64,
}

/// The input of a role.
#[derive(Clone, Debug, PartialEq)]
pub enum CallInput {
    /// For the planner.
    Plan(Box<PlanInput>),
    /// For the executor.
    Execute(Box<ExecuteInput>),
    /// For the aggregator.
    Aggregate(Box<AggregateInput>),
    /// For the executor of a search.
    Research(Box<ResearchInput>),
    /// For the planner of a search.
    Pick(Box<PickInput>),
    /// For the aggregator, as verifier.
    Verify(Box<VerifyInput>),
}

impl CallInput {
    /// What every role is told about its node and run.
    pub fn context(&self) -> &CallContext {
        match self {
            CallInput::Plan(input) => &input.call,
            CallInput::Execute(input) => &input.call,
            CallInput::Aggregate(input) => &input.call,
            CallInput::Research(input) => &input.call,
            CallInput::Pick(input) => &input.call,
            CallInput::Verify(input) => &input.call,
        }
    }
}

/// What a call was asked for, beyond its kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// The form of a research.
    pub(crate) form: ResearchForm,
    /// The iteration that is to be planned; only in homework.
    pub(crate) iteration: Option<u32>,
}

/// The output of a role.
#[derive(Clone, Debug, PartialEq)]
pub enum CallOutput {
    /// The planner.
    Plan(PlannerOutput),
    /// The executor.
    Execute(ExecutorOutput),
    /// The aggregator.
    Aggregate(AggregatorOutput),
    /// The executor of a search.
    Research(ResearchOutput),
    /// The planner of a search.
    Pick(PickOutput),
    /// The verifier.
    Verify(VerifierOutput),
}

impl CallOutput {
    /// The role that answered.
    pub fn kind(&self) -> CallKind {
        match self {
            CallOutput::Plan(_) => CallKind::Plan,
            CallOutput::Execute(_) => CallKind::Execute,
            CallOutput::Aggregate(_) => CallKind::Aggregate,
            CallOutput::Research(_) => CallKind::Research,
            CallOutput::Pick(_) => CallKind::Pick,
            CallOutput::Verify(_) => CallKind::Verify,
        }
    }

    /// Checks the contract of its role. `prior` are the steps that the node planned before.
    pub(crate) fn validate(&self, prior: &[PriorStep], asked: Asked) -> Result<(), String> {
        let valid = match self {
            CallOutput::Plan(output) => match asked.iteration {
                Some(iteration) => output.validate_homework(iteration),
                None => output.validate(prior),
            },
            CallOutput::Execute(output) => output.validate(),
            CallOutput::Aggregate(output) => output.validate(),
            CallOutput::Research(output) => output.validate(asked.form),
            CallOutput::Pick(output) => output.validate(),
            CallOutput::Verify(output) => output.validate(),
        };
        valid.map_err(|error| error.to_string())
    }
}

/// The status of a node during a call, if its strategy shows no other.
pub(crate) fn at_work(kind: CallKind) -> NodeStatus {
    match kind {
        CallKind::Plan | CallKind::Pick => NodeStatus::Planning,
        CallKind::Execute | CallKind::Research => NodeStatus::Executing,
        CallKind::Aggregate | CallKind::Verify => NodeStatus::Aggregating,
    }
}
