-- A lease belongs to a driver, not to a run: renewing it costs the same however many runs the driver has. A run names its
-- driver in lease_owner, and its own lease_expires_at is 'infinity', which planners of before respect. A lease that ends
-- at a moment was claimed by such a planner.

CREATE TABLE tree_agent_drivers (
    id               text        PRIMARY KEY,
    term             bigint      NOT NULL,
    held_since       timestamptz NOT NULL,
    renewed_at       timestamptz NOT NULL,
    lease_expires_at timestamptz NOT NULL
) WITH (fillfactor = 50);

COMMENT ON TABLE tree_agent_drivers IS 'One row for each incarnation of a driver. Runs name it in lease_owner.';
COMMENT ON COLUMN tree_agent_drivers.term IS 'Grows when the driver counts its runs anew. A claim of an older term takes nothing.';
COMMENT ON COLUMN tree_agent_drivers.held_since IS 'Since when the lease has been held without a break.';
COMMENT ON COLUMN tree_agent_drivers.lease_expires_at IS 'By the clock of the database. From here on others take its runs.';

ALTER TABLE tree_agent_runs ADD COLUMN not_before timestamptz NOT NULL DEFAULT '-infinity';

COMMENT ON COLUMN tree_agent_runs.not_before IS 'A run in quarantine: nobody claims it before this moment.';
COMMENT ON COLUMN tree_agent_runs.lease_owner IS 'The driver that owns the run. Null: nobody does.';
COMMENT ON COLUMN tree_agent_runs.lease_expires_at IS 'Infinity: the lease is that of the driver. Otherwise when the run is free; null: now.';

-- What a claim looks through: runs that nobody owns, and the runs of one driver. Neither grows with the runs that others
-- drive. Appends change none of these columns, so they stay heap-only updates.
CREATE INDEX tree_agent_runs_unowned ON tree_agent_runs (not_before, created_at, id)
    WHERE status IN ('queued', 'running', 'paused') AND (lease_expires_at IS NULL OR lease_expires_at < 'infinity');
CREATE INDEX tree_agent_runs_owned ON tree_agent_runs (lease_owner, created_at, id)
    WHERE status IN ('queued', 'running', 'paused') AND lease_expires_at = 'infinity';
