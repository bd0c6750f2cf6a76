//! Answers of tools that only read: found where the run knows them, and prepared for keeping where not.
//!
//! The documents of the run hold the answers of all calls that have ended or gone on
//! ([`answers`](tree_agent_contract::answers)). Calls of the same process that are live share theirs without that way:
//! of two that ask the same at the same time, one asks the tool and the other waits for its answer.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;
use tree_agent_contract::role::KeptDocument;
use tree_agent_contract::{DocumentId, DocumentKind, NodeId, RunId, limits};

use crate::error::ToolError;
use crate::registry::ToolOutput;
use crate::source::{Caller, DocumentSource};

/// How long a call waits for another one that asks the same. Then it asks the tool itself.
const WAIT: Duration = Duration::from_secs(30);
/// Bytes of answers that a call holds for others. Earlier ones are in the store by then.
const HELD_BYTES: usize = 4 * 1024 * 1024;

/// The body of the document that holds an answer.
#[derive(Serialize, Deserialize)]
struct Body {
    tool: String,
    summary: String,
    value: Value,
}

/// An answer that is known.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) output: ToolOutput,
    /// The node that asked for it.
    pub(crate) node: Option<NodeId>,
}

/// The place of one answer. It is locked while somebody asks for it.
type Slot = Arc<tokio::sync::Mutex<Option<Answer>>>;

/// The answers of all live calls of a process. It holds nothing alive.
#[derive(Clone, Default)]
pub(crate) struct SharedAnswers(Arc<Mutex<Slots>>);

#[derive(Default)]
struct Slots {
    of: HashMap<(RunId, String), Weak<tokio::sync::Mutex<Option<Answer>>>>,
    /// Entries at which those are removed whose calls have ended.
    most: usize,
}

impl SharedAnswers {
    fn slot(&self, run: RunId, path: &str) -> Slot {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.of.len() >= slots.most {
            slots.of.retain(|_, slot| slot.strong_count() > 0);
            slots.most = 2 * slots.of.len() + 64;
        }
        let entry = slots.of.entry((run, path.to_owned())).or_default();
        if let Some(slot) = entry.upgrade() {
            return slot;
        }
        let slot = Slot::default();
        *entry = Arc::downgrade(&slot);
        slot
    }
}

/// The answers that one call holds for others.
#[derive(Clone, Default)]
pub(crate) struct HeldAnswers(Arc<Mutex<VecDeque<(Slot, usize)>>>);

impl HeldAnswers {
    fn hold(&self, slot: Slot, bytes: usize) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.push_back((slot, bytes));
        let mut sum: usize = held.iter().map(|(_, bytes)| bytes).sum();
        while sum > HELD_BYTES
            && let Some((_, bytes)) = held.pop_front()
        {
            sum -= bytes;
        }
    }
}

/// The right to ask a tool for an answer that is not known.
pub(crate) struct Asking {
    path: String,
    title: String,
    slot: Option<(Slot, OwnedMutexGuard<Option<Answer>>)>,
}

/// Looks for the answer at `path` of the caller's run. `fresh`: whatever is known, the tool is asked.
pub(crate) async fn look_up(
    source: &dyn DocumentSource,
    caller: &Caller,
    shared: &SharedAnswers,
    path: String,
    title: String,
    fresh: bool,
) -> Result<Answer, Asking> {
    if fresh {
        return Err(Asking { path, title, slot: None });
    }
    let slot = shared.slot(caller.run_id, &path);
    let Ok(mut guard) = timeout(WAIT, slot.clone().lock_owned()).await else {
        return Err(Asking { path, title, slot: None });
    };
    if guard.is_none() {
        *guard = stored(source, caller, &path).await;
    }
    match guard.clone() {
        Some(answer) => Ok(answer),
        None => Err(Asking { path, title, slot: Some((slot, guard)) }),
    }
}

/// The answer among the documents of the run. If it cannot be read, the tool is asked.
async fn stored(source: &dyn DocumentSource, caller: &Caller, path: &str) -> Option<Answer> {
    let id = DocumentId::of_run(caller.origin_run_id, path);
    let document = source.read_document(caller, id).await.ok()?;
    let is_ours =
        document.kind == DocumentKind::ToolAnswer && caller.may_read(document.project_id, document.run_id);
    let Body { summary, value, .. } = serde_json::from_str(&document.body).ok().filter(|_| is_ours)?;
    let node = document.props.tree_agent_node_id;
    let answer = KeptDocument { path: path.to_owned(), title: document.title, body: document.body };
    Some(Answer { output: ToolOutput { answer: Some(answer), ..ToolOutput::new(value, summary) }, node })
}

impl Asking {
    /// Keeps what the tool has answered.
    pub(crate) fn keep(self, caller: &Caller, tool: &str, output: &mut ToolOutput, held: &HeldAnswers) {
        let Self { path, title, slot } = self;
        let body =
            Body { tool: tool.to_owned(), summary: output.summary.clone(), value: output.value.clone() };
        // People read it, too.
        let Ok(body) = serde_json::to_string_pretty(&body) else { return };
        if !output.is_lasting || body.len() > limits::DOCUMENT_BYTES {
            return;
        }
        let bytes = body.len();
        output.answer = Some(KeptDocument { path, title, body });
        if let Some((slot, mut guard)) = slot {
            *guard = Some(Answer { output: output.clone(), node: caller.node_id });
            held.hold(slot, bytes);
        }
    }
}

/// Names the state of everything that a tool over documents looks at. None if nobody counts changes.
pub(crate) fn state(projects: impl Iterator<Item = (String, u64)>) -> Option<String> {
    let mut state = Vec::new();
    for (project, revision) in projects {
        if revision == 0 {
            return None;
        }
        state.push(format!("{project}:{revision}"));
    }
    state.sort();
    Some(state.join(" "))
}

/// The projects of a global context with their revisions. None if there are more than one page.
pub(crate) async fn global_state(
    source: &dyn DocumentSource,
    caller: &Caller,
) -> Result<Option<String>, ToolError> {
    let projects = source.list_projects(caller, limits::PAGE_MAX as u32).await?;
    if projects.len() >= limits::PAGE_MAX {
        return Ok(None);
    }
    Ok(state(projects.into_iter().map(|project| (project.id.to_string(), project.revision))))
}
