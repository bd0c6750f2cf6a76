//! What roles read before they are asked: an aggregator the documents of its children, a planner its surroundings.

use serde_json::json;
use tree_agent_contract::event::PromptDocument;
use tree_agent_contract::role::*;
use tree_agent_contract::{DocumentId, RunId, Timestamp};
use tree_agent_model::LlmArgs;
use uuid::Uuid;

use crate::prompts::child;
use crate::provider::{Answer, Provider, text};
use crate::support::*;

const RUN: RunId = RunId(Uuid::from_u128(1));

fn document(n: u128) -> DocumentId {
    DocumentId::from(Uuid::from_u128(100 + n))
}

fn input(children: Vec<ChildOutcome>) -> AggregateInput {
    AggregateInput {
        homework: None,
        call: call("Which harbour is safer?"),
        plan_summary: "Look at each".into(),
        children,
        exhausted_budget: None,
    }
}

fn tools(asked: &crate::provider::Asked) -> Vec<String> {
    let tools = asked.body["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn an_aggregator_reads_whole_what_its_children_hint_and_every_json_artifact() {
    let provider = Provider::new(vec![text(&aggregated())]).await;
    let service = Service::new(&served_by(&provider));
    let body = format!("# North\n\n{}\nThe last line says \"safe\".\n", "A line of the report.\n".repeat(60));
    service.documents.add_artifact(RUN, document(2), "North", &body);
    service.documents.add_artifact(RUN, document(9), "Notes", "Nobody hinted at this.");
    let mut north = child(2, "The north harbour");
    let data = |name: &str| ArtifactRef {
        label: name.into(),
        title: String::new(),
        document_id: None,
        is_primary: false,
        snippet: None,
        hinted: false,
        json_payload: json!({ "depth of": name }).as_object().cloned(),
    };
    north.artifacts.extend([data("quays"), data("locks")]);
    let outcome = service.aggregate(&input(vec![north])).await;
    let asked = &provider.asked()[0];
    let prompt = asked.last();
    assert!(prompt.contains("A line of the report.\n\nThe last line says \"safe\"."), "{prompt}");
    assert!(prompt.contains("the whole document") && !prompt.contains("Nobody hinted"), "{prompt}");
    assert!(
        prompt.contains(r#"{"depth of":"quays"}"#) && prompt.contains(r#"{"depth of":"locks"}"#),
        "{prompt}"
    );
    assert!(tools(asked).is_empty(), "there is nothing to read on");
    let size = body.len() as u64;
    let read = PromptDocument { document_id: document(2), offset: 0, bytes: size, size };
    assert_eq!(outcome.usage[0].documents, [read]);
}

#[tokio::test]
async fn documents_share_the_context_and_the_rest_is_read_by_a_tool() {
    let (long, short) = (document(2), document(3));
    let more = json!({"document_id": long, "offset": 39_000}).to_string();
    let provider =
        Provider::new(vec![Answer::Tools("", vec![("c1", READ, more)]), text(&aggregated())]).await;
    let args = LlmArgs { model_context_tokens: "6000".into(), ..served_by(&provider) };
    let service = Service::new(&args);
    let body = "A line of the long report.\n".repeat(1_500);
    service.documents.add_artifact(RUN, long, "North", &body);
    service.documents.add_artifact(RUN, short, "East", "All of the short report.");
    let outcome = service.aggregate(&input(vec![child(2, "North"), child(3, "East")])).await;
    outcome.output();
    let asked = provider.asked();
    assert_eq!(tools(&asked[0]), [READ], "no other tool is needed");
    let said = asked[0].said();
    assert!(said.contains("All of the short report."), "a short document stays whole");
    let [of_long, of_short] = &outcome.usage[0].documents[..] else { panic!("{:?}", outcome.usage[0]) };
    assert_eq!((of_long.document_id, of_long.size), (long, body.len() as u64));
    assert!(of_long.bytes > 4_000 && of_long.bytes < 24_000, "{of_long:?}");
    assert!(said.contains(&format!("the first {} of {} bytes", of_long.bytes, of_long.size)));
    assert_eq!((of_short.document_id, of_short.bytes), (short, 24));
    assert_eq!(outcome.requested[0].tool_name, READ);
    assert!(outcome.usage[1].documents.is_empty(), "they are reported once");
    let answered = asked[1].last();
    assert!(
        answered.contains("offset: 39000") && answered.contains("A line of the long report."),
        "{answered}"
    );
}

const READ: &str = "read_document";

#[tokio::test]
async fn a_planner_sees_documents_hits_tools_and_the_time() {
    let provider = Provider::new(vec![text(&direct())]).await;
    let service = Service::new(&served_by(&provider));
    let mut input = plan_input("When is high water?");
    input.call.started_at = Some(Timestamp(1_769_472_000_000_000));
    input.call.time_left_ms = Some(90_000);
    let outcome = service.plan(&input).await;
    let prompt = provider.asked()[0].last();
    assert!(prompt.contains("can read: 2 documents") && prompt.contains("tides.md\ntrap.md"), "{prompt}");
    assert!(prompt.contains("High water is at noon."), "the passage of a hit: {prompt}");
    assert!(prompt.contains("- search_documents: Searches the source documents"), "{prompt}");
    assert!(prompt.contains("Today is 2026-01-27 (UTC). 2 minutes are left."), "{prompt}");
    assert!(outcome.requested.is_empty(), "what is looked up for it is no call of a tool");
    let [tides] = &outcome.usage[0].documents[..] else { panic!("{:?}", outcome.usage[0]) };
    assert!(tides.bytes > 0 && tides.offset == 9, "{tides:?}");
}
