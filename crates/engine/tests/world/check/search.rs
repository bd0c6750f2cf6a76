//! The rules of a guided search.

use std::collections::{BTreeMap, BTreeSet};

use tree_agent_contract::event::{EventBody, NodeCreated};
use tree_agent_contract::search::SearchCounts;
use tree_agent_contract::*;
use tree_agent_engine::CallKind;

use super::super::World;

/// What is known of a topic.
#[derive(Default)]
struct Topic {
    parent: Option<NodeId>,
    depth: u32,
    picked: bool,
    begun: bool,
    researched: bool,
    ended: bool,
    has_session: bool,
    children: usize,
}

impl World {
    /// What holds for the search that begins at `root`.
    pub(crate) fn check_search(&self, root: NodeId, limits: StepSearch) {
        let search = &SearchConfig { max_depth: limits.max_depth, ..self.plan.search.clone() };
        let mut topics: BTreeMap<NodeId, Topic> = BTreeMap::new();
        let mut paths = BTreeSet::new();
        for event in &self.log {
            let at = format!("event {} {}", event.seq, event.body.event_type());
            let is_created = |e: &NodeCreated| e.parent_node_id.is_some_and(|id| topics.contains_key(&id));
            let is_new = matches!(&event.body, EventBody::NodeCreated(e) if is_created(e));
            if !is_new && event.node_id != root && !topics.contains_key(&event.node_id) {
                continue;
            }
            match &event.body {
                EventBody::NodeCreated(e) => {
                    assert!(event.node_id == root || e.band_index.is_none(), "{at}: a topic has no band");
                    assert!(paths.insert((e.parent_node_id, e.step_id.clone())), "{at}: slugs are unique");
                    if let Some(above) = e.parent_node_id.and_then(|id| topics.get_mut(&id)) {
                        above.children += 1;
                        assert!(
                            above.depth == 0 || above.researched,
                            "{at}: a topic is researched before its children"
                        );
                    }
                    let above = e.parent_node_id.and_then(|id| topics.get(&id));
                    let depth = above.map_or(0, |above| above.depth + 1);
                    topics
                        .insert(event.node_id, Topic { parent: e.parent_node_id, depth, ..Topic::default() });
                    assert!(topics.len() as u32 <= limits.max_nodes.saturating_add(1), "{at}: its nodes");
                }
                EventBody::LeafPicked(e) => {
                    assert_eq!(event.node_id, root, "{at}: the root picks");
                    let first = topics.values().filter(|t| t.depth == 1).all(|t| t.researched || t.ended);
                    assert!(first, "{at}: the first level is done");
                    assert_eq!(e.policy, Some(search.picker), "{at}");
                    let topic = topics.get_mut(&e.leaf_node_id).expect("a topic");
                    assert!(
                        !topic.begun && !topic.ended && !topic.picked,
                        "{at}: it waits and is picked once"
                    );
                    topic.picked = true;
                    let waiting = topics.values().filter(|t| t.picked && !t.begun && !t.ended).count();
                    assert_eq!(waiting, 1, "{at}: one pick is prepared at the most");
                }
                EventBody::SessionForked(e) => {
                    let topic = topics.get_mut(&event.node_id).expect("a topic");
                    assert!(!std::mem::replace(&mut topic.has_session, true), "{at}: one conversation each");
                    assert_eq!(e.session_id, SessionId::of(event.node_id).to_string(), "{at}");
                    let above = topics[&event.node_id].parent.filter(|parent| *parent != root);
                    assert_eq!(
                        e.parent_session_id,
                        above.map(|parent| SessionId::of(parent).to_string()),
                        "{at}"
                    );
                }
                EventBody::NodeStatusChanged(e) => {
                    let topic = topics.get_mut(&event.node_id).expect("a topic");
                    topic.ended |= e.status.is_final();
                    if e.call == Some(CallKind::Research) && event.node_id != root {
                        assert!(search.researches(topic.depth), "{at}: beyond the depth limit");
                        assert!(topic.depth == 1 || topic.picked, "{at}: a topic is picked before it begins");
                        assert!(
                            topic.has_session && !topic.begun,
                            "{at}: a topic begins once, in a conversation"
                        );
                        topic.begun = true;
                        let open = topics.values().filter(|t| t.begun && !t.researched && !t.ended).count();
                        assert!(open <= search.concurrency as usize, "{at}: concurrency");
                    }
                    if e.message.as_deref() == Some("guard:maxDepth") {
                        assert!(
                            !search.researches(topics[&event.node_id].depth),
                            "{at}: above the depth limit"
                        );
                    }
                }
                EventBody::NodeSkipped(_) => panic!("{at}: nothing was there before the run"),
                EventBody::NodeResult(_) => {
                    topics.get_mut(&event.node_id).expect("a topic").researched = true
                }
                EventBody::NodeCompleted(_) | EventBody::NodeFailed(_) => {
                    topics.get_mut(&event.node_id).expect("a topic").ended = true;
                }
                _ => {}
            }
        }
        self.check_counts(root, topics.values().filter(|topic| topic.depth > 0));
    }

    /// The result of the root counts what the log shows.
    fn check_counts<'a>(&self, root: NodeId, topics: impl Iterator<Item = &'a Topic>) {
        let root = self.run.graph().node(root).expect("a node");
        // A step returns documents. If they cannot be aggregated, it returns them as they are.
        let is_whole =
            root.parent_id.is_none() || !root.decisions.iter().any(|d| d == "guard:aggregationFailed");
        let Some(payload) = root.result.as_ref().and_then(|result| result.json_payload.clone()) else {
            assert!(root.status != NodeStatus::Completed || !is_whole, "a completed root holds its counts");
            return;
        };
        let counts: SearchCounts = serde_json::from_value(payload.into()).expect("counts");
        let mut found = SearchCounts::default();
        for topic in topics {
            found.expanded += u64::from(topic.researched && topic.children > 0);
            found.leaves += u64::from(topic.researched && topic.children == 0);
        }
        assert_eq!(counts, found);
    }
}
