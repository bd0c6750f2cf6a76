//! Runs in lists.

use tree_agent_contract::limits::PAGE_MAX;
use tree_agent_contract::{LabelFilter, ProjectId, RunContext, RunId, RunStatus, Strategy, Timestamp};
use tree_agent_store::{IdPart, RunFilter, RunQuery, RunRow, StoreError};
use uuid::Uuid;

use crate::fixture::{Fixture, T0, append, new_run, run_id, run_row};
use crate::runs::scratchpad_create;

async fn list(f: &Fixture, query: RunQuery) -> (Vec<u128>, bool) {
    let page = f.store.list_runs(query).await.unwrap();
    (page.items.iter().map(|r| r.run_id.0.as_u128()).collect::<Vec<_>>(), page.more)
}

fn all() -> RunQuery {
    RunQuery { limit: PAGE_MAX, ..RunQuery::default() }
}

/// The runs of a filter; each of them matches it in memory too, and no other does.
pub async fn found(f: &Fixture, filter: RunFilter) -> Vec<u128> {
    let everything = f.store.list_runs(all()).await.unwrap().items;
    let matching: Vec<_> =
        everything.iter().filter(|run| filter.matches(run)).map(|run| run.run_id.0.as_u128()).collect();
    let (found, more) = list(f, RunQuery { filter: filter.clone(), ..all() }).await;
    assert_eq!((&found, more), (&matching, false), "{filter:?}");
    found
}

/// Ends run `n`, which must be free.
async fn end(f: &Fixture, id: RunId, models: &[&str]) {
    let claims = crate::fixture::claim(&*f.store, "a", std::time::Duration::from_secs(60), 100).await;
    let claim = claims.iter().find(|claim| claim.run_id == id).expect("the run is free");
    let mut end = append(claim.run_id, claim.epoch, claim.head_seq, 1);
    end.projection.run = Some(RunRow {
        ended_at: Some(T0),
        models: models.iter().map(|model| (*model).to_owned()).collect(),
        ..run_row(RunStatus::Completed)
    });
    f.store.append([end].into()).await.unwrap();
    let others: Vec<_> = claims.iter().map(|claim| (claim.run_id, claim.epoch)).collect();
    f.store.release(&others).await.unwrap();
}

pub async fn lists_page_and_filter(f: Fixture) {
    let project = ProjectId(Uuid::from_u128(77));
    for n in 1..=7_u128 {
        let mut run = new_run(n);
        if n % 2 == 0 {
            run.spec.context = RunContext::project(project);
        }
        if n == 3 {
            run.spec.objective = "Straße und ÄRGER 100%_\\".into();
        }
        // Two runs of the same moment: the id decides.
        if n == 2 {
            run.events[0].timestamp = new_run(1).events[0].timestamp;
        }
        f.store.create_run(run).await.unwrap();
    }
    assert_eq!(list(&f, all()).await, (vec![7, 6, 5, 4, 3, 2, 1], false));
    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let page = f.store.list_runs(RunQuery { before, limit: 2, ..RunQuery::default() }).await.unwrap();
        seen.extend(page.items.iter().map(|r| r.run_id.0.as_u128()));
        before = page.items.last().map(|r| (r.created_at, r.run_id));
        if !page.more {
            break;
        }
        assert_eq!(page.items.len(), 2);
    }
    assert_eq!(seen, [7, 6, 5, 4, 3, 2, 1]);
    assert!(!list(&f, RunQuery { limit: 7, ..RunQuery::default() }).await.1);
    let of_project = RunFilter { project_id: Some(project), ..RunFilter::default() };
    assert_eq!(found(&f, of_project.clone()).await, [6, 4, 2]);
    assert_eq!(found(&f, RunFilter { global: true, ..RunFilter::default() }).await, [7, 5, 3, 1]);
    for text in ["ärger", "STRASSE".to_lowercase().replace("ss", "ß").as_str(), "100%_\\", "UND"] {
        let containing = RunFilter { objective_contains: text.into(), ..RunFilter::default() };
        assert_eq!(found(&f, containing).await, [3], "{text}");
    }
    assert_eq!(found(&f, RunFilter { objective_contains: "%".into(), ..of_project }).await, []);
    end(&f, run_id(1), &[]).await;
    let statuses = vec![RunStatus::Completed, RunStatus::Failed];
    assert_eq!(found(&f, RunFilter { statuses, ..RunFilter::default() }).await, [1]);
    let queued = RunFilter { statuses: vec![RunStatus::Queued], ..RunFilter::default() };
    assert_eq!(found(&f, queued).await.len(), 6);
}

pub async fn every_filter_finds_what_it_names(f: Fixture) {
    for n in 1..=4_u128 {
        let mut run = new_run(n);
        run.run_id = RunId(Uuid::from_u128(n << 124 | n));
        run.spec.user_id = if n < 3 { "ann" } else { "bob\0" }.into();
        run.spec.model = if n % 2 == 0 { "offline" } else { "scripted:fast" }.into();
        run.spec.labels = match n {
            1 => [("env", "prod"), ("team", "x")].map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            2 => [("env".to_owned(), "test".to_owned())].into(),
            3 => [("team".to_owned(), String::new())].into(),
            _ => Default::default(),
        };
        run.events.iter_mut().for_each(|event| event.run_id = run.run_id);
        if n == 4 {
            run.spec.strategy = Strategy::Search;
            run.spec.copy_of = Some(run_id(1));
        }
        f.store.create_run(run).await.unwrap();
    }
    // In the order of the runs, oldest first.
    let find = async |filter: RunFilter| {
        let mut runs: Vec<u128> = found(&f, filter).await.iter().map(|id| id & 0xf).collect();
        runs.reverse();
        runs
    };
    let any = RunFilter::default;
    assert_eq!(find(RunFilter { user_id: "ann".into(), ..any() }).await, [1, 2]);
    assert_eq!(find(RunFilter { user_id: "an".into(), ..any() }).await, []);
    assert_eq!(find(RunFilter { model: "offline".into(), ..any() }).await, [2, 4]);
    // A model counts as well if it has answered without being asked for by name.
    end(&f, RunId(Uuid::from_u128(3 << 124 | 3)), &["offline", "openai:x"]).await;
    assert_eq!(find(RunFilter { model: "offline".into(), ..any() }).await, [2, 3, 4]);
    assert_eq!(find(RunFilter { model: "openai:x".into(), ..any() }).await, [3]);
    assert_eq!(find(RunFilter { model: "openai".into(), ..any() }).await, []);
    assert_eq!(find(RunFilter { strategies: vec![Strategy::Search], ..any() }).await, [4]);
    assert_eq!(find(RunFilter { copy_of: Some(run_id(1)), ..any() }).await, [4]);
    assert_eq!(find(RunFilter { copy_of: Some(run_id(2)), ..any() }).await, []);
    let both = vec![Strategy::Search, Strategy::Tree];
    assert_eq!(find(RunFilter { strategies: both, ..any() }).await, [1, 2, 3, 4]);
    let at = |n: u64| Some(T0.plus_millis(n * 1_000));
    let between = RunFilter { created_after: at(2), created_before: at(4), ..any() };
    assert_eq!(find(between).await, [2, 3], "the first moment belongs to it, the last does not");
    for (labels, runs) in [
        (vec!["env"], vec![1, 2]),
        (vec!["env=prod"], vec![1]),
        (vec!["env", "team"], vec![1]),
        (vec!["team="], vec![3]),
        (vec!["env=x"], vec![]),
    ] {
        let parsed = labels.iter().map(|text| LabelFilter::parse_field("labels", text).unwrap()).collect();
        assert_eq!(find(RunFilter { labels: parsed, ..any() }).await, runs, "{labels:?}");
    }
    let part = |text: &str| Some(IdPart::parse_field("id_part", text).unwrap());
    let long = Uuid::from_u128(3 << 124 | 3).to_string();
    for (text, runs) in
        [("3", vec![3]), ("2000-0", vec![2]), ("00001", vec![1]), (&long, vec![3]), ("5", vec![])]
    {
        assert_eq!(find(RunFilter { id_part: part(text), ..any() }).await, runs, "{text}");
    }
    let several = RunFilter { user_id: "ann".into(), model: "offline".into(), id_part: part("2"), ..any() };
    assert_eq!(find(several).await, [2]);
}

pub async fn a_deleted_run_is_hidden_with_its_documents(f: Fixture) {
    for n in 1..=2_u128 {
        let mut run = new_run(n);
        run.request_id = format!("r{n}");
        let mut pad = scratchpad_create(n, "text");
        if let tree_agent_contract::DocumentOp::Create(document) = &mut pad {
            document.run_id = Some(run.run_id);
        }
        run.documents.push(pad);
        f.store.create_run(run).await.unwrap();
    }
    let is_missing = |error: StoreError| matches!(error, StoreError::NotFound { .. });
    assert!(!f.store.delete_run(run_id(1)).await.unwrap(), "it has not ended");
    assert!(is_missing(f.store.delete_run(run_id(9)).await.unwrap_err()));
    assert_eq!(f.store.run(run_id(1)).await.unwrap().status, RunStatus::Queued);
    end(&f, run_id(1), &[]).await;
    let document = match &scratchpad_create(1, "") {
        tree_agent_contract::DocumentOp::Create(document) => document.id,
        other => panic!("{other:?}"),
    };
    assert_eq!(f.store.document(document).await.unwrap().body, "text");
    assert!(f.store.delete_run(run_id(1)).await.unwrap());
    assert!(f.store.delete_run(run_id(1)).await.unwrap(), "deleting it again changes nothing");
    assert!(is_missing(f.store.run(run_id(1)).await.unwrap_err()));
    assert!(is_missing(f.store.document(document).await.unwrap_err()));
    assert!(is_missing(f.store.document_tail(document, 0, usize::MAX).await.unwrap_err()));
    // Its request id stays taken.
    assert_eq!(f.store.run_of_request("", "r1").await.unwrap(), Some(run_id(1)));
}

pub async fn changes_of_the_list_can_be_followed(f: Fixture) {
    let begin = (Timestamp::default(), run_id(0));
    let changes = async |after| -> Vec<(Timestamp, RunId)> { f.store.list_changes(after, 10).await.unwrap() };
    let runs = |changes: &[(Timestamp, RunId)]| changes.iter().map(|c| c.1.0.as_u128()).collect::<Vec<_>>();
    assert_eq!(f.store.last_list_change().await.unwrap(), Timestamp::default());
    for n in 1..=2 {
        f.store.create_run(new_run(n)).await.unwrap();
    }
    let created = changes(begin).await;
    assert_eq!(runs(&created), [1, 2]);
    assert_eq!(runs(&f.store.list_changes(begin, 1).await.unwrap()), [1]);
    assert_eq!(runs(&changes(created[0]).await), [2]);
    assert_eq!(f.store.last_list_change().await.unwrap(), created[1].0);
    let mut live = f.store.live_heads().await.unwrap();
    live.sort_unstable();
    assert_eq!(live, [(run_id(1), 2), (run_id(2), 2)]);
    end(&f, run_id(1), &[]).await;
    let ended = changes(created[1]).await;
    assert_eq!(runs(&ended), [1]);
    assert_eq!(f.store.live_heads().await.unwrap(), [(run_id(2), 2)]);
    f.store.delete_run(run_id(1)).await.unwrap();
    let deleted = changes(ended[0]).await;
    assert_eq!(runs(&deleted), [1]);
    f.store.delete_run(run_id(1)).await.unwrap();
    assert_eq!(changes(deleted[0]).await, [], "deleting it again changes nothing");
    let mut listed = f.store.listed_runs(&[run_id(1), run_id(2), run_id(3)]).await.unwrap();
    listed.sort_by_key(|listed| listed.summary.run_id);
    let shown: Vec<_> = listed.iter().map(|l| (l.summary.run_id, l.summary.status, l.deleted)).collect();
    assert_eq!(shown, [(run_id(1), RunStatus::Completed, true), (run_id(2), RunStatus::Queued, false)]);
}
