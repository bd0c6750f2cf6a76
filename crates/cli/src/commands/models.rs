//! `run --model help`: what `--model` can be.

use serde_json::json;
use tree_agent_model::{LanguageModels, LlmConfig, Models, Switch};
use tree_agent_proto::v1 as pb;

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::view::paint::Paint;
use crate::view::table::{Cell, Table};

/// The value of `--model` that asks for the list.
pub(super) const HELP: &str = "help";

/// The models of the server.
pub(super) async fn of_server(context: &Context) -> Result<pb::ListModelsResponse, CliError> {
    context.connect().await?.ask(pb::ListModelsRequest {}).await
}

/// The models of a run in this process.
pub(super) async fn of_this_process(
    config: &LlmConfig,
    scripted: Switch,
) -> Result<pb::ListModelsResponse, CliError> {
    let models = Models::configured("", LanguageModels::new(config), scripted)
        .map_err(|error| CliError::Usage(error.to_string()))?;
    let list = models.list().await;
    let (default_model, models, scripted_keys) = (list.default_model, list.models, list.scripted_keys);
    Ok(pb::ListModelsResponse { default_model, models, scripted_keys })
}

/// Prints the list.
pub(super) fn print(context: &Context, list: &pb::ListModelsResponse) -> Result<Exit, CliError> {
    let out = &context.out;
    if out.is_json() {
        let models = list.models.iter().map(|model| {
            json!({
                "name": model.name, "resolvesTo": model.resolves_to, "description": model.description,
                "usable": model.usable, "problem": model.problem,
            })
        });
        let keys = list
            .scripted_keys
            .iter()
            .map(|key| json!({"key": key.key, "values": key.values, "description": key.description}));
        out.json(&json!({
            "defaultModel": list.default_model,
            "models": models.collect::<Vec<_>>(),
            "scriptedKeys": keys.collect::<Vec<_>>(),
        }))?;
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["MODEL", "ANSWERED BY", "USABLE", "DESCRIPTION"]);
    for model in &list.models {
        let (usable, about) = match model.usable {
            true => (Cell::new("yes", Paint::Good), Cell::plain(&model.description)),
            false => (Cell::new("no", Paint::Warn), Cell::plain(&model.problem)),
        };
        let is_default = if model.name == list.default_model { " (default)" } else { "" };
        let answers = if model.resolves_to.is_empty() { "-" } else { &model.resolves_to };
        table.push(vec![
            Cell::new(format!("{}{is_default}", model.name), Paint::Bold),
            Cell::plain(answers),
            usable,
            about,
        ]);
    }
    table.render(out.palette(), out.columns()).into_iter().try_for_each(|line| out.line(line))?;
    if !list.scripted_keys.is_empty() {
        out.line("")?;
        out.line("The scripted model takes keys, such as scripted:fanout=2,depth=1:")?;
        let mut table = Table::new(&["KEY", "VALUES", "DESCRIPTION"]);
        for key in &list.scripted_keys {
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
