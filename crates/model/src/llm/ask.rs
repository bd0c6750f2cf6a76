//! One role call: asks the model, runs the tools that it calls, reads the answer, has it repaired, and falls back to
//! another model.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use genai::chat::{CacheControl, ChatMessage, ChatRequest, Tool};
use serde_json::Value;
use tree_agent_contract::ModelName;
use tree_agent_contract::event::{PromptDocument, UsageRecorded};
use tree_agent_contract::role::{Action, RoleError, RoleErrorKind};
use tree_agent_contract::text::prefix;

use super::concession::Concession;
use super::context::{PromptTrimmer, assemble};
use super::delivery::{Conversation, Delivery};
use super::effort::Effort;
use super::failure::{Failure, FailureKind};
use super::filter::Filter;
use super::fork::Fork;
use super::history::History;
use super::prices::TokenCounts;
use super::prompt::{Prompt, Repair};
use super::protocol::{Format, Question, Turn};
use super::provider::Provider;
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

/// A prompt with room for fewer tokens explains and asks for less. A model that has no more is a small one, and small
/// models fill whatever they may fill.
const SMALL_PROMPT: usize = 4_000;

/// What a prompt depends on beside the input of the role.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting<'a> {
    /// The schema, if the provider does not enforce it.
    pub(super) schema: Option<&'a str>,
    /// Whether there are tools.
    pub(super) tools: bool,
    /// Messages of the conversation that were shortened or left out.
    pub(super) shortened: u32,
    /// There is so little room that only what most answers need is explained.
    pub(super) is_small: bool,
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
    /// The tools that are still offered.
    tools: Vec<Tool>,
    /// How often the provider has refused some of them.
    tools_refused: u32,
    budget: usize,
    rounds: u32,
    repairs: u32,
    shortened: bool,
    /// The model has answered nothing.
    blank: bool,
    /// No schema is enforced any more.
    free: bool,
    filter: Filter,
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
            tools: self.tools.clone(),
            tools_refused: 0,
            budget: 0,
            rounds: 0,
            repairs: 0,
            shortened: false,
            blank: false,
            free: false,
            filter: Filter::default(),
            actions: Vec::new(),
        };
        let mut name = self.model.clone();
        loop {
            let failure = match self.target(&name).await {
                Ok(target) => {
                    progress.budget = target.facts.prompt(self.context, target.output_limit);
                    (progress.shortened, progress.blank, progress.free) = (false, false, false);
                    match self.with::<R>(&target, input, &render, &mut progress).await? {
                        Ok(answered) => return Ok(answered),
                        // The same model is asked again, within what it has said.
                        Err(Failure { context: Some(context), .. })
                            if target.provider.learn(&target.name.model, context) =>
                        {
                            continue;
                        }
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
                    progress.history.change_provider();
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
        let mut facts = config.facts(&name);
        if let Some(context) = provider.context(&name.model) {
            facts.learn(context);
        }
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
        let is_small = progress.budget < SMALL_PROMPT;
        let bounds = Bounds { is_small, ..self.bounds_of(target) };
        if is_small {
            progress.tools.retain(|tool| toolbox::is_worth_its_tokens(tool.name.as_ref()));
        }
        loop {
            if progress.repairs > 0 && !self.io.may_ask() {
                let message =
                    "what was left of maxTokens or maxCostMicros is used up, and no answer was usable";
                return Err(RoleError::new(RoleErrorKind::Rejected, message));
            }
            // Small models of other servers need the schema more than the tools.
            let shares_prefix = R::SHARES_PREFIX && target.caches_prefixes();
            let gives_up_tools = R::SHARES_PREFIX && !shares_prefix && R::schema().is_some();
            let conceded = provider.concessions.of(model);
            let has_tools = !progress.tools.is_empty()
                && !gives_up_tools
                && facts.tools
                && !conceded.contains(&Concession::Tools);
            let rounds = self.shared.config.tuning.tool_rounds;
            // The last answer must be one.
            let may_call_tools =
                has_tools && progress.rounds < rounds && progress.repairs < REPAIRS && self.io.may_go_on();
            let schema = R::schema().map(|schema| match provider.compatible() {
                true if !conceded.contains(&Concession::Bounds) => schema.bounded(bounds),
                _ => schema.plain(bounds),
            });
            let able = schema.as_ref().filter(|_| !shares_prefix && facts.schema && !progress.free);
            let (format, given_up) = form(able, &conceded, provider.compatible());
            // If the provider cannot enforce the schema from the first answer on, the prompt contains it.
            let demanded = matches!(format, Format::Strict(_) | Format::Bounded(_))
                && (!has_tools || provider.schema_with_tools());
            let written = schema.as_ref().filter(|_| !demanded).map(ToString::to_string);
            let forked = self.fork.fit(progress.budget, facts.cache_marks);
            let setting = Setting {
                schema: written.as_deref(),
                tools: has_tools,
                shortened: forked.shortened,
                is_small,
            };
            let room = progress.budget.saturating_sub(forked.tokens);
            let prompt = assemble(room, |trimmer| {
                trimmer.leave_out(progress.filter.left_out());
                render(setting, trimmer)
            })?;
            progress.history.shorten(progress.budget);
            let mut messages = forked.messages;
            messages.push(ChatMessage::user(prompt.user.clone()));
            messages.extend(progress.history.messages());
            let asked = if R::NAMES_DOCUMENTS { messages.clone() } else { Vec::new() };
            let goes_on = may_call_tools || R::SHARES_PREFIX || R::NAMES_DOCUMENTS;
            let mut request = cached(messages, &prompt.system, facts.cache_marks, goes_on);
            // Providers require the definitions of tools that an earlier message calls.
            if may_call_tools || progress.history.has_tool_calls() {
                request = request.with_tools(cached_tools(&progress.tools, facts.cache_marks));
            }
            let offered = request.tools.is_some();
            let about_tokens = (forked.tokens + progress.history.about_tokens(&prompt)) as u64;
            let question = Question {
                model,
                request,
                format: match !may_call_tools || provider.schema_with_tools() {
                    true => format,
                    false => Format::Free,
                },
                may_call_tools,
                output_limit: target.output_limit,
                api: facts.api,
                reasons: facts.reasons(self.effort),
                effort: self.effort.filter(|_| facts.reasoning != Reasoning::Never),
                about_tokens,
            };
            let demands = question.format != Format::Free;
            let turn = match provider.ask(question, &mut progress.writer).await {
                Ok(turn) => turn,
                Err(failure) => match failure.kind {
                    FailureKind::Schema if demands => {
                        // A server that names the type knows no schemas at all.
                        let says = |words| failure.words.contains(words);
                        let knows_none = says("json_schema") && (says("support") || says("unavailable"));
                        let given_up = given_up.filter(|c| *c == Concession::JsonObject || !knows_none);
                        let given_up = given_up.unwrap_or(Concession::Schema);
                        provider.concede(model, given_up, &failure, &mut progress.writer).await;
                        continue;
                    }
                    FailureKind::NoTools if offered => {
                        provider.concede(model, Concession::Tools, &failure, &mut progress.writer).await;
                        progress.history.retell();
                        continue;
                    }
                    FailureKind::Tools if offered => {
                        progress.offer_fewer_tools(&failure).await;
                        continue;
                    }
                    FailureKind::Filtered if progress.filter.go_on(&prompt.documents) => continue,
                    FailureKind::Blank if !progress.free => {
                        // The grammar of the schema may have led it there, so this call goes on without.
                        progress.free = true;
                        let remark =
                            format!("{model} is asked without an enforced schema: {}", failure.message);
                        tracing::warn!("{remark}");
                        progress.writer.remark(&remark).await;
                        continue;
                    }
                    // A context that is known already does not help.
                    FailureKind::TooLong
                        if !progress.shortened
                            && failure.context.is_none_or(|named| {
                                provider.context(model).is_some_and(|known| known <= named)
                            }) =>
                    {
                        progress.shortened = true;
                        progress.budget /= 2;
                        continue;
                    }
                    _ => return Ok(Err(failure)),
                },
            };
            progress.filter.tell(self.io, &mut progress.writer).await;
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
            let is_nothing = turn.text.trim().is_empty() && turn.tool_calls.is_empty();
            if is_nothing && !turn.is_cut() && turn.broken_off().is_none() {
                // Some servers say nothing at all of a prompt that is too long.
                if std::mem::replace(&mut progress.blank, true) {
                    let message = format!(
                        "{} answered nothing, twice; the prompt may be too long for it: \"context\" of {} in \
                         TREE_AGENT_MODEL_TABLE makes it shorter",
                        provider.site.shown(),
                        target.name
                    );
                    return Ok(Err(Failure::new(FailureKind::Blank, message)));
                }
                progress.budget /= 2;
                continue;
            }
            let ignored = ignored_prompt(target, &turn, about_tokens);
            if let Some(remark) = &ignored {
                tracing::warn!(%model, "{remark}");
                progress.writer.remark(remark).await;
            }
            let shown = progress.writer.wrote();
            let needed = R::needed_document(input);
            let completed =
                R::NAMES_DOCUMENTS.then(|| progress.delivery.complete(&turn.text, needed)).flatten();
            let tools = if offered { progress.tools.clone() } else { Vec::new() };
            let conversation = Conversation { prompt: &prompt, messages: asked, tools, answer: &turn.text };
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
                        let whole = progress.delivery.complete(&turn.text, needed);
                        let whole = whole.map_or(answer, |(whole, _)| whole);
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
            if let Some(remark) = ignored {
                // It would not read the errors either.
                return Err(RoleError::new(RoleErrorKind::Rejected, remark));
            }
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
        if let Some(why) = turn.broken_off() {
            errors.insert(0, why);
        } else if !turn.tool_calls.is_empty() {
            errors.insert(0, "no more tools can be called: answer with what you know".into());
        }
        if progress.repairs == REPAIRS {
            let what = errors.join("; ");
            let what = prefix(&what, 1_000);
            let name = &target.name;
            let message = format!("{name} gave no usable answer in {} tries: {what}", REPAIRS + 1);
            return Err(RoleError::new(R::GIVEN_UP, target.provider.site.redact(&message)));
        }
        progress.repairs += 1;
        let repair = Repair {
            errors: &errors,
            cut: turn.is_cut(),
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
                true => format!("{model} at {}", target.provider.site.shown()),
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
            prompt: None,
        };
        self.io.usage(usage, turn.kept.clone()).await;
    }
}

impl Progress<'_> {
    /// The provider refused the tools of a request: the rest of the call does without those that it named.
    async fn offer_fewer_tools(&mut self, failure: &Failure) {
        /// Refusals before the call does without tools.
        const REFUSALS: u32 = 3;
        let before = self.tools.len();
        self.tools_refused += 1;
        match self.tools_refused {
            REFUSALS => self.tools.clear(),
            _ => toolbox::drop_refused(&failure.words, &mut self.tools),
        }
        if self.tools.is_empty() {
            self.history.retell();
        }
        let remark = format!("{} of {before} tools are offered: {}", self.tools.len(), failure.message);
        tracing::warn!("{remark}");
        self.writer.remark(&remark).await;
    }
}

/// What the provider is to enforce of `schema`, and what is given up if it refuses that. A server of another than the
/// provider may know no bounds, or JSON only.
fn form(
    schema: Option<&Value>,
    conceded: &BTreeSet<Concession>,
    compatible: bool,
) -> (Format, Option<Concession>) {
    let Some(schema) = schema else { return (Format::Free, None) };
    let refused = |concession| conceded.contains(&concession);
    match () {
        () if refused(Concession::JsonObject) || refused(Concession::Schema) && !compatible => {
            (Format::Free, None)
        }
        () if refused(Concession::Schema) => (Format::Object, Some(Concession::JsonObject)),
        () if refused(Concession::Bounds) || !compatible => {
            (Format::Strict(schema.clone()), Some(Concession::Schema))
        }
        () => (Format::Bounded(schema.clone()), Some(Concession::Bounds)),
    }
}

/// What to say if the server counts far fewer tokens of a prompt than it was sent: it has cut the prompt silently.
fn ignored_prompt(target: &Target, turn: &Turn, about_tokens: u64) -> Option<String> {
    /// Fewer say nothing: some servers do not count what they have cached.
    const TOLD: u64 = 2_000;
    let read = turn.tokens.filter(|_| target.provider.compatible())?.input;
    (read >= TOLD && read.saturating_mul(2) < about_tokens).then(|| {
        format!(
            "{} has read {read} of about {about_tokens} tokens of the prompt: raise the context there (Ollama: \
             OLLAMA_CONTEXT_LENGTH), or set \"context\" of {} in TREE_AGENT_MODEL_TABLE",
            target.provider.site.shown(),
            target.name
        )
    })
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
