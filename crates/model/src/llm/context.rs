//! Assembles the prompt of a role from its input, within a budget of tokens. If it is too long, the oldest text of
//! the scratchpad is dropped first. Then the documents of children share the room that is left, and after them the rest
//! of what children returned is shortened, their summaries last. The prompt says what was left out.

mod homework;
mod search;
mod views;

use std::fmt::Write;

use tree_agent_contract::DocumentId;
use tree_agent_contract::event::PromptDocument;
use tree_agent_contract::role::{CallContext, Guidance, RoleError};
use tree_agent_contract::text::{prefix, suffix};

use super::material::line;
use super::prompt::Prompt;
use super::reading::Read;
use super::survey::{Hit, Survey};
use super::tokens;

pub(super) use homework::planner as homework;
pub(super) use search::{children, document, picker};
pub(super) use views::{aggregator, executor, planner, shown_children, verifier};

/// Maximum of bytes for each kind of text.
#[derive(Clone, Copy, Debug)]
struct Caps {
    scratchpad: usize,
    json: usize,
    snippet: usize,
    summary: usize,
    outline: usize,
    /// Lines of the list of documents.
    listing: usize,
    /// Each passage that a search found for a plan.
    passage: usize,
    /// Each document that children returned.
    document: usize,
    /// What each sibling has found.
    finding: usize,
    /// The node's own task, which is shortened last.
    own: usize,
}

/// One of the caps.
type Cap = fn(&mut Caps) -> &mut usize;

/// How a cap is lowered.
enum Rung {
    /// To these sizes, one after the other.
    To(Cap, &'static [usize]),
    /// The documents share the room that the rest of the prompt leaves.
    Share,
}

/// A part of a document that is shorter says nothing.
const SHORTEST_PART: usize = 400;

/// Cuts texts to their caps and records what it leaves out.
pub(super) struct PromptTrimmer {
    caps: Caps,
    /// For each kind: the number of texts that were cut, and of bytes that were left out.
    out: Vec<(&'static str, usize, usize)>,
    /// Bytes of the scratchpad before it was cut.
    scratchpad: usize,
    /// Bytes of each document before it was cut.
    lengths: Vec<usize>,
    /// What the prompt holds of documents.
    documents: Vec<PromptDocument>,
    /// The task of the node, on one line.
    task: String,
    /// Documents and passages that it must not show, by their first byte.
    refused: Vec<(DocumentId, u64)>,
    /// One of the documents, for an example.
    example: Option<DocumentId>,
}

impl PromptTrimmer {
    fn new(caps: Caps) -> Self {
        Self {
            caps,
            out: Vec::new(),
            scratchpad: 0,
            lengths: Vec::new(),
            documents: Vec::new(),
            task: String::new(),
            refused: Vec::new(),
            example: None,
        }
    }

    /// Shows none of these documents and passages.
    pub(super) fn leave_out(&mut self, refused: &[(DocumentId, u64)]) {
        self.refused = refused.to_vec();
    }

    /// True if a passage of this document was refused.
    pub(super) fn is_refused(&self, document: DocumentId) -> bool {
        self.refused.iter().any(|(refused, _)| *refused == document)
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

    pub(super) fn finding(&mut self, text: &str) -> String {
        self.head("findings of other tasks", text, self.caps.finding)
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

    /// The beginning of a document that was read, and how much of it that is; none if nothing of it is shown.
    pub(super) fn document(&mut self, id: DocumentId, read: &Read) -> Option<(String, String)> {
        if self.refused.contains(&(id, 0)) {
            self.note("documents that a content filter refuses", read.text.len());
            return None;
        }
        self.lengths.push(read.text.len());
        let text = prefix(&read.text, self.caps.document);
        let (bytes, size) = (text.len() as u64, read.size);
        let left = usize::try_from(size - bytes).unwrap_or(usize::MAX);
        if left > 0 {
            self.note("documents of steps", left);
        }
        if text.is_empty() {
            return None;
        }
        self.example.get_or_insert(id);
        self.documents.push(PromptDocument { document_id: id, offset: 0, bytes, size });
        Some(match left {
            0 => (text.to_owned(), "the whole document".to_owned()),
            _ => (format!("{text} […]"), format!("the first {bytes} of {size} bytes")),
        })
    }

    /// What a planner is shown of its surroundings.
    fn survey(&mut self, survey: &Survey) -> Survey {
        let mut shown = survey.clone();
        if self.caps.listing < shown.listing.len() {
            let lost = shown.listing.drain(self.caps.listing..).map(|line| line.len()).sum();
            self.note("the list of documents", lost);
        }
        shown.hits = self.passages(&survey.hits);
        shown
    }

    /// What a search found.
    fn passages(&mut self, hits: &[Hit]) -> Vec<Hit> {
        if self.caps.passage == 0 && !hits.is_empty() {
            self.note("passages that a search found", hits.iter().map(|hit| hit.passage.len()).sum());
            return Vec::new();
        }
        let is_shown = |hit: &&Hit| !self.refused.contains(&(hit.id, hit.offset));
        let shown: Vec<Hit> = hits.iter().filter(is_shown).cloned().collect();
        if shown.len() < hits.len() {
            self.note("passages that a content filter refuses", 0);
        }
        let hits = &shown[..];
        self.example = self.example.or(hits.first().map(|hit| hit.id));
        self.documents.extend(hits.iter().map(|hit| PromptDocument {
            document_id: hit.id,
            offset: hit.offset,
            bytes: hit.passage.len() as u64,
            size: hit.size,
        }));
        hits.to_vec()
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
            let _ = write!(told, "\n\n{}:\n{text}", line(author));
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
    let mut caps = Caps {
        scratchpad: ALL,
        json: ALL,
        snippet: ALL,
        summary: ALL,
        outline: ALL,
        listing: ALL,
        passage: ALL,
        document: ALL,
        finding: ALL,
        own: ALL,
    };
    let draft = |caps: Caps| {
        let mut trimmer = PromptTrimmer::new(caps);
        let mut prompt = render(&mut trimmer)?;
        prompt.documents = std::mem::take(&mut trimmer.documents);
        (prompt.task, prompt.example) = (std::mem::take(&mut trimmer.task), trimmer.example.take());
        Ok::<_, RoleError>((prompt, trimmer))
    };
    let fits = |prompt: &Prompt| tokens::fit(&[&prompt.system, &prompt.user], budget);
    // Bytes by which a prompt is too long, about.
    let excess = |prompt: &Prompt| {
        let size = tokens::count(&prompt.system) + tokens::estimate(&prompt.user);
        let bytes = prompt.system.len() + prompt.user.len();
        (size.saturating_sub(budget) + STATEMENT) * bytes / size.max(1)
    };
    let (mut prompt, trimmer) = draft(caps)?;
    if fits(&prompt) {
        return Ok(prompt);
    }
    let lengths = trimmer.lengths;
    caps.scratchpad = trimmer.scratchpad.saturating_sub(excess(&prompt));
    prompt = draft(caps)?.0;
    let ladder = [
        Rung::To(|c| &mut c.scratchpad, &[0]),
        Rung::To(|c| &mut c.finding, &[400, 120]),
        Rung::To(|c| &mut c.json, &[16_000, 4_000]),
        Rung::Share,
        Rung::To(|c| &mut c.json, &[1_000, 200, 0]),
        Rung::To(|c| &mut c.snippet, &[200, 0]),
        Rung::To(|c| &mut c.listing, &[20, 0]),
        Rung::To(|c| &mut c.passage, &[0]),
        Rung::To(|c| &mut c.summary, &[2_000, 600, 200, 80]),
        Rung::To(|c| &mut c.document, &[0]),
        Rung::To(|c| &mut c.outline, &[64_000, 16_000, 4_000, 1_000]),
        Rung::To(|c| &mut c.own, &[4_000, 1_000, 300]),
    ];
    for rung in ladder {
        match rung {
            Rung::To(of, sizes) => {
                for &size in sizes {
                    if fits(&prompt) {
                        return Ok(prompt);
                    }
                    *of(&mut caps) = size;
                    prompt = draft(caps)?.0;
                }
            }
            // Texts differ in the bytes of a token, so one step may not be enough.
            Rung::Share => {
                for _ in 0..4 {
                    if fits(&prompt) || caps.document == 0 || lengths.is_empty() {
                        break;
                    }
                    let shown: usize = lengths.iter().map(|length| length.min(&caps.document)).sum();
                    caps.document = level(&lengths, shown.saturating_sub(excess(&prompt)));
                    prompt = draft(caps)?.0;
                }
            }
        }
    }
    Ok(prompt)
}

/// The cap under which texts of these lengths have at most `total` bytes together: short ones stay whole, and long ones
/// are cut to the same length. 0 if too little would be left of a text.
fn level(lengths: &[usize], total: usize) -> usize {
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    let (mut left, mut texts) = (total, sorted.len());
    for length in sorted {
        if length * texts > left {
            let cap = left / texts;
            return if cap < SHORTEST_PART { 0 } else { cap };
        }
        (left, texts) = (left - length, texts - 1);
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_share_what_room_there_is() {
        assert_eq!(level(&[1_000, 5_000, 9_000], 20_000), usize::MAX);
        assert_eq!(level(&[1_000, 5_000, 9_000], 11_000), 5_000);
        assert_eq!(level(&[9_000, 1_000, 5_000], 7_000), 3_000);
        assert_eq!(level(&[9_000, 9_000], 700), 0, "less than that says nothing");
    }
}
