//! `guide`: tells a node something.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use tree_agent_contract::limits::GUIDANCE_BYTES;
use tree_agent_proto::v1 as pb;

use super::objective::text_of;
use super::steer::{Frame, NodeArg, SteerArgs, Steered};
use crate::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::view::preview::Verb;

/// Tell a node something
///
/// Its next calls are told the text as the word of the user.
#[derive(Debug, Args)]
pub(crate) struct Guide {
    #[command(flatten)]
    node: NodeArg,
    /// What to tell it; - reads it from stdin
    #[arg(value_name = "TEXT", value_hint = ValueHint::Other, required_unless_present = "file")]
    text: Option<String>,
    /// Read the text from this file
    #[arg(short, long, value_name = "FILE", conflicts_with = "text")]
    file: Option<PathBuf>,
    /// Tell it to every node below, too
    #[arg(long)]
    subtree: bool,
    /// Stop the call in flight, and make it again with the text
    #[arg(long)]
    restart: bool,
    #[command(flatten)]
    steer: SteerArgs,
}

impl Guide {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let text = read(self.text.as_deref(), self.file.as_deref())?;
        let steered = Steered::find(context, &self.node.run, Some(&self.node.node)).await?;
        let below = if self.subtree { " and everything below it" } else { "" };
        let done = format!("{}{below} will be told", steered.what());
        let message = |frame: Frame| pb::GuideNodeRequest {
            run_id: frame.run_id,
            node_id: frame.node_id,
            text,
            subtree: self.subtree,
            restart: self.restart,
            request_id: frame.request_id,
            expected_seq: frame.expected_seq,
            validate_only: frame.validate_only,
        };
        steered.give(&self.steer, Verb::Concerns, &done, message).await
    }
}

/// The text that was given, without the white space around it.
fn read(text: Option<&str>, file: Option<&Path>) -> Result<String, CliError> {
    let from = |name: &str, read: Result<String, String>| match read {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(why) => Err(CliError::Usage(format!("the text cannot be read from {name}: {why}"))),
    };
    match (text, file) {
        (Some("-"), _) => from("stdin", text_of(io::stdin(), GUIDANCE_BYTES)),
        (_, Some(file)) if file == Path::new("-") => from("stdin", text_of(io::stdin(), GUIDANCE_BYTES)),
        (_, Some(file)) => {
            let opened = File::open(file).map_err(|error| error.to_string());
            from(&file.display().to_string(), opened.and_then(|opened| text_of(opened, GUIDANCE_BYTES)))
        }
        (Some(text), None) => Ok(text.to_owned()),
        (None, None) => Err(CliError::Usage("there is no TEXT to tell the node".into())),
    }
}
