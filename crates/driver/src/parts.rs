//! Cuts what ends many nodes into parts, which are appended one after the other.
//!
//! A decision must be written whole: a plan without its steps would not be one. Only where a node is cancelled, or the
//! run ends, the log up to there is as good as the whole. A successor that finds such a log goes on with the rest. It
//! knows a command by the event that carries its request id, so nothing is cut before that event: an edited plan
//! cancels the steps that it drops first.

use std::collections::{HashMap, HashSet};

use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::session::Session;
use tree_agent_contract::{DocumentId, DocumentOp, NodeId, NodeStatus};
use tree_agent_engine::{Decision, Graph};
use tree_agent_store::Projection;

/// Bytes of an encoded part after which the next one begins.
const PART_BYTES: usize = 4 * 1024 * 1024;

/// One append.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) decision: Decision,
    pub(crate) projection: Projection,
}

/// The parts of a decision, each of about `most` events, where it can be cut. `sizes` are the encoded events' bytes.
pub(crate) fn parts(decision: Decision, sizes: &[usize], graph: &Graph, most: usize) -> Vec<Part> {
    let whole = decision.events.len() <= most && sizes.iter().sum::<usize>() <= PART_BYTES;
    let mut parts = match whole {
        true => vec![decision],
        false => cut(decision, sizes, most),
    };
    let mut later = HashSet::new();
    let mut rows: Vec<Projection> = Vec::with_capacity(parts.len());
    for (behind, part) in parts.iter().rev().enumerate() {
        let mut projection = Projection::of(&part.events, graph);
        // The graph is that of the whole decision. A row that changes again is written then, and the run's own at last.
        if behind > 0 {
            projection.run = None;
        }
        if parts.len() > 1 {
            projection.nodes.retain(|node| later.insert(node.id.0));
            projection.plans.retain(|plan| later.insert(plan.id.0));
        }
        rows.push(projection);
    }
    rows.reverse();
    parts.drain(..).zip(rows).map(|(decision, projection)| Part { decision, projection }).collect()
}

fn cut(decision: Decision, sizes: &[usize], most: usize) -> Vec<Decision> {
    let (documents, sessions) = (decision.documents, decision.sessions);
    let (mut part, mut parts, mut bytes) = (Decision::default(), Vec::new(), 0);
    let mut created = HashSet::new();
    let edited = decision.events.iter().rposition(|event| matches!(event.body, EventBody::PlanEdited(_)));
    for (place, (event, size)) in decision.events.into_iter().zip(sizes).enumerate() {
        if matches!(event.body, EventBody::NodeCreated(_)) {
            created.insert(event.node_id);
        }
        // A cancelled node is two events: its own and that of its step.
        let full = part.events.len() + 2 > most || bytes + size > PART_BYTES;
        let is_whole = edited.is_none_or(|edited| edited < place);
        if full && is_whole && is_cut(&event, &created) && !part.events.is_empty() {
            parts.push(std::mem::take(&mut part));
            bytes = 0;
        }
        bytes += size;
        part.events.push(event);
    }
    parts.push(part);
    distribute(documents, sessions, &mut parts);
    parts
}

/// Documents and conversations are written with their events. If they were written before, a successor could not write
/// them again.
fn distribute(documents: Vec<DocumentOp>, sessions: Vec<Session>, parts: &mut [Decision]) {
    let links: HashMap<DocumentId, u64> = documents.iter().filter_map(link).collect();
    let part_of = |parts: &[Decision], seq: u64| {
        let holds = |part: &Decision| part.events.last().is_some_and(|last| last.seq >= seq);
        parts.iter().position(holds).unwrap_or(parts.len() - 1)
    };
    let mut before = 0;
    for op in documents {
        before = match &op {
            // A document begins with the event that gives it its place.
            DocumentOp::Create(document) => links.get(&document.id).copied().unwrap_or(before),
            DocumentOp::Append { seq, .. }
            | DocumentOp::Replace { seq, .. }
            | DocumentOp::Link { seq, .. } => *seq,
        };
        let part = part_of(parts, before);
        parts[part].documents.push(op);
    }
    for session in sessions {
        let is_told = |e: &Event| e.node_id == session.node_id && matches!(e.body, EventBody::NodeResult(_));
        let part = parts.iter().rposition(|part| part.events.iter().any(is_told)).unwrap_or_default();
        parts[part].sessions.push(session);
    }
}

/// The document that is put below another one, and the event with which it is.
fn link(op: &DocumentOp) -> Option<(DocumentId, u64)> {
    match op {
        DocumentOp::Link { child, seq, .. } => Some((*child, *seq)),
        _ => None,
    }
}

/// True if the log may end before this event. A node that is cancelled by the decision that `created` it belongs to a
/// list of nodes, which must be whole.
fn is_cut(event: &Event, created: &HashSet<NodeId>) -> bool {
    match &event.body {
        EventBody::NodeStatusChanged(e) => {
            e.status == NodeStatus::Cancelled && !created.contains(&event.node_id)
        }
        EventBody::RunStatusChanged(e) => e.status.is_final(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use tree_agent_contract::event::{NodeStatusChanged, PlanEdited};
    use tree_agent_contract::{PlanId, Role, RunId, Timestamp};
    use uuid::Uuid;

    use super::*;

    fn event(n: u128, body: impl Into<EventBody>) -> Event {
        Event {
            run_id: RunId(Uuid::nil()),
            seq: n as u64,
            node_id: NodeId(Uuid::from_u128(n)),
            parent_node_id: None,
            timestamp: Timestamp(0),
            body: body.into(),
        }
    }

    #[test]
    fn an_edited_plan_and_the_steps_that_it_drops_are_written_together() {
        let cancelled = |n| event(n, NodeStatusChanged::new(NodeStatus::Cancelled, Role::Planner));
        let edited = PlanEdited {
            plan_id: PlanId(Uuid::nil()),
            version: 2,
            summary: String::new(),
            author: String::new(),
            request_id: "r".into(),
        };
        let mut events: Vec<Event> = (1..=6).map(cancelled).collect();
        events.push(event(7, edited));
        events.extend((8..=12).map(cancelled));
        let sizes = vec![1; events.len()];
        let documents = [1, 7, 9, 12].map(|seq| DocumentOp::Append {
            id: DocumentId(Uuid::nil()),
            seq,
            text: String::new(),
            at: Timestamp(0),
        });
        let documents = documents.into();
        let parts = cut(Decision { events, documents, ..Decision::default() }, &sizes, 4);
        let lengths: Vec<_> = parts.iter().map(|part| (part.events.len(), part.documents.len())).collect();
        assert_eq!(lengths, [(7, 2), (3, 1), (2, 1)], "each document is written with its event");
    }
}
