//! `ModelService`, and the check of the model that a run names: only the role services know which models can be used.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::timeout;
use tonic::{Code, Request, Response, Status};
use tree_agent_contract::{FieldError, ModelChoice, ModelProblem, ModelProblemKind, RoleCosts};
use tree_agent_proto::Wire;
use tree_agent_proto::internal::v1::model_service_client::ModelServiceClient;
use tree_agent_proto::internal::v1::{self as internal, CheckModelRequest, CheckModelResponse};
use tree_agent_proto::v1::model_service_server::ModelService;
use tree_agent_proto::v1::{ListModelsRequest, ListModelsResponse, Model};
use tree_agent_runtime::channel::Peers;
use tree_agent_runtime::config::RoleUrls;
use tree_agent_runtime::errors::{field, status};

/// Roles that have a service.
const ROLES: usize = 3;
/// How long a role service may take. It asks the provider for less.
pub(crate) const MODEL_PATIENCE: Duration = Duration::from_secs(2);
/// How long a role service may take to list its models: it asks several providers at the same time.
const LIST_PATIENCE: Duration = Duration::from_secs(4);

/// Asks the role services.
#[derive(Clone)]
pub(crate) struct Models {
    roles: Arc<[(&'static str, ModelServiceClient<Peers>)]>,
}

impl Models {
    /// Connects with the first question. Must be called in a runtime.
    pub(crate) fn new(urls: &RoleUrls) -> Self {
        let all =
            [("planner", &urls.planners), ("executor", &urls.executors), ("aggregator", &urls.aggregators)];
        let connector = &urls.connector;
        let known = all.into_iter().filter(|(_, urls)| !urls.is_empty());
        let roles = known.map(|(role, urls)| (role, ModelServiceClient::new(connector.balanced(urls))));
        Self { roles: roles.collect() }
    }

    /// What a run that names `name` would use, as far as its role services say within `patience`.
    pub(crate) async fn describe(&self, name: &str, patience: Duration) -> Described {
        let answers = join_all(self.roles.iter().map(|role| check(role, name, patience))).await;
        let mut described = Described::default();
        let mut per_call = RoleCosts::default();
        let mut known = 0;
        for ((role, _), answer) in self.roles.iter().zip(answers) {
            let Some(answer) = answer else { continue };
            if described.model.is_empty() {
                described.model = answer.model;
            }
            described.writing_tools.extend(answer.writing_tools);
            // Each role service speaks for its own calls.
            let Some(costs) = answer.per_call.and_then(|costs| RoleCosts::from_wire(costs).ok()) else {
                continue;
            };
            known += 1;
            match *role {
                "planner" => per_call.plan = costs.plan,
                "executor" => (per_call.execute, per_call.research) = (costs.execute, costs.research),
                _ => per_call.aggregate = costs.aggregate,
            }
        }
        described.per_call = (known == ROLES).then_some(per_call);
        described
    }

    /// An error that names the field `model` when a role service says that it cannot use it. One that does not answer
    /// refuses nothing: it may be back when the run needs it.
    pub(crate) async fn require(&self, name: &str) -> Result<(), Status> {
        if !ModelChoice::parse(name).is_ok_and(|choice| choice.needs_check()) {
            return Ok(());
        }
        let problems = join_all(self.roles.iter().map(|role| problem(role, name))).await;
        problems.into_iter().flatten().next().map_or(Ok(()), |problem| Err(refused(problem)))
    }
}

#[tonic::async_trait]
impl ModelService for Models {
    async fn list_models(
        &self,
        _: Request<ListModelsRequest>,
    ) -> Result<Response<ListModelsResponse>, Status> {
        let answers = join_all(self.roles.iter().map(listed)).await;
        let answers: Vec<(&str, internal::ListModelsResponse)> = answers.into_iter().flatten().collect();
        let list = merged(answers).ok_or_else(|| {
            let message =
                "no role service answers, and only these know which models can be used; try again later";
            status(Code::Unavailable, "ROLES_UNAVAILABLE", message)
        })?;
        Ok(Response::new(list))
    }
}

/// What the role service lists; none when it does not answer in time.
async fn listed(
    (role, client): &(&'static str, ModelServiceClient<Peers>),
) -> Option<(&'static str, internal::ListModelsResponse)> {
    let mut client = client.clone();
    let listed = client.list_models(internal::ListModelsRequest {});
    Some((role, answered(role, LIST_PATIENCE, listed).await?))
}

/// What a role service answers; none when it does not within `patience`.
async fn answered<T>(
    role: &str,
    patience: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Option<T> {
    match timeout(patience, call).await {
        Ok(Ok(response)) => return Some(response.into_inner()),
        Ok(Err(status)) => tracing::debug!(role, "no answer about models: {status}"),
        Err(_) => tracing::debug!(role, "no answer about models within {patience:?}"),
    }
    None
}

/// One list of what `answers` say: a model can be used when every role can use it.
fn merged(answers: Vec<(&str, internal::ListModelsResponse)>) -> Option<ListModelsResponse> {
    let mut answers = answers.into_iter();
    let (first, list) = answers.next()?;
    let say = |model: &mut Model, role: &str, problem: &str| {
        if model.usable {
            model.usable = false;
            model.problem = format!("{problem} (says the {role})");
        }
    };
    const NOT_OFFERED: &str = "it is not offered there";
    let mut models = list.models;
    for model in models.iter_mut().filter(|model| !model.usable) {
        model.problem = format!("{} (says the {first})", model.problem);
    }
    for (role, other) in answers {
        for model in &mut models {
            match other.models.iter().find(|o| o.name == model.name) {
                Some(same) if same.usable => {}
                Some(same) => say(model, role, &same.problem),
                None => say(model, role, NOT_OFFERED),
            }
        }
        for mut model in other.models {
            if !models.iter().any(|known| known.name == model.name) {
                model.usable = true;
                say(&mut model, first, NOT_OFFERED);
                models.push(model);
            }
        }
    }
    Some(ListModelsResponse { models, default_model: list.default_model, scripted_keys: list.scripted_keys })
}

/// What a run that names a model would use.
#[derive(Debug, Default)]
pub(crate) struct Described {
    /// The model's name; that of the default when none was named. Empty when no role service says it.
    pub(crate) model: String,
    /// The most that one call of each role can use, when every role service knows it.
    pub(crate) per_call: Option<RoleCosts>,
    /// The tools of MCP servers that may write.
    pub(crate) writing_tools: BTreeSet<String>,
}

/// What the role service says against the model.
async fn problem(role: &(&'static str, ModelServiceClient<Peers>), name: &str) -> Option<ModelProblem> {
    let problem = check(role, name, MODEL_PATIENCE).await?.problem?;
    // A kind of problem that this gateway does not know yet is a problem all the same.
    let kind = Wire::from_wire(problem.kind).unwrap_or(ModelProblemKind::Unknown);
    Some(ModelProblem::new(kind, format!("{} (says the {})", problem.message, role.0)))
}

/// What the role service says of the model; none when it does not answer in time.
async fn check(
    (role, client): &(&'static str, ModelServiceClient<Peers>),
    name: &str,
    patience: Duration,
) -> Option<CheckModelResponse> {
    let mut client = client.clone();
    let checked = client.check_model(CheckModelRequest { model: name.to_owned() });
    answered(role, patience, checked).await
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

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(models: &[(&str, &str)]) -> internal::ListModelsResponse {
        let model = |&(name, problem): &(&str, &str)| Model {
            name: name.to_owned(),
            usable: problem.is_empty(),
            problem: problem.to_owned(),
            ..Model::default()
        };
        internal::ListModelsResponse {
            models: models.iter().map(model).collect(),
            default_model: "offline".to_owned(),
            scripted_keys: Vec::new(),
        }
    }

    #[test]
    fn a_model_can_be_used_when_every_role_can_use_it() {
        let list = merged(vec![
            ("planner", answer(&[("offline", ""), ("llm", "needs a key"), ("openai:a", "")])),
            ("executor", answer(&[("offline", ""), ("llm", ""), ("openai:a", "no key"), ("openai:b", "")])),
        ])
        .unwrap();
        let seen: Vec<(&str, &str)> =
            list.models.iter().map(|m| (m.name.as_str(), m.problem.as_str())).collect();
        let expected = [
            ("offline", ""),
            ("llm", "needs a key (says the planner)"),
            ("openai:a", "no key (says the executor)"),
            ("openai:b", "it is not offered there (says the planner)"),
        ];
        assert_eq!(seen, expected);
        assert!(list.models.iter().all(|m| m.usable == m.problem.is_empty()));
        assert_eq!(merged(Vec::new()), None);
    }
}
