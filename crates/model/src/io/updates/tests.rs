use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use serde_json::Map;
use tonic::Request;
use tree_agent_contract::role::*;
use tree_agent_contract::{Budgets, NodeId, RunContext, RunId};
use tree_agent_proto::Wire;
use tree_agent_proto::internal::v1::execute_response::Message;
use tree_agent_tools::{LIST_DOCUMENTS, MemoryDocuments, ToolRegistry};

use super::*;
use crate::{Models, RoleIo, RoleModel, RoleServer};

/// Writes a word every few milliseconds, and fails at the end.
struct Writer {
    words: u32,
    every: Duration,
    /// Calls a tool after this word.
    tool_after: u32,
    /// Then hangs instead of failing.
    hangs: bool,
}

#[async_trait]
impl RoleModel for Writer {
    async fn plan(&self, _: &PlanInput, _: &RoleIo) -> Result<PlannerOutput, RoleError> {
        Err(RoleError::new(RoleErrorKind::Rejected, "plans nothing"))
    }
    async fn execute(&self, _: &ExecuteInput, io: &RoleIo) -> Result<ExecutorOutput, RoleError> {
        for n in 1..=self.words {
            tokio::time::sleep(self.every).await;
            io.scratchpad(format!("w{n} ")).await;
            if n == self.tool_after {
                io.call_tool(LIST_DOCUMENTS, Map::new(), "look").await.unwrap();
            }
        }
        if self.hangs {
            std::future::pending::<()>().await;
        }
        Err(RoleError::new(RoleErrorKind::Internal, "the end"))
    }
    async fn aggregate(&self, _: &AggregateInput, _: &RoleIo) -> Result<AggregatorOutput, RoleError> {
        Err(RoleError::new(RoleErrorKind::Rejected, "aggregates nothing"))
    }
    async fn research(&self, _: &ResearchInput, _: &RoleIo) -> Result<ResearchOutput, RoleError> {
        Err(RoleError::new(RoleErrorKind::Rejected, "researches nothing"))
    }
    async fn pick(&self, _: &PickInput, _: &RoleIo) -> Result<PickOutput, RoleError> {
        Err(RoleError::new(RoleErrorKind::Rejected, "picks nothing"))
    }
    async fn verify(&self, _: &VerifyInput, _: &RoleIo) -> Result<VerifierOutput, RoleError> {
        Err(RoleError::new(RoleErrorKind::Rejected, "verifies nothing"))
    }
}

/// What the stream of a call says, with the milliseconds at which it says it: text, `?` and `!` for a tool call, and
/// the end as `E`.
async fn said(model: Writer) -> Vec<(u128, String)> {
    let tools = ToolRegistry::new(Arc::new(MemoryDocuments::default()));
    let server = RoleServer::new(Models::with_default(Arc::new(model)), tools);
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
        budgets: Budgets { call_timeout_ms: 20_000, ..Budgets::default() },
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
    let began = Instant::now();
    let input = ExecuteInput { task: None, call, earlier: vec![] };
    let mut stream = server.call::<ExecuteInput>(Request::new(input.to_wire())).unwrap().into_inner();
    let mut said = Vec::new();
    while let Some(response) = stream.next().await {
        let text = match response {
            Err(_) => "E".to_owned(),
            Ok(response) => match response.message.unwrap() {
                Message::Output(_) => panic!("it never answers"),
                Message::Update(update) => match RoleUpdate::from_wire(update).unwrap() {
                    RoleUpdate::Scratchpad(delta) => delta.append_markdown,
                    RoleUpdate::ToolCallRequested(_) => "?".into(),
                    RoleUpdate::ToolCallResult(_) => "!".into(),
                    RoleUpdate::Heartbeat => continue,
                    other => panic!("{other:?}"),
                },
            },
        };
        said.push((began.elapsed().as_millis(), text));
    }
    said
}

fn words(range: std::ops::RangeInclusive<u32>) -> String {
    range.map(|n| format!("w{n} ")).collect()
}

#[tokio::test(start_paused = true)]
async fn text_goes_out_at_most_four_times_a_second_and_none_is_lost() {
    let said =
        said(Writer { words: 1_000, every: Duration::from_millis(7), tool_after: 0, hangs: false }).await;
    let (end, pieces) = said.split_last().unwrap();
    assert_eq!(end.1, "E");
    assert_eq!(pieces.iter().map(|(_, text)| text.as_str()).collect::<String>(), words(1..=1_000));
    assert!(pieces.len() >= 13, "it streams: {} pieces in seven seconds", pieces.len());
    for (at, _) in pieces {
        // The output's own note would be one more.
        let within = pieces.iter().filter(|(t, _)| t >= at && *t < at + 1_000).count();
        assert!(within <= 3, "{within} within a second of {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn text_keeps_its_place_beside_tool_calls() {
    let said =
        said(Writer { words: 20, every: Duration::from_millis(10), tool_after: 12, hangs: false }).await;
    let mut together: Vec<String> = Vec::new();
    for (_, text) in said {
        match together.last_mut() {
            Some(last) if last.starts_with('w') && text.starts_with('w') => last.push_str(&text),
            _ => together.push(text),
        }
    }
    assert_eq!(together, [words(1..=12), "?".into(), "!".into(), words(13..=20), "E".into()]);
}

#[tokio::test(start_paused = true)]
async fn what_was_written_before_a_time_out_is_not_lost() {
    let said =
        said(Writer { words: 3, every: Duration::from_millis(6_660), tool_after: 0, hangs: true }).await;
    assert_eq!(said.iter().map(|(_, text)| text.as_str()).collect::<String>(), words(1..=3) + "E");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_text_is_held_back_not_gathered() {
    let (sender, received) = mpsc::channel(4);
    let mut updates = Updates::new(received);
    let writer = tokio::spawn(async move {
        for _ in 0..40 {
            let delta = ScratchpadDelta { append_markdown: "x".repeat(64 * 1024) };
            sender.send(RoleUpdate::Scratchpad(delta)).await.unwrap();
        }
    });
    let mut bytes = 0;
    while let Some(update) = std::future::poll_fn(|cx| updates.poll_next(cx, false)).await {
        let RoleUpdate::Scratchpad(delta) = update else { panic!("{update:?}") };
        assert!(delta.append_markdown.len() < GATHERED_BYTES + 64 * 1024);
        bytes += delta.append_markdown.len();
    }
    writer.await.unwrap();
    assert_eq!(bytes, 40 * 64 * 1024);
}
