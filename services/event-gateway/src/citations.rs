//! `ListCitations`: what supports the claims of a run, as the log says, and whether the sources still do.

use std::collections::{BTreeSet, HashMap, HashSet};

use prost::Message;
use tonic::{Code, Status};
use tree_agent_contract::graph::GraphNode;
use tree_agent_contract::{
    ArtifactId, Citation, Disagreement, Document, DocumentId, EventBody, NodeId, Passage, RunId, limits,
};
use tree_agent_proto::{Wire, v1 as pb};
use tree_agent_retrieval::{Quote, Visible};
use tree_agent_store::Store;

use crate::errors;
use crate::fields::{id, optional};
use crate::gateway::Gateway;
use crate::pages::{self, Pages, numbers};
use crate::view::View;

/// Claims that one quote is followed to.
const LINKS: usize = 32;
/// Events that are read at a time.
const EVENTS: usize = 1_000;

/// A citation and where it stands.
struct Cited {
    node: NodeId,
    artifact: ArtifactId,
    title: String,
    citation: Citation,
}

/// All citations of a run.
struct All {
    cited: Vec<Cited>,
    /// The citations of the artifact with this document.
    by_document: HashMap<DocumentId, Vec<usize>>,
    /// The documents of all artifacts, cited ones or not.
    own: HashSet<DocumentId>,
    /// Sources that disagree, by the artifact that says so.
    disagreements: HashMap<ArtifactId, Vec<Disagreement>>,
}

/// A page of the citations of a run.
pub(crate) async fn page(
    gateway: &Gateway,
    view: &View,
    request: pb::ListCitationsRequest,
) -> Result<pb::ListCitationsResponse, Status> {
    let run = id(RunId::parse_field("run_id", &request.run_id))?;
    let node = optional("node_id", &request.node_id, NodeId::parse_field)?;
    let check = if request.check_sources { "checked" } else { "" };
    let pages = Pages::of("citations", &[&request.run_id, &request.node_id, check]);
    let cursor = pages.cursor(&request.page_token, numbers)?;
    let head = view.run(&*gateway.store, run).await?.head_seq;
    // Where the page begins, and the event up to which all pages look.
    let [from, seq] = cursor.unwrap_or([0, head]);
    // Each caller may ask for another run: as for graphs of the past, only some of them are read at the same time.
    let place = gateway.graphs.place().await;
    let snapshot = gateway.graphs.at(run, (seq < head).then_some(seq), head).await?;
    let nodes = snapshot.graph.nodes();
    if let Some(node) = node.filter(|node| snapshot.graph.node(*node).is_none()) {
        return Err(errors::no_node(run, node));
    }
    let all = All::of(&*gateway.store, run, nodes, seq).await?;
    // Many claims take a while, and must not hold up other requests.
    let chained = place.blocking(move || {
        let chains = all.chains();
        (all, chains)
    });
    let (all, chains) = chained.await?;
    let mut answer = pb::ListCitationsResponse { seq, ..Default::default() };
    let shown = |one: &Cited| node.is_none_or(|node| node == one.node);
    let counted = nodes.iter().find(|of| node.is_none_or(|node| node == of.id));
    let first = counted.and_then(|of| of.artifacts.iter().rfind(|one| one.is_primary));
    let told = first.and_then(|first| all.disagreements.get(&first.artifact_id));
    answer.disagreements = told.cloned().unwrap_or_default().to_wire();
    let counts = counted.zip(first).and_then(|(of, first)| {
        let cited = all.cited.iter().filter(|one| one.artifact == first.artifact_id);
        let cited: Vec<Citation> = cited.map(|one| one.citation.clone()).collect();
        Some(first.citations.as_ref()?.after(&cited, of.verification.as_deref()))
    });
    answer.counts = Some(counts.unwrap_or_default().to_wire());
    answer.not_verified = nodes.first().and_then(|root| root.verification.as_ref()?.not_checked.clone());
    let mut sources = Sources { store: &*gateway.store, view, run, titles: HashMap::new() };
    let mut states = vec![pb::SourceState::Unspecified; all.cited.len()];
    let mut stale = vec![false; all.cited.len()];
    if request.check_sources {
        states = sources.states(&all).await?;
        stale = spread(&states, &chains);
        if cursor.is_none() {
            answer.redo_node_ids = redo(&all, &stale, nodes).iter().map(Wire::to_wire).collect();
        }
    }
    let (mut bytes, mut taken) = (0, 0);
    let matching = all.cited.iter().enumerate().filter(|(_, one)| shown(one));
    for (position, (index, one)) in matching.enumerate().skip(from as usize) {
        if taken == pages::size(request.page_size) || taken > 0 && bytes >= pages::BYTES {
            answer.next_page_token = pages.token(&format!("{position}.{seq}"));
            break;
        }
        let claim = pb::CitedClaim {
            index: index as u64,
            node_id: one.node.to_wire(),
            artifact_id: one.artifact.to_wire(),
            artifact_title: one.title.clone(),
            citation: Some(one.citation.to_wire()),
            source_title: sources.title(one.citation.document_id).await?,
            of_run: all.own.contains(&one.citation.document_id),
            rests_on: chains[index].iter().map(|link| *link as u64).collect(),
            source: states[index].into(),
            stale: stale[index],
        };
        bytes += claim.encoded_len() + 8;
        answer.claims.push(claim);
        taken += 1;
    }
    Ok(answer)
}

impl All {
    /// Those of the artifacts that the nodes have: what was dropped with an earlier attempt does not count.
    async fn of(store: &dyn Store, run: RunId, nodes: &[GraphNode], to: u64) -> Result<Self, Status> {
        let is_cited = nodes.iter().flat_map(|node| &node.artifacts).any(|one| one.citations.is_some());
        let mut found: HashMap<ArtifactId, Vec<Citation>> = HashMap::new();
        let mut disagreements: HashMap<ArtifactId, Vec<Disagreement>> = HashMap::new();
        let mut seq = 0;
        while is_cited && seq < to {
            let events = store.read(run, seq, EVENTS.min((to - seq) as usize)).await;
            let events = events.map_err(errors::store)?;
            let Some(last) = events.last() else { break };
            seq = last.seq;
            for event in events {
                if let EventBody::ArtifactCited(e) = event.body {
                    found.entry(e.artifact_id).or_default().extend(e.citations);
                    disagreements.entry(e.artifact_id).or_default().extend(e.disagreements);
                }
            }
        }
        let (cited, by_document, own) = Default::default();
        let mut all = Self { cited, by_document, own, disagreements };
        for node in nodes {
            for artifact in &node.artifacts {
                all.own.extend(artifact.document_id);
                let title = if artifact.title.is_empty() { &artifact.label } else { &artifact.title };
                for citation in found.remove(&artifact.artifact_id).unwrap_or_default() {
                    if let Some(document) = artifact.document_id {
                        all.by_document.entry(document).or_default().push(all.cited.len());
                    }
                    let (node, artifact, title) = (node.id, artifact.artifact_id, title.clone());
                    all.cited.push(Cited { node, artifact, title, citation });
                }
            }
        }
        Ok(all)
    }

    /// For each citation those of the cited artifact whose claims the quote is of.
    fn chains(&self) -> Vec<Vec<usize>> {
        let mut claims: HashMap<usize, (Visible<'_>, Quote)> = HashMap::new();
        fn read(text: &str) -> (Visible<'_>, Quote) {
            (Visible::of("", text), Quote::of(text))
        }
        let mut chain = |one: &Cited| {
            let below =
                self.by_document.get(&one.citation.document_id).map(Vec::as_slice).unwrap_or_default();
            if below.is_empty() || !one.citation.is_found() {
                return Vec::new();
            }
            let (text, quote) = read(&one.citation.quote);
            let is_of = |link: &usize| {
                let claim = &self.cited[*link].citation.claim;
                let (shown, claim) = claims.entry(*link).or_insert_with(|| read(claim));
                claim.letters() >= limits::QUOTE_CHARS
                    && (text.find(claim).is_some() || shown.find(&quote).is_some())
            };
            below.iter().copied().filter(is_of).take(LINKS).collect()
        };
        self.cited.iter().map(&mut chain).collect()
    }
}

/// Which citations rest on a passage that has changed.
fn spread(states: &[pb::SourceState], chains: &[Vec<usize>]) -> Vec<bool> {
    let is_gone = |state: &pb::SourceState| matches!(state, pb::SourceState::Changed | pb::SourceState::Gone);
    let mut stale: Vec<bool> = states.iter().map(is_gone).collect();
    let mut above: Vec<Vec<usize>> = vec![Vec::new(); chains.len()];
    for (at, links) in chains.iter().enumerate() {
        links.iter().for_each(|link| above[*link].push(at));
    }
    let mut open: Vec<usize> = (0..stale.len()).filter(|at| stale[*at]).collect();
    while let Some(at) = open.pop() {
        for next in &above[at] {
            if !std::mem::replace(&mut stale[*next], true) {
                open.push(*next);
            }
        }
    }
    stale
}

/// The nodes with stale claims and all nodes above them, in the order of the tree.
fn redo(all: &All, stale: &[bool], nodes: &[GraphNode]) -> Vec<NodeId> {
    let mut redo: BTreeSet<NodeId> =
        all.cited.iter().zip(stale).filter(|(_, stale)| **stale).map(|(one, _)| one.node).collect();
    // Children come after their parents.
    for node in nodes.iter().rev() {
        if redo.contains(&node.id) {
            redo.extend(node.parent_id);
        }
    }
    nodes.iter().map(|node| node.id).filter(|id| redo.contains(id)).collect()
}

/// The documents that are cited.
struct Sources<'a> {
    store: &'a dyn Store,
    view: &'a View,
    run: RunId,
    titles: HashMap<DocumentId, String>,
}

impl Sources<'_> {
    /// The document as the run has it, or as it is; none if there is none any more, or the caller may not read it.
    async fn read(&self, id: DocumentId) -> Result<Option<Document>, Status> {
        let found = match self.view.placed_document(self.store, Some(self.run), id, None).await {
            Err(status) if status.code() == Code::NotFound => {
                self.view.placed_document(self.store, None, id, None).await
            }
            found => found,
        };
        match found {
            Ok(placed) => Ok(Some(placed.document)),
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(status),
        }
    }

    async fn title(&mut self, id: DocumentId) -> Result<String, Status> {
        if let Some(title) = self.titles.get(&id) {
            return Ok(title.clone());
        }
        let title = self.read(id).await?.map(|found| found.title).unwrap_or_default();
        self.titles.insert(id, title.clone());
        Ok(title)
    }

    /// What became of each passage. Each source is read once.
    async fn states(&mut self, all: &All) -> Result<Vec<pb::SourceState>, Status> {
        let mut by_source: HashMap<DocumentId, Vec<usize>> = HashMap::new();
        for (at, one) in all.cited.iter().enumerate().filter(|(_, one)| one.citation.is_found()) {
            by_source.entry(one.citation.document_id).or_default().push(at);
        }
        let mut states = vec![pb::SourceState::Unspecified; all.cited.len()];
        for (source, citations) in by_source {
            let found = self.read(source).await?;
            let text = found.as_ref().map(|found| (&*found.path, &*found.body));
            let mut visible = None;
            for at in citations {
                states[at] = state(&all.cited[at].citation, text, &mut visible);
                tokio::task::yield_now().await;
            }
            self.titles.insert(source, found.map(|found| found.title).unwrap_or_default());
        }
        Ok(states)
    }
}

/// What became of the passage in the source, which has a path and a body. `visible` is what is seen of it, once it is
/// needed.
fn state<'a>(
    citation: &Citation,
    source: Option<(&'a str, &'a str)>,
    visible: &mut Option<Visible<'a>>,
) -> pb::SourceState {
    let (Some(passage), Some((path, body))) = (&citation.passage, source) else {
        return pb::SourceState::Gone;
    };
    let (begin, end) = (passage.offset as usize, passage.offset.saturating_add(passage.bytes) as usize);
    if body.get(begin..end).is_some() && Passage::of(body, begin..end).sha256 == passage.sha256 {
        return pb::SourceState::Unchanged;
    }
    let visible = visible.get_or_insert_with(|| Visible::of(path, body));
    match visible.find(&Quote::of(&citation.quote)) {
        Some(_) => pb::SourceState::Moved,
        None => pb::SourceState::Changed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rests_on_a_changed_passage_is_stale_and_nothing_else_is() {
        use pb::SourceState::{Changed, Gone, Moved, Unchanged, Unspecified};
        let states = [Unchanged, Changed, Moved, Unspecified, Unchanged, Unchanged, Gone];
        // The root's claims rest on those of two children, one of which rests on a grandchild's.
        let chains = [vec![], vec![], vec![], vec![], vec![1, 2], vec![4], vec![0]];
        assert_eq!(spread(&states, &chains), [false, true, false, false, true, true, true]);
    }

    #[test]
    fn a_passage_is_unchanged_moved_changed_or_gone() {
        let text = "One tide. Two tides a day, here.";
        let (verdict, passage) = Visible::of("", text).judge("Two tides a day");
        let id = DocumentId::derive(&[b"a"]);
        let citation =
            Citation { verdict, passage, ..Citation::unchecked("c".into(), "Two tides a day".into(), id) };
        for (now, expected) in [
            (Some(text), pb::SourceState::Unchanged),
            (Some("One tide. Two tides a day, there."), pb::SourceState::Unchanged),
            (Some("Two tides a day."), pb::SourceState::Moved),
            (Some("One tide. Three tides a day, here."), pb::SourceState::Changed),
            (Some(""), pb::SourceState::Changed),
            (None, pb::SourceState::Gone),
        ] {
            assert_eq!(state(&citation, now.map(|text| ("", text)), &mut None), expected, "{now:?}");
        }
    }
}
