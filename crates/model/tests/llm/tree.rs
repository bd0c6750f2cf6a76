//! Whole trees: the engine with language models for its roles. What a model does wrong costs at most its own node.

use std::time::Duration;

use tree_agent_contract::event::{Event, EventBody};
use tree_agent_contract::*;
use tree_agent_engine::{CallInput, CallOutput, Input, Run, start};

use crate::provider::{Answer, Asked, Provider, status, text};
use crate::support::*;

/// Drives a run to its end with `service` for every role, one call after the other.
async fn grow(service: &Service, budgets: Budgets) -> Vec<Event> {
    grow_with_pauses(service, budgets, Duration::ZERO).await
}

/// The same, with a pause of real time whenever nothing is due.
async fn grow_with_pauses(service: &Service, budgets: Budgets, pause: Duration) -> Vec<Event> {
    let run_id = RunId::from(uuid::Uuid::from_u128(1));
    let spec = RunSpec { budgets, ..RunSpec::new("Compare the parts") };
    let mut now = Timestamp::from_millis(1_000_000);
    let mut log = start(run_id, spec, now).events;
    let mut run = Run::replay(run_id, &log).expect("a fresh log replays");
    log.extend(run.handle(Input::Claimed, now).events);
    for _ in 0..500 {
        if run.is_final() {
            return log;
        }
        let due = run.take_due(now, usize::MAX);
        if due.is_empty() {
            tokio::time::sleep(pause).await;
            now = run.next_wakeup().expect("something is awaited").max(now);
            log.extend(run.handle(Input::Tick, now).events);
        }
        for call in due {
            let (updates, ended) = match &call.input {
                CallInput::Plan(input) => {
                    let outcome = service.plan(input).await;
                    (outcome.usage, outcome.output.map(CallOutput::Plan))
                }
                CallInput::Execute(input) => {
                    let outcome = service.execute(input).await;
                    (outcome.usage, outcome.output.map(CallOutput::Execute))
                }
                CallInput::Aggregate(input) => {
                    let outcome = service.aggregate(input).await;
                    (outcome.usage, outcome.output.map(CallOutput::Aggregate))
                }
                CallInput::Research(_) | CallInput::Pick(_) | CallInput::Verify(_) => {
                    unreachable!("a tree does not search")
                }
            };
            for usage in updates {
                let update = role::RoleUpdate::Usage { usage, prompt: None };
                log.extend(run.handle(Input::Update(call.key, update), now).events);
            }
            let input = match ended {
                Ok(output) => Input::Output(call.key, output),
                Err(error) => Input::Failed(call.key, error),
            };
            log.extend(run.handle(input, now).events);
        }
    }
    panic!("the run did not end");
}

fn nodes(log: &[Event]) -> usize {
    log.iter().filter(|e| matches!(e.body, EventBody::NodeCreated(_))).count()
}

fn messages(log: &[Event]) -> Vec<&str> {
    log.iter()
        .filter_map(|e| match &e.body {
            EventBody::NodeStatusChanged(status) => status.message.as_deref(),
            _ => None,
        })
        .collect()
}

fn end(log: &[Event]) -> (RunStatus, bool) {
    match &log.last().expect("events").body {
        EventBody::RunStatusChanged(status) => (status.status, status.partial),
        other => panic!("the last event is {other:?}"),
    }
}

fn role(asked: &Asked) -> &'static str {
    let said = asked.said();
    ["planner", "executor", "aggregator"]
        .into_iter()
        .find(|role| said.contains(&format!("You are the {role}")))
        .expect("a role")
}

fn without_tools(provider: &Provider) -> tree_agent_model::LlmArgs {
    tree_agent_model::LlmArgs { model_tool_rounds: "0".into(), ..served_by(provider) }
}

#[tokio::test]
async fn a_trivial_objective_ends_as_one_executed_node() {
    let provider = Provider::by(|asked| match role(asked) {
        // A model that wraps the whole task into one step all the same.
        "planner" => text(&plan(&[band(&[step("a", "Compare the parts")])])),
        _ => text(&executed()),
    })
    .await;
    let log = grow(&Service::new(&without_tools(&provider)), Budgets::default()).await;
    assert_eq!((nodes(&log), end(&log)), (1, (RunStatus::Completed, false)));
    assert_eq!(provider.asked().len(), 2, "one plan, one execution");
}

#[tokio::test]
async fn a_plan_over_the_limits_is_cut_and_it_is_said_in_an_event() {
    let provider = Provider::by(|asked| match role(asked) {
        "planner" => {
            let steps: Vec<_> = (0..50).map(|n| step(&format!("s{n}"), &format!("Part {n}"))).collect();
            text(&plan(&[band(&steps), band(&[]), band(&[step("z", "Last")])]))
        }
        "executor" => text(&executed()),
        _ => text(&aggregated()),
    })
    .await;
    let budgets = Budgets { max_depth: 1, ..Budgets::default() };
    let log = grow(&Service::new(&without_tools(&provider)), budgets).await;
    assert_eq!(
        (nodes(&log), end(&log)),
        (6, (RunStatus::Completed, true)),
        "the root, four steps and the last"
    );
    assert!(messages(&log).contains(&"guard:maxStepsPerBand"), "{:?}", messages(&log));
}

/// One of two executors never answers with anything usable: its sibling's work is aggregated.
#[tokio::test]
async fn what_a_weak_model_breaks_costs_its_own_node_only() {
    for bad in [
        Answer::Text("I'm sorry.".into(), "stop"),
        Answer::Text(String::new(), "stop"),
        Answer::Text("{\"scratchpad\": {\"append".into(), "length"),
        text(&serde_json::json!({"wrong": "schema"})),
        status(400, "this prompt offends"),
        Answer::Break("{"),
    ] {
        let broken = bad.clone();
        let provider = Provider::by(move |asked| match role(asked) {
            "planner" => text(&plan(&[band(&[step("a", "Part a"), step("b", "Part b")])])),
            "executor" if asked.body["messages"][1]["content"].as_str().unwrap().contains("Part b") => {
                broken.clone()
            }
            "executor" => text(&executed()),
            _ => text(&aggregated()),
        })
        .await;
        let args = tree_agent_model::LlmArgs {
            model_circuit_failures: "100".into(),
            model_tries: "1".into(),
            ..without_tools(&provider)
        };
        let budgets = Budgets { max_depth: 1, ..Budgets::default() };
        let log = grow(&Service::new(&args), budgets).await;
        assert_eq!(end(&log), (RunStatus::Completed, true), "{bad:?}");
        let failed = log.iter().filter(|e| matches!(e.body, EventBody::NodeFailed(_))).count();
        assert_eq!(failed, 1, "{bad:?}");
        let aggregation = provider.asked().into_iter().find(|asked| role(asked) == "aggregator");
        let said = aggregation.expect("what there is was aggregated").said();
        assert!(said.contains("High water is at noon.") && said.contains("It failed:"), "{bad:?}: {said}");
    }
}

/// A provider that is gone blocks its nodes, says so, and the run goes on where it was when the provider is back.
#[tokio::test]
async fn an_open_circuit_blocks_the_node_and_the_run_goes_on_later() {
    let provider = Provider::new(vec![status(503, "down"), status(503, "down")]).await;
    let args = tree_agent_model::LlmArgs {
        model_circuit_failures: "2".into(),
        model_circuit_seconds: "1".into(),
        model_tries: "2".into(),
        ..without_tools(&provider)
    };
    let service = Service::new(&args);
    let budgets = Budgets { max_depth: 0, ..Budgets::default() };
    // The engine's clock is not that of the circuit, so real time has to pass between the two halves.
    let opened = service.execute(&execute_input("Compare the parts")).await;
    assert!(opened.output.is_err());
    let patient = async {
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        provider.then(vec![text(&executed())]);
    };
    let (log, ()) = tokio::join!(grow_with_pauses(&service, budgets, Duration::from_millis(200)), patient);
    assert_eq!(end(&log), (RunStatus::Completed, false));
    let blocked = messages(&log).into_iter().find(|m| m.starts_with("blocked:")).expect("it is said");
    assert!(blocked.contains("the circuit is open"), "{blocked}");
}
