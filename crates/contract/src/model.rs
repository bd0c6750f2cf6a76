//! How runs name models, and why a model cannot be used.

use serde::{Deserialize, Serialize};

use crate::role::{RoleError, RoleErrorKind};
use crate::status::named_enum;
use crate::text::prefix;

named_enum! {
    /// A company, or a protocol, that serves models.
    ProviderKind {
        /// OpenAI, and everything that speaks its chat completions.
        OpenAi = "openai",
        /// Anthropic.
        Anthropic = "anthropic",
        /// Google Gemini.
        Gemini = "gemini",
    }
}

impl ProviderKind {
    /// The environment variable that holds the key.
    pub const fn key_variable(self) -> &'static str {
        match self {
            Self::OpenAi => "OPENAI_API_KEY",
            Self::Anthropic => "ANTHROPIC_API_KEY",
            Self::Gemini => "GEMINI_API_KEY",
        }
    }

    /// The environment variable that holds the address, when the provider's own service is not meant.
    pub const fn address_variable(self) -> &'static str {
        match self {
            Self::OpenAi => "TREE_AGENT_MODEL_BASE_URL",
            Self::Anthropic => "ANTHROPIC_BASE_URL",
            Self::Gemini => "GOOGLE_GEMINI_BASE_URL",
        }
    }
}

named_enum! {
    /// The expected ability of a model, the least first.
    Profile {
        /// Small work.
        Fast = "fast",
        /// Planning and aggregating.
        Balanced = "balanced",
        /// The plan of the root.
        Powerful = "powerful",
    }
}

/// Maximum of bytes of a model's name.
const MODEL_BYTES: usize = 200;

/// True if the last word of a model's name is one that client libraries take for an effort.
pub fn ends_in_effort(model: &str) -> bool {
    const EFFORTS: [&str; 8] = ["zero", "none", "minimal", "low", "medium", "high", "xhigh", "max"];
    model.rsplit_once('-').is_some_and(|(_, last)| EFFORTS.contains(&last))
}

/// Checks the characters of a model's name. Some providers are asked at an address that contains it, so it must not be
/// able to change that address.
fn check_model(provider: ProviderKind, model: &str) -> Result<(), String> {
    // Gemini's address continues with `:method` after the name.
    let (marks, shown) = match provider {
        ProviderKind::Gemini => ("._-", ". _ -"),
        ProviderKind::OpenAi | ProviderKind::Anthropic => ("._-:/@+", ". _ - : / @ +"),
    };
    if let Some(odd) = model.chars().find(|c| !c.is_ascii_alphanumeric() && !marks.contains(*c)) {
        return Err(format!("it holds {odd:?}; names are made of letters, digits and {shown}"));
    }
    // The client of Gemini would ask for the name without it.
    if provider == ProviderKind::Gemini && ends_in_effort(model) {
        let last = model.rsplit('-').next().unwrap_or_default();
        return Err(format!(
            "it ends in -{last}, which is an effort; leave it out and set the effort of the profile"
        ));
    }
    match model.split('/').all(|part| !part.is_empty() && !part.contains("..") && part != ".") {
        true => Ok(()),
        false => Err("no part of it may be empty or hold \"..\"".to_owned()),
    }
}

/// `provider:model`. An empty model means the first one that the server lists.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModelName {
    /// Who serves it.
    pub provider: ProviderKind,
    /// What it is called there.
    pub model: String,
}

impl std::fmt::Display for ModelName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.provider, if self.model.is_empty() { "first" } else { &self.model })
    }
}

impl ModelName {
    /// Reads `provider:model`; the error says what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = "write provider:model, with openai, anthropic or gemini as the provider";
        // In part, so that the error fits into headers.
        let shown = prefix(text, MODEL_BYTES);
        let (provider, model) =
            text.trim().split_once(':').ok_or_else(|| format!("{shown:?} names no provider; {expected}"))?;
        let provider =
            provider.trim().parse().map_err(|_| format!("{shown:?}: the provider is unknown; {expected}"))?;
        let model = model.trim();
        if model.is_empty() || model.len() > MODEL_BYTES || model.chars().any(char::is_whitespace) {
            return Err(format!("{shown:?} names no model; {expected}"));
        }
        check_model(provider, model).map_err(|why| format!("{shown:?} names no model: {why}"))?;
        Ok(Self { provider, model: model.to_owned() })
    }
}

/// What the `model` of a run means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelChoice {
    /// No model was named: the default of the role services.
    Default,
    /// The rule-based model.
    Offline,
    /// The scripted model, with its script.
    Scripted(String),
    /// Language models, by the profile of each role.
    Profiles,
    /// One profile for every role.
    Profile(Profile),
    /// One model for every role.
    Model(ModelName),
}

impl std::fmt::Display for ModelChoice {
    /// The name that means it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => Ok(()),
            Self::Offline => f.write_str("offline"),
            Self::Scripted(script) if script.is_empty() => f.write_str("scripted"),
            Self::Scripted(script) => write!(f, "scripted:{script}"),
            Self::Profiles => f.write_str("llm"),
            Self::Profile(profile) => profile.fmt(f),
            Self::Model(model) => model.fmt(f),
        }
    }
}

impl ModelChoice {
    /// True for a language model; none if that is for the role services to say.
    pub const fn is_language(&self) -> Option<bool> {
        match self {
            Self::Default => None,
            Self::Offline | Self::Scripted(_) => Some(false),
            Self::Profiles | Self::Profile(_) | Self::Model(_) => Some(true),
        }
    }

    /// What `name` means; a script is not read. The error is of kind [`ModelProblemKind::Unknown`].
    pub fn parse(name: &str) -> Result<Self, ModelProblem> {
        let name = name.trim();
        let unknown = |message| ModelProblem { kind: ModelProblemKind::Unknown, message };
        let (family, options) = name.split_once(':').unwrap_or((name, ""));
        if family.trim().parse::<ProviderKind>().is_ok() {
            return ModelName::parse(name).map(Self::Model).map_err(unknown);
        }
        match (name, family) {
            ("", _) => Ok(Self::Default),
            ("offline" | "offline:", _) => Ok(Self::Offline),
            ("llm", _) => Ok(Self::Profiles),
            (_, "scripted") => Ok(Self::Scripted(options.to_owned())),
            (name, _) => name.parse().map(Self::Profile).map_err(|_| {
                // Which models are set is known only to the server, so none is suggested here.
                let providers: Vec<&str> = ProviderKind::ALL.iter().map(|kind| kind.as_str()).collect();
                unknown(format!(
                    "model {name:?} is unknown; a model is named as a word, such as \"offline\", or as PROVIDER:MODEL \
                     with one of the providers {}; `tree-agent run --model help` and ListModels say which ones there are",
                    providers.join(", ")
                ))
            }),
        }
    }

    /// False for the one model that every role service has, however it is configured.
    pub const fn needs_check(&self) -> bool {
        !matches!(self, Self::Offline)
    }
}

named_enum! {
    /// Why a model cannot be used.
    ModelProblemKind {
        /// There is no such model or provider, its name is malformed, or the operator does not offer it.
        Unknown = "unknown",
        /// No language model is set, or the scripted model is off, where the role services run.
        NotSet = "notSet",
        /// Its provider needs a key, and none is set.
        KeyMissing = "keyMissing",
        /// Its provider refuses the key that is set.
        KeyRefused = "keyRefused",
    }
}

/// A model that cannot be used, and what to do about it. It never contains a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelProblem {
    /// Why.
    pub kind: ModelProblemKind,
    /// Names the model or its provider, and the remedy.
    pub message: String,
}

impl ModelProblem {
    /// A problem.
    pub fn new(kind: ModelProblemKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl From<ModelProblem> for RoleError {
    fn from(problem: ModelProblem) -> Self {
        RoleError::new(RoleErrorKind::Rejected, problem.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_mean_what_they_say() {
        use ModelChoice as C;
        let named = |provider, model: &str| C::Model(ModelName { provider, model: model.into() });
        for (name, choice) in [
            (" ", C::Default),
            ("offline", C::Offline),
            ("scripted:fanout=2,fail_titles=a:b", C::Scripted("fanout=2,fail_titles=a:b".into())),
            ("llm", C::Profiles),
            ("powerful", C::Profile(Profile::Powerful)),
            ("openai:gpt-4o", named(ProviderKind::OpenAi, "gpt-4o")),
            // Ollama's names hold a colon.
            ("openai:llama3:8b", named(ProviderKind::OpenAi, "llama3:8b")),
        ] {
            assert_eq!(ModelChoice::parse(name), Ok(choice.clone()), "{name:?}");
            assert_eq!(choice.to_string(), name.trim());
        }
        for bad in ["gpt-4o", "offline:x=1", "mistral:x", "openai:", "gemini:two words", "openai", "llm:x"] {
            let problem = ModelChoice::parse(bad).unwrap_err();
            assert_eq!(problem.kind, ModelProblemKind::Unknown, "{bad:?}");
            assert!(problem.message.contains(bad), "{}", problem.message);
        }
    }

    #[test]
    fn an_unknown_name_suggests_no_model_that_may_not_be_set() {
        let message = ModelChoice::parse("gpt-4o").unwrap_err().message;
        assert!(message.contains("--model help") && message.contains("ListModels"), "{message}");
        for model in ["\"llm\"", "scripted", "openai:"] {
            assert!(!message.contains(model), "{message}");
        }
    }

    #[test]
    fn no_name_can_change_the_address_of_a_request() {
        for good in ["openai:org/model-7B_q4.gguf:latest@v1+x", "gemini:gemini-2.5-pro", "anthropic:claude-x"]
        {
            assert!(ModelName::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "gemini:../../x",
            "gemini:..",
            "gemini:models/x",
            "gemini:x:countTokens",
            "gemini:gemini-2.5-pro-high",
            "gemini:x?key=1",
            "openai:a/../b",
            "openai:/a",
            "openai:a//b",
            "openai:a/",
            "openai:a/.",
            "openai:a%2fb",
            "openai:a\\b",
            "openai:a#b",
            "anthropic:a\u{200b}b",
            "anthropic:\u{ff0e}\u{ff0e}",
        ] {
            let error = ModelName::parse(bad).unwrap_err();
            assert!(error.contains("names no model"), "{error}");
        }
    }
}
