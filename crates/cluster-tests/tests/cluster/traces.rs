//! Traces, as a collector receives them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1::Resource;
use tonic::{Request, Response, Status};
use tree_agent_cluster_tests::{Cluster, Options, SOON, eventually};

/// A received span: its sender, its name, its own id and its parent's id.
#[derive(Clone, Debug)]
struct Received {
    service: String,
    name: String,
    id: Vec<u8>,
    parent: Vec<u8>,
}

/// Keeps the spans of each trace.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<BTreeMap<Vec<u8>, Vec<Received>>>>);

impl Collector {
    fn trace(&self, id: &[u8]) -> Vec<Received> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned().unwrap_or_default()
    }
}

fn name_of(resource: Option<Resource>) -> String {
    let attributes = resource.map(|r| r.attributes).unwrap_or_default();
    let name = attributes.into_iter().find(|a| a.key == "service.name").and_then(|a| a.value?.value);
    match name {
        Some(Value::StringValue(name)) => name,
        other => panic!("a resource without a name: {other:?}"),
    }
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut traces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for of_resource in request.into_inner().resource_spans {
            let service = name_of(of_resource.resource);
            for span in of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                traces.entry(span.trace_id).or_default().push(Received {
                    service: service.clone(),
                    name: span.name,
                    id: span.span_id,
                    parent: span.parent_span_id,
                });
            }
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_one_trace_through_all_services_under_the_id_of_the_run() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let collector = Collector::default();
    let service = TraceServiceServer::new(collector.clone());
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
    let settings =
        vec![("", "OTEL_EXPORTER_OTLP_ENDPOINT", url), ("", "OTEL_BSP_SCHEDULE_DELAY", "200".to_owned())];
    let cluster = Cluster::start(Options { settings, ..Options::default() }).await;
    let run = cluster.ask("What does a cluster do?").await;
    cluster.follow(&run).end().await;
    let id: uuid::Uuid = run.parse().expect("a run id is a UUID");
    let services = ["event-gateway", "planner", "executor"].map(|name| format!("tree-agent-{name}"));
    eventually("the run's trace spans gateway, planner and executor", SOON, async || {
        let seen: BTreeSet<String> =
            collector.trace(id.as_bytes()).into_iter().map(|span| span.service).collect();
        services.iter().all(|service| seen.contains(service))
    })
    .await;
    // An executor's request is a child of the planner's role call.
    eventually("the executor's request hangs under the planner's call", SOON, async || {
        let spans = collector.trace(id.as_bytes());
        let calls: BTreeSet<&[u8]> =
            spans.iter().filter(|s| s.name == "role call").map(|s| s.id.as_slice()).collect();
        spans.iter().any(|s| s.service == services[2] && s.name == "request" && calls.contains(&s.parent[..]))
    })
    .await;
    // The gateway's spans for the executor's tools are children of that request.
    eventually("a tool's request hangs under the executor's", SOON, async || {
        let spans = collector.trace(id.as_bytes());
        let of_executor: BTreeSet<&[u8]> =
            spans.iter().filter(|s| s.service == services[2]).map(|s| s.id.as_slice()).collect();
        spans.iter().any(|s| s.service == services[0] && of_executor.contains(&s.parent[..]))
    })
    .await;
}
