-- What migrations/postgres/V39 adds to runs. The program follows the segments itself.

ALTER TABLE tree_agent_runs ADD COLUMN parent_run_id BLOB;
ALTER TABLE tree_agent_runs ADD COLUMN parent_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tree_agent_runs ADD COLUMN fork_edits TEXT NOT NULL DEFAULT '[]';
ALTER TABLE tree_agent_runs ADD COLUMN segments TEXT;

CREATE INDEX tree_agent_runs_forks ON tree_agent_runs (parent_run_id, created_at DESC, id DESC) WHERE parent_run_id IS NOT NULL;
