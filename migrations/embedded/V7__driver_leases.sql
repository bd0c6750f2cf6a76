-- What migrations/postgres/V8 adds. A lease_expires_at of 9223372036854775807 stands for infinity, and a not_before of 0
-- for the beginning of time.

CREATE TABLE tree_agent_drivers (
    id               TEXT PRIMARY KEY,
    term             INTEGER NOT NULL,
    held_since       INTEGER NOT NULL,
    renewed_at       INTEGER NOT NULL,
    lease_expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

ALTER TABLE tree_agent_runs ADD COLUMN not_before INTEGER NOT NULL DEFAULT 0;

CREATE INDEX tree_agent_runs_unowned ON tree_agent_runs (not_before, created_at, id)
    WHERE status IN ('queued', 'running', 'paused')
    AND (lease_expires_at IS NULL OR lease_expires_at < 9223372036854775807);
CREATE INDEX tree_agent_runs_owned ON tree_agent_runs (lease_owner, created_at, id)
    WHERE status IN ('queued', 'running', 'paused') AND lease_expires_at = 9223372036854775807;
