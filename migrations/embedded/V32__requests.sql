-- What migrations/postgres/V32 does.

CREATE TABLE tree_agent_requests (
    user_id    TEXT NOT NULL,
    request_id TEXT NOT NULL,
    run_id     BLOB NOT NULL,
    PRIMARY KEY (user_id, request_id)
) STRICT, WITHOUT ROWID;

INSERT INTO tree_agent_requests (user_id, request_id, run_id)
SELECT user_id, request_id, id FROM tree_agent_runs WHERE request_id <> '';

DROP INDEX tree_agent_runs_request;
