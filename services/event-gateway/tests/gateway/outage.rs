//! Postgres goes away and comes back while clients watch.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Gateway, Log, Mode, SOON, TestFanout};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tree_agent_event_gateway::{Config, WatchConfig};
use tree_agent_proto::v1::watch_run_response::Message;
use tree_agent_proto::v1::{GetRunRequest, WatchRunRequest};
use tree_agent_store::postgres::{PoolConfig, PostgresStore};
use tree_agent_testkit::services::PrivatePostgres;

async fn health_turns(gateway: &Gateway, wanted: ServingStatus) {
    let turned = async {
        loop {
            let answer = HealthClient::new(gateway.connect()).check(HealthCheckRequest::default()).await;
            if answer.unwrap().into_inner().status() == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, turned).await.unwrap_or_else(|_| panic!("health never was {wanted:?}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_outlive_an_outage_and_health_tells_of_it() {
    let mut server = tokio::task::spawn_blocking(|| PrivatePostgres::start().unwrap()).await.unwrap();
    let url = server.create_database().unwrap();
    PostgresStore::migrate(&url).await.unwrap();
    let store = Arc::new(PostgresStore::connect(&url, PoolConfig::default()).await.unwrap());
    let watch = WatchConfig { head_check: Duration::from_millis(100), ..WatchConfig::default() };
    let config = Config { watch, health_check: Duration::from_millis(50), ..Config::default() };
    // A deaf broker: everything has to come from the log.
    let gateway = Gateway::over(store, TestFanout::new(Mode::Deaf), config).await;
    health_turns(&gateway, ServingStatus::Serving).await;
    let run = gateway.create_run("survives").await;
    let request = WatchRunRequest { run_id: run.run_id.clone(), ..Default::default() };
    let mut stream = gateway.runs().watch_run(request).await.unwrap().into_inner();
    let mut seen = Vec::new();
    while let Some(message) = stream.message().await.unwrap() {
        match message.message {
            Some(Message::Event(event)) => seen.push(event.seq),
            Some(Message::CaughtUp(_)) => break,
            other => panic!("unexpected {other:?}"),
        }
    }

    let mut server = tokio::task::spawn_blocking(move || {
        server.stop();
        server
    })
    .await
    .unwrap();
    health_turns(&gateway, ServingStatus::NotServing).await;
    let refused = gateway.runs().get_run(GetRunRequest { run_id: run.run_id.clone() }).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unavailable, "{refused:?}");
    assert_eq!(crate::common::field(&refused), "");

    let _server = tokio::task::spawn_blocking(move || {
        server.start_again().unwrap();
        server
    })
    .await
    .unwrap();
    health_turns(&gateway, ServingStatus::Serving).await;
    let mut log: Log = gateway.drive(&run).await;
    log.append(20, 10).await;
    log.finish().await;
    let rest = async {
        while let Some(message) = stream.message().await.unwrap() {
            if let Some(Message::Event(event)) = message.message {
                seen.push(event.seq);
            }
        }
    };
    tokio::time::timeout(SOON, rest).await.expect("the stream goes on to its end");
    assert_eq!(seen, (1..=log.head).collect::<Vec<_>>());
    gateway.stop().await;
}
