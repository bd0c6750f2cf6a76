//! The aggregator: merges what the children quoted into one synthesis.

use std::collections::{BTreeMap, BTreeSet};

use tree_agent_contract::role::{
    AggregateInput, AggregatorNext, AggregatorOutput, ArtifactDraft, ChildOutcome, DraftType,
    ParentHintDraft, ResultDraft, RoleError, ScratchpadDraft, Synthesis,
};
use tree_agent_contract::{DocumentId, HintType, NodeStatus, ResultKind, SuccessAssessment};
use tree_agent_tools::ToolError;

use super::document::{self, Document, Section};
use super::findings::{self, FINDINGS};
use super::homework;
use super::objective::{Parts, parts};
use super::rank::{ALONE, Passage, Ranked, floor, rank, without_repeats};
use super::step::{Brief, Notes};
use super::words::Term;
use super::{cited, corpus, count, failed, heading, short, told};
use crate::io::RoleIo;

/// Maximum of findings in one synthesis, so that a person reads all of it.
const MAX_FINDINGS: usize = 40;
/// Maximum of gaps that are named individually.
const MAX_GAPS: usize = 50;
/// Findings of a step that follows a name.
const PER_STEP: usize = 3;
/// Label of the document.
const SYNTHESIS: &str = "synthesis";

/// Combines the results of the children into one.
pub(super) async fn aggregate(input: &AggregateInput, io: &RoleIo) -> Result<AggregatorOutput, RoleError> {
    let brief = Brief::of(&input.call);
    let asked = parts(&brief.subject);
    let by_parts = asked != Parts::One;
    // The scratchpad of homework holds more than the notes of one plan.
    let notes = if input.homework.is_some() { Notes::default() } else { Notes::of(&input.call) };
    let follows = match &input.homework {
        Some(homework) => homework::follows(homework),
        None => notes.follows,
    };
    let terms = told::terms(input, &brief);
    let not_done = document::first_of(told::not_done(input, &brief, &notes), MAX_GAPS);
    let mut gaps: Vec<String> = not_done.iter().map(|title| document::not_done(title)).collect();
    gaps.extend(input.homework.iter().flat_map(|brief| homework::refusals(brief)));
    gaps.extend(input.children.iter().flat_map(gaps_of));
    let mut all: Vec<Ranked> = Vec::new();
    // The child that found a passage first. The passage appears under its heading.
    let mut finder: BTreeMap<(String, String), usize> = BTreeMap::new();
    // The document of the child that quotes it.
    let mut held: BTreeMap<(String, String), DocumentId> = BTreeMap::new();
    let key = |r: &Ranked| (r.passage.path.clone(), r.passage.text.clone());
    let mut order: Vec<usize> = (0..input.children.len()).collect();
    if let Parts::Compare(..) = asked {
        // A passage that mentions both things answers best, and the earlier steps found it too.
        order.rotate_right(1);
    }
    for &i in &order {
        for (passage, score, document) in returned(&input.children[i], io).await? {
            let key = (passage.path.clone(), passage.text.clone());
            if let Some(document) = document {
                held.entry(key.clone()).or_insert(document);
            }
            if let std::collections::btree_map::Entry::Vacant(place) = finder.entry(key) {
                place.insert(i);
                all.push(Ranked { passage, score, terms: BTreeSet::new() });
            }
        }
    }
    // The children were asked with words of the objective, so their quotations rank by the same words. Parts have
    // their own words, and each child has ranked its own findings.
    let mut merged = without_repeats(match (by_parts, follows) {
        (true, _) => all,
        (_, true) => along(all, &terms),
        _ => rank(all.into_iter().map(|r| r.passage).collect(), &terms),
    });
    let before = merged.len();
    if follows {
        let mut room: BTreeMap<usize, usize> = BTreeMap::new();
        merged.retain(|r| {
            let used = room.entry(finder[&key(r)]).or_default();
            *used += 1;
            *used <= PER_STEP
        });
    } else if !by_parts {
        // Each child kept the best of its own documents. Compared with the best of all, some are not worth reading.
        let best = merged.first().map_or(0, |r| r.score);
        let mut known: BTreeSet<usize> = BTreeSet::new();
        merged.retain(|r| {
            let keep =
                r.score >= floor(best, terms.len()) || r.score * ALONE >= best && !r.terms.is_subset(&known);
            known.extend(&r.terms);
            keep
        });
        merged.truncate(MAX_FINDINGS);
    } else {
        // The best of each part.
        let mut room: BTreeMap<usize, usize> = BTreeMap::new();
        let share = (MAX_FINDINGS / input.children.len().max(1)).max(2);
        merged.retain(|r| {
            let used = room.entry(finder[&key(r)]).or_default();
            *used += 1;
            *used <= share
        });
    }
    if merged.len() < before {
        let left = before - merged.len();
        gaps.push(format!("Left out, as less relevant: {}.", count(left, "further passage")));
    }
    if let Some(budget) = &input.exhausted_budget {
        gaps.insert(0, format!("The run ended early because its budget {budget} was used up."));
    }
    if io.ran_out_of_tool_calls() {
        gaps.insert(0, "What some steps returned was not read: the run's tool calls are used up.".to_owned());
    }
    if gaps.len() > MAX_GAPS {
        let more = gaps.split_off(MAX_GAPS).len();
        gaps.push(format!("And {}.", count(more, "further gap")));
    }
    let mut sections: Vec<(usize, Section<'_>)> = Vec::new();
    for ranked in &merged {
        let child = finder[&key(ranked)];
        match sections.iter_mut().find(|(i, _)| *i == child) {
            Some((_, section)) => section.findings.push(ranked),
            None => {
                let title = input.children[child].title.as_str();
                sections.push((child, Section { title, findings: vec![ranked] }));
            }
        }
    }
    let shown: Vec<&str> = terms.iter().map(|t| t.shown.as_str()).collect();
    // The passages of a trail answer together.
    let best: Vec<&Ranked> =
        merged.iter().take(if follows { merged.len() } else { document::LEADING }).collect();
    let asked = brief.terms();
    let unheld = document::unheld(&asked, &merged);
    let words = document::Asked { shown: &shown, rare: notes.rarest(&terms), unheld: &unheld };
    let title = heading(&input.call);
    let document = Document {
        title: &title,
        remark: document::remark(&best, &words).filter(|_| !by_parts),
        sections: sections.into_iter().map(|(_, section)| section).collect(),
        by_parts,
        gaps: &gaps,
    };
    let key_findings = document
        .leading()
        .iter()
        .map(|r| format!("“{}” ({})", short(&r.passage.text, 1_000), r.passage.source()))
        .collect();
    let markdown = document.markdown();
    let mut paths: Vec<&str> = merged.iter().map(|r| r.passage.path.as_str()).collect();
    paths.sort_unstable();
    paths.dedup();
    let summary = match merged.first() {
        Some(first) => format!(
            "{} from {}. Most relevant: “{}” ({})",
            count(merged.len(), "finding"),
            count(paths.len(), "document"),
            short(&first.passage.text, 400),
            first.passage.source()
        ),
        None => "Nothing was found that answers the task.".to_owned(),
    };
    let complete =
        input.exhausted_budget.is_none() && input.children.iter().all(|c| c.status == NodeStatus::Completed);
    let document = ArtifactDraft {
        r#type: DraftType::Document,
        label: SYNTHESIS.to_owned(),
        title: Some(title),
        document_markdown: Some(markdown),
        json_payload: None,
        is_primary: true,
        citations: cited::of_artifacts(merged.iter().filter_map(|r| Some((&r.passage, *held.get(&key(r))?)))),
    };
    Ok(AggregatorOutput {
        synthesis: Synthesis { summary: summary.clone(), key_findings, gaps: gaps.clone() },
        artifacts: vec![document, findings::artifact(&merged, &terms, &not_done)],
        result: ResultDraft {
            kind: ResultKind::Hybrid,
            summary: summary.clone(),
            success_assessment: Some(SuccessAssessment {
                met: !merged.is_empty() && complete,
                notes: (!gaps.is_empty()).then(|| short(&gaps.join(" "), 4_000)),
            }),
            primary_artifact_label: Some(SYNTHESIS.to_owned()),
            parent_hint: ParentHintDraft {
                hint_type: HintType::ReadJson,
                artifact_labels: vec![FINDINGS.to_owned(), SYNTHESIS.to_owned()],
            },
        },
        next: AggregatorNext::default(),
        scratchpad: ScratchpadDraft::of(format!(
            "**Merged {}.** {summary}\n",
            count(input.children.len(), "result")
        )),
    })
}

/// `all` in the order of the steps, with the terms that each holds. A step that follows a name need not quote any word
/// of the question, so its findings cannot be ranked by those.
fn along(all: Vec<Ranked>, terms: &[Term]) -> Vec<Ranked> {
    let ranked = rank(all.iter().map(|r| r.passage.clone()).collect(), terms);
    let held: BTreeMap<(&str, u64), &BTreeSet<usize>> =
        ranked.iter().map(|r| ((r.passage.path.as_str(), r.passage.position), &r.terms)).collect();
    let terms_of = |p: &Passage| held.get(&(p.path.as_str(), p.position)).map(|terms| (*terms).clone());
    let last = all.len() as u64;
    let along = |(i, r): (usize, Ranked)| {
        let terms = terms_of(&r.passage).unwrap_or_default();
        Ranked { passage: r.passage, score: 2 * last - i as u64, terms }
    };
    all.into_iter().enumerate().map(along).collect()
}

/// The quotations of a child with their scores and the document that holds them: from its JSON, or from its documents
/// if it returned no JSON of ours.
async fn returned(
    child: &ChildOutcome,
    io: &RoleIo,
) -> Result<Vec<(Passage, u64, Option<DocumentId>)>, RoleError> {
    let Some(result) = &child.result else { return Ok(Vec::new()) };
    if let Some(payload) = &result.json_payload {
        let document = cited::artifact_of(child);
        let scored = findings::scored(payload).into_iter();
        return Ok(scored.map(|(passage, score)| (passage, score, document)).collect());
    }
    let mut passages = Vec::new();
    for &id in &result.document_ids {
        match corpus::read(io, id, "to read what a step returned").await {
            Ok(body) => passages.extend(document::passages(&body).into_iter().map(|p| (p, 1, Some(id)))),
            Err(ToolError::NotFound(_) | ToolError::Budget(_)) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(passages)
}

/// What a child failed to answer.
fn gaps_of(child: &ChildOutcome) -> Vec<String> {
    let title = short(&child.title, 300);
    match child.status {
        NodeStatus::Failed => {
            let why = child.error.as_deref().unwrap_or("no reason was given");
            vec![format!("“{title}” failed: {}", short(why, 1_000))]
        }
        NodeStatus::Completed => {
            let assessment = child.result.as_ref().and_then(|r| r.success_assessment.as_ref());
            match assessment {
                Some(a) if !a.met => {
                    let why = a.notes.as_deref().unwrap_or("it did not meet its criteria");
                    vec![format!("“{title}”: {}", short(why, 1_000))]
                }
                _ if child.partial => vec![format!("“{title}” is partial.")],
                _ => Vec::new(),
            }
        }
        _ => vec![format!("“{title}” ended without a result.")],
    }
}
