//! Contexts of runs: what projects and read-only runs forbid, with the real tools over the real gateway, and copies of
//! runs with another context.

use std::sync::Arc;

use crate::common::{Gateway, field};
use prost_types::FieldMask;
use serde_json::{Value, json};
use tonic::Code;
use tonic_types::StatusExt;
use tree_agent_event_gateway::Config;
use tree_agent_proto::Wire;
use tree_agent_proto::v1::*;
use tree_agent_runtime::channel::Connector;
use tree_agent_runtime::role_token::RoleToken;
use tree_agent_security::SharedSecret;
use tree_agent_tools::{Caller, GatewayDocuments, ToolError, ToolRegistry, ToolSet};

struct World {
    gateway: Gateway,
    registry: ToolRegistry,
}

impl World {
    async fn new() -> Self {
        let token = RoleToken::from(SharedSecret::random());
        let config = Config { role_token: Some(token.clone()), ..Config::default() };
        let gateway = Gateway::start(config).await;
        let url = format!("http://{}", gateway.address).parse().unwrap();
        let connector = Connector::default().with_credentials(token.credentials());
        let source = GatewayDocuments::connect_lazy(&[url], &connector);
        Self { gateway, registry: ToolRegistry::new(Arc::new(source)) }
    }

    /// A project with an imported document.
    async fn project(&self, name: &str) -> String {
        let project_id = self.gateway.create_project(name).await.project_id;
        let imported = CreateDocumentRequest {
            project_id: project_id.clone(),
            path: "imported.md".into(),
            body: format!("A lease of {name}."),
            ..Default::default()
        };
        self.gateway.documents().create_document(imported).await.unwrap();
        project_id
    }

    async fn set(&self, project_id: &str, tools: ToolRules) {
        let project = Project { project_id: project_id.into(), tools: Some(tools), ..Default::default() };
        let update_mask = Some(FieldMask { paths: vec!["tools".into()] });
        let request = UpdateProjectRequest { project: Some(project), update_mask };
        self.gateway.projects().update_project(request).await.unwrap();
    }

    async fn run(&self, request: CreateRunRequest) -> Run {
        self.gateway.runs().create_run(request).await.unwrap().into_inner().run.unwrap()
    }

    /// The tools of a run. A role that `lies` says that its run may write.
    fn tools(&self, run: &Run, lies: bool) -> ToolSet {
        let context = tree_agent_contract::RunContext::from_wire(run.context.clone().unwrap()).unwrap();
        let caller = Caller::new(run.run_id.parse().unwrap(), context);
        self.registry.tool_set(Caller { read_only: run.read_only && !lies, ..caller })
    }

    async fn body(&self, project_id: &str, path: &str) -> Option<String> {
        let list = ListDocumentsRequest {
            project_ids: vec![project_id.into()],
            path_prefix: path.into(),
            ..Default::default()
        };
        let mut documents = self.gateway.documents();
        let found = documents.list_documents(list).await.unwrap().into_inner().documents;
        let document_id = found.first()?.document_id.clone();
        let got = documents
            .get_document(GetDocumentRequest { document_id, ..Default::default() })
            .await
            .unwrap()
            .into_inner();
        Some(got.document.unwrap().body)
    }
}

fn on(projects: &[&str]) -> CreateRunRequest {
    let scope = match projects.len() {
        0 => Scope::Global,
        1 => Scope::Project,
        _ => Scope::MultiProject,
    };
    let project_ids = projects.iter().map(|&id| id.to_owned()).collect();
    let context = Some(RunContext { scope: scope as i32, project_ids });
    CreateRunRequest { objective: "why?".into(), context, ..Default::default() }
}

async fn call(tools: &ToolSet, name: &str, args: Value) -> Result<Value, ToolError> {
    tools.call(name, args.as_object().unwrap()).await.map(|output| output.value)
}

async fn names(tools: &ToolSet) -> Vec<String> {
    tools.specs().await.unwrap().iter().map(|spec| spec.name().to_owned()).collect()
}

/// Story 3: only the tools of project A are shown to a run on it, and it reaches nothing of another project.
#[tokio::test]
async fn a_run_on_a_project_has_the_tools_of_that_project_and_reaches_no_other() {
    let world = World::new().await;
    let (a, b) = (world.project("A").await, world.project("B").await);
    world.set(&a, ToolRules { denied_tools: vec!["list_documents".into()], ..Default::default() }).await;
    world.set(&b, ToolRules { allowed_tools: vec!["list_documents".into()], ..Default::default() }).await;
    let tools = world.tools(&world.run(on(&[&a])).await, false);
    assert_eq!(names(&tools).await, ["search_documents", "read_document", "create_document", "write_note"]);
    let found = call(&tools, "search_documents", json!({"query": "lease"})).await.unwrap();
    assert_eq!((&found["total"], &found["hits"][0]["projectId"]), (&json!(1), &json!(a)));
    let denied = call(&tools, "list_documents", json!({})).await.unwrap_err();
    assert!(matches!(denied, ToolError::UnknownTool { .. }), "{denied:?}");
    let args = json!({"project_id": b, "path": "x.md", "body": "x"});
    let elsewhere = call(&tools, "create_document", args).await.unwrap_err();
    assert!(matches!(elsewhere, ToolError::NotFound(_)), "{elsewhere:?}");
    // On both, what both offer: nothing.
    let both = world.tools(&world.run(on(&[&a, &b])).await, false);
    assert_eq!(names(&both).await, Vec::<String>::new());
    // In global context each call follows the project that it is about.
    let global = world.tools(&world.run(on(&[])).await, false);
    let denied = call(&global, "list_documents", json!({"project_id": a})).await.unwrap_err();
    assert_eq!(denied, ToolError::Denied { tool: "list_documents".into(), project: a.parse().unwrap() });
    assert!(call(&global, "list_documents", json!({"project_id": b})).await.is_ok());
    let found = call(&global, "search_documents", json!({"query": "lease"})).await.unwrap();
    assert_eq!(found["total"], 1, "{found}");
    world.gateway.stop().await;
}

#[tokio::test]
async fn the_gateway_refuses_what_a_run_may_not_write_whatever_its_role_believes() {
    let world = World::new().await;
    let (a, b) = (world.project("A").await, world.project("B").await);
    let new = json!({"project_id": a, "path": "new.md", "body": "by a tool"});
    let read_only = world.run(CreateRunRequest { read_only: Some(true), ..on(&[&a]) }).await;
    assert!(read_only.read_only);
    let honest = world.tools(&read_only, false);
    assert!(!names(&honest).await.contains(&"create_document".to_owned()));
    let lying = world.tools(&read_only, true);
    let refused = call(&lying, "create_document", new.clone()).await.unwrap_err();
    assert!(matches!(&refused, ToolError::Source(text) if text.contains("read-only")), "{refused:?}");

    // A role that does not know the rules of the other project of its context.
    world.set(&b, ToolRules { read_only: true, ..Default::default() }).await;
    let both = world.run(on(&[&a, &b])).await;
    let lying = Run { context: on(&[&a]).context, ..both };
    let refused = call(&world.tools(&lying, true), "create_document", new.clone()).await.unwrap_err();
    assert!(matches!(&refused, ToolError::Source(text) if text.contains("does not allow")), "{refused:?}");
    assert_eq!(world.body(&a, "new.md").await, None);

    // What people imported stays, and what a tool wrote may be written again.
    let tools = world.tools(&world.run(on(&[&a])).await, false);
    let over = json!({"path": "imported.md", "body": "by a tool"});
    let refused = call(&tools, "create_document", over.clone()).await.unwrap_err();
    assert!(
        matches!(&refused, ToolError::Source(text) if text.contains("imported by people")),
        "{refused:?}"
    );
    assert_eq!(world.body(&a, "imported.md").await.unwrap(), "A lease of A.");
    for _ in 0..2 {
        call(&tools, "create_document", new.clone()).await.unwrap();
    }
    world.set(&a, ToolRules { replace_imported: true, ..Default::default() }).await;
    call(&tools, "create_document", over).await.unwrap();
    assert_eq!(world.body(&a, "imported.md").await.unwrap(), "by a tool");
    world.gateway.stop().await;
}

/// Story 2, of the API: a new run with the same objective in another context, which names the run that it copies.
#[tokio::test]
async fn a_copy_has_everything_of_a_run_but_its_context() {
    let world = World::new().await;
    let a = world.project("A").await;
    let prompts =
        Some(SearchPrompts { document: Some("Write about {{title}}.".into()), ..Default::default() });
    let search = Some(SearchConfig { concurrency: Some(2), prompts, ..Default::default() });
    let first = world
        .run(CreateRunRequest {
            strategy: Strategy::Search as i32,
            budgets: Some(Budgets { max_nodes: Some(7), max_tokens: Some(90), ..Default::default() }),
            model: "offline".into(),
            display_name: "One".into(),
            labels: [("team".to_owned(), "x".to_owned())].into(),
            read_only: Some(true),
            search,
            ..on(&[])
        })
        .await;
    let request = CreateRunRequest {
        copy_of: first.run_id.clone(),
        context: on(&[&a]).context,
        request_id: "once".into(),
        ..Default::default()
    };
    let copy = world.run(request.clone()).await;
    assert_eq!((copy.copy_of.as_ref(), &copy.context), (Some(&first.run_id), &on(&[&a]).context));
    let without = |run: &Run| Run {
        run_id: String::new(),
        root_node_id: String::new(),
        context: None,
        copy_of: None,
        created_at: None,
        updated_at: None,
        ..run.clone()
    };
    assert_eq!(without(&copy), without(&first));
    // The texts of a search, too, and the link: both are in the first event.
    let events = ListEventsRequest { run_id: copy.run_id.clone(), page_size: 1, ..Default::default() };
    let log = world.gateway.runs().list_events(events).await.unwrap().into_inner().events;
    let Some(event::Body::RunCreated(created)) = &log[0].body else { panic!("{log:?}") };
    let prompt = created.search.as_ref().unwrap().prompts.as_ref().unwrap().document.as_deref();
    assert_eq!((prompt, created.read_only), (Some("Write about {{title}}."), true));
    assert_eq!(created.copy_of.as_ref(), Some(&first.run_id));
    // Repeated, it is the same run, and a list shows the copies of a run.
    assert_eq!(world.run(request.clone()).await.run_id, copy.run_id);
    let copies = async |of: &str| {
        let list = ListRunsRequest { copy_of: of.into(), ..Default::default() };
        let runs = world.gateway.runs().list_runs(list).await.unwrap().into_inner().runs;
        runs.into_iter().map(|run| run.run_id).collect::<Vec<_>>()
    };
    assert_eq!(copies(&first.run_id).await, std::slice::from_ref(&copy.run_id));
    assert!(copies(&copy.run_id).await.is_empty());
    // What a copy says is taken, and without a context it has that of the run.
    let other = CreateRunRequest {
        copy_of: copy.run_id.clone(),
        objective: "why not?".into(),
        read_only: Some(false),
        ..Default::default()
    };
    let other = world.run(other).await;
    assert_eq!(
        (other.objective.as_str(), other.read_only, &other.context),
        ("why not?", false, &copy.context)
    );

    // What cannot be copied is refused with its field.
    let nobody = "0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b";
    for (copy_of, code) in [("x", Code::InvalidArgument), (nobody, Code::NotFound)] {
        let request = CreateRunRequest { copy_of: copy_of.into(), ..Default::default() };
        let status = world.gateway.runs().create_run(request).await.unwrap_err();
        assert_eq!((status.code(), field(&status).as_str()), (code, "copy_of"), "{status:?}");
        assert!(status.get_error_details().error_info().is_some());
    }
    // What was accepted stays accepted when the run that was copied is gone.
    let mut log = world.gateway.drive(&first).await;
    log.finish().await;
    world.gateway.runs().delete_run(DeleteRunRequest { run_id: first.run_id.clone() }).await.unwrap();
    assert_eq!(world.run(request).await.run_id, copy.run_id);
    world.gateway.stop().await;
}
