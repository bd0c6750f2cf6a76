//! A run as a row of the table.

use std::collections::HashMap;

use tree_agent_contract::{ProjectId, RunSummary, Timestamp};
use tree_agent_proto::Wire;

use crate::client::Client;
use crate::error::CliError;
use crate::view::paint::{Paint, ago, duration};
use crate::view::table::Cell;
use crate::view::tree::run_icon;
use crate::view::usage::{dollars, grouped};

/// The columns.
pub(super) const HEADERS: &[&str] =
    &["ID", "STATUS", "CREATED", "DURATION", "NODES", "COST", "MODEL", "CONTEXT", "OBJECTIVE"];

/// Columns that a narrow window does without while the list is drawn, the first one first.
pub(super) const EXPENDABLE: &[&str] = &["NODES", "CONTEXT", "CREATED"];

/// Characters of the end of an id: enough to tell a few million runs apart.
const SHORT_ID: usize = 8;

/// The names of projects, asked for once.
#[derive(Debug, Default)]
pub(in crate::commands) struct Names(HashMap<ProjectId, String>);

impl Names {
    /// Asks the server for the names of the projects that these runs name.
    pub(in crate::commands) async fn learn(
        &mut self,
        client: &Client,
        runs: &[RunSummary],
    ) -> Result<(), CliError> {
        for id in runs.iter().flat_map(|run| &run.spec.context.project_ids) {
            if !self.0.contains_key(id) {
                let name = client.project_by_id(*id).await?.map(|project| project.name);
                // A project that is gone has no name any more.
                self.0.insert(*id, name.unwrap_or_else(|| short(&id.to_wire())));
            }
        }
        Ok(())
    }

    /// The context of a run: the names of its projects, whether it may change them, and whose run it is.
    pub(in crate::commands) fn context(&self, run: &RunSummary) -> String {
        let names = run.spec.context.project_ids.iter().filter_map(|id| self.0.get(id).cloned());
        let names = names.collect::<Vec<_>>().join(", ");
        let names = if names.is_empty() { "all".to_owned() } else { names };
        let names = if run.spec.read_only { format!("{names} (read-only)") } else { names };
        if run.spec.user_id.is_empty() { names } else { format!("{names}, by {}", run.spec.user_id) }
    }
}

/// The cells of `run`. A terminal gets the end of the id, which can be used instead of the whole.
pub(super) fn cells(run: &RunSummary, names: &Names, now: Timestamp, is_terminal: bool) -> Vec<Cell> {
    let (icon, paint) = run_icon(run.status, run.partial);
    let partial = if run.partial { " (partial)" } else { "" };
    let id = run.run_id.to_string();
    let took = run.started_at.map(|at| duration(run.ended_at.unwrap_or(now).millis_since(at)));
    // What answered says more than what was asked for, such as `llm`.
    let model = match run.models.as_slice() {
        [] if run.spec.model.is_empty() => "default".to_owned(),
        [] => run.spec.model.clone(),
        models => models.join(", "),
    };
    let mut nodes = grouped(run.node_count);
    if !run.status.is_final() && run.ended_nodes > 0 {
        nodes = format!("{}/{nodes}", grouped(run.ended_nodes));
    }
    let title = if run.spec.display_name.is_empty() { &run.spec.objective } else { &run.spec.display_name };
    vec![
        Cell::new(if is_terminal { short(&id) } else { id }, Paint::Bold),
        Cell::new(format!("{icon} {}{partial}", run.status), paint),
        Cell::new(ago(run.created_at, now), Paint::Dim),
        Cell::plain(took.unwrap_or_else(|| "-".to_owned())),
        Cell::plain(nodes),
        Cell::plain(dollars(run.usage.cost_micros)),
        Cell::plain(model),
        Cell::plain(names.context(run)),
        Cell::plain(title),
    ]
}

/// The cells with another title.
pub(super) fn titled(mut cells: Vec<Cell>, title: String) -> Vec<Cell> {
    if let Some(last) = cells.last_mut() {
        *last = Cell::plain(title);
    }
    cells
}

fn short(id: &str) -> String {
    id.get(id.len().saturating_sub(SHORT_ID)..).unwrap_or(id).to_owned()
}

#[cfg(test)]
mod tests {
    use tree_agent_contract::{NodeId, RunContext, RunId, RunSpec, RunStatus};

    use super::*;
    use crate::view::paint::Palette;
    use crate::view::table::Table;

    #[test]
    fn a_row_says_what_a_run_was_and_what_it_took() {
        let run_id: RunId = "0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b".parse().unwrap();
        let project = ProjectId(uuid::Uuid::from_u128(7));
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1_000);
        let run = RunSummary {
            run_id,
            spec: RunSpec {
                context: RunContext::project(project),
                model: "openai:gpt-4o".into(),
                ..RunSpec::new("How does\u{1b}[2J the lease work?")
            },
            status: RunStatus::Completed,
            partial: true,
            root_node_id: NodeId::root(run_id),
            head_seq: 42,
            node_count: 12,
            ended_nodes: 9,
            usage: tree_agent_contract::graph::Usage { cost_micros: 12_345, ..Default::default() },
            models: Vec::new(),
            error: None,
            created_at: at(0),
            updated_at: at(70),
            started_at: Some(at(8)),
            ended_at: Some(at(70)),
            fork: None,
        };
        let names = Names(HashMap::from([(project, "handbook".to_owned())]));
        let mut table = Table::new(HEADERS);
        table.push(cells(&run, &names, at(3_600), true));
        table.push(cells(&RunSummary { started_at: None, ..run.clone() }, &names, at(3_600), false));
        let running =
            RunSummary { status: RunStatus::Running, partial: false, ended_at: None, ..run.clone() };
        table.push(cells(&running, &names, at(90), true));
        let lines = table.render(Palette { colour: false }, 200);
        let words = |line: &String| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let rest = "✓ completed (partial) 1h ago";
        let about = "12 $0.0123 openai:gpt-4o handbook How does [2J the lease work?";
        assert_eq!(
            lines.iter().map(words).collect::<Vec<_>>(),
            [
                "ID STATUS CREATED DURATION NODES COST MODEL CONTEXT OBJECTIVE".to_owned(),
                format!("6c1d2e4b {rest} 1m02s {about}"),
                format!("{run_id} {rest} - {about}"),
                format!("6c1d2e4b ▶ running 1m ago 1m22s 9/{about}"),
            ]
        );
        let everywhere = RunSpec { read_only: true, ..RunSpec::new("why?") };
        let anns = RunSpec { user_id: "ann".into(), ..run.spec.clone() };
        assert_eq!(names.context(&RunSummary { spec: anns, ..run.clone() }), "handbook, by ann");
        assert_eq!(names.context(&RunSummary { spec: everywhere, ..run }), "all (read-only)");
    }
}
