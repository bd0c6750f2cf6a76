//! One role call: asks the model, runs the tools that it calls, reads the answer, has it repaired, and falls back to
//! another model.

use std::sync::Arc;
use std::time::Duration;

use genai::chat::{CacheControl, ChatMessage, ChatRequest, StopReason, Tool};
use tree_agent_contract::ModelName;
use tree_agent_contract::event::{PromptDocument, UsageRecorded};
use tree_agent_contract::role::{Action, RoleError, RoleErrorKind};
use tree_agent_contract::text::prefix;

use super::context::{PromptTrimmer, assemble};
use super::delivery::{Conversation, Delivery};
use super::effort::Effort;
use super::failure::{Failure, FailureKind};
use super::fork::Fork;
use super::history::History;
use super::prices::TokenCounts;
use super::prompt::{Prompt, Repair};
use super::provider::{Provider, Question, Turn};
use super::reply::{Bounds, Reply};
use super::stream::ScratchpadWriter;
use super::table::{ModelFacts, Reasoning};
use super::{Shared, prices, tokens, toolbox};
use crate::io::RoleIo;

/// How often a model is asked to repair its answer before the call fails.
pub(super) const REPAIRS: u32 = 2;

/// What stays the same during one call.
pub(super) struct Call<'a> {
    pub(super) shared: &'a Shared,
    pub(super) io: &'a RoleIo,
    /// `plan`, `execute` or `aggregate`: the purpose in usage events.
    pub(super) purpose: &'static str,
    pub(super) model: ModelName,
    /// How much the model reasons; none for as the provider chooses.
    pub(super) effort: Option<Effort>,
    /// Tokens of the prompt, if the operator sets them.
    pub(super) context: Option<usize>,
    pub(super) bounds: Bounds,
    /// The tools that the model may call.
    pub(super) tools: Vec<Tool>,
    /// The conversation that the call continues.
    pub(super) fork: Fork,
}

/// What a prompt depends on beside the input of the role.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting<'a> {
    /// The schema, if the provider does not enforce it.
    pub(super) schema: Option<&'a str>,
    /// Whether there are tools.
    pub(super) tools: bool,
    /// Messages of the conversation that were shortened or left out.
    pub(super) shortened: u32,
}

/// An answer that meets the contract.
#[derive(Debug)]
pub(super) struct Answered<O> {
    pub(super) output: O,
    /// The tool calls on the way to it.
    pub(super) actions: Vec<Action>,
    /// The prompt, without the messages before it and those that repaired the answer.
    pub(super) prompt: String,
    /// The answer as the model wrote it.
    pub(super) text: String,
}

/// The model that is being asked.
pub(super) struct Target {
    pub(super) provider: Arc<Provider>,
    /// With its name at the provider.
    pub(super) name: ModelName,
    pub(super) facts: ModelFacts,
    /// Tokens of its output, reasoning included.
    pub(super) output_limit: u32,
}

impl Target {
    /// True if the beginning that requests share costs less, so it is worth keeping the same.
    fn caches_prefixes(&self) -> bool {
        !self.provider.compatible() || self.facts.cache_marks
    }
}

/// The state of one call.
struct Progress<'a> {
    writer: ScratchpadWriter<'a>,
    history: History,
    delivery: Delivery,
    /// The documents in the last prompt, which are reported once.
    reported: Vec<PromptDocument>,
    budget: usize,
    rounds: u32,
    repairs: u32,
    shortened: bool,
    actions: Vec<Action>,
}

impl<'a> Call<'a> {
    /// Asks until an answer meets the contract. `render` makes the prompt.
    pub(super) async fn ask<R: Reply>(
        &self,
        input: &R::Input,
        render: impl Fn(Setting<'_>, &mut PromptTrimmer) -> Result<Prompt, RoleError>,
    ) -> Result<Answered<R::Output>, RoleError> {
        let mut fallback = self.shared.config.fallback.clone().filter(|name| *name != self.model);
        let mut progress = Progress {
            writer: match R::schema() {
                Some(_) => ScratchpadWriter::new(self.io),
                None => ScratchpadWriter::of_text(self.io),
            },
            history: History::default(),
            delivery: Delivery::default(),
            reported: Vec::new(),
            budget: 0,
            rounds: 0,
            repairs: 0,
            shortened: false,
            actions: Vec::new(),
        };
        let mut name = self.model.clone();
        loop {
            let failure = match self.target(&name).await {
                Ok(target) => {
                    progress.budget = target.facts.prompt(self.context, target.output_limit);
                    match self.with::<R>(&target, input, &render, &mut progress).await? {
                        Ok(answered) => return Ok(answered),
                        Err(failure) => failure,
                    }
                }
                Err(failure) => failure,
            };
            match fallback.take().filter(|_| failure.another_may_help()) {
                Some(next) => {
                    tracing::warn!(model = %name, fallback = %next, "fell back: {}", failure.message);
                    let remark =
                        format!("{name} is not available, {next} is asked instead: {}", failure.message);
                    progress.writer.remark(&remark).await;
                    name = next;
                }
                None => return Err(failure.into()),
            }
        }
    }

    async fn target(&self, name: &ModelName) -> Result<Target, Failure> {
        let provider = self.shared.provider(name.provider)?;
        let name = ModelName { model: provider.model(name).await?, ..name.clone() };
        let config = &self.shared.config;
        let facts = config.facts(&name);
        let output_limit = facts.output_limit(config.tuning.max_output_tokens, self.effort);
        Ok(Target { provider, name, facts, output_limit })
    }

    /// Tokens of a prompt, as the model is known by its name here.
    pub(super) fn prompt_budget(&self) -> usize {
        let config = &self.shared.config;
        let facts = config.facts(&self.model);
        let output_limit = facts.output_limit(config.tuning.max_output_tokens, self.effort);
        facts.prompt(self.context, output_limit)
    }

    /// The bounds of an answer of `target`.
    fn bounds_of(&self, target: &Target) -> Bounds {
        let output_tokens = target.facts.max_output(self.shared.config.tuning.max_output_tokens);
        Bounds { output_tokens, ..self.bounds }
    }

    /// Asks one model. The outer error ends the call; after the inner one another model may be tried.
    async fn with<R: Reply>(
        &self,
        target: &Target,
        input: &R::Input,
        render: &impl Fn(Setting<'_>, &mut PromptTrimmer) -> Result<Prompt, RoleError>,
        progress: &mut Progress<'a>,
    ) -> Result<Result<Answered<R::Output>, Failure>, RoleError> {
        let Target { provider, name: ModelName { model, .. }, facts, .. } = target;
        let bounds = self.bounds_of(target);
        loop {
            if progress.repairs > 0 && !self.io.may_ask() {
                let message =
                    "what was left of maxTokens or maxCostMicros is used up, and no answer was usable";
                return Err(RoleError::new(RoleErrorKind::Rejected, message));
            }
            // Small models of other servers need the schema more than the tools.
            let shares_prefix = R::SHARES_PREFIX && target.caches_prefixes();
            let gives_up_tools = R::SHARES_PREFIX && !shares_prefix && R::schema().is_some();
            let has_tools = !self.tools.is_empty()
                && !gives_up_tools
                && facts.tools
                && provider.able(model, FailureKind::Tools);
            let rounds = self.shared.config.tuning.tool_rounds;
            let may_call_tools =
                has_tools && progress.rounds < rounds && progress.repairs == 0 && self.io.may_go_on();
            let able = !shares_prefix && facts.schema && provider.able(model, FailureKind::Schema);
            let schema = R::schema().map(|schema| match provider.compatible() {
                true => schema.bounded(bounds),
                false => schema.plain(),
            });
            // If the provider cannot enforce the schema from the first answer on, the prompt contains it.
            let demanded = able && (!has_tools || provider.schema_with_tools());
            let written = schema.as_ref().filter(|_| !demanded).map(ToString::to_string);
            let forked = self.fork.fit(progress.budget, facts.cache_marks);
            let setting =
                Setting { schema: written.as_deref(), tools: has_tools, shortened: forked.shortened };
            let room = progress.budget.saturating_sub(forked.tokens);
            let prompt = assemble(room, |trimmer| render(setting, trimmer))?;
            progress.history.shorten(progress.budget);
            let mut messages = forked.messages;
            messages.push(ChatMessage::user(prompt.user.clone()));
            messages.extend(progress.history.messages());
            let asked = if R::NAMES_DOCUMENTS { messages.clone() } else { Vec::new() };
            let goes_on = may_call_tools || R::SHARES_PREFIX || R::NAMES_DOCUMENTS;
            let mut request = cached(messages, &prompt.system, facts.cache_marks, goes_on);
            // Providers require the definitions of tools that an earlier message calls.
            if may_call_tools || progress.history.has_tool_calls() {
                request = request.with_tools(cached_tools(&self.tools, facts.cache_marks));
            }
            let offered = request.tools.is_some();
            let question = Question {
                model,
                request,
                schema: schema.filter(|_| able && (!may_call_tools || provider.schema_with_tools())),
                may_call_tools,
                output_limit: target.output_limit,
                api: facts.api,
                reasons: facts.reasons(self.effort),
                effort: self.effort.filter(|_| facts.reasoning != Reasoning::Never),
                about_tokens: (forked.tokens + progress.history.about_tokens(&prompt)) as u64,
            };
            let demands = question.schema.is_some();
            let turn = match provider.ask(question, &mut progress.writer).await {
                Ok(turn) => turn,
                Err(failure) => match failure.kind {
                    FailureKind::Schema if demands => {
                        tracing::info!(%model, "no schemas there; it stands in the prompt: {}", failure.message);
                        provider.note_unable(model, FailureKind::Schema);
                        continue;
                    }
                    FailureKind::Tools if offered && !progress.history.has_tool_calls() => {
                        tracing::info!(%model, "no tools there: {}", failure.message);
                        provider.note_unable(model, FailureKind::Tools);
                        continue;
                    }
                    FailureKind::TooLong if !progress.shortened => {
                        progress.shortened = true;
                        progress.budget /= 2;
                        continue;
                    }
                    _ => return Ok(Err(failure)),
                },
            };
            let how = match (progress.repairs, progress.rounds) {
                (0, 0) => String::new(),
                (0, rounds) => format!(" (after {rounds} rounds of tools)"),
                (repairs, _) => format!(" (repair {repairs})"),
            };
            let estimate = || {
                let history = progress.history.texts().map(tokens::count).sum::<usize>();
                tokens::count(&prompt.system) + tokens::count(&prompt.user) + history + forked.tokens
            };
            let documents = match progress.reported == prompt.documents {
                true => Vec::new(),
                false => prompt.documents.clone(),
            };
            self.record(target, &turn, &how, documents, estimate).await;
            progress.reported.clone_from(&prompt.documents);
            if may_call_tools && !turn.tool_calls.is_empty() {
                progress.rounds += 1;
                let outcomes = toolbox::run(self.io, &turn.tool_calls, progress.budget).await;
                progress.actions.extend(outcomes.iter().map(toolbox::Outcome::action));
                progress.history.called(turn.content, outcomes);
                continue;
            }
            let shown = progress.writer.wrote();
            let completed = R::NAMES_DOCUMENTS.then(|| progress.delivery.complete(&turn.text)).flatten();
            let conversation =
                Conversation { prompt: &prompt, messages: asked, with_tools: offered, answer: &turn.text };
            let read = match completed {
                None => R::read(&turn.text, input, shown),
                Some((answer, wanted)) => match R::read(&answer, input, shown) {
                    // The object is usable, so its documents are worth their cost.
                    Ok(_) if !wanted.is_empty() => {
                        if let Err(failure) =
                            self.deliver(target, wanted, &conversation, &mut progress.delivery).await?
                        {
                            return Ok(Err(failure));
                        }
                        let whole = progress.delivery.complete(&turn.text).map_or(answer, |(whole, _)| whole);
                        R::read(&whole, input, shown)
                    }
                    read => read,
                },
            };
            let errors = match read {
                Ok(mut output) => {
                    self.cite(target, &conversation, R::artifacts(&mut output)).await?;
                    let (prompt, text) = (prompt.user, turn.text);
                    let actions = std::mem::take(&mut progress.actions);
                    return Ok(Ok(Answered { output, actions, prompt, text }));
                }
                Err(errors) => errors,
            };
            self.repair::<R>(target, &turn, errors, written.as_deref(), progress)?;
        }
    }

    /// Prepares the request to repair an unusable answer. An error if there were enough of these.
    fn repair<R: Reply>(
        &self,
        target: &Target,
        turn: &Turn,
        mut errors: Vec<String>,
        schema: Option<&str>,
        progress: &mut Progress<'a>,
    ) -> Result<(), RoleError> {
        match &turn.stop {
            Some(StopReason::ContentFilter(_)) => {
                errors.insert(0, "a content filter ended the answer".into())
            }
            _ if !turn.tool_calls.is_empty() => {
                errors.insert(0, "no more tools can be called: answer with what you know".into());
            }
            _ => {}
        }
        if progress.repairs == REPAIRS {
            let what = errors.join("; ");
            let what = prefix(&what, 1_000);
            let name = &target.name;
            let message = format!("{name} gave no usable answer in {} tries: {what}", REPAIRS + 1);
            return Err(RoleError::new(R::GIVEN_UP, target.provider.redact(&message)));
        }
        progress.repairs += 1;
        let cut = matches!(turn.stop, Some(StopReason::MaxTokens(_)));
        let repair = Repair {
            errors: &errors,
            cut,
            limit: self.bounds_of(target).output_tokens,
            schema,
            whole: R::WHOLE,
        };
        progress.history.answered(&turn.text, repair.render()?);
        // The next answer mostly repeats this one.
        if progress.writer.wrote() {
            progress.writer.silence();
        }
        Ok(())
    }

    /// Reports what an answer cost, and the documents of which its prompt held text. `how` is added to the purpose of
    /// the call. `estimate` counts the tokens of the request, for providers that do not.
    pub(super) async fn record(
        &self,
        target: &Target,
        turn: &Turn,
        how: &str,
        documents: Vec<PromptDocument>,
        estimate: impl FnOnce() -> usize,
    ) {
        let mut purpose = format!("{}{how}", self.purpose);
        let tokens = turn.tokens.unwrap_or_else(|| {
            purpose.push_str(", tokens estimated");
            let own = |count| target.facts.own_tokens(count) as u64;
            TokenCounts::fresh(own(estimate()), own(tokens::count(&turn.text)))
        });
        let model = target.name.to_string();
        let price = target.facts.price();
        if price.is_none() {
            prices::warn_unknown(&match target.provider.compatible() {
                // Another server may use the name of a known model for something else.
                true => format!("{model} at {}", target.provider.shown()),
                false => model.clone(),
            });
        }
        let usage = UsageRecorded {
            model,
            input_tokens: tokens.input,
            output_tokens: tokens.output,
            cached_tokens: tokens.cached,
            cache_write_tokens: tokens.written,
            cost_micros: price.map_or(0, |price| price.cost_micros(tokens)),
            duration_ms: turn.took.max(Duration::from_millis(1)).as_millis() as u64,
            purpose,
            documents,
        };
        self.io.usage(usage).await;
    }
}

/// A request of these messages. `marks`: what comes before the last message is to be cached, and with `goes_on` that
/// too: only what another request will repeat is worth the price of writing it to the cache.
pub(super) fn cached(
    mut messages: Vec<ChatMessage>,
    system: &str,
    marks: bool,
    goes_on: bool,
) -> ChatRequest {
    if let Some(last) = messages.last_mut().filter(|_| marks && goes_on) {
        *last = std::mem::replace(last, ChatMessage::user("")).with_options(CacheControl::Ephemeral);
    }
    if !marks {
        return ChatRequest::from_messages(messages).with_system(system.to_owned());
    }
    messages.insert(0, ChatMessage::system(system.to_owned()).with_options(CacheControl::Ephemeral));
    ChatRequest::from_messages(messages)
}

/// The same tools, of which the last one is marked with `marks`.
pub(super) fn cached_tools(tools: &[Tool], marks: bool) -> Vec<Tool> {
    let mut tools = tools.to_vec();
    if let Some(last) = tools.last_mut().filter(|_| marks) {
        last.cache_control = Some(CacheControl::Ephemeral);
    }
    tools
}
