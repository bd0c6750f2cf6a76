//! The places of a run's documents, and the texts that they had.

use tree_agent_contract::document::{Document, DocumentKind, DocumentOp, DocumentProps};
use tree_agent_contract::limits::DOCUMENT_BYTES;
use tree_agent_contract::{DocumentId, Timestamp};
use tree_agent_store::{AppendOutcome, Claim, DocumentQuery, StoreError};
use uuid::Uuid;

use crate::fixture::{Fixture, T0, append, new_run, run_id};

fn id(n: u128) -> DocumentId {
    DocumentId(Uuid::from_u128(n))
}

fn at(seq: u64) -> Timestamp {
    T0.plus_millis(seq)
}

fn create(n: u128, body: &str) -> DocumentOp {
    create_in(1, n, body)
}

fn create_in(run: u128, n: u128, body: &str) -> DocumentOp {
    DocumentOp::Create(Document {
        id: id(n),
        kind: DocumentKind::Scratchpad,
        project_id: None,
        run_id: Some(run_id(run)),
        path: String::new(),
        title: "Pad".into(),
        body: body.into(),
        props: DocumentProps::default(),
        created_at: T0,
        updated_at: T0,
    })
}

fn link(child: u128, parent: u128, seq: u64) -> DocumentOp {
    DocumentOp::Link { parent: id(parent), child: id(child), seq, at: at(seq) }
}

fn grow(n: u128, seq: u64, text: &str) -> DocumentOp {
    DocumentOp::Append { id: id(n), seq, text: text.into(), at: at(seq) }
}

fn replace(n: u128, seq: u64, text: &str) -> DocumentOp {
    DocumentOp::Replace { id: id(n), seq, text: text.into(), at: at(seq) }
}

/// Appends `events` events with these documents.
async fn write(f: &Fixture, claim: &Claim, head: u64, events: u64, documents: Vec<DocumentOp>) {
    let mut write = append(claim.run_id, claim.epoch, head, events);
    write.documents = documents;
    // An append that is repeated changes nothing.
    for _ in 0..2 {
        assert_eq!(f.store.append([write.clone()].into()).await.unwrap(), [AppendOutcome::Appended]);
    }
}

/// The text after an event; none before the document was there.
async fn text_at(f: &Fixture, n: u128, seq: u64) -> Option<String> {
    match f.store.document_at(id(n), Some(seq)).await {
        Ok(found) => Some(found.document.body),
        Err(StoreError::NotFound { what: "document", .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

async fn texts(f: &Fixture, n: u128, seqs: std::ops::RangeInclusive<u64>) -> Vec<String> {
    let mut texts = Vec::new();
    for seq in seqs {
        texts.push(text_at(f, n, seq).await.unwrap_or_else(|| "-".into()));
    }
    texts
}

pub async fn a_text_that_is_replaced_stays_in_the_history(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    // Created at event 4 of an append of events 3 to 6, and changed by the same append.
    let ops = vec![
        create(9, ""),
        create(1, "é"),
        link(1, 9, 4),
        grow(1, 4, "a"),
        grow(1, 5, "b"),
        replace(1, 6, "new"),
        grow(1, 6, "!"),
    ];
    write(&f, &claim, 2, 4, ops).await;
    write(&f, &claim, 6, 2, vec![grow(1, 7, "ü"), grow(1, 8, "more")]).await;
    write(&f, &claim, 8, 1, vec![replace(1, 9, "")]).await;
    write(&f, &claim, 9, 1, vec![grow(1, 10, "end")]).await;
    let expected = ["-", "éa", "éab", "new!", "new!ü", "new!ümore", "", "end", "end"];
    assert_eq!(texts(&f, 1, 3..=11).await, expected);
    assert_eq!(text_at(&f, 1, u64::MAX).await.unwrap(), "end");
    let now = f.store.document(id(1)).await.unwrap();
    assert_eq!((now.body.as_str(), now.created_at, now.updated_at), ("end", T0, at(10)));
    assert_eq!(f.store.document_at(id(1), Some(8)).await.unwrap().document.updated_at, at(8));
    let Some(latest) = f.store.document_at(id(1), None).await.ok() else { panic!("it is there") };
    assert_eq!((latest.document, latest.parent_id), (now, Some(id(9))));
    // The list, also in pages.
    let list = async |after, limit| {
        let page = f.store.document_versions(id(1), after, limit).await.unwrap();
        let items = page.items.iter().map(|v| (v.seq, v.at, v.bytes, v.replaced)).collect::<Vec<_>>();
        (items, page.more)
    };
    let all = [
        (4, T0, 3, true),
        (5, at(5), 4, false),
        (6, at(6), 4, true),
        (7, at(7), 6, false),
        (8, at(8), 10, false),
        (9, at(9), 0, true),
        (10, at(10), 3, false),
    ];
    assert_eq!(list(0, 9).await, (all.to_vec(), false));
    assert_eq!(list(0, 7).await, (all.to_vec(), false));
    assert_eq!(list(0, 6).await, (all[..6].to_vec(), true));
    assert_eq!(list(0, 1).await, (all[..1].to_vec(), true));
    assert_eq!(list(4, 2).await, (all[1..3].to_vec(), true));
    assert_eq!(list(9, 1).await, (all[6..].to_vec(), false));
    assert_eq!(list(10, 1).await, (vec![], false));
    let missing = f.store.document_versions(id(7), 0, 1).await.unwrap_err();
    assert!(matches!(missing, StoreError::NotFound { what: "document", .. }));
}

pub async fn a_reader_is_told_where_the_present_text_begins(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    write(&f, &claim, 2, 1, vec![create(9, ""), create(1, "héllo"), link(1, 9, 3)]).await;
    write(&f, &claim, 3, 1, vec![grow(1, 4, " you")]).await;
    let tail = async |from: u64, max| {
        let tail = f.store.document_tail(id(1), from, max).await.unwrap();
        (tail.start, tail.end, tail.text_start, String::from_utf8(tail.bytes).unwrap())
    };
    assert_eq!(tail(6, 100).await, (6, 10, 0, " you".into()));
    write(&f, &claim, 4, 1, vec![replace(1, 5, "wörld")]).await;
    // One who read everything, one who is behind, and one who begins.
    for from in [10, 6, 0] {
        assert_eq!(tail(from, 100).await, (10, 16, 10, "wörld".into()), "from {from}");
    }
    write(&f, &claim, 5, 1, vec![grow(1, 6, "!")]).await;
    assert_eq!(tail(16, 100).await, (16, 17, 10, "!".into()));
    assert_eq!(tail(10, 4).await, (10, 17, 10, "wör".into()));
    write(&f, &claim, 6, 2, vec![replace(1, 7, ""), grow(1, 8, "anew")]).await;
    assert_eq!(tail(17, 100).await, (17, 21, 17, "anew".into()));
    // A text over the limit shows its end, and is told from one that was replaced.
    write(&f, &claim, 8, 1, vec![replace(1, 9, &"x".repeat(DOCUMENT_BYTES + 9))]).await;
    write(&f, &claim, 9, 1, vec![grow(1, 10, "end")]).await;
    let (start, end, text_start, text) = tail(0, usize::MAX).await;
    assert_eq!((start, end, text_start), (24, 24 + DOCUMENT_BYTES as u64, 21));
    assert!(text.len() == DOCUMENT_BYTES && text.ends_with("xend"));
    assert_eq!(f.store.document(id(1)).await.unwrap().body, text);
    assert!(text_at(&f, 1, 9).await.unwrap() == "x".repeat(DOCUMENT_BYTES));
}

pub async fn documents_of_a_run_form_a_tree(f: Fixture) {
    let mut run = new_run(1);
    run.documents = vec![create(1, "top"), create(2, "below"), link(2, 1, 2)];
    f.store.create_run(run).await.unwrap();
    let claim = crate::make::claim(&*f.store, "a", std::time::Duration::from_secs(60), 9).await[0];
    // With the parent, before it, and below one that was there.
    let ops = vec![create(4, ""), link(4, 3, 4), create(3, ""), link(3, 2, 3), create(5, "")];
    write(&f, &claim, 2, 2, ops).await;
    // Later, and one after the other.
    write(&f, &claim, 4, 2, vec![create(6, ""), link(6, 5, 5), link(5, 4, 6)]).await;
    write(&f, &claim, 6, 1, vec![]).await;
    let parent = async |n, seq| f.store.document_at(id(n), seq).await.unwrap().parent_id;
    for (child, above, seq) in [(2, 1, 2), (3, 2, 3), (4, 3, 4), (5, 4, 6), (6, 5, 5)] {
        assert_eq!(parent(child, None).await, Some(id(above)), "{child}");
        assert_eq!(parent(child, Some(seq)).await, Some(id(above)), "{child}");
    }
    assert_eq!(parent(1, None).await, None);
    assert_eq!(parent(5, Some(5)).await, None, "it has no place yet");
    // One that is written whole again keeps its place. The same place again changes nothing.
    write(&f, &claim, 7, 1, vec![create(3, "again"), create(4, "again"), link(4, 3, 8), link(6, 5, 8)]).await;
    assert_eq!(parent(3, None).await, Some(id(2)));
    assert_eq!(parent(6, Some(5)).await, Some(id(5)));
}

pub async fn a_place_that_cannot_be_is_refused_and_nothing_is_written(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    let mut other = new_run(2);
    other.documents = vec![create_in(2, 20, ""), create_in(2, 21, ""), link(21, 20, 1)];
    f.store.create_run(other).await.unwrap();
    let ops = vec![create(1, ""), create(2, ""), link(2, 1, 3), create(3, ""), link(3, 2, 3), create(4, "")];
    write(&f, &claim, 2, 1, ops).await;
    for (ops, what) in [
        (vec![link(3, 1, 4)], "a second parent"),
        (vec![link(1, 3, 4)], "a cycle"),
        (vec![link(4, 4, 4)], "below itself"),
        (vec![create(5, ""), link(5, 5, 4)], "below itself, while it is created"),
        (vec![link(4, 3, 4), link(1, 4, 4)], "a cycle of two places"),
        (vec![create(5, ""), link(5, 3, 4), link(1, 5, 4)], "a cycle with a document that is created"),
        (
            vec![create(5, ""), create(6, ""), link(5, 6, 4), link(6, 5, 4)],
            "a cycle of documents that are created",
        ),
        (vec![create(5, ""), link(5, 1, 4), link(5, 2, 4)], "two parents at once"),
        (vec![link(4, 9, 4)], "an unknown parent"),
        (vec![create(5, ""), link(5, 9, 4)], "an unknown parent of one that is created"),
        (vec![link(9, 1, 4)], "an unknown child"),
        (vec![link(4, 20, 4)], "a parent of another run"),
        (vec![create(5, ""), link(5, 20, 4)], "a parent of another run, while it is created"),
        (vec![link(20, 1, 4)], "a child of another run"),
        (vec![create(4, "again"), link(4, 1, 4)], "a place of one that was there without"),
        (vec![create(3, "again"), link(3, 1, 4)], "another place of one that is written again"),
        (vec![link(4, 1, 3)], "the place of another event"),
    ] {
        let mut write = append(claim.run_id, claim.epoch, 3, 1);
        write.documents = ops;
        write.documents.push(grow(2, 4, "lost"));
        let error = f.store.append([write.clone()].into()).await.expect_err(what);
        assert!(matches!(error, StoreError::Conflict(_)), "{what}: {error:?}");
        assert!(!error.is_transient());
        assert_eq!(f.store.heads(&[claim.run_id]).await.unwrap(), [(claim.run_id, 3)], "{what}");
        assert_eq!(f.store.document(id(2)).await.unwrap().body, "", "{what}");
        // Nobody is told what a writer without the lease would be refused.
        write.epoch += 1;
        if !what.contains("another event")
            && !what.contains("itself")
            && !what.contains("of documents")
            && !what.contains("two parents")
        {
            assert_eq!(f.store.append([write].into()).await.unwrap(), [AppendOutcome::Fenced], "{what}");
        }
    }
    let mut unknown = new_run(3);
    unknown.documents = vec![create_in(3, 30, ""), link(30, 1, 1)];
    assert!(matches!(f.store.create_run(unknown).await, Err(StoreError::Conflict(_))));
    assert!(f.store.run(run_id(3)).await.is_err());
    write(&f, &claim, 3, 1, vec![link(4, 3, 4)]).await;
    assert_eq!(f.store.document_at(id(4), None).await.unwrap().parent_id, Some(id(3)));
}

pub async fn documents_are_found_by_their_place_and_their_part_in_homework(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    let run = claim.run_id;
    let with = |n, role: &str, branch: Option<&str>, body: &str| {
        let DocumentOp::Create(mut document) = create(n, body) else { unreachable!() };
        document.props.doc_role = Some(role.into());
        document.props.homework_run_id = Some(run);
        document.props.branch_id = branch.map(Into::into);
        document.props.tags = vec!["homework".into()];
        DocumentOp::Create(document)
    };
    let ops = vec![
        with(1, "workspace", None, ""),
        with(2, "scratchpad_root", None, "root"),
        link(2, 1, 3),
        with(3, "scratchpad_exec", Some("b1"), "one"),
        link(3, 2, 3),
        with(4, "scratchpad_exec", Some("b2"), "two"),
        link(4, 2, 3),
        replace(4, 4, "two again"),
    ];
    write(&f, &claim, 2, 2, ops).await;
    let list = async |query: DocumentQuery| {
        let page = f.store.list_documents(DocumentQuery { limit: 9, ..query }).await.unwrap();
        page.items.iter().map(|d| (d.id.0.as_u128(), d.parent_id, d.bytes)).collect::<Vec<_>>()
    };
    let (two, three, four) = ((2, Some(id(1)), 4), (3, Some(id(2)), 3), (4, Some(id(2)), 9));
    let all = DocumentQuery::default();
    let of_run = DocumentQuery { run_id: Some(run), ..all.clone() };
    assert_eq!(list(of_run).await, [(1, None, 0), two, three, four]);
    assert_eq!(list(DocumentQuery { parent_id: Some(id(2)), ..all.clone() }).await, [three, four]);
    // A later one above an earlier one, in pages.
    write(
        &f,
        &claim,
        4,
        2,
        vec![with(9, "plan", None, ""), link(9, 3, 5), with(8, "plan", None, ""), link(8, 3, 6)],
    )
    .await;
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let query = DocumentQuery { run_id: Some(run), after, limit: 2, ..all.clone() };
        let page = f.store.list_documents(query).await.unwrap();
        seen.extend(page.items.iter().map(|d| d.id.0.as_u128()));
        after = page.items.last().map(|d| (d.path.clone(), d.id));
        if !page.more {
            break;
        }
    }
    assert_eq!(seen, [1, 2, 3, 9, 8, 4], "each after the one above it");
    let role = |role: &str| DocumentQuery {
        doc_role: Some(role.into()),
        homework_run_id: Some(run),
        ..DocumentQuery::default()
    };
    assert_eq!(list(role("scratchpad_exec")).await, [three, four]);
    assert_eq!(list(role("scratchpad_root")).await, [two]);
    assert_eq!(list(role("summary")).await, []);
    assert_eq!(list(DocumentQuery { branch_id: Some("b2".into()), ..role("scratchpad_exec") }).await, [four]);
    assert_eq!(list(DocumentQuery { homework_run_id: Some(run_id(2)), ..all }).await, []);
    // As anybody may ask the database.
    let raw = "SELECT body FROM onto_documents WHERE props ->> 'doc_role' = 'scratchpad_exec' \
               AND props ->> 'homework_run_id' = '00000000-0000-0000-0000-000000000001' ORDER BY body";
    assert_eq!(f.rows(raw).await, ["one", "two again"]);
    let edges = "SELECT rel, seq FROM onto_edges ORDER BY seq, from_id, to_id";
    let edge = |seq| format!("document_has_document|{seq}");
    assert_eq!(f.rows(edges).await, [edge(3), edge(3), edge(3), edge(5), edge(6)]);
    let stored = f.store.stored(run).await.unwrap().documents;
    let edge = stored[3].edge.expect("a place");
    assert_eq!((stored[3].created_seq, edge.parent_id, edge.seq, edge.at), (3, id(2), 3, at(3)));
    // Nothing is written for a replaced text but its chunk.
    let chunks = "SELECT seq, start_byte, body FROM tree_agent_document_chunks";
    assert_eq!(f.rows(chunks).await, ["4|3|two again"]);
    let bare = crate::documents::source(50, 1, "a.md", "A", "text");
    f.store.create_project(crate::documents::new_project(1, "One")).await.unwrap();
    f.store.put_document(bare.clone()).await.unwrap();
    let none = f.store.document_versions(bare.id, 0, 9).await.unwrap();
    assert_eq!((none.items, none.more), (vec![], false), "only runs keep what was");
    assert!(matches!(f.store.document_at(bare.id, Some(1)).await, Err(StoreError::NotFound { .. })));
    assert_eq!(f.store.document_at(bare.id, None).await.unwrap().document, bare);
}
