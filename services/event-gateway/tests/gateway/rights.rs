//! Who may do what. Requests are generated from the descriptors of the API, so a new method is tried, too.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{Method, Request, header};
use prost_reflect::{Cardinality, DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};
use tree_agent_contract::{MemberRole, ProjectId, RunId};
use tree_agent_proto::rights::{Access, RULES, Rule};
use tree_agent_proto::v1::document_service_client::DocumentServiceClient;
use tree_agent_proto::v1::run_service_client::RunServiceClient;
use tree_agent_proto::v1::watch_run_response::Message;
use tree_agent_proto::v1::{
    self as pb, CreateRunRequest, WatchDocumentRequest, WatchRunRequest, WatchRunsRequest,
};

use crate::auth::Guarded;
use crate::common::SOON;
use crate::common::driver::TestDriver;
use crate::common::plain::{Plain, plain};

const HOUR: Duration = Duration::from_secs(3_600);
/// What only ann and those with whom she shares may see, in a name, an objective and a text.
const SECRETS: [&str; 3] = ["Harbour papers", "why did the crane fall", "the crane fell at force eight"];
/// Methods that end what others need come last.
const LAST: [&str; 7] = [
    "RunService/StopNode",
    "RunService/CancelRun",
    "RunService/DeleteRun",
    "DocumentService/DeleteDocument",
    "ProjectService/RemoveMember",
    "ProjectService/UpdateProject",
    "ProjectService/DeleteProject",
];

/// What belongs to ann: a project with a document, and a live run on it.
struct World {
    guarded: Guarded,
    driver: TestDriver,
    project: String,
    document: String,
    run: pb::Run,
    pool: DescriptorPool,
}

/// How a call ended: the code of the Connect protocol, empty for success, and the answer.
struct Outcome {
    code: String,
    body: String,
}

impl World {
    async fn start() -> Self {
        let guarded = Guarded::start().await;
        let store = &guarded.gateway.store;
        let driver = TestDriver::start(store.clone(), guarded.gateway.fanout.clone());
        let pool = DescriptorPool::decode(tree_agent_proto::DESCRIPTORS).unwrap();
        let run = pb::Run::default();
        let (project, document) = (String::new(), String::new());
        let mut world = Self { guarded, driver, project, document, run, pool };
        let asked = json!({ "name": SECRETS[0], "requestId": "first" });
        world.project = world.made("ann", "ProjectService/CreateProject", asked, "/project/projectId").await;
        let asked = json!({ "projectId": world.project, "path": "crane.md", "body": SECRETS[2] });
        world.document =
            world.made("ann", "DocumentService/CreateDocument", asked, "/document/documentId").await;
        let context = pb::RunContext { scope: 2, project_ids: vec![world.project.clone()] };
        let request =
            CreateRunRequest { objective: SECRETS[1].into(), context: Some(context), ..Default::default() };
        let created = RunServiceClient::new(world.guarded.of("ann")).create_run(request).await.unwrap();
        world.run = created.into_inner().run.unwrap();
        for (user, role) in [("bob", "READER"), ("cid", "EDITOR")] {
            let role = format!("MEMBER_ROLE_{role}");
            let asked = json!({ "projectId": world.project, "userId": user, "role": role });
            world.made("ann", "ProjectService/SetMember", asked, "/member/userId").await;
        }
        // Nothing happens by itself any more: the slow step is at work, and the steps beside it have ended.
        let mut events = RunServiceClient::new(world.guarded.of("ann"))
            .watch_run(WatchRunRequest { run_id: world.run.run_id.clone(), ..Default::default() })
            .await
            .unwrap()
            .into_inner();
        let slow = async {
            let (mut slow, mut is_at_work, mut open) = (String::new(), false, 0_usize);
            while let Some(answer) = events.message().await.unwrap() {
                let Some(Message::Event(event)) = answer.message else { continue };
                match event.body {
                    Some(pb::event::Body::NodeCreated(made)) if made.title.starts_with("Slow") => {
                        slow = event.node_id;
                    }
                    Some(pb::event::Body::StepStatus(step)) if step.status() == pb::StepStatus::Running => {
                        open += 1
                    }
                    Some(pb::event::Body::StepStatus(step)) if step.status() == pb::StepStatus::Completed => {
                        open -= 1
                    }
                    Some(pb::event::Body::NodeStatus(now)) if event.node_id == slow => {
                        is_at_work |= now.status() == pb::NodeStatus::Executing;
                    }
                    _ => {}
                }
                if is_at_work && open == 1 {
                    return;
                }
            }
        };
        tokio::time::timeout(SOON, slow).await.expect("a step waits");
        world
    }

    async fn stop(self) {
        self.driver.open_gate();
        self.driver.stop().await;
        self.guarded.gateway.stop().await;
    }

    async fn call(&self, user: &str, method: &str, request: &Value) -> Outcome {
        self.send(user, Method::POST, &format!("/treeagent.v1.{method}"), request.to_string()).await
    }

    /// The same as plain HTTP, if the request says what the path names.
    async fn call_plainly(&self, user: &str, method: &str, request: &Value) -> Option<Outcome> {
        let Plain { verb, path, body } = plain(&self.pool, method, request)?;
        Some(self.send(user, verb, &path, body).await)
    }

    async fn send(&self, user: &str, verb: Method, path: &str, body: String) -> Outcome {
        let token = match user {
            "root" => {
                let mut claims = tree_agent_testkit::issuer::Issuer::claims("root", HOUR);
                claims["admin"] = json!(true);
                self.guarded.issuer.sign(&claims)
            }
            user => self.guarded.issuer.token(user, HOUR),
        };
        let http = Request::builder()
            .method(verb)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::AUTHORIZATION, format!("Bearer {token}"));
        let answer = self.guarded.gateway.send(http, path, body).await;
        let ok = answer.status().is_success();
        let body = String::from_utf8(answer.into_body().into()).unwrap();
        let error: Value = if ok { Value::Null } else { serde_json::from_str(&body).expect(&body) };
        Outcome { code: error["code"].as_str().unwrap_or_default().to_owned(), body }
    }

    /// What a call that succeeds answers at `pointer`.
    async fn made(&self, user: &str, method: &str, request: Value, pointer: &str) -> String {
        let made = self.call(user, method, &request).await;
        assert_eq!(made.code, "", "{method}: {}", made.body);
        let answer: Value = serde_json::from_str(&made.body).unwrap();
        answer.pointer(pointer).and_then(Value::as_str).expect(&made.body).to_owned()
    }

    /// Requests for everything of ann's that a method could touch: one with every flag set, one with none, and one for
    /// each way to name what it is about.
    fn requests(&self, method: &str) -> Vec<Value> {
        let (service, name) = method.split_once('/').unwrap();
        let service = self.pool.get_service_by_name(&format!("treeagent.v1.{service}")).unwrap();
        let method = service.methods().find(|m| m.name() == name).unwrap();
        let input = method.input();
        let ways = input.oneofs().map(|o| o.fields().len()).max().unwrap_or(1);
        let all = [false, true].into_iter().flat_map(|flag| (0..ways).map(move |way| (flag, way)));
        all.map(|(flag, way)| Value::Object(self.filled(&input, name, flag, way))).collect()
    }

    fn filled(
        &self,
        message: &MessageDescriptor,
        method: &str,
        flag: bool,
        way: usize,
    ) -> Map<String, Value> {
        let mut filled = Map::new();
        for field in message.fields() {
            let of = field.containing_oneof().filter(|of| !of.is_synthetic());
            if of.is_some_and(|of| of.fields().position(|f| f == field) != Some(way % of.fields().len())) {
                continue;
            }
            if let Some(value) = self.value(&field, method, flag, way) {
                filled.insert(field.json_name().to_owned(), value);
            }
        }
        filled
    }

    /// Something of ann's for the field, by its name; none for what says nothing about whom a call is about.
    fn value(&self, field: &FieldDescriptor, method: &str, flag: bool, way: usize) -> Option<Value> {
        let one = match field.name() {
            "run_id" if method == "CreateDocument" => return None,
            "run_id" if ["GetDocument", "WatchDocument", "ListDocumentVersions"].contains(&method) => {
                return flag.then(|| json!(self.run.run_id));
            }
            "run_id" | "a" | "b" | "copy_of" | "parent_run_id" => json!(self.run.run_id),
            "document_id" if flag && method != "DeleteDocument" => {
                let root = self.run.root_node_id.parse().unwrap();
                json!(tree_agent_contract::DocumentId::scratchpad(root).to_string())
            }
            "document_id" => json!(self.document),
            "node_id" => json!(self.run.root_node_id),
            "project_id" | "project_ids" => json!(self.project),
            "name" => json!(SECRETS[0]),
            "user_id" if method.ends_with("Member") => json!("dan"),
            "objective" | "query" => json!(SECRETS[1]),
            "path" => json!("new.md"),
            "content" | "body" | "text" | "guidance" => json!("bmV3"),
            "scope" => json!("SCOPE_PROJECT"),
            "role" => json!("MEMBER_ROLE_READER"),
            "max_tokens" => json!("5000000"),
            "request_id" => json!(format!("{method}-{flag}-{way}-{}", fastrand::u64(..))),
            "context" | "project" | "budget" | "change" | "budgets" => match field.kind() {
                Kind::Message(message) => Value::Object(self.filled(&message, method, flag, way)),
                _ => return None,
            },
            "plan" => self.plan(),
            "at_seq" | "a_seq" | "b_seq" if flag => json!(4),
            "timeout" => json!("0s"),
            "force" | "validate_only" | "allow_missing" | "subtree" | "check_sources" | "global" => {
                json!(flag)
            }
            _ => return None,
        };
        Some(if field.cardinality() == Cardinality::Repeated { json!([one]) } else { one })
    }

    fn plan(&self) -> Value {
        let step = json!({ "title": "new", "reason": "new", "successCriteria": ["new"] });
        json!({ "summary": "new", "bands": [{ "goal": "new", "parallelizable": true, "steps": [step] }] })
    }

    /// How often what is ann's has changed.
    async fn state(&self) -> BTreeMap<&str, String> {
        let store = &self.guarded.gateway.store;
        let project: ProjectId = self.project.parse().unwrap();
        let run: RunId = self.run.run_id.parse().unwrap();
        let row = store.run(run).await.unwrap();
        let mut state = BTreeMap::new();
        state.insert("project", format!("{:?}", store.project(project).await.unwrap()));
        state.insert("members", format!("{:?}", store.members(project, "", 100).await.unwrap()));
        state.insert("run", format!("{:?}", (row.status, row.head_seq, row.spec)));
        state
    }
}

fn name(rule: &Rule) -> &'static str {
    rule.path.strip_prefix("/treeagent.v1.").unwrap()
}

fn is_stream(rule: &Rule) -> bool {
    name(rule).contains("/Watch")
}

/// Every method that answers once; those that destroy at the end.
fn methods() -> Vec<&'static Rule> {
    let place = |rule: &&Rule| LAST.iter().position(|last| *last == name(rule)).map_or(0, |at| at + 1);
    let mut rules: Vec<&Rule> = RULES.iter().filter(|rule| !is_stream(rule)).collect();
    rules.sort_by_key(place);
    rules
}

/// A stranger with a valid token tries every method on what is ann's, gets nothing and changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_gets_nothing_from_any_method() {
    let world = World::start().await;
    let before = world.state().await;
    for rule in methods() {
        for request in world.requests(name(rule)) {
            let plainly = world.call_plainly("eve", name(rule), &request).await;
            for Outcome { code, body } in
                [Some(world.call("eve", name(rule), &request).await), plainly].into_iter().flatten()
            {
                let asked = request.to_string();
                for secret in SECRETS.iter().filter(|secret| !asked.contains(**secret)) {
                    assert!(!body.contains(secret), "{}: {asked}: {body}", rule.path);
                }
                if rule.access == Access::Open {
                    // The name of a project is unique in the cluster, whoever it belongs to.
                    assert!(["", "already_exists", "unavailable"].contains(&&*code), "{}: {body}", rule.path);
                    continue;
                }
                match code.as_str() {
                    "not_found" => {}
                    "" => {
                        for id in [&world.project, &world.document, &world.run.run_id] {
                            assert!(!body.contains(id.as_str()), "{}: {asked}: {body}", rule.path);
                        }
                    }
                    other => panic!("{}: {asked}: {other}: {body}", rule.path),
                }
            }
        }
    }
    for rule in RULES.iter().filter(|rule| is_stream(rule) && !rule.path.ends_with("/WatchRuns")) {
        for request in world.requests(name(rule)) {
            let refused = world.call_plainly("eve", name(rule), &request).await.unwrap();
            assert_eq!(refused.code, "not_found", "{}: {request}: {}", rule.path, refused.body);
        }
    }
    assert_eq!(world.state().await, before);
    let mut runs = RunServiceClient::new(world.guarded.of("eve"));
    let request = WatchRunRequest { run_id: world.run.run_id.clone(), ..Default::default() };
    assert_eq!(runs.watch_run(request).await.unwrap_err().code(), tonic::Code::NotFound);
    // The second time with a token, from which on everything that has changed is told.
    let mut resume_token = String::new();
    for _ in 0..2 {
        let request = WatchRunsRequest { resume_token, ..Default::default() };
        let mut list = runs.watch_runs(request).await.unwrap().into_inner();
        resume_token = loop {
            use pb::watch_runs_response::Message;
            let answer = tokio::time::timeout(SOON, list.message()).await.unwrap().unwrap().unwrap();
            match answer.message.unwrap() {
                Message::CaughtUp(at) => break at.resume_token,
                Message::Heartbeat(_) => {}
                other => panic!("{other:?}"),
            }
        };
        assert_ne!(resume_token, "");
    }
    let mut documents = DocumentServiceClient::new(world.guarded.of("eve"));
    let request = WatchDocumentRequest { document_id: world.document.clone(), ..Default::default() };
    assert_eq!(documents.watch_document(request).await.unwrap_err().code(), tonic::Code::NotFound);
    // Nor do counts tell what she may not read, also if she may read something.
    let project = json!({ "name": "Eve's" });
    let project = world.made("eve", "ProjectService/CreateProject", project, "/project/projectId").await;
    let source = json!({ "projectId": project, "path": "crane.md", "body": "a crane of eve's" });
    world.made("eve", "DocumentService/CreateDocument", source, "/document/documentId").await;
    let found = world.call("eve", "DocumentService/SearchDocuments", &json!({ "query": "crane" })).await;
    let found: Value = serde_json::from_str(&found.body).unwrap();
    assert_eq!((&found["passages"], &found["totalSize"]), (&json!("1"), &json!("1")), "{found}");
    let listed = world.call("eve", "DocumentService/ListDocuments", &json!({})).await;
    let listed: Value = serde_json::from_str(&listed.body).unwrap();
    assert_eq!(listed["documents"].as_array().map(Vec::len), Some(1), "{listed}");
    world.stop().await;
}

/// The same requests are good for those who may make them, so the refusals above mean what they seem to mean.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_and_owners_may_do_what_their_role_says() {
    let world = World::start().await;
    for rule in methods() {
        for request in world.requests(name(rule)) {
            let asked = format!("{}: {request}", rule.path);
            // A reader reads, and an editor writes documents of the project, but not others' runs.
            let of_run = rule.path.contains("RunService");
            for (user, role) in [("bob", MemberRole::Reader), ("cid", MemberRole::Editor)] {
                let Outcome { code, body } = match world.call_plainly(user, name(rule), &request).await {
                    Some(outcome) => outcome,
                    None => world.call(user, name(rule), &request).await,
                };
                let may = match rule.access {
                    Access::Open | Access::Read => true,
                    Access::Write => role == MemberRole::Editor && !of_run,
                    Access::Own => false,
                };
                let is_denied = code == "permission_denied";
                assert_eq!(is_denied, !may, "{user}: {asked}: {code}: {body}");
                assert!(code != "not_found" && code != "invalid_argument", "{user}: {asked}: {body}");
                if ["DeleteDocument", "CreateProject"].iter().any(|last| rule.path.ends_with(last)) {
                    break;
                }
            }
        }
    }
    world.stop().await;
}

/// An administrator may do everything with what is another's, and so may ann with what is hers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_and_an_administrator_may_do_everything() {
    for user in ["ann", "root"] {
        let world = World::start().await;
        for rule in methods() {
            let mut codes = Vec::new();
            for request in world.requests(name(rule)) {
                let Outcome { code, body } = world.call(user, name(rule), &request).await;
                let asked = format!("{user}: {}: {request}: {code}: {body}", rule.path);
                assert!(!["permission_denied", "unauthenticated", "internal"].contains(&&*code), "{asked}");
                codes.push((code, asked));
            }
            // A plan that leaves out what has begun is refused by whoever drives the run.
            let is_good = |(code, said): &(String, String)| {
                ["", "failed_precondition", "unavailable", "already_exists"].contains(&code.as_str())
                    || rule.path.ends_with("/EditPlan") && said.contains("has begun")
            };
            assert!(codes.iter().any(is_good), "{codes:#?}");
        }
        world.stop().await;
    }
}

/// The reason of the hint with which a stream ends.
async fn end(events: &mut tonic::Streaming<pb::WatchRunResponse>) -> String {
    let read = async {
        let mut reason = None;
        while let Some(answer) = events.message().await.unwrap() {
            if let Some(Message::ResumeHint(hint)) = answer.message {
                reason = Some(hint.reason);
            }
        }
        reason.expect("a hint")
    };
    tokio::time::timeout(SOON, read).await.expect("it ends")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_right_ends_streams_and_what_the_tools_of_a_run_read() {
    let world = World::start().await;
    let watch = WatchRunRequest { run_id: world.run.run_id.clone(), ..Default::default() };
    let mut bob = RunServiceClient::new(world.guarded.of("bob"));
    let mut events = bob.watch_run(watch.clone()).await.unwrap().into_inner();
    let request = CreateRunRequest { objective: "bob's".into(), ..Default::default() };
    let own = bob.create_run(request).await.unwrap().into_inner().run.unwrap();
    assert!(own.read_only, "no project is chosen");
    let read = json!({ "documentId": world.document });
    let for_run = async |run: &pb::Run| {
        let http = Request::post("/")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::AUTHORIZATION, &world.guarded.roles)
            .header("tree-agent-run-id", &run.run_id);
        let path = "/treeagent.v1.DocumentService/GetDocument";
        world.guarded.gateway.send(http, path, read.to_string()).await.status().as_u16()
    };
    assert_eq!(for_run(&own).await, 200);
    let removed = json!({ "projectId": world.project, "userId": "bob" });
    assert_eq!(world.call("ann", "ProjectService/RemoveMember", &removed).await.code, "");
    assert_eq!(for_run(&own).await, 404);
    assert_eq!(for_run(&world.run).await, 200);
    assert_eq!(end(&mut events).await, "rights");
    assert_eq!(bob.watch_run(watch.clone()).await.unwrap_err().code(), tonic::Code::NotFound);
    // The log of their own run stays theirs.
    assert_eq!(world.call("bob", "RunService/GetRun", &json!({ "runId": own.run_id })).await.code, "");

    let mut ann = RunServiceClient::new(world.guarded.of("ann"));
    let mut events = ann.watch_run(watch).await.unwrap().into_inner();
    world.guarded.other_keys();
    assert_eq!(end(&mut events).await, "rights");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_are_named_as_people_write_them_and_the_last_owner_stays() {
    let world = World::start().await;
    let set = async |user: &str, role: &str| {
        let asked = json!({ "projectId": world.project, "userId": user, "role": role });
        world.call("ann", "ProjectService/SetMember", &asked).await
    };
    // Two forms of one name are one user.
    assert_eq!(set("Zoe\u{308}", "MEMBER_ROLE_READER").await.code, "");
    let listed = json!({ "projectId": world.project });
    assert_eq!(world.call("Zo\u{eb}", "ProjectService/ListMembers", &listed).await.code, "");
    for bad in ["", " ", "a\u{0}b", "a\u{202e}b", &"x".repeat(1_000)] {
        let refused = set(bad, "MEMBER_ROLE_READER").await;
        assert!(refused.code == "invalid_argument" && refused.body.contains("user_id"), "{}", refused.body);
    }
    let refused = set("dan", "MEMBER_ROLE_UNSPECIFIED").await;
    assert!(refused.code == "invalid_argument" && refused.body.contains("role"), "{}", refused.body);
    let last = set("ann", "MEMBER_ROLE_READER").await;
    assert!(last.code == "failed_precondition" && last.body.contains("last owner"), "{}", last.body);
    let removed = json!({ "projectId": world.project, "userId": "ann" });
    let last = world.call("ann", "ProjectService/RemoveMember", &removed).await;
    assert_eq!(last.code, "failed_precondition", "{}", last.body);
    assert_eq!(world.call("root", "ProjectService/RemoveMember", &removed).await.code, "");
    let gone = json!({ "projectId": world.project });
    assert_eq!(world.call("ann", "ProjectService/GetProject", &gone).await.code, "not_found");
    let again = json!({ "name": SECRETS[0], "requestId": "first" });
    let again = world.call("ann", "ProjectService/CreateProject", &again).await;
    assert_eq!(again.code, "already_exists", "{}", again.body);
    world.stop().await;
}
