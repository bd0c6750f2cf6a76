//! How a search chooses the topic that is researched next.
//!
//! A pick is a decision on the log alone, made on the tree as it is when a place is free. The policies `breadth-first`
//! and `best-first` choose at once. For the policy `llm` a model is asked, and no two picks are made at a time, so no
//! topic is ever chosen twice.

use tree_agent_contract::NodeStatus;
use tree_agent_contract::event::{LeafPicked, NodeStatusChanged};
use tree_agent_contract::role::{CallKind, PickOutput};
use tree_agent_contract::search::PickerPolicy;
use tree_agent_contract::text::truncate;

use crate::decide::{Decider, Next};
use crate::outline::{ROOM, outline};
use crate::state::State;
use crate::topics::{AGAIN, Phase, Topics, WITHIN};

/// Bytes of a path in a message.
const SHOWN: usize = 512;
/// Bytes of the reason of a fallback.
const REASON: usize = 2048;

/// What a path means.
enum Named {
    Leaf(usize),
    Branch(usize),
    Nothing(String),
}

/// Chooses the next topic, or asks for it.
pub(super) fn choose(topics: &Topics, d: &mut Decider<'_>) {
    let Some(first) = topics.first_leaf().map(|place| place.at()) else { return };
    match topics.policy() {
        _ if !topics.has_room(d.state) => {}
        PickerPolicy::Llm if topics.leaves() > 1 => ask(topics, d, None),
        PickerPolicy::Llm => pick(topics, d, first, "the only topic that waits".into(), None),
        PickerPolicy::BreadthFirst => {
            pick(topics, d, first, "the first topic in breadth-first order".into(), None);
        }
        PickerPolicy::BestFirst => {
            if let Some((best, score)) = topics.best_leaf() {
                pick(topics, d, best, format!("the highest score: {score}"), None);
            }
        }
    }
}

/// Asks a picker, and says how far the search is.
fn ask(topics: &Topics, d: &mut Decider<'_>, message: Option<String>) {
    let (root, progress) = (topics.root(), Some(topics.progress()));
    d.show(root, NodeStatusChanged { message, progress, ..d.needing(root, CallKind::Pick) });
}

/// True if a picker that is asked now could name something.
pub(super) fn has_choice(topics: &Topics) -> bool {
    let within = topics.picking().and_then(|picking| picking.within);
    topics.leaves() > 0 && within.is_none_or(|branch| topics.has_leaves_below(branch))
}

/// A picker has answered.
pub(super) fn answered(topics: &Topics, d: &mut Decider<'_>, out: &PickOutput) {
    let root = topics.root();
    if d.state.ending(root).is_some() {
        return rest(topics, d);
    }
    match named(topics, d.state, &out.path) {
        Named::Leaf(leaf) => {
            d.status(root, NodeStatus::Waiting, None);
            pick(topics, d, leaf, out.reason.clone(), None);
        }
        Named::Branch(branch) => {
            let path = topics.path(d.state, branch);
            ask(topics, d, Some(format!("{WITHIN}{path}")));
        }
        Named::Nothing(why) if topics.picking().is_some_and(|picking| picking.again) => {
            fall_back(topics, d, why)
        }
        Named::Nothing(why) => ask(topics, d, Some(format!("{AGAIN}{why}"))),
    }
}

/// A picker has failed for good.
pub(super) fn failed(topics: &Topics, d: &mut Decider<'_>, why: &str) {
    fall_back(topics, d, format!("the picker failed: {}", truncate(why, REASON)));
}

/// Why a picker is asked again; empty if it is asked for the first time.
pub(super) fn note(state: &State, root: usize) -> String {
    let message = state.node(root).message.as_deref().unwrap_or_default();
    match (message.strip_prefix(AGAIN), message.strip_prefix(WITHIN)) {
        (Some(why), _) => format!("Your last answer could not be used: {why}. Name an unexpanded leaf."),
        (_, Some(path)) => format!("You have chosen the branch {path}. Name an unexpanded leaf within it."),
        _ => String::new(),
    }
}

fn named(topics: &Topics, state: &State, path: &str) -> Named {
    let path = path.trim().trim_matches('/');
    let shown = truncate(path, SHOWN);
    let Some(at) = topics.named(state, path) else {
        return Named::Nothing(format!("{shown:?} is no topic of the tree"));
    };
    let topic = topics.topic(at);
    match topic.phase {
        Phase::Waiting if topic.is_aside && !is_held(topics, state, at) => {
            Named::Nothing(format!("{shown:?} is paused"))
        }
        Phase::Waiting if topic.was_chosen => Named::Nothing(format!("{shown:?} is about to begin")),
        Phase::Waiting if !topics.is_too_deep(topic.place.depth) => Named::Leaf(at),
        Phase::Working => Named::Nothing(format!("{shown:?} is in progress")),
        _ => {
            let within = topics.picking().and_then(|picking| picking.within).unwrap_or(topics.root());
            let offered = outline(state, topics, within, ROOM).leaves;
            let is_folded = offered.iter().any(|leaf| leaf.leaves_below > 0 && leaf.path == path);
            // While the search is paused nothing is offered, but the picker was asked before.
            let was_folded = topics.aside_below(at).into_iter().any(|leaf| is_held(topics, state, leaf));
            match is_folded || was_folded {
                true => Named::Branch(at),
                false => Named::Nothing(format!("{shown:?} is not an unexpanded leaf")),
            }
        }
    }
}

/// True if only a pause of the whole search holds the topic at `at`: what a picker says of it counts after the pause.
fn is_held(topics: &Topics, state: &State, at: usize) -> bool {
    state.is_paused(topics.root()) && topics.line(at).into_iter().all(|topic| !state.node(topic).paused)
}

/// Takes the first topic in breadth-first order, and says why.
fn fall_back(topics: &Topics, d: &mut Decider<'_>, why: String) {
    let first = topics.first_leaf().map(|place| place.at());
    let Some(first) = first.filter(|_| d.state.ending(topics.root()).is_none()) else {
        return rest(topics, d);
    };
    d.status(topics.root(), NodeStatus::Waiting, None);
    pick(topics, d, first, "the first topic in breadth-first order".into(), Some(why));
}

fn pick(topics: &Topics, d: &mut Decider<'_>, leaf: usize, reason: String, fallback: Option<String>) {
    let leaf_node_id = d.state.node(leaf).id;
    let policy = Some(topics.policy());
    d.emit(topics.root(), LeafPicked { leaf_node_id, reason, policy, fallback });
    d.ask(Next::Advance { at: topics.root() });
}

/// Nothing is picked.
pub(super) fn rest(topics: &Topics, d: &mut Decider<'_>) {
    d.status(topics.root(), NodeStatus::Waiting, None);
    d.ask(Next::Advance { at: topics.root() });
}
