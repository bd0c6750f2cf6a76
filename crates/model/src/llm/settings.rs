//! The settings of the language models, from the command line and the environment.

use std::collections::BTreeMap;
use std::time::Duration;

use tree_agent_contract::{ModelName, ModelProblem, ModelProblemKind, Profile, ProviderKind};
use tree_agent_runtime::channel::{PlaintextToken, api_url};
use tree_agent_runtime::config::Problems;
use tree_agent_security::{ApiKey, Roots};

use super::effort::Effort;
use super::table::{ModelFacts, ModelTable};

mod args;

pub use args::LlmArgs;

/// The address of a provider's own service.
const fn own_url(kind: ProviderKind) -> &'static str {
    match kind {
        ProviderKind::OpenAi => "https://api.openai.com/v1/",
        ProviderKind::Anthropic => "https://api.anthropic.com/v1/",
        ProviderKind::Gemini => "https://generativelanguage.googleapis.com/v1beta/",
    }
}

/// A profile, then its substitutes: stronger ones before weaker ones.
const fn nearest(profile: Profile) -> [usize; 3] {
    match profile {
        Profile::Fast => [0, 1, 2],
        Profile::Balanced => [1, 2, 0],
        Profile::Powerful => [2, 1, 0],
    }
}

/// Maximum of tokens in a prompt, by role, as the operator sets it; the table of models decides where nothing is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ContextTokens {
    pub(super) planner: Option<usize>,
    pub(super) executor: Option<usize>,
    pub(super) aggregator: Option<usize>,
}

/// Limits of one provider in a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rates {
    pub(super) requests: Option<u32>,
    /// Of prompts and answers.
    pub(super) tokens: Option<u32>,
}

/// Limits and timeouts.
#[derive(Clone, Debug)]
pub(super) struct Tuning {
    pub(super) context: ContextTokens,
    pub(super) max_output_tokens: Option<u32>,
    /// Of the profiles fast, balanced and powerful.
    effort: [Option<Effort>; 3],
    /// Of every provider.
    rates: [Rates; 3],
    pub(super) tool_rounds: u32,
    pub(super) concurrency: usize,
    pub(super) stall: Duration,
    pub(super) tries: u32,
    pub(super) backoff: Duration,
    pub(super) circuit_failures: u32,
    pub(super) circuit_open: Duration,
    /// The authorities that vouch for providers.
    pub(super) roots: Roots,
}

/// The address and the key of a provider.
#[derive(Clone, Debug)]
pub(super) struct Address {
    /// Ends with `/`.
    pub(super) url: String,
    pub(super) key: Option<ApiKey>,
    /// Not the provider's own service, so neither its prices nor its guarantees apply.
    pub(super) compatible: bool,
}

/// The checked settings of the language models. Contains the keys and never shows them.
#[derive(Clone, Debug)]
pub struct LlmConfig {
    profiles: [Option<ModelName>; 3],
    pub(super) fallback: Option<ModelName>,
    /// Further models that runs may name.
    offered: Vec<Offer>,
    pub(super) addresses: BTreeMap<ProviderKind, Address>,
    pub(super) tuning: Tuning,
    table: ModelTable,
}

/// An entry of the operator's list of models.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Offer {
    Model(ModelName),
    /// Every model of a provider: `provider:*`.
    Provider(ProviderKind),
}

impl Offer {
    fn parse(text: &str) -> Result<Self, String> {
        match text.trim().strip_suffix(":*").map(str::parse) {
            Some(Ok(provider)) => Ok(Self::Provider(provider)),
            _ => ModelName::parse(text).map(Self::Model),
        }
    }

    const fn provider(&self) -> ProviderKind {
        match self {
            Self::Model(model) => model.provider,
            Self::Provider(provider) => *provider,
        }
    }
}

impl std::fmt::Display for Offer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Model(model) => model.fmt(f),
            Self::Provider(provider) => write!(f, "{provider}:*"),
        }
    }
}

impl LlmConfig {
    /// Trusts these authorities, and no others, when providers are connected to.
    pub fn trust(&mut self, roots: Roots) {
        self.tuning.roots = roots;
    }
}

impl LlmArgs {
    /// Checks the settings; keys come from the environment. What is wrong is noted in `problems`.
    pub fn check(&self, problems: &mut Problems) -> LlmConfig {
        self.check_with(problems, &|name| std::env::var(name).ok())
    }

    /// Like [`LlmArgs::check`], with `variable` in place of the environment.
    pub fn check_with(
        &self,
        problems: &mut Problems,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> LlmConfig {
        let urls = [
            (ProviderKind::OpenAi, "TREE_AGENT_MODEL_BASE_URL", &self.model_base_url),
            (ProviderKind::Anthropic, "ANTHROPIC_BASE_URL", &self.anthropic_base_url),
            (ProviderKind::Gemini, "GOOGLE_GEMINI_BASE_URL", &self.gemini_base_url),
        ];
        let mut addresses = BTreeMap::new();
        for (kind, name, text) in urls {
            let url = match text.trim() {
                "" => own_url(kind).to_owned(),
                text => base_url(text, kind).unwrap_or_else(|message| {
                    problems.add(name, message);
                    own_url(kind).to_owned()
                }),
            };
            let key = variable(kind.key_variable()).and_then(|text| ApiKey::of(&text));
            if let Some(Err(problem)) = key.as_ref().map(ApiKey::check) {
                problems.add(kind.key_variable(), problem);
            }
            let compatible = url != own_url(kind);
            addresses.insert(kind, Address { url, key, compatible });
        }
        let mut config = LlmConfig {
            profiles: [None, None, None],
            fallback: None,
            offered: Vec::new(),
            addresses,
            tuning: self.tuning(problems),
            table: self.table(problems),
        };
        let own = |kind| !config.addresses[&kind].compatible;
        let tuning = &config.tuning;
        for problem in config.table.crowded(tuning.max_output_tokens, &tuning.effort, own) {
            problems.add("TREE_AGENT_MODEL_TABLE", problem);
        }
        let mut named = |name: &str, text: &str| {
            if text.trim().is_empty() {
                return None;
            }
            let model = ModelName::parse(text).map_err(|message| problems.add(name, message)).ok()?;
            if let Some(variable) = config.missing_key(model.provider) {
                problems.add(variable, format_args!("is not set; {name} names {model}"));
            }
            Some(model)
        };
        let profiles = [
            named("TREE_AGENT_MODEL_FAST", &self.model_fast),
            named("TREE_AGENT_MODEL_BALANCED", &self.model_balanced),
            named("TREE_AGENT_MODEL_POWERFUL", &self.model_powerful),
        ];
        let fallback = named("TREE_AGENT_MODEL_FALLBACK", &self.model_fallback);
        let entries = self.models.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let offered: Vec<Offer> = entries
            .filter_map(|entry| {
                let offer = Offer::parse(entry).map_err(|e| problems.add("TREE_AGENT_MODELS", e)).ok()?;
                if let Some(variable) = config.missing_key(offer.provider()) {
                    problems.add(variable, format_args!("is not set; TREE_AGENT_MODELS names {offer}"));
                }
                Some(offer)
            })
            .collect();
        config.profiles = profiles;
        config.fallback = fallback;
        config.offered = offered;
        if config.profiles.iter().all(Option::is_none) && !self.model_base_url.trim().is_empty() {
            // Only the address is set, so the first model of the server is meant.
            config.profiles[1] = Some(ModelName { provider: ProviderKind::OpenAi, model: String::new() });
        }
        config
    }

    fn table(&self, problems: &mut Problems) -> ModelTable {
        let Some(path) = self.model_table.as_ref().filter(|path| !path.as_os_str().is_empty()) else {
            return ModelTable::default();
        };
        let read = std::fs::read_to_string(path).map_err(|error| error.to_string());
        read.and_then(|text| ModelTable::parse(&text)).unwrap_or_else(|problem| {
            problems.add("TREE_AGENT_MODEL_TABLE", format_args!("{}: {problem}", path.display()));
            ModelTable::default()
        })
    }

    fn tuning(&self, problems: &mut Problems) -> Tuning {
        let output = optional(
            "TREE_AGENT_MODEL_MAX_OUTPUT_TOKENS",
            &self.model_max_output_tokens,
            128..=1_000_000,
            problems,
        );
        let (context, effort) = (self.context_tokens(problems), self.effort(problems));
        let rates = self.rates(problems);
        let mut number = |name: &str, text: &str, range| problems.number(name, text, range);
        let tool_rounds = number("TREE_AGENT_MODEL_TOOL_ROUNDS", &self.model_tool_rounds, 0..=64);
        let concurrency = number("TREE_AGENT_MODEL_CONCURRENCY", &self.model_concurrency, 1..=1_000);
        let stall = number("TREE_AGENT_MODEL_STALL_SECONDS", &self.model_stall_seconds, 1..=3_600);
        let tries = number("TREE_AGENT_MODEL_TRIES", &self.model_tries, 1..=20);
        let backoff = number("TREE_AGENT_MODEL_BACKOFF_MS", &self.model_backoff_ms, 1..=60_000);
        let failures = number("TREE_AGENT_MODEL_CIRCUIT_FAILURES", &self.model_circuit_failures, 1..=1_000);
        let open = number("TREE_AGENT_MODEL_CIRCUIT_SECONDS", &self.model_circuit_seconds, 1..=3_600);
        Tuning {
            context,
            max_output_tokens: output.map(|n| n as u32),
            effort,
            rates,
            tool_rounds: tool_rounds as u32,
            concurrency: concurrency as usize,
            stall: Duration::from_secs(stall),
            tries: tries as u32,
            backoff: Duration::from_millis(backoff),
            circuit_failures: failures as u32,
            circuit_open: Duration::from_secs(open),
            roots: Roots::default(),
        }
    }

    fn context_tokens(&self, problems: &mut Problems) -> ContextTokens {
        const NAME: &str = "TREE_AGENT_MODEL_CONTEXT_TOKENS";
        let roles = ["planner", "executor", "aggregator"];
        let texts = by_name(NAME, &self.model_context_tokens, roles, problems);
        let [planner, executor, aggregator] =
            texts.map(|text| optional(NAME, text, 500..=10_000_000, problems).map(|tokens| tokens as usize));
        ContextTokens { planner, executor, aggregator }
    }

    fn effort(&self, problems: &mut Problems) -> [Option<Effort>; 3] {
        const NAME: &str = "TREE_AGENT_MODEL_EFFORT";
        let profiles = [Profile::Fast, Profile::Balanced, Profile::Powerful].map(Profile::as_str);
        by_name(NAME, &self.model_effort, profiles, problems).map(|text| match text {
            "" => None,
            text => text.parse().map_err(|message: String| problems.add(NAME, message)).ok(),
        })
    }

    fn rates(&self, problems: &mut Problems) -> [Rates; 3] {
        let mut read = |name: &str, text: &str| {
            let texts = by_name(name, text, PROVIDERS.map(ProviderKind::as_str), problems);
            texts.map(|text| optional(name, text, 1..=u64::from(u32::MAX), problems).map(|n| n as u32))
        };
        let requests = read("TREE_AGENT_MODEL_REQUESTS_PER_MINUTE", &self.model_requests_per_minute);
        let tokens = read("TREE_AGENT_MODEL_TOKENS_PER_MINUTE", &self.model_tokens_per_minute);
        std::array::from_fn(|at| Rates { requests: requests[at], tokens: tokens[at] })
    }
}

/// All providers, in the order of their limits.
const PROVIDERS: [ProviderKind; 3] = [ProviderKind::OpenAi, ProviderKind::Anthropic, ProviderKind::Gemini];

impl Tuning {
    /// The limits of `provider`.
    pub(super) fn rates_of(&self, provider: ProviderKind) -> Rates {
        let at = PROVIDERS.iter().position(|kind| *kind == provider);
        at.map_or_else(Rates::default, |at| self.rates[at])
    }

    /// How much a model of `profile` reasons; none for as the provider chooses.
    pub(super) const fn effort_of(&self, profile: Profile) -> Option<Effort> {
        self.effort[nearest(profile)[0]]
    }
}

impl LlmConfig {
    /// True if a model is set; runs that name none then use it.
    pub fn is_set(&self) -> bool {
        self.profiles.iter().any(Option::is_some)
    }

    /// The model of `profile`, or its substitute.
    pub fn of_profile(&self, profile: Profile) -> Option<&ModelName> {
        nearest(profile).into_iter().find_map(|at| self.profiles[at].as_ref())
    }

    /// The models of the profiles, without the fallback.
    pub(super) fn of_profiles(&self) -> Vec<&ModelName> {
        self.profiles.iter().flatten().collect()
    }

    /// All models that are set, without duplicates.
    pub(super) fn named(&self) -> Vec<&ModelName> {
        let mut all: Vec<&ModelName> = Vec::new();
        for name in self.profiles.iter().flatten().chain(&self.fallback) {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        all
    }

    /// What is known of `model`.
    pub(super) fn facts(&self, model: &ModelName) -> ModelFacts {
        self.table.facts(model, !self.addresses[&model.provider].compatible)
    }

    /// The variable of a key that is missing. Servers other than the provider's own need none.
    fn missing_key(&self, kind: ProviderKind) -> Option<&'static str> {
        let address = &self.addresses[&kind];
        (address.key.is_none() && !address.compatible).then(|| kind.key_variable())
    }

    /// Notes addresses to which a key would be sent over plain HTTP in `problems`, unless they are on this machine.
    pub(crate) fn check_plaintext(&self, problems: &mut Problems) {
        for (kind, address) in self.addresses.iter().filter(|(_, address)| address.key.is_some()) {
            let secret = format!("the key in {}", kind.key_variable());
            // It has been parsed before.
            let refused = address.url.parse().ok().and_then(|url| PlaintextToken::check(&secret, &url).err());
            if let Some(refused) = refused {
                problems.add(kind.address_variable(), refused);
            }
        }
    }

    /// Lets runs name `model` as well.
    pub(crate) fn offer(&mut self, model: ModelName) {
        self.offered.push(Offer::Model(model));
    }

    /// Whether runs may name `model`: it is the model of a profile or the fallback, or the operator's list contains it.
    fn offers(&self, model: &ModelName) -> bool {
        self.named().contains(&model)
            || self.offered.iter().any(|offer| match offer {
                Offer::Model(offered) => offered == model,
                Offer::Provider(provider) => *provider == model.provider,
            })
    }

    /// The models that runs may name, as `provider:model` and `provider:*`, without duplicates.
    pub(crate) fn offer_names(&self) -> Vec<String> {
        // The name of a server's first model is not known.
        let named = self.named().into_iter().filter(|name| !name.model.is_empty());
        let mut all: Vec<String> = Vec::new();
        for name in named.map(ToString::to_string).chain(self.offered.iter().map(ToString::to_string)) {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        all
    }

    /// The model to use when another one is unavailable.
    pub(crate) fn fallback_name(&self) -> Option<String> {
        self.fallback.as_ref().map(ToString::to_string)
    }

    /// A problem unless runs may name `model` and its key is there.
    pub(super) fn usable(&self, model: &ModelName) -> Result<(), ModelProblem> {
        if !self.offers(model) {
            let offered = self.offer_names();
            let offered = if offered.is_empty() { "none".to_owned() } else { offered.join(", ") };
            let message = format!(
                "model {model} is not offered here (offered: {offered}); add it to TREE_AGENT_MODELS where the role \
                 services run"
            );
            return Err(ModelProblem::new(ModelProblemKind::Unknown, message));
        }
        self.require_key(model)
    }

    /// A problem unless the key for `model` is there.
    pub(super) fn require_key(&self, model: &ModelName) -> Result<(), ModelProblem> {
        match self.missing_key(model.provider) {
            None => Ok(()),
            Some(variable) => Err(ModelProblem::new(
                ModelProblemKind::KeyMissing,
                format!(
                    "models of {} need a key; set {variable} where the role services run",
                    model.provider
                ),
            )),
        }
    }
}

/// A base URL that ends with `/`. If it has no path, the protocol's usual one is added.
fn base_url(text: &str, kind: ProviderKind) -> Result<String, String> {
    let usual = if kind == ProviderKind::Gemini { "v1beta/" } else { "v1/" };
    api_url(text, usual, kind.key_variable())
}

/// A number, if one is set.
fn optional(
    name: &str,
    text: &str,
    range: std::ops::RangeInclusive<u64>,
    problems: &mut Problems,
) -> Option<u64> {
    (!text.trim().is_empty()).then(|| problems.number(name, text.trim(), range))
}

/// The values of `names`, in their order, of a text such as `planner=9000,executor=24000`, or one value for all of
/// them. A value that is not set is empty.
fn by_name<'a, const N: usize>(
    variable: &str,
    text: &'a str,
    names: [&str; N],
    problems: &mut Problems,
) -> [&'a str; N] {
    if !text.contains('=') {
        return [text.trim(); N];
    }
    let mut values = [""; N];
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match names.iter().position(|known| *known == name.trim()) {
            Some(at) => values[at] = value.trim(),
            None => {
                let name = name.trim();
                problems.add(variable, format_args!("{name:?} is none of {}", names.join(", ")));
            }
        }
    }
    values
}

#[cfg(test)]
mod tests;
