//! The verifier's answer.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tree_agent_contract::role::{AggregatorNext, VerifierOutput, VerifyInput};
use tree_agent_contract::{CriterionCheck, Doubt, Verification, limits};

use super::schema::Schema;
use super::{Reply, contract_errors, cut, line, object, read_as, scratchpad};

/// What is right and what is wrong with the answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::llm) struct VerifierReply {
    /// Your judgement in a few sentences.
    #[schemars(length(min = 1, max = 800))]
    summary: String,
    /// Each success criterion, or the objective if there are none.
    #[schemars(length(min = 1, max = 16))]
    criteria: Vec<CriterionReply>,
    /// The claims that you doubt.
    #[schemars(length(max = 16))]
    doubts: Vec<DoubtReply>,
    /// True only when another plan is possible and worth its cost.
    should_replan: bool,
    /// What the next plan should do.
    #[schemars(length(max = 800))]
    replan_reason: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct CriterionReply {
    #[schemars(length(min = 1, max = 300))]
    criterion: String,
    met: bool,
    /// Why.
    #[schemars(length(max = 300))]
    note: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct DoubtReply {
    /// In the words of the answer.
    #[schemars(length(min = 1, max = 400))]
    claim: String,
    /// What is wrong with it.
    #[schemars(length(min = 1, max = 400))]
    reason: String,
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(Schema::of::<VerifierReply>);

impl Reply for VerifierReply {
    type Input = VerifyInput;
    type Output = VerifierOutput;

    fn schema() -> Option<&'static Schema> {
        Some(&SCHEMA)
    }

    fn read(text: &str, input: &VerifyInput, _shown: bool) -> Result<VerifierOutput, Vec<String>> {
        let reply: Self = read_as(Value::Object(object(text)?), &SCHEMA)?;
        let criteria = reply.criteria.into_iter().filter(|check| !check.criterion.trim().is_empty());
        let doubts =
            reply.doubts.into_iter().filter(|d| !d.claim.trim().is_empty() && !d.reason.trim().is_empty());
        let verification = Verification {
            summary: cut(&reply.summary, limits::TEXT_BYTES),
            criteria: criteria
                .map(|check| CriterionCheck {
                    criterion: line(&check.criterion, limits::TEXT_BYTES),
                    met: check.met,
                    note: line(&check.note.unwrap_or_default(), limits::TEXT_BYTES),
                })
                .collect(),
            doubts: doubts
                .map(|doubt| Doubt {
                    claim: line(&doubt.claim, limits::CLAIM_BYTES),
                    reason: line(&doubt.reason, limits::TEXT_BYTES),
                })
                .collect(),
            not_checked: None,
        };
        let reason = reply.replan_reason.filter(|reason| !reason.trim().is_empty());
        let reason = reason.unwrap_or_else(|| {
            verification.doubts.iter().map(|doubt| doubt.reason.as_str()).collect::<Vec<_>>().join("; ")
        });
        // Without a reason, another plan would only use up budget.
        let should_replan = reply.should_replan && input.may_replan && !reason.is_empty();
        let outcome = match verification.is_clean() {
            true => format!("**Verified:** {}", line(&verification.summary, 1_000)),
            false => format!("**Doubted:** {}", line(&verification.summary, 1_000)),
        };
        let output = VerifierOutput {
            next: AggregatorNext {
                should_replan,
                replan_reason: should_replan.then(|| cut(&reason, limits::TEXT_BYTES)),
            },
            verification,
            scratchpad: scratchpad("", false, &outcome),
        };
        output.validate().map_err(|invalid| contract_errors(&invalid))?;
        Ok(output)
    }
}
