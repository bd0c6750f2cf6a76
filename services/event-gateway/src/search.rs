//! Search: one ranking for every client, by the words of passages and by their meaning.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tonic::Status;
use tree_agent_contract::{RunContext, SearchHit, SearchResults};
use tree_agent_retrieval::{Passage, Query, fuse, rank};
use tree_agent_store::{PassageId, PassageQuery, StoreError, StoredPassage};

use crate::errors;
use crate::gateway::Gateway;
use crate::meaning::Meant;
use crate::shares::Share;

/// What to search for.
pub(crate) struct Asked {
    /// A question or words. If it is empty, passages are counted.
    pub(crate) query: String,
    /// Where.
    pub(crate) context: RunContext,
    /// Only documents whose paths begin with this.
    pub(crate) path_prefix: String,
    /// Hits at the most.
    pub(crate) limit: usize,
    /// How long to wait for vectors, if they can be expected within that time.
    pub(crate) whole_within: Option<Duration>,
}

/// The best passages for what is `asked` by or for a user.
pub(crate) async fn search(gateway: &Gateway, user: &str, asked: Asked) -> Result<SearchResults, Status> {
    if let (Some(meaning), Some(within)) = (&gateway.meaning, asked.whole_within) {
        meaning.wait(&asked.context, within).await.map_err(errors::store)?;
    }
    let place = Arc::new(gateway.users.searches.take(user, 1).await?);
    found(gateway, asked, place).await.map_err(errors::store)
}

async fn found(gateway: &Gateway, asked: Asked, place: Arc<Share>) -> Result<SearchResults, StoreError> {
    let Asked { query: text, context, path_prefix, limit, .. } = asked;
    let query = Query::new(&text);
    // Signs alone mean nothing.
    let text = if query.clauses.is_empty() { "" } else { &text };
    let wanted =
        PassageQuery { query: query.clone(), context: context.clone(), path_prefix: path_prefix.clone() };
    let found = gateway.store.find_passages(wanted).await?;
    let candidates: Vec<Passage<'_>> = found.passages.iter().map(StoredPassage::ranked).collect();
    let ranked = rank(&query, &candidates, &found.counts);
    let best: Vec<&StoredPassage> = ranked.iter().map(|ranked| &found.passages[ranked.index]).collect();
    let by_words: Vec<PassageId> = best.iter().map(|passage| passage.id).collect();
    let meant = match &gateway.meaning {
        Some(meaning) => meaning.order(text, &context, &path_prefix, &best, place.clone()).await?,
        None => Meant::default(),
    };
    let (vectors, mut similar) = (meant.order.is_some(), meant.order.unwrap_or_default());
    // The same text may stand in several documents. Their ids differ from store to store, their paths do not.
    let places: HashMap<PassageId, usize> = by_words.iter().copied().zip(0..).collect();
    let place = |id: &PassageId| places.get(id).copied().unwrap_or(usize::MAX);
    similar
        .sort_by(|(a, like_a), (b, like_b)| like_b.total_cmp(like_a).then_with(|| place(a).cmp(&place(b))));
    let by_meaning: Vec<PassageId> = similar.iter().map(|(id, _)| *id).collect();
    let mut fused = fuse(&by_words, &by_meaning);
    fused.truncate(limit);

    let known: HashSet<PassageId> = found.passages.iter().map(|passage| passage.id).collect();
    let further: Vec<PassageId> = fused.iter().map(|f| f.id).filter(|id| !known.contains(id)).collect();
    let further = gateway.store.passages(&further).await?;
    let mut passages: HashMap<PassageId, StoredPassage> =
        found.passages.into_iter().chain(further).map(|passage| (passage.id, passage)).collect();
    let similarity: HashMap<PassageId, f64> = similar.into_iter().collect();
    let hits = fused.into_iter().filter_map(|fused| {
        let StoredPassage { document, headings, head, offset, text, .. } = passages.remove(&fused.id)?;
        Some(SearchHit {
            document,
            headings,
            head,
            offset,
            passage: text,
            lexical_rank: fused.lexical_rank,
            vector_rank: fused.vector_rank,
            similarity: similarity.get(&fused.id).copied(),
            score: fused.score,
        })
    });
    Ok(SearchResults {
        hits: hits.collect(),
        total: found.total,
        passages: found.counts.passages,
        embedded: meant.embedded,
        vectors,
        words: found.counts.words(&query),
    })
}
