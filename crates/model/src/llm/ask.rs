//! One role call: asks the model, runs the tools that it calls, reads the answer, has it repaired, and falls back to
//! another model.

use std::sync::Arc;
use std::time::Duration;

use genai::chat::{ChatMessage, ChatRequest, StopReason, Tool};
use tree_agent_contract::ModelName;
use tree_agent_contract::event::UsageRecorded;
use tree_agent_contract::role::{Action, RoleError, RoleErrorKind};
use tree_agent_contract::text::prefix;

use super::context::{PromptTrimmer, assemble};
use super::failure::{Failure, FailureKind};
use super::history::History;
use super::prompt::{Prompt, Repair};
use super::provider::{Provider, Question, Turn};
use super::reply::{Bounds, Reply};
use super::stream::ScratchpadWriter;
use super::{Shared, json, prices, tokens, toolbox};
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
    /// Tokens of the prompt.
    pub(super) budget: usize,
    pub(super) bounds: Bounds,
    /// The tools that the model may call.
    pub(super) tools: Vec<Tool>,
}

/// The model that is being asked.
struct Target {
    provider: Arc<Provider>,
    name: ModelName,
    /// Its name at the provider.
    model: String,
}

/// The state of one call.
struct Progress<'a> {
    writer: ScratchpadWriter<'a>,
    history: History,
    budget: usize,
    rounds: u32,
    repairs: u32,
    shortened: bool,
    actions: Vec<Action>,
}

impl<'a> Call<'a> {
    /// Asks until an answer meets the contract. `render` makes the prompt; it gets the schema if the provider does
    /// not enforce it, and whether there are tools. Returns the tool calls as actions as well.
    pub(super) async fn ask<R: Reply>(
        &self,
        input: &R::Input,
        render: impl Fn(Option<&str>, bool, &mut PromptTrimmer) -> Result<Prompt, RoleError>,
    ) -> Result<(R::Output, Vec<Action>), RoleError> {
        let mut fallback = self.shared.config.fallback.clone().filter(|name| *name != self.model);
        let mut progress = Progress {
            writer: ScratchpadWriter::new(self.io),
            history: History::default(),
            budget: self.budget,
            rounds: 0,
            repairs: 0,
            shortened: false,
            actions: Vec::new(),
        };
        let mut name = self.model.clone();
        loop {
            let failure = match self.target(&name).await {
                Ok(target) => match self.with::<R>(&target, input, &render, &mut progress).await? {
                    Ok(output) => return Ok((output, progress.actions)),
                    Err(failure) => failure,
                },
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
        let model = provider.model(name).await?;
        Ok(Target { provider, model, name: name.clone() })
    }

    /// Asks one model. The outer error ends the call; after the inner one another model may be tried.
    async fn with<R: Reply>(
        &self,
        target: &Target,
        input: &R::Input,
        render: &impl Fn(Option<&str>, bool, &mut PromptTrimmer) -> Result<Prompt, RoleError>,
        progress: &mut Progress<'a>,
    ) -> Result<Result<R::Output, Failure>, RoleError> {
        let Target { provider, model, .. } = target;
        loop {
            if progress.repairs > 0 && !self.io.may_ask() {
                let message =
                    "what was left of maxTokens or maxCostMicros is used up, and no answer was usable";
                return Err(RoleError::new(RoleErrorKind::Rejected, message));
            }
            let has_tools = !self.tools.is_empty() && provider.able(model, FailureKind::Tools);
            let rounds = self.shared.config.tuning.tool_rounds;
            let may_call_tools =
                has_tools && progress.rounds < rounds && progress.repairs == 0 && self.io.may_go_on();
            let able = provider.able(model, FailureKind::Schema);
            let schema = match provider.compatible() {
                true => R::schema().bounded(self.bounds),
                false => R::schema().plain(),
            };
            // If the provider cannot enforce the schema from the first answer on, the prompt contains it.
            let demanded = able && (!has_tools || provider.schema_with_tools());
            let written = (!demanded).then(|| schema.to_string());
            let prompt = assemble(progress.budget, |trimmer| render(written.as_deref(), has_tools, trimmer))?;
            progress.history.shorten(progress.budget);
            let mut messages = vec![ChatMessage::user(prompt.user.clone())];
            messages.extend(progress.history.messages());
            let mut request = ChatRequest::from_messages(messages).with_system(prompt.system.clone());
            // Providers require the definitions of tools that an earlier message calls.
            if may_call_tools || progress.history.has_tool_calls() {
                request = request.with_tools(self.tools.clone());
            }
            let offered = request.tools.is_some();
            let question = Question {
                model,
                request,
                schema: (able && (!may_call_tools || provider.schema_with_tools())).then_some(schema),
                may_call_tools,
                max_output_tokens: self.bounds.output_tokens,
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
            self.record(target, &prompt, &turn, progress).await;
            if may_call_tools && !turn.tool_calls.is_empty() {
                progress.rounds += 1;
                let outcomes = toolbox::run(self.io, &turn.tool_calls, progress.budget).await;
                progress.actions.extend(outcomes.iter().map(toolbox::Outcome::action));
                progress.history.called(turn.content, outcomes);
                continue;
            }
            let errors = match json::object(&turn.text) {
                Ok(object) => match R::read(object, input, progress.writer.wrote()) {
                    Ok(output) => return Ok(Ok(output)),
                    Err(errors) => errors,
                },
                Err(error) => vec![error],
            };
            self.repair(target, &turn, errors, written.as_deref(), progress)?;
        }
    }

    /// Prepares the request to repair an unusable answer. An error if there were enough of these.
    fn repair(
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
            let name = ModelName { model: target.model.clone(), ..target.name.clone() };
            let message = format!("{name} gave no usable answer in {} tries: {what}", REPAIRS + 1);
            return Err(RoleError::new(RoleErrorKind::InvalidOutput, target.provider.redact(&message)));
        }
        progress.repairs += 1;
        let cut = matches!(turn.stop, Some(StopReason::MaxTokens(_)));
        let repair = Repair { errors: &errors, cut, limit: self.bounds.output_tokens, schema };
        progress.history.answered(&turn.text, repair.render()?);
        // The next answer mostly repeats this one.
        if progress.writer.wrote() {
            progress.writer.silence();
        }
        Ok(())
    }

    /// Reports what the answer cost.
    async fn record(&self, target: &Target, prompt: &Prompt, turn: &Turn, progress: &Progress<'a>) {
        let mut purpose = self.purpose.to_owned();
        if progress.repairs > 0 {
            purpose.push_str(&format!(" (repair {})", progress.repairs));
        } else if progress.rounds > 0 {
            purpose.push_str(&format!(" (after {} rounds of tools)", progress.rounds));
        }
        let (input, output, cached) = turn.tokens.unwrap_or_else(|| {
            purpose.push_str(", tokens estimated");
            let history = progress.history.texts().map(tokens::count).sum::<usize>();
            let input = tokens::count(&prompt.system) + tokens::count(&prompt.user) + history;
            (input as u64, tokens::count(&turn.text) as u64, 0)
        });
        let model = ModelName { model: target.model.clone(), ..target.name.clone() }.to_string();
        let cost = match target.provider.compatible() {
            // Another server may use the name of a known model for something else.
            true => prices::warn_unknown_price(&format!("{model} at {}", target.provider.shown())),
            false => prices::cost_micros(&model, input, cached, output),
        };
        let usage = UsageRecorded {
            model,
            input_tokens: input,
            output_tokens: output,
            cached_tokens: cached,
            cost_micros: cost.unwrap_or_default(),
            duration_ms: turn.took.max(Duration::from_millis(1)).as_millis() as u64,
            purpose,
        };
        self.io.usage(usage).await;
    }
}
