//! One provider: its requests, retries and answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBuilder};
use futures::{StreamExt, poll};
use tokio::time::timeout;
use tree_agent_contract::{ModelName, ProviderKind};

use super::chat::Chat;
use super::concession::{Concession, Concessions};
use super::failure::{Failure, FailureKind};
use super::gate::{Gate, GateCounts, PATIENCE, PAUSE};
use super::library::Library;
use super::protocol::{Piece, Protocol, Question, Turn};
use super::settings::{Address, Tuning};
use super::site::{CONNECT, Site};
use super::stream::ScratchpadWriter;
use super::table::Api;
use super::transcript;

/// White space in a row that no answer needs. Under a grammar some models write nothing else until they are stopped.
const BLANKS: usize = 2_000;
/// Counted for each piece of an answer, because many empty pieces are an endless answer, too.
const PIECE_BYTES: usize = 16;
/// How many times as long as others a model may be silent that reasons first and does not show its thoughts.
const SILENT_THOUGHT: u32 = 4;

/// A provider, shared by all calls that use it.
pub(super) struct Provider {
    pub(super) site: Arc<Site>,
    chat: Chat,
    library: Library,
    gate: Gate,
    stall: Duration,
    retries: ExponentialBuilder,
    /// The model to use if none is named.
    first: OnceLock<String>,
    pub(super) concessions: Concessions,
    /// Tokens of the contexts of models, as refusals have named them.
    contexts: Mutex<BTreeMap<String, usize>>,
    /// When the key was last checked, and the result. Locked during a check.
    key: tokio::sync::Mutex<Option<(Instant, Result<(), Failure>)>>,
}

impl Provider {
    pub(super) fn new(kind: ProviderKind, address: &Address, tuning: &Tuning) -> Result<Self, Failure> {
        let site = Arc::new(Site::new(kind, address, tuning)?);
        Ok(Self {
            chat: Chat::new(site.clone()),
            library: Library::new(site.clone())?,
            site,
            gate: Gate::new(tuning, tuning.rates_of(kind)),
            stall: tuning.stall,
            // Jitter at most doubles a wait, so that callers do not retry at the same time.
            retries: ExponentialBuilder::new()
                .with_min_delay(tuning.backoff / 2)
                .with_max_delay(PAUSE / 2)
                .with_max_times(tuning.tries.saturating_sub(1) as usize)
                .with_jitter(),
            first: OnceLock::new(),
            concessions: Concessions::default(),
            contexts: Mutex::default(),
            key: tokio::sync::Mutex::default(),
        })
    }

    /// The counters of its gate.
    pub(super) fn gate_counts(&self) -> GateCounts {
        self.gate.counts()
    }

    /// The context of a model, if a refusal has named it.
    pub(super) fn context(&self, model: &str) -> Option<usize> {
        self.contexts.lock().unwrap_or_else(PoisonError::into_inner).get(model).copied()
    }

    /// Keeps the context of a model that a refusal names. False if it is known to be no larger.
    pub(super) fn learn(&self, model: &str, context: usize) -> bool {
        let mut contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = contexts.get(model).is_none_or(|known| context < *known);
        if is_news {
            contexts.insert(model.to_owned(), context);
        }
        is_news
    }

    /// True if this is not the provider's own service.
    pub(super) fn compatible(&self) -> bool {
        self.site.address.compatible
    }

    /// Whether a schema can be enforced while tools may be called. Gemini refuses it, and some compatible servers
    /// would then never call a tool.
    pub(super) fn schema_with_tools(&self) -> bool {
        !self.compatible() && !matches!(self.site.kind, ProviderKind::Gemini)
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
            let failure = match self.site.list(Duration::from_secs(10)).await {
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
            let (shown, variable) = (self.site.shown(), self.site.kind.address_variable());
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
                self.site.shown()
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
        let outcome = self.site.list(patience).await.map(drop);
        *known = Some((Instant::now(), outcome.clone()));
        outcome
    }

    /// Asks until there is an answer, no attempt is left, or the failure is permanent. Text goes to `writer` as it
    /// arrives.
    pub(super) async fn ask(
        &self,
        question: Question<'_>,
        writer: &mut ScratchpadWriter<'_>,
    ) -> Result<Turn, Failure> {
        let (mut waits, mut broke) = (self.retries.build(), false);
        // A call that has not asked yet can begin again. Later it would do its work twice, so it waits.
        let may_begin_again = !writer.has_asked();
        let mut patience = if may_begin_again { PATIENCE } else { Duration::MAX };
        loop {
            let conceded = self.concessions.of(question.model);
            if patience > PATIENCE
                && let Some(wait) = self.gate.long_wait()
            {
                writer.remark(&wait.message).await;
            }
            let admission = self.gate.admit(question.model, question.about_tokens, patience).await?;
            patience = Duration::MAX;
            writer.begin();
            let begun = Instant::now();
            let answer = self.once(&question, &conceded, writer).await;
            writer.flush().await;
            let failure = match answer {
                Ok(turn) => {
                    admission.succeeded(turn.tokens.map(|tokens| tokens.input + tokens.output));
                    let kept = writer.io.keeps_prompts.then(|| transcript::of(&question.request, &turn));
                    return Ok(Turn { took: begun.elapsed(), kept, ..turn });
                }
                Err(failure) => failure,
            };
            if !failure.transient() {
                // A refusal is an answer: the provider is healthy.
                admission.succeeded(None);
                let asked_for = match failure.kind {
                    FailureKind::Thoughts => Concession::Thoughts,
                    FailureKind::Parameter(name) => Concession::Parameter(name),
                    _ => return Err(failure),
                };
                if conceded.contains(&asked_for) {
                    return Err(failure);
                }
                self.concede(question.model, asked_for, &failure, writer).await;
                continue;
            }
            match failure.kind {
                // It answered, so it says nothing about other requests. What breaks twice breaks for this prompt.
                FailureKind::Broken if std::mem::replace(&mut broke, true) => return Err(failure),
                FailureKind::Broken => admission.succeeded(None),
                _ => admission.failed(&failure),
            }
            // Nobody accepts or refuses the connection. More attempts would only delay that the run says so.
            let took_long = begun.elapsed() >= CONNECT / 2;
            if failure.kind == FailureKind::Unreachable && may_begin_again && took_long {
                return Err(failure);
            }
            let Some(wait) = waits.next() else { return Err(failure) };
            match failure.retry_after {
                Some(asked) if asked > PAUSE => return Err(failure),
                asked => tokio::time::sleep(asked.map_or(wait, |asked| asked.max(wait / 2))).await,
            }
        }
    }

    /// Requests to `model` do without `concession` for a while. The node says so, too.
    pub(super) async fn concede(
        &self,
        model: &str,
        concession: Concession,
        failure: &Failure,
        writer: &mut ScratchpadWriter<'_>,
    ) {
        self.concessions.add(model, concession, &failure.message);
        writer.remark(&format!("{model} is asked without {concession}: {}", failure.message)).await;
    }

    async fn once(
        &self,
        question: &Question<'_>,
        conceded: &BTreeSet<Concession>,
        writer: &mut ScratchpadWriter<'_>,
    ) -> Result<Turn, Failure> {
        let protocol: &dyn Protocol = match (self.site.kind, question.api) {
            (ProviderKind::OpenAi, Api::Chat) => &self.chat,
            _ => &self.library,
        };
        let stalled = |patience: Duration| {
            let (shown, seconds) = (self.site.shown(), patience.as_secs_f64());
            let message = format!(
                "{shown} sent nothing of an answer for {seconds} s; TREE_AGENT_MODEL_STALL_SECONDS waits longer"
            );
            Failure::new(FailureKind::Stalled, message)
        };
        let mut patience = match question.reasons && !protocol.shows_thoughts(question, conceded) {
            true => self.stall * SILENT_THOUGHT,
            false => self.stall,
        };
        let opened = timeout(patience, protocol.open(question, conceded)).await;
        let mut pieces = opened.map_err(|_| stalled(patience))??;
        let (mut bytes, limit, mut blanks) = (0, question.byte_limit(), 0);
        loop {
            // Pieces that have arrived are read at once. Only a wait needs a timer, and leaves time to show them.
            let next = match poll!(pieces.next()) {
                Poll::Ready(next) => next,
                Poll::Pending => {
                    writer.flush().await;
                    timeout(patience, pieces.next()).await.map_err(|_| stalled(patience))?
                }
            };
            let piece = next.unwrap_or_else(|| Err(self.site.cut_off(bytes > 0)))?;
            patience = self.stall;
            bytes += PIECE_BYTES;
            match piece {
                Piece::Text(text) => {
                    bytes += text.len();
                    let end = text.len() - text.trim_end().len();
                    blanks = if end == text.len() { blanks + end } else { end };
                    if blanks > BLANKS {
                        let message = format!("{} wrote nothing but white space", self.site.shown());
                        return Err(Failure::new(FailureKind::Blank, message));
                    }
                    writer.write(&text).await;
                }
                Piece::Other(more) => bytes += more,
                Piece::End(turn) => {
                    writer.end().await;
                    return Ok(*turn);
                }
            }
            if bytes > limit {
                return Err(self.site.too_large(limit));
            }
        }
    }
}
