//! A search for the letters of words, over the texts themselves.

use futures::{StreamExt, TryStreamExt, stream};
use tree_agent_contract::document::{DocumentKind, DocumentSummary, SearchHit, SimilarResults};
use tree_agent_contract::limits::PAGE_MAX;
use tree_agent_contract::spelling::Similar;
use tree_agent_contract::{Document, Scope};

use crate::error::StoreError;
use crate::ports::{DocumentQuery, Documents, SearchQuery};
use crate::text::beginning;

/// Documents that are read at the same time.
const AT_ONCE: usize = 4;

/// Looks for the letters of any word of `query` in the documents of its context, by path, until there are hits enough.
/// It reads at most `max_bytes` of text, and says whether that was all. A look at a text goes on when the search is
/// given up; each holds a clone of `place` until it is done.
pub async fn search_similar<D: Documents + ?Sized>(
    store: &D,
    query: SearchQuery,
    max_bytes: u64,
    place: impl Clone + Send + Sync + 'static,
) -> Result<SimilarResults, StoreError> {
    let similar = Similar::to(&query.text);
    if similar.is_empty() || query.limit == 0 {
        return Ok(SimilarResults::default());
    }
    let mut found = SimilarResults { hits: Vec::new(), is_complete: similar.is_complete() };
    let project_ids = match query.context.scope {
        Scope::Global => Vec::new(),
        _ if query.context.project_ids.is_empty() => return Ok(found),
        _ => query.context.project_ids,
    };
    let mut listing = DocumentQuery {
        project_ids,
        kinds: vec![DocumentKind::Source],
        path_prefix: query.path_prefix,
        limit: PAGE_MAX,
        ..DocumentQuery::default()
    };
    let mut bytes = 0;
    loop {
        let page = store.list_documents(listing.clone()).await?;
        listing.after = page.items.last().map(|last| (last.path.clone(), last.id));
        let all = page.items.len();
        let within: Vec<DocumentSummary> = page
            .items
            .into_iter()
            .take_while(|document| {
                bytes += document.bytes;
                bytes <= max_bytes
            })
            .collect();
        let is_cut = within.len() < all;
        let mut hits = stream::iter(within)
            .map(|summary| {
                let (similar, place) = (similar.clone(), place.clone());
                async move {
                    match store.document(summary.id).await {
                        Ok(document) => hit(similar, summary, document, place).await,
                        // Deleted since it was listed.
                        Err(StoreError::NotFound { .. }) => Ok(None),
                        Err(error) => Err(error),
                    }
                }
            })
            .buffered(AT_ONCE);
        while let Some(hit) = hits.try_next().await? {
            found.hits.extend(hit);
            if found.hits.len() == query.limit {
                found.is_complete = false;
                return Ok(found);
            }
        }
        if is_cut || !page.more {
            found.is_complete &= !is_cut;
            return Ok(found);
        }
    }
}

/// The hit in a document, if it is one.
async fn hit(
    similar: Similar,
    summary: DocumentSummary,
    document: Document,
    place: impl Send + 'static,
) -> Result<Option<SearchHit>, StoreError> {
    let look = move || {
        let _place = place;
        let Document { title, path, body, .. } = &document;
        let in_body = similar.find_in(body);
        let part = in_body.or_else(|| similar.find_in(title)).or_else(|| similar.find_in(path))?;
        // The part is a slice of the body.
        let offset = in_body.map(|part| (part.as_ptr().addr() - body.as_ptr().addr()) as u64);
        Some(SearchHit { document: summary, snippet: beginning(part), offset, score: 0.0 })
    };
    tokio::task::spawn_blocking(look)
        .await
        .map_err(|error| StoreError::broken("a text could not be looked at", error))
}
