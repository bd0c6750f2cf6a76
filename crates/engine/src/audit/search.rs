//! The rules about picks and conversations, for nodes of a guided search.

use std::collections::{BTreeMap, BTreeSet};

use tree_agent_contract::event::{Event, EventBody, NodeCreated};
use tree_agent_contract::role::CallKind;
use tree_agent_contract::{NodeId, RunSpec, SearchConfig, Strategy};

/// What is known of the picks and conversations of a log.
#[derive(Clone, Debug, Default)]
pub(super) struct Searches {
    picked: BTreeSet<NodeId>,
    /// Nodes whose research has begun.
    begun: BTreeSet<NodeId>,
    /// The node of each conversation.
    sessions: BTreeMap<String, NodeId>,
    /// The limits of the search that is a run of its own.
    of_run: Option<Limits>,
    /// The searches, by their roots.
    limits: BTreeMap<NodeId, Limits>,
    /// The nodes of searches: the root of the search, and the levels below it.
    places: BTreeMap<NodeId, (NodeId, u32)>,
}

/// What bounds a search.
#[derive(Clone, Copy, Debug)]
struct Limits {
    max_depth: u32,
    /// Topics that may be listed; none if only the run bounds them.
    max_nodes: Option<u32>,
    /// Of these, those that may be listed yet.
    room: Option<u32>,
}

impl Searches {
    /// Reads an event. Returns what is wrong with it.
    pub(super) fn event(&mut self, event: &Event) -> Option<String> {
        let node = event.node_id;
        match &event.body {
            EventBody::RunCreated(e) => {
                self.of_run = of_run(&e.spec);
                None
            }
            EventBody::NodeCreated(e) => self.created(node, e),
            EventBody::LeafPicked(e) => {
                let leaf = e.leaf_node_id;
                if let Some(other) =
                    self.places.get(&leaf).map(|(root, _)| root).filter(|root| **root != node)
                {
                    return Some(format!("picks {leaf}, a topic of the search of {other}"));
                }
                if self.begun.contains(&leaf) {
                    return Some(format!("picks {leaf}, whose research has begun"));
                }
                (!self.picked.insert(leaf)).then(|| format!("picks {leaf} again"))
            }
            EventBody::SessionForked(e) => {
                let parent = e.parent_session_id.as_ref();
                if let Some(parent) = parent.filter(|parent| !self.sessions.contains_key(*parent)) {
                    return Some(format!("continues conversation {parent}, which does not exist"));
                }
                let before = self.sessions.insert(e.session_id.clone(), node);
                before.map(|other| format!("begins conversation {} of node {other} again", e.session_id))
            }
            EventBody::NodeStatusChanged(e) if e.call == Some(CallKind::Research) => {
                let again = !self.begun.insert(node);
                again.then(|| "begins a research again".to_owned()).or_else(|| self.too_deep(node))
            }
            // It is chosen and researched again. A search that begins again lists as many topics as before.
            EventBody::NodeReopened(e) if e.again => {
                self.picked.remove(&node);
                self.begun.remove(&node);
                let limits = self.limits.get_mut(&node)?;
                limits.room = limits.max_nodes;
                None
            }
            _ => None,
        }
    }

    /// What is wrong if a research of `node` begins.
    fn too_deep(&self, node: NodeId) -> Option<String> {
        let (root, level) = self.places.get(&node)?;
        let max_depth = self.limits.get(root)?.max_depth;
        let may = *level == 0 || SearchConfig { max_depth, ..SearchConfig::default() }.researches(*level);
        (!may).then(|| format!("begins a research beyond level {max_depth} of its search"))
    }

    /// A node is a topic of the search of its parent, or the root of a search.
    fn created(&mut self, node: NodeId, e: &NodeCreated) -> Option<String> {
        let above = e.parent_node_id.and_then(|parent| self.places.get(&parent).copied());
        if let Some((root, level)) = above {
            self.places.insert(node, (root, level + 1));
            let room = self.limits.get_mut(&root)?.room.as_mut()?;
            let is_full = *room == 0;
            *room = room.saturating_sub(1);
            return is_full.then(|| format!("lists more topics than the search of {root} may"));
        }
        let of_step = || {
            let search = e.search.unwrap_or_default();
            let max_nodes = Some(search.max_nodes);
            Limits { max_depth: search.max_depth, max_nodes, room: max_nodes }
        };
        let limits = match e.parent_node_id {
            None => self.of_run?,
            Some(_) => (e.strategy == Some(Strategy::Search)).then(of_step)?,
        };
        self.limits.insert(node, limits);
        self.places.insert(node, (node, 0));
        None
    }
}

fn of_run(spec: &RunSpec) -> Option<Limits> {
    let limits = || Limits { max_depth: spec.search().max_depth, max_nodes: None, room: None };
    (spec.strategy == Strategy::Search).then(limits)
}
