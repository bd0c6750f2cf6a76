//! `doctor`: what this machine has for a server, found without one and without a network.

use std::io::ErrorKind;
use std::path::Path;

use clap::Args;
use serde_json::json;
use tree_agent_contract::ProviderKind;
use tree_agent_embedding::check_files;
use tree_agent_runtime::config::Problems;

use super::status::print_rows;
use crate::cluster::EmbeddedArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

/// Show what `dev` and `run --local` find on this machine, and what is missing
///
/// Nothing is started or changed, and no network is used. Keys are not shown.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    embedded: EmbeddedArgs,
}

impl Doctor {
    pub(crate) async fn run(&self, context: &Context) -> Result<Exit, CliError> {
        let data_dir = self.embedded.data_dir()?;
        let embedding = &self.embedded.roles.embedding;
        let model = match embedding.models_dir() {
            None => "there is no home folder; set TREE_AGENT_MODELS_DIR".to_owned(),
            Some(folder) => match check_files(&folder) {
                Ok(()) => format!("installed in {}", folder.display()),
                Err(error) => error.to_string(),
            },
        };
        let mut problems = Problems::default();
        self.embedded.roles.check(&context.connector, &mut problems);
        let settings = problems.finish().map_or_else(|error| error.to_string(), |()| "in order".to_owned());
        let (version, store, keys) = (env!("CARGO_PKG_VERSION"), store(&data_dir), keys());
        // An address may hold a password.
        let vectors = if embedding.embeddings.contains("://") { "a server" } else { &embedding.embeddings };
        let (data_dir, vectors) = (data_dir.display().to_string(), vectors.to_owned());
        if context.out.is_json() {
            context.out.json(&json!({
                "version": version, "dataDir": data_dir, "store": store, "localModel": model, "vectors": vectors,
                "modelKeys": keys, "settings": settings,
            }))?;
        } else {
            let rows = [
                ("version", version.to_owned()),
                ("data folder", data_dir),
                ("store", store),
                ("local model", model),
                ("vectors", vectors),
                ("model keys", keys),
                ("settings", settings),
            ];
            print_rows(context, &rows)?;
        }
        Ok(Exit::Success)
    }
}

/// The state of the embedded store. It is not opened: that would lock out a server that starts.
fn store(data_dir: &Path) -> String {
    match std::fs::metadata(data_dir.join("tree-agent.db")) {
        Ok(file) => format!("{} bytes", file.len()),
        Err(error) if error.kind() == ErrorKind::NotFound => "none yet; the first run makes it".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Which keys of providers are set.
fn keys() -> String {
    let is_set = |name: &str| std::env::var(name).is_ok_and(|key| !key.trim().is_empty());
    let kinds = [ProviderKind::OpenAi, ProviderKind::Anthropic, ProviderKind::Gemini];
    let shown = kinds.map(ProviderKind::key_variable).map(|name| match is_set(name) {
        true => format!("{name} is set"),
        false => format!("{name} is not set"),
    });
    shown.join(", ")
}
