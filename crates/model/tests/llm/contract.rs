//! Every field of the contracts can be given on a server that enforces the schema it was sent, and takes effect.

use serde_json::{Value, json};
use tree_agent_contract::role::{AggregateInput, Complexity};
use tree_agent_contract::{HintType, Profile, ResultKind};
use tree_agent_model::LlmArgs;

use crate::provider::{Answer, Provider, status, text};
use crate::support::*;

/// A server that gives `answer`, but only what the schema of the request allows. It gives a text where none is sent.
async fn enforcing(answer: Value) -> Provider {
    Provider::by(move |asked| {
        let Some(format) = asked.body.get("response_format") else {
            return Answer::Text("# A\n\nNoon.\n".into(), "stop");
        };
        let schema = &format["json_schema"]["schema"];
        let validator = jsonschema::validator_for(schema).expect("a schema");
        let errors: Vec<String> =
            validator.iter_errors(&answer).map(|e| format!("{}: {e}", e.instance_path())).collect();
        match errors.is_empty() {
            true => text(&answer),
            false => status(400, &json!({"error": {"message": errors.join("; ")}}).to_string()),
        }
    })
    .await
}

/// No tools, so that the schema is enforced from the first answer on.
fn args(provider: &Provider) -> LlmArgs {
    LlmArgs { model_tool_rounds: "0".into(), ..served_by(provider) }
}

fn whole_step(id: &str) -> Value {
    json!({"id": id, "title": format!("The part {id}"), "reason": "needed", "successCriteria": ["there"],
        "search": null, "budget": null, "deliverable": null, "profile": null})
}

fn whole_plan(step: &Value) -> Value {
    json!({"decision": {
        "mode": "plan", "modeReason": "Two parts.", "scratchpad": {"appendMarkdown": "n"},
        "leafDecision": {"canExecuteDirectly": false, "complexity": "high", "blockers": ["two sources"]},
        "plan": {"summary": "Both.", "bands": [
            {"goal": "find", "parallelizable": true, "steps": [step, whole_step("s2")]}
        ]}
    }})
}

#[tokio::test]
async fn the_planners_fields_take_effect() {
    let mut step = whole_step("s1");
    step["search"] = json!({"maxDepth": 2, "maxNodes": 20});
    step["budget"] = json!({"tokens": 5_000, "toolCalls": null, "minutes": 7});
    step["deliverable"] = json!("both");
    step["profile"] = json!("powerful");
    let provider = enforcing(whole_plan(&step)).await;
    let outcome = Service::new(&args(&provider)).plan(&plan_input("Compare the parts")).await;
    let leaf = outcome.output().leaf_decision.as_ref().expect("the leaf decision");
    assert_eq!((leaf.complexity, leaf.blockers.len()), (Complexity::High, 1));
    let step = &outcome.output().plan.as_ref().unwrap().bands[0].steps[0];
    assert_eq!((step.deliverable, step.profile), (Some(ResultKind::Hybrid), Some(Profile::Powerful)));
    assert_eq!(step.search.map(|search| search.max_nodes), Some(20));
    let budget = step.budget.as_ref().expect("a budget");
    assert_eq!(
        (budget.max_tokens, budget.max_tool_calls, budget.max_wall_clock_ms),
        (Some(5_000), None, Some(420_000))
    );
}

fn returned() -> Value {
    json!({
        "scratchpad": {"appendMarkdown": "n"},
        "artifacts": [
            {"type": "document", "label": "a", "title": "A", "isPrimary": null},
            {"type": "json", "label": "data", "jsonPayload": [{"key": "depth", "value": "12"}], "isPrimary": false,
             "citations": null}
        ],
        "result": {"summary": "Noon.", "successAssessment": {"met": false, "notes": "no depth"},
            "primaryArtifactLabel": "data",
            "parentHint": {"hintType": "read_json", "artifactLabels": ["data"]}}
    })
}

#[tokio::test]
async fn the_executors_fields_take_effect() {
    let provider = enforcing(returned()).await;
    let outcome = Service::new(&args(&provider)).execute(&execute_input("Tides?")).await;
    assert!(outcome.requested.is_empty());
    let result = &outcome.output().result;
    assert_eq!(result.primary_artifact_label.as_deref(), Some("data"));
    assert_eq!(result.success_assessment.as_ref().unwrap().notes.as_deref(), Some("no depth"));
    assert_eq!(result.parent_hint.hint_type, HintType::ReadJson);
    assert_eq!(result.parent_hint.artifact_labels, ["data"]);
}

#[tokio::test]
async fn an_aggregator_can_ask_for_another_plan() {
    let mut answer = returned();
    answer["artifacts"].as_array_mut().unwrap().truncate(1);
    answer["result"]["primaryArtifactLabel"] = Value::Null;
    answer["result"]["parentHint"] = Value::Null;
    answer["synthesis"] = json!({"summary": "Noon.", "keyFindings": ["noon"], "gaps": ["the depth"]});
    answer["next"] = json!({"shouldReplan": true, "replanReason": "find the depth"});
    let provider = enforcing(answer).await;
    let input = AggregateInput {
        homework: None,
        call: call("Tides?"),
        plan_summary: "Both.".into(),
        children: Vec::new(),
        exhausted_budget: None,
    };
    let outcome = Service::new(&args(&provider)).aggregate(&input).await;
    let next = &outcome.output().next;
    assert!(next.should_replan && next.replan_reason.as_deref() == Some("find the depth"));
    assert_eq!(outcome.output().synthesis.gaps, ["the depth"]);
}

/// A prompt that speaks of a field asks for something that the schema must allow.
#[tokio::test]
async fn the_schema_knows_every_field_that_a_prompt_names() {
    let provider = Provider::always(text(&direct())).await;
    Service::new(&args(&provider)).plan(&plan_input("Compare")).await.output();
    let asked = &provider.asked()[0];
    let system = asked.body["messages"][0]["content"].as_str().expect("the system prompt").to_owned();
    let schema = asked.body["response_format"].to_string();
    let named: Vec<&str> = system.split('"').skip(1).step_by(2).collect();
    for field in ["deliverable", "profile", "search", "budget"] {
        assert!(named.contains(&field), "{field}: {named:?}");
    }
    for name in named {
        assert!(schema.contains(&format!("\"{name}\"")), "{name}");
    }
}
