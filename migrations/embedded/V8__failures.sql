-- What migrations/postgres/V9 adds to runs.
ALTER TABLE tree_agent_runs ADD COLUMN progress_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tree_agent_runs ADD COLUMN failed_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tree_agent_runs ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tree_agent_runs ADD COLUMN failure TEXT;
ALTER TABLE tree_agent_runs ADD COLUMN expiries INTEGER NOT NULL DEFAULT 0;
