//! The document writes of one append, as both adapters write them: each document is created once, and grows by one
//! chunk for each event.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use tree_agent_contract::document::{Document, DocumentOp};
use tree_agent_contract::limits::DOCUMENT_BYTES;
use tree_agent_contract::text::suffix;
use tree_agent_contract::{DocumentId, RunId, Timestamp};

use crate::error::StoreError;
use crate::text::clean;

/// Document writes: at most one creation per document, and one chunk per document and event.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct DocumentWrites<'a> {
    pub(crate) creates: Vec<CreateWrite<'a>>,
    pub(crate) appends: Vec<ChunkWrite<'a>>,
    /// The places of documents that were there before.
    pub(crate) links: Vec<LinkWrite>,
}

/// A document that is created.
#[derive(Debug, PartialEq)]
pub(crate) struct CreateWrite<'a> {
    pub(crate) document: Cow<'a, Document>,
    /// The first event at which its text is known.
    pub(crate) created_seq: u64,
    /// The last event whose text is in the body.
    pub(crate) base_seq: u64,
    /// Its place. One that exists already must have this place.
    pub(crate) link: Option<LinkWrite>,
    /// The document above it is created with it.
    pub(crate) parent_is_new: bool,
}

/// Text that is added to a document with an event.
#[derive(Debug, PartialEq)]
pub(crate) struct ChunkWrite<'a> {
    pub(crate) id: DocumentId,
    pub(crate) seq: u64,
    /// Where the document ends before this append, if it is created with it.
    pub(crate) base: Option<u64>,
    /// Bytes that the same append adds to the document before it.
    pub(crate) offset: u64,
    pub(crate) text: Cow<'a, str>,
    /// It is the whole text from here on.
    pub(crate) replaces: bool,
    pub(crate) at: Timestamp,
}

/// The place of a document in the tree of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkWrite {
    pub(crate) child: DocumentId,
    pub(crate) parent: DocumentId,
    pub(crate) seq: u64,
    pub(crate) at: Timestamp,
}

/// Refuses places that contradict each other, whatever is stored: two for one document, a document below itself, and
/// the place of another event than those of the append.
pub(crate) fn check_links(run: RunId, head: u64, events: u64, ops: &[DocumentOp]) -> Result<(), StoreError> {
    let mut parents: BTreeMap<DocumentId, DocumentId> = BTreeMap::new();
    for op in ops {
        let DocumentOp::Link { parent, child, seq, .. } = op else { continue };
        let refused = |why: String| Err(StoreError::refused_place(run, *child, *parent, &why));
        if !(head + 1..=head + events).contains(seq) {
            return refused(format!("event {seq} is none of the append"));
        }
        if let Some(present) = parents.insert(*child, *parent).filter(|present| present != parent) {
            return refused(format!("it is below {present}"));
        }
        if above(*parent, |id| parents.get(&id).copied()).any(|id| id == *child) {
            return refused("it is above it".to_owned());
        }
    }
    Ok(())
}

/// A document and those above it.
fn above(
    from: DocumentId,
    parent: impl Fn(DocumentId) -> Option<DocumentId>,
) -> impl Iterator<Item = DocumentId> {
    std::iter::successors(Some(from), move |id| parent(*id))
}

impl<'a> DocumentWrites<'a> {
    /// Merges `ops` of the events `first` to `head`: what is added to a document with the event that creates it becomes
    /// part of its body.
    ///
    /// The event that creates a document is that of its place. One without a place is known from the first event of the
    /// append on, and its body holds all that the append adds to it.
    pub(crate) fn merge(ops: &'a [DocumentOp], first: u64, head: u64) -> Self {
        let links: HashMap<DocumentId, LinkWrite> = ops
            .iter()
            .filter_map(|op| match op {
                DocumentOp::Link { parent, child, seq, at } => {
                    Some((*child, LinkWrite { child: *child, parent: *parent, seq: *seq, at: *at }))
                }
                _ => None,
            })
            .collect();
        let mut merged = Self::default();
        let mut created: HashMap<DocumentId, usize> = HashMap::new();
        for op in ops {
            match op {
                DocumentOp::Create(document) => {
                    // The creation replaces what was added before it.
                    merged.appends.retain(|chunk| chunk.id != document.id);
                    if let Some(i) = created.get(&document.id) {
                        merged.creates[*i].document = Cow::Borrowed(document);
                        continue;
                    }
                    created.insert(document.id, merged.creates.len());
                    let link = links.get(&document.id).copied();
                    merged.creates.push(CreateWrite {
                        document: Cow::Borrowed(document),
                        created_seq: link.map_or(first, |link| link.seq),
                        base_seq: link.map_or(head, |link| link.seq),
                        link,
                        parent_is_new: false,
                    });
                }
                DocumentOp::Append { text, .. } if text.is_empty() => {}
                DocumentOp::Append { id, seq, text, at } | DocumentOp::Replace { id, seq, text, at } => {
                    let replaces = matches!(op, DocumentOp::Replace { .. });
                    let create = created.get(id).map(|i| &mut merged.creates[*i]);
                    if let Some(create) = create.filter(|create| *seq <= create.base_seq) {
                        let document = create.document.to_mut();
                        if replaces {
                            document.body.clear();
                        }
                        document.body.push_str(text);
                        document.updated_at = *at;
                        continue;
                    }
                    let text = clean(suffix(text, DOCUMENT_BYTES));
                    merged.chunk(ChunkWrite {
                        id: *id,
                        seq: *seq,
                        base: None,
                        offset: 0,
                        text,
                        replaces,
                        at: *at,
                    });
                }
                DocumentOp::Link { child, .. } => {
                    // Those of documents that are created are written with them.
                    merged.links.extend(links.get(child).filter(|link| !merged.links.contains(link)));
                }
            }
        }
        merged.links.retain(|link| !created.contains_key(&link.child));
        for create in &mut merged.creates {
            create.parent_is_new = create.link.is_some_and(|link| created.contains_key(&link.parent));
            if create.document.body.len() > DOCUMENT_BYTES {
                let kept = suffix(&create.document.body, DOCUMENT_BYTES).to_owned();
                create.document.to_mut().body = kept;
            }
        }
        for chunk in &mut merged.appends {
            let create = created.get(&chunk.id).map(|i| &merged.creates[*i]);
            chunk.base = create.map(|create| clean(&create.document.body).len() as u64);
        }
        merged
    }

    /// Adds a chunk, or its text to that of the same event.
    fn chunk(&mut self, mut chunk: ChunkWrite<'a>) {
        match self.appends.iter_mut().rev().find(|before| before.id == chunk.id) {
            Some(before) if before.seq == chunk.seq => {
                before.at = chunk.at;
                if chunk.replaces {
                    (before.text, before.replaces) = (chunk.text, true);
                } else {
                    before.text.to_mut().push_str(&chunk.text);
                }
                return;
            }
            Some(before) => chunk.offset = before.offset + before.text.len() as u64,
            None => {}
        }
        self.appends.push(chunk);
    }
}

#[cfg(test)]
mod tests {
    use tree_agent_contract::document::{DocumentKind, DocumentProps};
    use uuid::Uuid;

    use super::*;

    fn id(id: u128) -> DocumentId {
        DocumentId(Uuid::from_u128(id))
    }

    fn document(n: u128, body: &str) -> Document {
        Document {
            id: id(n),
            kind: DocumentKind::Scratchpad,
            project_id: None,
            run_id: None,
            path: String::new(),
            title: "t".into(),
            body: body.into(),
            props: DocumentProps::default(),
            created_at: Timestamp(1),
            updated_at: Timestamp(1),
        }
    }

    fn append(n: u128, text: &str, at: i64) -> DocumentOp {
        DocumentOp::Append { id: id(n), seq: at as u64, text: text.into(), at: Timestamp(at) }
    }

    fn replace(n: u128, text: &str, at: i64) -> DocumentOp {
        DocumentOp::Replace { id: id(n), seq: at as u64, text: text.into(), at: Timestamp(at) }
    }

    fn link(child: u128, parent: u128, seq: u64) -> DocumentOp {
        DocumentOp::Link { parent: id(parent), child: id(child), seq, at: Timestamp(seq as i64) }
    }

    fn chunk(n: u128, seq: u64, offset: u64, text: &'static str) -> ChunkWrite<'static> {
        let at = Timestamp(seq as i64);
        ChunkWrite { id: id(n), seq, base: None, offset, text: text.into(), replaces: false, at }
    }

    #[test]
    fn one_creation_of_a_document_and_one_chunk_of_an_event_remain() {
        let ops = [
            append(2, "lost", 2),
            DocumentOp::Create(document(1, "a")),
            append(1, "b", 3),
            append(3, "x", 4),
            DocumentOp::Create(document(2, "new")),
            append(3, "ü\0", 5),
            append(3, "z", 5),
            append(3, "", 6),
            append(3, "end", 7),
        ];
        let writes = DocumentWrites::merge(&ops, 2, 7);
        let create = |document| CreateWrite {
            document: Cow::Owned(document),
            created_seq: 2,
            base_seq: 7,
            link: None,
            parent_is_new: false,
        };
        assert_eq!(
            writes.creates,
            [create(Document { updated_at: Timestamp(3), ..document(1, "ab") }), create(document(2, "new"))]
        );
        // Places count the bytes that are stored.
        assert_eq!(
            writes.appends,
            [chunk(3, 4, 0, "x"), chunk(3, 5, 1, "ü\u{fffd}z"), chunk(3, 7, 7, "end")]
        );
        assert_eq!(writes.links, []);
    }

    #[test]
    fn a_document_with_a_place_keeps_each_of_its_texts() {
        let ops = [
            DocumentOp::Create(document(1, "a\0")),
            link(1, 2, 4),
            append(1, "b", 4),
            append(1, "cd", 5),
            replace(1, "x", 6),
            append(1, "y", 6),
            append(1, "lost", 7),
            replace(1, "z", 7),
            DocumentOp::Create(document(2, "")),
            link(3, 2, 5),
        ];
        let writes = DocumentWrites::merge(&ops, 3, 8);
        let place = |child, parent, seq| LinkWrite {
            child: id(child),
            parent: id(parent),
            seq,
            at: Timestamp(seq as i64),
        };
        let first = Document { updated_at: Timestamp(4), ..document(1, "a\0b") };
        let first = CreateWrite {
            document: Cow::Owned(first),
            created_seq: 4,
            base_seq: 4,
            link: Some(place(1, 2, 4)),
            parent_is_new: true,
        };
        assert_eq!(writes.creates[0], first);
        assert_eq!((writes.creates[1].created_seq, writes.creates[1].base_seq), (3, 8));
        let grown = |chunk, replaces| ChunkWrite { base: Some(5), replaces, ..chunk };
        assert_eq!(
            writes.appends,
            [
                grown(chunk(1, 5, 0, "cd"), false),
                grown(chunk(1, 6, 2, "xy"), true),
                grown(chunk(1, 7, 4, "z"), true)
            ]
        );
        assert_eq!(writes.links, [place(3, 2, 5)]);
    }

    #[test]
    fn places_that_contradict_each_other_are_refused() {
        let check = |ops: &[DocumentOp]| {
            check_links(RunId(Uuid::nil()), 4, 2, ops).map_err(|error| error.to_string())
        };
        assert_eq!(check(&[link(1, 2, 5), link(2, 3, 6), link(1, 2, 6)]), Ok(()));
        for (ops, why) in [
            (vec![link(1, 2, 5), link(1, 3, 6)], "it is below"),
            (vec![link(1, 1, 5)], "it is above it"),
            (vec![link(1, 2, 5), link(2, 3, 5), link(3, 1, 5)], "it is above it"),
            (vec![link(1, 2, 4)], "event 4 is none"),
            (vec![link(1, 2, 7)], "event 7 is none"),
        ] {
            let error = check(&ops).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
