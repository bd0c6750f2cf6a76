//! Answers as they should be: read, streamed, counted, and turned into what the contract wants.

use serde_json::{Value, json};
use tree_agent_contract::role::*;
use tree_agent_contract::{HintType, Profile, ResultKind};

use crate::provider::{Answer, Provider, text};
use crate::support::*;

fn two_steps() -> Value {
    plan(&[band(&[step("a", "Part a"), step("b", "Part b")])])
}

#[tokio::test]
async fn a_plan_is_read_shown_while_it_is_written_and_counted() {
    let provider = Provider::new(vec![text(&two_steps())]).await;
    let outcome = Service::new(&served_by(&provider)).plan(&plan_input("Compare the parts")).await;
    let plan = outcome.output().plan.as_ref().expect("a plan");
    assert_eq!(
        plan.bands[0].steps.iter().map(|s| s.title.as_str()).collect::<Vec<_>>(),
        ["Part a", "Part b"]
    );

    assert!(outcome.scratchpad.contains("Two parts, side by side."), "{}", outcome.scratchpad);
    assert!(outcome.pieces > 2, "it arrived in {} pieces", outcome.pieces);
    let rest = &outcome.output().scratchpad.append_markdown;
    assert!(!rest.contains("Two parts"), "what was shown is not written again: {rest}");
    assert!(rest.contains("2 steps"), "{rest}");

    let usage = &outcome.usage[0];
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cached_tokens), (1_000, 50, 400));
    assert_eq!((usage.model.as_str(), usage.purpose.as_str()), ("openai:test-model", "plan"));
    assert!(usage.duration_ms > 0);

    let asked = &provider.asked()[0];
    let format = &asked.body["response_format"];
    assert_eq!(format["type"], "json_schema");
    let union = &format["json_schema"]["schema"]["properties"]["decision"]["anyOf"];
    for (branch, mode) in [(0, "execute"), (1, "plan")] {
        let properties = union[branch]["properties"].as_object().expect("properties");
        assert_eq!(properties.keys().next().map(String::as_str), Some("mode"), "the mode comes first");
        assert!(properties["mode"].to_string().contains(mode));
    }
    assert!(format.to_string().contains("maxLength"), "a server of one's own gets bounds");
    assert_eq!(asked.headers["authorization"], format!("Bearer {KEY}"));
}

#[tokio::test]
async fn anthropic_is_asked_in_its_own_words() {
    let provider = Provider::new(vec![text(&two_steps()), text(&executed()), text(&aggregated())]).await;
    let service = Service::new(&anthropic(&provider));
    let planned = service.plan(&plan_input("Compare the parts")).await;
    assert_eq!(planned.output().mode, PlannerMode::Plan);
    let usage = &planned.usage[0];
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cached_tokens), (1_000, 50, 400));
    assert_eq!(service.execute(&execute_input("Tides?")).await.output().artifacts.len(), 2);
    let input = AggregateInput {
        homework: None,
        call: call("Tides?"),
        plan_summary: String::new(),
        children: Vec::new(),
        exhausted_budget: None,
    };
    assert_eq!(service.aggregate(&input).await.output().synthesis.key_findings, ["noon"]);
    for asked in provider.asked() {
        assert_eq!(asked.headers["x-api-key"], KEY);
        if asked.body.get("tools").is_some() {
            continue;
        }
        assert_eq!(asked.body["output_config"]["format"]["type"], "json_schema", "{}", asked.said());
    }
}

#[tokio::test]
async fn an_executors_answer_becomes_artifacts_and_a_hint() {
    let provider = Provider::new(vec![text(&executed())]).await;
    let args = tree_agent_model::LlmArgs { model_tool_rounds: "0".into(), ..served_by(&provider) };
    let outcome = Service::new(&args).execute(&execute_input("When is high water?")).await;
    let output = outcome.output();
    assert_eq!(output.result.kind, ResultKind::Hybrid);
    assert_eq!(output.result.parent_hint.hint_type, HintType::ReadDocuments);
    assert_eq!(output.result.parent_hint.artifact_labels, ["answer", "times"]);
    assert_eq!(
        Value::from(output.artifacts[1].json_payload.clone().unwrap()),
        json!({"high": 12, "unit": "h"})
    );
    assert!(outcome.scratchpad.contains("# Tides\n\nNoon."), "the document is seen while it is written");
    assert!(provider.asked()[0].body.get("tools").is_none());
}

#[tokio::test]
async fn an_aggregator_without_artifacts_still_returns_a_document() {
    let mut answer = aggregated();
    answer["artifacts"] = json!([]);
    answer["next"] = json!({"shouldReplan": true, "replanReason": "the tables of May are missing"});
    // The text is asked for, and the model writes none.
    let provider = Provider::new(vec![text(&answer), Answer::Text(String::new(), "stop")]).await;
    let input = AggregateInput {
        homework: None,
        call: call("Tides?"),
        plan_summary: "Both parts.".into(),
        children: Vec::new(),
        exhausted_budget: None,
    };
    let outcome = Service::new(&served_by(&provider)).aggregate(&input).await;
    let document = outcome.output().artifacts[0].document_markdown.as_deref().unwrap();
    assert!(document.contains("High water is at noon.") && document.contains("- noon"), "{document}");
    assert_eq!(outcome.output().next.replan_reason.as_deref(), Some("the tables of May are missing"));
}

#[tokio::test]
async fn data_alone_is_enough_only_where_data_was_asked_for() {
    let mut answer = executed();
    answer["artifacts"].as_array_mut().unwrap().remove(0);
    // Only the field of the plan counts, and no word of the criteria.
    for (wanted, criterion, kind) in [
        (None, "Returns JSON", ResultKind::Hybrid),
        (Some(ResultKind::Document), "Returns JSON", ResultKind::Hybrid),
        (Some(ResultKind::Json), "Explains the context in a text", ResultKind::Json),
    ] {
        let written = Answer::Text("# Tides\n\nNoon.\n".into(), "stop");
        let provider = Provider::new(vec![text(&answer), written]).await;
        let mut input = execute_input("When is high water?");
        input.call.success_criteria = vec![criterion.into()];
        input.call.deliverable = wanted;
        let outcome = Service::new(&served_by(&provider)).execute(&input).await;
        assert_eq!(outcome.output().result.kind, kind, "{criterion}");
        assert_eq!(
            provider.asked().len(),
            if kind == ResultKind::Json { 1 } else { 2 },
            "the text is asked for"
        );
        let told =
            if wanted == Some(ResultKind::Json) { "Deliverable: data" } else { "Deliverable: a document" };
        assert!(provider.asked()[0].said().contains(told), "{wanted:?}");
    }
}

#[tokio::test]
async fn roles_use_the_model_of_their_profile() {
    let provider = Provider::new(Vec::new()).await;
    let args = tree_agent_model::LlmArgs {
        model_fast: "openai:small".into(),
        model_balanced: "openai:middle".into(),
        model_powerful: "openai:large".into(),
        ..served_by(&provider)
    };
    let service = Service::new(&args);
    provider.then(vec![
        text(&direct()),
        text(&direct()),
        text(&direct()),
        text(&executed()),
        text(&executed()),
    ]);
    service.plan(&plan_input("root")).await.output();
    let mut deeper = plan_input("below");
    deeper.call.depth = 1;
    service.plan(&deeper).await.output();
    // A plan above asks for another profile: for less only of its workers.
    deeper.call.profile = Some(Profile::Fast);
    service.plan(&deeper).await.output();
    service.execute(&execute_input("leaf")).await.output();
    let mut small = execute_input("leaf");
    small.call.profile = Some(Profile::Fast);
    service.execute(&small).await.output();
    let models: Vec<Value> = provider.asked().iter().map(|asked| asked.body["model"].clone()).collect();
    assert_eq!(models, ["large", "middle", "middle", "middle", "small"]);
}

#[tokio::test]
async fn where_only_an_address_is_known_its_first_model_is_used() {
    let provider = Provider::new(vec![text(&direct())]).await;
    let args = tree_agent_model::LlmArgs { model_base_url: provider.url.clone(), ..quick() };
    let outcome = Service::new(&args).plan(&plan_input("What is high water?")).await;
    assert_eq!(outcome.usage[0].model, "openai:first-model");
    assert_eq!(provider.asked()[0].body["model"], "first-model");
}

/// Proportionality: a trivial objective ends as one executed node.
#[tokio::test]
async fn a_plan_that_is_no_plan_is_executed() {
    let mut small = two_steps();
    small["decision"]["leafDecision"] =
        json!({"canExecuteDirectly": true, "complexity": "low", "blockers": []});
    for (answer, why) in [
        (plan(&[]), "The plan was empty"),
        (plan(&[band(&[])]), "The plan was empty"),
        (
            json!({"mode": "plan", "modeReason": "Hm.", "scratchpad": {"appendMarkdown": "x"}, "plan": null}),
            "empty",
        ),
        (plan(&[band(&[step("a", "Say what two and two is")])]), "a plan of one step is the task itself"),
        (small, "small enough for one worker"),
        (direct(), "One look is enough"),
    ] {
        let provider = Provider::new(vec![text(&answer)]).await;
        let outcome = Service::new(&served_by(&provider)).plan(&plan_input("What is two and two?")).await;
        assert_eq!(outcome.output().mode, PlannerMode::Execute, "{answer}");
        assert!(outcome.output().mode_reason.contains(why), "{}", outcome.output().mode_reason);
        assert!(outcome.output().scratchpad.append_markdown.contains("Executes directly"));
        assert!(provider.asked()[0].said().contains("unless splitting clearly helps"));
    }
}

/// A search is more than one worker does, so a plan of one step is kept if it is one.
#[tokio::test]
async fn a_step_may_be_a_search() {
    let mut wide = step("a", "Everything about tides");
    wide["search"] = json!({"maxDepth": 2, "maxNodes": 40});
    let provider = Provider::new(vec![text(&plan(&[band(&[wide])]))]).await;
    let outcome = Service::new(&served_by(&provider)).plan(&plan_input("What is there about tides?")).await;
    let wide = &outcome.output().plan.as_ref().expect("a plan").bands[0].steps[0];
    let limits = tree_agent_contract::StepSearch { max_depth: 2, max_nodes: 40 };
    assert_eq!((wide.strategy, wide.search), (Some(tree_agent_contract::Strategy::Search), Some(limits)));
    // Other steps have none, whether the answer says so or not.
    let mut narrow = step("b", "Part b");
    narrow["search"] = json!(null);
    let steps = [step("a", "Part a"), narrow];
    let provider = Provider::new(vec![text(&plan(&[band(&steps)]))]).await;
    let outcome = Service::new(&served_by(&provider)).plan(&plan_input("Compare the parts")).await;
    let steps = &outcome.output().plan.as_ref().expect("a plan").bands[0].steps;
    assert!(steps.iter().all(|step| step.strategy.is_none() && step.search.is_none()), "{steps:?}");
}

#[tokio::test]
async fn a_replan_may_keep_one_step() {
    let mut input = plan_input("Compare the parts");
    input.replan_reason = "part b is missing".into();
    input.prior_steps = vec![PriorStep {
        id: tree_agent_contract::StepId::new("a"),
        title: "Part a".into(),
        status: tree_agent_contract::StepStatus::Completed,
        summary: "done".into(),
    }];
    let provider = Provider::new(vec![text(&plan(&[band(&[step("a", "Something new")])]))]).await;
    let outcome = Service::new(&served_by(&provider)).plan(&input).await;
    let steps = &outcome.output().plan.as_ref().expect("a plan").bands[0].steps;
    assert_eq!(steps[0].id.as_str(), "a-2", "an id of an earlier step is not used for another one");
}

#[tokio::test]
async fn a_provider_that_says_nothing_of_tokens_is_estimated() {
    let provider = Provider::new(vec![Answer::NoUsage(direct().to_string())]).await;
    let outcome = Service::new(&served_by(&provider)).plan(&plan_input("What is two and two?")).await;
    let usage = &outcome.usage[0];
    assert!(usage.input_tokens > 300 && usage.output_tokens > 20, "{usage:?}");
    assert_eq!(usage.purpose, "plan, tokens estimated");
}

/// The text of a document travels as text: the JSON object names it, and a text that is cut goes on in the next answer.
#[tokio::test]
async fn the_text_of_a_document_is_asked_for_as_text_and_goes_on_where_it_was_cut() {
    let mut answer = executed();
    answer["artifacts"][0].as_object_mut().unwrap().remove("documentMarkdown");
    let provider = Provider::new(vec![
        text(&answer),
        Answer::Text("# Tides\n\nA \"quoted\" table, and ".into(), "length"),
        Answer::Text("the rest of it.".into(), "stop"),
    ])
    .await;
    let args = tree_agent_model::LlmArgs { model_tool_rounds: "0".into(), ..served_by(&provider) };
    let outcome = Service::new(&args).execute(&execute_input("When is high water?")).await;
    let document = outcome.output().artifacts[0].document_markdown.as_deref().unwrap();
    assert_eq!(document, "# Tides\n\nA \"quoted\" table, and the rest of it.\n");
    // Both answers are seen while they are written.
    let shown = outcome.scratchpad.split_once("A \"quoted\" table, and").expect("the beginning").1;
    assert!(shown.contains("the rest of it."), "{}", outcome.scratchpad);
    assert_eq!(outcome.purposes(), ["execute", "execute (document)", "execute (document)"]);
    let asked = provider.asked();
    assert!(!asked[0].body["response_format"].to_string().contains("documentMarkdown"));
    assert!(asked[1].last().contains("the document \"answer\" (Tides)"), "{}", asked[1].last());
    assert!(asked[1].body.get("response_format").is_none(), "a text has no schema");
    assert!(asked[2].last().contains("exactly where it stopped"), "{}", asked[2].last());
}

#[tokio::test]
async fn a_document_without_a_text_is_made_of_the_summary() {
    let mut answer = executed();
    answer["artifacts"][0].as_object_mut().unwrap().remove("documentMarkdown");
    let provider = Provider::new(vec![text(&answer), Answer::Text(" \n".into(), "stop")]).await;
    let args = tree_agent_model::LlmArgs { model_tool_rounds: "0".into(), ..served_by(&provider) };
    let outcome = Service::new(&args).execute(&execute_input("When is high water?")).await;
    let document = outcome.output().artifacts[0].document_markdown.as_deref().unwrap();
    assert_eq!(document, "High water is at noon.\n");
}

#[tokio::test]
async fn a_planner_says_what_its_plan_rests_on_if_a_person_reviews_it() {
    let mut answer = two_steps();
    answer["review"] = json!({"assumptions": ["Only Europe.", " "], "leftOut": ["Prices."]});
    let provider = Provider::new(vec![text(&answer), text(&answer), text(&two_steps())]).await;
    let service = Service::new(&served_by(&provider));
    let reviewed = PlanInput { review: true, ..plan_input("Compare the parts") };
    let premises = service.plan(&reviewed).await.output().premises.clone().expect("premises");
    assert_eq!(
        (premises.assumptions, premises.left_out),
        (vec!["Only Europe.".into()], vec!["Prices.".into()])
    );
    assert_eq!(service.plan(&plan_input("Compare the parts")).await.output().premises, None);
    // A plan without them is still one.
    assert_eq!(service.plan(&reviewed).await.output().mode, PlannerMode::Plan);
    let asked = provider.asked();
    let wanted = asked.iter().map(|asked| {
        let schema = &asked.body["response_format"]["json_schema"]["schema"];
        let is_required = schema["required"].as_array().is_some_and(|names| names.contains(&json!("review")));
        assert_eq!(is_required, schema["properties"].get("review").is_some());
        (is_required, asked.said().contains("A person reviews your decision"))
    });
    assert_eq!(wanted.collect::<Vec<_>>(), [(true, true), (false, false), (true, true)]);
}
