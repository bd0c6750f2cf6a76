//! Connections to other services: trusted authorities, tokens, and load balancing over replicas.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use http::Uri;
use opentelemetry::propagation::Injector;
use tokio::sync::mpsc::Sender;
use tonic::metadata::{MetadataKey, MetadataMap};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::channel::Change;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tree_agent_security::{Roots, install_crypto_provider};

use super::credentials::Credentials;
use crate::errors::{self, chain};
use crate::problems::Problems;
use crate::urls::{host, is_https, is_server_url};

pub use crate::urls::{api_url, is_loopback};

/// A channel to all replicas of a service. Each call goes to one of them, with the trace context and the token, if
/// there is one.
///
/// A call to a replica that is gone fails with `UNAVAILABLE` (or `UNKNOWN`, if its connection broke). Repeat it, and
/// another replica gets it. While no replica is known, calls wait, so give them a deadline.
pub type Peers = InterceptedService<Channel, RequestMetadata>;

const RESOLVE_EVERY: Duration = Duration::from_secs(5);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Flow control windows. They are large, so that one slow stream does not starve the others on its connection.
const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;

/// How clients connect to other services.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ConnectArgs {
    /// A PEM file with the certificate authorities to trust, instead of the system's, for https:// and rediss:// URLs
    #[arg(long, global = true, env = "TREE_AGENT_CA_FILE", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Send tokens and keys over plain http:// to other machines too; anyone who listens there can then use them
    #[arg(
        long,
        global = true,
        env = "TREE_AGENT_ALLOW_PLAINTEXT_TOKEN",
        value_parser = BoolishValueParser::new()
    )]
    pub allow_plaintext_token: bool,
}

impl ConnectArgs {
    /// Reads the file of authorities. Problems are added to `problems`.
    pub fn check(&self, problems: &mut Problems) -> Connector {
        let file = self.ca_file.as_deref().filter(|path| !path.as_os_str().is_empty());
        let roots = file.map(|path| {
            Roots::file(path).unwrap_or_else(|error| {
                problems.add("TREE_AGENT_CA_FILE", chain(&error));
                Roots::default()
            })
        });
        Connector {
            roots: roots.unwrap_or_default(),
            credentials: Credentials::default(),
            allow_plaintext_token: self.allow_plaintext_token,
        }
    }
}

/// Connects to other services. By default it trusts the system's certificate authorities and sends no token. Cheap to
/// clone.
#[derive(Clone, Debug, Default)]
pub struct Connector {
    roots: Roots,
    credentials: Credentials,
    allow_plaintext_token: bool,
}

/// Why a URL cannot be connected to.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// It is not a URL of a server.
    #[error("is not an http:// or https:// URL with a host")]
    Url,
    /// The token would be sent unencrypted.
    #[error(transparent)]
    Plaintext(#[from] PlaintextToken),
    /// The server does not answer, or its certificate is not accepted.
    #[error("no connection")]
    Transport(#[from] tonic::transport::Error),
}

/// A secret is not sent over plain HTTP to another machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{secret} would cross the network unencrypted to {host}; use an https:// URL, or allow it with \
     --allow-plaintext-token (TREE_AGENT_ALLOW_PLAINTEXT_TOKEN=on)"
)]
pub struct PlaintextToken {
    secret: String,
    host: String,
}

impl PlaintextToken {
    /// Fails if `secret`, as people call it, must not be sent to `url` unless the operator allows it.
    ///
    /// # Errors
    /// When `url` is neither https:// nor on this machine.
    pub fn check(secret: &str, url: &Uri) -> Result<(), Self> {
        match is_https(url) || is_loopback(url) {
            true => Ok(()),
            false => Err(Self { secret: secret.to_owned(), host: host(url).to_owned() }),
        }
    }
}

impl Connector {
    /// Sends the token of `credentials` with each call.
    #[must_use]
    pub fn with_credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = credentials;
        self
    }

    /// Sends the token over plain HTTP too, for servers within this process.
    #[must_use]
    pub const fn allow_plaintext_token(mut self) -> Self {
        self.allow_plaintext_token = true;
        self
    }

    /// Whether tokens and keys may be sent over plain HTTP to other machines.
    pub const fn allows_plaintext_token(&self) -> bool {
        self.allow_plaintext_token
    }

    /// The credentials that are sent.
    pub const fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// The trusted certificate authorities.
    pub const fn roots(&self) -> &Roots {
        &self.roots
    }

    /// Adds a URL to which the token must not be sent to `problems`, under `name`.
    pub fn check_urls(&self, name: &str, urls: &[Uri], problems: &mut Problems) {
        if let Err(refused) = self.check_plaintext(urls) {
            problems.add(name, refused);
        }
    }

    fn check_plaintext(&self, urls: &[Uri]) -> Result<(), PlaintextToken> {
        if self.credentials.is_none() || self.allow_plaintext_token {
            return Ok(());
        }
        urls.iter().try_for_each(|url| PlaintextToken::check("a token", url))
    }

    /// A channel to `urls`, connected lazily. A host name stands for all addresses that it resolves to. It is resolved
    /// again every five seconds, and addresses that disappear are dropped. If the token must not be sent to one of the
    /// URLs, every call fails with the reason. Must be called in a runtime.
    pub fn balanced(&self, urls: &[Uri]) -> Peers {
        self.balanced_over(urls, 1)
    }

    /// Like [`Connector::balanced`], with `connections` to each replica. A server limits the streams of a connection,
    /// so a client with more streams than that needs more connections.
    pub fn balanced_over(&self, urls: &[Uri], connections: usize) -> Peers {
        let (channel, changes) = Channel::balance_channel::<Replica>(urls.len() * connections + 64);
        for (index, url) in (0..connections).flat_map(|_| urls).enumerate() {
            let replicas = Replicas::of(index, url, self);
            match replicas.host.parse::<IpAddr>() {
                Ok(ip) => {
                    // There is room for every URL.
                    let _ = changes.try_send(replicas.insert(SocketAddr::new(ip, replicas.port)));
                }
                Err(_) => {
                    tokio::spawn(replicas.follow(changes.clone()));
                }
            }
        }
        InterceptedService::new(channel, self.metadata(urls))
    }

    /// The addresses behind `url` now, each with a connection of its own, made lazily.
    ///
    /// # Errors
    /// If its host cannot be resolved.
    pub async fn replicas(&self, url: &Uri) -> std::io::Result<Vec<(SocketAddr, Peers)>> {
        let replicas = Replicas::of(0, url, self);
        let addresses = tokio::net::lookup_host((replicas.host.as_str(), replicas.port)).await?;
        let metadata = self.metadata(std::slice::from_ref(url));
        let one = |address| {
            let channel = replicas.endpoint(address).connect_lazy();
            (address, InterceptedService::new(channel, metadata.clone()))
        };
        Ok(addresses.map(one).collect())
    }

    /// A single connection without balancing, made lazily.
    pub fn single(&self, url: Uri) -> Peers {
        let metadata = self.metadata(std::slice::from_ref(&url));
        InterceptedService::new(self.endpoint(url).connect_lazy(), metadata)
    }

    /// A single connection for the client of a library, which sends what it likes. If `secret` names something that it
    /// sends, fails when that must not be sent to `url`. Made lazily.
    pub fn lent(&self, url: &str, secret: Option<&str>) -> Result<Channel, ConnectError> {
        let url: Uri = url.parse().ok().filter(is_server_url).ok_or(ConnectError::Url)?;
        if let Some(secret) = secret.filter(|_| !self.allow_plaintext_token) {
            PlaintextToken::check(secret, &url)?;
        }
        Ok(self.endpoint(url).connect_lazy())
    }

    /// A single connection, made now. Fails if the server does not answer or its certificate is not accepted.
    pub async fn connect(&self, url: &str) -> Result<Peers, ConnectError> {
        let url: Uri = url.parse().ok().filter(is_server_url).ok_or(ConnectError::Url)?;
        let urls = std::slice::from_ref(&url);
        self.check_plaintext(urls)?;
        let metadata = self.metadata(urls);
        Ok(InterceptedService::new(self.endpoint(url).connect().await?, metadata))
    }

    fn metadata(&self, urls: &[Uri]) -> RequestMetadata {
        let refused = self.check_plaintext(urls).err();
        RequestMetadata { credentials: self.credentials.clone(), refused: refused.map(Arc::new) }
    }

    fn endpoint(&self, url: Uri) -> Endpoint {
        let tls = is_https(&url).then(|| self.tls(host(&url)));
        tuned(Endpoint::from(url), tls)
    }

    /// The TLS settings for a server whose certificate must name `host`.
    fn tls(&self, host: &str) -> ClientTlsConfig {
        install_crypto_provider();
        ClientTlsConfig::new().domain_name(host).trust_anchors(self.roots.store().roots.iter().cloned())
    }
}

/// A channel to `urls` by a default [`Connector`].
pub fn balanced(urls: &[Uri]) -> Peers {
    Connector::default().balanced(urls)
}

/// A single connection by a default [`Connector`].
pub fn single(url: Uri) -> Peers {
    Connector::default().single(url)
}

/// Adds the trace context and the token to each call.
#[derive(Clone, Debug)]
pub struct RequestMetadata {
    credentials: Credentials,
    refused: Option<Arc<PlaintextToken>>,
}

impl Interceptor for RequestMetadata {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(refused) = &self.refused {
            let message = refused.to_string();
            return Err(errors::status(Code::FailedPrecondition, "PLAINTEXT_TOKEN", message));
        }
        let context = tracing::Span::current().context();
        opentelemetry::global::get_text_map_propagator(|propagator| {
            propagator.inject_context(&context, &mut Outgoing(request.metadata_mut()));
        });
        self.credentials.call(request)
    }
}

/// The metadata of a call, to which the trace context is added.
struct Outgoing<'a>(&'a mut MetadataMap);

impl Injector for Outgoing<'_> {
    fn set(&mut self, key: &str, value: String) {
        if let (Ok(key), Ok(value)) = (MetadataKey::from_bytes(key.as_bytes()), value.parse()) {
            self.0.insert(key, value);
        }
    }
}

/// One connection to a replica: which of the URLs it came from, counted anew for each connection, and its address.
type Replica = (usize, SocketAddr);

/// The replicas behind one URL.
struct Replicas {
    index: usize,
    url: Uri,
    host: String,
    port: u16,
    tls: Option<ClientTlsConfig>,
}

impl Replicas {
    fn of(index: usize, url: &Uri, connector: &Connector) -> Self {
        let host = host(url).to_owned();
        let tls = is_https(url).then(|| connector.tls(&host));
        let port = url.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 });
        Self { index, url: url.clone(), host, port, tls }
    }

    /// Keeps the addresses of the host name up to date until the channel is dropped.
    async fn follow(self, changes: Sender<Change<Replica, Endpoint>>) {
        let mut known = HashSet::new();
        loop {
            match tokio::net::lookup_host((self.host.as_str(), self.port)).await {
                Ok(addresses) => {
                    let now: HashSet<_> = addresses.collect();
                    for address in now.difference(&known) {
                        if changes.send(self.insert(*address)).await.is_err() {
                            return;
                        }
                    }
                    for address in known.difference(&now) {
                        if changes.send(Change::Remove((self.index, *address))).await.is_err() {
                            return;
                        }
                    }
                    known = now;
                }
                // The known addresses stay in use: a name service that is down must not take the cluster down.
                Err(error) => tracing::warn!(host = self.host, "cannot resolve the host: {error}"),
            }
            tokio::select! {
                () = changes.closed() => return,
                () = tokio::time::sleep(RESOLVE_EVERY) => {}
            }
        }
    }

    fn insert(&self, address: SocketAddr) -> Change<Replica, Endpoint> {
        Change::Insert((self.index, address), self.endpoint(address))
    }

    fn endpoint(&self, address: SocketAddr) -> Endpoint {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let at = Uri::builder().scheme(scheme).authority(address.to_string()).path_and_query("/").build();
        let endpoint = Endpoint::from(at.expect("an address is a valid authority")).origin(self.url.clone());
        tuned(endpoint, self.tls.clone())
    }
}

fn tuned(endpoint: Endpoint, tls: Option<ClientTlsConfig>) -> Endpoint {
    let endpoint = endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    match tls {
        Some(tls) => endpoint.tls_config(tls).expect("the host of a URL is a name or an address"),
        None => endpoint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Uri {
        text.parse().unwrap()
    }

    #[tokio::test]
    async fn a_token_is_not_sent_in_clear_to_another_machine() {
        let connector = Connector::default().with_credentials(Credentials::fixed("secret").unwrap());
        let refused = |connector: &Connector, text: &str| connector.check_plaintext(&[url(text)]).is_err();
        assert!(refused(&connector, "http://gateway:7400"));
        for good in ["https://gateway:7400", "http://127.0.0.1:7400", "http://localhost:7400"] {
            assert!(!refused(&connector, good), "{good}");
        }
        assert!(!refused(&Connector::default(), "http://gateway:7400"), "there is no token");
        let allowed = Connector { allow_plaintext_token: true, ..connector.clone() };
        assert!(!refused(&allowed, "http://gateway:7400"));

        let mut problems = Problems::default();
        connector.check_urls("TREE_AGENT_GATEWAY", &[url("http://gateway:7400")], &mut problems);
        let text = problems.finish().unwrap_err().to_string();
        assert!(
            text.contains("TREE_AGENT_GATEWAY: a token would cross the network unencrypted to gateway"),
            "{text}"
        );
        assert!(text.contains("--allow-plaintext-token"), "{text}");
        // No call reaches the network, even if nobody checked the URLs.
        let mut metadata = connector.metadata(&[url("http://gateway:7400"), url("http://127.0.0.1:1")]);
        assert_eq!(metadata.call(Request::new(())).unwrap_err().code(), Code::FailedPrecondition);
        assert!(matches!(connector.connect("http://192.0.2.1:7400").await, Err(ConnectError::Plaintext(_))));
    }

    #[tokio::test]
    async fn what_is_not_the_url_of_a_server_is_refused() {
        for bad in ["", "127.0.0.1:7400", "ftp://a", "http://", "/path", "https://-_-"] {
            assert!(matches!(Connector::default().connect(bad).await, Err(ConnectError::Url)), "{bad}");
        }
    }
}
