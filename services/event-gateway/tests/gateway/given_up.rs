//! Calls that are given up: nothing of them stays, neither in the gateway nor in Postgres.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, header};
use prost_reflect::DescriptorPool;
use serde_json::json;
use tree_agent_event_gateway::Config;
use tree_agent_store::Store;
use tree_agent_store::postgres::{PoolConfig, PostgresStore};
use tree_agent_testkit::services::PrivatePostgres;

use crate::common::{Gateway, Mode, SOON, TestFanout};

/// Every method that is no stream, by its path.
fn methods() -> Vec<String> {
    let pool = DescriptorPool::decode(tree_agent_proto::DESCRIPTORS).unwrap();
    let services = pool.services().filter(|service| service.full_name().starts_with("treeagent.v1."));
    let methods = services.flat_map(|service| service.methods().collect::<Vec<_>>());
    let unary = methods.filter(|method| !method.is_server_streaming());
    unary.map(|method| format!("/{}/{}", method.parent_service().full_name(), method.name())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_are_given_up_at_any_moment_leave_nothing_behind() {
    let server = tokio::task::spawn_blocking(PrivatePostgres::start).await.unwrap().unwrap();
    let url = server.create_database().unwrap();
    PostgresStore::migrate(&url).await.unwrap();
    let config = PoolConfig { max_connections: 4, ..PoolConfig::default() };
    let store: Arc<dyn Store> = Arc::new(PostgresStore::connect(&url, config).await.unwrap());
    let gateway = Gateway::over(store.clone(), TestFanout::new(Mode::Faithful), Config::default()).await;
    let project = gateway.create_project("kept").await.project_id;
    let run = gateway.create_run("kept").await.run_id;
    let methods = methods();
    assert!(methods.len() > 30, "{methods:?}");
    for i in 0..5 * methods.len() {
        let path = &methods[i % methods.len()];
        // A method refuses a request with fields that it does not have, and does its work with the others.
        for body in [
            json!({ "runId": run }),
            json!({ "projectId": project }),
            json!({ "objective": "why?" }),
            json!({}),
        ] {
            let body = body.to_string();
            post(&gateway, path, body.clone(), Some(1)).await;
            // And a client that leaves.
            let moment = Duration::from_micros((i * 97 % 4_000) as u64);
            let _ = tokio::time::timeout(moment, post(&gateway, path, body, None)).await;
        }
    }
    let levels = || store.connections().into_iter().collect::<std::collections::BTreeMap<_, _>>();
    let settled = async {
        while levels()["in_use"] > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, settled).await.expect("every connection is free again");
    // And everything still works.
    assert_eq!(gateway.create_run("after").await.objective, "after");
    gateway.stop().await;
}

async fn post(gateway: &Gateway, path: &str, body: String, within_ms: Option<u64>) {
    let request = Request::post("/").header(header::CONTENT_TYPE, "application/json");
    let request = match within_ms {
        Some(ms) => request.header("connect-timeout-ms", ms),
        None => request,
    };
    gateway.send(request, path, body).await;
}
