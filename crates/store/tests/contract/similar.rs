//! The search for letters.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tree_agent_contract::{RunContext, Scope, SimilarResults};
use tree_agent_store::{SearchQuery, search_similar};

use crate::documents::{new_project, project_id, source};
use crate::fixture::Fixture;

/// Counts its clones.
#[derive(Default)]
struct Place(Arc<AtomicUsize>);

impl Clone for Place {
    fn clone(&self) -> Self {
        self.0.fetch_add(1, Ordering::Relaxed);
        Self(self.0.clone())
    }
}

async fn similar(f: &Fixture, query: SearchQuery, max_bytes: u64) -> (Vec<u128>, bool) {
    let SimilarResults { hits, is_complete } = search_similar(&*f.store, query, max_bytes, ()).await.unwrap();
    (hits.iter().map(|hit| hit.document.id.0.as_u128()).collect(), is_complete)
}

fn query(text: &str) -> SearchQuery {
    SearchQuery { text: text.into(), context: RunContext::default(), path_prefix: String::new(), limit: 10 }
}

pub async fn letters_are_found_in_any_spelling(f: Fixture) {
    f.store.create_project(new_project(1, "One")).await.unwrap();
    f.store.create_project(new_project(2, "Two")).await.unwrap();
    let lines = "Nothing of note.\n\n".repeat(50);
    for (n, project, path, title, body) in [
        (1, 1, "a/1.md", "Hyphen", format!("{lines}The Zir-\nvane works.")),
        (2, 1, "a/2.md", "Number", "42Zirvane".into()),
        (3, 2, "b/3.md", "Z.i.r.v.a.n.e", "Nothing.".into()),
        (4, 2, "b/Zirvane4.md", "Path", "Nothing.".into()),
        (5, 2, "b/5.md", "Another", "Sir Van".into()),
    ] {
        f.store.put_document(source(n, project, path, title, &body)).await.unwrap();
    }
    let everything = u64::MAX;
    assert_eq!(similar(&f, query("zirvane"), everything).await, (vec![1, 2, 3, 4], true));
    assert_eq!(similar(&f, query("zeppelin zirvane"), everything).await, (vec![1, 2, 3, 4], true));
    assert_eq!(similar(&f, query("zeppelin"), everything).await, (vec![], true));
    assert_eq!(similar(&f, query("++"), everything).await, (vec![], false), "nothing to look for");
    let prefix = SearchQuery { path_prefix: "b/".into(), ..query("zirvane") };
    assert_eq!(similar(&f, prefix, everything).await, (vec![3, 4], true));
    let of = |projects: &[u128]| RunContext {
        scope: Scope::Project,
        project_ids: projects.iter().map(|n| project_id(*n)).collect(),
    };
    let of_one = SearchQuery { context: of(&[1]), ..query("zirvane") };
    assert_eq!(similar(&f, of_one, everything).await, (vec![1, 2], true));
    let of_none = SearchQuery { context: of(&[]), ..query("zirvane") };
    assert_eq!(similar(&f, of_none, everything).await, (vec![], true));

    let place = Place::default();
    let found = search_similar(&*f.store, query("zirvane"), everything, place.clone()).await;
    let hits = found.unwrap().hits;
    assert_eq!(place.0.load(Ordering::Relaxed), 1 + 5, "every look at a text holds the place");
    assert_eq!(Arc::strong_count(&place.0), 1, "all of them are done");
    assert_eq!(hits[0].snippet, "The Zir- vane works.", "a snippet shows the spelling");
    let offsets: Vec<Option<u64>> = hits.iter().map(|hit| hit.offset).collect();
    assert_eq!(
        offsets,
        [Some(lines.len() as u64), Some(0), None, None],
        "titles and paths are not in the text"
    );
    let words = f.store.search_documents(query("zirvane")).await.unwrap();
    assert_eq!(words.total, 0, "full-text search knows none of them");
}

/// More text, or more hits, than a call may look at: the answer says so.
pub async fn a_search_for_letters_is_bounded(f: Fixture) {
    f.store.create_project(new_project(1, "One")).await.unwrap();
    for n in 0..5 {
        let document = source(n, 1, &format!("{n}.md"), "Title", &format!("{:>100}", format!("{n}Zirvane")));
        f.store.put_document(document).await.unwrap();
    }
    assert_eq!(similar(&f, query("zirvane"), 500).await, (vec![0, 1, 2, 3, 4], true));
    assert_eq!(similar(&f, query("zirvane"), 499).await, (vec![0, 1, 2, 3], false));
    assert_eq!(similar(&f, query("zirvane"), 99).await, (vec![], false));
    let few = SearchQuery { limit: 2, ..query("zirvane") };
    assert_eq!(similar(&f, few, 500).await, (vec![0, 1], false));
    let none = SearchQuery { limit: 0, ..query("zirvane") };
    assert_eq!(similar(&f, none, 500).await, (vec![], false));
}
