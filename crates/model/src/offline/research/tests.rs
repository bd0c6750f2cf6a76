use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tree_agent_contract::role::{CallContext, OfferedLeaf, PickInput, RoleUpdate};
use tree_agent_contract::search::ChildEntry;
use tree_agent_contract::session::{SessionFork, SessionId};
use tree_agent_contract::text::one_line;
use tree_agent_contract::{Allowance, Budgets, NodeId, RunContext, RunId, ToolRules};
use tree_agent_tools::{Caller, MemoryDocuments, ToolRegistry};

use super::*;

const OBJECTIVE: &str = "How are ships kept safe in a storm?";

/// The corpus of the tests, path to body.
fn corpus() -> BTreeMap<String, String> {
    fn walk(root: &Path, folder: &Path, files: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => walk(root, &path, files),
                false => {
                    let name = path.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
                    files.insert(name, std::fs::read_to_string(&path).unwrap());
                }
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut files = BTreeMap::new();
    walk(&root, &root, &mut files);
    files
}

struct World {
    tools: ToolRegistry,
    context: RunContext,
    tool_calls: Option<u64>,
    schema: Option<Value>,
}

impl World {
    fn new(files: &BTreeMap<String, String>) -> Self {
        let documents = MemoryDocuments::default();
        let project = documents.add_project("harbour");
        for (path, body) in files {
            documents.add_source(project, path, body);
        }
        let context = RunContext::project(project);
        Self { tools: ToolRegistry::new(Arc::new(documents)), context, tool_calls: None, schema: None }
    }

    fn call(&self, title: &str, depth: u32) -> CallContext {
        let run_id = RunId(uuid::Uuid::from_u128(1));
        CallContext {
            run_id,
            node_id: NodeId::root(run_id),
            attempt: 1,
            objective: OBJECTIVE.into(),
            title: title.into(),
            reason: String::new(),
            success_criteria: vec![],
            depth,
            budgets: Budgets::default(),
            context: self.context.clone(),
            model: String::new(),
            scratchpad_tail: String::new(),
            sibling_index: 0,
            allowance: Default::default(),
            finish: None,
            read_only: false,
            origin_run_id: None,
            guidance: Vec::new(),
            deliverable: None,
            profile: None,
            started_at: None,
            time_left_ms: None,
            answers: None,
            siblings: Vec::new(),
        }
    }

    fn input(&self, path: &[&str], messages: Vec<SessionMessage>) -> ResearchInput {
        let call = self.call(path.last().copied().unwrap_or("root"), path.len() as u32);
        let session = SessionFork { messages, ..SessionFork::new(SessionId::of(call.node_id), None) };
        let form = if path.is_empty() { ResearchForm::Root } else { ResearchForm::Topic };
        ResearchInput {
            form,
            path: path.iter().map(|t| (*t).to_owned()).collect(),
            siblings: Vec::new(),
            outline: String::new(),
            session: (form == ResearchForm::Topic).then_some(session),
            prompts: Default::default(),
            frontmatter_schema: self.schema.as_ref().and_then(|s| s.as_object().cloned()),
            max_children: 1_000,
            call,
        }
    }

    async fn research(
        &self,
        path: &[&str],
        messages: Vec<SessionMessage>,
    ) -> Result<ResearchOutput, RoleError> {
        let input = self.input(path, messages);
        let caller = Caller::new(input.call.run_id, self.context.clone());
        let (io, mut updates) = RoleIo::new(self.tools.tool_set(caller), "research");
        let io = io.allowing(Allowance { tool_calls: self.tool_calls, ..Allowance::default() });
        let reading = async { while updates.recv().await.is_some_and(|u| u != RoleUpdate::Heartbeat) {} };
        let working = async {
            let output = research(&input, &io).await;
            drop(io);
            output
        };
        let (output, ()) = futures::join!(working, reading);
        if let Ok(output) = &output {
            output.validate(input.form).expect("an answer keeps to the contract");
        }
        output
    }
}

fn titles(children: &[ChildEntry]) -> Vec<&str> {
    children.iter().map(|child| child.title.as_str()).collect()
}

/// The quotations of a document.
fn quotes(document: &str) -> Vec<String> {
    super::super::document::passages(document).into_iter().map(|p| p.text).collect()
}

#[tokio::test]
async fn the_first_level_is_the_top_of_the_context() {
    let world = World::new(&corpus());
    let output = world.research(&[], Vec::new()).await.unwrap();
    let titles = titles(&output.children);
    for folder in ["operations/", "safety/", "services/"] {
        assert!(titles.contains(&folder), "{titles:?}");
    }
    assert!(titles.iter().any(|t| t.ends_with("(`README.md`)")), "{titles:?}");
    assert!(output.children.iter().any(|c| c.score > Some(0.5)), "what speaks of the objective scores");
    assert_eq!(output.dropped, 0);
}

#[tokio::test]
async fn every_document_and_section_can_be_reached_and_every_quotation_is_verbatim() {
    let files = corpus();
    let world = World::new(&files);
    let first = world.research(&[], Vec::new()).await.unwrap();
    let mut due: Vec<(Vec<String>, Vec<SessionMessage>)> =
        first.children.iter().map(|child| (vec![child.title.clone()], Vec::new())).collect();
    let (mut documents, mut seen) = (0, Vec::new());
    while let Some((path, messages)) = due.pop() {
        assert!(path.len() < 8, "the tree ends: {path:?}");
        let titles: Vec<&str> = path.iter().map(String::as_str).collect();
        let output = world.research(&titles, messages.clone()).await.unwrap();
        let document = output.document_markdown.expect("a topic has a document");
        let fields = parse(&document).expect("frontmatter").fields;
        assert_eq!(fields["title"], json!(short(titles[titles.len() - 1], 512)));
        for quote in quotes(&document) {
            let is_there = files.values().any(|body| one_line(body).contains(&quote));
            assert!(is_there, "{path:?} quotes what nobody wrote: {quote}");
        }
        documents += 1;
        seen.push(titles[titles.len() - 1].to_owned());
        let conversation: Vec<SessionMessage> = messages.into_iter().chain(output.messages).collect();
        for child in output.children {
            let path = path.iter().cloned().chain([child.title]).collect();
            due.push((path, conversation.clone()));
        }
    }
    for path in files.keys() {
        assert!(seen.iter().any(|title| title.ends_with(&format!("(`{path}`)"))), "{path} was never reached");
    }
    assert!(documents > files.len() * 2, "{documents} topics: sections were researched too");
}

#[tokio::test]
async fn what_a_topic_above_quoted_is_not_quoted_again() {
    let world = World::new(&corpus());
    let above = world.research(&["safety/"], Vec::new()).await.unwrap();
    let quoted = quotes(above.document_markdown.as_deref().unwrap());
    assert!(!quoted.is_empty());
    let child = above.children[0].title.as_str();
    let alone = world.research(&["safety/", child], Vec::new()).await.unwrap();
    let alone = quotes(alone.document_markdown.as_deref().unwrap());
    assert!(alone.iter().any(|q| quoted.contains(q)), "without the conversation it repeats");
    let forked = world.research(&["safety/", child], above.messages).await.unwrap();
    let forked = quotes(forked.document_markdown.as_deref().unwrap());
    assert!(!forked.iter().any(|q| quoted.contains(q)), "{forked:#?}");
}

#[tokio::test]
async fn a_topic_that_somebody_added_is_searched_for() {
    let world = World::new(&corpus());
    let output = world.research(&["safety/", "Storm warnings"], Vec::new()).await.unwrap();
    assert!(output.children.is_empty());
    let quotes = quotes(output.document_markdown.as_deref().unwrap());
    assert!(!quotes.is_empty() && quotes[0].to_lowercase().contains("storm"), "{quotes:#?}");
    let nothing = world.research(&["Submarine xylophones"], Vec::new()).await.unwrap();
    let document = nothing.document_markdown.unwrap();
    assert!(document.contains("Nothing new was found about “Submarine xylophones”"), "{document}");
}

#[tokio::test]
async fn the_same_documents_give_the_same_answer() {
    let (one, other) = (World::new(&corpus()), World::new(&corpus()));
    for path in [&[][..], &["operations/"]] {
        let answers = (one.research(path, Vec::new()).await, other.research(path, Vec::new()).await);
        assert_eq!(answers.0.unwrap(), answers.1.unwrap());
    }
}

#[tokio::test]
async fn a_context_without_documents_is_refused() {
    let error = World::new(&BTreeMap::new()).research(&[], Vec::new()).await.unwrap_err();
    assert_eq!(error.kind, RoleErrorKind::Rejected);
    assert!(error.message.contains("no document"), "{error}");
}

#[tokio::test]
async fn a_schema_is_met_or_refused_with_the_reason() {
    let mut world = World::new(&corpus());
    world.schema = Some(json!({
        "required": ["title"], "properties": {"title": {"type": "string"}}, "additionalProperties": false,
    }));
    let output = world.research(&["safety/"], Vec::new()).await.unwrap();
    let fields = parse(output.document_markdown.as_deref().unwrap()).unwrap().fields;
    assert_eq!(fields.keys().collect::<Vec<_>>(), ["title"]);
    world.schema = Some(json!({"required": ["difficulty"]}));
    let error = world.research(&["safety/"], Vec::new()).await.unwrap_err();
    assert_eq!(error.kind, RoleErrorKind::Rejected);
    assert!(error.message.contains("\"difficulty\" is a required property"), "{error}");
}

#[tokio::test]
async fn few_tool_calls_are_said() {
    let mut world = World::new(&corpus());
    world.tool_calls = Some(2);
    let document = world.research(&["safety/"], Vec::new()).await.unwrap().document_markdown.unwrap();
    assert!(document.contains("Not everything was read"), "{document}");
}

#[tokio::test]
async fn lists_keep_to_their_limit_and_say_so() {
    let files =
        (0..30).map(|i| (format!("d{i}.md"), format!("# Document {i}\n\nIt is about {i}.\n"))).collect();
    let world = World::new(&files);
    let mut input = world.input(&[], Vec::new());
    input.max_children = 7;
    let caller = Caller::new(input.call.run_id, world.context.clone());
    let (io, updates) = RoleIo::new(world.tools.tool_set(caller), "research");
    drop(updates);
    let output = research(&input, &io).await.unwrap();
    assert_eq!((output.children.len(), output.dropped), (7, 23));
}

fn leaf(path: &str, title: &str, depth: u32, score: Option<f64>) -> OfferedLeaf {
    OfferedLeaf { path: path.into(), title: title.into(), depth, score, leaves_below: 0 }
}

#[test]
fn the_picker_prefers_what_is_not_covered() {
    let world = World::new(&BTreeMap::new());
    let pick = |leaves: Vec<OfferedLeaf>, outline: &str| {
        let call = world.call("root", 0);
        let input = PickInput { call, outline: outline.into(), leaves, note: String::new(), prompt: None };
        super::super::pick::pick(&input)
    };
    let outline = "- Harbour lights [expanded]\n  - Lights in fog [unexpanded]\n  - Tugs [in-progress]\n";
    let chosen =
        pick(vec![leaf("a/x", "Lights in fog", 2, Some(1.0)), leaf("a/y", "Cargo cranes", 2, None)], outline);
    assert_eq!(chosen.path, "a/y");
    assert!(chosen.reason.contains("2 of its 2 words"), "{}", chosen.reason);
    let equal = |scores: [Option<f64>; 3]| {
        let [a, b, c] = scores;
        pick(vec![leaf("a", "Anchors", 2, a), leaf("b", "Berths", 1, b), leaf("c", "Cranes", 1, c)], "").path
    };
    assert_eq!(equal([Some(0.2), Some(0.1), None]), "a", "then the one that promises most");
    assert_eq!(equal([None, None, None]), "b", "then the nearest to the root, the first");
    assert_eq!(pick(Vec::new(), "").path, "");
}

#[tokio::test]
async fn documents_that_are_not_listed_are_no_first_level() {
    let documents = MemoryDocuments::default();
    let project = documents.add_project("closed");
    documents.add_source(project, "a.md", "# A\n\nThe crane stands in the hall.");
    let denied_tools = vec!["list_documents".to_owned()];
    documents.set_rules(project, ToolRules { denied_tools, ..ToolRules::default() });
    let (tools, context) = (ToolRegistry::new(Arc::new(documents)), RunContext::project(project));
    let world = World { tools, context, tool_calls: None, schema: None };
    let error = world.research(&[], Vec::new()).await.unwrap_err();
    assert_eq!(error.kind, RoleErrorKind::Rejected, "{error:?}");
    assert!(error.message.contains("offer list_documents; allow that tool"), "{error:?}");
}
