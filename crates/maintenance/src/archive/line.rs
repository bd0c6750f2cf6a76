//! Whether what an archive says can be: the parts of its log, its numbers, the places of its documents, its citations.

use std::collections::{HashMap, HashSet};

use tree_agent_contract::error::Checks;
use tree_agent_contract::event::{Event, EventBody, RunForked};
use tree_agent_contract::{ArtifactId, DocumentId, EventId, RunId, limits};
use tree_agent_store::{RunRecord, StoredChunk, StoredDocument};

/// Levels of documents at the most: the workspace, one for each level of the deepest tree, and an artifact, with room
/// for what later versions put between them.
const DEEPEST: usize = 256;

/// Refuses segments that do not follow from the log: each is stored under the run itself and ends right before the
/// event `tree.run_forked` that names its writer. `forks` are these events with their places in the log.
pub(super) fn check(record: &RunRecord, forks: &[(u64, RunForked)]) -> Result<(), String> {
    let (run, segments) = (record.run_id, &record.segments);
    let mut origin = None;
    let mut before = 0;
    let mut writers: Vec<RunId> = vec![run];
    for (i, part) in segments.iter().enumerate() {
        if part.run != run {
            return Err(format!("has segments[{i}].run {}, which is not its own run {run}", part.run));
        }
        if part.until <= before || part.until >= record.head_seq {
            return Err(format!(
                "has segments[{i}].until {}; it must be after {before}, where the part before ends, and before the \
                 head {}",
                part.until, record.head_seq
            ));
        }
        if writers.contains(&part.writer) {
            return Err(format!("has segments[{i}].writer {} twice in its line", part.writer));
        }
        let Some((seq, fork)) = forks.get(i) else {
            return Err(format!(
                "has {} segments, but its log was forked {} times",
                segments.len(),
                forks.len()
            ));
        };
        if (fork.at_seq, *seq) != (part.until, part.until + 1) {
            return Err(format!(
                "has segments[{i}].until {}, but its log was forked with event {seq}, at event {}",
                part.until, fork.at_seq
            ));
        }
        if fork.source_run_id != part.writer {
            return Err(format!(
                "has segments[{i}].writer {}, but event {seq} says that the part is of run {}",
                part.writer, fork.source_run_id
            ));
        }
        // As the engine follows it: none means the source.
        let began = origin.unwrap_or(part.writer);
        if fork.origin_run_id.is_some_and(|named| named != began) {
            return Err(format!(
                "has segments[{i}] of a log that run {began} began, but event {seq} says otherwise"
            ));
        }
        origin = Some(fork.origin_run_id.unwrap_or(fork.source_run_id));
        before = part.until;
        writers.push(part.writer);
    }
    if forks.len() != segments.len() {
        return Err(format!("has {} segments, but its log was forked {} times", segments.len(), forks.len()));
    }
    Ok(())
}

/// Refuses numbers that a run cannot have: they would mislead whoever counts with them.
pub(super) fn check_numbers(
    record: &RunRecord,
    documents: &[StoredDocument],
    chunks: &[StoredChunk],
) -> Result<(), String> {
    /// Far more bytes than all versions of a document can have.
    const BYTES: u64 = 1 << 50;
    let head = record.head_seq;
    let epochs = record.segments.iter().map(|part| part.epoch).chain([record.epoch]);
    if let Some(epoch) = epochs.into_iter().find(|epoch| *epoch >= EventId::EPOCHS) {
        return Err(format!("names epoch {epoch}; epochs are below {}", EventId::EPOCHS));
    }
    for StoredDocument { document, dropped_bytes, base_seq, created_seq, edge } in documents {
        let seqs = [Some(*base_seq), *created_seq, edge.map(|edge| edge.seq)];
        if seqs.into_iter().flatten().any(|seq| seq > head) || *dropped_bytes >= BYTES {
            return Err(format!("holds document {} with an event or a length that cannot be", document.id));
        }
    }
    check_places(documents)?;
    match chunks.iter().find(|chunk| chunk.seq > head || chunk.start_byte >= BYTES) {
        Some(chunk) => {
            Err(format!("holds a chunk of document {} with a place that cannot be", chunk.document_id))
        }
        None => Ok(()),
    }
}

/// Refuses documents that are below another one which the archive does not hold, below themselves, or deeper than any
/// run puts them: whoever lists them follows the places.
fn check_places(documents: &[StoredDocument]) -> Result<(), String> {
    let parents: HashMap<DocumentId, Option<DocumentId>> =
        documents.iter().map(|one| (one.document.id, one.edge.map(|edge| edge.parent_id))).collect();
    for id in parents.keys() {
        let (mut at, mut levels) = (*id, 0);
        while let Some(parent) = parents.get(&at).copied().flatten() {
            (at, levels) = (parent, levels + 1);
            if levels > DEEPEST || !parents.contains_key(&parent) {
                return Err(format!("holds document {id} in a place that cannot be"));
            }
        }
    }
    Ok(())
}

/// The citations of an archive. They are shown by artifact, so each artifact has those of one event.
#[derive(Debug, Default)]
pub(super) struct Citations(HashSet<ArtifactId>);

impl Citations {
    /// Refuses more citations of an artifact, or longer ones, than a role may return.
    pub(super) fn event(&mut self, event: &Event) -> Result<(), String> {
        let EventBody::ArtifactCited(e) = &event.body else { return Ok(()) };
        if !self.0.insert(e.artifact_id) {
            return Err(format!("artifact {} has got its citations before", e.artifact_id));
        }
        let mut checks = Checks::default();
        checks.range("citations", e.citations.len() as u64, 0..=limits::CITATIONS as u64);
        for (i, citation) in e.citations.iter().enumerate() {
            citation.check(format_args!("citations[{i}]"), &mut checks);
        }
        checks.finish().map_err(|invalid| invalid.to_string())
    }
}

#[cfg(test)]
mod tests {
    use tree_agent_contract::event::ArtifactCited;
    use tree_agent_contract::{Citation, NodeId, Timestamp, Verdict};
    use uuid::Uuid;

    use super::*;

    fn cited(artifact: u128, citations: usize) -> Event {
        let (run_id, citation) = (
            RunId(Uuid::from_u128(1)),
            Citation {
                claim: "It has two locks.".into(),
                quote: "has two locks".into(),
                document_id: DocumentId::derive(&[b"a"]),
                verdict: Verdict::NoSource,
                passage: None,
            },
        );
        let body = ArtifactCited {
            artifact_id: ArtifactId(Uuid::from_u128(artifact)),
            citations: vec![citation; citations],
        };
        Event {
            run_id,
            seq: 1,
            node_id: NodeId::root(run_id),
            parent_node_id: None,
            timestamp: Timestamp(0),
            body: body.into(),
        }
    }

    #[test]
    fn an_artifact_has_the_citations_of_one_event() {
        let mut citations = Citations::default();
        assert_eq!(citations.event(&cited(1, limits::CITATIONS)), Ok(()));
        assert_eq!(citations.event(&cited(2, 1)), Ok(()));
        let again = citations.event(&cited(1, 1)).unwrap_err();
        assert!(again.contains("has got its citations before"), "{again}");
        assert!(citations.event(&cited(3, limits::CITATIONS + 1)).is_err());
    }
}
