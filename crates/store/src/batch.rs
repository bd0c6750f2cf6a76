//! What both adapters do before they write an append: they check it and merge what would be written twice.

use std::borrow::Cow;
use std::collections::HashMap;

use tree_agent_contract::document::{Document, DocumentOp};
use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::limits::DOCUMENT_BYTES;
use tree_agent_contract::text::suffix;
use tree_agent_contract::{DocumentId, NodeId, RunId, RunSpec, Scope, Timestamp};

use crate::error::StoreError;
use crate::ports::{NewRun, PendingCommand, RunAppend};
use crate::text::clean;

/// Refuses an append that no writer may make. Then nothing of the whole call is written.
pub(crate) fn check(appends: &[RunAppend]) -> Result<(), StoreError> {
    let mut runs: Vec<RunId> = appends.iter().map(|a| a.run_id).collect();
    runs.sort_unstable();
    if let Some(pair) = runs.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(StoreError::Conflict(format!("run {} occurs twice in one append", pair[0])));
    }
    appends.iter().try_for_each(|a| {
        check_events(a.run_id, a.expected_head, &a.events)?;
        check_documents(a.run_id, &a.documents)
    })
}

/// Neither adapter can write replaced texts and links of documents yet.
fn check_documents(run: RunId, ops: &[DocumentOp]) -> Result<(), StoreError> {
    match ops.iter().any(|op| matches!(op, DocumentOp::Replace { .. } | DocumentOp::Link { .. })) {
        true => Err(StoreError::Conflict(format!("run {run} replaces or links a document"))),
        false => Ok(()),
    }
}

fn check_events(run: RunId, head: u64, events: &[Event]) -> Result<(), StoreError> {
    if events.is_empty() {
        return Err(StoreError::Conflict(format!("the append to run {run} holds no event")));
    }
    for (event, seq) in events.iter().zip(head + 1..) {
        if event.seq != seq || event.run_id != run {
            return Err(StoreError::Conflict(format!(
                "event {} of run {} was appended where event {seq} of run {run} belongs",
                event.seq, event.run_id
            )));
        }
    }
    Ok(())
}

/// The last of the events that records the outcome of a role call; 0 for none.
pub(crate) fn last_progress(events: &[Event]) -> u64 {
    use EventBody::{
        LeafPicked, NodeAggregated, NodeCompleted, NodeFailed, NodeResult, PlanCreated, ReplanRequested,
        RollupUpdated,
    };
    let progress = events.iter().rfind(|event| {
        matches!(
            event.body,
            LeafPicked(_)
                | NodeAggregated(_)
                | NodeCompleted(_)
                | NodeFailed(_)
                | NodeResult(_)
                | PlanCreated(_)
                | ReplanRequested(_)
                | RollupUpdated(_)
        )
    });
    progress.map_or(0, |event| event.seq)
}

/// A run that is about to be created: the fields of its row that come from its events, and its first append.
pub(crate) struct FirstAppend {
    pub(crate) root: NodeId,
    pub(crate) created_at: Timestamp,
    pub(crate) append: RunAppend,
}

impl FirstAppend {
    pub(crate) fn of(run: NewRun) -> Result<(Self, RunSpec, String), StoreError> {
        check_events(run.run_id, 0, &run.events)?;
        let root = run.events.iter().find_map(|event| match &event.body {
            EventBody::RunCreated(created) => Some(created.root_node_id),
            _ => None,
        });
        let first = Self {
            root: root.unwrap_or_else(|| NodeId::root(run.run_id)),
            created_at: run.events[0].timestamp,
            append: RunAppend {
                run_id: run.run_id,
                epoch: 0,
                expected_head: 0,
                events: run.events,
                projection: run.projection,
                documents: run.documents,
                sessions: run.sessions,
                handled_commands: Vec::new(),
            },
        };
        Ok((first, run.spec, run.request_id))
    }
}

/// The `metrics` of a new run: its context in the form of the first table layout.
pub(crate) fn context_metrics(spec: &RunSpec, at: Timestamp) -> serde_json::Value {
    let project = match spec.context.scope {
        Scope::Project => spec.context.project_ids.first(),
        Scope::Global | Scope::MultiProject => None,
    };
    serde_json::json!({"context": {"type": spec.context.scope, "project_id": project, "set_at": at}})
}

/// The last row of each key in a list, in order of these last occurrences.
pub(crate) fn last_of_each<T, K: std::hash::Hash + Eq>(rows: &[T], key: impl Fn(&T) -> K) -> Vec<&T> {
    let mut last = HashMap::with_capacity(rows.len());
    for (i, row) in rows.iter().enumerate() {
        last.insert(key(row), i);
    }
    if last.len() == rows.len() {
        return rows.iter().collect();
    }
    rows.iter().enumerate().filter(|(i, row)| last[&key(row)] == *i).map(|(_, row)| row).collect()
}

/// Document writes: at most one creation per document, and one chunk per document and event.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct DocumentWrites<'a> {
    pub(crate) creates: Vec<Cow<'a, Document>>,
    pub(crate) appends: Vec<ChunkWrite<'a>>,
}

/// Text that is added to a document with an event.
#[derive(Debug, PartialEq)]
pub(crate) struct ChunkWrite<'a> {
    pub(crate) id: DocumentId,
    pub(crate) seq: u64,
    /// Bytes that the same append adds to the document before it.
    pub(crate) offset: u64,
    pub(crate) text: Cow<'a, str>,
    pub(crate) at: Timestamp,
}

impl<'a> DocumentWrites<'a> {
    /// Merges `ops`: additions to a document that is created in the same batch become part of its body.
    pub(crate) fn merge(ops: &'a [DocumentOp]) -> Self {
        let mut merged = Self::default();
        let mut created: HashMap<DocumentId, usize> = HashMap::new();
        for op in ops {
            match op {
                DocumentOp::Create(document) => match created.get(&document.id) {
                    Some(i) => merged.creates[*i] = Cow::Borrowed(document),
                    None => {
                        // The creation replaces what was added before it.
                        merged.appends.retain(|chunk| chunk.id != document.id);
                        created.insert(document.id, merged.creates.len());
                        merged.creates.push(Cow::Borrowed(document));
                    }
                },
                DocumentOp::Append { text, .. } if text.is_empty() => {}
                // `check` has refused these.
                DocumentOp::Replace { .. } | DocumentOp::Link { .. } => {}
                DocumentOp::Append { id, seq, text, at } => {
                    if let Some(i) = created.get(id) {
                        let document = merged.creates[*i].to_mut();
                        document.body.push_str(text);
                        document.updated_at = *at;
                        continue;
                    }
                    let text = clean(suffix(text, DOCUMENT_BYTES));
                    let before = merged.appends.iter_mut().rev().find(|chunk| chunk.id == *id);
                    let offset = match before {
                        Some(before) if before.seq == *seq => {
                            before.text.to_mut().push_str(&text);
                            before.at = *at;
                            continue;
                        }
                        Some(before) => before.offset + before.text.len() as u64,
                        None => 0,
                    };
                    merged.appends.push(ChunkWrite { id: *id, seq: *seq, offset, text, at: *at });
                }
            }
        }
        for document in &mut merged.creates {
            if document.body.len() > DOCUMENT_BYTES {
                let kept = suffix(&document.body, DOCUMENT_BYTES).to_owned();
                document.to_mut().body = kept;
            }
        }
        merged
    }
}

/// A command as it is stored. One that this version does not know stays in the inbox for a newer version. It must not
/// block the others.
pub(crate) fn command(id: i64, run_id: RunId, text: &[u8]) -> Option<PendingCommand> {
    match serde_json::from_slice(text) {
        Ok(command) => Some(PendingCommand { id, run_id, command }),
        Err(error) => {
            tracing::warn!(id, %run_id, "a command cannot be read by this version: {error}");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use tree_agent_contract::document::{DocumentKind, DocumentProps};
    use uuid::Uuid;

    use super::*;

    fn document(id: u128, body: &str) -> Document {
        Document {
            id: DocumentId(Uuid::from_u128(id)),
            kind: DocumentKind::Scratchpad,
            project_id: None,
            run_id: None,
            path: String::new(),
            title: "t".into(),
            body: body.into(),
            props: DocumentProps::default(),
            created_at: Timestamp(1),
            updated_at: Timestamp(1),
        }
    }

    fn append(id: u128, text: &str, at: i64) -> DocumentOp {
        let id = DocumentId(Uuid::from_u128(id));
        DocumentOp::Append { id, seq: at as u64, text: text.into(), at: Timestamp(at) }
    }

    #[test]
    fn one_creation_of_a_document_and_one_chunk_of_an_event_remain() {
        let ops = [
            append(2, "lost", 2),
            DocumentOp::Create(document(1, "a")),
            append(1, "b", 3),
            append(3, "x", 4),
            DocumentOp::Create(document(2, "new")),
            append(3, "ü\0", 5),
            append(3, "z", 5),
            append(3, "", 6),
            append(3, "end", 7),
        ];
        let writes = DocumentWrites::merge(&ops);
        assert_eq!(
            writes.creates,
            [
                Cow::Owned(Document { updated_at: Timestamp(3), ..document(1, "ab") }),
                Cow::Owned(document(2, "new")),
            ]
        );
        let chunk = |seq, offset, text: &'static str| ChunkWrite {
            id: DocumentId(Uuid::from_u128(3)),
            seq,
            offset,
            text: text.into(),
            at: Timestamp(seq as i64),
        };
        // Places count the bytes that are stored.
        assert_eq!(writes.appends, [chunk(4, 0, "x"), chunk(5, 1, "ü\u{fffd}z"), chunk(7, 7, "end")]);
    }

    #[test]
    fn the_last_row_of_a_key_counts() {
        let rows = [(1, 'a'), (2, 'b'), (1, 'c')];
        assert_eq!(last_of_each(&rows, |r| r.0), [&(2, 'b'), &(1, 'c')]);
    }
}
