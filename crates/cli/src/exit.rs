//! What the exit codes mean, in one place.

use std::process::ExitCode;

use tree_agent_contract::RunStatus;

/// How the program ended. The numbers are public: scripts depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Everything that was asked for was done. A run that completed with a partial result counts, with a note.
    Success = 0,
    /// Something inside tree-agent went wrong, or `status` found something wrong.
    Internal = 1,
    /// What was asked for is not possible: bad flags or input, or something named that does not exist.
    Usage = 2,
    /// The run failed.
    RunFailed = 3,
    /// The run was cancelled.
    RunCancelled = 4,
    /// The server could not be reached, or the connection was lost for good.
    Disconnected = 5,
    /// `verify` or `rebuild` found something wrong, or `stale` found that a cited source has changed.
    Unsound = 6,
    /// The server needs a token, or did not accept the one that was sent.
    Unauthorized = 7,
    /// Ctrl-C or SIGTERM: the command stopped, the run continues.
    Interrupted = 130,
}

/// The table that `--help` ends with.
pub(crate) const HELP: &str = "\
Exit codes:
    0  success (a run that completed with a partial result counts; a note says so)
    1  internal error, or something that status found wrong
    2  usage: bad flags or input, or something named that does not exist
    3  the run failed
    4  the run was cancelled
    5  the server is unreachable, or the connection was lost for good
    6  verify or rebuild found something wrong, or stale a cited source that has changed
    7  the server needs a token, or did not accept the one that was sent
  130  interrupted (Ctrl-C, SIGTERM); a watched run continues";

impl Exit {
    /// The exit code of a command that waited for a run which ended with `status`.
    pub(crate) const fn of_run(status: RunStatus) -> Self {
        match status {
            RunStatus::Failed => Exit::RunFailed,
            RunStatus::Cancelled => Exit::RunCancelled,
            _ => Exit::Success,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_code() {
        for exit in [
            Exit::Success,
            Exit::Internal,
            Exit::Usage,
            Exit::RunFailed,
            Exit::RunCancelled,
            Exit::Disconnected,
            Exit::Unsound,
            Exit::Unauthorized,
            Exit::Interrupted,
        ] {
            let code = (exit as u8).to_string();
            assert!(HELP.lines().any(|line| line.trim_start().starts_with(&format!("{code} "))), "{code}");
        }
    }
}
