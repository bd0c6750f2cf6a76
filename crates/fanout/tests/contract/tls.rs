//! Redis over TLS: only a server that a trusted authority vouches for is spoken to.

use std::sync::Arc;

use tree_agent_fanout::{ConnectOptions, Fanout, Signal};
use tree_agent_security::Roots;
use tree_agent_testkit::services::PrivateRedis;
use tree_agent_testkit::tls::Authority;

use crate::{RUN, eventually, message, next, with_key};

/// Options of a client that trusts `authority`.
fn trusting(authority: &Authority) -> ConnectOptions {
    let folder = tempfile::tempdir().unwrap();
    ConnectOptions { roots: Roots::file(&authority.write(folder.path())).unwrap(), ..with_key() }
}

async fn messages_flow(fanout: Arc<dyn Fanout>) {
    let mut listener = eventually("subscribing", async || fanout.subscribe(RUN).await).await;
    eventually("publishing", async || fanout.publish(vec![(RUN, message(1))]).await).await;
    assert_eq!(next(&mut listener).await, Signal::Message(message(1)));
}

async fn nothing_flows(url: &str, options: &ConnectOptions) {
    let fanout = tree_agent_fanout::connect(url, options).await.unwrap();
    assert!(fanout.ping().await.is_err());
    assert!(fanout.publish(vec![(RUN, message(1))]).await.is_err());
    assert!(fanout.subscribe(RUN).await.is_err());
}

#[tokio::test]
async fn redis_is_verified() {
    let authority = Authority::new();
    let server = PrivateRedis::start_with_tls(&authority.issue(&["127.0.0.1"])).unwrap();
    let connected = tree_agent_fanout::connect(&server.url(), &trusting(&authority)).await.unwrap();
    messages_flow(connected).await;
    // By the system's authorities, by another one, and without TLS.
    nothing_flows(&server.url(), &ConnectOptions::default()).await;
    nothing_flows(&server.url(), &trusting(&Authority::new())).await;
    nothing_flows(&server.url().replace("rediss:", "redis:"), &trusting(&authority)).await;
    let elsewhere = PrivateRedis::start_with_tls(&authority.issue(&["redis.example"])).unwrap();
    nothing_flows(&elsewhere.url(), &trusting(&authority)).await;
}

#[tokio::test]
async fn verification_cannot_be_switched_off_in_the_url() {
    let authority = Authority::new();
    let server = PrivateRedis::start_with_tls(&authority.issue(&["127.0.0.1"])).unwrap();
    let url = format!("{}/#insecure", server.url());
    match tree_agent_fanout::connect(&url, &ConnectOptions::default()).await {
        Err(error) => assert!(error.to_string().contains("redis://"), "{error}"),
        Ok(fanout) => assert!(fanout.ping().await.is_err()),
    }
}
