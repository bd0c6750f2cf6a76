//! A gateway that asks for tokens, over real connections.

use std::time::Duration;

use crate::common::driver::TestDriver;
use crate::common::{Gateway, SOON, field};
use http::{Request, header};
use tempfile::TempDir;
use tonic::service::interceptor::InterceptedService;
use tonic::{Code, Status, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_types::StatusExt;
use tree_agent_contract::EventBody;
use tree_agent_event_gateway::{AuthConfig, Authenticator, Config, WatchConfig};
use tree_agent_proto::v1::document_service_client::DocumentServiceClient;
use tree_agent_proto::v1::project_service_client::ProjectServiceClient;
use tree_agent_proto::v1::run_service_client::RunServiceClient;
use tree_agent_proto::v1::watch_run_response::Message;
use tree_agent_proto::v1::*;
use tree_agent_runtime::channel::Peers;
use tree_agent_runtime::credentials::Credentials;
use tree_agent_runtime::role_token::RoleToken;
use tree_agent_testkit::issuer::{AUDIENCE, Algorithm, ISSUER, Issuer, publish};

const HOUR: Duration = Duration::from_secs(3_600);
/// Long enough to be seen to work on a busy machine, and its end is waited for.
const SHORT: Duration = Duration::from_secs(3);

/// A call over plain HTTP, with what is said of it.
async fn plain(guarded: &Guarded, token: &str) -> (u16, String) {
    let request = Request::post("/")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::AUTHORIZATION, format!("Bearer {token}"));
    let response = guarded.gateway.send(request, "/treeagent.v1.RunService/ListRuns", "{}").await;
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
    (response.status().as_u16(), String::from_utf8(response.into_body().into()).unwrap())
}

#[tokio::test]
async fn plain_http_calls_need_a_token_too() {
    let guarded = Guarded::start().await;
    let (status, error) = plain(&guarded, "nonsense").await;
    assert_eq!(status, 401, "{error}");
    assert!(error.contains("\"code\":\"unauthenticated\"") && error.contains("TOKEN_INVALID"), "{error}");
    assert_eq!(plain(&guarded, &guarded.issuer.token("ann", HOUR)).await, (200, "{}".to_owned()));
    guarded.gateway.stop().await;
}

type Channel = InterceptedService<Peers, Credentials>;

/// A gateway that asks for tokens. A true claim `admin` makes an administrator.
pub struct Guarded {
    pub gateway: Gateway,
    pub issuer: Issuer,
    /// What roles show.
    pub roles: String,
    folder: TempDir,
}

impl Guarded {
    pub async fn start() -> Self {
        Self::with_config(Config::default()).await
    }

    pub async fn with_config(config: Config) -> Self {
        let (folder, issuer) = (tempfile::tempdir().unwrap(), Issuer::new("one", Algorithm::EdDSA));
        let jwks = folder.path().join("jwks.json");
        publish(&jwks, &[&issuer]);
        let auth = AuthConfig {
            jwks,
            issuer: ISSUER.into(),
            audience: AUDIENCE.into(),
            admin_claim: Some("admin".parse().unwrap()),
            check_every: Duration::from_millis(10),
        };
        let watch = WatchConfig { rights_check: Duration::from_millis(20), ..config.watch };
        let auth = Some(Authenticator::load(auth).unwrap());
        let roles = RoleToken::random();
        let config = Config { auth, role_token: Some(roles.clone()), watch, ..config };
        let roles = roles.credentials().current().unwrap().to_str().unwrap().to_owned();
        Self { gateway: Gateway::start(config).await, issuer, roles, folder }
    }

    /// The issuer signs with another key from now on, and takes the first one back.
    pub fn other_keys(&self) {
        publish(&self.folder.path().join("jwks.json"), &[&Issuer::new("two", Algorithm::EdDSA)]);
    }

    /// A connection of whoever has `token`.
    fn with(&self, token: &str) -> Channel {
        InterceptedService::new(self.gateway.connect(), Credentials::fixed(token).unwrap())
    }

    /// A connection of `user`.
    pub fn of(&self, user: &str) -> Channel {
        self.with(&self.issuer.token(user, HOUR))
    }

    async fn create(&self, user: &str, request_id: &str) -> Result<Run, Status> {
        let request = CreateRunRequest {
            objective: "why?".into(),
            request_id: request_id.into(),
            ..Default::default()
        };
        let answer = RunServiceClient::new(self.of(user)).create_run(request).await?;
        Ok(answer.into_inner().run.unwrap())
    }
}

#[tokio::test]
async fn a_command_has_its_author_and_belongs_to_them() {
    let guarded = Guarded::start().await;
    let run = guarded.create("ann", "r").await.unwrap();
    let gateway = &guarded.gateway;
    let driver = TestDriver::start(gateway.store.clone(), gateway.fanout.clone());
    let request =
        PauseRunRequest { run_id: run.run_id.clone(), request_id: "p".into(), ..Default::default() };
    let other = RunServiceClient::new(guarded.of("bob")).pause_run(request.clone()).await.unwrap_err();
    assert_eq!(other.code(), Code::NotFound);
    RunServiceClient::new(guarded.of("ann")).pause_run(request.clone()).await.unwrap();
    let events = gateway.store.read(run.run_id.parse().unwrap(), 0, 1_000).await.unwrap();
    let author = events.iter().find_map(|event| match &event.body {
        EventBody::NodePaused(paused) => Some(paused.author.as_str()),
        _ => None,
    });
    assert_eq!(author, Some("ann"));
    let claims = Issuer::claims("root", HOUR);
    let mut claims = claims;
    claims["admin"] = serde_json::json!(true);
    let root = guarded.with(&guarded.issuer.sign(&claims));
    let refused = RunServiceClient::new(root).pause_run(request).await.unwrap_err();
    assert_eq!((refused.code(), field(&refused)), (Code::AlreadyExists, "request_id".into()));
    driver.stop().await;
    guarded.gateway.stop().await;
}

/// The reason of a refusal, which must be one for want of a token.
fn reason(status: &Status) -> String {
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
    let details = status.get_error_details();
    let info = details.error_info().expect("an ErrorInfo");
    assert_eq!(info.domain, "treeagent.v1");
    info.reason.clone()
}

#[tokio::test]
async fn every_service_but_health_asks_for_a_token() {
    let guarded = Guarded::start().await;
    let gateway = &guarded.gateway;
    let list = || ListRunsRequest::default();
    let refused = [
        gateway.runs().list_runs(list()).await.unwrap_err(),
        gateway.runs().watch_run(WatchRunRequest::default()).await.unwrap_err(),
        gateway.documents().get_document(GetDocumentRequest::default()).await.unwrap_err(),
        gateway.documents().watch_document(WatchDocumentRequest::default()).await.unwrap_err(),
        gateway.projects().list_projects(ListProjectsRequest::default()).await.unwrap_err(),
    ];
    for status in refused {
        assert_eq!(reason(&status), "TOKEN_MISSING");
        assert!(status.message().contains("authorization: Bearer"), "{status:?}");
    }
    let asked = || futures::stream::iter([ServerReflectionRequest::default()]);
    let mut reflection = ServerReflectionClient::new(gateway.connect());
    assert_eq!(reason(&reflection.server_reflection_info(asked()).await.unwrap_err()), "TOKEN_MISSING");
    HealthClient::new(gateway.connect()).check(HealthCheckRequest::default()).await.unwrap();

    let good = guarded.of("ann");
    RunServiceClient::new(good.clone()).list_runs(list()).await.unwrap();
    ProjectServiceClient::new(good.clone()).list_projects(ListProjectsRequest::default()).await.unwrap();
    DocumentServiceClient::new(good.clone()).list_documents(ListDocumentsRequest::default()).await.unwrap();
    ServerReflectionClient::new(good).server_reflection_info(asked()).await.unwrap();

    let stranger = Issuer::new("one", Algorithm::EdDSA).token("eve", HOUR);
    let status = RunServiceClient::new(guarded.with(&stranger)).list_runs(list()).await.unwrap_err();
    assert_eq!(reason(&status), "TOKEN_INVALID");
    assert!(!format!("{status:?}").contains(&stranger[..20]), "a refusal repeats nothing of the token");
    let claims = serde_json::json!({ "exp": 1, "iss": ISSUER, "aud": AUDIENCE, "sub": "ann" });
    let old = guarded.with(&guarded.issuer.sign(&claims));
    let status = RunServiceClient::new(old).list_runs(list()).await.unwrap_err();
    assert_eq!(reason(&status), "TOKEN_EXPIRED");
    guarded.gateway.stop().await;
}

#[tokio::test]
async fn browsers_can_read_a_refusal_and_the_page_is_open() {
    let guarded = Guarded::start().await;
    let page = guarded.gateway.send(Request::get("/"), "/runs", "").await;
    assert_eq!(page.status(), 200);
    let call = async |token: Option<String>| {
        let mut request = Request::post("/")
            .header(header::CONTENT_TYPE, "application/grpc-web+proto")
            .header(header::ORIGIN, "http://localhost:5173");
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        guarded.gateway.send(request, "/treeagent.v1.RunService/ListRuns", &[0; 5][..]).await
    };
    let refused = call(None).await;
    assert_eq!(refused.headers()[header::ACCESS_CONTROL_ALLOW_ORIGIN], "http://localhost:5173");
    assert_eq!(refused.headers()["grpc-status"], "16");
    assert!(refused.headers().contains_key("grpc-status-details-bin"));
    let exposed = refused.headers()[header::ACCESS_CONTROL_EXPOSE_HEADERS].to_str().unwrap();
    assert!(exposed.contains("grpc-status-details-bin"), "{exposed}");
    let answered = call(Some(guarded.issuer.token("ann", HOUR))).await;
    assert!(!answered.headers().contains_key("grpc-status"), "{:?}", answered.headers());
    let body = answered.into_body();
    assert!(String::from_utf8_lossy(&body).contains("grpc-status:0"), "{body:?}");
    guarded.gateway.stop().await;
}

#[tokio::test]
async fn a_run_belongs_to_whoever_asked_and_so_does_its_request_id() {
    let guarded = Guarded::start().await;
    let first = guarded.create("ann", "once").await.unwrap();
    assert_eq!(first.user_id, "ann");
    assert_eq!(guarded.create("ann", "once").await.unwrap().run_id, first.run_id);
    let other = guarded.create("bob", "once").await.unwrap();
    assert_ne!(other.run_id, first.run_id);
    assert_eq!(other.user_id, "bob");
    guarded.gateway.stop().await;
}

/// The seqs of a stream, its hint, and how it ended.
async fn read(stream: &mut Streaming<WatchRunResponse>) -> (Vec<u64>, Option<ResumeHint>, Option<Status>) {
    let (mut seqs, mut hint) = (Vec::new(), None);
    loop {
        match tokio::time::timeout(SOON, stream.message()).await.expect("something is said") {
            Ok(Some(answer)) => match answer.message.unwrap() {
                Message::Event(event) => {
                    assert!(hint.is_none(), "nothing follows a hint");
                    seqs.push(event.seq);
                }
                Message::ResumeHint(given) => hint = Some(given),
                _ => {}
            },
            Ok(None) => return (seqs, hint, None),
            Err(status) => return (seqs, hint, Some(status)),
        }
    }
}

#[tokio::test]
async fn a_stream_ends_with_its_token_and_goes_on_with_the_next() {
    let guarded = Guarded::start().await;
    let run = guarded.create("ann", "").await.unwrap();
    let mut log = guarded.gateway.drive(&run).await;
    log.append(5, 20).await;
    let before = log.head;
    let watch = |token: String, after_seq: u64| {
        let mut runs = RunServiceClient::new(guarded.with(&token));
        let request = WatchRunRequest { run_id: run.run_id.clone(), after_seq, ..Default::default() };
        async move { runs.watch_run(request).await.map(tonic::Response::into_inner) }
    };
    let short = guarded.issuer.token("ann", SHORT);
    let (seqs, hint, status) = read(&mut watch(short.clone(), 0).await.unwrap()).await;
    let hint = hint.expect("a hint");
    assert_eq!(seqs, (1..=before).collect::<Vec<_>>());
    assert_eq!((hint.after_seq, hint.reason.as_str()), (before, "token"));
    assert_eq!(reason(&status.expect("an error")), "TOKEN_EXPIRED");

    log.append(3, 20).await;
    assert_eq!(reason(&watch(short, hint.after_seq).await.unwrap_err()), "TOKEN_EXPIRED");
    let mut again = watch(guarded.issuer.token("ann", HOUR), hint.after_seq).await.unwrap();
    log.finish().await;
    let (seqs, hint, status) = read(&mut again).await;
    assert_eq!(seqs, (before + 1..=log.head).collect::<Vec<_>>());
    assert!(hint.is_none() && status.is_none(), "{hint:?} {status:?}");
    guarded.gateway.stop().await;
}

#[tokio::test]
async fn a_followed_document_ends_with_its_token_too() {
    use watch_document_response::Message;
    let guarded = Guarded::start().await;
    let run = guarded.create("ann", "").await.unwrap();
    let root = run.root_node_id.parse().unwrap();
    let document = tree_agent_contract::DocumentId::scratchpad(root);
    let request = WatchDocumentRequest { document_id: document.to_string(), ..Default::default() };
    let short = guarded.with(&guarded.issuer.token("ann", SHORT));
    let mut stream = DocumentServiceClient::new(short).watch_document(request).await.unwrap().into_inner();
    let mut hint = None;
    let status = loop {
        match tokio::time::timeout(SOON, stream.message()).await.expect("something is said") {
            Ok(Some(WatchDocumentResponse { message: Some(Message::ResumeHint(given)) })) => {
                hint = Some(given)
            }
            Ok(Some(_)) => {}
            Ok(None) => panic!("ended well"),
            Err(status) => break status,
        }
    };
    assert_eq!(reason(&status), "TOKEN_EXPIRED");
    assert_eq!(hint.expect("a hint").reason, "token");
    guarded.gateway.stop().await;
}

#[tokio::test]
async fn the_request_id_of_a_project_belongs_to_its_user() {
    let guarded = Guarded::start().await;
    let create = async |user: &str, name: &str| {
        let request =
            CreateProjectRequest { name: name.into(), request_id: "r".into(), ..Default::default() };
        let answer = ProjectServiceClient::new(guarded.of(user)).create_project(request).await?;
        Ok::<_, Status>(answer.into_inner().project.unwrap())
    };
    let anns = create("ann", "Ann's").await.unwrap();
    let bobs = create("bob", "Bob's").await.unwrap();
    assert_ne!(anns.project_id, bobs.project_id);
    assert_eq!(create("ann", "Ann's").await.unwrap(), anns);
    // Only its own user learns that a request id was used.
    let reason = |status: Status| {
        let field = crate::common::field(&status);
        (status.code(), field)
    };
    let (own, foreign) =
        (create("ann", "Other").await.unwrap_err(), create("eve", "Ann's").await.unwrap_err());
    assert_eq!(reason(own), (Code::AlreadyExists, "request_id".into()));
    assert_eq!(reason(foreign), (Code::AlreadyExists, "name".into()));
    guarded.gateway.stop().await;
}
