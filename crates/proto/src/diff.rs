//! The comparison of two runs.

use tree_agent_contract::diff::*;

use crate::v1 as pb;
use crate::wire::{wire_enum, wire_message};

wire_enum! {
    NodeMatching => pb::NodeMatching { Ids, Steps }
    NodeComparison => pb::NodeComparison { Same, Changed, OnlyA, OnlyB }
    NodeAspect => pb::NodeAspect { Plan, Result, Cost, Time, Tools, Status, Title }
    LineComparison => pb::LineComparison { Same, Removed, Added }
}

wire_message! {
    RunTotals => RunTotals {
        run_id, seq, status, partial, outcome, error, nodes, spending [required], duration_ms,
    }
    Spending => Spending { input_tokens, output_tokens, cached_tokens, cache_write_tokens, cost_micros, model_calls, tool_calls }
    DiffCounts => DiffCounts { same, changed, only_a, only_b }
    NodeDiff => NodeDiff { comparison, depth, changes, a, b }
    NodeTotals => NodeTotals { node_id, title, status, outcome, spending [required], duration_ms }
    TextDiff => TextDiff { hunks, added, removed, truncated }
    TextHunk => TextHunk { a_line, b_line, lines }
    TextLine => TextLine { comparison, text }
}
