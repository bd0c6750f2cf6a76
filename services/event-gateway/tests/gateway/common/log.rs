//! A stand-in for a driver: appends, then publishes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tree_agent_contract::document::DocumentOp;
use tree_agent_contract::event::{Event, EventBody, NodeStatusChanged, RunStatusChanged, ScratchpadUpdated};
use tree_agent_contract::{DocumentId, NodeId, NodeStatus, Role, RunId, RunStatus, Timestamp};
use tree_agent_fanout::{Fanout, Topic};
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_store::{AppendOutcome, Projection, RunAppend, RunRow, Store};

fn executing(message: &str) -> EventBody {
    let (status, role, message) = (NodeStatus::Executing, Role::Executor, Some(message.to_owned()));
    NodeStatusChanged { message, ..NodeStatusChanged::new(status, role) }.into()
}

pub struct Log {
    store: Arc<dyn Store>,
    fanout: Arc<dyn Fanout>,
    pub run: RunId,
    epoch: u64,
    pub head: u64,
}

impl Log {
    pub async fn claim(store: Arc<dyn Store>, fanout: Arc<dyn Fanout>, run: RunId) -> Self {
        let term = store.begin_term("test", Duration::from_secs(600)).await.unwrap().number;
        let claims = store.claim("test", term, 100, 100, 0).await.unwrap();
        let claim = claims.into_iter().find(|c| c.run_id == run).expect("the run can be claimed");
        Self { store, fanout, run, epoch: claim.epoch, head: claim.head_seq }
    }

    /// What a driver would publish for the next events, with `message` in each; nothing is appended.
    pub fn forgery(&self, seqs: impl IntoIterator<Item = u64>, message: &str) -> Bytes {
        let event = |seq| Event {
            run_id: self.run,
            seq,
            node_id: NodeId::root(self.run),
            parent_node_id: None,
            timestamp: Timestamp(seq as i64),
            body: executing(message),
        };
        let events = seqs.into_iter().map(|seq| event(seq).to_wire()).collect();
        pb::EventBatch { events }.encode_to_vec().into()
    }

    /// Appends and publishes `count` events in one batch, each with a message of `bytes` bytes.
    pub async fn append(&mut self, count: u64, bytes: usize) {
        let message = "x".repeat(bytes);
        self.write((0..count).map(|_| executing(&message)).collect(), Projection::default()).await;
    }

    /// Writes to the root's scratchpad.
    pub async fn scribble(&mut self, text: &str) {
        let id = self.pad();
        let at = Timestamp(self.head as i64);
        let body = ScratchpadUpdated { scratchpad_doc_id: id, tail_preview: text.into(), updated_at: at };
        let op = DocumentOp::Append { id, seq: self.head + 1, text: text.into(), at };
        self.write_with(vec![body.into()], Projection::default(), vec![op]).await;
    }

    /// The root's scratchpad.
    pub fn pad(&self) -> DocumentId {
        DocumentId::scratchpad(NodeId::root(self.run))
    }

    /// Appends the run's last event.
    pub async fn finish(&mut self) {
        let status = RunStatus::Completed;
        let row = RunRow {
            status,
            partial: false,
            error: None,
            node_count: 1,
            ended_nodes: 0,
            usage: Default::default(),
            models: Vec::new(),
            started_at: None,
            ended_at: None,
        };
        let body = RunStatusChanged { status, reason: None, partial: false, goes_on_at: None }.into();
        self.write(vec![body], Projection { run: Some(row), ..Projection::default() }).await;
    }

    async fn write(&mut self, bodies: Vec<EventBody>, projection: Projection) {
        self.write_with(bodies, projection, Vec::new()).await;
    }

    async fn write_with(
        &mut self,
        bodies: Vec<EventBody>,
        projection: Projection,
        documents: Vec<DocumentOp>,
    ) {
        let root = NodeId::root(self.run);
        let bodies = bodies.into_iter().map(|body| (root, None, body)).collect();
        self.record(bodies, projection, documents).await;
    }

    /// Appends and publishes events of any nodes, each with its parent.
    pub async fn record(
        &mut self,
        bodies: Vec<(NodeId, Option<NodeId>, EventBody)>,
        projection: Projection,
        documents: Vec<DocumentOp>,
    ) {
        let event = |(seq, (node_id, parent_node_id, body))| Event {
            run_id: self.run,
            seq,
            node_id,
            parent_node_id,
            timestamp: Timestamp(seq as i64),
            body,
        };
        let events: Vec<Event> = (self.head + 1..).zip(bodies).map(event).collect();
        let batch = pb::EventBatch { events: events.iter().map(Wire::to_wire).collect() };
        let append = RunAppend {
            run_id: self.run,
            epoch: self.epoch,
            expected_head: self.head,
            projection,
            documents,
            answers: Vec::new(),
            sessions: Vec::new(),
            events,
        };
        self.head += batch.events.len() as u64;
        assert_eq!(self.store.append([append].into()).await.unwrap(), [AppendOutcome::Appended]);
        // Whether anybody hears it is the fan-out's business.
        let _ = self.fanout.publish(vec![(Topic::Run(self.run), batch.encode_to_vec().into())]).await;
    }
}
