//! A connection to a server: a child process or streamable HTTP, and the handshake.

use std::error::Error;
use std::process::Stdio;
use std::sync::Arc;

use http::Uri;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation};
use rmcp::service::{ClientInitializeError, NotificationContext, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::{ClientHandler, RoleClient, ServiceError, ServiceExt};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::Notify;

use super::config::TransportConfig;
use tree_agent_contract::error::chain;
use tree_agent_contract::text::{one_line, prefix};
use tree_agent_runtime::channel::is_loopback;
use tree_agent_security::Roots;

/// Maximum of bytes of one message from a server. A longer one is dropped, and its call runs into its time limit.
const MESSAGE_BYTES: usize = 8 * 1024 * 1024;
/// Variables that every child process gets if they are set: those for paths and for the locale.
const PASSED: &[&str] = &["PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"];

/// A connection that answered the handshake.
pub(super) struct Connection {
    pub(super) service: RunningService<RoleClient, Handler>,
    /// It is killed when it is dropped.
    pub(super) child: Option<Child>,
}

/// Handles what servers send besides answers. A notice that the tools have changed is accepted; all requests are
/// refused.
pub(super) struct Handler {
    changed: Arc<Notify>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let ours = Implementation::new("tree-agent", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), ours)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}

/// Connects and performs the handshake. `changed` is notified when the server's tools change.
pub(super) async fn connect(
    name: &str,
    config: &TransportConfig,
    roots: &Roots,
    changed: Arc<Notify>,
) -> Result<Connection, String> {
    let handler = Handler { changed };
    match config {
        TransportConfig::Stdio { program, args, env, cwd } => {
            let mut command = Command::new(program);
            command.args(args).env_clear().kill_on_drop(true);
            command.envs(PASSED.iter().filter_map(|name| Some((name, std::env::var_os(name)?)))).envs(env);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            if let Some(cwd) = cwd {
                command.current_dir(cwd);
            }
            let mut child =
                command.spawn().map_err(|error| format!("{program:?} cannot be started: {error}"))?;
            let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
                return Err("the child process has no pipes".into());
            };
            if let Some(stderr) = child.stderr.take() {
                tokio::spawn(log(name.to_owned(), stderr));
            }
            let transport = AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(MESSAGE_BYTES);
            let service = handler.serve(transport).await.map_err(|error| brief(&error))?;
            Ok(Connection { service, child: Some(child) })
        }
        TransportConfig::Http { url, headers, .. } => {
            let mut config = StreamableHttpClientTransportConfig::with_uri(url.to_string());
            config.custom_headers = headers.iter().cloned().collect();
            config.max_sse_event_size = MESSAGE_BYTES;
            let transport = StreamableHttpClientTransport::with_client(client(url, roots)?, config);
            let service = handler.serve(transport).await.map_err(|error| brief(&error))?;
            Ok(Connection { service, child: None })
        }
    }
}

/// The client for a server at `url`, which `roots` must vouch for if it is https://. No proxy sees what is for this
/// machine. A redirect is followed within the server only, and only if the message stays whole: headers hold
/// secrets.
fn client(url: &Uri, roots: &Roots) -> Result<reqwest::Client, String> {
    const REDIRECTS: usize = 10;
    let within = reqwest::redirect::Policy::custom(|attempt| {
        let is_whole = matches!(attempt.status().as_u16(), 307 | 308);
        let is_same =
            attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
        match is_whole && is_same && attempt.previous().len() <= REDIRECTS {
            true => attempt.follow(),
            false => attempt.stop(),
        }
    });
    // A connection that is used again may wait for a delayed acknowledgement.
    let mut client = reqwest::Client::builder()
        .tls_backend_preconfigured(roots.http_client_config())
        .pool_max_idle_per_host(0)
        .redirect(within);
    if is_loopback(url) {
        client = client.no_proxy();
    }
    client.build().map_err(|error| format!("no HTTP client can be made: {error}"))
}

/// An error of the library with its causes, in one line of limited length.
pub(super) fn brief(error: &(dyn Error + 'static)) -> String {
    const BYTES: usize = 400;
    one_line(prefix(&without_queries(&chain(cause(error))), BYTES))
}

/// What made a message fail, if `error` says that one did. The library's own words put names of its types before the
/// cause, and leave out why a request failed, for example that nobody vouches for the server.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let transport = match (error.downcast_ref(), error.downcast_ref()) {
        (Some(ClientInitializeError::TransportError { error, .. }), _) => error,
        (_, Some(ServiceError::TransportSend(error))) => error,
        _ => return error,
    };
    match transport.error.downcast_ref() {
        Some(StreamableHttpError::<reqwest::Error>::Client(request)) => request,
        _ => &*transport.error,
    }
}

/// `text` without the queries of URLs, because they may hold keys.
fn without_queries(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let end = rest[at..].find(char::is_whitespace).map_or(rest.len(), |length| at + length);
        let url = &rest[..end];
        match url[at..].find('?') {
            Some(query) => {
                // What follows the URL in the sentence.
                let behind = url.trim_end_matches([')', ':', ',', '.', ';']).len();
                out.push_str(&url[..at + query]);
                out.push_str("?…");
                out.push_str(&url[behind.max(at + query + 1)..]);
            }
            None => out.push_str(url),
        }
        rest = &rest[end..];
    }
    out + rest
}

/// Copies a child process's stderr into our own log, piece by piece. It may contain anything, so it is logged only at
/// level debug and is never part of an error that a role or an event shows.
async fn log(server: String, mut stderr: ChildStderr) {
    let mut piece = [0; 2_048];
    while let Ok(read @ 1..) = stderr.read(&mut piece).await {
        tracing::debug!(server, "stderr: {}", String::from_utf8_lossy(&piece[..read]).trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_cannot_be_reached_is_described_by_the_cause_and_without_secrets() {
        let url = "http://127.0.0.1:1/mcp?key=SECRET".parse().unwrap();
        let config = TransportConfig::Http { url, headers: Vec::new(), bearer_env: None };
        let outcome = connect("web", &config, &Roots::default(), Arc::default()).await;
        let Err(error) = outcome else { panic!("nobody listens there") };
        assert!(error.contains("refused") && error.contains("/mcp?…"), "{error}");
        assert!(!error.contains("SECRET") && !error.contains("rmcp"), "{error}");
    }
}
