//! `cite` and `stale`: what supports the claims of a run, and what no longer does.

use std::collections::{HashMap, HashSet};

use clap::Args;
use serde::Serialize;
use serde_json::json;
use tree_agent_contract::{
    ArtifactId, Citation, CitationCounts, Disagreement, DocumentId, NodeId, Origin, RunId, Support, Verdict,
    limits,
};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;

use super::store::KeptArgs;
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
    /// The sources that disagree, with what each says, in place of the citations
    #[arg(long, conflicts_with = "unverified")]
    disagreements: bool,
    #[command(flatten)]
    pub(crate) kept: KeptArgs,
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
    disagreements: Vec<Disagreement>,
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
        let all = fetch(&client, run, node, false).await?;
        if self.disagreements {
            return disagreements(&context.out, &all.disagreements);
        }
        let is_shown = |claim: &&Claim| {
            node.is_none_or(|node| claim.node_id == node)
                && !(self.unverified && claim.citation.is_verified())
        };
        let mut shown: Vec<&Claim> = all.claims.iter().filter(is_shown).collect();
        let out = &context.out;
        if out.is_json() {
            let mut list = out.list();
            shown.iter().try_for_each(|claim| list.item(claim))?;
            list.finish()?;
            return Ok(Exit::Success);
        }
        // People read what the answer cites; if it cites nothing, what nodes below do.
        if node.is_none() && all.counts.total > 0 {
            let of_answer = all.claims.first().map(|first| first.node_id);
            shown.retain(|claim| Some(claim.node_id) == of_answer);
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
        let all = fetch(&client, run, None, true).await?;
        let stale: Vec<&Claim> = all.claims.iter().filter(|claim| claim.stale).collect();
        let out = &context.out;
        if out.is_json() {
            out.json(&json!({"runId": run, "claims": stale, "redoNodeIds": all.redo}))?;
        } else if all.claims.is_empty() {
            out.note("the run cites nothing");
        } else if stale.is_empty() {
            out.note("every passage that the run cites is still there");
        } else {
            let below: HashSet<u64> = stale.iter().flat_map(|claim| claim.rests_on.iter().copied()).collect();
            let top: Vec<&Claim> =
                stale.iter().filter(|claim| !below.contains(&claim.index)).copied().collect();
            print(out, &all.claims, &top)?;
            out.line("")?;
            out.line("A fork would have to redo:")?;
            for node in &all.redo {
                out.line(format!("  {node}"))?;
            }
        }
        Ok(if stale.is_empty() { Exit::Success } else { Exit::Unsound })
    }
}

/// Prints the sources that disagree, the newer of each pair first.
fn disagreements(out: &Output, pairs: &[Disagreement]) -> Result<Exit, CliError> {
    if out.is_json() {
        let mut list = out.list();
        pairs.iter().try_for_each(|pair| list.item(pair))?;
        list.finish()?;
        return Ok(Exit::Success);
    }
    for pair in pairs {
        let values: Vec<String> = pair.sides.iter().map(|side| one_line(&side.value)).collect();
        out.line(values.join(" or "))?;
        for side in &pair.sides {
            let name = if side.source_path.is_empty() { &side.source_title } else { &side.source_path };
            let place = side.passage.as_ref().map(|passage| passage.place.as_str()).unwrap_or_default();
            let of = [name.as_str(), place, side.dated.as_str()];
            let of: Vec<&str> = of.into_iter().filter(|part| !part.is_empty()).collect();
            let of = out.palette().paint(Paint::Dim, &format!(" — {}", one_line(&of.join(", "))));
            out.line(format!("  “{}”{of}", one_line(&side.quote)))?;
        }
    }
    if pairs.is_empty() {
        out.note("no sources of the answer were found to disagree");
    }
    Ok(Exit::Success)
}

/// Prints each passage that the claims rest on once, with the way to it. A claim is printed if it is not the quote.
fn print(out: &Output, all: &[Claim], shown: &[&Claim]) -> Result<(), CliError> {
    let by_index: HashMap<u64, &Claim> = all.iter().map(|claim| (claim.index, claim)).collect();
    let (mut told, mut seen, mut above) = (HashSet::new(), HashSet::new(), "");
    for claim in shown {
        let (mut open, mut passages) = (vec![(*claim, Vec::new())], Vec::new());
        let mut quote = "";
        while let Some((at, way)) = open.pop() {
            let below: Vec<&Claim> =
                at.rests_on.iter().filter_map(|link| by_index.get(link).copied()).collect();
            let citation = &at.citation;
            if below.is_empty() {
                let place = citation.passage.as_ref().map(|passage| (passage.offset, passage.bytes));
                quote = if quote.is_empty() { &citation.quote } else { quote };
                if told.insert((citation.document_id, place, place.is_none().then_some(&citation.quote))) {
                    passages.push((at, way));
                }
            } else if seen.insert(at.index) {
                for link in below.into_iter().rev() {
                    let title = one_line(&link.artifact_title);
                    open.push((link, way.iter().cloned().chain([title]).collect()));
                }
            }
        }
        let said = claim.citation.claim.as_str();
        if words(said) != words(quote) && std::mem::replace(&mut above, said) != said {
            let known = if passages.is_empty() { " (see above)" } else { "" };
            out.line(format!("{}{}", one_line(said), out.palette().paint(Paint::Dim, known)))?;
        }
        passages.iter().try_for_each(|(at, way)| passage(out, at, way))?;
    }
    Ok(())
}

/// Prints a passage, its source, and the artifacts that lead to it.
fn passage(out: &Output, claim: &Claim, way: &[String]) -> Result<(), CliError> {
    let citation = &claim.citation;
    let sign = match (citation.verdict, claim.stale) {
        (Verdict::Verified, false) => out.palette().paint(Paint::Good, "✓"),
        (Verdict::Verified, true) => out.palette().paint(Paint::Warn, "~"),
        (Verdict::NotFound | Verdict::Doubted, _) => out.palette().paint(Paint::Bad, "✗"),
        _ => out.palette().paint(Paint::Warn, "?"),
    };
    // What was removed has the name that it had.
    let names = [&citation.source_path, &claim.source_title, &citation.source_title];
    let mut said = match names.into_iter().find(|name| !name.is_empty()) {
        Some(name) => format!(" — {}", one_line(name)),
        None if citation.document_id == DocumentId::NONE => String::new(),
        None => format!(" — {}", citation.document_id),
    };
    if let Some(passage) = &citation.passage {
        let heading = Some(&passage.heading).filter(|heading| !heading.is_empty());
        said.extend(heading.map(|heading| format!(" › {}", one_line(heading))));
        let place = Some(&passage.place).filter(|place| !place.is_empty());
        said.extend(place.map(|place| format!(", {}", one_line(place))));
        said.push_str(if passage.omitted > 0 { ", with words left out" } else { "" });
    }
    if citation.origin == Some(Origin::Found) {
        said.push_str(", found afterwards");
    }
    match (citation.verdict, claim.source) {
        (Verdict::Verified | Verdict::Doubted, Some("changed")) => said.push_str(", which has changed there"),
        (Verdict::Verified | Verdict::Doubted, Some("gone")) => said.push_str(", which is gone"),
        (Verdict::Verified, _) => said.push_str(citation.support.map_or("", unsupported)),
        (Verdict::Doubted, _) => said.push_str(&format!(": doubted, {}", one_line(&citation.doubt))),
        (Verdict::NotFound, _) => said.push_str(&format!(": not found, {}", citation.reason())),
        _ => said.push_str(&format!(": not checked, {}", citation.reason())),
    }
    if !way.is_empty() {
        said.push_str(&format!(" (via “{}”)", way.join("”, “")));
    }
    let quote = one_line(&citation.quote);
    out.line(format!("  {sign} “{quote}”{}", out.palette().paint(Paint::Dim, &said)))
}

/// What is to be known of quotes that do not support their statement.
const fn unsupported(support: Support) -> &'static str {
    match support {
        Support::Supported => "",
        Support::Open => ": says only a part of it",
        Support::Computed => ": not checked, computed",
        Support::Language => ": not checked, another language",
    }
}

/// What a text says, whatever stands between its words.
fn words(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// All citations of a run, with the counts of its answer or of one node.
async fn fetch(
    client: &Client,
    run: RunId,
    node: Option<NodeId>,
    check_sources: bool,
) -> Result<Claims, CliError> {
    let (claims, counts, not_verified, redo, disagreements) = Default::default();
    let mut all = Claims { claims, counts, not_verified, redo, disagreements };
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
        all.disagreements = Wire::from_wire(page.disagreements)?;
        all.redo.extend(Vec::<NodeId>::from_wire(page.redo_node_ids)?);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    if let Some(node) = node {
        let (run_id, node_id) = (run.to_wire(), node.to_wire());
        let message = pb::ListCitationsRequest { run_id, node_id, page_size: 1, ..Default::default() };
        let page = client.ask(message).await?;
        all.counts = Wire::from_wire(page.counts.unwrap_or_default())?;
        all.disagreements = Wire::from_wire(page.disagreements)?;
    }
    Ok(all)
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
