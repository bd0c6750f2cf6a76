//! The executor service.

use anyhow::Context as _;
use clap::Parser;
use tree_agent_executor::{Config, DEFAULT_PORT, serve};
use tree_agent_model::{RoleArgs, RoleConfig, ToolsArgs};
use tree_agent_runtime::config::{ListenArgs, LogArgs, Problems};
use tree_agent_runtime::{listen, shutdown, telemetry};

/// The executor role of tree-agent: leaf work with tools.
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
    tools: ToolsArgs,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let mut problems = Problems::default();
    let address = args.listen.address(DEFAULT_PORT, &mut problems);
    let format = args.log.format(&mut problems);
    let servers = args.tools.check(&mut problems);
    let role = RoleConfig { servers, ..args.role.check(&mut problems) };
    let config = Config { role, drain: args.listen.drain(&mut problems) };
    problems.finish()?;
    let _telemetry = telemetry::init("executor", &args.log.filter, format)?;
    config.role.check_keys().await.context("a language model cannot be used")?;
    let listener = listen::bind(address).await?;
    let shutdown = shutdown::signal()?;
    tracing::info!(address = %listener.local_addr()?, model = config.role.default_model(), "executor is ready");
    serve(config, listener, shutdown).await?;
    Ok(())
}
