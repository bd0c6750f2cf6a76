//! Research in a guided search: the context's own structure as a tree of topics.
//!
//! The first level is the folders and documents at the top of the context, and words that several documents share.
//! Below a folder are its folders and documents, below a document its sections. The document of a topic quotes what
//! belongs to it: first what speaks of the objective, then how each of its parts begins. What a topic above has
//! quoted is not quoted again, as the conversation tells.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use tree_agent_contract::limits;
use tree_agent_contract::role::{
    ResearchForm, ResearchInput, ResearchOutput, RoleError, RoleErrorKind, ScratchpadDraft,
};
use tree_agent_contract::search::{ChildDraft, ChildEntry, clean_title, tidy};
use tree_agent_contract::session::{SessionMessage, Speaker};
use tree_agent_frontmatter::{Schema, parse, write};

use super::corpus::{self, Doc, Entry};
use super::document::{Document, Section};
use super::rank::{Passage, Ranked, rank, without_repeats};
use super::topic::Topic;
use super::words::{Term, key_terms, stems};
use super::{count, short};
use crate::io::RoleIo;

/// Passages of one document at the most.
const MAX_PASSAGES: usize = 16;
/// Of these, passages that speak of the objective.
const MAX_RELEVANT: usize = 10;
/// Words of the first level.
const WORDS: usize = 4;
/// A word of the first level occurs in the headings of at least so many documents.
const SHARING: usize = 3;

/// Does the research.
pub(super) async fn research(input: &ResearchInput, io: &RoleIo) -> Result<ResearchOutput, RoleError> {
    match input.form {
        ResearchForm::Root => first_level(input, io).await,
        ResearchForm::Topic => topic(input, io).await,
    }
}

async fn first_level(input: &ResearchInput, io: &RoleIo) -> Result<ResearchOutput, RoleError> {
    let (entries, more) = corpus::all(io, "", "to list the first level").await?;
    if entries.is_empty() {
        let message = "there is no document to search; name a project that holds documents";
        return Err(RoleError::new(RoleErrorKind::Rejected, message));
    }
    let docs = corpus::read_first(io, &entries).await?;
    let terms = key_terms(&input.call.objective);
    let mut drafts = below_folder("", &entries, &docs, &terms);
    if docs.len() == entries.len() {
        drafts.extend(shared_words(&docs, &terms));
    }
    let (children, dropped) = capped(drafts, input);
    let mut summary = format!("{} in {}.", count(children.len(), "topic"), count(entries.len(), "document"));
    if more {
        summary.push_str(" There are more documents than can be listed.");
    }
    let scratchpad = ScratchpadDraft::of(format!("**First level.** {summary}\n{}", lines(&children)));
    Ok(ResearchOutput {
        document_markdown: None,
        summary,
        children,
        dropped,
        messages: Vec::new(),
        scratchpad,
    })
}

/// What belongs to a topic.
#[derive(Default)]
struct Material {
    passages: Vec<Passage>,
    /// The topics below.
    drafts: Vec<ChildDraft>,
    /// What was read, in words.
    looked: String,
    /// True if only passages that mention the topic's own words count.
    by_words: Option<Vec<Term>>,
    gaps: Vec<String>,
}

async fn topic(input: &ResearchInput, io: &RoleIo) -> Result<ResearchOutput, RoleError> {
    let objective = key_terms(&input.call.objective);
    let title = short(&input.call.title, 512);
    let mut material = match Topic::of(&input.path) {
        Topic::Folder(folder) => of_folder(&folder, &objective, io).await?,
        Topic::Document(path) => of_document(&path, &[], &objective, io).await?,
        Topic::Section(path, headings) => {
            let found = of_document(&path, &headings, &objective, io).await?;
            // A heading that is not there was added by hand.
            match found.passages.is_empty() {
                true => of_subject(&title, input, io).await?,
                false => found,
            }
        }
        Topic::Word(word) => of_subject(&word, input, io).await?,
        Topic::Subject(subject) => of_subject(&subject, input, io).await?,
    };
    if io.ran_out_of_tool_calls() {
        let gap = "Not everything was read: the tool calls that this topic could make are used up.";
        material.gaps.push(gap.to_owned());
    }
    let (mut findings, left) = quoted(&material, &objective, &quoted_before(input));
    if left > 0 {
        material.gaps.push(format!("{} of {} were not quoted.", count(left, "passage"), material.looked));
    }
    if findings.is_empty() {
        material.gaps.push(format!(
            "Nothing new was found about “{}” in {}.",
            short(&title, 300),
            material.looked
        ));
    }
    // Stable: findings of one place keep their order.
    findings.sort_by(|a, b| a.passage.path.cmp(&b.passage.path));
    let markdown = markdown(&title, &findings, &material.gaps);
    let summary = summary(&findings, &material);
    let document = with_frontmatter(input, &title, &summary, &findings, &markdown)?;
    let (children, dropped) = capped(material.drafts, input);
    let topics = match children.is_empty() {
        true => "None.".to_owned(),
        false => lines(&children),
    };
    let messages = vec![
        SessionMessage::new(Speaker::User, &format!("Document: {}", input.path.join(" › "))),
        SessionMessage::new(Speaker::Assistant, &markdown),
        SessionMessage::new(Speaker::User, "Topics below?"),
        SessionMessage::new(Speaker::Assistant, &topics),
    ];
    Ok(ResearchOutput {
        document_markdown: Some(document),
        scratchpad: ScratchpadDraft::of(format!(
            "**Read {}.** {summary}\n\nTopics below: {topics}\n",
            material.looked
        )),
        summary,
        children,
        dropped,
        messages,
    })
}

/// The documents below `folder`.
async fn of_folder(folder: &str, objective: &[Term], io: &RoleIo) -> Result<Material, RoleError> {
    let (entries, _) = corpus::all(io, folder, &format!("to list {folder}")).await?;
    let docs = corpus::read_first(io, &entries).await?;
    let mut gaps = Vec::new();
    if docs.len() < entries.len() {
        gaps.push(format!("{} of {} were read.", docs.len(), count(entries.len(), "document")));
    }
    // One beginning of each document comes before the rest of any.
    let mut beginnings: Vec<Vec<Passage>> = docs.iter().map(|doc| doc.passages().collect()).collect();
    let first: Vec<Passage> = beginnings.iter_mut().filter(|p| !p.is_empty()).map(|p| p.remove(0)).collect();
    Ok(Material {
        passages: first.into_iter().chain(beginnings.into_iter().flatten()).collect(),
        drafts: below_folder(folder, &entries, &docs, objective),
        looked: format!("{} in {folder}", count(docs.len(), "document")),
        by_words: None,
        gaps,
    })
}

/// The document at `path`, or its section below `headings`.
async fn of_document(
    path: &str,
    headings: &[String],
    objective: &[Term],
    io: &RoleIo,
) -> Result<Material, RoleError> {
    let docs = corpus::named(io, &[path.to_owned()], &[]).await?;
    let passages: Vec<Passage> = docs.iter().flat_map(Doc::passages).collect();
    let common = common_headings(&passages);
    let inside = |passage: &Passage| {
        let own = split(&passage.heading);
        let below = own.get(common..).unwrap_or_default();
        below.len() >= headings.len() && below.iter().zip(headings).all(|(a, b)| is_same(a, b))
    };
    let passages: Vec<Passage> = passages.into_iter().filter(inside).collect();
    // The sections right below, in order, each with its passages.
    let mut sections: Vec<(String, Vec<Passage>)> = Vec::new();
    let mut own = Vec::new();
    for passage in &passages {
        match split(&passage.heading).get(common + headings.len()) {
            None => own.push(passage.clone()),
            Some(heading) => match sections.iter_mut().find(|(name, _)| name == heading) {
                Some((_, passages)) => passages.push(passage.clone()),
                None => sections.push(((*heading).to_owned(), vec![passage.clone()])),
            },
        }
    }
    let relevance = Relevance::of(&passages, objective);
    // A single section would only repeat its document.
    let drafts = match sections.len() {
        0 | 1 => Vec::new(),
        _ => {
            sections.iter().map(|(name, passages)| draft(name.clone(), relevance.of_all(passages))).collect()
        }
    };
    let first =
        sections.iter_mut().filter(|(_, p)| !p.is_empty()).map(|(_, p)| p.remove(0)).collect::<Vec<_>>();
    let rest = sections.into_iter().flat_map(|(_, passages)| passages);
    Ok(Material {
        passages: own.into_iter().chain(first).chain(rest).collect(),
        drafts,
        looked: match headings.last() {
            Some(heading) => format!("“{}” in {path}", short(heading, 200)),
            None => path.to_owned(),
        },
        by_words: None,
        gaps: Vec::new(),
    })
}

/// What is said about `subject` anywhere.
async fn of_subject(subject: &str, input: &ResearchInput, io: &RoleIo) -> Result<Material, RoleError> {
    let terms = key_terms(subject);
    let corpus = corpus::gather(io, &input.call, &terms).await?;
    Ok(Material {
        passages: corpus.docs.iter().flat_map(Doc::passages).collect(),
        drafts: Vec::new(),
        looked: count(corpus.docs.len(), "document"),
        by_words: Some(terms),
        gaps: Vec::new(),
    })
}

/// The folders and documents right below `folder`, which is empty for all. Those that speak of the objective score.
fn below_folder(folder: &str, entries: &[Entry], docs: &[Doc], objective: &[Term]) -> Vec<ChildDraft> {
    let passages: Vec<Vec<Passage>> = docs.iter().map(|doc| doc.passages().collect()).collect();
    let relevance = Relevance::of(&passages.concat(), objective);
    let mut headings: BTreeMap<&str, (String, f64)> = BTreeMap::new();
    for (doc, passages) in docs.iter().zip(&passages) {
        let heading = passages.first().map(|p| split(&p.heading).first().map_or("", |h| h).to_owned());
        headings.insert(doc.path(), (heading.unwrap_or_default(), relevance.of_all(passages)));
    }
    let mut below: BTreeMap<String, f64> = BTreeMap::new();
    for entry in entries {
        let Some(rest) = entry.path.strip_prefix(folder) else { continue };
        let (heading, score) = headings.get(entry.path.as_str()).cloned().unwrap_or_default();
        let title = match rest.split_once('/') {
            Some((inner, _)) => format!("{folder}{inner}/"),
            None => Topic::document_title(&heading, &entry.path),
        };
        let best = below.entry(title).or_default();
        *best = best.max(score);
    }
    below.into_iter().map(|(title, score)| draft(title, score)).collect()
}

/// Words that stand in headings of several documents but not of most: first those of the objective, then the most
/// common.
fn shared_words(docs: &[Doc], objective: &[Term]) -> Vec<ChildDraft> {
    let mut sharing: BTreeMap<Vec<String>, (String, BTreeSet<&str>)> = BTreeMap::new();
    for doc in docs {
        for passage in doc.passages() {
            for term in key_terms(&passage.heading) {
                let (_, documents) =
                    sharing.entry(term.stems).or_insert_with(|| (term.shown, BTreeSet::new()));
                documents.insert(doc.path());
            }
        }
    }
    let asked = |stems: &[String]| objective.iter().any(|term| term.stems == stems);
    let mut words: Vec<(bool, usize, String)> = sharing
        .into_iter()
        .filter(|(_, (_, documents))| documents.len() >= SHARING && documents.len() * 5 <= docs.len() * 4)
        .map(|(stems, (shown, documents))| (asked(&stems), documents.len(), shown))
        .collect();
    words.sort_by(|a, b| (b.0, b.1).cmp(&(a.0, a.1)).then_with(|| a.2.cmp(&b.2)));
    words.truncate(WORDS);
    words
        .into_iter()
        .map(|(asked, _, word)| draft(Topic::word_title(&word), if asked { 1.0 } else { 0.0 }))
        .collect()
}

/// How well passages speak of the objective, from 0 to 1.
struct Relevance {
    /// By path and position.
    scores: BTreeMap<(String, u64), u64>,
    best: u64,
}

impl Relevance {
    fn of(passages: &[Passage], objective: &[Term]) -> Self {
        let ranked = if objective.is_empty() { Vec::new() } else { rank(passages.to_vec(), objective) };
        let best = ranked.first().map_or(0, |r| r.score);
        let scores = ranked.into_iter().map(|r| ((r.passage.path, r.passage.position), r.score)).collect();
        Self { scores, best }
    }

    /// That of the best of `passages`.
    fn of_all(&self, passages: &[Passage]) -> f64 {
        let score = |p: &Passage| self.scores.get(&(p.path.clone(), p.position)).copied().unwrap_or_default();
        let most = passages.iter().map(score).max().unwrap_or_default();
        // Two digits: scores are stored, and compared between machines.
        (most * 100).checked_div(self.best).unwrap_or_default() as f64 / 100.0
    }
}

fn draft(title: String, score: f64) -> ChildDraft {
    ChildDraft { title, slug: None, score: Some(score) }
}

/// The passages that the document quotes, best first, and how many it leaves out.
fn quoted(material: &Material, objective: &[Term], before: &BTreeSet<String>) -> (Vec<Ranked>, usize) {
    let is_new = |passage: &Passage| !before.contains(&passage.shown());
    let passages: Vec<Passage> = material.passages.iter().filter(|p| is_new(p)).cloned().collect();
    let terms = material.by_words.as_deref().unwrap_or(objective);
    let relevant = if terms.is_empty() { Vec::new() } else { rank(passages.clone(), terms) };
    if material.by_words.is_some() {
        let all = relevant.len();
        let mut chosen = without_repeats(relevant.into_iter().take(200).collect());
        chosen.truncate(MAX_PASSAGES);
        let left = all - chosen.len();
        return (chosen, left);
    }
    let all = passages.len();
    let mut chosen: Vec<Ranked> = relevant.into_iter().take(MAX_RELEVANT).collect();
    for passage in passages {
        if chosen.len() == MAX_PASSAGES {
            break;
        }
        if !chosen.iter().any(|r| r.passage == passage) {
            chosen.push(Ranked { passage, score: 0, terms: BTreeSet::new() });
        }
    }
    let chosen = without_repeats(chosen);
    let left = all - chosen.len();
    (chosen, left)
}

/// What the topics above have quoted.
fn quoted_before(input: &ResearchInput) -> BTreeSet<String> {
    let messages = input.session.iter().flat_map(|session| &session.messages);
    let lines = messages.flat_map(|message| message.text.lines());
    lines.filter_map(|line| Some(line.strip_prefix("- “")?.rsplit_once("” [")?.0.to_owned())).collect()
}

fn markdown(title: &str, findings: &[Ranked], gaps: &[String]) -> String {
    let mut sections: Vec<(String, Vec<&Ranked>)> = Vec::new();
    for finding in findings {
        let source = finding.passage.source();
        match sections.iter_mut().find(|(name, _)| *name == source) {
            Some((_, findings)) => findings.push(finding),
            None => sections.push((source, vec![finding])),
        }
    }
    let sections = sections.iter().map(|(title, findings)| Section { title, findings: findings.clone() });
    Document { title, remark: None, sections: sections.collect(), by_parts: false, gaps }.markdown()
}

fn summary(findings: &[Ranked], material: &Material) -> String {
    match findings.iter().max_by_key(|r| (r.score, std::cmp::Reverse(r.passage.position))) {
        None => format!("Nothing new was found in {}.", material.looked),
        Some(best) => format!(
            "{} from {}. “{}” ({})",
            count(findings.len(), "passage"),
            material.looked,
            short(&best.passage.text, 300),
            best.passage.source()
        ),
    }
}

/// The document with its frontmatter. It can say its title, its summary, its sources and who wrote it; a schema that
/// wants more is one that this model cannot meet.
fn with_frontmatter(
    input: &ResearchInput,
    title: &str,
    summary: &str,
    findings: &[Ranked],
    markdown: &str,
) -> Result<String, RoleError> {
    let sources: BTreeSet<&str> = findings.iter().map(|r| r.passage.path.as_str()).collect();
    let mut fields = vec![
        ("title", json!(title)),
        ("summary", json!(summary)),
        ("sources", json!(sources)),
        ("author", json!(super::LABEL)),
    ];
    let Some(wanted) = &input.frontmatter_schema else { return Ok(write(fields, markdown)) };
    if wanted.get("additionalProperties") == Some(&json!(false)) {
        let known = wanted.get("properties").and_then(|p| p.as_object());
        fields.retain(|(name, _)| known.is_some_and(|known| known.contains_key(*name)));
    }
    let rejected = |message: String| RoleError::new(RoleErrorKind::Rejected, message);
    let schema = Schema::new(wanted)
        .map_err(|error| rejected(format!("the schema of the frontmatter cannot be used: {error}")))?;
    let document = write(fields, markdown);
    let errors =
        parse(&document).map_or_else(|error| vec![error], |document| schema.errors(&document.fields));
    match errors.as_slice() {
        [] => Ok(document),
        errors => Err(rejected(format!(
            "the offline model writes the frontmatter title, summary, sources and author, which does not meet the \
             schema: {}",
            errors.join("; ")
        ))),
    }
}

fn capped(drafts: Vec<ChildDraft>, input: &ResearchInput) -> (Vec<ChildEntry>, u32) {
    let mut tidied = tidy(drafts);
    let most = (input.max_children as usize).min(limits::SEARCH_CHILDREN);
    if tidied.children.len() > most {
        tidied.dropped = tidied.dropped.saturating_add((tidied.children.len() - most) as u32);
        tidied.children.truncate(most);
    }
    (tidied.children, tidied.dropped)
}

fn lines(children: &[ChildEntry]) -> String {
    children.iter().map(|child| format!("- {}\n", child.title)).collect()
}

/// The headings of a passage, the outermost first.
fn split(heading: &str) -> Vec<&str> {
    heading.split(" › ").filter(|h| !h.is_empty()).collect()
}

/// How many headings, from the outermost, all passages that have any share: the title of their document.
fn common_headings(passages: &[Passage]) -> usize {
    let mut chains = passages.iter().map(|p| split(&p.heading)).filter(|chain| !chain.is_empty());
    let Some(first) = chains.next() else { return 0 };
    // A document of a single section has that as its title, and nothing below.
    chains.fold(first.len().min(1), |common, chain| {
        first.iter().zip(&chain).take(common).take_while(|(a, b)| a == b).count()
    })
}

/// True if a heading and a title that was made of it are the same.
fn is_same(heading: &str, title: &str) -> bool {
    clean_title(heading) == clean_title(title)
        || stems(heading).eq(stems(title)) && stems(title).next().is_some()
}

#[cfg(test)]
mod tests;
