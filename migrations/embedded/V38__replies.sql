-- What migrations/postgres/V38 does.

CREATE TABLE tree_agent_replies (
    run_id     BLOB NOT NULL,
    request_id TEXT NOT NULL,
    command_id INTEGER NOT NULL,
    command    TEXT NOT NULL,
    reply      TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, request_id)
) STRICT, WITHOUT ROWID;

DROP INDEX tree_agent_runs_unowned;
CREATE INDEX tree_agent_runs_unowned ON tree_agent_runs (not_before, created_at, id)
    WHERE status IN ('queued', 'running') AND (lease_expires_at IS NULL OR lease_expires_at < 9223372036854775807);
