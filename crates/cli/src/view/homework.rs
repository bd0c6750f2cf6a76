//! The steps of homework in words.

use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::homework::ItemState;
use tree_agent_contract::text::count;
use tree_agent_engine::Graph;

use super::paint::Paint;
use super::printable::one_line;

/// What `event` says of homework: an icon and a whole sentence. None if it is no step of homework. `graph` already
/// includes the event.
pub(crate) fn step(event: &Event, graph: &Graph) -> Option<(&'static str, Paint, String)> {
    Some(match &event.body {
        EventBody::PlanCreated(plan) => {
            let iteration = plan.iteration?;
            let what = plan.summary.as_deref().map(|s| format!(": {}", one_line(s))).unwrap_or_default();
            ("◇", Paint::Plan, format!("Iteration {iteration}{what}"))
        }
        EventBody::NodeCreated(created) => {
            let (iteration, branch) = (created.iteration?, created.branch_id.as_deref()?);
            let title = graph.node(event.node_id).map_or_else(String::new, |node| one_line(&node.title));
            ("+", Paint::Dim, format!("{} (iteration {iteration}): {title}", one_line(branch)))
        }
        EventBody::PlanDocumentUpdated(plan) => {
            let done = plan.items.iter().filter(|item| item.state == ItemState::Done).count();
            let left = match plan.remaining.len() {
                0 => String::new(),
                n => format!("; {n} still to do"),
            };
            let steps = count(plan.items.len(), "step");
            ("≡", Paint::Plan, format!("Plan: {done} of {steps} done{left}"))
        }
        EventBody::RollupUpdated(rollup) => {
            let said = one_line(&rollup.summary);
            ("Σ", Paint::Plan, format!("Rolled up iteration {}: {said}", rollup.iteration))
        }
        EventBody::TaskRefused(refused) => {
            let (branch, title, why) =
                (one_line(&refused.branch_id), one_line(&refused.title), one_line(&refused.reason));
            ("⊘", Paint::Warn, format!("Refused ({branch}): {title}: {why}"))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use tree_agent_contract::event::*;
    use tree_agent_contract::homework::PlanItem;
    use tree_agent_contract::{DocumentId, NodeId, PlanId, RunId, RunSpec, StepId, Timestamp};
    use tree_agent_engine::start;

    use super::super::lines;
    use super::super::paint::Palette;
    use super::*;

    #[test]
    fn every_step_is_told_in_words() {
        let run_id = RunId(uuid::Uuid::from_u128(3));
        let now = Timestamp::from_millis(1_000);
        let mut events = start(run_id, RunSpec::new("Which harbour?"), now).events;
        let root = NodeId::root(run_id);
        let document_id = DocumentId::plan(root);
        let item = |title: &str, state| PlanItem { title: title.into(), state, note: String::new() };
        let task = NodeId::child(root, 1, &StepId::new("s"));
        let bodies: Vec<(NodeId, EventBody)> = vec![
            (
                root,
                PlanCreated {
                    plan_id: PlanId::of(root, 1),
                    version: 1,
                    summary: Some("Sound\nboth.".into()),
                    mode_reason: None,
                    iteration: Some(2),
                }
                .into(),
            ),
            (
                root,
                PlanDocumentUpdated {
                    document_id,
                    iteration: 2,
                    items: vec![item("a", ItemState::Done), item("b", ItemState::Todo)],
                    remaining: vec!["b".into()],
                    questions: vec![],
                }
                .into(),
            ),
            (
                task,
                NodeCreated {
                    parent_node_id: Some(root),
                    depth: 1,
                    iteration: Some(2),
                    branch_id: Some("east".into()),
                    ..NodeCreated::new("Ask")
                }
                .into(),
            ),
            (
                root,
                RollupUpdated {
                    document_id,
                    iteration: 1,
                    summary: "Safe.".into(),
                    branches: vec![],
                    summary_document_id: None,
                }
                .into(),
            ),
            (
                root,
                TaskRefused {
                    iteration: 2,
                    branch_id: "north".into(),
                    title: "Sound".into(),
                    reason: "nothing new".into(),
                    repeats: None,
                }
                .into(),
            ),
        ];
        for (node_id, body) in bodies {
            let seq = events.len() as u64 + 1;
            let parent_node_id = (node_id != root).then_some(root);
            events.push(Event { run_id, seq, node_id, parent_node_id, timestamp: now, body });
        }
        let mut graph = Graph::new(run_id);
        let mut told = Vec::new();
        for event in &events {
            graph.apply(event).expect("it applies");
            if step(event, &graph).is_some() {
                let line = lines::line(event, &graph, Palette { colour: false }).expect("a line");
                told.push(line.split_once(' ').expect("a time").1.trim().to_owned());
            }
        }
        assert_eq!(
            told,
            [
                "◇ Iteration 2: Sound both.",
                "≡ Plan: 1 of 2 steps done; 1 still to do",
                "+ east (iteration 2): Ask",
                "Σ Rolled up iteration 1: Safe.",
                "⊘ Refused (north): Sound: nothing new",
            ]
        );
    }
}
