//! Every bad input gives the right code and names its field, and changes nothing.

use crate::common::{Gateway, Mode, field};
use tonic::Code::{self, AlreadyExists, InvalidArgument, NotFound, OutOfRange};
use tonic::Status;
use tree_agent_contract::Timestamp;
use tree_agent_event_gateway::Config;
use tree_agent_proto::v1::*;
use tree_agent_store::{NewProject, Project};

/// Looks like an id, belongs to nothing.
const NOBODY: &str = "0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b";

fn is(status: Status, code: Code, name: &str) {
    assert_eq!((status.code(), field(&status).as_str()), (code, name), "{status:?}");
}

/// A schema for values of a type.
fn schema(of: &str) -> prost_types::Struct {
    let kind = prost_types::value::Kind::StringValue(of.into());
    prost_types::Struct { fields: [("type".to_owned(), prost_types::Value { kind: Some(kind) })].into() }
}

fn create(objective: &str) -> CreateRunRequest {
    CreateRunRequest { objective: objective.into(), ..Default::default() }
}

#[tokio::test]
async fn create_run() {
    let gateway = Gateway::start(Config::default()).await;
    let mut runs = gateway.runs();
    let budget = |budgets| CreateRunRequest { budgets: Some(budgets), ..create("why?") };
    let search = |search| CreateRunRequest {
        strategy: Strategy::Search as i32,
        search: Some(search),
        ..create("why?")
    };
    let context = |scope: Scope, ids: &[&str]| CreateRunRequest {
        context: Some(RunContext {
            scope: scope as i32,
            project_ids: ids.iter().map(|&id| id.to_owned()).collect(),
        }),
        ..create("why?")
    };
    let cases = [
        (create(""), InvalidArgument, "objective"),
        (create(" \n "), InvalidArgument, "objective"),
        (create(&"x".repeat(16 * 1024 + 1)), InvalidArgument, "objective"),
        (CreateRunRequest { model: "m".repeat(257), ..create("why?") }, InvalidArgument, "model"),
        (CreateRunRequest { model: "mistral:large".into(), ..create("why?") }, InvalidArgument, "model"),
        (CreateRunRequest { model: "openai:".into(), ..create("why?") }, InvalidArgument, "model"),
        (CreateRunRequest { request_id: "r".repeat(129), ..create("why?") }, InvalidArgument, "request_id"),
        (CreateRunRequest { strategy: 77, ..create("why?") }, InvalidArgument, "strategy"),
        (
            CreateRunRequest {
                strategy: Strategy::Homework as i32,
                budgets: Some(Budgets { max_iterations: Some(101), ..Default::default() }),
                ..create("why?")
            },
            InvalidArgument,
            "budgets.max_iterations",
        ),
        (
            CreateRunRequest {
                strategy: Strategy::Homework as i32,
                budgets: Some(Budgets { max_depth: Some(0), ..Default::default() }),
                ..create("why?")
            },
            InvalidArgument,
            "budgets.max_depth",
        ),
        (
            CreateRunRequest {
                strategy: Strategy::Homework as i32,
                search: Some(SearchConfig::default()),
                ..create("why?")
            },
            InvalidArgument,
            "search",
        ),
        (
            CreateRunRequest { search: Some(SearchConfig::default()), ..create("why?") },
            InvalidArgument,
            "search",
        ),
        (
            search(SearchConfig { concurrency: Some(0), ..Default::default() }),
            InvalidArgument,
            "search.concurrency",
        ),
        (
            search(SearchConfig { max_depth: Some(65), ..Default::default() }),
            InvalidArgument,
            "search.max_depth",
        ),
        (search(SearchConfig { picker: 9, ..Default::default() }), InvalidArgument, "search.picker"),
        (
            search(SearchConfig {
                prompts: Some(SearchPrompts {
                    document: Some("x".repeat(64 * 1024 + 1)),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            InvalidArgument,
            "search.prompts.document",
        ),
        (
            search(SearchConfig {
                prompts: Some(SearchPrompts { picker: Some("{{outlines}}".into()), ..Default::default() }),
                ..Default::default()
            }),
            InvalidArgument,
            "search.prompts.picker",
        ),
        (
            search(SearchConfig { frontmatter_schema: Some(schema("\0")), ..Default::default() }),
            InvalidArgument,
            "search.frontmatter_schema",
        ),
        (
            search(SearchConfig { frontmatter_schema: Some(schema("array")), ..Default::default() }),
            InvalidArgument,
            "search.frontmatter_schema",
        ),
        (budget(Budgets { max_nodes: Some(0), ..Default::default() }), InvalidArgument, "budgets.max_nodes"),
        (budget(Budgets { max_depth: Some(65), ..Default::default() }), InvalidArgument, "budgets.max_depth"),
        (
            budget(Budgets { max_parallel_steps: Some(u32::MAX), ..Default::default() }),
            InvalidArgument,
            "budgets.max_parallel_steps",
        ),
        (
            budget(Budgets { max_wall_clock_ms: Some(u64::MAX), ..Default::default() }),
            InvalidArgument,
            "budgets.max_wall_clock_ms",
        ),
        (
            budget(Budgets { max_tokens: Some(0), ..Default::default() }),
            InvalidArgument,
            "budgets.max_tokens",
        ),
        (
            budget(Budgets { max_cost_micros: Some(0), ..Default::default() }),
            InvalidArgument,
            "budgets.max_cost_micros",
        ),
        (
            budget(Budgets { max_tool_calls: Some(u64::MAX), ..Default::default() }),
            InvalidArgument,
            "budgets.max_tool_calls",
        ),
        (create(&"x".repeat(9 * 1024 * 1024)), OutOfRange, ""),
        (context(Scope::Project, &[]), InvalidArgument, "context.project_ids"),
        (context(Scope::Global, &[NOBODY]), InvalidArgument, "context.project_ids"),
        (context(Scope::Project, &["nonsense"]), NotFound, "context.project_ids[0]"),
        (context(Scope::MultiProject, &[NOBODY, NOBODY]), InvalidArgument, "context.project_ids"),
        (context(Scope::Project, &[NOBODY]), NotFound, "context.project_ids[0]"),
    ];
    for (request, code, name) in cases {
        is(runs.create_run(request).await.unwrap_err(), code, name);
    }
    let listed = runs.list_runs(ListRunsRequest::default()).await.unwrap().into_inner();
    assert!(listed.runs.is_empty(), "a refused run was written");
    gateway.stop().await;
}

#[tokio::test]
async fn a_search_carries_full_prompts_and_a_schema_that_lists_leave_out() {
    let gateway = Gateway::start(Config::default()).await;
    let mut runs = gateway.runs();
    // A store keeps no NUL characters.
    let full = || Some(format!("{}\0", "é".repeat(32 * 1024 - 2)));
    let config = SearchConfig {
        concurrency: Some(2),
        prompts: Some(SearchPrompts { root: full(), document: full(), children: full(), picker: full() }),
        frontmatter_schema: Some(schema("object")),
        synthesis: Some(false),
        ..Default::default()
    };
    let request = CreateRunRequest {
        strategy: Strategy::Search as i32,
        search: Some(config.clone()),
        ..create("why?")
    };
    let run = runs.create_run(request.clone()).await.expect("it is accepted").into_inner().run.unwrap();
    let listed = runs.list_runs(ListRunsRequest::default()).await.unwrap().into_inner().runs.remove(0);
    let got = runs.get_run(GetRunRequest { run_id: run.run_id.clone() }).await.unwrap().into_inner();
    for row in [run.clone(), listed, got.run.unwrap()] {
        assert_eq!(row.strategy(), Strategy::Search);
        let search = row.search.expect("how it searches");
        assert_eq!((search.concurrency, search.max_depth, search.synthesis), (Some(2), Some(4), Some(false)));
        assert_eq!(search.prompts.unwrap_or_default(), SearchPrompts::default());
        assert_eq!(search.frontmatter_schema, None);
    }
    // The log has them, so that a replay is exact.
    let events = ListEventsRequest { run_id: run.run_id, page_size: 1, ..Default::default() };
    let first = runs.list_events(events).await.unwrap().into_inner().events.remove(0);
    let Some(event::Body::RunCreated(created)) = first.body else { panic!("{first:?}") };
    let kept = created.search.expect("how it searches");
    let shown = config.prompts.unwrap().document.unwrap().replace('\0', "\u{fffd}");
    assert_eq!(kept.prompts.unwrap().document.unwrap(), shown);
    assert_eq!(kept.frontmatter_schema, config.frontmatter_schema);

    // A run carries no more than these.
    is(runs.create_run(create(&"x".repeat(1024 * 1024))).await.unwrap_err(), OutOfRange, "");
    gateway.stop().await;
}

#[tokio::test]
async fn a_run_gets_no_more_than_the_server_allows() {
    use tree_agent_event_gateway::Maxima;
    let maxima = Maxima { nodes: 10, tokens: Some(5_000), ..Maxima::default() };
    let gateway = Gateway::start(Config { maxima, ..Config::default() }).await;
    let with = |budgets| CreateRunRequest { budgets: Some(budgets), ..create("why?") };
    let nodes = with(Budgets { max_nodes: Some(11), ..Default::default() });
    let status = gateway.runs().create_run(nodes).await.unwrap_err();
    assert!(status.message().contains("at most 10") && status.message().contains("TREE_AGENT_MAX_NODES"));
    is(status, InvalidArgument, "budgets.max_nodes");
    let tokens = with(Budgets { max_tokens: Some(5_001), ..Default::default() });
    is(gateway.runs().create_run(tokens).await.unwrap_err(), InvalidArgument, "budgets.max_tokens");
    // Whoever asks for nothing gets no more either.
    let budgets = gateway.create_run("why?").await.budgets.unwrap();
    assert_eq!((budgets.max_nodes, budgets.max_tokens), (Some(10), Some(5_000)));
    gateway.stop().await;
}

#[tokio::test]
async fn what_was_accepted_once_stays_accepted_under_other_settings() {
    use tree_agent_event_gateway::Maxima;
    let requests = [
        CreateRunRequest { request_id: "tree".into(), ..create("why?") },
        CreateRunRequest {
            request_id: "search".into(),
            strategy: Strategy::Search as i32,
            budgets: Some(Budgets { max_nodes: Some(10), ..Default::default() }),
            ..create("why?")
        },
    ];
    let first = Maxima { nodes: 10, parallel_steps: 5, depth: 3, ..Maxima::default() };
    let gateway = Gateway::start(Config { maxima: first, keep_prompts: true, ..Config::default() }).await;
    let mut accepted = Vec::new();
    for request in &requests {
        let run = gateway.runs().create_run(request.clone()).await.unwrap().into_inner().run.unwrap();
        accepted.push(run.run_id);
    }
    let (store, fanout) = (gateway.store.clone(), gateway.fanout.clone());
    gateway.stop().await;
    for maxima in [Maxima { nodes: 2, parallel_steps: 1, depth: 1, ..Maxima::default() }, Maxima::default()] {
        let gateway =
            Gateway::over(store.clone(), fanout.clone(), Config { maxima, ..Config::default() }).await;
        for (request, accepted) in requests.iter().zip(&accepted) {
            let again = gateway.runs().create_run(request.clone()).await.unwrap().into_inner();
            assert_eq!(again.run.unwrap().run_id, *accepted);
            let budgets = Some(Budgets { max_nodes: Some(1), ..Default::default() });
            let other = CreateRunRequest { budgets, ..request.clone() };
            is(gateway.runs().create_run(other).await.unwrap_err(), AlreadyExists, "request_id");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn all_that_is_wrong_is_said_at_once() {
    use tonic_types::StatusExt;
    let gateway = Gateway::start(Config::default()).await;
    let budgets = Budgets { max_nodes: Some(0), max_attempts: Some(99), ..Default::default() };
    let request = CreateRunRequest { budgets: Some(budgets), ..create("") };
    let status = gateway.runs().create_run(request).await.unwrap_err();
    let details = status.get_error_details();
    let names: Vec<_> =
        details.bad_request().unwrap().field_violations.iter().map(|v| v.field.as_str()).collect();
    assert_eq!(names, ["objective", "budgets.max_nodes", "budgets.max_attempts"]);
    gateway.stop().await;
}

/// An error travels in headers, and a client takes at most 16 KiB of these: a longer one is a broken stream to it.
#[tokio::test]
async fn an_error_about_a_long_value_reaches_its_client() {
    let gateway = Gateway::start(Config::default()).await;
    let mut runs = gateway.runs();
    for long in ["x".repeat(100_000), "ü".repeat(50_000)] {
        let error = runs.get_run(GetRunRequest { run_id: long.clone() }).await.unwrap_err();
        assert!(error.message().contains("expected a UUID"), "{error:?}");
        is(error, InvalidArgument, "run_id");
        let labels = [(long.clone(), String::new())].into();
        let error = runs.create_run(CreateRunRequest { labels, ..create("why?") }).await.unwrap_err();
        assert_eq!(error.code(), InvalidArgument, "{error:?}");
        let error = runs.create_run(CreateRunRequest { model: long, ..create("why?") }).await.unwrap_err();
        is(error, InvalidArgument, "model");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_request_id_with_another_request() {
    let gateway = Gateway::start(Config::default()).await;
    let mut runs = gateway.runs();
    let request = |objective| CreateRunRequest { request_id: "once".into(), ..create(objective) };
    runs.create_run(request("one")).await.unwrap();
    is(runs.create_run(request("two")).await.unwrap_err(), AlreadyExists, "request_id");
    gateway.stop().await;
}

#[tokio::test]
async fn runs_and_events() {
    let gateway = Gateway::start(Config::default()).await;
    let run = gateway.create_run("exists").await;
    let (id, head) = (run.run_id.clone(), run.head_seq);
    let mut runs = gateway.runs();
    for (text, code) in [("", InvalidArgument), ("nonsense", InvalidArgument), (NOBODY, NotFound)] {
        let run_id = text.to_owned();
        is(runs.get_run(GetRunRequest { run_id: run_id.clone() }).await.unwrap_err(), code, "run_id");
        let watch = WatchRunRequest { run_id: run_id.clone(), ..Default::default() };
        is(runs.watch_run(watch).await.unwrap_err(), code, "run_id");
        let events = ListEventsRequest { run_id: run_id.clone(), ..Default::default() };
        is(runs.list_events(events).await.unwrap_err(), code, "run_id");
        let graph = GetGraphRequest { run_id: run_id.clone(), at_seq: None };
        is(runs.get_graph(graph).await.unwrap_err(), code, "run_id");
        let cancel = CancelRunRequest { run_id, reason: String::new() };
        is(runs.cancel_run(cancel).await.unwrap_err(), code, "run_id");
    }
    let beyond = head + 1;
    let watch = WatchRunRequest { run_id: id.clone(), after_seq: beyond, ..Default::default() };
    let status = runs.watch_run(watch).await.unwrap_err();
    assert!(status.message().contains(&head.to_string()), "{status:?}");
    is(status, OutOfRange, "after_seq");
    let list = |request: ListEventsRequest| ListEventsRequest { run_id: id.clone(), ..request };
    let events = list(ListEventsRequest { after_seq: beyond, ..Default::default() });
    is(runs.list_events(events).await.unwrap_err(), OutOfRange, "after_seq");
    let graph = GetGraphRequest { run_id: id.clone(), at_seq: Some(beyond) };
    is(runs.get_graph(graph).await.unwrap_err(), OutOfRange, "at_seq");
    // A page size that is too large is lowered.
    let events = list(ListEventsRequest { page_size: u32::MAX, ..Default::default() });
    assert_eq!(runs.list_events(events).await.unwrap().into_inner().events.len() as u64, head);
    let types = vec!["tree.node_created".into(), "tree.nope".into()];
    let events = list(ListEventsRequest { types, ..Default::default() });
    is(runs.list_events(events).await.unwrap_err(), InvalidArgument, "types[1]");
    let events = list(ListEventsRequest { node_id: "nonsense".into(), ..Default::default() });
    is(runs.list_events(events).await.unwrap_err(), InvalidArgument, "node_id");
    let events = list(ListEventsRequest { node_id: NOBODY.into(), ..Default::default() });
    is(runs.list_events(events).await.unwrap_err(), NotFound, "node_id");
    let cancel = CancelRunRequest { run_id: id.clone(), reason: "r".repeat(16 * 1024 + 1) };
    is(runs.cancel_run(cancel).await.unwrap_err(), InvalidArgument, "reason");
    let list = ListRunsRequest { project_id: "nonsense".into(), ..Default::default() };
    is(runs.list_runs(list).await.unwrap_err(), NotFound, "project_id");
    let list = ListRunsRequest { statuses: vec![1, 99], ..Default::default() };
    is(runs.list_runs(list).await.unwrap_err(), InvalidArgument, "statuses[1]");
    gateway.stop().await;
}

#[tokio::test]
async fn page_tokens() {
    let gateway = Gateway::start(Config::default()).await;
    let mut runs = gateway.runs();
    for objective in ["one", "two", "three"] {
        gateway.create_run(objective).await;
    }
    let first = ListRunsRequest { page_size: 1, ..Default::default() };
    let token = runs.list_runs(first).await.unwrap().into_inner().next_page_token;
    assert!(!token.is_empty());
    let page = |page_token: &str| ListRunsRequest { page_token: page_token.into(), ..Default::default() };
    assert_eq!(runs.list_runs(page(&token)).await.unwrap().into_inner().runs.len(), 2);
    for bad in ["x", "00", "zz".repeat(20).as_str(), &token[2..], &token[..token.len() - 2]] {
        is(runs.list_runs(page(bad)).await.unwrap_err(), InvalidArgument, "page_token");
    }
    let filtered = ListRunsRequest { objective_contains: "o".into(), ..page(&token) };
    is(runs.list_runs(filtered).await.unwrap_err(), InvalidArgument, "page_token");
    let other = ListProjectsRequest { page_token: token.clone(), ..Default::default() };
    is(gateway.projects().list_projects(other).await.unwrap_err(), InvalidArgument, "page_token");
    let other = ListDocumentsRequest { page_token: token, ..Default::default() };
    is(gateway.documents().list_documents(other).await.unwrap_err(), InvalidArgument, "page_token");
    gateway.stop().await;
}

#[tokio::test]
async fn projects() {
    let gateway = Gateway::start(Config::default()).await;
    let mut projects = gateway.projects();
    gateway.create_project("Taken").await;
    let create = |name: &str| CreateProjectRequest { name: name.into(), ..Default::default() };
    for (request, code, name) in [
        (create(""), InvalidArgument, "name"),
        (create("  "), InvalidArgument, "name"),
        (create(&"n".repeat(1025)), InvalidArgument, "name"),
        (create("a\x1b[2J"), InvalidArgument, "name"),
        (create("a\u{202e}b"), InvalidArgument, "name"),
        (create("\u{3164}"), InvalidArgument, "name"),
        (create("taken"), AlreadyExists, "name"),
        (
            CreateProjectRequest { description: "d".repeat(16 * 1024 + 1), ..create("n") },
            InvalidArgument,
            "description",
        ),
        (CreateProjectRequest { request_id: "r".repeat(129), ..create("n") }, InvalidArgument, "request_id"),
    ] {
        is(projects.create_project(request).await.unwrap_err(), code, name);
    }
    // What was stored before there was a rule can still be read and found.
    let old = "old\x1b[2J\u{202e}name";
    let project = Project::new(uuid::Uuid::now_v7().into(), old, Timestamp::from_millis(0));
    let new = NewProject { project, user_id: String::new(), request_id: String::new() };
    gateway.store.create_project(new).await.unwrap();
    let key = Some(get_project_request::Key::Name(old.into()));
    let found = projects.get_project(GetProjectRequest { key }).await.unwrap().into_inner().project.unwrap();
    assert_eq!(found.name, old);
    let once = |name: &str| CreateProjectRequest { request_id: "once".into(), ..create(name) };
    projects.create_project(once("first")).await.unwrap();
    is(projects.create_project(once("second")).await.unwrap_err(), AlreadyExists, "request_id");
    use get_project_request::Key;
    for (key, code, name) in [
        (None, InvalidArgument, "key"),
        (Some(Key::ProjectId("nonsense".into())), NotFound, "project_id"),
        (Some(Key::ProjectId(NOBODY.into())), NotFound, "project_id"),
        (Some(Key::Name("nobody".into())), NotFound, "name"),
    ] {
        is(projects.get_project(GetProjectRequest { key }).await.unwrap_err(), code, name);
    }
    let list = ListProjectsRequest { page_size: 5_000, ..Default::default() };
    projects.list_projects(list).await.expect("a page size that is too large is lowered");
    gateway.stop().await;
}

#[tokio::test]
async fn documents() {
    let gateway = Gateway::start(Config::default()).await;
    let mut documents = gateway.documents();
    let project = gateway.create_project("Docs").await.project_id;
    let create = |path: &str| CreateDocumentRequest {
        project_id: project.clone(),
        path: path.into(),
        body: "text".into(),
        ..Default::default()
    };
    let imported = |source: &str, file: &str, fingerprint: &str| {
        let (source, file, fingerprint) = (source.into(), file.into(), fingerprint.into());
        let import = Some(DocumentImport { source, file, fingerprint, ..Default::default() });
        CreateDocumentRequest { import, ..create("a.md") }
    };
    let mut talkative = imported("s", "a.md", "1");
    talkative.import.as_mut().unwrap().left_out = "w".repeat(2049);
    for (request, code, name) in [
        (CreateDocumentRequest { project_id: "nonsense".into(), ..create("a.md") }, NotFound, "project_id"),
        (CreateDocumentRequest { project_id: NOBODY.into(), ..create("a.md") }, NotFound, "project_id"),
        (CreateDocumentRequest { run_id: NOBODY.into(), ..create("a.md") }, InvalidArgument, "run_id"),
        (
            CreateDocumentRequest { project_id: String::new(), run_id: NOBODY.into(), ..create("a.md") },
            NotFound,
            "run_id",
        ),
        (create(""), InvalidArgument, "path"),
        (create("../a.md"), InvalidArgument, "path"),
        (create("/etc/passwd"), InvalidArgument, "path"),
        (create("a//b"), InvalidArgument, "path"),
        (CreateDocumentRequest { title: "t".repeat(1025), ..create("a.md") }, InvalidArgument, "title"),
        (
            CreateDocumentRequest { body: "b".repeat(1024 * 1024 + 1), ..create("a.md") },
            InvalidArgument,
            "body",
        ),
        (imported("", "a.md", "1"), InvalidArgument, "import.source"),
        (imported(&"s".repeat(129), "a.md", "1"), InvalidArgument, "import.source"),
        (imported("s", "a\nb", "1"), InvalidArgument, "import.file"),
        (imported("s", "a.md", ""), InvalidArgument, "import.fingerprint"),
        (talkative, InvalidArgument, "import.left_out"),
    ] {
        is(documents.create_document(request).await.unwrap_err(), code, name);
    }
    let run_id = gateway.create_run("why?").await.run_id;
    let of_run = CreateDocumentRequest { project_id: String::new(), run_id, ..imported("s", "a.md", "1") };
    is(documents.create_document(of_run).await.unwrap_err(), tonic::Code::FailedPrecondition, "run_id");
    for (text, code) in [("", InvalidArgument), ("nonsense", InvalidArgument), (NOBODY, NotFound)] {
        let delete = DeleteDocumentRequest { document_id: text.into(), ..Default::default() };
        is(documents.delete_document(delete).await.unwrap_err(), code, "document_id");
    }
    let delete = DeleteDocumentRequest {
        document_id: NOBODY.into(),
        import_source: "s".repeat(129),
        allow_missing: true,
    };
    is(documents.delete_document(delete).await.unwrap_err(), InvalidArgument, "import_source");
    for (text, code) in [("", InvalidArgument), ("nonsense", InvalidArgument), (NOBODY, NotFound)] {
        let get = GetDocumentRequest { document_id: text.into(), ..Default::default() };
        is(documents.get_document(get).await.unwrap_err(), code, "document_id");
    }
    let list = |project_ids: &[&str], run_id: &str| ListDocumentsRequest {
        project_ids: project_ids.iter().map(|&id| id.to_owned()).collect(),
        run_id: run_id.into(),
        ..Default::default()
    };
    for (request, code, name) in [
        (list(&[&project, "nonsense"], ""), NotFound, "project_ids[1]"),
        (list(&[&project, NOBODY], ""), NotFound, "project_ids[1]"),
        (list(&[], "nonsense"), InvalidArgument, "run_id"),
        (list(&[], NOBODY), NotFound, "run_id"),
        (ListDocumentsRequest { kinds: vec![99], ..list(&[], "") }, InvalidArgument, "kinds[0]"),
    ] {
        is(documents.list_documents(request).await.unwrap_err(), code, name);
    }
    let search = |query: &str| SearchDocumentsRequest { query: query.into(), ..Default::default() };
    let context = RunContext { scope: Scope::Project as i32, project_ids: vec![NOBODY.into()] };
    for (request, code, name) in [
        (search(&"x".repeat(64 * 1024 + 1)), InvalidArgument, "query"),
        (
            SearchDocumentsRequest { context: Some(context), ..search("x") },
            NotFound,
            "context.project_ids[0]",
        ),
    ] {
        is(documents.search_documents(request).await.unwrap_err(), code, name);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_node_of_another_run_in_a_log_longer_than_one_look() {
    let gateway = Gateway::start(Config::default()).await;
    let (run, other) = (gateway.create_run("long").await, gateway.create_run("other").await);
    let mut log = gateway.drive(&run).await;
    for _ in 0..21 {
        log.append(1_000, 0).await;
    }
    let events = |node_id: &str, types: &[&str]| ListEventsRequest {
        run_id: run.run_id.clone(),
        node_id: node_id.into(),
        types: types.iter().map(|&t| t.into()).collect(),
        ..Default::default()
    };
    let mut runs = gateway.runs();
    for stranger in [NOBODY, &other.root_node_id] {
        is(runs.list_events(events(stranger, &[])).await.unwrap_err(), NotFound, "node_id");
    }
    // A node that is there, of whose events none matches: an empty page and a way on.
    let page = runs.list_events(events(&run.root_node_id, &["tree.node_failed"])).await.unwrap().into_inner();
    assert!(page.events.is_empty() && !page.next_page_token.is_empty());
    gateway.stop().await;
}

#[tokio::test]
async fn a_message_over_the_size_limit() {
    let gateway = Gateway::start(Config::default()).await;
    let body = "b".repeat(13 * 1024 * 1024);
    let request = CreateDocumentRequest { body, ..Default::default() };
    let status = gateway.documents().create_document(request).await.unwrap_err();
    assert_eq!(status.code(), OutOfRange, "{status:?}");
    let request = WatchRunRequest { run_id: "r".repeat(9 * 1024 * 1024), ..Default::default() };
    let status = gateway.runs().watch_run(request).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    // The gateway is none the worse.
    gateway.create_run("still here").await;
    gateway.stop().await;
}

#[tokio::test]
async fn without_a_broker_runs_are_created_all_the_same() {
    let gateway = Gateway::with(Mode::Down, Config::default()).await;
    assert_eq!(gateway.create_run("no broker").await.objective, "no broker");
    gateway.stop().await;
}
