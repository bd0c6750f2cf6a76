//! Runs in lists: filters, pages, and what has changed since.

use std::collections::BTreeSet;

use async_trait::async_trait;
use tree_agent_contract::{
    FieldError, LabelFilter, ProjectId, RunId, RunStatus, RunSummary, Strategy, Timestamp,
};
use uuid::Uuid;

use super::Page;
use crate::error::StoreError;
use crate::text::fold;

/// Runs in lists. Deleted runs are left out, except where a method says otherwise.
#[async_trait]
pub trait RunLists: Send + Sync {
    /// A page of runs, newest first.
    async fn list_runs(&self, query: RunQuery) -> Result<Page<RunSummary>, StoreError>;

    /// Hides a run that has ended, and its documents: to [`Runs::run`](super::Runs::run), lists and document reads it
    /// does not exist any more. A run that is hidden already stays so. False, and nothing changes, when the run has not
    /// ended; [`StoreError::NotFound`] for an unknown run.
    async fn delete_run(&self, run: RunId) -> Result<bool, StoreError>;

    /// When a run last entered a list, left one or got another status, by the store's clock; the epoch when there are
    /// no runs.
    async fn last_list_change(&self) -> Result<Timestamp, StoreError>;

    /// Runs, deleted ones included, that were created, deleted, restored or got another status after `after` (time,
    /// then id), with the time of their latest such change, oldest first, at most `limit`.
    ///
    /// A change shows when it is committed, and its time is a little earlier: a reader that follows the list must look
    /// back by as long as a transaction can take.
    async fn list_changes(
        &self,
        after: (Timestamp, RunId),
        limit: usize,
    ) -> Result<Vec<(Timestamp, RunId)>, StoreError>;

    /// The head seq of each run that has not ended, in no particular order.
    async fn live_heads(&self) -> Result<Vec<(RunId, u64)>, StoreError>;

    /// Those of the runs that exist, deleted ones included, in no particular order.
    async fn listed_runs(&self, runs: &[RunId]) -> Result<Vec<ListedRun>, StoreError>;
}

/// A run and whether lists show it.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedRun {
    /// The run.
    pub summary: RunSummary,
    /// True when it was deleted.
    pub deleted: bool,
}

/// Which runs to list. A cursor is the last row of the page before.
#[derive(Clone, Debug, Default)]
pub struct RunQuery {
    /// Which runs.
    pub filter: RunFilter,
    /// Only runs created before this row (time, then id, both descending).
    pub before: Option<(Timestamp, RunId)>,
    /// Rows, 1 to [`PAGE_MAX`](tree_agent_contract::limits::PAGE_MAX).
    pub limit: usize,
}

/// Which runs are meant. The default is all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Only these statuses; empty for all.
    pub statuses: Vec<RunStatus>,
    /// Only runs whose context names this project.
    pub project_id: Option<ProjectId>,
    /// Only runs whose objective contains this text, letter case aside.
    pub objective_contains: String,
    /// Only runs of this user; empty for all.
    pub user_id: String,
    /// Only runs created at this time or later.
    pub created_after: Option<Timestamp>,
    /// Only runs created earlier than this.
    pub created_before: Option<Timestamp>,
    /// Only runs that have all of these labels.
    pub labels: Vec<LabelFilter>,
    /// Only runs that were created with this model, or in which it has answered; empty for all.
    pub model: String,
    /// Only these strategies; empty for all.
    pub strategies: Vec<Strategy>,
    /// Only runs whose id begins or ends so.
    pub id_part: Option<IdPart>,
    /// Only copies of this run.
    pub copy_of: Option<RunId>,
    /// Only forks of this run.
    pub parent_run_id: Option<RunId>,
    /// Only runs whose context is every project.
    pub global: bool,
    /// Only those that this user may read; none for all.
    pub readable_by: Option<Reader>,
}

/// A user who reads their own runs, and the runs all of whose projects they may read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reader {
    /// The user.
    pub user_id: String,
    /// The projects that they may read.
    pub project_ids: BTreeSet<ProjectId>,
}

impl RunFilter {
    /// True when `run` is meant: what a list with this filter shows, unless it was deleted.
    pub fn matches(&self, run: &RunSummary) -> bool {
        let spec = &run.spec;
        (self.statuses.is_empty() || self.statuses.contains(&run.status))
            && self.project_id.is_none_or(|project| spec.context.project_ids.contains(&project))
            && (!self.global || spec.context.project_ids.is_empty())
            && (self.objective_contains.is_empty()
                || fold(&spec.objective).contains(&fold(&self.objective_contains)))
            && (self.user_id.is_empty() || self.user_id == spec.user_id)
            && self.created_after.is_none_or(|at| run.created_at >= at)
            && self.created_before.is_none_or(|at| run.created_at < at)
            && self.labels.iter().all(|label| label.matches(&spec.labels))
            && (self.model.is_empty() || self.model == spec.model || run.models.contains(&self.model))
            && (self.strategies.is_empty() || self.strategies.contains(&spec.strategy))
            && self.id_part.as_ref().is_none_or(|part| part.matches(run.run_id))
            && self.copy_of.is_none_or(|copied| spec.copy_of == Some(copied))
            && self
                .parent_run_id
                .is_none_or(|parent| run.fork.as_ref().is_some_and(|f| f.parent_run_id == parent))
            && self.is_readable(run)
    }

    /// True if the user whose list it is may read the run.
    pub fn is_readable(&self, run: &RunSummary) -> bool {
        self.readable_by.as_ref().is_none_or(|reader| {
            run.spec.is_readable_by(&reader.user_id, |project| reader.project_ids.contains(&project))
        })
    }

    /// True when no run that has ended is asked for.
    pub(crate) fn only_live(&self) -> bool {
        !self.statuses.is_empty() && !self.statuses.iter().any(|status| status.is_final())
    }
}

/// The first or the last hexadecimal digits of an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdPart(String);

impl IdPart {
    /// Reads 1 to 32 hexadecimal digits; hyphens and letter case do not matter.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn parse_field(field: &str, text: &str) -> Result<Self, FieldError> {
        let digits: String = text.chars().filter(|c| *c != '-').map(|c| c.to_ascii_lowercase()).collect();
        if (1..=32).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(Self(digits));
        }
        let text = format!("{text:?} is no part of an id; expected 1 to 32 hexadecimal digits");
        Err(FieldError::new(field, text))
    }

    /// The digits, in lower case, without hyphens.
    pub fn digits(&self) -> &str {
        &self.0
    }

    /// The least and the greatest id that begin so.
    pub(crate) fn range(&self) -> (Uuid, Uuid) {
        let bits = 128 - 4 * self.0.len() as u32;
        let begin = u128::from_str_radix(&self.0, 16).unwrap_or_default();
        let low = begin.checked_shl(bits).unwrap_or_default();
        let rest = u128::MAX.checked_shr(128 - bits).unwrap_or_default();
        (Uuid::from_u128(low), Uuid::from_u128(low | rest))
    }

    fn matches(&self, run: RunId) -> bool {
        let id = run.0.simple().to_string();
        id.starts_with(&self.0) || id.ends_with(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_an_id_is_digits_and_hyphens() {
        let id = RunId(Uuid::from_u128(0x0190_b6f1_8d3e_7cc4_a1c7_3f7f_6c1d_2e4b));
        let part = |text: &str| IdPart::parse_field("id_part", text).unwrap();
        for good in ["0", "0190B6F1-8d3e", "4b", "6c1d2e4b", "0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b"] {
            assert!(part(good).matches(id), "{good}");
        }
        for other in ["1", "b6f1", "0190b6f2"] {
            assert!(!part(other).matches(id), "{other}");
        }
        for bad in ["", "-", "g", "0x1", "ä", "%", &"0".repeat(33)] {
            assert!(IdPart::parse_field("id_part", bad).is_err(), "{bad}");
        }
        let (low, high) = part("0190b6f").range();
        assert_eq!(low.to_string(), "0190b6f0-0000-0000-0000-000000000000");
        assert_eq!(high.to_string(), "0190b6ff-ffff-ffff-ffff-ffffffffffff");
        let whole = part(&id.to_string());
        assert_eq!(whole.range(), (id.0, id.0));
    }
}
