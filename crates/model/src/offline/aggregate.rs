//! The aggregator: merges what the children quoted into one synthesis.

use std::collections::{BTreeMap, BTreeSet};

use tree_agent_contract::role::{
    AggregateInput, AggregatorNext, AggregatorOutput, ArtifactDraft, ChildOutcome, DraftType,
    ParentHintDraft, ResultDraft, RoleError, Synthesis,
};
use tree_agent_contract::{HintType, NodeStatus, ResultKind, SuccessAssessment};
use tree_agent_tools::ToolError;

use super::findings::{self, FINDINGS};
use super::objective::{Parts, parts};
use super::rank::{Passage, Ranked, rank, without_repeats};
use super::step::Brief;
use super::words::listed;
use super::{LABEL, corpus, count, failed, note, short};
use crate::io::RoleIo;

/// Findings of one synthesis at the most: what a person reads.
const MOST: usize = 40;
/// Findings that lead.
const LEADING: usize = 3;
/// Gaps that are named one by one.
const GAPS: usize = 50;
/// Label of the document.
const SYNTHESIS: &str = "synthesis";

/// Makes one result of what the children returned.
pub(super) async fn aggregate(input: &AggregateInput, io: &RoleIo) -> Result<AggregatorOutput, RoleError> {
    let brief = Brief::of(&input.call);
    let terms = brief.terms();
    let mut gaps = Vec::new();
    let mut all: Vec<Passage> = Vec::new();
    // Who found a passage first: the place under whose heading it stands.
    let mut finder: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (i, child) in input.children.iter().enumerate() {
        gaps.extend(gaps_of(child));
        for passage in returned(child, io).await? {
            let key = (passage.path.clone(), passage.text.clone());
            if let std::collections::btree_map::Entry::Vacant(place) = finder.entry(key) {
                place.insert(i);
                all.push(passage);
            }
        }
    }
    // Children were asked with words of the objective, so what they quote ranks by the same words.
    let mut merged = without_repeats(rank(all, &terms));
    let held: BTreeSet<usize> = merged.iter().flat_map(|r| r.terms.iter().copied()).collect();
    let absent: Vec<&str> =
        terms.iter().enumerate().filter(|(i, _)| !held.contains(i)).map(|(_, t)| t.shown.as_str()).collect();
    if !absent.is_empty() {
        gaps.push(format!("No passage that was found mentions {}.", listed(&absent)));
    }
    let before = merged.len();
    if parts(&brief.subject) == Parts::One {
        // Each child kept the best of its own documents; beside the best of all, some are not worth reading.
        let best = merged.first().map_or(0, |r| r.score);
        merged.retain(|r| r.score * 5 >= best);
    }
    merged.truncate(MOST);
    if merged.len() < before {
        gaps.push(format!("{} of lesser weight left out.", count(before - merged.len(), "further passage")));
    }
    if let Some(budget) = &input.exhausted_budget {
        gaps.insert(0, format!("The run ended early because its budget {budget} was used up."));
    }
    if gaps.len() > GAPS {
        let more = gaps.split_off(GAPS).len();
        gaps.push(format!("And {}.", count(more, "further gap")));
    }
    let group = |r: &Ranked| {
        finder.get(&(r.passage.path.clone(), r.passage.text.clone())).copied().unwrap_or_default()
    };
    let mut groups: BTreeMap<usize, Vec<&Ranked>> = BTreeMap::new();
    merged.iter().for_each(|ranked| groups.entry(group(ranked)).or_default().push(ranked));
    let sections: Vec<(&str, Vec<&Ranked>)> =
        groups.into_iter().map(|(i, ranked)| (input.children[i].title.as_str(), ranked)).collect();

    let markdown = synthesis(input, &merged, &sections, &gaps);
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
        title: Some(heading(input)),
        document_markdown: Some(markdown),
        json_payload: None,
        is_primary: true,
    };
    Ok(AggregatorOutput {
        synthesis: Synthesis {
            summary: summary.clone(),
            key_findings: merged
                .iter()
                .take(LEADING)
                .map(|r| format!("“{}” ({})", short(&r.passage.text, 1_000), r.passage.source()))
                .collect(),
            gaps: gaps.clone(),
        },
        artifacts: vec![document, findings::artifact(&merged, &terms)],
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
        scratchpad: note(format!("**Merged {}.** {summary}\n", count(input.children.len(), "result"))),
    })
}

/// What a child quoted: from its JSON, or from its documents where it returned no JSON of ours.
async fn returned(child: &ChildOutcome, io: &RoleIo) -> Result<Vec<Passage>, RoleError> {
    let Some(result) = &child.result else { return Ok(Vec::new()) };
    if let Some(payload) = &result.json_payload {
        return Ok(findings::passages(payload));
    }
    let mut passages = Vec::new();
    for &id in &result.document_ids {
        match corpus::read(io, id).await {
            Ok(body) => passages.extend(findings::passages_of_document(&body)),
            Err(ToolError::NotFound(_)) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(passages)
}

/// What a child owes.
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

/// The title of the synthesis: the objective for the root, the task for any other node.
fn heading(input: &AggregateInput) -> String {
    let call = &input.call;
    short(if call.depth == 0 { &call.objective } else { &call.title }, 512)
}

/// The document. Every finding is one quotation and the number of its source.
fn synthesis(
    input: &AggregateInput,
    merged: &[Ranked],
    sections: &[(&str, Vec<&Ranked>)],
    gaps: &[String],
) -> String {
    // Numbered in the order in which a reader meets them.
    let mut sources: Vec<String> = Vec::new();
    let mut line = |passage: &Passage| {
        let source = passage.source();
        let number = sources.iter().position(|s| *s == source).unwrap_or_else(|| {
            sources.push(source);
            sources.len() - 1
        });
        format!("- “{}” [{}]\n", passage.shown(), number + 1)
    };
    let mut text = format!(
        "# {}\n\n*By the {LABEL}. Every finding is a verbatim quotation; the number names its source.*\n\n## Summary\n\n",
        heading(input)
    );
    if merged.is_empty() {
        text.push_str("Nothing was found that answers the task.\n");
    }
    merged.iter().take(LEADING).for_each(|r| text.push_str(&line(&r.passage)));
    for (title, findings) in sections {
        text.push_str(&format!("\n## {}\n\n", short(title, 300)));
        findings.iter().for_each(|r| text.push_str(&line(&r.passage)));
    }
    text.push_str("\n## Gaps\n\n");
    if gaps.is_empty() {
        text.push_str("None that the rules can tell.\n");
    }
    gaps.iter().for_each(|gap| text.push_str(&format!("- {gap}\n")));
    text.push_str("\n## Sources\n\n");
    if sources.is_empty() {
        text.push_str("None.\n");
    }
    for (i, source) in sources.iter().enumerate() {
        text.push_str(&format!("{}. {source}\n", i + 1));
    }
    text
}
