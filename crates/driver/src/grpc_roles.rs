//! Role calls over gRPC: deadlines, heartbeats, and another replica if one cannot be reached.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, timeout, timeout_at};
use tonic::{Code, Request, Status, Streaming};
use tracing::Instrument;
use tree_agent_contract::error::FieldError;
use tree_agent_contract::limits;
use tree_agent_contract::role::{
    AggregatorOutput, ExecutorOutput, PickOutput, PlannerOutput, ResearchOutput, RoleError, RoleErrorKind,
    RoleUpdate, VerifierOutput,
};
use tree_agent_engine::{CallInput, CallOutput, RoleCall};
use tree_agent_proto::internal::v1::aggregator_service_client::AggregatorServiceClient;
use tree_agent_proto::internal::v1::executor_service_client::ExecutorServiceClient;
use tree_agent_proto::internal::v1::planner_service_client::PlannerServiceClient;
use tree_agent_proto::{Wire, internal::v1 as pb, role_error};
use tree_agent_runtime::channel::Peers;
use tree_agent_runtime::config::RoleUrls;
use tree_agent_runtime::retry::backoff_within;
use tree_agent_runtime::{Metrics, telemetry};

use crate::metrics::RoleStats;
use crate::roles::{Roles, Updates};
use crate::task::timed_out;

/// A role sends something at least every 5 s. Three times that much silence means that it is stuck or down.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Attempts to reach a replica before the call is reported as unreachable.
const TRIES: u32 = 3;
/// The first and the longest pause between them.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// Calls for each connection to a replica. It is half of the streams that a server allows by default, because calls are
/// spread at random.
const CALLS_PER_CONNECTION: usize = 2_048;

/// The role services, each balanced over its replicas.
#[derive(Clone)]
pub struct GrpcRoles {
    planner: PlannerServiceClient<Peers>,
    executor: ExecutorServiceClient<Peers>,
    aggregator: AggregatorServiceClient<Peers>,
    heartbeat: Duration,
    stats: RoleStats,
}

impl GrpcRoles {
    /// Clients of the services at these URLs, connected on first use, for at most `calls` calls in flight. Must be
    /// called within a runtime.
    pub fn new(urls: &RoleUrls, calls: usize) -> Self {
        let connections = calls.div_ceil(CALLS_PER_CONNECTION);
        let balanced = |replicas| urls.connector.balanced_over(replicas, connections);
        Self {
            planner: PlannerServiceClient::new(balanced(&urls.planners))
                .max_decoding_message_size(limits::MESSAGE_BYTES),
            executor: ExecutorServiceClient::new(balanced(&urls.executors))
                .max_decoding_message_size(limits::MESSAGE_BYTES),
            aggregator: AggregatorServiceClient::new(balanced(&urls.aggregators))
                .max_decoding_message_size(limits::MESSAGE_BYTES),
            heartbeat: HEARTBEAT,
            stats: RoleStats::default(),
        }
    }

    /// Registers its metrics.
    pub fn measure(&self, metrics: &mut Metrics) {
        self.stats.measure(metrics);
    }

    /// Sets another limit for the silence of a role.
    #[must_use]
    pub fn heartbeat(mut self, heartbeat: Duration) -> Self {
        self.heartbeat = heartbeat;
        self
    }
}

/// The parts of a message of any role stream.
#[expect(clippy::large_enum_variant, reason = "a part is taken apart at once")]
enum Part<O> {
    Update(pb::RoleUpdate),
    Output(O),
}

/// What the response types have in common.
trait Response: Send + 'static {
    type Output: Wire<Pb = Self::PbOutput> + Send;
    type PbOutput: Send;
    fn part(self) -> Option<Part<Self::PbOutput>>;
}

macro_rules! response {
    ($($response:ident, $output:ident, $message:ident;)*) => {$(
        impl Response for pb::$response {
            type Output = $output;
            type PbOutput = pb::$output;
            fn part(self) -> Option<Part<pb::$output>> {
                Some(match self.message? {
                    pb::$message::Message::Update(update) => Part::Update(update),
                    pb::$message::Message::Output(output) => Part::Output(output),
                })
            }
        }
    )*};
}
response! {
    PlanResponse, PlannerOutput, plan_response;
    ExecuteResponse, ExecutorOutput, execute_response;
    AggregateResponse, AggregatorOutput, aggregate_response;
    ResearchResponse, ResearchOutput, research_response;
    PickResponse, PickOutput, pick_response;
    VerifyResponse, VerifierOutput, verify_response;
}

#[async_trait]
impl Roles for GrpcRoles {
    async fn call(&self, call: RoleCall, updates: Updates) -> Result<CallOutput, RoleError> {
        let counted = self.stats.begin(call.key.kind);
        let time = Duration::from_millis(call.timeout_ms);
        let exchange = Exchange { deadline: Instant::now() + time, time, heartbeat: self.heartbeat, updates };
        let answer = self.exchange(exchange, &call.input);
        if !telemetry::exporting() {
            return counted.ended(answer.await);
        }
        let node = tracing::field::display(call.key.node_id);
        let span = tracing::info_span!("role call", kind = ?call.key.kind, node);
        telemetry::join_run(&span, call.input.context().run_id);
        counted.ended(answer.instrument(span).await)
    }
}

impl GrpcRoles {
    /// Opening needs a future of five kilobytes, which must not be kept while the stream is read.
    async fn exchange(&self, exchange: Exchange, input: &CallInput) -> Result<CallOutput, RoleError> {
        macro_rules! ask {
            ($input:ident, $service:ident . $method:ident, $output:ident) => {{
                let start = |request| {
                    let mut client = self.$service.clone();
                    async move { client.$method(request).await }
                };
                let stream = Box::pin(exchange.open(start, &**$input)).await?;
                exchange.read(stream).await.map(CallOutput::$output)
            }};
        }
        match input {
            CallInput::Plan(input) => ask!(input, planner.plan, Plan),
            CallInput::Execute(input) => ask!(input, executor.execute, Execute),
            CallInput::Aggregate(input) => ask!(input, aggregator.aggregate, Aggregate),
            CallInput::Research(input) => ask!(input, executor.research, Research),
            CallInput::Pick(input) => ask!(input, planner.pick, Pick),
            CallInput::Verify(input) => ask!(input, aggregator.verify, Verify),
        }
    }
}

/// One call, from its opening to its end.
struct Exchange {
    deadline: Instant,
    time: Duration,
    heartbeat: Duration,
    updates: Updates,
}

impl Exchange {
    /// Opens the stream. If a replica cannot be reached, another one is tried; nothing was attempted at the first.
    async fn open<I, R, F, Fut>(&self, start: F, input: &I) -> Result<Streaming<R>, RoleError>
    where
        I: Wire,
        F: Fn(Request<I::Pb>) -> Fut,
        Fut: Future<Output = Result<tonic::Response<Streaming<R>>, Status>>,
    {
        let mut tries = 0;
        loop {
            tries += 1;
            let mut request = Request::new(input.to_wire());
            request.set_timeout(self.deadline.saturating_duration_since(Instant::now()));
            // While no replica is known the balancer waits. A silent replica is given up like a silent stream.
            let patience = self.deadline.min(Instant::now() + self.heartbeat);
            let status = match timeout_at(patience, start(request)).await {
                Ok(Ok(response)) => return Ok(response.into_inner()),
                Ok(Err(status)) => status,
                Err(_) if Instant::now() >= self.deadline => return Err(timed_out("no answer", self.time)),
                Err(_) => Status::new(Code::Unavailable, "no replica answered"),
            };
            let error = role_error(&status);
            if error.kind != RoleErrorKind::Unreachable || tries == TRIES {
                return Err(error);
            }
            tokio::time::sleep(backoff_within(FIRST_PAUSE, LAST_PAUSE, tries)).await;
        }
    }

    /// Reads updates and the one output.
    async fn read<R: Response>(&self, mut stream: Streaming<R>) -> Result<R::Output, RoleError> {
        let mut output = None;
        loop {
            let patience = self.deadline.min(Instant::now() + self.heartbeat);
            let message = match timeout_at(patience, stream.message()).await {
                Ok(Ok(message)) => message,
                Ok(Err(status)) => return Err(broken(&status)),
                Err(_) if Instant::now() >= self.deadline => return Err(timed_out("no output", self.time)),
                Err(_) => return Err(timed_out("no sign of life", self.heartbeat)),
            };
            let Some(message) = message else { break };
            match message.part() {
                _ if output.is_some() => {
                    return Err(invalid(
                        "something followed the output; a call ends with exactly one output",
                    ));
                }
                None => return Err(invalid("a message holds neither an update nor an output")),
                Some(Part::Output(out)) => {
                    output = Some(Wire::from_wire(out).map_err(|e| malformed("output", &e))?)
                }
                Some(Part::Update(update)) => {
                    let update = RoleUpdate::from_wire(update).map_err(|e| malformed("update", &e))?;
                    update.validate().map_err(|e| invalid(&format!("an update is over the limits: {e}")))?;
                    // A mailbox that stays full until the deadline ends the call like any other delay.
                    let sent = timeout(
                        self.deadline.saturating_duration_since(Instant::now()),
                        self.updates.send(update),
                    );
                    if !matches!(sent.await, Ok(Ok(()))) {
                        return Err(timed_out("the updates were not taken", self.time));
                    }
                }
            }
        }
        output.ok_or_else(|| invalid("the stream ended without an output"))
    }
}

/// The failure of a stream that was open. A replica that reports that it drains has not failed. One that vanishes has,
/// because the call may have killed it.
fn broken(status: &Status) -> RoleError {
    let error = role_error(status);
    match (error.kind, status.code()) {
        (RoleErrorKind::Unreachable, Code::Unavailable) if !status.details().is_empty() => error,
        (RoleErrorKind::Unreachable, _) => {
            RoleError::new(RoleErrorKind::Internal, format!("the connection broke: {}", status.message()))
        }
        _ => error,
    }
}

fn invalid(message: &str) -> RoleError {
    RoleError::new(RoleErrorKind::InvalidOutput, message)
}

fn malformed(what: &str, error: &FieldError) -> RoleError {
    RoleError::new(RoleErrorKind::InvalidOutput, format!("malformed {what}: {error}"))
}
