-- Request ids have a table of their own. They are unique for each user, across runs. A unique index on runs would keep the
-- runs of all users in one place.

CREATE TABLE tree_agent_requests (
    user_id    text NOT NULL,
    request_id text NOT NULL,
    run_id     uuid NOT NULL,
    PRIMARY KEY (user_id, request_id)
);

COMMENT ON TABLE tree_agent_requests IS 'The run that each request created.';

INSERT INTO tree_agent_requests (user_id, request_id, run_id)
SELECT user_id, request_id, id FROM tree_agent_runs WHERE request_id <> '';

DROP INDEX tree_agent_runs_request;

COMMENT ON COLUMN tree_agent_runs.request_id IS 'The request that created the run, which tree_agent_requests finds; empty for none.';
