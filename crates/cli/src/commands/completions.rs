//! `completions`: completion scripts for shells.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::Context;
use crate::args::Cli;
use crate::error::CliError;
use crate::exit::Exit;

/// Print a completion script for a shell
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, CliError> {
        if context.out.is_jsonl() {
            return Err(CliError::Usage("completions are a script and have no -o jsonl form".into()));
        }
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "tree-agent", &mut script);
        context.out.line(String::from_utf8_lossy(&script).trim_end())?;
        Ok(Exit::Success)
    }
}
