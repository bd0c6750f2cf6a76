//! Creating, finding and steering runs.

use std::time::Duration;

use tree_agent_contract::command::Action;
use tree_agent_contract::document::{Document, DocumentKind, DocumentOp, DocumentProps};
use tree_agent_contract::graph::Usage;
use tree_agent_contract::search::SearchPrompts;
use tree_agent_contract::{
    Command, DocumentId, NodeId, NodeStatus, ProjectId, Reply, RunContext, RunId, RunStatus, RunSummary,
    SearchConfig, Strategy, Timestamp,
};
use tree_agent_store::{
    Answer, AppendOutcome, Created, NewRun, NodeRow, PendingCommand, RunQuery, RunRow, Sent, StoreError,
};
use uuid::Uuid;

use crate::fixture::{Fixture, T0, append, claim, new_run, node_row, run_id, run_row};

const LONG: Duration = Duration::from_secs(60);

pub fn cancel() -> Command {
    Command::new(Action::Cancel { reason: "enough".into() })
}

pub fn is_pending(sent: &Sent) -> bool {
    matches!(sent, Sent::Pending(_))
}

/// The answer to a command without a request id.
pub fn done(id: i64) -> Answer {
    Answer { id, request_id: String::new(), reply: Reply::Applied { seq: 3 } }
}

fn pad(n: u128) -> DocumentId {
    DocumentId(Uuid::from_u128(0xd0c0 + n))
}

pub fn scratchpad_create(n: u128, body: &str) -> DocumentOp {
    DocumentOp::Create(Document {
        id: pad(n),
        kind: DocumentKind::Scratchpad,
        project_id: None,
        run_id: Some(run_id(1)),
        path: String::new(),
        title: "Scratchpad".into(),
        body: body.into(),
        props: DocumentProps::default(),
        created_at: T0,
        updated_at: T0,
    })
}

pub fn scratchpad_append(n: u128, text: &str) -> DocumentOp {
    DocumentOp::Append { id: pad(n), seq: 5, text: text.into(), at: T0.plus_millis(9) }
}

pub async fn creating_writes_the_run_with_its_events(f: Fixture) {
    let mut run = new_run(1);
    run.spec.context = RunContext::project(ProjectId(Uuid::from_u128(5)));
    run.spec.user_id = "ann".into();
    run.spec.display_name = "The first".into();
    run.spec.labels = [("env".to_owned(), "prod".to_owned())].into();
    run.documents.push(scratchpad_create(1, "begin"));
    assert_eq!(f.store.create_run(run.clone()).await.unwrap(), Created::New(run.run_id));
    let at = run.events[0].timestamp;
    let expected = RunSummary {
        run_id: run.run_id,
        spec: run.spec.clone(),
        status: RunStatus::Queued,
        partial: false,
        root_node_id: NodeId::root(run.run_id),
        head_seq: 2,
        node_count: 1,
        ended_nodes: 0,
        usage: Usage::default(),
        models: Vec::new(),
        error: None,
        created_at: at,
        updated_at: at,
        started_at: None,
        ended_at: None,
        fork: None,
    };
    assert_eq!(f.store.run(run.run_id).await.unwrap(), expected);
    assert_eq!(f.store.read(run.run_id, 0, 10).await.unwrap(), run.events);
    assert_eq!(f.rows("SELECT status FROM tree_agent_nodes").await, ["planning"]);
    assert_eq!(f.rows("SELECT user_id, strategy, scope FROM tree_agent_runs").await, ["ann|tree|project"]);
    assert_eq!(f.rows("SELECT body FROM onto_documents").await, ["begin"]);
    let mut empty = new_run(2);
    empty.events.clear();
    assert!(matches!(f.store.create_run(empty).await, Err(StoreError::Conflict(_))));
}

fn requested(n: u128, request_id: &str, user: &str) -> NewRun {
    let mut run = NewRun { request_id: request_id.into(), ..new_run(n) };
    run.spec.objective = "same".into();
    run.spec.user_id = user.into();
    run
}

pub async fn a_request_id_makes_creation_idempotent(f: Fixture) {
    let first = requested(1, "r", "ann");
    assert_eq!(f.store.create_run(first.clone()).await.unwrap(), Created::New(run_id(1)));
    assert_eq!(f.store.create_run(requested(2, "r", "ann")).await.unwrap(), Created::Existing(run_id(1)));
    let mut other = requested(3, "r", "ann");
    other.spec.objective = "other".into();
    let error = f.store.create_run(other).await.unwrap_err();
    assert!(matches!(&error, StoreError::Conflict(text) if text.contains("\"r\"")), "{error:?}");
    assert_eq!(f.store.create_run(requested(4, "r", "bob")).await.unwrap(), Created::New(run_id(4)));
    assert_eq!(f.store.create_run(requested(5, "", "ann")).await.unwrap(), Created::New(run_id(5)));
    assert_eq!(f.store.create_run(requested(6, "", "ann")).await.unwrap(), Created::New(run_id(6)));
    // The same call again, as after a lost reply.
    assert_eq!(f.store.create_run(first).await.unwrap(), Created::Existing(run_id(1)));
    assert_eq!(f.store.create_run(requested(6, "", "ann")).await.unwrap(), Created::Existing(run_id(6)));
    let mut taken = requested(6, "", "ann");
    taken.spec.objective = "other".into();
    assert!(matches!(f.store.create_run(taken).await, Err(StoreError::Conflict(_))));
    for (user, request, run) in
        [("ann", "r", Some(1)), ("bob", "r", Some(4)), ("ann", "s", None), ("ann", "", None)]
    {
        let found = f.store.run_of_request(user, request).await.unwrap();
        assert_eq!(found, run.map(run_id), "{user} {request}");
    }
    assert_eq!(f.rows("SELECT count(*) FROM tree_agent_runs").await, ["4"]);
    assert_eq!(f.rows("SELECT count(*) FROM tree_agent_events").await, ["8"]);
}

pub async fn what_a_user_has_used_is_counted_over_their_runs(f: Fixture) {
    let second = |n: i64| Timestamp(n * 1_000_000);
    let at = |n, user: &str, seconds| {
        let mut run = requested(n, "", user);
        run.spec.budgets.max_tokens = Some(100);
        run.events.iter_mut().for_each(|event| event.timestamp = second(seconds));
        run
    };
    let used = async |user, now: i64| {
        let used = f.store.used_by(user, second(now)).await.unwrap();
        (used.live, used.new, used.tokens, used.cost_micros)
    };
    let now = 1_000_000;
    assert_eq!(used("ann", now).await, (0, 0, 0, 0));
    for (n, seconds) in [(1, now - 90_000), (2, now - 600), (3, now - 10), (4, now + 3_600)] {
        f.store.create_run(at(n, "ann", seconds)).await.unwrap();
    }
    f.store.create_run(at(5, "bob", now - 10)).await.unwrap();
    let usage = Usage { input_tokens: 5, output_tokens: 2, cost_micros: 9, ..Usage::default() };
    let claims = claim(&*f.store, "d", LONG, 10).await;
    for claim in claims.iter().filter(|claim| [run_id(1), run_id(2)].contains(&claim.run_id)) {
        let mut ended = append(claim.run_id, claim.epoch, 2, 1);
        ended.projection.run = Some(RunRow { usage, ..run_row(RunStatus::Completed) });
        assert_eq!(f.store.append([ended].into()).await.unwrap(), [AppendOutcome::Appended]);
    }
    assert_eq!(used("ann", now).await, (2, 1, 107, 9), "one may use 100 still; the clock was ahead once");
    f.store.delete_run(run_id(2)).await.unwrap();
    assert_eq!(used("ann", now).await, (2, 1, 107, 9), "what is deleted was used");
    assert_eq!(used("bob", now).await, (1, 1, 100, 0));
}

pub async fn the_texts_of_a_search_count_and_are_not_listed(f: Fixture) {
    let with = |n, prompt: &str| {
        let mut run = requested(n, "r", "ann");
        let prompts = SearchPrompts { document: Some(prompt.into()), ..SearchPrompts::default() };
        let schema = serde_json::json!({"type": "object"}).as_object().cloned();
        let search =
            SearchConfig { max_depth: 3, prompts, frontmatter_schema: schema, ..SearchConfig::default() };
        run.spec.strategy = Strategy::Search;
        run.spec.search = Some(Box::new(search));
        run
    };
    let run = with(1, "Write.");
    assert_eq!(f.store.create_run(run.clone()).await.unwrap(), Created::New(run_id(1)));
    assert_eq!(f.store.create_run(with(2, "Write.")).await.unwrap(), Created::Existing(run_id(1)));
    let other = f.store.create_run(with(3, "Write more.")).await;
    assert!(matches!(other, Err(StoreError::Conflict(_))), "another request: {other:?}");
    let listed = f.store.list_runs(RunQuery { limit: 10, ..RunQuery::default() }).await.unwrap();
    for shown in [f.store.run(run_id(1)).await.unwrap(), listed.items[0].clone()] {
        assert_eq!(shown.spec, run.spec.without_texts());
        assert_eq!(shown.spec.search().max_depth, 3);
    }
}

pub async fn concurrent_creations_with_one_request_id_make_one_run(f: Fixture) {
    let mut tasks = Vec::new();
    for n in 1..=8 {
        let store = f.store.clone();
        tasks.push(tokio::spawn(async move { store.create_run(requested(n, "r", "ann")).await.unwrap() }));
    }
    let mut new = Vec::new();
    let mut existing = Vec::new();
    for task in tasks {
        match task.await.unwrap() {
            Created::New(id) => new.push(id),
            Created::Existing(id) => existing.push(id),
        }
    }
    assert_eq!(new.len(), 1);
    assert_eq!(existing, vec![new[0]; 7]);
}

pub async fn an_unknown_run_is_not_found(f: Fixture) {
    let is_missing = |error: StoreError| matches!(error, StoreError::NotFound { what: "run", .. });
    assert!(is_missing(f.store.run(run_id(1)).await.unwrap_err()));
    assert!(is_missing(f.store.send_command(run_id(1), cancel()).await.unwrap_err()));
}

pub async fn commands_wait_until_their_events_are_written(f: Fixture) {
    let (a, b, c) = (f.claimed(1, "a").await, f.claimed(2, "a").await, f.claimed(3, "c").await);
    let mut ids = Vec::new();
    for run in [a.run_id, b.run_id, a.run_id, c.run_id] {
        ids.push(f.store.send_command(run, cancel()).await.unwrap());
    }
    assert_eq!(ids, [1, 1, 2, 1].map(Sent::Pending), "ids count within a run");
    let pending = |id: i64, run_id: RunId| PendingCommand { id, run_id, command: cancel() };
    let all = [pending(1, a.run_id), pending(2, a.run_id), pending(1, b.run_id)];
    assert_eq!(f.store.commands("a").await.unwrap(), all);
    assert_eq!(f.store.commands("c").await.unwrap(), [pending(1, c.run_id)]);
    assert_eq!(f.store.commands("unknown").await.unwrap(), []);
    let mut fenced = append(a.run_id, a.epoch + 1, 2, 1);
    fenced.answers.push(done(1));
    assert_eq!(f.store.append([fenced].into()).await.unwrap(), [AppendOutcome::Fenced]);
    assert_eq!(f.store.commands("a").await.unwrap(), all);
    let mut answer = append(a.run_id, a.epoch, 2, 1);
    answer.answers = vec![done(1)];
    f.store.append([answer].into()).await.unwrap();
    assert_eq!(f.store.commands("a").await.unwrap(), all[1..]);
    assert_eq!(f.rows("SELECT count(*) FROM tree_agent_commands").await, ["3"], "nothing is kept");
    // They belong to whoever owns the run.
    f.store.release(&[(b.run_id, b.epoch)]).await.unwrap();
    assert_eq!(f.store.commands("a").await.unwrap(), all[1..2]);
    assert_eq!(claim(&*f.store, "d", LONG, 1).await.len(), 1);
    assert_eq!(f.store.commands("d").await.unwrap(), all[2..]);
    // An id is not given twice.
    assert_eq!(f.store.send_command(a.run_id, cancel()).await.unwrap(), Sent::Pending(3));
}

pub async fn the_end_of_a_run_empties_its_inbox_and_closes_it(f: Fixture) {
    for (n, status) in [(1, RunStatus::Completed), (2, RunStatus::Failed), (3, RunStatus::Cancelled)] {
        let (run, other) = (f.claimed(n, "a").await, f.claimed(n + 10, "a").await);
        for claim in [run, run, other] {
            assert!(is_pending(&f.store.send_command(claim.run_id, cancel()).await.unwrap()));
        }
        let mut end = append(run.run_id, run.epoch, 2, 1);
        end.projection.run = Some(run_row(status));
        end.answers = vec![done(1)];
        // Beside an append that ends nothing, and again as after a lost reply.
        let both = [end, append(other.run_id, other.epoch, 2, 1)];
        for _ in 0..2 {
            assert_eq!(f.store.append(both.clone().into()).await.unwrap(), [AppendOutcome::Appended; 2]);
        }
        assert_eq!(f.store.send_command(run.run_id, cancel()).await.unwrap(), Sent::Ended, "{status}");
        let left = f.store.commands("a").await.unwrap();
        assert!(left.iter().all(|command| command.run_id != run.run_id), "{status}: {left:?}");
        assert!(left.iter().any(|command| command.run_id == other.run_id), "{status}: {left:?}");
    }
    assert_eq!(f.rows("SELECT count(*) FROM tree_agent_commands").await, ["3"]);
}

pub async fn nodes_are_listed_with_their_parents(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    let (run, root) = (claim.run_id, NodeId::root(claim.run_id));
    let child = |n: u128, parent, depth| NodeRow {
        id: NodeId(Uuid::from_u128(n)),
        parent_node_id: Some(parent),
        depth,
        ..node_row(run, NodeStatus::Waiting)
    };
    let (low, high) = (NodeId(Uuid::from_u128(1)), NodeId(Uuid::from_u128(2)));
    let mut grown = append(run, claim.epoch, 2, 1);
    grown.projection.nodes = vec![child(1, high, 2), child(2, root, 1)];
    f.store.append([grown].into()).await.unwrap();
    let expected = [(root, None), (high, Some(root)), (low, Some(high))];
    assert_eq!(f.store.node_parents(run).await.unwrap(), expected);
    assert_eq!(f.store.node_parents(run_id(9)).await.unwrap(), []);
}
