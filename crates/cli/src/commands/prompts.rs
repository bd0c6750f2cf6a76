//! `prompts`: what the models of a node were sent, what they thought and what they answered.

use clap::Args;
use tree_agent_contract::answers;
use tree_agent_proto::{Wire, v1 as pb};

use super::doc::{DocumentJson, fetch};
use super::docs::each;
use super::steer::NodeArg;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

/// Print what the models of a node were sent, what they thought and what they answered
///
/// A run keeps this with `run --keep-prompts`, and by default on a server of `tree-agent dev`: at most 64 KB of a call,
/// and 16 MB of a run. Thoughts are there if the provider returns them.
#[derive(Debug, Args)]
pub(crate) struct Prompts {
    #[command(flatten)]
    node: NodeArg,
}

impl Prompts {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let client = context.connect().await?;
        let run = client.find_run(&self.node.run.run).await?;
        let node = client.find_node(run, &self.node.node).await?;
        let kinds = vec![pb::DocumentKind::Prompt as i32];
        let filter = pb::ListDocumentsRequest { run_id: run.to_wire(), kinds, ..Default::default() };
        let (mut bytes, mut prompts) = (0, Vec::new());
        each(&client, filter, |document| {
            bytes += document.bytes;
            prompts.extend((document.node_id == Some(node.to_wire())).then_some(document.document_id));
            Ok(())
        })
        .await?;
        let out = &context.out;
        if bytes > answers::PROMPTS_FULL {
            out.note("this run has kept 16 MB of prompts; those of later calls are not kept");
        } else if prompts.is_empty() {
            out.note("no prompts of this node are kept; `run --keep-prompts` keeps those of language models");
        }
        let mut list = out.list();
        for id in prompts {
            let (summary, document) = fetch(&client, Wire::from_wire(id)?, Some(run), None).await?;
            match out.is_json() {
                true => list.item(&DocumentJson::of(summary, document)?)?,
                false => out.document(&format!("---- {}\n\n{}", summary.title, document.body))?,
            }
        }
        list.finish()?;
        Ok(Exit::Success)
    }
}
