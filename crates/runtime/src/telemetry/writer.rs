//! Log lines that neither steer a terminal nor reorder what is shown.
//!
//! The library escapes most controls of terminals, but not those of bidirectional text, and in JSON only those of
//! ASCII. Errors of providers and of MCP servers may hold them.

use std::borrow::Cow;
use std::io::{self, Write};

use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tree_agent_contract::text::{escaped, steers_terminal};

/// Makes writers that write such characters as `\u202e`, which stands for the same in JSON.
pub(super) struct PlainWriter {
    pub(super) to: BoxMakeWriter,
    /// Fields that each JSON object begins with; empty for text.
    pub(super) first: String,
}

impl<'a> MakeWriter<'a> for PlainWriter {
    type Writer = Lines<'a, <BoxMakeWriter as MakeWriter<'a>>::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Lines(self.to.make_writer(), &self.first)
    }

    fn make_writer_for(&'a self, meta: &tracing::Metadata<'_>) -> Self::Writer {
        Lines(self.to.make_writer_for(meta), &self.first)
    }
}

/// Writes whole lines, as the library does.
pub(super) struct Lines<'a, W>(W, &'a str);

impl<W: Write> Write for Lines<'_, W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let Ok(text) = std::str::from_utf8(line) else { return self.0.write(line) };
        // The end of the line, and the library's own colours: it escapes the escape characters of others.
        let (text, end) = text.strip_suffix('\n').map_or((text, ""), |text| (text, "\n"));
        match escaped(text, |c| steers_terminal(c) && c != '\u{1b}') {
            Cow::Borrowed(_) if self.1.is_empty() => self.0.write(line),
            plain => {
                let object = plain.strip_prefix('{').filter(|_| !self.1.is_empty());
                let whole = match object {
                    Some(fields) => format!("{{{}{fields}{end}", self.1),
                    None => plain.into_owned() + end,
                };
                self.0.write_all(whole.as_bytes()).map(|()| line.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is written of warnings, by a subscriber that writes with a given writer.
    fn written(
        first: &str,
        subscribe: impl FnOnce(PlainWriter) -> Box<dyn tracing::Subscriber + Send + Sync>,
    ) -> String {
        let log = Log::default();
        let writer = log.clone();
        let to = BoxMakeWriter::new(move || writer.clone());
        let lines = subscribe(PlainWriter { to, first: first.to_owned() });
        tracing::subscriber::with_default(lines, || {
            tracing::warn!("down: a\u{202e}b\u{2066}c\u{200f} ünïcode \u{1b}[8m");
            tracing::warn!(text = "x\u{2029}y\u{9b}31m\u{7f}", "plain\u{9b}8m\r\nforged");
        });
        String::from_utf8(log.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn no_log_line_steers_a_terminal_or_reorders_what_is_shown() {
        let texts = [
            written("", |writer| {
                Box::new(tracing_subscriber::fmt().with_writer(writer).with_ansi(false).finish())
            }),
            written(r#""service":"s","#, |writer| {
                Box::new(tracing_subscriber::fmt().json().with_writer(writer).finish())
            }),
        ];
        for line in texts[1].lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["service"], "s");
        }
        for text in texts {
            assert!(text.contains("down: a\\u202eb\\u2066c\\u200f ünïcode"), "{text}");
            assert!(text.lines().count() == 2 && text.contains("plain"), "{text}");
            assert!(!text.contains(|c: char| steers_terminal(c) && c != '\n'), "{text}");
        }
    }
}
