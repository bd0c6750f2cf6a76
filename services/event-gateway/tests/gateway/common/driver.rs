//! A driver whose roles do a small tree: the root plans three steps in two bands, and steps called `Slow …` wait.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tree_agent_contract::StepId;
use tree_agent_contract::result::{HintType, ResultKind};
use tree_agent_contract::role::*;
use tree_agent_driver::{Driver, DriverConfig, Roles, Updates};
use tree_agent_engine::{CallInput, CallOutput, RoleCall};
use tree_agent_fanout::Fanout;
use tree_agent_store::Store;

/// The steps of every plan, by band.
pub const STEPS: [&[&str]; 2] = [&["Costs", "Slow risks"], &["Report"]];

/// A driver in its own task.
pub struct TestDriver {
    gate: watch::Sender<bool>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl TestDriver {
    pub fn start(store: Arc<dyn Store>, fanout: Arc<dyn Fanout>) -> Self {
        let gate = watch::Sender::new(false);
        let roles = Arc::new(SmallTree { gate: gate.subscribe() });
        let config = DriverConfig { poll: Duration::from_millis(50), ..DriverConfig::new("test") };
        let stop = CancellationToken::new();
        let task = tokio::spawn(Driver::new(store, fanout, roles, config).run(stop.clone()));
        Self { gate, stop, task }
    }

    /// Slow steps go on.
    pub fn open_gate(&self) {
        self.gate.send_replace(true);
    }

    pub async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("a driver ends cleanly");
    }
}

struct SmallTree {
    gate: watch::Receiver<bool>,
}

#[async_trait]
impl Roles for SmallTree {
    async fn call(&self, call: RoleCall, _: Updates) -> Result<CallOutput, RoleError> {
        let title = match &call.input {
            CallInput::Execute(input) => input.call.title.clone(),
            _ => String::new(),
        };
        if title.starts_with("Slow") {
            let _ = self.gate.clone().wait_for(|open| *open).await;
        }
        Ok(match call.input {
            CallInput::Plan(input) => CallOutput::Plan(planned(input.call.depth == 0)),
            CallInput::Execute(_) => CallOutput::Execute(ExecutorOutput {
                actions: Vec::new(),
                artifacts: Vec::new(),
                result: result(),
                scratchpad: notes(),
            }),
            CallInput::Aggregate(_) => CallOutput::Aggregate(AggregatorOutput {
                synthesis: Synthesis { summary: "all".into(), key_findings: vec![], gaps: vec![] },
                artifacts: Vec::new(),
                result: result(),
                next: AggregatorNext::default(),
                scratchpad: notes(),
            }),
            CallInput::Research(_) | CallInput::Pick(_) | CallInput::Verify(_) => {
                unreachable!("only trees are run here")
            }
        })
    }
}

fn planned(is_root: bool) -> PlannerOutput {
    let step = |band: usize, (s, title): (usize, &&str)| StepDraft {
        step_index: s as u32,
        ..StepDraft::new(StepId::new(format!("{band}-{s}")), *title)
    };
    let band = |(b, steps): (usize, &&[&str])| BandDraft {
        index: b as u32,
        goal: format!("band {b}"),
        parallelizable: true,
        steps: steps.iter().enumerate().map(|placed| step(b, placed)).collect(),
    };
    PlannerOutput {
        premises: None,
        mode: if is_root { PlannerMode::Plan } else { PlannerMode::Execute },
        mode_reason: "because of its size".into(),
        leaf_decision: None,
        plan: is_root.then(|| PlanDraft {
            summary: "split".into(),
            bands: STEPS.iter().enumerate().map(band).collect(),
        }),
        homework: None,
        scratchpad: notes(),
    }
}

fn result() -> ResultDraft {
    ResultDraft {
        kind: ResultKind::Json,
        summary: "done".into(),
        success_assessment: None,
        primary_artifact_label: None,
        parent_hint: ParentHintDraft { hint_type: HintType::ReadJson, artifact_labels: Vec::new() },
        key_findings: Vec::new(),
        gaps: Vec::new(),
    }
}

fn notes() -> ScratchpadDraft {
    ScratchpadDraft { append_markdown: "- noted".into(), tail_preview: "- noted".into() }
}
