//! `run --model help`: what `--model` can be.

use serde::Serialize;
use tree_agent_model::{LanguageModels, LlmConfig, Models, Switch};
use tree_agent_proto::v1 as pb;

use crate::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::view::paint::Paint;
use crate::view::table::{Cell, Table};

/// The value of `--model` that asks for the list.
pub(super) const HELP: &str = "help";

/// The list as `-o json` prints it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ModelList {
    default_model: String,
    models: Vec<ModelJson>,
    /// What `scripted:key=value,…` takes.
    scripted_keys: Vec<KeyJson>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ModelJson {
    name: String,
    /// The model that answers, for a profile.
    resolves_to: String,
    description: String,
    usable: bool,
    /// Why it cannot be used, and what to do about it.
    problem: String,
}

#[derive(Debug, Serialize)]
struct KeyJson {
    key: String,
    values: String,
    description: String,
}

/// The models of the server.
pub(super) async fn of_server(context: &Context) -> Result<ModelList, CliError> {
    let list = context.connect().await?.ask(pb::ListModelsRequest {}).await?;
    Ok(ModelList::new(list.default_model, list.models, list.scripted_keys))
}

/// The models of a run in this process.
pub(super) async fn of_this_process(config: &LlmConfig, scripted: Switch) -> Result<ModelList, CliError> {
    let models = Models::configured("", LanguageModels::new(config), scripted)
        .map_err(|error| CliError::Usage(error.to_string()))?;
    let list = models.list().await;
    Ok(ModelList::new(list.default_model, list.models, list.scripted_keys))
}

impl ModelList {
    fn new(default_model: String, models: Vec<pb::Model>, keys: Vec<pb::ScriptedKey>) -> Self {
        let models = models.into_iter().map(|model| ModelJson {
            name: model.name,
            resolves_to: model.resolves_to,
            description: model.description,
            usable: model.usable,
            problem: model.problem,
        });
        let keys = keys.into_iter().map(|key| KeyJson {
            key: key.key,
            values: key.values,
            description: key.description,
        });
        Self { default_model, models: models.collect(), scripted_keys: keys.collect() }
    }

    /// Prints the list.
    pub(super) fn print(&self, context: &Context) -> Result<Exit, CliError> {
        let out = &context.out;
        if out.is_json() {
            out.json(self)?;
            return Ok(Exit::Success);
        }
        let mut table = Table::new(&["MODEL", "ANSWERED BY", "USABLE", "DESCRIPTION"]);
        for model in &self.models {
            let (usable, about) = match model.usable {
                true => (Cell::new("yes", Paint::Good), Cell::plain(&model.description)),
                false => (Cell::new("no", Paint::Warn), Cell::plain(&model.problem)),
            };
            let is_default = if model.name == self.default_model { " (default)" } else { "" };
            let answers = if model.resolves_to.is_empty() { "-" } else { &model.resolves_to };
            table.push(vec![
                Cell::new(format!("{}{is_default}", model.name), Paint::Bold),
                Cell::plain(answers),
                usable,
                about,
            ]);
        }
        table.render(out.palette(), out.columns()).into_iter().try_for_each(|line| out.line(line))?;
        if !self.scripted_keys.is_empty() {
            out.line("")?;
            out.line("The scripted model takes keys, such as scripted:fanout=2,depth=1:")?;
            let mut table = Table::new(&["KEY", "VALUES", "DESCRIPTION"]);
            for key in &self.scripted_keys {
                table.push(vec![
                    Cell::new(&key.key, Paint::Bold),
                    Cell::plain(&key.values),
                    Cell::plain(&key.description),
                ]);
            }
            table.render(out.palette(), out.columns()).into_iter().try_for_each(|line| out.line(line))?;
        }
        Ok(Exit::Success)
    }
}
