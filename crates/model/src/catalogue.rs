//! The models that runs may name here, with what each means and whether it can be used.

use futures::future::join_all;
use tree_agent_contract::{ModelChoice, Profile, ProviderKind};
use tree_agent_proto::internal::v1::ListModelsResponse;
use tree_agent_proto::v1::{Model, ModelKind, ScriptedKey};

use crate::config::Switch;
use crate::scripted::KEYS;
use crate::select::Models;

impl Models {
    /// Every model that the operator offers, checked like [`Models::check`].
    pub async fn list(&self) -> ListModelsResponse {
        let models = join_all(self.entries().into_iter().map(|entry| async move {
            let name = entry.name.clone();
            let problem = match name.strip_suffix(":*").map(str::parse::<ProviderKind>) {
                Some(Ok(provider)) => self.language().check_provider(provider).await.err(),
                _ => self.check(&name).await.err(),
            };
            let problem = problem.map(|problem| problem.message).unwrap_or_default();
            Model { usable: problem.is_empty(), problem, ..entry }
        }));
        let keys = match self.scripted() {
            Switch::On => KEYS,
            Switch::Off => &[],
        };
        let scripted_keys = keys.iter().map(|(key, values, description)| ScriptedKey {
            key: (*key).to_owned(),
            values: (*values).to_owned(),
            description: (*description).to_owned(),
        });
        ListModelsResponse {
            models: models.await,
            default_model: self.default_choice().map(ToString::to_string).unwrap_or_default(),
            scripted_keys: scripted_keys.collect(),
        }
    }

    /// The models, not yet checked.
    fn entries(&self) -> Vec<Model> {
        let config = self.language().config();
        let entry = |name: String, kind: ModelKind, description: &str| Model {
            name,
            kind: kind.into(),
            description: description.to_owned(),
            ..Model::default()
        };
        let mut entries = vec![
            entry(
                ModelChoice::Offline.to_string(),
                ModelKind::Offline,
                "rules, no language model: quotes what the documents say",
            ),
            entry(
                ModelChoice::Profiles.to_string(),
                ModelKind::Profiles,
                "language models: each role has its profile",
            ),
        ];
        for (profile, description) in [
            (Profile::Fast, "the model for small work, for every role"),
            (Profile::Balanced, "the model for planners and aggregators, for every role"),
            (Profile::Powerful, "the model for the plan of the root, for every role"),
        ] {
            let resolves_to = config.of_profile(profile).map(ToString::to_string).unwrap_or_default();
            let profile = entry(profile.to_string(), ModelKind::Profile, description);
            entries.push(Model { resolves_to, ..profile });
        }
        let fallback = config.fallback_name();
        for name in config.offer_names() {
            let (kind, description) = match &fallback {
                Some(fallback) if *fallback == name => (
                    ModelKind::Fallback,
                    "is asked when another model is unavailable; for every role when named",
                ),
                _ => (ModelKind::Provider, "for every role"),
            };
            entries.push(entry(name, kind, description));
        }
        if self.scripted() == Switch::On {
            let description = "a tree of a set shape with set delays and failures, for tests and benchmarks";
            entries.push(entry("scripted".to_owned(), ModelKind::Scripted, description));
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use tree_agent_runtime::config::Problems;

    use super::*;
    use crate::llm::{LanguageModels, LlmArgs};

    fn language(args: LlmArgs, key: Option<&str>) -> LanguageModels {
        LanguageModels::new(&args.check_with(&mut Problems::default(), &|_| key.map(str::to_owned)))
    }

    fn find<'a>(list: &'a ListModelsResponse, name: &str) -> &'a Model {
        let found = list.models.iter().find(|model| model.name == name);
        found.unwrap_or_else(|| panic!("{name} is not in {:?}", list.models))
    }

    #[tokio::test]
    async fn profiles_say_what_they_resolve_to_and_what_is_not_set_says_why() {
        // Nobody serves there, which is no problem of a key.
        let args = LlmArgs {
            model_base_url: "http://127.0.0.1:1/v1".into(),
            model_balanced: "openai:b".into(),
            model_fallback: "openai:spare".into(),
            models: "openai:extra,anthropic:*".into(),
            ..LlmArgs::default()
        };
        let models = Models::with_language_models("", language(args, None)).unwrap();
        let list = models.list().await;
        assert_eq!(list.default_model, "llm");
        for profile in ["fast", "balanced", "powerful"] {
            let model = find(&list, profile);
            assert_eq!((model.resolves_to.as_str(), model.usable), ("openai:b", true), "{}", model.problem);
        }
        for (name, kind) in [
            ("offline", ModelKind::Offline),
            ("llm", ModelKind::Profiles),
            ("openai:b", ModelKind::Provider),
            ("openai:extra", ModelKind::Provider),
            ("openai:spare", ModelKind::Fallback),
        ] {
            let model = find(&list, name);
            assert_eq!((model.kind(), model.usable), (kind, true), "{name}: {}", model.problem);
        }
        let without_key = find(&list, "anthropic:*");
        assert!(!without_key.usable && without_key.problem.contains("ANTHROPIC_API_KEY"), "{without_key:?}");
        assert!(list.scripted_keys.is_empty() && !list.models.iter().any(|m| m.name == "scripted"));
    }

    #[tokio::test]
    async fn without_language_models_only_offline_and_what_is_switched_on_can_be_used() {
        let unset = language(LlmArgs::default(), None);
        let list = Models::configured("", unset, Switch::On).unwrap().list().await;
        assert_eq!(list.default_model, "offline");
        let usable: Vec<&str> = list.models.iter().filter(|m| m.usable).map(|m| m.name.as_str()).collect();
        assert_eq!(usable, ["offline", "scripted"]);
        assert!(find(&list, "llm").problem.contains("TREE_AGENT_MODEL_FAST"), "{:?}", find(&list, "llm"));
        assert!(list.scripted_keys.iter().any(|k| k.key == "latency_ms" && !k.description.is_empty()));
    }
}
