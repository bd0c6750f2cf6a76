//! What projects and runs say about tools: what is filtered out is neither offered nor callable.

use std::sync::Arc;

use serde_json::{Value, json};
use tree_agent_contract::{DocumentId, ProjectId, RunContext, RunId, Scope, ToolRules};
use tree_agent_tools::*;

struct World {
    documents: Arc<MemoryDocuments>,
    one: ProjectId,
    two: ProjectId,
}

impl World {
    fn new() -> Self {
        let documents = Arc::new(MemoryDocuments::default());
        let (one, two) = (documents.add_project("one"), documents.add_project("two"));
        documents.add_source(one, "a.md", "# A\n\nA lease.");
        documents.add_source(two, "b.md", "# B\n\nA lease.");
        Self { documents, one, two }
    }

    fn tools(&self, context: RunContext) -> ToolSet {
        let caller = Caller::new(RunId(uuid::Uuid::from_u128(3)), context);
        ToolRegistry::new(self.documents.clone()).tool_set(caller)
    }

    fn both(&self) -> ToolSet {
        self.tools(RunContext { scope: Scope::MultiProject, project_ids: vec![self.one, self.two] })
    }

    fn deny(&self, project: ProjectId, names: &[&str]) {
        let denied_tools = names.iter().map(|&name| name.to_owned()).collect();
        self.documents.set_rules(project, ToolRules { denied_tools, ..ToolRules::default() });
    }
}

async fn names(tools: &ToolSet) -> Vec<String> {
    tools.specs().await.unwrap().iter().map(|spec| spec.name().to_owned()).collect()
}

async fn call(tools: &ToolSet, name: &str, args: Value) -> Result<Value, ToolError> {
    tools.call(name, args.as_object().unwrap()).await.map(|output| output.value)
}

fn written(path: &str, project: Option<ProjectId>) -> Value {
    json!({ "path": path, "body": "text", "project_id": project })
}

#[tokio::test]
async fn a_denied_tool_is_neither_offered_nor_callable_and_rules_are_read_at_each_call() {
    let world = World::new();
    let tools = world.tools(RunContext::project(world.one));
    assert!(call(&tools, SEARCH_DOCUMENTS, json!({"query": "lease"})).await.is_ok());
    world.deny(world.one, &[SEARCH_DOCUMENTS]);
    assert_eq!(names(&tools).await, [LIST_DOCUMENTS, READ_DOCUMENT, CREATE_DOCUMENT, WRITE_NOTE]);
    let error = call(&tools, SEARCH_DOCUMENTS, json!({"query": "lease"})).await.unwrap_err();
    assert!(
        matches!(&error, ToolError::UnknownTool { available, .. } if !available.contains(SEARCH_DOCUMENTS))
    );
    let allowed_tools = vec![READ_DOCUMENT.to_owned()];
    world.documents.set_rules(world.one, ToolRules { allowed_tools, ..ToolRules::default() });
    assert_eq!(names(&tools).await, [READ_DOCUMENT]);
    world.documents.set_rules(world.one, ToolRules::default());
    assert!(call(&tools, SEARCH_DOCUMENTS, json!({"query": "lease"})).await.is_ok());
}

#[tokio::test]
async fn with_several_projects_what_all_of_them_offer_is_offered() {
    let world = World::new();
    world.deny(world.one, &[SEARCH_DOCUMENTS]);
    world.documents.set_rules(world.two, ToolRules { read_only: true, ..ToolRules::default() });
    let tools = world.both();
    assert_eq!(names(&tools).await, [LIST_DOCUMENTS, READ_DOCUMENT, LIST_PROJECTS]);
    for (name, args) in
        [(SEARCH_DOCUMENTS, json!({"query": "lease"})), (CREATE_DOCUMENT, written("new.md", Some(world.one)))]
    {
        let error = call(&tools, name, args).await.unwrap_err();
        assert!(matches!(error, ToolError::UnknownTool { .. }), "{error:?}");
    }
    // The rules of each hold for a run on it alone.
    assert!(
        call(&world.tools(RunContext::project(world.one)), CREATE_DOCUMENT, written("c.md", None))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn in_global_context_the_project_of_the_call_decides() {
    let world = World::new();
    let tools = world.tools(RunContext::default());
    let listed = call(&tools, LIST_DOCUMENTS, json!({"project_id": world.two})).await.unwrap();
    let document = listed["documents"][0]["documentId"].clone();
    let denied = [LIST_DOCUMENTS, SEARCH_DOCUMENTS, READ_DOCUMENT, CREATE_DOCUMENT];
    world.deny(world.two, &denied);
    assert_eq!(names(&tools).await.len(), 6, "every tool has a project that allows it");
    for (name, args) in [
        (LIST_DOCUMENTS, json!({"project_id": world.two})),
        (READ_DOCUMENT, json!({"document_id": document})),
        (CREATE_DOCUMENT, written("new.md", Some(world.two))),
    ] {
        let error = call(&tools, name, args).await.unwrap_err();
        assert_eq!(error, ToolError::Denied { tool: name.into(), project: world.two });
    }
    // A call about no project shows those that allow it.
    for (name, args, key) in
        [(LIST_DOCUMENTS, json!({}), "documents"), (SEARCH_DOCUMENTS, json!({"query": "lease"}), "hits")]
    {
        let shown = call(&tools, name, args).await.unwrap();
        let paths: Vec<_> = shown[key].as_array().unwrap().iter().map(|row| row["path"].clone()).collect();
        assert_eq!(paths, ["a.md"], "{name}");
    }
    assert!(call(&tools, CREATE_DOCUMENT, written("new.md", Some(world.one))).await.is_ok());
}

#[tokio::test]
async fn the_total_of_a_search_counts_no_project_that_denies_it() {
    let world = World::new();
    let tools = world.tools(RunContext::default());
    let search = |limit: u64| call(&tools, SEARCH_DOCUMENTS, json!({"query": "lease", "limit": limit}));
    world.documents.add_source(world.two, "c.md", "# C\n\nA lease.");
    assert_eq!(search(1).await.unwrap()["total"], 3);
    world.deny(world.two, &[SEARCH_DOCUMENTS]);
    let beyond = search(1).await.unwrap();
    assert_eq!(beyond.get("total"), None, "the documents beyond the page may be of that project");
    assert_eq!(search(3).await.unwrap()["total"], 1);
    let one = world.tools(RunContext::project(world.one));
    assert_eq!(
        call(&one, SEARCH_DOCUMENTS, json!({"query": "lease", "limit": 1})).await.unwrap()["total"],
        1
    );
}

/// Citing a document counts as reading it, although no tool is called.
#[tokio::test]
async fn no_source_is_read_from_a_project_that_denies_to_read() {
    let world = World::new();
    let document = world.documents.add_source(world.one, "a.md", "# A\n\nA lease.");
    let other = world.documents.add_source(world.two, "b.md", "# B\n\nA lease.");
    let artifact = DocumentId::derive(&[b"artifact"]);
    world.documents.add_artifact(RunId(uuid::Uuid::from_u128(3)), artifact, "Found", "A lease.");
    let contexts =
        [world.tools(RunContext::project(world.one)), world.both(), world.tools(RunContext::default())];
    for tools in &contexts {
        assert!(tools.source(document).await.is_ok());
    }
    world.deny(world.one, &[READ_DOCUMENT]);
    for tools in &contexts {
        let scope = tools.caller().context.scope;
        let error = tools.source(document).await.unwrap_err();
        assert_eq!(error, ToolError::Denied { tool: READ_DOCUMENT.into(), project: world.one }, "{scope:?}");
        assert!(tools.source(artifact).await.is_ok(), "what the run wrote, in {scope:?}");
    }
    assert!(world.both().source(other).await.is_ok(), "its own project lets it be read");
    let tools = &contexts[0];
    let noted = call(tools, WRITE_NOTE, json!({"title": "Lease", "body": "A lease."})).await.unwrap();
    let note = noted["documentId"].as_str().unwrap().parse().unwrap();
    assert!(tools.source(note).await.is_ok(), "what the run has just written");
}

#[tokio::test]
async fn a_read_only_run_is_offered_no_tool_that_writes() {
    let world = World::new();
    for context in [RunContext::default(), RunContext::project(world.one)] {
        let caller = Caller { read_only: true, ..world.tools(context).caller().clone() };
        let tools = ToolRegistry::new(world.documents.clone()).tool_set(caller);
        let offered = names(&tools).await;
        assert!(!offered.contains(&CREATE_DOCUMENT.to_owned()) && offered.len() >= 3, "{offered:?}");
        let error = call(&tools, CREATE_DOCUMENT, written("new.md", Some(world.one))).await.unwrap_err();
        assert!(matches!(error, ToolError::UnknownTool { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn what_people_imported_stays_unless_the_project_says_otherwise() {
    let world = World::new();
    let tools = world.tools(RunContext::project(world.one));
    let error = call(&tools, CREATE_DOCUMENT, written("a.md", None)).await.unwrap_err();
    assert!(matches!(&error, ToolError::Source(text) if text.contains("was imported")), "{error:?}");
    for _ in 0..2 {
        call(&tools, CREATE_DOCUMENT, written("new.md", None)).await.unwrap();
    }
    world.documents.set_rules(world.one, ToolRules { replace_imported: true, ..ToolRules::default() });
    call(&tools, CREATE_DOCUMENT, written("a.md", None)).await.unwrap();
}

#[tokio::test]
async fn a_context_whose_projects_are_gone_finds_nothing() {
    let world = World::new();
    let gone = ProjectId::derive(&[b"gone"]);
    let tools = world.tools(RunContext::project(gone));
    assert_eq!(names(&tools).await, [LIST_DOCUMENTS, SEARCH_DOCUMENTS, READ_DOCUMENT]);
    let found = call(&tools, SEARCH_DOCUMENTS, json!({"query": "lease"})).await.unwrap();
    assert_eq!(found["total"], 0);
    let error = call(&tools, CREATE_DOCUMENT, written("new.md", None)).await.unwrap_err();
    assert!(matches!(error, ToolError::UnknownTool { .. }), "{error:?}");
    let with_one = RunContext { scope: Scope::MultiProject, project_ids: vec![world.one, gone] };
    assert_eq!(names(&world.tools(with_one)).await.len(), 6);
}
