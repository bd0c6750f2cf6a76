use super::*;

fn run(n: u128) -> RunId {
    RunId(uuid::Uuid::from_u128(n))
}

/// A run that is as old as its number is small.
fn join(scheduler: &Arc<Scheduler>, n: u128) -> Share {
    scheduler.join(run(n), Timestamp(n as i64))
}

#[test]
fn spare_permits_go_to_the_oldest_run() {
    let scheduler = Scheduler::new(8);
    let (young, old) = (join(&scheduler, 2), join(&scheduler, 1));
    young.ask(8);
    let mut of_young = young.take();
    assert_eq!(of_young.len(), 8, "nobody else wanted one");
    old.ask(100);
    young.ask(100);
    of_young.truncate(4);
    assert_eq!((old.take().len(), young.take().len()), (4, 0));
}

#[test]
fn a_run_without_a_call_comes_before_the_width_of_others() {
    let scheduler = Scheduler::new(64);
    let wide = join(&scheduler, 1);
    wide.ask(65_000);
    let in_flight = wide.take();
    assert_eq!(in_flight.len(), 62, "two of 64 are kept");
    // The kept permits serve the first two at once, although the wide run is older and waits.
    let small: Vec<Share> = (2..5).map(|n| join(&scheduler, n)).collect();
    small.iter().for_each(|share| share.ask(1));
    let mut taken: Vec<Vec<Permit>> = small.iter().map(Share::take).collect();
    assert_eq!(taken.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 0]);
    // The third gets the next free one.
    drop(taken.remove(0));
    assert_eq!(small[2].take().len(), 1);
    assert_eq!(wide.take().len(), 0);
}

#[test]
fn runs_take_turns_when_they_outnumber_the_permits() {
    let scheduler = Scheduler::new(3);
    let shares: Vec<Share> = (0..10).map(|n| join(&scheduler, n)).collect();
    shares.iter().for_each(|share| share.ask(1_000));
    let mut served = [0; 10];
    let mut in_flight = VecDeque::new();
    for _ in 0..300 {
        for (n, share) in shares.iter().enumerate() {
            for permit in share.take() {
                served[n] += 1;
                in_flight.push_back(permit);
            }
        }
        assert_eq!(in_flight.len(), 3);
        drop(in_flight.pop_front());
    }
    let (least, most) = (served.iter().min().copied(), served.iter().max().copied());
    // The first to ask got all three at once.
    assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 3), "{served:?}");
}

#[test]
fn what_a_run_no_longer_wants_goes_to_others() {
    let scheduler = Scheduler::new(4);
    let (old, young) = (join(&scheduler, 1), join(&scheduler, 2));
    old.ask(4);
    young.ask(4);
    assert_eq!(young.take().len(), 0, "all were granted to the older");
    old.ask(1);
    assert_eq!(young.take().len(), 3);
    drop(old);
    assert_eq!(young.take().len(), 1);
}

#[test]
fn permits_outlive_the_share_of_their_run() {
    let scheduler = Scheduler::new(1);
    let (old, young) = (join(&scheduler, 1), join(&scheduler, 2));
    old.ask(1);
    let permit = old.take();
    young.ask(1);
    drop(old);
    assert_eq!(young.take().len(), 0);
    drop(permit);
    assert_eq!(young.take().len(), 1);
}

#[test]
fn runs_that_wait_leave_for_the_permits_of_others_and_the_oldest_stays() {
    let scheduler = Scheduler::new(64);
    let shares: Vec<Share> = (1..5).map(|n| join(&scheduler, n)).collect();
    shares[0].ask(80);
    let _wide = shares[0].take();
    assert_eq!(scheduler.startable(), 3, "two kept permits, and the next one");
    scheduler.offered(50);
    assert_eq!(scheduler.startable(), 3, "calls may wait here, too, so that no permit is idle");
    assert!(!shares[1].leaves(10));
    shares[0].ask(100);
    scheduler.offered(50);
    assert_eq!((scheduler.spare(), scheduler.startable()), (0, 0), "another driver begins runs sooner");
    assert!(!shares[0].leaves(30), "no older run waits");
    assert!(!shares[1].leaves(0), "it has nothing to do");
    assert!(shares[2].leaves(40));
    assert!(shares[3].leaves(40), "the permits are not used up");
    assert!(!shares[1].leaves(10), "they are");
    scheduler.offered(0);
    assert!(!shares[1].leaves(10));
    assert_eq!(scheduler.startable(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_its_first_permit_is_called_off_once() {
    let scheduler = Scheduler::new(1);
    let (busy, waits) = (join(&scheduler, 1), join(&scheduler, 2));
    busy.ask(1);
    let _permit = busy.take();
    waits.ask(1);
    let soon = std::time::Duration::from_millis(1);
    assert!(tokio::time::timeout(soon, waits.granted()).await.is_err());
    assert_eq!(scheduler.startable(), 0);
    scheduler.offered(1);
    assert!(tokio::time::timeout(soon, waits.granted()).await.is_ok());
    assert!(waits.leaves(1));
    assert!(tokio::time::timeout(soon, waits.granted()).await.is_err(), "it does not look for ever");
}

/// Whatever runs do, no permit is lost or made, nobody starves, and none is idle while somebody may have it.
#[test]
fn permits_are_conserved_and_never_idle() {
    for seed in 0..200 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let permits = rng.usize(1..70);
        let scheduler = Scheduler::new(permits);
        let mut shares: Vec<Option<Share>> = Vec::new();
        let mut held: Vec<Permit> = Vec::new();
        for _ in 0..400 {
            match rng.u8(0..10) {
                0 => shares.push(Some(join(&scheduler, u128::from(rng.u64(0..50))))),
                1 => {
                    let n = rng.usize(0..shares.len().max(1));
                    drop(shares.get_mut(n).and_then(Option::take));
                }
                2..=4 => {
                    if let Some(share) = rng.choice(&shares).and_then(Option::as_ref) {
                        share.ask(rng.usize(0..40));
                    }
                }
                5..=7 => {
                    if let Some(share) = rng.choice(&shares).and_then(Option::as_ref) {
                        held.extend(share.take());
                    }
                }
                _ => drop((!held.is_empty()).then(|| held.swap_remove(rng.usize(0..held.len())))),
            }
            let state = scheduler.state();
            let granted: usize = state.runs.values().map(|demand| demand.granted).sum();
            assert_eq!(state.free + granted + held.len(), permits, "seed {seed}");
            let waiting: usize = state.runs.values().map(|demand| demand.due - demand.granted).sum();
            assert_eq!(state.waiting, waiting, "seed {seed}");
            for demand in state.runs.values() {
                let wants = demand.due > demand.granted;
                let has_none = demand.granted + demand.in_flight == 0;
                assert!(
                    !(wants && has_none && state.free > 0),
                    "seed {seed}: a run waits beside a free permit"
                );
                assert!(!wants || state.free <= state.kept, "seed {seed}: a permit is idle");
            }
        }
    }
}
