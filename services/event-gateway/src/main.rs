//! The event-gateway service, on Postgres and Redis.

use std::sync::Arc;

use anyhow::Context;
use clap::Parser;
use tree_agent_event_gateway::{AuthArgs, Config, DEFAULT_PORT, Origins, WatchConfig, serve};
use tree_agent_fanout::ConnectOptions;
use tree_agent_runtime::channel::ConnectArgs;
use tree_agent_runtime::config::{ListenArgs, LogArgs, Problems, RolesArgs, StorageArgs};
use tree_agent_runtime::role_token::RoleTokenArgs;
use tree_agent_runtime::server::{Connections, while_starting};
use tree_agent_runtime::start::begin;
use tree_agent_runtime::{Readiness, retry};
use tree_agent_security::install_crypto_provider;
use tree_agent_store::StoreError;
use tree_agent_store::postgres::{PoolConfig, PostgresStore};

/// The public door of tree-agent: gRPC, gRPC-web and the web UI on one port.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    listen: ListenArgs,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    storage: StorageArgs,
    #[command(flatten)]
    roles: RolesArgs,
    #[command(flatten)]
    role_token: RoleTokenArgs,
    #[command(flatten)]
    connect: ConnectArgs,
    /// Web pages that may call from a browser, beside our own: loopback, * for any, or origins such as
    /// https://example.org separated by commas.
    #[arg(long, env = "TREE_AGENT_ALLOWED_ORIGINS", value_name = "ORIGINS", default_value = "loopback")]
    allowed_origins: String,
    /// Seconds after which a stream is closed with a resume hint, so that load can move to other gateways.
    #[arg(long, env = "TREE_AGENT_STREAM_AGE_SECONDS", value_name = "SECONDS", default_value = "3600")]
    stream_age_seconds: String,
    /// Seconds that a client may take nothing from a stream before the stream is ended with a resume hint.
    #[arg(long, env = "TREE_AGENT_STALL_SECONDS", value_name = "SECONDS", default_value = "60")]
    stall_seconds: String,
    /// Streams that one client connection may have open; a client waits with further ones.
    #[arg(long, env = "TREE_AGENT_STREAMS_PER_CONNECTION", value_name = "N", default_value = "4096")]
    streams_per_connection: String,
    /// Seconds of silence after which a client connection is pinged.
    #[arg(long, env = "TREE_AGENT_KEEPALIVE_SECONDS", value_name = "SECONDS", default_value = "30")]
    keepalive_seconds: String,
    /// Seconds that the answer to a ping may take before the connection is cut.
    #[arg(long, env = "TREE_AGENT_KEEPALIVE_TIMEOUT_SECONDS", value_name = "SECONDS", default_value = "20")]
    keepalive_timeout_seconds: String,
    #[command(flatten)]
    auth: AuthArgs,
}

impl Args {
    fn config(&self, problems: &mut Problems) -> Config {
        let expected = "loopback, * or origins such as https://example.org, separated by commas";
        let origins =
            problems.parse::<Origins>("TREE_AGENT_ALLOWED_ORIGINS", &self.allowed_origins, expected);
        let stream_age =
            problems.seconds("TREE_AGENT_STREAM_AGE_SECONDS", &self.stream_age_seconds, 10..=604_800);
        let stall = problems.seconds("TREE_AGENT_STALL_SECONDS", &self.stall_seconds, 1..=86_400);
        let role_token = self.role_token.check(problems);
        let connector = self.connect.check(problems).with_credentials(role_token.credentials());
        Config {
            watch: WatchConfig { stream_age, stall, ..WatchConfig::default() },
            drain: self.listen.drain(problems),
            metrics: self.listen.metrics(problems),
            connections: self.connections(problems),
            origins: origins.unwrap_or(Origins::Loopback),
            roles: self.roles.check(connector, problems),
            auth: self.auth.check(problems),
            ..Config::default()
        }
    }

    fn connections(&self, problems: &mut Problems) -> Connections {
        let streams = "TREE_AGENT_STREAMS_PER_CONNECTION";
        let streams = problems.number(streams, &self.streams_per_connection, 1..=1_000_000);
        let timeout = "TREE_AGENT_KEEPALIVE_TIMEOUT_SECONDS";
        Connections {
            streams: u32::try_from(streams).unwrap_or(u32::MAX),
            keep_alive: problems.seconds("TREE_AGENT_KEEPALIVE_SECONDS", &self.keepalive_seconds, 1..=3_600),
            keep_alive_timeout: problems.seconds(timeout, &self.keepalive_timeout_seconds, 1..=3_600),
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    install_crypto_provider();
    let args = Args::parse();
    let ((config, storage), begun) =
        begin("event-gateway", &args.listen, &args.log, DEFAULT_PORT, |problems| {
            (args.config(problems), args.storage.check(problems))
        })?;
    let (listener, shutdown) = begun.listen().await?;
    let fanout_options =
        ConnectOptions { key: storage.fanout_key.clone(), roots: config.roles.connector.roots().clone() };
    let fanout = tree_agent_fanout::connect(&storage.redis_url, &fanout_options)
        .await
        .context("TREE_AGENT_REDIS_URL cannot be used")?;
    let readiness = Readiness::new();
    let pool = PoolConfig { max_connections: storage.database_connections, ..PoolConfig::default() };
    let connecting = retry::until_connected(&readiness, "store", StoreError::is_transient, async || {
        PostgresStore::connect(&storage.database_url, pool).await
    });
    let Some((listener, store)) = while_starting(listener, &readiness, &shutdown, connecting).await? else {
        return Ok(());
    };
    let store = store.context("TREE_AGENT_DATABASE_URL cannot be used")?;
    tracing::info!(address = %listener.local_addr()?, "event-gateway is ready");
    serve(config, Arc::new(store), fanout, listener, shutdown).await?;
    Ok(())
}
