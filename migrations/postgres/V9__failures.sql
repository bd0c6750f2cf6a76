-- How often a run could not be driven since it last made progress, whichever driver tried, and how often its driver
-- vanished. Progress is an event that records the outcome of a call.

ALTER TABLE tree_agent_runs
    ADD COLUMN progress_seq bigint  NOT NULL DEFAULT 0,
    ADD COLUMN failed_seq   bigint  NOT NULL DEFAULT 0,
    ADD COLUMN failures     integer NOT NULL DEFAULT 0,
    ADD COLUMN failure      text,
    ADD COLUMN expiries     integer NOT NULL DEFAULT 0;

COMMENT ON COLUMN tree_agent_runs.progress_seq IS 'The last event that records the outcome of a call. Moves with head_seq.';
COMMENT ON COLUMN tree_agent_runs.failed_seq IS 'progress_seq at the last failure or expiry: beyond it, failures and expiries count as none.';
COMMENT ON COLUMN tree_agent_runs.failures IS 'Times that the run could not be driven, in a row without progress.';
COMMENT ON COLUMN tree_agent_runs.failure IS 'Why, the last time.';
COMMENT ON COLUMN tree_agent_runs.expiries IS 'Times that the lease of its driver ended, in a row without progress.';
