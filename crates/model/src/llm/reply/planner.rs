//! The planner's answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tree_agent_contract::role::{
    BandDraft, Complexity, LeafDecision, PlanDraft, PlanInput, PlannerMode, PlannerOutput, PriorStep,
    ScratchpadDraft, StepDraft,
};
use tree_agent_contract::{Profile, ResultKind, StepId, StepSearch, Strategy, SubtreeBudget, limits};

use super::super::material;
use super::review::{ReviewReply, premises};
use super::schema::Schema;
use super::{Reply, contract_errors, cut, line, object, read_as, scratchpad};

// Models read the doc comments of these types, which are the descriptions in the schema.

/// Your decision.
#[derive(Debug, JsonSchema)]
#[allow(dead_code, reason = "only its schema is used: answers are read by their mode, for clearer errors")]
pub(in crate::llm) struct PlannerReply {
    decision: Decision,
    review: Option<ReviewReply>,
}

#[derive(Debug, JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "see above")]
enum Decision {
    Execute(Execute),
    Plan(Plan),
}

#[derive(Debug, Deserialize, JsonSchema)]
enum ExecuteMode {
    #[serde(rename = "execute")]
    Execute,
}

#[derive(Debug, Deserialize, JsonSchema)]
enum PlanMode {
    #[serde(rename = "plan")]
    Plan,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Level {
    Low,
    Medium,
    High,
}

/// The task is done by one worker in one go.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "mode is a constant")]
struct Execute {
    mode: ExecuteMode,
    /// Why one worker can do it.
    #[schemars(length(min = 1, max = 300))]
    mode_reason: String,
    scratchpad: Notes,
    leaf_decision: Option<Leaf>,
}

/// The task is split into steps for several workers.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "mode is a constant")]
struct Plan {
    mode: PlanMode,
    /// Why one worker cannot do it.
    #[schemars(length(min = 1, max = 300))]
    mode_reason: String,
    scratchpad: Notes,
    leaf_decision: Option<Leaf>,
    plan: Steps,
}

/// Notes for whoever reads along.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Notes {
    /// What you considered, in a few sentences of Markdown.
    #[schemars(length(max = 600))]
    append_markdown: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Leaf {
    /// True when one worker can do the whole task.
    can_execute_directly: bool,
    complexity: Level,
    /// What stands in the way.
    #[schemars(length(max = 5), inner(length(max = 160)))]
    blockers: Vec<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Steps {
    /// The plan in one sentence.
    #[schemars(length(min = 1, max = 300))]
    summary: String,
    /// Bands run one after the other.
    #[schemars(length(min = 1, max = 3))]
    bands: Vec<Band>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Band {
    /// Its position from 0; the order of the list counts when it is left out.
    #[schemars(skip)]
    index: Option<u32>,
    /// What the band achieves.
    #[schemars(length(max = 200))]
    goal: String,
    /// False when its steps must run one after the other.
    parallelizable: bool,
    /// Steps of a band run side by side and do not see each other's results.
    #[schemars(length(min = 1, max = 4))]
    steps: Vec<Step>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Step {
    /// A short name, unique in the plan, such as s1.
    #[schemars(length(min = 1, max = 24))]
    id: String,
    /// The task of the step, complete in itself: its worker sees nothing else of the plan.
    #[schemars(length(min = 1, max = 160))]
    title: String,
    /// Why it is needed.
    #[schemars(length(max = 240))]
    reason: String,
    /// How one will know that it is done.
    #[schemars(length(max = 3), inner(length(max = 160)))]
    success_criteria: Vec<String>,
    /// Only for a step that explores a wide subject: how far its search goes. Null for all other steps.
    search: Option<Search>,
    /// What the step and everything below it may use, if that is not to be its share of what there is. Null for most
    /// steps.
    budget: Option<StepBudget>,
    /// What it returns. Null for a document.
    deliverable: Option<DeliverableReply>,
    /// The model that it needs. Null for most steps, which the usual one can do.
    profile: Option<ProfileReply>,
    #[schemars(skip)]
    step_index: Option<u32>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum DeliverableReply {
    Document,
    Json,
    Both,
}

impl From<DeliverableReply> for ResultKind {
    fn from(reply: DeliverableReply) -> Self {
        match reply {
            DeliverableReply::Document => Self::Document,
            DeliverableReply::Json => Self::Json,
            DeliverableReply::Both => Self::Hybrid,
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ProfileReply {
    Fast,
    Balanced,
    Powerful,
}

impl From<ProfileReply> for Profile {
    fn from(reply: ProfileReply) -> Self {
        match reply {
            ProfileReply::Fast => Self::Fast,
            ProfileReply::Balanced => Self::Balanced,
            ProfileReply::Powerful => Self::Powerful,
        }
    }
}

/// A search for everything there is about the subject of the step.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Search {
    /// Levels of topics.
    #[schemars(range(min = 1, max = 5))]
    max_depth: u32,
    /// Topics in all.
    #[schemars(range(min = 1, max = 200))]
    max_nodes: u32,
}

/// Limits of one step. Null for what has no limit.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StepBudget {
    /// Tokens, in and out.
    #[schemars(range(min = 5000))]
    tokens: Option<u64>,
    /// Calls of tools.
    #[schemars(range(min = 1))]
    tool_calls: Option<u64>,
    /// Minutes from its beginning.
    #[schemars(range(min = 1, max = 43200))]
    minutes: Option<u64>,
}

impl StepBudget {
    /// Fewer tokens are not enough for a single answer.
    const LEAST_TOKENS: u64 = 5_000;

    /// What a model wants beyond the contract is cut, not asked for again.
    pub(super) fn draft(self) -> Option<SubtreeBudget> {
        let amount = |amount: Option<u64>| amount.filter(|n| *n > 0).map(|n| n.min(limits::USAGE));
        let budget = SubtreeBudget {
            max_tokens: amount(self.tokens).map(|tokens| tokens.max(Self::LEAST_TOKENS)),
            max_cost_micros: None,
            max_tool_calls: amount(self.tool_calls),
            max_wall_clock_ms: self.minutes.filter(|n| *n > 0).map(|n| n.min(43_200) * 60_000),
        };
        (!budget.is_empty()).then_some(budget)
    }
}

impl From<Search> for StepSearch {
    /// What a model wants beyond the contract is cut, not asked for again.
    fn from(search: Search) -> Self {
        let most = u32::try_from(limits::STEP_SEARCH_NODES).unwrap_or(u32::MAX);
        Self { max_depth: search.max_depth.clamp(1, 64), max_nodes: search.max_nodes.clamp(1, most) }
    }
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(Schema::of::<PlannerReply>);
static EXECUTE: LazyLock<Schema> = LazyLock::new(Schema::of::<Execute>);
static PLAN: LazyLock<Schema> = LazyLock::new(Schema::of::<Plan>);

impl Reply for PlannerReply {
    type Input = PlanInput;
    type Output = PlannerOutput;

    fn schema() -> Option<&'static Schema> {
        Some(&SCHEMA)
    }

    fn read(text: &str, input: &PlanInput, shown: bool) -> Result<PlannerOutput, Vec<String>> {
        let mut object = object(text)?;
        let premises = premises(&mut object).filter(|_| input.review);
        let decision = decision(object)?;
        let mut output = match decision["mode"].as_str() {
            Some("execute") => executes(read_as(decision, &EXECUTE)?, shown),
            Some("plan") => plans(read_as(decision, &PLAN)?, input, shown)?,
            _ => return Err(vec!["mode: must be \"execute\" or \"plan\"".to_owned()]),
        };
        output.premises = premises;
        output.validate(&input.prior_steps).map_err(|invalid| contract_errors(&invalid))?;
        Ok(output)
    }
}

/// The decision, with or without the object around it. A plan without steps becomes `execute`: one worker does the
/// task.
fn decision(mut object: Map<String, Value>) -> Result<Value, Vec<String>> {
    if let Some(Value::Object(inner)) = object.get_mut("decision") {
        object = std::mem::take(inner);
    }
    let steps = object
        .get("plan")
        .and_then(|plan| plan["bands"].as_array())
        .map_or(0, |bands| bands.iter().filter_map(|band| band["steps"].as_array()).map(Vec::len).sum());
    let empty = steps == 0 && object.get("plan").is_none_or(|p| p.is_null() || p["bands"].is_array());
    let mode = object.get("mode").and_then(Value::as_str).map(|mode| mode.trim().to_lowercase());
    match mode.as_deref() {
        Some("plan") if empty => {
            object.insert("mode".into(), json!("execute"));
            let note = "The plan was empty, so the node does its own work.";
            let reason = object.get("modeReason").and_then(Value::as_str).unwrap_or_default();
            let reason = format!("{reason} {note}").trim().to_owned();
            object.insert("modeReason".into(), json!(reason));
        }
        Some(mode) => {
            let mode = json!(mode);
            object.insert("mode".into(), mode);
        }
        None => return Err(vec!["mode: is missing; it must be \"execute\" or \"plan\"".to_owned()]),
    }
    Ok(Value::Object(object))
}

fn leaf(leaf: Option<Leaf>) -> Option<LeafDecision> {
    leaf.map(|leaf| LeafDecision {
        can_execute_directly: leaf.can_execute_directly,
        complexity: match leaf.complexity {
            Level::Low => Complexity::Low,
            Level::Medium => Complexity::Medium,
            Level::High => Complexity::High,
        },
        blockers: leaf.blockers.iter().take(limits::CRITERIA).map(|b| cut(b, limits::TEXT_BYTES)).collect(),
    })
}

fn executes(reply: Execute, shown: bool) -> PlannerOutput {
    let reason = cut(&reply.mode_reason, limits::TEXT_BYTES);
    let outcome = format!("**Executes directly:** {}", line(&reason, 1_000));
    PlannerOutput {
        premises: None,
        homework: None,
        mode: PlannerMode::Execute,
        mode_reason: reason,
        leaf_decision: leaf(reply.leaf_decision),
        plan: None,
        scratchpad: reply.scratchpad.with(shown, &outcome),
    }
}

fn plans(reply: Plan, input: &PlanInput, shown: bool) -> Result<PlannerOutput, Vec<String>> {
    let reason = cut(&reply.mode_reason, limits::TEXT_BYTES);
    let leaf = leaf(reply.leaf_decision);
    let (bands, mut remarks) = bands(reply.plan.bands, &input.prior_steps)?;
    let steps: usize = bands.iter().map(|band| band.steps.len()).sum();
    // Proportionality: a tree of one child is the same work with more ceremony, and so is one for a task that the
    // planner itself calls trivial. A plan that keeps finished steps is left alone, and so is one with a search, which
    // is more than one worker does.
    let replans = !input.prior_steps.is_empty();
    let searches = bands.iter().flat_map(|band| &band.steps).any(|step| step.strategy.is_some());
    let trivial = leaf
        .as_ref()
        .is_some_and(|l| l.can_execute_directly && l.complexity == Complexity::Low && l.blockers.is_empty());
    if !replans && !searches && (steps == 1 || trivial) {
        let why = if steps == 1 {
            "a plan of one step is the task itself"
        } else {
            "the planner calls the task small enough for one worker"
        };
        let reason = cut(&format!("{reason} ({why}, so it is executed directly)"), limits::TEXT_BYTES);
        let outcome = format!("**Executes directly:** {}", line(&reason, 1_000));
        return Ok(PlannerOutput {
            premises: None,
            homework: None,
            mode: PlannerMode::Execute,
            mode_reason: reason,
            leaf_decision: leaf,
            plan: None,
            scratchpad: reply.scratchpad.with(shown, &outcome),
        });
    }
    let summary = cut(&reply.plan.summary, limits::TEXT_BYTES);
    remarks.insert(0, format!("**Plans** {steps} steps in {} bands: {}", bands.len(), line(&summary, 1_000)));
    Ok(PlannerOutput {
        premises: None,
        homework: None,
        mode: PlannerMode::Plan,
        mode_reason: reason,
        leaf_decision: leaf,
        plan: Some(PlanDraft { summary, bands }),
        scratchpad: reply.scratchpad.with(shown, &remarks.join("\n\n")),
    })
}

impl Notes {
    /// The notes, within the contract's bounds.
    pub(super) fn text(&self) -> String {
        cut(&self.append_markdown, limits::TEXT_BYTES)
    }

    /// The scratchpad entry with a line on what came of the answer.
    pub(super) fn with(&self, shown: bool, outcome: &str) -> ScratchpadDraft {
        scratchpad(&self.text(), shown, outcome)
    }
}

/// Sorts the bands and gives each step an id that no other step has. Also returns remarks that say what was changed.
fn bands(mut bands: Vec<Band>, prior: &[PriorStep]) -> Result<(Vec<BandDraft>, Vec<String>), Vec<String>> {
    let mut remarks = Vec::new();
    in_order(&mut bands, |band| band.index, "plan.bands")?;
    bands.retain(|band| !band.steps.is_empty());
    if bands.len() > limits::BANDS {
        remarks.push(format!("*The plan had {} bands; {} were taken.*", bands.len(), limits::BANDS));
        bands.truncate(limits::BANDS);
    }
    let known: BTreeMap<&str, &str> = prior.iter().map(|p| (p.id.as_str(), p.title.as_str())).collect();
    let mut taken = BTreeSet::new();
    let mut drafts = Vec::with_capacity(bands.len());
    for (b, band) in bands.into_iter().enumerate() {
        let mut steps = band.steps;
        in_order(&mut steps, |step| step.step_index, &format!("plan.bands[{b}].steps"))?;
        if steps.len() > limits::STEPS_PER_BAND {
            let most = limits::STEPS_PER_BAND;
            remarks.push(format!("*Band {} had {} steps; {most} were taken.*", b + 1, steps.len()));
            steps.truncate(most);
        }
        let mut draft = BandDraft {
            index: b as u32,
            goal: cut(&band.goal, limits::TEXT_BYTES),
            parallelizable: band.parallelizable,
            steps: Vec::with_capacity(steps.len()),
        };
        for (s, step) in steps.into_iter().enumerate() {
            let title = line(&step.title, limits::TITLE_BYTES);
            // The next prompt shows it outside of marks.
            let wanted = cut(&material::line(&step.id), limits::STEP_ID_BYTES - 8);
            let wanted = if wanted.is_empty() { format!("s{}", taken.len() + 1) } else { wanted };
            // An id belongs to one step. A step of an earlier plan keeps its id only if its title is the same.
            let free = |id: &str| !taken.contains(id) && known.get(id).is_none_or(|t| *t == title);
            let id = std::iter::once(wanted.clone())
                .chain((2..).map(|n| format!("{wanted}-{n}")))
                .find(|id| free(id))
                .unwrap_or_else(|| unreachable!("there are more numbers than steps"));
            if id != wanted {
                remarks.push(format!("*The step id {wanted:?} was taken; {title:?} is {id:?}.*"));
            }
            taken.insert(id.clone());
            let criteria = step.success_criteria.iter().filter(|c| !c.trim().is_empty());
            draft.steps.push(StepDraft {
                branch_id: None,
                budget: step.budget.and_then(StepBudget::draft),
                deliverable: step.deliverable.map(ResultKind::from),
                profile: step.profile.map(Profile::from),
                id: StepId::new(id),
                title,
                reason: cut(&step.reason, limits::TEXT_BYTES),
                success_criteria: criteria
                    .take(limits::CRITERIA)
                    .map(|c| cut(c, limits::TEXT_BYTES))
                    .collect(),
                step_index: s as u32,
                strategy: step.search.map(|_| Strategy::Search),
                search: step.search.map(StepSearch::from),
            });
        }
        drafts.push(draft);
    }
    Ok((drafts, remarks))
}

/// Sorts by the positions that the model gave. It may leave out all of them or start at any number, but they must be
/// distinct.
fn in_order<T>(items: &mut [T], index: impl Fn(&T) -> Option<u32>, at: &str) -> Result<(), Vec<String>> {
    let given: Vec<u32> = items.iter().filter_map(&index).collect();
    if given.is_empty() {
        return Ok(());
    }
    let distinct: BTreeSet<u32> = given.iter().copied().collect();
    if given.len() != items.len() || distinct.len() != given.len() {
        return Err(vec![format!("{at}: number all of them 0..n-1, each once, or none; got {given:?}")]);
    }
    items.sort_by_key(|item| index(item));
    Ok(())
}
