//! The planner: execute, or decompose into bands of steps.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use super::{CallContext, ScratchpadDraft};
use crate::budget::SubtreeBudget;
use crate::error::{Checks, Invalid};
use crate::homework::{HomeworkBrief, HomeworkDraft};
use crate::ids::StepId;
use crate::limits;
use crate::model::Profile;
use crate::result::{ResultKind, TreeAgentResult};
use crate::review::Premises;
use crate::run::Strategy;
use crate::search::StepSearch;
use crate::status::{StepStatus, named_enum};

named_enum! {
    /// What the planner decided.
    PlannerMode {
        /// The node does the work itself.
        Execute = "execute",
        /// The node delegates to children.
        Plan = "plan",
        /// Only in homework: the objective is reached.
        Done = "done",
    }
}

named_enum! {
    /// How hard the planner thinks a task is.
    Complexity {
        /// One short piece of work.
        Low = "low",
        /// Some pieces of work.
        Medium = "medium",
        /// Many pieces of work.
        High = "high",
    }
}

/// Why a node can or cannot do its task directly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeafDecision {
    /// True when it can.
    pub can_execute_directly: bool,
    /// How hard it is.
    pub complexity: Complexity,
    /// What stands in the way.
    #[serde(default)]
    pub blockers: Vec<String>,
}

/// A step as the planner proposes it.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepDraft {
    /// Unique within the node; kept when the node plans again.
    pub id: StepId,
    /// What it is.
    pub title: String,
    /// Why it is needed.
    pub reason: String,
    /// How it will be judged.
    pub success_criteria: Vec<String>,
    /// Its place in the band, 0..n-1.
    pub step_index: u32,
    /// `search` if a guided search carries it out; none for a node that plans or executes.
    pub strategy: Option<Strategy>,
    /// The limits of that search; none for the defaults.
    pub search: Option<StepSearch>,
    /// Only in homework, and required there: the branch that carries it out. A new name begins a branch.
    pub branch_id: Option<String>,
    /// What the step and everything below it may use; none for its share of what the node has.
    pub budget: Option<SubtreeBudget>,
    /// What the step should return. None leaves it to the worker.
    pub deliverable: Option<ResultKind>,
    /// The ability that its model needs; none for that of its role.
    pub profile: Option<Profile>,
}

impl StepDraft {
    /// A step called `title`, the first of its band.
    pub fn new(id: StepId, title: impl Into<String>) -> Self {
        Self {
            id,
            title: title.into(),
            reason: String::new(),
            success_criteria: Vec::new(),
            step_index: 0,
            strategy: None,
            search: None,
            branch_id: None,
            budget: None,
            deliverable: None,
            profile: None,
        }
    }
}

/// A band: steps that run side by side, after the band before it has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BandDraft {
    /// Its place in the plan, 0..n-1.
    pub index: u32,
    /// What it is for.
    pub goal: String,
    /// False: its steps run one after the other.
    pub parallelizable: bool,
    /// Its steps.
    pub steps: Vec<StepDraft>,
}

/// A plan as the planner proposes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanDraft {
    /// The plan in a sentence or two.
    pub summary: String,
    /// Its bands, in order.
    pub bands: Vec<BandDraft>,
}

/// The answer of a planner.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannerOutput {
    /// Execute or plan.
    pub mode: PlannerMode,
    /// Why.
    pub mode_reason: String,
    /// More about it.
    pub leaf_decision: Option<LeafDecision>,
    /// The plan; required for mode `plan`.
    pub plan: Option<PlanDraft>,
    /// Only in homework, and required there: the plan document, the roll-up, and what is left.
    pub homework: Option<Box<HomeworkDraft>>,
    /// What the plan rests on, for a person who reviews it.
    pub premises: Option<Premises>,
    /// What goes to the scratchpad.
    pub scratchpad: ScratchpadDraft,
}

/// A step of an earlier plan of the same node. The planner receives it when it plans again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PriorStep {
    /// The step; naming it again in the new plan means the same step.
    pub id: StepId,
    /// What it was.
    pub title: String,
    /// How it ended. A completed step that is named again is not run again.
    pub status: StepStatus,
    /// What its node returned, or why it failed.
    pub summary: String,
}

/// The input of a planner.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanInput {
    /// The node and its run.
    pub call: CallContext,
    /// The node's latest plan, in words; empty for the first.
    pub existing_plan_summary: String,
    /// Why the aggregator wants another plan; empty for the first.
    pub replan_reason: String,
    /// The steps of the node's earlier plans.
    pub prior_steps: Vec<PriorStep>,
    /// What the aggregator made of them. It is returned if another plan leads nowhere.
    pub earlier_result: Option<TreeAgentResult>,
    /// Where the homework stands, if the node does homework.
    pub homework: Option<Box<HomeworkBrief>>,
    /// A person reviews the plan, and wants to know what it rests on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub review: bool,
}

impl PlannerOutput {
    /// Checks every rule of the planner contract. `prior` holds the steps of the node's earlier plans: an id that
    /// stands there must keep its title, so that ids stay stable over replans.
    pub fn validate(&self, prior: &[PriorStep]) -> Result<(), Invalid> {
        let mut c = Checks::default();
        c.text("modeReason", &self.mode_reason, limits::TEXT_BYTES);
        self.premises.iter().for_each(|premises| premises.check(&mut c));
        self.scratchpad.check(&mut c);
        match (self.mode, &self.plan) {
            (PlannerMode::Plan, None) => {
                c.require(false, "plan", || "is required when mode is \"plan\"".into())
            }
            (PlannerMode::Plan, Some(plan)) => check_plan(plan, prior, &mut c),
            (PlannerMode::Execute, _) => {}
            (PlannerMode::Done, _) => c.require(false, "mode", || "\"done\" is an answer of homework".into()),
        }
        c.finish()
    }

    /// As [`validate`](Self::validate), for the planner of homework that is asked about iteration `iteration`.
    pub fn validate_homework(&self, iteration: u32) -> Result<(), Invalid> {
        let mut c = Checks::default();
        c.text("modeReason", &self.mode_reason, limits::TEXT_BYTES);
        self.premises.iter().for_each(|premises| premises.check(&mut c));
        self.scratchpad.check(&mut c);
        match (self.mode, &self.plan) {
            (PlannerMode::Execute, _) => {
                c.require(false, "mode", || "must be \"plan\" or \"done\" in homework".into())
            }
            (PlannerMode::Done, _) => c.require(iteration > 1, "mode", || {
                "nothing has been done yet; give at least one task".into()
            }),
            (PlannerMode::Plan, None) => {
                c.require(false, "plan", || "is required when mode is \"plan\"".into())
            }
            (PlannerMode::Plan, Some(plan)) => check_tasks(plan, &mut c),
        }
        match &self.homework {
            Some(homework) => homework.check(iteration, &mut c),
            None => c.require(false, "homework", || "is required in homework".into()),
        }
        c.finish()
    }
}

/// Checks the form of a plan. Steps that stand in `prior` keep their titles.
pub(crate) fn check_plan(plan: &PlanDraft, prior: &[PriorStep], c: &mut Checks) {
    let known: BTreeMap<&StepId, &str> = prior.iter().map(|p| (&p.id, p.title.as_str())).collect();
    let mut seen = BTreeSet::new();
    c.text("plan.summary", &plan.summary, limits::TEXT_BYTES);
    c.range("plan.bands", plan.bands.len() as u64, 1..=limits::BANDS as u64);
    for (b, band) in plan.bands.iter().enumerate() {
        let at = format_args!("plan.bands[{b}]");
        c.require(band.index as usize == b, format_args!("{at}.index"), || {
            format!("is {}; bands must be numbered 0..n-1 in order, so {b}", band.index)
        });
        c.at_most(format_args!("{at}.goal"), &band.goal, limits::TEXT_BYTES);
        c.range(format_args!("{at}.steps"), band.steps.len() as u64, 1..=limits::STEPS_PER_BAND as u64);
        for (s, step) in band.steps.iter().enumerate() {
            let at = format_args!("{at}.steps[{s}]");
            c.text(format_args!("{at}.id"), step.id.as_str(), limits::STEP_ID_BYTES);
            c.require(seen.insert(&step.id), format_args!("{at}.id"), || {
                format!(
                    "{:?} is used by an earlier step; ids must be unique within the node",
                    step.id.as_str()
                )
            });
            c.text(format_args!("{at}.title"), &step.title, limits::TITLE_BYTES);
            c.at_most(format_args!("{at}.reason"), &step.reason, limits::TEXT_BYTES);
            c.range(
                format_args!("{at}.successCriteria"),
                step.success_criteria.len() as u64,
                0..=limits::CRITERIA as u64,
            );
            for (k, criterion) in step.success_criteria.iter().enumerate() {
                c.text(format_args!("{at}.successCriteria[{k}]"), criterion, limits::TEXT_BYTES);
            }
            c.require(step.step_index as usize == s, format_args!("{at}.stepIndex"), || {
                format!("is {}; steps must be numbered 0..n-1 in order, so {s}", step.step_index)
            });
            check_search(step, &at, c);
            if let Some(budget) = step.budget {
                budget.check(format_args!("{at}.budget"), c);
            }
            if let Some(title) = known.get(&step.id) {
                c.require(*title == step.title, format_args!("{at}.title"), || {
                    format!(
                        "step {:?} was {title:?} in the earlier plan; keep its title or choose a new id",
                        step.id.as_str()
                    )
                });
            }
        }
    }
}

/// The tasks of one iteration are the steps of one band, each for a branch.
fn check_tasks(plan: &PlanDraft, c: &mut Checks) {
    check_plan(plan, &[], c);
    c.require(plan.bands.len() <= 1, "plan.bands", || {
        "the tasks of an iteration run side by side; give one band".into()
    });
    for (s, step) in plan.bands.iter().flat_map(|band| &band.steps).enumerate() {
        let at = format_args!("plan.bands[0].steps[{s}]");
        let branch = step.branch_id.as_deref().unwrap_or_default();
        c.text(format_args!("{at}.branchId"), branch, limits::BRANCH_ID_BYTES);
        c.require(step.strategy.is_none(), format_args!("{at}.strategy"), || {
            "a task of homework is not a search; leave it out".into()
        });
    }
}

/// A step may be a search. Its limits are checked only then, because nothing else has any.
fn check_search(step: &StepDraft, at: &impl Display, c: &mut Checks) {
    let is_search = step.strategy == Some(Strategy::Search);
    c.require(step.strategy.is_none() || is_search, format_args!("{at}.strategy"), || {
        "must be \"search\" or left out".into()
    });
    let Some(search) = &step.search else { return };
    c.require(is_search, format_args!("{at}.search"), || "needs strategy \"search\"".into());
    c.range(format_args!("{at}.search.maxDepth"), search.max_depth.into(), 1..=64);
    c.range(format_args!("{at}.search.maxNodes"), search.max_nodes.into(), 1..=limits::STEP_SEARCH_NODES);
}
