//! The public API: gRPC, gRPC-web, Connect and the web UI on one port.
//!
//! The entry point is [`serve`]. It takes the two ports (store and fan-out), a listener and a token for shutdown.
//! Handlers convert, make one call, and convert back. Streams are in `watch`. Only `CreateRun` writes to a log: the
//! first events of a run. Commands of users go through the store's inbox to the run's driver.

mod answers;
mod auth;
mod citations;
mod cluster;
mod compression;
mod config;
mod connect;
mod copies;
mod diffs;
mod documents;
mod errors;
mod fields;
mod forks;
mod gateway;
mod graphs;
mod imports;
mod maxima;
mod meaning;
mod models;
mod names;
mod pages;
mod places;
mod project_changes;
mod projects;
mod quotas;
mod rest;
mod results;
mod run_lists;
mod runs;
mod search;
mod server_info;
mod shares;
mod specs;
mod standing;
mod steering;
mod streams;
mod summaries;
mod view;
mod waits;
mod watch;
mod web;

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tree_agent_contract::limits;
use tree_agent_fanout::Fanout;
use tree_agent_proto::v1::document_service_server::DocumentServiceServer;
use tree_agent_proto::v1::model_service_server::ModelServiceServer;
use tree_agent_proto::v1::project_service_server::ProjectServiceServer;
use tree_agent_proto::v1::run_service_server::RunServiceServer;
use tree_agent_proto::v1::server_service_server::ServerServiceServer;
use tree_agent_runtime::errors::chain;
use tree_agent_runtime::server::ServeError;
use tree_agent_runtime::{Readiness, Server, limited, retry};
use tree_agent_store::Store;

pub use auth::{AdminClaim, AuthArgs, AuthConfig, Authenticator, KeysError};
pub use config::Config;
pub use gateway::Gateway;
pub use maxima::{Maxima, MaximaArgs};
pub use quotas::{QuotaArgs, Quotas};
pub use server_info::STRATEGIES;
pub use streams::messages_of_run;
pub use watch::WatchConfig;
pub use watch::frame::Messages;
pub use web::has_ui;

/// The port when none is configured.
pub const DEFAULT_PORT: u16 = 7400;

/// Streams that a user's connection may have open, unless it is configured.
const STREAMS: u32 = 250;

/// Serves on `listener` until `shutdown` is cancelled and open calls have ended, or the drain time is over. The gateway
/// is not ready while the store does not answer. Without fan-out it continues to serve, a second behind, and reports
/// that under the health service name `fanout`.
pub async fn serve(
    config: Config,
    store: Arc<dyn Store>,
    fanout: Arc<dyn Fanout>,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let readiness = Readiness::new();
    readiness.require("store").await;
    readiness.observe("fanout").await;
    let done = CancellationToken::new();
    let _ends_with_us = done.clone().drop_guard();
    let (pinged, asked) = (store.clone(), fanout.clone());
    let health = futures::future::join(
        retry::watch(readiness.clone(), "store", config.health_check, move || {
            let store = pinged.clone();
            async move { store.ping().await.map_err(|error| chain(&error)) }
        }),
        retry::watch(readiness.clone(), "fanout", config.health_check, move || {
            let fanout = asked.clone();
            async move { fanout.ping().await.map_err(|error| chain(&error)) }
        }),
    );
    tokio::spawn(done.clone().run_until_cancelled_owned(health));
    let cluster = cluster::watch(store.clone(), readiness.clone());
    tokio::spawn(done.clone().run_until_cancelled_owned(cluster));
    if let Some(authenticator) = config.auth.clone() {
        authenticator.warn_without_administrators();
        tokio::spawn(done.clone().run_until_cancelled_owned(authenticator.watch_file()));
    }
    let gateway = Gateway::new(store, fanout, &config, shutdown.clone(), done);
    let origins = config.server.origins.clone();
    let info = server_info::ServerInfo {
        gateway: gateway.clone(),
        authentication: config.auth.is_some(),
        readiness: readiness.clone(),
    };
    Server::new(readiness)
        .measure(|metrics| gateway.measure(metrics))
        .config(config.server)
        .streams(STREAMS)
        .service(
            limited!(RunServiceServer::new(runs::Runs(gateway.clone())))
                .max_decoding_message_size(limits::RUN_REQUEST_BYTES)
                .max_encoding_message_size(limits::GRAPH_BYTES),
        )
        .service(
            limited!(ModelServiceServer::new(gateway.models.clone()))
                .max_decoding_message_size(limits::REQUEST_BYTES),
        )
        .service(
            limited!(DocumentServiceServer::new(documents::Documents(gateway.clone())))
                .max_decoding_message_size(limits::DOCUMENT_REQUEST_BYTES),
        )
        .service(
            limited!(ProjectServiceServer::new(projects::Projects(gateway.clone())))
                .max_decoding_message_size(limits::REQUEST_BYTES),
        )
        .service(limited!(ServerServiceServer::new(info)).max_decoding_message_size(limits::REQUEST_BYTES))
        .serve_wrapped(listener, shutdown, |routes| {
            web::router(
                routes,
                gateway,
                auth::Admission { authenticator: config.auth, role_token: config.role_token },
                &origins,
            )
        })
        .await
}
