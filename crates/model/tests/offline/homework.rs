//! Homework without a language model: it covers the documents, follows what they open up, repeats nothing, and ends.

use std::collections::BTreeSet;

use tree_agent_contract::homework::*;
use tree_agent_contract::role::*;
use tree_agent_contract::search::slug;
use tree_agent_contract::{ArtifactId, DocumentId, NodeId, NodeStatus, StepId, TreeAgentResult};
use tree_agent_model::{Offline, RoleModel};

use super::{Runner, STORM};

/// What homework came to.
struct Ended {
    /// Branch and title of the tasks of each iteration.
    iterations: Vec<Vec<(String, String)>>,
    last: HomeworkDraft,
    document: String,
    reason: String,
}

impl Runner {
    fn homework_call(&self, node_id: NodeId, title: &str, depth: u32) -> CallContext {
        CallContext {
            run_id: self.run,
            node_id,
            attempt: 1,
            objective: self.objective.clone(),
            title: title.into(),
            reason: String::new(),
            success_criteria: vec![],
            depth,
            budgets: self.budgets.clone(),
            context: self.context.clone(),
            model: "offline".into(),
            scratchpad_tail: String::new(),
            sibling_index: 0,
            allowance: Default::default(),
            finish: None,
            read_only: false,
            keep_prompts: false,
            origin_run_id: None,
            guidance: Vec::new(),
            deliverable: None,
            profile: None,
            started_at: None,
            time_left_ms: None,
            answers: None,
            siblings: Vec::new(),
            earlier_calls: Vec::new(),
            language: String::new(),
        }
    }

    /// Runs homework as the engine does, without its log. The task of title `fail` fails, and that of title `cuts` is
    /// refused.
    async fn homework(&self, max_iterations: u32) -> Ended {
        let root = NodeId::root(self.run);
        let scratchpad_doc_id = DocumentId::scratchpad(root);
        let mut brief = HomeworkBrief {
            iteration: 1,
            max_iterations,
            scratchpad_doc_id,
            plan_doc_id: DocumentId::plan(root),
            last: HomeworkDraft::default(),
            rollups: vec![],
            branches: vec![],
            refused: vec![],
        };
        let mut iterations: Vec<Vec<(String, String)>> = Vec::new();
        let mut children: Vec<ChildOutcome> = Vec::new();
        let reason = loop {
            let input = PlanInput {
                review: false,
                call: self.homework_call(root, &self.objective, 0),
                existing_plan_summary: String::new(),
                replan_reason: String::new(),
                prior_steps: vec![],
                earlier_result: None,
                homework: Some(Box::new(brief.clone())),
            };
            let (output, _) = self.call("plan", async |io| Offline.plan(&input, io).await).await;
            output.validate_homework(brief.iteration).unwrap();
            brief.last = *output.homework.unwrap();
            brief.rollups.extend((brief.iteration > 1).then(|| brief.last.rollup.clone()));
            for note in &brief.last.branches {
                let branch = brief.branches.iter_mut().find(|b| b.branch_id == note.branch_id).unwrap();
                branch.summary = note.summary.clone();
            }
            let Some(plan) = output.plan else { break output.mode_reason };
            assert!(!brief.is_last());
            let mut tasks = Vec::new();
            brief.refused.clear();
            for step in plan.bands.into_iter().flat_map(|band| band.steps) {
                let branch_id = slug::of(step.branch_id.as_deref().unwrap());
                if !self.begins(&step) {
                    let (title, reason) = (step.title, "repeats another task".to_owned());
                    brief.refused.push(Refusal { branch_id, title, reason });
                    continue;
                }
                tasks.push((branch_id.clone(), step.title.clone()));
                let outcome = self.task(brief.iteration, &branch_id, step, &children).await;
                let result = outcome.result.as_ref().map_or("", |result| result.summary.as_str());
                let entry = BranchEntry {
                    iteration: brief.iteration,
                    title: outcome.title.clone(),
                    status: outcome.status,
                    summary: outcome.error.clone().unwrap_or_else(|| result.to_owned()),
                };
                children.push(outcome);
                match brief.branches.iter_mut().find(|branch| branch.branch_id == branch_id) {
                    Some(branch) => {
                        branch.entries.push(entry);
                        if branch.entries.len() > tree_agent_contract::limits::BRANCH_ENTRIES {
                            branch.entries.remove(0);
                            branch.earlier += 1;
                        }
                    }
                    None => brief.branches.push(BranchBrief {
                        scratchpad_doc_id: DocumentId::branch(root, &branch_id),
                        branch_id,
                        title: entry.title.clone(),
                        summary: String::new(),
                        entries: vec![entry],
                        earlier: 0,
                    }),
                }
            }
            assert!(tasks.len() <= self.budgets.max_steps_per_band as usize);
            iterations.push(tasks);
            brief.iteration += 1;
        };
        let last = brief.last.clone();
        brief.iteration -= 1;
        let input = AggregateInput {
            call: self.homework_call(root, &self.objective, 0),
            plan_summary: String::new(),
            children,
            exhausted_budget: None,
            homework: Some(Box::new(brief)),
        };
        let (output, _) = self.call("aggregate", async |io| Offline.aggregate(&input, io).await).await;
        output.validate().unwrap();
        assert!(!output.next.should_replan);
        let document = output.artifacts[0].document_markdown.clone().unwrap();
        Ended { iterations, last, document, reason }
    }

    async fn task(
        &self,
        iteration: u32,
        branch: &str,
        step: StepDraft,
        before: &[ChildOutcome],
    ) -> ChildOutcome {
        let root = NodeId::root(self.run);
        let step_id = StepId::new(format!("{iteration}-{branch}"));
        let node_id = NodeId::child(root, iteration, &step_id);
        let mut outcome = ChildOutcome {
            node_id,
            step_id,
            title: step.title.clone(),
            status: NodeStatus::Failed,
            partial: false,
            result: None,
            error: Some("the disk is on fire".into()),
            artifacts: vec![],
            scratchpad_doc_id: None,
            scratchpad_tail: None,
        };
        if self.fail.is_some_and(|title| step.title.contains(title)) {
            return outcome;
        }
        let ending = format!("-{branch}");
        let earlier =
            before.iter().filter(|child| child.step_id.as_str().ends_with(&ending)).cloned().collect();
        let call = CallContext {
            success_criteria: step.success_criteria,
            ..self.homework_call(node_id, &step.title, 1)
        };
        let task = BranchTask {
            branch_id: branch.into(),
            iteration,
            scratchpad_doc_id: DocumentId::branch(root, branch),
            workspace_doc_id: DocumentId::workspace(self.run),
            rollup: String::new(),
        };
        let input = ExecuteInput { call, earlier, task: Some(Box::new(task)) };
        let (output, _) = self.call("execute", async |io| Offline.execute(&input, io).await).await;
        output.validate().unwrap();
        let document_id = DocumentId::of_artifact(ArtifactId::of(node_id, 0, "quotations"));
        outcome.status = NodeStatus::Completed;
        outcome.error = None;
        outcome.result = Some(TreeAgentResult {
            kind: output.result.kind,
            summary: output.result.summary,
            success_assessment: output.result.success_assessment,
            primary_artifact_id: None,
            artifact_ids: vec![],
            document_ids: vec![document_id],
            json_payload: output.artifacts[1].json_payload.clone(),
            scratchpad_doc_id: None,
            scratchpad_tail: None,
            key_findings: Vec::new(),
            gaps: Vec::new(),
        });
        outcome
    }
}

fn titles(ended: &Ended) -> Vec<&str> {
    ended.iterations.iter().flatten().map(|(_, title)| title.as_str()).collect()
}

#[tokio::test]
async fn the_sources_are_read_once_then_what_the_plan_lacks_then_it_ends() {
    let runner =
        Runner::new("How is a pilot ordered, and what does the pilot think of a galvanised dredger?", 1);
    for i in 0..6 {
        let body =
            format!("# Log {i}\n\nThe pilot was ordered in time. Pilots are ordered by day, order {i}.\n");
        runner.add(&format!("log/{i}.md"), &body);
    }
    runner.add(
        "yard.md",
        &format!("# Yard\n\nThe dredger is galvanised. {}\n", "It lies at the yard. ".repeat(30)),
    );
    let ended = runner.homework(8).await;
    let all = titles(&ended);
    let distinct: BTreeSet<&str> = all.iter().copied().collect();
    assert_eq!(distinct.len(), all.len(), "nothing is done twice: {all:?}");
    assert!((2..8).contains(&ended.iterations.len()), "it ends by itself: {:?}", ended.iterations);
    assert!(all.contains(&"Yard"), "{all:?}");
    assert!(
        ended.last.remaining.is_empty() && ended.reason.contains("Nothing is lacking"),
        "{}",
        ended.reason
    );
    assert!(ended.last.items.iter().all(|item| item.state == ItemState::Done), "{:?}", ended.last.items);
    assert!(!ended.last.branches.is_empty() && ended.last.rollup.contains("completed"));
    assert!(ended.document.contains("pilot") && ended.document.contains("\n[^1]: "), "{}", ended.document);
}

#[tokio::test]
async fn what_is_not_there_is_said_first_in_homework_too() {
    let ended = Runner::new("Which pilots does the Braxtec crane need?", 1).homework(8).await;
    let first = ended.document.lines().nth(2).unwrap();
    assert_eq!(first, "**Not found: no passage that was found names “Braxtec”.**", "{}", ended.document);
    assert!(ended.document.contains("\n[^1]: "), "{}", ended.document);
}

#[tokio::test]
async fn what_is_left_at_the_last_iteration_is_said() {
    let mut runner = Runner::new(STORM, 1);
    runner.budgets.max_steps_per_band = 1;
    let ended = runner.homework(2).await;
    assert_eq!(ended.iterations.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
    let left = format!("Not done: {}.", ended.last.remaining[0]);
    assert!(ended.document.contains(&left), "{left}: {}", ended.document);
}

#[tokio::test]
async fn a_task_that_failed_or_was_refused_is_not_tried_again() {
    let mut runner = Runner::new(STORM, 1);
    runner.fail = Some("Pilots");
    runner.cuts = Some("Storms");
    let ended = runner.homework(5).await;
    assert_eq!(titles(&ended).iter().filter(|title| **title == "Pilots").count(), 1);
    assert!(ended.document.contains("the disk is on fire"), "{}", ended.document);
    assert!(ended.document.contains("“Storms” was refused: repeats another task."), "{}", ended.document);
}

#[tokio::test]
async fn nothing_to_read_ends_after_one_task_that_says_so() {
    let ended = Runner::new("What does the zorblatt weigh?", 1).homework(5).await;
    assert_eq!(ended.iterations.iter().map(Vec::len).collect::<Vec<_>>(), [1]);
    assert!(ended.document.contains("Not found: "), "{}", ended.document);
}

#[tokio::test]
async fn the_same_documents_give_the_same_homework() {
    let (one, two) = (Runner::new(STORM, 1).homework(5).await, Runner::new(STORM, 2).homework(5).await);
    assert_eq!((one.iterations, one.document, one.last), (two.iterations, two.document, two.last));
}
