-- A command that can be repeated is noted with its request id, and keeps its reply for as long as its run is stored.
-- A paused run is claimed only for a command.

CREATE TABLE tree_agent_replies (
    run_id     uuid NOT NULL,
    request_id text NOT NULL,
    command_id bigint NOT NULL,
    command    jsonb NOT NULL,
    reply      jsonb,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, request_id)
);

COMMENT ON COLUMN tree_agent_replies.command_id IS 'The id that the command has, or had, in the inbox.';
COMMENT ON COLUMN tree_agent_replies.reply IS 'Written with the events of the command, or without events if it is refused; null until then.';

DROP INDEX tree_agent_runs_unowned;
CREATE INDEX tree_agent_runs_unowned ON tree_agent_runs (not_before, created_at, id)
    WHERE status IN ('queued', 'running') AND (lease_expires_at IS NULL OR lease_expires_at < 'infinity');
