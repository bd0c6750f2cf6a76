//! The scripted model: a tree of a set shape with set delays and faults, for benchmarks and fault tests.
//!
//! It looks at no document, makes no tool call unless told to, and answers the same for the same node title and
//! attempt, unless its failures end by time. The grammar of its name is documented at [`Script`].

mod cite;
mod homework;
mod script;
mod search;

use std::future::pending;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use serde_json::{Map, Value};
use tree_agent_contract::role::{
    AggregateInput, AggregatorNext, AggregatorOutput, ArtifactDraft, BandDraft, CallContext, ExecuteInput,
    ExecutorOutput, PickInput, PickOutput, PlanDraft, PlanInput, PlannerMode, PlannerOutput, ResearchInput,
    ResearchOutput, ResultDraft, RoleError, RoleErrorKind, ScratchpadDraft, StepDraft, Synthesis,
    VerifierOutput, VerifyInput,
};
use tree_agent_contract::text::{self, prefix};
use tree_agent_contract::{
    CriterionCheck, Doubt, ResultKind, StepId, Strategy, SuccessAssessment, Verification, limits,
};
use tree_agent_tools::{LIST_DOCUMENTS, ToolError};

pub use script::{Artifacts, Fault, KEYS, Pick, Script};

use crate::RoleModel;
use crate::io::RoleIo;

/// How the summary of a plan begins that was made because the aggregator asked for it.
const REPLANNED: &str = "Replanned";
/// The label of what a node returns.
const LABEL: &str = "result";

/// A model that follows a [`Script`].
#[derive(Clone, Debug)]
pub struct Scripted {
    script: Script,
}

impl Scripted {
    /// A model that follows `script`.
    pub fn new(script: Script) -> Self {
        Self { script }
    }

    /// What every call begins with: its tool calls, its delay, its fault. True: the answer must be garbage.
    async fn begin(&self, phase: &'static str, call: &CallContext, io: &RoleIo) -> Result<bool, RoleError> {
        let script = &self.script;
        for n in 0..script.tools {
            // Each call asks for something else, so that no answer is known and every call counts.
            let args = [("path_prefix".to_owned(), format!("{}/{phase}/{n}", call.node_id).into())];
            match io.call_tool(LIST_DOCUMENTS, Map::from_iter(args), "scripted call").await {
                Ok(_) => {}
                Err(ToolError::Budget(_)) => break,
                Err(e) => {
                    let message = format!("the scripted tool call failed: {e}");
                    return Err(RoleError::new(RoleErrorKind::Internal, message));
                }
            }
        }
        let latency = Duration::from_millis(script.latency_ms);
        for n in 1..=script.notes {
            tokio::time::sleep(latency / script.notes).await;
            io.scratchpad(format!("note {n}, ")).await;
        }
        if script.notes == 0 && script.latency_ms > 0 {
            tokio::time::sleep(latency).await;
        }
        match script.fault_of(phase, &call.title, call.attempt) {
            None => Ok(false),
            Some(Fault::Garbage) => Ok(true),
            Some(Fault::Hang) => pending().await,
            Some(Fault::Error(kind)) => {
                let retry_after_ms = self.fails_for_ms(call);
                if retry_after_ms == Some(0) {
                    return Ok(false);
                }
                let message = format!("scripted failure of {phase} for {:?}", call.title);
                Err(RoleError { retry_after_ms, ..RoleError::new(kind, message) })
            }
        }
    }

    /// Milliseconds until the failures of this run end, if time ends them. They count from the time in the id of the
    /// run, so that every process knows them without a state.
    fn fails_for_ms(&self, call: &CallContext) -> Option<u64> {
        let (seconds, nanos) = call.run_id.0.get_timestamp().map_or((0, 0), |created| created.to_unix());
        let age = SystemTime::now().duration_since(UNIX_EPOCH + Duration::new(seconds, nanos));
        let age = age.map_or(0, |age| age.as_millis().try_into().unwrap_or(u64::MAX));
        Some(self.script.fail_until_ms).filter(|&ms| ms > 0).map(|ms| ms.saturating_sub(age))
    }

    /// `result_bytes` bytes of text, the same for the same title.
    fn text(&self, title: &str) -> String {
        let bytes = self.script.result_bytes;
        let mut text = String::with_capacity(bytes + title.len() + 16);
        text.push_str("Result of ");
        text.push_str(title);
        text.push('.');
        while text.len() < bytes {
            text.push_str(" scripted");
        }
        text.truncate(prefix(&text, bytes).len());
        text
    }

    fn returned(&self, title: &str) -> (Vec<ArtifactDraft>, ResultDraft) {
        let text = self.text(title);
        let (kind, summary, artifacts) = match self.script.artifacts {
            Artifacts::None => (ResultKind::Json, text, Vec::new()),
            Artifacts::Json => {
                let payload = Map::from_iter([("text".to_owned(), Value::String(text))]);
                let draft = ArtifactDraft { is_primary: true, ..ArtifactDraft::json(LABEL, payload) };
                (ResultKind::Json, format!("Result of {title}."), vec![draft])
            }
            Artifacts::Document => {
                let draft = ArtifactDraft::document(LABEL, format!("Result of {title}"), text);
                (ResultKind::Document, format!("Result of {title}."), vec![draft])
            }
        };
        let mut result = ResultDraft::new(kind, summary, LABEL);
        result.success_assessment = Some(SuccessAssessment { met: true, notes: None });
        if artifacts.is_empty() {
            (result.primary_artifact_label, result.parent_hint.artifact_labels) = (None, Vec::new());
        }
        (artifacts, result)
    }

    fn steps(&self, parent: &CallContext, band: u32) -> Vec<StepDraft> {
        (0..self.script.fanout)
            .map(|i| {
                let n = band * self.script.fanout + i;
                let title =
                    if parent.depth == 0 { format!("s{n}") } else { format!("{}.s{n}", parent.title) };
                let is_search = i < self.script.search_steps;
                StepDraft {
                    strategy: is_search.then_some(Strategy::Search),
                    search: is_search.then_some(self.script.search),
                    ..step(format!("s{n}"), title, i)
                }
            })
            .collect()
    }
}

fn step(id: String, title: String, step_index: u32) -> StepDraft {
    StepDraft { step_index, ..StepDraft::new(StepId::new(id), title) }
}

fn note(text: &str) -> ScratchpadDraft {
    ScratchpadDraft { append_markdown: text.to_owned(), tail_preview: text.to_owned() }
}

#[async_trait]
impl RoleModel for Scripted {
    async fn plan(&self, input: &PlanInput, io: &RoleIo) -> Result<PlannerOutput, RoleError> {
        let garbage = self.begin("plan", &input.call, io).await?;
        if let Some(brief) = &input.homework {
            let mut output = homework::plan(&self.script, brief);
            if garbage {
                output.homework = None;
            }
            return Ok(output);
        }
        let plan = if !input.replan_reason.is_empty() {
            // The first earlier step is named again: one that has completed must not run again.
            let mut steps: Vec<StepDraft> = input
                .prior_steps
                .iter()
                .take(1)
                .map(|p| step(p.id.as_str().to_owned(), p.title.clone(), 0))
                .collect();
            steps.push(step("r0".to_owned(), format!("{}.r0", input.call.title), steps.len() as u32));
            let band =
                BandDraft { index: 0, goal: "what was missing".to_owned(), parallelizable: true, steps };
            Some(PlanDraft { summary: format!("{REPLANNED}: {}", input.replan_reason), bands: vec![band] })
        } else if input.call.depth < self.script.depth {
            let bands = (0..self.script.bands)
                .map(|index| BandDraft {
                    index,
                    goal: format!("band {index}"),
                    parallelizable: true,
                    steps: self.steps(&input.call, index),
                })
                .collect();
            Some(PlanDraft { summary: "Scripted plan".to_owned(), bands })
        } else {
            None
        };
        let mode = if plan.is_some() || garbage { PlannerMode::Plan } else { PlannerMode::Execute };
        Ok(PlannerOutput {
            premises: None,
            homework: None,
            mode,
            mode_reason: format!("depth {} of {}", input.call.depth, self.script.depth),
            leaf_decision: None,
            plan: plan.filter(|_| !garbage),
            scratchpad: note("scripted: planned\n"),
        })
    }

    async fn execute(&self, input: &ExecuteInput, io: &RoleIo) -> Result<ExecutorOutput, RoleError> {
        let garbage = self.begin("execute", &input.call, io).await?;
        let (mut artifacts, mut result) = self.returned(&input.call.title);
        if self.script.cite > 0 {
            cite::cite(&mut artifacts, self.script.cite, None, io).await;
        }
        if garbage {
            result.summary.clear();
        }
        Ok(ExecutorOutput {
            actions: Vec::new(),
            artifacts,
            result,
            scratchpad: note("scripted: executed\n"),
        })
    }

    async fn aggregate(&self, input: &AggregateInput, io: &RoleIo) -> Result<AggregatorOutput, RoleError> {
        let garbage = self.begin("aggregate", &input.call, io).await?;
        let (mut artifacts, mut result) = self.returned(&input.call.title);
        if self.script.cite > 0 {
            cite::cite(&mut artifacts, self.script.cite, cite::of_children(input), io).await;
        }
        if garbage {
            result.parent_hint.artifact_labels.push("no such artifact".to_owned());
        }
        let failed: Vec<&str> =
            input.children.iter().filter(|c| c.error.is_some()).map(|c| c.title.as_str()).collect();
        let should_replan =
            self.script.replan && input.call.depth == 0 && !input.plan_summary.starts_with(REPLANNED);
        Ok(AggregatorOutput {
            synthesis: Synthesis {
                summary: format!("{} children, {} failed", input.children.len(), failed.len()),
                key_findings: Vec::new(),
                gaps: failed.iter().map(|title| format!("{title} failed")).collect(),
            },
            artifacts,
            result,
            next: AggregatorNext {
                should_replan,
                replan_reason: should_replan.then(|| "the script asks for it once".to_owned()),
            },
            scratchpad: note("scripted: aggregated\n"),
        })
    }

    async fn research(&self, input: &ResearchInput, io: &RoleIo) -> Result<ResearchOutput, RoleError> {
        let garbage = self.begin("research", &input.call, io).await?;
        for repair in 1..=self.script.bad_frontmatter.min(search::REPAIRS) {
            if self.script.chooses(&input.call.title) {
                io.usage(search::repaired(repair), None).await;
            }
        }
        let mut output = search::research(&self.script, input, &self.text(&input.call.title))?;
        if garbage {
            output.summary.clear();
        }
        Ok(output)
    }

    async fn verify(&self, input: &VerifyInput, io: &RoleIo) -> Result<VerifierOutput, RoleError> {
        let garbage = self.begin("verify", &input.call, io).await?;
        let summary = input.answer.result.as_ref().map_or("", |result| &result.summary);
        let doubt =
            |n: u32| Doubt { claim: format!("{summary} ({n})"), reason: "the script doubts it".to_owned() };
        let should_replan = self.script.doubts > 0 && input.may_replan;
        let criterion = CriterionCheck {
            criterion: text::truncate(&input.call.title, limits::TEXT_BYTES).into_owned(),
            met: self.script.doubts == 0,
            note: String::new(),
        };
        Ok(VerifierOutput {
            verification: Verification {
                summary: if garbage { String::new() } else { format!("{} doubts", self.script.doubts) },
                criteria: vec![criterion],
                doubts: (1..=self.script.doubts).map(doubt).collect(),
                not_checked: None,
            },
            next: AggregatorNext {
                should_replan,
                replan_reason: should_replan.then(|| "the script doubts the answer".to_owned()),
            },
            scratchpad: note("scripted: verified\n"),
        })
    }

    async fn pick(&self, input: &PickInput, io: &RoleIo) -> Result<PickOutput, RoleError> {
        let garbage = self.begin("pick", &input.call, io).await?;
        let mut output = search::pick(&self.script, input);
        if garbage {
            output.path = "x".repeat(limits::PICK_BYTES + 1);
        }
        Ok(output)
    }
}

#[cfg(test)]
mod tests;
