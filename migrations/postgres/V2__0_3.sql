-- What 0.3.0 adds.

ALTER TABLE onto_passages ADD COLUMN head text NOT NULL DEFAULT '';

COMMENT ON COLUMN onto_passages.head IS 'The head of the table whose rows it holds, if that stands further above.';

-- In the order in which the vectors of a project are read.
DROP INDEX onto_passages_project;
CREATE INDEX onto_passages_project ON onto_passages (project_id, document_id, ordinal);

CREATE TABLE onto_pending (
    hash       uuid        PRIMARY KEY,
    held_until timestamptz NOT NULL DEFAULT '-infinity'
);

COMMENT ON TABLE onto_pending IS 'Texts of passages that wait for a vector.';
COMMENT ON COLUMN onto_pending.held_until IS 'Until then it is the work of the gateway that took it.';

CREATE INDEX onto_pending_held ON onto_pending (held_until);

CREATE TABLE onto_vector_models (
    model    text   PRIMARY KEY,
    revision bigint NOT NULL
);

COMMENT ON TABLE onto_vector_models IS 'How often vectors of a model were written.';

ALTER TABLE tree_agent_drivers ADD COLUMN about jsonb NOT NULL DEFAULT '{}';

COMMENT ON COLUMN tree_agent_drivers.about IS 'Its version, and which services answer it.';

-- What a user is a member of.
CREATE INDEX onto_project_members_user ON onto_project_members (user_id);

-- Whoever made a project owns it.
INSERT INTO onto_project_members (project_id, user_id, role, created_at)
SELECT id, user_id, 'owner', created_at FROM onto_projects WHERE user_id <> '' ON CONFLICT DO NOTHING;

-- Paused runs that their driver has put aside until their time comes: that of a review, or of a quota.
CREATE INDEX tree_agent_runs_aside ON tree_agent_runs (not_before) WHERE status = 'paused' AND not_before > '-infinity';
