//! The error type of the command line: what went wrong, what to do about it, and the exit code.

use std::io;

use tonic::{Code, Status};
use tonic_types::StatusExt;
use tree_agent_contract::error::FieldError;

use crate::exit::Exit;

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// Bad input, noticed before anything was sent.
    #[error("{0}")]
    Usage(String),
    /// Another process has the data directory open.
    #[error("{reason}")]
    InUse {
        /// Which, and what to do.
        reason: String,
    },
    /// The server cannot be reached, or the connection was lost for good.
    #[error("cannot reach the server at {server}: {reason}")]
    Unreachable {
        /// The URL that was tried.
        server: String,
        /// What the transport said.
        reason: String,
    },
    /// The connection to a run was lost and could not be made again.
    #[error("lost the connection to the run after event {after_seq}: {reason}")]
    Lost {
        /// The last event that was received.
        after_seq: u64,
        /// The last failure.
        reason: String,
    },
    /// The server refused.
    #[error("{}", status_text(.0))]
    Refused(Box<Status>),
    /// The server's answer violates the contract.
    #[error("the server's answer is not understood: {0}")]
    Answer(#[from] FieldError),
    /// Standard output or a file could not be written.
    #[error("cannot write {what}: {source}")]
    Write {
        /// `the output`, or the path of a file.
        what: String,
        /// The cause.
        source: io::Error,
    },
    /// Anything else; the text is complete.
    #[error("{0}")]
    Other(String),
}

impl From<Status> for CliError {
    fn from(status: Status) -> Self {
        CliError::Refused(Box::new(status))
    }
}

impl From<io::Error> for CliError {
    fn from(source: io::Error) -> Self {
        CliError::Write { what: "the output".into(), source }
    }
}

impl CliError {
    /// The exit code that tells this error from others.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            CliError::Usage(_) | CliError::InUse { .. } => Exit::Usage,
            CliError::Unreachable { .. } | CliError::Lost { .. } => Exit::Disconnected,
            CliError::Refused(status) if is_transient(status) => Exit::Disconnected,
            CliError::Refused(status) => match status.code() {
                Code::InvalidArgument
                | Code::NotFound
                | Code::AlreadyExists
                | Code::OutOfRange
                | Code::FailedPrecondition
                | Code::Aborted
                | Code::ResourceExhausted
                | Code::PermissionDenied => Exit::Usage,
                Code::Unauthenticated => Exit::Unauthorized,
                _ => Exit::Internal,
            },
            CliError::Answer(_) | CliError::Write { .. } | CliError::Other(_) => Exit::Internal,
        }
    }

    /// True when the reader of our output has closed it, as in `tree-agent events … | head`. That is no error.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, CliError::Write { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }

    /// What to do about it, if the message does not say that.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            // No hint can help with a database.
            CliError::Unreachable { server, .. } if !server.starts_with("http") => None,
            CliError::Unreachable { .. } => Some(
                "start a server with `tree-agent dev`, name another with --server URL or TREE_AGENT_SERVER, \
                 or use `tree-agent run --local`, which needs none",
            ),
            CliError::Lost { .. } => Some("when the server is back, continue with `tree-agent watch RUN`"),
            CliError::Refused(status) if status.code() == Code::Unimplemented => {
                Some("the server does not have this call: its version differs from that of this program")
            }
            CliError::Refused(status) if status.code() == Code::Unauthenticated => Some(
                "put a valid token into a file and name it with --token-file FILE or TREE_AGENT_TOKEN_FILE; \
                     a watched run continues: watch it again with `tree-agent watch RUN`",
            ),
            _ => None,
        }
    }
}

/// True when the same call may succeed on another connection or a little later. A broken HTTP/2 connection shows as
/// `Unknown`, `Cancelled` or `Internal` with an error source and without details.
pub(crate) fn is_transient(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => true,
        // With details it says that something has changed; the same call would be refused again.
        Code::Aborted => status.details().is_empty(),
        Code::Unknown | Code::Internal => {
            status.details().is_empty() && std::error::Error::source(status).is_some()
        }
        _ => false,
    }
}

/// The message of a status, with a line for each invalid field that the message does not name.
fn status_text(status: &Status) -> String {
    let mut text = match status.message() {
        "" => format!("the server answered {:?} without saying why", status.code()),
        message => message.to_owned(),
    };
    if let Some(bad) = status.get_details_bad_request() {
        for violation in bad.field_violations {
            if !(text.contains(&violation.field) && text.contains(&violation.description)) {
                text.push_str(&format!("\n  {}: {}", violation.field, violation.description));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn field_violations_are_shown_once() {
        let details =
            ErrorDetails::with_bad_request_violation("budgets.max_depth", "is 99; must be at most 64");
        let status =
            Status::with_error_details(Code::InvalidArgument, "the request is not valid", details.clone());
        let error = CliError::from(status);
        assert_eq!(
            error.to_string(),
            "the request is not valid\n  budgets.max_depth: is 99; must be at most 64"
        );
        assert_eq!(error.exit(), Exit::Usage);
        let status = Status::with_error_details(
            Code::InvalidArgument,
            "budgets.max_depth: is 99; must be at most 64",
            details,
        );
        assert_eq!(CliError::from(status).to_string(), "budgets.max_depth: is 99; must be at most 64");
    }

    #[test]
    fn exit_codes_tell_errors_apart() {
        assert_eq!(CliError::from(Status::not_found("run x does not exist")).exit(), Exit::Usage);
        assert_eq!(CliError::from(Status::unavailable("gone")).exit(), Exit::Disconnected);
        assert_eq!(CliError::from(Status::internal("bug")).exit(), Exit::Internal);
        assert_eq!(CliError::from(Status::unauthenticated("who?")).exit(), Exit::Unauthorized);
        assert_eq!(CliError::Usage("x".into()).exit(), Exit::Usage);
    }
}
