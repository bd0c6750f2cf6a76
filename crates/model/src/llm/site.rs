//! Where a provider is: its address and key, requests to it, and the words for what goes wrong there.

use futures::{Stream, StreamExt};
use serde_json::Value;
use tree_agent_contract::ProviderKind;
use tree_agent_contract::text::{one_line, prefix};
use tree_agent_runtime::channel::is_loopback;

use std::time::Duration;

use super::failure::{Failure, FailureKind, connection, kind_of, named_context};
use super::settings::{Address, Tuning};

/// Bytes of a refusal's body that an error quotes.
const QUOTED: usize = 300;
/// Maximum of bytes of a list of models or a refusal; the longest known list has a tenth of it.
const BODY_BYTES: usize = 4 * 1024 * 1024;
/// Time in which a connection must be accepted.
pub(super) const CONNECT: Duration = Duration::from_secs(10);

/// The site of a provider.
pub(super) struct Site {
    pub(super) kind: ProviderKind,
    pub(super) address: Address,
    pub(super) http: reqwest::Client,
}

impl Site {
    pub(super) fn new(kind: ProviderKind, address: &Address, tuning: &Tuning) -> Result<Self, Failure> {
        // A redirect would send the prompt and the key to an address that the operator has not configured.
        let mut http = reqwest::Client::builder()
            .tls_backend_preconfigured(tuning.roots.http_client_config())
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .tcp_nodelay(true);
        // Some small servers close a connection as soon as they have answered, and a new one costs nothing nearby.
        if address.url.starts_with("http://") {
            http = http.pool_max_idle_per_host(0);
        }
        // A proxy cannot reach this machine, and would see the prompts and the key.
        if address.url.parse().is_ok_and(|url| is_loopback(&url)) {
            http = http.no_proxy();
        }
        let http = http.build().map_err(|error| {
            let message = format!("no client for {} can be made: {error}", address.url);
            Failure::new(FailureKind::Refused, message)
        })?;
        Ok(Self { kind, address: address.clone(), http })
    }

    /// Its name and address, for errors.
    pub(super) fn shown(&self) -> String {
        format!("{} at {}", self.kind.as_str(), self.address.url)
    }

    /// `text` without the key.
    pub(super) fn redact(&self, text: &str) -> String {
        self.address.key.as_ref().map_or_else(|| text.to_owned(), |key| key.redact(text))
    }

    /// A request to `path`, with the key.
    pub(super) fn post(&self, path: &str) -> reqwest::RequestBuilder {
        self.with_key(self.http.post(format!("{}{path}", self.address.url)))
    }

    fn with_key(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        let Some(key) = &self.address.key else { return request };
        let key = key.expose();
        match self.kind {
            ProviderKind::OpenAi => request.bearer_auth(key),
            ProviderKind::Anthropic => {
                request.header("x-api-key", key).header("anthropic-version", "2023-06-01")
            }
            ProviderKind::Gemini => request.header("x-goog-api-key", key),
        }
    }

    /// The models that the provider lists: the cheapest request that checks the key.
    pub(super) async fn list(&self, patience: Duration) -> Result<Value, Failure> {
        let request = self.with_key(self.http.get(format!("{}models", self.address.url))).timeout(patience);
        let failed = |error: reqwest::Error| connection(&error, self);
        let response = request.send().await.map_err(failed)?;
        let status = response.status();
        let body = self.read_bounded(response).await?.map_err(failed)?;
        if !status.is_success() {
            return Err(self.refusal(Some(status.as_u16()), &body));
        }
        Ok(serde_json::from_str(&body).unwrap_or_default())
    }

    /// The body of `response`, unless it exceeds the limit of a list of models.
    pub(super) async fn read_bounded(
        &self,
        response: reqwest::Response,
    ) -> Result<Result<String, reqwest::Error>, Failure> {
        self.collect(response.bytes_stream(), BODY_BYTES).await
    }

    /// All of `chunks`, unless they exceed `limit` bytes.
    pub(super) async fn collect<B: AsRef<[u8]>>(
        &self,
        chunks: impl Stream<Item = Result<B, reqwest::Error>>,
        limit: usize,
    ) -> Result<Result<String, reqwest::Error>, Failure> {
        let mut bytes = Vec::new();
        let mut chunks = std::pin::pin!(chunks);
        while let Some(chunk) = chunks.next().await {
            match chunk {
                Ok(chunk) if bytes.len() + chunk.as_ref().len() <= limit => {
                    bytes.extend_from_slice(chunk.as_ref())
                }
                Ok(_) => return Err(self.too_large(limit)),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The failure that a response with `status` and `body` means.
    pub(super) fn refusal(&self, status: Option<u16>, body: &str) -> Failure {
        let kind = kind_of(status, body);
        let status = status.map_or_else(String::new, |s| format!(" (HTTP {s})"));
        let shown = self.shown();
        let quoted = self.redact(prefix(&one_line(body), QUOTED));
        let message = match kind {
            // The body is not quoted, because some providers repeat the refused key.
            FailureKind::Key => {
                let variable = self.kind.key_variable();
                let set = if self.address.key.is_some() { "was refused" } else { "is not set" };
                format!("{shown} asks for a valid key{status}: {variable} {set}; check it and restart")
            }
            FailureKind::Redirect => {
                let variable = self.kind.address_variable();
                format!(
                    "{shown} redirects{status}, and redirects are not followed; set {variable} to the address that \
                     serves models"
                )
            }
            _ => {
                let variable = self.kind.key_variable();
                match kind {
                    FailureKind::Quota => {
                        let less = if body.contains("max_tokens") {
                            "; fewer tokens may do: set TREE_AGENT_MODEL_MAX_OUTPUT_TOKENS"
                        } else {
                            ""
                        };
                        format!("the quota of {variable} at {shown} is used up{status}: {quoted}{less}")
                    }
                    FailureKind::Permission => {
                        format!("{variable} lacks a permission at {shown}{status}: {quoted}")
                    }
                    _ => format!("{shown} refused the request{status}: {quoted}{}", hint(kind)),
                }
            }
        };
        let context = named_context(body).filter(|_| kind == FailureKind::TooLong);
        Failure { words: quoted, context, ..Failure::new(kind, message) }
    }

    pub(super) fn too_large(&self, limit: usize) -> Failure {
        let message =
            format!("the answer of {} is longer than {limit} bytes; it was not read on", self.shown());
        Failure::new(FailureKind::TooLarge, message)
    }

    /// The answer ended too early. If nothing of it came, the address may be that of another service.
    pub(super) fn cut_off(&self, began: bool) -> Failure {
        let (shown, variable) = (self.shown(), self.kind.address_variable());
        let message = match began {
            true => format!("{shown} ended its answer in the middle"),
            false => {
                format!(
                    "{shown} sent no answer of a model; check that {variable} is the address of a model server"
                )
            }
        };
        Failure::new(FailureKind::Broken, message)
    }
}

/// The setting that helps if the refusal stays.
const fn hint(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Schema => "; \"schema\": false in TREE_AGENT_MODEL_TABLE asks it for none",
        FailureKind::NoTools | FailureKind::Tools => {
            "; \"tools\": false in TREE_AGENT_MODEL_TABLE offers it none"
        }
        FailureKind::TooLong => "; \"context\" in TREE_AGENT_MODEL_TABLE makes prompts shorter",
        FailureKind::Filtered => "; what it refuses stands in the documents of the run",
        _ => "",
    }
}
