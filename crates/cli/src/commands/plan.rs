//! `plan`: shows the plan of a node, or edits it.

mod form;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use tree_agent_contract::Strategy;
use tree_agent_contract::graph::{GraphNode, GraphPlan, GraphSnapshot};
use tree_agent_contract::limits::RUN_REQUEST_BYTES;
use tree_agent_proto::v1 as pb;
use uuid::Uuid;

use self::form::Form;
use super::objective::{name_of, text_from};
use super::steer::{NodeArg, SteerArgs, Steered, framed};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

/// Show the plan of a node, or edit it
#[derive(Debug, Args)]
pub(crate) struct Plan {
    #[command(subcommand)]
    command: PlanCommand,
}

#[derive(Debug, Subcommand)]
enum PlanCommand {
    /// Print the plan of a node in the form in which it is edited
    Show(NodeArg),
    Edit(Edit),
}

/// Edit the plan of a node that waits for its steps
///
/// Steps that have not begun can be added, changed, moved and removed; those that have begun stay as they are. Without
/// --file the plan is opened in $VISUAL or $EDITOR. The edit is refused if the plan has changed since it was shown.
/// With --dry-run the edited plan is kept in a file, which is named.
#[derive(Debug, Args)]
struct Edit {
    #[command(flatten)]
    node: NodeArg,
    /// Read the whole plan from this file, in the form that `plan show` prints; - reads it from stdin
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    steer: SteerArgs,
}

impl Plan {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        match &self.command {
            PlanCommand::Show(node) => show(context, node).await,
            PlanCommand::Edit(edit) => edit.run(context).await,
        }
    }
}

async fn show(context: &Context, node: &NodeArg) -> Result<Exit, CliError> {
    let steered = Steered::find(context, &node.run, Some(&node.node)).await?;
    let graph = steered.client.graph(steered.run, None).await?;
    let (about, plan) = planned(&graph, &steered)?;
    if context.out.is_json() {
        context.out.json(plan)?;
    } else {
        context.out.script(&form::write(about, plan, graph.seq))?;
    }
    Ok(Exit::Success)
}

impl Edit {
    async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let given = self.file.as_deref().map(read).transpose()?;
        let steered = Steered::find(context, &self.node.run, Some(&self.node.node)).await?;
        if let Some(form) = given {
            return self.send(&steered, form).await;
        }
        let graph = steered.client.graph(steered.run, None).await?;
        let (about, plan) = planned(&graph, &steered)?;
        let shown = form::write(about, plan, graph.seq);
        let file = std::env::temp_dir().join(format!("tree-agent-plan-{}.yaml", Uuid::now_v7()));
        write(&file, &shown)?;
        let is_as_it_was = |text: &str| text.trim() == shown.trim();
        let sent = match edited(&file).await {
            Ok(text) if is_as_it_was(&text) => {
                context.out.note("the plan is as it was; nothing is sent");
                Ok(Exit::Success)
            }
            Ok(text) => match form::parse(&text) {
                Ok(form) => self.send(&steered, form).await,
                Err(why) => Err(CliError::Usage(why)),
            },
            Err(error) => Err(error),
        };
        // What somebody has written is not lost.
        let is_edited = fs::read_to_string(&file).is_ok_and(|text| !is_as_it_was(&text));
        let path = file.display();
        if is_edited && sent.is_err() {
            context.out.warn(format!("the edited plan is kept in {path}"));
        } else if is_edited && self.steer.dry_run {
            context.out.note(format!("the edited plan is kept in {path}; send it with --file {path}"));
        } else {
            let _ = fs::remove_file(&file);
        }
        sent
    }

    async fn send(&self, steered: &Steered<'_>, form: Form) -> Result<Exit, CliError> {
        let steer =
            SteerArgs { dry_run: self.steer.dry_run, expected_seq: self.steer.expected_seq.or(form.seq) };
        let plan = form.into_wire().map_err(CliError::Usage)?;
        let done = format!("the plan of {} is edited", steered.what());
        let message = framed!(EditPlanRequest { plan: Some(plan) });
        steered.give(&steer, "concerns", &done, message).await
    }
}

/// The node and its plan.
fn planned<'a>(
    graph: &'a GraphSnapshot,
    of: &Steered<'_>,
) -> Result<(&'a GraphNode, &'a GraphPlan), CliError> {
    let (node, what) = (graph.nodes.iter().find(|node| Some(node.id) == of.node), of.what());
    let node = node.ok_or_else(|| CliError::Usage(format!("the run has no {what}")))?;
    let none = || match node.strategy {
        Some(Strategy::Search) => {
            format!("{what} is a search, which has no plan; guide, stop or retry its topics")
        }
        _ => format!("{what} has no plan"),
    };
    node.plan.as_deref().map(|plan| (node, plan)).ok_or_else(|| CliError::Usage(none()))
}

/// The plan in a file, or on stdin for `-`.
fn read(file: &Path) -> Result<Form, CliError> {
    let text = text_from(file, "the plan", RUN_REQUEST_BYTES)?;
    form::parse(&text).map_err(|why| CliError::Usage(format!("{}: {why}", name_of(file))))
}

/// The same as a request has it.
pub(super) fn from_file(file: &Path) -> Result<pb::PlanEdit, CliError> {
    let name = name_of(file);
    read(file)?.into_wire().map_err(|why| CliError::Usage(format!("{name}: {why}")))
}

/// Writes a new file, readable by its owner only.
fn write(file: &Path, text: &str) -> Result<(), CliError> {
    let failed = |source| CliError::Write { what: file.display().to_string(), source };
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file).and_then(|mut file| file.write_all(text.as_bytes())).map_err(failed)
}

/// The text of the file after the user's editor was closed.
async fn edited(file: &Path) -> Result<String, CliError> {
    let set = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let editor = set("VISUAL").or_else(|| set("EDITOR")).ok_or_else(|| {
        CliError::Usage(
            "no editor is set: set EDITOR, or use `plan show`, and `plan edit --file FILE`".into(),
        )
    })?;
    let words = shlex::split(&editor).filter(|words| !words.is_empty());
    let words = words.ok_or_else(|| CliError::Usage(format!("the editor {editor:?} is no command")))?;
    let ended = tokio::process::Command::new(&words[0]).args(&words[1..]).arg(file).status().await;
    match ended {
        Ok(status) if status.success() => {}
        Ok(status) => {
            return Err(CliError::Other(format!(
                "the editor {editor:?} has failed ({status}); nothing is sent"
            )));
        }
        Err(error) => {
            return Err(CliError::Usage(format!("the editor {editor:?} cannot be started: {error}")));
        }
    }
    text_from(file, "the plan", RUN_REQUEST_BYTES)
}
