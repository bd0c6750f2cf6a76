-- What migrations/postgres/V4 adds to runs. There are no partitions here.
ALTER TABLE tree_agent_runs ADD COLUMN archived_at INTEGER;
ALTER TABLE tree_agent_runs ADD COLUMN archive_sha256 TEXT;
