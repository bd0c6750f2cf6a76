//! The offline model: rules, no language model, and labelled so in all that it writes.
//!
//! The planner splits an objective by its own parts and by the documents that speak of it; the executor quotes the
//! passages that answer its step, verbatim, each with its source; the aggregator merges them, removes repeats and
//! names what is missing. In homework the planner gives each part or folder a branch, reads the documents one after the
//! other, and follows words that the results share. In a guided search it takes the folders, documents and sections of
//! the context for topics, and words that several documents share.
//!
//! If no passage holds all that the question asks for, what a first passage names and the question does not leads to
//! the next ([`hunt`], [`trail`]). The plan then reads along the names, and the synthesis keeps the order of its steps.
//!
//! It is deterministic: the same documents and objective give the same text, byte for byte, whatever the timing, host
//! or store. So it scores by itself, with arithmetic that is exact everywhere, breaks ties by path and position, and
//! writes no id, time or score of the store into a document. While the documents of the context are few
//! ([`corpus::SMALL_DOCUMENTS`], [`corpus::SMALL_BYTES`]) it reads them all; beyond that full-text search chooses the
//! candidates, and as stores fold words differently, two stores may then choose differently.

mod aggregate;
mod chain;
mod cited;
mod corpus;
mod document;
mod execute;
mod findings;
mod homework;
mod hunt;
mod markdown;
mod names;
mod objective;
mod pick;
mod plan;
mod rank;
mod research;
mod step;
mod subject;
mod told;
mod topic;
mod trail;
mod verify;
mod words;

use std::time::Instant;

use async_trait::async_trait;
use tree_agent_contract::event::UsageRecorded;
use tree_agent_contract::role::{
    AggregateInput, AggregatorOutput, CallContext, ExecuteInput, ExecutorOutput, PickInput, PickOutput,
    PlanInput, PlannerOutput, ResearchInput, ResearchOutput, RoleError, VerifierOutput, VerifyInput,
};
use tree_agent_contract::text;
use tree_agent_contract::text::count;

use crate::RoleModel;
use crate::io::{RoleIo, failed};

/// What every document of this model says about itself.
const LABEL: &str = "offline model: rule-based, no language model";

/// The rule-based model.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offline;

#[async_trait]
impl RoleModel for Offline {
    async fn plan(&self, input: &PlanInput, io: &RoleIo) -> Result<PlannerOutput, RoleError> {
        let begun = Instant::now();
        let output = plan::plan(input, io).await?;
        used(io, "plan", begun).await;
        Ok(output)
    }

    async fn execute(&self, input: &ExecuteInput, io: &RoleIo) -> Result<ExecutorOutput, RoleError> {
        let begun = Instant::now();
        let output = execute::execute(input, io).await?;
        used(io, "execute", begun).await;
        Ok(output)
    }

    async fn aggregate(&self, input: &AggregateInput, io: &RoleIo) -> Result<AggregatorOutput, RoleError> {
        let begun = Instant::now();
        let output = aggregate::aggregate(input, io).await?;
        used(io, "aggregate", begun).await;
        Ok(output)
    }

    async fn research(&self, input: &ResearchInput, io: &RoleIo) -> Result<ResearchOutput, RoleError> {
        let begun = Instant::now();
        let output = research::research(input, io).await?;
        used(io, "research", begun).await;
        Ok(output)
    }

    async fn pick(&self, input: &PickInput, io: &RoleIo) -> Result<PickOutput, RoleError> {
        let begun = Instant::now();
        let output = pick::pick(input);
        used(io, "pick", begun).await;
        Ok(output)
    }

    async fn verify(&self, input: &VerifyInput, io: &RoleIo) -> Result<VerifierOutput, RoleError> {
        let begun = Instant::now();
        let output = verify::verify(input);
        used(io, "verify", begun).await;
        Ok(output)
    }
}

async fn used(io: &RoleIo, purpose: &str, begun: Instant) {
    io.usage(UsageRecorded {
        model: "offline".to_owned(),
        input_tokens: 0,
        output_tokens: 0,
        cached_tokens: 0,
        cache_write_tokens: 0,
        cost_micros: 0,
        duration_ms: begun.elapsed().as_millis() as u64,
        purpose: purpose.to_owned(),
        documents: Vec::new(),
    })
    .await;
}

/// The title of what a node returns: the objective for the root, the task for any other node.
fn heading(call: &CallContext) -> String {
    short(if call.depth == 0 { &call.objective } else { &call.title }, 512)
}

/// `text` on one line and at most `max` bytes of it; an ellipsis says that something was cut.
fn short(text: &str, max: usize) -> String {
    text::truncate(&text::one_line(text), max).into_owned()
}
