//! Whether the model that a run names can be used: asked of the role services before anything is written.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use tokio::time::{Instant, timeout};
use tonic::{Code, Status};
use tree_agent_contract::{FieldError, ModelChoice, ModelProblem, ModelProblemKind};
use tree_agent_proto::Wire;
use tree_agent_proto::internal::v1::model_service_client::ModelServiceClient;
use tree_agent_proto::internal::v1::{CheckModelRequest, CheckModelResponse};
use tree_agent_runtime::channel::Peers;
use tree_agent_runtime::config::RoleUrls;
use tree_agent_runtime::errors::field;

/// How long a role service may take. It asks the provider for less.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long "nothing is known against it" holds for one name. A refusal is not kept: it ends when its cause does.
const HOLDS: Duration = Duration::from_secs(10);
/// Names that are kept at the most.
const NAMES: usize = 1_000;

/// Asks the role services.
pub(crate) struct Models {
    roles: Vec<(&'static str, ModelServiceClient<Peers>)>,
    good: Mutex<HashMap<String, Instant>>,
}

impl Models {
    /// Connects with the first question. Must be called in a runtime.
    pub(crate) fn new(urls: &RoleUrls) -> Self {
        let all =
            [("planner", &urls.planners), ("executor", &urls.executors), ("aggregator", &urls.aggregators)];
        let connector = &urls.connector;
        let known = all.into_iter().filter(|(_, urls)| !urls.is_empty());
        let roles = known.map(|(role, urls)| (role, ModelServiceClient::new(connector.balanced(urls))));
        Self { roles: roles.collect(), good: Mutex::default() }
    }

    /// An error that names the field `model` when a role service says that it cannot use it. One that does not answer
    /// refuses nothing: it may be back when the run needs it.
    pub(crate) async fn require(&self, name: &str) -> Result<(), Status> {
        let asked = ModelChoice::parse(name).is_ok_and(|choice| choice.needs_check());
        if !asked || self.known_good(name) {
            return Ok(());
        }
        for problem in join_all(self.roles.iter().map(|role| problem(role, name))).await {
            problem.map_or(Ok(()), |problem| Err(refused(problem)))?;
        }
        let mut good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        if good.len() >= NAMES {
            good.clear();
        }
        good.insert(name.to_owned(), Instant::now());
        Ok(())
    }

    fn known_good(&self, name: &str) -> bool {
        let good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        good.get(name).is_some_and(|at| at.elapsed() < HOLDS)
    }
}

/// What the role service says against the model.
async fn problem(
    (role, client): &(&'static str, ModelServiceClient<Peers>),
    name: &str,
) -> Option<ModelProblem> {
    let mut client = client.clone();
    let answer = timeout(PATIENCE, client.check_model(CheckModelRequest { model: name.to_owned() })).await;
    let response: CheckModelResponse = match answer {
        Ok(Ok(response)) => response.into_inner(),
        Ok(Err(status)) => {
            tracing::debug!(role, "the model could not be checked: {status}");
            return None;
        }
        Err(_) => {
            tracing::debug!(role, "the model could not be checked within {PATIENCE:?}");
            return None;
        }
    };
    // A kind of problem that this gateway does not know yet is a problem all the same.
    let problem = response.problem?;
    let kind = Wire::from_wire(problem.kind).unwrap_or(ModelProblemKind::Unknown);
    Some(ModelProblem::new(kind, format!("{} (says the {role})", problem.message)))
}

fn refused(problem: ModelProblem) -> Status {
    let (code, reason) = match problem.kind {
        ModelProblemKind::Unknown => (Code::InvalidArgument, "INVALID_FIELD"),
        ModelProblemKind::NotSet => (Code::FailedPrecondition, "MODEL_NOT_SET"),
        ModelProblemKind::KeyMissing => (Code::FailedPrecondition, "MODEL_KEY_MISSING"),
        ModelProblemKind::KeyRefused => (Code::FailedPrecondition, "MODEL_KEY_REFUSED"),
    };
    field(code, reason, &FieldError::new("model", problem.message))
}
