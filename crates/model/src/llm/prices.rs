//! Prices of tokens: `data/prices.json`, with the source of every price and the date on which it was read.

use std::collections::{BTreeMap, HashSet};
use std::sync::{LazyLock, Mutex, PoisonError};

use serde::Deserialize;

/// Prices of one model in US dollars per million tokens, which is the same as millionths of a dollar per token.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Price {
    input: f64,
    /// Tokens of the prompt that came from the provider's cache.
    cached: f64,
    output: f64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Prices {
    /// The day on which they were read, YYYY-MM-DD.
    as_of: String,
    models: BTreeMap<String, Price>,
}

static PRICES: LazyLock<Prices> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../data/prices.json")).expect("a test reads this file")
});

/// Cost of one answer of `model` (`provider:model`) in millionths of a US dollar, rounded up; none if the price is
/// unknown, which is logged once for each model.
pub(super) fn cost_micros(model: &str, input: u64, cached: u64, output: u64) -> Option<u64> {
    cost_if_known(model, input, cached, output).or_else(|| warn_unknown_price(model))
}

/// The same, without a log line if the price is unknown.
pub(super) fn cost_if_known(model: &str, input: u64, cached: u64, output: u64) -> Option<u64> {
    let price = price(model)?;
    let fresh = input.saturating_sub(cached);
    let micros = fresh as f64 * price.input + cached as f64 * price.cached + output as f64 * price.output;
    Some(micros.ceil() as u64)
}

/// Logs once for each model that its cost counts as 0.
pub(super) fn warn_unknown_price(model: &str) -> Option<u64> {
    static SAID: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(model.to_owned()) {
        let as_of = &PRICES.as_of;
        tracing::warn!(model, as_of, "the price of this model is unknown: its cost counts as 0");
    }
    None
}

/// The price of `model`. A dated version, such as `openai:gpt-4o-2024-08-06`, has the price of its model.
fn price(model: &str) -> Option<Price> {
    let models = &PRICES.models;
    models.get(model).copied().or_else(|| {
        let dated = |suffix: &str| {
            suffix.strip_prefix('-').is_some_and(|date| {
                date == "latest" || date.len() >= 8 && date.bytes().all(|b| b.is_ascii_digit() || b == b'-')
            })
        };
        let named = models.iter().find(|(name, _)| model.strip_prefix(name.as_str()).is_some_and(dated));
        named.map(|(_, price)| *price)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_whole() {
        assert!(PRICES.as_of.len() == 10 && PRICES.as_of.starts_with("20"), "{}", PRICES.as_of);
        for (name, price) in &PRICES.models {
            tree_agent_contract::ModelName::parse(name).expect(name);
            let ordered = 0.0 < price.cached && price.cached <= price.input && price.input <= price.output;
            assert!(ordered, "{name}: {price:?}");
        }
    }

    #[test]
    fn every_price_has_a_source_with_its_date() {
        let file: serde_json::Value =
            serde_json::from_str(include_str!("../../data/prices.json")).expect("JSON");
        for (name, price) in file["models"].as_object().expect("models") {
            let source = &file["sources"][price["source"].as_str().expect(name)];
            assert!(
                source["url"].as_str().is_some_and(|url| url.starts_with("https://")),
                "{name}: {source}"
            );
            assert!(source["dated"].as_str().is_some_and(|date| date.contains("202")), "{name}: {source}");
        }
    }

    #[test]
    fn cost_is_the_sum_of_its_parts_rounded_up() {
        // 2.50, 1.25 and 10 dollars per million.
        assert_eq!(cost_micros("openai:gpt-4o", 1_000, 400, 10), Some(1_500 + 500 + 100));
        assert_eq!(cost_micros("openai:gpt-4o-2024-08-06", 1, 0, 0), Some(3));
        assert_eq!(cost_micros("openai:gpt-4o-mini", 1_000_000, 0, 0), Some(150_000));
        assert_eq!(cost_micros("openai:nobody-knows", 1_000, 0, 10), None);
        // A newer model is not mistaken for an older one whose name is its prefix.
        assert!(price("openai:gpt-4o-ultra").is_none());
    }
}
