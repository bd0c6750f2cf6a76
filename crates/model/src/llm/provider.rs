//! One provider: its requests, retries and answers.

use std::collections::HashSet;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBuilder};
use futures::{StreamExt, poll};
use genai::adapter::AdapterKind;
use genai::chat::{
    ChatOptions, ChatRequest, ChatStreamEvent, JsonSpec, MessageContent, StopReason, ToolCall, ToolChoice,
};
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ServiceTarget};
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use tree_agent_contract::text::{one_line, prefix};
use tree_agent_contract::{ModelName, ProviderKind};
use tree_agent_runtime::channel::is_loopback;

use super::answer::AnswerSize;
use super::effort::Effort;
use super::failure::{Failure, FailureKind, classify, connection, kind_of};
use super::gate::{Gate, GateCounts, PATIENCE};
use super::names;
use super::prices::TokenCounts;
use super::settings::{Address, Tuning};
use super::stream::ScratchpadWriter;
use super::table::Api;
use super::tool_calls::ToolCalls;

/// Bytes of a refusal's body that an error quotes.
const QUOTED: usize = 300;
/// Maximum of bytes of a list of models; the longest known one has a tenth of it.
const LIST_BYTES: usize = 4 * 1024 * 1024;
/// Bytes that an answer may have for each of its tokens. No token has as many, so only answers that ignore their
/// limit are refused.
const BYTES_PER_TOKEN: usize = 32;
/// Bytes that an answer may have in addition, for reasoning and arguments of tools.
const ANSWER_BYTES: usize = 1024 * 1024;
/// The longest wait between attempts. If a provider asks for a longer one, the request fails and its circuit opens.
const LONGEST_WAIT: Duration = Duration::from_secs(20);
/// How many times as long as others a model may be silent that reasons first and does not show its thoughts.
const SILENT_THOUGHT: u32 = 4;
/// Time in which a connection must be accepted.
const CONNECT: Duration = Duration::from_secs(10);

/// A provider, shared by all calls that use it.
pub(super) struct Provider {
    kind: ProviderKind,
    address: Address,
    http: reqwest::Client,
    client: Client,
    gate: Gate,
    stall: Duration,
    retries: ExponentialBuilder,
    /// The model to use if none is named.
    first: OnceLock<String>,
    /// What models of this provider turned out to be unable to do.
    unable: Mutex<HashSet<(String, FailureKind)>>,
    /// When the key was last checked, and the result. Locked during a check.
    key: tokio::sync::Mutex<Option<(Instant, Result<(), Failure>)>>,
}

/// One request.
pub(super) struct Question<'a> {
    pub(super) model: &'a str,
    pub(super) request: ChatRequest,
    /// The schema that the provider must enforce.
    pub(super) schema: Option<Value>,
    /// Whether this answer may call tools.
    pub(super) may_call_tools: bool,
    /// Of the answer, with room for reasoning.
    pub(super) output_limit: u32,
    pub(super) api: Api,
    /// Whether the model reasons before it answers.
    pub(super) reasons: bool,
    /// How much; none for as the provider chooses.
    pub(super) effort: Option<Effort>,
    /// About how many tokens the prompt has, for the limit of tokens in a minute.
    pub(super) about_tokens: u64,
}

/// One answer.
#[derive(Debug, Default)]
pub(super) struct Turn {
    pub(super) text: String,
    pub(super) tool_calls: Vec<ToolCall>,
    /// The whole answer, as the next request must repeat it.
    pub(super) content: MessageContent,
    pub(super) stop: Option<StopReason>,
    /// None if the provider does not report them.
    pub(super) tokens: Option<TokenCounts>,
    pub(super) took: Duration,
}

impl Provider {
    pub(super) fn new(kind: ProviderKind, address: &Address, tuning: &Tuning) -> Result<Self, Failure> {
        // A redirect would send the prompt and the key to an address that the operator has not configured.
        let mut http = reqwest::Client::builder()
            .tls_backend_preconfigured(tuning.roots.http_client_config())
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .tcp_nodelay(true);
        // A proxy cannot reach this machine, and would see the prompts and the key.
        if address.url.parse().is_ok_and(|url| is_loopback(&url)) {
            http = http.no_proxy();
        }
        let unusable = |error: &dyn std::fmt::Display| {
            let message = format!("no client for {} can be made: {error}", address.url);
            Failure::new(FailureKind::Refused, message)
        };
        let http = http.build().map_err(|e| unusable(&e))?;
        let client = Client::builder().with_reqwest(http.clone()).build().map_err(|e| unusable(&e))?;
        Ok(Self {
            kind,
            address: address.clone(),
            http,
            client,
            gate: Gate::new(tuning, tuning.rates_of(kind)),
            stall: tuning.stall,
            // Jitter at most doubles a wait, so that callers do not retry at the same time.
            retries: ExponentialBuilder::new()
                .with_min_delay(tuning.backoff / 2)
                .with_max_delay(LONGEST_WAIT / 2)
                .with_max_times(tuning.tries.saturating_sub(1) as usize)
                .with_jitter(),
            first: OnceLock::new(),
            unable: Mutex::default(),
            key: tokio::sync::Mutex::default(),
        })
    }

    /// The counters of its gate.
    pub(super) fn gate_counts(&self) -> GateCounts {
        self.gate.counts()
    }

    /// Its name and address, for errors.
    pub(super) fn shown(&self) -> String {
        format!("{} at {}", self.kind.as_str(), self.address.url)
    }

    /// True if this is not the provider's own service.
    pub(super) const fn compatible(&self) -> bool {
        self.address.compatible
    }

    /// Whether a schema can be enforced while tools may be called. Gemini refuses it, and some compatible servers
    /// would then never call a tool.
    pub(super) const fn schema_with_tools(&self) -> bool {
        !self.address.compatible && !matches!(self.kind, ProviderKind::Gemini)
    }

    /// `text` without the key.
    pub(super) fn redact(&self, text: &str) -> String {
        self.address.key.as_ref().map_or_else(|| text.to_owned(), |key| key.redact(text))
    }

    /// True unless `model` turned out to be unable to do what `kind` is about.
    pub(super) fn able(&self, model: &str, kind: FailureKind) -> bool {
        let unable = self.unable.lock().unwrap_or_else(PoisonError::into_inner);
        !unable.contains(&(model.to_owned(), kind))
    }

    /// Remembers what `model` cannot do, so that it is not tried again.
    pub(super) fn note_unable(&self, model: &str, kind: FailureKind) {
        self.unable.lock().unwrap_or_else(PoisonError::into_inner).insert((model.to_owned(), kind));
    }

    /// The failure that a response with `status` and `body` means.
    pub(super) fn refusal(&self, status: Option<u16>, body: &str) -> Failure {
        let kind = kind_of(status, body);
        let status = status.map_or_else(String::new, |s| format!(" (HTTP {s})"));
        let shown = self.shown();
        let message = match kind {
            // The body is not quoted, because some providers repeat the refused key.
            FailureKind::Key => {
                let variable = self.kind.key_variable();
                let set = if self.address.key.is_some() { "was refused" } else { "is not set" };
                format!("{shown} asks for a valid key{status}: {variable} {set}; check it and restart")
            }
            FailureKind::Redirect => {
                let variable = self.kind.address_variable();
                format!(
                    "{shown} redirects{status}, and redirects are not followed; set {variable} to the address that \
                     serves models"
                )
            }
            _ => {
                let quoted = self.redact(prefix(&one_line(body), QUOTED));
                let variable = self.kind.key_variable();
                match kind {
                    FailureKind::Quota => {
                        format!("the quota of {variable} at {shown} is used up{status}: {quoted}")
                    }
                    FailureKind::Permission => {
                        format!("{variable} lacks a permission at {shown}{status}: {quoted}")
                    }
                    _ => format!("{shown} refused the request{status}: {quoted}"),
                }
            }
        };
        Failure::new(kind, message)
    }

    /// The model that `name` means; if it names none, the first that the server lists.
    pub(super) async fn model(&self, name: &ModelName) -> Result<String, Failure> {
        if !name.model.is_empty() {
            return Ok(name.model.clone());
        }
        if let Some(first) = self.first.get() {
            return Ok(first.clone());
        }
        // A provider that is busy or broken is asked again, as for an answer.
        let mut waits = self.retries.build();
        let list = loop {
            let failure = match self.list(Duration::from_secs(10)).await {
                Ok(list) => break list,
                Err(failure) => failure,
            };
            let may_pass = matches!(failure.kind, FailureKind::Overloaded | FailureKind::Server);
            match waits.next().filter(|_| may_pass) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(failure),
            }
        };
        let id = list["data"][0]["id"].as_str().or_else(|| list["models"][0]["name"].as_str());
        let id = id.ok_or_else(|| {
            let (shown, variable) = (self.shown(), self.kind.address_variable());
            let message = match list["data"].is_array() || list["models"].is_array() {
                true => format!("{shown} lists no model; set TREE_AGENT_MODEL_BALANCED"),
                false => format!(
                    "{shown} sent no list of models; check that {variable} is the address of a model server, or set \
                     TREE_AGENT_MODEL_BALANCED"
                ),
            };
            Failure::new(FailureKind::NoModel, message)
        })?;
        // It may become a part of the address, as a name from a user may.
        let named = ModelName::parse(&format!("{}:{}", name.provider, id.trim_start_matches("models/")));
        let ModelName { model: id, .. } = named.map_err(|_| {
            let message = format!(
                "the name of the first model that {} lists cannot be used; set TREE_AGENT_MODEL_BALANCED",
                self.shown()
            );
            Failure::new(FailureKind::NoModel, message)
        })?;
        Ok(self.first.get_or_init(|| id).clone())
    }

    /// Checks the key. A refusal is a failure of kind [`FailureKind::Key`]; any other failure says nothing about the
    /// key. A result that is younger than `holds` is used again.
    pub(super) async fn check_key(&self, holds: Duration, patience: Duration) -> Result<(), Failure> {
        let mut known = self.key.lock().await;
        if let Some((at, outcome)) = &*known
            && at.elapsed() < holds
        {
            return outcome.clone();
        }
        let outcome = self.list(patience).await.map(drop);
        *known = Some((Instant::now(), outcome.clone()));
        outcome
    }

    /// The models that the provider lists: the cheapest request that checks the key.
    async fn list(&self, patience: Duration) -> Result<Value, Failure> {
        let mut request = self.http.get(format!("{}models", self.address.url)).timeout(patience);
        if let Some(key) = &self.address.key {
            let key = key.expose();
            request = match self.kind {
                ProviderKind::OpenAi => request.bearer_auth(key),
                ProviderKind::Anthropic => {
                    request.header("x-api-key", key).header("anthropic-version", "2023-06-01")
                }
                ProviderKind::Gemini => request.header("x-goog-api-key", key),
            };
        }
        let failed = |error: reqwest::Error| connection(&error, self);
        let response = request.send().await.map_err(failed)?;
        let status = response.status();
        let body = self.read_bounded(response).await?.map_err(failed)?;
        if !status.is_success() {
            return Err(self.refusal(Some(status.as_u16()), &body));
        }
        Ok(serde_json::from_str(&body).unwrap_or_default())
    }

    /// The body of `response`, unless it exceeds the limit of a list of models.
    async fn read_bounded(
        &self,
        response: reqwest::Response,
    ) -> Result<Result<String, reqwest::Error>, Failure> {
        let mut bytes = Vec::new();
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            match chunk {
                Ok(chunk) if bytes.len() + chunk.len() <= LIST_BYTES => bytes.extend_from_slice(&chunk),
                Ok(_) => return Err(self.too_large(LIST_BYTES)),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn too_large(&self, limit: usize) -> Failure {
        let message =
            format!("the answer of {} is longer than {limit} bytes; it was not read on", self.shown());
        Failure::new(FailureKind::TooLarge, message)
    }

    /// Asks until there is an answer, no attempt is left, or the failure is permanent. Text goes to `writer` as it
    /// arrives.
    pub(super) async fn ask(
        &self,
        question: Question<'_>,
        writer: &mut ScratchpadWriter<'_>,
    ) -> Result<Turn, Failure> {
        let byte_limit = ANSWER_BYTES + question.output_limit as usize * BYTES_PER_TOKEN;
        let mut waits = self.retries.build();
        // A call that has not asked yet can begin again. Later it would do its work twice, so it waits.
        let may_begin_again = !writer.has_asked();
        let mut patience = if may_begin_again { PATIENCE } else { Duration::MAX };
        loop {
            let asked = self.asked(&question);
            if patience > PATIENCE
                && let Some(wait) = self.gate.long_wait(question.about_tokens)
            {
                writer.remark(&wait.message).await;
            }
            let admission = self.gate.admit(question.model, question.about_tokens, patience).await?;
            patience = Duration::MAX;
            writer.begin();
            let begun = Instant::now();
            let answer = self.once(&question, &asked, byte_limit, writer).await;
            writer.flush().await;
            let failure = match answer {
                Ok(turn) => {
                    admission.succeeded(turn.tokens.map(|tokens| tokens.input + tokens.output));
                    return Ok(turn);
                }
                Err(failure) => failure,
            };
            if !failure.transient() {
                // A refusal is an answer: the provider is healthy.
                admission.succeeded(None);
                if failure.kind == FailureKind::Thoughts && asked.shows_thoughts {
                    tracing::info!(
                        model = question.model,
                        "no thoughts are shown there: {}",
                        failure.message
                    );
                    self.note_unable(question.model, FailureKind::Thoughts);
                    continue;
                }
                return Err(failure);
            }
            admission.failed(&failure);
            // Nobody accepts or refuses the connection. More attempts would only delay that the run says so.
            let took_long = begun.elapsed() >= CONNECT / 2;
            if failure.kind == FailureKind::Unreachable && may_begin_again && took_long {
                return Err(failure);
            }
            let Some(wait) = waits.next() else { return Err(failure) };
            match failure.retry_after {
                Some(asked) if asked > LONGEST_WAIT => return Err(failure),
                asked => tokio::time::sleep(asked.map_or(wait, |asked| asked.max(wait / 2))).await,
            }
        }
    }

    /// How `question` is asked.
    fn asked(&self, question: &Question<'_>) -> Asked {
        let adapter = adapter(self.kind, question.api);
        // Thoughts are signs of life, and calls of tools after them must be sent back together with them.
        let shows_thoughts = question.reasons
            && adapter != AdapterKind::OpenAI
            && self.able(question.model, FailureKind::Thoughts);
        let keeps_thoughts = shows_thoughts || question.reasons && adapter == AdapterKind::OpenAIResp;
        let mut options = ChatOptions::default()
            .with_max_tokens(question.output_limit)
            .with_capture_usage(true)
            .with_capture_content(true)
            .with_capture_reasoning_content(keeps_thoughts)
            .with_capture_tool_calls(!sends_pieces(adapter));
        if let Some(effort) = question.effort {
            options = options.with_reasoning_effort(effort.asked());
        }
        let mut body = Map::new();
        if adapter != AdapterKind::Gemini {
            body.insert("model".to_owned(), question.model.into());
        }
        if keeps_thoughts && !shows_thoughts {
            // The library asks for a summary whenever it is to keep thoughts; this takes its place.
            let effort = question.effort.map(|effort| effort.asked().variant_name());
            let reasoning = effort.map_or_else(|| json!({}), |effort| json!({ "effort": effort }));
            body.insert("reasoning".to_owned(), reasoning);
        }
        if !body.is_empty() {
            options = options.with_extra_body(Value::Object(body));
        }
        if let Some(schema) = &question.schema {
            options = options.with_response_format(JsonSpec::new("answer", schema.clone()));
        }
        if question.request.tools.is_some() && !question.may_call_tools {
            options = options.with_tool_choice(ToolChoice::None);
        }
        Asked { adapter, options, shows_thoughts }
    }

    /// The answer ended too early. If nothing of it came, the address may be that of another service.
    fn cut_off(&self, began: bool) -> Failure {
        let (shown, variable) = (self.shown(), self.kind.address_variable());
        let message = match began {
            true => format!("{shown} ended its answer in the middle"),
            false => {
                format!(
                    "{shown} sent no answer of a model; check that {variable} is the address of a model server"
                )
            }
        };
        Failure::new(FailureKind::Broken, message)
    }

    async fn once(
        &self,
        question: &Question<'_>,
        asked: &Asked,
        byte_limit: usize,
        writer: &mut ScratchpadWriter<'_>,
    ) -> Result<Turn, Failure> {
        let begun = Instant::now();
        let target = ServiceTarget {
            endpoint: Endpoint::from_owned(self.address.url.as_str()),
            // Other servers ignore the key, but the protocol requires one.
            auth: AuthData::from_single(self.address.key.as_ref().map_or("none", |key| key.expose())),
            model: ModelIden::new(asked.adapter, names::for_library(question.model)),
        };
        let request = question.request.clone();
        let opened = self.client.exec_chat_stream(target, request, Some(&asked.options)).await;
        let mut stream = opened.map_err(|e| classify(&e, self))?.stream;
        let mut turn = Turn::default();
        let mut began = false;
        let mut size = AnswerSize::new(asked.adapter);
        let mut pieces = ToolCalls::default();
        let mut patience = match question.reasons && !asked.shows_thoughts {
            true => self.stall * SILENT_THOUGHT,
            false => self.stall,
        };
        loop {
            // Chunks that have arrived are read at once. Only a wait needs a timer, and leaves time to show them.
            let next = match poll!(stream.next()) {
                Poll::Ready(next) => Ok(next),
                Poll::Pending => {
                    writer.flush().await;
                    timeout(patience, stream.next()).await
                }
            };
            let event = match next {
                Err(_) => {
                    let message = format!(
                        "{} sent nothing of an answer for {} s",
                        self.shown(),
                        patience.as_secs_f64()
                    );
                    return Err(Failure::new(FailureKind::Stalled, message));
                }
                Ok(None) => return Err(self.cut_off(began)),
                Ok(Some(event)) => event.map_err(|e| classify(&e, self))?,
            };
            if size.add(&event) > byte_limit {
                return Err(self.too_large(byte_limit));
            }
            if !matches!(event, ChatStreamEvent::Start | ChatStreamEvent::Heartbeat) {
                patience = self.stall;
                began |= !matches!(event, ChatStreamEvent::End(_));
            }
            match event {
                ChatStreamEvent::Chunk(chunk) => {
                    writer.write(&chunk.content).await;
                    turn.text.push_str(&chunk.content);
                }
                // A complete answer of these has a stop reason. The client library also accepts a stream that just
                // ends.
                ChatStreamEvent::End(end)
                    if matches!(asked.adapter, AdapterKind::Gemini | AdapterKind::OpenAIResp)
                        && end.captured_stop_reason.is_none() =>
                {
                    return Err(self.cut_off(began));
                }
                ChatStreamEvent::ToolCallChunk(chunk) if sends_pieces(asked.adapter) => {
                    pieces.add(chunk.tool_call);
                }
                ChatStreamEvent::End(end) => {
                    turn.tokens = end.captured_usage.as_ref().and_then(tokens);
                    turn.stop = end.captured_stop_reason;
                    turn.content = end.captured_content.unwrap_or_default();
                    turn.content.extend(MessageContent::from_tool_calls(pieces.finish()));
                    turn.tool_calls = turn.content.tool_calls().into_iter().cloned().collect();
                    turn.took = begun.elapsed();
                    writer.end().await;
                    return Ok(turn);
                }
                // Reasoning is neither kept nor shown.
                _ => {}
            }
        }
    }
}

/// How a question is asked.
struct Asked {
    adapter: AdapterKind,
    options: ChatOptions,
    /// Whether the provider sends what the model thinks.
    shows_thoughts: bool,
}

/// True if tool calls arrive in pieces that name a call by its index. See [`ToolCalls`].
fn sends_pieces(adapter: AdapterKind) -> bool {
    adapter == AdapterKind::OpenAI
}

fn tokens(usage: &genai::chat::Usage) -> Option<TokenCounts> {
    let count = |n: Option<i32>| n.and_then(|n| u64::try_from(n).ok());
    let (input, output) = (count(usage.prompt_tokens)?, count(usage.completion_tokens)?);
    let details = usage.prompt_tokens_details.as_ref();
    let cached = details.and_then(|d| count(d.cached_tokens)).unwrap_or_default().min(input);
    let written = details.and_then(|d| count(d.cache_creation_tokens)).unwrap_or_default();
    Some(TokenCounts { input, output, cached, written: written.min(input - cached) })
}

const fn adapter(kind: ProviderKind, api: Api) -> AdapterKind {
    match (kind, api) {
        (ProviderKind::OpenAi, Api::Chat) => AdapterKind::OpenAI,
        (ProviderKind::OpenAi, Api::Responses) => AdapterKind::OpenAIResp,
        (ProviderKind::Anthropic, _) => AdapterKind::Anthropic,
        (ProviderKind::Gemini, _) => AdapterKind::Gemini,
    }
}
