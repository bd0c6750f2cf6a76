//! Shows an answer in the node's scratchpad while it is generated.
//!
//! Answers are JSON. [`ReadableText`] parses it as it arrives and extracts the texts that are meant for people. Text
//! outside of the JSON is shown unchanged.

use crate::io::RoleIo;

/// Keys whose texts are shown while they arrive.
const SHOWN: &[&str] = &["appendMarkdown", "documentMarkdown"];

/// Maximum of bytes that are collected from chunks that arrive together.
const GATHERED_BYTES: usize = 16 * 1024;

/// Writes the readable part of an answer to the scratchpad. Chunks that arrive together are written together: call
/// [`flush`](Self::flush) before waiting for more.
pub(super) struct ScratchpadWriter<'a> {
    pub(super) io: &'a RoleIo,
    /// None if the answer is no JSON.
    readable: Option<ReadableText>,
    /// Not yet flushed.
    text: String,
    wrote: bool,
    /// Something of the current answer was written.
    writing: bool,
    silent: bool,
}

impl<'a> ScratchpadWriter<'a> {
    pub(super) fn new(io: &'a RoleIo) -> Self {
        let (readable, text) = (Some(ReadableText::default()), String::new());
        Self { io, readable, text, wrote: false, writing: false, silent: false }
    }

    /// For answers that are text: all of it is shown.
    pub(super) fn of_text(io: &'a RoleIo) -> Self {
        Self { readable: None, ..Self::new(io) }
    }

    /// Writes nothing from now on, because the following answers repeat what was written.
    pub(super) fn silence(&mut self) {
        self.silent = true;
    }

    /// True if the call has had an answer of a model.
    pub(super) fn has_asked(&self) -> bool {
        self.io.has_asked()
    }

    /// True if anything was written.
    pub(super) const fn wrote(&self) -> bool {
        self.wrote
    }

    /// Starts an answer. The one before it may be incomplete.
    pub(super) fn begin(&mut self) {
        self.readable = self.readable.is_some().then(ReadableText::default);
    }

    pub(super) async fn write(&mut self, chunk: &str) {
        let before = self.text.len();
        match &mut self.readable {
            Some(readable) => readable.feed(chunk, &mut self.text),
            None => self.text.push_str(chunk),
        }
        if self.silent {
            self.text.truncate(before);
        }
        if self.text.len() > before {
            (self.wrote, self.writing) = (true, true);
        }
        if self.text.len() >= GATHERED_BYTES {
            self.flush().await;
        }
    }

    /// Sends what was written.
    pub(super) async fn flush(&mut self) {
        if !self.text.is_empty() {
            self.io.scratchpad(std::mem::take(&mut self.text)).await;
        }
    }

    /// Ends the answer. The next text starts on its own line.
    pub(super) async fn end(&mut self) {
        if std::mem::take(&mut self.writing) {
            self.text.push_str("\n\n");
        }
        self.flush().await;
    }

    /// Writes a remark that is not part of the answer.
    pub(super) async fn remark(&mut self, text: &str) {
        self.text.push_str(&format!("*{text}*\n\n"));
        self.flush().await;
    }
}

/// Parses JSON that arrives in pieces and extracts the texts of the [`SHOWN`] keys.
#[derive(Default)]
struct ReadableText {
    state: State,
    /// The last string; if a colon follows, it is a key.
    last: String,
    /// The next value belongs to a shown key.
    shown: bool,
    /// JSON has begun.
    json: bool,
    /// Backticks in a row: three are a fence.
    ticks: u8,
    /// The hexadecimal digits of an escape so far.
    hex: String,
    /// The first half of a surrogate pair.
    high: Option<u16>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Outside,
    Text,
    Escape,
    Unicode,
}

impl ReadableText {
    fn feed(&mut self, chunk: &str, out: &mut String) {
        for c in chunk.chars() {
            match self.state {
                State::Outside => self.outside(c, out),
                State::Text => match c {
                    '"' => {
                        self.state = State::Outside;
                        if self.shown {
                            out.push_str("\n\n");
                            self.shown = false;
                        }
                    }
                    '\\' => self.state = State::Escape,
                    c => self.put(c, out),
                },
                State::Escape => {
                    self.state = State::Text;
                    match c {
                        'n' => self.put('\n', out),
                        't' => self.put('\t', out),
                        'u' => {
                            self.hex.clear();
                            self.state = State::Unicode;
                        }
                        'r' | 'b' | 'f' => {}
                        c => self.put(c, out),
                    }
                }
                State::Unicode => {
                    self.hex.push(c);
                    if self.hex.len() >= 4 {
                        self.state = State::Text;
                        self.unicode(out);
                    }
                }
            }
        }
    }

    fn outside(&mut self, c: char, out: &mut String) {
        if !self.json {
            // A fence or a brace starts the JSON; the text before it is prose.
            self.ticks = if c == '`' { self.ticks + 1 } else { 0 };
            self.json = c == '{' || self.ticks == 3;
            if !self.json {
                out.push(c);
            }
            return;
        }
        match c {
            '"' => {
                self.state = State::Text;
                self.last.clear();
            }
            ':' => self.shown = SHOWN.contains(&self.last.as_str()),
            c if c.is_whitespace() => {}
            _ => self.shown = false,
        }
    }

    fn put(&mut self, c: char, out: &mut String) {
        /// No shown key is longer.
        const LONGEST_KEY: usize = 32;
        if self.shown {
            out.push(c);
        } else if self.last.len() < LONGEST_KEY {
            self.last.push(c);
        }
    }

    fn unicode(&mut self, out: &mut String) {
        let Ok(unit) = u16::from_str_radix(&self.hex, 16) else { return };
        let units: Vec<u16> = self.high.take().into_iter().chain([unit]).collect();
        match char::decode_utf16(units.iter().copied()).collect::<Result<String, _>>() {
            Ok(text) => text.chars().for_each(|c| self.put(c, out)),
            Err(_) if (0xD800..0xDC00).contains(&unit) => self.high = Some(unit),
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&str]) -> String {
        let (mut readable, mut out) = (ReadableText::default(), String::new());
        pieces.iter().for_each(|piece| readable.feed(piece, &mut out));
        out
    }

    #[test]
    fn only_the_texts_for_people_are_shown_however_the_answer_is_cut() {
        let answer = "Sure.\n```json\n{\"mode\": \"plan\", \"scratchpad\": {\"appendMarkdown\": \"a \\\"b\\\"\\nc \\u00e9\\ud83d\\ude00\"}, \
                      \"x\": [\"appendMarkdown\", 1], \"documentMarkdown\" : \"# T\"}\n```";
        let expected = "Sure.\n``a \"b\"\nc é😀\n\n# T\n\n";
        assert_eq!(read(&[answer]), expected);
        let letters: Vec<String> = answer.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        // If a fence is split between its backticks, one of them is shown; nothing else changes.
        assert_eq!(read(&letters), expected);
    }

    #[test]
    fn prose_is_shown_as_it_is() {
        assert_eq!(read(&["I look into ", "it: first the index."]), "I look into it: first the index.");
    }
}
