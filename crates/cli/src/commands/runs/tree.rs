//! The runs of a list with their forks below them.

use std::collections::{BTreeMap, BTreeSet};

use tree_agent_contract::{RunId, RunSummary};

/// The runs in the order of their lineage, each with its level. A fork whose parent is not among them is on the first
/// level.
pub(super) fn in_lineage(runs: Vec<RunSummary>) -> Vec<(usize, RunSummary)> {
    let listed: BTreeSet<RunId> = runs.iter().map(|run| run.run_id).collect();
    let parent_of =
        |run: &RunSummary| run.fork.as_ref().map(|f| f.parent_run_id).filter(|p| listed.contains(p));
    let mut below: BTreeMap<Option<RunId>, Vec<RunSummary>> = BTreeMap::new();
    runs.into_iter().for_each(|run| below.entry(parent_of(&run)).or_default().push(run));
    let mut next: Vec<(usize, RunSummary)> = Vec::new();
    let mut push = |next: &mut Vec<(usize, RunSummary)>, level: usize, parent: Option<RunId>| {
        let children = below.remove(&parent).unwrap_or_default();
        next.extend(children.into_iter().rev().map(|run| (level, run)));
    };
    push(&mut next, 0, None);
    let mut ordered = Vec::new();
    while let Some((level, run)) = next.pop() {
        push(&mut next, level + 1, Some(run.run_id));
        ordered.push((level, run));
    }
    ordered
}

/// What a run is called in the tree: of a fork, also where it begins, what it does differently, and whose it is. A
/// fork on the first level does not belong to the run above it in the list, so it names its parent.
pub(super) fn name(level: usize, run: &RunSummary) -> String {
    let title = match run.spec.display_name.as_str() {
        "" => &run.spec.objective,
        name => name,
    };
    let Some(fork) = &run.fork else { return title.to_owned() };
    let by = if run.spec.user_id.is_empty() { String::new() } else { format!(" by {}", run.spec.user_id) };
    let edits = if fork.edits.is_empty() { String::new() } else { format!(": {}", fork.edits.join("; ")) };
    let at = fork.parent_seq;
    match level {
        0 => format!("fork of {} at event {at}{by}{edits} — {title}", fork.parent_run_id),
        _ => format!("{}└ forked at event {at}{by}{edits} — {title}", "  ".repeat(level - 1)),
    }
}

#[cfg(test)]
mod tests {
    use tree_agent_contract::{ForkOf, NodeId, RunSpec, RunStatus, Timestamp};
    use uuid::Uuid;

    use super::*;

    fn run(n: u128, parent: Option<u128>) -> RunSummary {
        let id = |n| RunId(Uuid::from_u128(n));
        RunSummary {
            run_id: id(n),
            spec: RunSpec { user_id: "ann".into(), ..RunSpec::new(format!("run {n}")) },
            status: RunStatus::Completed,
            partial: false,
            root_node_id: NodeId::root(id(1)),
            head_seq: 9,
            node_count: 1,
            ended_nodes: 0,
            usage: Default::default(),
            models: Vec::new(),
            error: None,
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
            started_at: None,
            ended_at: None,
            fork: parent.map(|parent| {
                let edits = vec!["retries node x".to_owned()];
                Box::new(ForkOf { parent_run_id: id(parent), parent_seq: 7, edits })
            }),
        }
    }

    #[test]
    fn forks_stand_below_the_run_that_they_fork() {
        let runs = vec![run(5, Some(3)), run(4, None), run(3, Some(1)), run(2, Some(9)), run(1, None)];
        let tree = in_lineage(runs);
        let shown: Vec<_> = tree.iter().map(|(level, run)| name(*level, run)).collect();
        assert_eq!(
            shown,
            [
                "run 4",
                "fork of 00000000-0000-0000-0000-000000000009 at event 7 by ann: retries node x — run 2",
                "run 1",
                "└ forked at event 7 by ann: retries node x — run 3",
                "  └ forked at event 7 by ann: retries node x — run 5",
            ]
        );
    }
}
