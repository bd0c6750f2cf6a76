//! A question on the terminal before runs are gone.

use std::io::{self, BufRead, IsTerminal, Write};

use tree_agent_contract::RunId;

use crate::error::CliError;

/// Runs that are named.
const LISTED: usize = 20;

/// Lists the runs and asks. `without` is the error where there is no terminal.
pub(super) fn confirmed(runs: &[RunId], question: &str, without: &str) -> Result<bool, CliError> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(CliError::Usage(without.to_owned()));
    }
    let mut text = String::new();
    for run in runs.iter().take(LISTED) {
        text.push_str(&format!("  {run}\n"));
    }
    if let Some(more @ 1..) = runs.len().checked_sub(LISTED) {
        text.push_str(&format!("  and {more} more\n"));
    }
    text.push_str(&format!("{question} [y/N] "));
    let mut stderr = io::stderr().lock();
    stderr.write_all(text.as_bytes())?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
