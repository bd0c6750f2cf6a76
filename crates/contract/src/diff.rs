//! The comparison of two runs, each after one of its events: which nodes are the same, and what the others differ in.

use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::graph::Usage;
use crate::ids::{NodeId, RunId};
use crate::status::{NodeStatus, Outcome, RunStatus, named_enum};

named_enum! {
    /// How nodes of the two runs are matched.
    NodeMatching {
        /// By their ids. The runs share nodes, as a fork and its parent do.
        Ids = "ids",
        /// By their steps and titles below the same parent. The runs are independent.
        Steps = "steps",
    }
}

named_enum! {
    /// How a node of one run compares with the other run.
    NodeComparison {
        /// Both runs have it, without a difference.
        Same = "same",
        /// Both runs have it, with differences.
        Changed = "changed",
        /// Only the first run has it.
        OnlyA = "only_a",
        /// Only the second run has it.
        OnlyB = "only_b",
    }
}

impl NodeComparison {
    /// What it is called when the two runs change places.
    #[must_use]
    pub const fn mirrored(self) -> Self {
        match self {
            Self::OnlyA => Self::OnlyB,
            Self::OnlyB => Self::OnlyA,
            same => same,
        }
    }
}

named_enum! {
    /// What a node of one run differs in from its counterpart.
    NodeAspect {
        /// The latest plan, without the progress of its steps.
        Plan = "plan",
        /// What it returned.
        Result = "result",
        /// Tokens, calls and cost of its own model calls.
        Cost = "cost",
        /// How long it took.
        Time = "time",
        /// Its own tool calls: how many, and the latest.
        Tools = "tools",
        /// Its status, its outcome, its error, and whether it is a topic that was skipped.
        Status = "status",
        /// Its title.
        Title = "title",
    }
}

named_enum! {
    /// Which text a line belongs to.
    LineComparison {
        /// Both.
        Same = "same",
        /// The first only.
        Removed = "removed",
        /// The second only.
        Added = "added",
    }
}

/// The comparison of run `a` with run `b`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunDiff {
    /// The first run.
    pub a: RunTotals,
    /// The second run.
    pub b: RunTotals,
    /// How nodes of the two runs are matched.
    pub matching: NodeMatching,
    /// The number of nodes for each kind of comparison.
    pub counts: DiffCounts,
    /// Every node of both runs once. A node comes after its parent, and directly after the nodes below its last
    /// sibling.
    pub nodes: Vec<NodeDiff>,
    /// What the two runs returned, compared line by line.
    pub synthesis: TextDiff,
}

/// A run as a whole.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunTotals {
    /// The run.
    pub run_id: RunId,
    /// The event after which it is compared.
    pub seq: u64,
    /// Its status.
    pub status: RunStatus,
    /// True if it ended as partial.
    pub partial: bool,
    /// How well its root did.
    pub outcome: Option<Outcome>,
    /// Why its root failed.
    pub error: Option<String>,
    /// Nodes of its tree.
    pub nodes: u64,
    /// Sums over all its role calls; those of a fork are the calls since it forked. At a seq in the log that a fork
    /// shares, they are those of the run that it forked from.
    pub spending: Spending,
    /// Milliseconds from its start to its end, or to the latest change of a node when it has not ended. A fork starts
    /// when it forks; at a seq in the log that it shares, the start is that of the run that it forked from. Absent
    /// before the run started.
    pub duration_ms: Option<u64>,
}

/// What role calls used, as far as it is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spending {
    /// Tokens sent.
    pub input_tokens: u64,
    /// Tokens received.
    pub output_tokens: u64,
    /// Sent tokens that the provider had cached; they are part of `input_tokens`.
    pub cached_tokens: u64,
    /// Sent tokens that the provider wrote to its cache; they are part of `input_tokens`.
    #[serde(default, skip_serializing_if = "crate::graph::is_no_token")]
    pub cache_write_tokens: u64,
    /// Millionths of a US dollar.
    pub cost_micros: u64,
    /// Calls of a model.
    pub model_calls: u64,
    /// Tool calls.
    pub tool_calls: u64,
}

impl Spending {
    /// Tokens sent and received.
    pub const fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

impl From<Usage> for Spending {
    fn from(usage: Usage) -> Self {
        let Usage {
            input_tokens,
            output_tokens,
            cached_tokens,
            cache_write_tokens,
            cost_micros,
            model_calls,
            tool_calls,
            ..
        } = usage;
        Self {
            input_tokens,
            output_tokens,
            cached_tokens,
            cache_write_tokens,
            cost_micros,
            model_calls,
            tool_calls,
        }
    }
}

/// The number of nodes for each kind of comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiffCounts {
    /// Without a difference.
    pub same: u64,
    /// With differences.
    pub changed: u64,
    /// Only in the first run.
    pub only_a: u64,
    /// Only in the second run.
    pub only_b: u64,
}

impl DiffCounts {
    /// Counts one node.
    pub const fn add(&mut self, comparison: NodeComparison) {
        let count = match comparison {
            NodeComparison::Same => &mut self.same,
            NodeComparison::Changed => &mut self.changed,
            NodeComparison::OnlyA => &mut self.only_a,
            NodeComparison::OnlyB => &mut self.only_b,
        };
        *count += 1;
    }
}

/// A node of one run or of both.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDiff {
    /// How it compares.
    pub comparison: NodeComparison,
    /// 0 for the root.
    pub depth: u32,
    /// What has changed, if it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<NodeAspect>,
    /// The node in the first run.
    pub a: Option<NodeTotals>,
    /// The node in the second run.
    pub b: Option<NodeTotals>,
}

/// A node of one run, in short.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeTotals {
    /// The node.
    pub node_id: NodeId,
    /// Its title.
    pub title: String,
    /// What it is doing.
    pub status: NodeStatus,
    /// How well it did.
    pub outcome: Option<Outcome>,
    /// Sums over its own role calls.
    pub spending: Spending,
    /// Milliseconds from its start to its end. Absent until it has ended.
    pub duration_ms: Option<u64>,
}

/// Two texts, compared line by line: the places where they differ, each with a few lines around it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TextDiff {
    /// Where they differ; none for equal texts.
    pub hunks: Vec<TextHunk>,
    /// Lines of the second text that the first does not have.
    pub added: u64,
    /// Lines of the first text that the second does not have.
    pub removed: u64,
    /// True if the texts are longer than what is compared. Their ends may differ unnoticed.
    pub truncated: bool,
}

/// One place where two texts differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TextHunk {
    /// The number of its first line in the first text, from 1. When it has no line of it: of the line before.
    pub a_line: u32,
    /// As `a_line`, in the second text.
    pub b_line: u32,
    /// Its lines.
    pub lines: Vec<TextLine>,
}

/// A line of one text or of both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TextLine {
    /// Which text it belongs to.
    pub comparison: LineComparison,
    /// The line without its end.
    pub text: String,
}
