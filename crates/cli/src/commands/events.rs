//! `events`: the log of a run.

use clap::Args;
use clap::builder::PossibleValuesParser;
use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::{NodeId, RunId, limits};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;

use crate::Context;
use crate::client::request;
use crate::error::CliError;
use crate::exit::Exit;
use crate::view::paint::{Paint, one_line};

/// Print the events that a run has so far, all pages of them
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// The run
    run: RunId,
    /// Only events after this one
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after_seq: u64,
    /// Only this type, such as tree.node_created (may be repeated)
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', hide_possible_values = true,
          value_parser = PossibleValuesParser::new(EventBody::TYPES))]
    types: Vec<String>,
    /// Only events of this node
    #[arg(long, value_name = "NODE")]
    node: Option<NodeId>,
}

impl Events {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let client = context.connect().await?;
        let mut page_token = String::new();
        loop {
            let message = pb::ListEventsRequest {
                run_id: self.run.to_wire(),
                after_seq: self.after_seq,
                page_size: limits::PAGE_MAX as u32,
                page_token,
                types: self.types.clone(),
                node_id: self.node.map(|n| n.to_wire()).unwrap_or_default(),
            };
            let page = client
                .call(|| {
                    let (mut runs, message) = (client.runs(), message.clone());
                    async move { runs.list_events(request(message)).await }
                })
                .await?;
            for event in page.events {
                print(context, &Event::from_wire(event)?)?;
            }
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(Exit::Success);
            }
        }
    }
}

fn print(context: &Context, event: &Event) -> Result<(), CliError> {
    if context.out.is_jsonl() {
        return context.out.json(event);
    }
    let palette = context.out.palette();
    let node = event.node_id.0.simple().to_string();
    context.out.line(format!(
        "{:>6}  {}  {}  {:<24}  {}",
        event.seq,
        palette.paint(Paint::Dim, &event.timestamp.to_string()),
        palette.paint(Paint::Dim, &node[..8]),
        event.body.event_type(),
        one_line(&event.payload_json()),
    ))
}
