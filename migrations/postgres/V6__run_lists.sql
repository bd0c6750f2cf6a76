-- What lists of runs show, and how they are followed.

ALTER TABLE tree_agent_runs
    ADD COLUMN labels     jsonb       NOT NULL DEFAULT '{}',
    ADD COLUMN started_at timestamptz,
    ADD COLUMN ended_at   timestamptz,
    ADD COLUMN deleted_at timestamptz,
    ADD COLUMN changed_at timestamptz NOT NULL DEFAULT now();

ALTER TABLE tree_agent_runs ALTER COLUMN changed_at SET DEFAULT clock_timestamp();

COMMENT ON COLUMN tree_agent_runs.labels IS 'The labels of spec, for the index.';
COMMENT ON COLUMN tree_agent_runs.started_at IS 'When a driver first took the run up. Moves with head_seq.';
COMMENT ON COLUMN tree_agent_runs.ended_at IS 'When the run ended. Moves with head_seq.';
COMMENT ON COLUMN tree_agent_runs.deleted_at IS 'When its user deleted the run, which hides it. Null: lists show it.';
COMMENT ON COLUMN tree_agent_runs.changed_at IS 'When the run was created, deleted, restored or got another status, by the clock of the database.';

-- Runs that exist already get their times from their logs; an archived run has only the time of its last event.
UPDATE tree_agent_runs r SET started_at = e.started_at, ended_at = e.ended_at
FROM (
    SELECT run_id,
           (array_agg(created_at ORDER BY seq) FILTER (WHERE payload ->> 'status' = 'running'))[1] AS started_at,
           (array_agg(created_at ORDER BY seq DESC)
               FILTER (WHERE payload ->> 'status' IN ('completed', 'failed', 'cancelled')))[1] AS ended_at
    FROM tree_agent_events
    WHERE event_type = 'tree.run_status'
    GROUP BY run_id
) e
WHERE r.id = e.run_id;

UPDATE tree_agent_runs SET ended_at = updated_at WHERE archived_at IS NOT NULL AND ended_at IS NULL;

-- changed_at moves only with the status, which an index already depends on: all other updates stay heap-only.
CREATE INDEX tree_agent_runs_changed ON tree_agent_runs (changed_at, id);
CREATE INDEX tree_agent_runs_user ON tree_agent_runs (user_id, created_at DESC, id DESC);
CREATE INDEX tree_agent_runs_model ON tree_agent_runs ((spec ->> 'model'), created_at DESC, id DESC);
CREATE INDEX tree_agent_runs_labels ON tree_agent_runs USING gin (labels) WHERE labels <> '{}';
-- The digits of the id backwards: "ends with" is a range of these.
CREATE INDEX tree_agent_runs_id_end ON tree_agent_runs (reverse(replace(id::text, '-', '')) COLLATE "C");
