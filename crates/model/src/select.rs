//! Finds models by name.

use std::sync::Arc;

use tree_agent_contract::role::RoleError;
use tree_agent_contract::{ModelChoice, ModelProblem, ModelProblemKind, RoleCosts};
use tree_agent_runtime::Metrics;
use tree_agent_runtime::config::Problems;

use crate::RoleModel;
use crate::config::Switch;
use crate::llm::{LanguageModels, LlmArgs};
use crate::offline::Offline;
use crate::scripted::{Script, Scripted};

/// The models that a service can use.
#[derive(Clone)]
pub struct Models {
    default: Arc<dyn RoleModel>,
    /// The name of the default; none for a model of the caller.
    default_choice: Option<ModelChoice>,
    language: LanguageModels,
    scripted: Switch,
}

impl Models {
    /// Every built-in model, the scripted one included, with `default` for calls that name none; no language model is
    /// set. The name is checked at once.
    pub fn new(default: &str) -> Result<Self, RoleError> {
        Self::configured(default, unset(), Switch::On)
    }

    /// The built-in models, with a model of the caller for calls that name none.
    pub fn with_default(default: Arc<dyn RoleModel>) -> Self {
        Self { default, default_choice: None, language: unset(), scripted: Switch::On }
    }

    /// The offline model and `language`. An empty `default` means the language models when any is set, and `offline`
    /// otherwise.
    pub fn with_language_models(default: &str, language: LanguageModels) -> Result<Self, RoleError> {
        Self::configured(default, language, Switch::Off)
    }

    /// Like [`Models::with_language_models`], with the scripted model if it is on.
    pub fn configured(default: &str, language: LanguageModels, scripted: Switch) -> Result<Self, RoleError> {
        let choice = match ModelChoice::parse(default)? {
            ModelChoice::Default if language.are_set() => ModelChoice::Profiles,
            ModelChoice::Default => ModelChoice::Offline,
            choice => choice,
        };
        let default = find(&choice, &language, scripted)?;
        Ok(Self { default, default_choice: Some(choice), language, scripted })
    }

    /// The model called `name`; the default for the empty name. An unknown name, a malformed script or a language
    /// model that is not set is rejected.
    pub fn resolve(&self, name: &str) -> Result<Arc<dyn RoleModel>, RoleError> {
        match ModelChoice::parse(name)? {
            ModelChoice::Default => Ok(self.default.clone()),
            choice => find(&choice, &self.language, self.scripted),
        }
    }

    pub(crate) fn language(&self) -> &LanguageModels {
        &self.language
    }

    pub(crate) fn scripted(&self) -> Switch {
        self.scripted
    }

    /// The name of the default; none for a model of the caller.
    pub(crate) fn default_choice(&self) -> Option<&ModelChoice> {
        self.default_choice.as_ref()
    }

    /// The name of the model that calls with `name` use, and the most that one call of each role can use on it, when
    /// that is known here. The name is empty for one of the caller's own.
    pub fn describe(&self, name: &str) -> (String, Option<RoleCosts>) {
        let choice = match (ModelChoice::parse(name), &self.default_choice) {
            (Ok(ModelChoice::Default), Some(default)) => default.clone(),
            (Ok(choice), _) => choice,
            (Err(_), _) => return (name.to_owned(), None),
        };
        let name = choice.to_string();
        let costs = match choice {
            ModelChoice::Default => None,
            ModelChoice::Offline | ModelChoice::Scripted(_) => Some(RoleCosts::FREE),
            _ => self.language.config().max_cost_per_call(&name),
        };
        (name, costs)
    }

    /// Adds the metrics of the providers.
    pub(crate) fn measure(&self, metrics: &mut Metrics) {
        self.language.measure(metrics);
    }

    /// Checks whether the model called `name` can be used, without asking it: it exists and is offered, what it needs
    /// is set, and its provider does not refuse the key.
    pub async fn check(&self, name: &str) -> Result<(), ModelProblem> {
        let choice = match (ModelChoice::parse(name)?, &self.default_choice) {
            (ModelChoice::Default, Some(default)) => default.clone(),
            (choice, _) => choice,
        };
        if let ModelChoice::Scripted(script) = &choice {
            require_scripted(self.scripted, name)?;
            let read = script.parse::<Script>();
            return read.map(drop).map_err(|e| ModelProblem::new(ModelProblemKind::Unknown, e.message));
        }
        self.language.check(&choice).await
    }
}

fn unset() -> LanguageModels {
    LanguageModels::new(&LlmArgs::default().check_with(&mut Problems::default(), &|_| None))
}

/// A problem while the scripted model is off.
fn require_scripted(scripted: Switch, name: &str) -> Result<(), ModelProblem> {
    match scripted {
        Switch::On => Ok(()),
        Switch::Off => {
            let message = format!(
                "model {name:?} is for tests and benchmarks and is switched off; name another model, or set \
                 TREE_AGENT_SCRIPTED=on where the role services run"
            );
            Err(ModelProblem::new(ModelProblemKind::NotSet, message))
        }
    }
}

fn find(
    choice: &ModelChoice,
    language: &LanguageModels,
    scripted: Switch,
) -> Result<Arc<dyn RoleModel>, RoleError> {
    if let Some(model) = language.find(choice) {
        return Ok(Arc::new(model?));
    }
    match choice {
        ModelChoice::Scripted(script) => {
            require_scripted(scripted, &format!("scripted:{script}"))?;
            Ok(Arc::new(Scripted::new(script.parse::<Script>()?)))
        }
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

    #[test]
    fn a_model_is_described_by_its_name_and_its_costs() {
        let models = Models::new("").unwrap();
        for (name, described) in
            [("", "offline"), ("offline:", "offline"), ("scripted:fanout=2", "scripted:fanout=2")]
        {
            assert_eq!(models.describe(name), (described.to_owned(), Some(RoleCosts::FREE)), "{name:?}");
        }
        assert_eq!(models.describe("llm"), ("llm".to_owned(), None), "none is set");
        assert_eq!(models.describe("nope"), ("nope".to_owned(), None));
        assert_eq!(Models::with_default(Arc::new(Offline)).describe(""), (String::new(), None));
    }

    #[tokio::test]
    async fn the_scripted_model_is_refused_while_it_is_off() {
        let models = Models::with_language_models("offline", unset()).unwrap();
        let name = "scripted:fanout=2";
        let error = models.resolve(name).map(|_| ()).unwrap_err();
        assert_eq!(error.kind, RoleErrorKind::Rejected);
        let problem = models.check(name).await.unwrap_err();
        assert_eq!(problem.kind, ModelProblemKind::NotSet);
        for text in [error.message, problem.message] {
            assert!(text.contains(name) && text.contains("TREE_AGENT_SCRIPTED=on"), "{text}");
        }
        assert!(Models::with_language_models("scripted", unset()).is_err(), "nor can it be the default");
        let on = Models::configured("scripted", unset(), Switch::On).unwrap();
        assert!(on.resolve(name).is_ok() && on.check(name).await.is_ok());
    }
}
