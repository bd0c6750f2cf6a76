//! What the commands to a live run have in common: they are previewed, sent once, and answered.

use clap::Args;
use serde_json::json;
use tree_agent_contract::{NodeId, RunId};
use tree_agent_proto::{Wire, v1 as pb};
use uuid::Uuid;

use crate::client::{Call, Client, present};
use crate::complete;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::value::RunRef;
use crate::view::preview::Preview;
use crate::view::printable::one_line;

/// The run to steer.
#[derive(Debug, Args)]
pub(super) struct RunArg {
    /// The run: its id, the beginning or end of it, @latest, or @2 for the one before
    #[arg(add = complete::runs())]
    pub(super) run: RunRef,
}

/// The run and the node to steer.
#[derive(Debug, Args)]
pub(super) struct NodeArg {
    #[command(flatten)]
    pub(super) run: RunArg,
    /// The node: its id, or the beginning of it, as `tree-agent graph RUN` shows it
    #[arg(value_name = "NODE", add = complete::nodes())]
    pub(super) node: String,
}

/// A part of a run to steer.
#[derive(Debug, Args)]
pub(super) struct PartArg {
    #[command(flatten)]
    pub(super) run: RunArg,
    /// The node, with everything below it [default: the whole run]
    #[arg(value_name = "NODE", add = complete::nodes())]
    pub(super) node: Option<String>,
}

/// How a command is sent.
#[derive(Debug, Args)]
pub(super) struct SteerArgs {
    /// Say what the command would do, and change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Refuse the command if the nodes concerned have changed after this event
    #[arg(long, value_name = "SEQ")]
    pub(super) expected_seq: Option<u64>,
}

/// What every request carries.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) run_id: String,
    /// Empty for the whole run.
    pub(super) node_id: String,
    pub(super) request_id: String,
    pub(super) expected_seq: Option<u64>,
    pub(super) validate_only: bool,
}

/// A request to steer, with the frame that every one has.
macro_rules! framed {
    ($request:ident { $($field:ident: $value:expr),* $(,)? }) => {
        |frame: $crate::commands::steer::Frame| tree_agent_proto::v1::$request {
            run_id: frame.run_id,
            node_id: frame.node_id,
            request_id: frame.request_id,
            expected_seq: frame.expected_seq,
            validate_only: frame.validate_only,
            $($field: $value),*
        }
    };
}
pub(super) use framed;

/// An answer to a command.
pub(super) trait Answer {
    /// What came of it, and the fork that it made, if it made one.
    fn outcome(self) -> (Option<pb::CommandOutcome>, Option<String>);
}

macro_rules! answers {
    ($($response:ident),*) => {$(
        impl Answer for pb::$response {
            fn outcome(self) -> (Option<pb::CommandOutcome>, Option<String>) {
                (self.outcome, None)
            }
        }
    )*};
}
answers!(
    PauseRunResponse,
    ResumeRunResponse,
    GuideNodeResponse,
    StopNodeResponse,
    EditPlanResponse,
    SetBudgetResponse
);

impl Answer for pb::RetryNodeResponse {
    fn outcome(self) -> (Option<pb::CommandOutcome>, Option<String>) {
        (self.outcome, self.fork_run_id)
    }
}

/// A run, or a node of it, about to be steered.
pub(super) struct Steered<'a> {
    pub(super) context: &'a Context,
    pub(super) client: Client,
    pub(super) run: RunId,
    pub(super) node: Option<NodeId>,
}

impl<'a> Steered<'a> {
    /// Finds the run, and the node if one is named.
    pub(super) async fn find(
        context: &'a Context,
        run: &RunArg,
        node: Option<&str>,
    ) -> Result<Self, CliError> {
        let client = context.connect().await?;
        let run = client.find_run(&run.run).await?;
        let node = match node {
            Some(named) => Some(client.find_node(run, named).await?),
            None => None,
        };
        Ok(Self { context, client, run, node })
    }

    /// Gives the command: once, however often its answer is lost. `does` and `done` say in words what it
    /// will do and has done.
    pub(super) async fn give<C: Call<Response: Answer>>(
        &self,
        args: &SteerArgs,
        does: &str,
        done: &str,
        message: impl FnOnce(Frame) -> C,
    ) -> Result<Exit, CliError> {
        let frame = Frame {
            run_id: self.run.to_wire(),
            node_id: self.node.map(|node| node.to_wire()).unwrap_or_default(),
            request_id: Uuid::now_v7().to_string(),
            expected_seq: args.expected_seq,
            validate_only: args.dry_run,
        };
        let (outcome, fork) = self.client.ask(message(frame.clone())).await?.outcome();
        let outcome = present(outcome, "outcome")?;
        let out = &self.context.out;
        if args.dry_run {
            let preview = outcome.preview.unwrap_or_default();
            let preview = Preview { run_id: &frame.run_id, preview: &preview };
            if out.is_json() {
                out.json(&preview)?;
            } else {
                preview.lines(does).into_iter().try_for_each(|line| out.line(line))?;
            }
            return Ok(Exit::Success);
        }
        if out.is_json() {
            let mut json = json!({"runId": frame.run_id, "requestId": frame.request_id, "seq": outcome.seq});
            if let Some(fork) = fork {
                json["forkRunId"] = fork.into();
            }
            out.json(&json)?;
        } else if let Some(fork) = fork.as_deref().map(one_line) {
            out.line(format!("run {} has ended; {fork} goes on from its end: {done}", self.run))?;
            out.note(format!("watch it with `tree-agent watch {fork}`"));
        } else {
            out.line(format!("{done} (event {})", outcome.seq))?;
        }
        Ok(Exit::Success)
    }

    /// The node in words, or the run without one.
    pub(super) fn what(&self) -> String {
        self.node.map_or_else(|| format!("run {}", self.run), |node| format!("node {node}"))
    }
}
