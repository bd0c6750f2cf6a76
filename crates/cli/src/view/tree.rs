//! The tree as text: one line for a node, finished parts folded, fitted to a window.

use std::collections::HashMap;

use tree_agent_contract::graph::GraphNode;
use tree_agent_contract::text::prefix;
use tree_agent_contract::{NodeId, NodeStatus, Outcome, Role, RunStatus, Strategy, Timestamp};
use tree_agent_engine::Graph;

use super::lease;
use super::line::Line;
use super::paint::{Paint, count, duration};
use super::printable::one_line;
use super::usage;

/// How the tree is to be drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout<'a> {
    /// Maximum of lines; as many as it takes when none.
    pub(crate) height: Option<usize>,
    /// False: nothing is folded unless the height demands it.
    pub(crate) fold: bool,
    /// The moment that running times are counted to.
    pub(crate) now: Timestamp,
    /// Nodes that are shown as delegating, although they already wait: it takes no time.
    pub(crate) delegating: &'a [NodeId],
}

/// The fewest characters of an id that are shown.
const ID_MIN: usize = 4;

/// The lines of the tree: a headline about the run, then the nodes, each with as much of its id as names it.
pub(crate) fn tree(graph: &Graph, layout: &Layout<'_>) -> Vec<Line> {
    let index = Index::new(graph, layout.delegating);
    let height = layout.height.unwrap_or(usize::MAX).max(2);
    let deepest = graph.nodes().iter().map(|n| n.depth).max().unwrap_or(0);
    let mut levels: Vec<Detail> = Vec::new();
    if !layout.fold {
        levels.push(Detail::everything());
    }
    let folded = Detail { fold_finished: true, ..Detail::everything() };
    let merged = Detail { merge_finished: true, ..folded };
    let quiet = Detail { merge_waiting: true, ..merged };
    levels.extend([folded, merged, quiet]);
    levels.extend((0..deepest).rev().map(|max_depth| Detail { max_depth, ..quiet }));
    let mut lines = Vec::new();
    for detail in levels {
        lines = index.draw(&detail, layout.now, height);
        if lines.len() <= height {
            return lines;
        }
    }
    // Even the root's children are too many for the window.
    lines.truncate(height - 1);
    lines.push(Line::note("… the window is too small for the rest"));
    lines
}

/// How much is shown.
#[derive(Clone, Copy)]
struct Detail {
    /// A finished subtree is one line.
    fold_finished: bool,
    /// Finished siblings in a row are one line.
    merge_finished: bool,
    /// Waiting siblings in a row are one line.
    merge_waiting: bool,
    /// Deeper nodes are only counted.
    max_depth: u32,
}

impl Detail {
    const fn everything() -> Self {
        Self { fold_finished: false, merge_finished: false, merge_waiting: false, max_depth: u32::MAX }
    }
}

/// What lies below and at a node.
#[derive(Clone, Copy, Default)]
struct Sums {
    nodes: usize,
    failed: usize,
    open: usize,
}

impl Sums {
    fn add(&mut self, other: Sums) {
        self.nodes += other.nodes;
        self.failed += other.failed;
        self.open += other.open;
    }

    fn text(self) -> String {
        let mut text = count(self.nodes, "node");
        if self.failed > 0 {
            text.push_str(&format!(", {} failed", self.failed));
        }
        text
    }
}

struct Index<'a> {
    graph: &'a Graph,
    children: Vec<Vec<usize>>,
    roots: Vec<usize>,
    /// Of the subtree at each node, itself included.
    sums: Vec<Sums>,
    /// Characters of an id that no two nodes share.
    id: usize,
    delegating: &'a [NodeId],
}

impl<'a> Index<'a> {
    fn new(graph: &'a Graph, delegating: &'a [NodeId]) -> Self {
        let place: HashMap<NodeId, usize> =
            graph.nodes().iter().enumerate().map(|(i, n)| (n.id, i)).collect();
        let mut children = vec![Vec::new(); graph.nodes().len()];
        let mut roots = Vec::new();
        let parent = |n: &GraphNode| n.parent_id.and_then(|id| place.get(&id).copied());
        let mut sums = vec![Sums::default(); graph.nodes().len()];
        for (i, node) in graph.nodes().iter().enumerate() {
            // In order of creation a parent comes before its children; anything else would be a cycle.
            match parent(node).filter(|&p| p < i) {
                Some(p) => children[p].push(i),
                None => roots.push(i),
            }
        }
        for (i, node) in graph.nodes().iter().enumerate().rev() {
            let failed = usize::from(node.status == NodeStatus::Failed);
            let open = usize::from(!node.status.is_final());
            sums[i].add(Sums { nodes: 1, failed, open });
            if let Some(p) = parent(node).filter(|&p| p < i) {
                let own = sums[i];
                sums[p].add(own);
            }
        }
        Self { graph, children, roots, sums, id: unique(graph), delegating }
    }

    fn draw(&self, detail: &Detail, now: Timestamp, height: usize) -> Vec<Line> {
        let mut lines = vec![self.headline(now)];
        for &root in &self.roots {
            self.node(root, "", "", detail, now, height, &mut lines);
        }
        lines
    }

    fn headline(&self, now: Timestamp) -> Line {
        let graph = self.graph;
        let mut total = Sums::default();
        self.roots.iter().for_each(|&r| total.add(self.sums[r]));
        let (icon, paint) = run_icon(graph.status(), graph.partial());
        let mut line = Line::new(format!("run {}", graph.run_id()), Paint::Bold);
        line.before(icon, paint);
        line.before(" ", Paint::Plain);
        let partial = if graph.partial() { " (partial)" } else { "" };
        line.after(format!("{}{partial}", graph.status()), paint);
        line.after(format!("{} done of {}", total.nodes - total.open, total.text()), Paint::Dim);
        // The clock of a fork begins with it. A snapshot knows only when its nodes began.
        let of_run = graph.started_at().map(|start| graph.ended_at().unwrap_or(now).millis_since(start));
        let of_root = || self.roots.first().and_then(|&r| elapsed(&graph.nodes()[r], now));
        if let Some(ms) = of_run.or_else(of_root) {
            line.after(duration(ms), Paint::Dim);
        }
        if let Some(used) = usage::short(&graph.usage()) {
            line.after(used, Paint::Dim);
        }
        if let Some(why) = graph.error() {
            line.detail(one_line(why), if graph.partial() { Paint::Warn } else { Paint::Bad });
        }
        line
    }

    #[allow(clippy::too_many_arguments)]
    fn node(
        &self,
        i: usize,
        lead: &str,
        below: &str,
        detail: &Detail,
        now: Timestamp,
        height: usize,
        lines: &mut Vec<Line>,
    ) {
        if lines.len() > height {
            return; // Too long already: a coarser detail follows.
        }
        let node = &self.graph.nodes()[i];
        let is_root = node.parent_id.is_none();
        let folds = !is_root && detail.fold_finished && self.sums[i].open == 0;
        let cut = folds || node.depth >= detail.max_depth;
        let delegates = node.status == NodeStatus::Waiting && self.delegating.contains(&node.id);
        let status = if delegates { NodeStatus::Delegating } else { node.status };
        let mut line = node_line(node, status, lead, self.id, now);
        let hidden = self.sums[i].nodes - 1;
        if cut && hidden > 0 {
            let mut sums = self.sums[i];
            sums.nodes = hidden;
            sums.failed -= usize::from(node.status == NodeStatus::Failed);
            // The node's own status stands on its line.
            sums.open -= usize::from(!node.status.is_final());
            let done = if sums.open > 0 { format!(", {} done", hidden - sums.open) } else { String::new() };
            line.after(format!("▸ {}{done}", sums.text()), Paint::Dim);
        }
        lines.push(line);
        if cut {
            return;
        }
        let to_come = steps_to_come(node);
        let groups = self.groups(i, detail);
        for (g, group) in groups.iter().enumerate() {
            let last = g + 1 == groups.len() && to_come.is_none();
            let (branch, under) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let (lead, under) = (format!("{below}{branch}"), format!("{below}{under}"));
            match group {
                Group::Node(child) => self.node(*child, &lead, &under, detail, now, height, lines),
                Group::Finished(n, sums) => lines.push(group_line(&lead, *n, "finished", Some(*sums))),
                Group::Waiting(n) => lines.push(group_line(&lead, *n, "waiting", None)),
            }
        }
        if let Some(text) = to_come {
            let mut line = Line::new(text, Paint::Dim);
            line.before(format!("{below}└─ "), Paint::Dim);
            line.before("· ", Paint::Dim);
            lines.push(line);
        }
    }

    fn groups(&self, i: usize, detail: &Detail) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for &child in &self.children[i] {
            let node = &self.graph.nodes()[child];
            let finished = detail.merge_finished && self.sums[child].open == 0;
            let waiting =
                detail.merge_waiting && node.status == NodeStatus::Waiting && self.children[child].is_empty();
            match (groups.last_mut(), finished, waiting) {
                (Some(Group::Finished(n, sums)), true, _) => {
                    *n += 1;
                    sums.add(self.sums[child]);
                }
                (Some(Group::Waiting(n)), _, true) => *n += 1,
                (_, true, _) => groups.push(Group::Finished(1, self.sums[child])),
                (_, _, true) => groups.push(Group::Waiting(1)),
                _ => groups.push(Group::Node(child)),
            }
        }
        groups
    }
}

enum Group {
    Node(usize),
    Finished(usize, Sums),
    Waiting(usize),
}

fn group_line(lead: &str, n: usize, what: &str, sums: Option<Sums>) -> Line {
    let (icon, paint) = match sums {
        Some(sums) if sums.failed > 0 => ("✗", Paint::Warn),
        Some(_) => ("✓", Paint::Good),
        None => ("○", Paint::Dim),
    };
    let mut line = Line::new(format!("{n} {what}"), Paint::Dim);
    line.before(lead, Paint::Dim);
    line.before(format!("{icon} "), paint);
    if let Some(sums) = sums {
        line.after(format!("▸ {}", sums.text()), Paint::Dim);
    }
    line
}

/// The length of the shortest beginnings that tell the ids of all nodes apart.
fn unique(graph: &Graph) -> usize {
    let mut ids: Vec<String> = graph.nodes().iter().map(|node| node.id.to_string()).collect();
    ids.sort_unstable();
    let shared = |pair: &[String]| pair[0].bytes().zip(pair[1].bytes()).take_while(|(a, b)| a == b).count();
    ids.windows(2).map(|pair| shared(pair) + 1).fold(ID_MIN, usize::max)
}

fn node_line(node: &GraphNode, status: NodeStatus, lead: &str, id: usize, now: Timestamp) -> Line {
    let (icon, paint) = status_icon(status, node.outcome);
    let title_paint = if node.status.is_final() { Paint::Plain } else { Paint::Bold };
    let mut line = Line::new(one_line(&node.title), title_paint);
    line.before(lead, Paint::Dim);
    line.before(format!("{icon} "), paint);
    match node.role {
        Role::Planner => line.before("P ", Paint::Plan),
        Role::Executor => line.before("E ", Paint::Busy),
    }
    if let Some(band) = node.band_index.filter(|_| node.task.is_none()) {
        line.before(format!("{} ", band_name(band)), Paint::Dim);
    }
    line.before(format!("{} ", prefix(&node.id.to_string(), id)), Paint::Dim);
    if node.strategy == Some(Strategy::Search) {
        line.after("search", Paint::Plan);
    }
    if let Some(task) = &node.task {
        line.before(format!("i{} ", task.iteration), Paint::Dim);
        line.after(one_line(&task.branch_id), Paint::Plan);
    }
    let partial = if node.outcome == Some(Outcome::Partial) { " (partial)" } else { "" };
    line.after(format!("{status}{partial}"), paint);
    if let Some((ended, all)) =
        node.ended_steps().filter(|_| node.progress.is_some() && !node.status.is_final())
    {
        line.after(format!("{ended} of {all}"), Paint::Dim);
    }
    if node.paused {
        line.after("‖ paused", Paint::Warn);
    }
    if node.stopped {
        line.after("■ stopped", Paint::Warn);
    }
    if node.generation > 0 {
        line.after(again(node.generation), Paint::Dim);
    }
    if let Some(tool) = node.last_tool.as_ref().filter(|t| t.ok.is_none() && !node.status.is_final()) {
        line.after(format!("⚙ {}", one_line(&tool.tool_name)), Paint::Busy);
    }
    if let Some(ms) = elapsed(node, now) {
        line.after(duration(ms), Paint::Dim);
    }
    if let Some(used) = usage::short(&node.subtree_usage.get()) {
        line.after(used, Paint::Dim);
    }
    if let Some(lease) = node.lease.as_deref() {
        lease::show(lease, &mut line);
    }
    if let Some(error) = &node.error {
        line.detail(one_line(error), Paint::Bad);
    } else if let Some(message) = node.message.as_deref().filter(|m| says_something(m)) {
        line.detail(one_line(message), Paint::Warn);
    }
    line
}

/// How often a node was reopened.
fn again(generation: u32) -> String {
    if generation == 1 { "↺ reopened".into() } else { format!("↺ reopened {generation} times") }
}

/// Guards, retries and obstacles are worth a place on the line; the daily business is not.
fn says_something(message: &str) -> bool {
    ["guard:", "retry:", "blocked", "unreachable"].iter().any(|p| message.starts_with(p))
}

/// Milliseconds that the node has worked, up to its end or to `now`.
fn elapsed(node: &GraphNode, now: Timestamp) -> Option<u64> {
    let end = node.ended_at.unwrap_or(now);
    node.started_at.map(|start| end.millis_since(start))
}

fn steps_to_come(node: &GraphNode) -> Option<String> {
    if node.status.is_final() {
        return None;
    }
    let plan = node.plan.as_ref()?;
    let mut bands = Vec::new();
    let mut steps = 0;
    for band in &plan.bands {
        let open = band.steps.iter().filter(|s| s.node_id.is_none() && !s.status.is_final()).count();
        if open > 0 {
            bands.push(band_name(band.index));
            steps += open;
        }
    }
    (steps > 0).then(|| format!("{} to come in {}", count(steps, "step"), bands.join(", ")))
}

/// What a band is called: people count from 1, the log from 0.
pub(crate) fn band_name(index: u32) -> String {
    format!("b{}", index.saturating_add(1))
}

/// The sign and colour of a node's status.
pub(crate) fn status_icon(status: NodeStatus, outcome: Option<Outcome>) -> (&'static str, Paint) {
    match status {
        NodeStatus::Planning => ("◇", Paint::Plan),
        NodeStatus::Delegating => ("◆", Paint::Plan),
        NodeStatus::Executing => ("▶", Paint::Busy),
        NodeStatus::Waiting => ("○", Paint::Dim),
        NodeStatus::Aggregating => ("Σ", Paint::Busy),
        NodeStatus::Completed if outcome == Some(Outcome::Partial) => ("✓", Paint::Warn),
        NodeStatus::Completed => ("✓", Paint::Good),
        NodeStatus::Failed => ("✗", Paint::Bad),
        NodeStatus::Blocked => ("!", Paint::Warn),
        NodeStatus::Cancelled => ("⊘", Paint::Dim),
    }
}

/// The sign and colour of a run's status.
pub(crate) fn run_icon(status: RunStatus, partial: bool) -> (&'static str, Paint) {
    match status {
        RunStatus::Queued => ("○", Paint::Dim),
        RunStatus::Running => ("▶", Paint::Busy),
        RunStatus::Paused => ("‖", Paint::Warn),
        RunStatus::Completed if partial => ("✓", Paint::Warn),
        RunStatus::Completed => ("✓", Paint::Good),
        RunStatus::Failed => ("✗", Paint::Bad),
        RunStatus::Cancelled => ("⊘", Paint::Warn),
    }
}
