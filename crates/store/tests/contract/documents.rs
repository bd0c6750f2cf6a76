//! Documents, projects and rebuilt projections.

use tree_agent_contract::document::{Document, DocumentKind, DocumentOp, DocumentProps};
use tree_agent_contract::limits::{DOCUMENT_BYTES, PAGE_MAX};
use tree_agent_contract::{DocumentId, DocumentImport, NodeId, ProjectId, Timestamp};
use tree_agent_store::{AppendOutcome, DocumentQuery, NewProject, Project, ProjectQuery, StoreError};
use uuid::Uuid;

use crate::fixture::{Fixture, T0, append, run_id};

pub fn project_id(n: u128) -> ProjectId {
    ProjectId(Uuid::from_u128(0xaa00 + n))
}

pub fn new_project(n: u128, name: &str) -> NewProject {
    NewProject { project: project(n, name), user_id: String::new(), request_id: String::new() }
}

fn project(n: u128, name: &str) -> Project {
    Project { description: "d".into(), ..Project::new(project_id(n), name, T0) }
}

fn named(contains: &str, after: &str, limit: usize) -> ProjectQuery {
    ProjectQuery { name_contains: contains.into(), after_name: after.into(), limit, ..Default::default() }
}

pub fn source(n: u128, project: u128, path: &str, title: &str, body: &str) -> Document {
    Document {
        id: DocumentId(Uuid::from_u128(n)),
        kind: DocumentKind::Source,
        project_id: Some(project_id(project)),
        run_id: None,
        path: path.into(),
        title: title.into(),
        body: body.into(),
        props: DocumentProps::default(),
        created_at: T0,
        updated_at: T0,
    }
}

pub async fn putting_replaces_and_keeps_paths_unique(f: Fixture) {
    f.store.create_project(new_project(1, "One")).await.unwrap();
    let first = source(1, 1, "a/b.md", "Title", "old wörds");
    f.store.put_document(first.clone()).await.unwrap();
    assert_eq!(f.store.document(first.id).await.unwrap(), first);
    let mut second = source(1, 1, "a/b.md", "Other", "new words");
    second.props.tree_agent_node_id = Some(NodeId::root(run_id(1)));
    second.updated_at = Timestamp(T0.micros() + 1);
    f.store.put_document(second.clone()).await.unwrap();
    assert_eq!(f.store.document(first.id).await.unwrap(), second);
    let error = f.store.put_document(source(2, 1, "a/b.md", "x", "x")).await.unwrap_err();
    assert!(matches!(&error, StoreError::Conflict(text) if text.contains("a/b.md")), "{error:?}");
    let error = f.store.put_document(source(3, 9, "c.md", "x", "x")).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound { what: "project", .. }), "{error:?}");
    let missing = f.store.document(DocumentId(Uuid::from_u128(2))).await.unwrap_err();
    assert!(matches!(missing, StoreError::NotFound { what: "document", .. }));
}

pub async fn a_deleted_source_is_gone_and_an_import_deletes_only_its_own(f: Fixture) {
    f.store.create_project(new_project(1, "One")).await.unwrap();
    let imported = |n, path: &str, by: &str| {
        let mut document = source(n, 1, path, "T", "wörds");
        document.props.content_hash = Some("ab".repeat(32).into());
        document.props.import = Some(Box::new(DocumentImport {
            source: by.into(),
            file: format!("{path}\"'"),
            fingerprint: "f".into(),
            left_out: "page 2".into(),
        }));
        document
    };
    let (ours, theirs) = (imported(1, "a.md", "it's \"ours\""), imported(2, "b.md", "theirs"));
    let of_nobody = source(3, 1, "c.md", "T", "wörds");
    for document in [&ours, &theirs, &of_nobody] {
        f.store.put_document(document.clone()).await.unwrap();
    }
    assert_eq!(f.store.document(ours.id).await.unwrap(), ours, "props are kept");
    let listed = f.store.list_documents(DocumentQuery { limit: 1, ..Default::default() }).await.unwrap();
    assert_eq!(listed.items[0].props, ours.props);
    let import = Some("it's \"ours\"");
    let stored = async || f.store.project(project_id(1)).await.unwrap().document_count;
    assert!(!f.store.delete_source(theirs.id, import).await.unwrap());
    assert!(!f.store.delete_source(of_nobody.id, import).await.unwrap());
    assert_eq!(stored().await, 3);
    assert!(f.store.delete_source(ours.id, import).await.unwrap());
    assert!(f.store.delete_source(of_nobody.id, None).await.unwrap());
    assert_eq!(stored().await, 1);
    for import in [None, import] {
        let error = f.store.delete_source(ours.id, import).await.unwrap_err();
        assert!(matches!(error, StoreError::NotFound { what: "document", .. }), "{error:?}");
    }
    f.store.put_document(ours.clone()).await.unwrap();
    assert_eq!(stored().await, 2, "its path is free again");
    // What a run wrote is no source.
    let claim = f.claimed(1, "a").await;
    let pad = Document {
        project_id: None,
        run_id: Some(claim.run_id),
        ..source(5, 1, "", "Scratchpad", "# Notes\n")
    };
    f.store.put_document(pad.clone()).await.unwrap();
    let error = f.store.delete_source(pad.id, None).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound { what: "document", .. }), "{error:?}");
    assert_eq!(f.store.document(pad.id).await.unwrap().body, pad.body);
}

pub async fn documents_of_appends_grow_and_keep_their_end(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    let id = DocumentId(Uuid::from_u128(5));
    let pad = Document {
        kind: DocumentKind::Scratchpad,
        project_id: None,
        run_id: Some(claim.run_id),
        ..source(5, 1, "", "Scratchpad", "# Notes\n")
    };
    let grow =
        |text: &str, at| DocumentOp::Append { id, seq: at as u64, text: text.into(), at: Timestamp(at) };
    let mut write = append(claim.run_id, claim.epoch, 2, 1);
    write.documents = vec![DocumentOp::Create(pad.clone()), grow("one\n", 7), grow("two\n", 8)];
    f.store.append([write].into()).await.unwrap();
    let stored = f.store.document(id).await.unwrap();
    let expected = Document { body: "# Notes\none\ntwo\n".into(), updated_at: Timestamp(8), ..pad };
    assert_eq!(stored, expected);
    let mut write = append(claim.run_id, claim.epoch, 3, 1);
    write.documents = vec![grow("three\n", 9), grow("four\n", 10)];
    f.store.append([write].into()).await.unwrap();
    let stored = f.store.document(id).await.unwrap();
    assert_eq!(
        (stored.body.as_str(), stored.updated_at),
        ("# Notes\none\ntwo\nthree\nfour\n", Timestamp(10))
    );
    let mut fenced = append(claim.run_id, claim.epoch, 3, 1);
    fenced.documents = vec![grow("lost", 11)];
    fenced.events[0].timestamp = T0;
    assert_eq!(f.store.append([fenced].into()).await.unwrap(), [AppendOutcome::Fenced]);
    let mut write = append(claim.run_id, claim.epoch, 4, 1);
    write.documents = vec![grow(&format!("{}x", "é".repeat(DOCUMENT_BYTES / 2)), 12)];
    f.store.append([write].into()).await.unwrap();
    let mut write = append(claim.run_id, claim.epoch, 5, 1);
    write.documents = vec![grow("end", 13)];
    f.store.append([write].into()).await.unwrap();
    // If a single append exceeds the limit, the part that was cut off was never part of the document.
    let whole = "# Notes\none\ntwo\nthree\nfour\n".len() + DOCUMENT_BYTES - 1 + "end".len();
    let tail = f.store.document_tail(id, whole as u64 - 4, usize::MAX).await.unwrap();
    assert_eq!((tail.start, tail.end, &*tail.bytes), (whole as u64 - 4, whole as u64, b"xend".as_slice()));
    let body = f.store.document(id).await.unwrap().body;
    // The first of these writes cut within a character, the second between two.
    assert!(body == format!("{}xend", "é".repeat(DOCUMENT_BYTES / 2 - 2)), "{} bytes", body.len());
}

pub async fn the_tail_of_a_document_begins_where_it_is_asked_for(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    let id = DocumentId(Uuid::from_u128(5));
    let pad = Document {
        kind: DocumentKind::Scratchpad,
        project_id: None,
        run_id: Some(claim.run_id),
        ..source(5, 1, "", "Scratchpad", "héllo\n")
    };
    let mut write = append(claim.run_id, claim.epoch, 2, 1);
    write.documents = vec![DocumentOp::Create(pad)];
    f.store.append([write].into()).await.unwrap();
    let tail = async |from: u64| {
        let tail = f.store.document_tail(id, from, usize::MAX).await.unwrap();
        assert_eq!(tail.bytes.len() as u64, tail.end.saturating_sub(tail.start));
        (tail.start, tail.end, tail.bytes)
    };
    assert_eq!(tail(0).await, (0, 7, "héllo\n".as_bytes().to_vec()));
    assert_eq!(tail(2).await, (2, 7, "héllo\n".as_bytes()[2..].to_vec()), "also within a character");
    assert_eq!(tail(7).await, (7, 7, vec![]));
    assert_eq!(tail(u64::MAX).await.1, 7);
    // A follower that continues at its end gets each byte once. Bytes that are no longer kept are skipped.
    let (mut head, mut seen, mut at) = (3, String::from("héllo\n"), 7);
    for text in ["a".to_owned(), "ü\0".into(), "b".repeat(DOCUMENT_BYTES - 3), "ccc".into(), "d".into()] {
        let mut write = append(claim.run_id, claim.epoch, head, 1);
        write.documents =
            vec![DocumentOp::Append { id, seq: head + 1, text: text.clone(), at: Timestamp(9) }];
        assert_eq!(f.store.append([write].into()).await.unwrap(), [AppendOutcome::Appended]);
        head += 1;
        let (start, end, bytes) = tail(at).await;
        assert_eq!(start, at, "{}", text.len());
        seen.push_str(std::str::from_utf8(&bytes).unwrap());
        at = end;
    }
    let body = f.store.document(id).await.unwrap().body;
    assert!(seen.ends_with(&body) && seen.len() as u64 == at && body.len() <= DOCUMENT_BYTES);
    assert_eq!(tail(0).await, (at - body.len() as u64, at, body.clone().into_bytes()));
    let empty = Document {
        kind: DocumentKind::Scratchpad,
        project_id: None,
        run_id: Some(claim.run_id),
        ..source(7, 1, "", "Scratchpad", "")
    };
    let mut write = append(claim.run_id, claim.epoch, head, 1);
    write.documents = vec![DocumentOp::Create(empty)];
    assert_eq!(f.store.append([write].into()).await.unwrap(), [AppendOutcome::Appended]);
    let empty = f.store.document_tail(DocumentId(Uuid::from_u128(7)), 0, usize::MAX).await.unwrap();
    assert_eq!((empty.start, empty.end, empty.bytes), (0, 0, vec![]), "before anything is written");
    let missing = f.store.document_tail(DocumentId(Uuid::from_u128(6)), 0, usize::MAX).await.unwrap_err();
    assert!(matches!(missing, StoreError::NotFound { what: "document", .. }));
}

pub async fn listing_pages_by_path_and_filters(f: Fixture) {
    f.store.create_project(new_project(1, "One")).await.unwrap();
    f.store.create_project(new_project(2, "Two")).await.unwrap();
    for (n, p, path) in [(1, 1, "b.md"), (2, 1, "a/Z.md"), (3, 1, "a/a.md"), (4, 2, "b.md"), (5, 2, "a_.md")]
    {
        f.store.put_document(source(n, p, path, "T", "bödy")).await.unwrap();
    }
    let mut pad = source(6, 1, "", "Pad", "x");
    (pad.kind, pad.project_id, pad.run_id) = (DocumentKind::Scratchpad, None, Some(run_id(7)));
    f.store.put_document(pad).await.unwrap();
    let list = async |query: DocumentQuery| {
        let page = f.store.list_documents(query).await.unwrap();
        page.items.iter().map(|d| d.id.0.as_u128()).collect::<Vec<_>>()
    };
    let all = DocumentQuery { limit: PAGE_MAX, ..DocumentQuery::default() };
    assert_eq!(list(all.clone()).await, [6, 2, 3, 5, 1, 4]);
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = f
            .store
            .list_documents(DocumentQuery { after, limit: 2, ..DocumentQuery::default() })
            .await
            .unwrap();
        seen.extend(page.items.iter().map(|d| d.id.0.as_u128()));
        after = page.items.last().map(|d| (d.path.clone(), d.id));
        if !page.more {
            break;
        }
    }
    assert_eq!(seen, [6, 2, 3, 5, 1, 4]);
    assert_eq!(list(DocumentQuery { project_ids: vec![project_id(2)], ..all.clone() }).await, [5, 4]);
    assert_eq!(list(DocumentQuery { path_prefix: "a/".into(), ..all.clone() }).await, [2, 3]);
    assert_eq!(list(DocumentQuery { path_prefix: "a_".into(), ..all.clone() }).await, [5]);
    assert_eq!(list(DocumentQuery { run_id: Some(run_id(7)), ..all.clone() }).await, [6]);
    assert_eq!(list(DocumentQuery { kinds: vec![DocumentKind::Source], ..all.clone() }).await.len(), 5);
    let summary = &f.store.list_documents(all).await.unwrap().items[1];
    assert_eq!((summary.bytes, summary.path.as_str(), summary.updated_at), (5, "a/Z.md", T0));
}

pub async fn a_source_is_read_in_pieces(f: Fixture) {
    f.store.create_project(new_project(1, "One")).await.unwrap();
    let body = "aü€🙂 ".repeat(1_000);
    let mut document = source(1, 1, "a.md", "A", &body);
    f.store.put_document(document.clone()).await.unwrap();
    for max in [4, 1_000, 10_000, usize::MAX] {
        let mut text = Vec::new();
        while text.len() < body.len() {
            let piece = f.store.document_tail(document.id, text.len() as u64, max).await.unwrap();
            assert_eq!((piece.start, piece.end), (text.len() as u64, body.len() as u64));
            assert_eq!(piece.written_at, document.updated_at);
            assert!((1..=max).contains(&piece.bytes.len()), "{max}: {}", piece.bytes.len());
            text.extend(piece.bytes);
        }
        assert!(text == body.as_bytes(), "{max}");
    }
    for from in [body.len() as u64, u64::MAX] {
        let behind = f.store.document_tail(document.id, from, 100).await.unwrap();
        assert_eq!((behind.end, behind.bytes), (body.len() as u64, vec![]));
    }
    document.body = String::new();
    document.updated_at = Timestamp(T0.micros() + 1);
    f.store.put_document(document.clone()).await.unwrap();
    let empty = f.store.document_tail(document.id, 0, 100).await.unwrap();
    assert_eq!((empty.start, empty.end, empty.bytes), (0, 0, vec![]));
    assert_eq!(empty.written_at, document.updated_at, "it was written anew");
}

pub async fn a_request_id_belongs_to_the_user_who_sent_it(f: Fixture) {
    let asked = |n, name: &str, user: &str, request: &str| NewProject {
        project: project(n, name),
        user_id: user.into(),
        request_id: request.into(),
    };
    let anns = f.store.create_project(asked(1, "Ann's", "ann", "r")).await.unwrap();
    assert_eq!(anns, project(1, "Ann's"));
    // Repeated, it is answered with what it made, whatever it says now.
    assert_eq!(f.store.create_project(asked(2, "Ann's", "ann", "r")).await.unwrap(), anns);
    assert_eq!(f.store.create_project(asked(3, "Other", "ann", "r")).await.unwrap(), anns);
    let bobs = f.store.create_project(asked(4, "Bob's", "bob", "r")).await.unwrap();
    assert_eq!(bobs, project(4, "Bob's"));
    // The request of another user says nothing: a name in use is refused as without a request id.
    for request in ["r", "s", ""] {
        let error = f.store.create_project(asked(5, "ann's", "eve", request)).await.unwrap_err();
        assert!(matches!(&error, StoreError::Conflict(text) if text.contains("ann's")), "{error:?}");
    }
    f.store.create_project(asked(6, "Without", "ann", "")).await.unwrap();
    f.store.create_project(asked(7, "Without too", "ann", "")).await.unwrap();
    assert_eq!(f.store.list_projects(named("", "", 10)).await.unwrap().items.len(), 4);
}

pub async fn concurrent_requests_with_one_id_make_one_project(f: Fixture) {
    let create = |n: u128| {
        let store = f.store.clone();
        let new = NewProject { project: project(n, "One"), user_id: "ann".into(), request_id: "r".into() };
        tokio::spawn(async move { store.create_project(new).await.unwrap().id })
    };
    let tasks: Vec<_> = (1..=8).map(create).collect();
    let mut ids = Vec::new();
    for task in tasks {
        ids.push(task.await.unwrap());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
}

pub async fn projects_have_unique_names_and_pages(f: Fixture) {
    for (n, name) in [(1, "beta"), (2, "Alpha"), (3, "Ärger"), (4, "alphabet")] {
        f.store.create_project(new_project(n, name)).await.unwrap();
    }
    f.store.create_project(new_project(2, "Alpha")).await.unwrap();
    let error = f.store.create_project(new_project(5, "ÄRGER")).await.unwrap_err();
    assert!(matches!(&error, StoreError::Conflict(text) if text.contains("ÄRGER")), "{error:?}");
    f.store.put_document(source(1, 2, "a.md", "T", "x")).await.unwrap();
    let found = f.store.project(project_id(2)).await.unwrap();
    let expected = Project { document_count: 1, revision: found.revision, ..project(2, "Alpha") };
    assert_eq!(found, expected);
    let missing = f.store.project(project_id(9)).await.unwrap_err();
    assert!(matches!(missing, StoreError::NotFound { what: "project", .. }));
    let list = async |contains: &str, after: &str, limit| {
        let page = f.store.list_projects(named(contains, after, limit)).await.unwrap();
        (page.items.into_iter().map(|p| p.name).collect::<Vec<_>>(), page.more)
    };
    assert_eq!(list("", "", 10).await.0, ["Alpha", "alphabet", "beta", "Ärger"]);
    assert_eq!(list("", "", 2).await, (vec!["Alpha".into(), "alphabet".into()], true));
    assert_eq!(list("", "alphabet", 2).await, (vec!["beta".into(), "Ärger".into()], false));
    assert_eq!(list("ALPHA", "", 10).await.0, ["Alpha", "alphabet"]);
    assert_eq!(list("ärg", "", 10).await.0, ["Ärger"]);
}

pub async fn a_document_keeps_every_version_of_itself(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    let id = DocumentId(Uuid::from_u128(5));
    let pad = Document {
        kind: DocumentKind::Scratchpad,
        project_id: None,
        run_id: Some(claim.run_id),
        ..source(5, 1, "", "Scratchpad", "hé\n")
    };
    let grow =
        |seq: u64, text: &str| DocumentOp::Append { id, seq, text: text.into(), at: Timestamp(seq as i64) };
    let write = async |head: u64, events: u64, documents: Vec<DocumentOp>| {
        let mut write = append(claim.run_id, claim.epoch, head, events);
        write.documents = documents;
        assert_eq!(f.store.append([write].into()).await.unwrap(), [AppendOutcome::Appended]);
    };
    write(2, 2, vec![DocumentOp::Create(pad.clone()), grow(4, "created with it\n")]).await;
    write(4, 3, vec![grow(5, "one\n"), grow(7, "abc\0ee\n")]).await;
    write(7, 1, vec![grow(8, "four\n")]).await;
    // Nothing that is there is written again, and the text at an event is what was added until then.
    let chunks = "SELECT seq, start_byte, body FROM tree_agent_document_chunks ORDER BY seq";
    assert_eq!(f.rows(chunks).await, ["5|20|one\n", "7|24|abc\u{fffd}ee\n", "8|33|four\n"]);
    let base = "SELECT body, base_seq, dropped_bytes FROM tree_agent_documents";
    assert_eq!(f.rows(base).await, ["hé\ncreated with it\n|4|0"]);
    let whole = "hé\ncreated with it\none\nabc\u{fffd}ee\nfour\n";
    let stored = f.store.document(id).await.unwrap();
    assert_eq!((stored.body.as_str(), stored.updated_at), (whole, Timestamp(8)));
    let listed =
        f.store.list_documents(DocumentQuery { limit: 9, ..Default::default() }).await.unwrap().items;
    assert_eq!((listed[0].bytes, listed[0].updated_at), (whole.len() as u64, Timestamp(8)));
    for from in 0..=whole.len() {
        let tail = f.store.document_tail(id, from as u64, usize::MAX).await.unwrap();
        assert_eq!((tail.start, tail.end), (from as u64, whole.len() as u64));
        assert_eq!(tail.bytes, whole.as_bytes()[from..], "from {from}");
    }
    // A page of chunks begins after a place.
    let paged = f.store.document_chunks(claim.run_id, Some((id, 5)), 1).await.unwrap();
    assert_eq!((paged.len(), paged[0].seq, paged[0].start_byte), (1, 7, 24));
    // In pieces, each of whole characters.
    for max in [4, 5, 7, 100] {
        let mut text = Vec::new();
        while text.len() < whole.len() {
            let piece = f.store.document_tail(id, text.len() as u64, max).await.unwrap();
            assert_eq!((piece.start, piece.end), (text.len() as u64, whole.len() as u64));
            assert!((1..=max).contains(&piece.bytes.len()), "{max}: {piece:?}");
            assert!(std::str::from_utf8(&piece.bytes).is_ok(), "{max}: {piece:?}");
            text.extend(piece.bytes);
        }
        assert_eq!(text, whole.as_bytes());
    }
    // A document that is written again begins anew, and what it was stays known.
    write(8, 1, vec![grow(9, "lost"), DocumentOp::Create(Document { body: "new ".into(), ..pad })]).await;
    write(9, 1, vec![grow(10, "text")]).await;
    assert_eq!(f.store.document(id).await.unwrap().body, "new text");
    assert_eq!(f.store.document_tail(id, 2, usize::MAX).await.unwrap().bytes, b"w text");
    assert_eq!(f.rows(chunks).await.len(), 4);
    // Text for a document that does not exist is ignored, as ever.
    let nowhere =
        DocumentOp::Append { id: DocumentId(Uuid::from_u128(6)), seq: 11, text: "x".into(), at: T0 };
    write(10, 1, vec![nowhere]).await;
    assert_eq!(f.rows(chunks).await.len(), 4);
}
