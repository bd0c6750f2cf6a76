//! Who may write to a run.

use std::collections::HashSet;
use std::time::Duration;

use tree_agent_contract::RunStatus;
use tree_agent_store::{AppendOutcome, Claim};

use crate::fixture::{Fixture, append, eventually, new_run, run_id, run_row};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(30);

pub async fn claims_are_exclusive_and_oldest_first(f: Fixture) {
    for n in (1..=40).rev() {
        f.store.create_run(new_run(n)).await.unwrap();
    }
    let first = f.store.claim("a", LONG, 2).await.unwrap();
    let claim = |n| Claim { run_id: run_id(n), epoch: 1, head_seq: 2 };
    assert_eq!(first, [claim(1), claim(2)]);
    assert_eq!(f.store.claim("a", LONG, 0).await.unwrap(), []);
    let mut claimers = Vec::new();
    for i in 0..6 {
        let store = f.store.clone();
        claimers.push(tokio::spawn(async move {
            let mut mine = Vec::new();
            loop {
                let claims = store.claim(&format!("c{i}"), LONG, 3).await.unwrap();
                if claims.is_empty() {
                    return mine;
                }
                mine.extend(claims);
            }
        }));
    }
    let mut all = Vec::new();
    for claimer in claimers {
        all.extend(claimer.await.unwrap());
    }
    let runs: HashSet<_> = all.iter().map(|c| c.run_id).collect();
    assert_eq!(runs.len(), all.len(), "a run was claimed twice");
    // A claimer skips rows that another one has locked, so it may end early. The last one gets the rest.
    let rest = f.store.claim("last", LONG, 100).await.unwrap();
    assert_eq!(all.len() + rest.len(), 38);
    assert!(all.iter().chain(&rest).all(|c| c.epoch == 1));
}

pub async fn an_expired_lease_can_be_claimed_and_fences_its_holder(f: Fixture) {
    f.store.create_run(new_run(1)).await.unwrap();
    let old = f.store.claim("a", SHORT, 1).await.unwrap()[0];
    assert_eq!(
        f.store.append([append(old.run_id, old.epoch, 2, 2)].into()).await.unwrap(),
        [AppendOutcome::Appended]
    );
    let new = eventually("the lease's end", async || f.store.claim("b", LONG, 1).await.unwrap().pop()).await;
    assert_eq!(new, Claim { run_id: old.run_id, epoch: old.epoch + 1, head_seq: 4 });
    assert_eq!(
        f.store.append([append(old.run_id, old.epoch, 4, 1)].into()).await.unwrap(),
        [AppendOutcome::Fenced]
    );
    assert_eq!(f.store.renew(&[(old.run_id, old.epoch)], LONG).await.unwrap(), []);
    f.store.release(&[(old.run_id, old.epoch)]).await.unwrap();
    assert_eq!(f.store.claim("c", LONG, 1).await.unwrap(), [], "a lost lease was released");
    assert_eq!(
        f.store.append([append(old.run_id, new.epoch, 4, 1)].into()).await.unwrap(),
        [AppendOutcome::Appended]
    );
}

pub async fn renewing_keeps_and_releasing_gives_back(f: Fixture) {
    f.store.create_run(new_run(1)).await.unwrap();
    f.store.create_run(new_run(2)).await.unwrap();
    let claims = f.store.claim("a", SHORT, 2).await.unwrap();
    let held: Vec<_> = claims.iter().map(|c| (c.run_id, c.epoch)).collect();
    let mut renewed = f.store.renew(&[held[0], held[1], (run_id(9), 1)], LONG).await.unwrap();
    renewed.sort_unstable();
    assert_eq!(renewed, [run_id(1), run_id(2)]);
    // A lease of the same length that began later expires. By then the first ones would have expired without renewal.
    f.store.create_run(new_run(3)).await.unwrap();
    assert_eq!(f.store.claim("a", SHORT, 3).await.unwrap().len(), 1);
    let expired = eventually("the expiry", async || f.store.claim("b", LONG, 3).await.unwrap().pop()).await;
    assert_eq!(expired.run_id, run_id(3));
    assert_eq!(f.store.claim("b", LONG, 3).await.unwrap(), []);
    f.store.release(&[held[0], (run_id(9), 1)]).await.unwrap();
    assert_eq!(f.store.renew(&held[..1], LONG).await.unwrap(), [], "a released lease was renewed");
    let again = f.store.claim("b", LONG, 2).await.unwrap();
    assert_eq!(again, [Claim { run_id: run_id(1), epoch: 2, head_seq: 2 }]);
    assert_eq!(f.store.renew(&[], LONG).await.unwrap(), []);
    f.store.release(&[]).await.unwrap();
}

pub async fn final_runs_are_not_claimed(f: Fixture) {
    for (n, status) in [
        (1, RunStatus::Completed),
        (2, RunStatus::Failed),
        (3, RunStatus::Cancelled),
        (4, RunStatus::Paused),
        (5, RunStatus::Running),
    ] {
        let claim = f.claimed(n, "a").await;
        let mut end = append(claim.run_id, claim.epoch, 2, 1);
        end.projection.run = Some(run_row(status));
        f.store.append([end].into()).await.unwrap();
    }
    f.store.release(&(1..=5).map(|n| (run_id(n), 1)).collect::<Vec<_>>()).await.unwrap();
    let claims = f.store.claim("b", LONG, 10).await.unwrap();
    assert_eq!(claims.iter().map(|c| c.run_id).collect::<Vec<_>>(), [run_id(4), run_id(5)]);
}
