//! The comparison as people see it.

use tree_agent_contract::diff::{DiffCounts, Spending, TextHunk, TextLine};
use tree_agent_contract::{NodeId, RunId, RunStatus};

use super::*;
use crate::view::paint::width;

fn node(title: &str, status: NodeStatus, cost_micros: u64) -> Option<NodeTotals> {
    let spending = Spending { cost_micros, input_tokens: cost_micros / 10, ..Spending::default() };
    let node_id = NodeId(uuid::Uuid::from_u128(7));
    let outcome = (status == NodeStatus::Completed).then_some(Outcome::Success);
    Some(NodeTotals { node_id, title: title.into(), status, outcome, spending, duration_ms: Some(1_200) })
}

fn same(depth: u32, title: &str) -> NodeDiff {
    let side = node(title, NodeStatus::Completed, 0);
    NodeDiff { comparison: NodeComparison::Same, depth, changes: Vec::new(), a: side.clone(), b: side }
}

fn only(depth: u32, title: &str, comparison: NodeComparison) -> NodeDiff {
    let side = node(title, NodeStatus::Completed, 20_000);
    let (a, b) = if comparison == NodeComparison::OnlyA { (side, None) } else { (None, side) };
    NodeDiff { comparison, depth, changes: Vec::new(), a, b }
}

fn totals_of(run: u128, cost_micros: u64, nodes: u64) -> RunTotals {
    RunTotals {
        run_id: RunId(uuid::Uuid::from_u128(run)),
        seq: 120,
        status: RunStatus::Completed,
        partial: run == 2,
        outcome: Some(Outcome::Success),
        error: None,
        nodes,
        spending: Spending { cost_micros, input_tokens: 1_000, ..Spending::default() },
        duration_ms: Some(62_000),
    }
}

fn example() -> RunDiff {
    let changes = vec![NodeAspect::Result, NodeAspect::Cost, NodeAspect::Status, NodeAspect::Title];
    let mut changed = NodeDiff {
        comparison: NodeComparison::Changed,
        depth: 1,
        changes,
        a: node("Costs", NodeStatus::Completed, 10_000),
        b: node("Prices", NodeStatus::Failed, 20_000),
    };
    changed.b.as_mut().unwrap().outcome = None;
    let line = |comparison, text: &str| TextLine { comparison, text: text.into() };
    let lines = vec![
        line(LineComparison::Same, "# Answer"),
        line(LineComparison::Removed, "It costs 7."),
        line(LineComparison::Added, "It costs 8.\u{1b}[2J"),
    ];
    RunDiff {
        a: totals_of(1, 10_000, 8),
        b: totals_of(2, 25_000, 7),
        matching: NodeMatching::Steps,
        counts: DiffCounts { same: 6, changed: 1, only_a: 1, only_b: 1 },
        nodes: vec![
            same(0, "Find out\nwhat it costs"),
            same(1, "One"),
            same(2, "Below one"),
            same(1, "Two"),
            changed,
            same(2, "Alone"),
            only(2, "Old", NodeComparison::OnlyA),
            only(1, "New", NodeComparison::OnlyB),
            same(1, "Last"),
        ],
        synthesis: TextDiff {
            hunks: vec![TextHunk { a_line: 1, b_line: 1, lines }],
            added: 1,
            removed: 1,
            truncated: false,
        },
    }
}

const PLAIN: Palette = Palette { colour: false };

#[test]
fn the_report_has_a_table_the_tree_and_the_difference_of_the_texts() {
    let expected = "
            A            B                      DIFFERENCE
run         00000001     00000002
outcome     ✓ completed  ✓ completed (partial)  ~
cost        $0.0100      $0.0250                +$0.0150 (+150 %)
tokens      1,000        1,000                  =
time        1m02s        1m02s                  =
nodes       8            7                      -1 (-12 %)
tool calls  0            0                      =
event       120          120                    =

6 nodes the same, 1 changed, 1 only in A, 1 only in B
compared by steps and titles
= Find out what it costs
├─ = 3 nodes the same
├─ ~ Costs → Prices  result · cost $0.0100 → $0.0200 · completed → failed
│  ├─ = Alone
│  └─ - Old  completed · $0.0200
├─ + New  completed · $0.0200
└─ = Last

Synthesis: 1 line removed, 1 line added
@@ line 1 of A, 1 of B @@
 # Answer
-It costs 7.
+It costs 8.[2J";
    let lines = report(&example(), Nodes::Folded, PLAIN, 100);
    assert_eq!(lines.join("\n"), expected.trim_start_matches('\n'));
}

#[test]
fn all_nodes_can_be_shown() {
    let shown: Vec<String> = tree(&example().nodes, Nodes::All).iter().map(|l| l.render(40, PLAIN)).collect();
    assert_eq!(shown.len(), 9);
    assert_eq!(shown[1..4], ["├─ = One", "│  └─ = Below one", "├─ = Two"]);
}

#[test]
fn tree_and_table_fit_the_window() {
    let mut diff = example();
    diff.synthesis = TextDiff::default();
    for columns in [72, 80, 100] {
        for line in &report(&diff, Nodes::All, PLAIN, columns) {
            assert!(width(line) <= columns, "{columns}: {line}");
        }
    }
}

#[test]
fn equal_and_long_texts_are_named() {
    assert_eq!(synthesis(&TextDiff::default(), PLAIN), ["Synthesis: the same"]);
    let long = TextDiff { truncated: true, ..TextDiff::default() };
    assert_eq!(synthesis(&long, PLAIN).len(), 2);
}

#[test]
fn what_changed_is_said_with_both_values() {
    let (a, b) = (node("x", NodeStatus::Completed, 0).unwrap(), node("x", NodeStatus::Completed, 0).unwrap());
    let words = |aspect, change: fn(&mut NodeTotals)| {
        let mut b = b.clone();
        change(&mut b);
        aspect_words(aspect, &a, &b)
    };
    assert_eq!(words(NodeAspect::Time, |b| b.duration_ms = None).unwrap(), "time 1.2s → -");
    assert_eq!(words(NodeAspect::Tools, |b| b.spending.tool_calls = 2).unwrap(), "tools 0 → 2");
    assert_eq!(words(NodeAspect::Tools, |_| {}).unwrap(), "tools", "the latest tool differs");
    assert_eq!(words(NodeAspect::Cost, |b| b.spending.input_tokens = 2_000).unwrap(), "tokens 0 → 2,000");
    assert_eq!(words(NodeAspect::Cost, |b| b.spending.model_calls = 3).unwrap(), "calls 0 → 3");
    assert_eq!(
        words(NodeAspect::Status, |b| b.outcome = Some(Outcome::Partial)).unwrap(),
        "completed → completed (partial)"
    );
    assert_eq!(words(NodeAspect::Status, |_| {}).unwrap(), "skipped");
    let failed = node("x", NodeStatus::Failed, 0).unwrap();
    assert_eq!(aspect_words(NodeAspect::Status, &failed, &failed).unwrap(), "error");
    assert_eq!(words(NodeAspect::Title, |_| {}), None);
}
