//! What the planner of homework answers.

use tree_agent_contract::StepId;
use tree_agent_contract::homework::*;
use tree_agent_contract::role::*;

use super::{World, notes};

/// Words of tasks. Few, so that tasks repeat earlier ones.
const WORDS: [&str; 6] = ["query planner", "index", "cache", "vacuum", "prices", "log"];

impl World {
    /// Tasks for some branches, some of them for the same branch and some asked for before.
    pub(super) fn homework_output(&mut self, brief: &HomeworkBrief) -> PlannerOutput {
        self.check_brief(brief);
        let quiet = self.plan.failures == 0;
        let fanout = usize::from(self.plan.fanout);
        let is_done =
            brief.is_last() || brief.iteration > 1 && (quiet && brief.iteration > 3 || self.roll() < 20);
        let stubborn = brief.is_last() && self.roll() < 40;
        let steps = (0..fanout).map(|n| {
            let (word, number) = (usize::from(self.roll()), self.roll());
            let (title, branch) = match quiet {
                true => (format!("task {n} of iteration {}", brief.iteration), format!("Branch {n}")),
                false => (format!("look at the {}", WORDS[word % 6]), format!("branch {}", number % 5)),
            };
            let budget = self.step_budget();
            StepDraft {
                budget,
                success_criteria: if number < 60 { vec![format!("criterion {word}")] } else { vec![] },
                step_index: n as u32,
                branch_id: Some(branch),
                ..StepDraft::new(StepId::new(format!("t{n}")), title)
            }
        });
        let band =
            BandDraft { index: 0, goal: "find out".into(), parallelizable: true, steps: steps.collect() };
        let plan = PlanDraft { summary: "a plan".into(), bands: vec![band] };
        let mode = if is_done && !stubborn { PlannerMode::Done } else { PlannerMode::Plan };
        let item = |n: usize| PlanItem {
            title: format!("item {n}"),
            state: ItemState::ALL[n % ItemState::ALL.len()],
            note: String::new(),
        };
        let note = |branch: &BranchBrief| BranchNote {
            branch_id: branch.branch_id.clone(),
            summary: format!("found until iteration {}", brief.iteration),
        };
        PlannerOutput {
            premises: None,
            mode,
            mode_reason: "because".into(),
            leaf_decision: None,
            plan: (mode == PlannerMode::Plan).then_some(plan),
            homework: Some(Box::new(HomeworkDraft {
                items: (0..=usize::from(self.roll()) % 5).map(item).collect(),
                rollup: if brief.iteration > 1 { "what there is".into() } else { String::new() },
                branches: brief.branches.iter().map(note).collect(),
                remaining: vec!["the rest".into()],
                questions: Vec::new(),
            })),
            scratchpad: notes(),
        }
    }

    /// What a planner is told is what the log says, and no more than it needs.
    fn check_brief(&self, brief: &HomeworkBrief) {
        assert!(brief.iteration <= brief.max_iterations + 1, "{brief:?}");
        assert!(brief.rollups.len() <= 3);
        for branch in &brief.branches {
            assert!((1..=2).contains(&branch.entries.len()), "{branch:?}");
            assert!(branch.entries.iter().all(|entry| entry.iteration < brief.iteration));
            let title =
                self.documents.iter().find(|d| d.id == branch.scratchpad_doc_id).map(|d| d.title.as_str());
            assert_eq!(title, Some(branch.title.as_str()));
        }
    }
}
