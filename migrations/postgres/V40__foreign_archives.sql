-- Runs that came from an archive which this store did not write. They may not answer for the runs that it made.

ALTER TABLE tree_agent_runs
    ADD COLUMN is_foreign   boolean NOT NULL DEFAULT FALSE,
    ADD COLUMN by_name_only boolean NOT NULL DEFAULT FALSE;

COMMENT ON COLUMN tree_agent_runs.is_foreign IS 'The run came from an archive, and this store did not know it then.';
COMMENT ON COLUMN tree_agent_runs.by_name_only IS 'Besides, its log goes on with that of a run which this store made. Its documents are found only together with its id.';
