//! The aggregator: puts what the children quoted into the one order of the whole question.

use tree_agent_contract::role::{
    AggregateInput, AggregatorNext, AggregatorOutput, ChildOutcome, RoleError, ScratchpadDraft, Synthesis,
};
use tree_agent_contract::text::{count, prefix};
use tree_agent_contract::{DocumentId, NodeStatus, limits};

use tree_agent_retrieval::Format;

use super::answer::{Answer, NAMED};
use super::evidence::{NEAREST, wait, within};
use super::expects::Held;
use super::read::Quote;
use super::{brief, execute, expects, homework, question, room, short, title};
use crate::io::RoleIo;

/// Label of the document.
const SYNTHESIS: &str = "synthesis";
/// Gaps that are named.
const GAPS: usize = 50;

/// Combines the results of the children into one.
pub(super) async fn aggregate(input: &AggregateInput, io: &RoleIo) -> Result<AggregatorOutput, RoleError> {
    let question = question(&input.call);
    let answers: Vec<Returned> = input
        .children
        .iter()
        .filter_map(|child| {
            Some(Returned { title: &child.title, answer: Answer::of(child)?, document: document_of(child) })
        })
        .collect();
    let completed = input.children.iter().filter(|child| child.status == NodeStatus::Completed).count();
    let mut answer = match answers.is_empty() && completed > 0 {
        // The topics of a search, or what another model wrote: the question is still to be answered.
        true => execute::answer(io, &question, wait(&input.call), room(&input.call)).await?,
        false if !brief::parts(&question).is_empty() => parts(answers, io.language()),
        false => merged(answers, &question, io.language(), room(&input.call)),
    };
    let ended = input.exhausted_budget.iter();
    let ended = ended.map(|budget| format!("The run ended early because its budget {budget} was used up."));
    let mut gaps: Vec<String> = ended.chain(std::mem::take(&mut answer.gaps)).collect();
    gaps.extend(input.homework.iter().flat_map(|brief| homework::gaps(brief, &input.children)));
    gaps.extend(input.children.iter().flat_map(gap_of));
    if gaps.len() > GAPS {
        let more = gaps.split_off(GAPS).len();
        gaps.push(format!("And {}.", count(more, "further gap")));
    }
    answer.gaps = gaps;
    let is_met = |child: &ChildOutcome| {
        let assessment = child.result.as_ref().and_then(|result| result.success_assessment.as_ref());
        child.status == NodeStatus::Completed && assessment.is_none_or(|assessment| assessment.met)
    };
    let is_complete = input.exhausted_budget.is_none() && input.children.iter().all(is_met);
    let (artifacts, result) = answer.returned(SYNTHESIS, title(&input.call), is_complete);
    let finding = |quote: &Quote| {
        let finding = format!("“{}” ({})", short(&quote.text, 1_000), quote.source());
        prefix(&finding, limits::CLAIM_BYTES).to_owned()
    };
    let gaps = answer.gaps.iter().map(|gap| prefix(gap, limits::CLAIM_BYTES).to_owned());
    Ok(AggregatorOutput {
        synthesis: Synthesis {
            summary: result.summary.clone(),
            key_findings: answer.quotes.iter().take(limits::FINDINGS).map(finding).collect(),
            gaps: gaps.collect(),
        },
        next: AggregatorNext::default(),
        scratchpad: ScratchpadDraft::of(format!(
            "**Merged {}.** {}\n",
            count(input.children.len(), "result"),
            result.summary
        )),
        artifacts,
        result,
    })
}

/// What a child returned, and the document that holds it.
struct Returned<'a> {
    title: &'a str,
    answer: Answer,
    document: Option<DocumentId>,
}

/// The answers to the parts of a brief, in their order.
fn parts(answers: Vec<Returned<'_>>, language: &str) -> Answer {
    let mut all = Answer { language: language.to_owned(), ..Answer::default() };
    for Returned { title, mut answer, document } in answers {
        answer.held = answer.quotes.iter().map(|quote| document.unwrap_or(quote.document_id)).collect();
        all.add(title.to_owned(), answer);
    }
    all
}

/// The best quotations of all `answers` that a reader has time for. Each cites the document that holds it.
fn merged(answers: Vec<Returned<'_>>, question: &str, language: &str, words: usize) -> Answer {
    let mut merged = Answer { language: language.to_owned(), ..Answer::default() };
    let mut all: Vec<(DocumentId, Quote)> = Vec::new();
    let mut lacking: Vec<Option<String>> = Vec::new();
    for Returned { answer, document, .. } in answers {
        for place in answer.named {
            if merged.named.len() < NAMED && !merged.named.contains(&place) {
                merged.named.push(place);
            }
        }
        lacking.push(answer.missing);
        merged.by_words = merged.by_words.or(answer.by_words);
        let held = |quote: Quote| (document.unwrap_or(quote.document_id), quote);
        all.extend(answer.quotes.into_iter().map(held));
    }
    all.sort_by(|(_, a), (_, b)| (a.rank, &a.path, a.offset).cmp(&(b.rank, &b.path, b.offset)));
    all.dedup_by(|(_, a), (_, b)| (a.rank, &a.path, a.offset) == (b.rank, &b.path, b.offset));
    (merged.held, merged.quotes) = within(all, |(_, quote)| &quote.text, words).into_iter().unzip();
    let held = |quote: &Quote| Held {
        place: quote.source(),
        text: quote.text.clone(),
        is_code: Format::of(&quote.path, "") == Format::Code,
    };
    let held: Vec<Held> = merged.quotes.iter().map(held).collect();
    // Whether a name is known elsewhere, the plan has asked.
    let lacks = |clause: &String| expects::missing(clause, language, &held, |_| true);
    let found = expects::all(question, lacks);
    merged.missing =
        if lacking.iter().all(Option::is_some) { lacking.into_iter().next().flatten() } else { found };
    if merged.missing.is_some() {
        merged.quotes.truncate(NEAREST);
        merged.held.truncate(NEAREST);
        merged.named.clear();
    }
    merged
}

/// The document of a child that holds its quotations.
fn document_of(child: &ChildOutcome) -> Option<DocumentId> {
    let result = child.result.as_ref()?;
    let primary = result.primary_artifact_id.map(DocumentId::of_artifact);
    primary.filter(|id| result.document_ids.contains(id)).or_else(|| result.document_ids.first().copied())
}

/// What a child failed to answer.
fn gap_of(child: &ChildOutcome) -> Option<String> {
    let title = short(&child.title, 300);
    match child.status {
        NodeStatus::Failed => {
            let why = child.error.as_deref().unwrap_or("no reason was given");
            Some(format!("“{title}” failed: {}", short(why, 1_000)))
        }
        NodeStatus::Completed => {
            let assessment = child.result.as_ref().and_then(|r| r.success_assessment.as_ref());
            match assessment {
                Some(a) if !a.met => {
                    let why = a.notes.as_deref().unwrap_or("it did not meet its criteria");
                    Some(format!("“{title}”: {}", short(why, 1_000)))
                }
                _ => child.partial.then(|| format!("“{title}” is partial.")),
            }
        }
        _ => Some(format!("“{title}” ended without a result.")),
    }
}
