//! The executor: reads, and quotes what answers its step.

use std::collections::{BTreeMap, BTreeSet};

use tree_agent_contract::role::{
    Action, ActionKind, ArtifactDraft, CallContext, DraftType, ExecuteInput, ExecutorOutput, ParentHintDraft,
    ResultDraft, RoleError, ScratchpadDraft,
};
use tree_agent_contract::{Citation, DocumentId, HintType, ResultKind, SuccessAssessment};
use tree_agent_tools::READ_DOCUMENT;

use super::document::{self, Document, Section};
use super::findings::{self, FINDINGS};
use super::objective::{Parts, parts};
use super::rank::{ALONE, Counts, Passage, Ranked, floor, rank, without_repeats};
use super::step::{Brief, Notes};
use super::words::{Term, key_terms, listed};
use super::{cited, corpus, count, heading, short};
use crate::io::RoleIo;

/// Passages from one document at the most, and from one section of it.
const PER_DOCUMENT: usize = 8;
const PER_SECTION: usize = 3;
/// Passages of one node at the most.
const MAX_PASSAGES: usize = 16;
/// Label of the document.
const QUOTATIONS: &str = "quotations";

/// Does the work of a leaf.
pub(super) async fn execute(input: &ExecuteInput, io: &RoleIo) -> Result<ExecutorOutput, RoleError> {
    let call = &input.call;
    let brief = Brief::of(call);
    // The scratchpad of a branch tells what its earlier tasks were to do.
    let notes = if input.task.is_some() { Notes::default() } else { Notes::of(call) };
    // A part of the notes would mislead.
    let mut notes = if notes.is_cut { Notes::default() } else { notes };
    let mut terms = brief.terms();
    // Where each passage of an earlier step is quoted.
    let mut quoted = Vec::new();
    // Which of them are rare.
    let mut rare = BTreeSet::new();
    let mut looked = Looked::default();
    let (ranked, docs) = if let Some((a, b)) = &brief.compares {
        quoted = compared(input, a, b);
        (rank(quoted.iter().map(|(passage, _)| passage.clone()).collect(), &terms), Vec::new())
    } else {
        // The planner of this very node leaves what it found in the scratchpad.
        let mut paths = if brief.reads.is_empty() { notes.reads.clone() } else { brief.reads.clone() };
        let mut docs = match paths.is_empty() {
            true => Vec::new(),
            false => corpus::named(io, &paths, &terms).await?,
        };
        if docs.is_empty() && !io.ran_out_of_tool_calls() {
            if !paths.is_empty() {
                // All that were planned have been removed or renamed.
                (paths, notes) = (Vec::new(), Notes::default());
            }
            let corpus = corpus::gather(io, call, &terms).await?;
            looked.is_empty = corpus.is_empty;
            looked.searched = Some(corpus.documents);
            docs = corpus.docs;
        }
        let passages = docs.iter().flat_map(corpus::Doc::passages).collect();
        if brief.reads.is_empty() && !notes.telling.is_empty() {
            rare = notes.rarest(&notes.telling);
            terms = notes.telling;
            (rank(passages, &terms), docs)
        } else {
            let counts = Counts::new(passages, &terms);
            let telling = match paths.is_empty() {
                true => telling(&counts, &terms, &brief),
                false => (0..terms.len()).collect(),
            };
            rare = counts.rarest(&telling);
            (counts.ranked(&telling), docs)
        }
    };
    let chosen = choose_shared(ranked, &terms, &brief);
    let looked = Looked { read: docs.len(), unread: io.ran_out_of_tool_calls(), ..looked };
    let of_earlier = |r: &'_ Ranked| {
        let held = quoted.iter().find(|(passage, _)| *passage == r.passage);
        held.and_then(|(_, document)| *document)
    };
    let citations = match &brief.compares {
        Some(_) => cited::of_artifacts(chosen.iter().filter_map(|r| Some((&r.passage, of_earlier(r)?)))),
        None => cited::of_sources(chosen.iter().map(|r| &r.passage), &docs),
    };
    Ok(answer(call, &brief, &terms, Chosen { passages: chosen, citations, rare }, looked))
}

/// What was looked at.
#[derive(Default)]
struct Looked {
    /// Documents that were read.
    read: usize,
    /// Documents of the context, if it was searched.
    searched: Option<usize>,
    /// There is none in the context.
    is_empty: bool,
    /// Not everything was read, because the tool calls are used up.
    unread: bool,
}

/// What is quoted.
struct Chosen {
    passages: Vec<Ranked>,
    citations: Vec<Citation>,
    /// The terms that are rare, as indices.
    rare: BTreeSet<usize>,
}

/// What the steps before found that mentions both things, each with the document that quotes it.
fn compared(input: &ExecuteInput, a: &str, b: &str) -> Vec<(Passage, Option<DocumentId>)> {
    let mut all: Vec<(Passage, Option<DocumentId>)> = Vec::new();
    for child in &input.earlier {
        if let Some(payload) = child.result.as_ref().and_then(|result| result.json_payload.as_ref()) {
            let held = cited::artifact_of(child);
            all.extend(findings::scored(payload).into_iter().map(|(passage, _)| (passage, held)));
        }
    }
    let mentioning = |thing: &str| -> BTreeSet<String> {
        let passages = all.iter().map(|(passage, _)| passage.clone()).collect();
        rank(passages, &key_terms(thing)).into_iter().map(|r| r.passage.text).collect()
    };
    let (of_a, of_b) = (mentioning(a), mentioning(b));
    all.retain(|(p, _)| of_a.contains(&p.text) && of_b.contains(&p.text));
    all
}

/// The parts of the task, by their words. One if it is not divided.
fn words_of_parts(terms: &[Term], brief: &Brief) -> Vec<Vec<Term>> {
    match parts(&brief.subject) {
        Parts::Several(parts) if brief.compares.is_none() => {
            parts.iter().map(|part| key_terms(part)).collect()
        }
        _ => vec![terms.to_vec()],
    }
}

/// The terms that tell where the answer to each part stands.
fn telling(counts: &Counts, terms: &[Term], brief: &Brief) -> BTreeSet<usize> {
    let of_part = |part: Vec<Term>| {
        counts.telling_of(&(0..terms.len()).filter(|&i| part.contains(&terms[i])).collect())
    };
    words_of_parts(terms, brief).into_iter().flat_map(of_part).collect()
}

/// The best passages. Each part of the task has its share of them, so that none crowds out another: a passage belongs
/// to the part of which it holds the most terms.
fn choose_shared(ranked: Vec<Ranked>, terms: &[Term], brief: &Brief) -> Vec<Ranked> {
    let asked = words_of_parts(terms, brief);
    if asked.len() < 2 {
        return choose(ranked, terms.len(), MAX_PASSAGES);
    }
    let of_parts: Vec<BTreeSet<usize>> =
        asked.iter().map(|part| (0..terms.len()).filter(|&i| part.contains(&terms[i])).collect()).collect();
    let mut shares: Vec<Vec<Ranked>> = asked.iter().map(|_| Vec::new()).collect();
    // There may be many passages and many parts, but few terms.
    let mut known: BTreeMap<BTreeSet<usize>, usize> = BTreeMap::new();
    for passage in ranked {
        let share = *known.entry(passage.terms.clone()).or_insert_with(|| {
            let held = of_parts.iter().map(|part| part.intersection(&passage.terms).count());
            // The first of those that have the most.
            held.enumerate().max_by_key(|(i, n)| (*n, usize::MAX - i)).map_or(0, |(i, _)| i)
        });
        shares[share].push(passage);
    }
    let room = (MAX_PASSAGES / shares.iter().filter(|share| !share.is_empty()).count().max(1)).max(1);
    let of_part = |(share, asked): (Vec<Ranked>, &Vec<Term>)| choose(share, asked.len(), room);
    let chosen = shares.into_iter().zip(&asked).flat_map(of_part).take(4 * MAX_PASSAGES).collect();
    // A passage of one part may say what one of another part says.
    let mut chosen = without_repeats(chosen);
    chosen.truncate(MAX_PASSAGES);
    chosen
}

/// The best passages, `most` of them, not too many from one place, without repeats.
fn choose(ranked: Vec<Ranked>, terms: usize, most: usize) -> Vec<Ranked> {
    let best = ranked.first().map_or(0, |r| r.score);
    let mut documents: BTreeMap<String, usize> = BTreeMap::new();
    let mut sections: BTreeMap<String, usize> = BTreeMap::new();
    let mut known: BTreeSet<usize> = BTreeSet::new();
    let worth = ranked.into_iter().filter(|r| {
        let keep = r.score >= floor(best, terms) || r.score * ALONE >= best && !r.terms.is_subset(&known);
        known.extend(&r.terms);
        keep
    });
    let mut chosen = without_repeats(worth.take(200).collect());
    chosen.retain(|r| {
        let in_document = documents.entry(r.passage.path.clone()).or_default();
        let in_section = sections.entry(r.passage.source()).or_default();
        let room = *in_document < PER_DOCUMENT && *in_section < PER_SECTION;
        *in_document += usize::from(room);
        *in_section += usize::from(room);
        room
    });
    chosen.truncate(most);
    chosen
}

fn answer(
    call: &CallContext,
    brief: &Brief,
    terms: &[Term],
    chosen: Chosen,
    Looked { read, searched, is_empty, unread }: Looked,
) -> ExecutorOutput {
    let title = heading(call);
    let Chosen { passages: chosen, citations, rare } = chosen;
    let looked = match &brief.compares {
        Some(_) => "what earlier steps quoted".to_owned(),
        None => count(read, "document"),
    };
    let shown: Vec<&str> = terms.iter().map(|t| t.shown.as_str()).collect();
    let words = listed(&shown);
    let mut sections: Vec<Section<'_>> = Vec::new();
    for ranked in &chosen {
        match sections.iter_mut().find(|s| s.title == ranked.passage.path) {
            Some(section) => section.findings.push(ranked),
            None => sections.push(Section { title: &ranked.passage.path, findings: vec![ranked] }),
        }
    }
    let folder = document::common_folder(sections.iter().map(|s| s.title));
    sections.iter_mut().for_each(|s| s.title = &s.title[folder.len()..]);
    let paths: Vec<&str> = sections.iter().map(|s| s.title).collect();
    let mut gaps: Vec<String> = Vec::new();
    let summary = match chosen.first() {
        Some(first) => format!(
            "{} from {}. Most relevant: “{}” ({})",
            count(chosen.len(), "passage"),
            short(&listed(&paths), 400),
            short(&first.passage.text, 400),
            first.passage.source()
        ),
        None => {
            let nothing = match &brief.compares {
                Some((a, b)) => format!(
                    "No passage that earlier steps quoted mentions both {} and {}.",
                    short(a, 300),
                    short(b, 300)
                ),
                None if words.is_empty() => {
                    "Nothing was found: the task holds no word to look for.".to_owned()
                }
                None if unread => format!("Nothing was found about {words} in what could be read."),
                None if is_empty => "Nothing was found: there is no document that can be read.".to_owned(),
                None => match searched.unwrap_or(read) {
                    // Nobody has counted further.
                    corpus::COUNTED.. => {
                        format!("Nothing was found about {words} in the documents of the context.")
                    }
                    documents => {
                        format!("Nothing was found about {words} in {}.", count(documents, "document"))
                    }
                },
            };
            gaps.push(nothing.clone());
            nothing
        }
    };
    if unread {
        gaps.push(
            "Not everything was read: the tool calls that this step could make are used up.".to_owned(),
        );
    }
    let best: Vec<&Ranked> = chosen.iter().take(document::LEADING).collect();
    let all = brief.terms();
    let asked = document::Asked { shown: &shown, rare, unheld: &document::unheld(&all, &chosen) };
    let remark = document::remark(&best, &asked).filter(|_| brief.compares.is_none());
    let markdown = Document { title: &title, remark, sections, by_parts: false, gaps: &gaps }.markdown();
    let notes = (!gaps.is_empty()).then(|| short(&gaps.join(" "), 2_000));
    let action = |kind, note: String| Action { kind, note, tool_name: None, tool_args: None };
    let mut actions = Vec::new();
    if brief.compares.is_none() {
        let read = action(ActionKind::ToolCall, format!("Read {looked}"));
        actions.push(Action { tool_name: Some(READ_DOCUMENT.to_owned()), ..read });
    }
    actions
        .push(action(ActionKind::Analysis, format!("Ranked the passages of {looked} by the terms {words}")));
    let document = ArtifactDraft {
        r#type: DraftType::Document,
        label: QUOTATIONS.to_owned(),
        title: Some(title),
        document_markdown: Some(markdown),
        json_payload: None,
        is_primary: true,
        citations,
    };
    ExecutorOutput {
        actions,
        result: ResultDraft {
            kind: ResultKind::Hybrid,
            summary: summary.clone(),
            success_assessment: Some(SuccessAssessment { met: !chosen.is_empty(), notes }),
            primary_artifact_label: Some(QUOTATIONS.to_owned()),
            parent_hint: ParentHintDraft {
                hint_type: HintType::ReadJson,
                artifact_labels: vec![FINDINGS.to_owned(), QUOTATIONS.to_owned()],
            },
        },
        artifacts: vec![document, findings::artifact(&chosen, terms, &[])],
        scratchpad: ScratchpadDraft::of(format!("**Read {looked}.** {summary}\n")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn many_parts_share_many_passages_in_little_time() {
        // Of most parts the second word is beyond those that are looked for.
        let parts: Vec<String> = (0..2_500).map(|i| format!("harbour w{i}")).collect();
        let brief = Brief { subject: parts.join(";"), reads: Vec::new(), compares: None };
        let terms = brief.terms();
        let passage = |i: u64| Ranked {
            passage: Passage {
                text: format!("Harbour {i}."),
                path: "a.md".to_owned(),
                heading: i.to_string(),
                position: i,
                document_id: None,
            },
            score: 10,
            terms: BTreeSet::from([0, (i % 16) as usize]),
        };
        let ranked: Vec<Ranked> = (0..100_000).map(passage).collect();
        let began = Instant::now();
        let chosen = choose_shared(ranked, &terms, &brief);
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        // The first part with each of the terms.
        assert_eq!(chosen.len(), terms.len() - 1, "{chosen:?}");
    }
}
