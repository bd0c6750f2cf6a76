-- What migrations/postgres/V40 adds to runs.

ALTER TABLE tree_agent_runs ADD COLUMN is_foreign INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tree_agent_runs ADD COLUMN by_name_only INTEGER NOT NULL DEFAULT 0;
