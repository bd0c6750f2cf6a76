//! What one user may have: refused beyond it, with the setting and the time after which another try makes sense.

use tonic::{Code, Status};
use tonic_types::StatusExt;
use tree_agent_event_gateway::{Config, Quotas};
use tree_agent_proto::v1::*;

use crate::common::{Gateway, SOON};

async fn start(quotas: Quotas) -> Gateway {
    Gateway::start(Config { quotas, ..Config::default() }).await
}

fn run(request_id: &str) -> CreateRunRequest {
    CreateRunRequest { objective: "why?".into(), request_id: request_id.into(), ..Default::default() }
}

async fn create(gateway: &Gateway, request: CreateRunRequest) -> Result<Run, Status> {
    Ok(gateway.runs().create_run(request).await?.into_inner().run.unwrap())
}

fn is_refused(status: &Status, setting: &str) {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(status.message().contains(setting), "{}", status.message());
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "USER_QUOTA");
    assert!(details.retry_info().unwrap().retry_delay.is_some());
}

#[tokio::test]
async fn a_user_has_so_many_live_runs_and_no_more_at_the_same_time() {
    let gateway = start(Quotas { live_runs: Some(3), ..Quotas::default() }).await;
    let requests = (0..20).map(|n| create(&gateway, run(&format!("r{n}"))));
    let made = futures::future::join_all(requests).await;
    let accepted = made.iter().position(Result::is_ok).unwrap();
    let (made, refused): (Vec<_>, Vec<_>) = made.into_iter().partition(Result::is_ok);
    assert_eq!((made.len(), refused.len()), (3, 17));
    refused.iter().for_each(|status| is_refused(status.as_ref().unwrap_err(), "TREE_AGENT_USER_LIVE_RUNS"));
    let made: Vec<Run> = made.into_iter().map(Result::unwrap).collect();
    // A repeated request asks for nothing new.
    let again = create(&gateway, run(&format!("r{accepted}"))).await.unwrap();
    assert_eq!(again.run_id, made[0].run_id);
    let fork = ForkRunRequest { run_id: made[0].run_id.clone(), ..Default::default() };
    is_refused(&gateway.runs().fork_run(fork.clone()).await.unwrap_err(), "TREE_AGENT_USER_LIVE_RUNS");
    gateway.drive(&made[1]).await.finish().await;
    gateway.runs().fork_run(fork).await.unwrap();
    is_refused(&create(&gateway, run("more")).await.unwrap_err(), "TREE_AGENT_USER_LIVE_RUNS");
    gateway.stop().await;
}

#[tokio::test]
async fn a_user_creates_so_many_runs_within_a_minute() {
    let gateway = start(Quotas { new_runs: Some(2), ..Quotas::default() }).await;
    for n in 0..2 {
        let made = create(&gateway, run(&format!("r{n}"))).await.unwrap();
        gateway.drive(&made).await.finish().await;
        gateway.runs().delete_run(DeleteRunRequest { run_id: made.run_id }).await.unwrap();
    }
    is_refused(&create(&gateway, run("more")).await.unwrap_err(), "TREE_AGENT_USER_NEW_RUNS");
    gateway.stop().await;
}

#[tokio::test]
async fn a_run_gets_no_more_than_its_user_may_still_use_today() {
    let gateway = start(Quotas { tokens: Some(1_000), cost_micros: Some(50), ..Quotas::default() }).await;
    let asking = |tokens, id: &str| CreateRunRequest {
        budgets: Some(Budgets { max_tokens: Some(tokens), ..Default::default() }),
        ..run(id)
    };
    is_refused(&create(&gateway, asking(1_001, "a")).await.unwrap_err(), "TREE_AGENT_USER_TOKENS");
    let first = create(&gateway, asking(900, "b")).await.unwrap();
    let budgets = first.budgets.unwrap();
    assert_eq!((budgets.max_tokens, budgets.max_cost_micros), (Some(900), Some(50)));
    // The first one may use 900 tokens and all of the money still. When it has ended, it has used nothing.
    is_refused(&create(&gateway, run("c")).await.unwrap_err(), "TREE_AGENT_USER_COST_MICROS");
    gateway.drive(&first).await.finish().await;
    let request = run("d");
    let made = create(&gateway, request.clone()).await.unwrap();
    assert_eq!(made.budgets.unwrap().max_tokens, Some(1_000));
    assert_eq!(create(&gateway, request).await.unwrap().run_id, made.run_id);
    // A fork keeps the budgets of its run, of which nothing is left now.
    let fork = ForkRunRequest { run_id: made.run_id, ..Default::default() };
    is_refused(&gateway.runs().fork_run(fork).await.unwrap_err(), "TREE_AGENT_USER_TOKENS");
    gateway.stop().await;
}

#[tokio::test]
async fn a_user_has_so_many_streams_open() {
    let gateway = start(Quotas { streams: Some(2), ..Quotas::default() }).await;
    let run = gateway.create_run("watched").await;
    let mut runs = gateway.runs();
    let request = WatchRunRequest { run_id: run.run_id.clone(), ..Default::default() };
    let first = runs.watch_run(request.clone()).await.unwrap();
    let second = runs.watch_runs(WatchRunsRequest::default()).await.unwrap();
    is_refused(&runs.watch_run(request.clone()).await.unwrap_err(), "TREE_AGENT_USER_STREAMS");
    drop(first);
    let opened = async {
        // The gateway hears of the end of the first a little later.
        while runs.watch_run(request.clone()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, opened).await.expect("there is room again");
    drop(second);
    gateway.stop().await;
}
