//! The settings of the language models, from the command line and the environment.

use std::collections::BTreeMap;
use std::time::Duration;

use tree_agent_contract::{ModelName, ModelProblem, ModelProblemKind, Profile, ProviderKind};
use tree_agent_runtime::config::Problems;

use super::secret::Secret;

/// Settings of the language models. Keys are read from the environment only, where no process list shows them.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Language models")]
pub struct LlmArgs {
    /// The model for small work (executors), such as openai:gpt-4.1-mini.
    #[arg(
        long,
        env = "TREE_AGENT_MODEL_FAST",
        value_name = "PROVIDER:MODEL",
        default_value = "",
        hide_default_value = true
    )]
    pub model_fast: String,
    /// The model for planners and aggregators, such as anthropic:claude-sonnet-4-5.
    #[arg(
        long,
        env = "TREE_AGENT_MODEL_BALANCED",
        value_name = "PROVIDER:MODEL",
        default_value = "",
        hide_default_value = true
    )]
    pub model_balanced: String,
    /// The model for the planner of the root, such as gemini:gemini-2.5-pro.
    #[arg(
        long,
        env = "TREE_AGENT_MODEL_POWERFUL",
        value_name = "PROVIDER:MODEL",
        default_value = "",
        hide_default_value = true
    )]
    pub model_powerful: String,
    /// The model to use when another one is unavailable.
    #[arg(
        long,
        env = "TREE_AGENT_MODEL_FALLBACK",
        value_name = "PROVIDER:MODEL",
        default_value = "",
        hide_default_value = true
    )]
    pub model_fallback: String,
    /// Further models that runs may name; provider:* offers every model of a provider.
    #[arg(
        long,
        env = "TREE_AGENT_MODELS",
        value_name = "PROVIDER:MODEL,…",
        default_value = "",
        hide_default_value = true
    )]
    pub models: String,
    /// Where openai: models are served: any OpenAI-compatible server, such as http://127.0.0.1:11434/v1.
    #[arg(
        long,
        env = "TREE_AGENT_MODEL_BASE_URL",
        value_name = "URL",
        default_value = "",
        hide_default_value = true
    )]
    pub model_base_url: String,
    /// Where anthropic: models are served, when not by Anthropic.
    #[arg(
        long,
        env = "ANTHROPIC_BASE_URL",
        value_name = "URL",
        default_value = "",
        hide_default_value = true
    )]
    pub anthropic_base_url: String,
    /// Where gemini: models are served, when not by Google.
    #[arg(
        long,
        env = "GOOGLE_GEMINI_BASE_URL",
        value_name = "URL",
        default_value = "",
        hide_default_value = true
    )]
    pub gemini_base_url: String,
    /// Tokens of a prompt: one number, or planner=N,executor=N,aggregator=N.
    #[arg(long, env = "TREE_AGENT_MODEL_CONTEXT_TOKENS", value_name = "N", default_value = "24000")]
    pub model_context_tokens: String,
    /// Maximum of tokens in an answer.
    #[arg(long, env = "TREE_AGENT_MODEL_MAX_OUTPUT_TOKENS", value_name = "N", default_value = "8192")]
    pub model_max_output_tokens: String,
    /// Rounds of tool calls in one executor call; 0 offers no tools.
    #[arg(long, env = "TREE_AGENT_MODEL_TOOL_ROUNDS", value_name = "N", default_value = "8")]
    pub model_tool_rounds: String,
    /// Parallel requests to one provider.
    #[arg(long, env = "TREE_AGENT_MODEL_CONCURRENCY", value_name = "N", default_value = "8")]
    pub model_concurrency: String,
    /// Seconds of silence after which a request counts as stalled.
    #[arg(long, env = "TREE_AGENT_MODEL_STALL_SECONDS", value_name = "SECONDS", default_value = "90")]
    pub model_stall_seconds: String,
    /// Attempts before the failure of a request counts.
    #[arg(long, env = "TREE_AGENT_MODEL_TRIES", value_name = "N", default_value = "4")]
    pub model_tries: String,
    /// Milliseconds before the second attempt; doubled for each further one, with jitter.
    #[arg(long, env = "TREE_AGENT_MODEL_BACKOFF_MS", value_name = "MS", default_value = "500")]
    pub model_backoff_ms: String,
    /// Failures in a row after which the circuit of a provider opens.
    #[arg(long, env = "TREE_AGENT_MODEL_CIRCUIT_FAILURES", value_name = "N", default_value = "5")]
    pub model_circuit_failures: String,
    /// Seconds for which the circuit stays open.
    #[arg(long, env = "TREE_AGENT_MODEL_CIRCUIT_SECONDS", value_name = "SECONDS", default_value = "30")]
    pub model_circuit_seconds: String,
}

impl Default for LlmArgs {
    /// The settings when nothing is set.
    fn default() -> Self {
        let unset = String::new;
        Self {
            model_fast: unset(),
            model_balanced: unset(),
            model_powerful: unset(),
            model_fallback: unset(),
            models: unset(),
            model_base_url: unset(),
            anthropic_base_url: unset(),
            gemini_base_url: unset(),
            model_context_tokens: "24000".into(),
            model_max_output_tokens: "8192".into(),
            model_tool_rounds: "8".into(),
            model_concurrency: "8".into(),
            model_stall_seconds: "90".into(),
            model_tries: "4".into(),
            model_backoff_ms: "500".into(),
            model_circuit_failures: "5".into(),
            model_circuit_seconds: "30".into(),
        }
    }
}

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

/// Maximum of tokens in a prompt, by role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextTokens {
    /// The planner's.
    pub planner: usize,
    /// The executor's, tool output included.
    pub executor: usize,
    /// The aggregator's.
    pub aggregator: usize,
}

/// Limits and timeouts.
#[derive(Clone, Debug)]
pub(super) struct Tuning {
    pub(super) context: ContextTokens,
    pub(super) max_output_tokens: u32,
    pub(super) tool_rounds: u32,
    pub(super) concurrency: usize,
    pub(super) stall: Duration,
    pub(super) tries: u32,
    pub(super) backoff: Duration,
    pub(super) circuit_failures: u32,
    pub(super) circuit_open: Duration,
}

/// The address and the key of a provider.
#[derive(Clone, Debug)]
pub(super) struct Address {
    /// Ends with `/`.
    pub(super) url: String,
    pub(super) key: Option<Secret>,
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
            let key =
                variable(kind.key_variable()).map(|key| key.trim().to_owned()).filter(|k| !k.is_empty());
            if key.as_deref().is_some_and(|key| !key.chars().all(|c| c.is_ascii_graphic())) {
                problems.add(kind.key_variable(), "holds characters that no key has; copy the key again");
            }
            let compatible = url != own_url(kind);
            addresses.insert(kind, Address { url, key: key.map(Secret::new), compatible });
        }
        let mut config = LlmConfig {
            profiles: [None, None, None],
            fallback: None,
            offered: Vec::new(),
            addresses,
            tuning: self.tuning(problems),
        };
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

    fn tuning(&self, problems: &mut Problems) -> Tuning {
        let mut number = |name: &str, text: &str, range| problems.number(name, text, range);
        let max_output_tokens =
            number("TREE_AGENT_MODEL_MAX_OUTPUT_TOKENS", &self.model_max_output_tokens, 128..=1_000_000);
        let tool_rounds = number("TREE_AGENT_MODEL_TOOL_ROUNDS", &self.model_tool_rounds, 0..=64);
        let concurrency = number("TREE_AGENT_MODEL_CONCURRENCY", &self.model_concurrency, 1..=1_000);
        let stall = number("TREE_AGENT_MODEL_STALL_SECONDS", &self.model_stall_seconds, 1..=3_600);
        let tries = number("TREE_AGENT_MODEL_TRIES", &self.model_tries, 1..=20);
        let backoff = number("TREE_AGENT_MODEL_BACKOFF_MS", &self.model_backoff_ms, 1..=60_000);
        let failures = number("TREE_AGENT_MODEL_CIRCUIT_FAILURES", &self.model_circuit_failures, 1..=1_000);
        let open = number("TREE_AGENT_MODEL_CIRCUIT_SECONDS", &self.model_circuit_seconds, 1..=3_600);
        Tuning {
            context: context_tokens(&self.model_context_tokens, problems),
            max_output_tokens: max_output_tokens as u32,
            tool_rounds: tool_rounds as u32,
            concurrency: concurrency as usize,
            stall: Duration::from_secs(stall),
            tries: tries as u32,
            backoff: Duration::from_millis(backoff),
            circuit_failures: failures as u32,
            circuit_open: Duration::from_secs(open),
        }
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

    /// The variable of a key that is missing. Servers other than the provider's own need none.
    fn missing_key(&self, kind: ProviderKind) -> Option<&'static str> {
        let address = &self.addresses[&kind];
        (address.key.is_none() && !address.compatible).then(|| kind.key_variable())
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
    let wrong = || "is not a URL such as http://127.0.0.1:8080/v1".to_owned();
    let uri: http::Uri = text.parse().map_err(|_| wrong())?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
        return Err(wrong());
    }
    if uri.authority().is_some_and(|a| a.as_str().contains('@')) || uri.query().is_some() {
        return Err(format!("holds a user or a query; put the key into {}", kind.key_variable()));
    }
    let text = text.trim_end_matches('/');
    let usual = if kind == ProviderKind::Gemini { "v1beta/" } else { "v1/" };
    Ok(if uri.path() == "/" { format!("{text}/{usual}") } else { format!("{text}/") })
}

fn context_tokens(text: &str, problems: &mut Problems) -> ContextTokens {
    const NAME: &str = "TREE_AGENT_MODEL_CONTEXT_TOKENS";
    let range = 500..=10_000_000;
    if !text.contains('=') {
        let n = problems.number(NAME, text, range) as usize;
        return ContextTokens { planner: n, executor: n, aggregator: n };
    }
    let mut tokens = ContextTokens { planner: 24_000, executor: 24_000, aggregator: 24_000 };
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (role, n) = pair.split_once('=').unwrap_or((pair, ""));
        let n = problems.number(NAME, n, range.clone()) as usize;
        match role.trim() {
            "planner" => tokens.planner = n,
            "executor" => tokens.executor = n,
            "aggregator" => tokens.aggregator = n,
            other => problems.add(NAME, format_args!("{other:?} is none of planner, executor, aggregator")),
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(args: &LlmArgs, keys: &[(&str, &str)]) -> Result<LlmConfig, String> {
        let mut problems = Problems::default();
        let config = args.check_with(&mut problems, &|name| {
            keys.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        });
        problems.finish().map(|()| config).map_err(|e| e.to_string())
    }

    #[test]
    fn an_unset_profile_falls_back_to_another() {
        let args = LlmArgs { model_balanced: "openai:b".into(), ..LlmArgs::default() };
        let config = check(&args, &[("OPENAI_API_KEY", "k")]).unwrap();
        for profile in [Profile::Fast, Profile::Balanced, Profile::Powerful] {
            assert_eq!(config.of_profile(profile).unwrap().model, "b");
        }
        let args = LlmArgs { model_fast: "openai:f".into(), model_powerful: "gemini:p".into(), ..args };
        let config = check(&args, &[("OPENAI_API_KEY", "k"), ("GEMINI_API_KEY", "k")]).unwrap();
        assert_eq!(config.of_profile(Profile::Powerful).unwrap().provider, ProviderKind::Gemini);
        assert_eq!(config.of_profile(Profile::Fast).unwrap().model, "f");
        assert!(!check(&LlmArgs::default(), &[]).unwrap().is_set());
    }

    #[test]
    fn only_what_the_operator_offers_can_be_named() {
        let args = LlmArgs {
            model_fast: "openai:f".into(),
            model_fallback: "anthropic:spare".into(),
            models: "openai:extra, gemini:*".into(),
            ..LlmArgs::default()
        };
        let keys = [("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k"), ("GEMINI_API_KEY", "k")];
        let config = check(&args, &keys).unwrap();
        for good in ["openai:f", "openai:extra", "anthropic:spare", "gemini:whatever-1"] {
            assert_eq!(config.usable(&ModelName::parse(good).unwrap()), Ok(()), "{good}");
        }
        for bad in ["openai:other", "anthropic:claude"] {
            let problem = config.usable(&ModelName::parse(bad).unwrap()).unwrap_err();
            assert_eq!(problem.kind, ModelProblemKind::Unknown);
            for part in [bad, "openai:f, anthropic:spare, openai:extra, gemini:*", "TREE_AGENT_MODELS"] {
                assert!(problem.message.contains(part), "{part} is missing in {}", problem.message);
            }
        }
        let text = check(&LlmArgs { models: "gemini:*,mistral:*".into(), ..args }, &keys[..2]).unwrap_err();
        assert!(text.contains("GEMINI_API_KEY: is not set; TREE_AGENT_MODELS names gemini:*"), "{text}");
        assert!(text.contains("TREE_AGENT_MODELS: \"mistral:*\": the provider is unknown"), "{text}");
    }

    #[test]
    fn a_base_url_alone_is_enough() {
        let args = LlmArgs { model_base_url: "http://127.0.0.1:8080".into(), ..LlmArgs::default() };
        let config = check(&args, &[]).unwrap();
        assert!(config.is_set());
        assert_eq!(config.addresses[&ProviderKind::OpenAi].url, "http://127.0.0.1:8080/v1/");
        assert!(config.usable(config.of_profile(Profile::Fast).unwrap()).is_ok());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_variable() {
        let keys = [("ANTHROPIC_API_KEY", "sk-secret-key with a space")];
        let args = LlmArgs {
            model_fast: "openai:x".into(),
            model_balanced: "mistral:x".into(),
            model_powerful: "claude".into(),
            model_base_url: "ftp://nowhere".into(),
            anthropic_base_url: "http://user:pass@host/".into(),
            model_context_tokens: "planner=9000,cook=1000".into(),
            model_tries: "0".into(),
            ..LlmArgs::default()
        };
        let text = check(&args, &keys).unwrap_err();
        for part in [
            "OPENAI_API_KEY: is not set; TREE_AGENT_MODEL_FAST names openai:x",
            "TREE_AGENT_MODEL_BALANCED: \"mistral:x\": the provider is unknown",
            "TREE_AGENT_MODEL_POWERFUL: \"claude\" names no provider",
            "TREE_AGENT_MODEL_BASE_URL: is not a URL",
            "ANTHROPIC_BASE_URL: holds a user",
            "ANTHROPIC_API_KEY: holds characters",
            "TREE_AGENT_MODEL_CONTEXT_TOKENS: \"cook\"",
            "TREE_AGENT_MODEL_TRIES: \"0\"",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        assert!(!text.contains("secret"), "{text}");
        assert!(!text.contains("pass"), "{text}");
    }

    #[test]
    fn a_configuration_does_not_show_its_keys() {
        let args = LlmArgs { model_fast: "openai:x".into(), ..LlmArgs::default() };
        let config = check(&args, &[("OPENAI_API_KEY", "sk-very-secret")]).unwrap();
        assert!(!format!("{config:?}").contains("very-secret"));
    }
}
