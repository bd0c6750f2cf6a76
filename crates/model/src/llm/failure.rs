//! Failures of requests, classified by what to do about them.

use std::time::{Duration, SystemTime};

use genai::adapter::AdapterKind;
use genai::webc;
use reqwest::header::HeaderMap;
use tree_agent_contract::error::root_cause;
use tree_agent_contract::language::Sentence;
use tree_agent_contract::role::{RoleError, RoleErrorKind};

use super::site::Site;

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
    NoTools,
    /// Something about the tools of this request.
    Tools,
    /// A parameter of the request.
    Parameter(&'static str),
    /// The account may not see what the model thinks.
    Thoughts,
    /// The prompt exceeds the context of the model.
    TooLong,
    /// A content filter refuses the prompt.
    Filtered,
    /// The answer is nothing, or nothing but white space.
    Blank,
    /// Any other refusal.
    Refused,
}

/// A failed request. The message never contains a key.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) kind: FailureKind,
    pub(super) message: String,
    /// The beginning of what the provider said, if it refused.
    pub(super) words: String,
    /// How long the provider asks us to wait.
    pub(super) retry_after: Option<Duration>,
    /// Tokens of the model's context, if a prompt exceeds it and the provider says so.
    pub(super) context: Option<usize>,
    /// The provider, or the operator, allows no more requests for now.
    pub(super) is_limit: bool,
}

impl Failure {
    pub(super) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        let is_limit = matches!(kind, FailureKind::Overloaded | FailureKind::Limited);
        Self {
            kind,
            message: message.into(),
            words: String::new(),
            retry_after: None,
            context: None,
            is_limit,
        }
    }

    /// True if the same request may succeed a little later.
    pub(super) const fn transient(&self) -> bool {
        use FailureKind as K;
        matches!(self.kind, K::Overloaded | K::Server | K::Unreachable | K::Stalled | K::Broken)
    }

    /// True if another model may succeed. A refused key is no reason to use another model: its owner must correct it.
    pub(super) const fn another_may_help(&self) -> bool {
        use FailureKind as K;
        self.transient() || matches!(self.kind, K::Open | K::Quota | K::TooLong | K::Blank | K::Filtered)
    }
}

impl From<Failure> for RoleError {
    fn from(failure: Failure) -> Self {
        use FailureKind as K;
        let kind = match failure.kind {
            K::Key | K::Permission | K::Quota | K::Redirect => RoleErrorKind::Rejected,
            K::NoModel | K::Schema | K::NoTools | K::Tools | K::Parameter(_) => RoleErrorKind::Rejected,
            K::Thoughts | K::TooLong | K::Filtered | K::Blank | K::Refused => RoleErrorKind::Rejected,
            K::Overloaded | K::Server => RoleErrorKind::Overloaded,
            K::Unreachable | K::Open => RoleErrorKind::ProviderUnreachable,
            // Nothing was attempted, and that says nothing about the provider.
            K::Limited => RoleErrorKind::Unreachable,
            K::Stalled => RoleErrorKind::Timeout,
            K::TooLarge => RoleErrorKind::InvalidOutput,
            K::Broken => RoleErrorKind::Internal,
        };
        let reason = failure.is_limit.then(|| Sentence::RateLimit.english().to_owned());
        // Of a server that is down nobody knows when it is back, whatever it says.
        let says_when = failure.is_limit || failure.kind == K::Quota;
        let retry_after = failure.retry_after.filter(|_| says_when);
        let retry_after_ms = retry_after.and_then(|wait| u64::try_from(wait.as_millis()).ok());
        RoleError { reason, retry_after_ms, ..RoleError::new(kind, failure.message) }
    }
}

/// Classifies an error of the client library.
pub(super) fn classify(error: &genai::Error, site: &Site) -> Failure {
    if let genai::Error::WebStream { error, .. } = error {
        if let Some(inner) = error.downcast_ref::<genai::Error>() {
            return classify(inner, site);
        }
        if let Some(inner) = error.downcast_ref::<reqwest::Error>() {
            return connection(inner, site);
        }
        return Failure::new(FailureKind::Broken, format!("the answer of {} broke off", site.shown()));
    }
    if let genai::Error::WebModelCall { webc_error: webc::Error::Reqwest(inner), .. } = error {
        return connection(inner, site);
    }
    let body = match error {
        genai::Error::HttpError { body, .. } => body.clone(),
        genai::Error::WebModelCall { webc_error: webc::Error::ResponseFailedStatus { body, .. }, .. } => {
            body.clone()
        }
        // An event without a candidate and without an error means that Gemini blocked the prompt. The client library
        // does not keep the reason.
        genai::Error::ChatResponse { body, .. } if body.get("finishReason").is_some() => {
            let message = format!("{} gave no answer: it blocked the prompt", site.shown());
            return Failure::new(FailureKind::Filtered, message);
        }
        genai::Error::ChatResponse { body, .. } => body.to_string(),
        // The Responses API says so that an answer failed; the library skips events of it that it cannot read.
        genai::Error::StreamParse { model_iden, serde_error }
            if model_iden.adapter_kind == AdapterKind::OpenAIResp =>
        {
            return site.refusal(None, &serde_error.to_string());
        }
        genai::Error::StreamParse { .. } => {
            let message = format!("{} sent something that is no event of an answer", site.shown());
            return Failure::new(FailureKind::Broken, message);
        }
        // Other errors may quote the request, so they are cut and redacted like a body.
        other => return site.refusal(None, &other.to_string()),
    };
    let mut failure = site.refusal(error.status().map(|s| s.as_u16()), &body);
    failure.retry_after = error.headers().and_then(retry_after).or_else(|| retry_delay(&body));
    failure
}

/// A request to `site` that had no complete answer.
pub(super) fn connection(error: &reqwest::Error, site: &Site) -> Failure {
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
    Failure::new(kind, site.redact(&format!("{} {what}: {cause}", site.shown())))
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
    let too_long = [
        "context length",
        "context_length",
        "context size",
        "context window",
        "context_size",
        "maximum context",
        "prompt is too long",
        "request too large",
        "too many tokens",
        "input token count",
        "reduce the length",
        "tokens must be reduced",
        "n_ctx",
        "`max_new_tokens` must be",
    ];
    if says(&["content_filter", "content management policy", "responsibleaipolicy"]) {
        return FailureKind::Filtered;
    }
    match status {
        Some(300..=399) => FailureKind::Redirect,
        Some(401) => FailureKind::Key,
        Some(402) => FailureKind::Quota,
        Some(403) => FailureKind::Permission,
        // More tokens than a minute allows at all: waiting does not help.
        Some(413) => FailureKind::TooLong,
        Some(429) if says(&["request too large", "tokens must be reduced"]) => FailureKind::TooLong,
        Some(429 | 529) => FailureKind::Overloaded,
        Some(408) => FailureKind::Server,
        _ if says(&too_long) => FailureKind::TooLong,
        None if says(&["overloaded", "rate_limit", "rate limit", "resource_exhausted"]) => {
            FailureKind::Overloaded
        }
        Some(500..) | None if !says(&["invalid_request_error"]) => FailureKind::Server,
        _ if says(&[
            "not support tool",
            "not support function",
            "support tool use",
            "tool use is not supported",
            "tools are not supported",
            "tools is not supported",
            "enable-auto-tool-choice",
            "tool role is not supported",
        ]) =>
        {
            FailureKind::NoTools
        }
        _ if says(&["tools[", "tools.", "'tools'", "tools may be", "function.parameters"]) => {
            FailureKind::Tools
        }
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
            "json_object",
            "output_config",
            "output_format",
            "responsejsonschema",
            "responsemimetype",
            "response mime type",
            "structured output",
            // What a router says that has no server for all of a request.
            "handle the requested parameters",
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

/// The tokens of a context that a refusal names, in the words of llama.cpp, LM Studio, vLLM, TGI, OpenAI and routers.
pub(super) fn named_context(body: &str) -> Option<usize> {
    /// Further away a number is another one.
    const NEAR: usize = 24;
    let body = body.to_lowercase();
    let words = [
        "n_ctx",
        "context length is",
        "context window is",
        "context length of",
        "context window of",
        "must be <=",
    ];
    words.iter().find_map(|words| {
        let (_, rest) = body.split_once(words)?;
        let begin = rest.find(|c: char| c.is_ascii_digit()).filter(|begin| *begin < NEAR)?;
        let digits: String = rest[begin..].chars().take_while(|c| c.is_ascii_digit() || *c == ',').collect();
        digits.replace(',', "").parse().ok().filter(|tokens| *tokens >= 256)
    })
}

/// How long the headers of a refusal ask to wait: `retry-after` in seconds or as a date, `retry-after-ms`, or the
/// latest `x-ratelimit-reset-…` of a limit that is used up.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let seconds = |n: f64| Duration::try_from_secs_f64(n.max(0.0)).ok();
    let number = |name: &str| text(name)?.parse::<f64>().ok();
    // Clocks may differ, so a date counts from the time of the server.
    let date = || {
        let at = httpdate::parse_http_date(text("retry-after")?).ok()?;
        let now = text("date").and_then(|date| httpdate::parse_http_date(date).ok());
        Some(at.duration_since(now.unwrap_or_else(SystemTime::now)).unwrap_or_default())
    };
    let reset = |of: &str| {
        let left = text(&format!("x-ratelimit-remaining{of}")).is_none_or(|left| left == "0");
        text(&format!("x-ratelimit-reset{of}")).filter(|_| left).and_then(span)
    };
    number("retry-after-ms")
        .and_then(|ms| seconds(ms / 1_000.0))
        .or_else(|| number("retry-after").and_then(seconds))
        .or_else(date)
        .or_else(|| ["", "-requests", "-tokens"].into_iter().filter_map(reset).max())
}

/// A span of time such as `1m30s`, `250ms`, `3.2s` or `7`, which are seconds. None for a time of day.
fn span(text: &str) -> Option<Duration> {
    let mut seconds = 0.0;
    let text = text.replace("ms", "u");
    for part in text.split_inclusive(|c: char| c.is_ascii_alphabetic()) {
        let unit = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number: f64 = part.strip_suffix(unit)?.parse().ok()?;
        seconds += number
            * match unit {
                "h" => 3_600.0,
                "m" => 60.0,
                "s" | "" => 1.0,
                "u" => 0.001,
                _ => return None,
            };
    }
    Duration::try_from_secs_f64(seconds).ok().filter(|span| span.as_secs() < 86_400)
}

/// The `retryDelay` of a `google.rpc.RetryInfo` in a body, such as `"17s"` or `"0.25s"`.
pub(super) fn retry_delay(body: &str) -> Option<Duration> {
    let (_, after) = body.split_once("\"retryDelay\"")?;
    let value = after.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let (seconds, _) = value.split_once("s\"")?;
    Duration::try_from_secs_f64(seconds.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_may_name_the_context() {
        for (body, context) in [
            ("greater than the context length (n_keep: 10247 >= n_ctx: 4096). Try", Some(4096)),
            ("Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)", Some(7424)),
            (r#"{"type": "exceed_context_size_error", "n_prompt_tokens": 10247, "n_ctx": 4096}"#, Some(4096)),
            ("This model's maximum context length is 8,192 tokens. However, you requested 19388", Some(8192)),
            ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 3100", Some(4096)),
            ("prompt is too long: 250000 tokens > 200000 maximum", None),
        ] {
            assert_eq!(named_context(body), context, "{body}");
            assert_eq!(kind_of(Some(400), body), FailureKind::TooLong, "{body}");
        }
    }

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
            (400, "registry.ollama.ai/library/x does not support tools", K::NoTools),
            (404, "No endpoints found that support tool use", K::NoTools),
            (400, "Invalid 'tools[5].function.parameters': object schema missing properties", K::Tools),
            (400, "At most 4 tools may be given", K::Tools),
            (429, "Request too large for x: Limit 3000, Requested 4937. It must be reduced", K::TooLong),
            (413, "<h1>413 Request Entity Too Large</h1>", K::TooLong),
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
    fn retry_after_is_read_in_every_form() {
        let headers = |name: &'static str, value: &'static str| {
            reqwest::header::HeaderMap::from_iter([(
                reqwest::header::HeaderName::from_static(name),
                reqwest::header::HeaderValue::from_static(value),
            )])
        };
        assert_eq!(retry_after(&headers("retry-after", "2")), Some(Duration::from_secs(2)));
        assert_eq!(retry_after(&headers("retry-after-ms", "250")), Some(Duration::from_millis(250)));
        assert_eq!(retry_after(&headers("retry-after", "-3")), Some(Duration::ZERO));
        assert_eq!(retry_after(&headers("retry-after", "soon")), None);
        let past = headers("retry-after", "Fri, 31 Dec 1999 23:59:59 GMT");
        assert_eq!(retry_after(&past), Some(Duration::ZERO));
        let mut both = headers("date", "Fri, 31 Dec 1999 23:59:50 GMT");
        both.extend(past);
        assert_eq!(retry_after(&both), Some(Duration::from_secs(9)), "by the server's clock");
    }

    #[test]
    fn the_reset_of_a_limit_that_is_used_up_is_read() {
        for (reset, remaining, wait) in [
            ("3.2s", "0", Some(Duration::from_millis(3_200))),
            ("1m30s", "0", Some(Duration::from_secs(90))),
            ("250ms", "0", Some(Duration::from_millis(250))),
            ("7", "0", Some(Duration::from_secs(7))),
            ("3s", "12", None),
            ("1764316800000", "0", None),
            ("soon", "0", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("x-ratelimit-reset-requests", reset.parse().unwrap());
            headers.insert("x-ratelimit-remaining-requests", remaining.parse().unwrap());
            assert_eq!(retry_after(&headers), wait, "{reset} {remaining}");
        }
    }
}
