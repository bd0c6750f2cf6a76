//! Projects change, are archived and are deleted.

use crate::common::{Gateway, field};
use prost_types::FieldMask;
use tonic::{Code, Status};
use tonic_types::StatusExt;
use tree_agent_event_gateway::Config;
use tree_agent_proto::v1::*;

const NOBODY: &str = "0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b";

/// The code, the reason and the field of a refusal.
fn refusal(status: &Status) -> (Code, String, String) {
    let details = status.get_error_details();
    let reason = details.error_info().map(|info| info.reason.clone()).unwrap_or_default();
    (status.code(), reason, field(status))
}

async fn update(gateway: &Gateway, project: Project, paths: &[&str]) -> Result<Project, Status> {
    let update_mask = Some(FieldMask { paths: paths.iter().map(|&path| path.to_owned()).collect() });
    let request = UpdateProjectRequest { project: Some(project), update_mask };
    Ok(gateway.projects().update_project(request).await?.into_inner().project.unwrap())
}

fn run_on(project: &Project) -> CreateRunRequest {
    let ids = vec![project.project_id.clone()];
    let context = Some(RunContext { scope: Scope::Project as i32, project_ids: ids });
    CreateRunRequest { objective: "why?".into(), context, ..Default::default() }
}

#[tokio::test]
async fn a_project_changes_as_its_mask_says() {
    let gateway = Gateway::start(Config::default()).await;
    let one = gateway.create_project("One").await;
    assert_eq!((one.status(), one.tools.clone()), (ProjectStatus::Active, Some(ToolRules::default())));
    let tools =
        ToolRules { denied_tools: vec!["create_document".into()], read_only: true, ..Default::default() };
    let wanted = Project { name: " Uno ".into(), tools: Some(tools.clone()), ..one.clone() };
    let changed = update(&gateway, wanted.clone(), &["tools.denied_tools"]).await.unwrap();
    assert_eq!(changed.name, "One");
    assert_eq!(changed.tools.unwrap(), ToolRules { read_only: false, ..tools.clone() });
    let changed = update(&gateway, wanted.clone(), &["name", "tools"]).await.unwrap();
    assert_eq!((changed.name.as_str(), changed.tools.as_ref()), ("Uno", Some(&tools)));
    let key = Some(get_project_request::Key::Name("uno".into()));
    let read = gateway.projects().get_project(GetProjectRequest { key }).await.unwrap().into_inner();
    assert_eq!(read.project.unwrap(), changed);

    // Refusals name what is wrong, and change nothing.
    let two = gateway.create_project("Two").await;
    let named = |name: &str| Project { name: name.into(), ..two.clone() };
    let nobody = Project { project_id: NOBODY.into(), ..named("x") };
    let odd = Project {
        tools: Some(ToolRules { allowed_tools: vec!["create_documents".into()], ..Default::default() }),
        ..two.clone()
    };
    let invalid = (Code::InvalidArgument, "INVALID_FIELD");
    for (project, paths, (code, reason), at) in [
        (named("UNO"), ["name"], (Code::AlreadyExists, "ALREADY_EXISTS"), "project.name"),
        (named("\u{202e}"), ["name"], invalid, "project.name"),
        (named("x"), ["document_count"], invalid, "update_mask"),
        (Project { status: 9, ..two.clone() }, ["status"], invalid, "project.status"),
        (odd, ["tools"], invalid, "project.tools.allowed_tools[0]"),
        (nobody, ["name"], (Code::NotFound, "NOT_FOUND"), "project_id"),
        (
            Project { project_id: "x".into(), ..named("x") },
            ["name"],
            (Code::NotFound, "NOT_FOUND"),
            "project.project_id",
        ),
    ] {
        let status = update(&gateway, project, &paths).await.unwrap_err();
        assert_eq!(refusal(&status), (code, reason.to_owned(), at.to_owned()), "{status:?}");
    }
    let none = UpdateProjectRequest::default();
    assert_eq!(field(&gateway.projects().update_project(none).await.unwrap_err()), "project");
    let key = Some(get_project_request::Key::ProjectId(two.project_id.clone()));
    let read = gateway.projects().get_project(GetProjectRequest { key }).await.unwrap().into_inner();
    assert_eq!(read.project.unwrap(), two);
    gateway.stop().await;
}

#[tokio::test]
async fn an_archived_project_takes_nothing_new_and_can_be_read() {
    let gateway = Gateway::start(Config::default()).await;
    let one = gateway.create_project("One").await;
    let write = CreateDocumentRequest {
        project_id: one.project_id.clone(),
        path: "a.md".into(),
        body: "A fence.".into(),
        ..Default::default()
    };
    let written = gateway.documents().create_document(write.clone()).await.unwrap().into_inner();
    let once = CreateRunRequest { request_id: "once".into(), ..run_on(&one) };
    let run = gateway.runs().create_run(once.clone()).await.unwrap().into_inner().run.unwrap();

    let archived = Project { status: ProjectStatus::Archived as i32, ..one.clone() };
    assert_eq!(update(&gateway, archived, &["status"]).await.unwrap().status(), ProjectStatus::Archived);
    let expected = |at: &str| (Code::FailedPrecondition, "PROJECT_ARCHIVED".to_owned(), at.to_owned());
    let status = gateway.runs().create_run(run_on(&one)).await.unwrap_err();
    assert_eq!(refusal(&status), expected("context.project_ids[0]"));
    let status = gateway.documents().create_document(write.clone()).await.unwrap_err();
    assert_eq!(refusal(&status), expected("project_id"));
    // What was accepted before stays accepted, and what is there can be read.
    let again = gateway.runs().create_run(once).await.unwrap().into_inner().run.unwrap();
    assert_eq!(again.run_id, run.run_id);
    let document_id = written.document.unwrap().document_id;
    let delete = DeleteDocumentRequest { document_id: document_id.clone(), ..Default::default() };
    let status = gateway.documents().delete_document(delete).await.unwrap_err();
    assert_eq!(refusal(&status), expected("document_id"));
    gateway.documents().get_document(GetDocumentRequest { document_id, ..Default::default() }).await.unwrap();
    gateway.create_project("Two").await;
    let listed = async |statuses: &[ProjectStatus]| {
        let statuses = statuses.iter().map(|&status| status as i32).collect();
        let request = ListProjectsRequest { statuses, ..Default::default() };
        let page = gateway.projects().list_projects(request).await.unwrap().into_inner();
        page.projects.into_iter().map(|project| project.name).collect::<Vec<_>>()
    };
    assert_eq!(listed(&[]).await, ["One", "Two"]);
    assert_eq!(listed(&[ProjectStatus::Active]).await, ["Two"]);
    assert_eq!(listed(&[ProjectStatus::Archived]).await, ["One"]);

    let active = Project { status: ProjectStatus::Active as i32, ..one.clone() };
    update(&gateway, active, &["status"]).await.unwrap();
    gateway.runs().create_run(run_on(&one)).await.unwrap();
    gateway.documents().create_document(write).await.unwrap();
    gateway.stop().await;
}

#[tokio::test]
async fn a_project_in_use_is_deleted_only_by_force_and_its_run_keeps_its_documents() {
    let gateway = Gateway::start(Config::default()).await;
    let one = gateway.create_project("One").await;
    let run = gateway.runs().create_run(run_on(&one)).await.unwrap().into_inner().run.unwrap();
    let of_run = ListDocumentsRequest { run_id: run.run_id.clone(), ..Default::default() };
    let of_run = gateway.documents().list_documents(of_run).await.unwrap().into_inner().documents.remove(0);
    let delete = |force| DeleteProjectRequest { project_id: one.project_id.clone(), force };
    let status = gateway.projects().delete_project(delete(false)).await.unwrap_err();
    let expected = (Code::FailedPrecondition, "PROJECT_IN_USE".to_owned(), "project_id".to_owned());
    assert_eq!(refusal(&status), expected);
    assert!(status.message().contains(&run.run_id), "{status:?}");
    gateway.projects().delete_project(delete(true)).await.unwrap();
    let status = gateway.projects().delete_project(delete(true)).await.unwrap_err();
    assert_eq!(refusal(&status), (Code::NotFound, "NOT_FOUND".to_owned(), "project_id".to_owned()));
    // The run is there, with its context and its documents.
    let request = GetRunRequest { run_id: run.run_id.clone() };
    assert_eq!(gateway.runs().get_run(request).await.unwrap().into_inner().run.unwrap().context, run.context);
    let request = GetDocumentRequest { document_id: of_run.document_id.clone(), ..Default::default() };
    let read = gateway.documents().get_document(request).await.unwrap().into_inner().document.unwrap();
    assert_eq!(read.summary.unwrap().document_id, of_run.document_id);
    gateway.stop().await;
}
