//! The offline model on a folder of documents, in whole runs: plan, execute, aggregate, down to the leaves.

#[path = "offline/citations.rs"]
mod citations;
#[path = "offline/evidence.rs"]
mod evidence;
#[path = "offline/finding.rs"]
mod finding;
#[path = "offline/homework.rs"]
mod homework;
#[path = "offline/trail.rs"]
mod trail;

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
    tools: ToolRegistry,
    run: RunId,
    context: RunContext,
    objective: String,
    budgets: Budgets,
    /// What each role call may make of them.
    tool_calls: Option<u64>,
    fail: Option<&'static str>,
    /// Steps with this in their title, or with this id, never begin, because a budget is used up.
    cuts: Option<&'static str>,
    /// A document, path and body, that is added when the root has planned and all steps, or those of the first
    /// iteration, have ended.
    added: Option<(&'static str, &'static str)>,
    /// The path of a document that is removed at the same time.
    removed: Option<&'static str>,
    /// A tool is not offered, so calls of it fail.
    denies: bool,
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
    payload: serde_json::Map<String, serde_json::Value>,
}

impl Runner {
    fn new(objective: &str, seed: u128) -> Self {
        let documents = Arc::new(MemoryDocuments::default());
        let project: ProjectId = documents.add_project(&format!("harbour {seed}"));
        for (path, body) in corpus() {
            documents.add_source(project, &path, &body);
        }
        Self {
            tools: ToolRegistry::new(documents.clone()),
            documents,
            run: RunId(uuid::Uuid::from_u128(seed)),
            context: RunContext::project(project),
            objective: objective.into(),
            budgets: Budgets::default(),
            tool_calls: None,
            fail: None,
            cuts: None,
            added: None,
            removed: None,
            denies: false,
            cited: None,
        }
    }

    fn io(&self, phase: &'static str) -> (RoleIo, mpsc::Receiver<RoleUpdate>) {
        let tools = self.tools.tool_set(Caller::new(self.run, self.context.clone()));
        let (io, updates) = RoleIo::new(tools, phase);
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
                        assert!(result.ok || self.denies, "{result:?}");
                        calls += 1;
                    }
                    RoleUpdate::Usage(usage) => assert_eq!(usage.model, "offline"),
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

    fn add_at(&self, depth: u32) {
        if let Some((path, body)) = self.added.filter(|_| depth == 0) {
            self.documents.add_source(self.context.project_ids[0], path, body);
        }
        if let Some(path) = self.removed.filter(|_| depth == 0) {
            self.documents.remove_source(self.context.project_ids[0], path);
        }
    }

    fn begins(&self, step: &StepDraft) -> bool {
        self.cuts.is_none_or(|cut| !step.title.contains(cut) && step.id.as_str() != cut)
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
                };
                return Done { outcome, tree, document: "".into(), calls: 0, payload: Default::default() };
            }
            let input = PlanInput {
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
                self.add_at(depth);
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
                self.add_at(depth);
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
            let payload = artifacts[1].json_payload.clone().unwrap();
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
                    json_payload: Some(payload.clone()),
                    scratchpad_doc_id: None,
                    scratchpad_tail: None,
                }),
                error: None,
                artifacts: vec![],
            };
            Done { outcome, tree, document, calls, payload }
        }
        .boxed()
    }
}

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Every passage is a substring of its source, and every finding of the document resolves to one.
fn check_citations(done: &Done) {
    let corpus = corpus();
    let passages = done.payload["passages"].as_array().unwrap();
    assert!(!passages.is_empty());
    for p in passages {
        let (text, path) = (p["text"].as_str().unwrap(), p["path"].as_str().unwrap());
        let at = p["position"].as_u64().unwrap() as usize;
        assert!(corpus[path][at..].starts_with(text), "{text:?} does not stand at {at} of {path}");
    }
    let mut sources = BTreeMap::new();
    let mut findings = Vec::new();
    let mut section = "";
    for line in done.document.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading;
        } else if section == "Sources" {
            if let Some((number, source)) = line.split_once(". ") {
                sources.insert(number.to_owned(), source.to_owned());
            }
        } else if section != "Gaps" && !section.is_empty() && line.starts_with("- “") {
            findings.push(line);
        } else {
            // Nothing else is said but what the rules know: of findings above, or how far they answer.
            let known = ["", "- In the summary: [", "*Take care: no passage answers"];
            let free = section.is_empty() || section == "Gaps";
            assert!(free || known.iter().any(|k| line.starts_with(k)), "{line:?}");
        }
    }
    assert!(!findings.is_empty());
    for finding in findings {
        let (quoted, number) = finding.rsplit_once(" [").unwrap_or_else(|| panic!("no source: {finding:?}"));
        let source = &sources[number.trim_end_matches(']')];
        let (path, heading) = source.split_once(" › ").unwrap_or((source, ""));
        let text = quoted.trim_start_matches("- “").trim_end_matches('”');
        assert!(flat(&corpus[path]).contains(text), "{text:?} does not stand in {path}");
        let known = passages.iter().any(|p| {
            p["path"] == path && p["heading"] == heading && flat(p["text"].as_str().unwrap()) == text
        });
        assert!(known, "{text:?} of {source:?} is in no payload");
    }
}

#[tokio::test]
async fn an_objective_over_several_documents_is_planned_and_merged() {
    let done =
        Runner::new("What happens in a storm: cranes, pilots, fairway and mooring lines?", 1).run().await;
    check_citations(&done);
    insta::assert_snapshot!("storm_tree", done.tree);
    insta::assert_snapshot!("storm_synthesis", done.document);
}

#[tokio::test]
async fn a_comparison_has_two_parts_and_a_band_that_builds_on_them() {
    let done = Runner::new("Compare pilots and cranes", 1).run().await;
    check_citations(&done);
    insta::assert_snapshot!("compare_tree", done.tree);
    insta::assert_snapshot!("compare_synthesis", done.document);
    let together = Runner::new("Compare pilots with the fairway", 1).run().await;
    check_citations(&together);
    assert!(
        together.document.contains("No pilot boards while the fairway is closed."),
        "{}",
        together.document
    );
    assert!(!together.document.contains("mentions both"), "{}", together.document);
}

#[tokio::test]
async fn several_questions_are_answered_one_by_one() {
    let done = Runner::new("When may a pilot refuse? What does a crane cost? How is water delivered?", 1)
        .run()
        .await;
    check_citations(&done);
    insta::assert_snapshot!("questions_tree", done.tree);
}

#[tokio::test]
async fn the_same_documents_give_the_same_text_whatever_the_ids() {
    let objective = "How are storm warnings, fairway closing and the duty officer connected?";
    let (one, other) = (Runner::new(objective, 1).run().await, Runner::new(objective, 99).run().await);
    assert_eq!(one.document, other.document);
    assert_eq!(one.tree, other.tree);
    assert!(one.document.contains("no language model"));
}

#[tokio::test]
async fn a_trivial_question_takes_one_node() {
    let runner = Runner::new("What is the tidal range?", 1);
    let done = runner.run().await;
    assert_eq!(done.tree.lines().count(), 1, "{}", done.tree);
    assert!(done.document.contains("- “The tidal range is 1.4 metres at springs."), "{}", done.document);
    assert!(done.calls <= corpus().len() + 4, "{} tool calls", done.calls);
}

#[tokio::test]
async fn nothing_found_is_said() {
    let done = Runner::new("How do submarines refuel plutonium?", 1).run().await;
    assert_eq!(done.tree.lines().count(), 1);
    assert!(done.document.contains("Nothing was found"), "{}", done.document);
    let result = done.outcome.result.unwrap();
    assert!(!result.success_assessment.unwrap().met);
    let mut empty = Runner::new("What is the tidal range?", 1);
    empty.tools = ToolRegistry::new(Arc::new(MemoryDocuments::default()));
    assert!(empty.run().await.document.contains("Nothing was found"));
}

#[tokio::test]
async fn a_failed_child_is_named_and_the_rest_is_kept() {
    let mut runner = Runner::new("What happens in a storm: cranes, pilots, fairway and mooring lines?", 1);
    runner.fail = Some("storms.md");
    let done = runner.run().await;
    check_citations(&done);
    assert!(done.document.contains("failed: the disk is on fire"), "{}", done.document);
    assert!(!done.outcome.result.unwrap().success_assessment.unwrap().met);
}

#[tokio::test]
async fn budgets_bound_the_tree() {
    for (depth, steps, bands) in [(0, 4, 3), (1, 2, 1), (4, 1, 1), (2, 2, 3)] {
        let mut runner =
            Runner::new("Report on:\n- storms and cranes\n- pilots and tides\n- berths and ferries", 1);
        runner.budgets.max_depth = depth;
        runner.budgets.max_steps_per_band = steps;
        runner.budgets.max_bands_per_plan = bands;
        // The runner itself asserts the bounds at every node.
        let done = runner.run().await;
        assert_eq!(
            done.tree.lines().count() == 1,
            depth == 0 || steps == 1,
            "{depth} {steps} {bands}:\n{}",
            done.tree
        );
    }
}

#[tokio::test]
async fn a_large_context_is_searched_and_not_read_whole() {
    let runner = Runner::new("What is the tidal range?", 1);
    let project = runner.context.project_ids[0];
    for i in 0..300 {
        runner.documents.add_source(project, &format!("log/{i:03}.md"), "# Log\n\nNothing of note today.");
    }
    let done = runner.run().await;
    assert!(done.document.contains("- “The tidal range is 1.4 metres at springs."), "{}", done.document);
    assert!(done.calls < 100, "{} tool calls", done.calls);
}

#[tokio::test]
async fn code_indented_text_and_html_are_quoted() {
    for (path, body, quote) in [
        ("fence.md", "# Start\n\n```sh\nmake flumen\n```\n", "make flumen"),
        ("indent.txt", "Start\n\n    make flumen --now\n", "make flumen --now"),
        ("block.md", "# Start\n\n<div>\n<p>Run make flumen first.</p>\n</div>\n", "Run make flumen first."),
        (
            "page.html",
            "<html><body><p>Run <b>make flumen</b> first.</p></body></html>",
            "Run <b>make flumen</b> first.",
        ),
    ] {
        let runner = Runner::new("What does make flumen do?", 1);
        runner.documents.add_source(runner.context.project_ids[0], path, body);
        let done = runner.run().await;
        assert!(done.document.contains(&format!("- “{quote}” [1]")), "{path}: {}", done.document);
    }
}

/// No text is too long to be quoted, however it is written.
#[tokio::test]
async fn a_text_without_sentence_ends_is_quoted() {
    let items: String = (0..300).map(|i| format!("item{i},")).collect();
    let prose = "we keep the boiler warm and the pumps dry, and then we go on ";
    for (path, body) in [
        ("list.txt", format!("# A\nname,{items}frobnicator,oil\n")),
        (
            "fence.md",
            format!("# A\n\n```\n{}frobnicator needs oil{}\n```\n", "a=1;".repeat(300), " b".repeat(600)),
        ),
        ("short.txt", format!("{}the frobnicator needs oil {}", prose.repeat(20), prose.repeat(20))),
        ("long.txt", format!("{}the frobnicator needs oil {}", prose.repeat(8_000), prose.repeat(8_000))),
    ] {
        let runner = Runner::new("What does the frobnicator need?", 1);
        runner.documents.add_source(runner.context.project_ids[0], path, &body);
        let done = runner.run().await;
        let quoted =
            done.document.lines().any(|line| line.starts_with("- “") && line.contains("frobnicator"));
        assert!(quoted, "{path}: {}", done.document);
        assert!(!done.document.contains("Nothing was found"), "{path}: {}", done.document);
        for passage in done.payload["passages"].as_array().unwrap() {
            let at = passage["position"].as_u64().unwrap() as usize;
            assert!(body[at..].starts_with(passage["text"].as_str().unwrap()), "{path}: {passage}");
        }
    }
}

#[tokio::test]
async fn without_tool_calls_left_what_was_read_is_the_answer_and_it_is_said() {
    let leaf = |runner: &Runner| ExecuteInput { task: None, call: context(runner, "storm"), earlier: vec![] };
    let mut runner = Runner::new("storm", 1);
    let input = leaf(&runner);
    let (whole, calls) = runner.call("execute", async |io| Offline.execute(&input, io).await).await;
    assert!(calls > 2, "{calls}");
    assert!(!whole.artifacts[0].document_markdown.as_ref().unwrap().contains("used up"));
    for allowed in [0, 2] {
        runner.tool_calls = Some(allowed);
        let (output, calls) = runner.call("execute", async |io| Offline.execute(&input, io).await).await;
        assert_eq!(calls as u64, allowed);
        assert!(output.artifacts[0].document_markdown.as_ref().unwrap().contains("Not everything was read"));
        let notes = output.result.success_assessment.unwrap().notes.unwrap();
        assert!(notes.contains("used up"), "{notes}");
    }
}

#[tokio::test]
async fn a_child_without_json_is_read_from_its_document() {
    let runner = Runner::new("storm", 1);
    let leaf = ExecuteInput {
        task: None,
        call: context(&runner, "What safety/storms.md says about storm"),
        earlier: vec![],
    };
    let (output, _) = runner.call("execute", async |io| Offline.execute(&leaf, io).await).await;
    let document_id = DocumentId(uuid::Uuid::from_u128(77));
    let body = output.artifacts[0].document_markdown.clone().unwrap();
    runner.documents.add_artifact(runner.run, document_id, "x", &body);
    let result = TreeAgentResult {
        kind: output.result.kind,
        summary: output.result.summary,
        success_assessment: None,
        primary_artifact_id: None,
        artifact_ids: vec![],
        document_ids: vec![document_id],
        json_payload: None,
        scratchpad_doc_id: None,
        scratchpad_tail: None,
    };
    let child = ChildOutcome {
        node_id: NodeId::root(runner.run),
        step_id: tree_agent_contract::StepId::new("s"),
        title: "storms".into(),
        status: NodeStatus::Completed,
        partial: false,
        result: Some(result),
        error: None,
        artifacts: vec![],
    };
    let input = AggregateInput {
        homework: None,
        call: context(&runner, "storm"),
        plan_summary: "p".into(),
        children: vec![child],
        exhausted_budget: Some("maxNodes".into()),
    };
    let (merged, calls) = runner.call("aggregate", async |io| Offline.aggregate(&input, io).await).await;
    assert_eq!(calls, 1);
    let texts = |artifact: &ArtifactDraft| -> Vec<String> {
        let rows = artifact.json_payload.as_ref().unwrap()["passages"].as_array().unwrap().clone();
        let mut texts: Vec<String> = rows.iter().map(|r| r["text"].as_str().unwrap().to_owned()).collect();
        texts.sort();
        texts
    };
    let as_shown: Vec<String> = texts(&output.artifacts[1]).iter().map(|t| flat(t)).collect();
    assert_eq!(texts(&merged.artifacts[1]), as_shown);
    assert!(merged.synthesis.gaps[0].contains("maxNodes"));
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
        origin_run_id: None,
        guidance: Vec::new(),
        deliverable: None,
        profile: None,
        started_at: None,
        time_left_ms: None,
        answers: None,
        siblings: Vec::new(),
    }
}
