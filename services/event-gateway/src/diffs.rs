//! `DiffRuns`: two runs, compared.

use std::sync::Arc;

use prost::Message;
use tonic::Status;
use tree_agent_contract::diff::RunDiff;
use tree_agent_contract::{RunId, limits};
use tree_agent_engine::{Compared, diff};
use tree_agent_proto::{Wire, v1 as pb};

use crate::errors;
use crate::fields::id;
use crate::gateway::Gateway;
use crate::graphs::Snapshot;
use crate::pages::{self, Pages, numbers};
use crate::results;
use crate::view::View;

/// One of the two runs, at the moment that is compared.
struct Side {
    snapshot: Arc<Snapshot>,
    /// What it had returned by then; empty for nothing.
    synthesis: String,
}

impl Side {
    fn compared(&self) -> Compared<'_> {
        Compared { graph: &self.snapshot.graph, synthesis: &self.synthesis }
    }
}

/// A page of the comparison.
pub(crate) async fn page(
    gateway: &Gateway,
    view: &View,
    request: pb::DiffRunsRequest,
) -> Result<pb::DiffRunsResponse, Status> {
    let (a, b) = (id(RunId::parse_field("a", &request.a))?, id(RunId::parse_field("b", &request.b))?);
    let seqs = [request.a_seq.to_string(), request.b_seq.to_string()];
    let pages = Pages::of("differences", &[&a.to_string(), &b.to_string(), &seqs[0], &seqs[1]]);
    let cursor = pages.cursor(&request.page_token, numbers)?;
    // Where the page begins, and the moments that all pages are about.
    let [from, a_seq, b_seq] = cursor.unwrap_or([0, request.a_seq, request.b_seq]);
    let is_first = cursor.is_none();
    let place = gateway.graphs.place().await;
    // A run at both sides is read once: whoever asks for the same graph at the same time gets the same one.
    let (a, b) = tokio::try_join!(
        side(gateway, view, ("a", a), a_seq, is_first),
        side(gateway, view, ("b", b), b_seq, is_first)
    )?;
    // Large trees take a while, and must not hold up other requests.
    let diff = place.blocking(move || diff(a.compared(), b.compared())).await?;
    let size = match request.page_size as usize {
        0 => limits::DIFF_PAGE_DEFAULT,
        size => size.min(limits::DIFF_PAGE_MAX),
    };
    Ok(answer(&diff, from as usize, size, is_first, &pages))
}

async fn side(
    gateway: &Gateway,
    view: &View,
    (name, run): (&str, RunId),
    seq: u64,
    with_text: bool,
) -> Result<Side, Status> {
    let head = view.run_in(&*gateway.store, name, run).await?.head_seq;
    if seq > head {
        return Err(errors::beyond_head(&format!("{name}_seq"), seq, head));
    }
    let snapshot = gateway.graphs.at(run, (seq > 0).then_some(seq), head).await?;
    let result = snapshot.graph.nodes().first().and_then(|root| root.result.as_deref());
    let synthesis = match result.filter(|_| with_text) {
        Some(result) => results::synthesis(&*gateway.store, run, result).await?,
        None => String::new(),
    };
    Ok(Side { snapshot, synthesis })
}

fn answer(diff: &RunDiff, from: usize, size: usize, is_first: bool, pages: &Pages) -> pb::DiffRunsResponse {
    let mut answer = pb::DiffRunsResponse {
        a: Some(diff.a.to_wire()),
        b: Some(diff.b.to_wire()),
        matching: diff.matching.to_wire(),
        counts: Some(diff.counts.to_wire()),
        nodes: Vec::new(),
        synthesis: is_first.then(|| diff.synthesis.to_wire()),
        next_page_token: String::new(),
    };
    let mut bytes = answer.encoded_len();
    let mut next = from;
    for node in diff.nodes.iter().skip(from).take(size) {
        if bytes >= pages::BYTES && next > from {
            break;
        }
        let node = node.to_wire();
        bytes += node.encoded_len() + 8;
        answer.nodes.push(node);
        next += 1;
    }
    if next < diff.nodes.len() {
        answer.next_page_token = pages.token(&format!("{next}.{}.{}", diff.a.seq, diff.b.seq));
    }
    answer
}
