use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tree_agent_contract::homework::{BranchBrief, BranchEntry, HomeworkBrief, HomeworkDraft};
use tree_agent_contract::role::RoleUpdate;
use tree_agent_contract::role::{ChildOutcome, OfferedLeaf, PriorStep, ResearchForm};
use tree_agent_contract::{
    Budgets, DocumentId, NodeId, NodeStatus, RunContext, RunId, StepSearch, StepStatus,
};
use tree_agent_tools::{Caller, MemoryDocuments, ToolRegistry};
use uuid::{NoContext, Timestamp, Uuid};

use super::*;

fn model(options: &str) -> Scripted {
    Scripted::new(options.parse().unwrap())
}

fn call(title: &str, depth: u32, attempt: u32) -> CallContext {
    let run_id = RunId(Uuid::from_u128(1));
    CallContext {
        run_id,
        node_id: NodeId::root(run_id),
        attempt,
        objective: "objective".into(),
        title: title.into(),
        reason: String::new(),
        success_criteria: vec![],
        depth,
        budgets: Budgets::default(),
        context: RunContext::default(),
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

fn plan_input(depth: u32) -> PlanInput {
    PlanInput {
        review: false,
        homework: None,
        call: call("root", depth, 1),
        existing_plan_summary: String::new(),
        replan_reason: String::new(),
        earlier_result: None,
        prior_steps: vec![],
    }
}

fn io() -> (RoleIo, tokio::sync::mpsc::Receiver<RoleUpdate>) {
    let tools = ToolRegistry::new(Arc::new(MemoryDocuments::default()));
    let caller = Caller::new(RunId(Uuid::from_u128(1)), RunContext::default());
    RoleIo::new(tools.tool_set(caller), "execute")
}

#[tokio::test]
async fn the_tree_has_the_set_shape() {
    let model = model("fanout=3,depth=2,bands=2");
    let (io, _updates) = io();
    let output = model.plan(&plan_input(1), &io).await.unwrap();
    output.validate(&[]).unwrap();
    let plan = output.plan.unwrap();
    let ids: Vec<Vec<&str>> =
        plan.bands.iter().map(|b| b.steps.iter().map(|s| s.id.as_str()).collect()).collect();
    assert_eq!(ids, [["s0", "s1", "s2"], ["s3", "s4", "s5"]]);
    assert_eq!(plan.bands[1].steps[0].title, "root.s3");
    let leaf = model.plan(&plan_input(2), &io).await.unwrap();
    leaf.validate(&[]).unwrap();
    assert_eq!(leaf.mode, PlannerMode::Execute);
}

#[tokio::test]
async fn the_first_steps_of_a_band_may_be_searches() {
    let model = model("fanout=3,search_steps=2,search_depth=2,search_nodes=7");
    let (io, _updates) = io();
    let output = model.plan(&plan_input(0), &io).await.unwrap();
    output.validate(&[]).unwrap();
    let steps = output.plan.unwrap().bands.remove(0).steps;
    let search = StepSearch { max_depth: 2, max_nodes: 7 };
    let searches: Vec<_> = steps.iter().map(|step| (step.strategy, step.search)).collect();
    let of_search = (Some(tree_agent_contract::Strategy::Search), Some(search));
    assert_eq!(searches, [of_search, of_search, (None, None)]);
}

#[tokio::test]
async fn results_have_the_set_size_and_are_valid_wherever_they_stand() {
    for (options, in_summary) in [
        ("result_bytes=700", true),
        ("result_bytes=700,artifacts=json", false),
        ("result_bytes=700,artifacts=document", false),
    ] {
        let (io, _updates) = io();
        let output = model(options)
            .execute(&ExecuteInput { task: None, call: call("ä", 3, 1), earlier: vec![] }, &io)
            .await
            .unwrap();
        output.validate().unwrap();
        assert_eq!(output.result.summary.len() == 700, in_summary, "{options}");
        let text = output.artifacts.first().map(|a| {
            a.document_markdown
                .clone()
                .unwrap_or_else(|| a.json_payload.as_ref().unwrap()["text"].as_str().unwrap().into())
        });
        assert_eq!(text.map(|t| t.len()), (!in_summary).then_some(700), "{options}");
    }
}

#[tokio::test]
async fn faults_hit_the_chosen_calls_only() {
    let model = model("fail=rejected,fail_titles=s1|s3,fail_attempts=2");
    let (io, _updates) = io();
    for (title, attempt, fails) in
        [("s1", 1, true), ("s1", 2, true), ("s1", 3, false), ("s0", 1, false), ("s3", 1, true)]
    {
        let answer = model
            .execute(&ExecuteInput { task: None, call: call(title, 3, attempt), earlier: vec![] }, &io)
            .await;
        assert_eq!(answer.is_err_and(|e| e.kind == RoleErrorKind::Rejected), fails, "{title} {attempt}");
    }
    assert!(model.plan(&plan_input(0), &io).await.is_ok(), "only execute calls are chosen by default");
}

#[tokio::test]
async fn failures_that_end_by_time_say_when_they_end() {
    let model = model("fail=overloaded,fail_until_ms=60000");
    let (io, _updates) = io();
    let ask = async |created| {
        let run_id = RunId(Uuid::new_v7(created));
        let call = CallContext { run_id, ..call("s0", 3, 1) };
        model.execute(&ExecuteInput { task: None, call, earlier: vec![] }, &io).await
    };
    let error = ask(Timestamp::now(NoContext)).await.expect_err("the run is new");
    assert!(error.retry_after_ms.is_some_and(|ms| (1..=60_000).contains(&ms)), "{error:?}");
    ask(Timestamp::from_unix(NoContext, 1_700_000_000, 0)).await.expect("the run is old");
}

#[tokio::test]
async fn garbage_breaks_the_contract_in_every_role() {
    let model = model("fail=garbage,fail_role=any");
    let (io, _updates) = io();
    assert!(model.plan(&plan_input(0), &io).await.unwrap().validate(&[]).is_err());
    let input = ExecuteInput { task: None, call: call("x", 3, 1), earlier: vec![] };
    assert!(model.execute(&input, &io).await.unwrap().validate().is_err());
    let input = AggregateInput {
        homework: None,
        call: call("x", 0, 1),
        plan_summary: "p".into(),
        children: vec![],
        exhausted_budget: None,
    };
    assert!(model.aggregate(&input, &io).await.unwrap().validate().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_hanging_call_never_answers_and_latency_is_kept() {
    let (io, _updates) = io();
    let input = ExecuteInput { task: None, call: call("x", 3, 1), earlier: vec![] };
    let hang = model("fail=hang");
    assert!(tokio::time::timeout(Duration::from_secs(3600), hang.execute(&input, &io)).await.is_err());
    let begun = tokio::time::Instant::now();
    model("latency_ms=1500").execute(&input, &io).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_millis(1500));
}

#[tokio::test]
async fn the_root_asks_once_for_another_plan_and_keeps_a_step() {
    let model = model("replan=1");
    let (io, _updates) = io();
    let mut input = AggregateInput {
        homework: None,
        call: call("root", 0, 1),
        plan_summary: "Scripted plan".into(),
        children: vec![ChildOutcome {
            node_id: NodeId::root(RunId(uuid::Uuid::from_u128(2))),
            step_id: StepId::new("s0"),
            title: "s0".into(),
            status: NodeStatus::Failed,
            partial: false,
            result: None,
            error: Some("broken".into()),
            artifacts: vec![],
            scratchpad_doc_id: None,
            scratchpad_tail: None,
        }],
        exhausted_budget: None,
    };
    let first = model.aggregate(&input, &io).await.unwrap();
    first.validate().unwrap();
    assert!(first.next.should_replan);
    assert_eq!(first.synthesis.gaps, ["s0 failed"]);
    let prior = vec![PriorStep {
        id: StepId::new("s0"),
        title: "s0".into(),
        status: StepStatus::Completed,
        summary: "done".into(),
    }];
    let mut again = plan_input(0);
    again.replan_reason = first.next.replan_reason.unwrap();
    again.prior_steps = prior;
    let output = model.plan(&again, &io).await.unwrap();
    output.validate(&again.prior_steps).unwrap();
    let plan = output.plan.unwrap();
    assert_eq!(plan.bands[0].steps.iter().map(|s| s.id.as_str()).collect::<Vec<_>>(), ["s0", "r0"]);
    input.plan_summary = plan.summary;
    assert!(!model.aggregate(&input, &io).await.unwrap().next.should_replan);
}

#[tokio::test]
async fn tool_calls_are_said_before_and_after() {
    let (io, mut updates) = io();
    model("tools=2")
        .execute(&ExecuteInput { task: None, call: call("x", 3, 1), earlier: vec![] }, &io)
        .await
        .unwrap();
    drop(io);
    let mut said = Vec::new();
    while let Some(update) = updates.recv().await {
        said.push(match update {
            RoleUpdate::ToolCallRequested(call) => format!("{} asked", call.call_id),
            RoleUpdate::ToolCallResult(result) => format!("{} {}", result.call_id, result.ok),
            other => panic!("unexpected {other:?}"),
        });
    }
    assert_eq!(said, ["t1 asked", "t1 true", "t2 asked", "t2 true"]);
}

#[test]
fn wrong_options_are_named() {
    for (text, named) in [
        ("fanout", "fanout"),
        ("fanout=0", "fanout"),
        ("depth=-1", "depth"),
        ("latency_ms=soon", "latency_ms"),
        ("artifacts=all", "artifacts"),
        ("fail=maybe", "fail"),
        ("fail_role=judge", "fail_role"),
        ("speed=9", "speed"),
        ("result_bytes=20000", "result_bytes"),
    ] {
        let error = text.parse::<Script>().unwrap_err();
        assert_eq!(error.kind, RoleErrorKind::Rejected);
        assert!(error.message.contains(&format!("option {named:?}")), "{text}: {error}");
    }
    assert!("artifacts=document,result_bytes=20000".parse::<Script>().is_ok());
}

proptest! {
    #[test]
    fn any_text_is_a_script_or_a_named_error(text in "[a-z_]{0,12}=?[a-z0-9|]{0,6}(,[a-z_]{0,12}=[0-9]{0,12})?") {
        if let Err(error) = text.parse::<Script>() {
            prop_assert_eq!(error.kind, RoleErrorKind::Rejected);
            prop_assert!(error.message.contains("option"));
        }
    }
}

fn research_input(path: &[&str]) -> ResearchInput {
    let call = call(path.last().copied().unwrap_or("root"), path.len() as u32, 1);
    ResearchInput {
        form: if path.is_empty() { ResearchForm::Root } else { ResearchForm::Topic },
        path: path.iter().map(|t| (*t).to_owned()).collect(),
        siblings: vec![],
        outline: String::new(),
        session: None,
        prompts: Default::default(),
        frontmatter_schema: None,
        max_children: 1_000,
        slug: String::new(),
        call,
    }
}

#[tokio::test]
async fn a_search_has_the_set_shape() {
    let model = model("fanout=3,depth=2");
    let (io, _updates) = io();
    for (path, expected) in [
        (&[][..], vec![("s0", "s0"), ("s1", "s1"), ("s2", "s2")]),
        (&["s1"], vec![("s0", "s1.s0"), ("s1", "s1.s1"), ("s2", "s1.s2")]),
        (&["s1", "s1.s2"], vec![]),
    ] {
        let input = research_input(path);
        let output = model.research(&input, &io).await.unwrap();
        output.validate(input.form).unwrap();
        let seen: Vec<_> = output.children.iter().map(|c| (c.slug.as_str(), c.title.as_str())).collect();
        assert_eq!(seen, expected, "{path:?}");
        assert_eq!(output.messages.len(), if path.is_empty() { 0 } else { 4 });
        assert!(output.children.iter().all(|c| c.score.is_some()));
    }
    let mut input = research_input(&[]);
    input.max_children = 2;
    assert_eq!(model.research(&input, &io).await.unwrap().children.len(), 2);
    let same = self::model("fanout=2,same_titles=1").research(&research_input(&["s1"]), &io).await.unwrap();
    assert_eq!(same.children[0].title, "s0");
}

#[tokio::test]
async fn researches_and_picks_fail_as_set() {
    let (io, mut updates) = io();
    let kind = |options: &str, title: &'static str| {
        let model = model(options);
        let io = &io;
        async move { model.research(&research_input(&[title]), io).await.map_err(|e| e.kind) }
    };
    assert_eq!(kind("fail=overloaded,fail_role=research", "s0").await, Err(RoleErrorKind::Overloaded));
    assert!(kind("fail=overloaded,fail_role=pick", "s0").await.is_ok());
    assert_eq!(kind("bad_frontmatter=3,fail_titles=s0", "s0").await, Err(RoleErrorKind::Rejected));
    assert!(kind("bad_frontmatter=3,fail_titles=s0", "s1").await.is_ok());
    while updates.try_recv().is_ok() {}
    assert!(kind("bad_frontmatter=2", "s0").await.is_ok());
    let mut repairs = Vec::new();
    while let Ok(RoleUpdate::Usage { usage, .. }) = updates.try_recv() {
        repairs.push(usage.purpose);
    }
    assert_eq!(repairs, ["research (repair 1)", "research (repair 2)"]);
    let garbage = kind("fail=garbage,fail_role=research", "s0").await.unwrap();
    assert!(garbage.validate(ResearchForm::Topic).is_err());
}

#[tokio::test]
async fn frontmatter_is_checked_for_real() {
    let (io, _updates) = io();
    let mut input = research_input(&["s0"]);
    for (schema, good) in [
        (serde_json::json!({"required": ["title", "depth"], "properties": {"depth": {"const": 1}}}), true),
        (serde_json::json!({"required": ["level"]}), false),
        (serde_json::json!({"type": "nonsense"}), false),
    ] {
        input.frontmatter_schema = schema.as_object().cloned();
        let answer = model("").research(&input, &io).await;
        assert_eq!(
            answer.as_ref().map_err(|e| e.kind).err(),
            (!good).then_some(RoleErrorKind::Rejected),
            "{schema}"
        );
    }
}

#[tokio::test]
async fn picks_are_as_set() {
    let (io, _updates) = io();
    let leaves = ["a/x", "b", "c"].map(|path| OfferedLeaf {
        path: path.into(),
        title: path.into(),
        depth: 1,
        score: None,
        leaves_below: 0,
    });
    let mut input = PickInput {
        call: call("root", 0, 1),
        outline: String::new(),
        leaves: leaves.into(),
        note: String::new(),
        prompt: None,
    };
    for (pick, expected) in
        [("first", "a/x"), ("middle", "b"), ("last", "c"), ("parent", "a"), ("unknown", "no/such/topic")]
    {
        let output = model(&format!("pick={pick}")).pick(&input, &io).await.unwrap();
        output.validate().unwrap();
        assert_eq!(output.path, expected);
    }
    input.note = "again".into();
    let output = model("pick=unknown,pick_again=last").pick(&input, &io).await.unwrap();
    assert_eq!(output.path, "c");
    let error = model("fail=internal,fail_role=pick").pick(&input, &io).await.unwrap_err();
    assert_eq!(error.kind, RoleErrorKind::Internal);
    assert!(model("fail=garbage,fail_role=pick").pick(&input, &io).await.unwrap().validate().is_err());
    assert!("pick=best".parse::<Script>().is_err());
}

fn homework_input(brief: HomeworkBrief) -> PlanInput {
    PlanInput { homework: Some(Box::new(brief)), ..plan_input(0) }
}

/// The brief of an iteration; `branches` are those that the tasks so far began, with their last titles.
fn brief(iteration: u32, branches: &[(&str, &str)]) -> HomeworkBrief {
    let branch = |(id, title): &(&str, &str)| BranchBrief {
        branch_id: (*id).into(),
        title: (*title).into(),
        scratchpad_doc_id: DocumentId::from(uuid::Uuid::nil()),
        summary: String::new(),
        entries: vec![BranchEntry {
            iteration: iteration - 1,
            title: (*title).into(),
            status: NodeStatus::Completed,
            summary: "s".into(),
        }],
        earlier: 0,
    };
    HomeworkBrief {
        iteration,
        max_iterations: 5,
        scratchpad_doc_id: DocumentId::from(uuid::Uuid::nil()),
        plan_doc_id: DocumentId::from(uuid::Uuid::nil()),
        last: HomeworkDraft::default(),
        rollups: vec![],
        branches: branches.iter().map(branch).collect(),
        refused: vec![],
    }
}

#[tokio::test]
async fn homework_has_the_set_iterations_and_branches() {
    let (io, _updates) = io();
    let model = model("fanout=2,iterations=2,branches=3,repeats=1");
    let tasks = async |brief: HomeworkBrief| {
        let iteration = brief.iteration;
        let output = model.plan(&homework_input(brief), &io).await.unwrap();
        output.validate_homework(iteration).unwrap();
        let steps = output.plan.into_iter().flat_map(|plan| plan.bands).flat_map(|band| band.steps);
        steps.map(|step| (step.branch_id.unwrap(), step.title)).collect::<Vec<_>>()
    };
    let named = |tasks: &[(&str, &str)]| -> Vec<(String, String)> {
        tasks.iter().map(|(branch, title)| ((*branch).to_owned(), (*title).to_owned())).collect()
    };
    assert_eq!(tasks(brief(1, &[])).await, named(&[("b0", "i1.b0"), ("b1", "i1.b1")]));
    let begun = [("b0", "i1.b0"), ("b1", "i1.b1")];
    assert_eq!(tasks(brief(2, &begun)).await, named(&[("b2", "i2.b2"), ("b0", "i2.b0")]));
    assert_eq!(tasks(brief(3, &begun)).await, []);
    let last = HomeworkBrief { max_iterations: 1, ..brief(2, &begun) };
    assert_eq!(tasks(last).await, [], "no iteration may follow");
    // With as many branches as tasks, the first task is that of the iteration before.
    let model = self::model("fanout=2,repeats=1");
    let output = model.plan(&homework_input(brief(2, &begun)), &io).await.unwrap();
    let steps = &output.plan.unwrap().bands[0].steps;
    assert_eq!(steps.iter().map(|s| s.title.as_str()).collect::<Vec<_>>(), ["i1.b0", "i2.b1"]);
    let garbage = self::model("fail=garbage,fail_role=plan");
    let output = garbage.plan(&homework_input(brief(1, &[])), &io).await.unwrap();
    assert!(output.validate_homework(1).is_err());
}
