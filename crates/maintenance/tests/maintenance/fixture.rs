//! A fresh store per test, recorded runs to write into it, and a way to damage it.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tree_agent_contract::document::{Document, DocumentKind, DocumentOp, DocumentProps};
use tree_agent_contract::session::{Session, SessionMessage, Speaker};
use tree_agent_contract::{DocumentId, Event, EventBody, KeptText, RunId, SessionId};
use tree_agent_engine::Run;
use tree_agent_maintenance::{Report, verify};
use tree_agent_store::embedded::EmbeddedStore;
use tree_agent_store::postgres::{PoolConfig, PostgresStore};
use tree_agent_store::{AppendOutcome, Archives, Claim, Created, NewRun, Projection, RunAppend};
use tree_agent_testkit::services::PrivatePostgres;

/// Events that a run is created with.
const FIRST: usize = 4;

pub struct Fixture {
    pub store: Arc<dyn Archives>,
    raw: Raw,
}

enum Raw {
    Postgres(String),
    Embedded(tempfile::TempDir),
}

impl Fixture {
    pub async fn postgres() -> Self {
        static SERVER: OnceLock<PrivatePostgres> = OnceLock::new();
        let url = tokio::task::spawn_blocking(|| {
            SERVER.get_or_init(|| PrivatePostgres::start().expect("a private Postgres")).create_database()
        });
        let url = url.await.unwrap().unwrap();
        PostgresStore::migrate(&url).await.unwrap();
        let store = PostgresStore::connect(&url, PoolConfig::default()).await.unwrap();
        Self { store: Arc::new(store), raw: Raw::Postgres(url) }
    }

    pub async fn embedded() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path().join("data")).await.unwrap();
        Self { store: Arc::new(store), raw: Raw::Embedded(folder) }
    }

    /// Runs statements that both databases understand behind the store's back. `{run}` in them is the id's literal.
    pub async fn damage(&self, run: RunId, sql: &str) {
        match &self.raw {
            Raw::Postgres(url) => {
                use deadpool_postgres::tokio_postgres::{NoTls, connect};
                let (client, connection) = connect(url, NoTls).await.unwrap();
                let connection = tokio::spawn(connection);
                client.batch_execute(&sql.replace("{run}", &format!("'{run}'::uuid"))).await.unwrap();
                drop(client);
                connection.await.unwrap().unwrap();
            }
            Raw::Embedded(folder) => {
                let db = rusqlite::Connection::open(folder.path().join("data/tree-agent.db")).unwrap();
                let literal = format!("x'{}'", run.0.simple());
                db.execute_batch(&sql.replace("{run}", &literal)).unwrap();
            }
        }
    }

    /// The same with a statement for each database.
    pub async fn damage_either(&self, run: RunId, postgres: &str, embedded: &str) {
        let sql = if matches!(self.raw, Raw::Postgres(_)) { postgres } else { embedded };
        self.damage(run, sql).await;
    }

    /// Writes a recorded run, a few events at a time, and calls `after` each time.
    pub async fn write_with(&self, name: &str, after: impl AsyncFnMut(RunId)) -> RunId {
        self.write_log(recorded(name), after).await
    }

    /// Writes a recorded run under another id.
    pub async fn write_as(&self, name: &str, run: RunId) {
        let mut log = recorded(name);
        log.iter_mut().for_each(|event| event.run_id = run);
        self.write_log(log, async |_| {}).await;
    }

    /// Writes a recorded run that has labels and a display name.
    pub async fn write_labelled(&self, name: &str) -> RunId {
        let mut log = recorded(name);
        if let EventBody::RunCreated(created) = &mut log[0].body {
            created.spec.display_name = "Labelled".into();
            created.spec.labels = [("env".to_owned(), "prod".to_owned())].into();
        }
        self.write_log(log, async |_| {}).await
    }

    async fn write_log(&self, log: Vec<Event>, mut after: impl AsyncFnMut(RunId)) -> RunId {
        let (claim, mut run) = self.begin(&log).await;
        for events in log[FIRST..].chunks(7) {
            self.append(claim, &mut run, events).await;
            after(claim.run_id).await;
        }
        claim.run_id
    }

    pub async fn write(&self, name: &str) -> RunId {
        self.write_with(name, async |_| {}).await
    }

    /// Another store of the same kind, with nothing in it.
    pub async fn another(&self) -> Self {
        if self.is_postgres() { Self::postgres().await } else { Self::embedded().await }
    }

    pub fn is_postgres(&self) -> bool {
        matches!(self.raw, Raw::Postgres(_))
    }

    /// Creates the run of `log` with its first events and claims it. The id of its request is that of the run.
    pub async fn begin(&self, log: &[Event]) -> (Claim, Run) {
        self.begin_for(log, &log[0].run_id.to_string()).await
    }

    /// As [`begin`](Self::begin), for another request.
    pub async fn begin_for(&self, log: &[Event], request_id: &str) -> (Claim, Run) {
        let first = &log[..FIRST];
        let run = Run::replay(first[0].run_id, first).unwrap();
        let new = NewRun {
            run_id: first[0].run_id,
            spec: run.spec().clone(),
            request_id: request_id.to_owned(),
            events: first.to_vec(),
            projection: project(&run, first),
            documents: documents(&run, first),
            sessions: Vec::new(),
        };
        assert_eq!(self.store.create_run(new).await.unwrap(), Created::New(first[0].run_id));
        let term = self.store.begin_term("test", Duration::from_secs(60)).await.unwrap().number;
        let claims = self.store.claim("test", term, 10, 10, 0).await.unwrap();
        let claim = claims.into_iter().find(|c| c.run_id == first[0].run_id).unwrap();
        (claim, run)
    }

    pub async fn append(&self, claim: Claim, run: &mut Run, events: &[Event]) {
        events.iter().for_each(|event| run.apply(event).unwrap());
        let append = RunAppend {
            run_id: claim.run_id,
            epoch: claim.epoch,
            expected_head: events[0].seq - 1,
            events: events.to_vec(),
            projection: project(run, events),
            documents: documents(run, events),
            answers: Vec::new(),
            sessions: sessions(events),
        };
        assert_eq!(self.store.append([append].into()).await.unwrap(), [AppendOutcome::Appended]);
    }

    pub async fn report(&self, run: RunId) -> Report {
        verify(&*self.store, run).await.unwrap()
    }

    /// What is wrong with a run, as `verify` reports it.
    pub async fn findings(&self, run: RunId) -> Vec<String> {
        self.report(run).await.findings.iter().map(ToString::to_string).collect()
    }
}

/// The recorded runs.
pub const RECORDED: [&str; 5] = ["failures", "offline", "replan", "retries", "search"];

/// The log of a recorded run. The one named `offline` keeps prompts.
pub fn recorded(name: &str) -> Vec<Event> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../web/fixtures/{name}.jsonl"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let mut log: Vec<Event> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for event in log.iter_mut().filter(|_| name == "offline") {
        match &mut event.body {
            EventBody::RunCreated(e) => e.spec.keep_prompts = true,
            EventBody::UsageRecorded(e) => {
                let document_id = DocumentId::of_run(event.run_id, &format!("prompts/{:08}.md", event.seq));
                e.prompt = Some(KeptText { document_id, bytes: 9 });
            }
            _ => {}
        }
    }
    log
}

fn project(run: &Run, events: &[Event]) -> Projection {
    Projection::of(events, run.graph())
}

/// The documents that events name, each below that of its parent or node, and the workspace. Now and then a text is
/// replaced.
fn documents(run: &Run, events: &[Event]) -> Vec<DocumentOp> {
    let named = events.iter().flat_map(|event| {
        let (id, kind) = match &event.body {
            EventBody::RunCreated(_) => {
                let workspace = document(event, DocumentId::workspace(event.run_id), DocumentKind::Workspace);
                return vec![DocumentOp::Create(workspace)];
            }
            EventBody::ScratchpadLinked(e) => (e.scratchpad_doc_id, DocumentKind::Scratchpad),
            EventBody::ArtifactCreated(e) => match e.document_id {
                Some(id) => (id, DocumentKind::Artifact),
                None => return vec![],
            },
            EventBody::UsageRecorded(e) => match e.prompt {
                Some(prompt) => (prompt.document_id, DocumentKind::Prompt),
                None => return vec![],
            },
            EventBody::ScratchpadUpdated(e) => {
                let text = format!("grown ü with event {}\n", event.seq);
                let (id, seq, at) = (e.scratchpad_doc_id, event.seq, e.updated_at);
                return vec![match seq % 4 {
                    0 => DocumentOp::Replace { id, seq, text, at },
                    _ => DocumentOp::Append { id, seq, text, at },
                }];
            }
            _ => return vec![],
        };
        let above = match kind {
            DocumentKind::Scratchpad => event.parent_node_id,
            _ => Some(event.node_id),
        };
        let (seq, at) = (event.seq, event.timestamp);
        let parent = above.and_then(|node| run.graph().node(node)?.scratchpad_doc_id);
        let parent = parent.unwrap_or(DocumentId::workspace(run.origin()));
        let link = DocumentOp::Link { parent, child: id, seq, at };
        vec![DocumentOp::Create(document(event, id, kind)), link]
    });
    named.collect()
}

/// The conversations that events name.
fn sessions(events: &[Event]) -> Vec<Session> {
    let named = events.iter().filter_map(|event| match &event.body {
        EventBody::SessionForked(e) => Some(Session {
            id: SessionId::new(e.session_id.clone()),
            node_id: event.node_id,
            parent_id: e.parent_session_id.clone().map(SessionId::new),
            messages: vec![SessionMessage {
                speaker: Speaker::User,
                text: format!("of event {} ü", event.seq),
            }],
            created_at: event.timestamp,
        }),
        _ => None,
    });
    named.collect()
}

fn document(event: &Event, id: DocumentId, kind: DocumentKind) -> Document {
    Document {
        id,
        kind,
        project_id: None,
        run_id: Some(event.run_id),
        path: String::new(),
        title: format!("Document of event {}", event.seq),
        body: format!("# Body\n\nof *{id}* — ü\u{1F333}\r\n"),
        props: DocumentProps { tree_agent_node_id: Some(event.node_id), ..DocumentProps::default() },
        created_at: event.timestamp,
        updated_at: event.timestamp,
    }
}
