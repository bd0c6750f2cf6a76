//! The steps of a guided search in words.

use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::graph::GraphNode;
use tree_agent_contract::role::CallKind;
use tree_agent_contract::search::{DEPTH_GUARD, Message, SearchCounts};
use tree_agent_contract::{NodeId, NodeStatus};
use tree_agent_engine::Graph;

use super::paint::Paint;
use super::printable::one_line;

/// What `event` says of a search: an icon and a whole sentence. None if it is no step of a search. `graph` already
/// includes the event.
pub(crate) fn step(event: &Event, graph: &Graph) -> Option<(&'static str, Paint, String)> {
    let node = graph.node(event.node_id)?;
    let title = one_line(&node.title);
    Some(match &event.body {
        EventBody::NodeStatusChanged(change) if change.call == Some(CallKind::Research) => {
            ("▶", Paint::Busy, begun(node, &title, graph))
        }
        EventBody::NodeStatusChanged(change) if change.call == Some(CallKind::Pick) => {
            ("…", Paint::Plan, Message::PICKING_LEAF.with(&[]))
        }
        EventBody::NodeStatusChanged(change)
            if change.status == NodeStatus::Cancelled && is_too_deep(node) =>
        {
            ("⊘", Paint::Dim, Message::DEPTH_LIMIT.with(&[&title]))
        }
        EventBody::LeafPicked(pick) => {
            let fallback =
                pick.fallback.as_deref().map(|why| format!(" (instead of a pick: {})", one_line(why)));
            let (leaf, reason) = (title_of(pick.leaf_node_id, graph), one_line(&pick.reason));
            ("→", Paint::Plan, format!("Picked: {leaf}: {reason}{}", fallback.unwrap_or_default()))
        }
        EventBody::NodeSkipped(_) => ("✓", Paint::Dim, Message::NODE_SKIPPED.with(&[&title])),
        EventBody::NodeCompleted(_) => ("✓", Paint::Good, counts(node, graph)?.sentence()),
        _ => return None,
    })
}

fn begun(node: &GraphNode, title: &str, graph: &Graph) -> String {
    let Some(parent) = node.parent_id.filter(|_| is_topic(node)).and_then(|id| graph.node(id)) else {
        return Message::ROOT_EXPANDING.with(&[]);
    };
    if is_topic(parent) {
        let root =
            std::iter::successors(Some(node), |node| graph.node(node.parent_id?)).find(|n| !is_topic(n));
        let depth = (node.depth - root.map_or(0, |root| root.depth)).to_string();
        return Message::EXPANDING_NODE.with(&[title, &depth]);
    }
    let total = graph.nodes().iter().filter(|other| other.parent_id == Some(parent.id)).count();
    let current = node.step_index.map_or(total, |index| index as usize + 1);
    let (current, total) = (current.to_string(), total.to_string());
    Message::ROOT_WALK.with(&[title, &current, &total])
}

/// What a search has done, if `node` is the root of one.
fn counts(node: &GraphNode, graph: &Graph) -> Option<SearchCounts> {
    let payload = node.result.as_ref().filter(|_| !is_topic(node))?.json_payload.clone()?;
    let counts = serde_json::from_value(payload.into()).ok()?;
    graph.nodes().iter().any(|other| other.parent_id == Some(node.id) && is_topic(other)).then_some(counts)
}

const fn is_topic(node: &GraphNode) -> bool {
    node.topic.is_some()
}

fn is_too_deep(node: &GraphNode) -> bool {
    is_topic(node) && node.message.as_deref() == Some(DEPTH_GUARD)
}

fn title_of(id: NodeId, graph: &Graph) -> String {
    graph.node(id).map(|node| one_line(&node.title)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use tree_agent_contract::role::*;
    use tree_agent_contract::search::{ChildDraft, tidy};
    use tree_agent_contract::{PickerPolicy, RunId, RunSpec, SearchConfig, Strategy, Timestamp};
    use tree_agent_engine::{CallInput, CallOutput, Decision, Input, Run, start};

    use super::super::lines;
    use super::super::paint::Palette;
    use super::*;

    fn found(is_root: bool, topics: &[&str]) -> ResearchOutput {
        let drafts = topics.iter().map(|t| ChildDraft { title: (*t).into(), ..ChildDraft::default() });
        ResearchOutput {
            document_markdown: (!is_root).then(|| "# Found\n".into()),
            summary: "found".into(),
            children: tidy(drafts).children,
            dropped: 0,
            messages: Vec::new(),
            scratchpad: ScratchpadDraft { append_markdown: "noted\n".into(), tail_preview: "noted\n".into() },
        }
    }

    /// The steps of a search, without times. It takes a first level and topic `B` over, unless it is `fresh`.
    fn told(is_fresh: bool) -> Vec<String> {
        let id = RunId(uuid::Uuid::from_u128(3));
        let search = SearchConfig {
            concurrency: 1,
            max_depth: 3,
            picker: PickerPolicy::Llm,
            synthesis: false,
            ..SearchConfig::default()
        };
        let spec = RunSpec {
            strategy: Strategy::Search,
            search: Some(Box::new(search)),
            ..RunSpec::new("How do tides work?")
        };
        let mut now = Timestamp::from_millis(1_000);
        let begun = start(id, spec, now);
        let mut run = Run::begin(&begun.events[0]).expect("it begins");
        begun.events[1..].iter().for_each(|event| run.apply(event).expect("it applies"));
        let mut told = Vec::new();
        let mut tell = |decision: Decision, run: &Run| {
            let steps = decision.events.iter().filter(|event| step(event, run.graph()).is_some());
            let lines = steps.filter_map(|event| lines::line(event, run.graph(), Palette { colour: false }));
            told.extend(lines.map(|line| line.split_once(' ').expect("a time").1.trim().to_owned()));
        };
        if !is_fresh {
            tell(run.adopt("", found(true, &["A", "B"]), now).expect("a first level"), &run);
            tell(run.adopt("b", found(false, &["B one"]), now).expect("a topic"), &run);
        }
        tell(run.handle(Input::Claimed, now), &run);
        if is_fresh {
            return told;
        }
        for topics in [&["A one", "A two", "B one"][..], &["Too deep"], &[], &[], &[]] {
            while let Some(call) = run.take_due(now, 1).pop() {
                now = now.plus_millis(2_000);
                let output = match &call.input {
                    CallInput::Research(input) => {
                        CallOutput::Research(found(input.form == ResearchForm::Root, topics))
                    }
                    _ => CallOutput::Pick(PickOutput { path: "a/a-two".into(), reason: "It is new.".into() }),
                };
                let is_research = matches!(output, CallOutput::Research(_));
                tell(run.handle(Input::Output(call.key, output), now), &run);
                if is_research {
                    break;
                }
            }
        }
        assert!(run.is_final());
        told
    }

    #[test]
    fn every_step_is_told_in_words() {
        assert_eq!(told(true), ["▶ Generating root children..."]);
        let told = told(false);
        for expected in [
            "✓ Skipped (cached): B",
            "▶ Walking root level: A (1/2)",
            "… Picking next leaf to research...",
            "→ Picked: A two: It is new.",
            "▶ Researching: A two (depth 2)",
            "⊘ Depth limit reached: Too deep",
            "✓ Tree search complete: 2 expanded, 3 leaves, 1 skipped",
        ] {
            assert!(told.iter().any(|line| line == expected), "{expected}\n{told:#?}");
        }
        assert!(told.iter().all(|line| !line.contains("[E]")), "no step is told twice: {told:#?}");
    }
}
