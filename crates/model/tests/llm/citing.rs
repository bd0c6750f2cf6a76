//! Citations of language models: read from footnotes, looked up, repaired once, and marked if they still do not hold.

use serde_json::{Value, json};
use tree_agent_contract::role::*;
use tree_agent_contract::{DocumentId, RunId, Verdict};
use tree_agent_model::LlmArgs;
use uuid::Uuid;

use crate::prompts::child;
use crate::provider::{Answer, Asked, Provider, text};
use crate::support::*;

const RUN: RunId = RunId(Uuid::from_u128(1));
const SOURCE: &str = "# North\n\nThe north harbour has two locks. Its quay is 300 m long.\n";

fn source() -> DocumentId {
    DocumentId::from(Uuid::from_u128(102))
}

fn input() -> AggregateInput {
    AggregateInput {
        homework: None,
        call: call("Which harbour is safer?"),
        plan_summary: "Look at each".into(),
        children: vec![child(2, "The north harbour")],
        exhausted_budget: None,
    }
}

/// The answer without the text of its document, which is asked for.
fn named() -> Value {
    let mut answer = aggregated();
    answer["artifacts"][0].as_object_mut().unwrap().remove("documentMarkdown");
    answer
}

async fn aggregate(answers: Vec<Answer>) -> (AggregatorOutput, Vec<String>, Vec<Asked>) {
    let provider = Provider::new(answers).await;
    let service = Service::new(&LlmArgs { model_tool_rounds: "0".into(), ..served_by(&provider) });
    service.documents.add_artifact(RUN, source(), "North", SOURCE);
    let outcome = service.aggregate(&input()).await;
    let purposes = outcome.purposes().into_iter().map(str::to_owned).collect();
    (outcome.output.expect("an answer"), purposes, provider.asked())
}

fn plain(text: String) -> Answer {
    Answer::Text(text, "stop")
}

#[tokio::test]
async fn footnotes_that_hold_are_citations_with_their_passage() {
    let id = source();
    let body = format!(
        "# Safety\n\nThe north harbour has locks[^1], and a long quay.[^2]\n\n[^1]: {id} \"has two locks\"\n\
         [^2]: {id} \u{201c}Its quay is\u{a0}300 m long.\u{201d}\n"
    );
    let (output, purposes, asked) = aggregate(vec![text(&named()), plain(body.clone())]).await;
    assert_eq!(purposes, ["aggregate", "aggregate (document)"]);
    assert!(asked[1].last().contains("a mark such as [^1]"), "{}", asked[1].last());
    let artifact = &output.artifacts[0];
    assert_eq!(artifact.document_markdown.as_deref(), Some(body.as_str()));
    let cited: Vec<_> = artifact
        .citations
        .iter()
        .map(|c| {
            let passage = c.passage.as_ref().expect("a passage");
            let at = passage.offset as usize..(passage.offset + passage.bytes) as usize;
            (c.claim.as_str(), c.verdict, &SOURCE[at])
        })
        .collect();
    let claim = "The north harbour has locks, and a long quay.";
    assert_eq!(
        cited,
        [(claim, Verdict::Verified, "has two locks"), (claim, Verdict::Verified, "Its quay is 300 m long."),]
    );
}

#[tokio::test]
async fn what_does_not_hold_is_repaired_once_and_then_marked() {
    let id = source();
    let body = format!(
        "# Safety\n\nIt has two locks.[^1] It has three towers.[^2] It never closes.[^3] Nobody knows why.[^4]\n\n\
         [^1]: {id} \"has 2 locks\"\n[^2]: {id} \"three towers\"\n[^3]: north.md \"never closes\"\n"
    );
    let repair = format!(
        "Here you are:\n[^1]: {id} \"has two locks\"\n[^2]: none\n[^3]: {id} \"is never closed\"\n[^9]: x\n"
    );
    let (output, purposes, asked) = aggregate(vec![text(&named()), plain(body), plain(repair)]).await;
    assert_eq!(purposes, ["aggregate", "aggregate (document)", "aggregate (citations)"]);
    let demand = asked[2].last();
    assert!(demand.contains("1. the document does not contain these words"), "{demand}");
    assert!(demand.contains("3. no source is named"), "{demand}");
    assert!(demand.contains("has 2 locks") && demand.contains("It has three towers."), "{demand}");
    let artifact = &output.artifacts[0];
    let verdicts: Vec<_> = artifact.citations.iter().map(|c| (c.quote.as_str(), c.verdict)).collect();
    assert_eq!(
        verdicts,
        [
            ("has two locks", Verdict::Verified),
            ("three towers", Verdict::NotFound),
            ("is never closed", Verdict::NotFound),
            ("(no words are quoted)", Verdict::NoSource),
        ]
    );
    let told = artifact.document_markdown.as_deref().unwrap();
    for line in [
        format!("[^1]: {id} \"has two locks\"\n"),
        format!("[^2]: {id} \"three towers\" (unverified: the document does not contain these words)\n"),
        format!("[^3]: {id} \"is never closed\" (unverified: the document does not contain these words)\n"),
        "[^4]: (unverified: no source is named)\n".to_owned(),
    ] {
        assert!(told.contains(&line), "{line}{told}");
    }
}

#[tokio::test]
async fn an_answer_is_not_lost_because_its_citations_cannot_be_repaired() {
    let body = format!("It has two locks.[^1]\n\n[^1]: {} \"has 2 locks\"\n", source());
    for last in [plain("I cannot.".into()), Answer::Status(400, Vec::new(), "{}".into())] {
        let (output, _, asked) = aggregate(vec![text(&named()), plain(body.clone()), last]).await;
        assert_eq!(asked.len(), 3);
        let artifact = &output.artifacts[0];
        assert_eq!(artifact.citations[0].verdict, Verdict::NotFound);
        assert!(artifact.document_markdown.as_deref().unwrap().contains("(unverified:"));
    }
}

#[tokio::test]
async fn values_of_data_have_sources_too() {
    let mut answer = executed();
    answer["artifacts"][1]["citations"] = json!([
        {"claim": "12", "documentId": source(), "quote": "Its quay is 300 m long."},
        {"claim": "unit: two locks", "documentId": "north", "quote": "two locks"},
    ]);
    answer["artifacts"][1]["jsonPayload"][1]["value"] = "two locks".into();
    // A claim as short as the first is asked about in vain.
    let repair = plain(format!("[^1]: {} \"has two locks\"", source()));
    let provider = Provider::new(vec![text(&answer), repair]).await;
    let service = Service::new(&LlmArgs { model_tool_rounds: "0".into(), ..served_by(&provider) });
    service.documents.add_artifact(RUN, source(), "North", SOURCE);
    let outcome = service.execute(&execute_input("What is there?")).await;
    let data = &outcome.output().artifacts[1];
    let verdicts: Vec<_> = data.citations.iter().map(|c| (c.claim.as_str(), c.verdict)).collect();
    assert_eq!(verdicts, [("12", Verdict::TooShort), ("unit: two locks", Verdict::Verified)]);
}
