//! `plan`: shows the plan of a node, or edits it.

mod form;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use tree_agent_contract::graph::{GraphNode, GraphPlan, GraphSnapshot};
use tree_agent_contract::limits::RUN_REQUEST_BYTES;
use tree_agent_contract::Strategy;
use tree_agent_proto::v1 as pb;
use uuid::Uuid;

use self::form::Form;
use super::objective::text_of;
use super::steer::{Frame, NodeArg, SteerArgs, Steered};
use crate::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::view::preview::Verb;

/// Show the plan of a node, or edit it
#[derive(Debug, Args)]
pub(crate) struct Plan {
    #[command(subcommand)]
    command: PlanCommand,
}

#[derive(Debug, Subcommand)]
enum PlanCommand {
    Show(Show),
    Edit(Edit),
}

/// Print the plan of a node in the form in which it is edited
#[derive(Debug, Args)]
struct Show {
    #[command(flatten)]
    node: NodeArg,
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
            PlanCommand::Show(show) => show.run(context).await,
            PlanCommand::Edit(edit) => edit.run(context).await,
        }
    }
}

impl Show {
    async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let steered = Steered::find(context, &self.node.run, Some(&self.node.node)).await?;
        let graph = steered.client.graph(steered.run, None).await?;
        let (node, plan) = planned(&graph, &steered)?;
        if context.out.is_json() {
            context.out.json(plan)?;
        } else {
            context.out.script(&form::write(node, plan, graph.seq))?;
        }
        Ok(Exit::Success)
    }
}

impl Edit {
    async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let given = self.file.as_deref().map(read).transpose()?;
        let steered = Steered::find(context, &self.node.run, Some(&self.node.node)).await?;
        if let Some((text, name)) = given {
            let form = form::parse(&text).map_err(|why| CliError::Usage(format!("{name}: {why}")))?;
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
                let _ = fs::remove_file(&file);
                context.out.note("the plan is as it was; nothing is sent");
                return Ok(Exit::Success);
            }
            Ok(text) => match form::parse(&text) {
                Ok(form) => self.send(&steered, form).await,
                Err(why) => Err(CliError::Usage(why)),
            },
            Err(error) => Err(error),
        };
        match sent {
            Ok(exit) if self.steer.dry_run => {
                let path = file.display();
                context.out.note(format!("the edited plan is kept in {path}; send it with --file {path}"));
                Ok(exit)
            }
            Ok(exit) => {
                let _ = fs::remove_file(&file);
                Ok(exit)
            }
            Err(error) => {
                if fs::read_to_string(&file).is_ok_and(|text| is_as_it_was(&text)) {
                    let _ = fs::remove_file(&file);
                } else {
                    // What somebody has written is not lost.
                    context.out.warn(format!("the edited plan is kept in {}", file.display()));
                }
                Err(error)
            }
        }
    }

    async fn send(&self, steered: &Steered<'_>, form: Form) -> Result<Exit, CliError> {
        let steer =
            SteerArgs { dry_run: self.steer.dry_run, expected_seq: self.steer.expected_seq.or(form.seq) };
        let plan = form.into_wire().map_err(CliError::Usage)?;
        let done = format!("the plan of {} is edited", steered.what());
        let message = |frame: Frame| pb::EditPlanRequest {
            run_id: frame.run_id,
            node_id: frame.node_id,
            plan: Some(plan),
            request_id: frame.request_id,
            expected_seq: frame.expected_seq,
            validate_only: frame.validate_only,
        };
        steered.give(&steer, Verb::Concerns, &done, message).await
    }
}

/// The node and its plan.
fn planned<'a>(graph: &'a GraphSnapshot, of: &Steered<'_>) -> Result<(&'a GraphNode, &'a GraphPlan), CliError> {
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

/// The plan in a file, in the form that `plan show` prints.
pub(super) fn from_file(file: &Path) -> Result<pb::PlanEdit, CliError> {
    let (text, name) = read(file)?;
    let form = form::parse(&text).map_err(|why| CliError::Usage(format!("{name}: {why}")))?;
    form.into_wire().map_err(|why| CliError::Usage(format!("{name}: {why}")))
}

/// The text of a file, and its name.
fn read(file: &Path) -> Result<(String, String), CliError> {
    let name = if file == Path::new("-") { "stdin".to_owned() } else { file.display().to_string() };
    let text = match file == Path::new("-") {
        true => text_of(io::stdin(), RUN_REQUEST_BYTES),
        false => fs::File::open(file).map_err(|e| e.to_string()).and_then(|f| text_of(f, RUN_REQUEST_BYTES)),
    };
    let cannot = |why| CliError::Usage(format!("the plan cannot be read from {name}: {why}"));
    Ok((text.map_err(cannot)?, name))
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
    Ok(read(file)?.0)
}
