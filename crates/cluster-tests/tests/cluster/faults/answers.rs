//! Answers of roles that are lost, duplicated, or arrive after another driver has taken the run over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt;
use futures::stream::BoxStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tree_agent_cluster_tests::{Cluster, Options, SOON, Signal, eventually};
use tree_agent_contract::role::{
    ExecuteInput, ExecutorOutput, ParentHintDraft, ResultDraft, RoleUpdate, ScratchpadDraft,
};
use tree_agent_contract::{Event, EventBody, HintType, NodeStatus, ResultKind};
use tree_agent_proto::internal::v1::executor_service_server::{ExecutorService, ExecutorServiceServer};
use tree_agent_proto::{Wire, internal::v1 as pb};
use tree_agent_runtime::{Readiness, Server};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f12_answers_that_are_lost_are_asked_for_again() {
    let cluster = Cluster::start(Options { executor_proxy: true, ..Options::default() }).await;
    let [proxy] = cluster.to_executors() else { panic!("one executor") };
    // The connection breaks after some answers, in the middle of one; then the next connection breaks too.
    proxy.cut_after_reply_bytes(6_000);
    proxy.cut_after_reply_bytes(20_000);
    let run = cluster.create("scripted:fanout=4,depth=2,latency_ms=50,result_bytes=2000,tools=1").await;
    let history = cluster.follow(&run).end().await;
    history.assert_whole();
    assert_eq!(history.nodes(), 21);
    assert_eq!(proxy.sprung(), 2);
    let lost = history.messages().iter().filter(|m| m.contains("the connection broke")).count();
    assert!(lost >= 2, "answers were lost: {:?}", history.messages());
}

/// An executor that answers twice at the first attempt, keeps sending after its answer at the second, and answers
/// correctly at the third.
struct Stutterer {
    calls: Arc<AtomicUsize>,
}

#[tonic::async_trait]
impl ExecutorService for Stutterer {
    type ExecuteStream = BoxStream<'static, Result<pb::ExecuteResponse, Status>>;

    async fn execute(
        &self,
        request: Request<pb::ExecuteRequest>,
    ) -> Result<Response<Self::ExecuteStream>, Status> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let input = ExecuteInput::from_wire(request.into_inner())
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let say = |message| Ok(pb::ExecuteResponse { message: Some(message) });
        use pb::execute_response::Message::{Output, Update};
        let note = "done".to_owned();
        let output = ExecutorOutput {
            actions: vec![],
            artifacts: vec![],
            result: ResultDraft {
                kind: ResultKind::Json,
                summary: format!("did {}", input.call.title),
                success_assessment: None,
                primary_artifact_label: None,
                parent_hint: ParentHintDraft { hint_type: HintType::ReadJson, artifact_labels: vec![] },
                key_findings: Vec::new(),
                gaps: Vec::new(),
            },
            scratchpad: ScratchpadDraft { append_markdown: note.clone(), tail_preview: note },
        };
        let output = Output(output.to_wire());
        let says = match input.call.attempt {
            1 => vec![say(output.clone()), say(output)],
            2 => vec![say(output), say(Update(RoleUpdate::Heartbeat.to_wire()))],
            _ => vec![say(output)],
        };
        Ok(Response::new(futures::stream::iter(says).boxed()))
    }

    type ResearchStream = BoxStream<'static, Result<pb::ResearchResponse, Status>>;

    async fn research(
        &self,
        _: Request<pb::ResearchRequest>,
    ) -> Result<Response<Self::ResearchStream>, Status> {
        Err(Status::unimplemented("this test executes"))
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f12_answers_that_are_doubled_are_refused_whole() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let calls = Arc::new(AtomicUsize::new(0));
    let executor = ExecutorServiceServer::new(Stutterer { calls: calls.clone() });
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    tokio::spawn(Server::new(Readiness::new()).service(executor).serve(listener, stop));
    let settings = vec![("planner", "TREE_AGENT_EXECUTORS", url)];
    let cluster = Cluster::start(Options { settings, ..Options::default() }).await;
    let run = cluster.create("scripted:fanout=3,depth=1").await;
    let history = cluster.follow(&run).end().await;
    history.assert_whole();
    assert_eq!(history.nodes(), 4);
    assert_eq!(calls.load(Ordering::Relaxed), 9, "three attempts of three leaves");
    let refused = history.messages().iter().filter(|m| m.contains("something followed the output")).count();
    assert_eq!(refused, 6, "{:?}", history.messages());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-all"]
async fn f12_answers_after_a_takeover_are_refused_and_counted() {
    let mut cluster = Cluster::start(Options { replicas: 2, ..Options::default() }).await;
    let run = cluster.create("scripted:fanout=3,depth=1,latency_ms=700").await;
    let mut follower = cluster.follow(&run);
    let executing = |events: &[Event]| {
        let at_work = |e: &&Event| matches!(&e.body, EventBody::NodeStatusChanged(s) if s.status == NodeStatus::Executing);
        events.iter().filter(at_work).count() >= 3
    };
    follower.until("three executors are at work", executing).await;
    let driver = cluster.driver_of(&run).await;
    // The answers arrive while it is frozen and wait for it when it wakes.
    cluster.planners[driver].signal(Signal::Stop);
    let history = follower.end().await;
    history.assert_whole();
    cluster.planners[driver].signal(Signal::Continue);
    eventually("the woken planner notices", SOON, async || {
        let log = cluster.planners[driver].log();
        log.contains("another driver owns the run") || log.contains("the lease was lost")
    })
    .await;
    let writers = cluster.writers_of(&run).await;
    assert!(writers.is_sorted() && writers.len() == history.events().len(), "{writers:?}");
    let planner = &cluster.planners[driver];
    assert_eq!(planner.metric("tree_agent_driver_lost_runs_total").await, Some(1.0));
    assert_eq!(cluster.planners[1 - driver].metric("tree_agent_driver_takeovers_total").await, Some(1.0));
    assert_eq!(cluster.planners[driver].terminate(SOON), 0);
}
