//! The built-in tools over documents in memory: arguments, scope, limits.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tree_agent_contract::{DocumentId, ProjectId, RunContext, RunId, Scope};
use tree_agent_tools::*;

struct World {
    documents: Arc<MemoryDocuments>,
    registry: ToolRegistry,
    mine: ProjectId,
    other: ProjectId,
    run: RunId,
}

fn world() -> World {
    let documents = Arc::new(MemoryDocuments::default());
    let (mine, other) = (documents.add_project("mine"), documents.add_project("other"));
    documents.add_source(mine, "docs/a.md", "# Leases\n\nA lease ends.");
    documents.add_source(mine, "notes.txt", "lease notes");
    documents.add_source(other, "secret.md", "A lease elsewhere.");
    World {
        registry: ToolRegistry::new(documents.clone()),
        documents,
        mine,
        other,
        run: RunId(uuid::Uuid::from_u128(3)),
    }
}

impl World {
    fn tools(&self, context: RunContext) -> ToolSet {
        self.registry.tool_set(Caller::new(self.run, context))
    }
}

fn args(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn paths(output: &ToolOutput, key: &str) -> Vec<String> {
    output.value[key].as_array().unwrap().iter().map(|d| d["path"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_context_offers_the_tools_that_make_sense_in_it() {
    let world = world();
    let names = async |context: &RunContext| {
        let specs = world.tools(context.clone()).specs().await.unwrap();
        specs.iter().map(|t| t.name().to_owned()).collect::<Vec<_>>()
    };
    let all = [LIST_DOCUMENTS, SEARCH_DOCUMENTS, READ_DOCUMENT, CREATE_DOCUMENT, WRITE_NOTE, LIST_PROJECTS];
    assert_eq!(names(&RunContext::default()).await, all);
    assert_eq!(names(&RunContext { scope: Scope::MultiProject, project_ids: vec![world.mine] }).await, all);
    assert_eq!(names(&RunContext::project(world.mine)).await, all[..5]);
    for spec in world.tools(RunContext::default()).specs().await.unwrap() {
        let schema = spec.schema();
        assert_eq!(schema["additionalProperties"], false);
        assert!(!schema["properties"].as_object().unwrap().is_empty());
        assert!(!spec.description().is_empty());
    }
}

#[tokio::test]
async fn a_project_context_sees_its_project_only() {
    let world = world();
    let tools = world.tools(RunContext::project(world.mine));
    let listed = tools.call(LIST_DOCUMENTS, &Map::new()).await.unwrap();
    assert_eq!(paths(&listed, "documents"), ["docs/a.md", "notes.txt"]);
    assert_eq!(listed.summary, "2 documents");
    let found = tools.call(SEARCH_DOCUMENTS, &args(json!({"query": "lease"}))).await.unwrap();
    assert!(!paths(&found, "hits").contains(&"secret.md".to_owned()));
    let secret = DocumentId::derive(&[world.other.as_bytes(), b"secret.md"]);
    let error = tools.call(READ_DOCUMENT, &args(json!({"document_id": secret}))).await.unwrap_err();
    assert!(matches!(error, ToolError::NotFound(_)), "{error}");
    let error = tools.call(LIST_DOCUMENTS, &args(json!({"project_id": world.other}))).await.unwrap_err();
    assert!(matches!(error, ToolError::NotFound(_)), "{error}");
    let write = args(json!({"project_id": world.other, "path": "x.md", "body": "x"}));
    assert!(matches!(tools.call(CREATE_DOCUMENT, &write).await.unwrap_err(), ToolError::NotFound(_)));
    let error = tools.call(LIST_PROJECTS, &Map::new()).await.unwrap_err();
    assert!(error.to_string().contains("available: list_documents"), "{error}");

    let global = world.tools(RunContext::default());
    assert_eq!(paths(&global.call(LIST_DOCUMENTS, &Map::new()).await.unwrap(), "documents").len(), 3);
    let projects = global.call(LIST_PROJECTS, &Map::new()).await.unwrap();
    assert_eq!(projects.value["projects"][0]["name"], "mine");
}

#[tokio::test]
async fn what_the_run_wrote_is_readable_and_what_another_run_wrote_is_not() {
    let world = world();
    let tools = world.tools(RunContext::project(world.mine));
    let (own, foreign) = (DocumentId(uuid::Uuid::from_u128(1)), DocumentId(uuid::Uuid::from_u128(2)));
    world.documents.add_artifact(world.run, own, "own", "body");
    world.documents.add_artifact(RunId(uuid::Uuid::from_u128(4)), foreign, "foreign", "body");
    let read = tools.call(READ_DOCUMENT, &args(json!({"document_id": own}))).await.unwrap();
    assert_eq!(read.value["body"], "body");
    assert!(tools.call(READ_DOCUMENT, &args(json!({"document_id": foreign}))).await.is_err());
    assert_eq!(paths(&tools.call(LIST_DOCUMENTS, &Map::new()).await.unwrap(), "documents").len(), 2);
}

#[tokio::test]
async fn creating_twice_replaces() {
    let world = world();
    let tools = world.tools(RunContext::project(world.mine));
    let first =
        tools.call(CREATE_DOCUMENT, &args(json!({"path": "new/x.md", "body": "# One"}))).await.unwrap();
    let again =
        tools.call(CREATE_DOCUMENT, &args(json!({"path": "new/x.md", "body": "# Two"}))).await.unwrap();
    assert_eq!(first.value["documentId"], again.value["documentId"]);
    let read =
        tools.call(READ_DOCUMENT, &args(json!({"document_id": again.value["documentId"]}))).await.unwrap();
    assert_eq!((read.value["body"].as_str(), read.value["title"].as_str()), (Some("# Two"), Some("Two")));
    assert_eq!(
        paths(&tools.call(LIST_DOCUMENTS, &args(json!({"path_prefix": "new/"}))).await.unwrap(), "documents")
            .len(),
        1
    );
}

#[tokio::test]
async fn long_documents_are_read_in_pieces_that_fit_together() {
    let world = world();
    let body = "zwölf Boxkämpfer ".repeat(40_000);
    let id = world.documents.add_source(world.mine, "long.md", &body);
    let tools = world.tools(RunContext::project(world.mine));
    let (mut text, mut offset) = (String::new(), 0);
    loop {
        let piece =
            tools.call(READ_DOCUMENT, &args(json!({"document_id": id, "offset": offset}))).await.unwrap();
        let part = piece.value["body"].as_str().unwrap();
        assert!(!part.is_empty() && part.len() <= OUTPUT_BYTES);
        text.push_str(part);
        match piece.value["nextOffset"].as_u64() {
            Some(next) => offset = next,
            None => break,
        }
    }
    assert_eq!(text, body);
    let tiny = args(json!({"document_id": id, "offset": 2, "max_bytes": 1}));
    assert_eq!(tools.call(READ_DOCUMENT, &tiny).await.unwrap().value["body"], "ö", "at least one character");
}

#[tokio::test]
async fn wrong_arguments_are_named() {
    let world = world();
    let tools = world.tools(RunContext::default());
    let id = DocumentId::derive(&[world.mine.as_bytes(), b"docs/a.md"]);
    for (tool, value, field) in [
        (SEARCH_DOCUMENTS, json!({}), "query"),
        (SEARCH_DOCUMENTS, json!({"query": "  "}), "query"),
        (SEARCH_DOCUMENTS, json!({"query": "x".repeat(5_000)}), "query"),
        (SEARCH_DOCUMENTS, json!({"query": "x", "limit": 0}), "limit"),
        (SEARCH_DOCUMENTS, json!({"query": "x", "limit": 1.5}), "limit"),
        (LIST_DOCUMENTS, json!({"page_size": -1}), "page_size"),
        (LIST_DOCUMENTS, json!({"pagesize": 1}), "pagesize"),
        (READ_DOCUMENT, json!({"document_id": "a.md"}), "document_id"),
        (READ_DOCUMENT, json!({"document_id": id, "offset": 1_000}), "offset"),
        (CREATE_DOCUMENT, json!({"path": "a.md", "body": "x"}), "project_id"),
        (CREATE_DOCUMENT, json!({"project_id": world.mine, "path": "../a.md", "body": "x"}), "path"),
        (CREATE_DOCUMENT, json!({"project_id": world.mine, "path": "/a.md", "body": "x"}), "path"),
    ] {
        match tools.call(tool, &args(value.clone())).await {
            Err(ToolError::Argument { field: named, .. }) => assert_eq!(named, field, "{tool} {value}"),
            other => panic!("{tool} {value}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_note_is_kept_for_the_run_and_can_be_read_at_once() {
    let world = world();
    let tools = world.tools(RunContext::project(world.mine));
    let note = json!({"title": " Prices ", "body": "Five dollars."});
    let output = tools.call(WRITE_NOTE, note.as_object().unwrap()).await.unwrap();
    let kept = output.kept.clone().unwrap();
    assert_eq!((kept.title.as_str(), kept.body.as_str()), ("Prices", "# Prices\n\nFive dollars.\n"));
    // It is not in the store yet: the engine decides that.
    let read = Map::from_iter([("document_id".to_owned(), output.value["documentId"].clone())]);
    let text = tools.call(READ_DOCUMENT, &read).await.unwrap();
    assert_eq!(text.value["body"], json!(kept.body));
    let other = world.tools(RunContext::project(world.mine));
    assert!(matches!(other.call(READ_DOCUMENT, &read).await.unwrap_err(), ToolError::NotFound(_)));
    // The same note again is the same document. An empty one is refused.
    assert_eq!(
        tools.call(WRITE_NOTE, note.as_object().unwrap()).await.unwrap().kept.unwrap().path,
        kept.path
    );
    let empty = json!({"title": "Prices", "body": " "});
    assert!(tools.call(WRITE_NOTE, empty.as_object().unwrap()).await.is_err());
}
