//! Models that answer for roles ([`RoleModel`]), their selection by name, and the streaming of their calls.
//!
//! [`LanguageModels`] asks language models. Two models need no configuration: `offline` is rule-based, works on real
//! documents and says so in its output; `scripted` follows a script given in its name, for benchmarks and tests.
//! [`Models`] finds a model by name, and [`RoleServer`] turns its calls into the streams of the role services.

mod applied;
mod catalogue;
mod cite;
mod claims;
mod config;
mod footnotes;
mod io;
mod llm;
mod offline;
mod scripted;
mod select;
mod serve;
mod service;
mod stats;

use async_trait::async_trait;
use tree_agent_contract::role::{
    AggregateInput, AggregatorOutput, ExecuteInput, ExecutorOutput, PickInput, PickOutput, PlanInput,
    PlannerOutput, ResearchInput, ResearchOutput, RoleError, VerifierOutput, VerifyInput,
};

pub use config::{RoleArgs, RoleConfig, Switch, ToolsArgs};
pub use io::RoleIo;
pub use llm::{LanguageModels, LlmArgs, LlmConfig};
pub use offline::Offline;
pub use scripted::{Artifacts, Fault, KEYS as SCRIPT_KEYS, Pick, Script, Scripted};
pub use select::Models;
pub use serve::{CallStream, ModelCheck, RoleInput, RoleServer};
pub use service::{ServiceConfig, ServiceError};

/// Something that can play all roles.
///
/// A call is cancelled by dropping its future, so a model must not leave work behind in tasks of its own. The output
/// is checked against the contract by the caller.
#[async_trait]
pub trait RoleModel: Send + Sync {
    /// True if it writes in its own words and is meant to cite its sources. The role service then looks for the sources
    /// of statements without one, compares statements with their quotes, and counts those of the root that cite
    /// nothing.
    fn cites(&self) -> bool {
        false
    }

    /// Execute, or decompose into bands of steps.
    async fn plan(&self, input: &PlanInput, io: &RoleIo) -> Result<PlannerOutput, RoleError>;

    /// Leaf work.
    async fn execute(&self, input: &ExecuteInput, io: &RoleIo) -> Result<ExecutorOutput, RoleError>;

    /// Makes one result of what the children returned.
    async fn aggregate(&self, input: &AggregateInput, io: &RoleIo) -> Result<AggregatorOutput, RoleError>;

    /// A topic of a guided search: its document and the topics below it, or the first level.
    async fn research(&self, input: &ResearchInput, io: &RoleIo) -> Result<ResearchOutput, RoleError>;

    /// Chooses the topic of a guided search that is researched next.
    async fn pick(&self, input: &PickInput, io: &RoleIo) -> Result<PickOutput, RoleError>;

    /// Verifies the answer of a run.
    async fn verify(&self, input: &VerifyInput, io: &RoleIo) -> Result<VerifierOutput, RoleError>;
}
