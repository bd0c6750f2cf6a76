//! Question sets with gold evidence.

/// Questions about passages, with gold answers and gold evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionSet {
    /// What the table calls it.
    pub name: String,
    /// Where it comes from, in one sentence.
    pub source: String,
    /// The passages; each is imported as one document.
    pub passages: Vec<Passage>,
    /// The questions.
    pub questions: Vec<Question>,
}

/// A text that may hold evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The path of its document, unique in the set.
    pub path: String,
    /// Its heading.
    pub title: String,
    /// The text below the heading.
    pub text: String,
}

impl Passage {
    /// The document that is imported.
    pub fn body(&self) -> String {
        format!("# {}\n\n{}\n", self.title, self.text)
    }
}

/// A question and what is known about its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Its name in the set.
    pub id: String,
    /// The objective of the run.
    pub text: String,
    /// The answer first, then other spellings of it.
    pub answers: Vec<String>,
    /// The passages that together hold the answer, as indices of [`QuestionSet::passages`].
    pub gold: Vec<usize>,
    /// The steps that lead to the answer; empty if the set does not tell.
    pub hops: Vec<Hop>,
}

/// One step of a gold decomposition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// What it asks.
    pub question: String,
    /// What it finds.
    pub answer: String,
    /// The passage that says so.
    pub passage: usize,
}

/// Gives every passage a path of its own, made of its title.
pub(crate) fn path_of(title: &str, taken: &mut std::collections::BTreeMap<String, usize>) -> String {
    let words: Vec<String> = crate::text::words(title).into_iter().take(8).collect();
    let name = if words.is_empty() { "passage".to_owned() } else { words.join("-") };
    let uses = taken.entry(name.clone()).or_default();
    *uses += 1;
    if *uses == 1 { format!("{name}.md") } else { format!("{name}--{uses}.md") }
}
