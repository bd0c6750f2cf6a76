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
        model_effort: "fast=low,balanced=hard".into(),
        model_tokens_per_minute: "openai=100,mistral=5,gemini=0".into(),
        model_table: Some("/nowhere/models.json".into()),
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
        "TREE_AGENT_MODEL_EFFORT: \"hard\" is none of none, minimal, low",
        "TREE_AGENT_MODEL_TOKENS_PER_MINUTE: \"mistral\" is none of openai, anthropic, gemini",
        "TREE_AGENT_MODEL_TOKENS_PER_MINUTE: \"0\"",
        "TREE_AGENT_MODEL_TABLE: /nowhere/models.json",
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

#[test]
fn limits_and_efforts_are_set_for_all_or_by_name() {
    let args = LlmArgs {
        model_context_tokens: "planner=9000,executor=30000".into(),
        model_effort: "fast=none, powerful=high".into(),
        model_requests_per_minute: "60".into(),
        model_tokens_per_minute: "anthropic=40000".into(),
        ..LlmArgs::default()
    };
    let tuning = check(&args, &[]).unwrap().tuning;
    let context = ContextTokens { planner: Some(9_000), executor: Some(30_000), aggregator: None };
    assert_eq!(tuning.context, context);
    let effort = [Profile::Fast, Profile::Balanced, Profile::Powerful].map(|p| tuning.effort_of(p));
    assert_eq!(effort, [Some(Effort::None), None, Some(Effort::High)]);
    let anthropic = Rates { requests: Some(60), tokens: Some(40_000) };
    assert_eq!(tuning.rates_of(ProviderKind::Anthropic), anthropic);
    assert_eq!(tuning.rates_of(ProviderKind::OpenAi), Rates { requests: Some(60), tokens: None });
    let unset = check(&LlmArgs::default(), &[]).unwrap().tuning;
    assert_eq!((unset.context, unset.max_output_tokens), (ContextTokens::default(), None));
}

#[test]
fn a_key_goes_over_plain_http_only_to_this_machine() {
    let refused = |url: &str, keys: &[(&str, &str)]| {
        let args = LlmArgs { model_base_url: url.into(), ..LlmArgs::default() };
        let mut problems = Problems::default();
        check(&args, keys).unwrap().check_plaintext(&mut problems);
        problems.finish().err().map(|problems| problems.to_string())
    };
    let key = [("OPENAI_API_KEY", "sk-secret")];
    let text = refused("http://models.example.org/v1", &key).expect("it would be sent in clear");
    for part in
        ["TREE_AGENT_MODEL_BASE_URL", "OPENAI_API_KEY", "models.example.org", "--allow-plaintext-token"]
    {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("sk-secret"), "{text}");
    for url in [
        "http://127.0.0.1:8080",
        "http://localhost:1/v1",
        "http://[::1]:1/v1",
        "https://models.example.org",
        "",
    ] {
        assert_eq!(refused(url, &key), None, "{url}");
    }
    assert_eq!(refused("http://models.example.org/v1", &[]), None, "no key is sent");
}

#[test]
fn an_entry_without_room_for_the_prompt_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let table = dir.path().join("models.json");
    std::fs::write(&table, r#"{"models": {"openai:full": {"context": 8192, "output": 8192}}}"#).unwrap();
    let args = LlmArgs { model_table: Some(table), ..LlmArgs::default() };
    let text = check(&args, &[]).unwrap_err();
    assert!(
        text.contains("TREE_AGENT_MODEL_TABLE") && text.contains("openai:full: its context leaves 0"),
        "{text}"
    );
    let args = LlmArgs { model_max_output_tokens: "4096".into(), ..args };
    assert!(check(&args, &[]).is_ok());
}
