//! A review: a person looks at the first plan of a run before the run carries it out.

use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::error::Checks;
use crate::estimate::{Estimate, RoleCosts};
use crate::limits;
use crate::time::Timestamp;

/// That a run waits for a person once it has a plan.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReviewRule {
    /// Milliseconds after which it goes on by itself; none for never.
    pub goes_on_after_ms: Option<u64>,
    /// The most that a call of its model can use; none if nobody knew when the run was created.
    pub per_call: Option<RoleCosts>,
}

impl ReviewRule {
    pub(crate) fn check(&self, checks: &mut Checks) {
        if let Some(ms) = self.goes_on_after_ms {
            checks.range("review.goes_on_after_ms", ms, 1_000..=limits::REVIEW_MS);
        }
    }
}

/// What a plan rests on, as its planner says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Premises {
    /// What the planner takes for granted.
    pub assumptions: Vec<String>,
    /// What somebody may expect, and the plan does not do.
    pub left_out: Vec<String>,
}

impl Premises {
    pub(crate) fn check(&self, checks: &mut Checks) {
        for (name, texts) in [("assumptions", &self.assumptions), ("leftOut", &self.left_out)] {
            let at = format_args!("review.{name}");
            checks.range(at, texts.len() as u64, 0..=limits::PREMISES as u64);
            for (i, text) in texts.iter().enumerate() {
                checks.text(format_args!("{at}[{i}]"), text, limits::TEXT_BYTES);
            }
        }
    }
}

/// What a person is asked to look at.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Review {
    /// What the plan rests on.
    pub premises: Premises,
    /// The most that the whole run can use.
    pub estimate: Estimate,
    /// When the run goes on by itself; none for never.
    pub goes_on_at: Option<Timestamp>,
}
