//! A finished log and its checks.

use std::collections::{HashMap, HashSet};

use tree_agent_contract::event::RunStatusChanged;
use tree_agent_contract::{DocumentId, Event, EventBody, NodeId, NodeStatus, RunStatus};

/// Every event of a run that has ended.
#[derive(Debug)]
pub struct History {
    events: Vec<Event>,
}

impl History {
    /// Takes the log and checks it: seq has no gaps, each node ends once, nothing is done twice, children end before
    /// parents, and the end of the run comes last.
    ///
    /// # Panics
    /// If one of these does not hold.
    pub fn new(events: Vec<Event>) -> Self {
        let history = Self { events };
        history.check();
        history
    }

    fn check(&self) {
        let mut ended: HashMap<NodeId, u64> = HashMap::new();
        let mut once: HashSet<(NodeId, String)> = HashSet::new();
        let mut parents: HashMap<NodeId, Option<NodeId>> = HashMap::new();
        for (expected, event) in (1..).zip(&self.events) {
            assert_eq!(event.seq, expected, "a gap in the log");
            let node = event.node_id;
            let mut first = |what: String| {
                assert!(once.insert((node, what.clone())), "{what} of {node} twice, again at {expected}");
            };
            match &event.body {
                EventBody::RunCreated(_) => assert_eq!(expected, 1, "run_created is first"),
                EventBody::NodeCreated(created) => {
                    first("node_created".into());
                    parents.insert(node, created.parent_node_id);
                }
                EventBody::NodeResult(_) => first("node_result".into()),
                // The synthesis so far is kept, and the next plan leads to another.
                EventBody::ReplanRequested(_) => drop(once.remove(&(node, "node_result".into()))),
                // It may end again.
                EventBody::NodeReopened(_) => {
                    for what in ["node_result", "end"] {
                        once.remove(&(node, what.into()));
                    }
                }
                EventBody::NodeCompleted(_) => first("end".into()),
                EventBody::NodeFailed(_) => first("end".into()),
                EventBody::NodeStatusChanged(s) if s.status == NodeStatus::Cancelled => first("end".into()),
                EventBody::PlanCreated(plan) => first(format!("plan {}", plan.version)),
                EventBody::ArtifactCreated(artifact) => first(format!("artifact {}", artifact.artifact_id)),
                _ => {}
            }
            match &event.body {
                EventBody::NodeCompleted(_) => {
                    assert!(
                        once.contains(&(node, "node_result".into())),
                        "{node} completed without a result"
                    );
                    ended.insert(node, expected);
                }
                EventBody::NodeReopened(_) => drop(ended.remove(&node)),
                EventBody::NodeFailed(_) => drop(ended.insert(node, expected)),
                EventBody::NodeStatusChanged(s) if s.status == NodeStatus::Cancelled => {
                    ended.insert(node, expected);
                }
                EventBody::NodeStatusChanged(_) => {
                    assert!(!ended.contains_key(&node), "{node} changes its status after its end");
                }
                _ => {}
            }
        }
        for (node, parent) in &parents {
            let end = ended.get(node).unwrap_or_else(|| panic!("{node} never ended"));
            let parents_end = parent.and_then(|parent| ended.get(&parent)).copied();
            assert!(parents_end.is_none_or(|at| *end < at), "{node} ended after its parent");
        }
        let finals = self
            .events
            .iter()
            .filter(|e| matches!(&e.body, EventBody::RunStatusChanged(s) if s.status.is_final()));
        assert_eq!(finals.count(), 1, "a run ends once");
        assert!(self.ending().status.is_final(), "the end of the run comes last");
    }

    /// The events.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// How the run ended.
    pub fn ending(&self) -> &RunStatusChanged {
        match self.events.last().map(|event| &event.body) {
            Some(EventBody::RunStatusChanged(end)) => end,
            other => panic!("the last event is not run_status: {other:?}"),
        }
    }

    /// Panics unless the run completed and is not partial.
    #[track_caller]
    pub fn assert_whole(&self) {
        let end = self.ending();
        assert!(end.status == RunStatus::Completed && !end.partial, "ended as {end:?}");
    }

    /// Panics unless the run completed and is partial.
    #[track_caller]
    pub fn assert_partial(&self) {
        let end = self.ending();
        assert!(end.status == RunStatus::Completed && end.partial, "ended as {end:?}");
    }

    /// Panics unless every tool call of a node has a unique id and one result. If a driver dies, its role calls and
    /// their tool calls are repeated, so this holds only for runs that kept their driver.
    #[track_caller]
    pub fn assert_tool_calls_once(&self) {
        let mut asked = HashSet::new();
        let mut answered = HashSet::new();
        for event in &self.events {
            let (calls, id) = match &event.body {
                EventBody::ToolCallRequested(call) => (&mut asked, &call.call_id),
                EventBody::ToolCallResult(result) => (&mut answered, &result.call_id),
                _ => continue,
            };
            assert!(calls.insert((event.node_id, id)), "tool call {id} of {} twice", event.node_id);
        }
        assert!(!asked.is_empty() && asked == answered, "asked {asked:?}, answered {answered:?}");
    }

    /// Nodes created.
    pub fn nodes(&self) -> usize {
        self.events.iter().filter(|e| matches!(e.body, EventBody::NodeCreated(_))).count()
    }

    /// The messages of `tree.node_status`, in order.
    pub fn messages(&self) -> Vec<&str> {
        self.events
            .iter()
            .filter_map(|event| match &event.body {
                EventBody::NodeStatusChanged(status) => status.message.as_deref(),
                _ => None,
            })
            .collect()
    }

    /// The id of the node titled `title`.
    #[track_caller]
    pub fn node(&self, title: &str) -> NodeId {
        self.events
            .iter()
            .find_map(|event| match &event.body {
                EventBody::NodeCreated(created) if created.title == title => Some(event.node_id),
                _ => None,
            })
            .unwrap_or_else(|| panic!("no node is titled {title:?}"))
    }

    /// The root's primary document, or its only one.
    #[track_caller]
    pub fn synthesis(&self) -> DocumentId {
        let root = self.events[0].node_id;
        let mut documents = self.events.iter().rev().filter_map(|event| match &event.body {
            EventBody::ArtifactCreated(artifact) if event.node_id == root && artifact.is_primary => {
                artifact.document_id
            }
            _ => None,
        });
        documents.next().expect("the root has a primary document")
    }
}
