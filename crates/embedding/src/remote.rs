//! Any server that speaks OpenAI's `POST …/v1/embeddings`.

use std::time::Duration;

use async_trait::async_trait;
use backon::{ExponentialBuilder, Retryable};
use reqwest::{RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use serde_json::json;
use tree_agent_contract::error::chain;
use tree_agent_contract::text::{one_line, prefix};
use tree_agent_runtime::channel::is_loopback;
use tree_agent_security::{ApiKey, Roots};

use crate::{EmbedError, Embedder, quantised};

/// Texts of one request.
const BATCH: usize = 32;
/// Bytes of a text that are sent.
const BYTES: usize = 8 * 1024;
/// Bytes of a text that are sent after its server refused the whole one, one after the other.
const SHORTER: [usize; 2] = [500, 100];
/// Bytes that a response may have for each number in it, and in addition.
const NUMBER_BYTES: usize = 32;
const MORE_BYTES: usize = 64 * 1024;
/// Bytes of a refusal that an error quotes.
const QUOTED: usize = 300;
/// Time in which a connection must be accepted, and in which a whole request must be answered.
const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(60);

/// What a server is asked with.
#[derive(Clone, Debug)]
pub(crate) struct RemoteSettings {
    /// The base URL, with `/` at its end.
    pub(crate) url: String,
    pub(crate) model: String,
    pub(crate) dimensions: usize,
    pub(crate) key: Option<ApiKey>,
    pub(crate) roots: Roots,
}

/// A server.
pub(crate) struct Remote {
    /// Names the model and the dimensions.
    name: String,
    settings: RemoteSettings,
    http: reqwest::Client,
    retries: ExponentialBuilder,
}

/// Why a request failed.
enum Failure {
    /// It may work in a moment.
    Passing(String),
    /// The server does not take these texts.
    Refused(String),
    /// The server takes nothing from us, or its answer cannot be used.
    Wrong(String),
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    /// Which text is meant; without it the order counts.
    index: Option<usize>,
    embedding: Vec<f32>,
}

impl Remote {
    pub(crate) fn new(settings: RemoteSettings) -> Result<Self, EmbedError> {
        // A redirect would send texts and key to an address that the operator has not configured.
        let mut http = reqwest::Client::builder()
            .tls_backend_preconfigured(settings.roots.http_client_config())
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .timeout(ANSWER);
        // A proxy cannot reach this machine, and would see the texts and the key.
        if settings.url.parse().is_ok_and(|url| is_loopback(&url)) {
            http = http.no_proxy();
        }
        let http = http
            .build()
            .map_err(|error| EmbedError(format!("no client for {} can be made: {error}", settings.url)))?;
        let name = format!("{}@{}", settings.model, settings.dimensions);
        // A longer outage is for the caller: a question goes on without vectors, and the worker waits.
        let retries = ExponentialBuilder::new()
            .with_min_delay(Duration::from_millis(200))
            .with_max_times(3)
            .with_jitter();
        Ok(Self { name, settings, http, retries })
    }

    /// The vectors of `texts`, after several attempts if need be.
    async fn ask(&self, texts: &[&str]) -> Result<Vec<Vec<i8>>, Failure> {
        let attempt = async || self.once(texts).await;
        let may_pass = |failure: &Failure| matches!(failure, Failure::Passing(_));
        attempt.retry(self.retries).sleep(tokio::time::sleep).when(may_pass).await
    }

    async fn once(&self, texts: &[&str]) -> Result<Vec<Vec<i8>>, Failure> {
        let body = json!({"model": self.settings.model, "input": texts});
        let mut request = self.http.post(format!("{}embeddings", self.settings.url)).json(&body);
        if let Some(key) = &self.settings.key {
            request = request.bearer_auth(key.expose());
        }
        let (status, body) = self.exchange(request, texts.len()).await?;
        if !status.is_success() {
            return Err(self.refusal(status, &String::from_utf8_lossy(&body)));
        }
        let answer: Answer = serde_json::from_slice(&body)
            .map_err(|error| Failure::Wrong(format!("its answer is not a list of embeddings: {error}")))?;
        self.vectors(answer, texts.len())
    }

    /// The status and the body, which is read no further than an answer to `texts` texts can be long.
    async fn exchange(
        &self,
        request: RequestBuilder,
        texts: usize,
    ) -> Result<(StatusCode, Vec<u8>), Failure> {
        let broken = |error: reqwest::Error| Failure::Passing(chain(&error.without_url()));
        let mut response: Response = request.send().await.map_err(broken)?;
        let limit = MORE_BYTES + texts * self.settings.dimensions * NUMBER_BYTES;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            if body.len() + chunk.len() > limit {
                return Err(Failure::Wrong(format!(
                    "its answer is longer than {limit} bytes; it was not read on"
                )));
            }
            body.extend_from_slice(&chunk);
        }
        Ok((response.status(), body))
    }

    /// What a response with `status` and `body` means.
    fn refusal(&self, status: StatusCode, body: &str) -> Failure {
        let number = status.as_u16();
        if matches!(number, 401 | 403) {
            // The body is not quoted, because some servers repeat the refused key.
            let set = if self.settings.key.is_some() { "was refused" } else { "is not set" };
            return Failure::Wrong(format!(
                "it asks for a valid key: TREE_AGENT_EMBEDDINGS_KEY {set} ({number})"
            ));
        }
        let quoted = one_line(prefix(body, QUOTED));
        let quoted = self.settings.key.as_ref().map_or_else(|| quoted.clone(), |key| key.redact(&quoted));
        let message = format!("HTTP {number}: {quoted}");
        match number {
            429 | 500.. => Failure::Passing(message),
            400 | 413 | 422 => Failure::Refused(message),
            _ => Failure::Wrong(message),
        }
    }

    /// The vectors of `answer` in the order of the `count` texts.
    fn vectors(&self, answer: Answer, count: usize) -> Result<Vec<Vec<i8>>, Failure> {
        let (got, dimensions) = (answer.data.len(), self.settings.dimensions);
        let mut vectors = vec![None; count];
        for (position, item) in answer.data.into_iter().enumerate() {
            if item.embedding.len() != dimensions {
                return Err(Failure::Wrong(format!(
                    "its vectors have {} dimensions and not {dimensions}; set TREE_AGENT_EMBEDDINGS_MODEL={}@{}",
                    item.embedding.len(),
                    self.settings.model,
                    item.embedding.len()
                )));
            }
            let vector = quantised(&item.embedding).ok_or_else(|| {
                Failure::Wrong("a vector is zero or has numbers that are not finite".into())
            })?;
            if let Some(place) = vectors.get_mut(item.index.unwrap_or(position)) {
                *place = Some(vector);
            }
        }
        let whole: Option<Vec<_>> = vectors.into_iter().collect();
        whole.filter(|_| got == count).ok_or_else(|| {
            Failure::Wrong(format!("it answered {got} vectors for {count} texts, or not one for each"))
        })
    }

    /// The vector of `text`, of its beginning if the server refuses the whole. It is empty if the server takes other
    /// texts and not this one, which must not keep out those after it.
    async fn ask_one(&self, text: &str) -> Result<Vec<i8>, Failure> {
        for bytes in [BYTES].into_iter().chain(SHORTER) {
            match self.ask(&[prefix(text, bytes)]).await {
                Err(Failure::Refused(_)) => {}
                answer => return answer.map(|vectors| vectors.into_iter().next().unwrap_or_default()),
            }
        }
        self.ask(&["test"]).await.map(|_| Vec::new())
    }

    /// A failure, with the server's name.
    fn error(&self, failure: Failure) -> EmbedError {
        let (Failure::Passing(message) | Failure::Refused(message) | Failure::Wrong(message)) = failure;
        EmbedError(format!("the embedding server {} cannot be used: {message}", self.settings.url))
    }
}

#[async_trait]
impl Embedder for Remote {
    fn model(&self) -> &str {
        &self.name
    }

    fn dimensions(&self) -> usize {
        self.settings.dimensions
    }

    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<i8>>, EmbedError> {
        let texts: Vec<&str> = texts.iter().map(|text| prefix(text, BYTES)).collect();
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in texts.chunks(BATCH) {
            match self.ask(batch).await {
                Ok(more) => vectors.extend(more),
                Err(Failure::Refused(_)) => {
                    for text in batch {
                        vectors.push(self.ask_one(text).await.map_err(|failure| self.error(failure))?);
                    }
                }
                Err(failure) => return Err(self.error(failure)),
            }
        }
        Ok(vectors)
    }
}
