//! Append, fence, repeat, read.

use tree_agent_contract::event::{Opaque, ReplanRequested};
use tree_agent_contract::graph::Usage;
use tree_agent_contract::{ArtifactId, ArtifactType, NodeStatus, PlanId, RunStatus, Timestamp};
use tree_agent_store::{
    AppendOutcome, ArtifactRow, PlanRow, Projection, READ_BYTES, RunAppend, RunRow, Sent, StoreError,
    StoredEvent,
};

use crate::fixture::{Fixture, T0, append, event, new_run, node_row, run_id, run_row, saying};

pub async fn appends_and_reads_back_exactly(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    let mut first = append(claim.run_id, claim.epoch, 2, 3);
    first.events[1].parent_node_id = Some(first.events[1].node_id);
    first.events[2].timestamp = Timestamp(-1);
    let mut expected = new_run(1).events;
    expected.extend(first.events.clone());
    assert_eq!(f.store.append([first].into()).await.unwrap(), [AppendOutcome::Appended]);
    assert_eq!(f.store.read(claim.run_id, 0, 100).await.unwrap(), expected);
    assert_eq!(f.store.run(claim.run_id).await.unwrap().head_seq, 5);
}

pub async fn a_stale_epoch_or_head_is_fenced_and_writes_nothing(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    let run = claim.run_id;
    for (epoch, head) in [(claim.epoch - 1, 2), (claim.epoch + 1, 2), (claim.epoch, 1), (claim.epoch, 3)] {
        let mut stale = append(run, epoch, head, 2);
        stale.projection.run = Some(run_row(RunStatus::Failed));
        stale.projection.nodes.push(node_row(run, NodeStatus::Failed));
        assert_eq!(f.store.append([stale].into()).await.unwrap(), [AppendOutcome::Fenced], "{epoch} {head}");
    }
    let unknown = append(run_id(99), 1, 0, 1);
    assert_eq!(f.store.append([unknown].into()).await.unwrap(), [AppendOutcome::Fenced]);
    assert_eq!(f.store.read(run, 0, 100).await.unwrap(), new_run(1).events);
    assert_eq!(f.store.run(run).await.unwrap().status, RunStatus::Queued);
    assert_eq!(f.rows("SELECT status FROM tree_agent_nodes").await, ["planning"]);
}

pub async fn a_repeated_append_is_appended_once(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    let mut first = append(claim.run_id, claim.epoch, 2, 3);
    assert_eq!(f.store.send_command(claim.run_id, crate::runs::cancel()).await.unwrap(), Sent::Pending(1));
    first.answers.push(crate::runs::done(1));
    first.documents.push(crate::runs::scratchpad_create(1, "a"));
    first.documents.push(crate::runs::scratchpad_append(1, "b"));
    assert_eq!(f.store.append([first.clone()].into()).await.unwrap(), [AppendOutcome::Appended]);
    assert_eq!(f.store.append([first.clone()].into()).await.unwrap(), [AppendOutcome::Appended]);
    // The same holds if more has been written meanwhile.
    let second = append(claim.run_id, claim.epoch, 5, 1);
    assert_eq!(f.store.append([second.clone()].into()).await.unwrap(), [AppendOutcome::Appended]);
    assert_eq!(f.store.append([first].into()).await.unwrap(), [AppendOutcome::Appended]);
    assert_eq!(f.store.append([second].into()).await.unwrap(), [AppendOutcome::Appended]);
    assert_eq!(f.store.read(claim.run_id, 0, 100).await.unwrap().len(), 6);
    assert_eq!(f.rows("SELECT body FROM onto_documents").await, ["ab"]);
}

pub async fn a_repeat_from_an_older_epoch_or_with_other_events_is_fenced(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    let run = claim.run_id;
    let old = append(run, claim.epoch, 2, 2);
    f.store.release(&[(run, claim.epoch)]).await.unwrap();
    let next = crate::fixture::claim(&*f.store, "b", std::time::Duration::from_secs(60), 1).await[0];
    assert_eq!(next.epoch, claim.epoch + 1);
    let new = append(run, next.epoch, 2, 2);
    assert_eq!(f.store.append([new.clone()].into()).await.unwrap(), [AppendOutcome::Appended]);
    assert_eq!(f.store.append([old].into()).await.unwrap(), [AppendOutcome::Fenced]);
    let mut other = new.clone();
    other.events[1] =
        event(run, 4, T0, ReplanRequested { reason: String::new(), based_on_child_ids: Vec::new() });
    assert_eq!(f.store.append([other].into()).await.unwrap(), [AppendOutcome::Fenced]);
    let longer = append(run, next.epoch, 2, 3);
    assert_eq!(f.store.append([longer].into()).await.unwrap(), [AppendOutcome::Fenced]);
    assert_eq!(f.store.read(run, 2, 10).await.unwrap(), new.events);
}

pub async fn events_must_be_contiguous_and_a_run_may_occur_once(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    let good = || append(claim.run_id, claim.epoch, 2, 3);
    let mut gap = good();
    gap.events.remove(1);
    let mut late = good();
    late.events.remove(0);
    let mut empty = good();
    empty.events.clear();
    let mut foreign = good();
    foreign.events[1].run_id = run_id(2);
    for bad in [vec![gap], vec![late], vec![empty], vec![foreign], vec![good(), good()]] {
        let error = f.store.append(bad.into()).await.unwrap_err();
        assert!(matches!(&error, StoreError::Conflict(text) if text.contains("run ")), "{error:?}");
    }
    assert_eq!(f.store.heads(&[claim.run_id]).await.unwrap(), [(claim.run_id, 2)]);
    assert_eq!(f.store.append([].into()).await.unwrap(), []);
}

pub async fn one_fenced_run_does_not_hold_up_the_others(f: Fixture) {
    let mut appends = Vec::new();
    for n in 1..=5 {
        let claim = f.claimed(n, "a").await;
        let epoch = if n == 3 { claim.epoch + 1 } else { claim.epoch };
        let mut append = append(claim.run_id, epoch, 2, n as u64);
        append.projection.nodes.push(node_row(claim.run_id, NodeStatus::Executing));
        appends.push(append);
    }
    appends.swap(0, 4);
    let outcomes = f.store.append(appends.into()).await.unwrap();
    use AppendOutcome::{Appended, Fenced};
    assert_eq!(outcomes, [Appended, Appended, Fenced, Appended, Appended]);
    for n in 1..=5_u128 {
        let expected = if n == 3 { 2 } else { 2 + n as u64 };
        assert_eq!(f.store.heads(&[run_id(n)]).await.unwrap(), [(run_id(n), expected)]);
        assert_eq!(f.store.read(run_id(n), 0, 100).await.unwrap().len() as u64, expected);
    }
    let planning = f.rows("SELECT status FROM tree_agent_nodes ORDER BY run_id").await;
    assert_eq!(planning, ["executing", "executing", "planning", "executing", "executing"]);
}

pub async fn of_two_writers_one_wins_each_seq(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    let run = claim.run_id;
    f.store.release(&[(run, claim.epoch)]).await.unwrap();
    let next = crate::fixture::claim(&*f.store, "b", std::time::Duration::from_secs(60), 1).await[0];
    let write = |epoch: u64| {
        let store = f.store.clone();
        async move {
            let mut head = 2;
            for _ in 0..20 {
                let outcome = store.append([append(run, epoch, head, 3)].into()).await.unwrap()[0];
                head += if outcome == AppendOutcome::Appended { 3 } else { 0 };
            }
            head
        }
    };
    let (old, new) = tokio::join!(tokio::spawn(write(claim.epoch)), tokio::spawn(write(next.epoch)));
    assert_eq!((old.unwrap(), new.unwrap()), (2, 62));
    let events = f.store.read(run, 0, 100).await.unwrap();
    assert!(events.iter().zip(1..).all(|(event, seq)| event.seq == seq));
    assert_eq!(events.len(), 62);
}

pub async fn reading_pages_by_seq(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    let run = claim.run_id;
    f.store.append([append(run, claim.epoch, 2, 8)].into()).await.unwrap();
    let seqs = |events: Vec<tree_agent_contract::Event>| events.iter().map(|e| e.seq).collect::<Vec<_>>();
    assert_eq!(seqs(f.store.read(run, 0, 4).await.unwrap()), [1, 2, 3, 4]);
    assert_eq!(seqs(f.store.read(run, 4, 4).await.unwrap()), [5, 6, 7, 8]);
    assert_eq!(seqs(f.store.read(run, 8, 4).await.unwrap()), [9, 10]);
    assert_eq!(f.store.read(run, 10, 4).await.unwrap(), []);
    assert_eq!(f.store.read(run, u64::MAX, usize::MAX).await.unwrap(), []);
    assert_eq!(f.store.read(run_id(9), 0, 4).await.unwrap(), []);
}

pub async fn heads_names_the_runs_that_exist(f: Fixture) {
    for n in 1..=2 {
        f.store.create_run(new_run(n)).await.unwrap();
    }
    let mut heads = f.store.heads(&[run_id(2), run_id(3), run_id(1)]).await.unwrap();
    heads.sort_unstable();
    assert_eq!(heads, [(run_id(1), 2), (run_id(2), 2)]);
    assert_eq!(f.store.heads(&[]).await.unwrap(), []);
}

pub async fn projection_rows_are_inserted_then_replaced(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    let run = claim.run_id;
    let node = node_row(run, NodeStatus::Executing);
    let plan = |version: u32, json| PlanRow {
        id: PlanId::of(node.id, version),
        node_id: node.id,
        version,
        plan_json: json,
        created_at: T0,
    };
    let artifact = ArtifactRow {
        id: ArtifactId::of(node.id, 0, "x"),
        node_id: node.id,
        artifact_type: ArtifactType::Json,
        document_id: None,
        json_payload: serde_json::json!({"a": 1}).as_object().cloned(),
        is_primary: true,
        label: "x".into(),
        created_at: T0,
    };
    let mut first = append(run, claim.epoch, 2, 1);
    first.projection = Projection {
        run: Some(RunRow { node_count: 7, ..run_row(RunStatus::Running) }),
        // The last row of an id counts.
        nodes: vec![node.clone(), node_row(run, NodeStatus::Waiting)],
        plans: vec![
            plan(1, serde_json::json!({"old": true})),
            plan(1, serde_json::json!({"n": 1})),
            plan(2, 2.into()),
        ],
        artifacts: vec![artifact.clone()],
    };
    assert_eq!(f.store.append([first].into()).await.unwrap(), [AppendOutcome::Appended]);
    let used = Usage {
        input_tokens: 1,
        output_tokens: 2,
        cached_tokens: 3,
        cache_write_tokens: 0,
        cost_micros: 4,
        model_calls: 5,
        duration_ms: 6,
        tool_calls: 7,
    };
    let mut ended = node_row(run, NodeStatus::Failed);
    (ended.started_at, ended.ended_at) = (Some(T0), Some(T0.plus_millis(5)));
    let second = RunAppend {
        projection: Projection {
            run: Some(RunRow {
                status: RunStatus::Failed,
                partial: true,
                error: Some("no".into()),
                node_count: 8,
                ended_nodes: 5,
                usage: used,
                models: vec!["openai:gpt-4o".into(), "anthropic:claude".into()],
                started_at: Some(T0),
                ended_at: Some(T0.plus_millis(4)),
            }),
            nodes: vec![ended],
            plans: Vec::new(),
            artifacts: vec![ArtifactRow { is_primary: false, ..artifact }],
        },
        ..append(run, claim.epoch, 3, 1)
    };
    assert_eq!(f.store.append([second].into()).await.unwrap(), [AppendOutcome::Appended]);
    // An append without a run row leaves it as it is.
    f.store.append([append(run, claim.epoch, 4, 1)].into()).await.unwrap();
    let summary = f.store.run(run).await.unwrap();
    assert_eq!((summary.status, summary.partial), (RunStatus::Failed, true));
    assert_eq!((summary.node_count, summary.ended_nodes), (8, 5));
    assert_eq!(summary.usage, used);
    assert_eq!((summary.started_at, summary.ended_at), (Some(T0), Some(T0.plus_millis(4))));
    assert_eq!((summary.error.as_deref(), summary.updated_at), (Some("no"), T0.plus_millis(5)));
    assert_eq!(f.rows("SELECT status, title, depth FROM tree_agent_nodes").await, ["failed|Root|0"]);
    assert_eq!(f.rows("SELECT version FROM tree_agent_plans ORDER BY version").await, ["1", "2"]);
    assert_eq!(
        f.rows("SELECT label, artifact_type FROM tree_agent_artifacts WHERE NOT is_primary").await,
        ["x|json"]
    );
}

pub async fn nul_characters_do_not_stop_a_log(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    let run = claim.run_id;
    let mut odd = append(run, claim.epoch, 2, 1);
    odd.events[0] = saying(run, 3, "a\0b \\u0000 \u{1F600}");
    odd.projection.nodes.push(node_row(run, NodeStatus::Executing));
    odd.projection.nodes[0].title = "x\0".into();
    odd.documents.push(crate::runs::scratchpad_create(1, "body\0"));
    assert_eq!(f.store.append([odd].into()).await.unwrap(), [AppendOutcome::Appended]);
    let stored = f.store.read(run, 2, 1).await.unwrap();
    assert_eq!(stored, [saying(run, 3, "a\u{FFFD}b \\u0000 \u{1F600}")]);
    assert_eq!(f.rows("SELECT body FROM onto_documents").await, ["body\u{FFFD}"]);
}

pub async fn an_event_of_an_unknown_type_is_kept(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    let payload = serde_json::json!({"list": [1, {"deep": null}], "big": u64::MAX, "text": "ü"});
    let body = Opaque::new("tree.from_the_future", payload.as_object().unwrap().clone());
    let mut first = append(claim.run_id, claim.epoch, 2, 3);
    first.events[1] = event(claim.run_id, 4, T0, body);
    let written = first.events.clone();
    assert_eq!(f.store.append([first.clone()].into()).await.unwrap(), [AppendOutcome::Appended]);
    assert_eq!(f.store.read(claim.run_id, 2, 10).await.unwrap(), written);
    assert_eq!(f.store.append([first].into()).await.unwrap(), [AppendOutcome::Appended], "it is its own");
    let stored = f.store.stored_events(claim.run_id, 3, 1).await.unwrap().remove(0);
    assert_eq!(stored.event_type, "tree.from_the_future");
    let stored: serde_json::Value = serde_json::from_str(&stored.payload).unwrap();
    assert_eq!((&stored["big"], &stored["list"]), (&payload["big"], &payload["list"]));
}

pub async fn a_page_is_bounded_in_bytes(f: Fixture) {
    let claim = f.claimed(1, "a").await;
    let run = claim.run_id;
    // Databases compress such text: what counts is what is read.
    let sizes = [1_000_000, 1_000_000, 1_000_000, 1_000_000, 1_000_000, READ_BYTES + 1, 10, 10];
    let mut write = append(run, claim.epoch, 2, sizes.len() as u64);
    for (event, size) in write.events.iter_mut().zip(sizes) {
        *event = saying(run, event.seq, &"x".repeat(size));
    }
    let written = write.events.clone();
    assert_eq!(f.store.append([write].into()).await.unwrap(), [AppendOutcome::Appended]);
    let payloads = |events: &[StoredEvent]| events.iter().map(|event| event.payload.len()).sum::<usize>();
    let (mut read, mut pages, mut after) = (Vec::new(), Vec::new(), 2);
    loop {
        let page = f.store.read(run, after, 100).await.unwrap();
        let stored = f.store.stored_events(run, after, 100).await.unwrap();
        assert_eq!(
            page.iter().map(|e| e.seq).collect::<Vec<_>>(),
            stored.iter().map(|e| e.seq).collect::<Vec<_>>()
        );
        let Some(last) = page.last() else { break };
        // At the edge: it is within the bound, and would not be with the next event.
        assert!(page.len() == 1 || payloads(&stored) <= READ_BYTES);
        if let Some(next) = f.store.stored_events(run, last.seq, 1).await.unwrap().first() {
            assert!(payloads(&stored) + next.payload.len() > READ_BYTES);
        }
        (after, pages) = (last.seq, [pages, vec![page.len()]].concat());
        read.extend(page);
    }
    assert_eq!((read, pages), (written, vec![4, 1, 1, 2]));
}
