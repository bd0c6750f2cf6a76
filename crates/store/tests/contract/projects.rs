//! Changes of projects, and their end.

use std::time::Duration;

use tree_agent_contract::{
    Document, DocumentKind, DocumentProps, ProjectStatus, RunContext, RunStatus, Scope, Timestamp, ToolRules,
};
use tree_agent_store::{
    AppendOutcome, Project, ProjectChange, ProjectDeletion, ProjectQuery, RulesChange, StoreError,
};

use crate::documents::{new_project, project_id, source};
use crate::fixture::{Fixture, append, claim, new_run, run_id, run_row};
use crate::passages::found;

fn named(name: &str) -> ProjectChange {
    ProjectChange { name: Some(name.into()), at: Timestamp(7), ..ProjectChange::default() }
}

pub async fn a_change_leaves_the_rest_as_it_is(f: Fixture) {
    let before = f.store.create_project(new_project(1, "One")).await.unwrap();
    assert_eq!((before.status, &before.tools), (ProjectStatus::Active, &ToolRules::default()));
    let denied = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let rules = RulesChange {
        denied_tools: Some(denied(&["create_document", "files__read"])),
        read_only: Some(true),
        ..RulesChange::default()
    };
    let change = ProjectChange { tools: rules, at: Timestamp(5), ..ProjectChange::default() };
    let changed = f.store.update_project(project_id(1), change).await.unwrap();
    let tools = ToolRules {
        denied_tools: denied(&["create_document", "files__read"]),
        read_only: true,
        ..ToolRules::default()
    };
    let revision = changed.revision;
    assert_eq!(changed, Project { tools: tools.clone(), updated_at: Timestamp(5), revision, ..before });
    // Other rules of the same project stay, and a list is replaced as a whole.
    let rules = RulesChange { denied_tools: Some(vec![]), ..RulesChange::default() };
    let change = ProjectChange {
        description: Some("new\0".into()),
        status: Some(ProjectStatus::Archived),
        tools: rules,
        ..named("Uno")
    };
    let changed = f.store.update_project(project_id(1), change).await.unwrap();
    let expected = Project {
        name: "Uno".into(),
        description: "new\u{fffd}".into(),
        status: ProjectStatus::Archived,
        tools: ToolRules { denied_tools: vec![], ..tools },
        updated_at: Timestamp(7),
        ..changed.clone()
    };
    assert_eq!(changed, expected);
    assert_eq!(f.store.project(project_id(1)).await.unwrap(), expected);
    let uncounted = f.store.uncounted_project(project_id(1)).await.unwrap();
    assert_eq!((uncounted.name, uncounted.revision), (expected.name.clone(), expected.revision));
    let found = async |statuses: &[ProjectStatus]| {
        let query = ProjectQuery { statuses: statuses.to_vec(), limit: 10, ..ProjectQuery::default() };
        let page = f.store.list_projects(query).await.unwrap();
        page.items.into_iter().map(|project| project.name).collect::<Vec<_>>()
    };
    f.store.create_project(new_project(2, "Two")).await.unwrap();
    assert_eq!(found(&[]).await, ["Two", "Uno"]);
    assert_eq!(found(&[ProjectStatus::Active]).await, ["Two"]);
    assert_eq!(found(&[ProjectStatus::Archived]).await, ["Uno"]);
    assert_eq!(found(ProjectStatus::ALL).await, ["Two", "Uno"]);
}

pub async fn a_new_name_is_unique_and_the_old_one_is_free(f: Fixture) {
    f.store.create_project(new_project(1, "One")).await.unwrap();
    f.store.create_project(new_project(2, "Two")).await.unwrap();
    let error = f.store.update_project(project_id(2), named("ONE")).await.unwrap_err();
    assert!(matches!(&error, StoreError::Conflict(text) if text.contains("ONE")), "{error:?}");
    assert_eq!(f.store.project(project_id(2)).await.unwrap().name, "Two");
    // Another case of its own name is no conflict.
    assert_eq!(f.store.update_project(project_id(1), named("oNE")).await.unwrap().name, "oNE");
    f.store.update_project(project_id(1), named("Three")).await.unwrap();
    f.store.update_project(project_id(2), named("one")).await.unwrap();
    let missing = f.store.update_project(project_id(9), named("Nine")).await.unwrap_err();
    assert!(matches!(missing, StoreError::NotFound { what: "project", .. }));
}

pub async fn a_deleted_project_takes_its_documents_along(f: Fixture) {
    for (n, name) in [(1, "One"), (2, "Two")] {
        f.store.create_project(new_project(n, name)).await.unwrap();
        f.store.put_document(source(n, n, "a.md", "T", "kumquat")).await.unwrap();
    }
    assert_eq!(f.store.delete_project(project_id(1), false).await.unwrap(), ProjectDeletion::Deleted);
    for missing in [
        f.store.project(project_id(1)).await.map(drop),
        f.store.delete_project(project_id(1), true).await.map(drop),
        f.store.put_document(source(1, 1, "a.md", "T", "x")).await,
        f.store.document(source(1, 1, "a.md", "T", "x").id).await.map(drop),
    ] {
        assert!(matches!(missing, Err(StoreError::NotFound { .. })), "{missing:?}");
    }
    assert_eq!(found(&f, "kumquat").await, [2]);
    // Its name is free again, and so is its id.
    f.store.create_project(new_project(1, "One")).await.unwrap();
    assert_eq!(f.store.project(project_id(1)).await.unwrap().document_count, 0);
}

pub async fn a_project_that_live_runs_name_is_kept_unless_forced(f: Fixture) {
    for n in [1, 2] {
        f.store.create_project(new_project(n, &format!("P{n}"))).await.unwrap();
        let mut run = new_run(n);
        run.spec.context = RunContext::project(project_id(n));
        f.store.create_run(run).await.unwrap();
    }
    let in_use = ProjectDeletion::InUse(vec![run_id(1)]);
    assert_eq!(f.store.delete_project(project_id(1), false).await.unwrap(), in_use);
    assert_eq!(f.store.project(project_id(1)).await.unwrap().name, "P1");
    assert_eq!(f.store.delete_project(project_id(1), true).await.unwrap(), ProjectDeletion::Deleted);
    assert!(f.store.run(run_id(1)).await.is_ok(), "the run is there without its project");
    // A run that has ended holds nothing up.
    let claims = claim(&*f.store, "a", Duration::from_secs(60), 10).await;
    let claimed = claims.iter().find(|claim| claim.run_id == run_id(2)).unwrap();
    let mut end = append(claimed.run_id, claimed.epoch, 2, 1);
    end.projection.run = Some(run_row(RunStatus::Completed));
    assert_eq!(f.store.append([end].into()).await.unwrap(), [AppendOutcome::Appended]);
    assert_eq!(f.store.delete_project(project_id(2), false).await.unwrap(), ProjectDeletion::Deleted);
}

pub async fn a_tool_replaces_what_tools_wrote_and_nothing_else(f: Fixture) {
    f.store.create_project(new_project(1, "One")).await.unwrap();
    let of_tool = |n: u128, path: &str, body: &str| {
        let document = source(n, 1, path, "T", body);
        let props = DocumentProps { tree_agent_run_id: Some(run_id(n)), ..document.props };
        Document { props, ..document }
    };
    let body = async |n: u128| f.store.document(of_tool(n, "", "").id).await.unwrap().body;
    f.store.put_document(source(1, 1, "imported.md", "T", "by people")).await.unwrap();
    assert!(!f.store.put_tool_document(of_tool(1, "imported.md", "by a tool")).await.unwrap());
    assert_eq!(body(1).await, "by people");
    for text in ["by a tool", "by it again"] {
        assert!(f.store.put_tool_document(of_tool(2, "new.md", text)).await.unwrap());
        assert_eq!(body(2).await, text);
    }
    // What people replace is theirs, and what a tool may replace becomes a tool's.
    f.store.put_document(source(2, 1, "new.md", "T", "by people")).await.unwrap();
    assert!(!f.store.put_tool_document(of_tool(2, "new.md", "by a tool")).await.unwrap());
    f.store.put_document(of_tool(2, "new.md", "by a tool")).await.unwrap();
    assert!(f.store.put_tool_document(of_tool(2, "new.md", "by it again")).await.unwrap());
    assert_eq!(found(&f, "people").await, [1]);
    assert_eq!(found(&f, "again").await, [2], "what was refused is not in the index");
}

pub async fn documents_of_projects_that_have_changed_are_named_and_counted(f: Fixture) {
    f.store.create_project(new_project(1, "One")).await.unwrap();
    f.store.create_project(new_project(2, "Two")).await.unwrap();
    let since = Timestamp(1_000);
    for (n, p, path, at) in
        [(1, 1, "b.md", 1_000), (2, 1, "c.md", 1_001), (3, 1, "a.md", 2_000), (4, 2, "a.md", 3_000)]
    {
        let document = Document { updated_at: Timestamp(at), ..source(n, p, path, "T", "text") };
        f.store.put_document(document).await.unwrap();
    }
    let mut of_run = Document { updated_at: Timestamp(9_000), ..source(5, 1, "", "Pad", "x") };
    (of_run.kind, of_run.project_id, of_run.run_id) = (DocumentKind::Scratchpad, None, Some(run_id(7)));
    f.store.put_document(of_run).await.unwrap();
    let changed = async |context: RunContext, limit: usize| {
        let found = f.store.documents_changed(&context, since, limit).await.unwrap();
        (found.ids.iter().map(|id| id.0.as_u128()).collect::<Vec<_>>(), found.total)
    };
    let of = |projects: &[u128]| RunContext {
        scope: Scope::Project,
        project_ids: projects.iter().map(|n| project_id(*n)).collect(),
    };
    assert_eq!(changed(RunContext::default(), 9).await, (vec![3, 4, 2], 3));
    assert_eq!(changed(RunContext::default(), 2).await, (vec![3, 4], 3));
    assert_eq!(changed(of(&[1]), 9).await, (vec![3, 2], 2));
    assert_eq!(changed(of(&[2, 9]), 9).await, (vec![4], 1));
    assert_eq!(changed(of(&[]), 9).await, (vec![], 0));
}

pub async fn every_change_of_a_project_or_its_documents_has_a_revision_of_its_own(f: Fixture) {
    let revision = async |n: u128| f.store.project(project_id(n)).await.unwrap().revision;
    f.store.create_project(new_project(1, "One")).await.unwrap();
    f.store.create_project(new_project(2, "Two")).await.unwrap();
    let (mut seen, other) = (vec![revision(1).await], revision(2).await);
    assert!(seen[0] > 0, "0 means that nobody counts");
    f.store.put_document(source(1, 1, "a.md", "A", "old")).await.unwrap();
    seen.push(revision(1).await);
    f.store.put_document(source(1, 1, "a.md", "A", "new")).await.unwrap();
    seen.push(revision(1).await);
    f.store.put_tool_document(source(2, 1, "b.md", "B", "by a tool")).await.unwrap();
    seen.push(revision(1).await);
    let rules = RulesChange { read_only: Some(true), ..RulesChange::default() };
    let change = ProjectChange { tools: rules, at: Timestamp(5), ..ProjectChange::default() };
    let changed = f.store.update_project(project_id(1), change).await.unwrap();
    seen.push(changed.revision);
    f.store.delete_source(source(1, 1, "a.md", "", "").id, None).await.unwrap();
    seen.push(revision(1).await);
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
    assert_eq!(revision(1).await, seen[5], "reading changes nothing");
    assert_eq!(revision(2).await, other, "each project counts for itself");
    let page = f.store.list_projects(ProjectQuery { limit: 10, ..ProjectQuery::default() }).await.unwrap();
    assert_eq!(page.items.iter().map(|p| p.revision).collect::<Vec<_>>(), [seen[5], other]);
}
