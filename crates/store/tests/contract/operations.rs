//! What operators see and repair.

use std::time::Duration;

use tree_agent_contract::document::DocumentOp;
use tree_agent_contract::{NodeId, NodeStatus, RunStatus};
use tree_agent_store::{
    ClusterState, DriverAbout, PeerState, Projection, StoreError, StoredChunk, WholeProjection,
};

use crate::fixture::{Fixture, T0, append, claim, event, eventually, new_run, node_row, run_id, run_row};
use crate::forks;

fn whole(n: u128, status: RunStatus) -> WholeProjection {
    let run = new_run(n);
    let at = run.events[0].timestamp;
    WholeProjection {
        fork_edits: Vec::new(),
        root_node_id: NodeId::root(run.run_id),
        spec: run.spec,
        created_at: at,
        updated_at: at,
        rows: Projection {
            run: Some(run_row(status)),
            nodes: vec![node_row(run.run_id, NodeStatus::Planning)],
            ..Projection::default()
        },
    }
}

pub async fn what_is_stored_can_be_seen_cell_by_cell(f: Fixture) {
    f.claimed(1, "a").await;
    let stored = f.store.stored(run_id(1)).await.unwrap();
    assert_eq!((stored.head_seq, stored.epoch, stored.events, stored.last_seq), (2, 1, 2, 2));
    assert_eq!(stored.rows, whole(1, RunStatus::Queued).rows(run_id(1)));
    f.rows("UPDATE tree_agent_nodes SET status = 'nonsense', started_at = NULL").await;
    let stored = f.store.stored(run_id(1)).await.unwrap();
    assert!(stored.rows[1].cells.contains(&("status", Some("nonsense".into()))), "{:?}", stored.rows);
    let missing = f.store.stored(run_id(9)).await.unwrap_err();
    assert!(matches!(missing, StoreError::NotFound { what: "run", .. }));
}

pub async fn stored_events_are_not_interpreted(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    let run = claim.run_id;
    f.store.append([append(run, claim.epoch, 2, 3)].into()).await.unwrap();
    f.rows("UPDATE tree_agent_events SET event_type = 'nonsense' WHERE seq = 4").await;
    let events = f.store.stored_events(run, 3, 10).await.unwrap();
    assert_eq!(events.iter().map(|e| e.seq).collect::<Vec<_>>(), [4, 5]);
    assert_eq!(events[0].event_type, "nonsense");
    assert_eq!(events[1].event_type, "tree.guidance_added");
    assert_eq!(events[1].timestamp, T0.plus_millis(5));
    assert!(events[1].payload.contains("\"e1\""), "{}", events[1].payload);
    let last = event(
        run,
        5,
        T0,
        tree_agent_contract::event::GuidanceAdded {
            text: "e1".into(),
            author: String::new(),
            request_id: String::new(),
            subtree: false,
        },
    );
    assert_eq!(events[1].node_id, last.node_id);
    assert_eq!(f.store.stored_events(run, 0, 1).await.unwrap().len(), 1);
}

pub async fn run_ids_page_upwards(f: Fixture) {
    for n in [3, 1, 2] {
        f.store.create_run(new_run(n)).await.unwrap();
    }
    assert_eq!(f.store.run_ids(None, 2).await.unwrap(), [run_id(1), run_id(2)]);
    assert_eq!(f.store.run_ids(Some(run_id(2)), 2).await.unwrap(), [run_id(3)]);
    assert_eq!(f.store.run_ids(Some(run_id(3)), 2).await.unwrap(), []);
}

pub async fn a_projection_is_replaced_while_the_head_stands(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    let run = claim.run_id;
    let mut mended = whole(1, RunStatus::Completed);
    mended.rows.nodes[0].title = "Rebuilt".into();
    assert!(!f.store.replace_projection(run, 1, mended.clone()).await.unwrap());
    assert_eq!(f.rows("SELECT title FROM tree_agent_nodes").await, ["Root"]);
    f.rows(
        "UPDATE tree_agent_runs SET spec = '{}', objective = 'x', root_node_id = id, partial = NOT partial",
    )
    .await;
    assert!(f.store.replace_projection(run, 2, mended.clone()).await.unwrap());
    assert_eq!(f.rows("SELECT title FROM tree_agent_nodes").await, ["Rebuilt"]);
    assert_eq!(f.store.stored(run).await.unwrap().rows, mended.rows(run));
    let summary = f.store.run(run).await.unwrap();
    assert_eq!((summary.status, summary.head_seq), (RunStatus::Completed, 2));
    assert_eq!(summary.spec, mended.spec);
    mended.rows = Projection::default();
    assert!(f.store.replace_projection(run, 2, mended.clone()).await.unwrap());
    assert_eq!(f.rows("SELECT count(*) FROM tree_agent_nodes").await, ["0"]);
    let missing = f.store.replace_projection(run_id(9), 2, mended).await.unwrap_err();
    assert!(matches!(missing, StoreError::NotFound { what: "run", .. }));
}

pub async fn the_chunks_of_a_fork_are_paged(f: Fixture) {
    let store = f.store.clone();
    let (run, _) = forks::parent(&*store).await;
    store.fork_run(forks::new_fork(2, run, 5)).await.unwrap();
    let taken = claim(&*store, "b", std::time::Duration::from_secs(60), 10).await[0];
    let mut own = append(run_id(2), taken.epoch, 6, 3);
    own.documents = vec![
        forks::text(10, 7, "w"),
        forks::text(11, 8, "XY"),
        DocumentOp::Create(forks::pad(12, run_id(2), "own", T0)),
        forks::place(12, 10, 8),
        forks::text(12, 9, "z"),
    ];
    forks::write(&*store, own).await;
    store.fork_run(forks::new_fork(3, run_id(2), 9)).await.unwrap();
    let pages = async |limit: usize| {
        let (mut chunks, mut after) = (Vec::new(), None);
        loop {
            let page = store.document_chunks(run_id(3), after, limit).await.unwrap();
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { return chunks };
            after = Some((last.document_id, last.seq));
            chunks.extend(page);
        }
    };
    let keys = |chunks: &[StoredChunk]| {
        chunks.iter().map(|c| (c.document_id.0.as_u128(), c.seq, c.body.clone())).collect::<Vec<_>>()
    };
    let expected = [(10, 7, "w"), (11, 5, "b"), (11, 8, "XY"), (12, 9, "z")];
    let expected = expected.map(|(id, seq, body)| (id, seq, body.to_owned()));
    for limit in [1, 2, 3, 4, 100] {
        assert_eq!(keys(&pages(limit).await), expected, "pages of {limit}");
    }
    // A document that begins anew has lost its earlier chunks, wherever they are stored.
    let taken = claim(&*store, "c", std::time::Duration::from_secs(60), 10).await;
    let taken = taken.iter().find(|claim| claim.run_id == run_id(3)).unwrap();
    let mut anew = append(run_id(3), taken.epoch, 10, 2);
    anew.documents =
        vec![DocumentOp::Create(forks::pad(11, run_id(3), "anew", T0)), forks::text(11, 12, "!")];
    forks::write(&*store, anew).await;
    for limit in [1, 2, 100] {
        let left = keys(&pages(limit).await);
        let left: Vec<_> = left.iter().map(|(id, seq, _)| (*id, *seq)).collect();
        assert_eq!(left, [(10, 7), (12, 9)], "pages of {limit}");
    }
}

const LEASE: Duration = Duration::from_secs(60);

pub async fn the_state_of_a_cluster_is_that_of_its_leases_and_runs(f: Fixture) {
    assert_eq!(f.store.cluster().await.unwrap(), ClusterState::default());
    for n in 1..=3 {
        f.store.create_run(new_run(n)).await.unwrap();
    }
    assert_eq!(claim(&*f.store, "a", LEASE, 1).await.len(), 1);
    assert_eq!(claim(&*f.store, "b", LEASE, 1).await.len(), 1);
    assert!(f.store.renew("b", 1, Duration::from_millis(30), 0).await.unwrap().held);
    let peer = PeerState { address: "10.0.0.1:7402".into(), version: "0.3.0".into(), answers: true };
    let about = DriverAbout { version: "0.3.0".into(), peers: [("executors".into(), vec![peer])].into() };
    f.store.note_driver("a", &about).await.unwrap();
    f.store.note_driver("unknown", &about).await.unwrap();
    let state = eventually("the lease's end", async || {
        Some(f.store.cluster().await.unwrap()).filter(|state| state.drivers[1].ends_in_ms < 0)
    })
    .await;
    let drivers: Vec<_> =
        state.drivers.iter().map(|driver| (&*driver.id, driver.runs, &driver.about)).collect();
    assert_eq!(drivers, [("a", 1, &about), ("b", 1, &DriverAbout::default())]);
    assert!((1..=60_000).contains(&state.drivers[0].ends_in_ms), "{state:?}");
    assert_eq!((state.live, state.waiting), (3, 1));
    assert!(state.longest_wait_ms > 0);
}
