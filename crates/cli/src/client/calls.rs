//! The calls that commands make, each known by its request.

use std::time::Duration;

use tonic::{Request, Response, Status};
use tree_agent_proto::v1 as pb;

use super::Client;

/// A request of a call that is not a stream.
pub(crate) trait Call: Clone {
    /// What the server answers.
    type Response;

    /// Makes the call once, within this time.
    fn make(
        self,
        client: &Client,
        within: Duration,
    ) -> impl Future<Output = Result<Response<Self::Response>, Status>>;
}

macro_rules! calls {
    ($($service:ident { $($request:ident => $method:ident -> $response:ident,)+ })+) => {$($(
        impl Call for pb::$request {
            type Response = pb::$response;

            async fn make(
                self,
                client: &Client,
                within: Duration,
            ) -> Result<Response<Self::Response>, Status> {
                let mut request = Request::new(self);
                request.set_timeout(within);
                client.$service().$method(request).await
            }
        }
    )+)+};
}

calls! {
    runs {
        CancelRunRequest => cancel_run -> CancelRunResponse,
        CreateRunRequest => create_run -> CreateRunResponse,
        DeleteRunRequest => delete_run -> DeleteRunResponse,
        DiffRunsRequest => diff_runs -> DiffRunsResponse,
        EditPlanRequest => edit_plan -> EditPlanResponse,
        EstimateRunRequest => estimate_run -> EstimateRunResponse,
        ForkRunRequest => fork_run -> ForkRunResponse,
        GetGraphRequest => get_graph -> GetGraphResponse,
        GetResultRequest => get_result -> GetResultResponse,
        GetRunRequest => get_run -> GetRunResponse,
        GuideNodeRequest => guide_node -> GuideNodeResponse,
        ListCitationsRequest => list_citations -> ListCitationsResponse,
        ListEventsRequest => list_events -> ListEventsResponse,
        ListRunsRequest => list_runs -> ListRunsResponse,
        PauseRunRequest => pause_run -> PauseRunResponse,
        ResumeRunRequest => resume_run -> ResumeRunResponse,
        RetryNodeRequest => retry_node -> RetryNodeResponse,
        SetBudgetRequest => set_budget -> SetBudgetResponse,
        StopNodeRequest => stop_node -> StopNodeResponse,
    }
    documents {
        CreateDocumentRequest => create_document -> CreateDocumentResponse,
        DeleteDocumentRequest => delete_document -> DeleteDocumentResponse,
        GetDocumentRequest => get_document -> GetDocumentResponse,
        ListDocumentsRequest => list_documents -> ListDocumentsResponse,
        SearchDocumentsRequest => search_documents -> SearchDocumentsResponse,
    }
    projects {
        CreateProjectRequest => create_project -> CreateProjectResponse,
        DeleteProjectRequest => delete_project -> DeleteProjectResponse,
        GetProjectRequest => get_project -> GetProjectResponse,
        ListMembersRequest => list_members -> ListMembersResponse,
        ListProjectsRequest => list_projects -> ListProjectsResponse,
        RemoveMemberRequest => remove_member -> RemoveMemberResponse,
        SetMemberRequest => set_member -> SetMemberResponse,
        UpdateProjectRequest => update_project -> UpdateProjectResponse,
    }
    models {
        ListModelsRequest => list_models -> ListModelsResponse,
    }
    server_info {
        GetServerInfoRequest => get_server_info -> GetServerInfoResponse,
        GetStatusRequest => get_status -> GetStatusResponse,
    }
}
