//! A way to report everything that is wrong with a configuration at once.
//!
//! Arguments are taken as text and parsed by [`Problems`], because the command line parser would stop at the first bad
//! value.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use tree_agent_security::{SharedSecrets, private_files};

use crate::urls::is_server_url;

/// Everything that is wrong with the configuration.
#[derive(Debug, Default)]
pub struct Problems(Vec<String>);

impl Problems {
    /// Notes that `name` has a problem.
    pub fn add(&mut self, name: &str, message: impl fmt::Display) {
        self.0.push(format!("{name}: {message}"));
    }

    /// Parses `text`; notes a problem that says what was `expected` when it is malformed.
    pub fn parse<T: FromStr>(&mut self, name: &str, text: &str, expected: &str) -> Option<T> {
        let parsed = text.trim().parse().ok();
        if parsed.is_none() {
            self.add(name, format_args!("{text:?} is not {expected}"));
        }
        parsed
    }

    /// Parses a number within `range`; the range's start stands in for a bad one.
    pub fn number(&mut self, name: &str, text: &str, range: std::ops::RangeInclusive<u64>) -> u64 {
        match text.trim().parse() {
            Ok(n) if range.contains(&n) => n,
            _ => {
                let expected =
                    format_args!("{text:?} is not a number from {} to {}", range.start(), range.end());
                self.add(name, expected);
                *range.start()
            }
        }
    }

    /// Parses whole seconds within `range`.
    pub fn seconds(&mut self, name: &str, text: &str, range: std::ops::RangeInclusive<u64>) -> Duration {
        Duration::from_secs(self.number(name, text, range))
    }

    /// The value of something that has no default; notes a problem with the `remedy` when it is missing.
    pub fn required(&mut self, name: &str, value: Option<&str>, remedy: &str) -> String {
        match value.map(str::trim).filter(|v| !v.is_empty()) {
            Some(value) => value.to_owned(),
            None => {
                self.add(name, format_args!("is not set; {remedy}"));
                String::new()
            }
        }
    }

    /// Comma-separated URLs of peers, at least one, each with scheme and host.
    pub fn urls(&mut self, name: &str, text: &str) -> Vec<http::Uri> {
        let mut urls = Vec::new();
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            match part.parse::<http::Uri>() {
                Ok(url) if is_server_url(&url) => urls.push(url),
                _ => self.add(
                    name,
                    format_args!(
                        "{part:?} is not a URL such as http://127.0.0.1:7402 or https://example.org"
                    ),
                ),
            }
        }
        if urls.is_empty() && text.trim().is_empty() {
            self.add(name, "is empty; name at least one URL, several separated by commas");
        }
        urls
    }

    /// `Ok` when nothing was noted.
    pub fn finish(self) -> Result<(), ConfigError> {
        if self.0.is_empty() { Ok(()) } else { Err(ConfigError(self.0)) }
    }
}

/// The configuration cannot be used. Lists every problem, one a line.
#[derive(Debug, thiserror::Error)]
#[error("the configuration cannot be used:\n  {}", .0.join("\n  "))]
pub struct ConfigError(Vec<String>);

/// Where secrets that services share come from: a file or a variable. There is no flag, because other users of a
/// machine can see command lines.
pub(crate) struct Secret<'a> {
    pub(crate) variable: &'static str,
    pub(crate) file_variable: &'static str,
    pub(crate) file: Option<&'a Path>,
}

impl Secret<'_> {
    /// The secrets from the file, else from the variable; `None` if neither is set. The error is the name of what is
    /// wrong and why.
    pub(crate) fn read(&self) -> Result<Option<SharedSecrets>, (&'static str, String)> {
        let Some(path) = self.file.filter(|path| !path.as_os_str().is_empty()) else {
            let Some(text) = std::env::var(self.variable).ok().filter(|text| !text.trim().is_empty()) else {
                return Ok(None);
            };
            let secrets = SharedSecrets::parse(&text);
            return secrets.map(Some).map_err(|error| (self.variable, error.to_string()));
        };
        let wrong = |text: String| (self.file_variable, format!("{} {text}", path.display()));
        let text =
            std::fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
        private_files::warn_if_shared(path);
        let secrets = SharedSecrets::parse(&text);
        secrets.map(Some).map_err(|error| wrong(format!("cannot be used: the secret {error}")))
    }
}
