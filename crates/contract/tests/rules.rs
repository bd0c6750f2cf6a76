//! Every rule of the role contracts, the budgets and the context: what breaks it, and which field the error names.

use serde_json::{Value, json};
use tree_agent_contract::error::Invalid;
use tree_agent_contract::role::*;
use tree_agent_contract::*;

/// `value` with the JSON at `pointer` replaced; `null` removes an object's key.
fn with(mut value: Value, pointer: &str, new: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    let parent = value.pointer_mut(parent).expect("the parent exists");
    match (parent, new) {
        (Value::Object(map), Value::Null) => drop(map.remove(key)),
        (Value::Object(map), new) => drop(map.insert(key.to_owned(), new)),
        (Value::Array(list), new) => list[key.parse::<usize>().expect("an index")] = new,
        _ => panic!("{pointer} is in no container"),
    }
    value
}

/// Fails unless `outcome` is an error about exactly `field`.
fn about(outcome: Result<(), Invalid>, field: &str) {
    let Invalid(errors) = outcome.expect_err(field);
    let fields: Vec<_> = errors.iter().map(|e| e.field.as_str()).collect();
    assert_eq!(fields, [field], "{errors:?}");
    assert!(!errors[0].message.is_empty());
}

fn planner() -> Value {
    let step = |id: &str, index: u32| json!({"id": id, "title": id, "reason": "r", "successCriteria": ["c"], "stepIndex": index});
    json!({
        "mode": "plan", "modeReason": "large",
        "plan": {"summary": "two bands", "bands": [
            {"index": 0, "goal": "first", "parallelizable": true, "steps": [step("a", 0), step("b", 1)]},
            {"index": 1, "goal": "then", "parallelizable": true, "steps": [step("c", 0)]},
        ]},
        "scratchpad": {"appendMarkdown": "- noted", "tailPreview": "noted"},
    })
}

fn check_planner(value: Value) -> Result<(), Invalid> {
    serde_json::from_value::<PlannerOutput>(value).expect("the shape is right").validate(&[])
}

#[test]
fn a_plan_must_keep_every_rule() {
    check_planner(planner()).expect("a good plan");
    let long = "x".repeat(limits::TITLE_BYTES + 1);
    for (pointer, new, field) in [
        ("/modeReason", json!("  "), "modeReason"),
        ("/plan", Value::Null, "plan"),
        ("/plan/bands", json!([]), "plan.bands"),
        ("/plan/bands/1/index", json!(2), "plan.bands[1].index"),
        ("/plan/bands/0/index", json!(1), "plan.bands[0].index"),
        ("/plan/bands/1/steps", json!([]), "plan.bands[1].steps"),
        ("/plan/bands/0/steps/1/id", json!("a"), "plan.bands[0].steps[1].id"),
        ("/plan/bands/1/steps/0/id", json!("a"), "plan.bands[1].steps[0].id"),
        ("/plan/bands/1/steps/0/id", json!(""), "plan.bands[1].steps[0].id"),
        ("/plan/bands/0/steps/0/title", json!(""), "plan.bands[0].steps[0].title"),
        ("/plan/bands/0/steps/0/title", json!(long), "plan.bands[0].steps[0].title"),
        ("/plan/bands/0/steps/0/stepIndex", json!(7), "plan.bands[0].steps[0].stepIndex"),
        ("/plan/bands/0/steps/0/successCriteria/0", json!(""), "plan.bands[0].steps[0].successCriteria[0]"),
        ("/scratchpad/appendMarkdown", json!(""), "scratchpad.appendMarkdown"),
    ] {
        about(check_planner(with(planner(), pointer, new)), field);
    }
    check_planner(with(with(planner(), "/mode", json!("execute")), "/plan", Value::Null))
        .expect("no plan is needed");
}

#[test]
fn a_step_may_be_a_search_within_limits() {
    let with_search = |strategy: Value, search: Value| {
        let mut output = planner();
        output["plan"]["bands"][0]["steps"][0]["strategy"] = strategy;
        output["plan"]["bands"][0]["steps"][0]["search"] = search;
        check_planner(output)
    };
    let limits = |depth: u32, nodes: u32| json!({"maxDepth": depth, "maxNodes": nodes});
    for good in [limits(1, 1), limits(64, 10_000), json!({}), Value::Null] {
        with_search(json!("search"), good).expect("a search");
    }
    for (strategy, search, field) in [
        (json!("tree"), Value::Null, "strategy"),
        (json!("homework"), Value::Null, "strategy"),
        (Value::Null, limits(2, 5), "search"),
        (json!("search"), limits(0, 5), "search.maxDepth"),
        (json!("search"), limits(65, 5), "search.maxDepth"),
        (json!("search"), limits(2, 0), "search.maxNodes"),
        (json!("search"), limits(2, 10_001), "search.maxNodes"),
    ] {
        about(with_search(strategy, search), &format!("plan.bands[0].steps[0].{field}"));
    }
}

#[test]
fn step_ids_are_stable_over_replans() {
    let output: PlannerOutput = serde_json::from_value(planner()).expect("the shape is right");
    let prior = |title: &str| {
        let id = StepId::new("c");
        [PriorStep { id, title: title.into(), status: StepStatus::Completed, summary: "done".into() }]
    };
    output.validate(&prior("c")).expect("the same step");
    about(output.validate(&prior("something else")), "plan.bands[1].steps[0].title");
}

fn executor() -> Value {
    json!({
        "actions": [{"kind": "analysis", "note": "read"}],
        "artifacts": [
            {"type": "document", "label": "findings", "title": "Findings", "documentMarkdown": "# Found", "isPrimary": true},
            {"type": "json", "label": "data", "jsonPayload": {"n": 1}},
        ],
        "result": {
            "kind": "hybrid", "summary": "found it", "primaryArtifactLabel": "findings",
            "parentHint": {"hintType": "read_documents", "artifactLabels": ["findings"]},
        },
        "scratchpad": {"appendMarkdown": "- noted", "tailPreview": "noted"},
    })
}

const RETURNED: [(&str, &str, &str); 9] = [
    ("/artifacts/0/title", "null", "artifacts[0].title"),
    ("/artifacts/0/documentMarkdown", "null", "artifacts[0].documentMarkdown"),
    ("/artifacts/0/documentMarkdown", "\"\"", "artifacts[0].documentMarkdown"),
    ("/artifacts/1/jsonPayload", "null", "artifacts[1].jsonPayload"),
    ("/artifacts/1/label", "\"findings\"", "artifacts[1].label"),
    ("/result/summary", "\"\"", "result.summary"),
    ("/result/primaryArtifactLabel", "\"nope\"", "result.primaryArtifactLabel"),
    ("/result/parentHint/artifactLabels/0", "\"nope\"", "result.parentHint.artifactLabels[0]"),
    ("/scratchpad/appendMarkdown", "\"\"", "scratchpad.appendMarkdown"),
];

#[test]
fn what_an_executor_returns_must_keep_every_rule() {
    let check =
        |value| serde_json::from_value::<ExecutorOutput>(value).expect("the shape is right").validate();
    check(executor()).expect("a good answer");
    for (pointer, new, field) in RETURNED {
        let new = serde_json::from_str(new).expect("json");
        about(check(with(executor(), pointer, new)), field);
    }
    assert!(
        serde_json::from_value::<ExecutorOutput>(with(executor(), "/result", Value::Null)).is_err(),
        "a result is always required"
    );
    let no_document =
        with(executor(), "/artifacts", json!([{"type": "json", "label": "findings", "jsonPayload": {}}]));
    about(check(no_document), "result.kind");
    let huge = json!({"x": "y".repeat(limits::JSON_BYTES)});
    about(check(with(executor(), "/artifacts/1/jsonPayload", huge)), "artifacts[1].jsonPayload");
}

#[test]
fn what_an_aggregator_returns_must_keep_every_rule() {
    let mut good = executor();
    good["synthesis"] = json!({"summary": "together", "keyFindings": [], "gaps": []});
    good["next"] = json!({"shouldReplan": false});
    let check =
        |value| serde_json::from_value::<AggregatorOutput>(value).expect("the shape is right").validate();
    check(good.clone()).expect("a good answer");
    for (pointer, new, field) in RETURNED {
        let new = serde_json::from_str(new).expect("json");
        about(check(with(good.clone(), pointer, new)), field);
    }
    about(check(with(good.clone(), "/synthesis/summary", json!(""))), "synthesis.summary");
    about(check(with(good, "/next/shouldReplan", json!(true))), "next.replanReason");
}

#[test]
fn budgets_have_ranges() {
    Budgets::default().validate().expect("the defaults are good");
    for (field, budgets) in [
        ("budgets.max_depth", Budgets { max_depth: 65, ..Budgets::default() }),
        ("budgets.max_bands_per_plan", Budgets { max_bands_per_plan: 0, ..Budgets::default() }),
        ("budgets.max_steps_per_band", Budgets { max_steps_per_band: 0, ..Budgets::default() }),
        ("budgets.max_children_per_node", Budgets { max_children_per_node: 0, ..Budgets::default() }),
        ("budgets.max_replans_per_node", Budgets { max_replans_per_node: 17, ..Budgets::default() }),
        ("budgets.max_parallel_steps", Budgets { max_parallel_steps: 0, ..Budgets::default() }),
        ("budgets.max_nodes", Budgets { max_nodes: 0, ..Budgets::default() }),
        ("budgets.max_wall_clock_ms", Budgets { max_wall_clock_ms: 0, ..Budgets::default() }),
        ("budgets.max_attempts", Budgets { max_attempts: 0, ..Budgets::default() }),
        ("budgets.call_timeout_ms", Budgets { call_timeout_ms: 1, ..Budgets::default() }),
        ("budgets.max_tokens", Budgets { max_tokens: Some(0), ..Budgets::default() }),
        ("budgets.max_cost_micros", Budgets { max_cost_micros: Some(u64::MAX), ..Budgets::default() }),
        ("budgets.max_tool_calls", Budgets { max_tool_calls: Some(0), ..Budgets::default() }),
    ] {
        about(budgets.validate(), field);
    }
}

#[test]
fn scope_and_projects_fit_together() {
    let project = |n: u128| ProjectId(uuid::Uuid::from_u128(n));
    let context = |scope, project_ids| RunContext { scope, project_ids };
    RunContext::default().validate().expect("everything");
    RunContext::project(project(1)).validate().expect("one project");
    context(Scope::MultiProject, vec![project(1), project(2)]).validate().expect("two projects");
    for bad in [
        context(Scope::Global, vec![project(1)]),
        context(Scope::Project, vec![]),
        context(Scope::Project, vec![project(1), project(2)]),
        context(Scope::MultiProject, vec![]),
        context(Scope::MultiProject, vec![project(1), project(1)]),
    ] {
        about(bad.validate(), "context.project_ids");
    }
}

#[test]
fn everything_wrong_with_a_run_is_reported_at_once() {
    let mut spec = RunSpec::new(" ");
    spec.budgets.max_nodes = 0;
    spec.context.scope = Scope::Project;
    let Invalid(errors) = spec.validate().expect_err("all of it is wrong");
    let fields: Vec<_> = errors.iter().map(|e| e.field.as_str()).collect();
    assert_eq!(fields, ["objective", "context.project_ids", "budgets.max_nodes"]);
}

#[test]
fn updates_have_limits() {
    let call = |args: Value| {
        RoleUpdate::ToolCallRequested(event::ToolCallRequested {
            call_id: "t1".into(),
            tool_name: "read_document".into(),
            args: args.as_object().cloned(),
            purpose: None,
            phase: None,
            started_at: None,
            writes: false,
            cached: false,
        })
    };
    call(json!({"id": "x"})).validate().expect("a small call");
    about(call(json!({"id": "x".repeat(limits::JSON_BYTES)})).validate(), "args");
    let delta = ScratchpadDelta { append_markdown: "x".repeat(limits::DOCUMENT_BYTES + 1) };
    about(RoleUpdate::Scratchpad(delta).validate(), "appendMarkdown");
}

fn research() -> Value {
    json!({
        "documentMarkdown": "# Found", "summary": "found it",
        "children": [{"title": "A", "slug": "a", "score": 0.5}, {"title": "B", "slug": "b"}],
        "messages": [{"speaker": "user", "text": "write"}, {"speaker": "assistant", "text": "# Found"}],
        "scratchpad": {"appendMarkdown": "- noted", "tailPreview": "noted"},
    })
}

fn check_research(value: Value, form: ResearchForm) -> Result<(), Invalid> {
    serde_json::from_value::<ResearchOutput>(value).expect("the shape is right").validate(form)
}

#[test]
fn a_research_must_keep_every_rule() {
    let topic = ResearchForm::Topic;
    check_research(research(), topic).expect("a good research");
    check_research(with(research(), "/children", json!([])), topic).expect("a leaf");
    let long = "x".repeat(limits::SESSION_MESSAGE_BYTES + 1);
    for (pointer, new, field) in [
        ("/documentMarkdown", Value::Null, "documentMarkdown"),
        ("/documentMarkdown", json!(" "), "documentMarkdown"),
        ("/summary", json!(""), "summary"),
        ("/children/1/slug", json!("a"), "children[1].slug"),
        ("/children/1/slug", json!("../b"), "children[1].slug"),
        ("/children/0/title", json!(""), "children[0].title"),
        ("/children/0/score", json!(2), "children[0].score"),
        ("/messages/1/text", json!(long), "messages[1].text"),
        ("/scratchpad/appendMarkdown", json!(""), "scratchpad.appendMarkdown"),
    ] {
        about(check_research(with(research(), pointer, new), topic), field);
    }
}

#[test]
fn the_root_of_a_search_has_children_and_nothing_else() {
    let root = with(with(research(), "/documentMarkdown", Value::Null), "/messages", json!([]));
    check_research(root.clone(), ResearchForm::Root).expect("a first level");
    about(check_research(with(root.clone(), "/children", json!([])), ResearchForm::Root), "children");
    about(
        check_research(with(root.clone(), "/documentMarkdown", json!("# d")), ResearchForm::Root),
        "documentMarkdown",
    );
    let messages = research()["messages"].clone();
    about(check_research(with(root, "/messages", messages), ResearchForm::Root), "messages");
}

#[test]
fn a_pick_is_bounded_and_its_path_is_for_the_search_to_judge() {
    let pick = |path: &str, reason: &str| PickOutput { path: path.into(), reason: reason.into() }.validate();
    pick("", "").expect("a search asks again");
    about(pick(&"a".repeat(limits::PICK_BYTES + 1), ""), "path");
    about(pick("a", &"a".repeat(limits::TEXT_BYTES + 1)), "reason");
}
