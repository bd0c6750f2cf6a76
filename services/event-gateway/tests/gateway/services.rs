//! What works: runs, events, graphs, documents and projects over real connections.

use crate::common::{Gateway, SOON};
use tree_agent_event_gateway::Config;
use tree_agent_fanout::Topic;
use tree_agent_proto::v1::event::Body;
use tree_agent_proto::v1::*;

#[tokio::test]
async fn a_run_is_created_once_per_request_id_and_wakes_drivers() {
    let gateway = Gateway::start(Config::default()).await;
    let mut runs = gateway.runs();
    let request =
        CreateRunRequest { objective: "why?\nbecause".into(), request_id: "r1".into(), ..Default::default() };
    let first = runs.create_run(request.clone()).await.unwrap().into_inner().run.unwrap();
    let again = runs.create_run(request).await.unwrap().into_inner().run.unwrap();
    assert_eq!(first.run_id, again.run_id);
    assert_eq!(gateway.fanout.wakes(), 2);
    assert_eq!((first.status(), first.strategy(), first.node_count), (RunStatus::Queued, Strategy::Tree, 1));
    assert_eq!(first.budgets.unwrap().max_depth, Some(4));
    let listed = runs.list_runs(ListRunsRequest::default()).await.unwrap().into_inner();
    assert_eq!(listed.runs.len(), 1);
    assert_eq!(listed.next_page_token, "");
    let got = runs.get_run(GetRunRequest { run_id: first.run_id.clone() }).await.unwrap().into_inner();
    assert_eq!(got.run.unwrap().root_node_id, first.root_node_id);
    gateway.stop().await;
}

#[tokio::test]
async fn runs_are_paged_newest_first_and_filtered() {
    let gateway = Gateway::start(Config::default()).await;
    let mut runs = gateway.runs();
    for i in 0..5 {
        gateway.create_run(&format!("Objective {i}")).await;
    }
    let mut seen = Vec::new();
    let mut request =
        ListRunsRequest { page_size: 2, objective_contains: "objective".into(), ..Default::default() };
    loop {
        let page = runs.list_runs(request.clone()).await.unwrap().into_inner();
        seen.extend(page.runs.into_iter().map(|r| r.objective));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(seen, (0..5).rev().map(|i| format!("Objective {i}")).collect::<Vec<_>>());
    let statuses = vec![RunStatus::Failed as i32];
    let failed = runs.list_runs(ListRunsRequest { statuses, ..Default::default() }).await.unwrap();
    assert!(failed.into_inner().runs.is_empty());
    gateway.stop().await;
}

#[tokio::test]
async fn events_are_paged_and_filtered() {
    let gateway = Gateway::start(Config::default()).await;
    let run = gateway.create_run("events").await;
    let mut log = gateway.drive(&run).await;
    log.append(30, 1).await;
    log.finish().await;
    let mut runs = gateway.runs();
    let base = ListEventsRequest { run_id: run.run_id.clone(), page_size: 7, ..Default::default() };
    for (request, expected) in [
        (base.clone(), (1..=log.head).collect::<Vec<_>>()),
        (ListEventsRequest { after_seq: 10, ..base.clone() }, (11..=log.head).collect()),
        (
            ListEventsRequest {
                types: vec!["tree.run_created".into(), "tree.run_status".into()],
                ..base.clone()
            },
            vec![1, 2, log.head],
        ),
        (
            ListEventsRequest { node_id: run.root_node_id.clone(), after_seq: 30, ..base.clone() },
            (31..=log.head).collect(),
        ),
        (ListEventsRequest { after_seq: log.head, ..base.clone() }, vec![]),
    ] {
        let (mut seen, mut request) = (Vec::new(), request);
        loop {
            let page = runs.list_events(request.clone()).await.unwrap().into_inner();
            assert_eq!(page.head_seq, log.head);
            assert!(page.events.len() <= 7);
            seen.extend(page.events.iter().map(|e| e.seq));
            if page.next_page_token.is_empty() {
                break;
            }
            request.page_token = page.next_page_token;
        }
        assert_eq!(seen, expected);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn the_graph_can_be_had_at_any_seq() {
    let gateway = Gateway::start(Config::default()).await;
    let run = gateway.create_run("graph").await;
    let mut log = gateway.drive(&run).await;
    log.append(1, 3).await;
    log.finish().await;
    let mut runs = gateway.runs();
    let mut at = async |at_seq| {
        let request = GetGraphRequest { run_id: run.run_id.clone(), at_seq };
        runs.get_graph(request).await.unwrap().into_inner().graph.unwrap()
    };
    assert!(at(Some(0)).await.nodes.is_empty());
    let before = at(Some(run.head_seq)).await;
    assert_eq!((before.status(), before.nodes[0].title.as_str()), (RunStatus::Queued, "graph"));
    let now = at(None).await;
    assert_eq!((now.seq, now.status()), (log.head, RunStatus::Completed));
    assert_eq!(now.nodes[0].message.as_deref(), Some("xxx"));
    gateway.stop().await;
}

#[tokio::test]
async fn cancelling_reaches_the_inbox_and_does_nothing_to_an_ended_run() {
    let gateway = Gateway::start(Config::default()).await;
    let run = gateway.create_run("cancel").await;
    let mut log = gateway.drive(&run).await;
    let mut runs = gateway.runs();
    let request = CancelRunRequest { run_id: run.run_id.clone(), reason: "enough".into() };
    runs.cancel_run(request.clone()).await.unwrap();
    let commands = gateway.store.commands("test").await.unwrap();
    assert_eq!(commands.len(), 1);
    assert_eq!(
        commands[0].command,
        tree_agent_contract::Command::new(tree_agent_contract::command::Action::Cancel {
            reason: "enough".into()
        })
    );
    log.finish().await;
    let ended = runs.cancel_run(request).await.unwrap().into_inner().run.unwrap();
    assert_eq!(ended.status(), RunStatus::Completed);
    assert_eq!(gateway.store.commands("test").await.unwrap(), []);
    gateway.stop().await;
}

#[tokio::test]
async fn the_first_events_of_a_run_are_published() {
    use prost::Message;
    use tree_agent_fanout::{Fanout, Signal};
    let gateway = Gateway::start(Config::default()).await;
    let mut wakes = gateway.fanout.subscribe(Topic::Wake).await.unwrap();
    let run = gateway.create_run("published").await;
    let signal = tokio::time::timeout(SOON, wakes.next()).await.unwrap();
    assert_eq!(signal, Some(Signal::Message(bytes::Bytes::new())));
    let events = gateway.store.read(run.run_id.parse().unwrap(), 0, 100).await.unwrap();
    let first = tree_agent_proto::Wire::to_wire(&events[0]);
    assert!(matches!(first.body, Some(Body::RunCreated(_))) && first.encoded_len() > 0);
    assert_eq!(events.len() as u64, run.head_seq);
    gateway.stop().await;
}

#[tokio::test]
async fn documents_are_written_replaced_listed_and_found() {
    let gateway = Gateway::start(Config::default()).await;
    let mut documents = gateway.documents();
    let project = gateway.create_project("Library").await.project_id;
    let write = |path: &str, body: &str| CreateDocumentRequest {
        project_id: project.clone(),
        path: path.into(),
        body: body.into(),
        ..Default::default()
    };
    let first = documents.create_document(write("guide/a.md", "# Leases\nA lease expires.")).await.unwrap();
    let first = first.into_inner().document.unwrap();
    assert_eq!(first.title, "Leases");
    let again = documents.create_document(write("guide/a.md", "A fence holds.")).await.unwrap();
    let again = again.into_inner().document.unwrap();
    assert_eq!((again.document_id.as_str(), again.title.as_str()), (first.document_id.as_str(), "a.md"));
    documents.create_document(write("b.txt", "Sequences burn numbers.")).await.unwrap();
    let got = documents
        .get_document(GetDocumentRequest { document_id: first.document_id.clone(), ..Default::default() })
        .await;
    assert_eq!(got.unwrap().into_inner().document.unwrap().body, "A fence holds.");
    let mut list =
        ListDocumentsRequest { project_ids: vec![project.clone()], page_size: 1, ..Default::default() };
    let page = documents.list_documents(list.clone()).await.unwrap().into_inner();
    assert_eq!(page.documents[0].path, "b.txt");
    list.page_token = page.next_page_token;
    let page = documents.list_documents(list).await.unwrap().into_inner();
    assert_eq!((page.documents[0].path.as_str(), page.next_page_token.as_str()), ("guide/a.md", ""));
    let context = Some(RunContext { scope: Scope::Project as i32, project_ids: vec![project.clone()] });
    let search = SearchDocumentsRequest { query: "fence".into(), context, ..Default::default() };
    let nothing = SearchDocumentsRequest { query: "zeppelin".into(), ..search.clone() };
    let found = documents.search_documents(nothing).await.unwrap().into_inner();
    assert_eq!((found.hits.len(), found.total_size), (0, 0));
    let hits = documents.search_documents(search).await.unwrap().into_inner().hits;
    assert_eq!(hits.len(), 1);
    assert_eq!(hits[0].document.as_ref().unwrap().document_id, first.document_id);
    gateway.stop().await;
}

#[tokio::test]
async fn a_source_tells_its_hash_and_its_import_and_can_be_deleted() {
    let gateway = Gateway::start(Config::default()).await;
    let mut documents = gateway.documents();
    let project = gateway.create_project("Imported").await.project_id;
    let import = DocumentImport {
        source: "folder:1".into(),
        file: "guide.html".into(),
        fingerprint: "abc".into(),
        left_out: "2 pictures".into(),
    };
    let imported = CreateDocumentRequest {
        project_id: project.clone(),
        path: "guide.html".into(),
        body: "text\0".into(),
        import: Some(import.clone()),
        ..Default::default()
    };
    let written = documents.create_document(imported.clone()).await.unwrap().into_inner().document.unwrap();
    // Of the body as it is stored, with U+FFFD for the NUL.
    assert_eq!(written.content_hash, "7c1c2ace5e7887e93c8dc0f93d9f0c0febda26f3308840b030204b4044db654a");
    let list = ListDocumentsRequest { project_ids: vec![project.clone()], ..Default::default() };
    let listed = documents.list_documents(list.clone()).await.unwrap().into_inner().documents;
    assert_eq!((&listed[0].content_hash, &listed[0].import), (&written.content_hash, &Some(import)));

    let delete = |source: &str, allow_missing| DeleteDocumentRequest {
        document_id: written.document_id.clone(),
        import_source: source.into(),
        allow_missing,
    };
    let refused = documents.delete_document(delete("folder:2", true)).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
    // A person's document in the same place is not the import's any more.
    let by_hand = CreateDocumentRequest { import: None, ..imported };
    documents.create_document(by_hand).await.unwrap();
    let refused = documents.delete_document(delete("folder:1", true)).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
    documents.delete_document(delete("", false)).await.unwrap();
    assert!(documents.list_documents(list).await.unwrap().into_inner().documents.is_empty());
    let missing = documents.delete_document(delete("", false)).await.unwrap_err();
    assert_eq!(missing.code(), tonic::Code::NotFound);
    documents.delete_document(delete("", true)).await.unwrap();

    let run = gateway.create_run("why?").await.run_id;
    let of_run = CreateDocumentRequest {
        run_id: run,
        path: "a.txt".into(),
        body: "text".into(),
        ..Default::default()
    };
    let refused = documents.create_document(of_run.clone()).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition, "a run writes its own documents");
    let list = ListDocumentsRequest { run_id: of_run.run_id, ..Default::default() };
    let of_run = documents.list_documents(list).await.unwrap().into_inner().documents.remove(0);
    assert_eq!(of_run.content_hash, "");
    let delete = DeleteDocumentRequest { document_id: of_run.document_id.clone(), ..Default::default() };
    let refused = documents.delete_document(delete).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
    documents
        .get_document(GetDocumentRequest { document_id: of_run.document_id, ..Default::default() })
        .await
        .unwrap();
    gateway.stop().await;
}

#[tokio::test]
async fn projects_are_written_once_per_request_id_found_by_name_and_listed() {
    use get_project_request::Key;
    let gateway = Gateway::start(Config::default()).await;
    let mut projects = gateway.projects();
    let request =
        CreateProjectRequest { name: "Beta".into(), description: "b".into(), request_id: "p".into() };
    let first = projects.create_project(request.clone()).await.unwrap().into_inner().project.unwrap();
    let again = projects.create_project(request).await.unwrap().into_inner().project.unwrap();
    assert_eq!(first, again);
    gateway.create_project("alpha").await;
    let by_name = GetProjectRequest { key: Some(Key::Name("beta".into())) };
    assert_eq!(projects.get_project(by_name).await.unwrap().into_inner().project.unwrap(), first);
    let mut request = ListProjectsRequest { page_size: 1, ..Default::default() };
    let mut names = Vec::new();
    loop {
        let page = projects.list_projects(request.clone()).await.unwrap().into_inner();
        names.extend(page.projects.into_iter().map(|p| p.name));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(names, ["alpha", "Beta"]);
    gateway.stop().await;
}

/// Stores keep no NUL character. What is answered is what was stored, so that a repeated request is recognised.
#[tokio::test]
async fn text_with_nul_is_answered_as_it_is_stored() {
    let gateway = Gateway::start(Config::default()).await;
    let mut projects = gateway.projects();
    let request =
        CreateProjectRequest { name: "n".into(), description: "a\0b".into(), request_id: "p".into() };
    let first = projects.create_project(request.clone()).await.unwrap().into_inner().project.unwrap();
    assert_eq!(first.description, "a\u{fffd}b");
    let again = projects.create_project(request).await.unwrap().into_inner().project.unwrap();
    assert_eq!(again, first);

    let mut documents = gateway.documents();
    let request = CreateDocumentRequest {
        project_id: first.project_id,
        path: "a.md".into(),
        title: "a\0b".into(),
        body: "c\0d".into(),
        ..Default::default()
    };
    let written = documents.create_document(request).await.unwrap().into_inner().document.unwrap();
    let get = GetDocumentRequest { document_id: written.document_id.clone(), ..Default::default() };
    let read = documents.get_document(get).await.unwrap().into_inner().document.unwrap();
    assert_eq!((read.body.as_str(), read.body.len() as u64), ("c\u{fffd}d", written.bytes));
    assert_eq!(read.summary.unwrap().title, written.title);

    let mut runs = gateway.runs();
    let request = CreateRunRequest { objective: "a\0b".into(), request_id: "r".into(), ..Default::default() };
    let first = runs.create_run(request.clone()).await.unwrap().into_inner().run.unwrap();
    assert_eq!(first.objective, "a\u{fffd}b");
    let again = runs.create_run(request).await.unwrap().into_inner().run.unwrap();
    assert_eq!(again.run_id, first.run_id);
    gateway.stop().await;
}
