//! The executor: quotes the passages that its step names, or searches for them itself.

use tree_agent_contract::role::{
    Action, ActionKind, ExecuteInput, ExecutorOutput, RoleError, ScratchpadDraft,
};
use tree_agent_contract::text::count;
use tree_agent_tools::READ_DOCUMENT;

use super::answer::{Answer, NAMED};
use super::evidence::{Evidence, gather, wait, within};
use super::hits::Hit;
use super::read::{Read, quotes};
use super::step::{Pick, Told, told};
use super::{PART_WORDS, brief, question, room, title};
use crate::io::RoleIo;

/// Label of the document.
const QUOTATIONS: &str = "quotations";

/// Does the work of a leaf.
pub(super) async fn execute(input: &ExecuteInput, io: &RoleIo) -> Result<ExecutorOutput, RoleError> {
    let Told { picks, named, by_words, .. } = told(&input.call);
    let question = question(&input.call);
    let answer = match picks.is_empty() {
        true => answer(io, &question, wait(&input.call), room(&input.call)).await?,
        false => {
            let Read { quotes, gaps, mut others } = quotes(io, &input.call.objective, &picks).await?;
            others.extend(named);
            let language = io.language().to_owned();
            Answer { quotes, named: others, by_words, gaps, language, ..Answer::default() }
        }
    };
    let (artifacts, result) = answer.returned(QUOTATIONS, title(&input.call), answer.gaps.is_empty());
    let note = format!("Quoted {}", count(answer.quotes.len(), "passage"));
    Ok(ExecutorOutput {
        actions: vec![Action {
            kind: ActionKind::ToolCall,
            note,
            tool_name: Some(READ_DOCUMENT.to_owned()),
            tool_args: None,
        }],
        scratchpad: ScratchpadDraft::of(format!("**Read.** {}\n", result.summary)),
        artifacts,
        result,
    })
}

/// The answer to a question or a brief that nobody has planned for, in so many `words`. See [`wait`].
pub(super) async fn answer(io: &RoleIo, asked: &str, wait: u8, words: usize) -> Result<Answer, RoleError> {
    let parts = brief::parts(asked);
    if parts.is_empty() {
        return one(io, asked, wait, words).await;
    }
    let mut all = Answer { language: io.language().to_owned(), ..Answer::default() };
    for part in parts {
        let answer = one(io, &part.question(), wait, PART_WORDS).await?;
        all.add(part.title(), answer);
    }
    Ok(all)
}

async fn one(io: &RoleIo, asked: &str, wait: u8, words: usize) -> Result<Answer, RoleError> {
    let found = gather(io, asked, None, wait, words).await?;
    let Evidence { quoted, further, missing, by_words, gaps: open, .. } = found;
    let named = match missing {
        Some(_) => Vec::new(),
        None => more(&quoted, &further),
    };
    let picks: Vec<Pick> = quoted.iter().map(Pick::of).collect();
    let Read { quotes, mut gaps, mut others } = quotes(io, asked, &picks).await?;
    let quotes = within(quotes, |quote| &quote.text, words);
    gaps.extend(open);
    others.extend(named);
    let language = io.language().to_owned();
    Ok(Answer { missing, quotes, named: others, by_words, gaps, language, ..Answer::default() })
}

/// The places of `further` that stand in the same sources as what is `quoted`, each once.
pub(super) fn more(quoted: &[Hit], further: &[Hit]) -> Vec<String> {
    let is_same = |hit: &&Hit| quoted.iter().any(|q| q.document_id == hit.document_id);
    let mut places: Vec<String> = Vec::new();
    for place in further.iter().filter(is_same).map(Hit::source) {
        if places.len() < NAMED && !places.contains(&place) && !quoted.iter().any(|q| q.source() == place) {
            places.push(place);
        }
    }
    places
}
