//! The event contract.

use tree_agent_contract::command::BudgetChange;
use tree_agent_contract::error::FieldError;
use tree_agent_contract::event::*;
use tree_agent_contract::homework::{BranchNote, ItemState, PlanItem};
use tree_agent_contract::{
    Citation, CitationCounts, CriterionCheck, Disagreement, DocumentImport, Doubt, Event, KeptText, Origin,
    Passage, Side, SubtreeBudget, Support, Verdict, Verification,
};

use crate::v1 as pb;
use crate::wire::{Wire, missing, wire_enum, wire_message, within};

wire_message! {
    RunStatusChanged => RunStatusChanged { status, reason, partial, goes_on_at }
    NodeCreated => NodeCreated {
        parent_node_id, title, depth, band_index, step_index, step_id, reason, success_criteria, strategy, score, search,
        iteration, branch_id, deliverable, profile,
    }
    NodeStatusChanged => NodeStatusChanged { status, role, message, progress, attempt, call, why }
    NodeCompleted => NodeCompleted { outcome, evidence, metrics }
    NodeFailed => NodeFailed { error, retryable }
    PlanCreated => PlanCreated { plan_id, version, summary, mode_reason, iteration }
    PlanBandCreated => PlanBandCreated { plan_id, band_index, step_ids, goal, parallelizable }
    StepCreated => StepCreated {
        step_id, band_index, step_index, title, reason, success_criteria, strategy, search, branch_id, budget,
        deliverable, profile,
    }
    SubtreeBudget => SubtreeBudget { max_tokens, max_cost_micros, max_tool_calls, max_wall_clock_ms }
    StepStatusChanged => StepStatusChanged { step_id, status }
    NodeDelegated => NodeDelegated { child_node_id, step_id }
    ScratchpadLinked => ScratchpadLinked { scratchpad_doc_id }
    ScratchpadUpdated => ScratchpadUpdated { scratchpad_doc_id, tail_preview, updated_at [required] }
    ArtifactCreated => ArtifactCreated {
        artifact_id, artifact_type, document_id, label, title, json_payload, is_primary, snippet,
    }
    ArtifactCited => ArtifactCited { artifact_id, citations, counts [required], disagreements }
    Disagreement => Disagreement { sides }
    Side => DisagreementSide { value, quote, document_id, passage, source_title, source_path, dated }
    AnswerVerified => AnswerVerified { verification [required], replan_reason }
    ReviewRequested => ReviewRequested { review [required] }
    Verification => Verification { summary, criteria, doubts, not_checked }
    CriterionCheck => CriterionCheck { criterion, met, note }
    Doubt => Doubt { claim, reason }
    Citation => Citation {
        claim, quote, document_id, verdict, passage, origin, support, doubt, source_title, source_path
    }
    Passage => Passage { offset, bytes, sha256, place, omitted, heading }
    CitationCounts => CitationCounts {
        total, found, not_found, supported, contradicted, doubted, not_checked, reasons
    }
    NodeResult => NodeResult { result [required] }
    ParentHint => ParentHint { parent_node_id, hint_type, artifact_ids, document_ids }
    NodeAggregated => NodeAggregated { child_ids, summary, success_assessment }
    ReplanRequested => ReplanRequested { reason, based_on_child_ids }
    UsageRecorded => UsageRecorded {
        model, input_tokens, output_tokens, cached_tokens, cache_write_tokens, cost_micros, duration_ms, purpose, documents,
        prompt,
    }
    PromptDocument => PromptDocument { document_id, offset, bytes, size }
    DocumentImport => DocumentImport { source, file, fingerprint, left_out }
    BudgetExhausted => BudgetExhausted { budget, limit, used, reserved }
    GuidanceAdded => GuidanceAdded { text, author, request_id, subtree }
    PlanEdited => PlanEdited { plan_id, version, summary, author, request_id }
    RunForked => RunForked {
        source_run_id, at_seq, origin_run_id, author, by_administrator, request_id, display_name, labels, edits, goes_on,
    }
    LeafPicked => LeafPicked { leaf_node_id, reason, policy, fallback }
    SessionForked => SessionForked { session_id, parent_session_id }
    RollupUpdated => RollupUpdated { document_id, iteration, summary, branches, summary_document_id }
    BranchNote => BranchNote { branch_id, summary }
    ToolCallRequested => ToolCallRequested { call_id, tool_name, args, purpose, phase, started_at, cached, writes }
    ToolCallResult => ToolCallResult {
        call_id, tool_name, ok, summary, error, phase, completed_at, document_id, answer,
    }
    KeptText => KeptText { document_id, bytes }
    NodeSkipped => NodeSkipped { reason }
    PlanDocumentUpdated => PlanDocumentUpdated { document_id, iteration, items, remaining, questions }
    PlanItem => PlanItem { title, state, note }
    TaskRefused => TaskRefused { iteration, branch_id, title, reason, repeats }
    NodePaused => NodePaused { author, request_id, in_flight }
    NodeResumed => NodeResumed { author, request_id }
    CallStopped => CallStopped { reason }
    NodeStopped => NodeStopped { author, request_id, discard }
    NodeReopened => NodeReopened { generation, author, request_id, again, model, budget }
    BudgetSet => BudgetSet { author, request_id, change [required], clamped }
    LeaseCovered => LeaseCovered { budget, amount, by_node_id }
    BudgetChange => BudgetChange {
        max_tokens, max_cost_micros, max_tool_calls, max_wall_clock_ms, max_nodes, max_parallel_steps,
    }
}

wire_enum! {
    Verdict => pb::Verdict { Verified, NoSource, NotFound, TooShort, NoClaim, Doubted }
    Origin => pb::Origin { Found }
    Support => pb::Support { Supported, Open, Computed, Language }
    ItemState => pb::ItemState { Todo, Doing, Done, Dropped }
}

macro_rules! bodies {
    ($($variant:ident = $wire:ident),* $(,)?) => {
        impl Wire for Event {
            type Pb = pb::Event;

            fn to_wire(&self) -> pb::Event {
                let body = match &self.body {
                    $(EventBody::$variant(body) => pb::event::Body::$wire(body.to_wire()),)*
                    EventBody::Opaque(_) => pb::event::Body::Opaque(pb::Opaque { payload_json: self.payload_json() }),
                };
                pb::Event {
                    run_id: self.run_id.to_wire(),
                    seq: self.seq,
                    node_id: self.node_id.to_wire(),
                    parent_node_id: self.parent_node_id.to_wire(),
                    timestamp: Some(self.timestamp.to_wire()),
                    r#type: self.body.event_type().to_owned(),
                    body: Some(body),
                }
            }

            fn from_wire(pb: pb::Event) -> Result<Self, FieldError> {
                let body = match pb.body {
                    $(Some(pb::event::Body::$wire(body)) => Wire::from_wire(body).map(EventBody::$variant),)*
                    Some(pb::event::Body::Opaque(body)) => from_opaque(&pb.r#type, &body.payload_json),
                    // The body is a field that this version does not know.
                    None => Ok(Opaque::new(type_name(&pb.r#type), Default::default()).into()),
                };
                Ok(Event {
                    run_id: Wire::from_wire(pb.run_id).map_err(|e| within("run_id", e))?,
                    seq: pb.seq,
                    node_id: Wire::from_wire(pb.node_id).map_err(|e| within("node_id", e))?,
                    parent_node_id: Wire::from_wire(pb.parent_node_id).map_err(|e| within("parent_node_id", e))?,
                    timestamp: pb.timestamp.ok_or_else(missing).and_then(Wire::from_wire).map_err(|e| within("timestamp", e))?,
                    body: body.map_err(|e| within("body", e))?,
                })
            }
        }
    };
}

/// A payload that the server did not know. This program may be newer than the server and know it.
fn from_opaque(event_type: &str, payload_json: &str) -> Result<EventBody, FieldError> {
    EventBody::from_json(type_name(event_type), payload_json.as_bytes())
        .map_err(|error| FieldError::new("payload_json", error.to_string()))
}

fn type_name(named: &str) -> &str {
    if named.is_empty() { "tree.unknown" } else { named }
}

bodies! {
    RunCreated = RunCreated,
    RunStatusChanged = RunStatus,
    NodeCreated = NodeCreated,
    NodeStatusChanged = NodeStatus,
    NodeCompleted = NodeCompleted,
    NodeFailed = NodeFailed,
    PlanCreated = PlanCreated,
    PlanBandCreated = PlanBandCreated,
    StepCreated = StepCreated,
    StepStatusChanged = StepStatus,
    NodeDelegated = NodeDelegated,
    ScratchpadLinked = ScratchpadLinked,
    ScratchpadUpdated = ScratchpadUpdated,
    ArtifactCreated = ArtifactCreated,
    NodeResult = NodeResult,
    ParentHint = ParentHint,
    NodeAggregated = NodeAggregated,
    ReplanRequested = ReplanRequested,
    UsageRecorded = UsageRecorded,
    BudgetExhausted = BudgetExhausted,
    GuidanceAdded = GuidanceAdded,
    PlanEdited = PlanEdited,
    RunForked = RunForked,
    LeafPicked = LeafPicked,
    SessionForked = SessionForked,
    RollupUpdated = RollupUpdated,
    ToolCallRequested = ToolCallRequested,
    ToolCallResult = ToolCallResult,
    NodeSkipped = NodeSkipped,
    PlanDocumentUpdated = PlanDocumentUpdated,
    TaskRefused = TaskRefused,
    NodePaused = NodePaused,
    NodeResumed = NodeResumed,
    CallStopped = CallStopped,
    NodeStopped = NodeStopped,
    NodeReopened = NodeReopened,
    BudgetSet = BudgetSet,
    LeaseCovered = LeaseCovered,
    ArtifactCited = ArtifactCited,
    AnswerVerified = AnswerVerified,
    ReviewRequested = ReviewRequested,
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use tree_agent_contract::*;

    use super::*;

    /// One event of every type, from its JSON form, so that a payload key that the wire form drops is noticed.
    #[test]
    fn every_event_type_survives_the_wire() {
        let id = "0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b";
        let at = "2026-01-27T10:00:00.000001Z";
        let samples = serde_json::json!({
            "tree.run_created": {"objective":"o","strategy":"tree","context":{"scope":"project","projectIds":[id]},"budgets":{"maxDepth":2,"maxTokens":5},"model":"offline","userId":"u","rootNodeId":id,"schemaVersion":1,"behaviourVersion":2,"review":{"goesOnAfterMs":1000,"perCall":{"plan":{"tokens":1,"costMicros":2},"execute":{"tokens":1},"aggregate":{"tokens":1}}},"search":{"concurrency":2,"maxDepth":3,"picker":"best-first","prompts":{"root":"r","document":"d","children":"c","picker":"p"},"frontmatterSchema":{"type":"object"},"synthesis":true}},
            "tree.run_status": {"status":"failed","reason":"r","partial":true},
            "tree.node_created": {"parentNodeId":id,"title":"t","depth":1,"bandIndex":0,"stepIndex":2,"stepId":"s","reason":"r","successCriteria":["c"],"strategy":"search","score":0.5,"search":{"maxDepth":2,"maxNodes":7},"iteration":3,"branchId":"b","deliverable":"hybrid","profile":"powerful"},
            "tree.node_status": {"status":"blocked","role":"planner","message":"m","progress":0.5,"attempt":2,"call":"aggregate","why":"w"},
            "tree.node_completed": {"outcome":"partial","evidence":"e","metrics":{"durationMs":7,"ratio":0.5,"list":[null,true,"x"]}},
            "tree.node_failed": {"error":"e","retryable":true},
            "tree.plan_created": {"planId":id,"version":2,"summary":"s","modeReason":"m","iteration":3},
            "tree.plan_band_created": {"planId":id,"bandIndex":1,"stepIds":["a","b"],"goal":"g","parallelizable":false},
            "tree.step_created": {"stepId":"a","bandIndex":1,"stepIndex":0,"title":"t","reason":"r","successCriteria":["c"],"strategy":"search","search":{"maxDepth":2,"maxNodes":7},"branchId":"b","budget":{"maxTokens":1},"deliverable":"json","profile":"fast"},
            "tree.step_status": {"stepId":"a","status":"running"},
            "tree.node_delegated": {"childNodeId":id,"stepId":"a"},
            "tree.scratchpad_linked": {"scratchpadDocId":id},
            "tree.scratchpad_updated": {"scratchpadDocId":id,"tailPreview":"t","updatedAt":at},
            "tree.artifact_created": {"artifactId":id,"artifactType":"json","documentId":id,"label":"l","title":"t","jsonPayload":{"a":{"b":1}},"isPrimary":true,"snippet":"b"},
            "tree.node_result": {"result":{"kind":"hybrid","summary":"s","successAssessment":{"met":true,"notes":"n"},"primaryArtifactId":id,"artifactIds":[id],"documentIds":[id],"jsonPayload":{"x":1},"scratchpadDocId":id,"scratchpadTail":"t"}},
            "tree.parent_hint": {"parentNodeId":id,"hintType":"read_json","artifactIds":[id],"documentIds":[id]},
            "tree.node_aggregated": {"childIds":[id],"summary":"s","successAssessment":{"met":false}},
            "tree.review_requested": {"review":{"premises":{"assumptions":["a"],"leftOut":["l"]},"estimate":{"nodes":1,"depth":2,"planCalls":3,"executeCalls":4,"aggregateCalls":5,"researchCalls":6,"pickCalls":7,"verifyCalls":8,"attempts":9,"tokens":10,"costMicros":11,"toolCalls":12,"wallClockMs":13,"endsWithinMs":14,"unlimited":["u"]},"goesOnAt":at}},
            "tree.replan_requested": {"reason":"r","basedOnChildIds":[id]},
            "tree.usage_recorded": {"model":"m","inputTokens":1,"outputTokens":2,"cachedTokens":3,"cacheWriteTokens":6,"costMicros":4,"durationMs":5,"purpose":"plan","documents":[{"documentId":id,"offset":6,"bytes":7,"size":8}],"prompt":{"documentId":id,"bytes":9}},
            "tree.budget_exhausted": {"budget":"maxNodes","limit":3,"used":2,"reserved":1},
            "tree.guidance_added": {"text":"t","author":"a","requestId":"r","subtree":true},
            "tree.plan_edited": {"planId":id,"version":2,"summary":"s","author":"a","requestId":"r"},
            "tree.run_forked": {"sourceRunId":id,"atSeq":9,"originRunId":id,"author":"a","requestId":"q","displayName":"d","labels":{"a":"b"},"edits":[{"kind":"guide","nodeId":id,"text":"t","subtree":true,"restart":false},{"kind":"retry","nodeId":id,"guidance":"g","model":"m","budget":{"maxTokens":5}},{"kind":"edit_plan","nodeId":id,"plan":{"summary":"s","bands":[{"index":0,"goal":"g","parallelizable":true,"steps":[{"id":"a","title":"t","reason":"r","successCriteria":["c"],"stepIndex":0,"strategy":"search","search":{"maxDepth":2,"maxNodes":7}},{"id":"b","title":"t","reason":"r","successCriteria":[],"stepIndex":1,"branchId":"b"}]}]}},{"kind":"set_budget","change":{"maxTokens":0}},{"kind":"set_model","model":"m"}],"goesOn":true},
            "tree.leaf_picked": {"leafNodeId":id,"reason":"r","policy":"llm","fallback":"f"},
            "tree.session_forked": {"sessionId":"a","parentSessionId":"b"},
            "tree.rollup_updated": {"documentId":id,"iteration":1,"summary":"s","branches":[{"branchId":"b","summary":"s"}],"summaryDocumentId":id},
            "tree.tool_call_requested": {"callId":"t1","toolName":"n","args":{"q":"x"},"purpose":"p","phase":"execute","startedAt":at,"cached":true,"writes":true},
            "tree.tool_call_result": {"callId":"t1","toolName":"n","ok":false,"summary":"s","error":"e","phase":"execute","completedAt":at,"documentId":id,"answer":{"documentId":id,"bytes":7}},
            "tree.node_skipped": {"reason":"r"},
            "tree.plan_document_updated": {"documentId":id,"iteration":2,"items":[{"title":"t","state":"doing","note":"n"}],"remaining":["r"],"questions":["q"]},
            "tree.node_paused": {"author":"a","requestId":"r","inFlight":[id]},
            "tree.node_resumed": {"author":"a","requestId":"r"},
            "tree.call_stopped": {"reason":"pause"},
            "tree.node_stopped": {"author":"a","requestId":"r","discard":true},
            "tree.node_reopened": {"generation":2,"author":"a","requestId":"r","again":true,"model":"m","budget":{"maxTokens":1,"maxCostMicros":2,"maxToolCalls":3,"maxWallClockMs":1000}},
            "tree.budget_set": {"author":"a","requestId":"r","change":{"maxTokens":0,"maxCostMicros":1,"maxToolCalls":2,"maxWallClockMs":3,"maxNodes":4,"maxParallelSteps":5},"clamped":true},
            "tree.lease_covered": {"budget":"maxTokens","amount":7,"byNodeId":id},
            "tree.answer_verified": {"verification":{"summary":"s","criteria":[{"criterion":"c","met":true,"note":"n"}],"doubts":[{"claim":"c","reason":"r"}],"notChecked":"n"},"replanReason":"r"},
            "tree.artifact_cited": {"artifactId":id,"citations":[{"claim":"c","quote":"q","documentId":id,
                "verdict":"verified","passage":{"offset":7,"bytes":8,"sha256":"00ff"}}],
                "counts":{"total":1,"found":5,"notFound":6,"supported":2,"doubted":3,"notChecked":4,"reasons":["r"]}},
            "tree.task_refused": {"iteration":2,"branchId":"b","title":"t","reason":"r","repeats":id},
        });
        for event_type in EventBody::TYPES {
            let payload = samples.get(event_type).unwrap_or_else(|| panic!("no sample of {event_type}"));
            let body = EventBody::from_json(event_type, &serde_json::to_vec(payload).unwrap()).unwrap();
            let event = Event {
                run_id: id.parse().unwrap(),
                seq: 3,
                node_id: id.parse().unwrap(),
                parent_node_id: Some(id.parse().unwrap()),
                timestamp: Timestamp(-1),
                body,
            };
            let bytes = event.to_wire().encode_to_vec();
            let back = Event::from_wire(pb::Event::decode(&bytes[..]).unwrap()).unwrap();
            assert_eq!(back, event, "{event_type}");
        }
    }

    fn guidance() -> GuidanceAdded {
        GuidanceAdded { text: "t".into(), author: "a".into(), request_id: String::new(), subtree: false }
    }

    /// An event as a version writes it that has one more type than this one.
    #[derive(Clone, PartialEq, prost::Message)]
    struct NewerEvent {
        #[prost(string, tag = "1")]
        run_id: String,
        #[prost(uint64, tag = "2")]
        seq: u64,
        #[prost(string, tag = "3")]
        node_id: String,
        #[prost(message, optional, tag = "5")]
        timestamp: Option<prost_types::Timestamp>,
        #[prost(string, tag = "6")]
        r#type: String,
        #[prost(message, optional, tag = "77")]
        from_the_future: Option<pb::GuidanceAdded>,
    }

    fn opaque(event_type: &str, payload: serde_json::Value) -> Event {
        let id = "0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b";
        Event {
            run_id: id.parse().unwrap(),
            seq: 3,
            node_id: id.parse().unwrap(),
            parent_node_id: None,
            timestamp: Timestamp(7),
            body: Opaque::new(event_type, payload.as_object().unwrap().clone()).into(),
        }
    }

    #[test]
    fn an_event_whose_field_is_unknown_is_kept_by_its_name() {
        let expected = opaque("tree.from_the_future", serde_json::json!({}));
        let newer = NewerEvent {
            run_id: expected.run_id.to_string(),
            seq: 3,
            node_id: expected.node_id.to_string(),
            timestamp: Some(expected.timestamp.to_wire()),
            r#type: "tree.from_the_future".into(),
            from_the_future: Some(pb::GuidanceAdded { text: "t".into(), ..pb::GuidanceAdded::default() }),
        };
        let read = |newer: NewerEvent| {
            Event::from_wire(pb::Event::decode(&newer.encode_to_vec()[..]).unwrap()).unwrap()
        };
        assert_eq!(read(newer.clone()), expected);
        let nameless = read(NewerEvent { r#type: String::new(), ..newer });
        assert_eq!(nameless.body.event_type(), "tree.unknown");
    }

    #[test]
    fn an_event_that_the_server_does_not_know_arrives_with_its_payload() {
        let event = opaque("tree.from_the_future", serde_json::json!({"a": [1, null], "n": u64::MAX}));
        let wire = event.to_wire();
        assert_eq!(wire.r#type, "tree.from_the_future");
        assert_eq!(Event::from_wire(pb::Event::decode(&wire.encode_to_vec()[..]).unwrap()).unwrap(), event);
    }

    #[test]
    fn a_client_that_is_newer_than_the_server_reads_what_the_server_does_not_know() {
        let event = opaque("tree.guidance_added", serde_json::json!({"text": "t", "author": "a"}));
        let read = Event::from_wire(event.to_wire()).unwrap();
        assert_eq!(read.body, guidance().into());
        let broken = opaque("tree.guidance_added", serde_json::json!({"text": 7}));
        assert_eq!(Event::from_wire(broken.to_wire()).unwrap_err().field, "body.payload_json");
    }

    #[test]
    fn an_event_carries_its_name_for_readers_that_do_not_know_its_body() {
        let event = Event { body: guidance().into(), ..opaque("x", serde_json::json!({})) };
        assert_eq!(event.to_wire().r#type, "tree.guidance_added");
    }

    #[test]
    fn text_that_postgres_cannot_hold_is_replaced_on_the_way_in() {
        let args = serde_json::json!({"a\0": ["b\0"]}).as_object().cloned();
        let call = ToolCallRequested {
            call_id: "t\0".into(),
            tool_name: "n".into(),
            args,
            purpose: None,
            phase: None,
            started_at: None,
            writes: true,
            cached: false,
        };
        let back = ToolCallRequested::from_wire(call.to_wire()).unwrap();
        assert_eq!(back.call_id, "t\u{fffd}");
        assert_eq!(back.args, serde_json::json!({"a\u{fffd}": ["b\u{fffd}"]}).as_object().cloned());
    }

    #[test]
    fn a_time_beyond_the_calendar_is_refused() {
        let at = |seconds, nanos| Some(prost_types::Timestamp { seconds, nanos });
        for started_at in [at(1_000_000_000_000, 0), at(i64::MAX, 0), at(0, -1), at(0, 1_000_000_000)] {
            let call = pb::ToolCallRequested { started_at, ..Default::default() };
            assert_eq!(ToolCallRequested::from_wire(call).unwrap_err().field, "started_at");
        }
    }

    #[test]
    fn errors_name_the_path() {
        use crate::internal::v1 as roles;
        let plan = roles::PlannerOutput {
            mode: 2,
            plan: Some(roles::PlanDraft { summary: String::new(), bands: vec![] }),
            ..Default::default()
        };
        let err = tree_agent_contract::role::PlannerOutput::from_wire(plan).unwrap_err();
        assert_eq!(err.field, "scratchpad");
        let err =
            RunContext::from_wire(pb::RunContext { scope: 2, project_ids: vec!["x".into()] }).unwrap_err();
        assert_eq!(err.field, "project_ids[0]");
    }
}
