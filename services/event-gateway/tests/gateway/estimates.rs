//! Estimates: what one call can use comes from the role services, each of which knows its own calls.

use crate::common::Gateway;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};
use tree_agent_event_gateway::Config;
use tree_agent_proto::internal::v1 as internal;
use tree_agent_proto::internal::v1::model_service_server::{ModelService, ModelServiceServer};
use tree_agent_proto::v1::{
    Budgets, CallCost, CreateRunRequest, EstimateRunRequest, EstimateRunResponse, RoleCosts, RunContext,
    Scope, SearchConfig, Strategy,
};
use tree_agent_runtime::config::RoleUrls;

/// A role service that says what one call uses.
struct Role {
    per_call: Option<RoleCosts>,
}

#[tonic::async_trait]
impl ModelService for Role {
    async fn check_model(
        &self,
        request: Request<internal::CheckModelRequest>,
    ) -> Result<Response<internal::CheckModelResponse>, Status> {
        assert_eq!(request.into_inner().model, "openai:some-model");
        Ok(Response::new(internal::CheckModelResponse {
            version: String::new(),
            problem: None,
            model: "openai:some-model".into(),
            per_call: self.per_call,
            writing_tools: vec!["files__write_file".into()],
        }))
    }

    async fn list_models(
        &self,
        _: Request<internal::ListModelsRequest>,
    ) -> Result<Response<internal::ListModelsResponse>, Status> {
        Err(Status::unimplemented("not in this test"))
    }
}

/// Costs of a role service that knows calls of each role at another price, beginning with `first`.
fn costs(first: u64) -> RoleCosts {
    let cost = |n| Some(CallCost { tokens: first + n, cost_micros: Some(10 * (first + n)) });
    RoleCosts { plan: cost(1), execute: cost(2), aggregate: cost(3), research: cost(4) }
}

async fn serve(per_call: Option<RoleCosts>) -> http::Uri {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tonic::transport::Server::builder().add_service(ModelServiceServer::new(Role { per_call }));
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    format!("http://{address}").parse().unwrap()
}

/// The estimate of a run, where the aggregator says `aggregator`.
async fn estimate(aggregator: Option<RoleCosts>) -> EstimateRunResponse {
    let budgets = Budgets { max_depth: Some(1), max_replans_per_node: Some(0), ..budgets() };
    estimate_of(aggregator, EstimateRunRequest { budgets: Some(budgets), ..EstimateRunRequest::default() })
        .await
}

/// Four nodes, and two attempts at each call.
fn budgets() -> Budgets {
    Budgets { max_nodes: Some(4), max_attempts: Some(2), ..Budgets::default() }
}

async fn gateway(aggregator: Option<RoleCosts>) -> Gateway {
    let roles = RoleUrls {
        planners: vec![serve(Some(costs(100))).await],
        executors: vec![serve(Some(costs(200))).await],
        aggregators: vec![serve(aggregator).await],
        ..RoleUrls::default()
    };
    Gateway::start(Config { roles, ..Config::default() }).await
}

async fn estimate_of(aggregator: Option<RoleCosts>, request: EstimateRunRequest) -> EstimateRunResponse {
    let gateway = gateway(aggregator).await;
    let request = EstimateRunRequest { model: "openai:some-model".into(), ..request };
    let answer = gateway.runs().estimate_run(request).await.unwrap().into_inner();
    gateway.stop().await;
    answer
}

#[tokio::test]
async fn a_search_is_bounded_by_its_topics() {
    let search = SearchConfig { max_depth: Some(3), ..SearchConfig::default() };
    let request = EstimateRunRequest {
        strategy: Strategy::Search.into(),
        search: Some(search),
        budgets: Some(budgets()),
        ..EstimateRunRequest::default()
    };
    let unverified = EstimateRunRequest { verify: Some(false), ..request.clone() };
    let unverified = estimate_of(Some(costs(300)), unverified).await.estimate.unwrap();
    assert_eq!((unverified.verify_calls, unverified.tokens), (0, Some(2 * (4 * 204 + 6 * 101 + 303))));
    let estimate = estimate_of(Some(costs(300)), request).await.estimate.unwrap();
    // The root and three topics; all but one topic of the first level are picked, each in up to three questions.
    let calls = (estimate.research_calls, estimate.pick_calls, estimate.aggregate_calls);
    assert_eq!((calls, estimate.plan_calls, estimate.execute_calls), ((4, 6, 1), 0, 0));
    assert_eq!((estimate.nodes, estimate.depth), (4, 3));
    // The synthesis of a language model is verified by a call of the aggregator.
    assert_eq!(estimate.verify_calls, 1);
    assert_eq!(estimate.tokens, Some(2 * (4 * 204 + 6 * 101 + 2 * 303)));
    let wrong = SearchConfig { max_depth: Some(0), ..SearchConfig::default() };
    let gateway = Gateway::start(Config::default()).await;
    let request = EstimateRunRequest {
        strategy: Strategy::Search.into(),
        search: Some(wrong),
        ..EstimateRunRequest::default()
    };
    let status = gateway.runs().estimate_run(request).await.unwrap_err();
    assert_eq!(crate::common::field(&status), "search.max_depth");
    gateway.stop().await;
}

#[tokio::test]
async fn each_role_service_says_what_its_own_calls_use() {
    let answer = estimate(Some(costs(300))).await;
    assert_eq!(answer.model, "openai:some-model");
    let (plan, execute, aggregate) = (costs(100).plan, costs(200).execute, costs(300).aggregate);
    let research = costs(200).research;
    assert_eq!(answer.per_call, Some(RoleCosts { plan, execute, aggregate, research }));
    let estimate = answer.estimate.unwrap();
    assert_eq!((estimate.nodes, estimate.attempts), (4, 2));
    let calls = (estimate.plan_calls, estimate.execute_calls, estimate.aggregate_calls);
    assert_eq!(calls, (1, 4, 1), "only the root may plan");
    assert_eq!(estimate.verify_calls, 1);
    let tokens = 2 * (101 + 4 * 202 + 2 * 303);
    assert_eq!((estimate.tokens, estimate.cost_micros), (Some(tokens), Some(10 * tokens)));
    assert_eq!(estimate.unlimited, ["maxToolCalls"]);
}

#[tokio::test]
async fn what_one_role_service_does_not_know_is_not_estimated() {
    let answer = estimate(None).await;
    assert_eq!((answer.model.as_str(), answer.per_call), ("openai:some-model", None));
    let estimate = answer.estimate.unwrap();
    assert_eq!((estimate.tokens, estimate.cost_micros), (None, None));
    assert_eq!(estimate.unlimited, ["maxTokens", "maxCostMicros", "maxToolCalls"]);
}

#[tokio::test]
async fn a_run_without_a_project_names_the_tools_that_it_goes_without() {
    let gateway = gateway(Some(costs(300))).await;
    let project = gateway.create_project("Notes").await.project_id;
    let of_project = RunContext { scope: Scope::Project.into(), project_ids: vec![project] };
    let create = async |context: Option<&RunContext>, read_only, write| {
        let request = CreateRunRequest {
            objective: "why?".into(),
            model: "openai:some-model".into(),
            context: context.cloned(),
            read_only,
            write,
            ..Default::default()
        };
        let created = gateway.runs().create_run(request).await?.into_inner();
        Ok::<_, Status>((created.run.unwrap().read_only, created.warnings.join("; ")))
    };
    let (read_only, warnings) = create(None, None, None).await.unwrap();
    assert!(read_only && warnings.contains("create_document, files__write_file"), "{warnings}");
    let (read_only, warnings) = create(None, Some(false), None).await.unwrap();
    assert!(read_only && warnings.contains("create_document"), "false does not ask to write: {warnings}");
    for (context, read_only, write, expected) in [
        (None, Some(true), None, true),
        (None, None, Some(true), false),
        (Some(&of_project), None, None, false),
        (Some(&of_project), Some(true), None, true),
    ] {
        assert_eq!(create(context, read_only, write).await.unwrap(), (expected, String::new()));
    }
    let refused = create(None, Some(true), Some(true)).await.unwrap_err();
    assert_eq!(crate::common::field(&refused), "write");
    gateway.stop().await;
}
