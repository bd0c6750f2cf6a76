//! gRPC errors that say which field is wrong and carry machine-readable details.

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use tree_agent_contract::{FieldError, Invalid};

pub use tree_agent_contract::error::chain;
pub use tree_agent_proto::ERROR_DOMAIN as DOMAIN;

/// An error with an `ErrorInfo` whose reason is `reason` (UPPER_SNAKE_CASE).
pub fn status(code: Code, reason: &str, message: impl Into<String>) -> Status {
    Status::with_error_details(code, message, ErrorDetails::with_error_info(reason, DOMAIN, []))
}

/// An error about one field: `ErrorInfo` and a `BadRequest` with the field.
pub fn field(code: Code, reason: &str, error: &FieldError) -> Status {
    let mut details = ErrorDetails::with_error_info(reason, DOMAIN, []);
    details.add_bad_request_violation(&error.field, &error.message);
    Status::with_error_details(code, error.to_string(), details)
}

/// Wrong fields that an error names, the first ones. Otherwise a short request could ask for a long answer.
const FIELDS: usize = 32;

/// `INVALID_ARGUMENT` with the fields that are wrong, the first 32 of them.
pub fn invalid(errors: &Invalid) -> Status {
    let mut details = ErrorDetails::with_error_info("INVALID_FIELD", DOMAIN, []);
    let named = Invalid(errors.0.iter().take(FIELDS).cloned().collect());
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
}
