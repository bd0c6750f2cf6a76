//! The tree-agent command line.
//!
//! Each command is a file of [`commands`]. Most are clients of a server. `dev`, `run --local` and `search` start the
//! server inside this process ([`cluster`]) and are clients of that. `migrate`, `verify`, `rebuild` and `log` work on a
//! store.

mod args;
mod client;
mod cluster;
mod commands;
mod complete;
mod context;
mod error;
mod exit;
mod global;
mod output;
mod screen;
mod value;
mod view;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{FromArgMatches, ValueEnum};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tree_agent_contract::text::steers_terminal;
use tree_agent_runtime::channel::Connector;
use tree_agent_runtime::config::Problems;
use tree_agent_runtime::telemetry::{self, LogFormat};

use crate::args::{Cli, Command};
use crate::cluster::Cluster;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::screen::LogWriter;

/// Parses the arguments, runs the command and reports the outcome.
pub fn main() -> ExitCode {
    tree_agent_security::install_crypto_provider();
    complete::answer_shell(args::command);
    let cli = match parsed() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    cli.global.color.write_global();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start the async runtime: {error}");
            return Exit::Internal.into();
        }
    };
    let result = runtime.block_on(start(cli));
    // Blocking reads and writes that are still in progress must not delay the exit.
    runtime.shutdown_background();
    match result {
        Ok(exit) => exit.into(),
        Err(error) if error.is_broken_pipe() => Exit::Success.into(),
        Err(error) => {
            output::report(&error);
            error.exit().into()
        }
    }
}

/// The arguments. Help and errors about them keep to `--color`, too.
fn parsed() -> Result<Cli, clap::Error> {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let behind_flag = words.windows(2).filter(|pair| pair[0] == "--color").map(|pair| pair[1].as_str());
    let joined = words.iter().filter_map(|word| word.strip_prefix("--color="));
    let color = behind_flag.chain(joined).find_map(|value| clap::ColorChoice::from_str(value, false).ok());
    args::command().color(color.unwrap_or_default()).try_get_matches().and_then(|m| Cli::from_arg_matches(&m))
}

/// Prints why the arguments cannot be read, or the help that was asked for. A wrong argument is shown, and may hold
/// anything. If one of them could steer the terminal, nothing is coloured, so that every such character can be left
/// out.
fn refuse(error: &clap::Error) -> ExitCode {
    let steers = |argument: OsString| argument.to_string_lossy().contains(steers_terminal);
    if error.use_stderr() && std::env::args_os().any(steers) {
        eprint!("{}", view::printable::many_lines(&error.render().to_string()));
    } else {
        // Nobody reads it any more if this fails.
        let _ = error.print();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

async fn start(cli: Cli) -> Result<Exit, CliError> {
    let global = cli.global;
    let filter = match (&global.log, &cli.command) {
        (Some(filter), _) => filter,
        (None, Command::Dev(_)) => "info,refinery_core=warn",
        (None, _) => "warn",
    };
    let writer = BoxMakeWriter::new(|| LogWriter);
    // A problem with these arguments is reported below, where warnings are written.
    let connector = global.connect.check(&mut Problems::default());
    let _telemetry = telemetry::init_to("cli", filter, LogFormat::Text, &connector, writer)
        .map_err(|e| CliError::Usage(tree_agent_runtime::errors::chain(&e)))?;
    let mut problems = Problems::default();
    let connector = global.connector(&mut problems);
    problems.finish().map_err(|e| CliError::Usage(e.to_string()))?;
    let out = Output::detect(global.output, global.quiet, global.raw);
    let mut context = Context { server: global.server, connector, connect: global.connect, out };
    let Some(dir) = cli.command.data_dir() else { return carry_out(cli.command, &context).await };
    let cluster = Cluster::of_kept(dir).await?;
    (context.server, context.connector) = (cluster.url(), Connector::default());
    let result = carry_out(cli.command, &context).await;
    cluster.stop().await;
    result
}

async fn carry_out(command: Command, context: &Context) -> Result<Exit, CliError> {
    match command {
        Command::Dev(dev) => dev.run(context).await,
        Command::Mcp(mcp) => mcp.run(context).await,
        Command::Run(run) => run.run(context).await,
        Command::Search(search) => search.run(context).await,
        Command::Copy(copy) => copy.run(context).await,
        Command::Watch(watch) => watch.run(context).await,
        Command::Runs(runs) => runs.run(context).await,
        Command::Result(result) => result.run(context).await,
        Command::Cite(cite) => cite.run(context).await,
        Command::Stale(stale) => stale.run(context).await,
        Command::Graph(graph) => graph.run(context).await,
        Command::Diff(diff) => diff.run(context).await,
        Command::Events(events) => events.run(context).await,
        Command::Export(export) => export.run(context).await,
        Command::Doc(doc) => doc.run(context).await,
        Command::Prompts(prompts) => prompts.run(context).await,
        Command::Docs(docs) => docs.run(context).await,
        Command::Delete(delete) => delete.run(context).await,
        Command::Status(status) => status.run(context).await,
        Command::Doctor(doctor) => doctor.run(context).await,
        Command::Pause(pause) => pause.run(context).await,
        Command::Resume(resume) => resume.run(context).await,
        Command::Review(review) => review.run(context).await,
        Command::Guide(guide) => guide.run(context).await,
        Command::Stop(stop) => stop.run(context).await,
        Command::Retry(retry) => retry.run(context).await,
        Command::Plan(plan) => plan.run(context).await,
        Command::Fork(fork) => fork.run(context).await,
        Command::SetBudget(budget) => budget.run(context).await,
        Command::Cancel(cancel) => cancel.run(context).await,
        Command::Import(import) => import.run(context).await,
        Command::ConvertFile(file) => file.run(),
        Command::Projects(projects) => projects.run(context).await,
        Command::Migrate(migrate) => migrate.run(context).await,
        Command::Verify(verify) => verify.run(context).await,
        Command::Log(log) => log.run(context).await,
        Command::Rebuild(rebuild) => rebuild.run(context).await,
        Command::Completions(completions) => completions.run(context),
    }
}
