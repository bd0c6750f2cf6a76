//! The stream of a role call, for all role services.
//!
//! A call is one future that the stream itself polls. Dropping the stream therefore drops the work, a caller that
//! does not read stops the call, and no task is needed.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::{FutureExt, Stream};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};
use tree_agent_contract::role::{
    AggregateInput, AggregatorOutput, ArtifactDraft, CallContext, ExecuteInput, ExecutorOutput, PickInput,
    PickOutput, PlanInput, PlannerOutput, ResearchInput, ResearchOutput, RoleError, RoleErrorKind,
    RoleUpdate, VerifierOutput, VerifyInput,
};
use tree_agent_contract::{Invalid, SuccessAssessment};
use tree_agent_proto::internal::v1 as pb;
use tree_agent_proto::internal::v1::model_service_server::{ModelService, ModelServiceServer};
use tree_agent_proto::{Wire, role_status};
use tree_agent_runtime::Metrics;
use tree_agent_runtime::limited;
use tree_agent_tools::{Caller, ToolRegistry};

use crate::RoleModel;
use crate::applied::Applied;
use crate::cite;
use crate::io::{RoleIo, Updates};
use crate::select::Models;
use crate::stats::{Counted, Stats};

/// How often a silent call sends a heartbeat.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// The input of a role, and everything else in which the roles differ.
#[async_trait]
pub trait RoleInput: Wire + Send + Sync + 'static {
    /// The output of the role.
    type Output: Wire + Send;
    /// The message that carries an update or the output.
    type Response: Send;
    /// The role in events: `plan`, `execute`, `aggregate`, `research`, `pick` or `verify`.
    const PHASE: &'static str;

    /// The node and its run.
    fn context(&self) -> &CallContext;
    /// Makes the call.
    async fn answer(&self, model: &dyn RoleModel, io: &RoleIo) -> Result<Self::Output, RoleError>;
    /// What the answer returns with its citations.
    fn artifacts(output: &mut Self::Output) -> &mut [ArtifactDraft];
    /// Its own judgement of what it returns.
    fn assessment(output: &mut Self::Output) -> Option<&mut SuccessAssessment>;
    /// Checks the answer against the contract.
    fn check(&self, output: &Self::Output) -> Result<(), Invalid>;
    /// Wraps an update.
    fn update(update: pb::RoleUpdate) -> Self::Response;
    /// Wraps the output.
    fn output(output: <Self::Output as Wire>::Pb) -> Self::Response;
}

macro_rules! role_input {
    (
        $input:ty, $output:ty, $method:ident, $response:ident, $message:ident, $($artifacts:ident)?,
        |$in:ident, $out:ident| $check:expr
    ) => {
        #[async_trait]
        impl RoleInput for $input {
            type Output = $output;
            type Response = pb::$response;
            const PHASE: &'static str = stringify!($method);

            fn context(&self) -> &CallContext {
                &self.call
            }
            async fn answer(&self, model: &dyn RoleModel, io: &RoleIo) -> Result<$output, RoleError> {
                model.$method(self, io).await
            }
            fn artifacts(_output: &mut $output) -> &mut [ArtifactDraft] {
                role_input!(@artifacts _output $($artifacts)?)
            }
            fn assessment(_output: &mut $output) -> Option<&mut SuccessAssessment> {
                role_input!(@assessment _output $($artifacts)?)
            }
            fn check(&self, $out: &$output) -> Result<(), Invalid> {
                let $in = self;
                $check
            }
            fn update(update: pb::RoleUpdate) -> pb::$response {
                pb::$response { message: Some(pb::$message::Message::Update(update)) }
            }
            fn output(output: <$output as Wire>::Pb) -> pb::$response {
                pb::$response { message: Some(pb::$message::Message::Output(output)) }
            }
        }
    };
    (@artifacts $output:ident) => { &mut [] };
    (@artifacts $output:ident $artifacts:ident) => { &mut $output.$artifacts };
    (@assessment $output:ident) => { None };
    (@assessment $output:ident $artifacts:ident) => { $output.result.success_assessment.as_mut() };
}

role_input!(
    PlanInput,
    PlannerOutput,
    plan,
    PlanResponse,
    plan_response,
    ,
    |input, out| match &input.homework {
        Some(brief) => out.validate_homework(brief.iteration),
        None => out.validate(&input.prior_steps),
    }
);
role_input!(
    ExecuteInput,
    ExecutorOutput,
    execute,
    ExecuteResponse,
    execute_response,
    artifacts,
    |_input, out| out.validate()
);
role_input!(
    AggregateInput,
    AggregatorOutput,
    aggregate,
    AggregateResponse,
    aggregate_response,
    artifacts,
    |_input, out| out.validate()
);
role_input!(ResearchInput, ResearchOutput, research, ResearchResponse, research_response, , |input, out| out
    .validate(input.form));
role_input!(VerifyInput, VerifierOutput, verify, VerifyResponse, verify_response, , |_input, out| out
    .validate());
role_input!(PickInput, PickOutput, pick, PickResponse, pick_response, , |_input, out| out.validate());

/// Answers role calls with models and tools.
#[derive(Clone)]
pub struct RoleServer {
    models: Models,
    tools: ToolRegistry,
    stats: Arc<Stats>,
    applied: Arc<Applied>,
}

impl RoleServer {
    /// A server of `models` with `tools`.
    pub fn new(models: Models, tools: ToolRegistry) -> Self {
        Self { models, tools, stats: Arc::default(), applied: Arc::default() }
    }

    /// Adds its metrics.
    pub fn measure(&self, metrics: &mut Metrics) {
        self.stats.measure(metrics);
        self.models.measure(metrics);
    }

    /// Says whether a model can be used here: what every role service serves beside its role.
    pub fn model_service(&self) -> ModelServiceServer<ModelCheck> {
        limited!(ModelServiceServer::new(ModelCheck(self.models.clone(), self.tools.clone())))
    }

    /// Starts a call. An invalid request fails here; later failures end the stream.
    pub fn call<I>(&self, request: Request<I::Pb>) -> Result<Response<CallStream<I>>, Status>
    where
        I: RoleInput,
        <I::Output as Wire>::Pb: Send,
    {
        let timeout = grpc_timeout(request.metadata());
        let rejected = |message: String| role_status(&RoleError::new(RoleErrorKind::Rejected, message));
        let input = I::from_wire(request.into_inner()).map_err(|e| rejected(e.to_string()))?;
        let call = input.context();
        call.context.validate().map_err(|e| rejected(e.to_string()))?;
        let budget = Duration::from_millis(call.budgets.call_timeout_ms);
        let limit = timeout.map_or(budget, |t| t.min(budget));
        let model = self.models.resolve(&call.model).map_err(|e| role_status(&e))?;
        let caller = Caller {
            run_id: call.run_id,
            context: call.context.clone(),
            read_only: call.read_only,
            origin_run_id: call.origin_run_id.unwrap_or(call.run_id),
            node_id: Some(call.node_id),
            answers: call.answers,
        };
        let tools = self.tools.tool_set(caller);
        let is_first = self.applied.note(I::PHASE, &tools);
        let (io, updates) = RoleIo::new(tools, I::PHASE);
        let mut io = io.allowing(call.allowance).after(&call.earlier_calls).speaking(&call.language);
        io.keeps_prompts = call.keep_prompts;
        let is_root = call.depth == 0;
        let work = async move {
            io.tools().ready().await;
            if is_first {
                io.tell_missing_tools().await;
            }
            // Otherwise a panic of the model would close the connection, with all other calls on it.
            let answer = AssertUnwindSafe(input.answer(model.as_ref(), &io)).catch_unwind().await;
            let mut output = answer.unwrap_or_else(|_| {
                Err(RoleError::new(RoleErrorKind::Internal, "the model panicked; its log says where"))
            })?;
            input.check(&output).map_err(|e| RoleError::new(RoleErrorKind::InvalidOutput, e.to_string()))?;
            // What it cites is within the limits of the contract now.
            let artifacts = I::artifacts(&mut output);
            cite::check(artifacts, &io).await?;
            if model.cites() {
                cite::support(artifacts, &io).await?;
            }
            if is_root && model.cites() {
                let counts = cite::count(artifacts);
                if let Some(assessment) = I::assessment(&mut output) {
                    cite::qualify(assessment, &counts, io.language());
                }
            }
            cite::tell(I::artifacts(&mut output), io.language());
            Ok(output.to_wire())
        };
        Ok(Response::new(CallStream {
            state: State::Working(work.boxed()),
            updates: Updates::new(updates),
            limit,
            deadline: Box::pin(sleep_until(Instant::now() + limit)),
            heartbeat: Box::pin(sleep_until(Instant::now() + HEARTBEAT)),
            counted: self.stats.begin(),
        }))
    }
}

/// Which models there are where this runs, and whether one can be used.
pub struct ModelCheck(Models, ToolRegistry);

#[tonic::async_trait]
impl ModelService for ModelCheck {
    async fn check_model(
        &self,
        request: Request<pb::CheckModelRequest>,
    ) -> Result<Response<pb::CheckModelResponse>, Status> {
        let name = &request.get_ref().model;
        let problem = self.0.check(name).await.err();
        let (model, per_call) = self.0.describe(name);
        let per_call = per_call.to_wire();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let (problem, writing_tools) = (problem.to_wire(), self.1.writing_tools());
        Ok(Response::new(pb::CheckModelResponse { problem, model, per_call, version, writing_tools }))
    }

    async fn list_models(
        &self,
        _: Request<pb::ListModelsRequest>,
    ) -> Result<Response<pb::ListModelsResponse>, Status> {
        Ok(Response::new(self.0.list().await))
    }
}

enum State<O> {
    Working(BoxFuture<'static, Result<O, RoleError>>),
    /// Answered, but earlier updates may still have to be sent.
    Answered(Result<O, RoleError>),
    Ended,
}

/// A call in flight: updates, then exactly one output or typed error. Dropping it cancels the call.
pub struct CallStream<I: RoleInput> {
    state: State<<I::Output as Wire>::Pb>,
    updates: Updates,
    limit: Duration,
    deadline: Pin<Box<Sleep>>,
    heartbeat: Pin<Box<Sleep>>,
    counted: Counted,
}

// The future and the timers are boxed, so nothing needs to stay in place.
impl<I: RoleInput> Unpin for CallStream<I> {}

impl<I: RoleInput> Stream for CallStream<I> {
    type Item = Result<I::Response, Status>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if matches!(this.state, State::Ended) {
            return Poll::Ready(None);
        }
        if let State::Working(work) = &mut this.state
            && let Poll::Ready(answer) = work.poll_unpin(cx)
        {
            this.state = State::Answered(answer);
        }
        // After polling the work, so that its latest updates are sent before its answer.
        let ended = matches!(this.state, State::Answered(_));
        if let Poll::Ready(Some(update)) = this.updates.poll_next(cx, ended) {
            return Poll::Ready(Some(Ok(this.message(&update))));
        }
        if matches!(this.state, State::Working(_)) && this.deadline.as_mut().poll(cx).is_ready() {
            let message = format!("no answer within {} ms; the work was dropped", this.limit.as_millis());
            this.state = State::Answered(Err(RoleError::new(RoleErrorKind::Timeout, message)));
            // What it has written so far is not lost.
            if let Poll::Ready(Some(update)) = this.updates.poll_next(cx, true) {
                return Poll::Ready(Some(Ok(this.message(&update))));
            }
        }
        match std::mem::replace(&mut this.state, State::Ended) {
            State::Answered(Ok(output)) => {
                this.counted.ended(None);
                Poll::Ready(Some(Ok(I::output(output))))
            }
            State::Answered(Err(error)) => {
                this.counted.ended(Some(error.kind));
                Poll::Ready(Some(Err(role_status(&error))))
            }
            working => {
                this.state = working;
                if this.heartbeat.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Some(Ok(this.message(&RoleUpdate::Heartbeat))));
                }
                Poll::Pending
            }
        }
    }
}

impl<I: RoleInput> CallStream<I> {
    /// The message of an update. Postpones the next heartbeat.
    fn message(&mut self, update: &RoleUpdate) -> I::Response {
        self.heartbeat.as_mut().reset(Instant::now() + HEARTBEAT);
        if let RoleUpdate::Usage { usage, .. } = update {
            self.counted.used(usage);
        }
        I::update(update.to_wire())
    }
}

/// The caller's deadline: up to eight digits and a unit, as gRPC defines it. Anything else is ignored.
fn grpc_timeout(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 {
        return None;
    }
    let n: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(n * 3600),
        "M" => Duration::from_secs(n * 60),
        "S" => Duration::from_secs(n),
        "m" => Duration::from_millis(n),
        "u" => Duration::from_micros(n),
        "n" => Duration::from_nanos(n),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_in_every_unit() {
        let read = |text: &str| {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", text.parse().unwrap());
            grpc_timeout(&metadata)
        };
        assert_eq!(read("2S"), Some(Duration::from_secs(2)));
        assert_eq!(read("250m"), Some(Duration::from_millis(250)));
        assert_eq!(read("1H"), Some(Duration::from_secs(3600)));
        for odd in ["", "S", "12", "1x", "123456789S", "-1S"] {
            assert_eq!(read(odd), None, "{odd:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_call_sends_heartbeats_until_its_deadline() {
        use futures::StreamExt;
        use tree_agent_contract::{Budgets, NodeId, RunContext, RunId};

        let tools = ToolRegistry::new(Arc::new(tree_agent_tools::MemoryDocuments::default()));
        let server = RoleServer::new(Models::new("scripted:fail=hang").unwrap(), tools);
        let run_id = RunId(uuid::Uuid::from_u128(1));
        let call = CallContext {
            run_id,
            node_id: NodeId::root(run_id),
            attempt: 1,
            objective: "o".into(),
            title: "t".into(),
            reason: String::new(),
            success_criteria: vec![],
            depth: 0,
            budgets: Budgets { call_timeout_ms: 17_000, ..Budgets::default() },
            context: RunContext::default(),
            model: String::new(),
            scratchpad_tail: String::new(),
            sibling_index: 0,
            allowance: Default::default(),
            finish: None,
            read_only: false,
            keep_prompts: false,
            origin_run_id: None,
            guidance: Vec::new(),
            deliverable: None,
            profile: None,
            started_at: None,
            time_left_ms: None,
            answers: None,
            siblings: Vec::new(),
            earlier_calls: Vec::new(),
            language: String::new(),
        };
        let input = ExecuteInput { task: None, call, earlier: vec![] };
        let stream = server.call::<ExecuteInput>(Request::new(input.to_wire())).unwrap().into_inner();
        let said: Vec<_> = stream.collect().await;
        let (end, beats) = said.split_last().unwrap();
        assert_eq!(beats.len(), 3, "one heartbeat every five seconds of seventeen");
        assert!(beats.iter().all(Result::is_ok));
        assert_eq!(end.as_ref().unwrap_err().code(), tonic::Code::DeadlineExceeded);
    }
}
