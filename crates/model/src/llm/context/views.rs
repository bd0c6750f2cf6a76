//! The inputs of the roles as their prompts show them.

use std::fmt::Write;

use serde::Serialize;
use tree_agent_contract::language::language;
use tree_agent_contract::role::{
    AggregateInput, ArtifactRef, CallContext, ChildOutcome, EarlierCall, ExecuteInput, PlanInput, RoleError,
    VerifyInput,
};
use tree_agent_contract::text::prefix;
use tree_agent_contract::{Budgets, Finding, ResultKind, SiblingFindings, TreeAgentResult};

use super::super::material::line;
use super::super::prompt::{Prompt, Template, render};
use super::super::reading::Documents;
use super::super::survey::{Hit, Survey};
use super::PromptTrimmer;
use super::homework::{self, Ended, Task};
use crate::cite::disagree::{self, Quoted};

/// Bytes of the arguments of a tool call of an earlier attempt.
const EARLIER_ARGS: usize = 200;
/// Bytes of the date in a timestamp.
const DATE: usize = "2026-01-27".len();

#[derive(Serialize)]
pub(super) struct Call {
    objective: String,
    title: String,
    reason: String,
    criteria: Vec<String>,
    depth: u32,
    /// What people have told the node.
    guidance: String,
    /// What is left of a budget that is nearly used up, in words.
    finish: Option<String>,
    /// The day on which the call was made, in UTC; empty if nobody said.
    today: String,
    /// Minutes that are left of the time.
    minutes_left: Option<u64>,
    /// What siblings have found so far.
    siblings: Vec<Sibling>,
    /// Tool calls of earlier attempts.
    earlier_calls: Vec<String>,
    /// The English name of the language of the run; empty if nobody knows.
    language: &'static str,
}

/// A tool call of an earlier attempt, in a line.
fn earlier_call(call: &EarlierCall) -> String {
    let args = call.args.as_ref().and_then(|args| serde_json::to_string(args).ok()).unwrap_or_default();
    let outcome = match call.ok {
        Some(true) => format!("done: {}", call.outcome),
        Some(false) => format!("failed: {}", call.outcome),
        None if call.writes => {
            "cut off: nobody knows whether it was carried out; it is not made again".to_owned()
        }
        None => "cut off".to_owned(),
    };
    line(&format!("{} {}: {outcome}", call.tool_name, prefix(&args, EARLIER_ARGS)))
}

#[derive(Serialize)]
struct Sibling {
    title: String,
    status: &'static str,
    found: String,
}

impl Sibling {
    fn of(sibling: &SiblingFindings, trimmer: &mut PromptTrimmer) -> Self {
        let mut found = sibling.summary.trim().to_owned();
        for Finding { tool, about, found: answer } in &sibling.findings {
            let _ = write!(found, "\n- {tool} ({about}): {answer}");
        }
        let (title, status) = (line(&sibling.title), sibling.status.as_str());
        Self { title, status, found: trimmer.finding(found.trim_start()) }
    }
}

impl Call {
    pub(super) fn of(call: &CallContext, trimmer: &mut PromptTrimmer) -> Self {
        // The root has the user's words. A model said what every other node is to do.
        let said = |text: &str| if call.depth == 0 { text.to_owned() } else { line(text) };
        trimmer.task = line(&call.title);
        Self {
            objective: trimmer.own(&call.objective),
            title: trimmer.own(&said(&call.title)),
            reason: trimmer.own(&said(&call.reason)),
            criteria: call.success_criteria.iter().map(|c| trimmer.own(&said(c))).collect(),
            depth: call.depth,
            guidance: trimmer.told(call),
            today: call.started_at.map_or_else(String::new, |at| prefix(&at.to_string(), DATE).to_owned()),
            minutes_left: call.time_left_ms.map(|ms| ms.div_ceil(60_000)),
            siblings: call.siblings.iter().map(|sibling| Sibling::of(sibling, trimmer)).collect(),
            earlier_calls: call
                .earlier_calls
                .iter()
                .map(|call| trimmer.finding(&earlier_call(call)))
                .collect(),
            language: language(&call.language).map_or("", |language| language.name),
            finish: call.finish.as_ref().map(|f| format!("{} of {} ({})", f.left, f.limit, f.budget)),
        }
    }
}

#[derive(Serialize)]
struct Limits {
    max_depth: u32,
    max_bands_per_plan: u32,
    max_steps_per_band: u32,
    max_children_per_node: u32,
    max_parallel_steps: u32,
    /// What may be used, in words; empty for no limit.
    amounts: String,
}

#[derive(Serialize)]
struct Step {
    id: String,
    title: String,
    status: &'static str,
    summary: String,
}

#[derive(Serialize)]
struct PlannerView {
    call: Call,
    /// A person reviews the decision.
    review: bool,
    budgets: Limits,
    leaf_children: bool,
    survey: Survey,
    scratchpad: String,
    existing_plan: String,
    earlier_result: String,
    steps: Vec<Step>,
    replan_reason: String,
    left_out: Vec<String>,
    is_small: bool,
}

/// What a result amounts to: its summary, what it found and what it misses.
fn amounts_to(result: &TreeAgentResult) -> String {
    let list = |what: &str, all: &[String]| match all {
        [] => String::new(),
        all => format!("\n\n{what}:\n- {}", all.iter().map(|one| line(one)).collect::<Vec<_>>().join("\n- ")),
    };
    result.summary.clone() + &list("It found", &result.key_findings) + &list("It misses", &result.gaps)
}

/// What may be used, such as `50000 tokens and 12 tool calls`; empty for no limit.
fn amounts(budgets: &Budgets) -> String {
    let parts = [
        budgets.max_tokens.map(|n| format!("{n} tokens")),
        budgets.max_cost_micros.map(|n| format!("{n} millionths of a dollar")),
        budgets.max_tool_calls.map(|n| format!("{n} tool calls")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

/// The planner's prompt.
pub(in crate::llm) fn planner(
    input: &PlanInput,
    survey: &Survey,
    schema: Option<&str>,
    is_small: bool,
    trimmer: &mut PromptTrimmer,
) -> Result<Prompt, RoleError> {
    let budgets = &input.call.budgets;
    let steps = input.prior_steps.iter().map(|step| Step {
        id: line(step.id.as_str()),
        title: line(&step.title),
        status: step.status.as_str(),
        summary: trimmer.summary(&step.summary),
    });
    let steps = steps.collect();
    let mut view = PlannerView {
        steps,
        is_small,
        call: Call::of(&input.call, trimmer),
        review: input.review,
        budgets: Limits {
            max_depth: budgets.max_depth,
            max_bands_per_plan: budgets.max_bands_per_plan,
            max_steps_per_band: budgets.max_steps_per_band,
            max_children_per_node: budgets.max_children_per_node,
            max_parallel_steps: budgets.max_parallel_steps,
            amounts: amounts(budgets),
        },
        leaf_children: input.call.depth + 1 >= budgets.max_depth,
        survey: trimmer.survey(survey),
        scratchpad: trimmer.scratchpad(&input.call.scratchpad_tail),
        existing_plan: trimmer.summary(&input.existing_plan_summary),
        earlier_result: input
            .earlier_result
            .as_ref()
            .map_or_else(String::new, |r| trimmer.summary(&amounts_to(r))),
        replan_reason: trimmer.own(&input.replan_reason),
        left_out: Vec::new(),
    };
    view.left_out = trimmer.left_out();
    render(Template::Planner, schema, &view)
}

#[derive(Serialize)]
struct Child {
    title: String,
    status: &'static str,
    partial: bool,
    summary: String,
    assessment: String,
    /// The gaps of its synthesis.
    missing: String,
    error: String,
    /// The id of its scratchpad, and how that ends.
    scratchpad: String,
    notes: String,
    json: String,
    artifacts: Vec<Artifact>,
}

#[derive(Serialize)]
struct Artifact {
    label: String,
    line: String,
    /// How much of the document is shown, in words.
    extent: String,
    body: String,
    snippet: String,
    json: String,
}

impl Child {
    fn of(child: &ChildOutcome, read: &Documents, trimmer: &mut PromptTrimmer) -> Self {
        let result = child.result.as_ref();
        let assessment = result.and_then(|r| r.success_assessment.as_ref()).map(|a| {
            let met = if a.met { "the success criteria are met" } else { "the success criteria are not met" };
            a.notes.as_ref().map_or_else(|| met.to_owned(), |notes| format!("{met}; {}", line(notes)))
        });
        // An artifact that carries its data repeats that of the result.
        let is_repeated = child.artifacts.iter().any(|artifact| artifact.json_payload.is_some());
        let payload = result.and_then(|r| r.json_payload.as_ref()).filter(|_| !is_repeated);
        let json = payload.and_then(|p| serde_json::to_string(p).ok()).unwrap_or_default();
        Self {
            title: line(&child.title),
            status: child.status.as_str(),
            partial: child.partial,
            summary: trimmer.summary(result.map_or("", |r| r.summary.as_str())),
            assessment: trimmer.summary(&assessment.unwrap_or_default()),
            missing: trimmer.summary(&result.map_or_else(String::new, |r| r.gaps.join("; "))),
            error: trimmer.summary(child.error.as_deref().unwrap_or_default()),
            scratchpad: result
                .and_then(|r| r.scratchpad_doc_id)
                .or(child.scratchpad_doc_id)
                .map_or_else(String::new, |id| id.to_string()),
            notes: trimmer.snippet(
                result
                    .and_then(|r| r.scratchpad_tail.as_deref())
                    .or(child.scratchpad_tail.as_deref())
                    .unwrap_or_default()
                    .trim(),
            ),
            json: trimmer.json(&json),
            artifacts: child.artifacts.iter().map(|a| Artifact::of(a, read, trimmer)).collect(),
        }
    }
}

impl Artifact {
    fn of(artifact: &ArtifactRef, read: &Documents, trimmer: &mut PromptTrimmer) -> Self {
        let what = match artifact.document_id {
            Some(id) => format!("document \"{}\", document_id {id}", line(&artifact.title)),
            None => "data".to_owned(),
        };
        let marks = match (artifact.is_primary, artifact.hinted) {
            (true, true) => " (primary; its worker says: read it)",
            (true, false) => " (primary)",
            (false, true) => " (its worker says: read it)",
            (false, false) => "",
        };
        let document = artifact.document_id.and_then(|id| trimmer.document(id, read.get(&id)?));
        let (body, extent) = document.unwrap_or_default();
        let json = artifact.json_payload.as_ref().and_then(|data| serde_json::to_string(data).ok());
        Self {
            line: format!("[{}] {what}{marks}", line(&artifact.label)),
            label: artifact.label.clone(),
            snippet: match body.is_empty() {
                true => trimmer.snippet(artifact.snippet.as_deref().unwrap_or_default()),
                false => String::new(),
            },
            json: trimmer.json(&json.unwrap_or_default()),
            body,
            extent,
        }
    }
}

#[derive(Serialize)]
struct ExecutorView {
    call: Call,
    tools: bool,
    deliverable: &'static str,
    scratchpad: String,
    /// What it is in homework.
    task: Option<Task>,
    earlier: Vec<Child>,
    /// What a search for the task finds.
    passages: Vec<Hit>,
    /// Which of it disagrees.
    disagreements: Vec<String>,
    left_out: Vec<String>,
}

/// The executor's prompt, with the `passages` that a search finds for its task. `tools`: whether it is offered any.
pub(in crate::llm) fn executor(
    input: &ExecuteInput,
    passages: &[Hit],
    tools: bool,
    schema: Option<&str>,
    trimmer: &mut PromptTrimmer,
) -> Result<Prompt, RoleError> {
    let mut view = ExecutorView {
        call: Call::of(&input.call, trimmer),
        tools,
        deliverable: match input.call.deliverable {
            Some(ResultKind::Json) => "data (JSON)",
            Some(ResultKind::Hybrid) => "a document in Markdown and data (JSON)",
            Some(ResultKind::Document) | None => "a document in Markdown",
        },
        scratchpad: trimmer.scratchpad(&input.call.scratchpad_tail),
        task: input.task.as_ref().map(|task| Task::of(task, &input.call.context.project_ids, trimmer)),
        earlier: input.earlier.iter().map(|child| Child::of(child, &Documents::new(), trimmer)).collect(),
        passages: trimmer.passages(passages),
        disagreements: disagreements(
            passages.iter().flat_map(|hit| Quoted::all(hit.id, &hit.passage, &hit.place)),
            trimmer,
        ),
        left_out: Vec::new(),
    };
    view.left_out = trimmer.left_out();
    render(Template::Executor, schema, &view)
}

#[derive(Serialize)]
struct AggregatorView {
    call: Call,
    /// It may read on.
    tools: bool,
    plan: String,
    exhausted: Option<String>,
    scratchpad: String,
    /// How the homework went.
    homework: Option<Ended>,
    children: Vec<Child>,
    /// Which of what they quote disagrees.
    disagreements: Vec<String>,
    left_out: Vec<String>,
}

/// Pairs of quotes that say something else of the same. A provider that has refused a passage sees no other of its
/// document.
fn disagreements(quoted: impl Iterator<Item = Quoted>, trimmer: &mut PromptTrimmer) -> Vec<String> {
    let pairs = disagree::among(quoted.filter(|one| !trimmer.is_refused(one.document_id)));
    let pairs = disagree::lines(&pairs);
    pairs.iter().map(|pair| trimmer.finding(&line(pair))).filter(|pair| !pair.is_empty()).collect()
}

/// The children that the aggregator's prompt shows. Of a long homework the summaries of the branches tell what the
/// first tasks found.
pub(in crate::llm) fn shown_children(input: &AggregateInput) -> &[ChildOutcome] {
    match &input.homework {
        Some(_) => &input.children[input.children.len().saturating_sub(homework::TASKS)..],
        None => &input.children,
    }
}

/// The aggregator's prompt. `tools`: whether it may read on.
pub(in crate::llm) fn aggregator(
    input: &AggregateInput,
    read: &Documents,
    tools: bool,
    schema: Option<&str>,
    trimmer: &mut PromptTrimmer,
) -> Result<Prompt, RoleError> {
    let shown = shown_children(input);
    let told = read.iter().filter(|(id, _)| !trimmer.is_refused(**id));
    let told: Vec<_> = told.map(|(_, document)| document).collect();
    let mut view = AggregatorView {
        call: Call::of(&input.call, trimmer),
        tools,
        plan: trimmer.summary(&input.plan_summary),
        exhausted: input.exhausted_budget.clone(),
        scratchpad: trimmer.scratchpad(&input.call.scratchpad_tail),
        homework: input.homework.as_ref().map(|brief| Ended::of(brief, input, trimmer)),
        children: shown.iter().map(|child| Child::of(child, read, trimmer)).collect(),
        disagreements: disagreements(
            told.into_iter().flat_map(|document| Quoted::cited(&document.text)),
            trimmer,
        ),
        left_out: Vec::new(),
    };
    view.left_out = trimmer.left_out();
    render(Template::Aggregator, schema, &view)
}

#[derive(Serialize)]
struct VerifierView {
    call: Call,
    answer: Child,
    may_replan: bool,
    left_out: Vec<String>,
}

/// The verifier's prompt.
pub(in crate::llm) fn verifier(
    input: &VerifyInput,
    read: &Documents,
    schema: Option<&str>,
    trimmer: &mut PromptTrimmer,
) -> Result<Prompt, RoleError> {
    let mut view = VerifierView {
        call: Call::of(&input.call, trimmer),
        answer: Child::of(&input.answer, read, trimmer),
        may_replan: input.may_replan,
        left_out: Vec::new(),
    };
    view.left_out = trimmer.left_out();
    render(Template::Verifier, schema, &view)
}
