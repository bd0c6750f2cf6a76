//! What a picker sees: the tree of topics as text of a bounded length, and the topics that it may name.
//!
//! Only what fits is visited, so the cost does not grow with the tree:
//!
//! 1. Branches are unfolded breadth-first, as long as what waits or works in them fits. A branch that stays folded is one
//!    line with the number of topics that wait in it.
//! 2. Where room is left, what is finished in these branches is listed too. Otherwise it is counted.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use tree_agent_contract::role::OfferedLeaf;
use tree_agent_contract::search::{DEPTH_GUARD, Expansion};
use tree_agent_contract::text::{count, truncate};
use tree_agent_contract::{NodeStatus, graph::GraphNode};

use crate::state::State;
use crate::topics::{Phase, Place, Topics, is_lost};

/// Bytes of an outline and of the paths that it offers: about 6,000 tokens.
pub(crate) const ROOM: usize = 24 * 1024;
/// Bytes of a title in an outline.
const TITLE: usize = 160;
/// Bytes of a line beside its title and its indent.
const FRAME: usize = 32;

/// What a picker sees.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outline {
    pub(crate) text: String,
    /// In breadth-first order.
    pub(crate) leaves: Vec<OfferedLeaf>,
}

/// What is shown of a branch.
#[derive(Default)]
struct Unfolded {
    /// How many of its busy children are shown, the first ones.
    busy: usize,
    /// What is finished in it is listed.
    finished: bool,
}

/// The outline of the branch of `within`, in at most about `room` bytes.
pub(crate) fn outline(state: &State, topics: &Topics, within: usize, room: usize) -> Outline {
    let view = View { state, topics, top: topics.topic(within).place.depth };
    let (unfolded, _) = unfold(&view, within, room);
    let mut drawn = Drawn { view, unfolded, text: String::new(), offered: Vec::new() };
    for at in topics.line(within) {
        let shown = if drawn.text.is_empty() { "Within: " } else { " > " };
        drawn.text.push_str(shown);
        drawn.text.push_str(&title(state.node(at)));
    }
    if !drawn.text.is_empty() {
        drawn.text.push('\n');
    }
    drawn.branch(within);
    drawn.offered.sort_by(|a, b| a.0.cmp(&b.0));
    Outline { text: drawn.text, leaves: drawn.offered.into_iter().map(|(_, leaf)| leaf).collect() }
}

/// Which branches are unfolded, and the room that is left.
fn unfold(view: &View<'_>, within: usize, mut room: usize) -> (BTreeMap<usize, Unfolded>, usize) {
    let mut unfolded: BTreeMap<usize, Unfolded> = BTreeMap::new();
    let mut order = Vec::new();
    let mut queue = VecDeque::from([within]);
    while let Some(at) = queue.pop_front() {
        let mut used = 0;
        let mut fits = 0;
        for &child in &view.topics.topic(at).busy {
            used += view.cost(child, true);
            if used > room {
                break;
            }
            fits += 1;
        }
        let busy = &view.topics.topic(at).busy;
        // The topmost branch shows as many as fit, and one at least.
        if at == within && used > room {
            fits = fits.max(1);
            used = room;
        } else if used > room {
            continue;
        }
        room -= used.min(room);
        queue.extend(
            busy.iter().copied().take(fits).filter(|child| !view.topics.topic(*child).busy.is_empty()),
        );
        unfolded.insert(at, Unfolded { busy: fits, finished: false });
        order.push(at);
    }
    for at in order {
        let topic = view.topics.topic(at);
        let finished = topic.children.len() - topic.busy.len();
        if finished * FRAME > room {
            continue;
        }
        let children = topic.children.iter().filter(|child| !topic.busy.contains(child));
        let used: usize = children.map(|&child| view.cost(child, false)).sum();
        if let Some(left) = room.checked_sub(used) {
            room = left;
            unfolded.entry(at).or_default().finished = true;
        }
    }
    (unfolded, room)
}

struct View<'a> {
    state: &'a State,
    topics: &'a Topics,
    /// The depth of the topmost branch.
    top: u32,
}

impl View<'_> {
    /// Columns by which a topic is indented.
    fn indent(&self, depth: u32) -> usize {
        2 * (depth - self.top - 1) as usize
    }

    /// About as many bytes as the line of a topic and, if it may be named, its path take.
    fn cost(&self, at: usize, is_named: bool) -> usize {
        let topic = self.topics.topic(at);
        let path = if is_named { 30 * topic.place.depth as usize } else { 0 };
        self.indent(topic.place.depth) + self.state.node(at).title.len().min(TITLE) + FRAME + path
    }
}

struct Drawn<'a> {
    view: View<'a>,
    unfolded: BTreeMap<usize, Unfolded>,
    text: String,
    offered: Vec<(Place, OfferedLeaf)>,
}

impl Drawn<'_> {
    /// Draws what is below the topic at `at`. It calls itself for each level, of which there are at most 64.
    fn branch(&mut self, at: usize) {
        let Some(&Unfolded { busy, finished }) = self.unfolded.get(&at) else { return };
        let topics = self.view.topics;
        let topic = topics.topic(at);
        let depth = topic.place.depth + 1;
        if finished {
            let mut shown = 0;
            for &child in &topic.children {
                let is_busy = topic.busy.contains(&child);
                shown += usize::from(is_busy);
                if !is_busy || shown <= busy {
                    self.topic(child);
                }
            }
        } else {
            topic.busy.iter().take(busy).for_each(|&child| self.topic(child));
        }
        let more = topic.busy.len() - busy;
        if more > 0 {
            let waiting: u64 = topic.busy.iter().skip(busy).map(|&child| topics.topic(child).waiting).sum();
            self.line(
                depth,
                &format!("… {} with {waiting} unexpanded, offered later", count(more, "more topic")),
            );
        }
        let done = topic.children.len() - topic.busy.len();
        if !finished && done > 0 {
            self.line(depth, &format!("… {} finished", count(done, "topic")));
        }
    }

    fn topic(&mut self, at: usize) {
        let View { state, topics, .. } = self.view;
        let (node, topic) = (state.node(at), topics.topic(at));
        let status = Expansion::of(node, !topic.children.is_empty());
        let mut text = format!("- {} [{status}{}]", title(node), self.remark(at));
        let is_folded = !topic.busy.is_empty() && !self.unfolded.contains_key(&at);
        if is_folded {
            let _ = write!(text, " ({} unexpanded below)", topic.waiting);
        } else if topic.busy.is_empty() && !topic.children.is_empty() {
            let _ = write!(text, " ({} below, finished)", count(topic.children.len(), "topic"));
        }
        self.line(topic.place.depth, &text);
        let may_be_named = topic.phase == Phase::Waiting || is_folded && topic.waiting > 0;
        if may_be_named && topics.picked() != Some(at) {
            let leaf = OfferedLeaf {
                path: topics.path(state, at),
                title: title(node),
                depth: topic.place.depth,
                score: topic.given_score(),
                leaves_below: if is_folded { topic.waiting } else { 0 },
            };
            self.offered.push((topic.place.clone(), leaf));
        }
        self.branch(at);
    }

    /// Why a topic is not offered.
    fn remark(&self, at: usize) -> String {
        let View { state, topics, .. } = self.view;
        let (node, topic) = (state.node(at), topics.topic(at));
        match topic.covered_by {
            Some(other) => format!(": covered by {}", topics.path(state, other)),
            None if node.status == NodeStatus::Failed => ": failed".to_owned(),
            None if node.message.as_deref() == Some(DEPTH_GUARD) => ": depth limit".to_owned(),
            None if is_lost(node.status) => ": stopped".to_owned(),
            None => String::new(),
        }
    }

    fn line(&mut self, depth: u32, text: &str) {
        let indent = self.view.indent(depth);
        let _ = writeln!(self.text, "{:indent$}{text}", "");
    }
}

fn title(node: &GraphNode) -> String {
    truncate(&node.title, TITLE).into_owned()
}
