//! `cite` and `stale`: what supports the claims of a run, and what no longer does.

use std::collections::{HashMap, HashSet};

use clap::Args;
use serde::Serialize;
use serde_json::json;
use tree_agent_contract::{ArtifactId, Citation, CitationCounts, DocumentId, NodeId, RunId, Verdict, limits};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;

use crate::client::Client;
use crate::complete;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use crate::value::RunRef;
use crate::view::paint::Paint;
use crate::view::printable::one_line;

/// List the citations of a run: claim, source, quote, and whether the quote stands in the source
///
/// A claim that rests on an artifact of the run is followed down to the sources.
#[derive(Debug, Args)]
pub(crate) struct Cite {
    /// The run: its id, the beginning or end of it, @latest, or @2 for the one before
    #[arg(add = complete::runs())]
    run: RunRef,
    /// Only those of this node: its id, or the beginning of it
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Only those that do not hold
    #[arg(long)]
    unverified: bool,
}

/// Say which claims of a run rest on sources that have changed since, and which nodes a fork would have to redo
///
/// Exit code 6 means that something has changed.
#[derive(Debug, Args)]
pub(crate) struct Stale {
    /// The run: its id, the beginning or end of it, @latest, or @2 for the one before
    #[arg(add = complete::runs())]
    run: RunRef,
}

/// A citation as `-o json` prints it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Claim {
    index: u64,
    node_id: NodeId,
    artifact_id: ArtifactId,
    artifact_title: String,
    #[serde(flatten)]
    citation: Citation,
    source_title: String,
    of_run: bool,
    rests_on: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'static str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stale: bool,
}

/// All citations of a run.
struct Claims {
    claims: Vec<Claim>,
    counts: CitationCounts,
    not_verified: Option<String>,
    redo: Vec<NodeId>,
}

impl Cite {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let client = context.connect().await?;
        let run = client.find_run(&self.run).await?;
        let node = match &self.node {
            Some(named) => Some(client.find_node(run, named).await?),
            None => None,
        };
        // The chain of a claim leads to other nodes.
        let all = fetch(&client, run, false).await?;
        let is_shown = |claim: &&Claim| {
            node.is_none_or(|node| claim.node_id == node)
                && !(self.unverified && claim.citation.is_verified())
        };
        let shown: Vec<&Claim> = all.claims.iter().filter(is_shown).collect();
        let out = &context.out;
        if out.is_json() {
            let mut list = out.list();
            shown.iter().try_for_each(|claim| list.item(claim))?;
            list.finish()?;
            return Ok(Exit::Success);
        }
        print(out, &all.claims, &shown)?;
        if shown.is_empty() && all.counts.total > 0 {
            out.note("there are no such citations");
        }
        out.note(all.counts.to_string());
        all.not_verified.iter().for_each(|why| out.warn(format!("not verified: {}", one_line(why))));
        Ok(Exit::Success)
    }
}

impl Stale {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let client = context.connect().await?;
        let run = client.find_run(&self.run).await?;
        let all = fetch(&client, run, true).await?;
        let stale: Vec<&Claim> = all.claims.iter().filter(|claim| claim.stale).collect();
        let out = &context.out;
        if out.is_json() {
            out.json(&json!({"runId": run, "claims": stale, "redoNodeIds": all.redo}))?;
        } else if all.claims.is_empty() {
            out.note("the run cites nothing");
        } else if stale.is_empty() {
            out.note("every passage that the run cites is still there");
        } else {
            print(out, &all.claims, &stale)?;
            out.line("")?;
            out.line("A fork would have to redo:")?;
            for node in &all.redo {
                out.line(format!("  {node}"))?;
            }
        }
        Ok(if stale.is_empty() { Exit::Success } else { Exit::Unsound })
    }
}

/// Prints claims below the titles of their artifacts, each with its source.
fn print(out: &Output, all: &[Claim], shown: &[&Claim]) -> Result<(), CliError> {
    let by_index: HashMap<u64, &Claim> = all.iter().map(|claim| (claim.index, claim)).collect();
    let (mut artifact, mut told) = (None, HashSet::new());
    for claim in shown {
        if artifact.replace(claim.artifact_id) != Some(claim.artifact_id) {
            let title = out.palette().paint(Paint::Bold, &one_line(&claim.artifact_title));
            out.line(format!("{title}  node {}", claim.node_id))?;
        }
        let sign = match (claim.citation.verdict, claim.stale) {
            (Verdict::Verified, false) => out.palette().paint(Paint::Good, "✓"),
            (Verdict::Verified, true) => out.palette().paint(Paint::Warn, "~"),
            (Verdict::NotFound, _) => out.palette().paint(Paint::Bad, "✗"),
            _ => out.palette().paint(Paint::Warn, "?"),
        };
        out.line(format!("  {sign} {}", one_line(&claim.citation.claim)))?;
        source(out, claim, &by_index, 6, &mut told)?;
    }
    Ok(())
}

/// Prints what a claim rests on, indented by so many columns, down to the sources. What is below a claim is printed
/// once; a chain that is long is cut.
fn source(
    out: &Output,
    claim: &Claim,
    by_index: &HashMap<u64, &Claim>,
    indent: usize,
    told: &mut HashSet<u64>,
) -> Result<(), CliError> {
    const DEEPEST: usize = 40;
    let pad = " ".repeat(indent);
    let title = match claim.source_title.as_str() {
        "" if claim.citation.document_id == DocumentId::NONE => "no document".to_owned(),
        "" => claim.citation.document_id.to_string(),
        title => one_line(title),
    };
    let place = claim.citation.passage.as_ref().map(|passage| match passage.place.as_str() {
        "" => format!(" at byte {}", passage.offset),
        place => format!(", {}", one_line(place)),
    });
    let said = match (claim.citation.verdict, claim.source) {
        (Verdict::Verified, Some("changed")) => ", which has changed there".to_owned(),
        (Verdict::Verified, Some("gone")) => ", which is gone".to_owned(),
        (Verdict::Verified, _) => String::new(),
        (Verdict::NotFound, _) => format!(": doubted, {}", Verdict::NotFound.reason()),
        (verdict, _) => format!(": not checked, {}", verdict.reason()),
    };
    let quote = one_line(&claim.citation.quote);
    out.line(
        out.palette()
            .paint(Paint::Dim, &format!("{pad}“{quote}” — {title}{}{said}", place.unwrap_or_default())),
    )?;
    if !claim.rests_on.is_empty() && !told.insert(claim.index) {
        return out.line(out.palette().paint(Paint::Dim, &format!("{pad}  (see above)")));
    }
    for link in &claim.rests_on {
        if let Some(below) = by_index.get(link).filter(|_| indent < DEEPEST) {
            source(out, below, by_index, indent + 2, told)?;
        }
    }
    Ok(())
}

/// All citations of a run.
async fn fetch(client: &Client, run: RunId, check_sources: bool) -> Result<Claims, CliError> {
    let (counts, not_verified) = (CitationCounts::default(), None);
    let mut all = Claims { claims: Vec::new(), counts, not_verified, redo: Vec::new() };
    let mut page_token = String::new();
    loop {
        let message = pb::ListCitationsRequest {
            run_id: run.to_wire(),
            check_sources,
            page_size: limits::PAGE_MAX as u32,
            page_token,
            ..Default::default()
        };
        let page = client.ask(message).await?;
        for claim in page.claims {
            all.claims.push(Claim {
                source: source_state(claim.source()),
                index: claim.index,
                node_id: Wire::from_wire(claim.node_id)?,
                artifact_id: Wire::from_wire(claim.artifact_id)?,
                artifact_title: claim.artifact_title,
                citation: Wire::from_wire(claim.citation.unwrap_or_default())?,
                source_title: claim.source_title,
                of_run: claim.of_run,
                rests_on: claim.rests_on,
                stale: claim.stale,
            });
        }
        all.counts = Wire::from_wire(page.counts.unwrap_or_default())?;
        all.not_verified = page.not_verified;
        all.redo.extend(Vec::<NodeId>::from_wire(page.redo_node_ids)?);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(all);
        }
    }
}

fn source_state(state: pb::SourceState) -> Option<&'static str> {
    match state {
        pb::SourceState::Unspecified => None,
        pb::SourceState::Unchanged => Some("unchanged"),
        pb::SourceState::Moved => Some("moved"),
        pb::SourceState::Changed => Some("changed"),
        pb::SourceState::Gone => Some("gone"),
    }
}
