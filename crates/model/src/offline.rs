//! The offline model: it searches, quotes and does not reason, and says so in all that it writes.
//!
//! A question is searched for as a whole ([`evidence`]), and the best passages are what an answer is made of. The
//! planner gives each source of them to a step, the executor reads the source and quotes the passages ([`read`]), and
//! the aggregator puts the quotations back into the one order ([`answer`]). So the tree shows where the evidence comes
//! from, and the answer is as good as the ranking. If the passages do not speak of the question, the answer says that
//! instead. Homework goes on to sources that hold words of the question which no source before has held. A guided
//! search has the sources for topics, and their headings below them.
//!
//! It is deterministic: the same documents and objective give the same text, byte for byte. It writes no id, time or
//! score of the store into a document; the places of passages are all that it takes over.

mod aggregate;
mod answer;
mod brief;
mod evidence;
mod execute;
mod expects;
mod hits;
mod homework;
mod pick;
mod plan;
mod question;
mod read;
mod research;
mod step;
mod verify;
mod vintage;

use std::time::Instant;

use async_trait::async_trait;
use tree_agent_contract::event::UsageRecorded;
use tree_agent_contract::role::{
    AggregateInput, AggregatorOutput, CallContext, ExecuteInput, ExecutorOutput, PickInput, PickOutput,
    PlanInput, PlannerOutput, ResearchInput, ResearchOutput, RoleError, VerifierOutput, VerifyInput,
};
use tree_agent_contract::{Premises, text};

use crate::RoleModel;
use crate::io::RoleIo;

/// Its name.
const MODEL: &str = "offline";

/// The rule-based model.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offline;

#[async_trait]
impl RoleModel for Offline {
    async fn plan(&self, input: &PlanInput, io: &RoleIo) -> Result<PlannerOutput, RoleError> {
        let work = async {
            let mut output = match &input.homework {
                Some(brief) => homework::plan(input, brief, io).await?,
                None => plan::plan(input, io).await?,
            };
            output.premises = input.review.then(|| Premises {
                assumptions: vec![
                    "The documents of the run hold the answer. Nothing else is looked up.".into(),
                ],
                left_out: vec!["Conclusions: what the documents say is quoted, not judged.".into()],
            });
            Ok(output)
        };
        timed(io, "plan", work).await
    }

    async fn execute(&self, input: &ExecuteInput, io: &RoleIo) -> Result<ExecutorOutput, RoleError> {
        timed(io, "execute", execute::execute(input, io)).await
    }

    async fn aggregate(&self, input: &AggregateInput, io: &RoleIo) -> Result<AggregatorOutput, RoleError> {
        timed(io, "aggregate", aggregate::aggregate(input, io)).await
    }

    async fn research(&self, input: &ResearchInput, io: &RoleIo) -> Result<ResearchOutput, RoleError> {
        timed(io, "research", research::research(input, io)).await
    }

    async fn pick(&self, input: &PickInput, io: &RoleIo) -> Result<PickOutput, RoleError> {
        timed(io, "pick", async { Ok(pick::pick(input)) }).await
    }

    async fn verify(&self, input: &VerifyInput, io: &RoleIo) -> Result<VerifierOutput, RoleError> {
        timed(io, "verify", async { Ok(verify::verify(input)) }).await
    }
}

/// Does `work` and reports how long it took.
async fn timed<T>(
    io: &RoleIo,
    purpose: &str,
    work: impl Future<Output = Result<T, RoleError>>,
) -> Result<T, RoleError> {
    let begun = Instant::now();
    let output = work.await?;
    let usage = UsageRecorded {
        model: MODEL.to_owned(),
        duration_ms: begun.elapsed().as_millis() as u64,
        purpose: purpose.to_owned(),
        ..UsageRecorded::default()
    };
    io.usage(usage, None).await;
    Ok(output)
}

/// Words that one answer quotes.
const WORDS: usize = 350;
/// Words that are quoted for one part of a brief.
const PART_WORDS: usize = 150;

/// How many words a node may quote.
fn room(call: &CallContext) -> usize {
    if step::told(call).asked.is_some() { PART_WORDS } else { WORDS }
}

/// What a node is asked: the objective for the root, its part of a brief or its task for any other node.
fn question(call: &CallContext) -> String {
    match step::told(call).asked {
        _ if call.depth == 0 => call.objective.clone(),
        Some(asked) => asked,
        None => call.title.clone(),
    }
}

/// What the document of a node is called.
fn title(call: &CallContext) -> String {
    headline(if call.depth == 0 { &call.objective } else { &call.title })
}

/// What a document about `question` is called.
fn headline(question: &str) -> String {
    /// A longer one is no headline.
    const LONG: usize = 100;
    let parts = brief::headings(question);
    let question = if parts.is_empty() { question } else { &parts };
    let whole = question::without_preamble(question);
    let asked = if whole.len() > LONG { question::asking(&whole) } else { whole };
    let line = text::one_line(&asked);
    if line.len() <= LONG {
        return line;
    }
    let cut = text::prefix(&line, LONG);
    let cut = cut.rsplit_once(' ').map_or(cut, |(words, _)| words);
    format!("{} …", cut.trim_end_matches([',', ';', ':']))
}

/// `text` on one line and at most `max` bytes of it; an ellipsis says that something was cut.
fn short(text: &str, max: usize) -> String {
    text::truncate(&text::one_line(text), max).into_owned()
}
