//! The answer of the planner of homework.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tree_agent_contract::homework::{BranchNote, HomeworkDraft, ItemState, PlanItem};
use tree_agent_contract::role::{BandDraft, PlanDraft, PlanInput, PlannerMode, PlannerOutput, StepDraft};
use tree_agent_contract::{Profile, ResultKind, StepId, limits};

use super::planner::{DeliverableReply, Notes, ProfileReply, StepBudget};
use super::review::{ReviewReply, premises};
use super::schema::Schema;
use super::{Reply, contract_errors, cut, line, object, read_as};

// Models read the doc comments of these types, which are the descriptions in the schema.

/// Your decision.
#[derive(Debug, JsonSchema)]
#[allow(dead_code, reason = "only its schema is used: answers are read by their mode, for clearer errors")]
pub(in crate::llm) struct HomeworkReply {
    decision: Decision,
    review: Option<ReviewReply>,
}

impl HomeworkReply {
    /// The place of [`Decision::Plan`].
    pub(in crate::llm) const PLAN: usize = 0;
    /// The place of [`Decision::Done`].
    pub(in crate::llm) const DONE: usize = 1;
}

#[derive(Debug, JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "see above")]
enum Decision {
    Plan(Plan),
    Done(Done),
}

#[derive(Debug, Deserialize, JsonSchema)]
enum PlanMode {
    #[serde(rename = "plan")]
    Plan,
}

#[derive(Debug, Deserialize, JsonSchema)]
enum DoneMode {
    #[serde(rename = "done")]
    Done,
}

/// Another iteration is needed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "mode is a constant")]
struct Plan {
    mode: PlanMode,
    /// Why another iteration is needed.
    #[schemars(length(min = 1, max = 300))]
    mode_reason: String,
    scratchpad: Notes,
    homework: Homework,
    /// What this iteration is to achieve, in one sentence.
    #[schemars(length(min = 1, max = 300))]
    goal: String,
    /// Tasks that run side by side, at most one for each branch.
    #[schemars(length(min = 1, max = 8))]
    tasks: Vec<Task>,
}

/// The objective is reached, or nothing new can be expected.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "mode is a constant")]
struct Done {
    mode: DoneMode,
    /// Why nothing more is needed.
    #[schemars(length(min = 1, max = 300))]
    mode_reason: String,
    scratchpad: Notes,
    homework: Homework,
}

/// Where the work stands.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Homework {
    /// The whole plan as it stands now.
    #[schemars(length(min = 1, max = 16))]
    items: Vec<Item>,
    /// What the last iteration has led to, as a whole. Empty before the first one.
    #[schemars(length(max = 1500))]
    rollup: String,
    /// What each branch has found so far.
    #[schemars(length(max = 16))]
    branches: Vec<Branch>,
    /// What is still to do.
    #[schemars(length(max = 8), inner(length(max = 240)))]
    remaining: Vec<String>,
    /// What is still unknown.
    #[schemars(length(max = 8), inner(length(max = 240)))]
    questions: Vec<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Item {
    #[schemars(length(min = 1, max = 160))]
    title: String,
    state: State,
    /// More about it, such as what it has led to; may be empty.
    #[schemars(length(max = 240))]
    note: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum State {
    Todo,
    Doing,
    Done,
    Dropped,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Branch {
    /// The branch as it is listed.
    #[schemars(length(min = 1, max = 60))]
    branch_id: String,
    /// All that matters of it so far: it stands for the older entries of the branch.
    #[schemars(length(min = 1, max = 1200))]
    summary: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Task {
    /// The branch that does it, as it is listed. A new name begins a branch.
    #[schemars(length(min = 1, max = 60))]
    branch_id: String,
    /// The task, complete in itself.
    #[schemars(length(min = 1, max = 160))]
    title: String,
    /// Why it is needed.
    #[schemars(length(max = 240))]
    reason: String,
    /// How one will know that it is done.
    #[schemars(length(max = 3), inner(length(max = 160)))]
    success_criteria: Vec<String>,
    /// What the task may use, if that is not to be its share of what there is. Null for most tasks.
    budget: Option<StepBudget>,
    /// What it returns. Null for a document.
    deliverable: Option<DeliverableReply>,
    /// The model that it needs. Null for most tasks, which the usual one can do.
    profile: Option<ProfileReply>,
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(Schema::of::<HomeworkReply>);
static PLAN: LazyLock<Schema> = LazyLock::new(Schema::of::<Plan>);
static DONE: LazyLock<Schema> = LazyLock::new(Schema::of::<Done>);

impl Reply for HomeworkReply {
    type Input = PlanInput;
    type Output = PlannerOutput;

    fn schema() -> Option<&'static Schema> {
        Some(&SCHEMA)
    }

    fn read(text: &str, input: &PlanInput, shown: bool) -> Result<PlannerOutput, Vec<String>> {
        let iteration = input.homework.as_ref().map_or(1, |brief| brief.iteration);
        let mut object = object(text)?;
        let premises = premises(&mut object).filter(|_| input.review);
        let decision = decision(object, iteration > 1)?;
        let mut output = match decision["mode"].as_str() {
            Some("plan") => plans(read_as(decision, &PLAN)?, shown),
            Some("done") => is_done(read_as(decision, &DONE)?, shown),
            _ => return Err(vec!["mode: must be \"plan\" or \"done\"".to_owned()]),
        };
        output.premises = premises;
        output.validate_homework(iteration).map_err(|invalid| contract_errors(&invalid))?;
        Ok(output)
    }
}

/// The decision, with or without the object around it. A plan without tasks means that nothing is left to do.
fn decision(mut object: Map<String, Value>, may_be_done: bool) -> Result<Value, Vec<String>> {
    if let Some(Value::Object(inner)) = object.get_mut("decision") {
        object = std::mem::take(inner);
    }
    let mode = object.get("mode").and_then(Value::as_str).map(|mode| mode.trim().to_lowercase());
    let Some(mode) = mode else {
        return Err(vec!["mode: is missing; it must be \"plan\" or \"done\"".to_owned()]);
    };
    let empty = object.get("tasks").and_then(Value::as_array).is_some_and(Vec::is_empty);
    let mode = if mode == "plan" && empty && may_be_done { "done".to_owned() } else { mode };
    object.insert("mode".into(), json!(mode));
    Ok(Value::Object(object))
}

fn plans(reply: Plan, shown: bool) -> PlannerOutput {
    let mut remarks = Vec::new();
    let mut tasks = reply.tasks;
    if tasks.len() > limits::STEPS_PER_BAND {
        let most = limits::STEPS_PER_BAND;
        remarks.push(format!("*The iteration had {} tasks; {most} were taken.*", tasks.len()));
        tasks.truncate(most);
    }
    let goal = cut(&reply.goal, limits::TEXT_BYTES);
    remarks.insert(0, format!("**Gives {} tasks:** {}", tasks.len(), line(&goal, 1_000)));
    let steps = tasks.into_iter().enumerate().map(|(i, task)| step(i, task)).collect();
    let band = BandDraft { index: 0, goal: goal.clone(), parallelizable: true, steps };
    PlannerOutput {
        premises: None,
        mode: PlannerMode::Plan,
        mode_reason: cut(&reply.mode_reason, limits::TEXT_BYTES),
        leaf_decision: None,
        plan: Some(PlanDraft { summary: goal, bands: vec![band] }),
        homework: Some(Box::new(reply.homework.into())),
        scratchpad: reply.scratchpad.with(shown, &remarks.join("\n\n")),
    }
}

fn step(i: usize, task: Task) -> StepDraft {
    let criteria = task.success_criteria.iter().filter(|criterion| !criterion.trim().is_empty());
    StepDraft {
        reason: cut(&task.reason, limits::TEXT_BYTES),
        success_criteria: criteria.take(limits::CRITERIA).map(|c| cut(c, limits::TEXT_BYTES)).collect(),
        step_index: i as u32,
        branch_id: Some(line(&task.branch_id, limits::BRANCH_ID_BYTES)),
        budget: task.budget.and_then(StepBudget::draft),
        deliverable: task.deliverable.map(ResultKind::from),
        profile: task.profile.map(Profile::from),
        ..StepDraft::new(StepId::new(format!("t{}", i + 1)), line(&task.title, limits::TITLE_BYTES))
    }
}

fn is_done(reply: Done, shown: bool) -> PlannerOutput {
    let reason = cut(&reply.mode_reason, limits::TEXT_BYTES);
    let outcome = format!("**Done:** {}", line(&reason, 1_000));
    PlannerOutput {
        premises: None,
        mode: PlannerMode::Done,
        mode_reason: reason,
        leaf_decision: None,
        plan: None,
        homework: Some(Box::new(reply.homework.into())),
        scratchpad: reply.scratchpad.with(shown, &outcome),
    }
}

impl From<Homework> for HomeworkDraft {
    /// What is beyond the contract is cut, not asked for again. Empty notes are left out.
    fn from(reply: Homework) -> Self {
        let items = reply.items.into_iter().filter(|item| !item.title.trim().is_empty());
        let mut named = BTreeSet::new();
        let branches = reply.branches.into_iter().filter(|note| {
            !note.branch_id.trim().is_empty()
                && !note.summary.trim().is_empty()
                && named.insert(note.branch_id.clone())
        });
        Self {
            items: items.take(limits::PLAN_ITEMS).map(PlanItem::from).collect(),
            rollup: cut(&reply.rollup, limits::TEXT_BYTES),
            branches: branches.take(limits::BRANCH_NOTES).map(BranchNote::from).collect(),
            remaining: notes(&reply.remaining),
            questions: notes(&reply.questions),
        }
    }
}

fn notes(texts: &[String]) -> Vec<String> {
    let said = texts.iter().filter(|text| !text.trim().is_empty());
    said.take(limits::HOMEWORK_NOTES).map(|text| cut(text, limits::TEXT_BYTES)).collect()
}

impl From<Item> for PlanItem {
    fn from(item: Item) -> Self {
        Self {
            title: line(&item.title, limits::TITLE_BYTES),
            state: match item.state {
                State::Todo => ItemState::Todo,
                State::Doing => ItemState::Doing,
                State::Done => ItemState::Done,
                State::Dropped => ItemState::Dropped,
            },
            note: cut(&item.note.unwrap_or_default(), limits::TEXT_BYTES),
        }
    }
}

impl From<Branch> for BranchNote {
    fn from(branch: Branch) -> Self {
        Self {
            branch_id: line(&branch.branch_id, limits::BRANCH_ID_BYTES),
            summary: cut(&branch.summary, limits::TEXT_BYTES),
        }
    }
}
