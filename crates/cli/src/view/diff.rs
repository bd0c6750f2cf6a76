//! Two runs, compared: a table, the tree with marks, and the difference of the syntheses.

use tree_agent_contract::diff::{
    LineComparison, NodeAspect, NodeComparison, NodeDiff, NodeMatching, NodeTotals, RunDiff, RunTotals,
    TextDiff,
};
use tree_agent_contract::{NodeStatus, Outcome};

use super::Line;
use super::line::leads;
use super::paint::{Paint, Palette, count, duration};
use super::printable::{many_lines, one_line};
use super::table::{Cell, Table};
use super::tree::run_icon;
use super::usage::{dollars, grouped};

/// Characters of the end of a run's id.
const SHORT_ID: usize = 8;

/// Which nodes are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nodes {
    /// Every node.
    All,
    /// Those that differ, with what is above them. A line says how many others there are.
    Folded,
}

/// The lines of the whole comparison, in at most `columns`. Lines of texts are not cut.
pub(crate) fn report(diff: &RunDiff, nodes: Nodes, palette: Palette, columns: usize) -> Vec<String> {
    let mut lines = totals(&diff.a, &diff.b).render(palette, columns);
    lines.push(String::new());
    lines.push(palette.paint(Paint::Bold, &counts(diff)));
    lines.push(palette.paint(Paint::Dim, matching(diff)));
    lines.extend(tree(&diff.nodes, nodes).iter().map(|line| line.render(columns, palette)));
    lines.push(String::new());
    lines.extend(synthesis(&diff.synthesis, palette));
    lines
}

fn totals(a: &RunTotals, b: &RunTotals) -> Table {
    let mut table = Table::new(&["", "A", "B", "DIFFERENCE"]);
    let id = |run: &RunTotals| {
        let id = run.run_id.to_string();
        Cell::new(&id[id.len() - SHORT_ID..], Paint::Bold)
    };
    table.push(vec![Cell::new("run", Paint::Dim), id(a), id(b), Cell::plain("")]);
    let outcome = |run: &RunTotals| {
        let (icon, paint) = run_icon(run.status, run.partial);
        Cell::new(format!("{icon} {}{}", run.status, if run.partial { " (partial)" } else { "" }), paint)
    };
    let differs = (a.status, a.partial) != (b.status, b.partial);
    let mark = if differs { Cell::new("~", Paint::Warn) } else { Cell::new("=", Paint::Dim) };
    table.push(vec![Cell::new("outcome", Paint::Dim), outcome(a), outcome(b), mark]);
    let mut row = |name: &str, [a, b]: [Option<u64>; 2], words: fn(u64) -> String| {
        let cell = |value: Option<u64>| Cell::plain(value.map_or_else(|| "-".to_owned(), words));
        let difference = match (a, b) {
            (Some(a), Some(b)) if a == b => Cell::new("=", Paint::Dim),
            (Some(a), Some(b)) => Cell::new(change(a, b, words), Paint::Warn),
            _ => Cell::plain(""),
        };
        table.push(vec![Cell::new(name, Paint::Dim), cell(a), cell(b), difference]);
    };
    row("cost", [a, b].map(|run| Some(run.spending.cost_micros)), dollars);
    row("tokens", [a, b].map(|run| Some(run.spending.tokens())), grouped);
    // As exact as they are shown, so that the difference is that of the numbers beside it.
    let tenths = |run: &RunTotals| run.duration_ms.map(|ms| ms / 100 * 100);
    row("time", [a, b].map(tenths), duration);
    row("nodes", [a, b].map(|run| Some(run.nodes)), grouped);
    row("tool calls", [a, b].map(|run| Some(run.spending.tool_calls)), grouped);
    row("event", [a, b].map(|run| Some(run.seq)), grouped);
    table
}

/// `+12 (+50 %)`, `-3`.
fn change(a: u64, b: u64, words: fn(u64) -> String) -> String {
    let sign = if b > a { "+" } else { "-" };
    let by = a.abs_diff(b);
    let percent = match a {
        0 => String::new(),
        a => format!(
            " ({sign}{} %)",
            grouped((u128::from(by) * 100 / u128::from(a)).min(u128::from(u64::MAX)) as u64)
        ),
    };
    format!("{sign}{}{percent}", words(by))
}

fn counts(diff: &RunDiff) -> String {
    let counts = diff.counts;
    let nodes = |n: u64| count(usize::try_from(n).unwrap_or(usize::MAX), "node");
    let mut parts = vec![format!("{} the same", nodes(counts.same))];
    for (n, what) in [(counts.changed, "changed"), (counts.only_a, "only in A"), (counts.only_b, "only in B")]
    {
        if n > 0 {
            parts.push(format!("{} {what}", grouped(n)));
        }
    }
    parts.join(", ")
}

fn matching(diff: &RunDiff) -> &'static str {
    match diff.matching {
        NodeMatching::Ids => "compared by ids: the runs share nodes",
        NodeMatching::Steps => "compared by steps and titles",
    }
}

/// What a line of the tree stands for.
enum Item<'a> {
    Node(&'a NodeDiff),
    /// So many nodes that are the same.
    Same(usize),
}

fn tree(nodes: &[NodeDiff], shown: Nodes) -> Vec<Line> {
    let items = items(nodes, shown);
    let leads = leads(&items.iter().map(|(depth, _)| *depth).collect::<Vec<_>>());
    let line = |(lead, (_, item)): (String, (usize, Item<'_>))| match item {
        Item::Node(node) => node_line(node, &lead),
        Item::Same(n) => {
            let mut line = Line::new(format!("{} the same", count(n, "node")), Paint::Dim);
            line.before(format!("{lead}= "), Paint::Dim);
            line
        }
    };
    leads.into_iter().zip(items).map(line).collect()
}

/// The lines to show, each with its depth.
fn items(nodes: &[NodeDiff], shown: Nodes) -> Vec<(usize, Item<'_>)> {
    // The place after everything below a node.
    let end = |at: usize| {
        let below = nodes[at + 1..].iter().take_while(|below| below.depth > nodes[at].depth);
        at + 1 + below.count()
    };
    let is_same = |at: usize| nodes[at..end(at)].iter().all(|node| node.comparison == NodeComparison::Same);
    let mut items = Vec::new();
    let mut at = 0;
    while let Some(node) = nodes.get(at) {
        let mut next = at;
        if shown == Nodes::Folded && node.depth > 0 {
            while nodes.get(next).is_some_and(|other| other.depth == node.depth) && is_same(next) {
                next = end(next);
            }
        }
        let item = if next > at + 1 { Item::Same(next - at) } else { Item::Node(node) };
        items.push((node.depth as usize, item));
        at = next.max(at + 1);
    }
    items
}

fn node_line(node: &NodeDiff, lead: &str) -> Line {
    let (mark, paint) = match node.comparison {
        NodeComparison::Same => ("= ", Paint::Dim),
        NodeComparison::Changed => ("~ ", Paint::Warn),
        NodeComparison::OnlyA => ("- ", Paint::Bad),
        NodeComparison::OnlyB => ("+ ", Paint::Good),
    };
    let title_paint = if node.comparison == NodeComparison::Same { Paint::Dim } else { Paint::Plain };
    let title = |side: &NodeTotals| one_line(&side.title);
    let title = match (&node.a, &node.b) {
        (Some(a), Some(b)) if a.title != b.title => format!("{} → {}", title(a), title(b)),
        (Some(side), _) | (None, Some(side)) => title(side),
        (None, None) => String::new(),
    };
    let mut line = Line::new(title, title_paint);
    line.before(lead, Paint::Dim);
    line.before(mark, paint);
    match (&node.a, &node.b) {
        (Some(a), Some(b)) => {
            for aspect in &node.changes {
                if let Some(words) = aspect_words(*aspect, a, b) {
                    line.after(words, paint);
                }
            }
        }
        (side, other) => {
            if let Some(side) = side.as_ref().or(other.as_ref()) {
                line.after(status(side), Paint::Dim);
                if side.spending.cost_micros > 0 {
                    line.after(dollars(side.spending.cost_micros), Paint::Dim);
                }
            }
        }
    }
    line
}

/// What has changed, with both values where they are short. The title shows its own change.
fn aspect_words(aspect: NodeAspect, a: &NodeTotals, b: &NodeTotals) -> Option<String> {
    let numbers = |name: &str, [a, b]: [u64; 2], words: fn(u64) -> String| {
        if a == b { name.to_owned() } else { format!("{name} {} → {}", words(a), words(b)) }
    };
    Some(match aspect {
        NodeAspect::Plan => "plan".to_owned(),
        NodeAspect::Result => "result".to_owned(),
        NodeAspect::Cost if a.spending.cost_micros != b.spending.cost_micros => {
            numbers("cost", [a.spending.cost_micros, b.spending.cost_micros], dollars)
        }
        NodeAspect::Cost
            if a.spending.tokens() == b.spending.tokens()
                && a.spending.model_calls != b.spending.model_calls =>
        {
            numbers("calls", [a.spending.model_calls, b.spending.model_calls], grouped)
        }
        // Their sums may be the same.
        NodeAspect::Cost => numbers("tokens", [a.spending.tokens(), b.spending.tokens()], grouped),
        NodeAspect::Time => {
            let words = |ms: Option<u64>| ms.map_or_else(|| "-".to_owned(), duration);
            format!("time {} → {}", words(a.duration_ms), words(b.duration_ms))
        }
        NodeAspect::Tools => numbers("tools", [a.spending.tool_calls, b.spending.tool_calls], grouped),
        NodeAspect::Status if status(a) == status(b) => match a.status {
            NodeStatus::Failed => "error".to_owned(),
            _ => "skipped".to_owned(),
        },
        NodeAspect::Status => format!("{} → {}", status(a), status(b)),
        NodeAspect::Title => return None,
    })
}

fn status(node: &NodeTotals) -> String {
    match (node.status, node.outcome) {
        (NodeStatus::Completed, Some(Outcome::Partial)) => format!("{} (partial)", node.status),
        (status, _) => status.to_string(),
    }
}

fn synthesis(text: &TextDiff, palette: Palette) -> Vec<String> {
    let lines = |n: u64| count(usize::try_from(n).unwrap_or(usize::MAX), "line");
    let heading = match (text.hunks.is_empty(), text.truncated) {
        (true, false) => "Synthesis: the same".to_owned(),
        (true, true) => "Synthesis: the same as far as it was compared".to_owned(),
        (false, _) => format!("Synthesis: {} removed, {} added", lines(text.removed), lines(text.added)),
    };
    let mut out = vec![palette.paint(Paint::Bold, &heading)];
    for hunk in &text.hunks {
        out.push(
            palette.paint(Paint::Busy, &format!("@@ line {} of A, {} of B @@", hunk.a_line, hunk.b_line)),
        );
        for line in &hunk.lines {
            let (mark, paint) = match line.comparison {
                LineComparison::Same => (' ', Paint::Plain),
                LineComparison::Removed => ('-', Paint::Bad),
                LineComparison::Added => ('+', Paint::Good),
            };
            out.push(palette.paint(paint, &format!("{mark}{}", many_lines(&line.text))));
        }
    }
    if text.truncated {
        out.push(
            palette.paint(Paint::Warn, "Only the beginnings of the texts were compared: they are very long."),
        );
    }
    out
}

#[cfg(test)]
mod tests;
