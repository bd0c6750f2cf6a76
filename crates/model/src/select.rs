//! Finds the model that a name means.

use std::sync::Arc;

use tree_agent_contract::role::{RoleError, RoleErrorKind};

use tree_agent_runtime::config::Problems;

use crate::RoleModel;
use crate::llm::{LanguageModels, LlmArgs};
use crate::offline::Offline;
use crate::scripted::{Script, Scripted};

/// The models that a service can use.
#[derive(Clone)]
pub struct Models {
    default: Arc<dyn RoleModel>,
    language: LanguageModels,
}

impl Models {
    /// Every built-in model, with `default` for calls that name none; no language model is set. The name is checked
    /// at once.
    pub fn new(default: &str) -> Result<Self, RoleError> {
        Self::with_language_models(default, unset())
    }

    /// The built-in models, with one of the caller's own for calls that name none.
    pub fn with_default(default: Arc<dyn RoleModel>) -> Self {
        Self { default, language: unset() }
    }

    /// Every built-in model and `language`. An empty `default` means the language models when any is set, and
    /// `offline` otherwise.
    pub fn with_language_models(default: &str, language: LanguageModels) -> Result<Self, RoleError> {
        let default = match default.trim() {
            "" if language.are_set() => "llm",
            "" => "offline",
            name => name,
        };
        Ok(Self { default: find(default, &language)?, language })
    }

    /// The model called `name`; the default for the empty name. An unknown name, a malformed script or a language
    /// model that is not set is [`RoleErrorKind::Rejected`].
    pub fn resolve(&self, name: &str) -> Result<Arc<dyn RoleModel>, RoleError> {
        if name.trim().is_empty() { Ok(self.default.clone()) } else { find(name, &self.language) }
    }
}

fn unset() -> LanguageModels {
    LanguageModels::new(&LlmArgs::default().check_with(&mut Problems::default(), &|_| None))
}

fn find(name: &str, language: &LanguageModels) -> Result<Arc<dyn RoleModel>, RoleError> {
    if let Some(model) = language.find(name.trim()) {
        return Ok(Arc::new(model?));
    }
    let (family, options) = name.trim().split_once(':').unwrap_or((name.trim(), ""));
    match family {
        "offline" if options.is_empty() => Ok(Arc::new(Offline)),
        "scripted" => Ok(Arc::new(Scripted::new(options.parse::<Script>()?))),
        _ => Err(RoleError::new(
            RoleErrorKind::Rejected,
            format!(
                "model {name:?} is unknown; use \"offline\", \"llm\", \"openai:MODEL\", \"anthropic:MODEL\", \
                 \"gemini:MODEL\", or \"scripted:fanout=4,depth=3\""
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_wrong_ones_named() {
        let models = Models::new("offline").unwrap();
        for good in ["", " ", "offline", "scripted", "scripted:", "scripted:fanout=2"] {
            assert!(models.resolve(good).is_ok(), "{good:?}");
        }
        for bad in ["gpt", "offline:x=1", "scripted:fanout=two", "llm", "fast", "openai:x", "openai:"] {
            let error = models.resolve(bad).map(|_| ()).unwrap_err();
            assert_eq!(error.kind, RoleErrorKind::Rejected, "{bad:?}");
        }
        assert!(Models::new("nope").is_err());
    }
}
