//! Commands whose driver dies: each is carried out once, and a paused run stays paused.

use std::future::Future;

use tokio::task::JoinHandle;
use tonic::{Code, Response, Status};
use tree_agent_cluster_tests::{Cluster, Options, SOON, eventually};
use tree_agent_contract::{Event, EventBody, NodeId, NodeStatus, RunStatus};
use tree_agent_proto::v1 as pb;

use super::completed;

/// Three leaves, of which the first one never answers.
const MODEL: &str = "scripted:fanout=3,depth=1,latency_ms=100,fail=hang,fail_titles=s0";
/// Bytes that end no answer of Postgres.
const NEVER: &[u8] = b"no answer ends like this";

/// When the driver dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    /// The command was heard. Neither its event nor its answer is written.
    BeforeTheAnswer,
    /// Event and answer are written, and the caller has the answer. The driver does not know it, and has done nothing
    /// of what follows: no event is published, and no call is stopped.
    BeforeTheEffect,
}

/// A run of which one leaf is at work and two have completed.
struct World {
    cluster: Cluster,
    run: String,
    death: Death,
}

/// The seq that a command was answered with.
type Answered = Result<u64, Status>;

impl World {
    async fn start(death: Death) -> Self {
        let options = Options { replicas: 2, postgres_proxy: true, ..Options::default() };
        let cluster = Cluster::start(options).await;
        let run = cluster.create(MODEL).await;
        let mut follower = cluster.follow(&run);
        let executes = |event: &Event| matches!(&event.body, EventBody::NodeStatusChanged(s) if s.status == NodeStatus::Executing);
        let at_work = |events: &[Event]| {
            let slow = node(events, "s0");
            completed(events) == 2
                && slow.is_some()
                && events.iter().any(|event| Some(event.node_id) == slow && executes(event))
        };
        follower.until("two leaves are done, and one is at work", at_work).await;
        Self { cluster, run, death }
    }

    async fn log(&self) -> Vec<Event> {
        let request =
            pb::ListEventsRequest { run_id: self.run.clone(), page_size: 1_000, ..Default::default() };
        let page = self.cluster.runs().list_events(request).await.expect("the log").into_inner();
        assert_eq!(page.next_page_token, "", "one page of events");
        page.events
            .into_iter()
            .map(|event| tree_agent_proto::Wire::from_wire(event).expect("an event"))
            .collect()
    }

    /// Gives a command, whose first event is of type `event`, and kills the driver that answers it. The same command
    /// again has the same answer.
    async fn command<F>(&mut self, event: &str, call: impl Fn(String) -> F) -> u64
    where
        F: Future<Output = Answered> + Send + 'static,
    {
        let proxy = self.cluster.to_postgres();
        let before = proxy.sprung();
        match self.death {
            Death::BeforeTheAnswer => proxy.freeze_on(event.as_bytes()),
            Death::BeforeTheEffect => proxy.lose_reply_to(event.as_bytes(), NEVER),
        }
        let request_id = format!("{:?}-{event}", self.death);
        let asked: JoinHandle<Answered> = tokio::spawn(call(request_id.clone()));
        let seq = match self.death {
            Death::BeforeTheAnswer => {
                eventually("the command is heard", SOON, async || proxy.sprung() > before).await;
                assert_eq!(self.count(event, &request_id).await, 0, "{event}");
                self.kill_driver().await;
                asked.await.expect("no panic")
            }
            Death::BeforeTheEffect => {
                let seq = asked.await.expect("no panic");
                self.kill_driver().await;
                seq
            }
        };
        // A takeover may take longer than the gateway waits. Then the caller repeats the command.
        let seq = match seq {
            Err(status) if status.code() == Code::Unavailable => call(request_id.clone()).await,
            seq => seq,
        };
        let seq = seq.unwrap_or_else(|status| panic!("{event}: {status:?}"));
        self.cluster.healthy().await;
        assert_eq!(call(request_id.clone()).await.expect("answered before"), seq, "{event}");
        assert_eq!(self.count(event, &request_id).await, 1, "{event}");
        seq
    }

    /// Kills the driver of the run, and starts it again.
    async fn kill_driver(&mut self) {
        let driver = self.cluster.driver_of(&self.run).await;
        self.cluster.planners[driver].kill();
        self.cluster.planners[driver].start();
    }

    /// How many events of this type a request has led to. Of reopened nodes only the one that is done again counts.
    async fn count(&self, event: &str, request_id: &str) -> usize {
        let is_of = |e: &&Event| {
            let payload: serde_json::Value = serde_json::from_str(&e.payload_json()).expect("JSON");
            e.body.event_type() == event
                && payload["requestId"] == request_id
                && !matches!(&e.body, EventBody::NodeReopened(reopened) if !reopened.again)
        };
        self.log().await.iter().filter(is_of).count()
    }
}

/// The node with this title.
fn node(events: &[Event], title: &str) -> Option<NodeId> {
    events.iter().find_map(|event| match &event.body {
        EventBody::NodeCreated(created) if created.title == title => Some(event.node_id),
        _ => None,
    })
}

/// True for an event that a role call leads to when it begins, while it is made, or when it ends.
fn is_of_a_call(event: &Event) -> bool {
    match &event.body {
        EventBody::NodeStatusChanged(change) => {
            matches!(change.status, NodeStatus::Planning | NodeStatus::Executing | NodeStatus::Aggregating)
        }
        body => [
            "tree.node_completed",
            "tree.node_result",
            "tree.artifact_created",
            "tree.scratchpad_updated",
            "tree.tool_call_requested",
            "tree.node_failed",
        ]
        .contains(&body.event_type()),
    }
}

/// The seq of an answer.
fn seq(outcome: Option<pb::CommandOutcome>) -> u64 {
    outcome.expect("an answer holds the outcome").seq
}

/// Gives every command, and kills the driver each time.
async fn every_command_is_carried_out_once(death: Death) {
    let mut world = World::start(death).await;
    let (run_id, runs) = (world.run.clone(), world.cluster.runs());
    let events = world.log().await;
    let of = |title: &str| node(&events, title).expect("the node exists").to_string();
    let root = events[0].node_id.to_string();

    /// Gives one command: the call, its request, and the fields of the request beside run and request id.
    macro_rules! command {
        ($event:literal, $call:ident, $request:ident { $($field:ident: $value:expr),* }) => {
            world.command($event, |request_id| {
                let mut runs = runs.clone();
                let request =
                    pb::$request { run_id: run_id.clone(), request_id, $($field: $value,)* ..Default::default() };
                async move {
                    runs.$call(request).await.map(Response::into_inner).map(|answer| seq(answer.outcome))
                }
            }).await
        };
    }

    command!("tree.node_paused", pause_run, PauseRunRequest { now: true });
    assert_eq!(world.cluster.run(&run_id).await.status(), pb::RunStatus::Paused);
    command!(
        "tree.guidance_added",
        guide_node,
        GuideNodeRequest { node_id: of("s0"), text: "be brief".into() }
    );
    let change = pb::BudgetChange { max_nodes: Some(50), ..Default::default() };
    command!("tree.budget_set", set_budget, SetBudgetRequest { change: Some(change) });
    command!("tree.node_reopened", retry_node, RetryNodeRequest { node_id: of("s1") });
    let plan = longer_plan(&world, &root).await;
    command!(
        "tree.plan_edited",
        edit_plan,
        EditPlanRequest { node_id: root.clone(), plan: Some(plan.clone()) }
    );
    command!("tree.node_stopped", stop_node, StopNodeRequest { node_id: of("s0") });
    assert_eq!(world.cluster.run(&run_id).await.status(), pb::RunStatus::Paused);
    command!("tree.node_resumed", resume_run, ResumeRunRequest {});
    let log = world.log().await;
    let paused = log.iter().skip_while(|event| !matches!(event.body, EventBody::NodePaused(_)));
    let paused = paused.take_while(|event| !matches!(event.body, EventBody::NodeResumed(_)));
    let calls: Vec<&Event> = paused.filter(|event| is_of_a_call(event)).collect();
    assert!(calls.is_empty(), "{death:?}: while the run was paused: {calls:?}");

    let history = world.cluster.follow(&run_id).end().await;
    assert_eq!(history.ending().status, RunStatus::Completed);
    assert_eq!(history.nodes(), 5, "the root, three leaves, and the step that was added");
    let output = world
        .cluster
        .cli("verify --all", |command| command.env("TREE_AGENT_DATABASE_URL", &world.cluster.database_url));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// The plan of the root, and a step more.
async fn longer_plan(world: &World, root: &str) -> pb::PlanEdit {
    let request = pb::GetNodeRequest { run_id: world.run.clone(), node_id: root.into(), at_seq: None };
    let node = world.cluster.runs().get_node(request).await.expect("the root").into_inner().node;
    let plan = node.and_then(|node| node.plan).expect("the root has a plan");
    let step = |step: pb::GraphStep| pb::StepEdit {
        step_id: step.step_id,
        title: step.title,
        reason: step.reason,
        success_criteria: step.success_criteria,
        ..Default::default()
    };
    let band = |band: pb::GraphBand| pb::BandEdit {
        goal: band.goal,
        parallelizable: band.parallelizable,
        steps: band.steps.into_iter().map(step).collect(),
    };
    let mut edit = pb::PlanEdit { summary: plan.summary, bands: plan.bands.into_iter().map(band).collect() };
    let more = pb::StepEdit { title: "one more".into(), ..Default::default() };
    edit.bands.last_mut().expect("a band").steps.push(more);
    edit
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f16_a_command_whose_driver_dies_before_the_answer_is_carried_out_once() {
    every_command_is_carried_out_once(Death::BeforeTheAnswer).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f16_a_command_whose_driver_dies_after_the_answer_is_carried_out_once() {
    every_command_is_carried_out_once(Death::BeforeTheEffect).await;
}
