//! gRPC errors that say which field is wrong and carry machine-readable details.
//!
//! An error travels in headers, and many clients take at most 16 KiB of these (hyper's default). A longer error would
//! reach them as a broken stream. So what an error says is bounded, whatever it quotes.

use std::borrow::Cow;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use tree_agent_contract::text::{prefix, suffix};
use tree_agent_contract::{FieldError, Invalid};

pub use tree_agent_contract::error::chain;
pub use tree_agent_proto::ERROR_DOMAIN as DOMAIN;

/// Maximum bytes of the message of an error. Its header may take three times as many, the details nearly as much again.
const MESSAGE_BYTES: usize = 2048;
/// Maximum bytes of what is said of one field, and of its name, which may be a key of the request.
const FIELD_BYTES: usize = 1024;
const NAME_BYTES: usize = 256;

/// `text` in at most `max` bytes: its beginning, and its end, which says what to do.
fn bounded(text: &str, max: usize) -> Cow<'_, str> {
    const GAP: &str = " […] ";
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let half = (max - GAP.len()) / 2;
    Cow::Owned(format!("{}{GAP}{}", prefix(text, half), suffix(text, half)))
}

/// What is said of a field, in a bounded form.
fn bounded_field(error: &FieldError) -> FieldError {
    FieldError::new(bounded(&error.field, NAME_BYTES), bounded(&error.message, FIELD_BYTES))
}

/// An error with an `ErrorInfo` whose reason is `reason` (UPPER_SNAKE_CASE).
pub fn status(code: Code, reason: &str, message: impl Into<String>) -> Status {
    let message = message.into();
    let details = ErrorDetails::with_error_info(reason, DOMAIN, []);
    Status::with_error_details(code, bounded(&message, MESSAGE_BYTES), details)
}

/// `RESOURCE_EXHAUSTED`, with the time after which another try makes sense.
pub fn exhausted(reason: &str, message: impl Into<String>, retry: Duration) -> Status {
    let mut details = ErrorDetails::with_error_info(reason, DOMAIN, []);
    details.set_retry_info(Some(retry));
    Status::with_error_details(Code::ResourceExhausted, bounded(&message.into(), MESSAGE_BYTES), details)
}

/// An error about one field: `ErrorInfo` and a `BadRequest` with the field.
pub fn field(code: Code, reason: &str, error: &FieldError) -> Status {
    let error = bounded_field(error);
    let mut details = ErrorDetails::with_error_info(reason, DOMAIN, []);
    details.add_bad_request_violation(&error.field, &error.message);
    Status::with_error_details(code, error.to_string(), details)
}

/// Wrong fields that an error names, the first ones. Otherwise a short request could ask for a long answer.
const FIELDS: usize = 32;

/// `INVALID_ARGUMENT` with the fields that are wrong: the first 32 of them, or fewer if a message cannot hold them.
pub fn invalid(errors: &Invalid) -> Status {
    let mut details = ErrorDetails::with_error_info("INVALID_FIELD", DOMAIN, []);
    let mut bytes = 0;
    let fit = errors.0.iter().take(FIELDS).map(bounded_field).enumerate().take_while(|(n, error)| {
        bytes += error.to_string().len() + "; ".len();
        *n == 0 || bytes <= MESSAGE_BYTES
    });
    let named = Invalid(fit.map(|(_, error)| error).collect());
    for error in &named.0 {
        details.add_bad_request_violation(&error.field, &error.message);
    }
    let message = match errors.0.len() - named.0.len() {
        0 => named.to_string(),
        more => format!("{named}; and {more} more"),
    };
    Status::with_error_details(Code::InvalidArgument, message, details)
}

/// `INVALID_ARGUMENT` for one field.
pub fn invalid_field(field: &str, message: impl Into<String>) -> Status {
    invalid(&FieldError::new(field, message).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_in_the_details() {
        let status =
            invalid(&Invalid(vec![FieldError::new("a", "is bad"), FieldError::new("b", "is worse")]));
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(status.message(), "a: is bad; b: is worse");
        let details = status.get_error_details();
        let fields: Vec<_> =
            details.bad_request().unwrap().field_violations.iter().map(|v| v.field.as_str()).collect();
        assert_eq!(fields, ["a", "b"]);
        assert_eq!(details.error_info().unwrap().domain, DOMAIN);
    }

    #[test]
    fn of_many_fields_the_first_ones_are_named() {
        let many = (0..100).map(|n| FieldError::new(format!("f{n}"), "is bad")).collect();
        let status = invalid(&Invalid(many));
        assert!(status.message().ends_with("f31: is bad; and 68 more"), "{}", status.message());
        assert_eq!(status.get_error_details().bad_request().unwrap().field_violations.len(), FIELDS);
    }

    #[test]
    fn an_error_fits_into_headers_whatever_it_quotes() {
        // A letter that takes more bytes in every encoding.
        let long = "ü".repeat(100_000);
        let wrong = FieldError::new(format!("labels[{long}]"), format!("{long:?} is none; use another"));
        for error in [
            status(Code::NotFound, "NOT_FOUND", format!("there is no {long}; use another")),
            field(Code::NotFound, "NOT_FOUND", &wrong),
            invalid(&Invalid(vec![wrong; 100])),
        ] {
            assert!(error.message().contains("ü […] ü"), "{}", error.message());
            assert!(error.message().contains("use another"), "the remedy is at the end: {}", error.message());
            let headers = error.into_http::<()>().into_parts().0.headers;
            let bytes: usize =
                headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum();
            assert!(bytes < 16 * 1024, "{bytes}");
        }
    }
}
