//! The role port: roles that plan small random trees and may answer late, wrongly or never.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tree_agent_contract::answers::FOLDER;
use tree_agent_contract::event::{ToolCallRequested, ToolCallResult, UsageRecorded};
use tree_agent_contract::homework::{
    BranchEntry, BranchNote, HomeworkBrief, HomeworkDraft, ItemState, PlanItem,
};
use tree_agent_contract::role::*;
use tree_agent_contract::search::{ChildDraft, tidy};
use tree_agent_contract::session::{SessionMessage, Speaker};
use tree_agent_contract::{
    Doubt, Profile, ResultKind, StepId, StepSearch, Strategy, SubtreeBudget, Verification,
};
use tree_agent_driver::{Roles, Updates};
use tree_agent_engine::{CallInput, CallOutput, RoleCall};

use crate::flaw::Flaw;
use crate::node::Node;
use crate::people::step_budget;
use crate::plan::Fault;
use crate::world::{node_name, run_name};

/// The roles as one driver reaches them. No two answers are equal, as with a language model, so the answer to a
/// repeated call can be distinguished from the first.
pub(crate) struct SimRoles {
    pub(crate) node: Arc<Node>,
}

#[async_trait]
impl Roles for SimRoles {
    async fn call(&self, call: RoleCall, updates: Updates) -> Result<CallOutput, RoleError> {
        let (node, world) = (&self.node, &self.node.world);
        node.point("call").await;
        let context = call.input.context();
        let key = call.key;
        let name = format!("{} {:?}", node_name(key.node_id), key.kind);
        world.note(
            &node.name,
            format_args!(
                "calls {} {name} round {} attempt {}",
                run_name(context.run_id),
                key.round,
                key.attempt
            ),
        );
        let (number, problems) = world.checks().role_called(&node.name, context.run_id, &key);
        problems.into_iter().for_each(|problem| world.violation(problem));
        let patience = Duration::from_millis(call.timeout_ms);
        let answer = tokio::time::timeout(patience, self.answer(number, &call, updates.clone())).await;
        let answer =
            answer.unwrap_or_else(|_| Err(RoleError::new(RoleErrorKind::Timeout, "no answer in time")));
        if world.on(Fault::DoubledAnswers) && world.dice.chance(40) {
            self.answer_again(&answer, updates).await;
        }
        node.point("answer").await;
        world.note(
            &node.name,
            format_args!(
                "hears {name}: {}",
                answer.as_ref().map_or_else(|e| e.to_string(), |_| "done".into())
            ),
        );
        answer
    }
}

impl SimRoles {
    /// The answer arrives a second time: at once, or when nothing waits for it any more.
    async fn answer_again(&self, answer: &Result<CallOutput, RoleError>, updates: Updates) {
        // An unreachable role is noticed by the caller itself.
        if answer.as_ref().is_err_and(|error| error.kind == RoleErrorKind::Unreachable) {
            return;
        }
        let (node, answer) = (self.node.clone(), answer.clone());
        let late = if node.world.dice.chance(40) { 0 } else { node.world.dice.within(1..=6_000) };
        let again = async move {
            tokio::time::sleep(Duration::from_millis(late)).await;
            node.pass().await;
            if updates.answer_again(answer).await.is_ok() {
                node.world.note(&node.name, format_args!("hears an answer again"));
            }
        };
        match late {
            0 => again.await,
            _ => drop(tokio::spawn(again)),
        }
    }

    async fn answer(&self, number: u64, call: &RoleCall, updates: Updates) -> Result<CallOutput, RoleError> {
        let world = &self.node.world;
        let dice = &world.dice;
        if world.on(Fault::UnreachableRoles) && dice.chance(20) {
            tokio::time::sleep(dice.millis(1..=50)).await;
            return Err(RoleError::new(RoleErrorKind::Unreachable, "no role service answers"));
        }
        tokio::time::sleep(dice.millis(1..=200)).await;
        let count = match world.on(Fault::ChattyRoles) && dice.chance(20) {
            true => dice.within(20..=90),
            false => dice.within(0..=3),
        };
        for i in 0..count {
            let update = match i % 4 {
                0 => RoleUpdate::Scratchpad(ScratchpadDelta {
                    append_markdown: format!("note {number}.{i}\n"),
                }),
                1 => RoleUpdate::ToolCallRequested(ToolCallRequested {
                    call_id: format!("t{i}"),
                    tool_name: "search".into(),
                    args: None,
                    purpose: None,
                    phase: None,
                    started_at: None,
                    writes: i % 8 == 1,
                    cached: dice.chance(20),
                }),
                2 => answered(i - 1, dice.within(0..=3)),
                _ => RoleUpdate::Usage {
                    usage: UsageRecorded {
                        model: "simulated".into(),
                        input_tokens: 1,
                        output_tokens: 1,
                        cached_tokens: 0,
                        cache_write_tokens: 0,
                        cost_micros: 1,
                        duration_ms: 1,
                        purpose: "execute".into(),
                        documents: Vec::new(),
                        prompt: None,
                    },
                    prompt: (i % 8 == 3).then(|| "# Sent: user\n\nGo.\n".into()),
                },
            };
            let _ = updates.send(update).await;
        }
        if world.on(Fault::LostAnswers) && dice.chance(10) {
            std::future::pending::<()>().await;
        }
        let late = match world.on(Fault::SlowRoles) && dice.chance(15) {
            true => dice.millis(2_000..=9_000),
            false => dice.millis(1..=400),
        };
        tokio::time::sleep(late).await;
        if world.on(Fault::FailedCalls) && dice.chance(20) {
            let kinds = RoleErrorKind::ALL;
            let kind = dice.pick(kinds).copied().unwrap_or(RoleErrorKind::Internal);
            // The provider of some says when its quota ends. A driver whose clock is behind waits as long once more,
            // and both have to fit into the time that a world has after its troubles.
            let retry_after_ms = dice.chance(15).then(|| dice.millis(3_000..=50_000).as_millis() as u64);
            return Err(RoleError { retry_after_ms, ..RoleError::new(kind, format!("failure {number}")) });
        }
        let doubled = world.on(Fault::DoubledAnswers);
        let before = world.checks().calls.answer(call.input.context().run_id, &call.key);
        if let Some(before) = before.filter(|_| doubled) {
            return Ok(before);
        }
        let number = match world.flaw {
            Some(Flaw::MixedUpAnswers) if dice.chance(20) => number.saturating_sub(dice.within(1..=3)),
            _ => number,
        };
        let garbage = world.on(Fault::FailedCalls) && dice.chance(5);
        let mut output = match &call.input {
            CallInput::Plan(input) => CallOutput::Plan(self.plan(number, input)),
            CallInput::Execute(_) => CallOutput::Execute(executed(number)),
            CallInput::Aggregate(_) => CallOutput::Aggregate(self.aggregated(number)),
            CallInput::Research(input) => CallOutput::Research(self.researched(number, input)),
            CallInput::Pick(input) => CallOutput::Pick(self.picked(number, input)),
            CallInput::Verify(_) => CallOutput::Verify(self.verified(number)),
        };
        if world.plan.steered && !garbage {
            world.checks().calls.gives(number, output.clone());
        }
        if garbage && let CallOutput::Plan(plan) = &mut output {
            plan.scratchpad.append_markdown.clear();
        } else if doubled {
            world.checks().calls.answered(call.input.context().run_id, call.key, output.clone());
        }
        Ok(output)
    }

    fn plan(&self, number: u64, input: &PlanInput) -> PlannerOutput {
        let dice = &self.node.world.dice;
        if let Some(brief) = &input.homework {
            return self.homework(number, brief);
        }
        let delegate = input.call.depth == 0 || dice.chance(35);
        let bands = dice.within(1..=2);
        let plan = delegate.then(|| PlanDraft {
            summary: format!("plan {number}"),
            bands: (0..bands)
                .map(|band| BandDraft {
                    index: band as u32,
                    goal: format!("band {band}"),
                    parallelizable: dice.chance(75),
                    steps: (0..dice.within(1..=3))
                        .map(|step| {
                            let id = StepId::new(format!("c{number}b{band}s{step}"));
                            let is_search = dice.chance(15);
                            StepDraft {
                                reason: "needed".into(),
                                success_criteria: vec!["done".into()],
                                step_index: step as u32,
                                strategy: is_search.then_some(Strategy::Search),
                                search: is_search.then_some(StepSearch { max_depth: 3, max_nodes: 8 }),
                                budget: self.step_budget(),
                                deliverable: (step == 1).then_some(ResultKind::Hybrid),
                                profile: (step == 2).then_some(Profile::Powerful),
                                ..StepDraft::new(id, format!("step {band}.{step} of {number}"))
                            }
                        })
                        .collect(),
                })
                .collect(),
        });
        PlannerOutput {
            premises: None,
            homework: None,
            mode: if delegate { PlannerMode::Plan } else { PlannerMode::Execute },
            mode_reason: "because".into(),
            leaf_decision: None,
            plan,
            scratchpad: pad(number),
        }
    }

    /// Where people steer, some steps have budgets of their own.
    fn step_budget(&self) -> Option<SubtreeBudget> {
        let world = &self.node.world;
        world.plan.steered.then(|| step_budget(&world.dice, 12)).flatten()
    }

    /// Branches go on and begin, some tasks repeat an earlier one, and some planners want an iteration too many.
    fn homework(&self, number: u64, brief: &HomeworkBrief) -> PlannerOutput {
        let dice = &self.node.world.dice;
        let done = brief.iteration > 1 && dice.chance(if brief.is_last() { 80 } else { 25 });
        let entries: Vec<&BranchEntry> = brief.branches.iter().flat_map(|branch| &branch.entries).collect();
        let task = |i: u64| {
            let repeated = dice.pick(&entries).filter(|_| dice.chance(20));
            let title = repeated.map_or_else(|| format!("task {i} of {number}"), |entry| entry.title.clone());
            StepDraft {
                reason: "needed".into(),
                step_index: i as u32,
                branch_id: Some(format!("branch {}", dice.within(1..=4))),
                budget: self.step_budget(),
                ..StepDraft::new(StepId::new(format!("c{number}t{i}")), title)
            }
        };
        let steps = (0..dice.within(1..=3)).map(task).collect();
        let band = BandDraft { index: 0, goal: "more".into(), parallelizable: dice.chance(75), steps };
        let notes = brief.branches.iter().map(|branch| BranchNote {
            branch_id: branch.branch_id.clone(),
            summary: format!("{} until {number}", branch.branch_id),
        });
        let draft = HomeworkDraft {
            items: vec![PlanItem {
                title: format!("step {number}"),
                state: ItemState::Doing,
                note: String::new(),
            }],
            rollup: format!("rolled up {number}"),
            branches: notes.collect(),
            remaining: vec![format!("more than {number}")],
            questions: vec![],
        };
        PlannerOutput {
            premises: None,
            mode: if done { PlannerMode::Done } else { PlannerMode::Plan },
            mode_reason: "because".into(),
            leaf_decision: None,
            plan: (!done).then(|| PlanDraft { summary: format!("plan {number}"), bands: vec![band] }),
            homework: Some(Box::new(draft)),
            scratchpad: pad(number),
        }
    }

    /// Titles repeat, so that branches come to the same topics.
    fn researched(&self, number: u64, input: &ResearchInput) -> ResearchOutput {
        let dice = &self.node.world.dice;
        let is_root = input.form == ResearchForm::Root;
        let least = u64::from(is_root);
        let titles = (0..dice.within(least..=3)).map(|_| format!("topic {}", dice.within(1..=40)));
        let drafts = titles.map(|title| ChildDraft { title, ..ChildDraft::default() });
        let said = |speaker, text: String| SessionMessage { speaker, text };
        ResearchOutput {
            document_markdown: (!is_root).then(|| format!("Found by call {number}.")),
            summary: format!("did {number}"),
            children: tidy(drafts.collect::<Vec<_>>()).children,
            dropped: 0,
            messages: match is_root {
                true => vec![],
                false => vec![
                    said(Speaker::User, format!("write {number}")),
                    said(Speaker::Assistant, format!("written {number}")),
                ],
            },
            scratchpad: pad(number),
        }
    }

    /// Sometimes nothing that can be picked.
    fn picked(&self, number: u64, input: &PickInput) -> PickOutput {
        let dice = &self.node.world.dice;
        let path = match dice.pick(&input.leaves) {
            Some(leaf) if !dice.chance(15) => leaf.path.clone(),
            _ => "no/topic".to_owned(),
        };
        PickOutput { path, reason: format!("reason {number}") }
    }

    /// Sometimes asks for another plan, also where there cannot be one.
    fn verified(&self, number: u64) -> VerifierOutput {
        let should_replan = self.node.world.dice.chance(30);
        let doubt = Doubt { claim: format!("claim {number}"), reason: format!("reason {number}") };
        let summary = format!("verified {number}");
        VerifierOutput {
            verification: Verification {
                summary,
                criteria: Vec::new(),
                doubts: vec![doubt],
                not_checked: None,
            },
            next: AggregatorNext {
                should_replan,
                replan_reason: should_replan.then(|| format!("doubts {number}")),
            },
            scratchpad: pad(number),
        }
    }

    fn aggregated(&self, number: u64) -> AggregatorOutput {
        let should_replan = self.node.world.dice.chance(15);
        let ExecutorOutput { artifacts, result, scratchpad, .. } = executed(number);
        AggregatorOutput {
            synthesis: Synthesis { summary: format!("all of {number}"), key_findings: vec![], gaps: vec![] },
            artifacts,
            result,
            next: AggregatorNext {
                should_replan,
                replan_reason: should_replan.then(|| "more is needed".into()),
            },
            scratchpad,
        }
    }
}

/// One line, so that the lines of a scratchpad can be counted.
fn pad(number: u64) -> ScratchpadDraft {
    ScratchpadDraft { append_markdown: format!("answer {number}"), tail_preview: String::new() }
}

/// The answer to the tool call `asked`. It is the one `number` of a few, so that nodes get the same.
fn answered(asked: u64, number: u64) -> RoleUpdate {
    let result = ToolCallResult {
        call_id: format!("t{asked}"),
        tool_name: "search".into(),
        ok: true,
        summary: Some(format!("answer {number}")),
        error: None,
        phase: None,
        completed_at: None,
        document_id: None,
        answer: None,
    };
    let answer = KeptDocument {
        path: format!("{FOLDER}/{number}.json"),
        title: "Answer of search".into(),
        body: format!("answer {number}"),
    };
    RoleUpdate::ToolCallKept(Box::new(ToolCallKept { result, document: None, answer: Some(answer) }))
}

fn executed(number: u64) -> ExecutorOutput {
    ExecutorOutput {
        actions: vec![],
        artifacts: vec![ArtifactDraft::document(
            "findings",
            format!("Findings {number}"),
            format!("Found by call {number}."),
        )],
        result: ResultDraft::new(ResultKind::Document, format!("did {number}"), "findings"),
        scratchpad: pad(number),
    }
}
