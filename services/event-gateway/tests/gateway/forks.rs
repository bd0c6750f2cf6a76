//! Forks: a run goes on from any event of another one, and a node of a run that has ended is done again in a fork.

use std::sync::Arc;
use std::time::Duration;

use crate::common::driver::TestDriver;
use crate::common::{Gateway, Mode, SOON, TestFanout, field};
use tonic::Code;
use tonic_types::StatusExt;
use tree_agent_contract::{EventBody, RunId};
use tree_agent_event_gateway::{Config, Maxima};
use tree_agent_proto::v1::{self as pb, *};
use tree_agent_store::embedded::EmbeddedStore;
use tree_agent_store::{Archives, Runs, Store};

/// A run that has ended, and its gateway and driver.
struct World {
    gateway: Gateway,
    driver: TestDriver,
    run: String,
}

impl World {
    async fn ended() -> Self {
        Self::ended_over(crate::common::store().await).await
    }

    async fn ended_over(store: Arc<dyn Store>) -> Self {
        let gateway = Gateway::over(store, TestFanout::new(Mode::Faithful), Config::default()).await;
        let driver = TestDriver::start(gateway.store.clone(), gateway.fanout.clone());
        driver.open_gate();
        let run = gateway.create_run("Compare the offers").await.run_id;
        let world = Self { gateway, driver, run };
        world.until_completed(&world.run).await;
        world
    }

    /// A run that has ended and that reads one project.
    async fn ended_in(&self, project: &str) -> String {
        let context = RunContext { scope: Scope::Project as i32, project_ids: vec![project.to_owned()] };
        let request = CreateRunRequest {
            objective: "Compare the offers".into(),
            context: Some(context),
            ..Default::default()
        };
        let run = self.gateway.runs().create_run(request).await.unwrap().into_inner().run.unwrap().run_id;
        self.until_completed(&run).await;
        run
    }

    /// Writes a document of a project; returns its id.
    async fn write(&self, project_id: &str, path: &str) -> String {
        let request = CreateDocumentRequest {
            project_id: project_id.to_owned(),
            path: path.to_owned(),
            body: "text".into(),
            ..Default::default()
        };
        self.gateway
            .documents()
            .create_document(request)
            .await
            .unwrap()
            .into_inner()
            .document
            .unwrap()
            .document_id
    }

    async fn graph(&self, run: &str) -> Graph {
        let request = GetGraphRequest { run_id: run.to_owned(), at_seq: None };
        self.gateway.runs().get_graph(request).await.unwrap().into_inner().graph.unwrap()
    }

    async fn until_completed(&self, run: &str) -> Graph {
        let look = async {
            loop {
                let graph = self.graph(run).await;
                if graph.status() == RunStatus::Completed {
                    return graph;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, look).await.expect("the run ends")
    }

    async fn node(&self, title: &str) -> String {
        let graph = self.graph(&self.run).await;
        graph.nodes.iter().find(|node| node.title == title).expect("a node with the title").id.clone()
    }

    fn retry(&self, node_id: String) -> ForkEdit {
        let retry = RetryEdit { node_id, ..Default::default() };
        ForkEdit { edit: Some(fork_edit::Edit::Retry(retry)) }
    }

    async fn fork(&self, request: ForkRunRequest) -> Result<ForkRunResponse, tonic::Status> {
        let request = ForkRunRequest { run_id: self.run.clone(), ..request };
        Ok(self.gateway.runs().fork_run(request).await?.into_inner())
    }

    /// What one stream shows of a run until it ends, by seq.
    async fn watched(&self, run: &str) -> Vec<u64> {
        let request = WatchRunRequest { run_id: run.to_owned(), ..Default::default() };
        let mut stream = self.gateway.runs().watch_run(request).await.unwrap().into_inner();
        let mut seen = Vec::new();
        let all = async {
            while let Some(response) = stream.message().await.unwrap() {
                if let Some(watch_run_response::Message::Event(event)) = response.message {
                    seen.push(event.seq);
                }
            }
        };
        tokio::time::timeout(SOON, all).await.expect("the stream ends with the run");
        seen
    }

    async fn stop(self) {
        self.driver.stop().await;
        self.gateway.stop().await;
    }
}

#[tokio::test]
async fn a_step_of_an_ended_run_is_done_again_in_a_fork() {
    let world = World::ended().await;
    let costs = world.node("Costs").await;
    let asked = ForkRunRequest {
        edits: vec![world.retry(costs.clone())],
        display_name: "again".into(),
        request_id: "r".into(),
        ..Default::default()
    };
    let preview = world.fork(ForkRunRequest { validate_only: true, ..asked.clone() }).await.unwrap();
    assert_eq!(preview.fork_run_id, "");
    let preview = preview.preview.unwrap();
    let calls = preview.calls.unwrap();
    assert_eq!((calls.execute, calls.aggregate, preview.reused_nodes), (1, 1, 2), "{calls:?}");
    let fork = world.fork(asked.clone()).await.unwrap().fork_run_id;
    assert_eq!(world.fork(asked.clone()).await.unwrap().fork_run_id, fork, "the same request again");
    let other = ForkRunRequest { edits: Vec::new(), ..asked };
    assert_eq!(world.fork(other).await.unwrap_err().code(), Code::AlreadyExists);
    let graph = world.until_completed(&fork).await;
    assert_eq!(graph.nodes.iter().find(|n| n.id == costs).unwrap().generation, 1);
    let run = world.gateway.runs().get_run(GetRunRequest { run_id: fork.clone() }).await.unwrap();
    let run = run.into_inner().run.unwrap();
    assert_eq!(
        (run.parent_run_id.as_deref(), run.display_name.as_str()),
        (Some(world.run.as_str()), "again")
    );
    assert_eq!(run.fork_edits, [format!("retries node {costs}")]);
    // One contiguous log, of which the fork wrote the rest.
    let id: RunId = fork.parse().unwrap();
    let log = world.gateway.store.read(id, 0, 10_000).await.unwrap();
    assert!(log.iter().zip(1..).all(|(event, seq)| event.seq == seq && event.run_id == id));
    assert!(matches!(log[run.parent_seq as usize].body, EventBody::RunForked(_)));
    // Nodes that it shares are its own, too, with their documents.
    let shared = world.node("Report").await;
    let node = GetNodeRequest { run_id: fork.clone(), node_id: shared.clone(), ..Default::default() };
    world.gateway.runs().get_node(node).await.unwrap();
    let pad = graph.nodes.iter().find(|n| n.id == costs).unwrap().scratchpad_doc_id.clone().unwrap();
    let body = async |run_id: &str| {
        let get =
            GetDocumentRequest { document_id: pad.clone(), run_id: run_id.into(), ..Default::default() };
        world.gateway.documents().get_document(get).await.unwrap().into_inner().document.unwrap().body
    };
    let (of_run, of_fork) = (body(&world.run).await, body(&fork).await);
    assert!(of_fork.starts_with(&of_run) && of_fork.len() > of_run.len(), "{of_run:?} {of_fork:?}");
    let listed = ListRunsRequest { parent_run_id: world.run.clone(), ..Default::default() };
    let listed = world.gateway.runs().list_runs(listed).await.unwrap().into_inner().runs;
    assert_eq!(listed.iter().map(|run| &run.run_id).collect::<Vec<_>>(), [&fork]);
    world.stop().await;
}

#[tokio::test]
async fn retrying_a_node_of_an_ended_run_makes_a_fork() {
    let world = World::ended().await;
    let retry = RetryNodeRequest {
        run_id: world.run.clone(),
        node_id: world.node("Report").await,
        guidance: "be brief".into(),
        request_id: "r".into(),
        ..Default::default()
    };
    let dry = RetryNodeRequest { validate_only: true, ..retry.clone() };
    let dry = world.gateway.runs().retry_node(dry).await.unwrap().into_inner();
    assert_eq!(dry.fork_run_id, None);
    assert!(dry.outcome.unwrap().preview.unwrap().node_count > 0);
    let made =
        world.gateway.runs().retry_node(retry.clone()).await.unwrap().into_inner().fork_run_id.unwrap();
    let again =
        world.gateway.runs().retry_node(retry.clone()).await.unwrap().into_inner().fork_run_id.unwrap();
    assert_eq!(made, again);
    world.until_completed(&made).await;
    let stale = RetryNodeRequest { expected_seq: Some(1), request_id: "s".into(), ..retry };
    let stale = world.gateway.runs().retry_node(stale).await.unwrap_err();
    assert_eq!((stale.code(), field(&stale).as_str()), (Code::Aborted, "expected_seq"));
    assert!(stale.message().contains("a retry makes a fork"), "{stale:?}");
    world.stop().await;
}

#[tokio::test]
async fn one_stream_shows_a_fork_beyond_the_end_of_the_run_that_it_forks() {
    let world = World::ended().await;
    let head = async |run: &str| world.gateway.store.run(run.parse().unwrap()).await.unwrap().head_seq;
    let shared = head(&world.run).await;
    let edits = vec![world.retry(world.node("Costs").await)];
    let fork = world.fork(ForkRunRequest { edits, ..Default::default() }).await.unwrap().fork_run_id;
    // While it is driven, and when it has ended; and one that ended when it began.
    let seen = world.watched(&fork).await;
    assert_eq!(seen, (1..=head(&fork).await).collect::<Vec<_>>());
    assert!(seen.len() as u64 > shared + 1);
    assert_eq!(world.watched(&fork).await, seen);
    let idle = world.fork(ForkRunRequest::default()).await.unwrap().fork_run_id;
    assert_eq!(world.watched(&idle).await, (1..=shared + 1).collect::<Vec<_>>());
    world.stop().await;
}

#[tokio::test]
async fn a_fork_within_the_life_of_a_run_goes_on_from_there() {
    let world = World::ended().await;
    let fork =
        world.fork(ForkRunRequest { at_seq: Some(8), ..Default::default() }).await.unwrap().fork_run_id;
    world.until_completed(&fork).await;
    // A fork of that fork, at an event that both share, is one of the run that began the log.
    let request = ForkRunRequest { run_id: fork.clone(), at_seq: Some(6), ..Default::default() };
    let of_fork = world.gateway.runs().fork_run(request).await.unwrap().into_inner().fork_run_id;
    let log = world.gateway.store.read(of_fork.parse().unwrap(), 6, 1).await.unwrap();
    let EventBody::RunForked(forked) = &log[0].body else { panic!("how it begins: {log:?}") };
    assert_eq!(forked.origin_run_id.unwrap().to_string(), world.run);
    let id: RunId = fork.parse().unwrap();
    let parts = world.gateway.store.segments(id).await.unwrap();
    assert!(parts.len() == 1 && parts[0].until >= 8, "{parts:?}");
    // At the end, without edits, it has ended, too.
    let idle = world.fork(ForkRunRequest::default()).await.unwrap().fork_run_id;
    let idle = world.gateway.store.run(idle.parse().unwrap()).await.unwrap();
    assert!(idle.status.is_final());
    world.stop().await;
}

#[tokio::test]
async fn a_fork_keeps_within_the_maxima_of_the_server_that_makes_it() {
    let world = World::ended().await;
    let maxima = Maxima { nodes: 50, tokens: Some(5_000), depth: 4, ..Maxima::default() };
    let config = Config { maxima, ..Config::default() };
    let strict = Gateway::over(world.gateway.store.clone(), world.gateway.fanout.clone(), config).await;
    let fork = async |request: ForkRunRequest| {
        let request = ForkRunRequest { run_id: world.run.clone(), ..request };
        strict.runs().fork_run(request).await.map(|answer| answer.into_inner().fork_run_id)
    };
    let retry = world.retry(world.node("Costs").await);
    let root = world.graph(&world.run).await.nodes[0].id.clone();
    let count =
        async || strict.runs().list_runs(ListRunsRequest::default()).await.unwrap().into_inner().runs.len();
    let before = count().await;
    for validate_only in [true, false] {
        let request = ForkRunRequest { edits: vec![retry.clone()], validate_only, ..Default::default() };
        let refused = fork(request).await.unwrap_err();
        assert_eq!((refused.code(), field(&refused).as_str()), (Code::InvalidArgument, "run_id"));
        for part in ["has max_nodes ", "has max_tokens without limit", "TREE_AGENT_MAX_NODES"] {
            assert!(refused.message().contains(part), "{part} is missing: {refused:?}");
        }
    }
    assert_eq!(count().await, before, "a refused fork leaves no run");
    // One that stays ended uses nothing.
    fork(ForkRunRequest::default()).await.unwrap();
    // An edit lowers what is too high.
    let change = BudgetChange { max_nodes: Some(50), max_tokens: Some(5_000), ..Default::default() };
    let lower = BudgetEdit { change: Some(change), ..Default::default() };
    let lower = ForkEdit { edit: Some(fork_edit::Edit::Budget(lower)) };
    fork(ForkRunRequest { edits: vec![lower.clone(), retry], ..Default::default() }).await.unwrap();
    // A step may not search deeper than a run of this server.
    let search = StepSearch { max_depth: 5, max_nodes: 51 };
    let step = StepEdit {
        title: "Look around".into(),
        strategy: Some(Strategy::Search as i32),
        search: Some(search),
        ..Default::default()
    };
    let band = BandEdit { goal: "g".into(), steps: vec![step], ..Default::default() };
    let plan = |bands| {
        let node_id = root.clone();
        let plan = Some(PlanEdit { summary: "p".into(), bands });
        ForkEdit { edit: Some(fork_edit::Edit::Plan(NodePlanEdit { node_id, plan })) }
    };
    let request = |bands| ForkRunRequest { edits: vec![lower.clone(), plan(bands)], ..Default::default() };
    let refused = fork(request(vec![band])).await.unwrap_err();
    assert_eq!(field(&refused), "edits[1].plan.bands[0].steps[0].search.max_depth", "{refused:?}");
    assert!(refused.message().contains("search.max_nodes"), "{refused:?}");
    let refused = fork(request(vec![BandEdit::default(); 65])).await.unwrap_err();
    assert_eq!(field(&refused), "edits[1].plan.bands", "{refused:?}");
    assert!(refused.message().contains("is 65; must be between 1 and 64"), "{refused:?}");
    strict.stop().await;
    // What no edit can lower needs another run.
    let maxima = Maxima { depth: 1, attempts: 1, ..Maxima::default() };
    let config = Config { maxima, ..Config::default() };
    let strict = Gateway::over(world.gateway.store.clone(), world.gateway.fanout.clone(), config).await;
    let edits = vec![world.retry(world.node("Costs").await)];
    let request = ForkRunRequest { run_id: world.run.clone(), edits, ..Default::default() };
    let refused = strict.runs().fork_run(request).await.unwrap_err();
    assert_eq!(field(&refused), "run_id", "{refused:?}");
    for part in ["has max_depth 4; this server allows at most 1", "has max_attempts 3", "start a copy"] {
        assert!(refused.message().contains(part), "{part} is missing: {refused:?}");
    }
    strict.stop().await;
    world.stop().await;
}

#[tokio::test]
async fn a_preview_names_the_documents_of_projects_that_have_changed_since() {
    let world = World::ended().await;
    let (a, b) = (world.gateway.create_project("A").await, world.gateway.create_project("B").await);
    let before = world.write(&a.project_id, "before.md").await;
    let of_a = world.ended_in(&a.project_id).await;
    let (new, other) = (world.write(&a.project_id, "new.md").await, world.write(&b.project_id, "a.md").await);
    let changed = async |run: &str, at_seq: Option<u64>| {
        let request =
            ForkRunRequest { run_id: run.to_owned(), at_seq, validate_only: true, ..Default::default() };
        let answer = world.gateway.runs().fork_run(request).await.unwrap().into_inner();
        assert_eq!(answer.changed_document_count as usize, answer.changed_document_ids.len());
        answer.changed_document_ids
    };
    // One run reads its project, the other one every project; the documents of runs are forked.
    assert_eq!(changed(&of_a, None).await, [&*new]);
    assert_eq!(changed(&of_a, Some(2)).await, [&*new]);
    assert_eq!(changed(&world.run, None).await, [&*other, &*before, &*new]);
    // At most a hundred are named, and all are counted.
    for n in 0..100 {
        world.write(&b.project_id, &format!("many/{n}.md")).await;
    }
    let request = ForkRunRequest { validate_only: true, ..Default::default() };
    let answer = world.fork(request).await.unwrap();
    assert_eq!((answer.changed_document_ids.len(), answer.changed_document_count), (100, 103));
    world.stop().await;
}

#[tokio::test]
async fn a_preview_is_refused_as_the_fork_would_be() {
    let world = World::ended().await;
    let project = world.gateway.create_project("A").await;
    let run = world.ended_in(&project.project_id).await;
    let archived = Project { status: ProjectStatus::Archived as i32, ..project };
    let request = UpdateProjectRequest { project: Some(archived), update_mask: None };
    world.gateway.projects().update_project(request).await.unwrap();
    for validate_only in [true, false] {
        let request = ForkRunRequest { run_id: run.clone(), validate_only, ..Default::default() };
        let refused = world.gateway.runs().fork_run(request).await.unwrap_err();
        let seen = (refused.code(), field(&refused));
        assert_eq!(seen, (Code::FailedPrecondition, "context.project_ids[0]".to_owned()), "{refused:?}");
    }
    world.stop().await;
}

#[tokio::test]
async fn a_run_that_was_archived_cannot_be_forked() {
    let store = Arc::new(EmbeddedStore::open_in_memory().await.unwrap());
    let world = World::ended_over(store.clone()).await;
    let (id, node) = (world.run.parse::<RunId>().unwrap(), world.node("Costs").await);
    let idle = world.fork(ForkRunRequest::default()).await.unwrap().fork_run_id;
    let head = store.run(id).await.unwrap().head_seq;
    assert!(store.prune_run(id, head, &"0".repeat(64)).await.unwrap());
    let retry = world.retry(node.clone());
    for (edits, at_seq, validate_only) in
        [(vec![], None, true), (vec![], Some(3), true), (vec![], None, false), (vec![retry], Some(3), false)]
    {
        let request = ForkRunRequest { edits, at_seq, validate_only, ..Default::default() };
        let refused = world.fork(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
        let details = refused.get_error_details();
        assert_eq!(details.error_info().map(|info| info.reason.as_str()), Some("ARCHIVED"), "{refused:?}");
    }
    let retry = RetryNodeRequest { run_id: world.run.clone(), node_id: node, ..Default::default() };
    let refused = world.gateway.runs().retry_node(retry).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
    // A fork that was made before has what it shares.
    let again = ForkRunRequest { run_id: idle, ..Default::default() };
    world.gateway.runs().fork_run(again).await.unwrap();
    world.stop().await;
}

#[tokio::test]
async fn bad_forks_are_refused_with_their_field() {
    let world = World::ended().await;
    let unknown = "0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b".to_owned();
    let costs = world.node("Costs").await;
    let guide = GuideEdit { node_id: costs, text: "t".into(), subtree: false };
    let guide = ForkEdit { edit: Some(fork_edit::Edit::Guide(guide)) };
    let many = vec![world.retry(unknown.clone()); 65];
    let budget = ForkEdit { edit: Some(fork_edit::Edit::Budget(BudgetEdit::default())) };
    for (request, code, name) in [
        (ForkRunRequest { at_seq: Some(99_999), ..Default::default() }, Code::OutOfRange, "at_seq"),
        (ForkRunRequest { at_seq: Some(0), ..Default::default() }, Code::InvalidArgument, "at_seq"),
        (
            ForkRunRequest { edits: vec![world.retry(unknown)], ..Default::default() },
            Code::NotFound,
            "edits[0].node_id",
        ),
        (
            ForkRunRequest { edits: vec![guide], ..Default::default() },
            Code::FailedPrecondition,
            "edits[0].node_id",
        ),
        (
            ForkRunRequest { edits: vec![pb::ForkEdit::default()], ..Default::default() },
            Code::InvalidArgument,
            "edits[0].edit",
        ),
        (ForkRunRequest { edits: many, ..Default::default() }, Code::InvalidArgument, "edits"),
        (
            ForkRunRequest { edits: vec![budget], ..Default::default() },
            Code::InvalidArgument,
            "edits[0].change",
        ),
    ] {
        let error = world.fork(request).await.unwrap_err();
        assert_eq!((error.code(), field(&error).as_str()), (code, name), "{error:?}");
    }
    // Every wrong field of a plan is named.
    let step = StepEdit { step_id: "s".repeat(129), strategy: Some(77), ..Default::default() };
    let band = BandEdit { goal: "g".into(), steps: vec![step], ..Default::default() };
    let plan = PlanEdit { summary: "p".into(), bands: vec![band] };
    let node_id = world.graph(&world.run).await.nodes[0].id.clone();
    let plan = fork_edit::Edit::Plan(NodePlanEdit { node_id, plan: Some(plan) });
    let edits = vec![ForkEdit { edit: Some(plan) }];
    let error = world.fork(ForkRunRequest { edits, ..Default::default() }).await.unwrap_err();
    for name in ["step_id", "strategy", "title"] {
        let name = format!("edits[0].plan.bands[0].steps[0].{name}: ");
        assert!(error.message().contains(&name), "{error:?}");
    }
    let missing =
        ForkRunRequest { run_id: "0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4c".into(), ..Default::default() };
    assert_eq!(world.gateway.runs().fork_run(missing).await.unwrap_err().code(), Code::NotFound);
    world.stop().await;
}
