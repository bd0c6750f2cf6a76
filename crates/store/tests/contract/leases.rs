//! Who may write to a run.

use std::collections::HashSet;
use std::time::Duration;

use tree_agent_contract::event::NodeFailed;
use tree_agent_contract::{RunId, RunStatus};
use tree_agent_store::{AppendOutcome, Claim, Failed, QUARANTINE_MAX, Renewed, RunAppend};

use crate::fixture::{Fixture, append, claim, eventually, new_run, run_id, run_row};
use crate::runs::{cancel, done, is_pending};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(30);

pub async fn claims_are_exclusive_and_oldest_first(f: Fixture) {
    for n in (1..=40).rev() {
        f.store.create_run(new_run(n)).await.unwrap();
    }
    let term = f.store.begin_term("a", LONG).await.unwrap();
    assert_eq!((term.number, term.owned), (1, vec![]));
    let first = f.store.claim("a", 1, 2, 2, 0).await.unwrap();
    let expected = |n| Claim { run_id: run_id(n), epoch: 1, head_seq: 2, failures: 0 };
    assert_eq!(first, [expected(1), expected(2)]);
    assert_eq!(f.store.claim("a", 1, 0, 0, 0).await.unwrap(), []);
    let mut claimers = Vec::new();
    for i in 0..6 {
        let store = f.store.clone();
        claimers.push(tokio::spawn(async move {
            let name = format!("c{i}");
            let term = store.begin_term(&name, LONG).await.unwrap().number;
            let mut mine = Vec::new();
            loop {
                let claims = store.claim(&name, term, 3, 3, 0).await.unwrap();
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
    let rest = claim(&*f.store, "last", LONG, 100).await;
    assert_eq!(all.len() + rest.len(), 38);
    assert!(all.iter().chain(&rest).all(|c| c.epoch == 1));
}

pub async fn an_expired_lease_can_be_claimed_and_fences_its_holder(f: Fixture) {
    f.store.create_run(new_run(1)).await.unwrap();
    // On a busy machine the lease ends before the claim now and then.
    let old = eventually("a claim", async || claim(&*f.store, "a", SHORT, 1).await.pop()).await;
    assert_eq!(
        f.store.append([append(old.run_id, old.epoch, 2, 2)].into()).await.unwrap(),
        [AppendOutcome::Appended]
    );
    let new = eventually("the lease's end", async || claim(&*f.store, "b", LONG, 1).await.pop()).await;
    assert_eq!(new, Claim { run_id: old.run_id, epoch: old.epoch + 1, head_seq: 4, failures: 0 });
    assert_eq!(
        f.store.append([append(old.run_id, old.epoch, 4, 1)].into()).await.unwrap(),
        [AppendOutcome::Fenced]
    );
    assert_eq!(f.store.begin_term("a", LONG).await.unwrap().owned, []);
    assert_eq!(f.store.release(&[(old.run_id, old.epoch)]).await.unwrap(), []);
    f.store.quarantine(old.run_id, old.epoch, LONG).await.unwrap();
    assert_eq!(claim(&*f.store, "c", LONG, 1).await, [], "a lost run was released");
    assert_eq!(
        f.store.append([append(old.run_id, new.epoch, 4, 1)].into()).await.unwrap(),
        [AppendOutcome::Appended]
    );
}

pub async fn a_renewal_keeps_every_run_of_its_driver(f: Fixture) {
    for n in 1..=3 {
        f.store.create_run(new_run(n)).await.unwrap();
    }
    let (a, c) = (f.store.begin_term("a", LONG).await.unwrap(), f.store.begin_term("c", LONG).await.unwrap());
    assert_eq!(f.store.claim("a", a.number, 2, 2, 0).await.unwrap().len(), 2);
    assert_eq!(f.store.claim("c", c.number, 1, 1, 0).await.unwrap().len(), 1);
    // A term that was short from the start might end before the claim.
    assert!(f.store.renew("c", c.number, SHORT, 0).await.unwrap().held);
    assert!(f.store.renew("a", a.number, LONG, 0).await.unwrap().held);
    // The lease of the other one ends. All of the first one's are kept.
    let taken = eventually("the end", async || claim(&*f.store, "b", LONG, 3).await.pop()).await;
    assert_eq!((taken.run_id, taken.epoch), (run_id(3), 2));
    assert_eq!(claim(&*f.store, "b", LONG, 3).await, []);
    assert!(!f.store.renew("unknown", 1, LONG, 0).await.unwrap().held);
}

pub async fn a_released_run_is_free_at_once(f: Fixture) {
    let held = f.claimed(1, "a").await;
    assert_eq!(f.store.release(&[(held.run_id, held.epoch + 1), (run_id(9), 1)]).await.unwrap(), []);
    assert_eq!(claim(&*f.store, "b", LONG, 2).await, [], "released under another epoch");
    assert_eq!(f.store.release(&[(held.run_id, held.epoch)]).await.unwrap(), []);
    assert_eq!(f.store.release(&[(held.run_id, held.epoch)]).await.unwrap(), []);
    let again = claim(&*f.store, "b", LONG, 2).await;
    assert_eq!(again, [Claim { run_id: run_id(1), epoch: 2, head_seq: 2, failures: 0 }]);
    assert_eq!(f.store.release(&[]).await.unwrap(), []);
}

pub async fn a_term_names_what_is_owned_and_older_claims_take_nothing(f: Fixture) {
    for n in 1..=3 {
        f.store.create_run(new_run(n)).await.unwrap();
    }
    let first = f.store.begin_term("a", LONG).await.unwrap().number;
    let claims = f.store.claim("a", first, 2, 2, 0).await.unwrap();
    let second = f.store.begin_term("a", LONG).await.unwrap();
    assert_eq!((second.number, &second.owned), (first + 1, &claims));
    // A request of the first term that was on its way for long.
    assert_eq!(f.store.claim("a", first, 10, 10, 0).await.unwrap(), []);
    assert!(!f.store.renew("a", first, LONG, 0).await.unwrap().held);
    assert!(f.store.renew("a", second.number, LONG, 0).await.unwrap().held);
    assert_eq!(f.store.claim("a", second.number, 10, 10, 0).await.unwrap().len(), 1);
    // It never takes its own.
    assert_eq!(f.store.claim("a", second.number, 10, 10, 0).await.unwrap(), []);
}

pub async fn a_lease_that_had_ended_claims_nothing_and_is_told(f: Fixture) {
    f.store.create_run(new_run(1)).await.unwrap();
    let term = f.store.begin_term("a", SHORT).await.unwrap().number;
    let claims = f.store.claim("a", term, 1, 1, 0).await.unwrap();
    f.store.create_run(new_run(2)).await.unwrap();
    tokio::time::sleep(SHORT * 2).await;
    assert_eq!(f.store.claim("a", term, 1, 1, 0).await.unwrap(), []);
    assert!(!f.store.renew("a", term, LONG, 0).await.unwrap().held);
    assert!(f.store.renew("a", term, LONG, 0).await.unwrap().held, "it is held again");
    // Nobody took the first run.
    let owned = f.store.begin_term("a", LONG).await.unwrap().owned;
    assert_eq!(owned, claims);
}

/// A driver without permits takes runs of drivers that are gone, and leaves others to those that have some.
pub async fn renewals_tell_what_others_have_to_spare_and_claims_say_what_they_take(f: Fixture) {
    for n in 1..=3 {
        f.store.create_run(new_run(n)).await.unwrap();
    }
    let orphan = claim(&*f.store, "gone", Duration::from_millis(500), 1).await[0];
    let [a, b] = ["a", "b"].map(|name| (name, f.store.begin_term(name, LONG)));
    let (a, b) = ((a.0, a.1.await.unwrap().number), (b.0, b.1.await.unwrap().number));
    let renew = async |(name, term), spare| f.store.renew(name, term, LONG, spare).await.unwrap();
    let told = |spare| Renewed { held: true, spare };
    assert_eq!(renew(a, 7).await, told(0));
    assert_eq!(renew(b, 0).await, told(7));
    assert_eq!(renew(b, 5).await, told(7), "its own do not count");
    assert_eq!(renew(a, 0).await, told(5));
    assert_eq!(f.store.renew("unknown", 1, LONG, 9).await.unwrap(), Renewed::default());
    assert_eq!(renew(b, 0).await, told(0));
    // A driver that has not renewed for half of its lease has nothing to spare, although its lease has not ended.
    let short = Duration::from_secs(2);
    let c = f.store.begin_term("c", short).await.unwrap().number;
    f.store.renew("c", c, short, 3).await.unwrap();
    assert_eq!(renew(a, 0).await, told(3));
    tokio::time::sleep(short / 2).await;
    assert_eq!(renew(a, 0).await, told(0));
    assert!(f.store.renew("c", c, short, 0).await.unwrap().held);
    let claims = f.store.claim("a", a.1, 8, 0, 0).await.unwrap();
    assert_eq!(claims.iter().map(|c| (c.run_id, c.epoch)).collect::<Vec<_>>(), [(orphan.run_id, 2)]);
    let claims = f.store.claim("a", a.1, 8, 1, 0).await.unwrap();
    assert_eq!(claims.iter().map(|c| c.run_id).collect::<Vec<_>>(), [run_id(2)]);
}

/// After a moment at which nobody could renew, whoever is back first leaves the others time to renew.
pub async fn after_an_outage_nobody_is_robbed(f: Fixture) {
    let lease = Duration::from_secs(3);
    f.store.create_run(new_run(1)).await.unwrap();
    let (a, b) =
        (f.store.begin_term("a", lease).await.unwrap(), f.store.begin_term("b", lease).await.unwrap());
    let claims = f.store.claim("a", a.number, 1, 1, 0).await.unwrap();
    tokio::time::sleep(lease + Duration::from_millis(50)).await;
    assert!(!f.store.renew("b", b.number, lease, 0).await.unwrap().held);
    assert_eq!(f.store.claim("b", b.number, 1, 1, 0).await.unwrap(), []);
    assert!(!f.store.renew("a", a.number, lease, 0).await.unwrap().held);
    assert_eq!(f.store.begin_term("a", lease).await.unwrap().owned, claims);
    // Whoever does not come back is not waited for.
    let taken = async || {
        f.store.renew("b", b.number, lease, 0).await.unwrap();
        f.store.claim("b", b.number, 1, 1, 0).await.unwrap().pop()
    };
    assert_eq!(eventually("the end", taken).await.epoch, 2);
}

pub async fn a_run_in_quarantine_waits(f: Fixture) {
    let long = f.claimed(1, "a").await;
    let short = f.claimed(2, "a").await;
    f.store.quarantine(long.run_id, long.epoch, LONG).await.unwrap();
    f.store.quarantine(short.run_id, short.epoch, SHORT).await.unwrap();
    let back = eventually("the end", async || claim(&*f.store, "b", LONG, 3).await.pop()).await;
    assert_eq!((back.run_id, back.epoch), (short.run_id, 2));
    assert_eq!(claim(&*f.store, "b", LONG, 3).await, []);
    // It is not owned any more.
    assert_eq!(f.store.begin_term("a", LONG).await.unwrap().owned, []);
}

pub async fn final_runs_and_paused_ones_are_not_claimed(f: Fixture) {
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
    let claims = claim(&*f.store, "b", LONG, 10).await;
    assert_eq!(claims.iter().map(|c| c.run_id).collect::<Vec<_>>(), [run_id(5)]);
}

/// An append of one event that records the outcome of a call.
fn outcome(run: RunId, epoch: u64, head: u64) -> RunAppend {
    let mut append = append(run, epoch, head, 1);
    append.events[0].body = NodeFailed { error: "e".into(), retryable: false }.into();
    append
}

pub async fn failures_are_counted_for_all_drivers_until_there_is_progress(f: Fixture) {
    let lease = Duration::from_millis(1);
    let mut held = f.claimed(1, "a").await;
    let run = held.run_id;
    assert_eq!(f.store.last_failure(run).await.unwrap(), "");
    for times in 1..=4 {
        let reason = format!("reason {times}");
        let failed = f.store.fail(run, held.epoch, &reason, lease).await.unwrap();
        assert_eq!(failed, Some(Failed { times, wait: lease * (1 << times) }));
        assert_eq!(f.store.fail(run, held.epoch, "again", lease).await.unwrap(), None, "it is not owned");
        assert_eq!(f.store.last_failure(run).await.unwrap(), reason);
        let driver = format!("d{times}");
        held = eventually("the wait", async || claim(&*f.store, &driver, LONG, 1).await.pop()).await;
        assert_eq!(held.failures, times);
        // Events that record no outcome are no progress.
        f.store.append([append(run, held.epoch, held.head_seq, 1)].into()).await.unwrap();
        held.head_seq += 1;
    }
    f.store.append([outcome(run, held.epoch, held.head_seq)].into()).await.unwrap();
    f.store.release(&[(run, held.epoch)]).await.unwrap();
    let held = claim(&*f.store, "b", LONG, 1).await[0];
    assert_eq!(held.failures, 0);
    let failed = f.store.fail(run, held.epoch, "late", QUARANTINE_MAX).await.unwrap();
    assert_eq!(failed, Some(Failed { times: 1, wait: QUARANTINE_MAX }));
    assert_eq!(claim(&*f.store, "c", LONG, 1).await, []);
}

pub async fn a_run_whose_drivers_vanish_without_progress_waits(f: Fixture) {
    f.store.create_run(new_run(1)).await.unwrap();
    let lease = Duration::from_millis(300);
    let first = claim(&*f.store, "a", lease, 1).await[0];
    let second = eventually("the end", async || claim(&*f.store, "b", lease, 1).await.pop()).await;
    assert_eq!((second.run_id, second.epoch), (first.run_id, 2), "the first time costs nothing");
    // Its second driver vanishes as well. The run is not taken at once: it is in quarantine for a lease.
    let began = tokio::time::Instant::now();
    let third = eventually("the end", async || claim(&*f.store, "c", LONG, 1).await.pop()).await;
    assert!(began.elapsed() >= lease + lease / 2, "claimed after {:?}", began.elapsed());
    assert_eq!((third.epoch, third.failures), (3, 0));
    // With progress it is taken at once again.
    let third_driver = f.store.begin_term("c", lease).await.unwrap();
    assert_eq!(third_driver.owned.len(), 1);
    f.store.append([outcome(third.run_id, 3, 2)].into()).await.unwrap();
    let began = tokio::time::Instant::now();
    eventually("the end", async || claim(&*f.store, "d", LONG, 1).await.pop()).await;
    assert!(began.elapsed() < lease * 3, "claimed only after {:?}", began.elapsed());
}

pub async fn a_command_takes_its_run_out_of_quarantine_once(f: Fixture) {
    for n in 1..=4 {
        f.store.create_run(new_run(n)).await.unwrap();
    }
    let held = claim(&*f.store, "a", LONG, 4).await;
    for claim in &held[..3] {
        f.store.quarantine(claim.run_id, claim.epoch, LONG).await.unwrap();
    }
    f.store.create_run(new_run(5)).await.unwrap();
    let term = f.store.begin_term("b", LONG).await.unwrap().number;
    assert_eq!(f.store.claim("b", term, 0, 0, 8).await.unwrap(), []);
    // To two runs in quarantine, one that waits for its first driver, and one that has a driver.
    for n in [2, 3, 4, 5] {
        assert!(is_pending(&f.store.send_command(run_id(n), cancel()).await.unwrap()));
    }
    let called = |n, epoch| Claim { run_id: run_id(n), epoch, head_seq: 2, failures: 0 };
    assert_eq!(f.store.claim("b", term, 0, 0, 0).await.unwrap(), []);
    assert_eq!(f.store.claim("b", term, 0, 0, 1).await.unwrap(), [called(2, 2)], "no more than asked for");
    assert_eq!(f.store.claim("b", term, 0, 0, 8).await.unwrap(), [called(3, 2), called(5, 1)]);
    assert_eq!(f.store.commands("b").await.unwrap().len(), 3);
    // One that still cannot be driven rests again, until there is another command.
    f.store.fail(run_id(2), 2, "it cannot", LONG).await.unwrap();
    assert_eq!(f.store.claim("b", term, 8, 8, 8).await.unwrap(), []);
    assert!(is_pending(&f.store.send_command(run_id(2), cancel()).await.unwrap()));
    let again = f.store.claim("b", term, 8, 8, 8).await.unwrap();
    assert_eq!(again, [Claim { failures: 1, ..called(2, 3) }]);
    // A command that is answered calls nobody.
    assert!(is_pending(&f.store.send_command(run_id(2), cancel()).await.unwrap()));
    let mut answer = append(run_id(2), 3, 2, 1);
    answer.answers = [1, 2, 3].map(done).into();
    f.store.append([answer].into()).await.unwrap();
    f.store.quarantine(run_id(2), 3, LONG).await.unwrap();
    assert_eq!(f.store.claim("b", term, 8, 8, 8).await.unwrap(), []);
}

pub async fn a_command_is_heard_although_drivers_vanish(f: Fixture) {
    f.store.create_run(new_run(1)).await.unwrap();
    let lease = Duration::from_millis(300);
    claim(&*f.store, "a", lease, 1).await;
    eventually("the end", async || claim(&*f.store, "b", lease, 1).await.pop()).await;
    assert!(is_pending(&f.store.send_command(run_id(1), cancel()).await.unwrap()));
    // The second driver vanishes without progress as well. Without the command the run would rest first.
    let term = f.store.begin_term("c", lease).await.unwrap().number;
    let called = async || {
        f.store.renew("c", term, lease, 0).await.unwrap();
        f.store.claim("c", term, 0, 0, 1).await.unwrap().pop()
    };
    assert_eq!(eventually("the end", called).await.epoch, 3);
    // The third one vanishes with the command, so it may be the command that kills: the run rests.
    let began = tokio::time::Instant::now();
    let term = f.store.begin_term("d", LONG).await.unwrap().number;
    let rested = async || f.store.claim("d", term, 1, 1, 1).await.unwrap().pop();
    assert_eq!(eventually("the end", rested).await.epoch, 4);
    assert!(began.elapsed() >= lease * 2, "claimed after {:?}", began.elapsed());
}
