//! The event-gateway service, on Postgres and Redis.

use std::sync::Arc;

use anyhow::Context;
use clap::Parser;
use tree_agent_convert::worker;
use tree_agent_embedding::{EmbeddingArgs, from_settings};
use tree_agent_event_gateway::{AuthArgs, Config, DEFAULT_PORT, MaximaArgs, QuotaArgs, WatchConfig, serve};
use tree_agent_fanout::ConnectOptions;
use tree_agent_runtime::channel::ConnectArgs;
use tree_agent_runtime::config::{ListenArgs, LogArgs, Problems, RolesArgs, StorageArgs};
use tree_agent_runtime::role_token::RoleTokenArgs;
use tree_agent_runtime::server::while_starting;
use tree_agent_runtime::start::configure;
use tree_agent_runtime::{Readiness, retry};
use tree_agent_security::install_crypto_provider;
use tree_agent_store::StoreError;
use tree_agent_store::postgres::{PoolConfig, PostgresStore};

/// Role calls and events are many small allocations on several threads. With the C library's allocator, a third of a
/// planner's processor time went to it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The public API of tree-agent: gRPC, gRPC-web, Connect and the web UI on one port.
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
    /// Seconds after which a stream is closed with a resume hint, so that load can move to other gateways.
    #[arg(
        long,
        env = "TREE_AGENT_STREAM_AGE_SECONDS",
        value_name = "SECONDS",
        default_value = "3600",
        help_heading = "Streams"
    )]
    stream_age_seconds: String,
    /// Seconds that a client may read nothing from a stream before the stream is closed with a resume hint.
    #[arg(
        long,
        env = "TREE_AGENT_STALL_SECONDS",
        value_name = "SECONDS",
        default_value = "60",
        help_heading = "Streams"
    )]
    stall_seconds: String,
    #[command(flatten)]
    embedding: EmbeddingArgs,
    #[command(flatten)]
    maxima: MaximaArgs,
    #[command(flatten)]
    quotas: QuotaArgs,
    #[command(flatten)]
    auth: AuthArgs,
}

impl Args {
    fn config(&self, problems: &mut Problems) -> Config {
        let stream_age =
            problems.seconds("TREE_AGENT_STREAM_AGE_SECONDS", &self.stream_age_seconds, 10..=604_800);
        let stall = problems.seconds("TREE_AGENT_STALL_SECONDS", &self.stall_seconds, 1..=86_400);
        // A problem of the address is told elsewhere.
        let address = self.listen.address(DEFAULT_PORT, &mut Problems::default());
        let role_token = self.role_token.check(problems);
        let connector = self.connect.check(problems).with_credentials(role_token.credentials());
        Config {
            watch: WatchConfig { stream_age, stall, ..WatchConfig::default() },
            server: self.listen.server(problems),
            roles: self.roles.check(connector, problems),
            maxima: self.maxima.check(problems),
            quotas: self.quotas.check(problems),
            auth: self.auth.check(address, problems),
            role_token: Some(role_token),
            ..Config::default()
        }
    }
}

fn main() -> anyhow::Result<()> {
    match worker::asked() {
        Some(extension) => match worker::serve(&extension, worker::PROCESSOR_SECONDS)? {},
        None => start(),
    }
}

#[tokio::main]
async fn start() -> anyhow::Result<()> {
    install_crypto_provider();
    let args = Args::parse();
    let ((mut config, embedding, storage), startup) =
        configure("event-gateway", &args.listen, &args.log, &args.connect, DEFAULT_PORT, |problems| {
            let mut config = args.config(problems);
            config.vector_bytes = args.embedding.vector_bytes(problems);
            let embedding = args.embedding.check(&config.roles.connector, problems);
            (
                config,
                embedding,
                args.storage.check(problems, PostgresStore::check_url, tree_agent_fanout::check_url),
            )
        })?;
    config.embedder = from_settings(&embedding).await?;
    let (listener, shutdown) = startup.listen().await?;
    let fanout_options =
        ConnectOptions { key: storage.fanout_key.clone(), roots: config.roles.connector.roots().clone() };
    let fanout = tree_agent_fanout::connect(&storage.redis_url, &fanout_options)
        .await
        .context("TREE_AGENT_REDIS_URL cannot be used")?;
    if storage.fanout_key.is_none() {
        tracing::info!("TREE_AGENT_FANOUT_KEY is not set: events of watched runs are read from Postgres");
    }
    let readiness = Readiness::new();
    let pool = PoolConfig { max_connections: storage.database_connections, ..PoolConfig::default() };
    let connecting = retry::until_connected(&readiness, "store", StoreError::is_transient, async || {
        PostgresStore::connect(&storage.database_url, pool).await
    });
    let starting = while_starting(listener, &config.server, &readiness, &shutdown, connecting);
    let Some((listener, store)) = starting.await else {
        return Ok(());
    };
    let store = store.context("TREE_AGENT_DATABASE_URL cannot be used")?;
    tracing::info!(address = %listener.local_addr()?, "event-gateway is ready");
    serve(config, Arc::new(store), fanout, listener, shutdown).await?;
    Ok(())
}
