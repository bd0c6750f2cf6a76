//! The executor: reads, and quotes what answers its step.

use std::collections::{BTreeMap, BTreeSet};

use tree_agent_contract::role::{
    Action, ActionKind, ArtifactDraft, DraftType, ExecuteInput, ExecutorOutput, ParentHintDraft, ResultDraft,
    RoleError,
};
use tree_agent_contract::{HintType, ResultKind, SuccessAssessment};
use tree_agent_tools::READ_DOCUMENT;

use super::findings::{self, FINDINGS};
use super::rank::{Passage, Ranked, rank, without_repeats};
use super::step::{Brief, read_path};
use super::words::{Term, key_terms, listed};
use super::{LABEL, corpus, count, note, short};
use crate::io::RoleIo;

/// Passages from one document at the most, and from one section of it.
const PER_DOCUMENT: usize = 8;
const PER_SECTION: usize = 3;
/// Passages of one node at the most.
const MOST: usize = 16;
/// Label of the document.
const QUOTATIONS: &str = "quotations";

/// Does the work of a leaf.
pub(super) async fn execute(input: &ExecuteInput, io: &RoleIo) -> Result<ExecutorOutput, RoleError> {
    let call = &input.call;
    let brief = Brief::of(call);
    let terms = brief.terms();
    let (candidates, read) = if let Some((a, b)) = &brief.compares {
        (compared(input, a, b), 0)
    } else {
        let mut paths = brief.reads.clone();
        if paths.is_empty() {
            // The planner of this very node leaves what it found in the scratchpad.
            paths = call.scratchpad_tail.lines().filter_map(read_path).collect();
        }
        let docs = match paths.is_empty() {
            true => corpus::gather(io, call, &terms).await?,
            false => corpus::named(io, &paths).await?,
        };
        (docs.iter().flat_map(corpus::Doc::passages).collect(), docs.len())
    };
    let chosen = choose(rank(candidates, &terms));
    Ok(answer(&call.title, &brief, &terms, chosen, read))
}

/// What the steps before found that mentions both things.
fn compared(input: &ExecuteInput, a: &str, b: &str) -> Vec<Passage> {
    let earlier = input.earlier.iter().filter_map(|child| child.result.as_ref()?.json_payload.as_ref());
    let all: Vec<Passage> = earlier.flat_map(findings::passages).collect();
    let mentioning = |thing: &str| -> BTreeSet<String> {
        rank(all.clone(), &key_terms(thing)).into_iter().map(|r| r.passage.text).collect()
    };
    let (of_a, of_b) = (mentioning(a), mentioning(b));
    all.into_iter().filter(|p| of_a.contains(&p.text) && of_b.contains(&p.text)).collect()
}

/// The best passages, not too many from one place, without repeats.
fn choose(ranked: Vec<Ranked>) -> Vec<Ranked> {
    let best = ranked.first().map_or(0, |r| r.score);
    let mut documents: BTreeMap<String, usize> = BTreeMap::new();
    let mut sections: BTreeMap<String, usize> = BTreeMap::new();
    let mut chosen = without_repeats(ranked.into_iter().filter(|r| r.score * 4 >= best).take(200).collect());
    chosen.retain(|r| {
        let in_document = documents.entry(r.passage.path.clone()).or_default();
        let in_section = sections.entry(r.passage.source()).or_default();
        let room = *in_document < PER_DOCUMENT && *in_section < PER_SECTION;
        *in_document += usize::from(room);
        *in_section += usize::from(room);
        room
    });
    chosen.truncate(MOST);
    chosen
}

fn answer(title: &str, brief: &Brief, terms: &[Term], chosen: Vec<Ranked>, read: usize) -> ExecutorOutput {
    let held: BTreeSet<usize> = chosen.iter().flat_map(|r| r.terms.iter().copied()).collect();
    let absent: Vec<&str> =
        terms.iter().enumerate().filter(|(i, _)| !held.contains(i)).map(|(_, t)| t.shown.as_str()).collect();
    let mut paths: Vec<&str> = chosen.iter().map(|r| r.passage.path.as_str()).collect();
    paths.sort_unstable();
    paths.dedup();
    let looked = match &brief.compares {
        Some(_) => "what earlier steps quoted".to_owned(),
        None => count(read, "document"),
    };
    let words = listed(&terms.iter().map(|t| t.shown.as_str()).collect::<Vec<_>>());
    let (summary, body) = match chosen.first() {
        Some(first) => (
            format!(
                "{} from {}. Most relevant: “{}” ({})",
                count(chosen.len(), "passage"),
                short(&listed(&paths), 400),
                short(&first.passage.text, 400),
                first.passage.source()
            ),
            findings::quotations(&chosen),
        ),
        None => {
            let nothing = match &brief.compares {
                Some((a, b)) => format!(
                    "No passage that earlier steps quoted mentions both {} and {}.",
                    short(a, 300),
                    short(b, 300)
                ),
                None if words.is_empty() => {
                    "Nothing was found: the step holds no word to look for.".to_owned()
                }
                None => format!("Nothing was found: no passage of {looked} mentions {words}."),
            };
            (nothing.clone(), format!("{nothing}\n"))
        }
    };
    let notes = match (chosen.is_empty(), absent.as_slice()) {
        (true, _) => Some(short(&summary, 2_000)),
        (false, []) => None,
        (false, absent) => Some(format!("No passage that was read mentions {}.", listed(absent))),
    };
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
        title: Some(short(title, 512)),
        document_markdown: Some(format!(
            "# {}\n\n*By the {LABEL}. Every quotation is verbatim, under its source.*\n\n{body}",
            short(title, 512)
        )),
        json_payload: None,
        is_primary: true,
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
        artifacts: vec![document, findings::artifact(&chosen, terms)],
        scratchpad: note(format!("**Read {looked}.** {summary}\n")),
    }
}
