//! What shells complete.
//!
//! The shell calls this program with `COMPLETE=SHELL` and the words of the command line; clap's engine finds the
//! candidates. Ids of runs, names of projects and models are asked of the server that the command line names. The
//! script that makes a shell do so is printed by `tree-agent completions SHELL`.

mod bash;
mod server;
mod unquoted;

use std::ffi::OsString;
use std::sync::OnceLock;

use clap::CommandFactory;
use clap_complete::CompleteEnv;
use clap_complete::env::{Elvish, EnvCompleter, Powershell, Shells};

pub(crate) use server::{models, nodes, nodes_first, projects, runs};

use self::bash::Bash;
use self::unquoted::{Fish, Zsh};
use crate::args::Cli;

/// The variable that tells this program to complete for a shell.
const VARIABLE: &str = "COMPLETE";
/// The name of the program in scripts.
const PROGRAM: &str = "tree-agent";

/// The words of the command line that is being completed.
static WORDS: OnceLock<Vec<OsString>> = OnceLock::new();

const SHELLS: Shells<'static> = Shells(&[&Bash, &Elvish, &Fish, &Powershell, &Zsh]);

/// Answers a shell that asks for completions and ends the process; otherwise does nothing.
pub(crate) fn answer_shell() {
    if std::env::var_os(VARIABLE).is_none() {
        return;
    }
    let words = std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
    // Bash sends a line instead of words.
    let _ = WORDS.set(bash::words().unwrap_or(words));
    CompleteEnv::with_factory(Cli::command).shells(SHELLS).complete();
}

/// The script that registers the completions with `shell`.
pub(crate) fn script(shell: &dyn EnvCompleter) -> std::io::Result<String> {
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, PROGRAM, PROGRAM, &program(), &mut script)?;
    Ok(String::from_utf8_lossy(&script).into_owned())
}

/// The shell with this name.
pub(crate) fn shell(name: &str) -> Option<&'static dyn EnvCompleter> {
    SHELLS.0.iter().copied().find(|shell| shell.is(name))
}

/// The program that the script calls: what the shell finds on its path, or the file when a path was given.
fn program() -> String {
    let called = std::env::args_os().next().unwrap_or_else(|| PROGRAM.into());
    let path = std::path::PathBuf::from(called);
    let path = if path.components().count() > 1 { std::path::absolute(&path).unwrap_or(path) } else { path };
    path.to_string_lossy().into_owned()
}
