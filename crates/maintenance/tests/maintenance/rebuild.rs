//! Derived rows can be lost and rebuilt.

use tree_agent_maintenance::{MaintenanceError, rebuild};

use crate::fixture::{Fixture, RECORDED, recorded};

pub async fn everything_derived_is_mended(f: Fixture) {
    for name in RECORDED {
        let run = f.write(name).await;
        let before = f.store.stored(run).await.unwrap();
        f.damage(
            run,
            "DELETE FROM tree_agent_nodes WHERE depth > 0; DELETE FROM tree_agent_artifacts; \
             UPDATE tree_agent_nodes SET title = 'Wrong'; UPDATE tree_agent_plans SET version = 9; \
             UPDATE tree_agent_runs SET status = 'queued', spec = '{}', partial = NOT partial, node_count = 0",
        )
        .await;
        let rebuilt = rebuild(&*f.store, run).await.unwrap();
        assert_eq!(rebuilt.head_seq, before.head_seq);
        assert!(rebuilt.differences > 5, "{rebuilt:?}");
        assert_eq!(f.store.stored(run).await.unwrap(), before, "{name}");
        assert_eq!(f.findings(run).await, Vec::<String>::new(), "{name}");
        assert_eq!(rebuild(&*f.store, run).await.unwrap().differences, 0);
    }
}

pub async fn a_broken_log_is_left_alone(f: Fixture) {
    let run = f.write("retries").await;
    f.damage(run, "UPDATE tree_agent_nodes SET title = 'Wrong'; DELETE FROM tree_agent_events WHERE seq = 9")
        .await;
    let before = f.store.stored(run).await.unwrap();
    let error = rebuild(&*f.store, run).await.unwrap_err();
    assert!(matches!(error, MaintenanceError::Replay(_)), "{error:?}");
    f.damage(run, "UPDATE tree_agent_runs SET head_seq = 8").await;
    let error = rebuild(&*f.store, run).await.unwrap_err();
    assert!(matches!(error, MaintenanceError::Head { head_seq: 8, .. }), "{error:?}");
    assert_eq!(f.store.stored(run).await.unwrap().rows, before.rows);
}

pub async fn a_run_that_is_driven_is_rebuilt_beside_it(f: Fixture) {
    let log = recorded("failures");
    let (claim, mut run) = f.begin(&log).await;
    let (store, id) = (f.store.clone(), claim.run_id);
    let beside = tokio::spawn(async move {
        let mut rebuilt = 0;
        loop {
            match rebuild(&*store, id).await {
                Ok(done) if done.head_seq >= 100 => return rebuilt,
                Ok(_) => rebuilt += 1,
                Err(MaintenanceError::Moving(_)) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    });
    for event in log[4..].chunks(3) {
        f.append(claim, &mut run, event).await;
        tokio::task::yield_now().await;
    }
    let done = tokio::time::timeout(std::time::Duration::from_secs(60), beside).await;
    done.expect("the rebuilds came through").unwrap();
    assert_eq!(f.findings(id).await, Vec::<String>::new());
}

pub async fn a_log_of_a_newer_version_is_left_alone(f: Fixture) {
    let run = f.write("retries").await;
    crate::verify::from_the_future(&f, run).await;
    f.damage(run, "UPDATE tree_agent_nodes SET title = 'of the future'").await;
    let before = f.store.stored(run).await.unwrap();
    let error = rebuild(&*f.store, run).await.unwrap_err();
    assert!(matches!(&error, MaintenanceError::Newer { event, .. } if event.seq == 8), "{error:?}");
    assert!(error.to_string().contains("tree.from_the_future"), "{error}");
    assert_eq!(f.store.stored(run).await.unwrap(), before);
}
