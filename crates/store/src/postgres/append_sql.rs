//! The single statement of an append, in all of its shapes.
//!
//! A batch without artifacts, for example, would pay for an empty branch of the statement. So each combination of
//! branches is a separate statement. Few of them occur.

use std::sync::OnceLock;

/// How many combinations of branches there are.
const SHAPES: usize = 1 << 10;

/// The branches of a statement, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BranchSet(u16);

impl BranchSet {
    pub(super) const RUN: u16 = 1;
    pub(super) const EVENTS: u16 = 1 << 1;
    pub(super) const NODES: u16 = 1 << 2;
    pub(super) const PLANS: u16 = 1 << 3;
    pub(super) const ARTIFACTS: u16 = 1 << 4;
    pub(super) const CREATES: u16 = 1 << 5;
    pub(super) const APPENDS: u16 = 1 << 6;
    pub(super) const COMMANDS: u16 = 1 << 7;
    pub(super) const SESSIONS: u16 = 1 << 8;
    pub(super) const REPLIES: u16 = 1 << 9;

    pub(super) fn add(&mut self, bit: u16, present: bool) {
        if present {
            self.0 |= bit;
        }
    }

    pub(super) const fn has(self, bit: u16) -> bool {
        self.0 & bit != 0
    }

    /// The statement. Its parameters are, branch by branch in the order of the bits, the arrays that
    /// [`Columns::params`](super::columns::Columns::params) gives.
    pub(super) fn sql(self) -> &'static str {
        static STATEMENTS: [OnceLock<String>; SHAPES] = [const { OnceLock::new() }; SHAPES];
        STATEMENTS[usize::from(self.0)].get_or_init(|| Builder::default().build(self))
    }
}

#[derive(Default)]
struct Builder {
    params: usize,
    sql: String,
}

impl Builder {
    fn build(mut self, shape: BranchSet) -> String {
        self.moved(shape.has(BranchSet::RUN));
        if shape.has(BranchSet::EVENTS) {
            self.insert(
                "events",
                "tree_agent_events (run_id, seq, id, node_id, parent_node_id, event_type, payload, created_at)",
                &["uuid", "int8", "uuid", "uuid", "uuid", "text", "jsonb", "timestamptz"],
                "",
            );
        }
        if shape.has(BranchSet::NODES) {
            // The purpose of a node never changes; its state does.
            self.insert(
                "nodes",
                "tree_agent_nodes (run_id, id, parent_node_id, title, reason, success_criteria, band_index, step_index, depth, status, role_state, scratchpad_doc_id, started_at, ended_at, created_at, updated_at)",
                &[
                    "uuid", "uuid", "uuid", "text", "text", "jsonb", "int4", "int4", "int4", "text", "text", "uuid",
                    "timestamptz", "timestamptz", "timestamptz", "timestamptz",
                ],
                " ON CONFLICT (run_id, id) DO UPDATE SET status = EXCLUDED.status, role_state = EXCLUDED.role_state, \
                 scratchpad_doc_id = EXCLUDED.scratchpad_doc_id, started_at = EXCLUDED.started_at, \
                 ended_at = EXCLUDED.ended_at, updated_at = EXCLUDED.updated_at",
            );
        }
        if shape.has(BranchSet::PLANS) {
            self.insert(
                "plans",
                "tree_agent_plans (run_id, id, node_id, version, plan_json, created_at)",
                &["uuid", "uuid", "uuid", "int4", "jsonb", "timestamptz"],
                " ON CONFLICT (run_id, id) DO UPDATE SET version = EXCLUDED.version, plan_json = EXCLUDED.plan_json",
            );
        }
        if shape.has(BranchSet::ARTIFACTS) {
            self.insert(
                "artifacts",
                "tree_agent_artifacts (run_id, id, node_id, artifact_type, document_id, json_payload, is_primary, label, created_at)",
                &["uuid", "uuid", "uuid", "text", "uuid", "jsonb", "bool", "text", "timestamptz"],
                " ON CONFLICT (run_id, id) DO UPDATE SET artifact_type = EXCLUDED.artifact_type, \
                 document_id = EXCLUDED.document_id, json_payload = EXCLUDED.json_payload, \
                 is_primary = EXCLUDED.is_primary, label = EXCLUDED.label",
            );
        }
        if shape.has(BranchSet::CREATES) {
            self.creates();
        }
        if shape.has(BranchSet::APPENDS) {
            self.appends();
        }
        if shape.has(BranchSet::COMMANDS) {
            let rows = self.unnest(&["uuid", "int8"]);
            self.sql.push_str(&format!(
                ", commands AS (DELETE FROM tree_agent_commands c USING {rows} AS i(run_id, id) \
                 WHERE c.run_id = i.run_id AND c.id = i.id AND i.run_id = ANY (ARRAY(SELECT id FROM moved)))"
            ));
        }
        if shape.has(BranchSet::SESSIONS) {
            self.insert(
                "sessions",
                "tree_agent_sessions (run_id, id, node_id, parent_session_id, messages, created_at)",
                &["uuid", "text", "uuid", "text", "jsonb", "timestamptz"],
                " ON CONFLICT (run_id, id) DO UPDATE SET messages = EXCLUDED.messages",
            );
        }
        if shape.has(BranchSet::REPLIES) {
            let rows = self.unnest(&["uuid", "text", "jsonb"]);
            self.sql.push_str(&format!(
                ", replies AS (UPDATE tree_agent_replies p SET reply = i.reply FROM {rows} AS i(run_id, request_id, reply) \
                 WHERE p.run_id = i.run_id AND p.request_id = i.request_id AND p.reply IS NULL \
                 AND i.run_id = ANY (ARRAY(SELECT id FROM moved)))"
            ));
        }
        self.sql.push_str(" SELECT id FROM moved");
        self.sql
    }

    /// The fence: moves the heads of the runs whose epoch and head are still what the writer believes. The rest of the
    /// statement is limited to these runs.
    fn moved(&mut self, run_rows: bool) {
        let mut types = vec!["uuid", "int8", "int8", "int8", "timestamptz", "int8"];
        let (mut names, mut set) = ("id, epoch, expected, head, at, progress", "");
        if run_rows {
            types.extend(["text", "bool", "text", "int8", "jsonb", "timestamptz", "timestamptz"]);
            names = "id, epoch, expected, head, at, progress, status, partial, error, node_count, usage, started_at, ended_at";
            set = ", status = COALESCE(i.status, r.status), partial = COALESCE(i.partial, r.partial), \
                   error = CASE WHEN i.status IS NULL THEN r.error ELSE i.error END, \
                   node_count = COALESCE(i.node_count, r.node_count), usage = COALESCE(i.usage, r.usage), \
                   started_at = CASE WHEN i.status IS NULL THEN r.started_at ELSE i.started_at END, \
                   ended_at = CASE WHEN i.status IS NULL THEN r.ended_at ELSE i.ended_at END, \
                   not_before = CASE WHEN i.status IS NULL THEN r.not_before ELSE '-infinity' END, \
                   changed_at = CASE WHEN i.status <> r.status THEN clock_timestamp() ELSE r.changed_at END";
        }
        let rows = self.unnest(&types);
        self.sql.push_str(&format!(
            "WITH moved AS (UPDATE tree_agent_runs r SET head_seq = i.head, updated_at = i.at, \
             progress_seq = greatest(r.progress_seq, i.progress){set} \
             FROM {rows} AS i({names}) \
             WHERE r.id = i.id AND r.epoch = i.epoch AND r.head_seq = i.expected RETURNING r.id)"
        ));
    }

    /// A branch that inserts rows whose first column is the run's id.
    fn insert(&mut self, name: &str, target: &str, types: &[&str], conflict: &str) {
        let rows = self.rows(types);
        // The few runs of a batch are looked up in an array: a join would be planned without knowing the batch.
        self.sql.push_str(&format!(
            ", {name} AS (INSERT INTO {target} SELECT i.* FROM {rows} AS i(run_id) \
             WHERE i.run_id = ANY (ARRAY(SELECT id FROM moved)){conflict})"
        ));
    }

    /// A document that is written again begins anew: chunks of events before it do not belong to it any more.
    fn creates(&mut self) {
        let rows = self.rows(&[
            "uuid",
            "uuid",
            "text",
            "text",
            "text",
            "text",
            "jsonb",
            "timestamptz",
            "timestamptz",
            "int8",
            "int8",
            "uuid",
            "int8",
            "timestamptz",
            "bool",
        ]);
        self.sql.push_str(&format!(
            ", creates AS (INSERT INTO tree_agent_documents AS d (run_id, id, type_key, path, title, body, props, created_at, updated_at, \
             base_seq, created_seq, parent_id, linked_seq, linked_at) \
             SELECT i.run_id, i.id, i.type_key, i.path, i.title, i.body, i.props, i.created_at, i.updated_at, i.base, i.created, \
             CASE WHEN i.parent IS NULL OR i.parent_is_new THEN i.parent ELSE COALESCE((SELECT p.id FROM tree_agent_documents p \
             WHERE p.run_id = i.run_id AND p.id = i.parent), \
             tree_agent_inherited_document(i.run_id, i.parent), \
             tree_agent_refuse_place(i.run_id, i.id, i.parent, 'the run has none to be above it')) END, i.linked_seq, i.linked_at \
             FROM {rows} AS i(run_id, id, type_key, path, title, body, props, created_at, updated_at, base, created, parent, \
             linked_seq, linked_at, parent_is_new) WHERE i.run_id = ANY (ARRAY(SELECT id FROM moved)) \
             ON CONFLICT (run_id, id) DO UPDATE SET title = EXCLUDED.title, body = EXCLUDED.body, props = EXCLUDED.props, \
             updated_at = EXCLUDED.updated_at, dropped_bytes = 0, base_seq = EXCLUDED.base_seq, created_seq = EXCLUDED.created_seq, \
             parent_id = CASE WHEN EXCLUDED.parent_id IS NULL OR EXCLUDED.parent_id = d.parent_id THEN d.parent_id \
             ELSE tree_agent_refuse_place(d.run_id, d.id, EXCLUDED.parent_id, 'it exists already, in another place') END)"
        ));
    }

    /// Each chunk begins where the last one ends, or the body. Only its place is looked up, whatever the document
    /// holds.
    fn appends(&mut self) {
        let rows = self.unnest(&["uuid", "uuid", "int8", "int8", "int8", "text", "bool", "timestamptz"]);
        self.sql.push_str(&format!(
            ", appends AS (INSERT INTO tree_agent_document_chunks (run_id, document_id, seq, start_byte, body, replaces, created_at) \
             SELECT a.run_id, a.id, a.seq, a.end_byte + a.start, a.body, a.replaces, a.at FROM (SELECT i.*, \
             COALESCE(i.base, (SELECT COALESCE((SELECT c.start_byte + octet_length(c.body) FROM tree_agent_document_chunks c \
             WHERE c.run_id = d.run_id AND c.document_id = d.id AND c.seq > d.base_seq ORDER BY c.seq DESC LIMIT 1), \
             d.dropped_bytes + octet_length(d.body)) FROM tree_agent_documents d WHERE d.run_id = i.run_id AND d.id = i.id), \
             tree_agent_inherited_end(i.run_id, i.id)) AS end_byte FROM {rows} AS i(run_id, id, seq, base, start, body, replaces, at) \
             WHERE i.run_id = ANY (ARRAY(SELECT id FROM moved))) a WHERE a.end_byte IS NOT NULL)"
        ));
    }

    /// `unnest` over the next parameters, for a few rows that are joined.
    fn unnest(&mut self, types: &[&str]) -> String {
        format!("unnest({})", self.arrays(types).join(", "))
    }

    /// The rows of the next parameters, for many rows that are inserted. In the select list Postgres iterates the
    /// arrays in step. `unnest` of several arrays in FROM would first copy each of them.
    fn rows(&mut self, types: &[&str]) -> String {
        let columns: Vec<_> = self.arrays(types).iter().map(|array| format!("unnest({array})")).collect();
        format!("(SELECT {})", columns.join(", "))
    }

    fn arrays(&mut self, types: &[&str]) -> Vec<String> {
        let mut arrays = Vec::with_capacity(types.len());
        for sql_type in types {
            self.params += 1;
            arrays.push(format!("${}::{sql_type}[]", self.params));
        }
        arrays
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const FUNCTIONS: [&str; 3] =
        ["tree_agent_inherited_document", "tree_agent_inherited_end", "tree_agent_refuse_place"];

    /// All of them are keyed by run (`tests/contract/keys.rs`).
    #[test]
    fn an_append_touches_only_what_belongs_to_its_runs() {
        let mut tables = BTreeSet::new();
        for shape in 0..SHAPES as u16 {
            let names = BranchSet(shape).sql().split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            tables.extend(names.filter(|name| name.starts_with("tree_agent_") || name.starts_with("onto_")));
        }
        tables.retain(|name| !FUNCTIONS.contains(name));
        let expected = [
            "tree_agent_artifacts",
            "tree_agent_commands",
            "tree_agent_document_chunks",
            "tree_agent_documents",
            "tree_agent_events",
            "tree_agent_nodes",
            "tree_agent_plans",
            "tree_agent_replies",
            "tree_agent_runs",
            "tree_agent_sessions",
        ];
        assert_eq!(tables.into_iter().collect::<Vec<_>>(), expected);
    }
}
