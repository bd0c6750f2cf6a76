-- An inbox holds only the commands that are not answered yet. Ids of commands come from the row of their run, as seq does.
-- Commands, sessions and edges are keyed by their run first and refer to no other table.

ALTER TABLE tree_agent_runs
    ADD COLUMN last_command    bigint NOT NULL DEFAULT 0,
    ADD COLUMN claimed_command bigint NOT NULL DEFAULT 0;

COMMENT ON COLUMN tree_agent_runs.last_command IS 'The id of the last command that was sent to the run.';
COMMENT ON COLUMN tree_agent_runs.claimed_command IS 'last_command at the last claim. A later command lets the run be claimed in quarantine, too.';

DROP INDEX tree_agent_commands_pending;
ALTER TABLE tree_agent_commands DROP CONSTRAINT tree_agent_commands_run_id_fkey;

UPDATE tree_agent_runs r SET last_command = c.last
FROM (SELECT run_id, max(id) AS last FROM tree_agent_commands GROUP BY run_id) c
WHERE r.id = c.run_id;

DELETE FROM tree_agent_commands c USING tree_agent_runs r
WHERE r.id = c.run_id AND (c.handled_at IS NOT NULL OR r.status NOT IN ('queued', 'running', 'paused'));

ALTER TABLE tree_agent_commands
    DROP COLUMN handled_at,
    DROP CONSTRAINT tree_agent_commands_pkey,
    ADD PRIMARY KEY (run_id, id),
    ALTER COLUMN id DROP DEFAULT;
DROP SEQUENCE tree_agent_commands_id_seq;

COMMENT ON TABLE tree_agent_commands IS 'Commands leave with the events that answer them, and with the end of their run.';

-- The few runs that a claim takes although they are in quarantine. Appends change none of its columns.
CREATE INDEX tree_agent_runs_called ON tree_agent_runs (created_at, id)
    WHERE status IN ('queued', 'running', 'paused') AND last_command > claimed_command;

ALTER TABLE tree_agent_sessions
    DROP CONSTRAINT tree_agent_sessions_parent_session_id_fkey,
    DROP CONSTRAINT tree_agent_sessions_run_id_fkey,
    DROP CONSTRAINT tree_agent_sessions_pkey,
    ADD PRIMARY KEY (run_id, id);

-- Edges of before, if somebody wrote any, belong to no run.
ALTER TABLE onto_edges
    ADD COLUMN run_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    DROP CONSTRAINT onto_edges_pkey,
    ADD PRIMARY KEY (run_id, from_id, rel, to_id);
ALTER TABLE onto_edges ALTER COLUMN run_id DROP DEFAULT;
DROP INDEX onto_edges_to;
CREATE INDEX onto_edges_to ON onto_edges (run_id, to_id, rel);
