//! What providers can keep of a prompt: marks where they want them, beginnings that stay the same, and the price.

use serde_json::{Value, json};
use tree_agent_model::LlmArgs;

use crate::provider::{Answer, Asked, Provider, text};
use crate::support::*;

fn search(id: &'static str, query: &str) -> Answer {
    Answer::Tools("", vec![(id, "search_documents", json!({"query": query}).to_string())])
}

fn marks(value: &Value) -> usize {
    value.to_string().matches("\"cache_control\":{\"type\":\"ephemeral\"}").count()
}

/// What a provider sees: a mark is no part of it, and one text is the same as a list of one text.
fn seen(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let seen_of = |(key, value): (&String, &Value)| {
                let value = match (key.as_str(), value) {
                    ("content" | "system", Value::String(text)) => json!([{"type": "text", "text": text}]),
                    _ => seen(value),
                };
                (key.clone(), value)
            };
            object.iter().filter(|(key, _)| *key != "cache_control").map(seen_of).collect()
        }
        Value::Array(items) => items.iter().map(seen).collect(),
        other => other.clone(),
    }
}

/// The bytes of the prompt in the order in which providers read it, and where its messages end.
fn prompt(asked: &Asked) -> (String, Vec<usize>) {
    let body = seen(&asked.body);
    let mut bytes = format!("{}\n{}\n", body["tools"], body["system"]);
    let mut ends = Vec::new();
    for message in body["messages"].as_array().expect("messages") {
        bytes.push_str(&message.to_string());
        ends.push(bytes.len());
    }
    (bytes, ends)
}

#[tokio::test]
async fn anthropic_is_told_what_to_keep() {
    let provider =
        Provider::new(vec![search("toolu_1", "tides"), search("toolu_2", "traps"), text(&executed())]).await;
    let service = Service::new(&anthropic(&provider));
    service.execute(&execute_input("Tides?")).await.output();
    for asked in provider.asked() {
        let body = &asked.body;
        assert_eq!(marks(body), 3, "{body}");
        assert_eq!(marks(body["system"].as_array().unwrap().last().unwrap()), 1);
        assert_eq!(marks(body["tools"].as_array().unwrap().last().unwrap()), 1);
        assert_eq!(marks(body["messages"].as_array().unwrap().last().unwrap()), 1);
    }

    // Nothing repeats the prompt of a call without tools, and writing it to the cache would cost more.
    let provider = Provider::new(vec![text(&direct())]).await;
    Service::new(&anthropic(&provider)).plan(&plan_input("Tides?")).await.output();
    let body = &provider.asked()[0].body;
    assert_eq!((marks(body), marks(&body["system"])), (1, 1), "{body}");
}

#[tokio::test]
async fn a_conversation_only_grows_at_its_end() {
    for served in [served_by, anthropic] {
        let provider =
            Provider::new(vec![search("c1", "tides"), search("c2", "traps"), text(&executed())]).await;
        let service = Service::new(&served(&provider));
        service.execute(&execute_input("Tides?")).await.output();
        let asked = provider.asked();
        assert_eq!(asked.len(), 3);
        for pair in asked.windows(2) {
            let (before, after) = (prompt(&pair[0]).0, prompt(&pair[1]).0);
            assert!(after.starts_with(&before), "{before}\n\n{after}");
            assert!(after.len() > before.len());
        }
    }
}

#[tokio::test]
async fn siblings_begin_with_the_same_bytes() {
    for served in [served_by, anthropic] {
        let provider = Provider::always(text(&executed())).await;
        let service = Service::new(&served(&provider));
        for (n, title) in [(0, "When is high water?"), (1, "Which traps are there?")] {
            let mut input = execute_input(title);
            input.call.node_id = tree_agent_contract::NodeId::from(uuid::Uuid::from_u128(100 + n));
            input.call.sibling_index = n as u32;
            service.execute(&input).await.output();
        }
        let asked = provider.asked();
        let (first, second) = (seen(&asked[0].body), seen(&asked[1].body));
        assert_eq!(first["tools"].to_string(), second["tools"].to_string());
        // OpenAI's protocol has the system prompt as its first message.
        let system = |body: &Value| match body.get("system") {
            Some(system) => system.to_string(),
            None => body["messages"][0].to_string(),
        };
        assert_eq!(system(&first), system(&second));
        assert!(system(&first).len() > 1_000, "it is worth keeping");
        assert_ne!(prompt(&asked[0]).0, prompt(&asked[1]).0);
    }
}

#[tokio::test]
async fn reads_and_writes_of_a_cache_are_counted_and_paid() {
    let price = json!({"input": 10, "cached": 1, "written": 12.5, "output": 50});
    for (args, name) in
        [(anthropic as fn(&Provider) -> LlmArgs, "anthropic:claude-test"), (served_by, "openai:test-model")]
    {
        let provider = Provider::always(text(&direct())).await;
        let entry = json!({name: {"price": price, "api": "responses"}});
        let service = Service::new(&with_table(args(&provider), &name.replace(':', "-"), &entry));
        let outcome = service.plan(&plan_input("Tides?")).await;
        outcome.output();
        let usage = &outcome.usage[0];
        let tokens = (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens, usage.output_tokens);
        assert_eq!(tokens, (1_000, 400, 100, 50), "{name}");
        // 500 new ones, 400 read, 100 written, 50 answered.
        assert_eq!(usage.cost_micros, 5_000 + 400 + 1_250 + 2_500, "{name}");
    }
}
