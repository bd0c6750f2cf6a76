//! Labels of runs: keys and values by which runs are found again.

use std::collections::BTreeMap;

use crate::error::{Checks, FieldError};
use crate::limits;

/// Adds an error for every label that is not allowed.
pub(crate) fn check_all(checks: &mut Checks, labels: &BTreeMap<String, String>) {
    checks.require(labels.len() <= limits::RUN_LABELS, "labels", || {
        format!("has {} entries; at most {} are allowed", labels.len(), limits::RUN_LABELS)
    });
    for (key, value) in labels.iter().take(limits::RUN_LABELS) {
        let field = format!("labels[{key:?}]");
        checks.require(is_key(key), &field, || key_rule(key));
        checks.require(is_value(value), &field, || value_rule(value));
    }
}

/// Which labels a run must have: a key with any value, or a key and its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabelFilter {
    /// The key.
    pub key: String,
    /// The value; none for any.
    pub value: Option<String>,
}

impl LabelFilter {
    /// Reads `key` or `key=value`.
    ///
    /// # Errors
    /// When no label can have that key or value.
    pub fn parse_field(field: &str, text: &str) -> Result<Self, FieldError> {
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (text, None),
        };
        match value {
            _ if !is_key(key) => Err(FieldError::new(field, key_rule(key))),
            Some(value) if !is_value(value) => Err(FieldError::new(field, value_rule(value))),
            value => Ok(Self { key: key.to_owned(), value: value.map(str::to_owned) }),
        }
    }

    /// True when `labels` has it.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        labels.get(&self.key).is_some_and(|found| self.value.as_ref().is_none_or(|value| value == found))
    }
}

fn is_key(key: &str) -> bool {
    let is_end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = key.as_bytes();
    key.len() <= limits::LABEL_KEY_BYTES
        && bytes.first().is_some_and(is_end)
        && bytes.last().is_some_and(is_end)
        && bytes.iter().all(|byte| is_end(byte) || b"-_./".contains(byte))
}

fn is_value(value: &str) -> bool {
    value.len() <= limits::LABEL_VALUE_BYTES
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./:@+".contains(&byte))
}

fn key_rule(key: &str) -> String {
    format!(
        "{key:?} cannot be a label's key; use 1 to {} lower-case ASCII letters, digits and -_./, beginning and ending \
         with a letter or digit",
        limits::LABEL_KEY_BYTES
    )
}

fn value_rule(value: &str) -> String {
    format!(
        "{value:?} cannot be a label's value; use at most {} ASCII letters, digits and -_./:@+",
        limits::LABEL_VALUE_BYTES
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_have_a_fixed_character_set_and_size() {
        for good in ["a", "0", "team", "app.kubernetes.io/name", "a-b_c", &"k".repeat(63)] {
            assert!(is_key(good), "{good}");
        }
        for bad in ["", "A", "-a", "a.", "a b", "a=b", "ä", "a\n", &"k".repeat(64)] {
            assert!(!is_key(bad), "{bad:?}");
        }
        for good in ["", "prod", "2026-11-23T02:00:00+01:00", "me@example.org", "Feature/X", &"v".repeat(128)]
        {
            assert!(is_value(good), "{good}");
        }
        for bad in ["a b", "a=b", "\u{202e}", "\0", "ü", &"v".repeat(129)] {
            assert!(!is_value(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_filter_is_a_key_or_a_key_and_a_value() {
        let labels: BTreeMap<String, String> =
            [("env", "prod"), ("flag", "")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let matches = |text: &str| LabelFilter::parse_field("labels[0]", text).map(|f| f.matches(&labels));
        assert_eq!(matches("env"), Ok(true));
        assert_eq!(matches("env=prod"), Ok(true));
        assert_eq!(matches("env=test"), Ok(false));
        assert_eq!(matches("env="), Ok(false));
        assert_eq!(matches("flag="), Ok(true));
        assert_eq!(matches("team"), Ok(false));
        for bad in ["", "=", "Env", "env=a b", "env=a=b"] {
            assert!(matches(bad).unwrap_err().to_string().starts_with("labels[0]: "), "{bad}");
        }
    }
}
