//! Passages: which ones a search finds, and their vectors.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tree_agent_contract::document::DocumentKind;
use tree_agent_contract::{DocumentId, RunContext, Scope};
use tree_agent_retrieval::{Kind, Query, rank};
use tree_agent_store::{CANDIDATES, FoundPassages, PassageId, PassageQuery, Store, Unembedded, VectorCache};
use uuid::Uuid;

use crate::documents::{new_project, project_id, source};
use crate::fixture::{Fixture, run_id};

async fn search(store: &dyn Store, text: &str, context: RunContext, prefix: &str) -> FoundPassages {
    let query = PassageQuery { query: Query::new(text), context, path_prefix: prefix.into() };
    store.find_passages(query).await.unwrap()
}

/// The documents with passages that hold words of `text`, by their numbers.
pub async fn found(f: &Fixture, text: &str) -> Vec<u128> {
    within(f, text, RunContext::default(), "").await
}

async fn within(f: &Fixture, text: &str, context: RunContext, prefix: &str) -> Vec<u128> {
    let found = search(&*f.store, text, context, prefix).await;
    assert_eq!(found.total, found.passages.len() as u64, "all of few matches are returned");
    let documents: BTreeSet<u128> = found.passages.iter().map(|p| p.document.id.0.as_u128()).collect();
    documents.into_iter().collect()
}

pub async fn words_that_look_the_same_are_found(f: Fixture) {
    f.store.create_project(new_project(1, "One")).await.unwrap();
    for (n, path, title, body) in [
        (1, "a.md", "Decomposed", "In the cafe\u{301} they wait."),
        (2, "b.md", "Wide", "ＭＥＴＥＯＲ falls"),
        (3, "c.md", "Hyphens", "me\u{ad}te\u{ad}or and mete\u{200b}or"),
        (4, "d.md", "Marks", "the met**eor** is large"),
        (5, "e.md", "Entities", "<p>caf&eacute; and ca&shy;f&#233;</p>"),
        (6, "f.md", "Li\u{fb01}ng", "nothing"),
        (7, "me\u{301}te\u{301}o.md", "Path", "nothing"),
        (8, "g.md", "Han", "我們研究量子計算機。"),
        (9, "h.md", "Thai", "ข้อมูลภาษาไทย"),
        (10, "i.md", "Kana", "東京タワーに登る"),
        (11, "j.md", "Korean", "서울에서 만나요"),
        (12, "k.md", "Arabic", "هذا كِتَابٌ جديد"),
        (13, "l.md", "Hebrew", "שָׁלוֹם עולם"),
        (14, "m.md", "Hindi", "हिन्दी भाषा"),
        (15, "n.md", "Link", "a [lin](target)kedix"),
        (16, "o.md", "Two", "They fail over, and log in."),
        (17, "p.md", "One", "A fail-over; a login."),
        (18, "q.md", "Whole", "The failover. The logins."),
    ] {
        f.store.put_document(source(n, 1, path, title, body)).await.unwrap();
    }
    for (words, documents) in [
        (&["café", "cafe\u{301}", "ｃａｆé", "ca\u{ad}fé", "CAFE"][..], &[1, 5][..]),
        (&["meteor", "meteors", "ｍｅｔｅｏｒ", "me\u{200b}teor"], &[2, 3, 4]),
        (&["lifing"], &[6]),
        (&["météo"], &[7]),
        (&["量子", "研究"], &[8]),
        (&["ภาษา"], &[9]),
        (&["タワー", "ﾀﾜｰ"], &[10]),
        (&["서울"], &[11]),
        (&["كتاب", "كِتَاب"], &[12]),
        (&["שלום", "שָׁלוֹם", "\u{fb2a}לום"], &[13]),
        (&["भाषा", "हिन्दी"], &[14]),
        (&["linkedix"], &[15]),
        (&["failover", "fail over", "fail-over", "logins", "login"], &[16, 17, 18]),
    ] {
        for word in words {
            assert_eq!(found(&f, word).await, documents, "{word:?}");
        }
    }
}

pub async fn candidates_come_by_the_weight_of_what_they_hold(f: Fixture) {
    f.store.create_project(new_project(1, "One")).await.unwrap();
    for n in 0..CANDIDATES as u128 + 50 {
        let body = match n {
            240 => "The common kestrel.",
            230 => "A kestrel.",
            // Its text begins later than the others.
            0 => "\n\nOf common things.",
            _ => "Of common things.",
        };
        f.store.put_document(source(n, 1, &format!("{n:03}.md"), "T", body)).await.unwrap();
    }
    let found = search(&*f.store, "common kestrels", RunContext::default(), "").await;
    assert_eq!((found.passages.len(), found.total), (CANDIDATES, 250));
    assert_eq!((found.counts.passages, &found.counts.holding[..]), (250, &[249, 2, 0][..]));
    let ids: Vec<u128> = found.passages.iter().map(|passage| passage.document.id.0.as_u128()).collect();
    assert_eq!(ids[..4], [240, 230, 1, 2]);
    assert!(!ids.contains(&0), "what begins its document comes first");
    let found = search(&*f.store, "!", RunContext::default(), "").await;
    assert_eq!((found.counts.passages, found.total), (250, 0));
}

pub async fn a_search_stays_within_its_context(f: Fixture) {
    for n in 1..=3 {
        f.store.create_project(new_project(n, &format!("P{n}"))).await.unwrap();
        f.store.put_document(source(n, n, &format!("a{n}.md"), "Alpha", "beta")).await.unwrap();
    }
    let mut pad = source(9, 1, "", "Alpha", "beta");
    (pad.kind, pad.run_id) = (DocumentKind::Artifact, Some(run_id(1)));
    f.store.put_document(pad).await.unwrap();
    let several = RunContext { scope: Scope::MultiProject, project_ids: vec![project_id(1), project_id(3)] };
    assert_eq!(within(&f, "beta", RunContext::default(), "").await, [1, 2, 3]);
    assert_eq!(within(&f, "beta", RunContext::project(project_id(2)), "").await, [2]);
    assert_eq!(within(&f, "beta", several.clone(), "").await, [1, 3]);
    assert_eq!(within(&f, "beta", several.clone(), "a3").await, [3]);
    assert_eq!(within(&f, "beta", RunContext::project(project_id(8)), "").await, [] as [u128; 0]);
    let counts = search(&*f.store, "beta", several, "a1").await.counts;
    assert_eq!((counts.passages, counts.holding[0]), (1, 1), "what is elsewhere is not counted");
}

pub async fn odd_queries_and_odd_texts_are_no_errors(f: Fixture) {
    f.store.create_project(new_project(1, "One")).await.unwrap();
    let quote = source(1, 1, "a.md", "Quote", "it's a 'quoted' text: AND OR NOT NEAR");
    f.store.put_document(quote).await.unwrap();
    for text in
        ["", " ", "'\"", "-- ; !!", "a:*b & | !", "NEAR(", "\"", "(((", "*", "\0", "\\", "🙂", "'--'", ":"]
    {
        found(&f, text).await;
    }
    assert_eq!(within(&f, "'quoted\" OR -text", RunContext::default(), "%_'").await, [] as [u128; 0]);
    assert_eq!(found(&f, "\"quoted\" NOT:* text").await, [1]);
    let many: String = (0..90_000).map(|n| format!("word{n:06} ")).collect();
    f.store.put_document(source(2, 1, "many.txt", "Many", &many)).await.unwrap();
    assert_eq!(found(&f, "word089999").await, [2]);
    f.store.put_document(source(3, 1, "long\0.txt", "Lo\0ng", &"x\0".repeat(50_000))).await.unwrap();
    f.store.put_document(source(4, 1, "arabic.md", "Long", &"\u{fdfa} ".repeat(10_000))).await.unwrap();
    assert_eq!(found(&f, "وسلم").await, [4]);
    f.store.put_document(source(5, 1, "empty.txt", "Empty", "")).await.unwrap();
    let long: String = (0..500).map(|n| format!("word{n:06} ")).collect();
    assert_eq!(found(&f, &long).await, [2]);
}

pub async fn passages_follow_their_document(f: Fixture) {
    f.store.create_project(new_project(1, "One")).await.unwrap();
    let body = "# Keeping\n\nThe owl sleeps.\n\n## Feeding\n\n- mice\n- seeds\n\n# Flying\n\nAt night.\n";
    f.store.put_document(source(1, 1, "owls.md", "Keeping", body)).await.unwrap();
    let found = search(&*f.store, "seeds", RunContext::default(), "").await.passages;
    assert_eq!(found.len(), 1);
    let passage = &found[0];
    assert_eq!((&*passage.text, passage.kind), ("- mice\n- seeds", Kind::List));
    assert_eq!(passage.headings, ["Keeping", "Feeding"]);
    assert!(body[passage.offset as usize..].starts_with(&passage.text));
    assert_eq!((&*passage.document.path, passage.document.bytes), ("owls.md", body.len() as u64));
    let id = |ordinal| PassageId { document: passage.document.id, ordinal };
    let named = f.store.passages(&[id(2), id(7), id(0)]).await.unwrap();
    let texts: Vec<&str> = named.iter().map(|passage| &*passage.text).collect();
    assert_eq!(texts, ["At night.", "The owl sleeps."]);
    assert_eq!(f.store.passages(&[]).await.unwrap(), []);

    f.store.put_document(source(1, 1, "owls.md", "Keeping", "Nothing.")).await.unwrap();
    assert_eq!(search(&*f.store, "seeds", RunContext::default(), "").await.passages, []);
    assert_eq!(f.rows("SELECT ordinal, body FROM onto_passages").await, ["0|Nothing."]);
    f.store.delete_source(passage.document.id, None).await.unwrap();
    assert_eq!(f.rows("SELECT ordinal, body FROM onto_passages").await, [] as [&str; 0]);
    let gone = search(&*f.store, "nothing", RunContext::default(), "").await;
    assert_eq!((gone.total, gone.counts.passages), (0, 0));
}

pub async fn rows_far_down_a_table_come_with_its_head(f: Fixture) {
    f.store.create_project(new_project(1, "One")).await.unwrap();
    let rows: String = (0..200).map(|n| format!("| PX-{n:03} | {}.5 |\n", n * 7)).collect();
    let body = format!("| Parcel | Weight |\n| --- | --- |\n{rows}");
    f.store.put_document(source(1, 1, "parcels.csv", "Parcels", &body)).await.unwrap();
    let found = search(&*f.store, "PX-177", RunContext::default(), "").await.passages;
    let passage = found.iter().find(|passage| passage.text.contains("PX-177")).unwrap();
    assert_eq!(passage.head, "| Parcel | Weight |\n| --- | --- |\n");
    let found = search(&*f.store, "weight", RunContext::default(), "").await;
    assert_eq!(found.total, found.counts.passages, "the words of a head count for every row");
    let texts = taken(&f, "m", 100).await;
    assert!(texts.iter().all(|text| text.text.matches("Weight").count() == 1), "{texts:?}");
}

pub async fn titles_that_an_earlier_version_found_in_comments_are_mended(f: Fixture) {
    f.store.create_project(new_project(1, "One")).await.unwrap();
    let body = "git(1)\n======\n\n[verse]\n----\n# Copies all.\n----\n\nlinkgit:a[1]\n";
    let titles = async || f.rows("SELECT path, title FROM onto_sources ORDER BY path").await;
    for (n, path, title) in
        [(1, "a.txt", "Copies all."), (2, "b.txt", "My title"), (3, "c.conf", "Copies all.")]
    {
        f.store.put_document(source(n, 1, path, title, body)).await.unwrap();
    }
    let id = |n| DocumentId(Uuid::from_u128(n));
    for mended in [false, true] {
        assert_eq!(titles().await, ["a.txt|Copies all.", "b.txt|My title", "c.conf|Copies all."]);
        let checked = f.store.check_passages(None, 10, mended).await.unwrap();
        assert_eq!(checked.differing, [id(1), id(3)]);
    }
    assert_eq!(titles().await, ["a.txt|git(1)", "b.txt|My title", "c.conf|c.conf"]);
    assert_eq!(f.store.check_passages(None, 10, false).await.unwrap().differing, []);
    assert_eq!(found(&f, "git").await, [1, 2, 3]);
}

pub async fn vectors_are_kept_as_long_as_a_passage_has_their_text(f: Fixture) {
    f.store.create_project(new_project(1, "One")).await.unwrap();
    f.store.create_project(new_project(2, "Two")).await.unwrap();
    let put = async |n, project, body: &str| {
        f.store.put_document(source(n, project, &format!("{n}.md"), "T", body)).await.unwrap();
    };
    put(1, 1, "# A\n\nOne.\n\n# B\n\nTwo.").await;
    put(2, 2, "# B\n\nTwo.").await;
    let missing = taken(&f, "m", 10).await;
    let texts: Vec<&str> = missing.iter().map(|text| &*text.text).collect();
    assert_eq!(texts, ["T › A\nOne.", "T › B\nTwo."], "the same text counts once");
    let marked = f.store.vector_marks("m", &RunContext::default()).await.unwrap();
    let mut vectors: Vec<(Uuid, Vec<i8>)> =
        missing.iter().map(|text| (text.hash, vec![-128, 0, 127])).collect();
    vectors.push((Uuid::from_u128(7), vec![1]));
    f.store.put_vectors("m", vectors.clone()).await.unwrap();
    f.store.put_vectors("m", vectors).await.unwrap();
    f.store.find_unembedded("m").await.unwrap();
    assert_eq!(taken(&f, "m", 10).await, []);
    let marks = f.store.vector_marks("m", &RunContext::default()).await.unwrap();
    assert_eq!((marks.model, &marks.projects), (marked.model + 2, &marked.projects));
    let (all, one) = (RunContext::default(), RunContext::project(project_id(1)));
    let count =
        async |context: &RunContext, prefix: &str| f.store.embedded("m", context, prefix).await.unwrap();
    assert_eq!((count(&all, "").await, count(&one, "").await, count(&all, "2").await), (3, 2, 1));
    let id = |n, ordinal| PassageId { document: DocumentId(Uuid::from_u128(n)), ordinal };
    let vector = vec![-128, 0, 127];
    let expected = [(id(1, 0), Some(vector.clone())), (id(1, 1), Some(vector.clone()))];
    let page = async |model, project, after, limit| {
        f.store.vectors(model, project_id(project), after, limit).await.unwrap()
    };
    assert_eq!(page("m", 1, None, 10).await, expected);
    assert_eq!(page("m", 1, None, 1).await, expected[..1]);
    assert_eq!(page("m", 1, Some(id(1, 0)), 1).await, expected[1..]);
    assert_eq!(page("m", 2, None, 10).await, [(id(2, 0), Some(vector))]);
    assert_eq!(page("other", 2, None, 10).await, [(id(2, 0), None)]);
    let below = f.store.documents_below(&all, "2").await.unwrap();
    assert_eq!(below, [DocumentId(Uuid::from_u128(2))]);
    assert!(f.store.documents_below(&one, "2").await.unwrap().is_empty());

    let kept = async || f.rows("SELECT model FROM onto_vectors").await.len();
    assert_eq!(kept().await, 2, "the text of the third is nowhere");
    put(1, 1, "# B\n\nTwo.").await;
    assert_eq!((kept().await, count(&all, "").await), (1, 2));
    f.store.delete_source(DocumentId(Uuid::from_u128(1)), None).await.unwrap();
    assert_eq!(kept().await, 1, "another document has the text");
    f.store.delete_project(project_id(2), false).await.unwrap();
    assert_eq!(kept().await, 0);
}

/// Nobody else gets a text while it is held, and what waits for nothing is forgotten.
pub async fn a_text_gets_its_vector_from_one_gateway(f: Fixture) {
    f.store.create_project(new_project(1, "One")).await.unwrap();
    for n in 1..=6 {
        let body = format!("word{n}");
        f.store.put_document(source(n, 1, &format!("{n}.md"), "T", &body)).await.unwrap();
    }
    let (one, other) = tokio::join!(taken(&f, "m", 3), taken(&f, "m", 3));
    let mut texts: Vec<String> = one.iter().chain(&other).map(|text| text.text.clone()).collect();
    texts.sort_unstable();
    assert_eq!(texts, (1..=6).map(|n| format!("T\nword{n}")).collect::<Vec<_>>());
    assert_eq!((taken(&f, "m", 10).await, f.store.count_unembedded().await.unwrap()), (vec![], 6));
    // One of them is gone, one has its vector, and the time of the others is over.
    f.store.put_vectors("m", vec![(one[0].hash, vec![1])]).await.unwrap();
    f.store.delete_source(DocumentId(Uuid::from_u128(6)), None).await.unwrap();
    assert!(f.store.count_unembedded().await.unwrap() < 6);
    f.rows(&format!(
        "UPDATE onto_pending SET held_until = {}",
        if f.is_postgres() { "'-infinity'" } else { "0" }
    ))
    .await;
    let again = taken(&f, "m", 10).await;
    assert!((4..=5).contains(&again.len()) && !again.contains(&one[0]), "{again:?}");
    // Another model is told of all of them.
    f.rows("DELETE FROM onto_pending").await;
    for (model, count) in [("m", again.len() as u64), ("n", 5)] {
        f.store.find_unembedded(model).await.unwrap();
        assert_eq!(f.store.count_unembedded().await.unwrap(), count, "{model}");
    }
}

async fn taken(f: &Fixture, model: &str, limit: usize) -> Vec<Unembedded> {
    f.store.take_unembedded(model, limit, Duration::from_secs(600)).await.unwrap()
}

pub async fn vectors_in_memory_are_those_that_are_stored(f: Fixture) {
    for n in 1..=2 {
        f.store.create_project(new_project(n, &format!("P{n}"))).await.unwrap();
    }
    let put = async |n: u128, project, body: &str| {
        f.store.put_document(source(n, project, &format!("{n}.md"), "T", body)).await.unwrap();
    };
    let embed = async |limit| {
        let texts = taken(&f, "m", limit).await;
        let vectors = texts.into_iter().map(|text| (text.hash, vec![text.text.len() as i8; 2])).collect();
        f.store.put_vectors("m", vectors).await.unwrap();
    };
    let cache = Arc::new(VectorCache::new(f.store.clone(), "m", 2, 3 * 22));
    let shown = async |context: &RunContext| {
        let kept = cache.of(context).await.unwrap()?;
        let ids =
            kept.iter().flat_map(|kept| kept.iter().map(|(id, vector)| (id.document.0.as_u128(), vector[0])));
        Some((ids.collect::<Vec<_>>(), kept.iter().map(|kept| kept.lacking).sum::<u64>()))
    };
    let (all, one) = (RunContext::default(), RunContext::project(project_id(1)));
    put(1, 1, "a").await;
    put(2, 1, "bb").await;
    assert_eq!(shown(&one).await, Some((vec![], 2)));
    // Of one that lacks some, what another gateway has made is seen; and so is every change of its documents.
    embed(1).await;
    assert_eq!(shown(&one).await.unwrap().1, 1);
    embed(1).await;
    assert_eq!(shown(&one).await, Some((vec![(1, 3), (2, 4)], 0)));
    put(1, 1, "ccc").await;
    embed(9).await;
    assert_eq!(shown(&one).await, Some((vec![(1, 5), (2, 4)], 0)));
    f.store.delete_source(DocumentId(Uuid::from_u128(1)), None).await.unwrap();
    assert_eq!(shown(&one).await, Some((vec![(2, 4)], 0)));
    put(3, 2, "dddd").await;
    embed(9).await;
    assert_eq!(shown(&all).await, Some((vec![(2, 4), (3, 6)], 0)));
    // Three fit, and a fourth does not. What fits is found all the same, and all of it when there is room again.
    put(4, 2, "eeeee").await;
    put(5, 2, "ffffff").await;
    embed(9).await;
    for _ in 0..2 {
        assert_eq!(shown(&all).await, None);
        assert_eq!(shown(&one).await, Some((vec![(2, 4)], 0)));
        assert_eq!(shown(&RunContext::project(project_id(2))).await.unwrap().0.len(), 3);
    }
    f.store.delete_source(DocumentId(Uuid::from_u128(5)), None).await.unwrap();
    assert_eq!(shown(&all).await.unwrap().0.len(), 3);
    // So is what was made anew, though no document has changed.
    f.rows("UPDATE onto_passages SET ordinal = 7 WHERE body = 'bb'").await;
    let was = f.store.vector_marks("m", &one).await.unwrap();
    f.store.check_passages(None, 10, true).await.unwrap();
    assert_ne!(f.store.vector_marks("m", &one).await.unwrap().projects, was.projects);
}

pub async fn passages_that_are_not_what_a_body_says_are_found_and_mended(f: Fixture) {
    f.store.create_project(new_project(1, "One")).await.unwrap();
    for n in 1..=3 {
        f.store.put_document(source(n, 1, &format!("{n}.md"), "T", &format!("word{n}"))).await.unwrap();
    }
    let id = |n| Some(DocumentId(Uuid::from_u128(n)));
    let whole = f.store.check_passages(None, 10, true).await.unwrap();
    assert_eq!((whole.differing, whole.last), (vec![], id(3)));
    f.rows("DELETE FROM onto_passages WHERE body = 'word2'").await;
    assert_eq!(f.store.check_passages(None, 1, true).await.unwrap().last, id(1));
    for mended in [false, true] {
        let checked = f.store.check_passages(id(1), 10, mended).await.unwrap();
        assert_eq!((checked.differing, checked.last), (vec![id(2).unwrap()], id(3)));
    }
    assert_eq!(found(&f, "word2").await, [2]);
    // An index that knows other words than the passages is made anew, too.
    match f.is_postgres() {
        true => f.rows("UPDATE onto_passages SET words = ''").await,
        false => f.rows("DELETE FROM onto_passages_search").await,
    };
    assert_eq!(found(&f, "word2").await, []);
    assert_eq!(f.store.check_passages(None, 10, true).await.unwrap().differing, []);
    assert_eq!(found(&f, "word2").await, [2]);
    assert_eq!(f.store.check_passages(id(3), 10, false).await.unwrap(), Default::default());
}

/// The order of the passages of this project's own documents for some questions.
async fn order(f: &Fixture) -> Vec<Vec<(String, u64)>> {
    f.store.create_project(new_project(1, "One")).await.unwrap();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths: Vec<_> = ["", "docs", "docs/decisions"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .collect();
    paths.sort();
    for (n, path) in (1..).zip(&paths) {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
        f.store.put_document(source(n, 1, name, "", &std::fs::read_to_string(path).unwrap())).await.unwrap();
    }
    let mut orders = Vec::new();
    for text in [
        "What happens when Postgres is down?",
        "list the limits of a run",
        "How does a driver fail over, and who fences it?",
        "the document",
        "run",
    ] {
        let query = Query::new(text);
        let found = search(&*f.store, text, RunContext::default(), "").await;
        let passages: Vec<_> = found.passages.iter().map(|passage| passage.ranked()).collect();
        let ranked = rank(&query, &passages, &found.counts);
        assert!(ranked.len() > 10, "{text}");
        let place = |i: usize| (found.passages[i].document.path.clone(), found.passages[i].offset);
        orders.push(ranked.iter().map(|ranked| place(ranked.index)).collect());
    }
    orders
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_stores_give_the_same_order() {
    let (postgres, embedded) = (Fixture::postgres().await, Fixture::embedded().await);
    assert_eq!(order(&postgres).await, order(&embedded).await);
}
