//! Zsh and fish.
//!
//! clap's own scripts send the word that is being completed as it was typed, with its quotes and backslashes, so
//! nothing begins like it. Ours remove those first. Both shells quote what is chosen themselves.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use clap::Command;
use clap_complete::env::{self, EnvCompleter};

use super::bash;

/// The completions of zsh. What stands before the cursor in the word is `PREFIX`, without a quote that is open.
pub(super) struct Zsh;

impl EnvCompleter for Zsh {
    fn name(&self) -> &'static str {
        "zsh"
    }

    fn is(&self, name: &str) -> bool {
        env::Zsh.is(name)
    }

    fn write_registration(
        &self,
        variable: &str,
        name: &str,
        program: &str,
        completer: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut script = Vec::new();
        env::Zsh.write_registration(variable, name, program, completer, &mut script)?;
        let words = r#""${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}""#;
        write!(out, "{}", String::from_utf8_lossy(&script).replace(r#""${words[@]}""#, words))
    }

    fn write_complete(
        &self,
        command: &mut Command,
        args: Vec<OsString>,
        current_dir: Option<&Path>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        env::Zsh.write_complete(command, args, current_dir, out)
    }
}

/// The completions of fish. It removes the quotes of all words but the last.
pub(super) struct Fish;

impl EnvCompleter for Fish {
    fn name(&self) -> &'static str {
        "fish"
    }

    fn is(&self, name: &str) -> bool {
        env::Fish.is(name)
    }

    fn write_registration(
        &self,
        variable: &str,
        name: &str,
        program: &str,
        completer: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        env::Fish.write_registration(variable, name, program, completer, out)
    }

    fn write_complete(
        &self,
        command: &mut Command,
        mut args: Vec<OsString>,
        current_dir: Option<&Path>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if let Some(last) = args.last_mut()
            && let Some(word) = last.to_str().and_then(bash::unquoted)
        {
            *last = word.into();
        }
        env::Fish.write_complete(command, args, current_dir, out)
    }
}
