//! How a plan tells the node of a step what to do: in success criteria that people read and executors parse.

use std::collections::BTreeSet;

use tree_agent_contract::limits;
use tree_agent_contract::role::CallContext;
use tree_agent_contract::text::{ELLIPSIS, one_line, prefix};
use unicode_segmentation::UnicodeSegmentation;

use super::objective::{Parts, parts};
use super::short;
use super::words::{TERMS, Term, key_terms};

/// Bytes of a quoted part of the objective.
const PART_BYTES: usize = 2_000;

/// Note: the steps follow names from one document to the next, so their order says which of them answer best.
pub(super) const FOLLOWS: &str = "The steps follow names";

const QUOTES: &str = "Quotes passages about ";
const RARE: &str = "Its rarest words: ";

const STEPS: &str = "Steps: ";

/// The line before the notes of a plan. No title of a step can pass for it, because that is an item of a list.
const NOTES: &str = "**Notes.**";
/// Bytes of notes that stay in the end of a scratchpad, which is all that a call is given of it.
const NOTES_BYTES: usize = limits::TAIL_PREVIEW_BYTES - 72;
/// Note: there was no room for all of them.
const CUT: &str = "There is more";

/// The first of `notes` for which there is room, as a plan writes them.
pub(super) fn written(notes: &[String]) -> String {
    let mut text = format!("{NOTES}\n");
    for note in notes {
        if text.len() + note.len() > NOTES_BYTES {
            return format!("{text}- {CUT}\n");
        }
        text.push_str(&format!("- {note}\n"));
    }
    text
}

/// Criterion: a document was read.
pub(super) fn reads(path: &str) -> String {
    format!("Reads `{path}`")
}

/// Criterion: the passages are about these terms.
pub(super) fn quotes(terms: &[&str]) -> String {
    format!("{QUOTES}{}", terms.join(", "))
}

/// Note: these terms tell what the question is about.
pub(super) fn rare(terms: &[&str]) -> String {
    format!("{RARE}{}", terms.join(", "))
}

/// Note: how many steps the plan has.
pub(super) fn steps(number: usize) -> String {
    format!("{STEPS}{number}")
}

/// Criterion: a part of the objective is answered.
pub(super) fn answers(part: &str) -> String {
    format!("Answers “{}”", whole_words(part, PART_BYTES))
}

/// What a criterion that [`answers`] wrote asks for.
pub(super) fn answered(criterion: &str) -> Option<&str> {
    criterion.strip_prefix("Answers “")?.strip_suffix('”')
}

/// Criterion: two things are compared.
pub(super) fn compares(a: &str, b: &str) -> String {
    format!("Compares “{}” with “{}”", short(a, PART_BYTES), short(b, PART_BYTES))
}

/// The task of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Brief {
    /// What it is about.
    pub(super) subject: String,
    /// The documents that it should read; if empty, any that match.
    pub(super) reads: Vec<String>,
    /// The two things that it should compare.
    pub(super) compares: Option<(String, String)>,
}

impl Brief {
    /// Reads the brief of a node. The root has no criteria: its subject is the objective.
    pub(super) fn of(call: &CallContext) -> Self {
        let criteria = || call.success_criteria.iter().map(String::as_str);
        let quoted = |c: &str| answered(c).map(str::to_owned);
        let about = |c: &str| c.strip_prefix(QUOTES).map(str::to_owned);
        let compares = criteria().find_map(|c| {
            let (a, b) = c.strip_prefix("Compares “")?.strip_suffix('”')?.split_once("” with “")?;
            Some((a.to_owned(), b.to_owned()))
        });
        let own = if call.depth == 0 { &call.objective } else { &call.title };
        let subject = criteria().find_map(quoted).or_else(|| criteria().find_map(about));
        Self {
            subject: subject.unwrap_or_else(|| own.clone()),
            reads: criteria().filter_map(read_path).collect(),
            compares,
        }
    }

    /// The words that matter.
    pub(super) fn terms(&self) -> Vec<Term> {
        match &self.compares {
            Some((a, b)) => key_terms(&format!("{a} {b}")),
            None => match parts(&self.subject) {
                Parts::Several(parts) => shared_terms(&parts),
                _ => key_terms(&self.subject),
            },
        }
    }
}

/// The words of all parts, each once. If there are too many, each part gives as many as any other that has so many.
fn shared_terms(parts: &[String]) -> Vec<Term> {
    let terms: Vec<Vec<Term>> = parts.iter().map(|part| key_terms(part)).collect();
    let mut shares: Vec<Vec<Term>> = terms.iter().map(|_| Vec::new()).collect();
    let mut room = TERMS;
    for round in 0..TERMS {
        for (i, part) in terms.iter().enumerate() {
            if let Some(term) = part.get(round)
                && room > 0
                && !shares.iter().flatten().any(|known| known.stems == term.stems)
            {
                shares[i].push(term.clone());
                room -= 1;
            }
        }
    }
    shares.concat()
}

/// The first words of `text` that fit into `max` bytes, on one line. Half a word would be another word, which no
/// document holds.
fn whole_words(text: &str, max: usize) -> String {
    let text = one_line(text);
    let room = max - ELLIPSIS.len_utf8();
    if text.len() <= max {
        return text;
    }
    let end = match prefix(&text, room + 1).rfind(' ') {
        Some(end) => end,
        None => {
            let words = text.unicode_word_indices().map(|(at, _)| at).take_while(|at| *at <= room);
            words.filter(|at| !text[..*at].ends_with('-')).last().unwrap_or(0)
        }
    };
    format!("{}{ELLIPSIS}", &text[..end])
}

/// The path of a line that [`reads`] wrote.
fn read_path(line: &str) -> Option<String> {
    let path = line.trim().trim_start_matches("- ").strip_prefix("Reads `")?.strip_suffix('`')?;
    (!path.is_empty()).then(|| path.to_owned())
}

/// The notes that the planner of a node left for its executor and its aggregator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Notes {
    /// The documents that answer.
    pub(super) reads: Vec<String>,
    /// The terms that show where the answer is.
    pub(super) telling: Vec<Term>,
    /// Those of them that are rare.
    pub(super) rare: Vec<Term>,
    /// The steps follow names from one document to the next.
    pub(super) follows: bool,
    /// Steps of the plan.
    pub(super) steps: usize,
    /// There are more notes, which are lost.
    pub(super) is_cut: bool,
}

impl Notes {
    /// Which of `terms` are rare, as indices.
    pub(super) fn rarest(&self, terms: &[Term]) -> BTreeSet<usize> {
        (0..terms.len()).filter(|&i| self.rare.contains(&terms[i])).collect()
    }

    /// The notes in the scratchpad of a node.
    pub(super) fn of(call: &CallContext) -> Self {
        let lines: Vec<&str> = call.scratchpad_tail.lines().collect();
        match lines.iter().rposition(|line| *line == NOTES) {
            Some(at) => Self::from_lines(lines[at + 1..].iter().copied()),
            None => Self { is_cut: !lines.is_empty(), ..Self::default() },
        }
    }

    /// Reads what [`reads`], [`quotes`] and [`rare`] wrote.
    fn from_lines<'a>(lines: impl IntoIterator<Item = &'a str>) -> Self {
        let mut notes = Self::default();
        for line in lines {
            let item = line.trim().trim_start_matches("- ");
            if let Some(words) = item.strip_prefix(QUOTES) {
                notes.telling = key_terms(words);
            } else if let Some(words) = item.strip_prefix(RARE) {
                notes.rare = key_terms(words);
            } else if item == CUT {
                notes.is_cut = true;
            } else if let Some(steps) = item.strip_prefix(STEPS) {
                notes.steps = steps.parse().unwrap_or_default();
            } else if item == FOLLOWS {
                notes.follows = true;
            } else {
                notes.reads.extend(read_path(line));
            }
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_cut_between_words() {
        let text = format!("{} Boiler-Valve", "pilot ".repeat(330).trim_end());
        for max in 1_900..2_000 {
            let cut = whole_words(&text, max);
            assert!(cut.len() <= max && cut.ends_with(['e', ELLIPSIS]), "{cut}");
            assert!(!cut.contains("Boiler") || cut.ends_with("Boiler-Valve"), "{cut}");
            assert_eq!(key_terms(&cut)[0].shown, "pilot");
        }
        assert_eq!(whole_words("pilot,crane", 10), "pilot,…");
        assert_eq!(whole_words("pilotcrane", 9), "…");
        assert_eq!(whole_words("crane,boiler-valve", 16), "crane,…");
        assert_eq!(whole_words("pilot \n crane", 20), "pilot crane");
    }

    #[test]
    fn no_part_of_a_task_crowds_out_the_words_of_another() {
        let long: String = (0..40).map(|i| format!("word{i} ")).collect();
        let terms = shared_terms(&[long, "the harbour pilot".to_owned()]);
        assert_eq!(terms.len(), TERMS);
        let shown: Vec<&str> = terms.iter().map(|t| t.shown.as_str()).collect();
        assert!(
            shown.starts_with(&["word0", "word1"]) && shown.ends_with(&["harbour", "pilot"]),
            "{shown:?}"
        );
    }
}
