//! What the verifier finds in the answer of a run: whether the success criteria are met, and what it doubts.

use serde::{Deserialize, Serialize};

use crate::error::Checks;
use crate::limits;
use crate::text::prefix;

/// Whether a success criterion is met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CriterionCheck {
    /// The criterion. Where there is none, the objective counts as one.
    pub criterion: String,
    /// True if the answer meets it.
    pub met: bool,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// A claim of the answer that its source does not support, or that contradicts another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Doubt {
    /// The claim, in the words of the answer.
    pub claim: String,
    /// What is wrong with it.
    pub reason: String,
}

/// What the verifier found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// Its judgement in a few sentences.
    pub summary: String,
    /// The success criteria.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<CriterionCheck>,
    /// The claims that it doubts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubt>,
    /// Why the verifier could not check the answer. Then it says nothing about criteria and claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_checked: Option<String>,
}

impl Verification {
    /// What stands in the log if the verifier could not check the answer.
    pub fn failed(reason: &str) -> Self {
        let reason = prefix(reason, limits::TEXT_BYTES - 32).to_owned();
        Self { summary: format!("not verified: {reason}"), not_checked: Some(reason), ..Self::default() }
    }

    /// True if the answer was checked, every criterion is met and nothing is doubted.
    pub fn is_clean(&self) -> bool {
        self.not_checked.is_none() && self.doubts.is_empty() && self.criteria.iter().all(|check| check.met)
    }

    /// Checks its limits.
    pub(crate) fn check(&self, c: &mut Checks) {
        c.text("summary", &self.summary, limits::TEXT_BYTES);
        c.require(self.criteria.len() <= limits::VERIFIED, "criteria", || {
            format!("has {} entries, more than {}", self.criteria.len(), limits::VERIFIED)
        });
        c.require(self.doubts.len() <= limits::VERIFIED, "doubts", || {
            format!("has {} entries, more than {}", self.doubts.len(), limits::VERIFIED)
        });
        c.require(self.not_checked.is_none(), "not_checked", || "is set by the engine alone".into());
        for (i, check) in self.criteria.iter().enumerate() {
            c.text(format_args!("criteria[{i}].criterion"), &check.criterion, limits::TEXT_BYTES);
            c.at_most(format_args!("criteria[{i}].note"), &check.note, limits::TEXT_BYTES);
        }
        for (i, doubt) in self.doubts.iter().enumerate() {
            c.text(format_args!("doubts[{i}].claim"), &doubt.claim, limits::CLAIM_BYTES);
            c.text(format_args!("doubts[{i}].reason"), &doubt.reason, limits::TEXT_BYTES);
        }
    }
}
