//! The aggregator's answer.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tree_agent_contract::limits;
use tree_agent_contract::role::{AggregateInput, AggregatorNext, AggregatorOutput, ArtifactDraft, Synthesis};

use super::planner::Notes;
use super::returned::{ArtifactReply, ResultReply, needed_document, returned, tidy};
use super::schema::Schema;
use super::{Reply, contract_errors, cut, line, object, read_as};

/// What the results of the steps amount to.
#[derive(Debug, Deserialize, JsonSchema)]
pub(in crate::llm) struct AggregatorReply {
    scratchpad: Notes,
    synthesis: SynthesisReply,
    #[schemars(length(min = 1, max = 2))]
    artifacts: Vec<ArtifactReply>,
    result: ResultReply,
    next: Option<Next>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SynthesisReply {
    /// The whole in a few sentences.
    #[schemars(length(min = 1, max = 800))]
    summary: String,
    /// What was found.
    #[schemars(length(max = 6), inner(length(max = 200)))]
    key_findings: Vec<String>,
    /// What is missing.
    #[schemars(length(max = 4), inner(length(max = 200)))]
    gaps: Vec<String>,
}

/// Whether more work is worth its cost.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Next {
    /// True only when something decisive is missing that other steps could find.
    should_replan: bool,
    /// What the next plan should do.
    #[schemars(length(max = 400))]
    replan_reason: Option<String>,
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(Schema::of::<AggregatorReply>);

impl Reply for AggregatorReply {
    type Input = AggregateInput;
    type Output = AggregatorOutput;
    const NAMES_DOCUMENTS: bool = true;

    fn needed_document(input: &AggregateInput) -> Option<&str> {
        needed_document(&input.call)
    }

    fn artifacts(output: &mut AggregatorOutput) -> &mut [ArtifactDraft] {
        &mut output.artifacts
    }

    fn schema() -> Option<&'static Schema> {
        Some(&SCHEMA)
    }

    fn read(text: &str, input: &AggregateInput, shown: bool) -> Result<AggregatorOutput, Vec<String>> {
        let mut object = object(text)?;
        tidy(&mut object);
        let reply: Self = read_as(Value::Object(object), &SCHEMA)?;
        let texts = |texts: &[String]| -> Vec<String> {
            let texts = texts.iter().filter(|t| !t.trim().is_empty()).take(limits::FINDINGS);
            texts.map(|t| cut(t, limits::CLAIM_BYTES)).collect()
        };
        let synthesis = Synthesis {
            summary: cut(&reply.synthesis.summary, limits::TEXT_BYTES),
            key_findings: texts(&reply.synthesis.key_findings),
            gaps: texts(&reply.synthesis.gaps),
        };
        let (artifacts, result) =
            returned(reply.artifacts, reply.result, &input.call, |_| markdown(&synthesis));
        let next =
            reply.next.filter(|next| next.should_replan).map_or_else(AggregatorNext::default, |next| {
                let reason = next.replan_reason.filter(|reason| !reason.trim().is_empty());
                let reason = reason.unwrap_or_else(|| synthesis.gaps.join("; "));
                // Without a reason, another plan would only use up budget.
                AggregatorNext {
                    should_replan: !reason.is_empty(),
                    replan_reason: (!reason.is_empty()).then(|| cut(&reason, limits::TEXT_BYTES)),
                }
            });
        let scratchpad =
            reply.scratchpad.with(shown, &format!("**Synthesis:** {}", line(&synthesis.summary, 1_000)));
        let output = AggregatorOutput { synthesis, artifacts, result, next, scratchpad };
        output.validate().map_err(|invalid| contract_errors(&invalid))?;
        Ok(output)
    }
}

fn markdown(synthesis: &Synthesis) -> String {
    let mut text = format!("{}\n", synthesis.summary);
    for (title, items) in [("Findings", &synthesis.key_findings), ("Gaps", &synthesis.gaps)] {
        if !items.is_empty() {
            text.push_str(&format!("\n## {title}\n\n"));
            items.iter().for_each(|item| text.push_str(&format!("- {}\n", line(item, limits::TEXT_BYTES))));
        }
    }
    text
}
