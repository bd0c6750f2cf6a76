//! What roles see: the documents of their run's context, and nothing else. The requests are made from the descriptors
//! of the API, so a new method is tried as well.

use std::sync::Arc;

use crate::common::Gateway;
use http::{Request, StatusCode, header};
use prost_reflect::{DescriptorPool, Kind, MessageDescriptor, MethodDescriptor};
use serde_json::{Map, Value, json};
use tree_agent_contract::{RunContext, RunId};
use tree_agent_event_gateway::Config;
use tree_agent_proto::v1 as pb;
use tree_agent_runtime::channel::Connector;
use tree_agent_runtime::role_token::{RUN_ID, RoleToken};
use tree_agent_security::SharedSecret;
use tree_agent_tools::{Caller, GatewayDocuments, ToolRegistry};
use uuid::Uuid;

/// In everything that the other project and the other run hold.
const SECRET: &str = "kumquat";

/// What a request may name, by the name of the field.
#[derive(Clone)]
struct Names {
    project: String,
    run: String,
    document: String,
    project_name: String,
    path: String,
}

impl Names {
    fn value(&self, field: &str) -> Option<&str> {
        Some(match field {
            "project_id" | "project_ids" => &self.project,
            "run_id" | "run_ids" | "copy_of" => &self.run,
            "document_id" | "document_ids" => &self.document,
            "name" => &self.project_name,
            "path" | "path_prefix" => &self.path,
            "query" => SECRET,
            "objective" | "title" | "body" => "words",
            _ => return None,
        })
    }

    /// An error without them, to compare errors about different things.
    fn removed_from(&self, error: &str) -> String {
        let mut error: Value = serde_json::from_str(error).unwrap();
        for detail in error["details"].as_array_mut().unwrap() {
            // The same as `debug`, encoded.
            detail.as_object_mut().unwrap().remove("value");
        }
        [&self.project, &self.run, &self.document, &self.project_name]
            .iter()
            .fold(error.to_string(), |text, name| text.replace(name.as_str(), "NAME"))
    }
}

/// A request that names `names` wherever `wanted` lets it.
fn request(message: &MessageDescriptor, names: &Names, wanted: &dyn Fn(&str) -> bool, depth: usize) -> Value {
    let mut object = Map::new();
    for field in message.fields() {
        let value = match field.kind() {
            Kind::String => {
                names.value(field.name()).filter(|_| wanted(field.name())).map(|name| json!(name))
            }
            // The scope is made to fit.
            Kind::Message(inner) if inner.name() == "RunContext" && wanted("project_ids") => {
                Some(json!({ "scope": "SCOPE_PROJECT", "projectIds": [names.project] }))
            }
            Kind::Message(inner) if depth > 0 && !field.is_list() && !field.is_map() => {
                let inner = request(&inner, names, wanted, depth - 1);
                inner.as_object().is_some_and(|o| !o.is_empty()).then_some(inner)
            }
            _ => None,
        };
        let Some(value) = value else { continue };
        let value = if field.is_list() { json!([value]) } else { value };
        object.insert(field.json_name().to_owned(), value);
    }
    Value::Object(object)
}

/// Requests of a method: with every name, and with each of those alone that it has.
fn requests(method: &MethodDescriptor, names: &Names) -> Vec<Value> {
    const FIELDS: [&str; 8] =
        ["project_id", "project_ids", "run_id", "document_id", "name", "query", "path", "path_prefix"];
    let input = method.input();
    let mut all = vec![json!({}), request(&input, names, &|_| true, 2)];
    for field in FIELDS {
        // What is written needs more than its owner.
        all.push(request(&input, names, &|name| name == field, 2));
        let with_text =
            |name: &str| name == field || ["path", "title", "body", "query", "name"].contains(&name);
        all.push(request(&input, names, &with_text, 2));
    }
    all.dedup();
    all
}

struct World {
    gateway: Gateway,
    token: SharedSecret,
    methods: Vec<MethodDescriptor>,
    /// The run whose role calls.
    run: String,
    ours: Names,
    theirs: Names,
}

impl World {
    async fn new() -> Self {
        let token = SharedSecret::random();
        let role_token = Some(RoleToken::from(token.clone()));
        let gateway = Gateway::start(Config { role_token, ..Config::default() }).await;
        let ours = names(&gateway, "ours", "apple").await;
        let theirs = names(&gateway, "theirs", SECRET).await;
        let pool = DescriptorPool::decode(tree_agent_proto::DESCRIPTORS).unwrap();
        let services = pool.services().filter(|service| service.package_name() == "treeagent.v1");
        let methods = services.flat_map(|service| service.methods().collect::<Vec<_>>()).collect();
        Self { gateway, token, methods, run: ours.run.clone(), ours, theirs }
    }

    /// A call of a role for `run`.
    async fn call(&self, run: Option<&str>, path: &str, body: &Value) -> (StatusCode, String) {
        self.call_with(&format!("Bearer {}", self.token.expose()), run, path, body).await
    }

    async fn call_with(
        &self,
        authorization: &str,
        run: Option<&str>,
        path: &str,
        body: &Value,
    ) -> (StatusCode, String) {
        let mut request = Request::post("/")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::AUTHORIZATION, authorization);
        if let Some(run) = run {
            request = request.header(RUN_ID, run);
        }
        let response = self.gateway.send(request, &format!("/{path}"), body.to_string()).await;
        (response.status(), String::from_utf8_lossy(response.body()).into_owned())
    }

    /// A call of a method of `DocumentService` or `ProjectService` that succeeds.
    async fn get(&self, method: &str, body: Value) -> Value {
        let (status, text) = self.call(Some(&self.run), &format!("treeagent.v1.{method}"), &body).await;
        assert_eq!(status, StatusCode::OK, "{method} {body}: {text}");
        serde_json::from_str(&text).unwrap()
    }
}

/// A project with a document, and a run on it with a document of its own.
async fn names(gateway: &Gateway, name: &str, word: &str) -> Names {
    let request = pb::CreateProjectRequest {
        name: name.into(),
        description: format!("about {word}s"),
        ..Default::default()
    };
    let project = gateway.projects().create_project(request).await.unwrap().into_inner().project.unwrap();
    let context =
        pb::RunContext { scope: pb::Scope::Project as i32, project_ids: vec![project.project_id.clone()] };
    let request = pb::CreateRunRequest {
        objective: format!("what of the {word}?"),
        context: Some(context),
        ..Default::default()
    };
    let run = gateway.runs().create_run(request).await.unwrap().into_inner().run.unwrap();
    let document = pb::CreateDocumentRequest {
        project_id: project.project_id.clone(),
        path: "fruit.md".into(),
        title: format!("The {word}"),
        body: format!("A {word} is a fruit."),
        ..Default::default()
    };
    let document =
        gateway.documents().create_document(document).await.unwrap().into_inner().document.unwrap();
    Names {
        project: project.project_id,
        run: run.run_id,
        document: document.document_id,
        project_name: name.into(),
        path: "fruit.md".into(),
    }
}

/// Everything that is stored about the other project and run.
async fn stored(world: &World) -> Vec<(String, String)> {
    let (mut documents, runs) = (world.gateway.documents(), &mut world.gateway.runs());
    let listed = documents.list_documents(pb::ListDocumentsRequest::default()).await.unwrap().into_inner();
    let mut all = Vec::new();
    for summary in listed.documents {
        let request =
            pb::GetDocumentRequest { document_id: summary.document_id.clone(), ..Default::default() };
        let document = documents.get_document(request).await.unwrap().into_inner().document.unwrap();
        if document.body.contains("words") && summary.project_id.as_deref() != Some(&world.theirs.project) {
            continue; // What the role wrote where it may.
        }
        all.push((summary.document_id, document.body));
    }
    let runs = runs.list_runs(pb::ListRunsRequest::default()).await.unwrap().into_inner().runs;
    all.extend(runs.into_iter().map(|run| (run.run_id, format!("{} {}", run.status, run.head_seq))));
    all
}

#[tokio::test]
async fn no_method_shows_a_role_what_its_run_may_not_see() {
    let world = World::new().await;
    let before = stored(&world).await;
    let others_document = {
        let request = pb::ListDocumentsRequest { run_id: world.theirs.run.clone(), ..Default::default() };
        let listed = world.gateway.documents().list_documents(request).await.unwrap().into_inner();
        let found = listed.documents.iter().find(|document| document.kind() == pb::DocumentKind::Workspace);
        found.unwrap().document_id.clone()
    };
    // The same with ids of nothing: the answers must not differ.
    let nothing = Names {
        project: Uuid::new_v4().to_string(),
        run: Uuid::now_v7().to_string(),
        document: Uuid::new_v4().to_string(),
        project_name: "nobody".into(),
        path: "fruit.md".into(),
    };
    let of_the_run = Names { document: others_document, ..world.theirs.clone() };
    let mut tried = 0;
    for method in &world.methods {
        let path = format!("{}/{}", method.parent_service().full_name(), method.name());
        for theirs in [&world.theirs, &of_the_run] {
            let requests = requests(method, theirs).into_iter().zip(self::requests(method, &nothing));
            for (theirs_request, nothing_request) in requests {
                let (status, text) = world.call(Some(&world.run), &path, &theirs_request).await;
                // A search repeats the words of its query. Passages that held one would be counted beside it.
                let echo = format!(r#"{{"word":"{SECRET}"}}"#);
                assert!(!text.replace(&echo, "").contains(SECRET), "{path} {theirs_request}: {text}");
                let (same_status, same_text) = world.call(Some(&world.run), &path, &nothing_request).await;
                assert_eq!(status, same_status, "{path} {theirs_request}: {text}");
                if !status.is_success() {
                    let (text, same) = (theirs.removed_from(&text), nothing.removed_from(&same_text));
                    assert_eq!(text, same, "{path} {theirs_request}");
                }
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "{tried}");
    assert_eq!(stored(&world).await, before);
    world.gateway.stop().await;
}

/// `projectId` as `project_id`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_uppercase() {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}

/// A role that lies about its context, and tools that believe it.
#[tokio::test]
async fn no_tool_reaches_what_its_run_may_not_see() {
    let world = World::new().await;
    let before = stored(&world).await;
    let url = format!("http://{}", world.gateway.address).parse().unwrap();
    let connector = Connector::default().with_credentials(RoleToken::from(world.token.clone()).credentials());
    let source = Arc::new(GatewayDocuments::connect_lazy(&[url], &connector));
    let theirs = RunContext::project(world.theirs.project.parse().unwrap());
    let (mut tried, mut own) = (0, 0);
    let registry = ToolRegistry::new(source.clone());
    let of = |context: RunContext| registry.tool_set(Caller::new(world.run.parse().unwrap(), context));
    let specs = of(RunContext::default()).specs().await.unwrap();
    let of_theirs = of(theirs.clone()).specs().await.unwrap();
    assert!(of_theirs.iter().all(|tool| tool.name() != "create_document"), "as of a project that is gone");
    for context in [RunContext::default(), theirs] {
        let tools = of(context);
        for tool in &specs {
            let properties = tool.schema()["properties"].as_object().unwrap().clone();
            let args = properties.into_iter().filter_map(|(name, schema)| {
                let value =
                    (schema["type"] != "integer").then(|| world.theirs.value(&snake(&name))).flatten()?;
                Some((name, json!(value)))
            });
            let args: Map<String, Value> = args.collect();
            let answer = tools.call(tool.name(), &args).await;
            assert!(!format!("{answer:?}").contains(&format!("A {SECRET}")), "{}: {answer:?}", tool.name());
            assert!(
                !format!("{answer:?}").contains(&format!("about {SECRET}")),
                "{}: {answer:?}",
                tool.name()
            );
            own += usize::from(format!("{answer:?}").contains("apple"));
            tried += 1;
        }
    }
    assert!(tried >= 8 && own > 0, "{tried} tools, {own} that show what is ours");
    assert_eq!(stored(&world).await, before);
    world.gateway.stop().await;
}

#[tokio::test]
async fn a_role_sees_what_its_run_may_see() {
    let world = World::new().await;
    let ours = &world.ours;
    let found = world.get("DocumentService/GetDocument", json!({ "documentId": ours.document })).await;
    assert_eq!(found["document"]["body"], "A apple is a fruit.");
    // Without a project, that of the run.
    for request in [json!({}), json!({ "projectIds": [ours.project] })] {
        let listed = world.get("DocumentService/ListDocuments", request).await;
        assert_eq!(listed["documents"].as_array().unwrap().len(), 1, "{listed}");
        assert_eq!(listed["documents"][0]["documentId"], ours.document.as_str());
    }
    let listed = world.get("DocumentService/ListDocuments", json!({ "runId": ours.run })).await;
    assert!(
        listed["documents"].as_array().unwrap().iter().any(|d| d["kind"] == "DOCUMENT_KIND_WORKSPACE"),
        "{listed}"
    );
    let found = world.get("DocumentService/SearchDocuments", json!({ "query": "fruit" })).await;
    assert_eq!(found["totalSize"], "1", "{found}");
    assert_eq!(found["hits"][0]["document"]["documentId"], ours.document.as_str());
    let listed = world.get("ProjectService/ListProjects", json!({})).await;
    assert_eq!(listed["projects"].as_array().unwrap().len(), 1, "{listed}");
    for request in [json!({ "projectId": ours.project }), json!({ "name": "OURS" })] {
        let found = world.get("ProjectService/GetProject", request).await;
        assert_eq!(found["project"]["description"], "about apples");
    }
    let note = json!({ "projectId": ours.project, "path": "notes/new.md", "body": "a note" });
    let written = world.get("DocumentService/CreateDocument", note).await;
    assert_eq!(written["document"]["path"], "notes/new.md");
    // What a role writes is nobody's import, so no import removes it.
    let import = json!({ "source": "folder", "file": "a.md", "fingerprint": "1" });
    let request = json!({ "projectId": ours.project, "path": "a.md", "body": "x", "import": import });
    let path = "treeagent.v1.DocumentService/CreateDocument";
    let (status, text) = world.call(Some(&world.run), path, &request).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{text}");
    world.gateway.stop().await;
}

/// A gateway that asks users for no tokens does not take a role for a user.
#[tokio::test]
async fn a_role_with_another_token_is_refused() {
    let world = World::new().await;
    let other = format!("Bearer {}", SharedSecret::random().expose());
    for authorization in [&*other, "Bearer ", "Basic YTpi", world.token.expose()] {
        let request = json!({ "documentId": world.theirs.document });
        let path = "treeagent.v1.DocumentService/GetDocument";
        let (status, text) = world.call_with(authorization, Some(&world.run), path, &request).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{authorization}: {text}");
        assert!(text.contains("ROLE_TOKEN_INVALID"), "{text}");
    }
    world.gateway.stop().await;
}

#[tokio::test]
async fn the_token_of_roles_is_worth_nothing_without_a_live_run() {
    let world = World::new().await;
    let unknown = Uuid::now_v7().to_string();
    let refused = async |run: Option<&str>, reason: &str| {
        for method in &world.methods {
            let path = format!("{}/{}", method.parent_service().full_name(), method.name());
            let (status, text) = world.call(run, &path, &json!({})).await;
            assert_eq!(status, StatusCode::FORBIDDEN, "{path}: {text}");
            assert!(text.contains(reason) || text.contains("NOT_FOR_ROLES"), "{path}: {text}");
        }
    };
    refused(None, "RUN_MISSING").await;
    refused(Some("not an id"), "RUN_MISSING").await;
    refused(Some(&unknown), "RUN_NOT_LIVE").await;
    let run: RunId = world.run.parse().unwrap();
    let mut log = world.gateway.drive(&pb::Run { run_id: world.run.clone(), ..Default::default() }).await;
    log.finish().await;
    assert!(world.gateway.store.run(run).await.unwrap().status.is_final());
    refused(Some(&world.run), "RUN_NOT_LIVE").await;
    world.gateway.stop().await;
}
