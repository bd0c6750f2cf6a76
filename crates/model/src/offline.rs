//! The offline model: rule-based, no language model.

use async_trait::async_trait;
use tree_agent_contract::role::{
    AggregateInput, AggregatorOutput, ExecuteInput, ExecutorOutput, PlanInput, PlannerOutput, RoleError,
    RoleErrorKind,
};

use crate::RoleModel;
use crate::io::RoleIo;

/// The rule-based model.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offline;

fn absent() -> RoleError {
    RoleError::new(RoleErrorKind::Rejected, "the offline model is not part of this build; use scripted")
}

#[async_trait]
impl RoleModel for Offline {
    async fn plan(&self, _: &PlanInput, _: &RoleIo) -> Result<PlannerOutput, RoleError> {
        Err(absent())
    }
    async fn execute(&self, _: &ExecuteInput, _: &RoleIo) -> Result<ExecutorOutput, RoleError> {
        Err(absent())
    }
    async fn aggregate(&self, _: &AggregateInput, _: &RoleIo) -> Result<AggregatorOutput, RoleError> {
        Err(absent())
    }
}
