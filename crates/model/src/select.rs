//! Finds the model that a name means.

use std::sync::Arc;

use tree_agent_contract::role::RoleError;
use tree_agent_contract::{ModelChoice, ModelProblem, ModelProblemKind};
use tree_agent_runtime::Metrics;
use tree_agent_runtime::config::Problems;

use crate::RoleModel;
use crate::llm::{LanguageModels, LlmArgs};
use crate::offline::Offline;
use crate::scripted::{Script, Scripted};

/// The models that a service can use.
#[derive(Clone)]
pub struct Models {
    default: Arc<dyn RoleModel>,
    /// What the default is called; none for one of the caller's own.
    default_choice: Option<ModelChoice>,
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
        Self { default, default_choice: None, language: unset() }
    }

    /// Every built-in model and `language`. An empty `default` means the language models when any is set, and
    /// `offline` otherwise.
    pub fn with_language_models(default: &str, language: LanguageModels) -> Result<Self, RoleError> {
        let choice = match ModelChoice::parse(default)? {
            ModelChoice::Default if language.are_set() => ModelChoice::Profiles,
            ModelChoice::Default => ModelChoice::Offline,
            choice => choice,
        };
        Ok(Self { default: find(&choice, &language)?, default_choice: Some(choice), language })
    }

    /// The model called `name`; the default for the empty name. An unknown name, a malformed script or a language
    /// model that is not set is rejected.
    pub fn resolve(&self, name: &str) -> Result<Arc<dyn RoleModel>, RoleError> {
        match ModelChoice::parse(name)? {
            ModelChoice::Default => Ok(self.default.clone()),
            choice => find(&choice, &self.language),
        }
    }

    /// Adds what is counted of the providers.
    pub(crate) fn measure(&self, metrics: &mut Metrics) {
        self.language.measure(metrics);
    }

    /// Whether the model called `name` can be used, as far as that can be known before it is asked: it exists, what it
    /// needs is set, and its provider does not refuse the key.
    pub async fn check(&self, name: &str) -> Result<(), ModelProblem> {
        let choice = match (ModelChoice::parse(name)?, &self.default_choice) {
            (ModelChoice::Default, Some(default)) => default.clone(),
            (choice, _) => choice,
        };
        if let ModelChoice::Scripted(script) = &choice {
            let read = script.parse::<Script>();
            return read.map(drop).map_err(|e| ModelProblem::new(ModelProblemKind::Unknown, e.message));
        }
        self.language.check(&choice).await
    }
}

fn unset() -> LanguageModels {
    LanguageModels::new(&LlmArgs::default().check_with(&mut Problems::default(), &|_| None))
}

fn find(choice: &ModelChoice, language: &LanguageModels) -> Result<Arc<dyn RoleModel>, RoleError> {
    if let Some(model) = language.find(choice) {
        return Ok(Arc::new(model?));
    }
    match choice {
        ModelChoice::Scripted(script) => Ok(Arc::new(Scripted::new(script.parse::<Script>()?))),
        _ => Ok(Arc::new(Offline)),
    }
}

#[cfg(test)]
mod tests {
    use tree_agent_contract::role::RoleErrorKind;

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
