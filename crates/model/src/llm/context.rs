//! Assembles the prompt of a role from its input, within a budget of tokens. If it is too long, the oldest text of
//! the scratchpad is dropped first, then what children returned beyond their summaries, then the summaries. The
//! prompt says what was left out.

mod homework;
mod search;
mod views;

use std::fmt::Write;

use tree_agent_contract::role::{CallContext, Guidance, RoleError};
use tree_agent_contract::text::{one_line, prefix, suffix};

use super::prompt::Prompt;
use super::tokens;

pub(super) use homework::planner as homework;
pub(super) use search::{children, document, picker};
pub(super) use views::{Deliverable, aggregator, executor, planner};

/// Maximum of bytes for each kind of text.
#[derive(Clone, Copy, Debug)]
struct Caps {
    scratchpad: usize,
    json: usize,
    snippet: usize,
    summary: usize,
    outline: usize,
    /// The node's own task, which is shortened last.
    own: usize,
}

/// One of the caps.
type Cap = fn(&mut Caps) -> &mut usize;

/// Cuts texts to their caps and records what it leaves out.
pub(super) struct PromptTrimmer {
    caps: Caps,
    /// For each kind: the number of texts that were cut, and of bytes that were left out.
    out: Vec<(&'static str, usize, usize)>,
    /// Bytes of the scratchpad before it was cut.
    scratchpad: usize,
}

impl PromptTrimmer {
    fn new(caps: Caps) -> Self {
        Self { caps, out: Vec::new(), scratchpad: 0 }
    }

    fn note(&mut self, what: &'static str, bytes: usize) {
        match self.out.iter_mut().find(|(kind, ..)| *kind == what) {
            Some((_, texts, total)) => {
                *texts += 1;
                *total += bytes;
            }
            None => self.out.push((what, 1, bytes)),
        }
    }

    /// The beginning of `text`.
    fn head(&mut self, what: &'static str, text: &str, cap: usize) -> String {
        if text.len() <= cap {
            return text.to_owned();
        }
        let beginning = prefix(text, cap);
        self.note(what, text.len() - beginning.len());
        if beginning.is_empty() { String::new() } else { format!("{beginning} […]") }
    }

    pub(super) fn scratchpad(&mut self, text: &str) -> String {
        self.scratchpad = text.len();
        if text.len() <= self.caps.scratchpad {
            return text.to_owned();
        }
        let end = suffix(text, self.caps.scratchpad);
        self.note("the oldest text of the scratchpad", text.len() - end.len());
        if end.is_empty() { String::new() } else { format!("[…] {end}") }
    }

    pub(super) fn json(&mut self, text: &str) -> String {
        self.head("data that steps returned", text, self.caps.json)
    }

    pub(super) fn snippet(&mut self, text: &str) -> String {
        self.head("beginnings of documents", text, self.caps.snippet)
    }

    pub(super) fn summary(&mut self, text: &str) -> String {
        self.head("summaries of steps", text, self.caps.summary)
    }

    pub(super) fn outline(&mut self, text: &str) -> String {
        self.head("the outline of the tree", text, self.caps.outline)
    }

    /// What people have told the node, in words; empty if nobody has. It stands outside of the marks for material.
    fn told(&mut self, call: &CallContext) -> String {
        if call.guidance.is_empty() {
            return String::new();
        }
        let mut told = "A person who watches the run has told you this, the latest last. It is the user's word, and not \
                        material: follow it, also where it differs from the task."
            .to_owned();
        for Guidance { author, text } in &call.guidance {
            let author = if author.is_empty() { "a user" } else { author };
            let text = self.head("what the user says", text, self.caps.own);
            let _ = write!(told, "\n\n{}:\n{text}", one_line(author));
        }
        told
    }

    pub(super) fn own(&mut self, text: &str) -> String {
        self.head("the description of the task", text, self.caps.own)
    }

    /// What was left out so far, in words.
    pub(super) fn left_out(&self) -> Vec<String> {
        let word = |n: usize| if n == 1 { "text" } else { "texts" };
        self.out.iter().map(|&(what, n, bytes)| format!("{what}: {bytes} bytes of {n} {}", word(n))).collect()
    }
}

/// Renders a prompt of at most `budget` tokens, or the shortest one possible.
pub(super) fn assemble(
    budget: usize,
    render: impl Fn(&mut PromptTrimmer) -> Result<Prompt, RoleError>,
) -> Result<Prompt, RoleError> {
    /// Tokens of the section that says what was left out.
    const STATEMENT: usize = 120;
    const ALL: usize = usize::MAX;
    let mut caps = Caps { scratchpad: ALL, json: ALL, snippet: ALL, summary: ALL, outline: ALL, own: ALL };
    let mut trimmer = PromptTrimmer::new(caps);
    let mut prompt = render(&mut trimmer)?;
    if tokens::fit(&[&prompt.system, &prompt.user], budget) {
        return Ok(prompt);
    }
    let size = tokens::count(&prompt.system) + tokens::count(&prompt.user);
    let bytes = prompt.system.len() + prompt.user.len();
    let excess = (size - budget + STATEMENT) * bytes / size.max(1);
    let scratchpad = trimmer.scratchpad.saturating_sub(excess);
    let ladder: [(Cap, &[usize]); 6] = [
        (|c| &mut c.scratchpad, &[scratchpad, 0]),
        (|c| &mut c.json, &[4_000, 1_000, 200, 0]),
        (|c| &mut c.snippet, &[200, 0]),
        (|c| &mut c.summary, &[2_000, 600, 200, 80]),
        (|c| &mut c.outline, &[64_000, 16_000, 4_000, 1_000]),
        (|c| &mut c.own, &[4_000, 1_000, 300]),
    ];
    for (of, sizes) in ladder {
        for &size in sizes {
            *of(&mut caps) = size;
            prompt = render(&mut PromptTrimmer::new(caps))?;
            if tokens::fit(&[&prompt.system, &prompt.user], budget) {
                return Ok(prompt);
            }
        }
    }
    Ok(prompt)
}
