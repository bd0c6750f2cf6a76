-- What migrations/postgres/V31 does.

ALTER TABLE tree_agent_runs ADD COLUMN last_command INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tree_agent_runs ADD COLUMN claimed_command INTEGER NOT NULL DEFAULT 0;

UPDATE tree_agent_runs SET last_command =
    COALESCE((SELECT max(id) FROM tree_agent_commands WHERE run_id = tree_agent_runs.id), 0);

ALTER TABLE tree_agent_commands RENAME TO tree_agent_commands_before;
CREATE TABLE tree_agent_commands (
    run_id     BLOB NOT NULL,
    id         INTEGER NOT NULL,
    command    TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, id)
) STRICT, WITHOUT ROWID;
INSERT INTO tree_agent_commands (run_id, id, command, created_at)
SELECT c.run_id, c.id, c.command, c.created_at FROM tree_agent_commands_before c
JOIN tree_agent_runs r ON r.id = c.run_id
WHERE c.handled_at IS NULL AND r.status IN ('queued', 'running', 'paused');
DROP TABLE tree_agent_commands_before;

CREATE INDEX tree_agent_runs_called ON tree_agent_runs (created_at, id)
    WHERE status IN ('queued', 'running', 'paused') AND last_command > claimed_command;

ALTER TABLE tree_agent_sessions RENAME TO tree_agent_sessions_before;
DROP INDEX tree_agent_sessions_run;
CREATE TABLE tree_agent_sessions (
    run_id            BLOB NOT NULL,
    id                TEXT NOT NULL,
    node_id           BLOB NOT NULL,
    parent_session_id TEXT,
    created_at        INTEGER NOT NULL,
    PRIMARY KEY (run_id, id)
) STRICT, WITHOUT ROWID;
INSERT INTO tree_agent_sessions (run_id, id, node_id, parent_session_id, created_at)
SELECT run_id, id, node_id, parent_session_id, created_at FROM tree_agent_sessions_before;
DROP TABLE tree_agent_sessions_before;
CREATE INDEX tree_agent_sessions_run ON tree_agent_sessions (run_id, node_id);

ALTER TABLE onto_edges RENAME TO onto_edges_before;
DROP INDEX onto_edges_to;
CREATE TABLE onto_edges (
    run_id     BLOB NOT NULL,
    from_id    BLOB NOT NULL,
    rel        TEXT NOT NULL,
    to_id      BLOB NOT NULL,
    props      TEXT NOT NULL DEFAULT '{}',
    created_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, from_id, rel, to_id)
) STRICT;
INSERT INTO onto_edges (run_id, from_id, rel, to_id, props, created_at)
SELECT zeroblob(16), from_id, rel, to_id, props, created_at FROM onto_edges_before;
DROP TABLE onto_edges_before;
CREATE INDEX onto_edges_to ON onto_edges (run_id, to_id, rel);
