//! How runs name models, and why a model cannot be used.

use serde::{Deserialize, Serialize};

use crate::role::{RoleError, RoleErrorKind};
use crate::status::named_enum;

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
}

named_enum! {
    /// The expected ability of a model.
    Profile {
        /// Small work.
        Fast = "fast",
        /// Planning and aggregating.
        Balanced = "balanced",
        /// The plan of the root.
        Powerful = "powerful",
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
        let (provider, model) =
            text.trim().split_once(':').ok_or_else(|| format!("{text:?} names no provider; {expected}"))?;
        let provider =
            provider.trim().parse().map_err(|_| format!("{text:?}: the provider is unknown; {expected}"))?;
        let model = model.trim();
        if model.is_empty() || model.len() > 200 || model.chars().any(char::is_whitespace) {
            return Err(format!("{text:?} names no model; {expected}"));
        }
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

impl ModelChoice {
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
                unknown(format!(
                    "model {name:?} is unknown; use \"offline\", \"llm\", \"openai:MODEL\", \"anthropic:MODEL\", \
                     \"gemini:MODEL\", or \"scripted:fanout=4,depth=3\""
                ))
            }),
        }
    }

    /// False for models that every role service has without a key.
    pub const fn may_lack_a_key(&self) -> bool {
        !matches!(self, Self::Offline | Self::Scripted(_))
    }
}

named_enum! {
    /// Why a model cannot be used.
    ModelProblemKind {
        /// There is no such model or provider, or its name is malformed.
        Unknown = "unknown",
        /// No language model is set where the role services run.
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
            assert_eq!(ModelChoice::parse(name), Ok(choice), "{name:?}");
        }
        for bad in ["gpt-4o", "offline:x=1", "mistral:x", "openai:", "gemini:two words", "openai", "llm:x"] {
            let problem = ModelChoice::parse(bad).unwrap_err();
            assert_eq!(problem.kind, ModelProblemKind::Unknown, "{bad:?}");
            assert!(problem.message.contains(bad), "{}", problem.message);
        }
    }
}
