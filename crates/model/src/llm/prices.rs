//! Prices of tokens: `data/prices.json`, with the source of every price and the date on which it was read.

use std::collections::{BTreeMap, HashSet};
use std::sync::{LazyLock, Mutex, PoisonError};

use serde::Deserialize;

use super::table::of_model;

/// Prices of one model in US dollars per million tokens, which is the same as millionths of a dollar per token.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Price {
    pub(super) input: f64,
    /// Tokens of the prompt that came from the provider's cache.
    pub(super) cached: f64,
    /// Tokens of the prompt that the provider wrote to its cache; as `input` if they cost no more.
    #[serde(default)]
    pub(super) written: Option<f64>,
    pub(super) output: f64,
}

/// Tokens of one answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TokenCounts {
    /// Of the prompt, with those that were read from a cache or written to it.
    pub(super) input: u64,
    /// Of the answer, reasoning included.
    pub(super) output: u64,
    /// Of the prompt: read from the provider's cache.
    pub(super) cached: u64,
    /// Of the prompt: written to the provider's cache.
    pub(super) written: u64,
}

impl TokenCounts {
    /// An answer of `output` tokens to a prompt of `input`, without a cache.
    pub(super) const fn fresh(input: u64, output: u64) -> Self {
        Self { input, output, cached: 0, written: 0 }
    }
}

impl Price {
    /// Cost in millionths of a US dollar, rounded up.
    pub(super) fn cost_micros(&self, tokens: TokenCounts) -> u64 {
        let TokenCounts { input, output, cached, written } = tokens;
        let fresh = input.saturating_sub(cached).saturating_sub(written);
        let micros = fresh as f64 * self.input
            + cached as f64 * self.cached
            + written as f64 * self.written.unwrap_or(self.input)
            + output as f64 * self.output;
        micros.ceil() as u64
    }

    /// The most that an answer can cost whose prompt may be written to a cache.
    pub(super) fn most_micros(&self, input: u64, output: u64) -> u64 {
        let written = if self.written.is_some_and(|written| written > self.input) { input } else { 0 };
        self.cost_micros(TokenCounts { input, output, cached: 0, written })
    }

    /// What is wrong with it.
    pub(super) fn problem(&self) -> Option<String> {
        let all = [self.input, self.cached, self.written.unwrap_or(0.0), self.output];
        let good = all.iter().all(|price| (0.0..=1_000_000.0).contains(price));
        (!good).then(|| "price: each must be between 0 and 1000000 dollars per million tokens".to_owned())
    }
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

/// Logs once for each model that its cost counts as 0.
pub(super) fn warn_unknown(model: &str) {
    static SAID: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(model.to_owned()) {
        let as_of = &PRICES.as_of;
        tracing::warn!(model, as_of, "the price of this model is unknown: its cost counts as 0");
    }
}

/// The price of `model` (`provider:model`). A dated version has the price of its model.
pub(super) fn of(model: &str) -> Option<Price> {
    of_model(&PRICES.models, model).copied()
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
            assert!(price.written.is_none_or(|written| written >= price.input), "{name}: {price:?}");
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
        let cost = |model: &str, input, cached, written, output| {
            of(model).map(|price| price.cost_micros(TokenCounts { input, output, cached, written }))
        };
        // 2.50, 1.25 and 10 dollars per million.
        assert_eq!(cost("openai:gpt-4o", 1_000, 400, 0, 10), Some(1_500 + 500 + 100));
        assert_eq!(
            cost("openai:gpt-4o", 1_000, 400, 100, 10),
            Some(1_500 + 500 + 100),
            "writes cost no more"
        );
        assert_eq!(cost("openai:gpt-4o-2024-08-06", 1, 0, 0, 0), Some(3));
        assert_eq!(cost("openai:gpt-4o-mini", 1_000_000, 0, 0, 0), Some(150_000));
        assert_eq!(cost("openai:nobody-knows", 1_000, 0, 0, 10), None);
        // 3, 0.30, 3.75 and 15 dollars per million.
        let claude = "anthropic:claude-sonnet-4-5";
        assert_eq!(cost(claude, 1_000, 400, 400, 10), Some(600 + 120 + 1_500 + 150));
        assert_eq!(of(claude).unwrap().most_micros(1_000, 10), 3_750 + 150);
        assert_eq!(of("openai:gpt-4o").unwrap().most_micros(1_000, 10), 2_500 + 100);
        // A newer model is not mistaken for an older one whose name is its prefix.
        assert!(of("openai:gpt-4o-ultra").is_none());
    }
}
