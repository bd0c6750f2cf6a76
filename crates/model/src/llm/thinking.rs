//! What a model thinks between `<think>` and `</think>` in the text of its answer, as many local servers pass it on.
//!
//! Thoughts are no part of the answer. Some servers put the opening tag into the prompt, so that only the closing one
//! arrives. Text before it has then been passed on already, and is taken back at the end.

/// The tags, in the order of their use.
const TAGS: [(&str, &str); 3] =
    [("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<thought>", "</thought>")];

/// Takes the thoughts out of an answer while it arrives.
#[derive(Debug, Default)]
pub(super) struct Thinking {
    state: State,
    /// Text that may be the beginning of a tag.
    held: String,
    /// Thoughts came, and the space behind them belongs to them.
    thought: bool,
    /// What they were, also what the server tells apart from the answer by itself.
    pub(super) thoughts: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing but space has arrived.
    #[default]
    Beginning,
    /// Until this tag.
    Thoughts(&'static str),
    Answer,
}

impl Thinking {
    /// The part of `chunk` that belongs to the answer.
    pub(super) fn answer(&mut self, chunk: &str) -> String {
        if self.state == State::Answer {
            return chunk.to_owned();
        }
        self.held.push_str(chunk);
        if self.state == State::Beginning {
            let text = self.held.trim_start();
            match TAGS.iter().find(|(open, _)| text.starts_with(open)) {
                Some((open, close)) => {
                    self.held = text[open.len()..].to_owned();
                    self.state = State::Thoughts(close);
                }
                None if TAGS.iter().any(|(open, _)| open.starts_with(text)) => return String::new(),
                None => {
                    self.state = State::Answer;
                    return if self.thought { text.to_owned() } else { std::mem::take(&mut self.held) };
                }
            }
        }
        let State::Thoughts(close) = self.state else { return String::new() };
        match self.held.split_once(close) {
            Some((thought, answer)) => {
                self.thoughts.push_str(thought);
                let answer = answer.to_owned();
                self.held.clear();
                // More thoughts may follow.
                (self.state, self.thought) = (State::Beginning, true);
                self.answer(&answer)
            }
            None => {
                // Only the end can be the beginning of the tag.
                let mut from = self.held.len().saturating_sub(close.len());
                while !self.held.is_char_boundary(from) {
                    from += 1;
                }
                self.thoughts.extend(self.held.drain(..from));
                String::new()
            }
        }
    }

    /// What was held back and turned out to be text.
    pub(super) fn rest(&mut self) -> String {
        match self.state {
            State::Beginning => std::mem::take(&mut self.held),
            State::Thoughts(_) | State::Answer => String::new(),
        }
    }
}

/// The thoughts in `text` whose opening tag did not arrive, and the text without them. A closing tag ends them if its
/// line ends with it and it stands in no block of code: a text about such tags is left alone, and so is JSON, which has
/// no raw line breaks in its texts.
pub(super) fn split_unopened(text: &str) -> (&str, &str) {
    for (open, close) in TAGS {
        for (at, _) in text.match_indices(close) {
            let (before, after) = (&text[..at], &text[at + close.len()..]);
            let ends_line =
                after.is_empty() || after.starts_with(['\n', '\r']) || after.trim_start().starts_with('{');
            if ends_line && !before.contains(open) && before.matches("```").count().is_multiple_of(2) {
                return (before, after.trim_start());
            }
        }
    }
    ("", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&str]) -> String {
        let mut thinking = Thinking::default();
        let mut text: String = pieces.iter().map(|piece| thinking.answer(piece)).collect();
        text.push_str(&thinking.rest());
        split_unopened(&text).1.to_owned()
    }

    #[test]
    fn thoughts_are_no_part_of_the_answer_however_they_are_cut() {
        for (text, answer) in [
            ("<think>\nPerhaps {\"mode\": \"plan\"}.\n</think>\n\n{\"a\": 1}", "{\"a\": 1}"),
            ("\n<thinking>so</thinking><think>é…</think># A", "# A"),
            ("<think>never ends", ""),
            ("<thin", "<thin"),
            ("no tags <think> here </think> at all", "no tags <think> here </think> at all"),
            ("Let me see {\"x\": 1}.\n</think>\n\n{\"a\": 1}", "{\"a\": 1}"),
            ("Let me see. </think>{\"a\": 1}", "{\"a\": 1}"),
            ("{\"a\": \"what </think> means\"}", "{\"a\": \"what </think> means\"}"),
            ("# Tags\n\n```\nthoughts\n</think>\n```\n", "# Tags\n\n```\nthoughts\n</think>\n```\n"),
        ] {
            assert_eq!(read(&[text]), answer, "{text}");
            let letters: Vec<String> = text.chars().map(String::from).collect();
            let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
            assert_eq!(read(&letters), answer, "{text}");
        }
        let mut thinking = Thinking::default();
        for piece in ["<th", "ink>Perhaps é", "…</th", "ink>\n<think>no</think>", "A"] {
            thinking.answer(piece);
        }
        assert_eq!(thinking.thoughts, "Perhaps é…no");
    }
}
