//! Roles that fail, budgets that are exhausted, runs that are cancelled: existing work is returned, and the reason for
//! the rest is reported.

use tree_agent_cluster_tests::{Cluster, History, Options, SOON, Signal, eventually};
use tree_agent_contract::event::BudgetExhausted;
use tree_agent_contract::{EventBody, RunStatus};
use tree_agent_proto::v1 as pb;

async fn ended(cluster: &Cluster, model: &str, budgets: pb::Budgets) -> History {
    let run = cluster.create_with(model, budgets).await;
    cluster.follow(&run).end().await
}

/// The error of the node titled `title`.
#[track_caller]
fn failure<'a>(history: &'a History, title: &str) -> &'a str {
    let node = history.node(title);
    let failed = history.events().iter().find_map(|event| match &event.body {
        EventBody::NodeFailed(failed) if event.node_id == node => Some(failed.error.as_str()),
        _ => None,
    });
    failed.unwrap_or_else(|| panic!("{title} did not fail"))
}

/// How often a node completed.
fn completed(history: &History) -> usize {
    history.events().iter().filter(|e| matches!(e.body, EventBody::NodeCompleted(_))).count()
}

fn retries(history: &History) -> usize {
    history.messages().iter().filter(|message| message.starts_with("retry:")).count()
}

fn exhausted(history: &History) -> Vec<&BudgetExhausted> {
    history
        .events()
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::BudgetExhausted(budget) => Some(budget),
            _ => None,
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_step_is_named_and_its_siblings_go_on() {
    let cluster = Cluster::start(Options::default()).await;
    let quick = pb::Budgets { call_timeout_ms: Some(600), max_attempts: Some(2), ..Default::default() };
    for (fault, budgets, expected, tries) in [
        ("garbage", pb::Budgets::default(), "summary", 3),
        ("hang", quick, "600 ms", 2),
        ("rejected", pb::Budgets::default(), "scripted failure of execute for \"s1\"", 1),
        ("internal", quick, "scripted failure of execute for \"s1\"", 2),
    ] {
        let model = format!("scripted:fanout=3,depth=1,fail={fault},fail_titles=s1");
        let history = ended(&cluster, &model, budgets).await;
        history.assert_partial();
        let error = failure(&history, "s1");
        assert!(error.contains(expected), "{fault}: {error}");
        assert_eq!(completed(&history), 3, "{fault}: the root and two siblings complete");
        assert_eq!(retries(&history), tries - 1, "{fault}");
        let told = history
            .events()
            .iter()
            .any(|e| matches!(&e.body, EventBody::NodeAggregated(a) if a.summary == "3 children, 1 failed"));
        assert!(told, "{fault}: the aggregator is told which child failed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_recovers_leaves_no_trace_in_the_result() {
    let cluster = Cluster::start(Options::default()).await;
    for role in ["plan", "execute", "aggregate"] {
        let model = format!("scripted:fanout=2,depth=1,fail=overloaded,fail_role={role},fail_attempts=1");
        let history = ended(&cluster, &model, pb::Budgets::default()).await;
        history.assert_whole();
        assert!(retries(&history) >= 1, "{role}: {:?}", history.messages());
    }
    // If the aggregator fails for good, the synthesis is lost, but not the work.
    let model = "scripted:fanout=2,depth=1,fail=internal,fail_role=aggregate";
    let history = ended(&cluster, model, pb::Budgets::default()).await;
    history.assert_partial();
    assert_eq!(completed(&history), 3);
    assert!(history.messages().contains(&"guard:aggregationFailed"));
    // A setting that no role knows is refused before anything is written.
    let request = pb::CreateRunRequest {
        objective: "why?".to_owned(),
        model: "scripted:colour=red".to_owned(),
        ..Default::default()
    };
    let refused = cluster.runs().create_run(request).await.expect_err("the setting is unknown");
    assert!(refused.message().contains("colour"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spent_budget_returns_the_work_that_there_is() {
    let cluster = Cluster::start(Options::default()).await;

    let clock = pb::Budgets { max_wall_clock_ms: Some(1_500), ..Default::default() };
    let history = ended(&cluster, "scripted:fanout=3,depth=1,fail=hang,fail_titles=s1", clock).await;
    history.assert_partial();
    assert_eq!(completed(&history), 3, "what was done is aggregated");
    assert!(history.messages().contains(&"budget:maxWallClockMs"));
    let [budget] = exhausted(&history)[..] else { panic!("said once") };
    assert_eq!((budget.budget.as_str(), budget.limit), ("maxWallClockMs", 1_500));
    assert!(budget.used >= 1_500);
    let reason = history.ending().reason.as_deref().unwrap_or_default();
    assert!(reason.contains("maxWallClockMs"), "{reason:?}");

    let tools = pb::Budgets { max_tool_calls: Some(6), max_parallel_steps: Some(1), ..Default::default() };
    let history = ended(&cluster, "scripted:fanout=4,depth=1,tools=1", tools).await;
    history.assert_partial();
    let [budget] = exhausted(&history)[..] else { panic!("said once") };
    assert_eq!((budget.budget.as_str(), budget.limit), ("maxToolCalls", 6));
    assert!(completed(&history) >= 2, "finished steps and the root");

    let shape = pb::Budgets {
        max_depth: Some(1),
        max_bands_per_plan: Some(2),
        max_steps_per_band: Some(2),
        max_children_per_node: Some(3),
        max_replans_per_node: Some(0),
        ..Default::default()
    };
    let history = ended(&cluster, "scripted:fanout=3,bands=3,depth=3,replan=1", shape).await;
    history.assert_partial();
    assert_eq!(history.nodes(), 4);
    for guard in ["BandsPerPlan", "StepsPerBand", "ChildrenPerNode", "ReplansPerNode", "Depth"] {
        let message = format!("guard:max{guard}");
        assert!(history.messages().contains(&message.as_str()), "{message} in {:?}", history.messages());
    }

    let nodes = pb::Budgets { max_nodes: Some(3), ..Default::default() };
    let history = ended(&cluster, "scripted:fanout=4,depth=2", nodes).await;
    history.assert_partial();
    assert_eq!(history.nodes(), 3);
    assert!(history.messages().contains(&"guard:maxNodes"));

    // Within its budget a node plans again, and a completed step is not repeated.
    let history = ended(&cluster, "scripted:fanout=2,depth=1,replan=1", pb::Budgets::default()).await;
    history.assert_whole();
    assert_eq!(history.nodes(), 4, "the root, two steps, and the new one of the second plan");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_cancelled_from_every_state() {
    let cluster = Cluster::start(Options::default()).await;
    for (role, process, calls) in [
        ("plan", &cluster.planners[0], 1.0),
        ("execute", &cluster.executors[0], 2.0),
        ("aggregate", &cluster.aggregators[0], 1.0),
    ] {
        let under_way = async || process.metric("tree_agent_role_calls_in_flight").await;
        let model = format!("scripted:fanout=2,depth=1,fail=hang,fail_role={role}");
        let run = cluster.create(&model).await;
        let mut follower = cluster.follow(&run);
        // A call that is cancelled on its way never reaches the role.
        eventually("the calls hang in the role", SOON, async || under_way().await == Some(calls)).await;
        let request = pb::CancelRunRequest { run_id: run.clone(), reason: format!("enough of {role}") };
        cluster.runs().cancel_run(request.clone()).await.expect("accepted");
        let history = follower.end().await;
        let end = history.ending();
        assert_eq!((end.status, end.reason.clone()), (RunStatus::Cancelled, Some(request.reason.clone())));
        assert_eq!(cluster.run(&run).await.status(), pb::RunStatus::Cancelled);
        // The cancellation reaches the role: a call that would hang for ever has ended.
        eventually("the calls in flight are cut", SOON, async || under_way().await == Some(0.0)).await;
        // Cancelling again changes nothing.
        let again = cluster.runs().cancel_run(request).await.expect("accepted").into_inner();
        let head = again.run.expect("the run").head_seq;
        assert_eq!(head as usize, history.events().len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_executor_holds_nothing_up() {
    let cluster = Cluster::start(Options { replicas: 2, ..Options::default() }).await;
    cluster.executors[0].signal(Signal::Stop);
    let budgets = pb::Budgets { call_timeout_ms: Some(1_000), max_attempts: Some(20), ..Default::default() };
    let mut timeouts = 0;
    // The replica of a call is chosen at random, so one run may never meet the frozen one.
    for _ in 0..10 {
        let history = ended(&cluster, "scripted:fanout=4,depth=1", budgets).await;
        history.assert_whole();
        timeouts += history.messages().iter().filter(|m| m.contains(" after timeout: ")).count();
        if timeouts > 0 {
            break;
        }
    }
    assert!(timeouts > 0, "no call met the frozen executor");
    cluster.executors[0].signal(Signal::Continue);
    eventually("it serves again", SOON, async || cluster.executors[0].serving().await).await;
}
