//! The rules about iterations and branches, for nodes that do homework.

use std::collections::{BTreeMap, BTreeSet};

use tree_agent_contract::NodeId;
use tree_agent_contract::event::{Event, EventBody};

/// What is known of the iterations of a log.
#[derive(Clone, Debug, Default)]
pub(super) struct HomeworkRules {
    max_iterations: u32,
    /// By the node that does the homework.
    by_root: BTreeMap<NodeId, Seen>,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    /// The latest iteration that was planned.
    latest: u32,
    /// The latest iteration of which there is a roll-up.
    rolled_up: u32,
    /// The branches that have a task in the latest iteration.
    at_work: BTreeSet<String>,
}

impl HomeworkRules {
    /// Reads an event. Returns what is wrong with it.
    pub(super) fn event(&mut self, event: &Event) -> Option<String> {
        match &event.body {
            EventBody::RunCreated(e) => {
                self.max_iterations = e.spec.budgets.max_iterations;
                None
            }
            EventBody::PlanCreated(e) => {
                let (iteration, most) = (e.iteration?, self.max_iterations);
                let seen = self.by_root.entry(event.node_id).or_default();
                // A changed plan is another version of the same iteration.
                if iteration != seen.latest + 1 && (iteration != seen.latest || iteration == 0) {
                    return Some(format!("plans iteration {iteration} after iteration {}", seen.latest));
                }
                // A changed plan has tasks of its own.
                seen.at_work.clear();
                if iteration > seen.latest {
                    *seen = Seen { latest: iteration, rolled_up: seen.rolled_up, ..Seen::default() };
                }
                (iteration > most).then(|| format!("plans iteration {iteration} of at most {most}"))
            }
            EventBody::NodeCreated(e) => {
                let (iteration, branch) = (e.iteration?, e.branch_id.as_ref()?);
                let seen = self.by_root.entry(e.parent_node_id?).or_default();
                if iteration != seen.latest {
                    return Some(format!(
                        "begins a task of iteration {iteration} in iteration {}",
                        seen.latest
                    ));
                }
                let again = !seen.at_work.insert(branch.clone());
                again.then(|| format!("begins a second task of branch {branch} in iteration {iteration}"))
            }
            // The homework begins again.
            EventBody::NodeReopened(e) if e.again && self.by_root.contains_key(&event.node_id) => {
                self.by_root.remove(&event.node_id);
                None
            }
            // A task is done again, and so is the roll-up of its iteration.
            EventBody::NodeReopened(e) if e.again => {
                let seen = self.by_root.get_mut(&event.parent_node_id?)?;
                seen.rolled_up = seen.rolled_up.min(seen.latest.saturating_sub(1));
                None
            }
            EventBody::RollupUpdated(e) => {
                let seen = self.by_root.entry(event.node_id).or_default();
                let before = std::mem::replace(&mut seen.rolled_up, e.iteration);
                let (now, latest) = (e.iteration, seen.latest);
                (now <= before || now > latest)
                    .then(|| format!("rolls up iteration {now} after {before}, in iteration {latest}"))
            }
            _ => None,
        }
    }
}
