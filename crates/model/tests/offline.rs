//! The offline model on a folder of documents, in whole runs: plan, execute, aggregate, down to the leaves.

#[path = "offline/answers.rs"]
mod answers;
#[path = "offline/citations.rs"]
mod citations;
#[path = "offline/homework.rs"]
mod homework;
#[path = "offline/research.rs"]
mod research;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use tokio::sync::mpsc;
use tree_agent_contract::role::*;
use tree_agent_contract::{
    Allowance, ArtifactId, Budgets, Citation, DocumentId, NodeId, NodeStatus, ProjectId, RunContext, RunId,
    ToolRules, TreeAgentResult,
};
use tree_agent_model::{Offline, RoleIo, RoleModel};
use tree_agent_tools::{Caller, MemoryDocuments, ToolRegistry};

/// The corpus as documents of one project, path to body.
fn corpus() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut files = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(&root).unwrap().to_str().unwrap().replace('\\', "/");
                files.insert(name, std::fs::read_to_string(path).unwrap());
            }
        }
    }
    files
}

/// The documents of nodes, each with its checked citations.
type Cited = BTreeMap<DocumentId, (String, Vec<Citation>)>;

/// A run without a driver: the same calls in the same order.
struct Runner {
    documents: Arc<MemoryDocuments>,
    /// Path to body of all documents.
    added: Mutex<BTreeMap<String, String>>,
    tools: ToolRegistry,
    run: RunId,
    context: RunContext,
    objective: String,
    budgets: Budgets,
    /// What each role call may make of them.
    tool_calls: Option<u64>,
    fail: Option<&'static str>,
    /// Homework refuses tasks with this in their title.
    cuts: Option<&'static str>,
    /// The path of a document that is removed when the root has planned, or gets this body.
    changed: Option<(&'static str, Option<String>)>,
    /// A tool is not offered, so calls of it fail.
    denies: bool,
    language: &'static str,
    /// If present, a role service answers as well: the documents of all nodes, with the citations that it has checked.
    cited: Option<Mutex<Cited>>,
}

struct Done {
    outcome: ChildOutcome,
    /// The titles of the tree, indented.
    tree: String,
    /// The primary document.
    document: String,
    /// Of tools, in the whole subtree.
    calls: usize,
}

impl Runner {
    fn new(objective: &str, seed: u128) -> Self {
        let documents = Arc::new(MemoryDocuments::default());
        let project: ProjectId = documents.add_project(&format!("harbour {seed}"));
        let added = corpus();
        for (path, body) in &added {
            documents.add_source(project, path, body);
        }
        Self {
            added: Mutex::new(added),
            tools: ToolRegistry::new(documents.clone()),
            documents,
            run: RunId(uuid::Uuid::from_u128(seed)),
            context: RunContext::project(project),
            objective: objective.into(),
            budgets: Budgets::default(),
            tool_calls: None,
            fail: None,
            cuts: None,
            changed: None,
            denies: false,
            language: "",
            cited: None,
        }
    }

    fn io(&self, phase: &'static str) -> (RoleIo, mpsc::Receiver<RoleUpdate>) {
        let tools = self.tools.tool_set(Caller::new(self.run, self.context.clone()));
        let (io, updates) = RoleIo::new(tools, phase);
        let io = io.speaking(self.language);
        (io.allowing(Allowance { tool_calls: self.tool_calls, ..Default::default() }), updates)
    }

    /// Makes a call while its updates are read; says how many tool calls it made.
    async fn call<T>(
        &self,
        phase: &'static str,
        f: impl AsyncFnOnce(&RoleIo) -> Result<T, RoleError>,
    ) -> (T, usize) {
        let (io, mut updates) = self.io(phase);
        let reading = async {
            let mut calls = 0;
            while let Some(update) = updates.recv().await {
                match update {
                    RoleUpdate::ToolCallResult(result) => {
                        let is_refused = !result.ok && self.tool_calls.is_some();
                        assert!(result.ok || self.denies || is_refused, "{result:?}");
                        calls += usize::from(!is_refused);
                    }
                    RoleUpdate::Usage { usage, .. } => assert_eq!(usage.model, "offline"),
                    _ => {}
                }
            }
            calls
        };
        let working = async {
            let answer = f(&io).await.unwrap();
            drop(io);
            answer
        };
        futures::join!(working, reading)
    }

    fn change_at(&self, depth: u32) {
        let project = self.context.project_ids[0];
        match self.changed.as_ref().filter(|_| depth == 0) {
            Some((path, None)) => self.documents.remove_source(project, path),
            Some((path, Some(body))) => _ = self.documents.add_source(project, path, body),
            None => {}
        }
    }

    fn begins(&self, step: &StepDraft) -> bool {
        self.cuts.is_none_or(|cut| !step.title.contains(cut))
    }

    fn add(&self, path: &str, body: &str) {
        self.documents.add_source(self.context.project_ids[0], path, body);
        self.added.lock().unwrap().insert(path.to_owned(), body.to_owned());
    }

    fn body(&self, path: &str) -> String {
        self.added.lock().unwrap()[path].clone()
    }

    async fn run(&self) -> Done {
        let title = self.objective.lines().next().unwrap_or_default();
        let root = StepDraft::new(tree_agent_contract::StepId::new("root"), title);
        self.node(NodeId::root(self.run), root, 0, vec![]).await
    }

    fn node(
        &self,
        id: NodeId,
        step: StepDraft,
        depth: u32,
        earlier: Vec<ChildOutcome>,
    ) -> BoxFuture<'_, Done> {
        async move {
            let mut call = CallContext {
                node_id: id,
                reason: step.reason.clone(),
                success_criteria: step.success_criteria.clone(),
                depth,
                budgets: self.budgets.clone(),
                model: "offline".into(),
                ..context(self, &step.title)
            };
            let mut tree = format!("{}- {}\n", "  ".repeat(depth as usize), step.title);
            if self.fail.is_some_and(|title| step.title.contains(title)) {
                let outcome = ChildOutcome {
                    node_id: id,
                    step_id: step.id,
                    title: step.title,
                    status: NodeStatus::Failed,
                    partial: false,
                    result: None,
                    error: Some("the disk is on fire".into()),
                    artifacts: vec![],
                    scratchpad_doc_id: None,
                    scratchpad_tail: None,
                };
                return Done { outcome, tree, document: "".into(), calls: 0 };
            }
            let input = PlanInput {
                review: false,
                homework: None,
                call: call.clone(),
                existing_plan_summary: String::new(),
                replan_reason: String::new(),
                earlier_result: None,
                prior_steps: vec![],
            };
            let (output, mut calls) = self.call("plan", async |io| Offline.plan(&input, io).await).await;
            output.validate(&[]).unwrap();
            call.scratchpad_tail = output.scratchpad.tail_preview;
            let mut checked = Vec::new();
            let (artifacts, result) = if let Some(plan) = output.plan {
                self.change_at(depth);
                assert!(depth < self.budgets.max_depth);
                assert!(plan.bands.len() <= self.budgets.max_bands_per_plan as usize);
                let mut children: Vec<ChildOutcome> = Vec::new();
                for band in plan.bands {
                    assert!(band.steps.len() <= self.budgets.max_steps_per_band as usize);
                    let before = children.clone();
                    let steps = band.steps.into_iter().filter(|step| self.begins(step));
                    // Unordered on purpose: what finishes first must not matter.
                    let mut done: Vec<(u32, Done)> = futures::stream::iter(steps)
                        .map(|step| {
                            let (child, index) = (NodeId::child(id, 1, &step.id), step.step_index);
                            self.node(child, step, depth + 1, before.clone()).map(move |done| (index, done))
                        })
                        .buffer_unordered(4)
                        .collect()
                        .await;
                    done.sort_by_key(|(index, _)| *index);
                    for (_, child) in done {
                        tree.push_str(&child.tree);
                        calls += child.calls;
                        children.push(child.outcome);
                    }
                }
                let input = AggregateInput {
                    homework: None,
                    call: call.clone(),
                    plan_summary: plan.summary,
                    children,
                    exhausted_budget: None,
                };
                let (output, made) =
                    self.call("aggregate", async |io| Offline.aggregate(&input, io).await).await;
                output.validate().unwrap();
                calls += made;
                if self.cited.is_some() {
                    checked = self.checked_aggregate(&input).await;
                }
                (output.artifacts, output.result)
            } else {
                self.change_at(depth);
                let input = ExecuteInput { task: None, call: call.clone(), earlier };
                let (output, made) = self.call("execute", async |io| Offline.execute(&input, io).await).await;
                output.validate().unwrap();
                calls += made;
                if self.cited.is_some() {
                    checked = self.checked_execute(&input).await;
                }
                (output.artifacts, output.result)
            };
            let document = artifacts[0].document_markdown.clone().unwrap();
            let document_id = DocumentId::of_artifact(ArtifactId::of(id, 0, &artifacts[0].label));
            if self.cited.is_some() {
                self.note_citations(document_id, &checked);
            }
            self.documents.add_artifact(self.run, document_id, &step.title, &document);
            let outcome = ChildOutcome {
                node_id: id,
                step_id: step.id,
                title: step.title,
                status: NodeStatus::Completed,
                partial: false,
                result: Some(TreeAgentResult {
                    kind: result.kind,
                    summary: result.summary,
                    success_assessment: result.success_assessment,
                    primary_artifact_id: None,
                    artifact_ids: vec![],
                    document_ids: vec![document_id],
                    json_payload: artifacts[1].json_payload.clone(),
                    scratchpad_doc_id: None,
                    scratchpad_tail: None,
                    key_findings: Vec::new(),
                    gaps: Vec::new(),
                }),
                error: None,
                artifacts: vec![],
                scratchpad_doc_id: None,
                scratchpad_tail: None,
            };
            Done { outcome, tree, document, calls }
        }
        .boxed()
    }
}

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The quotations of an answer: each with the path of its source.
fn quoted(document: &str) -> Vec<(String, String)> {
    let notes = document.lines().filter_map(|line| line.strip_prefix("[^")?.split_once("]: "));
    let sources: BTreeMap<&str, &str> = notes.collect();
    let lines = document
        .lines()
        .map(|line| line.strip_prefix('>').map(|line| line.strip_prefix(' ').unwrap_or(line)));
    let quotations = lines.map(Option::unwrap_or_default).collect::<Vec<_>>().join("\n");
    let mut quoted = Vec::new();
    let mut rest = quotations.as_str();
    while let Some((text, behind)) = rest.split_once("[^") {
        let (number, more) = behind.split_once(']').unwrap();
        // What a source calls a footnote is text.
        assert!(!text.ends_with('\\'), "{document}");
        let text = text.trim().trim_start_matches("```text").trim_end_matches("```").trim();
        quoted.push((text.to_owned(), sources[number].split(" › ").next().unwrap().replace('\\', "")));
        rest = more.split_once('\n').map_or("", |(_, rest)| rest);
    }
    quoted
}

/// Every quotation stands in its source.
fn check_quotations(runner: &Runner, done: &Done) -> Vec<(String, String)> {
    let quoted = quoted(&done.document);
    assert!(!quoted.is_empty(), "{}", done.document);
    for (text, path) in &quoted {
        let body = runner.body(path);
        assert!(flat(&body).contains(&flat(text)), "{text:?} does not stand in {path}");
    }
    quoted
}

fn met(done: &Done) -> bool {
    done.outcome.result.as_ref().unwrap().success_assessment.as_ref().unwrap().met
}

const STORM: &str = "What happens in a storm with cranes, pilots, the fairway and mooring lines?";

#[tokio::test]
async fn each_source_is_a_step_and_the_answer_is_one_ranking() {
    let runner = Runner::new(STORM, 1);
    let done = runner.run().await;
    let quoted = check_quotations(&runner, &done);
    assert!(met(&done));
    insta::assert_snapshot!("storm_tree", done.tree);
    insta::assert_snapshot!("storm_answer", done.document);
    let sources: std::collections::BTreeSet<&String> = quoted.iter().map(|(_, path)| path).collect();
    assert_eq!(done.tree.lines().count(), 1 + sources.len(), "{}", done.tree);
    // The root searches once, and each step reads its document once.
    assert_eq!(done.calls, 1 + sources.len());
}

#[tokio::test]
async fn one_source_needs_no_steps() {
    let runner = Runner::new("What is the tidal range?", 1);
    let done = runner.run().await;
    assert_eq!(done.tree.lines().count(), 1, "{}", done.tree);
    assert!(check_quotations(&runner, &done)[0].0.contains("1.4 metres at springs"), "{}", done.document);
    // A run that keeps its answers makes the second search for nothing.
    assert_eq!(done.calls, 3);
}

#[tokio::test]
async fn the_same_documents_give_the_same_text_whatever_the_ids() {
    let (one, other) = (Runner::new(STORM, 1).run().await, Runner::new(STORM, 99).run().await);
    assert_eq!(one.document, other.document);
    assert_eq!(one.tree, other.tree);
    assert!(one.document.contains("it quotes and does not reason"));
}

#[tokio::test]
async fn a_failed_child_is_named_and_the_rest_is_kept() {
    let mut runner = Runner::new(STORM, 1);
    runner.fail = Some("Storms");
    let done = runner.run().await;
    check_quotations(&runner, &done);
    assert!(done.document.contains("failed: the disk is on fire"), "{}", done.document);
    assert!(!met(&done));
}

#[tokio::test]
async fn budgets_bound_the_tree() {
    for (depth, steps, bands) in [(0, 4, 3), (1, 2, 1), (4, 1, 1), (2, 2, 3)] {
        let mut runner = Runner::new(STORM, 1);
        runner.budgets.max_depth = depth;
        runner.budgets.max_steps_per_band = steps;
        runner.budgets.max_bands_per_plan = bands;
        // The runner itself asserts the bounds at every node.
        let done = runner.run().await;
        check_quotations(&runner, &done);
        let alone = depth == 0 || steps * bands == 1;
        assert_eq!(done.tree.lines().count() == 1, alone, "{depth} {steps} {bands}:\n{}", done.tree);
    }
}

#[tokio::test]
async fn a_document_that_was_deleted_is_a_gap() {
    let mut runner = Runner::new(STORM, 1);
    runner.changed = Some(("safety/storms.md", None));
    runner.denies = true;
    let done = runner.run().await;
    assert!(
        done.document.contains("safety/storms.md was deleted before it could be read."),
        "{}",
        done.document
    );
    assert!(quoted(&done.document).len() > 1 && !met(&done));
}

/// The places that the plan names are those of other words now.
#[tokio::test]
async fn a_document_that_was_changed_is_a_gap_and_not_quoted_at_the_old_places() {
    let mut runner = Runner::new(STORM, 1);
    let body = format!("A note above.\n\n{}", runner.body("safety/storms.md"));
    runner.changed = Some(("safety/storms.md", Some(body)));
    let done = runner.run().await;
    assert!(done.document.contains("safety/storms.md has changed since it was found."), "{}", done.document);
    assert!(
        quoted(&done.document).iter().all(|(_, source)| !source.contains("storms.md")),
        "{}",
        done.document
    );
    assert!(!met(&done));
}

#[tokio::test]
async fn a_project_without_the_tools_and_a_run_without_calls_say_so() {
    for tool in ["search_documents", "read_document"] {
        let mut runner = Runner::new("What is the tidal range?", 1);
        let rules = ToolRules { denied_tools: vec![tool.to_owned()], ..ToolRules::default() };
        runner.documents.set_rules(runner.context.project_ids[0], rules);
        runner.denies = true;
        let done = runner.run().await;
        assert!(done.document.contains("Not found: "), "{}", done.document);
        assert!(done.document.contains(&format!("does not offer {tool}")), "{}", done.document);
        assert!(!met(&done));
    }
    let mut runner = Runner::new("What is the tidal range?", 1);
    for (allowed, tool) in [(0, "search_documents"), (1, "read_document")] {
        runner.tool_calls = Some(allowed);
        let done = runner.run().await;
        assert!(done.document.contains(&format!("{tool} could not be called")), "{}", done.document);
        assert!(!met(&done));
    }
}

fn context(runner: &Runner, title: &str) -> CallContext {
    CallContext {
        run_id: runner.run,
        node_id: NodeId::root(runner.run),
        attempt: 1,
        objective: runner.objective.clone(),
        title: title.into(),
        reason: String::new(),
        success_criteria: vec![],
        depth: 0,
        budgets: Budgets::default(),
        context: runner.context.clone(),
        model: String::new(),
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
