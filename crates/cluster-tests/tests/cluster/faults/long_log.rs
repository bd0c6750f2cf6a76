//! A run with a very long log is taken over by another driver.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use tree_agent_cluster_tests::{Cluster, Options, eventually};
use tree_agent_contract::StepId;
use tree_agent_contract::event::ToolCallRequested;
use tree_agent_contract::role::{
    BandDraft, PlanDraft, PlannerMode, PlannerOutput, RoleError, RoleUpdate, ScratchpadDraft, StepDraft,
};
use tree_agent_driver::{Driver, DriverConfig, Roles, Updates};
use tree_agent_engine::{CallInput, CallOutput, RoleCall};
use tree_agent_fanout::InProcessFanout;
use tree_agent_store::Store;
use tree_agent_store::postgres::{PoolConfig, PostgresStore};

const EVENTS: u64 = 100_000;
const STEPS: u32 = 4;
/// Time limit for that many events, in an unoptimised build on a busy machine.
const LONG: Duration = Duration::from_secs(300);

/// Roles that plan once, then call tools without end and never answer.
struct Chatter;

#[async_trait]
impl Roles for Chatter {
    async fn call(&self, call: RoleCall, updates: Updates) -> Result<CallOutput, RoleError> {
        let CallInput::Plan(input) = &call.input else { return Ok(talk(updates).await) };
        if input.call.depth > 0 {
            return Ok(talk(updates).await);
        }
        let step = |n| StepDraft {
            reason: "a part of it".into(),
            success_criteria: vec!["done".into()],
            step_index: n,
            ..StepDraft::new(StepId::new(format!("s{n}")), format!("part {n}"))
        };
        let steps = (0..STEPS).map(step).collect();
        let band = BandDraft { index: 0, goal: "all".into(), parallelizable: true, steps };
        Ok(CallOutput::Plan(PlannerOutput {
            premises: None,
            homework: None,
            mode: PlannerMode::Plan,
            mode_reason: "large".into(),
            leaf_decision: None,
            plan: Some(PlanDraft { summary: "split".into(), bands: vec![band] }),
            scratchpad: ScratchpadDraft {
                append_markdown: "- planned".into(),
                tail_preview: "planned".into(),
            },
        }))
    }
}

async fn talk(updates: Updates) -> CallOutput {
    for n in 0.. {
        let request = ToolCallRequested {
            call_id: n.to_string(),
            tool_name: "list_documents".into(),
            args: None,
            purpose: None,
            phase: None,
            started_at: None,
            writes: false,
            cached: false,
        };
        if updates.send(RoleUpdate::ToolCallRequested(request)).await.is_err() {
            break;
        }
    }
    std::future::pending().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long; make test-faults"]
async fn f13_a_run_of_a_hundred_thousand_events_is_resumed() {
    let lease = Duration::from_secs(3);
    let mut cluster = Cluster::start(Options { lease, ..Options::default() }).await;
    cluster.planners[0].kill();
    let run = cluster.create("scripted:fanout=4,depth=1").await;
    // A driver within the test writes the log as drivers do, until it is long enough, and then vanishes.
    let store =
        PostgresStore::connect(&cluster.database_url, PoolConfig::default()).await.expect("connected");
    let store: Arc<dyn Store> = Arc::new(store);
    let mut config = DriverConfig::new("a-driver-that-dies");
    config.lease = lease;
    let fanout = Arc::new(InProcessFanout::new());
    let driver = Driver::new(store, fanout, Arc::new(Chatter), config).run(CancellationToken::new());
    let driver = tokio::spawn(driver);
    let head = async |cluster: &Cluster| cluster.run(&run).await.head_seq;
    eventually("the log is long", LONG, async || head(&cluster).await >= EVENTS).await;
    driver.abort();
    let _ = driver.await;
    let died = Instant::now();
    assert_eq!(cluster.epoch_of(&run).await, 1);
    cluster.planners[0].start();
    let claimed = async |cluster: &Cluster| cluster.epoch_of(&run).await >= 2;
    eventually("the run is claimed", LONG, async || claimed(&cluster).await).await;
    let waited = died.elapsed();
    // Read the head only now: the driver's last append may have been in transit when it died. From the claim on, only
    // the successor appends.
    let long = head(&cluster).await;
    let begun = Instant::now();
    eventually("the run goes on", LONG, async || head(&cluster).await > long).await;
    eprintln!(
        "a run of {long} events: claimed {waited:?} after its driver died (lease {lease:?}), driven {:?} later",
        begun.elapsed()
    );
    // Nothing that was recorded is repeated, and the work in flight ends as usual.
    let mut follower = cluster.follow(&run);
    follower.until_within("the end", LONG, |events| events.len() as u64 > long + 10).await;
    let history = follower.end().await;
    history.assert_whole();
    assert_eq!(history.nodes(), 1 + STEPS as usize);
    let writers = cluster.writers_of(&run).await;
    assert!(writers.is_sorted());
}
