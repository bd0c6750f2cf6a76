//! `WaitRun`: answered when a run has ended, needs a person, or the time is up.

use std::time::{Duration, Instant};

use crate::common::driver::TestDriver;
use crate::common::{Gateway, field};
use tonic::Code;
use tree_agent_event_gateway::Config;
use tree_agent_proto::v1::{PauseRunRequest, ResumeRunRequest, RunStatus, WaitReason, WaitRunRequest};

fn request(run: &str, after_seq: u64, millis: i64) -> WaitRunRequest {
    let timeout =
        prost_types::Duration { seconds: millis / 1_000, nanos: (millis % 1_000) as i32 * 1_000_000 };
    WaitRunRequest { run_id: run.into(), after_seq, timeout: Some(timeout) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_with_the_run_with_a_need_of_a_person_or_with_the_time() {
    let gateway = Gateway::start(Config::default()).await;
    let driver = TestDriver::start(gateway.store.clone(), gateway.fanout.clone());
    let run = gateway.create_run("Compare the offers").await.run_id;
    let mut runs = gateway.runs();
    let mut wait = async |after_seq, millis| {
        let answer = runs.wait_run(request(&run, after_seq, millis)).await.unwrap().into_inner();
        (answer.reason(), answer.run.unwrap())
    };
    // The slow step waits for the gate.
    let (reason, live) = wait(0, 300).await;
    assert_eq!((reason, live.status()), (WaitReason::Timeout, RunStatus::Running));

    let pause = PauseRunRequest { run_id: run.clone(), ..Default::default() };
    gateway.runs().pause_run(pause).await.unwrap();
    let (reason, paused) = wait(0, 60_000).await;
    assert_eq!((reason, paused.status()), (WaitReason::NeedsPerson, RunStatus::Paused));
    // Who knows that already waits for something else.
    let (reason, _) = wait(paused.head_seq, 200).await;
    assert_eq!(reason, WaitReason::Timeout);

    let resume = ResumeRunRequest { run_id: run.clone(), ..Default::default() };
    gateway.runs().resume_run(resume).await.unwrap();
    let began = Instant::now();
    let (ended, ()) = tokio::join!(wait(0, 60_000), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        driver.open_gate();
    });
    assert_eq!((ended.0, ended.1.status()), (WaitReason::Ended, RunStatus::Completed));
    assert!(began.elapsed() < Duration::from_secs(50), "it is told of the end");
    assert_eq!(wait(ended.1.head_seq, 60_000).await.0, WaitReason::Ended, "at once");
    driver.stop().await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_wait_is_bounded_and_names_its_fields() {
    let gateway = Gateway::start(Config::default()).await;
    let run = gateway.create_run("why?").await.run_id;
    for (wait, code, named) in [
        (request("x", 0, 0), Code::InvalidArgument, "run_id"),
        (request(&run.replace(&run[..4], "0000"), 0, 0), Code::NotFound, "run_id"),
        (request(&run, 99, 0), Code::OutOfRange, "after_seq"),
        (request(&run, 0, 601_000), Code::InvalidArgument, "timeout"),
        (request(&run, 0, -1_000), Code::InvalidArgument, "timeout"),
    ] {
        let refused = gateway.runs().wait_run(wait).await.unwrap_err();
        assert_eq!((refused.code(), field(&refused)), (code, named.to_owned()), "{refused}");
    }
    // A gateway that shuts down does not keep whoever waits.
    let mut runs = gateway.runs();
    let (answer, ()) = tokio::join!(runs.wait_run(request(&run, 0, 60_000)), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        gateway.shutdown.cancel();
    });
    assert_eq!(answer.unwrap().into_inner().reason(), WaitReason::Timeout);
    gateway.stop().await;
}
