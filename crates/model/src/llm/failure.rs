//! Failures of requests, classified by what to do about them.

use std::time::Duration;

use genai::adapter::AdapterKind;
use genai::webc;
use tree_agent_contract::error::root_cause;
use tree_agent_contract::role::{RoleError, RoleErrorKind};

use super::provider::Provider;

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum FailureKind {
    /// The key was refused.
    Key,
    /// The key is valid but lacks a permission.
    Permission,
    /// The quota of the account is exhausted.
    Quota,
    /// The provider redirects, which is not followed.
    Redirect,
    /// The model does not exist there.
    NoModel,
    /// Too many requests.
    Overloaded,
    /// The provider failed.
    Server,
    /// The connection failed.
    Unreachable,
    /// The answer exceeds the byte limit.
    TooLarge,
    /// The circuit is open, so no request was made.
    Open,
    /// The operator's limits in a minute ask to wait, so no request was made.
    Limited,
    /// The provider stopped sending.
    Stalled,
    /// The answer broke off.
    Broken,
    /// The provider cannot enforce a schema, or not this one.
    Schema,
    /// The model cannot call tools.
    Tools,
    /// The account may not see what the model thinks.
    Thoughts,
    /// The prompt exceeds the context of the model.
    TooLong,
    /// Any other refusal.
    Refused,
}

/// A failed request. The message never contains a key.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) kind: FailureKind,
    pub(super) message: String,
    /// How long the provider asks us to wait.
    pub(super) retry_after: Option<Duration>,
}

impl Failure {
    pub(super) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }

    /// True if the same request may succeed a little later.
    pub(super) const fn transient(&self) -> bool {
        use FailureKind as K;
        matches!(self.kind, K::Overloaded | K::Server | K::Unreachable | K::Stalled | K::Broken)
    }

    /// True if another model may succeed. A refused key is no reason to use another model: its owner must correct it.
    pub(super) const fn another_may_help(&self) -> bool {
        self.transient() || matches!(self.kind, FailureKind::Open | FailureKind::Quota)
    }
}

impl From<Failure> for RoleError {
    fn from(failure: Failure) -> Self {
        use FailureKind as K;
        let kind = match failure.kind {
            K::Key | K::Permission | K::Quota | K::Redirect => RoleErrorKind::Rejected,
            K::NoModel | K::Schema | K::Tools | K::Thoughts | K::TooLong | K::Refused => {
                RoleErrorKind::Rejected
            }
            K::Overloaded | K::Server => RoleErrorKind::Overloaded,
            K::Unreachable | K::Open => RoleErrorKind::ProviderUnreachable,
            // Nothing was attempted, and that says nothing about the provider.
            K::Limited => RoleErrorKind::Unreachable,
            K::Stalled => RoleErrorKind::Timeout,
            K::TooLarge => RoleErrorKind::InvalidOutput,
            K::Broken => RoleErrorKind::Internal,
        };
        RoleError::new(kind, failure.message)
    }
}

/// Classifies an error of the client library.
pub(super) fn classify(error: &genai::Error, provider: &Provider) -> Failure {
    if let genai::Error::WebStream { error, .. } = error {
        if let Some(inner) = error.downcast_ref::<genai::Error>() {
            return classify(inner, provider);
        }
        if let Some(inner) = error.downcast_ref::<reqwest::Error>() {
            return connection(inner, provider);
        }
        return Failure::new(FailureKind::Broken, format!("the answer of {} broke off", provider.shown()));
    }
    if let genai::Error::WebModelCall { webc_error: webc::Error::Reqwest(inner), .. } = error {
        return connection(inner, provider);
    }
    let body = match error {
        genai::Error::HttpError { body, .. } => body.clone(),
        genai::Error::WebModelCall { webc_error: webc::Error::ResponseFailedStatus { body, .. }, .. } => {
            body.clone()
        }
        // An event without a candidate and without an error means that Gemini blocked the prompt. The client library
        // does not keep the reason.
        genai::Error::ChatResponse { body, .. } if body.get("finishReason").is_some() => {
            let message = format!("{} gave no answer: it blocked the prompt", provider.shown());
            return Failure::new(FailureKind::Refused, message);
        }
        genai::Error::ChatResponse { body, .. } => body.to_string(),
        // The Responses API says so that an answer failed; the library skips events of it that it cannot read.
        genai::Error::StreamParse { model_iden, serde_error }
            if model_iden.adapter_kind == AdapterKind::OpenAIResp =>
        {
            return provider.refusal(None, &serde_error.to_string());
        }
        genai::Error::StreamParse { .. } => {
            let message = format!("{} sent something that is no event of an answer", provider.shown());
            return Failure::new(FailureKind::Broken, message);
        }
        // Other errors may quote the request, so they are cut and redacted like a body.
        other => return provider.refusal(None, &other.to_string()),
    };
    let mut failure = provider.refusal(error.status().map(|s| s.as_u16()), &body);
    failure.retry_after = error.headers().and_then(retry_after).or_else(|| retry_delay(&body));
    failure
}

/// A request to `provider` that had no complete answer.
pub(super) fn connection(error: &reqwest::Error, provider: &Provider) -> Failure {
    let (kind, what) = if error.is_connect() || error.is_timeout() {
        (FailureKind::Unreachable, "cannot be reached")
    } else {
        (FailureKind::Broken, "broke the connection off")
    };
    // The root cause says most. It contains nothing of the headers.
    let cause = match error.is_connect() && error.is_timeout() {
        true => "it neither accepts nor refuses the connection".to_owned(),
        false => root_cause(error),
    };
    Failure::new(kind, provider.redact(&format!("{} {what}: {cause}", provider.shown())))
}

/// Classifies a refusal by its HTTP status and the words of its body. Providers agree on few statuses, so the words
/// decide between the kinds of bad requests.
pub(super) fn kind_of(status: Option<u16>, body: &str) -> FailureKind {
    let body = body.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| body.contains(word));
    if says(&["api_key_invalid", "api key not valid", "invalid_api_key", "authentication_error"]) {
        return FailureKind::Key;
    }
    if says(&["insufficient_quota", "billing_hard_limit", "credit balance is too low"]) {
        return FailureKind::Quota;
    }
    if says(&["insufficient permissions", "missing scopes", "permission_denied", "permission_error"]) {
        return FailureKind::Permission;
    }
    match status {
        Some(300..=399) => FailureKind::Redirect,
        Some(401) => FailureKind::Key,
        Some(402) => FailureKind::Quota,
        Some(403) => FailureKind::Permission,
        Some(429 | 529) => FailureKind::Overloaded,
        Some(408) => FailureKind::Server,
        _ if says(&[
            "context length",
            "context_length",
            "context size",
            "context window",
            "context_size",
            "maximum context",
            "prompt is too long",
            "too many tokens",
            "input token count",
            "reduce the length",
        ]) =>
        {
            FailureKind::TooLong
        }
        None if says(&["overloaded", "rate_limit", "rate limit", "resource_exhausted"]) => {
            FailureKind::Overloaded
        }
        Some(500..) | None if !says(&["invalid_request_error"]) => FailureKind::Server,
        _ if says(&[
            "reasoning.summary",
            "reasoning summary",
            "reasoning summaries",
            "thinking.display",
            "includethoughts",
        ]) =>
        {
            FailureKind::Thoughts
        }
        _ if says(&[
            "response_format",
            "json_schema",
            "output_config",
            "output_format",
            "responsejsonschema",
            "responsemimetype",
            "response mime type",
            "structured output",
            "schema",
            "grammar",
        ]) =>
        {
            FailureKind::Schema
        }
        _ if says(&["tool", "function call"]) => FailureKind::Tools,
        Some(404) => FailureKind::NoModel,
        _ => FailureKind::Refused,
    }
}

/// `retry-after` in seconds, or `retry-after-ms`. Dates are ignored, because clocks may differ.
fn retry_after(headers: &reqwest::header::HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|ms| ms / 1_000.0).or_else(|| number("retry-after"))?;
    Duration::try_from_secs_f64(seconds.max(0.0)).ok()
}

/// The `retryDelay` of a `google.rpc.RetryInfo` in a body, such as `"17s"` or `"0.25s"`.
fn retry_delay(body: &str) -> Option<Duration> {
    let (_, after) = body.split_once("\"retryDelay\"")?;
    let value = after.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let (seconds, _) = value.split_once("s\"")?;
    Duration::try_from_secs_f64(seconds.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart() {
        use FailureKind as K;
        for (status, body, kind) in [
            (401, "{}", K::Key),
            (
                400,
                r#"{"error":{"status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#,
                K::Key,
            ),
            (403, "{}", K::Permission),
            (
                401,
                "You have insufficient permissions for this operation. Missing scopes: model.request",
                K::Permission,
            ),
            (
                429,
                r#"{"error":{"code":"insufficient_quota","message":"You exceeded your current quota"}}"#,
                K::Quota,
            ),
            (400, "Your credit balance is too low to access the API", K::Quota),
            (302, "", K::Redirect),
            (429, "slow down", K::Overloaded),
            (529, "overloaded_error", K::Overloaded),
            (500, "oops", K::Server),
            (503, "schema service is down", K::Server),
            (400, r#"{"error":{"code":"context_length_exceeded"}}"#, K::TooLong),
            (400, "the request exceeds the available context size", K::TooLong),
            (400, "prompt is too long: 210000 tokens > 200000 maximum", K::TooLong),
            (400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported", K::Schema),
            (422, "unknown field output_config", K::Schema),
            (400, "registry.ollama.ai/library/x does not support tools", K::Tools),
            (404, "model not found", K::NoModel),
            (400, "Your organization must be verified to generate reasoning summaries", K::Thoughts),
            (400, "Unsupported parameter: 'reasoning.summary' is not supported", K::Thoughts),
            (400, "temperature must be below 2", K::Refused),
        ] {
            assert_eq!(kind_of(Some(status), body), kind, "{status} {body}");
        }
        assert_eq!(kind_of(None, r#"{"type":"overloaded_error"}"#), K::Overloaded);
        assert_eq!(kind_of(None, r#"{"message":"boom"}"#), K::Server);
    }

    #[test]
    fn the_delay_in_a_body_is_read() {
        let body =
            |delay: &str| format!(r#"{{"details": [{{"@type": "RetryInfo", "retryDelay": {delay}}}]}}"#);
        assert_eq!(retry_delay(&body("\"17s\"")), Some(Duration::from_secs(17)));
        assert_eq!(retry_delay(&body("\"0.25s\"")), Some(Duration::from_millis(250)));
        for bad in ["\"-1s\"", "17", "\"soon\"", "\"17 s", "null"] {
            assert_eq!(retry_delay(&body(bad)), None, "{bad}");
        }
    }

    #[test]
    fn retry_after_is_read_in_both_forms() {
        let headers = |name: &'static str, value: &'static str| {
            reqwest::header::HeaderMap::from_iter([(
                reqwest::header::HeaderName::from_static(name),
                reqwest::header::HeaderValue::from_static(value),
            )])
        };
        assert_eq!(retry_after(&headers("retry-after", "2")), Some(Duration::from_secs(2)));
        assert_eq!(retry_after(&headers("retry-after-ms", "250")), Some(Duration::from_millis(250)));
        assert_eq!(retry_after(&headers("retry-after", "-3")), Some(Duration::ZERO));
        assert_eq!(retry_after(&headers("retry-after", "Fri, 31 Dec 1999 23:59:59 GMT")), None);
    }
}
