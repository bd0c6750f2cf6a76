//! The rules of homework.

use std::collections::{BTreeMap, BTreeSet};

use tree_agent_contract::document::DocumentKind;
use tree_agent_contract::event::EventBody;
use tree_agent_contract::*;

use super::super::World;

impl World {
    /// What holds if the root does homework.
    pub(super) fn check_homework(&self) {
        let budgets = &self.plan.budgets;
        let root = self.run.graph().nodes()[0].id;
        let (mut latest, mut rolled_up) = (0, 0);
        let mut tasks: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
        let mut running = BTreeSet::new();
        for event in &self.log {
            let at = format!("event {} {}", event.seq, event.body.event_type());
            match &event.body {
                EventBody::PlanCreated(e) => {
                    assert_eq!(e.iteration, Some(latest + 1), "{at}: iterations follow each other");
                    assert_eq!(latest, rolled_up, "{at}: an iteration is rolled up before the next one");
                    latest += 1;
                    assert!(latest <= budgets.max_iterations, "{at}: iterations");
                }
                EventBody::NodeCreated(e) if event.node_id != root => {
                    let (iteration, branch) =
                        (e.iteration.expect("a task"), e.branch_id.clone().expect("a branch"));
                    assert_eq!((e.parent_node_id, iteration), (Some(root), latest), "{at}");
                    let of_iteration = tasks.entry(iteration).or_default();
                    assert!(of_iteration.insert(branch), "{at}: one task for each branch");
                    assert!(of_iteration.len() as u32 <= budgets.max_steps_per_band, "{at}: tasks");
                }
                EventBody::ScratchpadLinked(e) if event.node_id != root => {
                    let node = self.run.graph().node(event.node_id).expect("a node");
                    let branch = &node.task.as_ref().expect("a task").branch_id;
                    assert_eq!(e.scratchpad_doc_id, DocumentId::branch(root, branch), "{at}");
                }
                EventBody::StepStatusChanged(e) => {
                    match e.status == StepStatus::Running {
                        true => drop(running.insert(e.step_id.clone())),
                        false => drop(running.remove(&e.step_id)),
                    }
                    assert!(running.len() as u32 <= budgets.max_parallel_steps, "{at}: parallel tasks");
                }
                EventBody::RollupUpdated(e) => {
                    assert_eq!(
                        (e.iteration, rolled_up + 1),
                        (latest, latest),
                        "{at}: each is rolled up once"
                    );
                    rolled_up = e.iteration;
                }
                EventBody::TaskRefused(e) => assert_eq!(e.iteration, latest, "{at}"),
                _ => {}
            }
        }
        let root = &self.run.graph().nodes()[0];
        if root.status == NodeStatus::Completed {
            assert_eq!(latest, rolled_up, "the last iteration is rolled up");
        }
        self.check_homework_documents(latest, rolled_up);
        let lost = matches!(root.status, NodeStatus::Failed | NodeStatus::Cancelled) && !self.cancelled;
        let finished = self.run.graph().nodes()[1..].iter().any(|task| task.status == NodeStatus::Completed);
        assert!(!(lost && finished), "the root ended as {} with finished tasks", root.status);
    }

    /// Documents have the places and props that the seed of homework names.
    fn check_homework_documents(&self, latest: u32, rolled_up: u32) {
        let kinds = |kind| self.documents.iter().filter(move |document| document.kind == kind);
        let above = |document: &Document| self.documents.parent(document.id).map(|above| above.kind);
        for (kind, role, parent) in [
            (DocumentKind::HomeworkScratchpad, "scratchpad_root", DocumentKind::HomeworkWorkspace),
            (DocumentKind::HomeworkPlan, "plan", DocumentKind::HomeworkWorkspace),
            (DocumentKind::HomeworkBranch, "scratchpad_exec", DocumentKind::HomeworkScratchpad),
            (DocumentKind::HomeworkSummary, "iteration_summary", DocumentKind::HomeworkScratchpad),
        ] {
            for document in kinds(kind) {
                assert_eq!(above(document), Some(parent), "{document:?}");
                assert_eq!(document.props.doc_role.as_deref(), Some(role));
                assert_eq!(document.props.homework_run_id, Some(self.run_id));
                assert_eq!(document.props.tags[0], "homework");
            }
        }
        assert_eq!(kinds(DocumentKind::HomeworkPlan).count(), 1);
        assert_eq!(kinds(DocumentKind::HomeworkSummary).count(), rolled_up as usize);
        assert_eq!(kinds(DocumentKind::Scratchpad).count(), 0, "branches have the scratchpads");
        let plan = kinds(DocumentKind::HomeworkPlan).next().expect("a plan");
        assert!(latest == 0 || plan.body.contains("As of iteration"), "{}", plan.body);
    }
}
