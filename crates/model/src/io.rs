//! What a model does besides answering: it sends updates and calls tools.

mod updates;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tree_agent_contract::event::{ToolCallRequested, ToolCallResult, UsageRecorded};
use tree_agent_contract::role::{
    EarlierCall, RoleError, RoleErrorKind, RoleUpdate, ScratchpadDelta, ToolCallKept,
};
use tree_agent_contract::text::prefix;
use tree_agent_contract::{Allowance, DocumentId, Timestamp, limits};
use tree_agent_tools::{LIST_DOCUMENTS, ToolError, ToolOutput, ToolSet, ToolStart};

pub(crate) use updates::Updates;

/// The I/O of one role call. Updates go to a bounded channel: a model that writes faster than its caller reads waits.
/// If the caller is gone, updates are dropped, because the call is about to be dropped too.
pub struct RoleIo {
    updates: mpsc::Sender<RoleUpdate>,
    tools: ToolSet,
    phase: &'static str,
    begun_at: Timestamp,
    /// Questions to tools.
    asked: AtomicU64,
    /// Those among them that tools had to answer.
    calls: AtomicU64,
    allowance: Allowance,
    /// The run keeps what models are sent.
    pub keeps_prompts: bool,
    tokens: AtomicU64,
    cost_micros: AtomicU64,
    /// What earlier attempts at the call have written.
    written: Mutex<Vec<EarlierCall>>,
    language: String,
    /// The documents that the model has seen text of, in order.
    seen: Mutex<Vec<DocumentId>>,
}

impl RoleIo {
    /// The I/O of a call in `phase` (`plan`, `execute`, `aggregate`), and the receiver of its updates.
    pub fn new(tools: ToolSet, phase: &'static str) -> (Self, mpsc::Receiver<RoleUpdate>) {
        const UPDATES_IN_FLIGHT: usize = 32;
        let (updates, receiver) = mpsc::channel(UPDATES_IN_FLIGHT);
        (
            Self {
                updates,
                tools,
                phase,
                begun_at: now(),
                asked: AtomicU64::new(0),
                calls: AtomicU64::new(0),
                allowance: Allowance::default(),
                keeps_prompts: false,
                tokens: AtomicU64::new(0),
                cost_micros: AtomicU64::new(0),
                written: Mutex::default(),
                language: String::new(),
                seen: Mutex::default(),
            },
            receiver,
        )
    }

    /// The same for a call of which earlier attempts have made these calls of tools. Those that wrote are not made
    /// again.
    #[must_use]
    pub fn after(self, earlier: &[EarlierCall]) -> Self {
        let written = earlier.iter().filter(|call| call.writes && call.ok != Some(false)).cloned();
        Self { written: Mutex::new(written.collect()), ..self }
    }

    /// The same for a run whose language has this code.
    #[must_use]
    pub fn speaking(self, language: &str) -> Self {
        Self { language: language.to_owned(), ..self }
    }

    /// The code of the language of the run; empty if nobody knows.
    pub(crate) fn language(&self) -> &str {
        &self.language
    }

    /// The documents that the model has seen text of: in its prompt, or in the answer of a tool.
    pub(crate) fn seen(&self) -> Vec<DocumentId> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_seen(&self, ids: impl IntoIterator<Item = DocumentId>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for id in ids {
            if !seen.contains(&id) {
                seen.push(id);
            }
        }
    }

    /// The call that an earlier attempt has made to the same tool with the same arguments. Each counts once.
    fn made_before(&self, name: &str, args: &Map<String, Value>) -> Option<EarlierCall> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = shown(args);
        let place =
            written.iter().position(|call| call.tool_name == name && call.args.as_ref() == Some(&shown))?;
        Some(written.remove(place))
    }

    /// The same for a call with an allowance.
    #[must_use]
    pub fn allowing(mut self, allowance: Allowance) -> Self {
        self.allowance = allowance;
        self
    }

    /// True while the call may use more of everything, so that further tools can be offered. At the end of its
    /// allowance a role answers with what it has.
    pub fn may_go_on(&self) -> bool {
        self.may_ask() && below(self.allowance.tool_calls, &self.calls)
    }

    /// True if the call has used tokens.
    pub(crate) fn has_asked(&self) -> bool {
        self.tokens.load(Ordering::Relaxed) > 0
    }

    /// True while the call may use more tokens and money, however many tool calls are left.
    pub fn may_ask(&self) -> bool {
        below(self.allowance.tokens, &self.tokens) && below(self.allowance.cost_micros, &self.cost_micros)
    }

    /// The tools that the run's context offers.
    pub fn tools(&self) -> &ToolSet {
        &self.tools
    }

    /// Adds text to the node's scratchpad before the call has ended, in pieces of any size. Text of half a second is
    /// sent together, in order with the tool calls.
    pub async fn scratchpad(&self, append_markdown: impl Into<String>) {
        self.send(RoleUpdate::Scratchpad(ScratchpadDelta { append_markdown: append_markdown.into() })).await;
    }

    /// Reports tokens, money and time that the call used, and the `prompt` if the run keeps it.
    pub async fn usage(&self, usage: UsageRecorded, prompt: Option<String>) {
        self.tokens.fetch_add(usage.input_tokens.saturating_add(usage.output_tokens), Ordering::Relaxed);
        self.cost_micros.fetch_add(usage.cost_micros, Ordering::Relaxed);
        self.note_seen(usage.documents.iter().map(|shown| shown.document_id));
        self.send(RoleUpdate::Usage { usage, prompt }).await;
    }

    /// Calls a tool and reports it before and after. If no call is left, it fails with [`ToolError::Budget`]. Calls
    /// are named `t1`, `t2`, … in order.
    pub async fn call_tool(
        &self,
        name: &str,
        args: Map<String, Value>,
        purpose: &str,
    ) -> Result<Value, ToolError> {
        self.ask_tool(name, args, purpose).await.map(|answer| answer.value)
    }

    /// The same, and it says where the answer comes from. What the run knows already is no call that an allowance
    /// counts.
    pub(crate) async fn ask_tool(
        &self,
        name: &str,
        args: Map<String, Value>,
        purpose: &str,
    ) -> Result<ToolAnswer, ToolError> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let call = CallName { id: format!("t{number}"), tool: name.to_owned(), phase: self.phase };
        let asker = format!("{:?} {} {} {number}", self.tools.caller().node_id, self.phase, self.begun_at.0);
        let begun = match self.tools.begin(name, &args, &asker).await {
            Ok(ToolStart::Known { output, node }) => {
                self.send(RoleUpdate::ToolCallRequested(call.requested(&args, purpose, true, false))).await;
                let origin = match node == self.tools.caller().node_id {
                    true => Origin::ThisNode,
                    false => Origin::AnotherNode,
                };
                return Ok(self.report(&call, *output, origin).await);
            }
            Ok(ToolStart::Ready(ready)) => Ok(ready),
            Err(error) => Err(error),
        };
        let writes = begun.as_ref().is_ok_and(|ready| ready.writes());
        if writes && let Some(earlier) = self.made_before(name, &args) {
            let requested = call.requested(&args, purpose, true, true);
            if earlier.ok.is_none() {
                return Err(self.refuse(&call, requested, ToolError::Made).await);
            }
            self.send(RoleUpdate::ToolCallRequested(requested)).await;
            let value = json!({"done": true, "outcome": earlier.outcome});
            return Ok(self.report(&call, ToolOutput::new(value, earlier.outcome), Origin::ThisNode).await);
        }
        let made = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(most) = self.allowance.tool_calls.filter(|most| made > *most) {
            let requested = call.requested(&args, purpose, true, false);
            return Err(self.refuse(&call, requested, ToolError::Budget(most)).await);
        }
        self.send(RoleUpdate::ToolCallRequested(call.requested(&args, purpose, false, writes))).await;
        let answer = match begun {
            Ok(ready) => ready.call().await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(output) => Ok(self.report(&call, output, Origin::Tool).await),
            Err(error) => {
                self.send(RoleUpdate::ToolCallResult(call.result(Err(&error)))).await;
                Err(error)
            }
        }
    }

    /// Says in the log which MCP servers have listed no tools, so that nobody wonders why none was called. It counts in
    /// no budget.
    pub(crate) async fn tell_missing_tools(&self) {
        for (server, why) in self.tools.servers_without_tools() {
            let number = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
            let call = CallName { id: format!("t{number}"), tool: server.clone(), phase: self.phase };
            let requested = call.requested(&Map::new(), "the tools of this MCP server", true, false);
            let error = ToolError::Server { server, message: format!("no tool of it is offered: {why}") };
            self.refuse(&call, requested, error).await;
        }
    }

    /// Reports a call of a tool that is not made, and why.
    async fn refuse(&self, call: &CallName, requested: ToolCallRequested, error: ToolError) -> ToolError {
        self.send(RoleUpdate::ToolCallRequested(requested)).await;
        self.send(RoleUpdate::ToolCallResult(call.result(Err(&error)))).await;
        error
    }

    /// Reports what a tool has answered, with what is kept of it.
    async fn report(&self, call: &CallName, output: ToolOutput, origin: Origin) -> ToolAnswer {
        let result = call.result(Ok(&output));
        let ToolOutput { value, kept: document, answer, .. } = output;
        if call.tool != LIST_DOCUMENTS {
            self.note_seen(named(&value));
        }
        self.send(match document.is_some() || answer.is_some() {
            true => RoleUpdate::ToolCallKept(Box::new(ToolCallKept { result, document, answer })),
            false => RoleUpdate::ToolCallResult(result),
        })
        .await;
        ToolAnswer { value, origin }
    }

    async fn send(&self, update: RoleUpdate) {
        // An error means that nobody listens any more. The call's future is dropped next.
        let _ = self.updates.send(update).await;
    }
}

/// What a tool has answered.
pub(crate) struct ToolAnswer {
    /// The answer.
    pub(crate) value: Value,
    /// Where it comes from.
    pub(crate) origin: Origin,
}

/// Where the answer to a question comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The tool.
    Tool,
    /// The run knew it: the same node has asked before.
    ThisNode,
    /// The run knew it: another node has asked before.
    AnotherNode,
}

/// What the events of one tool call have in common.
struct CallName {
    id: String,
    tool: String,
    phase: &'static str,
}

impl CallName {
    fn requested(
        &self,
        args: &Map<String, Value>,
        purpose: &str,
        cached: bool,
        writes: bool,
    ) -> ToolCallRequested {
        ToolCallRequested {
            call_id: self.id.clone(),
            tool_name: self.tool.clone(),
            args: Some(shown(args)),
            purpose: Some(beginning(purpose)),
            phase: Some(self.phase.to_owned()),
            started_at: Some(now()),
            writes,
            cached,
        }
    }

    fn result(&self, answer: Result<&ToolOutput, &ToolError>) -> ToolCallResult {
        let (summary, error) = match answer {
            Ok(output) => (Some(beginning(&output.summary)), None),
            // There may be many names of tools.
            Err(error) => (None, Some(beginning(&error.to_string()))),
        };
        ToolCallResult {
            call_id: self.id.clone(),
            tool_name: self.tool.clone(),
            ok: answer.is_ok(),
            summary,
            error,
            phase: Some(self.phase.to_owned()),
            completed_at: Some(now()),
            ..ToolCallResult::default()
        }
    }
}

/// The documents that an answer of a tool names.
fn named(value: &Value) -> Vec<DocumentId> {
    match value {
        Value::Array(all) => all.iter().flat_map(named).collect(),
        Value::Object(map) => {
            let own = map.get("documentId").and_then(Value::as_str).and_then(|id| id.parse().ok());
            own.into_iter().chain(map.values().flat_map(named)).collect()
        }
        _ => Vec::new(),
    }
}

/// A tool failure as the failure of the call. Documents that cannot be reached are waited for, like a role that
/// cannot be reached: nothing was done that could be done twice.
pub(crate) fn failed(error: ToolError) -> RoleError {
    let kind = if error.retryable() { RoleErrorKind::Unreachable } else { RoleErrorKind::Internal };
    RoleError::new(kind, error.to_string())
}

fn below(most: Option<u64>, used: &AtomicU64) -> bool {
    most.is_none_or(|most| used.load(Ordering::Relaxed) < most)
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// Arguments as events show them. Long texts, such as the body of a new document, are cut with a remark. Anything else
/// that is long is replaced by its size.
fn shown(args: &Map<String, Value>) -> Map<String, Value> {
    const TEXT_BYTES: usize = 2_048;
    const WHOLE_BYTES: usize = 32 * 1024;
    fn short(value: &Value) -> Value {
        match value {
            Value::String(text) if text.len() > TEXT_BYTES => {
                Value::String(format!("{}… ({} bytes)", prefix(text, TEXT_BYTES), text.len()))
            }
            Value::Array(values) => values.iter().map(short).collect(),
            Value::Object(map) => Value::Object(map.iter().map(|(k, v)| (k.clone(), short(v))).collect()),
            other => other.clone(),
        }
    }
    let all: Map<String, Value> = args.iter().map(|(name, value)| (name.clone(), short(value))).collect();
    match serde_json::to_string(&all).map_or(usize::MAX, |text| text.len()) {
        bytes if bytes > WHOLE_BYTES => Map::from_iter([("…".to_owned(), format!("{bytes} bytes").into())]),
        _ => all,
    }
}

/// The beginning of a text that stands in an event.
fn beginning(text: &str) -> String {
    prefix(text, limits::TEXT_BYTES).to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tree_agent_contract::{RunContext, RunId};
    use tree_agent_tools::{Caller, MemoryDocuments, ToolRegistry};

    use super::*;

    fn begun(allowance: Allowance) -> (RoleIo, mpsc::Receiver<RoleUpdate>) {
        let tools = ToolRegistry::new(Arc::new(MemoryDocuments::default()));
        let caller = Caller::new(RunId(uuid::Uuid::from_u128(1)), RunContext::default());
        let (io, updates) = RoleIo::new(tools.tool_set(caller), "execute");
        (io.allowing(allowance), updates)
    }

    #[test]
    fn arguments_of_any_shape_fit_into_an_event() {
        let long = "ä".repeat(5_000);
        let deep = serde_json::json!({"edits": [{"old": long, "new": "short"}], "n": 1});
        let seen = shown(deep.as_object().unwrap());
        assert_eq!((&seen["edits"][0]["new"], &seen["n"]), (&"short".into(), &1.into()));
        assert!(seen["edits"][0]["old"].as_str().unwrap().ends_with("… (10000 bytes)"));
        let many = serde_json::json!({ "rows": vec![0; 100_000] });
        let seen = shown(many.as_object().unwrap());
        assert!(serde_json::to_string(&seen).unwrap().len() < 100, "{seen:?}");
    }

    #[tokio::test]
    async fn a_call_goes_on_until_it_has_used_what_it_may() {
        let usage = UsageRecorded {
            model: "m".into(),
            input_tokens: 6,
            output_tokens: 4,
            cached_tokens: 0,
            cache_write_tokens: 0,
            cost_micros: 10,
            duration_ms: 1,
            purpose: "execute".into(),
            documents: Vec::new(),
            prompt: None,
        };
        for (allowance, enough) in [
            (Allowance::default(), true),
            (Allowance { tokens: Some(11), ..Allowance::default() }, true),
            (Allowance { tokens: Some(10), ..Allowance::default() }, false),
            (Allowance { cost_micros: Some(10), ..Allowance::default() }, false),
            (Allowance { tool_calls: Some(1), ..Allowance::default() }, false),
        ] {
            let (io, _updates) = begun(allowance);
            assert!(io.may_go_on());
            io.usage(usage.clone(), None).await;
            let _ = io.call_tool("list_documents", Map::new(), "to see").await;
            assert_eq!(io.may_go_on(), enough, "{allowance:?}");
        }
        let (io, mut updates) = begun(Allowance { tool_calls: Some(0), ..Allowance::default() });
        assert!(!io.may_go_on());
        let refused = io.call_tool("list_documents", Map::new(), "to see").await;
        assert_eq!(refused, Err(ToolError::Budget(0)));
        let Ok(RoleUpdate::ToolCallRequested(asked)) = updates.try_recv() else { panic!("the log says it") };
        let Ok(RoleUpdate::ToolCallResult(result)) = updates.try_recv() else { panic!("and why") };
        assert!(asked.cached && !result.ok && result.error.unwrap().contains("no tool call is left"));
    }
    #[tokio::test]
    async fn what_an_earlier_attempt_wrote_is_not_written_again() {
        let args = json!({"title": "A note", "body": "Paid."}).as_object().cloned().unwrap_or_default();
        let earlier = |ok| EarlierCall {
            tool_name: "write_note".into(),
            args: Some(args.clone()),
            writes: true,
            ok,
            outcome: "noted".into(),
        };
        let (io, mut updates) = begun(Allowance::default());
        let io = io.after(&[earlier(None), earlier(Some(true)), earlier(Some(false))]);
        let mut call = async || {
            let answer = io.call_tool("write_note", args.clone(), "to note").await;
            let Ok(RoleUpdate::ToolCallRequested(asked)) = updates.try_recv() else { panic!("it is told") };
            let _ = updates.try_recv().expect("its end is told");
            assert!(asked.writes);
            (answer, asked.cached)
        };
        assert_eq!(call().await, (Err(ToolError::Made), true), "nobody knows whether it was carried out");
        assert_eq!(call().await, (Ok(json!({"done": true, "outcome": "noted"})), true));
        let (answer, cached) = call().await;
        assert!(answer.is_ok() && !cached, "what failed may be tried again, and so may what is new");
    }
}
