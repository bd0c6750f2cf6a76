//! Role failures as gRPC statuses and back: the code tells generic clients, `google.rpc.ErrorInfo` tells ours.

use std::collections::HashMap;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use tree_agent_contract::role::{RoleError, RoleErrorKind};

/// The domain of every `google.rpc.ErrorInfo` of this API.
pub const ERROR_DOMAIN: &str = "treeagent.v1";

/// The key of the cause of a role failure.
const REASON: &str = "reason";
/// The key of when the cause ends.
const RETRY_AFTER: &str = "retryAfterMs";

/// A role failure as the status that ends its stream.
pub fn role_status(error: &RoleError) -> Status {
    let code = match error.kind {
        RoleErrorKind::Unreachable | RoleErrorKind::ProviderUnreachable => Code::Unavailable,
        RoleErrorKind::Timeout => Code::DeadlineExceeded,
        RoleErrorKind::InvalidOutput => Code::DataLoss,
        RoleErrorKind::Rejected => Code::InvalidArgument,
        RoleErrorKind::Internal => Code::Internal,
        RoleErrorKind::Overloaded => Code::ResourceExhausted,
    };
    let mut metadata = HashMap::from([("retryable".to_owned(), error.retryable().to_string())]);
    metadata.extend(error.retry_after_ms.map(|ms| (RETRY_AFTER.to_owned(), ms.to_string())));
    metadata.extend(error.reason.clone().map(|reason| (REASON.to_owned(), reason)));
    let details = ErrorDetails::with_error_info(error.kind.as_str(), ERROR_DOMAIN, metadata);
    Status::with_error_details(code, error.message.clone(), details)
}

/// The role failure that a status means. A broken HTTP/2 connection shows as `Unknown` or `Cancelled` without
/// details: nothing answered, so another instance may be tried.
pub fn role_error(status: &Status) -> RoleError {
    let info = status.get_details_error_info().filter(|info| info.domain == ERROR_DOMAIN);
    let reason = info.as_ref().and_then(|info| info.metadata.get(REASON).cloned());
    let retry_after = info.as_ref().and_then(|info| info.metadata.get(RETRY_AFTER));
    let retry_after_ms = retry_after.and_then(|ms| ms.parse().ok());
    let kind = info.and_then(|info| info.reason.parse().ok()).unwrap_or(match status.code() {
        // An instance of another version may lack the method, and one with another role token accepts nothing; during
        // an upgrade, or while the token is being replaced, another instance answers.
        Code::Unimplemented
        | Code::Unauthenticated
        | Code::Unavailable
        | Code::Unknown
        | Code::Cancelled
        | Code::Aborted => RoleErrorKind::Unreachable,
        Code::DeadlineExceeded => RoleErrorKind::Timeout,
        Code::ResourceExhausted => RoleErrorKind::Overloaded,
        Code::DataLoss => RoleErrorKind::InvalidOutput,
        Code::InvalidArgument
        | Code::NotFound
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::PermissionDenied => RoleErrorKind::Rejected,
        _ => RoleErrorKind::Internal,
    });
    RoleError { reason, retry_after_ms, ..RoleError::new(kind, status.message()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_the_status() {
        for &kind in RoleErrorKind::ALL {
            let (reason, retry_after_ms) = (Some("rate limit".into()), Some(7));
            let error = RoleError { reason, retry_after_ms, ..RoleError::new(kind, "why") };
            assert_eq!(role_error(&role_status(&error)), error);
        }
    }
}
