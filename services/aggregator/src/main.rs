//! The aggregator service.

use anyhow::Context as _;
use clap::Parser;
use tree_agent_aggregator::{Config, DEFAULT_PORT, serve};
use tree_agent_model::RoleArgs;
use tree_agent_runtime::config::{ListenArgs, LogArgs, Problems};
use tree_agent_runtime::{listen, shutdown, telemetry};

/// The aggregator role of tree-agent: makes one result of what the children of a node returned.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    listen: ListenArgs,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    role: RoleArgs,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let mut problems = Problems::default();
    let address = args.listen.address(DEFAULT_PORT, &mut problems);
    let format = args.log.format(&mut problems);
    let config = Config { role: args.role.check(&mut problems), drain: args.listen.drain(&mut problems) };
    problems.finish()?;
    let _telemetry = telemetry::init("aggregator", &args.log.filter, format)?;
    config.role.check_keys().await.context("a language model cannot be used")?;
    let listener = listen::bind(address).await?;
    let shutdown = shutdown::signal()?;
    tracing::info!(address = %listener.local_addr()?, model = config.role.default_model(), "aggregator is ready");
    serve(config, listener, shutdown).await?;
    Ok(())
}
