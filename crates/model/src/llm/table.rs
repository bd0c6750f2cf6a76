//! What is known of each model: `data/models.json`, and what the operator adds to it.
//!
//! The operator's file has the same form, with `price` in each entry if wanted. Its entries are laid over those of
//! `data/models.json`, key by key, and they also hold for servers other than the provider's own.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use tree_agent_contract::{ModelName, ProviderKind};

use super::effort::Effort;
use super::prices::{self, Price};

/// Tokens of a prompt for a model that the table does not know: what a small local server can take.
const UNKNOWN_PROMPT: usize = 24_000;
/// The longest prompt that the table asks for by itself. A longer one costs more than it helps.
const LONGEST_PROMPT: usize = 100_000;
/// Tokens that the context of a model leaves for the prompt at least.
const LEAST_PROMPT: usize = 1_000;
/// Tokens of an answer for a model that the table does not know.
const UNKNOWN_ANSWER: u32 = 8_192;
/// Tokens of an answer for a model that can write as many.
const ANSWER: u32 = 16_384;

/// When a model reasons before it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Reasoning {
    /// It cannot.
    #[default]
    Never,
    /// Only if the request asks for it.
    Asked,
    /// Unless the request forbids it.
    Always,
}

/// Which protocol of OpenAI a model is asked by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Api {
    #[default]
    Chat,
    Responses,
}

/// An entry; what is absent is not known.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Entry {
    /// Tokens of a request and its answer together.
    context: Option<usize>,
    /// Tokens of a request alone, if there is such a limit.
    input: Option<usize>,
    /// Tokens of an answer, reasoning included.
    output: Option<u32>,
    /// Tokens of a request from which on other prices apply.
    listed_to: Option<usize>,
    /// Tokens of an answer that we ask for, reasoning not included.
    max_output: Option<u32>,
    reasoning: Option<Reasoning>,
    api: Option<Api>,
    /// Tokens of this model for each token of `o200k`, which is what we count.
    token_factor: Option<f64>,
    schema: Option<bool>,
    tools: Option<bool>,
    cache_marks: Option<bool>,
    price: Option<Price>,
    /// For people: a key of `sources`.
    #[allow(dead_code)]
    source: Option<String>,
}

impl Entry {
    /// `self` where it says something, else `other`.
    fn over(self, other: Self) -> Self {
        Self {
            context: self.context.or(other.context),
            input: self.input.or(other.input),
            output: self.output.or(other.output),
            listed_to: self.listed_to.or(other.listed_to),
            max_output: self.max_output.or(other.max_output),
            reasoning: self.reasoning.or(other.reasoning),
            api: self.api.or(other.api),
            token_factor: self.token_factor.or(other.token_factor),
            schema: self.schema.or(other.schema),
            tools: self.tools.or(other.tools),
            cache_marks: self.cache_marks.or(other.cache_marks),
            price: self.price.or(other.price),
            source: self.source.or(other.source),
        }
    }

    fn problem(&self) -> Option<String> {
        let within = |what: &str, n: Option<usize>, least: usize| {
            n.filter(|n| !(least..=100_000_000).contains(n))
                .map(|n| format!("{what}: {n} is not between {least} and 100000000"))
        };
        within("context", self.context, 1_000)
            .or_else(|| within("input", self.input, 500))
            .or_else(|| within("output", self.output.map(|n| n as usize), 128))
            .or_else(|| within("maxOutput", self.max_output.map(|n| n as usize), 128))
            .or_else(|| within("listedTo", self.listed_to, 500))
            .or_else(|| {
                let wrong = self.token_factor.filter(|factor| !(0.1..=10.0).contains(factor));
                wrong.map(|factor| format!("tokenFactor: {factor} is not between 0.1 and 10"))
            })
            .or_else(|| self.price.and_then(|price| price.problem()))
    }
}

#[derive(Debug, Default, Deserialize)]
struct File {
    models: BTreeMap<String, Entry>,
}

static KNOWN: LazyLock<File> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../data/models.json")).expect("a test reads this file")
});

/// The entry of `model`. A dated version, such as `openai:gpt-4o-2024-08-06`, has the entry of its model.
pub(super) fn of_model<'a, T>(models: &'a BTreeMap<String, T>, model: &str) -> Option<&'a T> {
    models.get(model).or_else(|| {
        let dated = |suffix: &str| {
            suffix.strip_prefix('-').is_some_and(|date| {
                date == "latest" || date.len() >= 8 && date.bytes().all(|b| b.is_ascii_digit() || b == b'-')
            })
        };
        let named = models.iter().find(|(name, _)| model.strip_prefix(name.as_str()).is_some_and(dated));
        named.map(|(_, entry)| entry)
    })
}

/// What the operator knows of models.
#[derive(Clone, Debug, Default)]
pub(super) struct ModelTable(Arc<BTreeMap<String, Entry>>);

/// What is known of one model.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ModelFacts {
    context: Option<usize>,
    input: Option<usize>,
    output: Option<u32>,
    listed_to: Option<usize>,
    max_output: Option<u32>,
    pub(super) reasoning: Reasoning,
    pub(super) api: Api,
    token_factor: f64,
    /// Whether the provider can enforce a schema for its answers.
    pub(super) schema: bool,
    /// Whether it can call tools.
    pub(super) tools: bool,
    /// Whether the provider caches only what a mark in the request ends.
    pub(super) cache_marks: bool,
    price: Option<Price>,
}

impl ModelTable {
    /// The table of an operator's file.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let file: File = serde_json::from_str(text).map_err(|error| error.to_string())?;
        for (name, entry) in &file.models {
            ModelName::parse(name)?;
            if let Some(problem) = entry.problem() {
                return Err(format!("{name}: {problem}"));
            }
        }
        Ok(Self(Arc::new(file.models)))
    }

    /// What is wrong with the operator's entries: those whose output leaves too little of the context for a prompt.
    /// `set` and `efforts` are what the operator wants for every model, and `own` says whether a provider's own service
    /// is asked.
    pub(super) fn crowded(
        &self,
        set: Option<u32>,
        efforts: &[Option<Effort>],
        own: impl Fn(ProviderKind) -> bool,
    ) -> Vec<String> {
        let names = self.0.keys().filter_map(|name| ModelName::parse(name).ok());
        let crowded = names.filter_map(|name| {
            let facts = self.facts(&name, own(name.provider));
            let left = efforts.iter().filter_map(|effort| facts.too_few(set, *effort)).min()?;
            Some(format!(
                "{name}: its context leaves {left} tokens for the prompt beside the output, reasoning included, and at \
                 least {LEAST_PROMPT} are needed; lower maxOutput or output, or raise context"
            ))
        });
        crowded.collect()
    }

    /// What is known of `model`. Another server than the provider's `own` may use the name of a known model for
    /// something else, so only what the operator says of it counts.
    pub(super) fn facts(&self, model: &ModelName, own: bool) -> ModelFacts {
        let name = model.to_string();
        let theirs = of_model(&self.0, &name).cloned().unwrap_or_default();
        let ours = of_model(&KNOWN.models, &name).filter(|_| own).cloned().unwrap_or_default();
        let entry = theirs.over(ours);
        ModelFacts {
            context: entry.context,
            input: entry.input,
            output: entry.output,
            listed_to: entry.listed_to,
            max_output: entry.max_output,
            reasoning: entry.reasoning.unwrap_or_default(),
            api: entry.api.unwrap_or_default(),
            token_factor: entry.token_factor.unwrap_or(1.0),
            schema: entry.schema.unwrap_or(true),
            tools: entry.tools.unwrap_or(true),
            cache_marks: entry.cache_marks.unwrap_or(model.provider == ProviderKind::Anthropic),
            price: entry.price.or_else(|| prices::of(&name).filter(|_| own)),
        }
    }
}

impl ModelFacts {
    /// The price of its tokens, if it is known.
    pub(super) const fn price(&self) -> Option<Price> {
        self.price
    }

    /// Tokens of the model's own in `count` tokens of `o200k`.
    pub(super) fn own_tokens(&self, count: usize) -> usize {
        (count as f64 * self.token_factor).ceil() as usize
    }

    /// Tokens of `o200k` in `count` tokens of the model's own.
    fn counted(&self, count: usize) -> usize {
        (count as f64 / self.token_factor) as usize
    }

    /// Tokens of an answer, reasoning not included. `set` is what the operator wants for every model that has no
    /// `maxOutput` of its own.
    pub(super) fn max_output(&self, set: Option<u32>) -> u32 {
        let wanted = self.max_output.or(set).unwrap_or(match self.output {
            Some(_) => ANSWER,
            None => UNKNOWN_ANSWER,
        });
        let most = self.output.or_else(|| self.half_of_context());
        most.map_or(wanted, |most| wanted.min(most))
    }

    /// The most of an output if only the context is known: the prompt needs room, too.
    fn half_of_context(&self) -> Option<u32> {
        let context = self.context.filter(|_| self.max_output.is_none() && self.output.is_none())?;
        u32::try_from(context / 2).ok()
    }

    /// Whether it reasons when it is asked with `effort`.
    pub(super) fn reasons(&self, effort: Option<Effort>) -> bool {
        match self.reasoning {
            Reasoning::Never => false,
            Reasoning::Asked => effort.is_some_and(|effort| effort != Effort::None),
            Reasoning::Always => effort != Some(Effort::None),
        }
    }

    /// What the provider is told as the limit of its output: reasoning counts towards it at every provider, so room
    /// for it is added to that of the answer.
    pub(super) fn output_limit(&self, set: Option<u32>, effort: Option<Effort>) -> u32 {
        let answer = self.max_output(set);
        let room = if self.reasons(effort) { Effort::room(effort) } else { 0 };
        let limit = answer.saturating_add(room);
        let most = self.output.or_else(|| self.half_of_context());
        most.map_or(limit, |most| limit.min(most))
    }

    /// Takes a context that the provider has named. Its own counts of tokens may differ a little from ours.
    pub(super) fn learn(&mut self, context: usize) {
        let context = context - context / 10;
        self.context = Some(self.context.map_or(context, |known| known.min(context)));
        let most = u32::try_from(context / 2).unwrap_or(u32::MAX);
        self.output = Some(self.output.map_or(most, |known| known.min(most)));
    }

    /// Tokens of the context beside the output, if they are too few for a prompt.
    fn too_few(&self, set: Option<u32>, effort: Option<Effort>) -> Option<usize> {
        let left = self.context?.saturating_sub(self.output_limit(set, effort) as usize);
        (left < LEAST_PROMPT).then_some(left)
    }

    /// Tokens of a prompt, as they are counted here. History comes to it, which may be as long: both, and the answer,
    /// fit into the window of the model. `set` is what the operator wants.
    pub(super) fn prompt(&self, set: Option<usize>, output_limit: u32) -> usize {
        let window = self.context.map(|context| context.saturating_sub(output_limit as usize));
        let most = [window, self.input].into_iter().flatten().min().map(|room| self.counted(room / 2));
        match (set, most) {
            (Some(set), Some(most)) => set.min(most),
            (Some(set), None) => set,
            (None, Some(most)) => {
                let cheap = self.listed_to.map_or(LONGEST_PROMPT, |listed| self.counted(listed / 2));
                most.min(cheap).min(LONGEST_PROMPT)
            }
            (None, None) => UNKNOWN_PROMPT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ModelName {
        ModelName::parse(text).expect(text)
    }

    fn known(text: &str) -> ModelFacts {
        ModelTable::default().facts(&name(text), true)
    }

    #[test]
    fn the_file_is_whole_and_every_entry_has_a_source_with_its_date() {
        let file: serde_json::Value = serde_json::from_str(include_str!("../../data/models.json")).unwrap();
        for (model, entry) in &KNOWN.models {
            name(model);
            assert_eq!(entry.problem(), None, "{model}");
            assert!(entry.context.is_some() && entry.output.is_some(), "{model}");
            assert!(entry.output.unwrap() as usize <= entry.context.unwrap(), "{model}");
            assert!(entry.price.is_none(), "{model}: prices stand in prices.json");
            let source = &file["sources"][entry.source.as_deref().expect(model)];
            assert!(source["url"].as_str().is_some_and(|url| url.starts_with("https://")), "{model}");
            assert!(source["dated"].as_str().is_some_and(|date| date.contains("202")), "{model}");
            assert!(prices::of(model).is_some(), "{model} has no price");
        }
    }

    #[test]
    fn the_prompt_follows_the_window_of_the_model() {
        let prompt = |model: &str| known(model).prompt(None, known(model).output_limit(None, None));
        assert_eq!(prompt("openai:nobody-knows"), 24_000);
        // Half of 128,000 without the answer.
        assert_eq!(prompt("openai:gpt-4o"), (128_000 - 16_384) / 2);
        assert_eq!(prompt("openai:gpt-4o-2024-08-06"), prompt("openai:gpt-4o"), "a dated version");
        assert_eq!(prompt("openai:gpt-4.1"), 100_000, "no longer, whatever the window");
        // Half of the 100,000 tokens for which its price holds, of which there are 1.3 for each that is counted.
        assert_eq!(prompt("anthropic:claude-haiku-5-5"), 38_461);
        // What the operator wants, as long as it fits.
        assert_eq!(known("openai:gpt-4.1").prompt(Some(300_000), 16_384), 300_000);
        assert_eq!(known("openai:gpt-4o").prompt(Some(300_000), 8_000), 60_000);
        assert_eq!(known("openai:nobody-knows").prompt(Some(300_000), 8_000), 300_000);
    }

    #[test]
    fn reasoning_is_not_charged_against_the_answer() {
        let gpt = known("openai:gpt-5");
        assert_eq!(gpt.max_output(None), 16_384);
        assert_eq!(gpt.output_limit(None, Some(Effort::Low)), 16_384 + Effort::room(Some(Effort::Low)));
        assert!(gpt.output_limit(None, Some(Effort::High)) > gpt.output_limit(None, Some(Effort::Low)));
        assert_eq!(gpt.output_limit(None, Some(Effort::None)), 16_384);
        assert_eq!(gpt.output_limit(Some(120_000), None), 128_000, "the model's own limit");
        let claude = known("anthropic:claude-sonnet-4-5");
        assert_eq!(claude.output_limit(None, None), 16_384, "it reasons only when it is asked to");
        assert!(claude.output_limit(None, Some(Effort::Medium)) > 16_384);
        let plain = known("openai:gpt-4o");
        assert_eq!(plain.output_limit(None, Some(Effort::High)), 16_384);
        assert_eq!(plain.max_output(Some(50_000)), 16_384);
        assert_eq!(known("openai:nobody-knows").max_output(None), 8_192);
    }

    #[test]
    fn the_operator_extends_the_table() {
        let table = ModelTable::parse(
            r#"{"models": {
                "openai:local": {"context": 8192, "output": 2048, "tools": false, "maxOutput": 1024,
                                 "price": {"input": 1, "cached": 0.5, "output": 2}},
                "openai:gpt-4o": {"maxOutput": 4096}
            }}"#,
        )
        .unwrap();
        let local = table.facts(&name("openai:local"), false);
        assert_eq!((local.max_output(Some(8_192)), local.tools, local.schema), (1_024, false, true));
        assert_eq!(local.prompt(None, 1_024), (8_192 - 1_024) / 2);
        assert_eq!(local.price().unwrap().input, 1.0);
        let gpt = table.facts(&name("openai:gpt-4o"), true);
        assert_eq!(gpt.max_output(None), 4_096);
        assert_eq!(gpt.prompt(None, 4_096), (128_000 - 4_096) / 2, "the rest is as it was");
        assert_eq!(gpt.price().unwrap().output, 10.0);
        // Another server's model of that name is known only by what the operator says.
        let other = table.facts(&name("openai:gpt-4o"), false);
        assert_eq!((other.max_output(None), other.prompt(None, 4_096), other.price()), (4_096, 24_000, None));
    }

    #[test]
    fn the_answer_leaves_room_for_the_prompt() {
        let table = ModelTable::parse(
            r#"{"models": {
                "openai:small": {"context": 8192},
                "openai:thinks": {"context": 16384, "reasoning": "always"},
                "openai:full": {"context": 8192, "output": 8192},
                "openai:tiny": {"context": 1500}
            }}"#,
        )
        .unwrap();
        for (model, output, prompt) in [("openai:small", 4_096, 2_048), ("openai:thinks", 8_192, 4_096)] {
            let facts = table.facts(&name(model), false);
            for set in [None, Some(50_000)] {
                assert_eq!(facts.output_limit(set, Some(Effort::High)), output, "{model}");
                assert_eq!(facts.prompt(None, output), prompt, "{model}");
            }
        }
        let problems = table.crowded(None, &[None, Some(Effort::High)], |_| false);
        let wrong: Vec<&str> = problems.iter().filter_map(|problem| problem.split(": ").next()).collect();
        assert_eq!(wrong, ["openai:full", "openai:tiny"], "{problems:?}");
        assert!(problems[0].contains("leaves 0 tokens") && problems[0].contains("maxOutput"), "{problems:?}");
    }

    #[test]
    fn a_file_with_mistakes_is_refused() {
        for (text, part) in [
            ("{", "EOF"),
            (r#"{"models": {"gpt": {}}}"#, "names no provider"),
            (r#"{"models": {"openai:x": {"contexts": 1}}}"#, "contexts"),
            (r#"{"models": {"openai:x": {"context": 10}}}"#, "openai:x: context: 10"),
            (r#"{"models": {"openai:x": {"tokenFactor": 0}}}"#, "tokenFactor"),
            (r#"{"models": {"openai:x": {"price": {"input": -1, "cached": 1, "output": 1}}}}"#, "price"),
        ] {
            let problem = ModelTable::parse(text).unwrap_err();
            assert!(problem.contains(part), "{problem}");
        }
    }
}
