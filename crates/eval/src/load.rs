//! Loads question sets, in two forms.
//!
//! Questions about documents: a list of `{id, corpus, question, parts: [{gold: [{path, quote}]}]}`, with a folder that
//! holds a folder of documents for each `corpus`. A part is answered by any of its quotes. A question without parts has
//! no answer in the documents.
//!
//! A set in one file: `{documents: {path: text}, questions: […]}`, with questions of the first form.
//!
//! Questions about paragraphs, as multi-hop sets have them: a list of `{id, question, paragraphs: [{title,
//! paragraph_text, is_supporting}]}`, with a list of `{title, text}` as the corpus, or the paragraphs of the questions
//! without one. Each supporting paragraph is a part.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Questions over the documents of one folder.
#[derive(Debug)]
pub struct QuestionSet {
    /// What the table calls it.
    pub name: String,
    /// The documents.
    pub folder: PathBuf,
    /// The questions.
    pub questions: Vec<Question>,
    /// Holds the documents if they were made from paragraphs.
    _made: Option<tempfile::TempDir>,
}

/// A question and where its answer stands.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Question {
    /// Its name in the set.
    pub id: String,
    /// The folder of its documents.
    #[serde(default)]
    pub corpus: String,
    /// The objective of the run.
    #[serde(rename = "question")]
    pub text: String,
    /// What an answer must hold. Nothing if the documents hold no answer.
    #[serde(default)]
    pub parts: Vec<Part>,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Part {
    /// Any of these answers it.
    pub gold: Vec<Gold>,
}

/// Words of a document.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Gold {
    /// The document.
    pub path: String,
    /// The words; empty if any quotation of the document counts.
    #[serde(default)]
    pub quote: String,
}

#[derive(Deserialize)]
struct Set {
    documents: BTreeMap<String, String>,
    questions: Vec<Question>,
}

#[derive(Deserialize)]
struct HopQuestion {
    id: String,
    question: String,
    paragraphs: Vec<Paragraph>,
}

#[derive(Deserialize)]
struct Paragraph {
    title: String,
    paragraph_text: String,
    #[serde(default)]
    is_supporting: bool,
}

#[derive(Deserialize)]
struct Text {
    title: String,
    text: String,
}

/// The sets in the file `questions`: one for each folder of documents, or one over the passages in the file `corpus`.
///
/// # Errors
/// A file that cannot be read or is of neither form, or evidence that the corpus lacks.
pub fn question_sets(questions: &Path, corpus: Option<&Path>) -> anyhow::Result<Vec<QuestionSet>> {
    let name = questions.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let all: serde_json::Value = read(questions)?;
    if all.get("documents").is_some() {
        return Ok(vec![in_one_file(name, serde_json::from_value(all)?)?]);
    }
    let rows: Vec<serde_json::Value> = serde_json::from_value(all)?;
    ensure!(!rows.is_empty(), "{} holds no question", questions.display());
    let rows = serde_json::Value::Array(rows);
    if rows[0].get("paragraphs").is_some() {
        return Ok(vec![of_paragraphs(name, serde_json::from_value(rows)?, corpus)?]);
    }
    let folder = corpus.context("questions about documents need the folder of their documents")?;
    let mut by_corpus: BTreeMap<String, Vec<Question>> = BTreeMap::new();
    for question in serde_json::from_value::<Vec<Question>>(rows)? {
        by_corpus.entry(question.corpus.clone()).or_default().push(question);
    }
    let set = |(name, questions): (String, Vec<Question>)| {
        let folder = folder.join(&name);
        for gold in questions.iter().flat_map(|q| &q.parts).flat_map(|part| &part.gold) {
            ensure!(folder.join(&gold.path).is_file(), "{} lacks {}", folder.display(), gold.path);
        }
        Ok(QuestionSet { name, folder, questions, _made: None })
    };
    by_corpus.into_iter().map(set).collect()
}

fn in_one_file(name: String, set: Set) -> anyhow::Result<QuestionSet> {
    let made = tempfile::tempdir()?;
    for (path, text) in &set.documents {
        let file = made.path().join(path);
        std::fs::create_dir_all(file.parent().context("a folder")?)?;
        std::fs::write(file, text)?;
    }
    Ok(QuestionSet { name, folder: made.path().to_owned(), questions: set.questions, _made: Some(made) })
}

fn of_paragraphs(name: String, raw: Vec<HopQuestion>, corpus: Option<&Path>) -> anyhow::Result<QuestionSet> {
    let texts: Vec<Text> = match corpus {
        Some(corpus) => read(corpus)?,
        None => {
            let all = raw.iter().flat_map(|q| &q.paragraphs);
            all.map(|p| Text { title: p.title.clone(), text: p.paragraph_text.clone() }).collect()
        }
    };
    let made = tempfile::tempdir()?;
    let mut paths: BTreeMap<(String, String), String> = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for Text { title, text } in texts {
        let key = (title, text);
        if paths.contains_key(&key) {
            continue;
        }
        let words: String =
            key.0.to_lowercase().chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let named = |n: usize| if n == 1 { format!("{words}.md") } else { format!("{words}--{n}.md") };
        let path = (1..).map(named).find(|path| taken.insert(path.clone())).context("a path")?;
        std::fs::write(made.path().join(&path), format!("# {}\n\n{}\n", key.0, key.1))?;
        paths.insert(key, path);
    }
    let question = |raw: HopQuestion| {
        let mut parts: Vec<Part> = Vec::new();
        for p in raw.paragraphs.into_iter().filter(|p| p.is_supporting) {
            let path = paths.get(&(p.title.clone(), p.paragraph_text));
            let path = path.with_context(|| format!("{}: the corpus lacks {:?}", raw.id, p.title))?.clone();
            parts.push(Part { gold: vec![Gold { path, quote: String::new() }] });
        }
        Ok(Question { id: raw.id, corpus: String::new(), text: raw.question, parts })
    };
    let questions = raw.into_iter().map(question).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(QuestionSet { name, folder: made.path().to_owned(), questions, _made: Some(made) })
}

fn read<T: DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("small.json");
        let text = r#"[{"id": "q1", "question": "Who?", "paragraphs": [
            {"title": "Noise", "paragraph_text": "Nothing.", "is_supporting": false},
            {"title": "Ada", "paragraph_text": "It was Ada.", "is_supporting": true}]}]"#;
        std::fs::write(&file, text).unwrap();
        let set = question_sets(&file, None).unwrap().remove(0);
        assert_eq!(set.questions[0].parts[0].gold, [Gold { path: "ada.md".into(), quote: String::new() }]);
        assert_eq!(std::fs::read_to_string(set.folder.join("ada.md")).unwrap(), "# Ada\n\nIt was Ada.\n");
        let corpus = folder.path().join("corpus.json");
        std::fs::write(&corpus, r#"[{"title": "Noise", "text": "Nothing."}]"#).unwrap();
        assert!(question_sets(&file, Some(&corpus)).unwrap_err().to_string().contains("lacks"));

        let text = r#"[{"id": "q1", "corpus": "docs", "question": "Who?", "parts": [{"gold": [
            {"path": "a.md", "quote": "It was Ada."}]}]}]"#;
        std::fs::write(&file, text).unwrap();
        assert!(question_sets(&file, Some(folder.path())).unwrap_err().to_string().contains("lacks a.md"));
        std::fs::create_dir(folder.path().join("docs")).unwrap();
        std::fs::write(folder.path().join("docs/a.md"), "It was Ada.").unwrap();
        let set = question_sets(&file, Some(folder.path())).unwrap().remove(0);
        assert_eq!((set.name.as_str(), set.questions.len()), ("docs", 1));
    }
}
