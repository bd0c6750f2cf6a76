//! Projection rows in SQLite.

use rusqlite::{Connection, params};
use tree_agent_contract::RunId;

use super::connection::now;
use super::values::execute;
use crate::error::StoreError;
use crate::ports::Projection;
use crate::text::{clean, json_text};

pub(super) fn write(db: &Connection, run: RunId, projection: &Projection) -> Result<(), StoreError> {
    if let Some(row) = &projection.run {
        execute(
            db,
            "UPDATE tree_agent_runs SET changed_at = CASE WHEN status <> ?2 THEN ?9 ELSE changed_at END, status = ?2, \
             partial = ?3, error = ?4, node_count = ?5, usage = ?6, started_at = ?7, ended_at = ?8, not_before = 0 \
             WHERE id = ?1",
            params![
                run.0,
                row.status.as_str(),
                row.partial,
                row.error.as_deref().map(clean),
                row.node_count as i64,
                json_text(&row.usage_column())?,
                row.started_at.map(|at| at.micros()),
                row.ended_at.map(|at| at.micros()),
                now().micros(),
            ],
        )?;
    }
    for node in &projection.nodes {
        execute(
            db,
            "INSERT INTO tree_agent_nodes (run_id, id, parent_node_id, title, reason, success_criteria, band_index, \
                 step_index, depth, status, role_state, scratchpad_doc_id, started_at, ended_at, created_at, updated_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16) \
             ON CONFLICT (run_id, id) DO UPDATE SET status = excluded.status, role_state = excluded.role_state, \
                 scratchpad_doc_id = excluded.scratchpad_doc_id, started_at = excluded.started_at, \
                 ended_at = excluded.ended_at, updated_at = excluded.updated_at",
            params![
                run.0,
                node.id.0,
                node.parent_node_id.map(|id| id.0),
                clean(&node.title),
                clean(&node.reason),
                json_text(&node.success_criteria)?,
                node.band_index,
                node.step_index,
                node.depth,
                node.status.as_str(),
                node.role_state.as_str(),
                node.scratchpad_doc_id.map(|id| id.0),
                node.started_at.map(|at| at.micros()),
                node.ended_at.map(|at| at.micros()),
                node.created_at.micros(),
                node.updated_at.micros(),
            ],
        )?;
    }
    for plan in &projection.plans {
        execute(
            db,
            "INSERT INTO tree_agent_plans (run_id, id, node_id, version, plan_json, created_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (run_id, id) DO UPDATE SET \
                 version = excluded.version, plan_json = excluded.plan_json",
            params![
                run.0,
                plan.id.0,
                plan.node_id.0,
                plan.version,
                json_text(&plan.plan_json)?,
                plan.created_at.micros()
            ],
        )?;
    }
    for artifact in &projection.artifacts {
        execute(
            db,
            "INSERT INTO tree_agent_artifacts (run_id, id, node_id, artifact_type, document_id, json_payload, \
                 is_primary, label, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) \
             ON CONFLICT (run_id, id) DO UPDATE SET artifact_type = excluded.artifact_type, \
                 document_id = excluded.document_id, json_payload = excluded.json_payload, \
                 is_primary = excluded.is_primary, label = excluded.label",
            params![
                run.0,
                artifact.id.0,
                artifact.node_id.0,
                artifact.artifact_type.as_str(),
                artifact.document_id.map(|id| id.0),
                artifact.json_payload.as_ref().map(json_text).transpose()?,
                artifact.is_primary,
                clean(&artifact.label),
                artifact.created_at.micros(),
            ],
        )?;
    }
    Ok(())
}
