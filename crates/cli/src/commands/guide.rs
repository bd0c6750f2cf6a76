//! `guide`: tells a node something.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use tree_agent_contract::limits::GUIDANCE_BYTES;

use super::objective::text_from;
use super::steer::{NodeArg, SteerArgs, Steered, framed};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

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
        let message = framed!(GuideNodeRequest { text: text, subtree: self.subtree, restart: self.restart });
        steered.give(&self.steer, "concerns", &done, message).await
    }
}

/// The text that was given, without the white space around it.
fn read(text: Option<&str>, file: Option<&Path>) -> Result<String, CliError> {
    let file = match (text, file) {
        (_, Some(file)) => file,
        (Some("-"), None) => Path::new("-"),
        (text, None) => return Ok(text.unwrap_or_default().to_owned()),
    };
    Ok(text_from(file, "the text", GUIDANCE_BYTES)?.trim().to_owned())
}
