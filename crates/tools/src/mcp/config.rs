//! The configuration of MCP servers: a TOML file, checked whole before anything is started.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::{Config, File, FileFormat};
use http::{HeaderName, HeaderValue, Uri};
use serde::Deserialize;
use tree_agent_contract::{ProjectId, RunContext, Scope};
use tree_agent_runtime::channel::PlaintextToken;
use tree_agent_security::Roots;

use super::names;
use crate::OUTPUT_BYTES;

/// Maximum of servers in one file.
const SERVERS: usize = 32;

/// Headers that hold secrets, whatever the server.
const SECRET_HEADERS: [&str; 5] = ["authorization", "cookie", "proxy-authorization", "x-api-key", "api-key"];

/// The MCP servers whose tools join the built-in ones.
#[derive(Clone, Debug, Default)]
pub struct McpConfig {
    pub(crate) servers: Vec<ServerConfig>,
    /// The authorities that vouch for servers over https://.
    pub(crate) roots: Roots,
}

/// One server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServerConfig {
    /// The prefix of its tools' names.
    pub(crate) name: String,
    pub(crate) transport: TransportConfig,
    /// The scopes in which its tools are offered.
    pub(crate) scopes: Vec<Scope>,
    /// Its tools are offered only to runs that can see one of these projects; to every run if empty.
    pub(crate) projects: Vec<ProjectId>,
    /// Only these tools are offered, by the server's own names; all if none.
    pub(crate) tools: Option<BTreeSet<String>>,
    /// Time limit of one call, including the wait for its turn.
    pub(crate) timeout: Duration,
    /// Time limit for the server to start and list its tools.
    pub(crate) start_timeout: Duration,
    /// Bytes of one answer that a role receives. The whole answer is kept as a document.
    pub(crate) output_bytes: usize,
    /// Maximum of calls in flight. Further calls wait.
    pub(crate) max_calls: usize,
    /// How long an answer of a tool that only reads is used again in its run; zero for never.
    pub(crate) reuse: Duration,
}

/// How a server is reached. Its `Debug` form shows nothing that may be secret.
#[derive(Clone, PartialEq)]
pub(crate) enum TransportConfig {
    /// A child process. It is started without a shell, with these variables and a few harmless ones.
    Stdio { program: String, args: Vec<String>, env: BTreeMap<String, String>, cwd: Option<PathBuf> },
    /// Streamable HTTP.
    Http {
        url: Uri,
        headers: Vec<(HeaderName, HeaderValue)>,
        /// The variable of the bearer token among the headers.
        bearer_env: Option<String>,
    },
}

impl fmt::Debug for TransportConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio { program, .. } => write!(f, "stdio {program:?}"),
            Self::Http { url, .. } => write!(f, "http {:?}", url.authority().map(|a| a.host())),
        }
    }
}

impl ServerConfig {
    /// True if runs in `context` are offered the tools.
    pub(crate) fn offers(&self, context: &RunContext) -> bool {
        let project = self.projects.is_empty() || self.projects.iter().any(|id| context.allows(*id));
        project && self.scopes.contains(&context.scope)
    }
}

/// A server as written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    command: Option<Vec<String>>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    pass_env: Vec<String>,
    cwd: Option<PathBuf>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    bearer_env: Option<String>,
    scopes: Option<Vec<String>>,
    #[serde(default)]
    projects: Vec<String>,
    tools: Option<BTreeSet<String>>,
    timeout_seconds: Option<i64>,
    start_timeout_seconds: Option<i64>,
    output_bytes: Option<i64>,
    max_calls: Option<i64>,
    reuse_seconds: Option<i64>,
}

impl McpConfig {
    /// Reads and checks the file at `path`. It reports all errors at once, each with its field and remedy.
    pub fn load(path: &Path) -> Result<Self, Vec<String>> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| vec![format!("{} cannot be read: {error}", path.display())])?;
        Self::parse(&text, |name| std::env::var(name).ok())
    }

    /// Checks the text of a file; `env` gives the variables that it passes on by name.
    pub fn parse(text: &str, env: impl Fn(&str) -> Option<String>) -> Result<Self, Vec<String>> {
        let file = Config::builder().add_source(File::from_str(text, FileFormat::Toml)).build();
        let mut table = match file.and_then(Config::try_deserialize::<BTreeMap<String, config::Value>>) {
            Ok(table) => table,
            Err(error) => return Err(vec![format!("the file is no TOML: {error}")]),
        };
        let mut check = Check { env: &env, problems: Vec::new() };
        let servers =
            table.remove("servers").map(config::Value::into_table).unwrap_or_else(|| Ok(Default::default()));
        for key in table.keys() {
            check.problem(key, "is unknown; the file holds [servers.NAME] tables");
        }
        let servers: BTreeMap<String, config::Value> = match servers {
            Ok(servers) => servers.into_iter().collect(),
            Err(_) => {
                check.problem("servers", "must be a table of servers, such as [servers.files]");
                BTreeMap::new()
            }
        };
        if servers.len() > SERVERS {
            check.problem(
                "servers",
                format!("names {} servers; at most {SERVERS} are allowed", servers.len()),
            );
        }
        let servers = servers.into_iter().filter_map(|(name, value)| check.server(name, value)).collect();
        if check.problems.is_empty() {
            Ok(Self { servers, roots: Roots::default() })
        } else {
            Err(check.problems)
        }
    }

    /// The same, unless a secret would be sent over plain HTTP to another machine.
    pub fn without_plaintext_tokens(self) -> Result<Self, Vec<String>> {
        let refused = self.servers.iter().filter_map(|server| {
            let TransportConfig::Http { url, headers, bearer_env } = &server.transport else { return None };
            let (field, secret) = match bearer_env {
                Some(name) => ("bearer_env", format!("the token in {name}")),
                None if headers.iter().any(|(name, _)| SECRET_HEADERS.contains(&name.as_str())) => {
                    ("headers", "a secret header".to_owned())
                }
                None => return None,
            };
            let refused = PlaintextToken::check(&secret, url).err()?;
            Some(format!("servers.{}.{field}: {refused}", server.name))
        });
        let refused: Vec<String> = refused.collect();
        if refused.is_empty() { Ok(self) } else { Err(refused) }
    }

    /// The same, with servers over https:// that these authorities vouch for, and no others.
    #[must_use]
    pub fn trusting(self, roots: Roots) -> Self {
        Self { roots, ..self }
    }

    /// True if there is no server.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }
}

struct Check<'a> {
    env: &'a dyn Fn(&str) -> Option<String>,
    problems: Vec<String>,
}

impl Check<'_> {
    fn problem(&mut self, field: &str, text: impl fmt::Display) {
        self.problems.push(format!("{field} {text}"));
    }

    fn server(&mut self, name: String, value: config::Value) -> Option<ServerConfig> {
        let at = format!("servers.{name}");
        if !names::is_server(&name) {
            let rule = "is no name for a server: 1 to 24 lower-case letters, digits, - and single _, beginning with a letter";
            self.problem(&at, rule);
        }
        let raw: Raw = match value.try_deserialize() {
            Ok(raw) => raw,
            Err(error) => {
                self.problem(&at, format_args!("is wrong: {error}"));
                return None;
            }
        };
        let scopes = match &raw.scopes {
            None => Scope::ALL.to_vec(),
            Some(names) => names
                .iter()
                .enumerate()
                .filter_map(|(i, name)| {
                    let found = Scope::ALL.iter().copied().find(|scope| scope.as_str() == name);
                    if found.is_none() {
                        let text = format_args!("is {name:?}; use global, project or multi_project");
                        self.problem(&format!("{at}.scopes[{i}]"), text);
                    }
                    found
                })
                .collect(),
        };
        let mut projects = Vec::new();
        for (i, text) in raw.projects.iter().enumerate() {
            match text.parse() {
                Ok(id) => projects.push(id),
                Err(_) => self.problem(
                    &format!("{at}.projects[{i}]"),
                    format_args!("is {text:?}; use a project's id, a UUID"),
                ),
            }
        }
        let timeout = self.number(&at, "timeout_seconds", raw.timeout_seconds, 60, 1..=3_600);
        let start = self.number(&at, "start_timeout_seconds", raw.start_timeout_seconds, 20, 1..=600);
        let output = self.number(&at, "output_bytes", raw.output_bytes, 32 * 1024, 256..=OUTPUT_BYTES as i64);
        let calls = self.number(&at, "max_calls", raw.max_calls, 8, 1..=256);
        let reuse = self.number(&at, "reuse_seconds", raw.reuse_seconds, 600, 0..=86_400);
        let transport = self.transport(&at, &raw)?;
        Some(ServerConfig {
            name,
            transport,
            scopes,
            projects,
            tools: raw.tools,
            timeout: Duration::from_secs(timeout),
            start_timeout: Duration::from_secs(start),
            output_bytes: output as usize,
            max_calls: calls as usize,
            reuse: Duration::from_secs(reuse),
        })
    }

    fn number(
        &mut self,
        at: &str,
        field: &str,
        value: Option<i64>,
        default: i64,
        range: std::ops::RangeInclusive<i64>,
    ) -> u64 {
        let value = value.unwrap_or(default);
        if !range.contains(&value) {
            let text = format_args!("is {value}; use {} to {}", range.start(), range.end());
            self.problem(&format!("{at}.{field}"), text);
        }
        value.max(0) as u64
    }

    fn transport(&mut self, at: &str, raw: &Raw) -> Option<TransportConfig> {
        let only = |check: &mut Self, given: &[(&str, bool)], kind: &str| {
            for (field, given) in given {
                if *given {
                    check.problem(
                        &format!("{at}.{field}"),
                        format_args!("has no meaning for a server with {kind}"),
                    );
                }
            }
        };
        match (&raw.command, &raw.url) {
            (Some(command), None) => {
                let given = [("headers", !raw.headers.is_empty()), ("bearer_env", raw.bearer_env.is_some())];
                only(self, &given, "a command");
                self.stdio(at, command, raw)
            }
            (None, Some(url)) => {
                let given = [
                    ("env", !raw.env.is_empty()),
                    ("pass_env", !raw.pass_env.is_empty()),
                    ("cwd", raw.cwd.is_some()),
                ];
                only(self, &given, "a url");
                self.http(at, url, raw)
            }
            (Some(_), Some(_)) => {
                self.problem(at, "has a command and a url; keep the one by which the server is reached");
                None
            }
            (None, None) => {
                self.problem(at, "needs a command (a child process) or a url (streamable HTTP)");
                None
            }
        }
    }

    fn stdio(&mut self, at: &str, command: &[String], raw: &Raw) -> Option<TransportConfig> {
        let mut env = raw.env.clone();
        for (i, name) in raw.pass_env.iter().enumerate() {
            match (self.env)(name) {
                Some(value) => drop(env.insert(name.clone(), value)),
                None => self.problem(
                    &format!("{at}.pass_env[{i}]"),
                    format_args!("names {name}, which is not set; set it, or remove it from the list"),
                ),
            }
        }
        if let Some(cwd) = raw.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
            self.problem(&format!("{at}.cwd"), format_args!("is {}, which is no folder", cwd.display()));
        }
        match command.split_first() {
            Some((program, args)) if !program.trim().is_empty() => Some(TransportConfig::Stdio {
                program: program.clone(),
                args: args.to_vec(),
                env,
                cwd: raw.cwd.clone(),
            }),
            _ => {
                self.problem(&format!("{at}.command"), "is empty; use [\"program\", \"argument\", …]");
                None
            }
        }
    }

    fn http(&mut self, at: &str, url: &str, raw: &Raw) -> Option<TransportConfig> {
        let mut headers = Vec::new();
        let bearer = raw.bearer_env.as_ref().and_then(|name| match (self.env)(name) {
            Some(token) => Some(("authorization".to_owned(), format!("Bearer {}", token.trim()))),
            None => {
                self.problem(
                    &format!("{at}.bearer_env"),
                    format_args!("names {name}, which is not set; set it"),
                );
                None
            }
        });
        for (name, value) in raw.headers.clone().into_iter().chain(bearer) {
            match (name.parse::<HeaderName>(), HeaderValue::from_str(&value)) {
                (Ok(name), Ok(mut value)) => {
                    value.set_sensitive(true);
                    headers.push((name, value));
                }
                // The value may be secret, so it is not repeated.
                _ => self.problem(&format!("{at}.headers.{name}"), "is no valid HTTP header"),
            }
        }
        match url.parse::<Uri>() {
            Ok(uri)
                if matches!(uri.scheme_str(), Some("http" | "https"))
                    && uri.authority().is_some_and(|a| !a.as_str().contains('@')) =>
            {
                Some(TransportConfig::Http { url: uri, headers, bearer_env: raw.bearer_env.clone() })
            }
            _ => {
                self.problem(
                    &format!("{at}.url"),
                    "is no http(s) URL such as http://127.0.0.1:9000/mcp (without a password; use bearer_env)",
                );
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
