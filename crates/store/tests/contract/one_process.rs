//! What only the store of one process promises.

use std::time::Duration;

use tree_agent_store::embedded::EmbeddedStore;
use tree_agent_store::{Claim, Leases, Runs};

use crate::fixture::{claim, new_run, run_id};

const LONG: Duration = Duration::from_secs(60);

async fn store(runs: u128) -> EmbeddedStore {
    let store = EmbeddedStore::open_in_memory().await.unwrap();
    for n in 1..=runs {
        store.create_run(new_run(n)).await.unwrap();
    }
    store
}

#[tokio::test]
async fn the_leases_of_drivers_that_are_gone_can_be_ended() {
    let store = store(2).await;
    let held = claim(&store, "gone", LONG, 2).await;
    store.quarantine(run_id(2), held[1].epoch, LONG).await.unwrap();
    // However often a process dies without progress.
    for epoch in 2..6 {
        assert_eq!(claim(&store, "next", LONG, 2).await, []);
        store.end_leases().await.unwrap();
        let claims = claim(&store, "next", LONG, 2).await;
        assert_eq!(claims, [Claim { run_id: run_id(1), epoch, head_seq: 2, failures: 0 }]);
    }
}

#[tokio::test]
async fn runs_that_are_set_aside_are_not_claimed_until_they_are_brought_back() {
    let store = store(3).await;
    assert_eq!(store.set_unfinished_aside().await.unwrap(), 3);
    store.create_run(new_run(4)).await.unwrap();
    store.bring_back(run_id(2)).await.unwrap();
    store.bring_back(run_id(9)).await.unwrap();
    let claims = claim(&store, "driver", LONG, 9).await;
    assert_eq!(claims.iter().map(|claim| claim.run_id).collect::<Vec<_>>(), [run_id(2), run_id(4)]);
}
