//! `completions`: makes a shell complete.

use clap::Args;

use crate::complete;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;

/// Print a script that makes a shell complete commands, flags, runs and projects
#[derive(Debug, Args)]
#[command(after_help = SETUP)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_parser = ["bash", "elvish", "fish", "powershell", "zsh"])]
    shell: String,
}

const SETUP: &str = "\
Add one of these lines to the start-up file of your shell:
  ~/.bashrc                    source <(tree-agent completions bash)
  ~/.zshrc (after compinit)    source <(tree-agent completions zsh)
  ~/.config/fish/config.fish   tree-agent completions fish | source";

impl Completions {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, CliError> {
        if context.out.is_json() {
            return Err(CliError::Usage(
                "completions prints a script; leave out -o json and -o jsonl".into(),
            ));
        }
        let script = complete::script(&self.shell)
            .ok_or_else(|| CliError::Usage(format!("there are no completions for {:?}", self.shell)))?;
        context.out.script(&script?)?;
        Ok(Exit::Success)
    }
}
