//! The verifier: what it is told, and what becomes of what it says.

use serde_json::{Value, json};
use tree_agent_contract::role::*;
use tree_agent_contract::{Doubt, RunId};
use uuid::Uuid;

use crate::prompts::{child, sent};
use crate::provider::{Answer, Provider, text};
use crate::support::*;

const RUN: RunId = RunId(Uuid::from_u128(1));

fn input(may_replan: bool) -> VerifyInput {
    let mut call = call("Which harbour is safer in a storm?");
    call.success_criteria = vec!["Names both harbours".into()];
    VerifyInput { call, answer: child(2, "Harbours"), may_replan }
}

fn verified(should_replan: bool) -> Value {
    json!({
        "summary": "One claim goes beyond its quote.",
        "criteria": [{"criterion": "Names both harbours", "met": true, "note": null}],
        "doubts": [{"claim": "It never closes.", "reason": "The quote speaks of the winter only."}],
        "shouldReplan": should_replan,
        "replanReason": null,
    })
}

async fn verify(answer: Value, input: &VerifyInput) -> (VerifierOutput, Provider) {
    let provider = Provider::new(vec![text(&answer)]).await;
    let service = Service::new(&served_by(&provider));
    let id = input.answer.artifacts[0].document_id.expect("a document");
    let body = format!("# Harbours\n\nIt never closes.[^1]\n\n[^1]: {id} \"closed in winter only\"\n");
    service.documents.add_artifact(RUN, id, "Harbours", &body);
    let outcome = service.verify(input).await;
    assert_eq!(outcome.purposes(), ["verify"]);
    (outcome.output.expect("an answer"), provider)
}

#[tokio::test]
async fn the_verifier_sees_the_whole_answer_and_what_it_was_asked_for() {
    let (output, provider) = verify(verified(false), &input(true)).await;
    insta::assert_snapshot!("verifier", sent(&provider));
    let doubt =
        Doubt { claim: "It never closes.".into(), reason: "The quote speaks of the winter only.".into() };
    assert_eq!(output.verification.doubts, [doubt]);
    assert!(output.verification.criteria[0].met && !output.verification.is_clean());
    assert_eq!(output.next, AggregatorNext::default());
}

#[tokio::test]
async fn another_plan_is_wanted_only_if_there_can_be_one_and_its_reason_is_in_the_doubts_at_least() {
    let (output, _) = verify(verified(true), &input(true)).await;
    assert_eq!(output.next.replan_reason.as_deref(), Some("The quote speaks of the winter only."));
    let (output, provider) = verify(verified(true), &input(false)).await;
    assert!(!output.next.should_replan);
    assert!(provider.asked()[0].last().contains("Another plan is not possible"));
    let mut nothing = verified(true);
    nothing["doubts"] = json!([]);
    let (output, _) = verify(nothing, &input(true)).await;
    assert!(!output.next.should_replan, "without a reason there is nothing to plan for");
}

#[tokio::test]
async fn a_malformed_verification_is_repaired() {
    let provider =
        Provider::new(vec![Answer::Text("{\"summary\": \"fine\"}".into(), "stop"), text(&verified(false))])
            .await;
    let outcome = Service::new(&served_by(&provider)).verify(&input(true)).await;
    assert_eq!(outcome.output().verification.doubts.len(), 1);
    assert_eq!(outcome.purposes(), ["verify", "verify (repair 1)"]);
}
