//! Validation errors that name the field and the remedy, and how an error is shown with its causes.

use std::error::Error;
use std::fmt;

use crate::text;

/// One thing that is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct FieldError {
    /// Path of the field, such as `plan.bands[1].steps[0].title`.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl FieldError {
    /// An error for `field`.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// All that is wrong with a value, at least one thing. Everything is reported at once, not just the first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(FieldError::to_string).collect::<Vec<_>>().join("; "))]
pub struct Invalid(pub Vec<FieldError>);

impl From<FieldError> for Invalid {
    fn from(error: FieldError) -> Self {
        Self(vec![error])
    }
}

/// Collects field errors while a value is checked.
#[derive(Debug, Default)]
pub struct Checks(Vec<FieldError>);

impl Checks {
    /// Adds an error for `field` unless `ok`.
    pub fn require(&mut self, ok: bool, field: impl fmt::Display, message: impl FnOnce() -> String) {
        if !ok {
            self.0.push(FieldError::new(field.to_string(), message()));
        }
    }

    /// Adds an error unless `text` has a visible character and at most `max` bytes.
    pub fn text(&mut self, field: impl fmt::Display, text: &str, max: usize) {
        self.require(!text::is_blank(text), &field, || "must not be empty".into());
        self.at_most(field, text, max);
    }

    /// Adds an error if `text` is longer than `max` bytes.
    pub fn at_most(&mut self, field: impl fmt::Display, text: &str, max: usize) {
        self.require(text.len() <= max, field, || {
            format!("is {} bytes long; at most {max} are allowed", text.len())
        });
    }

    /// Adds an error unless `name` may be the name of something ([`text::check_name`]) and has at most `max` bytes.
    pub fn name(&mut self, field: impl fmt::Display, name: &str, max: usize) {
        if let Err(message) = text::check_name(name) {
            self.0.push(FieldError::new(field.to_string(), message));
        }
        self.at_most(field, name, max);
    }

    /// Adds an error unless `value` lies in `range`.
    pub fn range(&mut self, field: impl fmt::Display, value: u64, range: std::ops::RangeInclusive<u64>) {
        self.require(range.contains(&value), field, || {
            format!("is {value}; must be between {} and {}", range.start(), range.end())
        });
    }

    /// Adds an error that was found elsewhere.
    pub fn push(&mut self, error: FieldError) {
        self.0.push(error);
    }

    /// `Ok` when nothing was added.
    pub fn finish(self) -> Result<(), Invalid> {
        if self.0.is_empty() { Ok(()) } else { Err(Invalid(self.0)) }
    }
}

/// An error and its causes, outermost first, in one line: `cannot connect: connection refused`. A cause that the text
/// ends with already is not repeated.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

/// The innermost cause: "connection refused" says more than "transport error".
pub fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    fn layers(texts: &[&'static str]) -> Layer {
        let [text, inner @ ..] = texts else { panic!("at least one") };
        Layer { text, source: (!inner.is_empty()).then(|| Box::new(layers(inner))) }
    }

    #[test]
    fn an_error_is_shown_with_its_causes_and_none_of_them_twice() {
        let error = layers(&["cannot start", "cannot connect: refused", "refused"]);
        assert_eq!(chain(&error), "cannot start: cannot connect: refused");
        assert_eq!(root_cause(&error), "refused");
        assert_eq!(chain(&layers(&["alone"])), "alone");
    }
}
