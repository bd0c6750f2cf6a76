//! Shows an answer in the node's scratchpad while it is generated.
//!
//! Answers are JSON, which nobody wants to watch. [`Readable`] follows the JSON as it arrives and lets through the
//! texts that are meant for people; prose outside of JSON is let through as it is.

use crate::io::RoleIo;

/// Keys whose texts are shown while they arrive.
const SHOWN: &[&str] = &["appendMarkdown", "documentMarkdown"];

/// Bytes that are gathered from chunks that arrive together, at the most.
const GATHERED_BYTES: usize = 16 * 1024;

/// Writes the readable part of an answer to the scratchpad. What arrives together is handed on together: whoever waits
/// for more must [`flush`](Self::flush) first.
pub(super) struct ScratchpadWriter<'a> {
    io: &'a RoleIo,
    readable: Readable,
    /// Written, and not yet handed on.
    text: String,
    wrote: bool,
    /// Of this answer something was written.
    writing: bool,
    silent: bool,
}

impl<'a> ScratchpadWriter<'a> {
    pub(super) fn new(io: &'a RoleIo) -> Self {
        let (readable, text) = (Readable::default(), String::new());
        Self { io, readable, text, wrote: false, writing: false, silent: false }
    }

    /// From now on nothing is written: the answers that follow say again what is there already.
    pub(super) fn silence(&mut self) {
        self.silent = true;
    }

    /// True when anything was written.
    pub(super) const fn wrote(&self) -> bool {
        self.wrote
    }

    /// An answer begins; one that broke off may stand before it.
    pub(super) fn begin(&mut self) {
        self.readable = Readable::default();
    }

    pub(super) async fn write(&mut self, chunk: &str) {
        let before = self.text.len();
        self.readable.feed(chunk, &mut self.text);
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

    /// Hands on what was written.
    pub(super) async fn flush(&mut self) {
        if !self.text.is_empty() {
            self.io.scratchpad(std::mem::take(&mut self.text)).await;
        }
    }

    /// The answer has ended: what follows begins on a line of its own.
    pub(super) async fn end(&mut self) {
        if std::mem::take(&mut self.writing) {
            self.text.push_str("\n\n");
        }
        self.flush().await;
    }

    /// A line of ours.
    pub(super) async fn remark(&mut self, text: &str) {
        self.text.push_str(&format!("*{text}*\n\n"));
        self.flush().await;
    }
}

/// Follows JSON text that arrives in pieces and gives out the texts of the keys that are shown.
#[derive(Default)]
struct Readable {
    state: State,
    /// The string that was read last: a key, if a colon follows.
    last: String,
    /// The value that follows belongs to a shown key.
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

impl Readable {
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
            // A fence or a brace begins the JSON; what stands before it is prose.
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
        /// No key that is shown is longer.
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
        let (mut readable, mut out) = (Readable::default(), String::new());
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
        // A fence that is cut between its backticks shows one of them; nothing else changes.
        assert_eq!(read(&letters), expected);
    }

    #[test]
    fn prose_is_shown_as_it_is() {
        assert_eq!(read(&["I look into ", "it: first the index."]), "I look into it: first the index.");
    }
}
