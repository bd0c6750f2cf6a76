//! Loads question sets in the common JSON form of multi-hop sets.
//!
//! Questions: a list of `{id, question, answer, answer_aliases?, paragraphs: [{title, paragraph_text, is_supporting}],
//! question_decomposition?: [{question, answer, paragraph_support_idx}]}`. Corpus: a list of `{title, text}`. Without a
//! corpus the passages are the paragraphs of the questions.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::set::{Hop, Passage, Question, QuestionSet, path_of};

/// The public sets whose form is known by the names of their files: name in the file name, name, citation.
const KNOWN: &[(&str, &str, &str)] = &[(
    "musique",
    "MuSiQue",
    "Part of MuSiQue (Trivedi et al., “MuSiQue: Multihop Questions via Single-hop Question Composition”, TACL 2022; \
     licence CC BY 4.0).",
)];

#[derive(Deserialize)]
struct RawQuestion {
    id: String,
    question: String,
    answer: String,
    #[serde(default)]
    answer_aliases: Vec<String>,
    paragraphs: Vec<RawParagraph>,
    #[serde(default)]
    question_decomposition: Vec<RawHop>,
}

#[derive(Deserialize)]
struct RawParagraph {
    idx: Option<usize>,
    title: String,
    paragraph_text: String,
    #[serde(default)]
    is_supporting: bool,
}

#[derive(Deserialize)]
struct RawHop {
    question: String,
    answer: String,
    paragraph_support_idx: Option<usize>,
}

#[derive(Deserialize)]
struct RawPassage {
    title: String,
    text: String,
}

/// The set in the file `questions`, over the passages in the file `corpus`.
///
/// # Errors
/// A file that cannot be read, is not of the form above, or whose questions rest on passages that the corpus lacks.
pub fn question_set(questions: &Path, corpus: Option<&Path>) -> anyhow::Result<QuestionSet> {
    let raw: Vec<RawQuestion> = read(questions)?;
    let texts: Vec<RawPassage> = match corpus {
        Some(corpus) => read(corpus)?,
        None => {
            let paragraphs = raw.iter().flat_map(|q| &q.paragraphs);
            paragraphs
                .map(|p| RawPassage { title: p.title.clone(), text: p.paragraph_text.clone() })
                .collect()
        }
    };
    let file = questions.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let known = KNOWN.iter().find(|(part, ..)| file.to_lowercase().contains(part));
    let (name, source) = match known {
        Some((_, name, source)) => ((*name).to_owned(), (*source).to_owned()),
        None => (file, "A question set from a file.".to_owned()),
    };
    let (mut places, mut passages) = (HashMap::new(), Vec::new());
    let mut taken = BTreeMap::new();
    for raw in texts {
        places.entry((raw.title.clone(), raw.text.clone())).or_insert_with(|| {
            let path = path_of(&raw.title, &mut taken);
            passages.push(Passage { path, title: raw.title, text: raw.text });
            passages.len() - 1
        });
    }
    let questions = raw.into_iter().map(|q| question(q, &places)).collect::<anyhow::Result<Vec<_>>>()?;
    ensure!(!questions.is_empty(), "{name} holds no question");
    Ok(QuestionSet { name, source, passages, questions })
}

fn question(raw: RawQuestion, places: &HashMap<(String, String), usize>) -> anyhow::Result<Question> {
    let place = |p: &RawParagraph| {
        let key = (p.title.clone(), p.paragraph_text.clone());
        places.get(&key).copied().with_context(|| format!("{}: the corpus lacks {:?}", raw.id, p.title))
    };
    let supporting = raw.paragraphs.iter().filter(|p| p.is_supporting);
    let mut gold = supporting.map(place).collect::<anyhow::Result<Vec<_>>>()?;
    gold.sort_unstable();
    gold.dedup();
    let mut hops = Vec::new();
    for hop in &raw.question_decomposition {
        let Some(idx) = hop.paragraph_support_idx else { continue };
        let found = raw.paragraphs.iter().enumerate().find(|(i, p)| p.idx.unwrap_or(*i) == idx);
        let (_, paragraph) = found.with_context(|| format!("{}: no paragraph {idx}", raw.id))?;
        hops.push(Hop {
            question: hop.question.clone(),
            answer: hop.answer.clone(),
            passage: place(paragraph)?,
        });
    }
    let answers = std::iter::once(raw.answer).chain(raw.answer_aliases).collect();
    Ok(Question { id: raw.id, text: raw.question, answers, gold, hops })
}

fn read<T: DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_form_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("small.json");
        let text = r#"[{"id": "q1", "question": "Who?", "answer": "Ada", "answer_aliases": ["A."], "paragraphs": [
            {"idx": 4, "title": "Noise", "paragraph_text": "Nothing.", "is_supporting": false},
            {"idx": 7, "title": "Ada", "paragraph_text": "It was Ada.", "is_supporting": true}],
            "question_decomposition": [{"question": "Who >> is", "answer": "Ada", "paragraph_support_idx": 7}]}]"#;
        std::fs::write(&file, text).unwrap();
        let set = question_set(&file, None).unwrap();
        assert_eq!(set.passages.len(), 2);
        let question = &set.questions[0];
        assert_eq!(question.answers, ["Ada", "A."]);
        assert_eq!((question.gold.as_slice(), question.hops[0].passage), (&[1][..], 1));
        assert_eq!(set.passages[1].path, "ada.md");
        // A corpus that lacks the evidence is refused.
        let corpus = folder.path().join("corpus.json");
        std::fs::write(&corpus, r#"[{"title": "Noise", "text": "Nothing."}]"#).unwrap();
        assert!(question_set(&file, Some(&corpus)).unwrap_err().to_string().contains("lacks"));
    }
}
