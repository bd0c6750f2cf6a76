//! Which node of one run is compared with which node of another.
//!
//! Runs that share nodes, as a fork and its parent do, are compared by the ids of the nodes. Between independent runs
//! the root is compared with the root. Below two nodes that are compared, a child is compared with the child that has
//! its step and title, else with one that has its step, else with one that has its title. A step is named by its id or
//! its slug.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use tree_agent_contract::NodeId;
use tree_agent_contract::diff::NodeMatching;
use tree_agent_contract::graph::GraphNode;

use crate::graph::Graph;

/// A node of one run or of both, as indexes in [`Graph::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) depth: u32,
    pub(crate) a: Option<usize>,
    pub(crate) b: Option<usize>,
}

/// What a child is recognised by. Several children may have the same key: the first is compared with the first.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key<'a> {
    Id(NodeId),
    Root,
    StepAndTitle(&'a str, &'a str),
    Step(&'a str),
    Title(&'a str),
}

type KeyOf = for<'a> fn(&'a GraphNode) -> Option<Key<'a>>;

/// The keys to try one after the other.
fn keys(matching: NodeMatching) -> &'static [KeyOf] {
    match matching {
        NodeMatching::Ids => &[|node| Some(Key::Id(node.id))],
        NodeMatching::Steps => &[
            |node| node.parent_id.is_none().then_some(Key::Root),
            |node| node.step_id.as_ref().map(|step| Key::StepAndTitle(step.as_str(), &node.title)),
            |node| node.step_id.as_ref().map(|step| Key::Step(step.as_str())),
            |node| Some(Key::Title(&node.title)),
        ],
    }
}

/// What two runs are compared by.
pub(crate) fn matching(a: &Graph, b: &Graph) -> NodeMatching {
    let shared = a.nodes().iter().any(|node| b.position(node.id).is_some());
    if shared { NodeMatching::Ids } else { NodeMatching::Steps }
}

/// Every node of both runs once: parents before children, and each node directly after what is below its last sibling.
/// The cost is linear in the nodes, however deep or wide the trees are.
pub(crate) fn pairs(a: &Graph, b: &Graph, matching: NodeMatching) -> Vec<Pair> {
    let (below_a, below_b) = (Children::of(a), Children::of(b));
    let keys = keys(matching);
    let mut pairs = Vec::with_capacity(a.nodes().len().max(b.nodes().len()));
    let mut next = siblings((a, &below_a.first), (b, &below_b.first), 0, keys);
    next.reverse();
    while let Some(pair) = next.pop() {
        pairs.push(pair);
        let of_a = pair.a.map_or(&[][..], |at| &below_a.below[at]);
        let of_b = pair.b.map_or(&[][..], |at| &below_b.below[at]);
        next.extend(siblings((a, of_a), (b, of_b), pair.depth + 1, keys).into_iter().rev());
    }
    pairs
}

/// The tree of a graph, by index.
struct Children {
    /// The root, and any node whose parent is unknown.
    first: Vec<usize>,
    below: Vec<Vec<usize>>,
}

impl Children {
    fn of(graph: &Graph) -> Self {
        let mut children = Self { first: Vec::new(), below: vec![Vec::new(); graph.nodes().len()] };
        for (at, node) in graph.nodes().iter().enumerate() {
            // A node comes after its parent, so that there is no circle.
            let parent = node.parent_id.and_then(|id| graph.position(id)).filter(|parent| *parent < at);
            parent.map_or(&mut children.first, |parent| &mut children.below[parent]).push(at);
        }
        children
    }
}

/// Compares the children of two nodes, each in their order. A child that only `b` has stands where `b` has it.
fn siblings(a: (&Graph, &[usize]), b: (&Graph, &[usize]), depth: u32, keys: &[KeyOf]) -> Vec<Pair> {
    let partners = partners(a, b, keys);
    let taken: Vec<bool> = taken(&partners, b.1.len());
    let alone = |from: usize| (from..b.1.len()).take_while(|at| !taken[*at]);
    let mut pairs = Vec::with_capacity(a.1.len());
    let only_b = |at: usize| Pair { depth, a: None, b: Some(b.1[at]) };
    let mut waiting = 0;
    for (at, partner) in a.1.iter().zip(&partners) {
        if let Some(partner) = partner {
            pairs.extend(alone(waiting).map(only_b));
            waiting = partner + 1;
        }
        pairs.push(Pair { depth, a: Some(*at), b: partner.map(|partner| b.1[partner]) });
    }
    pairs.extend(alone(waiting).map(only_b));
    pairs
}

/// For each child of `a` the place of its partner among the children of `b`.
fn partners(a: (&Graph, &[usize]), b: (&Graph, &[usize]), keys: &[KeyOf]) -> Vec<Option<usize>> {
    let mut partners = vec![None; a.1.len()];
    if a.1.is_empty() || b.1.is_empty() {
        return partners;
    }
    for key in keys {
        let taken = taken(&partners, b.1.len());
        let mut free: HashMap<Key<'_>, VecDeque<usize>> = HashMap::new();
        for (place, at) in b.1.iter().enumerate().filter(|(place, _)| !taken[*place]) {
            if let Some(key) = key(&b.0.nodes()[*at]) {
                free.entry(key).or_default().push_back(place);
            }
        }
        for (partner, at) in partners.iter_mut().zip(a.1).filter(|(partner, _)| partner.is_none()) {
            let found = key(&a.0.nodes()[*at]).and_then(|key| free.get_mut(&key)?.pop_front());
            *partner = found;
        }
    }
    partners
}

fn taken(partners: &[Option<usize>], of: usize) -> Vec<bool> {
    let mut taken = vec![false; of];
    partners.iter().flatten().for_each(|place| taken[*place] = true);
    taken
}
