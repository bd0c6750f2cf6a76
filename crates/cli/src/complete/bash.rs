//! Bash.
//!
//! Bash cuts words at `:`, `=` and `@` as well, so that `--server http://localhost:7400` is five words to a completion
//! function. clap's own script counts those, and offers nonsense after them. Ours sends the line, which is split into
//! words here.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use clap::Command;
use clap_complete::engine::complete;
use clap_complete::env::EnvCompleter;

/// The line up to the cursor.
const LINE: &str = "_TREE_AGENT_LINE";
/// The part of it that Bash will replace by what is chosen.
const REPLACED: &str = "_TREE_AGENT_WORD";

/// The completions of Bash.
pub(super) struct Bash;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn is(&self, name: &str) -> bool {
        name == "bash"
    }

    fn write_registration(
        &self,
        variable: &str,
        _name: &str,
        program: &str,
        completer: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let completer = shlex::try_quote(completer).unwrap_or(completer.into());
        write!(
            out,
            r#"_tree_agent_complete() {{
    local candidate
    COMPREPLY=()
    while IFS= read -r candidate; do
        COMPREPLY+=("$candidate")
    done < <({variable}=bash {LINE}="${{COMP_LINE:0:COMP_POINT}}" {REPLACED}="$2" {completer} -- line 2>/dev/null)
    if [[ ${{#COMPREPLY[@]}} == 1 && ${{COMPREPLY[0]}} == */ ]]; then
        compopt -o nospace 2>/dev/null
    fi
}}
complete -o bashdefault -o nosort -F _tree_agent_complete {program} 2>/dev/null ||
    complete -o bashdefault -F _tree_agent_complete {program}
"#
        )
    }

    fn write_complete(
        &self,
        command: &mut Command,
        _args: Vec<OsString>,
        current_dir: Option<&Path>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let Some(line) = std::env::var(LINE).ok().and_then(|line| Line::parse(&line)) else { return Ok(()) };
        let replaced = std::env::var(REPLACED).unwrap_or_default();
        let kept = line.kept(&replaced);
        let words = line.words.iter().map(OsString::from).collect();
        for candidate in complete(command, words, line.words.len() - 1, current_dir)? {
            let value = candidate.get_value().to_string_lossy();
            if let Some(value) = value.strip_prefix(kept).and_then(|value| line.quote.written(value)) {
                writeln!(out, "{value}")?;
            }
        }
        Ok(())
    }
}

/// The words of the line that Bash sent, if it is Bash that asks.
pub(super) fn words() -> Option<Vec<OsString>> {
    let line = Line::parse(&std::env::var(LINE).ok()?)?;
    Some(line.words.into_iter().map(OsString::from).collect())
}

/// A word that is being typed, without its quotes and backslashes.
pub(super) fn unquoted(word: &str) -> Option<String> {
    Line::parse(word)?.words.pop()
}

/// A command line up to the cursor.
#[derive(Debug, PartialEq)]
struct Line {
    /// Its words, without quotes; the last one is being completed and may be empty.
    words: Vec<String>,
    /// The quotation marks around the last word.
    quote: Quote,
}

/// The quote that is open where a word ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quote {
    None,
    Double,
    Single,
}

impl Quote {
    /// `value` as it is written there, so that Bash takes every character for itself: a name that somebody chose could
    /// otherwise end the quote and run a command. None if it cannot be written.
    fn written(self, value: &str) -> Option<String> {
        match self {
            Self::None => Some(escaped(value)),
            // Bash does not close a quote behind its own character.
            Self::Double if value.ends_with('"') => None,
            Self::Single if value.ends_with('\'') => None,
            // Nothing keeps Bash from expanding the history there without being a part of the word.
            Self::Double if value.contains('!') => None,
            Self::Double => {
                let escape = |c| if matches!(c, '"' | '\\' | '$' | '`') { vec!['\\', c] } else { vec![c] };
                Some(value.chars().flat_map(escape).collect())
            }
            Self::Single => Some(value.replace('\'', r"'\''")),
        }
    }
}

impl Line {
    fn parse(line: &str) -> Option<Self> {
        // The mark makes a word of what follows the last space; a quote that is open is closed behind it.
        const MARK: char = '\u{1}';
        for (end, quote) in [("", Quote::None), ("\"", Quote::Double), ("'", Quote::Single)] {
            if let Some(mut words) = shlex::split(&format!("{line}{MARK}{end}")) {
                let last = words.pop()?;
                words.push(last.strip_suffix(MARK)?.to_owned());
                return Some(Self { words, quote });
            }
        }
        None
    }

    /// The beginning of the last word that Bash keeps, because it cut the word there.
    fn kept(&self, replaced: &str) -> &str {
        let word = self.words.last().map(String::as_str).unwrap_or_default();
        // Of a word in quotes, Bash tells what follows the quote.
        let quote = match self.quote {
            Quote::Double if !replaced.starts_with('"') => "\"",
            Quote::Single if !replaced.starts_with('\'') => "'",
            _ => "",
        };
        let replaced = Self::parse(&format!("{quote}{replaced}"));
        let replaced = replaced.and_then(|line| line.words.into_iter().last()).unwrap_or_default();
        word.strip_suffix(&*replaced).unwrap_or_default()
    }
}

/// `value` with a backslash before each character that Bash gives a meaning.
fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if c.is_ascii() && !c.is_ascii_alphanumeric() && !"-_./:=@%+,".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str], quote: Quote) -> Option<Line> {
        Some(Line { words: words.iter().map(ToString::to_string).collect(), quote })
    }

    #[test]
    fn a_line_is_split_as_the_shell_does() {
        assert_eq!(Line::parse("tree-agent wa"), line(&["tree-agent", "wa"], Quote::None));
        assert_eq!(Line::parse("tree-agent "), line(&["tree-agent", ""], Quote::None));
        assert_eq!(
            Line::parse("tree-agent --server http://localhost:7400 watch @l"),
            line(&["tree-agent", "--server", "http://localhost:7400", "watch", "@l"], Quote::None)
        );
        assert_eq!(Line::parse("run --project \"my pr"), line(&["run", "--project", "my pr"], Quote::Double));
        assert_eq!(Line::parse("run 'what is"), line(&["run", "what is"], Quote::Single));
        assert_eq!(Line::parse("run my\\ pr"), line(&["run", "my pr"], Quote::None));
    }

    #[test]
    fn what_bash_cut_off_is_not_repeated() {
        let word = |text| Line::parse(text).unwrap();
        assert_eq!(word("watch @la").kept("la"), "@");
        assert_eq!(word("--model llm:f").kept("f"), "llm:");
        assert_eq!(word("watch 0190").kept("0190"), "");
        assert_eq!(word("--project my\\ pr").kept("my\\ pr"), "");
        assert_eq!(word("--project 'my pr").kept("my pr"), "");
        assert_eq!(word("--project \"my \\$pr").kept("my \\$pr"), "");
        assert_eq!(escaped("my project (old)"), "my\\ project\\ \\(old\\)");
    }

    #[test]
    fn no_name_ends_the_quote_that_it_is_completed_in() {
        let name = r#"a'; b"; $(c) `d` \e"#;
        for (begin, quote, end) in
            [("", Quote::None, ""), ("\"", Quote::Double, "\""), ("'", Quote::Single, "'")]
        {
            let written = quote.written(name).unwrap();
            assert_eq!(
                shlex::split(&format!("{begin}{written}{end}")),
                Some(vec![name.to_owned()]),
                "{written}"
            );
        }
        assert_eq!(Quote::Double.written("a $(b) `c`").unwrap(), r"a \$(b) \`c\`");
        assert_eq!(Quote::Double.written("a!b"), None);
        assert_eq!((Quote::Double.written("a\""), Quote::Single.written("a'")), (None, None));
        assert_eq!(Quote::Single.written("a!b").as_deref(), Some("a!b"));
    }
}
