//! The vocabulary of tree-agent: what an event is, what a role may answer, what a run may spend.
//!
//! Everything here is plain data with validation. There is no I/O, no async, no clock and no randomness, so
//! that the engine (which depends on nothing else) stays pure and every service speaks the same words.
//!
//! JSON forms are camelCase and use the key names of the event contract; they are what the event log stores
//! and what the command line prints.

pub mod answers;
pub mod budget;
pub mod citation;
pub mod code;
pub mod command;
pub mod context;
pub mod diff;
mod disagreement;
pub mod document;
pub mod error;
pub mod estimate;
pub mod event;
pub mod graph;
pub mod homework;
pub mod ids;
pub mod label;
pub mod language;
pub mod limits;
pub mod model;
pub mod project;
pub mod result;
pub mod review;
pub mod role;
pub mod run;
pub mod search;
pub mod session;
pub mod sparse;
pub mod status;
pub mod text;
pub mod time;
pub mod verification;

pub use answers::{AnswerUse, Finding, KeptText, SiblingFindings};
pub use budget::{Allowance, BudgetLeft, Budgets, SubtreeBudget};
pub use citation::{Citation, CitationCounts, Origin, Passage, Support, Verdict};
pub use command::{BudgetChange, Command, Preview, Refusal, RefusalKind, Reply};
pub use context::{RunContext, Scope};
pub use disagreement::{Disagreement, Side};
pub use document::{
    Document, DocumentImport, DocumentKind, DocumentOp, DocumentProps, DocumentSummary, SearchHit,
    SearchResults, WordCount,
};
pub use error::{FieldError, Invalid};
pub use estimate::{CallCost, Estimate, RoleCosts};
pub use event::{Event, EventBody};
pub use ids::{ArtifactId, DocumentId, EventId, NodeId, PlanId, ProjectId, RunId, StepId};
pub use label::LabelFilter;
pub use model::{ModelChoice, ModelName, ModelProblem, ModelProblemKind, Profile, ProviderKind};
pub use project::{MemberRole, ProjectStatus, ToolRules};
pub use result::{ArtifactType, HintType, ResultKind, SuccessAssessment, TreeAgentResult};
pub use review::{Premises, Review, ReviewRule};
pub use run::{ForkOf, RunSpec, RunSummary, Strategy};
pub use search::{PickerPolicy, SearchConfig, SearchCounts, StepSearch};
pub use session::SessionId;
pub use sparse::Sparse;
pub use status::{NodeStatus, Outcome, Role, RunStatus, StepStatus};
pub use time::Timestamp;
pub use verification::{CriterionCheck, Doubt, Verification};
