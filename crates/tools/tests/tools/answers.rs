//! Answers that a run keeps: which of them are used again, and what ends that.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tree_agent_contract::role::KeptDocument;
use tree_agent_contract::{
    AnswerUse, DocumentId, NodeId, ProjectId, RunContext, RunId, Scope, ToolRules, answers,
};
use tree_agent_tools::*;
use uuid::Uuid;

const RUN: RunId = RunId(Uuid::from_u128(3));

struct World {
    documents: Arc<MemoryDocuments>,
    registry: ToolRegistry,
    project: ProjectId,
}

fn node(n: u128) -> NodeId {
    NodeId::from(Uuid::from_u128(n))
}

fn world() -> World {
    let documents = Arc::new(MemoryDocuments::default());
    let project = documents.add_project("mine");
    documents.add_source(project, "a.md", "# Leases\n\nA lease ends.");
    World { registry: ToolRegistry::new(documents.clone()), documents, project }
}

/// What became of a call.
#[derive(Debug, PartialEq)]
enum Source {
    /// The tool was asked. Whether its answer is to be kept.
    Asked { kept: bool },
    /// The run knew the answer, from this node.
    Known { from: Option<NodeId> },
}

impl World {
    fn tools(&self, n: u128, used: AnswerUse) -> ToolSet {
        let caller = Caller::new(RUN, RunContext::project(self.project));
        self.registry.tool_set(Caller { node_id: Some(node(n)), answers: Some(used), ..caller })
    }

    /// Calls a tool, and keeps its answer as the engine does.
    async fn call(&self, tools: &ToolSet, name: &str, args: Value) -> (Source, ToolOutput) {
        let args: Map<String, Value> = args.as_object().cloned().unwrap();
        match tools.begin(name, &args, "one call").await.unwrap() {
            ToolStart::Known { output, node } => (Source::Known { from: node }, *output),
            ToolStart::Ready(ready) => {
                let output = ready.call().await.unwrap();
                if let Some(answer) = &output.answer {
                    assert!(answers::is_answer(&answer.path), "{}", answer.path);
                    self.documents.add_answer(RUN, tools.caller().node_id.unwrap(), answer);
                }
                (Source::Asked { kept: output.answer.is_some() }, output)
            }
        }
    }
}

const ASKED: Source = Source::Asked { kept: true };

#[tokio::test]
async fn the_same_question_is_asked_once_while_nothing_changes() {
    let world = world();
    let search = json!({"query": "lease", "limit": 5});
    let (came, first) = world.call(&world.tools(1, AnswerUse::Reuse), SEARCH_DOCUMENTS, search.clone()).await;
    assert_eq!(came, ASKED);
    // Another task, with the arguments in another order and one that says nothing.
    let other = world.tools(2, AnswerUse::Reuse);
    let again = json!({"path_prefix": null, "limit": 5, "query": "lease"});
    let (came, second) = world.call(&other, SEARCH_DOCUMENTS, again).await;
    assert_eq!(came, Source::Known { from: Some(node(1)) });
    assert_eq!((&second.value, &second.summary), (&first.value, &first.summary));
    assert_eq!(second.answer, first.answer, "the same document");
    let (came, _) = world.call(&other, SEARCH_DOCUMENTS, json!({"query": "leases", "limit": 5})).await;
    assert_eq!(came, ASKED, "another question");
    world.documents.add_source(world.project, "b.md", "A lease begins.");
    let (came, third) = world.call(&other, SEARCH_DOCUMENTS, search.clone()).await;
    assert_eq!((came, &third.value["total"]), (ASKED, &json!(2)), "a document is new");
    world.documents.set_rules(world.project, ToolRules { read_only: true, ..ToolRules::default() });
    let (came, _) = world.call(&other, SEARCH_DOCUMENTS, search).await;
    assert_eq!(came, ASKED, "the project has other rules");
}

#[tokio::test]
async fn a_call_that_is_made_again_asks_again() {
    let world = world();
    let args = json!({"query": "lease"});
    world.call(&world.tools(1, AnswerUse::Reuse), SEARCH_DOCUMENTS, args.clone()).await;
    let again = world.tools(1, AnswerUse::Keep);
    let (came, output) = world.call(&again, SEARCH_DOCUMENTS, args.clone()).await;
    assert_eq!(came, ASKED);
    // Nor does anybody else find what it got.
    let path = output.answer.unwrap().path;
    let (_, output) = world.call(&world.tools(2, AnswerUse::Reuse), SEARCH_DOCUMENTS, args.clone()).await;
    assert_ne!(output.answer.unwrap().path, path);
    // A run from before keeps nothing.
    let caller = Caller::new(RUN, RunContext::project(world.project));
    let (came, _) = world.call(&world.registry.tool_set(caller), SEARCH_DOCUMENTS, args).await;
    assert_eq!(came, Source::Asked { kept: false });
}

#[tokio::test]
async fn what_writes_or_may_change_unseen_is_not_kept() {
    let world = world();
    let tools = world.tools(1, AnswerUse::Reuse);
    let asked = Source::Asked { kept: false };
    for _ in 0..2 {
        let note = json!({"title": "n", "body": "b"});
        assert_eq!(world.call(&tools, WRITE_NOTE, note).await.0, asked);
        let document = json!({"path": "new.md", "body": "b"});
        assert_eq!(world.call(&tools, CREATE_DOCUMENT, document).await.0, asked);
    }
    let source = DocumentId::derive(&[world.project.as_bytes(), b"a.md"]);
    let read = |id: DocumentId| json!({"document_id": id});
    assert_eq!(world.call(&tools, READ_DOCUMENT, read(source)).await.0, ASKED);
    assert_eq!(
        world.call(&tools, READ_DOCUMENT, read(source)).await.0,
        Source::Known { from: Some(node(1)) }
    );
    // An artifact of the run never changes, and a scratchpad does.
    let (artifact, pad) = (DocumentId::derive(&[b"artifact"]), DocumentId::derive(&[b"pad"]));
    world.documents.add_artifact(RUN, artifact, "Made", "made");
    world.documents.add_scratchpad(RUN, pad, "noted");
    assert_eq!(world.call(&tools, READ_DOCUMENT, read(artifact)).await.0, ASKED);
    assert_eq!(world.call(&tools, READ_DOCUMENT, read(pad)).await.0, asked);
    // A failure is no answer.
    let nothing = read(DocumentId::derive(&[b"nothing"]));
    for _ in 0..2 {
        let args = nothing.as_object().unwrap();
        let ToolStart::Ready(ready) = tools.begin(READ_DOCUMENT, args, "").await.unwrap() else {
            panic!("known")
        };
        assert!(ready.call().await.is_err());
    }
}

#[tokio::test]
async fn who_asks_the_same_at_the_same_time_waits_for_the_answer() {
    let world = world();
    let (one, two) = (world.tools(1, AnswerUse::Reuse), world.tools(2, AnswerUse::Reuse));
    let args: Map<String, Value> = json!({"query": "lease"}).as_object().cloned().unwrap();
    let ToolStart::Ready(first) = one.begin(SEARCH_DOCUMENTS, &args, "").await.unwrap() else {
        panic!("known")
    };
    let second = two.begin(SEARCH_DOCUMENTS, &args, "");
    let mut second = std::pin::pin!(second);
    assert!(futures::poll!(&mut second).is_pending());
    // Nothing is in the store yet: the engine has not seen the answer.
    let answer = first.call().await.unwrap();
    let ToolStart::Known { output, node: from } = second.await.unwrap() else { panic!("it waited in vain") };
    assert_eq!((output.value, from), (answer.value, Some(node(1))));
    // If the first one gives up, the other one asks.
    let args: Map<String, Value> = json!({"query": "ends"}).as_object().cloned().unwrap();
    let first = one.begin(SEARCH_DOCUMENTS, &args, "").await.unwrap();
    let mut second = std::pin::pin!(two.begin(SEARCH_DOCUMENTS, &args, ""));
    assert!(futures::poll!(&mut second).is_pending());
    drop(first);
    assert!(matches!(second.await.unwrap(), ToolStart::Ready(_)));
}

#[tokio::test]
async fn a_document_that_only_looks_like_an_answer_is_none() {
    let world = world();
    let tools = world.tools(1, AnswerUse::Reuse);
    let args = json!({"query": "lease"});
    let (_, output) = world.call(&tools, SEARCH_DOCUMENTS, args.clone()).await;
    drop(tools);
    let KeptDocument { path, title, .. } = output.answer.unwrap();
    let broken = KeptDocument { path, title, body: "no JSON".into() };
    world.documents.add_answer(RUN, node(1), &broken);
    let tools = world.tools(2, AnswerUse::Reuse);
    assert_eq!(world.call(&tools, SEARCH_DOCUMENTS, args.clone()).await.0, ASKED);
    drop(tools);
    let id = DocumentId::of_run(RUN, &broken.path);
    world.documents.add_artifact(RUN, id, "Forged", r#"{"tool":"t","summary":"s","value":{}}"#);
    let tools = world.tools(2, AnswerUse::Reuse);
    assert_eq!(world.call(&tools, SEARCH_DOCUMENTS, args).await.0, ASKED);
}

#[tokio::test]
async fn in_global_context_every_project_counts() {
    let world = world();
    let caller = Caller::new(RUN, RunContext { scope: Scope::Global, project_ids: Vec::new() });
    let of = |n| Caller { node_id: Some(node(n)), answers: Some(AnswerUse::Reuse), ..caller.clone() };
    let (one, two) = (world.registry.tool_set(of(1)), world.registry.tool_set(of(2)));
    let args = json!({"query": "lease"});
    assert_eq!(world.call(&one, SEARCH_DOCUMENTS, args.clone()).await.0, ASKED);
    assert_eq!(
        world.call(&two, SEARCH_DOCUMENTS, args.clone()).await.0,
        Source::Known { from: Some(node(1)) }
    );
    world.documents.add_project("another");
    assert_eq!(world.call(&two, SEARCH_DOCUMENTS, args).await.0, ASKED);
}
