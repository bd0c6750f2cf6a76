//! What a command would do, in words and as JSON.

use serde::{Serialize, Serializer};
use serde_json::json;
use tree_agent_proto::v1 as pb;

use super::paint::count;
use super::printable::one_line;
use super::usage::{dollars, grouped};

/// A preview of a command to a run.
pub(crate) struct Preview<'a> {
    pub(crate) run_id: &'a str,
    pub(crate) preview: &'a pb::CommandPreview,
}

impl Preview<'_> {
    /// What a command does, such as `concerns` or `re-runs`: `re-runs 3 nodes, about 7 calls, about $0.12; reuses 41`,
    /// and a line for each note.
    pub(crate) fn lines(&self, does: &str) -> Vec<String> {
        let preview = self.preview;
        let mut parts = vec![format!("{does} {}", count(preview.node_count as usize, "node"))];
        if preview.stopped_calls > 0 {
            parts.push(format!("stops {} in flight", count(preview.stopped_calls as usize, "call")));
        }
        let calls = preview.calls.unwrap_or_default();
        match calls.plan + calls.execute + calls.aggregate + calls.research + calls.pick + calls.verify {
            0 => parts.push("no call of its own".into()),
            n => parts.push(format!("about {}", count(n as usize, "call"))),
        }
        match (preview.cost_micros, preview.tokens) {
            (0, 0) => {}
            (0, tokens) => parts.push(format!("about {} tokens", grouped(tokens))),
            (cost, _) => parts.push(format!("about {}", about(cost))),
        }
        let mut line = parts.join(", ");
        if preview.reused_nodes > 0 {
            line.push_str(&format!("; reuses {}", preview.reused_nodes));
        }
        let notes = preview.notes.iter().map(|note| format!("note: {}", one_line(note)));
        std::iter::once(line).chain(notes).collect()
    }
}

/// A cost that is an estimate: whole cents, unless it is less than one.
fn about(micros: u64) -> String {
    let cents = (micros + 5_000) / 10_000;
    if cents == 0 { dollars(micros) } else { format!("${}.{:02}", grouped(cents / 100), cents % 100) }
}

impl Serialize for Preview<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (preview, calls) = (self.preview, self.preview.calls.unwrap_or_default());
        let shown = json!({
            "seq": preview.seq,
            "nodeIds": preview.node_ids,
            "nodeCount": preview.node_count,
            "stoppedCalls": preview.stopped_calls,
            "calls": {
                "plan": calls.plan, "execute": calls.execute, "aggregate": calls.aggregate,
                "research": calls.research, "pick": calls.pick, "verify": calls.verify,
            },
            "reusedNodes": preview.reused_nodes,
            "tokens": preview.tokens,
            "costMicros": preview.cost_micros,
            "notes": preview.notes,
        });
        json!({"runId": self.run_id, "preview": shown}).serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(preview: &pb::CommandPreview, does: &str) -> Vec<String> {
        Preview { run_id: "r", preview }.lines(does)
    }

    #[test]
    fn a_preview_reads_like_a_sentence() {
        let retry = pb::CommandPreview {
            node_count: 3,
            calls: Some(pb::RoleCalls { plan: 2, execute: 3, aggregate: 2, ..Default::default() }),
            reused_nodes: 41,
            tokens: 9_000,
            cost_micros: 120_000,
            notes: vec!["1 step of later bands\nbegan".into()],
            ..Default::default()
        };
        assert_eq!(
            words(&retry, "re-runs"),
            ["re-runs 3 nodes, about 7 calls, about $0.12; reuses 41", "note: 1 step of later bands began"]
        );
        let pause = pb::CommandPreview { node_count: 1, stopped_calls: 2, ..Default::default() };
        assert_eq!(
            words(&pause, "concerns"),
            ["concerns 1 node, stops 2 calls in flight, no call of its own"]
        );
        let free = pb::CommandPreview { cost_micros: 0, ..retry };
        assert!(words(&free, "re-runs")[0].contains("about 9,000 tokens"));
    }
}
