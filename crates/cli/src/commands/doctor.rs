//! `doctor`: what this machine has for a server, found without one and without a network.

use std::io::ErrorKind;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use clap::Args;
use serde_json::{Value, json};
use tree_agent_contract::{ProviderKind, Timestamp};
use tree_agent_embedding::check_files;
use tree_agent_runtime::config::Problems;

use super::follow::now;
use super::status::print_rows;
use crate::cluster::EmbeddedArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::view::paint::duration;

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
        let token = context.connector.credentials().current();
        let token = token.as_ref().and_then(|token| token.to_str().ok()).map_or_else(
            || "none is set; a server with users asks for one (TREE_AGENT_TOKEN_FILE)".to_owned(),
            whose,
        );
        if context.out.is_json() {
            context.out.json(&json!({
                "version": version, "dataDir": data_dir, "store": store, "localModel": model, "vectors": vectors,
                "modelKeys": keys, "settings": settings, "token": token,
            }))?;
        } else {
            let rows = [
                ("version", version.to_owned()),
                ("data folder", data_dir),
                ("store", store),
                ("local model", model),
                ("vectors", vectors),
                ("model keys", keys),
                ("token", token),
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

/// Whose token it is, as far as it says so itself. Only a server knows whether it is good, and `status` asks one.
fn whose(token: &str) -> String {
    let claims = || {
        let payload = token.split('.').nth(1)?;
        let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).ok()?;
        serde_json::from_slice::<Value>(&payload).ok()
    };
    let Some(claims) = claims() else { return "one is set that is no JWT".to_owned() };
    let sub = claims["sub"].as_str().unwrap_or("nobody");
    let exp = claims["exp"].as_f64().map(|seconds| Timestamp((seconds * 1e6) as i64));
    match exp {
        Some(exp) if exp <= now() => format!("of {sub}, and has expired"),
        Some(exp) => format!("of {sub}, for another {}", duration(exp.millis_since(now()))),
        None => format!("of {sub}"),
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
