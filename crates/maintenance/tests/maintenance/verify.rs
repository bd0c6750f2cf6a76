//! Sound logs pass, and faults are reported where they are.

use tree_agent_contract::{DocumentId, EventBody, NodeId, RunId};
use tree_agent_maintenance::{MaintenanceError, verify};
use tree_agent_store::StoreError;
use uuid::Uuid;

use crate::fixture::{Fixture, RECORDED, recorded};

pub async fn recorded_runs_are_sound(f: Fixture) {
    for name in RECORDED {
        let run = f.write(name).await;
        assert_eq!(f.findings(run).await, Vec::<String>::new(), "{name}");
        let report = f.report(run).await;
        assert!(report.is_sound() && report.head_seq > 40, "{report:?}");
    }
}

pub async fn a_run_is_sound_after_every_append(f: Fixture) {
    f.write_with("replan", async |run| assert_eq!(f.findings(run).await, Vec::<String>::new())).await;
}

pub async fn every_kind_of_wrong_row_is_told(f: Fixture) {
    let run = f.write("replan").await;
    let root = NodeId::root(run);
    f.damage(
        run,
        "UPDATE tree_agent_runs SET status = 'running', node_count = 99, objective = 'other', metrics = '{}'; \
         UPDATE tree_agent_nodes SET title = 'Wrong', depth = 7, ended_at = NULL WHERE parent_node_id IS NULL; \
         UPDATE tree_agent_plans SET plan_json = '{\"summary\": 1}' WHERE version = 1; \
         DELETE FROM tree_agent_plans WHERE version = 2; \
         INSERT INTO tree_agent_plans SELECT run_id, run_id, node_id, 9, plan_json, created_at \
             FROM tree_agent_plans WHERE version = 1;",
    )
    .await;
    let report = f.report(run).await;
    assert!(!report.is_sound() && report.can_be_rebuilt());
    let found = f.findings(run).await.join("\n");
    for expected in [
        format!("tree_agent_runs {run}: status is \"running\", the log says \"completed\""),
        format!("tree_agent_runs {run}: node_count is \"99\", the log says "),
        format!("tree_agent_runs {run}: objective is \"other\", the log says "),
        format!("tree_agent_runs {run}: metrics is \"{{}}\", the log says "),
        format!("tree_agent_nodes {root}: title is \"Wrong\", the log says "),
        format!("tree_agent_nodes {root}: depth is \"7\", the log says \"0\""),
        format!("tree_agent_nodes {root}: ended_at is null, the log says "),
        "plan_json is \"{\\\"summary\\\":1}\", the log says ".into(),
        "the row is missing".into(),
        format!("tree_agent_plans {}: the log knows nothing of this row", run.0),
    ] {
        assert!(found.contains(&expected), "{expected}\nis not in\n{found}");
    }
    let run = f.write("offline").await;
    f.damage(run, "UPDATE tree_agent_artifacts SET is_primary = NOT is_primary WHERE run_id = {run}").await;
    let found = f.findings(run).await;
    assert!(!found.is_empty());
    assert!(
        found.iter().all(|f| f.starts_with("tree_agent_artifacts ") && f.contains("is_primary is ")),
        "{found:?}"
    );
}

pub async fn a_hole_in_the_log_is_told(f: Fixture) {
    let run = f.write("retries").await;
    f.damage(run, "DELETE FROM tree_agent_events WHERE seq IN (10, 11)").await;
    assert_eq!(f.findings(run).await, ["event 12: follows event 9; the events between are missing"]);
    let head = f.report(run).await.head_seq;
    f.damage(run, &format!("DELETE FROM tree_agent_events WHERE seq = {head}")).await;
    let found = f.findings(run).await;
    let expected =
        format!("log: the run row names event {head} as the last, but the log ends at event {}", head - 1);
    assert!(found.contains(&expected), "{found:?}");
    assert!(!f.report(run).await.can_be_rebuilt());
    f.damage(run, "DELETE FROM tree_agent_events").await;
    assert!(f.findings(run).await.contains(&"log: there are no events".to_owned()));
}

pub async fn an_event_of_another_writer_is_told(f: Fixture) {
    let run = f.write("retries").await;
    f.damage(run, "UPDATE tree_agent_events SET id = {run} WHERE seq = 6").await;
    let expected = format!("event 6: its id {} was made by no holder of the run's lease", run.0);
    assert_eq!(f.findings(run).await, [expected]);
    // As if the event were the first writer's, who was fenced when event 5 was written.
    let id = tree_agent_contract::ids::EventId::of(run, 0, 6).0;
    let literal = format!("UPDATE tree_agent_events SET id = '{id}' WHERE seq = 6");
    let blob = format!("UPDATE tree_agent_events SET id = x'{}' WHERE seq = 6", id.simple());
    f.damage_either(run, &literal, &blob).await;
    assert_eq!(f.findings(run).await, ["event 6: was written in epoch 0, after an event of epoch 1"]);
}

pub async fn an_event_that_breaks_an_invariant_is_told(f: Fixture) {
    let run = f.write("retries").await;
    // The root's result is gone: something harmless stands in its place.
    f.damage(
        run,
        "UPDATE tree_agent_events SET event_type = 'tree.guidance_added', payload = '{\"text\": \"\"}' \
         WHERE event_type = 'tree.node_result' AND parent_node_id IS NULL",
    )
    .await;
    let found = f.findings(run).await;
    assert!(found.iter().any(|f| f.ends_with("completes a node that has no result")), "{found:?}");
    f.damage(run, "UPDATE tree_agent_events SET payload = '{}' WHERE seq = 8").await;
    let found = f.findings(run).await;
    assert!(
        matches!(&found[..], [one] if one.starts_with("event 8: cannot be read: the payload of ")),
        "{found:?}"
    );
}

/// Makes event 8 one of a type that a newer version has.
pub async fn from_the_future(f: &Fixture, run: RunId) {
    let sql = "UPDATE tree_agent_events SET event_type = 'tree.from_the_future', payload = '{\"x\": [1, null]}' \
               WHERE seq = 8";
    f.damage(run, sql).await;
}

pub async fn what_a_newer_version_wrote_is_checked_as_far_as_it_can_be(f: Fixture) {
    let run = f.write("retries").await;
    from_the_future(&f, run).await;
    // What the rows should be cannot be known any more.
    f.damage(run, "UPDATE tree_agent_nodes SET title = 'of the future'").await;
    let report = f.report(run).await;
    assert!(report.is_sound(), "{report:?}");
    let unknown = report.unknown.expect("it is said");
    assert_eq!((unknown.seq, unknown.event_type.as_str()), (8, "tree.from_the_future"));
    // Numbers, writers and documents are known to every version.
    f.damage(run, "DELETE FROM tree_agent_events WHERE seq IN (10, 11); DELETE FROM tree_agent_documents WHERE run_id = {run}")
        .await;
    let found = f.findings(run).await;
    assert_eq!(found[0], "event 12: follows event 9; the events between are missing");
    assert!(found.len() > 1 && found[1..].iter().all(|f| f.ends_with("is not there")), "{found:?}");
}

pub async fn a_missing_conversation_is_told(f: Fixture) {
    let run = f.write("search").await;
    let there = f.store.run_sessions(run, None, 10).await.unwrap();
    f.damage(run, &format!("DELETE FROM tree_agent_sessions WHERE id = '{}'", there[0].id)).await;
    let expected = format!("conversation {}: the log names it, but it is not there", there[0].id);
    assert_eq!(f.findings(run).await, [expected]);
}

pub async fn a_missing_document_is_told(f: Fixture) {
    let run = f.write("retries").await;
    f.damage(run, "DELETE FROM tree_agent_documents WHERE run_id = {run}").await;
    let found = f.findings(run).await;
    assert!(!found.is_empty());
    assert!(found.iter().all(|f| f.starts_with("document ") && f.ends_with("is not there")), "{found:?}");
    assert!(!f.report(run).await.can_be_rebuilt());
    let run = f.write("offline").await;
    f.damage(run, "DELETE FROM tree_agent_documents WHERE type_key = 'document.tree_agent.prompt'").await;
    let mut found = f.findings(run).await;
    let mut expected: Vec<String> = recorded("offline")
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::UsageRecorded(e) => e.prompt.map(|prompt| prompt.document_id),
            _ => None,
        })
        .map(|id| format!("document {id}: the log names it, but it is not there"))
        .collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    assert!(expected.len() > 5);
}

pub async fn text_that_is_missing_moved_or_strange_is_told(f: Fixture) {
    let run = f.write("retries").await;
    let chunks = f.store.document_chunks(run, None, 100).await.unwrap();
    let pair =
        chunks.windows(2).find(|pair| pair[0].document_id == pair[1].document_id).expect("one grew twice");
    let (id, first, second) = (pair[0].document_id, &pair[0], &pair[1]);
    f.damage(
        run,
        &format!("UPDATE tree_agent_document_chunks SET start_byte = 7 WHERE seq = {}", second.seq),
    )
    .await;
    let end = first.start_byte + first.body.len() as u64;
    let expected = format!("document {id}: the text of event {} begins at byte 7, not at {end}", second.seq);
    assert!(f.findings(run).await.contains(&expected), "{:?}", f.findings(run).await);
    f.damage(run, &format!("UPDATE tree_agent_document_chunks SET seq = 6 WHERE seq = {}", first.seq)).await;
    let found = f.findings(run).await;
    for expected in [
        format!("document {id}: it has text of event 6, which is not about it"),
        format!("document {id}: the text that it grew by with event {} is missing", first.seq),
    ] {
        assert!(found.contains(&expected), "{expected} is not in {found:?}");
    }
    assert!(!f.report(run).await.can_be_rebuilt());
}

pub async fn places_that_cannot_be_are_told(f: Fixture) {
    let run = f.write("retries").await;
    assert!(f.report(run).await.is_sound(), "{:?}", f.findings(run).await);
    let stored = f.store.stored(run).await.unwrap();
    let edges: Vec<_> = stored.documents.iter().filter_map(|d| Some((d.id, d.edge?))).collect();
    let (child, edge) = edges[0];
    let place = async |sql: &str| {
        f.damage(run, &format!("UPDATE tree_agent_documents SET {sql} WHERE linked_seq = {}", edge.seq))
            .await;
        f.findings(run).await
    };
    let found = place("linked_seq = 1000000").await;
    assert_eq!(found, [format!("document {child}: it got its place with event 1000000, which cannot be")]);
    f.damage(
        run,
        &format!("UPDATE tree_agent_documents SET linked_seq = {} WHERE linked_seq = 1000000", edge.seq),
    )
    .await;
    let expected = format!("document {child}: it is below document {run}, which is not there");
    assert!(place("parent_id = {run}").await.contains(&expected));
    let workspace = DocumentId::workspace(run);
    let expected = format!("document {child}: it is not below the workspace {workspace} of its run");
    assert!(place("parent_id = NULL").await.contains(&expected));
    assert!(place("parent_id = id").await.contains(&format!("document {child}: it is above itself")));
    assert!(!f.report(run).await.can_be_rebuilt());
}

pub async fn a_missing_workspace_is_told(f: Fixture) {
    let run = f.write("retries").await;
    let workspace = DocumentId::workspace(run);
    let delete = "DELETE FROM tree_agent_documents WHERE type_key = 'document.tree_agent.workspace'";
    f.damage(run, delete).await;
    let expected = format!("document {workspace}: the run began with this workspace, but it is not there");
    assert!(f.findings(run).await.contains(&expected));
}

pub async fn an_unknown_run_is_an_error(f: Fixture) {
    let error = verify(&*f.store, RunId(Uuid::from_u128(5))).await.unwrap_err();
    assert!(matches!(error, MaintenanceError::Store(StoreError::NotFound { what: "run", .. })), "{error:?}");
}
