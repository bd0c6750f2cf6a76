//! The planner service.

use std::sync::Arc;

use anyhow::Context;
use clap::Parser;
use tree_agent_fanout::ConnectOptions;
use tree_agent_model::RoleArgs;
use tree_agent_planner::config::DriverArgs;
use tree_agent_planner::{Config, DEFAULT_PORT, partitions, serve};
use tree_agent_runtime::config::{ListenArgs, LogArgs, StorageArgs};
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

/// The planner role of tree-agent, and the driver of its runs.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    listen: ListenArgs,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    role: RoleArgs,
    #[command(flatten)]
    storage: StorageArgs,
    #[command(flatten)]
    driver: DriverArgs,
    #[command(flatten)]
    role_token: RoleTokenArgs,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    install_crypto_provider();
    let args = Args::parse();
    let ((config, storage), startup) =
        configure("planner", &args.listen, &args.log, &args.role.connect, DEFAULT_PORT, |problems| {
            let storage =
                args.storage.check(problems, PostgresStore::check_url, tree_agent_fanout::check_url);
            let owner = format!("planner-{}-{}", std::process::id(), uuid::Uuid::new_v4().simple());
            let role_token = args.role_token.check(problems);
            let role = args.role.check(&role_token, problems);
            let (driver, peers) = args.driver.check(owner, role.connector.clone(), problems);
            let server = args.listen.server(problems);
            (Config { role, role_token, driver, peers, server }, storage)
        })?;
    config.role.check_keys().await.context("a language model cannot be used")?;
    let (listener, shutdown) = startup.listen().await?;
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
    let fanout_options =
        ConnectOptions { key: storage.fanout_key.clone(), roots: config.role.connector.roots().clone() };
    let fanout = tree_agent_fanout::connect(&storage.redis_url, &fanout_options)
        .await
        .context("TREE_AGENT_REDIS_URL cannot be used")?;
    tracing::info!(address = %listener.local_addr()?, model = config.role.default_model(), owner = config.driver.owner, "planner is ready");
    tokio::spawn(partitions::keep_ahead(store.clone(), shutdown.clone()));
    serve(config, Arc::new(store), fanout, listener, shutdown).await?;
    Ok(())
}
