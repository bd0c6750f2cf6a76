//! Keys: what is said when one is missing or wrong, and that none is ever shown.

use std::sync::{Arc, Mutex};

use tree_agent_contract::ModelProblemKind;
use tree_agent_contract::role::RoleErrorKind;
use tree_agent_model::{LanguageModels, LlmArgs, Models, RoleArgs, Switch};
use tree_agent_runtime::channel::ConnectArgs;
use tree_agent_runtime::config::Problems;
use tree_agent_runtime::role_token::RoleToken;
use tree_agent_testkit::tls::Authority;

use crate::provider::{Answer, Provider, status};
use crate::support::*;

/// A refusal that quotes the key, as some providers send it.
fn refused() -> Answer {
    status(
        401,
        &format!(
            "{{\"error\":{{\"message\":\"Incorrect API key provided: {KEY}\",\"code\":\"invalid_api_key\"}}}}"
        ),
    )
}

#[tokio::test]
async fn a_key_that_is_refused_is_known_before_a_run_starts() {
    let provider = Provider::new(Vec::new()).await;
    let models = language(&served_by(&provider));
    models.check_keys().await.expect("the list of models is given");
    provider.models(status(503, "busy"));
    models.check_keys().await.expect("a provider that is down now may be back later");
    provider.models(refused());
    let error = models.check_keys().await.unwrap_err();
    assert_eq!(error.kind, ModelProblemKind::KeyRefused);
    assert!(error.message.contains("OPENAI_API_KEY was refused"), "{error}");
    assert!(!error.message.contains("0123456789"), "{error}");
    assert!(provider.asked().is_empty(), "nothing was generated");
}

#[tokio::test]
async fn a_model_is_checked_before_a_run_and_its_provider_is_not_asked_again_and_again() {
    let provider = Provider::new(Vec::new()).await;
    provider.models(refused());
    let args = LlmArgs { models: "openai:another".into(), ..served_by(&provider) };
    let models = Models::with_language_models("", language(&args)).unwrap();
    for name in ["", "llm", "powerful", "openai:another", ""] {
        let problem = models.check(name).await.unwrap_err();
        assert_eq!(problem.kind, ModelProblemKind::KeyRefused, "{name:?}");
        assert!(problem.message.contains("OPENAI_API_KEY was refused"), "{problem}");
        assert!(!problem.message.contains("0123456789"), "{problem}");
    }
    assert_eq!(provider.listed(), 1, "the answer holds for a while");
    assert!(provider.asked().is_empty(), "nothing was generated");

    let without_key = |name: &'static str| {
        let args = LlmArgs { models: "anthropic:*".into(), ..LlmArgs::default() };
        let config = args.check_with(&mut Problems::default(), &|_| None);
        let language = LanguageModels::new(&config);
        let models = Models::configured("offline", language, Switch::On).unwrap();
        async move { models.check(name).await }
    };
    for good in ["", "offline", "scripted:fanout=2"] {
        without_key(good).await.expect(good);
    }
    for (bad, kind, remedy) in [
        (
            "anthropic:claude",
            ModelProblemKind::KeyMissing,
            "set ANTHROPIC_API_KEY where the role services run",
        ),
        ("openai:gpt-4o", ModelProblemKind::Unknown, "add it to TREE_AGENT_MODELS"),
        ("gemini:../../x", ModelProblemKind::Unknown, "letters, digits"),
        ("fast", ModelProblemKind::NotSet, "TREE_AGENT_MODEL_FAST"),
        ("mistral:large", ModelProblemKind::Unknown, "PROVIDER:MODEL"),
        ("openai:", ModelProblemKind::Unknown, "provider:model"),
        ("scripted:fanout=two", ModelProblemKind::Unknown, "fanout"),
    ] {
        let problem = without_key(bad).await.unwrap_err();
        assert_eq!(problem.kind, kind, "{bad}");
        assert!(problem.message.contains(remedy), "{problem}");
    }
}

#[tokio::test]
async fn a_provider_that_cannot_be_reached_refuses_no_run() {
    let nobody = "http://127.0.0.1:1/v1".into();
    let args = LlmArgs { model_balanced: "openai:m".into(), model_base_url: nobody, ..quick() };
    let models = Models::with_language_models("", language(&args)).unwrap();
    models.check("").await.expect("it may be back when the run needs it");
    let broken = Provider::new(Vec::new()).await;
    broken.models(status(500, "oops"));
    let models = Models::with_language_models("", language(&served_by(&broken))).unwrap();
    models.check("").await.expect("a broken provider says nothing of the key");
}

#[tokio::test]
async fn a_key_that_is_refused_later_fails_the_call_at_once_and_is_not_shown() {
    for args in [served_by, anthropic] {
        let provider = Provider::always(refused()).await;
        let outcome = Service::new(&args(&provider)).plan(&plan_input("Compare")).await;
        assert_eq!(outcome.error().kind, RoleErrorKind::Rejected, "it is not retried");
        assert!(outcome.error().message.contains("_API_KEY was refused"), "{}", outcome.error());
        assert_eq!(provider.asked().len(), 1);
        assert!(!format!("{outcome:?}").contains("0123456789"));
    }
}

#[tokio::test]
async fn keys_go_only_to_servers_that_the_operators_authorities_vouch_for() {
    let provider = Provider::new(Vec::new()).await;
    provider.models(refused());
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let plain: http::Uri = provider.url.parse().unwrap();
    let server = plain.authority().unwrap().as_str().parse().unwrap();
    let front = authority.issue(&["localhost"]).terminate_tls_for(server).await;
    let url = format!("https://localhost:{}/v1", front.port());
    // What the role services are configured with.
    let check_keys = async |ca_file| {
        let llm = LlmArgs {
            model_balanced: "openai:test-model".into(),
            model_base_url: url.clone(),
            model_tries: "1".into(),
            ..quick()
        };
        let role = RoleArgs {
            gateway: "http://127.0.0.1:1".into(),
            model: String::new(),
            scripted: Switch::Off,
            connect: ConnectArgs { ca_file, allow_plaintext_token: false },
            llm,
        };
        let mut problems = Problems::default();
        let config = role.check(&RoleToken::random(), &mut problems);
        problems.finish().expect("the settings of the test");
        config.check_keys().await
    };
    let other = tempfile::tempdir().unwrap();
    for strange in [None, Some(Authority::new().write(other.path()))] {
        check_keys(strange).await.expect("the server cannot be reached");
        assert_eq!(provider.listed(), 0, "nothing was sent");
    }
    let refused = check_keys(Some(authority.write(folder.path()))).await.unwrap_err();
    assert_eq!((refused.kind, provider.listed()), (ModelProblemKind::KeyRefused, 1), "{refused}");
}

#[tokio::test]
async fn a_missing_key_is_named_with_its_variable() {
    let mut problems = Problems::default();
    let args = LlmArgs {
        model_fast: "anthropic:claude-haiku-4-5".into(),
        models: "gemini:*".into(),
        ..LlmArgs::default()
    };
    let config = args.check_with(&mut problems, &|_| None);
    let text = problems.finish().unwrap_err().to_string();
    assert!(text.contains("ANTHROPIC_API_KEY: is not set"), "{text}");
    // A run that names such a model is refused before anything is asked.
    let models = Models::with_language_models("offline", LanguageModels::new(&config)).unwrap();
    let error = models.resolve("gemini:gemini-2.5-flash").map(|_| ()).unwrap_err();
    assert_eq!(error.kind, RoleErrorKind::Rejected);
    assert!(error.message.contains("set GEMINI_API_KEY"), "{error}");
}

#[tokio::test]
async fn no_key_reaches_an_error_an_event_or_the_prompt() {
    let echo = format!("your request with Bearer {KEY} was odd, and {}… too", &KEY[..20]);
    let bodies = [
        status(400, &echo),
        status(500, &echo),
        Answer::Status(429, vec![("retry-after", "0".into())], echo),
    ];
    for bad in bodies {
        let provider = Provider::always(bad).await;
        let outcome = Service::new(&served_by(&provider)).plan(&plan_input("Compare")).await;
        assert!(outcome.output.is_err());
        assert!(!format!("{outcome:?}").contains("0123456789"), "{outcome:?}");
        for asked in provider.asked() {
            assert!(!asked.said().contains("0123456789"));
        }
    }
    // Nor does it when the model itself repeats it.
    let provider = Provider::always(Answer::Text(format!("I know {KEY}"), "stop")).await;
    let outcome = Service::new(&served_by(&provider)).plan(&plan_input("Compare")).await;
    assert!(!outcome.error().message.contains("0123456789"), "{}", outcome.error());
}

/// Everything that is logged at the most talkative level, in one text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_key_reaches_the_log_or_a_trace() {
    let log = Log::default();
    let writer = log.clone();
    let lines = tracing_subscriber::fmt()
        .with_env_filter(tree_agent_runtime::telemetry::env_filter("trace").unwrap())
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(lines);
    tracing::trace!("the log is read");
    let echo = format!("Bearer {KEY} was odd");
    for bad in [refused(), status(400, &echo), status(500, &echo)] {
        let provider = Provider::always(bad).await;
        let args = LlmArgs { model_fallback: "anthropic:spare".into(), ..served_by(&provider) };
        let args = LlmArgs { anthropic_base_url: provider.url.clone(), ..args };
        assert!(Service::new(&args).plan(&plan_input("Compare")).await.output.is_err());
        let _ = language(&args).check_keys().await;
    }
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains("the log is read") && text.contains("fell back"), "{text}");
    assert!(!text.contains("0123456789"), "{text}");
}
