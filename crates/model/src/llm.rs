//! Language models, as `TREE_AGENT_MODEL_*` configures them.
//!
//! A call assembles its prompt within a budget of tokens (`context`, `prompt`, `material`) and asks a provider
//! through its gate (`provider`, `gate`). It runs the tools that the model calls (`toolbox`), reads the answer, has
//! it repaired if needed (`json`, `reply`, `ask`), asks for the texts of documents (`delivery`), checks what they cite
//! (`citing`), and reports its cost (`prices`). Text is shown while it is generated (`stream`).

mod ask;
mod call_cost;
mod chat;
mod citing;
mod concession;
mod context;
mod delivery;
mod effort;
mod failure;
mod filter;
mod fork;
mod gate;
mod history;
mod json;
mod library;
mod material;
mod prices;
mod prompt;
mod protocol;
mod provider;
mod rate;
mod reading;
mod reply;
mod research;
mod settings;
mod site;
mod stream;
mod survey;
mod table;
mod thinking;
mod tokens;
mod tool_calls;
mod toolbox;
mod transcript;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tree_agent_contract::role::{
    AggregateInput, AggregatorOutput, CallContext, ExecuteInput, ExecutorOutput, PickInput, PickOutput,
    PlanInput, PlannerOutput, ResearchForm, ResearchInput, ResearchOutput, RoleError, RoleErrorKind,
    VerifierOutput, VerifyInput,
};
use tree_agent_contract::{
    DocumentId, ModelChoice, ModelName, ModelProblem, ModelProblemKind, Profile, ProviderKind,
};

use tree_agent_runtime::Metrics;
use tree_agent_tools::READ_DOCUMENT;

use crate::RoleModel;
use crate::io::RoleIo;
use ask::Call;
use failure::{Failure, FailureKind};
use fork::Fork;
use gate::GateCounts;
use provider::Provider;
use reply::{
    AggregatorReply, Bounds, ExecutorReply, HomeworkReply, PickerReply, PlannerReply, VerifierReply,
};
use survey::Survey;

pub use settings::{LlmArgs, LlmConfig};

/// How a key is checked.
#[derive(Clone, Copy)]
struct KeyCheck {
    /// How long a result is used again.
    holds: Duration,
    /// How long a check may take.
    patience: Duration,
}

/// At start there is always a new check.
const AT_START: KeyCheck = KeyCheck { holds: Duration::ZERO, patience: Duration::from_secs(10) };
/// Before a run the user waits, and there may be many runs.
const BEFORE_A_RUN: KeyCheck =
    KeyCheck { holds: Duration::from_secs(120), patience: Duration::from_millis(1_500) };

/// Shared by all calls of a service: one gate for each provider.
struct Shared {
    config: LlmConfig,
    /// Created when first needed, because a service without language models needs no certificates.
    providers: Mutex<BTreeMap<ProviderKind, Arc<Provider>>>,
}

impl Shared {
    fn provider(&self, kind: ProviderKind) -> Result<Arc<Provider>, Failure> {
        let mut providers = self.providers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(provider) = providers.get(&kind) {
            return Ok(provider.clone());
        }
        let provider = Arc::new(Provider::new(kind, &self.config.addresses[&kind], &self.config.tuning)?);
        providers.insert(kind, provider.clone());
        Ok(provider)
    }
}

/// The language models of a service.
#[derive(Clone)]
pub struct LanguageModels(Arc<Shared>);

impl std::fmt::Debug for LanguageModels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LanguageModels").field(&self.0.config).finish()
    }
}

impl LanguageModels {
    /// The models of `config`. Connects with the first call.
    pub fn new(config: &LlmConfig) -> Self {
        Self(Arc::new(Shared { config: config.clone(), providers: Mutex::default() }))
    }

    /// True if runs that name no model use these.
    pub fn are_set(&self) -> bool {
        self.0.config.is_set()
    }

    /// Adds the counters of the providers' gates. A provider appears once it has been used.
    pub(crate) fn measure(&self, metrics: &mut Metrics) {
        let read = |field: fn(GateCounts) -> f64| {
            let shared = self.0.clone();
            move || {
                let providers = shared.providers.lock().unwrap_or_else(PoisonError::into_inner);
                let labels = |kind: &ProviderKind| vec![("provider", kind.as_str().to_owned())];
                providers.iter().map(|(kind, p)| (labels(kind), field(p.gate_counts()))).collect()
            }
        };
        metrics.counters(
            "tree_agent_provider_requests",
            "Requests to providers of language models, retries among them",
            read(|gate| gate.requests as f64),
        );
        metrics.counters(
            "tree_agent_provider_failures",
            "Requests that a provider failed: it did not answer, broke, or was out of capacity",
            read(|gate| gate.failures as f64),
        );
        metrics.counters(
            "tree_agent_provider_refused",
            "Requests not made because the model's circuit was open",
            read(|gate| gate.refused as f64),
        );
        metrics.gauges(
            "tree_agent_provider_circuit_open",
            "Models of a provider of which nothing is asked because they failed too often",
            read(|gate| gate.open as f64),
        );
    }

    /// Checks the key of every configured provider. Only a refusal is a problem: a provider that cannot be reached
    /// now may be back when it is needed.
    pub async fn check_keys(&self) -> Result<(), ModelProblem> {
        self.check_keys_of(self.0.config.named(), AT_START).await
    }

    /// Checks whether `choice` can be used: what it needs is set, and no provider refuses its key. A provider is
    /// asked at most once in two minutes. One that does not answer in time is not a problem.
    pub(crate) async fn check(&self, choice: &ModelChoice) -> Result<(), ModelProblem> {
        let Some(llm) = self.find(choice) else { return Ok(()) };
        let config = &self.0.config;
        let models = match &llm?.choice {
            Choice::Profiles => config.of_profiles(),
            Choice::Profile(profile) => config.of_profile(*profile).into_iter().collect(),
            Choice::Model(model) => return self.check_keys_of(vec![model], BEFORE_A_RUN).await,
        };
        self.check_keys_of(models, BEFORE_A_RUN).await
    }

    /// Whether models of `provider` can be used, like [`LanguageModels::check`].
    pub(crate) async fn check_provider(&self, provider: ProviderKind) -> Result<(), ModelProblem> {
        let any = ModelName { provider, model: String::new() };
        self.0.config.require_key(&any)?;
        self.check_keys_of(vec![&any], BEFORE_A_RUN).await
    }

    pub(crate) fn config(&self) -> &LlmConfig {
        &self.0.config
    }

    async fn check_keys_of(&self, models: Vec<&ModelName>, check: KeyCheck) -> Result<(), ModelProblem> {
        let mut kinds: Vec<ProviderKind> = models.into_iter().map(|name| name.provider).collect();
        kinds.sort_unstable();
        kinds.dedup();
        for kind in kinds {
            let checked = match self.0.provider(kind) {
                Ok(provider) => provider.check_key(check.holds, check.patience).await,
                Err(failure) => Err(failure),
            };
            match checked {
                Err(failure) if failure.kind == FailureKind::Key => {
                    return Err(ModelProblem::new(ModelProblemKind::KeyRefused, failure.message));
                }
                Err(failure) => tracing::warn!("the key could not be checked: {}", failure.message),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// The language models that `choice` means. `None` if it means another kind of model; a problem if the settings
    /// do not allow them.
    pub(crate) fn find(&self, choice: &ModelChoice) -> Option<Result<Llm, ModelProblem>> {
        let config = &self.0.config;
        let (choice, name) = match choice {
            ModelChoice::Profiles => (Choice::Profiles, "llm"),
            ModelChoice::Profile(profile) => (Choice::Profile(*profile), profile.as_str()),
            ModelChoice::Model(model) => (Choice::Model(model.clone()), ""),
            ModelChoice::Default | ModelChoice::Offline | ModelChoice::Scripted(_) => return None,
        };
        let usable = match &choice {
            Choice::Model(model) => config.usable(model),
            _ if config.is_set() => Ok(()),
            _ => Err(ModelProblem::new(
                ModelProblemKind::NotSet,
                format!(
                    "model {name:?} needs a language model; set TREE_AGENT_MODEL_FAST, _BALANCED or _POWERFUL to \
                     provider:model, or TREE_AGENT_MODEL_BASE_URL, where the role services run"
                ),
            )),
        };
        Some(usable.map(|()| Llm { shared: self.0.clone(), choice }))
    }
}

/// Which model answers for a role.
#[derive(Clone, Debug)]
enum Choice {
    /// The profile of the role.
    Profiles,
    Profile(Profile),
    Model(ModelName),
}

/// Language models that answer for the roles.
pub(crate) struct Llm {
    shared: Arc<Shared>,
    choice: Choice,
}

impl Llm {
    /// The tools that a call may use, or the one of them that is called `only`.
    async fn tools(&self, io: &RoleIo, only: Option<&str>) -> Result<Vec<genai::chat::Tool>, RoleError> {
        match self.shared.config.tuning.tool_rounds > 0 && io.may_go_on() {
            true => toolbox::offered(io, only).await,
            false => Ok(Vec::new()),
        }
    }

    fn call<'a>(
        &'a self,
        io: &'a RoleIo,
        call: &CallContext,
        purpose: &'static str,
        profile: Profile,
        context: Option<usize>,
    ) -> Result<Call<'a>, RoleError> {
        let config = &self.shared.config;
        let profile = match &self.choice {
            Choice::Profile(profile) => *profile,
            Choice::Profiles | Choice::Model(_) => profile,
        };
        let model = match &self.choice {
            Choice::Profiles | Choice::Profile(_) => config.of_profile(profile),
            Choice::Model(model) => Some(model),
        };
        let model = model.cloned().ok_or_else(|| {
            RoleError::new(RoleErrorKind::Rejected, "no language model is set; set TREE_AGENT_MODEL_BALANCED")
        })?;
        let budgets = &call.budgets;
        let bounds = Bounds {
            bands: budgets.max_bands_per_plan,
            steps: budgets.max_steps_per_band.min(budgets.max_children_per_node),
            least_steps: 1,
            decision: None,
            review: false,
            is_small: false,
            children: 0,
            output_tokens: 0,
        };
        Ok(Call {
            shared: &self.shared,
            io,
            purpose,
            model,
            effort: config.tuning.effort_of(profile),
            context,
            bounds,
            tools: Vec::new(),
            fork: Fork::default(),
        })
    }
}

/// The profile of a role that is not the executor. A plan above may ask for more, and never for less: those who plan
/// and put together decide what the work of others is worth.
fn at_least(profile: Profile, call: &CallContext) -> Profile {
    call.profile.map_or(profile, |asked| asked.max(profile))
}

/// Bytes of a scratchpad of homework that a prompt shows.
const SCRATCHPAD_BYTES: usize = 8 * 1024;

/// The end of the scratchpad `id`. The call holds less of it, which must do if the documents cannot be reached.
async fn end_of(io: &RoleIo, id: DocumentId, call: &CallContext) -> String {
    match io.tools().end_of_document(id, SCRATCHPAD_BYTES).await {
        Ok(end) => end,
        Err(error) => {
            tracing::warn!(%id, "a scratchpad could not be read: {error}");
            call.scratchpad_tail.clone()
        }
    }
}

#[async_trait]
impl RoleModel for Llm {
    fn cites(&self) -> bool {
        true
    }

    async fn plan(&self, input: &PlanInput, io: &RoleIo) -> Result<PlannerOutput, RoleError> {
        let profile = if input.call.depth == 0 { Profile::Powerful } else { Profile::Balanced };
        let profile = at_least(profile, &input.call);
        let context = self.shared.config.tuning.context.planner;
        let mut call = self.call(io, &input.call, "plan", profile, context)?;
        call.bounds.review = input.review;
        let survey = Survey::of(&input.call, io).await;
        if let Some(brief) = &input.homework {
            let mut input = input.clone();
            input.call.scratchpad_tail = end_of(io, brief.scratchpad_doc_id, &input.call).await;
            call.bounds.decision = match brief.iteration {
                // Nothing has been done yet.
                1 => Some(HomeworkReply::PLAN),
                _ => brief.is_last().then_some(HomeworkReply::DONE),
            };
            let answer = call.ask::<HomeworkReply>(&input, |with, trimmer| {
                context::homework(&input, brief, &survey, with.schema, trimmer)
            });
            return Ok(answer.await?.output);
        }
        if call.bounds.bands == 1 && input.prior_steps.is_empty() {
            call.bounds.least_steps = 2;
        }
        let answer = call.ask::<PlannerReply>(input, |with, trimmer| {
            context::planner(input, &survey, with.schema, with.is_small, trimmer)
        });
        Ok(answer.await?.output)
    }

    async fn execute(&self, input: &ExecuteInput, io: &RoleIo) -> Result<ExecutorOutput, RoleError> {
        let context = self.shared.config.tuning.context.executor;
        let profile = input.call.profile.unwrap_or(Profile::Balanced);
        let mut call = self.call(io, &input.call, "execute", profile, context)?;
        call.tools = self.tools(io, None).await?;
        let mut input = Cow::Borrowed(input);
        if let Some(task) = &input.task {
            let end = end_of(io, task.scratchpad_doc_id, &input.call).await;
            input.to_mut().call.scratchpad_tail = end;
        }
        let passages = survey::passages(&input.call, io).await;
        let answer = call.ask::<ExecutorReply>(&input, |with, trimmer| {
            context::executor(&input, &passages, with.tools, with.schema, trimmer)
        });
        let mut answered = answer.await?;
        answered.output.actions.splice(0..0, answered.actions);
        Ok(answered.output)
    }

    async fn aggregate(&self, input: &AggregateInput, io: &RoleIo) -> Result<AggregatorOutput, RoleError> {
        let context = self.shared.config.tuning.context.aggregator;
        let profile = at_least(Profile::Balanced, &input.call);
        let mut call = self.call(io, &input.call, "aggregate", profile, context)?;
        let budget = call.prompt_budget();
        let children = context::shown_children(input);
        // A token is at least a byte, and four of them on average.
        let read = reading::of_children(io, children, budget.saturating_mul(4)).await?;
        let first =
            context::assemble(budget, |trimmer| context::aggregator(input, &read, false, None, trimmer))?;
        let is_whole = |id| first.documents.iter().any(|d| d.document_id == id && d.bytes == d.size);
        // Where everything is in the prompt there is nothing to ask for, and a schema can be enforced.
        if children
            .iter()
            .flat_map(|child| &child.artifacts)
            .filter_map(|a| a.document_id)
            .any(|id| !is_whole(id))
        {
            call.tools = self.tools(io, Some(READ_DOCUMENT)).await?;
        }
        let answer = call.ask::<AggregatorReply>(input, |with, trimmer| {
            context::aggregator(input, &read, with.tools, with.schema, trimmer)
        });
        Ok(answer.await?.output)
    }

    async fn research(&self, input: &ResearchInput, io: &RoleIo) -> Result<ResearchOutput, RoleError> {
        let profile = match input.form {
            ResearchForm::Root => Profile::Powerful,
            ResearchForm::Topic => Profile::Balanced,
        };
        let context = self.shared.config.tuning.context.executor;
        let mut call = self.call(io, &input.call, "research", profile, context)?;
        call.tools = self.tools(io, None).await?;
        call.bounds.children = input.max_children.min(research::LISTED);
        research::research(input, call).await
    }

    async fn verify(&self, input: &VerifyInput, io: &RoleIo) -> Result<VerifierOutput, RoleError> {
        let context = self.shared.config.tuning.context.aggregator;
        let profile = at_least(Profile::Balanced, &input.call);
        let call = self.call(io, &input.call, "verify", profile, context)?;
        // A token is at least a byte, and four of them on average.
        let room = call.prompt_budget().saturating_mul(4);
        let read = reading::of_children(io, std::slice::from_ref(&input.answer), room).await?;
        let answer = call.ask::<VerifierReply>(input, |with, trimmer| {
            context::verifier(input, &read, with.schema, trimmer)
        });
        Ok(answer.await?.output)
    }

    async fn pick(&self, input: &PickInput, io: &RoleIo) -> Result<PickOutput, RoleError> {
        let context = self.shared.config.tuning.context.planner;
        let call = self.call(io, &input.call, "pick", Profile::Balanced, context)?;
        let answer = call.ask::<PickerReply>(input, |with, trimmer| context::picker(input, with, trimmer));
        Ok(answer.await?.output)
    }
}

#[cfg(test)]
mod tests;
