//! Which runs are listed.

use clap::Args;
use tree_agent_contract::{LabelFilter, RunStatus, Timestamp};
use tree_agent_proto::Wire;
use tree_agent_proto::v1 as pb;

use crate::client::Client;
use crate::commands::follow::now;
use crate::complete;
use crate::error::CliError;
use crate::value::{RunRef, When, strategies, when};

/// Filters; a run must pass all of them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Filters")]
pub(super) struct Filter {
    /// Only runs with this status; can be repeated
    #[arg(short, long, value_name = "STATUS", value_delimiter = ',',
          value_parser = ["queued", "running", "paused", "completed", "failed", "cancelled"])]
    status: Vec<String>,
    /// Only runs whose context names this project (name or id)
    #[arg(short, long, value_name = "PROJECT", add = complete::projects())]
    project: Option<String>,
    /// Only runs whose objective contains this text, in any letter case
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    objective: String,
    /// Only runs with this label, or with this value of it; can be repeated
    #[arg(short, long, value_name = "KEY[=VALUE]", value_parser = label)]
    label: Vec<String>,
    /// Only runs that were created with this model, or in which it has answered
    #[arg(short, long, value_name = "MODEL", default_value = "", hide_default_value = true)]
    model: String,
    /// Only runs of this strategy
    #[arg(long, value_name = "STRATEGY", value_parser = strategies())]
    strategy: Vec<String>,
    /// Only copies of this run
    #[arg(long, value_name = "RUN", add = complete::runs())]
    copies_of: Option<RunRef>,
    /// Only forks of this run
    #[arg(long, value_name = "RUN", add = complete::runs())]
    forks_of: Option<RunRef>,
    /// Only runs of this user
    #[arg(long, value_name = "USER", default_value = "", hide_default_value = true)]
    user: String,
    /// Only runs created since then: 2h, 7d, or a time such as 2026-11-23T14:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = when)]
    since: Option<When>,
    /// Only runs created before then
    #[arg(long, value_name = "WHEN", value_parser = when)]
    before: Option<When>,
}

fn label(text: &str) -> Result<String, String> {
    LabelFilter::parse_field("label", text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

impl Filter {
    /// The filter as it is sent; projects are looked up.
    pub(super) async fn request(&self, client: &Client) -> Result<pb::ListRunsRequest, CliError> {
        let project_id = match &self.project {
            None => String::new(),
            Some(key) => client.existing_project(key).await?.project_id,
        };
        let copy_of = match &self.copies_of {
            None => String::new(),
            Some(run) => client.find_run(run).await?.to_wire(),
        };
        let parent_run_id = match &self.forks_of {
            None => String::new(),
            Some(run) => client.find_run(run).await?.to_wire(),
        };
        let statuses: Vec<RunStatus> = parsed(&self.status)?;
        let strategies: Vec<tree_agent_contract::Strategy> = parsed(&self.strategy)?;
        let time = |when: Option<When>| when.map(|when| Timestamp::to_wire(&when.before(now())));
        Ok(pb::ListRunsRequest {
            statuses: statuses.to_wire(),
            project_id,
            objective_contains: self.objective.clone(),
            user_id: self.user.clone(),
            created_after: time(self.since),
            created_before: time(self.before),
            labels: self.label.clone(),
            model: self.model.clone(),
            strategies: strategies.to_wire(),
            copy_of,
            parent_run_id,
            ..Default::default()
        })
    }

    /// The filter as it was given; none when every run passes.
    pub(super) fn words(&self) -> Option<String> {
        let lists = [("--status", &self.status), ("--label", &self.label), ("--strategy", &self.strategy)];
        let mut words: Vec<String> = Vec::new();
        for (flag, values) in lists {
            words.extend(values.iter().map(|value| format!("{flag} {value}")));
        }
        let texts = [("--objective", &self.objective), ("--model", &self.model), ("--user", &self.user)];
        let project = self.project.iter().map(|project| ("--project", project));
        let texts = texts.into_iter().chain(project).filter(|(_, text)| !text.is_empty());
        words.extend(texts.map(|(flag, text)| format!("{flag} {text:?}")));
        words.extend(self.copies_of.iter().map(|run| format!("--copies-of {run}")));
        words.extend(self.forks_of.iter().map(|run| format!("--forks-of {run}")));
        let times = [("--since", self.since), ("--before", self.before)];
        words.extend(times.into_iter().filter_map(|(flag, when)| when.map(|when| format!("{flag} {when}"))));
        (!words.is_empty()).then(|| words.join(" "))
    }
}

fn parsed<T: std::str::FromStr<Err = String>>(texts: &[String]) -> Result<Vec<T>, CliError> {
    texts.iter().map(|text| text.parse().map_err(CliError::Usage)).collect()
}
