//! `events`: the log of a run.

use clap::Args;
use clap::builder::PossibleValuesParser;
use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::{NodeId, RunId, limits};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;

use crate::client::Client;
use crate::complete;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::value::RunRef;
use crate::view::paint::{Paint, Palette};
use crate::view::printable::one_line;

/// Print the events that a run has so far
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// The run: its id, the beginning or end of it, @latest, or @2 for the one before
    #[arg(add = complete::runs())]
    run: RunRef,
    /// Only events after this one
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after_seq: u64,
    #[command(flatten)]
    only: Only,
}

/// Which events.
#[derive(Debug, Args)]
pub(super) struct Only {
    /// Only events of this type, such as tree.node_created; can be repeated
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', hide_possible_values = true,
          value_parser = PossibleValuesParser::new(EventBody::TYPES))]
    pub(super) types: Vec<String>,
    /// Only events of this node (an id, or the beginning of one)
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
}

impl Only {
    /// The node that is meant.
    pub(super) async fn node(&self, client: &Client, run: RunId) -> Result<Option<NodeId>, CliError> {
        match &self.node {
            Some(named) => client.find_node(run, named).await.map(Some),
            None => Ok(None),
        }
    }
}

impl Events {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let client = context.connect().await?;
        let run = client.find_run(&self.run).await?;
        let node = self.only.node(&client, run).await?;
        let mut list = context.out.list();
        let mut any = false;
        let mut page_token = String::new();
        loop {
            let message = pb::ListEventsRequest {
                run_id: run.to_wire(),
                after_seq: self.after_seq,
                page_size: limits::PAGE_MAX as u32,
                page_token,
                types: self.only.types.clone(),
                node_id: node.map(|n| n.to_wire()).unwrap_or_default(),
            };
            let page = client.ask(message).await?;
            for event in page.events {
                any = true;
                let event = Event::from_wire(event)?;
                list.push(&event, || log_line(&event, context.out.palette()))?;
            }
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        list.finish()?;
        if !any && !context.out.is_json() {
            context.out.note("no event matches");
        }
        Ok(Exit::Success)
    }
}

/// An event as a line of the log.
pub(super) fn log_line(event: &Event, palette: Palette) -> String {
    let node = event.node_id.0.simple().to_string();
    format!(
        "{:>6}  {}  {}  {:<24}  {}",
        event.seq,
        palette.paint(Paint::Dim, &event.timestamp.to_string()),
        palette.paint(Paint::Dim, &node[..8]),
        one_line(event.body.event_type()),
        one_line(&event.payload_json()),
    )
}
