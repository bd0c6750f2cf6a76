//! The executor service.

use anyhow::Context as _;
use clap::Parser;
use tree_agent_executor::{Config, DEFAULT_PORT, serve};
use tree_agent_model::{RoleArgs, RoleConfig, ToolsArgs};
use tree_agent_runtime::config::{ListenArgs, LogArgs};
use tree_agent_runtime::role_token::RoleTokenArgs;
use tree_agent_runtime::start::configure;
use tree_agent_security::install_crypto_provider;

/// Role calls and events are many small allocations on several threads. With the C library's allocator, a third of a
/// planner's processor time went to it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
    role_token: RoleTokenArgs,
    #[command(flatten, next_help_heading = "Tools")]
    tools: ToolsArgs,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    install_crypto_provider();
    let args = Args::parse();
    let (config, startup) =
        configure("executor", &args.listen, &args.log, &args.role.connect, DEFAULT_PORT, |problems| {
            let role_token = args.role_token.check(problems);
            let role = args.role.check(&role_token, problems);
            let servers = args.tools.check(&role.connector, problems);
            Config { role: RoleConfig { servers, ..role }, role_token, server: args.listen.server(problems) }
        })?;
    config.role.check_keys().await.context("a language model cannot be used")?;
    let (listener, shutdown) = startup.listen().await?;
    tracing::info!(address = %listener.local_addr()?, model = config.role.default_model(), "executor is ready");
    serve(config, listener, shutdown).await?;
    Ok(())
}
