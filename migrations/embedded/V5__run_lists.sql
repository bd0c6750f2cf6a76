-- What migrations/postgres/V6 adds to runs.

ALTER TABLE tree_agent_runs ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';
ALTER TABLE tree_agent_runs ADD COLUMN started_at INTEGER;
ALTER TABLE tree_agent_runs ADD COLUMN ended_at INTEGER;
ALTER TABLE tree_agent_runs ADD COLUMN deleted_at INTEGER;
ALTER TABLE tree_agent_runs ADD COLUMN changed_at INTEGER NOT NULL DEFAULT 0;

-- Runs that exist already get their times from their logs; an archived run has only the time of its last event.
UPDATE tree_agent_runs SET
    started_at = (
        SELECT created_at FROM tree_agent_events
        WHERE run_id = tree_agent_runs.id AND event_type = 'tree.run_status' AND payload ->> 'status' = 'running'
        ORDER BY seq LIMIT 1
    ),
    ended_at = (
        SELECT created_at FROM tree_agent_events
        WHERE run_id = tree_agent_runs.id AND event_type = 'tree.run_status'
            AND payload ->> 'status' IN ('completed', 'failed', 'cancelled')
        ORDER BY seq DESC LIMIT 1
    );

UPDATE tree_agent_runs SET ended_at = updated_at WHERE archived_at IS NOT NULL AND ended_at IS NULL;

CREATE INDEX tree_agent_runs_changed ON tree_agent_runs (changed_at, id);
CREATE INDEX tree_agent_runs_user ON tree_agent_runs (user_id, created_at DESC, id DESC);
CREATE INDEX tree_agent_runs_model ON tree_agent_runs (spec ->> 'model', created_at DESC, id DESC);
