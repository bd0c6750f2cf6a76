//! Which vectors the operator wants, from the command line and the environment.

use std::path::PathBuf;
use std::sync::Arc;

use tree_agent_runtime::channel::{Connector, PlaintextToken, api_url};
use tree_agent_runtime::config::{Problems, user_data_folder};
use tree_agent_security::ApiKey;

use crate::files::{FilesError, MINILM, check_files};
use crate::local::Local;
use crate::remote::{Remote, RemoteSettings};
use crate::{EmbedError, Embedder};

const MODE: &str = "TREE_AGENT_EMBEDDINGS";
const MODEL: &str = "TREE_AGENT_EMBEDDINGS_MODEL";
const KEY: &str = "TREE_AGENT_EMBEDDINGS_KEY";

/// Arguments of programs that search documents.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Vectors for search")]
pub struct EmbeddingArgs {
    /// What makes vectors of passages: none, local (the model that `make models` installs), auto (local if it is
    /// installed, else none), or the URL of a server with /v1/embeddings, such as http://127.0.0.1:8080/v1
    #[arg(long, env = "TREE_AGENT_EMBEDDINGS", value_name = "MODE", default_value = "auto")]
    pub embeddings: String,
    /// The model of that server and its dimensions, such as text-embedding-3-small@1536
    #[arg(
        long,
        env = "TREE_AGENT_EMBEDDINGS_MODEL",
        value_name = "MODEL@N",
        default_value = "",
        hide_default_value = true
    )]
    pub embeddings_model: String,
    /// The folder of the local model [default: tree-agent/models in the user's data folder]
    #[arg(
        long,
        env = "TREE_AGENT_MODELS_DIR",
        value_name = "DIR",
        default_value = "",
        hide_default_value = true
    )]
    pub models_dir: String,
    /// MiB of vectors that are kept in memory: about 400 bytes for each passage of the local model. A search that needs
    /// more goes by words.
    #[arg(long, env = "TREE_AGENT_VECTORS_MIB", value_name = "MIB", default_value = "512")]
    pub vectors_mib: String,
}

/// [`EmbeddingArgs`], checked.
#[derive(Clone, Debug, Default)]
pub struct EmbeddingSettings(Mode);

#[derive(Clone, Debug, Default)]
enum Mode {
    #[default]
    None,
    Auto(PathBuf),
    Local(PathBuf),
    Remote(Box<RemoteSettings>),
}

impl EmbeddingArgs {
    /// The folder of the local model; none if none is set and the user has no data folder.
    pub fn models_dir(&self) -> Option<PathBuf> {
        match self.models_dir.as_str() {
            "" => user_data_folder().map(|data| data.join("models")),
            dir => Some(dir.into()),
        }
    }

    /// Bytes of vectors that are kept in memory. What is wrong is noted in `problems`.
    pub fn vector_bytes(&self, problems: &mut Problems) -> usize {
        (problems.number("TREE_AGENT_VECTORS_MIB", &self.vectors_mib, 1..=1 << 20) as usize) << 20
    }

    /// Checks the arguments; the key comes from the environment. A server is connected to as `connector` says. What is
    /// wrong is noted in `problems`.
    pub fn check(&self, connector: &Connector, problems: &mut Problems) -> EmbeddingSettings {
        self.check_with(connector, problems, std::env::var(KEY).ok())
    }

    fn check_with(
        &self,
        connector: &Connector,
        problems: &mut Problems,
        key: Option<String>,
    ) -> EmbeddingSettings {
        let mode = match self.embeddings.trim() {
            "none" => Mode::None,
            "" | "auto" => self.models_dir().map_or(Mode::None, Mode::Auto),
            "local" => match self.models_dir() {
                Some(folder) => {
                    check_files(&folder).unwrap_or_else(|error| problems.add(MODE, error));
                    Mode::Local(folder)
                }
                None => {
                    let remedy =
                        "there is no home folder to look for the model in; set TREE_AGENT_MODELS_DIR";
                    problems.add(MODE, remedy);
                    Mode::None
                }
            },
            url if url.contains("://") => {
                self.remote(url, connector, problems, key).map_or(Mode::None, Mode::Remote)
            }
            other => {
                problems.add(
                    MODE,
                    format_args!(
                        "{other:?} is not auto, none, local or a URL such as http://127.0.0.1:8080/v1"
                    ),
                );
                Mode::None
            }
        };
        EmbeddingSettings(mode)
    }

    fn remote(
        &self,
        url: &str,
        connector: &Connector,
        problems: &mut Problems,
        key: Option<String>,
    ) -> Option<Box<RemoteSettings>> {
        let url = api_url(url, "v1/", KEY).map_err(|problem| problems.add(MODE, problem)).ok();
        let key = key.and_then(|key| ApiKey::of(&key));
        if let Some(key) = &key {
            key.check().unwrap_or_else(|problem| problems.add(KEY, problem));
            let parsed = url.as_ref().and_then(|url| url.parse().ok());
            if let Some(url) = parsed.filter(|_| !connector.allows_plaintext_token()) {
                let refused = PlaintextToken::check(&format!("the key in {KEY}"), &url);
                refused.unwrap_or_else(|refused| problems.add(MODE, refused));
            }
        }
        let named = self.embeddings_model.trim().rsplit_once('@');
        let named =
            named.and_then(|(model, n)| Some((model, n.parse().ok().filter(|n| (1..=16_384).contains(n))?)));
        let Some((model, dimensions)) = named.filter(|(model, _)| !model.is_empty()) else {
            let expected = "name the server's model and its dimensions, such as text-embedding-3-small@1536";
            problems.add(MODEL, format_args!("{:?} is not enough; {expected}", self.embeddings_model));
            return None;
        };
        let (model, roots) = (model.to_owned(), connector.roots().clone());
        Some(Box::new(RemoteSettings { url: url?, model, dimensions, key, roots }))
    }
}

/// The embedder that is wanted, if any. A server is not asked yet. Files of the local model that cannot be used are an
/// error only if that model is named; otherwise a warning is logged, and search goes without vectors.
pub async fn from_settings(settings: &EmbeddingSettings) -> Result<Option<Arc<dyn Embedder>>, EmbedError> {
    let (folder, is_named) = match &settings.0 {
        Mode::None => return Ok(None),
        Mode::Remote(settings) => return Ok(Some(Arc::new(Remote::new((**settings).clone())?))),
        Mode::Auto(folder) => (folder.clone(), false),
        Mode::Local(folder) => (folder.clone(), true),
    };
    let loaded = tokio::task::spawn_blocking(move || match MINILM.read(&folder) {
        Ok(files) => Local::load(&MINILM, files).map(Some),
        Err(FilesError::Missing(_)) if !is_named => Ok(None),
        Err(error) => Err(EmbedError(error.to_string())),
    });
    match loaded.await.unwrap_or_else(|error| Err(EmbedError(format!("the local model broke: {error}")))) {
        Ok(local) => Ok(local.map(|local| Arc::new(local) as Arc<dyn Embedder>)),
        Err(error) if is_named => Err(error),
        Err(error) => {
            tracing::warn!("search goes without vectors: {error}");
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests;
