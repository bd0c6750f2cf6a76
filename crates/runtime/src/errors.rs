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

/// `INVALID_ARGUMENT` with every field that is wrong.
pub fn invalid(errors: &Invalid) -> Status {
    let mut details = ErrorDetails::with_error_info("INVALID_FIELD", DOMAIN, []);
    for error in &errors.0 {
        details.add_bad_request_violation(&error.field, &error.message);
    }
    Status::with_error_details(Code::InvalidArgument, errors.to_string(), details)
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
}
