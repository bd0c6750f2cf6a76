//! Who may make the role work.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tree_agent_model::{Models, RoleServer};
use tree_agent_proto::internal::v1::CheckModelRequest;
use tree_agent_proto::internal::v1::executor_service_client::ExecutorServiceClient;
use tree_agent_proto::internal::v1::model_service_client::ModelServiceClient;
use tree_agent_runtime::channel::{Connector, Peers, single};
use tree_agent_runtime::role_token::RoleToken;
use tree_agent_tools::{MemoryDocuments, ToolRegistry};

use crate::serving::{read, request};

/// What the services of an executor's port answer to a client with these channels: execution, models, reflection.
async fn answers(peers: Peers) -> [Result<(), Status>; 3] {
    let execution = ExecutorServiceClient::new(peers.clone()).execute(request("offline", |_| {})).await;
    let executed = match execution {
        Ok(stream) => read(stream.into_inner()).await.1.map(drop),
        Err(status) => Err(status),
    };
    let model = CheckModelRequest { model: "offline".to_owned() };
    let checked = ModelServiceClient::new(peers.clone()).check_model(model).await.map(drop);
    let questions = tokio_stream::empty::<ServerReflectionRequest>();
    let reflected = ServerReflectionClient::new(peers).server_reflection_info(questions).await.map(drop);
    [executed, checked, reflected]
}

#[tokio::test]
async fn a_call_without_the_role_token_is_refused_whatever_it_calls_but_health() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url: http::Uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let tools = ToolRegistry::new(Arc::new(MemoryDocuments::default()));
    let role = RoleServer::new(Models::new("offline").unwrap(), tools);
    let (token, stop) = (RoleToken::random(), CancellationToken::new());
    tokio::spawn(tree_agent_executor::serve_role(role, token.clone(), Duration::ZERO, listener, stop));

    let stranger = single(url.clone());
    HealthClient::new(stranger.clone()).check(HealthCheckRequest::default()).await.unwrap();
    let guess = Connector::default().with_credentials(RoleToken::random().credentials());
    for peers in [stranger, guess.single(url.clone())] {
        for answer in answers(peers).await {
            let status = answer.expect_err("nothing is answered");
            assert_eq!(status.code(), Code::Unauthenticated, "{status}");
            assert!(status.message().contains("TREE_AGENT_ROLE_TOKEN"), "{status}");
        }
    }
    let known = Connector::default().with_credentials(token.credentials());
    for answer in answers(known.single(url)).await {
        answer.unwrap();
    }
}
