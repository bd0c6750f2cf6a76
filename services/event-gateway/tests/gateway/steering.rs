//! Commands on a live run: each is answered once, refused with its field, and previewed without a trace.

use std::sync::Arc;
use std::time::Duration;

use crate::common::driver::TestDriver;
use crate::common::{Gateway, Mode, SOON, TestFanout, field};
use tonic::{Code, Status};
use tree_agent_contract::event::Event;
use tree_agent_contract::{EventBody, RunId};
use tree_agent_event_gateway::Config;
use tree_agent_proto::v1::{self as pb, *};
use tree_agent_store::embedded::EmbeddedStore;
use tree_agent_store::{Archives, Runs};

/// A run of which the slow step is at work, and its gateway and driver.
struct World {
    gateway: Gateway,
    driver: TestDriver,
    run: String,
}

impl World {
    async fn start(mode: Mode) -> Self {
        let gateway = Gateway::with(mode, Config::default()).await;
        let driver = TestDriver::start(gateway.store.clone(), gateway.fanout.clone());
        let run = gateway.create_run("Compare the offers").await.run_id;
        let world = Self { gateway, driver, run };
        world.until(|graph| at_work(graph, "Slow risks") && has(graph, "Costs", NodeStatus::Completed)).await;
        world
    }

    fn runs(&self) -> run_service_client::RunServiceClient<tree_agent_runtime::channel::Peers> {
        self.gateway.runs()
    }

    async fn graph(&self) -> Graph {
        let request = GetGraphRequest { run_id: self.run.clone(), at_seq: None };
        self.runs().get_graph(request).await.unwrap().into_inner().graph.unwrap()
    }

    /// The graph, once it is as wanted.
    async fn until(&self, wanted: impl Fn(&Graph) -> bool) -> Graph {
        let look = async {
            loop {
                let graph = self.graph().await;
                if wanted(&graph) {
                    return graph;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, look).await.expect("the run gets there")
    }

    async fn node(&self, title: &str) -> String {
        node(&self.graph().await, title).id.clone()
    }

    async fn log(&self) -> Vec<Event> {
        let run: RunId = self.run.parse().unwrap();
        self.gateway.store.read(run, 0, 10_000).await.unwrap()
    }

    async fn pause(&self, request: PauseRunRequest) -> Result<CommandOutcome, Status> {
        let answer = self.runs().pause_run(request).await?;
        Ok(answer.into_inner().outcome.unwrap())
    }

    fn to_pause(&self, request_id: &str) -> PauseRunRequest {
        PauseRunRequest { run_id: self.run.clone(), request_id: request_id.into(), ..Default::default() }
    }

    async fn ended(&self) -> Graph {
        self.driver.open_gate();
        self.until(|graph| graph.status() == RunStatus::Completed).await
    }

    async fn stop(self) {
        self.driver.stop().await;
        self.gateway.stop().await;
    }
}

fn node<'a>(graph: &'a Graph, title: &str) -> &'a GraphNode {
    graph.nodes.iter().find(|node| node.title == title).expect("the node exists")
}

fn has(graph: &Graph, title: &str, status: NodeStatus) -> bool {
    graph.nodes.iter().any(|node| node.title == title && node.status() == status)
}

fn at_work(graph: &Graph, title: &str) -> bool {
    has(graph, title, NodeStatus::Executing)
}

fn is(status: &Status, code: Code, name: &str) {
    assert_eq!((status.code(), field(status).as_str()), (code, name), "{status:?}");
}

#[tokio::test]
async fn a_run_is_paused_and_resumed_whatever_the_fan_out_does() {
    for mode in [Mode::Faithful, Mode::Lossy, Mode::Deaf, Mode::Down] {
        let world = World::start(mode).await;
        let outcome = world.pause(world.to_pause("p")).await.unwrap();
        let graph = world.graph().await;
        assert_eq!((graph.status(), outcome.preview), (RunStatus::Paused, None), "{mode:?}");
        assert!(graph.seq >= outcome.seq && outcome.seq > 0);
        // The same request again: the same answer, and no event.
        assert_eq!(world.pause(world.to_pause("p")).await.unwrap().seq, outcome.seq);
        // Nor does another pause of what is paused lead to one.
        world.pause(world.to_pause("q")).await.unwrap();
        let resume = ResumeRunRequest { run_id: world.run.clone(), ..Default::default() };
        world.runs().resume_run(resume.clone()).await.unwrap();
        let refused = world.runs().resume_run(resume).await.unwrap_err();
        is(&refused, Code::FailedPrecondition, "");
        world.ended().await;
        let paused = |event: &&Event| matches!(event.body, EventBody::NodePaused(_));
        assert_eq!(world.log().await.iter().filter(paused).count(), 1, "{mode:?}");
        // Also after the end of the run.
        assert_eq!(world.pause(world.to_pause("p")).await.unwrap().seq, outcome.seq);
        is(&world.pause(world.to_pause("q")).await.unwrap_err(), Code::FailedPrecondition, "");
        let late = world.pause(world.to_pause("late")).await.unwrap_err();
        is(&late, Code::FailedPrecondition, "run_id");
        assert!(late.message().contains("fork it"), "{late:?}");
        let preview = PauseRunRequest { validate_only: true, ..world.to_pause("") };
        is(&world.pause(preview).await.unwrap_err(), Code::FailedPrecondition, "run_id");
        world.stop().await;
    }
}

#[tokio::test]
async fn another_command_with_the_same_request_id_is_refused() {
    let world = World::start(Mode::Faithful).await;
    world.pause(world.to_pause("p")).await.unwrap();
    let other = PauseRunRequest { now: true, ..world.to_pause("p") };
    is(&world.pause(other.clone()).await.unwrap_err(), Code::AlreadyExists, "request_id");
    let resume = ResumeRunRequest { run_id: world.run.clone(), request_id: "p".into(), ..Default::default() };
    is(&world.runs().resume_run(resume).await.unwrap_err(), Code::AlreadyExists, "request_id");
    let resume = ResumeRunRequest { run_id: world.run.clone(), ..Default::default() };
    world.runs().resume_run(resume).await.unwrap();
    world.ended().await;
    is(&world.pause(other).await.unwrap_err(), Code::AlreadyExists, "request_id");
    world.stop().await;
}

#[tokio::test]
async fn a_preview_says_what_a_command_would_do_and_changes_nothing() {
    let world = World::start(Mode::Faithful).await;
    let costs = world.node("Costs").await;
    let request = RetryNodeRequest {
        run_id: world.run.clone(),
        node_id: costs.clone(),
        validate_only: true,
        ..Default::default()
    };
    let before = world.log().await.len();
    let outcome = world.runs().retry_node(request.clone()).await.unwrap().into_inner().outcome.unwrap();
    let preview = outcome.preview.unwrap();
    assert_eq!((outcome.seq, preview.seq as usize), (0, before));
    assert!(preview.node_ids.contains(&costs), "{preview:?}");
    let calls = preview.calls.unwrap();
    assert!(calls.execute >= 1, "{calls:?}");
    assert_eq!(world.log().await.len(), before);
    // The command may demand that nothing has changed since, which holds as long as nobody steers.
    let retry = RetryNodeRequest { validate_only: false, expected_seq: Some(preview.seq), ..request.clone() };
    let answer = world.runs().retry_node(retry.clone()).await.unwrap().into_inner();
    assert_eq!(answer.fork_run_id, None);
    assert!(answer.outcome.unwrap().seq > preview.seq);
    world
        .until(|graph| node(graph, "Costs").generation == 1 && has(graph, "Costs", NodeStatus::Completed))
        .await;
    let refused =
        world.runs().retry_node(RetryNodeRequest { request_id: "new".into(), ..retry }).await.unwrap_err();
    is(&refused, Code::Aborted, "expected_seq");
    world.ended().await;
    world.stop().await;
}

#[tokio::test]
async fn a_node_is_guided_and_stopped() {
    let world = World::start(Mode::Faithful).await;
    let slow = world.node("Slow risks").await;
    let guide = GuideNodeRequest {
        run_id: world.run.clone(),
        node_id: slow.clone(),
        text: "be \0brief".into(),
        restart: true,
        ..Default::default()
    };
    world.runs().guide_node(guide).await.unwrap();
    let told = world.log().await.into_iter().find_map(|event| match event.body {
        EventBody::GuidanceAdded(guidance) => Some(guidance),
        _ => None,
    });
    let told = told.unwrap();
    assert_eq!(told.text, "be \u{fffd}brief");
    assert!(!told.request_id.is_empty(), "a request without an id gets one");
    let stop = StopNodeRequest { run_id: world.run.clone(), node_id: slow, ..Default::default() };
    world.runs().stop_node(stop).await.unwrap();
    let graph = world.until(|graph| graph.status() == RunStatus::Completed).await;
    assert!(has(&graph, "Slow risks", NodeStatus::Cancelled));
    world.stop().await;
}

/// The plan of the root, as it is edited.
fn as_edit(graph: &Graph) -> PlanEdit {
    let plan = node(graph, "Compare the offers").plan.clone().unwrap();
    let step = |step: GraphStep| StepEdit {
        step_id: step.step_id,
        title: step.title,
        reason: step.reason,
        success_criteria: step.success_criteria,
        ..Default::default()
    };
    let band = |band: GraphBand| BandEdit {
        goal: band.goal,
        parallelizable: band.parallelizable,
        steps: band.steps.into_iter().map(step).collect(),
    };
    PlanEdit { summary: plan.summary, bands: plan.bands.into_iter().map(band).collect() }
}

#[tokio::test]
async fn a_plan_is_edited_as_long_as_its_steps_have_not_begun() {
    let world = World::start(Mode::Faithful).await;
    let graph = world.graph().await;
    let root = node(&graph, "Compare the offers").id.clone();
    let mut plan = as_edit(&graph);
    plan.bands[1].steps.push(StepEdit { title: "Dates".into(), ..Default::default() });
    let request = |plan: PlanEdit| EditPlanRequest {
        run_id: world.run.clone(),
        node_id: root.clone(),
        plan: Some(plan),
        ..Default::default()
    };
    let mut begun = plan.clone();
    begun.bands[0].steps[1].title = "Other risks".into();
    let refused = world.runs().edit_plan(request(begun)).await.unwrap_err();
    assert!(field(&refused).starts_with("plan.bands[0].steps[1]"), "{refused:?}");
    let mut nameless = plan.clone();
    nameless.bands[1].steps[1].title.clear();
    nameless.bands[1].steps[1].success_criteria.push(String::new());
    nameless.bands[1].steps[0].step_id = "s".repeat(129);
    let refused = world.runs().edit_plan(request(nameless)).await.unwrap_err();
    is(&refused, Code::InvalidArgument, "plan.bands[1].steps[0].step_id");
    for name in ["plan.bands[1].steps[1].title: ", "plan.bands[1].steps[1].success_criteria[0]: "] {
        assert!(refused.message().contains(name), "{refused:?}");
    }
    // The same request with new steps is the same plan.
    let edit = EditPlanRequest { request_id: "e".into(), ..request(plan) };
    let first = world.runs().edit_plan(edit.clone()).await.unwrap().into_inner();
    assert_eq!(world.runs().edit_plan(edit.clone()).await.unwrap().into_inner(), first);
    // Another request with a new step at the same place adds another step.
    let mut longer = as_edit(&world.graph().await);
    longer.bands[1].steps.insert(1, StepEdit { title: "Names".into(), ..Default::default() });
    world.runs().edit_plan(EditPlanRequest { request_id: "g".into(), ..request(longer) }).await.unwrap();
    // A caller who has not seen that edit is refused.
    let stale = EditPlanRequest { request_id: "f".into(), expected_seq: Some(graph.seq), ..edit };
    is(&world.runs().edit_plan(stale).await.unwrap_err(), Code::Aborted, "expected_seq");
    let graph = world.ended().await;
    for title in ["Dates", "Names", "Report"] {
        assert!(has(&graph, title, NodeStatus::Completed), "{title}");
    }
    world.stop().await;
}

#[tokio::test]
async fn budgets_change_within_the_maxima_of_the_server() {
    let world = World::start(Mode::Faithful).await;
    let set =
        |change| SetBudgetRequest { run_id: world.run.clone(), change: Some(change), ..Default::default() };
    let beyond = BudgetChange { max_nodes: Some(100_001), max_parallel_steps: Some(0), ..Default::default() };
    let refused = world.runs().set_budget(set(beyond)).await.unwrap_err();
    is(&refused, Code::InvalidArgument, "change.max_nodes");
    assert!(refused.message().contains("TREE_AGENT_MAX_NODES"), "{refused:?}");
    assert!(refused.message().contains("change.max_parallel_steps"), "{refused:?}");
    is(
        &world.runs().set_budget(set(BudgetChange::default())).await.unwrap_err(),
        Code::InvalidArgument,
        "change",
    );
    let change = BudgetChange { max_tokens: Some(5_000), max_nodes: Some(500), ..Default::default() };
    world.runs().set_budget(set(change)).await.unwrap();
    is(&world.runs().set_budget(set(change)).await.unwrap_err(), Code::FailedPrecondition, "change");
    // The root has no limit of its own. That of the run, which the server may demand, is not lifted in its name.
    let node_id = world.gateway.store.run(world.run.parse().unwrap()).await.unwrap().root_node_id.to_string();
    let lifted = BudgetChange { max_tokens: Some(0), ..Default::default() };
    let lift = SetBudgetRequest { node_id, ..set(lifted) };
    is(&world.runs().set_budget(lift).await.unwrap_err(), Code::FailedPrecondition, "change");
    let budgets_set = |event: &Event| matches!(event.body, EventBody::BudgetSet(_));
    assert_eq!(world.log().await.iter().filter(|event| budgets_set(event)).count(), 1);
    world.ended().await;
    world.stop().await;
}

#[tokio::test]
async fn what_cannot_be_done_is_named() {
    let world = World::start(Mode::Faithful).await;
    let other = world.gateway.create_run("Another one").await;
    let foreign =
        world.gateway.store.run(other.run_id.parse().unwrap()).await.unwrap().root_node_id.to_string();
    let (run_id, slow) = (world.run.clone(), world.node("Slow risks").await);
    let guide = |run_id: &str, node_id: &str, text: &str| GuideNodeRequest {
        run_id: run_id.into(),
        node_id: node_id.into(),
        text: text.into(),
        ..Default::default()
    };
    let nobody = "0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b";
    let long_id = GuideNodeRequest { request_id: "r".repeat(129), ..guide(&run_id, &slow, "x") };
    for (request, code, name) in [
        (guide("nonsense", &slow, "x"), Code::InvalidArgument, "run_id"),
        (guide(nobody, &slow, "x"), Code::NotFound, "run_id"),
        (guide(&run_id, "", "x"), Code::InvalidArgument, "node_id"),
        (guide(&run_id, nobody, "x"), Code::NotFound, "node_id"),
        (guide(&run_id, &foreign, "x"), Code::NotFound, "node_id"),
        (guide(&run_id, &slow, " "), Code::InvalidArgument, "text"),
        (guide(&run_id, &slow, &"x".repeat(8 * 1024 + 1)), Code::InvalidArgument, "text"),
        (long_id, Code::InvalidArgument, "request_id"),
    ] {
        for validate_only in [true, false] {
            let request = GuideNodeRequest { validate_only, ..request.clone() };
            is(&world.runs().guide_node(request).await.unwrap_err(), code, name);
        }
    }
    let retry =
        RetryNodeRequest { run_id, node_id: slow, model: "mistral:large".into(), ..Default::default() };
    is(&world.runs().retry_node(retry.clone()).await.unwrap_err(), Code::InvalidArgument, "model");
    let retry = RetryNodeRequest { model: String::new(), ..retry };
    is(&world.runs().retry_node(retry).await.unwrap_err(), Code::FailedPrecondition, "node_id");
    let untouched = |event: &Event| !matches!(event.body, EventBody::GuidanceAdded(_));
    assert!(world.log().await.iter().all(untouched));
    world.stop().await;
}

#[tokio::test]
async fn without_a_driver_a_command_waits_and_can_be_repeated() {
    let config = Config { answer_within: Duration::from_millis(50), ..Config::default() };
    let gateway = Gateway::start(config).await;
    let run = gateway.create_run("Nobody drives me").await;
    let request =
        PauseRunRequest { run_id: run.run_id.clone(), request_id: "p".into(), ..Default::default() };
    let waiting = gateway.runs().pause_run(request.clone()).await.unwrap_err();
    is(&waiting, Code::Unavailable, "");
    assert!(waiting.message().contains("request_id \"p\""), "{waiting:?}");
    let driver = TestDriver::start(gateway.store.clone(), gateway.fanout.clone());
    let answered = async {
        loop {
            match gateway.runs().pause_run(request.clone()).await {
                Ok(answer) => return answer.into_inner().outcome.unwrap(),
                Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status:?}"),
            }
        }
    };
    let outcome = tokio::time::timeout(SOON, answered).await.expect("answered");
    assert!(outcome.seq > 0);
    let events = gateway.store.read(run.run_id.parse().unwrap(), 0, 1_000).await.unwrap();
    let paused = |event: &&Event| matches!(event.body, EventBody::NodePaused(_));
    assert_eq!(events.iter().filter(paused).count(), 1);
    driver.stop().await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_pause_behind_a_cancellation_is_refused() {
    let gateway = Gateway::start(Config::default()).await;
    let run_id = gateway.create_run("Cancel me").await.run_id;
    let cancel = pb::CancelRunRequest { run_id: run_id.clone(), reason: "enough".into() };
    gateway.runs().cancel_run(cancel).await.unwrap();
    let mut runs = gateway.runs();
    let request = PauseRunRequest { run_id, ..Default::default() };
    let pause = tokio::spawn(async move { runs.pause_run(request).await });
    let driver = TestDriver::start(gateway.store.clone(), gateway.fanout.clone());
    let refused = tokio::time::timeout(SOON, pause).await.expect("answered").unwrap().unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
    assert!(refused.message().contains("ended"), "{refused:?}");
    driver.stop().await;
    gateway.stop().await;
}

#[tokio::test]
async fn archived_and_deleted_runs_take_no_commands() {
    let store = Arc::new(EmbeddedStore::open_in_memory().await.unwrap());
    let gateway = Gateway::over(store.clone(), TestFanout::new(Mode::Faithful), Config::default()).await;
    let ended = async |objective: &str| {
        let run = gateway.create_run(objective).await;
        gateway.drive(&run).await.finish().await;
        run
    };
    let (archived, deleted) = (ended("archived").await, ended("deleted").await);
    let run: RunId = archived.run_id.parse().unwrap();
    let head = store.run(run).await.unwrap().head_seq;
    assert!(store.prune_run(run, head, "none").await.unwrap());
    gateway.runs().delete_run(DeleteRunRequest { run_id: deleted.run_id.clone() }).await.unwrap();
    for validate_only in [true, false] {
        let pause = |run: &pb::Run| PauseRunRequest {
            run_id: run.run_id.clone(),
            validate_only,
            ..Default::default()
        };
        let refused = gateway.runs().pause_run(pause(&archived)).await.unwrap_err();
        is(&refused, Code::FailedPrecondition, "");
        assert!(refused.message().contains("archive"), "{refused:?}");
        is(&gateway.runs().pause_run(pause(&deleted)).await.unwrap_err(), Code::NotFound, "run_id");
    }
    gateway.stop().await;
}
