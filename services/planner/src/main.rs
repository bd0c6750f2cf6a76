//! The planner service.

use std::sync::Arc;

use anyhow::Context;
use clap::Parser;
use tree_agent_model::RoleArgs;
use tree_agent_planner::config::DriverArgs;
use tree_agent_planner::{Config, DEFAULT_PORT, partitions, serve};
use tree_agent_runtime::config::{ListenArgs, LogArgs, Problems, StorageArgs};
use tree_agent_runtime::server::while_starting;
use tree_agent_runtime::{Readiness, listen, retry, shutdown, telemetry};
use tree_agent_store::StoreError;
use tree_agent_store::postgres::{PoolConfig, PostgresStore};

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
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let mut problems = Problems::default();
    let address = args.listen.address(DEFAULT_PORT, &mut problems);
    let format = args.log.format(&mut problems);
    let storage = args.storage.check(&mut problems);
    let owner = format!("planner-{}-{}", std::process::id(), uuid::Uuid::new_v4().simple());
    let (driver, peers) = args.driver.check(owner, &mut problems);
    let config = Config {
        role: args.role.check(&mut problems),
        driver,
        peers,
        drain: args.listen.drain(&mut problems),
        metrics: args.listen.metrics(&mut problems),
    };
    problems.finish()?;
    let _telemetry = telemetry::init("planner", &args.log.filter, format)?;
    config.role.check_keys().await.context("a language model cannot be used")?;
    let listener = listen::bind(address).await?;
    let shutdown = shutdown::signal()?;
    let readiness = Readiness::new();
    let pool = PoolConfig { max_connections: storage.database_connections, ..PoolConfig::default() };
    let connecting = retry::until_connected(&readiness, "store", StoreError::is_transient, async || {
        PostgresStore::connect(&storage.database_url, pool).await
    });
    let Some((listener, store)) = while_starting(listener, &readiness, &shutdown, connecting).await? else {
        return Ok(());
    };
    let store = store.context("TREE_AGENT_DATABASE_URL cannot be used")?;
    let fanout = tree_agent_fanout::connect(&storage.redis_url)
        .await
        .context("TREE_AGENT_REDIS_URL cannot be used")?;
    tracing::info!(address = %listener.local_addr()?, model = config.role.default_model(), owner = config.driver.owner, "planner is ready");
    tokio::spawn(partitions::keep_ahead(store.clone(), shutdown.clone()));
    serve(config, Arc::new(store), fanout, listener, shutdown).await?;
    Ok(())
}
