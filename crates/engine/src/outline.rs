//! What a picker and a research see: the tree of topics as text of a bounded length, and for a picker the topics that
//! it may name.
//!
//! Only what fits is visited, so the cost does not grow with the tree:
//!
//! 1. The last pick and the branches above it are unfolded, in half of the room.
//! 2. Branches are unfolded breadth-first, as long as what waits or works in them fits. A branch that stays folded is
//!    one line with the number of topics that wait in it.
//! 3. Where room is left, what is finished in these branches is listed too. Otherwise it is counted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

use tree_agent_contract::role::OfferedLeaf;
use tree_agent_contract::search::{DEPTH_GUARD, Expansion};
use tree_agent_contract::text::{count, truncate};
use tree_agent_contract::{NodeStatus, graph::GraphNode};

use crate::state::State;
use crate::topics::{Phase, Place, Topic, Topics};

/// Bytes of an outline and of the paths that it offers: about 6,000 tokens.
pub(crate) const ROOM: usize = 24 * 1024;
/// Bytes of a title in an outline.
const TITLE: usize = 160;
/// Bytes of a line beside its title and its indent.
const FRAME: usize = 32;

/// The tree of topics as text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outline {
    pub(crate) text: String,
    /// What a picker may name, in breadth-first order.
    pub(crate) leaves: Vec<OfferedLeaf>,
}

/// What is shown of a branch.
#[derive(Default)]
struct Unfolded {
    /// How many of its busy children are shown, the first ones.
    busy: usize,
    /// A busy child behind those, which is shown because the last pick was below it.
    last: Option<usize>,
    /// What is finished in it is listed.
    finished: bool,
}

impl Unfolded {
    /// The first `busy` of the busy children of `topic`, and `last`.
    fn new(topic: &Topic, busy: usize, last: Option<usize>) -> Self {
        let last = last.filter(|last| !topic.busy.iter().take(busy).any(|child| child == last));
        Self { busy, last, finished: false }
    }

    /// The busy children of `topic` that are shown.
    fn shown<'a>(&self, topic: &'a Topic) -> impl Iterator<Item = usize> + use<'a> {
        topic.busy.iter().copied().take(self.busy).chain(self.last)
    }
}

/// The outline of the branch of `within`, in at most about `room` bytes.
pub(crate) fn outline(state: &State, topics: &Topics, within: usize, room: usize) -> Outline {
    let view = View { state, topics, top: topics.topic(within).place.depth };
    let unfolded = unfold(&view, within, room);
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

/// Which branches are unfolded.
fn unfold(view: &View<'_>, within: usize, room: usize) -> BTreeMap<usize, Unfolded> {
    let (mut unfolded, used) = unfold_last_picked(view, within, room / 2);
    let mut room = room.saturating_sub(used);
    let mut order = Vec::new();
    let mut queue = VecDeque::from([within]);
    while let Some(at) = queue.pop_front() {
        let topic = view.topics.topic(at);
        let before = unfolded.remove(&at);
        // What the line to the last pick shows is paid for.
        let paid: BTreeSet<usize> = before.iter().flat_map(|before| before.shown(topic)).collect();
        let (mut used, mut fits) = (0, 0);
        for &child in &topic.busy {
            used += if paid.contains(&child) { 0 } else { view.cost(child, true) };
            if used > room {
                break;
            }
            fits += 1;
        }
        let shown = match before {
            _ if used <= room => {
                room -= used;
                Unfolded::new(topic, fits, None)
            }
            // The topmost branch shows as many as fit, and one at least.
            before if at == within => {
                room = 0;
                let before = before.unwrap_or_default();
                Unfolded::new(topic, fits.max(before.busy).max(1), before.last)
            }
            Some(before) => before,
            None => continue,
        };
        queue.extend(shown.shown(topic).filter(|child| !view.topics.topic(*child).busy.is_empty()));
        unfolded.insert(at, shown);
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
    unfolded
}

/// Unfolds the last pick and the branches above it, so that one that is chosen again and again is not folded each time.
/// They take at most about `room` bytes: first what is below and beside the last pick, then the branches above. Also
/// returns the bytes.
fn unfold_last_picked(view: &View<'_>, within: usize, room: usize) -> (BTreeMap<usize, Unfolded>, usize) {
    let (mut unfolded, mut used) = (BTreeMap::new(), 0);
    let line = view.topics.last_picked().map(|last| view.topics.line(last)).unwrap_or_default();
    let root = view.topics.root();
    let line: Vec<usize> = std::iter::once(root).chain(line).skip_while(|at| *at != within).collect();
    for (n, &at) in line.iter().enumerate().rev() {
        let busy = &view.topics.topic(at).busy;
        if busy.is_empty() {
            continue;
        }
        // Where the line goes on.
        let last = line.get(n + 1).copied().filter(|child| busy.contains(child));
        used += last.map_or(0, |last| view.cost(last, true));
        let mut fits = 0;
        for &child in busy.iter().filter(|child| Some(**child) != last) {
            let cost = view.cost(child, true);
            if used + cost > room {
                break;
            }
            used += cost;
            fits += 1;
        }
        let is_among = last.is_some_and(|last| busy.iter().take(fits + 1).any(|at| *at == last));
        unfolded.insert(at, Unfolded::new(view.topics.topic(at), fits + usize::from(is_among), last));
    }
    (unfolded, used)
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
        let Some(unfolded) = self.unfolded.get(&at) else { return };
        let topics = self.view.topics;
        let topic = topics.topic(at);
        let depth = topic.place.depth + 1;
        let finished = unfolded.finished;
        let shown: BTreeSet<usize> = unfolded.shown(topic).collect();
        if finished {
            for &child in &topic.children {
                if shown.contains(&child) || !topic.busy.contains(&child) {
                    self.topic(child);
                }
            }
        } else {
            shown.iter().for_each(|&child| self.topic(child));
        }
        let more = topic.busy.len() - shown.len();
        if more > 0 {
            let shown: u64 = shown.iter().map(|&child| topics.topic(child).waiting).sum();
            let waiting = topic.waiting - shown;
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
        let is_chosen = topic.was_chosen || topics.picked() == Some(at);
        let is_free = topic.phase == Phase::Waiting && !topic.is_aside && !is_chosen;
        if is_free || is_folded && topic.waiting > 0 {
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
    fn remark(&self, at: usize) -> &'static str {
        let View { state, topics, .. } = self.view;
        let (node, topic) = (state.node(at), topics.topic(at));
        match node.status {
            NodeStatus::Failed => ": failed",
            _ if node.message.as_deref() == Some(DEPTH_GUARD) => ": depth limit",
            NodeStatus::Cancelled => ": stopped",
            _ if topic.is_aside => ": paused",
            _ => "",
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
